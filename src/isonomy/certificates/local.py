"""Local certificates: bounds of the largest change of output within the similar set of each individual.

Problem, for each individual ``x``:  ``I(x, δ) = max { max_c |f_c(x) − f_c(y)| : y in X, d(x, y) ≤ δ }``.

**Soundness.** ``upper`` comes from enclosures over regions that cover the similar set, ``lower`` from a pair that was
checked and evaluated again; so ``lower ≤ I(x, δ) ≤ upper`` in real arithmetic whatever the search did. With
``arithmetic="float32"`` ``upper`` besides covers the change between any two float32 runs of the original layers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, at_least, at_most, decimals_of_bound, weighted
from isonomy.attacks import AttackBudget, Finds, attack_budget
from isonomy.brief import brief
from isonomy.certificates import enumeration_tier as enumeration_tier  # which registers itself
from isonomy.certificates import found_tier as found_tier  # which registers itself
from isonomy.certificates import tree_tier as tree_tier  # which registers itself
from isonomy.certificates.assembled import Assembled
from isonomy.certificates.consistency import HERE, Counterexamples, compare_people
from isonomy.certificates.network_tier import Bounds, chunk_rows
from isonomy.certificates.options import (
    SEARCH,
    Arithmetic,
    LocalKeywords,
    SearchOptions,
    ShownProgress,
    Tier,
    check_keywords,
    options_of,
)
from isonomy.certificates.people import in_memory, pose
from isonomy.certificates.protocol import Tier as TierBounds
from isonomy.certificates.protocol import tier_for
from isonomy.errors import ParameterError, template
from isonomy.given import FINITE, choice, instance, number
from isonomy.model import Model
from isonomy.parallel import in_parallel
from isonomy.population import Domain, DomainKind, Population
from isonomy.population.outcome import rule
from isonomy.problem import Problem, unbounded
from isonomy.progress import Progress, shown
from isonomy.search import checked_limits
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import mean_down, mean_up
from isonomy_verify.individuals import CERTIFIED, DECISIONS, FLIPPABLE
from isonomy_verify.similar import SAMPLE

__all__ = [
    "Arithmetic",
    "Bounds",
    "LocalCertificate",
    "Tier",
    "Witnesses",
    "block_rows",
    "bound_blocks",
    "certify_local",
    "chunk_rows",
    "decisions",
    "verdicts",
]

UNDECIDED = DECISIONS.index("undecided")

BLOCKS = 4.0
"""Regions per individual from which on fewer individuals than ``Tier.size`` are bounded at a time."""


@dataclass(frozen=True, eq=False)
class LocalCertificate:
    """Proved and attained violations of each individual, in the order of the table."""

    upper: FloatArray
    lower: FloatArray
    witnesses: Witnesses
    decided: NDArray[np.uint8]  # what becomes of each decision, by its place in DECISIONS
    prediction: FloatArray  # outputs of the network
    weights: FloatArray
    tier: str
    arithmetic: str
    problem: Problem = field(repr=False)
    counterexamples: Counterexamples = field(default=HERE, repr=False)  # where contradictions are saved

    __repr__ = brief

    def __post_init__(self) -> None:
        pairs = self.witnesses
        compare_people(
            self.problem, self.x, self.lower, self.upper, self.decided == CERTIFIED, pairs.flips,
            (pairs.counterpart, pairs.flip_counterpart), self.counterexamples, tier=self.tier,
            arithmetic=self.arithmetic, threshold=self.threshold, favourable=list(self.favourable),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.upper)

    @property
    def x(self) -> FloatArray:
        """Return the individuals (n, m)."""
        return self.witnesses.individual

    @property
    def decision(self) -> NDArray[np.str_]:
        """Return the decisions (n,): certified, flippable, undecided, or none for a regression without a cut-off."""
        return np.array(DECISIONS)[self.decided]

    @property
    def decision_counts(self) -> dict[str, int]:
        """Return how many individuals have each decision; those of none are left out."""
        counts = np.bincount(self.decided, minlength=len(DECISIONS)).tolist()
        return {name: count for name, count in sorted(zip(DECISIONS, counts, strict=True)) if count}

    @property
    def delta(self) -> float:
        """Return the largest distance of similar people."""
        return self.problem.delta

    @property
    def favourable(self) -> tuple[str, ...]:
        """Return the names of the favourable outcomes, if any."""
        return self.problem.outcome.favourable

    @property
    def threshold(self) -> float | None:
        """Return the cut-off of decisions, if there is one: of the favourable class, or of a regression's number."""
        return self.problem.outcome.threshold

    @property
    def mean_upper(self) -> float:
        """Return the weighted mean of ``upper``, rounded up."""
        return mean_up(self.upper, self.weights)

    @property
    def mean_lower(self) -> float:
        """Return the weighted mean of ``lower``, rounded down."""
        return mean_down(self.lower, self.weights)

    def __str__(self) -> str:
        regression = self.problem.model.head == "regression"
        mean = decimals_of_bound(self.mean_upper, regression)
        most = decimals_of_bound(float(self.upper.max()), regression)
        kinds = [f"{self.decision_counts.get(kind, 0):,} {kind}" for kind in ("certified", "flippable", "undecided")]
        who = f"{len(self):,} individual{'s' * (len(self) != 1)}{weighted(self.weights)}"
        what = rule(self.problem.outcome)
        decided = "" if "none" in self.decision_counts else f"\nDecided is {what}.\nDecisions: {', '.join(kinds)}."
        return self.problem.model.conditional(
            f"{who}: average largest change at most {at_most(self.mean_upper, mean)}, found at least "
            f"{at_least(self.mean_lower, mean)}; for one of them at most {at_most(float(self.upper.max()), most)}, "
            f"found at least {at_least(float(self.lower.max()), most)}.{decided}"
        )

    def verdict(self, epsilon: float) -> NDArray[np.str_]:
        """Return ``certified`` (upper ≤ ε), ``violated`` (lower > ε) or ``undecided`` (n,)."""
        epsilon = number("epsilon", epsilon, "a finite number >= 0", high=FINITE)
        return verdicts(self.lower, self.upper, epsilon)

    def movement(self) -> pd.DataFrame:
        """Return for each feature whether and how far the similar sets can move it."""
        from isonomy.certificates.movement import movement

        return movement(self.problem, self.x)


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The pairs that attain ``lower``: row ``i`` is individual ``i`` and its counterpart.

    ``flips`` marks individuals with a similar one of another decision, which is ``flip_counterpart``.
    """

    individual: FloatArray
    counterpart: FloatArray | Assembled
    value: FloatArray
    flips: NDArray[np.bool_]
    flip_counterpart: FloatArray | Assembled
    problem: Problem = field(repr=False)

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.value)

    def frame(self, row: int, flip: bool = False) -> pd.DataFrame:
        """Return one pair side by side in raw units, features that differ marked."""
        other = self.flip_counterpart if flip else self.counterpart
        pair = self.problem.raw(np.stack([self.individual[row], other[row]]))
        pair.index = pd.Index(["individual", "counterpart"])
        table = pair.T
        table["differs"] = np.where(table["individual"].map(str) != table["counterpart"].map(str), "*", "")
        return table

    def __getitem__(self, row: int) -> str:
        return f"violation {at_least(float(self.value[row]), 6)}\n{self.frame(row).to_string()}"

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


def certify_local(
    model: Model | Problem,
    people: Population | npt.ArrayLike | Any,
    metric: Metric | None = None,
    delta: float | None = None,
    *,
    epsilon: float | None = None,
    predict: bool = True,
    progress: ShownProgress = "auto",
    search: SearchOptions = SEARCH,
    counterexamples: Counterexamples = HERE,
    **keywords: Unpack[LocalKeywords],
) -> LocalCertificate:
    """Bound the local violation of every individual from above and from below: the largest change of the output of
    ``model`` within ``delta`` in the ``metric``.

    ``people`` is a :class:`Population` (its domain and weights are used); with a ``schema`` a pandas, Polars or Arrow
    table; or an array of coordinates with ``domain=``, which without one means all of ``R^m``. ``delta``, ``schema``,
    ``domain``, ``favourable``, ``threshold`` and ``max_branches`` are as for :meth:`Problem.of`; a :class:`Problem` in
    the place of the model has them all. The keywords ``tier``, ``attack``, ``decide``, ``arithmetic``, ``time_limit``,
    ``gap`` and ``max_nodes`` are those of :class:`SearchOptions`, and may be given as ``search`` together.

    With ``tier="paper"`` the domain is unbounded, whatever domain a population has; a bounded ``domain=`` beside it is
    refused. ``tier="exact"`` stops for an individual with ``epsilon`` at its verdict (``upper <= epsilon`` or ``lower >
    epsilon``); it finds pairs on the way, also without ``attack``, and decides what is left open, as ``decide`` does.
    ``predict=False`` leaves ``prediction`` empty. ``progress`` is
    called with the individuals done and in all; ``counterexamples`` says where a contradiction would be saved.
    """
    check_keywords("certify_local", keywords, LocalKeywords)
    search = options_of(search, keywords)
    tier, arithmetic, decide = search.tier, search.arithmetic, search.decide
    choice("tier", tier, Tier)
    choice("arithmetic", arithmetic, Arithmetic)
    instance("decide", decide, bool, "True or False")
    budget = attack_budget(search.attack)
    limits, began = checked_limits(search.time_limit, search.gap, epsilon, search.max_nodes), time.monotonic()
    if tier == "paper":
        _check_paper_domain(keywords.get("domain"))
    own = model.schema if isinstance(model, Problem) and hasattr(people, "columns") else keywords.get("schema")
    people = in_memory(people, own)
    problem = pose(model, people, metric, delta, keywords)
    problem = _on_paper(problem) if tier == "paper" else problem
    x, weights = (people.x, people.weights) if isinstance(people, Population) else (people, np.ones(len(people)))
    problem.check(x)
    bounds = tier_for(problem, tier, arithmetic == "float32")
    # Without a search each individual is its own counterpart, and the table need not be copied.
    searched = budget is not None or decide or tier == "exact"
    with shown("Certifying", progress) as tick:
        upper, certified, finds = bound_blocks(bounds, x, budget, searched, tick)
        if tier == "exact":
            upper, settled = bounds.close_gaps(x, upper, finds, limits, began, tick)
            certified |= settled
        if (decide or tier == "exact") and bounds.head.decides:
            bounds.decide(x, certified, finds, search.max_nodes)
    decision = decisions(certified, finds.flips, bounds.head.decides)
    witnesses = Witnesses(x, finds.counterpart, finds.lower, finds.flips, finds.flip_counterpart, problem)
    prediction = problem.model(x) if predict else np.empty((len(x), 0))
    return LocalCertificate(
        upper, finds.lower, witnesses, decision, prediction, weights, tier, arithmetic, problem, counterexamples
    )


def bound_blocks(
    bounds: TierBounds,
    x: FloatArray,
    budget: AttackBudget | None = None,
    searched: bool = False,
    tick: Progress = lambda done, total: None,
) -> tuple[FloatArray, NDArray[np.bool_], Finds]:
    """Bound and attack individuals block by block; return upper bounds (n,), certified decisions (n,), and finds."""
    n = len(x)
    upper, certified = np.empty(n), np.empty(n, dtype=bool)
    lower, flips = np.zeros(n), np.zeros(n, dtype=bool)
    other, flip_other = (np.array(x), np.array(x)) if searched else (x, x)
    size = block_rows(bounds, x)

    def work(start: int) -> tuple[FloatArray, NDArray[np.bool_], Finds | None]:
        some = np.array(x[start : start + size])
        known = bounds.chunk(some)
        return known.upper, known.kept, None if budget is None else bounds.attack(some, budget, known)

    starts = range(0, n, size)
    for start, (bound, stays, some) in zip(starts, in_parallel(work, starts), strict=True):
        rows = slice(start, min(start + size, n))
        upper[rows], certified[rows] = bound, stays
        if some is not None:
            lower[rows], other[rows] = some.lower, some.counterpart
            flips[rows], flip_other[rows] = some.flips, some.flip_counterpart
        tick(rows.stop, n)
    return upper, certified, Finds(lower, other, flips, flip_other)


def block_rows(bounds: TierBounds, x: FloatArray) -> int:
    """Return how many individuals are bounded at a time: fewer where each has many regions, so that the bar moves and
    threads have enough to share."""
    many = bounds.problem.similarity.passes(x) if len(x) > SAMPLE else 1.0
    return max(1, min(bounds.size, int(BLOCKS * bounds.size / many)))


def decisions(certified: NDArray[np.bool_], flips: NDArray[np.bool_], decides: bool) -> NDArray[np.uint8]:
    """Return what becomes of decisions (n,), by places in :data:`DECISIONS`."""
    if not decides:
        return np.zeros(len(certified), dtype=np.uint8)
    return np.where(certified, CERTIFIED, np.where(flips, FLIPPABLE, UNDECIDED)).astype(np.uint8)


def verdicts(lower: FloatArray, upper: FloatArray, epsilon: float) -> NDArray[np.str_]:
    """Return the verdicts (n,) of bounds of individuals against ε."""
    return np.where(lower > epsilon, "violated", np.where(upper <= epsilon, "certified", "undecided"))


def _check_paper_domain(domain: Domain | DomainKind | None) -> None:
    """Refuse a domain other than the unbounded one, the paper's only one."""
    kind = domain.kind if isinstance(domain, Domain) else domain
    if kind not in (None, "unbounded"):
        raise ParameterError(template("domain", "left out, or unbounded, with tier='paper'", kind))


def _on_paper(problem: Problem) -> Problem:
    """Return the problem on the unbounded domain."""
    if problem.domain.kind == "unbounded":
        return problem
    space = unbounded(problem.domain.width) if problem.schema is None else problem.schema.domain("unbounded")
    return replace(problem, domain=space)
