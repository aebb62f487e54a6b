"""Branch and bound: the choice of the next part, and of its cut."""

from isonomy.search.branch import Limits, checked_limits

__all__ = ["Limits", "checked_limits"]
