"""Convex sets by their support functions: what bounds know of a region."""

from isonomy.sets.convex import SMALL_ROOT, ConvexSets, norm_upper
from isonomy.sets.sums import Shape, SumOfSets

__all__ = ["SMALL_ROOT", "ConvexSets", "Shape", "SumOfSets", "norm_upper"]
