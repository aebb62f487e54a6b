"""The search for similar pairs that a network treats differently.

Problem: for each individual ``x`` find ``y`` in the domain with ``d(x, y) ≤ δ`` and ``f(y)`` far from ``f(x)``. Every
region of the similar set is searched for a high and for a low value of every score (:mod:`isonomy.attacks.field`), in
three rounds, each only for individuals that the one before leaves open:

1. *Linear*: the network is replaced by its gradient at the region's anchor, and ``y`` is where that is largest.
2. *Climbs* from there, from where chords in place of slopes lead, and from the best of many samples of the region.
3. *Neighbours*: single coordinates and categories of the best pair are changed, whole numbers by whole numbers.

The search of an individual ends when its ``upper`` bound is nearly attained. The judge checks all candidates.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks.field import IntArray
from isonomy.attacks.judge import Finds, Judge
from isonomy.attacks.places import (
    FAR,
    Costless,
    as_individuals,
    ball_maximizer,
    find_anchors,
    linear_maximizer,
    project_to_region,
)
from isonomy.given import instance, whole
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity.regions import Regions, Similarity, refused
from isonomy_verify.arithmetic import dual_order
from isonomy_verify.combinations import Product, product_of
from isonomy_verify.heads import Head
from isonomy_verify.local import Known

ROWS = 2048
"""Regions searched at once; bounds the memory of a batch."""

CLEAR = 0.9
"""Linear starts that promise less than this share of their owner's best one wait."""

NEAR, WIDE = 0.95, 0.85
"""Shares of the upper bound: an individual that attains the first is done, one that attains less than the second is
searched widely."""

NEAR_NARROW, WIDE_NARROW = 0.99, 0.97
"""The same where layers are narrow and a search costs little."""

LATTICE = 64
"""The most choices of whole numbers and categories, per restart, that are searched one by one."""

TURNS = 12
"""Steps from neighbour to neighbour."""

OBLIQUE = 3
"""The most whole numbers that are stepped together; more of them are stepped one by one."""

SAMPLES = 32
"""Samples for each restart, and around the best candidate at each step."""

FLAT = 1e-3
"""The further gain, relative to the gain so far, at which a climb ends."""

ALIKE = 0.01
"""Climbs whose gains differ by less than this share end on the same hill."""

HOPE = 0.6
"""Climbs that end at less than this share of their owner's ``lower`` are not continued."""

AROUND, SHRINK = 1.0, 0.6
"""How far around the best candidate is sampled first, relative to the region, and how that shrinks step by step."""


@dataclass(frozen=True)
class AttackBudget:
    """The effort for individuals that are open after the first round: steps of each climb, climbs beside those from
    the anchor, branches per individual."""

    steps: int = 20
    restarts: int = 8
    branches: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("restarts", 0), ("branches", 1), ("seed", 0)):
            whole(name, getattr(self, name), least)


def attack_budget(attack: bool | AttackBudget, seed: int = 0) -> AttackBudget | None:
    """Return the budget that a caller gave: True is the usual one with this seed, False none."""
    right = "True, False or an isonomy.AttackBudget, such as AttackBudget(steps=20)"
    instance("attack", attack, bool | np.bool_ | AttackBudget, right)
    return attack if isinstance(attack, AttackBudget) else AttackBudget(seed=seed) if attack else None


@np.errstate(all="ignore")  # what overflows is no witness
def attack(
    network: Network,
    head: Head,
    similarity: Similarity,
    x: FloatArray,
    effort: AttackBudget,
    known: Known | None = None,
) -> Finds:
    """Search the similar sets of the rows of ``x`` (n, m), which lie in the domain.

    ``known`` are their bounds: the search of an individual ends near its upper bound.
    """
    known = known or Known(np.full(len(x), np.inf), np.zeros(len(x), dtype=bool))
    judge = Judge(network, head, similarity, x, known.at)
    shares = (NEAR_NARROW, WIDE_NARROW) if judge.prepared.narrow else (NEAR, WIDE)

    def search(regions: Regions) -> None:
        for piece in regions.pieces(ROWS):
            anchors, inside = find_anchors(piece.sets, len(piece))
            if inside.any():
                rows = slice(None) if inside.all() else np.flatnonzero(inside)
                _Search(judge, piece[rows], anchors[rows], effort, known, *shares).run()

    every = _regions(judge, x, 2 * effort.branches)
    for regions in every:
        search(regions)
    if similarity.domain.kind == "realizable" and effort.steps and effort.restarts:
        for regions in every:
            far = judge.lower < shares[1] * known.upper
            pieces, many = _on_lattice(similarity, regions, far, LATTICE * effort.restarts)
            search(pieces)
            listed = not regions.sets.blocks  # else there are too many choices of categories
            many = np.unique(many if listed else regions.owner)
            many = many[judge.lower[many] < shares[1] * known.upper[many]]
            _search_neighbours(judge, many, _neighbours(similarity.domain, not listed))
    return judge.finds()


def _regions(judge: Judge, x: FloatArray, most: int) -> list[Regions]:
    """Return the regions of the similar sets; in the relaxed domain also those of realizable individuals, its corners.

    Of products of categories with more combinations those that stand out at the individuals' own numbers.
    """
    similarity = judge.similarity
    with refused():
        product = product_of(similarity.kernel, x)
    if product is not None and product.size > most:
        return [_outstanding(judge, product, most)]
    regions = similarity.regions(x)
    if similarity.domain.kind != "relaxed":
        return regions
    realizable = similarity.domain.with_kind("realizable")
    rows = np.flatnonzero(realizable.contains(x))
    corners = Similarity(similarity.metric, similarity.delta, realizable, similarity.max_branches).regions(x[rows])
    return regions + [replace(corner, owner=rows[corner.owner]) for corner in corners]


def _outstanding(judge: Judge, product: Product, most: int) -> Regions:
    """Return the combinations of each individual, at most ``most`` for each score, that lead highest or lowest where
    nothing but categories changes."""
    field, (n, count), chosen = judge.field, product.allowed.shape, list[IntArray]()
    step = max(1, ROWS // count)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        scores = field.scores(field.margins_of(product, rows)).reshape(len(rows), count, -1)
        for target, sign in itertools.product(range(field.targets), (1.0, -1.0)):
            rank = np.where(product.allowed[rows], np.nan_to_num(sign * scores[..., target], nan=-np.inf), -np.inf)
            best = np.argpartition(-rank, most // 2 - 1, axis=1)[:, : most // 2]
            chosen.append((rows[:, None] * count + best)[product.allowed[rows[:, None], best]])
    owner, combination = np.divmod(np.unique(np.concatenate(chosen)), count)
    return product.regions(owner, combination)


def _on_lattice(
    similarity: Similarity, regions: Regions, far: NDArray[np.bool_], most: int
) -> tuple[Regions, IntArray]:
    """Cut the regions of individuals that are ``far`` from their upper bounds into those of single whole numbers, for
    individuals with at most ``most``; return also the owners with more."""
    domain, sets, centre = similarity.domain, regions.sets, regions.centre
    which = np.flatnonzero(domain.integer)
    origin, unit = domain.origin[which], domain.unit[which]
    first = np.ceil((centre + sets.low)[:, which] * unit + origin - 1e-6)
    last = np.floor((centre + sets.high)[:, which] * unit + origin + 1e-6)
    each = np.maximum(last - first + 1, 0)
    count = each.prod(1)
    total = np.bincount(regions.owner, count, minlength=len(far))[regions.owner]
    several = far[regions.owner] & (count > 1)
    few = np.flatnonzero(several & (total <= most))
    row = np.repeat(few, count[few].astype(np.int64))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    low, high = np.array(sets.low[row]), np.array(sets.high[row])
    for j, column in enumerate(which):
        size = each[row, j].astype(np.int64)
        low[:, column] = (first[row, j] + place % size - origin[j]) / unit[j] - centre[row, column]
        high[:, column] = low[:, column]
        place = place // size
    cut = regions[row]
    return replace(cut, sets=replace(cut.sets, low=low, high=high)), regions.owner[several & (total > most)]


_Neighbour = tuple[IntArray, FloatArray, float]
"""Columns, and their new values: these numbers plus 0 or 1 times the old ones."""


def _neighbours(domain: Domain, categories: bool) -> list[_Neighbour]:
    """List the moves to a neighbour: another category, and other whole numbers."""
    moves: list[_Neighbour] = []
    for start, stop in domain.blocks if categories else ():
        states = np.eye(stop - start) if stop - start > 1 else np.array([[0.0], [1.0]])
        moves += [(np.arange(start, stop), state, 0.0) for state in states]
    which = np.flatnonzero(domain.integer & ~domain.immutable)
    if len(which) <= OBLIQUE:
        steps = [np.array(step) for step in itertools.product((-1.0, 0.0, 1.0), repeat=len(which)) if any(step)]
    else:
        steps = [*np.eye(len(which)), *-np.eye(len(which))]
    return moves + [(which, scale * step / domain.unit[which], 1.0) for step in steps for scale in (1.0, 3.0)]


def _search_neighbours(judge: Judge, owner: IntArray, neighbours: list[_Neighbour]) -> None:
    """Go from neighbour to neighbour while a score improves: each up and down, from the individuals and from their
    counterparts."""
    domain, field, count = judge.similarity.domain, judge.field, len(neighbours)
    size = max(1, ROWS // max(count, 1))
    starts = range(0, len(owner) if count else 0, size)
    for start, target, sign in itertools.product(starts, range(field.targets), (1.0, -1.0)):
        mine = owner[start : start + size]
        for y in (judge.x[mine], judge.counterpart[mine]):
            height = sign * field.scores(field.margins(y))[:, target]
            for _ in range(TURNS):
                tried = np.repeat(y, count, 0)
                for place, (columns, state, factor) in enumerate(neighbours):
                    tried[place::count, columns] = state + factor * tried[place::count, columns]
                tried = domain.filled(domain.snap(tried))
                value = np.full(len(tried), -np.inf)
                fits = np.flatnonzero(judge.fits(np.repeat(mine, count), tried))
                value[fits] = sign * field.scores(field.margins(tried[fits]))[:, target]
                value = np.nan_to_num(value, nan=-np.inf).reshape(len(mine), count)
                top, higher = value.argmax(1), value.max(1) > height
                if not higher.any():
                    break
                best = tried.reshape(len(mine), count, -1)[np.arange(len(mine)), top]
                y, height = np.where(higher[:, None], best, y), np.maximum(height, value.max(1))
            judge.consider(mine, y)


@dataclass(frozen=True, eq=False)
class _Climbs:
    """Climbs: region, score, sign (up or down), and moves (n, m)."""

    row: IntArray
    target: IntArray
    sign: FloatArray
    moves: FloatArray

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: IntArray) -> _Climbs:
        return _Climbs(self.row[rows], self.target[rows], self.sign[rows], self.moves[rows])

    def at(self, moves: FloatArray) -> _Climbs:
        """Return the same climbs at other moves."""
        return _Climbs(self.row, self.target, self.sign, moves)

    @classmethod
    def joined(cls, several: list[_Climbs]) -> _Climbs:
        """Concatenate climbs."""
        return cls(*(np.concatenate(parts) for parts in zip(*(vars(each).values() for each in several), strict=True)))


class _Search:
    """The search of a batch of regions."""

    def __init__(
        self,
        judge: Judge,
        regions: Regions,
        anchors: FloatArray,
        effort: AttackBudget,
        known: Known,
        done: float,
        wide: float,
    ) -> None:
        """Take ``done`` and ``wide`` as shares of the upper bounds, as ``NEAR`` and ``WIDE``."""
        self.judge, self.field, self.effort, self.known, self.done, self.wide = (
            judge, judge.field, effort, known, done, wide,
        )  # fmt: skip
        self.regions, self.anchors = regions, anchors
        self.owner, self.centre, self.sets = regions.owner, regions.centre, regions.sets
        extent = np.minimum(self.sets.extent, FAR)
        if len(self.sets.root):  # the part of the box within the ball
            reach = np.linalg.norm(self.sets.inverse, axis=1) * self.sets.radius[:, None]
            limited = self.sets.root.any(0) & ~Costless.of(self.sets).mixed
            extent = np.minimum(extent, np.where(limited, 1.5 * reach, np.inf))
        self.extent = np.broadcast_to(extent, self.centre.shape)

    def run(self) -> None:
        """Run all rounds."""
        if self.anchors.any() or self.judge.similarity.domain.kind == "realizable":
            # Changing categories alone is often the worst that can happen: try every branch as it stands.
            self._submit(self._from_anchors(0))
        starts, promise = self._linear_starts()
        best = np.zeros(len(self.judge.x))
        np.maximum.at(best, self.owner[starts.row], promise)
        clear = promise >= np.where(self._may_flip(best), 0.0, CLEAR * best)[self.owner[starts.row]]
        first = starts[np.flatnonzero(clear)]
        if self.sets.clipped:
            first = first.at(self._project(first.row, first.moves))
        self._submit(first)
        if self.effort.steps:
            upper = self.known.upper
            rest = self._of(first, (self.judge.lower < self.done * upper) | self._may_flip(upper))
            if len(rest):
                self._submit(self._climb(rest)[0])
            rest = self._of(starts, self.judge.lower < self.wide * upper)
            if len(rest):
                self._search_widely(rest)

    def _of(self, climbs: _Climbs, people: NDArray[np.bool_]) -> _Climbs:
        """Return the climbs of the marked individuals (n,)."""
        return climbs[np.flatnonzero(people[self.owner[climbs.row]])]

    def _may_flip(self, change: FloatArray) -> NDArray[np.bool_]:
        """Return whose decision is not known to change, and may with such a change of output (bounds that exclude it
        are not used: a witness would contradict them)."""
        return np.asarray(~self.judge.flips & (self.judge.margin_to_flip <= change))

    def _submit(self, climbs: _Climbs) -> None:
        """Submit the ends of climbs, as individuals, to the judge."""
        row, similarity = climbs.row, self.judge.similarity
        for y in as_individuals(similarity, self.regions[row], self.anchors[row], climbs.moves):
            self.judge.consider(self.owner[row], y)

    def _from_anchors(self, target: int) -> _Climbs:
        """Return a climb of a score from the anchor of every region."""
        n = len(self.owner)
        return _Climbs(np.arange(n), np.full(n, target), np.ones(n), self.anchors)

    def _project(self, row: IntArray, moves: FloatArray) -> FloatArray:
        return project_to_region(self.sets[row], self.anchors[row], moves)

    def _gradient(self, climbs: _Climbs, share: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return each climb's score (n,), times its sign, and its gradient (n, m); with a share, by chords."""
        extent = self.extent[climbs.row] if share else None
        y = self.centre[climbs.row] + climbs.moves
        scores, gradient = self.field.scores_and_gradient(y, climbs.target, climbs.sign, extent, share)
        return climbs.sign * scores[np.arange(len(y)), climbs.target], gradient

    def _own_scores(self, climbs: _Climbs) -> FloatArray:
        """Return the scores (n,) at the individuals themselves, times the signs."""
        return np.asarray(climbs.sign * self.judge.scores[self.owner[climbs.row], climbs.target])

    def _is_promising(self, climbs: _Climbs, height: FloatArray) -> NDArray[np.bool_]:
        """Return which climbs to continue, by the change at their ends."""
        owner = self.owner[climbs.row]
        change = np.abs(self.field.received(climbs.sign * height) - self.judge.received[owner, climbs.target])
        return np.asarray(change >= HOPE * self.judge.lower[owner])

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _linear_starts(self) -> tuple[_Climbs, FloatArray]:
        """Return for each score, up and down, the maximizers of its linearization in the most promising regions of each
        individual; and the change that it promises."""
        climbs, promises = [], []
        for target in range(self.field.targets):
            for sign, moves, reached in self._linear_moves(target):
                rows = first_of_each(self.owner, sign * reached, self.effort.branches)
                start = moves if len(rows) == len(moves) else moves[rows]
                climbs.append(_Climbs(rows, np.full(len(rows), target), np.full(len(rows), sign), start))
                change = self.field.received(reached[rows]) - self.judge.received[self.owner[rows], target]
                promises.append(np.abs(change))
        return _Climbs.joined(climbs), np.nan_to_num(np.concatenate(promises))

    def _linear_moves(self, target: int) -> list[tuple[float, FloatArray, FloatArray]]:
        """Return, up and down, the maximizers of a score's linearization, from bounds or from its gradient at the
        anchors, and the scores that it promises."""
        direction = self.known.direction
        if direction is not None and not self.sets.clipped and self.field.targets == 1:
            # All share one ball, which is symmetric.
            direction = direction[self.owner].astype(np.float64)
            score, moves = self.judge.scores[self.owner, 0], ball_maximizer(self.sets, direction)
            gain = self.sets.radius * np.linalg.norm(direction, dual_order(self.sets.order), axis=1)
            return [(1.0, moves, score + gain), (-1.0, -moves, score - gain)]
        score, gradient = self._gradient(self._from_anchors(target))
        both = ((sign, linear_maximizer(self.sets, sign * gradient)) for sign in (1.0, -1.0))
        return [(sign, moves, score + np.vecdot(gradient, moves - self.anchors)) for sign, moves in both]

    def _climb(self, climbs: _Climbs) -> tuple[_Climbs, FloatArray]:
        """Climb by steps in turn towards the gradient's maximizer, and along the gradient scaled to the region; steps
        that lead higher are taken and grow, others shrink. Return the ends of the climbs, and the scores there."""
        climbs = climbs.at(self._project(climbs.row, climbs.moves))
        score, gradient = self._gradient(climbs)
        own = self._own_scores(climbs)
        rates, active = np.ones((2, len(climbs))), np.arange(len(climbs))
        now, sets = climbs, self.sets[climbs.row]
        for step in range(self.effort.steps):
            now, slope = climbs[active], gradient[active]
            if step % 2 == 0:
                aim = linear_maximizer(sets, slope) - now.moves
                # A climb ends where even its linearization leaves nothing to gain.
                far = np.vecdot(slope, aim) > FLAT * np.abs(score[active] - own[active])
                far &= rates[:, active].max(0) > FLAT
                if not far.all():
                    active, aim, now, slope = active[far], aim[far], now[np.flatnonzero(far)], slope[far]
                    sets = self.sets[now.row]
                if not len(active):
                    break
            else:
                aim = slope * self.extent[now.row] ** 2
                aim = aim / np.maximum(np.sqrt(np.vecdot(slope, aim)), 1e-300)[:, None]
            rate = rates[step % 2, active]
            tried = project_to_region(sets, self.anchors[now.row], now.moves + rate[:, None] * aim)
            value, tried_gradient = self._gradient(now.at(tried))
            higher = value > score[active]
            up = active[higher]
            climbs.moves[up], score[up], gradient[up] = tried[higher], value[higher], tried_gradient[higher]
            rates[step % 2, active] = np.where(higher, np.minimum(1.0, 2 * rate), 0.4 * rate)
        return climbs, score

    def _search_widely(self, starts: _Climbs) -> None:
        """Climb from linear starts and from where chords lead; where these do not end at the same height, also from the
        best of many samples, and then from smaller and smaller samples around the best, which also cross ridges."""
        chords = starts.at(self.anchors[starts.row])
        for share in (1.0, 0.5):
            moves = linear_maximizer(self.sets[starts.row], self._gradient(chords, share)[1])
            chords = starts.at(self._project(starts.row, moves))
        ends, height = self._climb(_Climbs.joined([starts, chords]))
        self._submit(ends)
        if not self.effort.restarts:
            return
        gain = (height - self._own_scores(ends)).reshape(2, -1)
        one_hill = (gain.min(0) > (1 - ALIKE) * gain.max(0)) & (gain.min(0) > 0)
        promising = self._is_promising(ends, height).reshape(2, -1).any(0)
        again = np.flatnonzero((~one_hill | self.judge.prepared.narrow) & promising)
        if not len(again):
            return
        starts, both = starts[again], np.concatenate([again, again + len(starts)])
        directions = self._directions(SAMPLES * self.effort.restarts, 0)
        samples, _ = self._best_samples(starts, 2.0, self.anchors[starts.row], directions, self.effort.restarts)
        more, heights = self._climb(_Climbs.joined([starts.at(moves) for moves in samples]))
        heights = np.concatenate([height[both], heights]).reshape(-1, len(again))
        best = _Climbs.joined([ends[both], more])[heights.argmax(0) * len(again) + np.arange(len(again))]
        rows = np.flatnonzero(self._is_promising(best, heights.max(0)))
        best, height = best[rows], heights.max(0)[rows]
        for step in range(self.effort.steps if self.effort.restarts > 1 and len(best) else 0):
            directions = self._directions(SAMPLES, 1 + step)
            moves, value = self._best_samples(best, AROUND * SHRINK**step, best.moves, directions)
            higher = value[0] > height
            best.moves[higher], height[higher] = moves[0][higher], value[0][higher]
        self._submit(best)

    def _best_samples(
        self, climbs: _Climbs, scale: float, base: FloatArray, directions: FloatArray, most: int = 1
    ) -> tuple[FloatArray, FloatArray]:
        """Return the best moves (most, climbs, m) from ``base`` by ``scale`` along the directions, and their scores."""
        best, values = [], []
        size, count = max(1, ROWS // len(directions)), len(directions)
        for start in range(0, len(climbs), size):
            batch = np.arange(start, min(start + size, len(climbs)))
            each = np.repeat(batch, count)
            row = climbs.row[each]
            tried = base[each] + scale * np.tile(directions, (len(batch), 1)) * self.extent[row]
            tried = self._project(row, tried)
            scores = self.field.scores(self.field.margins(self.centre[row] + tried))
            value = climbs.sign[each] * scores[np.arange(len(row)), climbs.target[each]]
            value = np.where(np.isfinite(value), value, -np.inf).reshape(len(batch), count)
            order = np.argsort(-value, axis=1, kind="stable")[:, :most]
            best.append(np.take_along_axis(tried.reshape(len(batch), count, -1), order[:, :, None], 1))
            values.append(np.take_along_axis(value, order, 1))
        return np.concatenate(best).swapaxes(0, 1), np.concatenate(values).T

    def _directions(self, count: int, turn: int) -> FloatArray:
        """Return directions (count, m), in units of the extents: the same for all individuals, so that no witness
        depends on who else is searched."""
        moving = tuple(bool(wide) for wide in self.extent.max(0) > 0)
        return _draw_directions(self.effort.seed, turn, count, moving)


@lru_cache(maxsize=64)
def _draw_directions(seed: int, turn: int, count: int, moving: tuple[bool, ...]) -> FloatArray:
    """Draw directions (count, m): along the axes that move, along diagonals, and anywhere."""
    rng = np.random.default_rng([seed, turn])
    diagonals = rng.choice([-1.0, 1.0], (count // 3, len(moving)))
    around = rng.normal(size=(count // 3, len(moving)))
    around /= np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-300)
    axes, which = np.zeros((count - 2 * (count // 3), len(moving))), np.flatnonzero(moving)
    if len(which):
        place = rng.permutation(2 * max(len(which), len(axes)))[: len(axes)]
        axes[np.arange(len(axes)), which[(place // 2) % len(which)]] = 1.0 - 2.0 * (place % 2)
    return np.concatenate([axes, around, diagonals])


def first_of_each(owner: IntArray, value: FloatArray, most: int) -> IntArray:
    """Return the indices of the largest values of each owner, at most ``most`` of each."""
    if most >= len(owner) or (owner[1:] > owner[:-1]).all():
        return np.arange(len(owner))
    order = np.lexsort((-value, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    return np.sort(order[rank < most])
