"""Bounds of two people at once, asked of the kernel as certificates ask it; margins of all ordered pairs of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.fuzz.engine import ordered

from isonomy.bounds.kernel import compare_sets, head_of
from isonomy.networks.network import Network
from isonomy.sets import ConvexSets

Array = NDArray[np.float64]
Sides = tuple[Array, Array]


class Compared(NamedTuple):
    """Margins of either person and their difference; the violation by both ranges, and with the difference."""

    near: Sides
    far: Sides
    move: Sides
    apart: Array
    gap: Array

    @property
    def low(self) -> Array:
        return self.move[0]

    @property
    def high(self) -> Array:
        return self.move[1]


def compare(
    network: Network,
    centre: Array,
    near: ConvexSets,
    between: ConvexSets,
    limits: ConvexSets | None = None,
    within: Sequence[ConvexSets] = (),
    *,
    float32_run: bool = False,
) -> list[Compared]:
    """Over the sets, and over smaller sets ``within``."""
    head = head_of(network, None, float32_run)
    gaps = compare_sets(network, centre, near, between, limits, within, float32_run=float32_run)
    return [
        Compared(*(ordered(head, side) for side in gap), head.violation(gap.near, gap.far), head.gap(*gap))
        for gap in gaps
    ]
