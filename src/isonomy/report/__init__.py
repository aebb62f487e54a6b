"""What an audit found, told to people: one self-contained page."""

from isonomy.report.findings import Findings, ObservedShift
from isonomy.report.page import render

__all__ = ["Findings", "ObservedShift", "render"]
