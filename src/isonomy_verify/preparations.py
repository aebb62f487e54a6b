"""A network made ready for the sets that are asked for, the last few kept.

What is the same for all individuals is prepared once for a network and a ball; sets that differ from person to person
share the preparation of the network alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from isonomy_verify.additive import Additive
from isonomy_verify.arithmetic import Array
from isonomy_verify.differences import Gap, Pairs, compare
from isonomy_verify.enclosure import Ends, Prepared, both, minus
from isonomy_verify.network import Network
from isonomy_verify.regions import Ball
from isonomy_verify.sets import ConvexSets, ball_of, region_of
from isonomy_verify.tiers import Enclosure, Tier, enclose, enclose_at

PREPARATIONS_KEPT = 8
"""Preparations that are kept: radii and metrics that are asked for again and again."""

_Balls = tuple[Pairs, Ball | None, Ball | None, list[Array]]


class Preparations:
    """A network's margins or scores, with what was prepared for sets; several threads may ask."""

    def __init__(self, network: Network) -> None:
        self.network, self.additive = network, Additive.of(network)
        self._single: OrderedDict[tuple[int, float, float, bool], tuple[Array | None, Prepared]] = OrderedDict()
        self._pairs: OrderedDict[tuple[float, ...], _Balls] = OrderedDict()
        self._lock = threading.Lock()

    def single(self, sets: ConvexSets | None = None, float32_run: bool = False) -> Prepared:
        """Ready for ``sets`` if they are a ball that everybody shares, else for any sets."""
        sets = sets if sets is not None and sets.is_ball else None
        # The ball is known by its root, which is kept so that its id stays its own.
        root, order, radius = (None, 0.0, 0.0) if sets is None else (sets.root, sets.order, float(sets.radius[0]))
        key = id(root), order, radius, float32_run
        with self._lock:
            known = self._single.pop(key, None)
            if known is None:
                known = root, Prepared(self.network, None if sets is None else ball_of(sets), float32_run)
            self._single[key] = known
            while len(self._single) > PREPARATIONS_KEPT:
                self._single.popitem(last=False)
            return known[1]

    def pairs(
        self,
        near: ConvexSets | None = None,
        between: ConvexSets | None = None,
        float32_run: bool = False,
        keep: bool = True,
    ) -> tuple[Pairs, Ball | None, Ball | None]:
        """Ready for pairs of people, and the balls that everybody shares, if both do.

        Without ``keep`` nothing is kept for others: for balls that are asked for once.
        """
        sets = [each for each in (near, between) if each is not None and ball_of(each) is not None]
        sets = sets if len(sets) == 2 else []
        balls = ((float(id(each.root)), each.order, float(each.radius[0])) for each in sets)
        key = float(float32_run), *(number for ball in balls for number in ball)
        with self._lock:
            known = self._pairs.pop(key, None)
            if known is None:
                one, other = (ball_of(each) for each in sets) if sets else (None, None)
                known = Pairs(self.network, float32_run, one, other), one, other, [each.root for each in sets]
            if keep:
                self._pairs[key] = known
                while len(self._pairs) > PREPARATIONS_KEPT:
                    self._pairs.popitem(last=False)
            return known[:3]

    def enclose(
        self,
        centre: Array,
        sets: ConvexSets,
        tier: Tier,
        *,
        float32_run: bool = False,
        directions: list[Array] | None = None,
    ) -> Enclosure:
        """Outputs over ``centre + v``, ``v`` in ``sets``: :func:`isonomy_verify.tiers.enclose`, and what
        :mod:`isonomy_verify.additive` says besides."""
        prepared = self.single(sets, float32_run)
        if prepared.region is not None:
            found = enclose(prepared, centre, tier, directions=directions)
        else:
            found = enclose(self.single(None, float32_run), centre, tier, region_of(sets))
        if self.additive is None or float32_run or tier != "tight":
            return found
        return _moved(found, enclose_at(self.single(), centre), self.additive.differences(centre, None, sets))

    def compare(
        self,
        centre: Array,
        near: ConvexSets,
        between: ConvexSets,
        limits: ConvexSets | None = None,
        within: Sequence[ConvexSets] = (),
        *,
        float32_run: bool = False,
        tight: bool = True,
        keep: bool = True,
        quick: bool = False,
    ) -> list[Gap]:
        """Outputs of an individual ``near``, of one a difference ``between`` away from it and within ``limits``, and
        the difference of the two; the same for every part of ``near`` in ``within``."""
        sets = (near, between) if limits is None else (None, None)
        pairs, one, other = self.pairs(sets[0], sets[1], float32_run, keep)
        if one is None or other is None:
            around, apart, *smaller = (region_of(each) for each in (near, between, *within))
            inside = None if limits is None else region_of(limits)
            gaps = compare(pairs, centre, around, apart, inside, smaller, tight, quick)
        else:
            balls = [ball for each in within if (ball := ball_of(each)) is not None]
            gaps = compare(pairs, centre, one, other, None, balls, tight, quick)
        if self.additive is None or float32_run or not tight:
            return gaps
        return [self._added(gap, centre, part, between) for gap, part in zip(gaps, (near, *within), strict=True)]

    def _added(self, gap: Gap, centre: Array, near: ConvexSets, between: ConvexSets) -> Gap:
        """A gap within what the sum over coordinates says of the difference."""
        assert self.additive is not None
        apart = both(gap.between, self.additive.differences(centre, near, between))
        return Gap(gap.near, _moved(gap.far, gap.near, apart), Enclosure(*apart))


def _moved(known: Enclosure, at: Enclosure, apart: Ends) -> Enclosure:
    """What is known of outputs that are ``apart`` from those ``at`` a place."""
    return Enclosure(*both(known, minus(at, (-apart[1], -apart[0]))))
