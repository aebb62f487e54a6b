"""Convex sets by their support functions: what bounds know of a region."""

from isonomy.sets.convex import SMALL_ROOT, ConvexSets, norm_upper

__all__ = ["SMALL_ROOT", "ConvexSets", "norm_upper"]
