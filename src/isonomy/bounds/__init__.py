"""What is provable: enclosures of a network's outputs over regions, in tiers."""

from isonomy.bounds.ends import Ends, margins, margins_at
from isonomy.bounds.interval import Enclosure, Interval

__all__ = ["Enclosure", "Ends", "Interval", "margins", "margins_at"]
