"""Branch and bound: which part comes next, and where it is cut."""

from isonomy.search.branch import Limits, checked_limits

__all__ = ["Limits", "checked_limits"]
