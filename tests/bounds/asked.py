"""Bounds of one run, asked of the kernel as certificates ask it; margins of all pairs of classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.fuzz.engine import ordered

from isonomy.bounds import kernel
from isonomy.networks.network import Network
from isonomy_verify import tiers
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
) -> Enclosed:
    """Without ``sets`` at the centres alone."""
    head = kernel.head_of(network, None, float32_run)
    shared = sets is not None and ball_of(sets) is not None
    prepared = kernel.prepared_for(network, sets if shared else None, float32_run)
    at = over = tiers.enclose_at(prepared, centre)
    if sets is not None:
        over = tiers.enclose(prepared, centre, tier, None if shared else region_of(sets))
    return Enclosed(ordered(head, at), ordered(head, over), head.violation(at, over))
