"""An audit of audits: distance, domain and prediction written again, without the project's own code."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd

from isonomy.networks.network import Network
from isonomy.population import Feature, Population, Schema
from isonomy.similarity import Counterparts, Mahalanobis, Metric, SensitiveSubspace, WeightedLp

FEATURES = (
    Feature("income", low=1.0, high=100.0, origin=1.0, unit=50.0, relative_tolerance=0.1),
    Feature("rate", low=0.0, high=1.0, origin=0.5, unit=0.1, tolerance=0.05),
    Feature("age", "integer", low=18, high=80, origin=17.0, unit=10.0, tolerance=3.0),
    Feature("hours", "integer", low=0, high=60, fill=40, tolerance=5.0),
    Feature("sex", "categorical", categories=("f", "m"), protected=True),
    Feature("job", "categorical", categories=("a", "b", "c"), proxy=True),
    Feature("home", "categorical", categories=("rent", "own")),
    Feature("born", "categorical", categories=("here", "there"), immutable=True),
)
SCHEMA = Schema("people", FEATURES)
WIDTH = SCHEMA.width


def people(n: int, seed: int = 0, domain: str = "realizable") -> Population:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.uniform(1, 100, n),
            "rate": rng.uniform(0, 1, n),
            "age": rng.integers(18, 81, n),
            "hours": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 61, n)),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["a", "b", "c"], n),
            "home": rng.choice(["rent", "own"], n),
            "born": rng.choice(["here", "there"], n),
        }
    )
    frame.loc[0, ["income", "rate", "age"]] = [1.0, 1.0, 80]  # at the edge of the domain
    return Population.from_frame(frame, SCHEMA, domain=domain)


def metrics(rng: np.random.Generator) -> list[Metric]:
    weights = rng.uniform(0.2, 2, WIDTH)
    weights[SCHEMA.slices["sex"]] = 0.0
    axes = np.eye(WIDTH)[SCHEMA.slices["sex"]]
    return [
        Counterparts.of(SCHEMA),
        WeightedLp(weights, 1),
        WeightedLp(weights, 2),
        WeightedLp(weights, math.inf),
        SensitiveSubspace(np.concatenate([axes, rng.normal(size=(1, WIDTH))])),
        Mahalanobis.from_root(rng.normal(size=(WIDTH, WIDTH)) / 3),
    ]


def perceptron(rng: np.random.Generator, width: int, outputs: int, hidden: int = 6, head: str = "softmax") -> Network:
    sizes = [width, hidden, hidden, outputs]
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairs]
    return Network.from_layers(weights, [rng.normal(size=b) * 0.3 for _, b in pairs], "relu", head)


def predicted(network: Network, x: np.ndarray) -> np.ndarray:
    """Layer by layer in extended precision, for multi-layer perceptrons; the head by its definition."""
    value = x.astype(np.longdouble)
    for node in network.graph.nodes[1:]:
        if node.weight is not None:
            value = value @ node.weight.T.astype(np.longdouble) + node.bias
        else:
            assert node.activation.kind == "relu"
            value = np.maximum(value, 0)
    if network.head == "regression":
        return value
    if network.head == "sigmoid":
        return 1 / (1 + np.exp(-value))
    power = np.exp(value - value.max(axis=1, keepdims=True))
    return power / power.sum(axis=1, keepdims=True)


def is_similar(metric: Metric, x: np.ndarray, y: np.ndarray, delta: float) -> bool:
    """By the definitions in the documentation, in rational arithmetic where it is rational."""
    move = [Fraction(float(b)) - Fraction(float(a)) for a, b in zip(x, y, strict=True)]
    if isinstance(metric, WeightedLp):
        terms = [
            Fraction(float(w)) * abs(v) ** (1 if metric.order in (1, math.inf) else 2)
            for w, v in zip(metric.weights, move, strict=True)
        ]
        if metric.order == math.inf:
            return max(terms) <= Fraction(delta)
        return sum(terms) <= Fraction(delta) ** int(metric.order)
    if isinstance(metric, Mahalanobis | SensitiveSubspace):
        image = [
            sum((Fraction(float(r)) * v for r, v in zip(row, move, strict=True)), Fraction(0)) for row in metric.root
        ]
        return sum((z * z for z in image), Fraction(0)) <= Fraction(delta) ** 2
    assert isinstance(metric, Counterparts)
    for feature in FEATURES:
        where = SCHEMA.slices[feature.name]
        a, b = x[where], y[where]
        if feature.immutable and (a != b).any():
            return False
        if feature.protected or feature.proxy or feature.immutable:
            continue
        if feature.kind == "categorical":
            if (a != b).any():
                return False
            continue
        if (a[1:] != b[1:]).any():
            return False
        raw, other = (float(v[0]) * feature.unit + feature.origin for v in (a, b))
        if feature.relative_tolerance:
            if abs(math.log(raw) - math.log(other)) > delta * math.log1p(feature.relative_tolerance) + 1e-9:
                return False
        elif abs(raw - other) > delta * feature.tolerance + 1e-9:
            return False
    return True


def is_somebody(kind: str, y: np.ndarray) -> bool:
    """Membership of the domain from the features alone."""
    if kind == "unbounded":
        return bool(np.isfinite(y).all())
    for feature in FEATURES:
        part = y[SCHEMA.slices[feature.name]]
        if feature.kind == "categorical":
            whole = sorted(part.tolist()) == [0.0] * (len(part) - 1) + [1.0]
            if not (whole if kind == "realizable" else abs(part.sum() - 1) <= 1e-9 and part.min() >= 0):
                return False
            continue
        raw = part[0] * feature.unit + feature.origin
        if not feature.low - 1e-9 <= raw <= feature.high + 1e-9:
            return False
        if kind == "realizable" and feature.kind == "integer" and abs(raw - round(raw)) > 1e-9:
            return False
        if len(part) == 2:
            if kind == "realizable" and part[1] not in (0.0, 1.0):
                return False
            if kind == "realizable" and part[1] == 1.0 and abs(raw - feature.fill_value) > 1e-9:
                return False
    return True
