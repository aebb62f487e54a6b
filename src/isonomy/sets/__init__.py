"""Convex sets of moves: what is known of a region."""

from isonomy.sets.convex import ConvexSets

__all__ = ["ConvexSets"]
