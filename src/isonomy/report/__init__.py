"""The findings of an audit as facts (rounded numbers and sentences), and their renderings."""

from isonomy.report.findings import Findings, ObservedShift

__all__ = ["Findings", "ObservedShift"]
