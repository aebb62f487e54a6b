"""Branch and bound: bounds that meet, given time or parts."""

from isonomy.attacks import Judge
from isonomy.search.exact import improve
from isonomy.search.limits import Limits, checked_limits

__all__ = ["Judge", "Limits", "checked_limits", "improve"]
