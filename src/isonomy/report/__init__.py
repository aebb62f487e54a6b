"""What an audit found, told to people and machines: facts, and their renderings."""

from isonomy.report.findings import Findings, ObservedShift

__all__ = ["Findings", "ObservedShift"]
