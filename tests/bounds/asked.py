"""Bounds of one run and of two people, asked of the kernel as certificates ask it; margins of all pairs of classes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from tests.fuzz.engine import ordered

from isonomy.bounds import kernel
from isonomy.networks.network import Network
from isonomy_verify import arithmetic, tiers
from isonomy_verify import prepared as preparation
from isonomy_verify.sets import ConvexSets, ball_of, region_of

Array = NDArray[np.float64]
Sides = tuple[Array, Array]


class Enclosed(NamedTuple):
    """Margins at the centres and over the sets, and the largest violation between the two."""

    at: Sides
    over: Sides
    violation: Array

    @property
    def rise(self) -> Array:
        """How far above the middle at the centre margins get."""
        return self.over[1] - (self.at[0] + self.at[1]) / 2

    @property
    def fall(self) -> Array:
        return self.over[0] - (self.at[0] + self.at[1]) / 2


def enclose(
    network: Network,
    centre: Array,
    sets: ConvexSets | None,
    tier: tiers.Tier = "tight",
    *,
    float32_run: bool = False,
    float32_products: bool | None = None,
) -> Enclosed:
    """Without ``sets`` at the centres alone. ``float32_products``: in which wide networks carry moves, at any width or
    at none."""
    head = kernel.head_of(network, None, float32_run)
    with ExitStack() as stack:
        if float32_products is not None:
            stack.enter_context(mock.patch.object(kernel, "_ready", WeakKeyDictionary()))
            for module in (arithmetic, preparation):
                stack.enter_context(mock.patch.object(module, "WIDE", 1 if float32_products else 1_000_000))
        shared = sets is not None and ball_of(sets) is not None
        prepared = kernel.prepared_for(network, sets if shared else None, float32_run)
        if sets is None:
            at = over = tiers.enclose_at(prepared, centre)
        else:
            at, over = tiers.enclose(prepared, centre, tier, None if shared else region_of(sets))
    return Enclosed(ordered(head, at), ordered(head, over), head.violation(at, over))


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
    head = kernel.head_of(network, None, float32_run)
    gaps = kernel.preparations(network).compare(centre, near, between, limits, within, float32_run=float32_run)
    return [
        Compared(*(ordered(head, side) for side in gap), head.violation(gap.near, gap.far), head.gap(*gap))
        for gap in gaps
    ]
