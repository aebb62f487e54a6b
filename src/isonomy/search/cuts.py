"""Cutting the box of a part in two, between lattice points where numbers are whole.

**Soundness.** The two halves share the cut, or leave only numbers between them that no individual has.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.networks.graph import Affine, Graph
from isonomy.population import Domain
from isonomy_verify.arithmetic import down, up

SMALLEST = 1e-9
"""Sides shorter than this are not cut."""


class Cut(NamedTuple):
    """A coordinate; where the lower half ends and where the upper half begins."""

    coordinate: int
    end: float
    begin: float


def cut_box(
    domain: Domain, centre: FloatArray, low: FloatArray, high: FloatArray, influence: FloatArray, whole_only: bool
) -> Cut | None:
    """Cut where ``width · influence`` is largest; with ``whole_only`` only between lattice points."""
    whole = domain.integer if domain.kind == "realizable" else np.zeros(domain.width, dtype=bool)
    width = high - low
    score = np.where(np.isfinite(width) & (width > SMALLEST), width, 0.0) * influence
    for coordinate in np.argsort(-score):
        i = int(coordinate)
        if score[i] <= 0:
            return None
        if not whole[i]:
            if not whole_only:
                middle = float(low[i] / 2 + high[i] / 2)
                return Cut(i, middle, middle)
            continue
        here, unit, origin = float(centre[i]), domain.unit[i], domain.origin[i]
        first, last = ((here + float(side[i])) * unit + origin for side in (low, high))
        below = math.floor((first + last) / 2 + 1e-6)
        if below < first - 1e-6 or below + 1 > last + 1e-6:
            continue  # one lattice point at most
        # Members of the domain are these very floats, so that one step outward covers the subtraction.
        return Cut(i, float(up((below - origin) / unit - here)), float(down((below + 1 - origin) / unit - here)))
    return None


def reading(graph: Graph) -> FloatArray:
    """How strongly each coordinate moves the first layers; all the same where something else reads them."""
    first = [graph.nodes[i].op for i in graph.consumers[0]]
    weights = [np.abs(op.weight).sum(0) for op in first if isinstance(op, Affine)]
    if not weights or len(weights) < len(first):
        return np.ones(graph.input_width)
    return np.asarray(np.sum(weights, axis=0))
