"""Distributional certificates: for the people we have seen and for every population close to them.

Problem: bound ``sup { E_Q[I(z, δ)] : W_p(P, Q) ≤ γ }``, ``P`` the (weighted) individuals. Upper side: profiles of
bounds with a moving centre (:mod:`isonomy.certificates.profiles`) and weak duality
(:mod:`isonomy.certificates.dual`). Lower side: a distribution within γ (:mod:`isonomy.certificates.worst_case`).

**Soundness.** ``upper`` is one outward-rounded pass over the profiles with some multiplier, valid for every multiplier;
``lower`` is the mean of checked violations over a distribution whose transport cost is at most γ. Neither depends on an
optimiser having converged. The statement about the population behind the sample is refused where the individuals are
known to have been used for fitting, or to be no independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.attacks import Effort, checked_effort
from isonomy.brief import brief
from isonomy.certificates.consistency import called, compare_means, compare_points, described, told
from isonomy.certificates.dual import Cells, Dual, check_radius
from isonomy.certificates.finite_sample import Clusters, PopulationBound, population_upper
from isonomy.certificates.local import Arithmetic, LocalCertificate, Witnesses, certify_local, chunk_rows
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import FURTHEST, Profiles, profiles
from isonomy.certificates.question import Question
from isonomy.certificates.worst_case import Points, WorstCase, search
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import FINITE, number, whole
from isonomy.networks.network import Network
from isonomy.population import Domain, DomainKind, Population
from isonomy.population.encoding import find_column
from isonomy.population.population import in_train
from isonomy.progress import Progress, shown
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.metric import Metric, overlaps
from isonomy.similarity.regions import MAX_BRANCHES
from isonomy_verify.arithmetic import up
from isonomy_verify.heads import Head

Verdict = Literal["certified", "violated", "undecided"]
DistributionalTier = Literal["interval", "tight"]
Arrays = dict[str, npt.NDArray[Any]]
Keep = Callable[[str, Callable[[], Arrays]], Arrays]
"""Gives what a stage, known by its name, computes: by computing it, or from an earlier run of the same question."""

CHUNKS = 8
"""That many chunks of people are one stage, kept when it is finished."""

_WITNESSES = ("counterpart", "value", "flips", "flip_counterpart")
_PROFILES = ("radii", "values", "largest")
_POINTS = ("owner", "person", "counterpart", "cost", "value")


@dataclass(frozen=True, eq=False)
class DistributionalCertificate:
    """What was proved of, and found in, the populations within γ of the individuals."""

    gamma: float
    order: float
    ground: Metric
    delta: float
    epsilon: float | None
    confidence: float | None
    tier: str
    arithmetic: str
    local: LocalCertificate
    profiles: Profiles
    points: Points
    refusal: str  # why nothing is said of the population behind the sample; "" when something is
    question: Question = field(repr=False)
    seed: int = 0
    clusters: Clusters | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        points, asked = self.points, {"gamma": self.gamma, "order": self.order, "tier": self.tier}
        asked |= {"arithmetic": self.arithmetic}

        def evidence(at: int) -> dict[str, Any]:
            pair = {"individual": self.question.x[points.owner[at]].tolist(), "person": points.person[at].tolist()}
            pair["counterpart"] = points.counterpart[at].tolist()
            return described(self.question) | asked | {"ground": metric_to_text(self.ground)} | pair

        profiles = self.profiles.radii, self.profiles.values, self.profiles.largest
        compare_points(points.owner, points.cost, points.value, profiles, evidence)
        self._compare(self.gamma, self.lower, self.upper)

    def _compare(self, gamma: float, lower: float, upper: float) -> None:
        asked = {"gamma": gamma, "order": self.order, "tier": self.tier, "arithmetic": self.arithmetic}
        what = f"Within {gamma:g} of the individuals a population's mean output"
        compare_means(what, lower, upper, self.question, **asked)

    @property
    def upper(self) -> float:
        """No population within γ has a mean violation above this."""
        return self.dual.bound(self.gamma).upper

    @property
    def multiplier(self) -> float | None:
        """The multiplier with which one pass over the profiles gives ``upper`` again."""
        return self.dual.bound(self.gamma).multiplier

    @property
    def lower(self) -> float:
        """The mean violation of ``worst_case``."""
        return self.worst_case.value

    @cached_property
    def worst_case(self) -> WorstCase:
        """The distribution behind ``lower``: atoms, masses, transport cost."""
        return self.points.worst(self.question, self.gamma, self.order)

    @property
    def grid_error(self) -> float:
        """How much of ``upper`` the grid of radii may have cost."""
        return self.dual.grid_error(self.gamma)

    @property
    def verdict(self) -> Verdict:
        """Against the certificate's own ε."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return judge(self.lower, self.upper, self.epsilon)

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Upper and lower for other γ, without new bounding work; tightest around the certificate's own."""
        gammas = list(gammas)
        for gamma in gammas:
            check_radius(self.order, gamma)
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        lower = [self.points.worst(self.question, gamma, self.order).value for gamma in gammas]
        for row in zip(gammas, lower, upper, strict=True):
            self._compare(*row)
        return pd.DataFrame({"gamma": gammas, "upper": upper, "lower": lower})

    def largest_gamma(self, epsilon: float) -> float | None:
        """Up to which shift no population exceeds ε, as far as the profiles show; None if even these people do."""
        return self.dual.largest_gamma(epsilon)

    @cached_property
    def population(self) -> PopulationBound:
        """The bound for populations within γ of the one that the individuals were drawn from."""
        if self.refusal:
            raise DataError(self.refusal)
        assert self.confidence is not None
        largest = self.profiles.largest
        return population_upper(
            self.cells, self.order, self.gamma, largest, self.confidence,
            adapted_across=True, seed=self.seed, clusters=self.clusters,
        )  # fmt: skip

    @property
    def population_upper(self) -> float:
        """With the stated confidence no population within γ of the true one has a mean violation above this."""
        return self.population.upper

    @property
    def population_verdict(self) -> Verdict:
        """Certified or undecided for the true population; a sample cannot show a violation of it here."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return "certified" if self.population_upper <= self.epsilon else "undecided"

    @cached_property
    def cells(self) -> Cells:
        """The cover that the dual works on."""
        return self.profiles.cells(self.question.weights)

    @cached_property
    def dual(self) -> Dual:
        """The dual of the transport problem over the profiles."""
        return Dual(self.cells, self.order)

    def __str__(self) -> str:
        shift = f"within {self.gamma:g} of these {len(self.question.x):,} individuals"
        found = f"an explicit one reaches {at_least(self.lower)}" if self.lower > 0 else "none was found to be unequal"
        return f"No population {shift} has a mean violation above {at_most(self.upper)}; {found}."


def certify(
    network: Network,
    people: Population | npt.ArrayLike,
    metric: Metric,
    delta: float,
    gamma: float,
    *,
    order: float = 1.0,
    ground: Ground = "l2",
    epsilon: float | None = None,
    confidence: float | None = None,
    cluster: str | npt.ArrayLike | None = None,
    max_cluster: int | None = None,
    domain: Domain | DomainKind | None = None,
    tier: DistributionalTier = "tight",
    attack: bool = True,
    decide: bool = False,
    arithmetic: Arithmetic = "float64",
    output_range: tuple[float, float] | None = None,
    rounds: int = 4,
    effort: Effort | None = None,
    max_branches: int = MAX_BRANCHES,
    seed: int = 0,
    progress: Progress | Literal["auto"] | None = "auto",
    keep: Keep = lambda name, compute: compute(),
) -> DistributionalCertificate:
    """Bound the mean violation of every population within Wasserstein distance ``gamma`` of the individuals.

    ``ground`` is the cost of turning one person into another: ``"l1"``, ``"l2"``, ``"linf"`` in fair coordinates, or a
    metric (the fair metric itself gives the paper's ``δ + φ``). ``order`` is any number from 1 to infinity, and so is
    ``gamma`` from 0: infinity asks about any population of possible individuals. ``epsilon`` asks for a verdict,
    ``confidence`` for a statement about the population behind the sample. That one takes
    individuals for independent draws; where they come in clusters that are drawn as wholes, such as households, name
    the column of the table that tells them apart, or give an array, as ``cluster``, and the most people that a cluster
    can have, known beforehand, as ``max_cluster``. ``rounds`` says how often profiles are improved where it matters.
    ``decide`` settles by branch and bound whose decision can change, where the tier leaves it open. A
    regression needs a bounded domain, or the ``output_range`` that its values are declared to keep within. ``keep`` is
    asked for the arrays of each stage, so that whoever stores them can go on with a run that was broken off.
    """
    if tier not in get_args(DistributionalTier):
        raise ParameterError(template("tier", f"one of {', '.join(get_args(DistributionalTier))}", tier))
    check_radius(order, gamma)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    if confidence is not None:
        confidence = number("confidence", confidence, "None or a number between 0 and 1", 0.0, 1.0, strict=True)
    rounds, seed, effort = whole("rounds", rounds), whole("seed", seed), checked_effort(effort)
    output_range = checked_range(output_range)
    question = Question.of(network, people, metric, delta, domain, max_branches)
    clusters = _clusters(people, len(question.x), cluster, max_cluster)
    cost = ground_metric(ground, question.domain.width, question.domain.names)
    local = _local(
        question, people, keep, progress, domain=domain, tier=tier, attack=attack, decide=decide,
        arithmetic=arithmetic, effort=effort, max_branches=max_branches, predict=False,
    )  # fmt: skip
    moving = Moving(question, cost, arithmetic == "float32")
    largest = largest_violation(moving.head, output_range)
    if question.domain.kind == "unbounded" and not math.isfinite(largest):
        raise ParameterError(
            "A regression on the unbounded domain has no largest violation: give 'output_range' as (low, high), or "
            "individuals with a schema (domain 'relaxed' or 'realizable')."
        )
    with shown("Shifting", progress) as tick:
        kept = keep("profiles", lambda: _arrays(profiles(
            moving, local.upper, gamma, order, largest,
            rounds=rounds, tight=tier == "tight", tick=tick,
        ), *_PROFILES))  # fmt: skip
    found = Profiles(kept["radii"], kept["values"], float(kept["largest"]))
    radii = search_radii(gamma, order, moving.diameter) if attack else []
    start = local.lower, local.witnesses.counterpart
    points = Points(**keep("points", lambda: _arrays(search(moving, *start, radii, effort), *_POINTS)))
    check_range(points.value, moving.head, output_range)
    return DistributionalCertificate(
        gamma, order, cost, question.delta, epsilon, confidence, tier, arithmetic, local, found, points,
        _refusal(people, metric, cost, confidence, clusters), question, seed, clusters,
    )  # fmt: skip


def _local(
    question: Question,
    people: Population | npt.ArrayLike,
    keep: Keep,
    progress: Progress | Literal["auto"] | None,
    **options: Any,
) -> LocalCertificate:
    """Local certificates, block by block; blocks are whole chunks, so the result is that of one block."""
    n = len(question.x)
    size = CHUNKS * chunk_rows(question.network.margins, options["tier"])
    rows: Any = people if isinstance(people, Population) else question.x

    def block(start: int, tick: Progress) -> Arrays:
        with told(rows=[called(row) for row in range(start, min(start + size, n))]):
            some = certify_local(
                question.network, rows[start : start + size], question.metric, question.delta, **options,
                progress=lambda done, _: tick(start + done, n),
            )  # fmt: skip
        return _arrays(some, "upper", "decision") | _arrays(some.witnesses, *_WITNESSES)

    with shown("Certifying", progress) as tick:
        found = [keep(f"local-{start}", partial(block, start, tick)) for start in range(0, n, size)]
    whole = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    witnesses = Witnesses(question.x, question=question, **{name: whole[name] for name in _WITNESSES})
    return LocalCertificate(
        whole["upper"], whole["value"], witnesses, whole["decision"], np.empty((n, 0)),
        question.delta, options["tier"], options["arithmetic"], question,
    )  # fmt: skip


def _arrays(part: object, *names: str) -> Arrays:
    return {name: np.asarray(getattr(part, name)) for name in names}


def judge(lower: float, upper: float, epsilon: float) -> Verdict:
    """What two bounds say about ε."""
    if upper <= epsilon:
        return "certified"
    return "violated" if lower > epsilon else "undecided"


def largest_violation(head: Head, output_range: tuple[float, float] | None) -> float:
    """The largest violation possible at all: from the head of the network, or from a declared range."""
    if head.kind != "regression" or output_range is None:
        return head.largest
    return float(up(output_range[1] - output_range[0]))


def checked_range(output_range: Any) -> tuple[float, float] | None:
    """The range that a caller declares: two finite numbers, the lower first."""
    if output_range is None:
        return None
    right = "None or two finite numbers, the lower first"
    if not isinstance(output_range, tuple | list | np.ndarray) or len(output_range) != 2:
        raise ParameterError(template("output_range", right, output_range))
    low, high = (number("output_range", end, right, -FINITE, FINITE) for end in output_range)
    if not low < high:
        raise ParameterError(template("output_range", right, output_range))
    return low, high


def check_range(attained: FloatArray, head: Head, output_range: tuple[float, float] | None) -> None:
    """Refuse a declared range that the network was seen to leave: the bound would rest on something untrue."""
    change = float(attained.max(initial=0.0))
    if head.kind == "regression" and output_range is not None and change > largest_violation(head, output_range):
        expected = f"a range that outputs keep within, and one was found to change by {at_least(change, 6)}"
        raise ParameterError(template("output_range", expected, output_range))


def search_radii(gamma: float, order: float, diameter: float) -> list[float]:
    """How far away a worst case is looked for."""
    furthest = min(diameter, FURTHEST)
    if gamma == 0 or furthest == 0:
        return []
    if math.isinf(order):
        return [min(gamma, furthest)]
    if gamma > furthest:
        return [furthest * 2.0**k for k in (-3, -2, -1, 0)]
    # Somebody may be worth a long way while the others stay where they are.
    return [radius for k in (-1, 0, 1, 2, 3, 4, 6, 8) if (radius := gamma * 2.0**k) <= furthest]


def _clusters(
    people: Population | npt.ArrayLike, n: int, cluster: str | npt.ArrayLike | None, max_cluster: int | None
) -> Clusters | None:
    """Who belongs together, checked."""
    if cluster is None:
        if max_cluster is not None:
            raise ParameterError("'max_cluster' is the size of the largest 'cluster': give that too.")
        return None
    if isinstance(cluster, str):
        if not isinstance(people, Population):
            raise ParameterError(template("cluster", "an array where the individuals are one", cluster))
        labels: Any = find_column(people.frame, cluster).to_numpy()
    else:
        labels = np.asarray(cluster)
        if labels.shape != (n,):
            raise ParameterError(template("cluster", f"a label for each of {n} individuals", f"shape {labels.shape}"))
    member, _ = pd.factorize(labels)
    if (member < 0).any():
        raise DataError(f"'cluster' has no label for individual {int(np.argmax(member < 0))}: give everybody one.")
    seen = int(np.bincount(member).max())
    whole = isinstance(max_cluster, int | np.integer) and not isinstance(max_cluster, bool)
    if max_cluster is None or not whole or max_cluster < seen:
        expected = f"the most people that a cluster can have, known beforehand and at least {seen}, the most here"
        raise ParameterError(template("max_cluster", expected, max_cluster))
    return Clusters(member.astype(np.int64), int(max_cluster))


def _refusal(
    people: Population | npt.ArrayLike,
    metric: Metric,
    ground: Metric,
    confidence: float | None,
    clusters: Clusters | None,
) -> str:
    """Why a statement about the population behind the sample cannot be made, if that is known."""
    if confidence is None:
        return "No confidence was asked for: give 'confidence', for example 0.95."
    if isinstance(people, Population):
        if not (people.split == "test" or people.selection.held_out):
            return (
                f"These individuals are the '{people.split}' part of the table, on which networks, metrics or schemas "
                "are fitted: a statement about the population behind them needs people that nothing was fitted on, "
                "such as people.test."
            )
        if people.repeated:
            return (
                "Rows of the table occur more than once among these individuals, so they are no independent draws: "
                "take each row once."
            )
        if len(np.unique(people.weights)) > 1:
            return "Individuals with unequal sampling weights are not independent draws from one population."
        if clusters is not None and people.schema.split is None and not in_train(people.rows).any():
            return (
                "These individuals were set apart row by row, so that others of their clusters may have been fitted "
                "on: name a [split] column in the schema that keeps clusters together."
            )
        if clusters is not None and people.selection.how == "random":
            return (
                "These individuals were drawn one by one, so that their clusters are no independent draws as wholes: "
                "give all of people.test."
            )
        for name, each in (("metric", metric), ("ground metric", ground)):
            if overlaps(each, people):
                return f"The {name} was fitted on {each.fitted_on}: fit it on people.train to judge people.test."
        if not people.selection.independent:
            how = "were chosen by hand" if people.selection.how == "chosen" else "were selected in a way not known"
            return (
                f"These individuals {how}, so that they need not be independent draws from one population: give all of "
                "people.test, or people.test.sample(n)."
            )
    return ""
