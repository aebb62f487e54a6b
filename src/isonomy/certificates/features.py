"""What protected features alone decide in a tree ensemble: their largest gap anywhere, and for how many they decide.

Problem: the greatest ``F(x, a) − F(x, b)`` over all other features ``x`` of the domain and all values ``a``, ``b`` of
some features, ``F`` the raw score. It is found by branch and bound (:mod:`isonomy.search.trees`), and proved by a hint
that the kernel derives the bound from (:mod:`isonomy_verify.tree_global`). A record holds the hint, so that a stranger
derives the same (:mod:`isonomy_verify.gaps`).

**Soundness.** ``upper`` is what the kernel derives, the rounding of leaves charged to both runs; ``lower`` is the
difference of the enclosures of a pair in the domain. The output's change follows from the score's by the head. Of a
drawn person the extremes over the features are those of all cells; who is not settled counts on both sides. Bounds of a
share are Clopper's and Pearson's, for draws by the law that is named, and say nothing of another law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.brief import brief
from isonomy.certificates.alone import alone_problem, questions
from isonomy.certificates.gaps import FeatureGap
from isonomy.certificates.options import Arithmetic
from isonomy.certificates.protocol import tier_for
from isonomy.certificates.tree_tier import TreeTier
from isonomy.confidence import share_bounds
from isonomy.errors import ParameterError, template
from isonomy.given import choice, instance, number, whole
from isonomy.model import Model
from isonomy.population import Population, Schema
from isonomy.problem import Problem
from isonomy.search.trees import PARTS
from isonomy.similarity import Counterparts
from isonomy_verify.tiers import Enclosure

Law = Literal["people", "independent"]
_LAWS = {"people": "of these people, by their weights", "independent": "of these people, each feature drawn by itself"}
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class FeatureShare:
    """Bounds of the share of people, drawn by a law, for whom some features alone decide; both hold with probability
    ``confidence``. ``decided`` of ``draws`` were shown to be such, ``open`` are not known."""

    features: tuple[str, ...]
    lower: float
    upper: float
    decided: int
    open: int
    draws: int
    law: Law
    confidence: float
    witness: FloatArray | None
    """One of them (m,)."""

    __repr__ = brief

    def __str__(self) -> str:
        left = f" ({self.open:,} not known)" if self.open else ""
        return (
            f"{' and '.join(self.features)} decides for {at_least(100 * self.lower, 2)} % to "
            f"{at_most(100 * self.upper, 2)} %, with confidence {self.confidence:.12g}: {self.decided:,} of "
            f"{self.draws:,} draws {_LAWS[self.law]}{left}."
        )


def certify_features(
    model: Model,
    schema: Schema,
    features: str | Sequence[str] | None = None,
    *,
    parts: int = PARTS,
    arithmetic: Arithmetic = "float64",
) -> FeatureGap:
    """Bound from above and from below how far some ``features`` alone can move the score of any person in the domain of
    a ``schema``; by default all protected ones together.

    ``model`` is a tree ensemble of two classes or of a number. The domain is cut into at most this many ``parts``;
    bounds hold for any number of them. With ``arithmetic="float32"`` they hold for the library's own sums, too.
    """
    choice("arithmetic", arithmetic, Arithmetic)
    names = _names(schema, features)
    gap = gap_of_features(_problem(model, schema, names), whole("parts", parts), arithmetic == "float32")
    return replace(gap, features=names)


def gap_of_features(problem: Problem, parts: int = PARTS, float32_run: bool = False) -> FeatureGap:
    """Bound the gap of a problem in which similar people differ by any possible values of some features, and are equal
    otherwise."""
    return tier_for(problem, float32=float32_run).gap(parts)


def whole_domain_gaps(problem: Problem, float32_run: bool = False) -> tuple[FeatureGap, ...]:
    """Return the gaps, over the whole domain, of the protected features of a problem that the model reads: together,
    and of each."""
    schema = problem.schema
    assert schema is not None
    asked = [
        each for each in questions(schema, problem.model.read_features(schema)) if set(each) <= set(schema.protected)
    ]
    return tuple(gap_of_features(alone_problem(problem, each), float32_run=float32_run) for each in asked)


def feature_share(
    model: Model,
    people: Population,
    features: str | Sequence[str] | None = None,
    *,
    below: float | None = None,
    above: float | None = None,
    law: Law = "people",
    draws: int = 40_000,
    confidence: float = 0.999,
    seed: int = 0,
) -> FeatureShare:
    """Bound the share of people for whom some ``features`` alone decide: with some values of these their output is at
    least ``above``, with others less than ``below``; by default both are the cut-off.

    ``model`` is a tree ensemble of two classes, whose output is the probability of the second one, or of a number. The
    ``draws`` are made by ``seed`` from a ``law``: ``people`` of the table, by their weights and with replacement,
    or ``independent``, each feature from another person. The bounds hold with probability ``confidence``.
    """
    instance("people", people, Population, "a Population")
    choice("law", law, Law)
    confidence = number("confidence", confidence, "a number between 0 and 1", 0.0, 1.0, strict=True)
    draws, rng = whole("draws", draws, 1), np.random.default_rng(whole("seed", seed))
    names = _names(people.schema, features)
    tier = _tier(_problem(model, people.schema, names))
    label, chance = tier.problem.outcome, people.weights / people.weights.sum()
    cut = label.threshold if label.threshold is not None else None if label.regression else 0.5
    if cut is not None and label.threshold is not None and label.favourable == label.classes[:1] and label.classes:
        cut = 1 - cut  # a cut-off of the first class
    below, above = (
        cut if given is None else number(name, given, "a number")
        for name, given in (("below", below), ("above", above))
    )
    if below is None or above is None or below > above:
        raise ParameterError(
            template("below", "a number up to 'above'; a regression without a cut-off has no own", below)
        )
    shown = unknown = 0
    witness = None
    for start in range(0, draws, _ROWS):
        count = min(_ROWS, draws - start)
        x = people.x[rng.choice(len(people), count, p=chance)]
        if law == "independent":
            x = x.copy()
            for place in people.schema.slices.values():
                x[:, place] = people.x[rng.choice(len(people), count, p=chance)][:, place]
        sure, possible = _decides(tier, np.ascontiguousarray(x), below, above)
        shown, unknown = shown + int(sure.sum()), unknown + int((possible & ~sure).sum())
        witness = x[int(sure.argmax())] if witness is None and sure.any() else witness
    low = share_bounds(shown, draws, 1 - confidence)[0]
    high = share_bounds(shown + unknown, draws, 1 - confidence)[1]
    return FeatureShare(names, low, high, shown, unknown, draws, law, confidence, witness)


def _names(schema: Schema, features: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of features that are asked about."""
    instance("schema", schema, Schema, "a Schema")
    names = tuple(schema.protected if features is None else (features,) if isinstance(features, str) else features)
    if not names or any(name not in schema.slices for name in names):
        raise ParameterError(template("features", f"some of {', '.join(map(repr, schema.slices))}", features))
    return names


def _problem(model: Model, schema: Schema, names: tuple[str, ...]) -> Problem:
    """Return the problem of people who differ in nothing but some features."""
    instance("model", model, Model, "a model, as isonomy.load_model(source, schema) gives")
    metric = Counterparts(np.zeros(schema.width), np.zeros(schema.width, dtype=bool))
    return alone_problem(Problem.of(model, metric, 1.0, schema=schema), names)


def _tier(problem: Problem) -> TreeTier:
    """Return the tier of tree ensembles with one score; others have no shares."""
    tier = tier_for(problem)
    if not isinstance(tier, TreeTier):
        raise problem.model.unsupported("share of people for whom features decide: tree ensembles have")
    tier.one_score()
    return tier


def _decides(tier: TreeTier, x: FloatArray, below: float, above: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return of which people (n,) the features surely decide, and of which they may."""
    extremes, kernel, head = tier.kernel.extremes(x), tier.kernel, tier.head
    over = head.received(kernel.over(extremes))
    possible = (over.low[:, -1] < below) & (over.high[:, -1] >= above)
    known = (extremes.first >= 0).all((1, 2, 3))
    least, most = (
        head.received(Enclosure(*kernel.cells.sums.real(whole, whole, kernel.error)))
        for whole in (extremes.attained_low, extremes.attained_high)
    )
    sure = known & (least.high[:, -1] < below) & (most.low[:, -1] >= above)
    return np.asarray(sure & possible), np.asarray(possible)
