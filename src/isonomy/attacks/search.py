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

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks.field import IntArray
from isonomy.attacks.judge import Finds, Judge
from isonomy.attacks.places import FAR, as_individuals, find_anchors, furthest, led_back, on_sphere
from isonomy.given import instance, whole
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity.regions import Regions, Similarity
from isonomy_verify.arithmetic import dual_order
from isonomy_verify.heads import Head
from isonomy_verify.local import Known
from isonomy_verify.regions import BallBox
from isonomy_verify.sets import region_of

ROWS = 2048
"""Regions searched at once; bounds the memory of a batch."""

CLEAR = 0.9
"""Stars that promise less than this share of what another one promises their owner wait."""

NEAR, WIDE = 0.95, 0.85
"""Whoever attains the first share of the upper bound is done; whoever attains less than the second is searched all
over."""

NEAR_NARROW, WIDE_NARROW = 0.99, 0.97
"""The same where layers are narrow and a search costs little."""

LATTICE = 64
"""Up to so many choices of whole numbers and categories for each restart an individual's are searched one by one."""

TURNS = 12
"""Steps from neighbour to neighbour."""

OBLIQUE = 3
"""Up to so many whole numbers are stepped together, more of them one by one."""

PLACES = 32
"""Places looked at for each restart, and around the best find at each step."""

FLAT = 1e-3
"""What a climb may still gain, relative to what it gained, when it ends."""

ALIKE = 0.01
"""Climbs whose gains differ by less than this share end on the same hill."""

AROUND, SHRINK = 1.0, 0.6
"""How far around the best find is looked at first, relative to the region, and how that shrinks step by step."""


@dataclass(frozen=True)
class AttackBudget:
    """How hard to search whoever is still open after the first round: steps of each climb, climbs beside those from
    the anchor, branches per individual."""

    steps: int = 20
    restarts: int = 8
    branches: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("restarts", 0), ("branches", 1), ("seed", 0)):
            whole(name, getattr(self, name), least)


def attack_budget(attack: bool | AttackBudget) -> AttackBudget | None:
    """What a caller wants to be spent: True is the usual budget, False none."""
    right = "True, False or an isonomy.AttackBudget, such as AttackBudget(steps=20)"
    instance("attack", attack, bool | np.bool_ | AttackBudget, right)
    return attack if isinstance(attack, AttackBudget) else AttackBudget() if attack else None


@np.errstate(all="ignore")  # what overflows is no find
def attack(
    network: Network,
    head: Head,
    similarity: Similarity,
    x: FloatArray,
    effort: AttackBudget,
    known: Known | None = None,
) -> Finds:
    """Search the similar sets of the rows of ``x`` (n, m), which lie in the domain.

    ``known`` is what bounds say of them: whoever comes near an upper bound is not searched further.
    """
    known = known or Known(np.full(len(x), np.inf), np.zeros(len(x), dtype=bool))
    judge = Judge(network, head, similarity, x, known.at)
    every = _searched(similarity, x)
    for regions in every:
        _go(judge, regions, effort, known)
    if similarity.domain.kind == "realizable" and effort.steps and effort.restarts:
        wide = _shares(judge)[1]
        for regions in every:
            pieces, many = _on_lattice(similarity, regions, judge.lower < wide * known.upper, LATTICE * effort.restarts)
            _go(judge, pieces, effort, known)
            listed = not regions.sets.blocks  # else there are too many choices of categories
            many = np.unique(many if listed else regions.owner)
            _turn(judge, many[judge.lower[many] < wide * known.upper[many]], _turns(similarity.domain, not listed))
    return judge.finds()


def _turn(judge: Judge, owner: IntArray, turns: list[_Turned]) -> None:
    """Go from neighbour to neighbour, as long as that leads further: each score up and down, from the individuals and
    from their finds."""
    domain, field = judge.similarity.domain, judge.field
    if not len(owner) or not turns:
        return
    size = max(1, ROWS // len(turns))
    for start, target, sign in itertools.product(range(0, len(owner), size), range(field.targets), (1.0, -1.0)):
        some = owner[start : start + size]
        for y in (judge.x[some], judge.counterpart[some]):
            height = sign * field.scores(field.margins(y))[:, target]
            for _ in range(TURNS):
                tried = np.repeat(y, len(turns), 0)
                for place, (columns, state, step) in enumerate(turns):
                    part = tried[place :: len(turns)]
                    part[:, columns] = state + step * part[:, columns]
                tried = domain.filled(domain.snap(tried))
                value = np.full(len(tried), -np.inf)
                fits = np.flatnonzero(judge.fits(np.repeat(some, len(turns)), tried))
                value[fits] = sign * field.scores(field.margins(tried[fits]))[:, target]
                value = np.nan_to_num(value, nan=-np.inf).reshape(len(some), -1)
                top = value.argmax(1)
                higher = value.max(1) > height
                if not higher.any():
                    break
                y = np.where(higher[:, None], tried.reshape(len(some), len(turns), -1)[np.arange(len(some)), top], y)
                height = np.where(higher, value.max(1), height)
            judge.consider(some, y)


_Turned = tuple[IntArray, FloatArray, float]
"""Which columns become what, plus how often (0 or 1) what they are."""


def _turns(domain: Domain, categories: bool) -> list[_Turned]:
    """Moves to a neighbour: another category, and other whole numbers."""
    found: list[_Turned] = []
    for start, stop in domain.blocks if categories else ():
        states = np.eye(stop - start) if stop - start > 1 else np.array([[0.0], [1.0]])
        found += [(np.arange(start, stop), state, 0.0) for state in states]
    whole = np.flatnonzero(domain.integer & ~domain.immutable)
    unit = 1 / domain.unit[whole]
    if len(whole) <= OBLIQUE:
        steps = list(itertools.product((-1.0, 0.0, 1.0), repeat=len(whole)))
    else:
        steps = [*np.eye(len(whole)), *-np.eye(len(whole))]
    found += [(whole, scale * np.array(step) * unit, 1.0) for step in steps if np.any(step) for scale in (1.0, 3.0)]
    return found


def _go(judge: Judge, regions: Regions, effort: AttackBudget, known: Known) -> None:
    for piece in regions.pieces(ROWS):
        search = _Search.of(judge, piece, effort, known)
        if search is not None:
            search.go()


def _shares(judge: Judge) -> tuple[float, float]:
    """Which shares of an upper bound are near it, and far from it."""
    return (NEAR_NARROW, WIDE_NARROW) if judge.prepared.narrow else (NEAR, WIDE)


def _on_lattice(
    similarity: Similarity, regions: Regions, open_: NDArray[np.bool_], most: int
) -> tuple[Regions, IntArray]:
    """The regions of open individuals cut into those of single whole numbers, where they have at most so many; and who
    has more."""
    domain, sets = similarity.domain, regions.sets
    which = np.flatnonzero(domain.integer)
    centre, low, high = regions.centre, sets.low, sets.high
    origin, unit = domain.origin[which], domain.unit[which]
    first = np.ceil((centre + low)[:, which] * unit + origin - 1e-6)
    last = np.floor((centre + high)[:, which] * unit + origin + 1e-6)
    each = np.maximum(last - first + 1, 0)
    count = each.prod(1)
    total = np.bincount(regions.owner, count, minlength=len(open_))[regions.owner]
    several = open_[regions.owner] & (count > 1)
    some = np.flatnonzero(several & (total <= most))
    row = np.repeat(some, count[some].astype(np.int64))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    low, high = np.array(low[row]), np.array(high[row])
    for j, column in enumerate(which):
        size = each[row, j].astype(np.int64)
        value = (first[row, j] + place % size - origin[j]) / unit[j] - centre[row, column]
        place = place // size
        low[:, column] = high[:, column] = value
    cut = regions[row]
    cut = replace(cut, sets=replace(cut.sets, low=low, high=high))
    return cut, regions.owner[several & (total > most)]


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
        self, judge: Judge, regions: Regions, sets: BallBox, anchors: FloatArray, effort: AttackBudget, known: Known
    ) -> None:
        self.judge, self.field, self.effort, self.known = judge, judge.field, effort, known
        self.regions, self.sets, self.anchors = regions, sets, anchors
        self.owner, self.centre, self.clipped = regions.owner, regions.centre, regions.sets.clipped
        extent = np.minimum(sets.extent, FAR)
        if len(sets.root):  # what the ball leaves of the box
            reach = np.linalg.norm(sets.inverse, axis=1) * sets.radius[:, None]
            extent = np.minimum(extent, np.where(sets.root.any(0), 1.5 * reach, np.inf))
        self.extent = np.broadcast_to(extent, self.centre.shape)

    @classmethod
    def of(cls, judge: Judge, regions: Regions, effort: AttackBudget, known: Known) -> _Search | None:
        """Made ready, unless there is nothing to search."""
        sets = region_of(regions.sets)
        anchors, inside = find_anchors(sets, len(regions))
        if not inside.all():
            rows = np.flatnonzero(inside)
            regions, sets, anchors = regions[rows], sets[rows] if sets.rows > 1 else sets, anchors[rows]
        return cls(judge, regions, sets, anchors, effort, known) if len(regions) else None

    def go(self) -> None:
        """All rounds."""
        if (self.anchors != 0).any() or self.judge.similarity.domain.kind == "realizable":
            # Changing categories alone is often the worst that can happen: try every branch as it stands.
            self._show(np.arange(len(self.owner)), self.anchors)
        stars, promise = self._stars()
        best = np.zeros(len(self.judge.x))
        np.maximum.at(best, self.owner[stars.row], promise)
        clear = promise >= np.where(self._may_turn(best), 0.0, CLEAR * best)[self.owner[stars.row]]
        first = stars[np.flatnonzero(clear)]
        if self.clipped:
            first = _Goals(first.row, first.target, first.sign, self._led_back(first.row, first.moves))
        self._show(first.row, first.moves)
        if not self.effort.steps:
            return
        near, wide = _shares(self.judge)
        open_ = self._open(near, first, self._may_turn(self.known.upper))
        if len(open_):
            climbed, _ = self._climb(first[open_])
            self._show(climbed.row, climbed.moves)
        open_ = self._open(wide, stars)
        if len(open_):
            self._look_around(stars[open_])

    def _open(self, share: float, goals: _Goals, more: NDArray[np.bool_] | bool = False) -> IntArray:
        """The climbs of individuals for whom less than this share of the upper bound was found, and ``more`` of
        them."""
        return np.flatnonzero(((self.judge.lower < share * self.known.upper) | more)[self.owner[goals.row]])

    def _may_turn(self, change: FloatArray) -> NDArray[np.bool_]:
        """Whose decision is not known to change, and may if they are treated so differently (bounds that say it is kept
        are not believed: that is what a find would contradict)."""
        return np.asarray(~self.judge.flips & (self.judge.room <= change))

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
        extent = self.extent[goals.row] if share else None
        y = self.centre[goals.row] + goals.moves
        scores, gradient = self.field.climbed(y, goals.target, goals.sign, extent, share)
        return goals.sign * scores[np.arange(len(y)), goals.target], gradient

    def _value(self, goals: _Goals, row: IntArray, moves: FloatArray) -> FloatArray:
        """The score of climbs, times their sign, at moves of their rows."""
        scores = self.field.scores(self.field.margins(self.centre[row] + moves))
        value = goals.sign * scores[np.arange(len(row)), goals.target]
        return np.asarray(np.where(np.isfinite(value), value, -np.inf))

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _stars(self) -> tuple[_Goals, FloatArray]:
        """For each score, up and down, where its slope leads in the most promising regions of each individual; and the
        change that it promises."""
        owner, found, promises = self.owner, [], []
        for target in range(self.field.targets):
            for sign, moves, reached in self._followed(target):
                some = _first_of_each(owner, sign * reached, self.effort.branches)
                found.append(_Goals(some, np.full(len(some), target), np.full(len(some), sign), moves[some]))
                change = self.field.received(reached[some]) - self.judge.received[owner[some], target]
                promises.append(np.abs(change))
        return _Goals.joined(found), np.nan_to_num(np.concatenate(promises))

    def _followed(self, target: int) -> list[tuple[float, FloatArray, FloatArray]]:
        """Up and down: where the slope of a score leads, by what bounds say of it or by its gradient at the anchors,
        and the score that it promises."""
        pull = self.known.pull
        if pull is not None and not self.clipped and self.field.targets == 1:
            # One ball around everybody, which is the same in both directions.
            pull = pull[self.owner].astype(np.float64)
            score, moves = self.judge.scores[self.owner, 0], on_sphere(self.sets, pull)
            gain = self.sets.radius * np.linalg.norm(pull, dual_order(self.sets.order), axis=1)
            return [(1.0, moves, score + gain), (-1.0, -moves, score - gain)]
        every = np.arange(len(self.owner))
        goals = _Goals(every, np.full(len(every), target), np.ones(len(every)), self.anchors)
        score, gradient = self._gradient(goals)
        found = []
        for sign in (1.0, -1.0):
            moves = furthest(self.sets, sign * gradient, self.clipped)
            found.append((sign, moves, score + np.vecdot(gradient, moves - self.anchors)))
        return found

    def _climb(self, goals: _Goals) -> tuple[_Goals, FloatArray]:
        """Hill climbing: in turn towards where the gradient is largest, and along it in the shape of the region; steps
        that lead higher are taken and grow, others shrink. The ends of the climbs, and the scores there."""
        goals = _Goals(goals.row, goals.target, goals.sign, self._led_back(goals.row, goals.moves))
        score, gradient = self._gradient(goals)
        start = self._start(goals)
        rates, active = np.ones((2, len(goals))), np.arange(len(goals))
        sets = self._of(goals.row)
        for step in range(self.effort.steps):
            some = goals[active]
            slope = gradient[active]
            if step % 2 == 0:
                aim = furthest(sets, slope, self.clipped) - some.moves
                # Who stands where even the gradient leaves nothing to gain has arrived.
                far = np.vecdot(slope, aim) > FLAT * np.abs(score[active] - start[active])
                far &= rates[:, active].max(0) > FLAT
                if not far.all():
                    active, aim, some, slope = active[far], aim[far], some[np.flatnonzero(far)], slope[far]
                    sets = self._of(some.row)
                if not len(active):
                    break
            else:
                aim = slope * self.extent[some.row] ** 2
                aim = aim / np.maximum(np.sqrt(np.vecdot(slope, aim)), 1e-300)[:, None]
            rate = rates[step % 2, active]
            tried = led_back(sets, self.anchors[some.row], some.moves + rate[:, None] * aim)
            value, turned = self._gradient(_Goals(some.row, some.target, some.sign, tried))
            higher = value > score[active]
            up = active[higher]
            goals.moves[up], score[up], gradient[up] = tried[higher], value[higher], turned[higher]
            rates[step % 2, active] = np.where(higher, np.minimum(1.0, 2 * rate), 0.4 * rate)
        return goals, score

    def _look_around(self, stars: _Goals) -> None:
        """Climbs from the stars and from where chords lead; where these do not end at the same height, also from the
        best of many places, and then smaller and smaller moves around the best, which also cross ridges."""
        chords = _Goals(stars.row, stars.target, stars.sign, self.anchors[stars.row])
        for share in (1.0, 0.5):
            moves = furthest(self._of(stars.row), self._gradient(chords, share)[1], self.clipped)
            chords = _Goals(stars.row, stars.target, stars.sign, self._led_back(stars.row, moves))
        ends, height = self._climb(_Goals.joined([stars, chords]))
        self._show(ends.row, ends.moves)
        if not self.effort.restarts:
            return
        gain = (height - self._start(ends)).reshape(2, -1)
        one_hill = (gain.min(0) > (1 - ALIKE) * gain.max(0)) & (gain.min(0) > 0)
        again = np.flatnonzero(~one_hill | self.judge.prepared.narrow)
        if not len(again):
            return
        starts = self._restarts(stars[again])
        more, scores = self._climb(_Goals.joined(starts))
        ends = _Goals.joined([ends[again], ends[again + len(stars)], more])
        height = np.concatenate([height[again], height[again + len(stars)], scores]).reshape(-1, len(again))
        top = height.argmax(0)
        best, height = ends[top * len(again) + np.arange(len(again))], height.max(0)
        for step in range(self.effort.steps if self.effort.restarts > 1 else 0):
            directions = self._directions(PLACES, 1 + step)
            moves, value = self._best_of(best, AROUND * SHRINK**step, best.moves, directions)
            higher = value[0] > height
            best.moves[higher], height[higher] = moves[0][higher], value[0][higher]
        self._show(best.row, best.moves)

    def _start(self, goals: _Goals) -> FloatArray:
        """The scores at the individuals themselves, times the signs."""
        return np.asarray(goals.sign * self.judge.scores[self.owner[goals.row], goals.target])

    def _restarts(self, stars: _Goals) -> list[_Goals]:
        """The best of many places all over the regions, for each climb as many as it may restart."""
        directions = self._directions(PLACES * self.effort.restarts, 0)
        moves, _ = self._best_of(stars, 2.0, self.anchors[stars.row], directions, self.effort.restarts)
        return [_Goals(stars.row, stars.target, stars.sign, some) for some in moves]

    def _best_of(
        self, goals: _Goals, scale: float, base: FloatArray, directions: FloatArray, most: int = 1
    ) -> tuple[FloatArray, FloatArray]:
        """The best moves (most, climbs, m) from ``base`` by ``scale`` along the directions, and their scores."""
        found, values = [], []
        size, count = max(1, ROWS // len(directions)), len(directions)
        for start in range(0, len(goals), size):
            some = np.arange(start, min(start + size, len(goals)))
            each = np.repeat(some, count)
            row = goals.row[each]
            tried = base[each] + scale * np.tile(directions, (len(some), 1)) * self.extent[row]
            tried = self._led_back(row, tried)
            value = self._value(goals[each], row, tried).reshape(len(some), count)
            order = np.argsort(-value, axis=1, kind="stable")[:, :most]
            tried = tried.reshape(len(some), count, -1)
            found.append(np.take_along_axis(tried, order[:, :, None], 1))
            values.append(np.take_along_axis(value, order, 1))
        return np.concatenate(found).swapaxes(0, 1), np.concatenate(values).T

    def _directions(self, count: int, turn: int) -> FloatArray:
        """Directions, in units of the extents, along axes, diagonals and anywhere: the same for everybody, so that
        nobody's finds depend on who else is searched."""
        rng = np.random.default_rng([self.effort.seed, turn])
        width = self.centre.shape[1]
        diagonals = rng.choice([-1.0, 1.0], (count // 3, width))
        around = rng.normal(size=(count // 3, width))
        around /= np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-300)
        axes = np.zeros((count - 2 * (count // 3), width))
        moving = np.flatnonzero((self.extent > 0).any(0))
        if len(moving):
            place = rng.permutation(2 * max(len(moving), len(axes)))[: len(axes)]
            axes[np.arange(len(axes)), moving[(place // 2) % len(moving)]] = 1.0 - 2.0 * (place % 2)
        return np.concatenate([axes, around, diagonals])


def _first_of_each(owner: IntArray, value: FloatArray, most: int) -> IntArray:
    """Where the largest values of each owner stand, at most so many."""
    order = np.lexsort((-value, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    return np.sort(order[rank < most])
