"""The tier of tree ensembles: the kernel's extremes of every margin over similar people, and who attains them.

Where the extremes are exact no search is needed: the person in the cell that attains one is the witness. A witness is
checked as any other, by enclosures of both runs, the domain and the metric.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget, Finds
from isonomy.certificates.gaps import Across, FeatureGap
from isonomy.certificates.protocol import Nearby, Tier, register
from isonomy.certificates.settling import target_upper
from isonomy.errors import UnsupportedOperationError
from isonomy.population.outcome import favourable_places
from isonomy.problem import Problem
from isonomy.progress import Progress
from isonomy.search.branch import Limits
from isonomy.search.trees import CROSSINGS, PARTS, find_crossing, find_gap, pair_in
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Similarity, refused
from isonomy.trees.model import TreeModel
from isonomy.trees.witnesses import attaining, most_unequal
from isonomy_verify.gaps import fits, moves_of, turns
from isonomy_verify.heads import Head
from isonomy_verify.models import Known
from isonomy_verify.regions import Index
from isonomy_verify.tree_bounds import TREE_PARTS, TreeBounds
from isonomy_verify.tree_crossing import Crossing, Halving
from isonomy_verify.tree_reach import TreeReach
from isonomy_verify.trees import margin_errors

DECIMALS = 6
"""The finest precision of a number that witnesses keep to, in decimals of its raw units."""

TURNS, TRIED, FEW, CHOICES = 2, 5, 3, 8
"""Of the search for people who move, where grids do not say all: how often each number moves alone, people tried,
about how many numbers these change at once; and the choices of categories up to which grids are asked for all."""

MORE = 32
"""Times more parts than usual, by which open decisions and gaps are worked on."""


class TreeTier(Tier):
    """The kernel's bounds, ``kernel``, for a problem about trees; all tiers are one."""

    nested, fine = True, 16

    def __init__(self, problem: Problem, tier: str, float32_run: bool) -> None:
        model, outcome = problem.model, problem.outcome
        assert isinstance(model, TreeModel)
        if float32_run and model.forest is not None and model.forest.unit < 2.0**-24:
            raise UnsupportedOperationError(
                f"arithmetic='float32' covers libraries that add leaves in float32; '{model.name}' adds them in "
                "float64, and converted to float32 its trees would send people near thresholds elsewhere. Leave "
                "arithmetic at 'float64'; of a conversion ask with the converted file."
            )
        places = favourable_places(outcome)
        one = places[0] if len(places) == 1 and places[0] in (0, 1) else 1
        self.problem, self.model, self.size = problem, model, 256
        self.head = Head(model.head, model.classes, outcome.threshold, float32_run, one)
        error = margin_errors(self.head, model.run_error) if float32_run else np.zeros(1)
        self.kernel = TreeBounds(model.trees, self.head, problem.similarity.kernel, error)
        self.price = float(len(model.trees.coordinate))

    def chunk(self, x: FloatArray) -> Known:
        """Return the kernel's bounds for the rows of ``x``."""
        with refused():
            return self.kernel.chunk(x)

    def kernel_bounds(self) -> TreeBounds:
        """Return the kernel's bounds."""
        return self.kernel

    def reach(self, ground: Metric) -> TreeReach:
        """Return the kernel's bounds over balls of a ground cost."""
        with refused():
            return self.kernel.reach(ground.form, self.fine // Tier.fine)

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Return who attains the extremes of the margins, each checked; no search."""
        return self._attained(self.kernel, x)

    def nearby(self, x: FloatArray) -> Nearby:
        """Return a search for the cell in reach with the largest bound, exact where grids are small enough."""
        return lambda rows, ball, budget: self._surroundings(np.array(x[rows]), ball, budget)

    def one_score(self) -> None:
        """Refuse ensembles with several scores, of which there are no gaps."""
        if len(self.kernel.cells.base) > 1:
            name = self.problem.model.name
            raise UnsupportedOperationError(f"'{name}' has several scores; gaps are of two classes or one number.")

    def gap(self, parts: int = PARTS, deadline: float = math.inf) -> FeatureGap:
        """Return how far the free coordinates alone, all others equal, move the score and the output of any possible
        person."""
        self.one_score()
        kernel, problem = self.kernel, self.problem
        form = kernel.similarity.form
        if len(form.root) or (~form.free & ((form.tolerance > 0) | (form.relative > 0))).any():
            raise UnsupportedOperationError(
                f"'{problem.model.name}' has bounds over all pairs of people where features take any value and all "
                "else is equal: take Counterparts without tolerances, or certify_local for given people."
            )
        with refused():
            result = find_gap(kernel.cells, kernel.cells.axes_of(form.free), 0, parts, deadline)
        score, output = kernel.moved(result.upper) if len(result.gap.fields.value) else (0.0, 0.0)
        pair = None if result.pair is None else problem.domain.filled(result.pair)
        reached = None if pair is None else moves_of(kernel, pair)
        cover: Halving | None = None
        flip = pair if pair is not None and turns(kernel, pair) else None
        if flip is None and kernel.head.decides and parts and result.cell is not None:
            flip, cover = self._sides(kernel.crossing(form.free), [result.cell], CROSSINGS)
            flip = flip if flip is not None and turns(kernel, flip) else None
        singles = {name: slice(j, j + 1) for j, name in enumerate(problem.domain.names)}
        places = singles if problem.schema is None else problem.schema.slices
        names = tuple(name for name, place in places.items() if form.free[place].any())
        least, lower = reached or (0.0, 0.0)
        pair = pair if reached else None
        ends = result.hint, problem, bool((kernel.error > margin_errors(kernel.head, kernel.cells.sums.error)).any())
        return FeatureGap(names, score, least, output, lower, result.parts, pair, flip, cover, *ends)

    def across(self, below: float, above: float, parts: int) -> Across:
        """Return whether the free coordinates alone take any possible person's score across a margin."""
        pair, cover = self._sides(self.kernel.crossing(self.kernel.similarity.form.free, below, above), [], parts)
        if pair is not None and fits(self.kernel, pair):
            at = self.kernel.enclose(pair)
            if at.low[0, 0] >= above and at.high[1, 0] <= below:
                return Across("shown", pair)
        return Across("open" if cover is None else "impossible", None)

    def _sides(self, crossing: Crossing, starts: list[Index], parts: int) -> tuple[FloatArray | None, Halving | None]:
        """Return two people who meet a demand, or what shows that there are none."""
        result = find_crossing(crossing, starts, parts)
        if result is None or isinstance(result, Halving):
            return None, result
        return self.problem.domain.filled(pair_in(self.kernel.cells, crossing.pairs, result)), None

    def _surroundings(self, x: FloatArray, ball: Similarity, budget: AttackBudget) -> FloatArray:
        """Return people (n, radii, m) around each row, within a ball and smaller ones: those whose bound is the largest
        in grids; the last one is the best of all candidates."""
        rng, domain, radius = np.random.default_rng(budget.seed), ball.kernel.domain, ball.kernel.delta
        reach, step = self.kernel.reach(ball.kernel.form, self.fine // Tier.fine), self._precision(x)
        still = ball.kernel.count(x) > CHOICES
        radii = [radius / 2**k for k in range(6, 3, -1)]
        radii += [radius * 2.0 ** (-k / self.fine) for k in range(3 * self.fine, -1, -1)]
        with refused():
            people, value, whole = most_unequal(reach, x, radii, step, still=still)
        rows = np.flatnonzero(~whole[:, -1] | still)
        numbers = np.flatnonzero(domain.numeric & self._tested)
        for free in np.tile(rng.permutation(numbers), TURNS) if len(rows) else ():  # all but one number stay
            start = people[rows, rng.integers(len(radii) - self.fine, len(radii), len(rows))]
            low, high = start - x[rows], start - x[rows]
            low[:, free], high[:, free] = -np.inf, np.inf
            with refused():
                tried, there, _ = most_unequal(reach, x[rows], radii, step, (low, high), still)
            better = there > value[rows]
            i, k = np.nonzero(better)
            people[rows[i], k], value[rows[i], k] = tried[better], there[better]
        at = value.argmax(1)
        best, upper = people[np.arange(len(x)), at][rows], value.max(1)[rows]
        for _ in range(TRIED if len(rows) else 0):
            tried = self._moved(x[rows], best, ball, rng)
            inside = domain.contains(tried) & (ball.kernel.form.distance_upper(x[rows], tried) <= radius)
            there = np.full(len(rows), -1.0)
            there[inside] = self.chunk(np.ascontiguousarray(tried[inside])).upper
            better = there > upper
            best[better], upper[better] = tried[better], there[better]
        people[rows, -1] = best
        flat, own = people.reshape(-1, x.shape[1]), np.repeat(x, len(radii), axis=0)
        inside = domain.contains(flat) & (ball.kernel.form.distance_upper(own, flat) <= radius)
        return np.where(inside[:, None], flat, own).reshape(people.shape)

    @cached_property
    def _tested(self) -> NDArray[np.bool_]:
        """Return which coordinates trees test."""
        tested = np.zeros(self.problem.domain.width, dtype=bool)
        tested[self.model.trees.coordinate[self.model.trees.coordinate >= 0]] = True
        return tested

    def _moved(self, x: FloatArray, start: FloatArray, ball: Similarity, rng: np.random.Generator) -> FloatArray:
        """Return random people (n, m) around ``start``, about within a ball around ``x``."""
        domain, form, radius, n = ball.kernel.domain, ball.kernel.form, ball.kernel.delta, len(x)
        tested = self._tested
        numbers = np.flatnonzero(domain.numeric & tested)
        y, step = start.copy(), np.zeros_like(x)
        step[:, numbers] = rng.normal(size=(n, len(numbers))) * (
            rng.random((n, len(numbers))) < FEW / (len(numbers) + 1)
        )
        size = form.distance_upper(x, x + step)
        y += step * (radius * rng.random(n) / np.where(size > 0, size, 1.0))[:, None]
        blocks = [(a, b) for a, b in domain.blocks if tested[a]]
        if blocks:
            which, some = rng.integers(len(blocks), size=n), rng.random(n) < 0.5
            for k, (a, b) in enumerate(blocks):
                rows = np.flatnonzero(some & (which == k))
                state = rng.integers(max(2, b - a), size=len(rows))
                y[rows, a:b] = state[:, None] if b - a == 1 else np.eye(b - a)[state]
            dear = form.distance_upper(x, np.where(domain.numeric, x, y)) > radius
            y[dear] = np.where(domain.numeric, y[dear], start[dear])
        for _ in range(8):  # back towards x, whole numbers step by step
            y = np.clip(y, domain.low, domain.high)
            if domain.integer.any():
                whole = np.trunc((y - x) * domain.unit + np.sign(y - x) * 1e-9) / domain.unit
                y = domain.snap(np.where(domain.integer, x + whole, y))
            y = domain.filled(y)
            far = form.distance_upper(x, y) > radius
            if not far.any():
                break
            y[far] = np.where(domain.numeric, x[far] + 0.7 * (y[far] - x[far]), y[far])
        return y

    def close_gaps(
        self, x: FloatArray, upper: FloatArray, finds: Finds, limits: Limits, began: float, tick: Progress
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Reduce upper bounds by more parts of branch and bound, where they do not meet finds."""
        upper, more = upper.copy(), self._with_parts(limits.nodes if math.isfinite(limits.nodes) else None)
        for start in range(0, len(x), self.size):
            rows = start + np.flatnonzero((upper > target_upper(finds.lower, limits))[start : start + self.size])
            if len(rows):
                some = np.ascontiguousarray(x[rows])
                upper[rows] = np.minimum(upper[rows], more.chunk(some).upper)
                _merge(finds, rows, self._attained(more, some))
            tick(min(start + self.size, len(x)), len(x))
        kept = [
            self.kernel.keeps(np.ascontiguousarray(x[k : k + 4096]), upper[k : k + 4096])
            for k in range(0, len(x), 4096)
        ]
        return upper, np.concatenate(kept)

    def decide(self, x: FloatArray, certified: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Settle open decisions by more parts."""
        rows = np.flatnonzero(~certified & ~finds.flips)
        if len(rows):
            more, some = self._with_parts(nodes), np.ascontiguousarray(x[rows])
            certified[rows] |= more.chunk(some).kept
            _merge(finds, rows, self._attained(more, some))

    def _with_parts(self, nodes: float | None) -> TreeBounds:
        parts = MORE * TREE_PARTS if nodes is None else max(1, int(min(nodes, 2**40)))
        return TreeBounds(
            self.model.trees, self.head, self.kernel.similarity, self.kernel.error, self.kernel.size, parts
        )

    def _attained(self, bounds: TreeBounds, x: FloatArray) -> Finds:
        """Return, of the people who attain extremes, the one treated most differently and one decided otherwise."""
        exact, own = replace(self.head, run_unit=False), np.arange(len(x))
        with refused():
            extremes = bounds.extremes(x)
            people = attaining(bounds, x, extremes, self._precision(x)).reshape(len(x), -1, x.shape[1])
            similar = self._similar(x, people)
            if not similar.all():  # the precision of numbers may lead out of a ball
                people[~similar] = attaining(bounds, x, extremes).reshape(people.shape)[~similar]
                similar = self._similar(x, people)
        at, lower, other = bounds.enclose(x), np.zeros(len(x)), np.array(x)
        flips, turned = np.zeros(len(x), dtype=bool), np.array(x)
        mine = exact.decision(at) if exact.decides else np.full(len(x), -1)
        for place in range(people.shape[1]):
            rows = own[similar[:, place]]
            y = np.ascontiguousarray(people[rows, place])
            there = bounds.enclose(y)
            change = exact.attained(type(at)(at.low[rows], at.high[rows]), there)
            better = change > lower[rows]
            lower[rows[better]], other[rows[better]] = change[better], y[better]
            theirs = exact.decision(there) if exact.decides else mine[rows]
            turns = (mine[rows] >= 0) & (theirs >= 0) & (mine[rows] != theirs) & ~flips[rows]
            flips[rows[turns]], turned[rows[turns]] = True, y[turns]
        return Finds(lower, other, flips, turned)

    def _similar(self, x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
        """Return which people ``y`` (n, k, m) are possible and similar to those (n, m) of ``x``."""
        similarity, whole = self.kernel.similarity, np.repeat(x, y.shape[1], axis=0)
        flat = y.reshape(whole.shape)
        near = similarity.domain.allows(whole, flat) & (similarity.form.distance_upper(whole, flat) <= similarity.delta)
        return np.asarray(near.reshape(y.shape[:2]))

    def _precision(self, x: FloatArray) -> FloatArray:
        """Return the steps (m,) in raw units that the numbers of individuals keep to; 0 where any value may be one, and
        of whole numbers, whose cells end at these."""
        domain = self.problem.domain
        step = np.zeros(domain.width)
        whole = domain.integer if domain.kind == "realizable" else np.zeros(domain.width, dtype=bool)
        for j in np.flatnonzero(domain.numeric & ~whole):
            raw = x[:, j] * domain.unit[j] + domain.origin[j]
            for decimals in range(DECIMALS + 1):
                if (np.abs(np.round(raw, decimals) - raw) <= 1e-9 * (1 + np.abs(raw))).all():
                    step[j] = 10.0**-decimals
                    break
        return step


register("trees", TreeTier)


def _merge(finds: Finds, rows: NDArray[np.intp], more: Finds) -> None:
    """Put finds of some rows in the place of those that are less."""
    better = more.lower > finds.lower[rows]
    finds.lower[rows[better]], finds.counterpart[rows[better]] = more.lower[better], more.counterpart[better]
    turns = more.flips & ~finds.flips[rows]
    finds.flips[rows[turns]], finds.flip_counterpart[rows[turns]] = True, more.flip_counterpart[turns]
