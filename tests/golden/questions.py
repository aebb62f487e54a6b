"""The tables, networks and metrics that the golden audits ask about: bundled or generated, the same on every machine.

Whatever comes out of a fit is rounded to a grid far coarser than rounding errors, so that another linear algebra
library gives the same numbers. Networks are random features (one or two layers) under a readout fitted by least
squares: their predictions vary with the individual as those of a trained network do, and no training is needed to make
them again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import erf

import isonomy
from isonomy import Mahalanobis, Network, Population, Schema, SensitiveSubspace, WeightedLp
from isonomy.population import Feature, Label, Split

FloatArray = NDArray[np.float64]

ADULT_NETWORK = Path(__file__).parents[2] / "benchmarks" / "networks" / "adult_2x256.onnx"
GRID = 2.0**-18
ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "gelu": lambda x: x * 0.5 * (1.0 + erf(x / np.sqrt(2.0))),
}


def rounded(values: FloatArray) -> FloatArray:
    """The nearest points of the grid."""
    return np.asarray(np.round(np.asarray(values) / GRID) * GRID)


# -- tables ------------------------------------------------------------------------------------------------------


@cache
def table(name: str) -> Population:
    """A table by name: of the catalogue, or generated."""
    made = {"wages": _wages, "grades": _grades, "survey": _survey}
    return made[name]() if name in made else isonomy.load_population(name)


def _wages() -> Population:
    """A regression: what people earn an hour."""
    rng, n = np.random.default_rng(1), 600
    sex, region = rng.choice(["f", "m"], n), rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame(
        {
            "experience": np.round(rng.gamma(3.0, 4.0, n).clip(0, 45), 1),
            "hours": rng.integers(10, 61, n),
            "school": rng.choice(["basic", "middle", "high"], n, p=[0.3, 0.4, 0.3]),
            "sex": sex,
            "region": region,
        }
    )
    school = frame["school"].map({"basic": 0.0, "middle": 1.0, "high": 2.0}).to_numpy()
    wage = 9 + 5 * school + 0.6 * frame["experience"] - 0.008 * frame["experience"] ** 2 + 2.5 * (sex == "m")
    frame["wage"] = np.round(wage + 2 * (region == "west") + 0.03 * frame["hours"] + rng.normal(0, 2, n), 2)
    features = (
        Feature("experience", low=0, high=45, tolerance=1.0),
        Feature("hours", "integer", low=10, high=60, tolerance=3),
        Feature("school", "ordinal", categories=("basic", "middle", "high")),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("region", "categorical", categories=("north", "south", "west"), proxy=True),
    )
    return Population.from_frame(frame, Schema("wages", features, Label("wage")))


def _grades() -> Population:
    """Three classes; a number that may be missing, a relative tolerance, an attribute that never changes."""
    rng, n = np.random.default_rng(2), 600
    frame = pd.DataFrame(
        {
            "score": np.round(rng.uniform(0, 100, n), 1),
            "income": np.round(rng.lognormal(3.0, 0.5, n).clip(1, 200), 2),
            "absences": np.where(rng.random(n) < 0.15, np.nan, rng.poisson(4, n).clip(0, 30)),
            "sex": rng.choice(["f", "m"], n),
            "home": rng.choice(["city", "town", "village"], n),
            "born": rng.choice(["here", "there"], n),
        }
    )
    merit = frame["score"] / 25 + np.log(frame["income"]) / 2 - frame["absences"].fillna(4) / 8
    merit = merit + 0.4 * (frame["sex"] == "f") + 0.3 * (frame["home"] == "city") + rng.normal(0, 0.4, n)
    frame["grade"] = np.array(["fail", "pass", "honours"])[np.digitize(merit, [2.6, 4.0])]
    features = (
        Feature("score", low=0, high=100, tolerance=3.0),
        Feature("income", low=1, high=200, origin=1, unit=50, relative_tolerance=0.1),
        Feature("absences", "integer", low=0, high=30, fill=4, tolerance=1),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("home", "categorical", categories=("city", "town", "village"), proxy=True),
        Feature("born", "categorical", categories=("here", "there"), immutable=True),
    )
    return Population.from_frame(frame, Schema("grades", features, Label("grade", ("fail", "pass", "honours"))))


def survey_frame(n: int = 900) -> tuple[pd.DataFrame, Schema]:
    """Invented people in the columns of the bundled schema of ACS Income: sampling weights, sex not seen."""
    schema = Schema.from_toml(
        files("studies.surveys").joinpath("tables").joinpath("acs-income-paper.toml").read_text(encoding="utf-8")
    )
    assert schema.label is not None and isinstance(schema.split, Split) and schema.weight is not None
    rng = np.random.default_rng(3)
    columns: dict[str, object] = {}
    for feature in schema.features:
        if feature.kind == "categorical":
            share = 1.0 / (1.0 + np.arange(len(feature.categories)))
            columns[feature.name] = rng.choice(np.array(feature.categories, dtype=int), n, p=share / share.sum())
        else:
            spread = np.round(rng.normal(feature.origin, feature.unit, n))
            columns[feature.name] = spread.clip(feature.low, feature.high)
    frame = pd.DataFrame(columns)
    merit = 0.8 * (frame["WKHP"] - 38) / 13 + 0.5 * (frame["AGEP"] - 43) / 15 + 0.6 * (frame["SEX"] == 1)
    merit = merit + 0.3 * (frame["COW"] > 2) - 0.5 * (frame["OCCP"] - 4000) / 2600 + rng.normal(0, 0.7, n)
    frame[schema.label.column] = (merit > 0).astype(int)
    frame[schema.weight] = rng.integers(1, 200, n)
    frame[schema.split.column] = np.where(rng.random(n) < 0.7, schema.split.train, schema.split.test)
    return frame, schema


def _survey() -> Population:
    return Population.from_frame(*survey_frame())


# -- networks ----------------------------------------------------------------------------------------------------


def perceptron(
    name: str,
    hidden: tuple[int, ...],
    head: str = "softmax",
    *,
    activation: str = "relu",
    sharpness: float = 3.0,
    seed: int = 0,
) -> Network:
    """Random features of the table's training rows, and a readout fitted to their labels."""
    x, target = _lesson(name, head, sharpness)
    weights, biases, features = _random_features(x, hidden, activation, seed)
    readout, offset = _readout(features, target)
    return Network.from_layers([*weights, readout], [*biases, offset], activation, head, name=name)


def residual(name: str, width: int, head: str, *, sharpness: float = 3.0, seed: int = 0) -> Network:
    """GELU, and a second layer beside a way around it."""
    x, target = _lesson(name, head, sharpness)
    (first, second), (one, two), _ = _random_features(x, (width, width), "gelu", seed)
    near = ACTIVATIONS["gelu"](x @ first.T + one)
    readout, offset = _readout(near + ACTIVATIONS["gelu"](near @ second.T + two), target)
    layers = zip((first, second, readout), (one, two, offset), strict=True)
    module = _Residual([_linear(weight, bias) for weight, bias in layers])
    return Network.from_torch(module.double().eval(), head=head, name=f"{name} residual")


class _Residual(torch.nn.Module):
    def __init__(self, layers: list[torch.nn.Linear]) -> None:
        super().__init__()
        self.first, self.second, self.readout = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.nn.functional.gelu(self.first(x))
        return self.readout(near + torch.nn.functional.gelu(self.second(near)))


def _linear(weight: FloatArray, bias: FloatArray) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return layer


def _lesson(name: str, head: str, sharpness: float) -> tuple[FloatArray, FloatArray]:
    """What the network sees of the training rows, and the raw outputs that it should give them."""
    train = table(name).train[:2000] if len(table(name).train) > 2000 else table(name).train
    assert train.y is not None
    x = np.asarray(train.x[:, train.schema.seen_coordinates])
    if head == "regression":
        return x, np.asarray(train.y, dtype=np.float64)[:, None]
    if head == "sigmoid":
        return x, sharpness * np.where(np.asarray(train.y) == 1, 1.0, -1.0)[:, None]
    classes = int(np.max(train.y)) + 1
    return x, sharpness * (np.eye(classes)[np.asarray(train.y)] - 1.0 / classes)


def _random_features(
    x: FloatArray, hidden: tuple[int, ...], activation: str, seed: int
) -> tuple[list[FloatArray], list[FloatArray], FloatArray]:
    """Layers that see each feature centred, with kinks spread over the individuals."""
    rng, weights, biases = np.random.default_rng(seed), [], []
    for wide, out in itertools.pairwise((x.shape[1], *hidden)):
        spread = float(np.sqrt(np.mean(x.var(axis=0)))) or 1.0
        weight = rounded(rng.normal(size=(out, wide)) * 1.5 / (spread * wide**0.5))
        bias = rounded(0.5 * rng.normal(size=out) - weight @ x.mean(axis=0))
        weights.append(weight)
        biases.append(bias)
        x = ACTIVATIONS[activation](x @ weight.T + bias)
    return weights, biases, x


def _readout(features: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ridge regression."""
    centre, level = features.mean(axis=0), target.mean(axis=0)
    apart = features - centre
    gram = apart.T @ apart + 0.02 * len(apart) * np.eye(apart.shape[1])
    readout = rounded(np.linalg.solve(gram, apart.T @ (target - level)).T)
    return readout, rounded(level - readout @ centre)


# -- metrics -----------------------------------------------------------------------------------------------------


@cache
def subspace(name: str, ridge: float = 0.0) -> SensitiveSubspace:
    """Protected coordinates, and the directions that predict them by ridge regression, are free (or cost a little)."""
    train = table(name).train[:2000] if len(table(name).train) > 2000 else table(name).train
    protected = np.asarray(train.schema.protected_coordinates)
    x = train.x - train.x.mean(axis=0)
    other = x[:, ~protected]
    gram = other.T @ other + 0.01 * len(x) * np.eye(other.shape[1])
    learned = np.zeros((int(protected.sum()), len(protected)))
    learned[:, ~protected] = rounded(np.linalg.solve(gram, other.T @ x[:, protected]).T)
    # The columns of a category add up to 1, so that the last of each tells nothing new.
    last = [slices.stop - 1 for slices in train.schema.slices.values() if slices.stop - slices.start > 1]
    kept = ~np.isin(np.flatnonzero(protected), last)
    return SensitiveSubspace(np.concatenate([np.eye(len(protected))[protected], learned[kept]]), ridge)


@cache
def weighted(name: str, order: float, floor: float = 0.0) -> WeightedLp:
    """Weights by correlation with the protected attributes, at least ``floor``."""
    fitted = WeightedLp.fit(table(name).train, order, cap=20.0)
    return WeightedLp(np.maximum(rounded(fitted.weights), floor), order)


@cache
def mahalanobis(name: str, ridge: float = 0.0) -> Mahalanobis:
    """The inverse covariance; ``ridge`` is added for all coordinates, so that none is free."""
    precision = Mahalanobis.fit(table(name).train, shrinkage=0.3).precision
    precision = rounded(precision / np.trace(precision) * len(precision))
    return Mahalanobis((precision + precision.T) / 2 + ridge * np.eye(len(precision)))


@cache
def learned(name: str, rank: int = 3) -> isonomy.Explore:
    """What a few answers about pairs might have taught: a few directions that matter, protected coordinates free."""
    protected = np.asarray(table(name).schema.protected_coordinates)
    root = np.random.default_rng(4).normal(size=(rank, len(protected)))
    return isonomy.Explore.from_root(rounded(np.where(protected, 0.0, root)), "invented answers")
