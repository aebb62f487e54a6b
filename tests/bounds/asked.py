"""Bounds of one run, asked of the kernel as certificates ask it; margins of all pairs of classes."""

from __future__ import annotations

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
