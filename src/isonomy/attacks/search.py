"""The search for similar pairs that a network treats differently.

Problem: for each individual ``x`` find ``y`` in the domain with ``d(x, y) ≤ δ`` and ``f(y)`` far from ``f(x)``. Every
region of the similar set is searched for a high and for a low value of every score (:mod:`isonomy.attacks.field`), in
three rounds, each for those only whom the one before leaves open:

1. *Stars*: the network is replaced by its gradient at the region's anchor, and ``y`` is where that is largest.
2. *Climbs* from there, from where chords in place of slopes lead, and from the best of many places in the region.
3. *Neighbours*: single coordinates and categories of the best find are changed, whole numbers by whole numbers.

Whoever has an ``upper`` bound that is nearly attained needs no more. The finds are the judge's, who trusts nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks.field import IntArray
from isonomy.attacks.judge import Finds, Judge
from isonomy.attacks.places import FAR, as_individuals, find_anchors, furthest, led_back
from isonomy.bounds.kernel import region_of
from isonomy.given import instance, whole
from isonomy.networks.network import Network
from isonomy.similarity.regions import Regions, Similarity
from isonomy_verify.heads import Head
from isonomy_verify.regions import BallBox
from isonomy_verify.tiers import Enclosure

ROWS = 2048
"""Regions searched at once; bounds the memory of a batch."""

CLEAR = 0.8
"""Stars that promise less than this share of what another one promises their owner wait."""

NEAR = 0.99
"""Whoever attains this share of the upper bound is done."""

LATTICE = 512
"""Up to so many choices of whole numbers (and categories) an individual's are searched one by one."""

PLACES = 24
"""Places looked at for each restart."""


@dataclass(frozen=True)
class Effort:
    """How hard to search whoever is still open after the first round: steps of each climb, climbs beside those from
    the anchor, branches per individual."""

    steps: int = 20
    restarts: int = 2
    branches: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("restarts", 0), ("branches", 1), ("seed", 0)):
            whole(name, getattr(self, name), least)


def checked_effort(effort: Effort | None) -> Effort:
    """The effort that a caller gave, or the usual one."""
    instance("effort", effort, Effort | None, "None or an isonomy.Effort, such as Effort(steps=20)")
    return effort or Effort()


@np.errstate(all="ignore")  # what overflows is no find
def attack(
    network: Network,
    head: Head,
    similarity: Similarity,
    x: FloatArray,
    effort: Effort,
    upper: FloatArray | None = None,
    at: Enclosure | None = None,
) -> Finds:
    """Search the similar sets of the rows of ``x`` (n, m), which lie in the domain.

    ``upper`` are bounds of the violations, where they are known: whoever comes near is not searched further. ``at`` are
    the margins at ``x``.
    """
    judge = Judge(network, head, similarity, x, at)
    enough = np.full(len(x), np.inf) if upper is None else NEAR * upper
    every = _searched(similarity, x)
    for regions in every:
        _go(judge, regions, effort, enough)
    if similarity.domain.kind != "unbounded" and similarity.domain.integer.any() and effort.steps:
        for regions in every:
            _go(judge, _on_lattice(similarity, regions, judge.lower < enough), effort, enough)
    return judge.finds()


def _go(judge: Judge, regions: Regions, effort: Effort, enough: FloatArray) -> None:
    for piece in regions.pieces(ROWS):
        search = _Search.of(judge, piece, effort, enough)
        if search is not None:
            search.go()


def _on_lattice(similarity: Similarity, regions: Regions, open_: NDArray[np.bool_]) -> Regions:
    """The regions of open individuals cut into those of single whole numbers, where there are few enough of them."""
    domain, sets = similarity.domain, regions.sets
    which = np.flatnonzero(domain.integer)
    centre, low, high = regions.centre.numpy(), sets.low.numpy(), sets.high.numpy()
    origin, unit = domain.origin[which], domain.unit[which]
    first = np.ceil((centre + low)[:, which] * unit + origin - 1e-6)
    last = np.floor((centre + high)[:, which] * unit + origin + 1e-6)
    each = np.maximum(last - first + 1, 0)
    count = each.prod(1)
    total = np.bincount(regions.owner, count, minlength=len(open_))[regions.owner]
    some = np.flatnonzero(open_[regions.owner] & (total <= LATTICE) & (count > 1))
    row = np.repeat(some, count[some].astype(np.int64))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    cut = regions[row]
    low, high = np.array(low[row]), np.array(high[row])
    for j, column in enumerate(which):
        size = each[row, j].astype(np.int64)
        value = (first[row, j] + place % size - origin[j]) / unit[j] - centre[row, column]
        place = place // size
        low[:, column] = high[:, column] = value
    return replace(cut, sets=replace(cut.sets, low=torch.from_numpy(low), high=torch.from_numpy(high), _memo={}))


def _searched(similarity: Similarity, x: FloatArray) -> list[Regions]:
    """The regions of the similar sets; in the relaxed domain also those of whole people, its corners."""
    regions = similarity.regions(x)
    if similarity.domain.kind != "relaxed":
        return regions
    whole = similarity.domain.with_kind("realizable")
    people = np.flatnonzero(whole.contains(x))
    corners = Similarity(similarity.metric, similarity.delta, whole, similarity.max_branches).regions(x[people])
    return regions + [Regions(people[some.owner], some.centre, some.sets) for some in corners]


@dataclass(frozen=True, eq=False)
class _Goals:
    """Climbs: in which region, of which score, up or down, and from which move."""

    row: IntArray
    target: IntArray
    sign: FloatArray
    moves: FloatArray

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, some: IntArray) -> _Goals:
        return _Goals(self.row[some], self.target[some], self.sign[some], self.moves[some])

    @classmethod
    def joined(cls, parts: list[_Goals]) -> _Goals:
        return cls(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.sign for part in parts]),
            np.concatenate([part.moves for part in parts]),
        )


class _Search:
    """The search of a batch of regions."""

    def __init__(
        self, judge: Judge, regions: Regions, sets: BallBox, anchors: FloatArray, effort: Effort, enough: FloatArray
    ) -> None:
        self.judge, self.field, self.effort, self.enough = judge, judge.field, effort, enough
        self.regions, self.sets, self.anchors = regions, sets, anchors
        self.owner, self.centre = regions.owner, regions.centre.numpy()
        extent = np.minimum(sets.extent, FAR)
        if len(sets.root):  # what the ball leaves of the box
            reach = np.linalg.norm(sets.inverse, axis=1) * sets.radius[:, None]
            extent = np.minimum(extent, np.where(sets.root.any(0), 1.5 * reach, np.inf))
        self.extent = extent

    @classmethod
    def of(cls, judge: Judge, regions: Regions, effort: Effort, enough: FloatArray) -> _Search | None:
        """Made ready, unless there is nothing to search."""
        sets = region_of(regions.sets)
        anchors, inside = find_anchors(sets, len(regions))
        if not inside.all():
            rows = np.flatnonzero(inside)
            regions, sets, anchors = regions[rows], sets[rows] if sets.rows > 1 else sets, anchors[rows]
        return cls(judge, regions, sets, anchors, effort, enough) if len(regions) else None

    def go(self) -> None:
        """All rounds."""
        if (self.anchors != 0).any() or self.judge.similarity.domain.kind == "realizable":
            # Changing categories alone is often the worst that can happen: try every branch as it stands.
            self._show(np.arange(len(self.owner)), self.anchors)
        stars, promise = self._stars()
        best = np.zeros(len(self.judge.x))
        np.maximum.at(best, self.owner[stars.row], promise)
        clear = promise >= CLEAR * best[self.owner[stars.row]]
        self._show(stars.row[clear], self._led_back(stars.row, stars.moves)[clear])
        if self.effort.steps:
            open_ = np.flatnonzero(self._open()[self.owner[stars.row]])
            if len(open_):
                self._climb(_Goals.joined([stars[open_], *self._starts(stars[open_])]))

    def _open(self) -> NDArray[np.bool_]:
        return np.asarray(self.judge.lower < self.enough)

    def _show(self, row: IntArray, moves: FloatArray) -> None:
        """Moves of regions, as individuals, to the judge."""
        similarity = self.judge.similarity
        for y in as_individuals(similarity, self.regions[row], self.anchors[row], moves):
            self.judge.consider(self.owner[row], y)

    def _of(self, row: IntArray) -> BallBox:
        return self.sets if self.sets.rows == 1 else self.sets[row]

    def _led_back(self, row: IntArray, moves: FloatArray) -> FloatArray:
        return led_back(self._of(row), self.anchors[row], moves)

    def _gradient(self, goals: _Goals, share: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Each climb's score, times its sign, and its gradient; with a share, by chords."""
        extent = None
        if share:
            extent = self.extent if len(self.extent) == 1 else self.extent[goals.row]
        y = self.centre[goals.row] + goals.moves
        scores, gradient = self.field.climbed(y, goals.target, goals.sign, extent, share)
        return goals.sign * scores[np.arange(len(y)), goals.target], gradient

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _stars(self) -> tuple[_Goals, FloatArray]:
        """For each score, up and down, where its gradient at the anchor leads in the most promising regions of each
        individual; and the change that it promises."""
        every, owner = np.arange(len(self.owner)), self.owner
        found, promises = [], []
        for target in range(self.field.targets):
            goals = _Goals(every, np.full(len(every), target), np.ones(len(every)), self.anchors)
            score, gradient = self._gradient(goals)
            for sign in (1.0, -1.0):
                moves = furthest(self.sets, sign * gradient)
                reached = score + np.vecdot(gradient, moves - self.anchors)
                some = _first_of_each(owner, sign * reached, self.effort.branches)
                found.append(_Goals(some, goals.target[some], np.full(len(some), sign), moves[some]))
                change = self.field.received(reached[some]) - self.judge.received[owner[some], target]
                promises.append(np.abs(change))
        return _Goals.joined(found), np.concatenate(promises)

    def _starts(self, stars: _Goals) -> list[_Goals]:
        """More places to climb from: where chords lead, and the best of many places all over the regions."""
        found = []
        chords = _Goals(stars.row, stars.target, stars.sign, self.anchors[stars.row])
        for share in (1.0, 0.5):
            gradient = self._gradient(chords, share)[1]
            moves = self._led_back(stars.row, furthest(self._of(stars.row), gradient))
            chords = _Goals(stars.row, stars.target, stars.sign, moves)
            found.append(chords)
        found = found[-1:]
        if self.effort.restarts:
            places = self._places()
            best = np.full((self.effort.restarts, len(stars)), -np.inf)
            moves = np.repeat(stars.moves[None], self.effort.restarts, 0)
            rows, inverse = np.unique(stars.row, return_inverse=True)
            sets, every = self._of(rows), np.arange(len(stars))
            for place in places:
                extent = self.extent if len(self.extent) == 1 else self.extent[rows]
                tried = led_back(sets, self.anchors[rows], self.anchors[rows] + place * extent)
                scores = self.field.scores(self.field.margins(self.centre[rows] + tried))
                value = stars.sign * scores[inverse, stars.target]
                worst = best.argmin(0)
                better = np.flatnonzero(value > best[worst, every])
                best[worst[better], better] = value[better]
                moves[worst[better], better] = tried[inverse[better]]
            found += [_Goals(stars.row, stars.target, stars.sign, some) for some in moves]
        return found

    def _places(self) -> FloatArray:
        """Directions, in units of the extents: the same for everybody, so that nobody's finds depend on who else is
        searched."""
        width = self.centre.shape[1]
        rng = np.random.default_rng(self.effort.seed)
        count = PLACES * self.effort.restarts
        moving = np.flatnonzero((self.extent > 0).any(0))
        corners = rng.choice([-2.0, 2.0], (count // 3, width))
        around = 2 * rng.normal(size=(count // 3, width)) / max(1.0, np.sqrt(len(moving)))
        axes = np.zeros((count - len(corners) - len(around), width))
        if len(moving):
            place = rng.permutation(2 * max(len(moving), len(axes)))[: len(axes)]
            axes[np.arange(len(axes)), moving[(place // 2) % len(moving)]] = 2.0 - 4.0 * (place % 2)
        return np.concatenate([axes, around, corners])

    def _climb(self, goals: _Goals) -> None:
        """Hill climbing: in turn towards where the gradient is largest, and along it in the shape of the region; steps
        that lead higher are taken and grow, others shrink."""
        moves = self._led_back(goals.row, goals.moves)
        goals = _Goals(goals.row, goals.target, goals.sign, moves)
        score, gradient = self._gradient(goals)
        rates = np.ones((2, len(goals)))
        active = np.arange(len(goals))
        for step in range(self.effort.steps):
            kind = step % 2
            active = active[rates[:, active].max(0) > 1e-3]
            if not len(active):
                break
            some, rate = goals[active], rates[kind, active][:, None]
            sets = self._of(some.row)
            if kind == 0:
                tried = some.moves + rate * (furthest(sets, gradient[active]) - some.moves)
            else:
                extent = self.extent if len(self.extent) == 1 else self.extent[some.row]
                along = gradient[active] * extent**2
                length = np.sqrt(np.vecdot(gradient[active], along))[:, None]
                tried = some.moves + rate * along / np.maximum(length, 1e-300)
            trial = _Goals(some.row, some.target, some.sign, led_back(sets, self.anchors[some.row], tried))
            value, turned = self._gradient(trial)
            higher = value > score[active] + 1e-9 * np.abs(score[active])
            up = active[higher]
            goals.moves[up], score[up], gradient[up] = trial.moves[higher], value[higher], turned[higher]
            rates[kind, up] = np.minimum(1.0, 2 * rates[kind, up])
            rates[kind, active[~higher]] *= 0.4
        self._show(goals.row, goals.moves)


def _first_of_each(owner: IntArray, value: FloatArray, most: int) -> IntArray:
    """Where the largest values of each owner stand, at most so many."""
    order = np.lexsort((-value, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    return np.sort(order[rank < most])
