"""Global certificates: how differently can any two similar individuals of a domain be treated?

Problem: ``sup { max_c |f_c(x) − f_c(y)| : x, y in X, d(x, y) ≤ δ }``, for small networks. Branch and bound over pairs
(:mod:`isonomy_verify.cutting`): the pair of boxes with the largest bound is cut, people in the most promising parts are
attacked (:mod:`isonomy.attacks`), until bounds and finds meet or time or parts are used up. Of tree ensembles it is the
gap of features that take any value, everything else equal (:class:`isonomy.certificates.gaps.FeatureGap`).

**Soundness.** ``upper`` is the largest bound of the parts, which cover all similar pairs of the domain whenever the
search stops; ``lower`` is attained by a pair that was checked and evaluated again.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from isonomy.arithmetic import FloatArray, at_least, at_most, parameter
from isonomy.attacks import AttackBudget
from isonomy.brief import brief
from isonomy.certificates.certificate import judge
from isonomy.certificates.consistency import compare_means
from isonomy.certificates.local import Arithmetic, Witnesses
from isonomy.certificates.protocol import Tier, tier_for
from isonomy.errors import ParameterError, template
from isonomy.given import choice, whole
from isonomy.model import Model
from isonomy.parallel import one_thread
from isonomy.population import Domain, Population, Schema
from isonomy.population.outcome import NO_OUTCOME
from isonomy.problem import Problem
from isonomy.progress import Progress, shown
from isonomy.search import Limits, checked_limits
from isonomy.search.pairs import people_in, snapped_members
from isonomy.similarity.metric import Metric, checked_delta
from isonomy_verify.cutting import Parts
from isonomy_verify.tree_global import CUTS

SAMPLE = 256
"""People attacked before the search begins, as far as the time allows."""

PORTION = 64
"""Individuals of this sample that are attacked at a time."""

ATTACKED = 12
"""Individuals attacked in each round, and as many near the worst pair so far."""


@dataclass(frozen=True, eq=False)
class GlobalCertificate:
    """Bounds, proved and attained, for all similar pairs of a domain, and the worst pair.

    ``decided`` is the share of the domain, by volume of the ranges and number of categories and whole numbers, in which
    every violation is proved to be at most ``epsilon`` (without one: at most ``lower + gap``). It is a lower bound: an
    individual in several parts counts as open as soon as one of them is. ``parts`` counts the parts that were bounded.
    """

    upper: float
    lower: float
    decided: float
    witness: Witnesses
    epsilon: float | None
    gap: float
    delta: float
    parts: int
    seconds: float
    arithmetic: str
    problem: Problem = field(repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        sides = {"individual": self.witness.individual, "counterpart": self.witness.counterpart}
        pair = {name: side[0].tolist() for name, side in sides.items() if len(side)}
        what = "The output between two similar individuals of the domain"
        attained = np.append(self.lower, self.witness.value)
        compare_means(what, attained, self.upper, self.problem, arithmetic=self.arithmetic, **pair)

    @property
    def verdict(self) -> str:
        """Return ``certified`` (upper ≤ ε), ``violated`` (lower > ε) or ``undecided``; ``none`` without ε."""
        if self.epsilon is None:
            return "none"
        return judge(self.lower, self.upper, self.epsilon)

    def __str__(self) -> str:
        verdict = "" if self.epsilon is None else f", {self.verdict} at epsilon {parameter(self.epsilon)}"
        pair = "certificate.witness[0] shows the pair." if len(self.witness) else "Nobody was found."
        bounds = f"between {at_least(self.lower, 6)} and {at_most(self.upper, 6)}{verdict}"
        share = at_least(100 * self.decided, 1)
        return f"{bounds}; {share} % of the domain decided in {self.seconds:.1f} s.\n{pair}"


def certify_everywhere(
    model: Model,
    metric: Metric,
    delta: float,
    domain: Domain | Schema | Population,
    *,
    epsilon: float | None = None,
    time_limit: float | None = 60.0,
    max_nodes: int | None = None,
    gap: float = 1e-4,
    arithmetic: Arithmetic = "float64",
    seed: int = 0,
    progress: Progress | Literal["auto"] | None = "auto",
) -> GlobalCertificate:
    """Bound from above and from below the largest difference between the outputs of ``model`` for two individuals of
    ``domain`` within ``delta`` of each other in the ``metric``.

    Of a tree ensemble similar people must be equal but for features that take any value (:class:`Counterparts` without
    tolerances), and ``decided`` is all or nothing. ``domain`` needs a finite range for every coordinate; a
    :class:`Schema` or :class:`Population` brings its own, and the witness is then shown in raw units. The search stops
    when ``upper - lower <= gap``, with ``epsilon`` at a verdict (``upper <= epsilon`` or ``lower > epsilon``), after
    ``time_limit`` seconds, or when ``max_nodes`` parts were bounded (``None``: no limit; the cut that reaches it is
    finished). The bounds hold at any time. Without a time
    limit the same question has the same answer, bit for bit; ``seed`` draws the first sample. ``arithmetic`` is as
    for :func:`isonomy.certify_local`; ``progress`` is called with the share of the domain that is decided.
    """
    began = time.monotonic()
    limits = checked_limits(time_limit, gap, epsilon, max_nodes)
    choice("arithmetic", arithmetic, Arithmetic)
    seed = whole("seed", seed)
    problem = _problem(model, metric, checked_delta(delta), domain)
    deadline = began + limits.seconds
    tier = tier_for(replace(problem, outcome=NO_OUTCOME), "tight", arithmetic == "float32")  # of any decision
    with one_thread(), shown("Certifying everywhere", progress) as tick:
        if tier.has_gap:
            return _by_gap(tier, problem, limits, deadline, arithmetic)
        search = _PairSearch(problem, limits, tier, seed, deadline)
        while search.can_continue and time.monotonic() < deadline:
            search.round()
            tick(int(1000 * search.closed_share), 1000)
    witness = search.witness()
    return GlobalCertificate(
        search.upper, search.lower, search.decided(), witness, limits.epsilon, limits.gap, problem.delta,
        search.parts_bounded, time.monotonic() - began, arithmetic, problem,
    )  # fmt: skip


def _problem(model: Model, metric: Metric, delta: float, domain: Domain | Schema | Population) -> Problem:
    """Return the problem on a domain with finite ranges."""
    schema = domain if isinstance(domain, Schema) else domain.schema if isinstance(domain, Population) else None
    space = domain.domain("realizable") if isinstance(domain, Schema) else domain
    space = space.domain if isinstance(space, Population) else space
    if not isinstance(space, Domain):
        raise ParameterError(template("domain", "a Domain, a Schema or a Population", type(domain).__name__))
    # An unbounded domain is all of R^m, whatever ranges it was given.
    limited = np.isfinite(space.low) & np.isfinite(space.high) & (space.kind != "unbounded")
    if not limited.all():
        row = int(np.flatnonzero(~limited)[0])
        raise ParameterError(
            f"'domain' must have a finite range for every coordinate, and '{space.names[row]}' has none: "
            "give the feature a low and a high in the schema, and use the relaxed or realizable domain."
        )
    return Problem.of(model, metric, delta, space, schema)


def _by_gap(tier: Tier, problem: Problem, limits: Limits, deadline: float, arithmetic: str) -> GlobalCertificate:
    """Return the certificate of a gap of features; of single parts of the domain nothing is known."""
    began = time.monotonic()
    gap = tier.gap(int(min(limits.nodes, CUTS)), deadline)
    pair = np.zeros((0, problem.domain.width)) if gap.pair is None else gap.pair
    x, y = pair[:1], pair[1:]
    witness = Witnesses(x, y, np.full(len(x), gap.lower), np.zeros(len(x), dtype=bool), x, problem)
    decided = gap.upper <= (gap.lower + limits.gap if limits.epsilon is None else limits.epsilon)
    return GlobalCertificate(
        gap.upper, gap.lower, float(decided), witness, limits.epsilon, limits.gap, problem.delta, gap.parts,
        time.monotonic() - began, arithmetic, problem,
    )  # fmt: skip


class _PairSearch:
    """Branch and bound over pairs: open parts by their bounds, and the tree of all parts for the decided share."""

    def __init__(self, problem: Problem, limits: Limits, tier: Tier, seed: int, deadline: float) -> None:
        self.problem, self.limits = problem, limits
        self.tier = tier
        self.cutting, self.head = self.tier.pairs(), self.tier.head
        self.rng = np.random.default_rng(seed)
        self.lower, none = 0.0, np.zeros((0, problem.domain.width))
        self.pair = none, none  # the worst pair so far, each side a table of one row
        root, _ = self.cutting.narrowed(self.cutting.everybody())
        bound = min(float(self.cutting.bound(root)[0]), self.head.largest)
        self.parent, self.share, self.value = [-1], [1.0], [bound]
        self.open: list[tuple[float, int, Parts]] = [(-bound, 0, root)]
        self.closed = 0.0
        self.closed_share = 0.0
        self.size = self.tier.pair_size
        self.domain_ends = root.x_low[0], root.x_high[0]
        sample = self._sample()
        for start in range(0, len(sample), PORTION):
            if start == 0 or time.monotonic() < deadline:
                self._attack(sample[start : start + PORTION])

    @property
    def upper(self) -> float:
        """Return the largest bound of any part."""
        return max(self.closed, -self.open[0][0] if self.open else 0.0)

    @property
    def parts_bounded(self) -> int:
        """Return the number of parts bounded so far."""
        return len(self.value)

    @property
    def can_continue(self) -> bool:
        """Return whether a further cut could change the result."""
        epsilon = self.limits.epsilon
        if not self.open or self.parts_bounded >= self.limits.nodes or (epsilon is not None and self.lower > epsilon):
            return False
        top = -self.open[0][0]
        return top > self._target_upper() and top > self.closed

    def _target_upper(self) -> float:
        """Return the bound at which a part need not be cut."""
        return max(self.lower + self.limits.gap, self.limits.epsilon or 0.0)

    def round(self) -> None:
        """Cut the parts with the largest bounds, bound their children, attack individuals in them."""
        batch: list[Parts] = []
        where: list[int] = []
        for _ in range(self.size):
            full = self.parts_bounded + len(where) >= self.limits.nodes
            if full or not self.open or -self.open[0][0] <= self._target_upper():
                break
            bound, number, part = heapq.heappop(self.open)
            children = self.cutting.cut(part)
            if children is None:
                self._close(-bound, float(part.share[0]))
                continue
            batch.append(children)
            where += [number] * len(children)
        if not batch:
            return
        parts, alive = self.cutting.narrowed(Parts.join(batch))
        known = np.array([self.value[number] for number in where])
        value = np.zeros(len(parts))
        for start in range(0, len(parts), self.size):
            rows = np.flatnonzero(alive)[start : start + self.size]
            if len(rows):
                value[rows] = np.minimum(self.cutting.bound(parts[rows]), known[rows])
        top = np.argsort(-value)[:ATTACKED]
        inside = people_in(self.problem.domain, parts[top[value[top] > self.lower]], self.rng)
        self._attack(np.concatenate([inside, self._near_worst()]))
        for j, number in enumerate(where):
            self.parent.append(number)
            self.share.append(float(parts.share[j]))
            self.value.append(float(value[j]))
            if value[j] <= self._target_upper():
                self._close(float(value[j]), float(parts.share[j]))
            else:
                heapq.heappush(self.open, (-float(value[j]), len(self.value) - 1, parts[j : j + 1]))

    def _close(self, value: float, share: float) -> None:
        self.closed = max(self.closed, value)
        self.closed_share = min(1.0, self.closed_share + share)

    def decided(self) -> float:
        """Return the share of the domain in which no part is above ε, or without ε above ``lower + gap``."""
        threshold = self.limits.epsilon if self.limits.epsilon is not None else self.lower + self.limits.gap
        count = len(self.value)
        cut = np.zeros(count, dtype=bool)
        cut[[parent for parent in self.parent if parent >= 0]] = True
        undecided = np.where(~cut & (np.array(self.value) > threshold), self.share, 0.0)
        for number in range(count - 1, 0, -1):
            undecided[number] = min(undecided[number], self.share[number])
            undecided[self.parent[number]] += undecided[number]
        return float(np.clip(1.0 - undecided[0], 0.0, 1.0))

    # -- finds ---------------------------------------------------------------------------------------------------

    def _attack(self, x: FloatArray) -> None:
        """Attack the rows of ``x`` (n, m); take the best pair where it is larger than ``lower``."""
        if not len(x):
            return
        effort = AttackBudget(steps=10, restarts=0, branches=8)
        finds = self.tier.attack(x, effort)
        best = int(finds.lower.argmax())
        if finds.lower[best] > self.lower or not len(self.pair[0]):
            self.lower = max(self.lower, float(finds.lower[best]))
            self.pair = x[best : best + 1].copy(), finds.counterpart[best : best + 1].copy()

    def _sample(self) -> FloatArray:
        """Draw at most ``SAMPLE`` individuals from the whole domain."""
        low, high = self.domain_ends
        points = low + self.rng.random((SAMPLE, len(low))) * (high - low)
        box = Parts(points.copy(), points.copy(), points, points, np.ones(SAMPLE))
        for start, stop in self.problem.domain.blocks:
            if self.problem.domain.kind == "realizable":
                box.x_low[:, start:stop], box.x_high[:, start:stop] = low[start:stop], high[start:stop]
            elif stop - start > 1:
                shares = self.rng.dirichlet(np.ones(stop - start), SAMPLE)
                box.x_low[:, start:stop] = box.x_high[:, start:stop] = shares
        return people_in(self.problem.domain, box, self.rng)

    def _near_worst(self) -> FloatArray:
        """Draw individuals near the worst pair, at all scales."""
        if not len(self.pair[0]):
            return self.pair[0]
        low, high = self.domain_ends
        scale = 2.0 ** -self.rng.uniform(1, 24, (ATTACKED, 1))
        numbers = self.problem.domain.numeric
        x = np.tile(np.concatenate(self.pair), (ATTACKED // 2, 1))
        x = x + np.where(numbers, self.rng.normal(size=x.shape) * scale * (high - low), 0.0)
        return snapped_members(self.problem.domain, x)

    def witness(self) -> Witnesses:
        """Return the worst pair."""
        x, y = self.pair
        return Witnesses(x, y, np.full(len(x), self.lower), np.zeros(len(x), dtype=bool), x, self.problem)
