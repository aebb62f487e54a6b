"""Convex sets by their support functions: what bounds know of a region."""

from isonomy.sets.convex import SMALL_ROOT, ConvexSets, norm_upper
from isonomy.sets.shape import Shape

__all__ = ["SMALL_ROOT", "ConvexSets", "Shape", "norm_upper"]
