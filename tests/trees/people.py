"""Everybody that a small schema knows, and metrics on it: what trees are compared with, person by person."""

from __future__ import annotations

import itertools
import math

import numpy as np

from isonomy.population import Feature, Label, Schema
from isonomy.similarity import Counterparts, Explore, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy_verify.trees import Trees

SCHEMA = Schema(
    "every kind",
    (
        Feature("income", "numeric", low=-50.0, high=200.0, origin=12.5, unit=37.0, fill=20.0, tolerance=9.0),
        Feature("age", "integer", low=18, high=42, origin=18.0, unit=24.0, tolerance=2.5),
        Feature("grade", "ordinal", categories=("a", "b", "c", "d", "e"), tolerance=1.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "categorical", categories=("x", "y", "z"), missing="category"),
        Feature("zone", "categorical", categories=("1", "2", "3"), proxy=True),
    ),
    label=Label("good", ("no", "yes")),
)  # fmt: skip
INCOME = SCHEMA.slices["income"].start
METRICS = ("counterparts", "lp", "mahalanobis", "sensitive", "explore")


def metric(rng: np.random.Generator, kind: str) -> tuple[Metric, float]:
    """A metric of a kind, and a distance within which some are similar."""
    width = SCHEMA.width
    if kind == "counterparts":
        return Counterparts.of(SCHEMA), float(rng.choice([0.0, 1.0, 1.7]))
    if kind == "lp":
        weights = rng.uniform(0.3, 2.0, width)
        weights[SCHEMA.slices["sex"]] = 0.0
        return WeightedLp(weights, [1, 2, math.inf][rng.integers(3)]), float(rng.uniform(0.05, 1.1))
    if kind == "mahalanobis":
        return Mahalanobis.from_root(rng.normal(size=(width, width)) / 2), float(rng.uniform(0.1, 0.6))
    if kind == "sensitive":
        axes = np.eye(width)[SCHEMA.slices["sex"]]
        return SensitiveSubspace(np.concatenate([axes, rng.normal(size=(1, width))]), ridge=0.1), 0.2
    x, y = rng.normal(size=(2, 60, width))
    return Explore.fit(x, y, rng.random(60) < 0.5), 0.3


def everybody(trees: Trees, x: np.ndarray, reach: float) -> np.ndarray:
    """A person of every cell, and of those of the number at the places where its range around ``x`` ends."""
    ends = trees.threshold[(trees.coordinate == INCOME) & (trees.category < 0)]
    own = x[INCOME]
    values = np.concatenate([[own, own - reach, own + reach], ends, np.nextafter(ends, np.inf)])
    domain = SCHEMA.domain("realizable")
    values = np.unique(values[(values >= domain.low[INCOME]) & (values <= domain.high[INCOME])])
    numbers = [(value, 0.0) for value in values] + [(float(fill), 1.0) for _, _, fill in domain.fills]
    axes: list[list[tuple[float, ...]]] = [numbers]
    for feature in SCHEMA.features[1:]:
        if feature.kind == "categorical":
            axes.append([tuple(row) for row in np.eye(len(feature.levels))])
        else:
            states = np.arange(len(feature.levels)) if feature.kind == "ordinal" else np.arange(18.0, 43.0)
            axes.append([(float(each),) for each in feature.coordinate(states.astype(float))])
    return np.array([sum(person, ()) for person in itertools.product(*axes)])
