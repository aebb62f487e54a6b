"""Branch and bound: bounds that meet, given time."""

from isonomy.search.exact import Exact, Limits

__all__ = ["Exact", "Limits"]
