"""What protected features alone decide in a tree ensemble: their largest gap anywhere, and for how many they decide.

Problem: the greatest ``F(x, a) − F(x, b)`` over all other features ``x`` of the domain and all values ``a``, ``b`` of
some features, ``F`` the raw score. It is found by branch and bound (:mod:`isonomy.search.trees`), and proved by a hint
that the kernel derives the bound from (:mod:`isonomy_verify.tree_global`).

**Soundness.** ``upper`` is what the kernel derives, the rounding of leaves charged to both runs; ``lower`` is the
difference of the enclosures of a pair in the domain. A sigmoid's change is at most ``tanh(D / 4)`` where its argument
changes by ``D``: it is largest where both arguments lie evenly around 0. Of a drawn person the extremes over the
features are those of all cells; who is not settled counts on both sides. Bounds of a share are Clopper's and Pearson's,
for draws by the law that is named, and say nothing of another law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.brief import brief
from isonomy.certificates.protocol import tier_for
from isonomy.certificates.tree_tier import TreeTier
from isonomy.confidence import share_bounds
from isonomy.errors import ParameterError, UnsupportedOperationError, template
from isonomy.given import FINITE, choice, instance, number, whole
from isonomy.model import Model
from isonomy.population import Population, Schema
from isonomy.problem import Problem
from isonomy.search.trees import PARTS, find_gap
from isonomy.similarity import Counterparts
from isonomy_verify.tiers import Enclosure
from isonomy_verify.tree_global import Hint, real_gap

Law = Literal["people", "independent"]
_LAWS = {"people": "of these people, by their weights", "independent": "of these people, each feature drawn by itself"}
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class FeatureGap:
    """Bounds, proved and attained, of how far some features alone can move the raw score of a person of the domain.

    ``score_upper`` and ``score_lower`` are of the raw score (log odds of two classes), ``upper`` bounds the change of
    the output. ``pair`` (2, m) attains ``score_lower``, the higher score first, and changes the output by ``lower``.
    """

    features: tuple[str, ...]
    score_upper: float
    score_lower: float
    upper: float
    lower: float
    parts: int
    pair: FloatArray | None
    hint: Hint = field(repr=False)
    problem: Problem = field(repr=False)

    __repr__ = brief

    @property
    def exact(self) -> bool:
        """Return whether both sides of the score meet, but for roundings."""
        return self.score_upper - self.score_lower <= 1e-9 * (1 + abs(self.score_upper))

    def frame(self) -> pd.DataFrame:
        """Return the pair side by side in raw units; empty where the features change nothing."""
        if self.pair is None:
            return pd.DataFrame()
        table = self.problem.raw(self.pair)
        table.index = pd.Index(["higher", "lower"])
        return table.T

    def excludes(self, below: float, above: float) -> bool:
        """Return whether no raw score goes from ``below`` or less to ``above`` or more by these features alone."""
        apart = number("above", above, "a number", -FINITE) - number("below", below, "a number", -FINITE)
        return self.score_upper < float(np.nextafter(apart, -np.inf))

    def __str__(self) -> str:
        if self.score_upper == 0:
            return f"{' and '.join(self.features)}: nobody's output depends on it."
        return (
            f"{' and '.join(self.features)}: the raw score of nobody in the domain moves by more than "
            f"{at_most(self.score_upper, 4)}, that of somebody by {at_least(self.score_lower, 4)}; an output by at "
            f"most {at_most(self.upper, 4)}, found {at_least(self.lower, 4)}."
        )


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
    model: Model, schema: Schema, features: str | Sequence[str] | None = None, *, parts: int = PARTS
) -> FeatureGap:
    """Bound from above and from below how far some ``features`` alone can move the score of any person in the domain of
    a ``schema``; by default all protected ones together.

    ``model`` is a tree ensemble of two classes or of a number. The domain is cut into at most this many ``parts``;
    bounds hold for any number of them.
    """
    names, tier = _tier(model, schema, features)
    cells = tier.kernel.cells
    places = {j for name in names for j in range(*schema.slices[name].indices(schema.width))}
    axes = [k for k, axis in enumerate(cells.axes) if axis.start in places or axis.flag in places]
    result = find_gap(cells, axes, 0, whole("parts", parts))
    nothing = not len(result.gap.fields.value)
    most = 0.0 if nothing else real_gap(cells, result.upper, tier.kernel.error, 0)
    least = change = 0.0
    pair = None if result.pair is None else tier.problem.domain.filled(result.pair)
    if pair is not None and tier.problem.domain.contains(pair).all():
        at = tier.kernel.enclose(pair)
        least = max(0.0, float(np.nextafter(at.low[0, 0] - at.high[1, 0], -np.inf)))
        one, other = (Enclosure(at.low[i : i + 1], at.high[i : i + 1]) for i in (0, 1))
        change = float(tier.head.attained(one, other)[0])
    return FeatureGap(names, most, least, _changed(tier, most), change, result.parts, pair, result.hint, tier.problem)


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
    names, tier = _tier(model, people.schema, features)
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


def _tier(model: Model, schema: Schema, features: str | Sequence[str] | None) -> tuple[tuple[str, ...], TreeTier]:
    """Return the features, and the tier of people who differ in nothing else."""
    instance("model", model, Model, "a model, as isonomy.load_model(source, schema) gives")
    instance("schema", schema, Schema, "a Schema")
    names = tuple(schema.protected if features is None else (features,) if isinstance(features, str) else features)
    if not names or any(name not in schema.slices for name in names):
        raise ParameterError(template("features", f"some of {', '.join(map(repr, schema.slices))}", features))
    free = np.zeros(schema.width, dtype=bool)
    for name in names:
        free[schema.slices[name]] = True
    problem = Problem.of(model, Counterparts(np.zeros(schema.width), free), 1.0, schema=schema)
    tier = tier_for(problem)
    if not isinstance(tier, TreeTier):
        raise problem.model.unsupported("gap of features over the whole domain: tree ensembles have")
    if len(tier.kernel.cells.base) > 1:
        raise UnsupportedOperationError(f"'{model.name}' has several scores; gaps are of two classes or one number.")
    return names, tier


def _changed(tier: TreeTier, score: float) -> float:
    """Return how far the output changes at most where the score moves by so much."""
    if tier.head.kind == "regression":
        return score
    if tier.head.kind == "probability":
        return min(1.0, score)
    return min(1.0, math.tanh(score / 4) * (1 + 1e-12))


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
