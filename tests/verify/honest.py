"""Honest certificates over random schemas, models, metrics, domains, shifts and sizes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.kernel import forests

import isonomy
from isonomy import Drift, Marginals, Mix, Part, Stability, Transport, records
from isonomy.attacks import AttackBudget
from isonomy.certificates.features import whole_domain_gaps
from isonomy.certificates.protocol import Shift
from isonomy.certificates.reweighting import Reweighting
from isonomy.model import Model
from isonomy.networks import Network
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy.population import Feature, Population, Schema
from isonomy.similarity import Counterparts, Explore, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.trees.model import TreeModel

TREES = 1000
"""From this seed on models are trees."""

SHIFTS = 2000
"""From this seed on shifts are of the other kinds, in turn, with further ones beside them."""

MODELS = ("relu", "leaky_relu", "gelu", "sigmoid", "tanh", "residual", "branching", "linear")


def schema(rng: np.random.Generator) -> Schema:
    """One protected feature, and some others of every kind."""
    others = [
        Feature("income", low=1.0, high=100.0, origin=1.0, unit=50.0, relative_tolerance=0.1),
        Feature("rate", low=0.0, high=1.0, origin=0.5, unit=0.5, tolerance=0.05),
        Feature("age", "integer", low=18, high=80, origin=17.0, unit=20.0, tolerance=3.0),
        Feature("hours", "integer", low=0, high=60, unit=20.0, fill=40, tolerance=5.0),
        Feature("job", "categorical", categories=("a", "b", "c"), proxy=bool(rng.integers(2))),
        Feature("home", "categorical", categories=("rent", "own")),
        Feature("born", "categorical", categories=("here", "there"), immutable=True),
    ]
    some = rng.permutation(len(others))[: rng.integers(2, len(others) + 1)]
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    return Schema(f"people {rng.integers(1000)}", (sex, *(others[i] for i in sorted(some))))


def people(rng: np.random.Generator, of: Schema, n: int, domain: Any) -> Population:
    columns: dict[str, Any] = {}
    for feature in of.features:
        if feature.categories:
            columns[feature.name] = rng.choice(list(feature.categories), n)
        elif feature.kind == "integer":
            columns[feature.name] = rng.integers(feature.low, feature.high + 1, n).astype(float)
        else:
            columns[feature.name] = rng.uniform(feature.low, feature.high, n)
        if feature.fill is not None:
            columns[feature.name] = np.where(rng.random(n) < 0.2, np.nan, columns[feature.name])
    found = Population.from_frame(pd.DataFrame(columns), of, domain=domain)
    if rng.random() < 0.4:
        weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
        weights[0] = 1.0
        found = replace(found, weights=weights)
    return found


def network(rng: np.random.Generator, kind: str, width: int, outputs: int, head: Any) -> Network:
    def layer(out: int, inner: int, read: int) -> Node:
        numbers = rng.normal(size=(out, inner)) * 1.5 / inner**0.5, rng.normal(size=out) * 0.3
        return affine(*numbers)._replace(inputs=(read,))

    def bend(kind: str, read: int) -> Node:
        return Node("activation", (read,), activation=Activation(kind, (0.1,) if kind == "leaky_relu" else ()))

    h = int(rng.integers(3, 9))
    if kind == "linear":
        return Network(Graph((Node("input", width=width), layer(outputs, width, 0))), head, kind)
    if kind == "residual":  # x + W2 gelu(scale W1 x + shift), twice
        norm = affine(np.diag(rng.uniform(0.5, 2.0, h)), rng.normal(size=h))
        nodes = [Node("input", width=width), layer(h, width, 0)]
        for _ in range(2):
            last = len(nodes) - 1
            nodes += [norm._replace(inputs=(last,)), layer(h, h, last + 1), bend("gelu", last + 2)]
            nodes += [layer(h, h, last + 3), Node("add", (last, last + 4))]
        return Network(Graph((*nodes, layer(outputs, h, len(nodes) - 1))), head, kind)
    if kind == "branching":
        nodes = [Node("input", width=width), layer(h, width, 0), bend("relu", 1)]
        nodes += [layer(h, width, 0), bend("tanh", 3), Node("concat", (2, 4, 0))]
        return Network(Graph((*nodes, layer(outputs, 2 * h + width, 5))), head, kind)
    if kind == "wide":
        kind, h = "relu", 32
    nodes, inner = [Node("input", width=width)], width
    for _ in range(int(rng.integers(1, 4))):
        nodes += [layer(h, inner, len(nodes) - 1), bend(kind, len(nodes))]
        inner = h
    return Network(Graph((*nodes, layer(outputs, inner, len(nodes) - 1))), head, kind)


def trees(rng: np.random.Generator, of: Schema, outputs: int, head: Any, count: int = 6) -> TreeModel:
    """An ensemble of random trees on the coordinates of a schema."""
    domain = of.domain("realizable")
    found = forests.trees_of(rng, domain, count, 4, outputs, vector=outputs > 1 and bool(rng.integers(2)))
    states = max(stop - start for start, stop in domain.blocks)
    found = replace(found, masks=rng.random((len(found.masks), max(4, states))) < 0.5)
    return TreeModel(found, head, of.width, rng.uniform(0, 1e-5, outputs), domain)


def metric(rng: np.random.Generator, kind: str, of: Population) -> Metric:
    width = of.schema.width
    if kind == "counterparts":
        return Counterparts.of(of.schema)
    if kind == "lp":
        weights = rng.uniform(0.2, 2, width)
        weights[of.schema.slices["sex"]] = 0.0 if of.domain.kind != "unbounded" else 0.3
        return WeightedLp(weights, [1, 2, math.inf][rng.integers(3)])
    if kind == "mahalanobis":
        return Mahalanobis.from_root(rng.normal(size=(width, width)) / 3)
    if kind == "sensitive":
        axes = np.eye(width)[of.schema.slices["sex"]]
        return SensitiveSubspace(np.concatenate([axes, rng.normal(size=(1, width))]), ridge=0.1)
    x, y = rng.normal(size=(2, 60, width))
    return Explore.fit(x, y, rng.random(60) < 0.5)


def decided(rng: np.random.Generator, head: str, outputs: int) -> dict[str, Any]:
    """What is decided: half of the time a cut-off, where there can be one, and a favourable side."""
    if head == "regression" or (head, outputs) in (("softmax", 2), ("sigmoid", 1)):
        sides = ["low", "high"] if head == "regression" else ["0", "1"]
        threshold = float(rng.normal() if head == "regression" else rng.uniform(0.1, 0.9))
        return {"threshold": threshold, "favourable": sides[rng.integers(2)]} if rng.random() < 0.5 else {}
    return {}


def reweighting(rng: np.random.Generator, some: Population, kind: int) -> Reweighting:
    """A shift in which no individual moves, of a kind."""
    strangers = float(rng.choice([0.0, 0.05]))
    if kind == 0:
        return Part(float(rng.choice([0.1, 0.5, 1.0])), strangers)
    if kind == 1:
        return Stability(float(rng.choice([0.0, 0.1, 0.25, 3.0])), int(rng.integers(1, 21)), strangers)
    if kind == 2:
        return Mix(["sex"], strangers=strangers)
    has = some.weights @ some.x[:, some.schema.slices["sex"]]
    shares = (has / has.sum() + (has > 0) / (has > 0).sum()) / 2
    known = {"sex": dict(zip(("f", "m"), shares.tolist(), strict=True))}
    return Marginals(known, float(rng.choice([0.0, 0.3])), strangers)


def shifts(rng: np.random.Generator, some: Population, kind: int) -> list[Shift]:
    """A shift of a kind, and further ones in which no individual moves."""
    more = [reweighting(rng, some, each) for each in range(4) if rng.random() < 0.4]
    if kind < 4:
        return [reweighting(rng, some, kind), *more]
    amounts = {"income": "10%", "rate": 0.05, "age": 2.0, "hours": 3.0}
    own = {each.name: amounts[each.name] for each in some.schema.features if each.name in amounts}
    drift = Drift(own, average=bool(rng.integers(2))) if own else Transport(0.1)
    if kind == 4:
        return [drift, *more]
    moves = drift if rng.integers(2) else Transport(0.1)
    return [reweighting(rng, some, int(rng.integers(3))) & moves, *more]


def write(seed: int, directory: Path, most: int = 300) -> str:
    """An honest certificate of at most so many people, and what it is about."""
    rng = np.random.default_rng([12, seed])
    of = schema(rng)
    kind = ("counterparts", "lp", "mahalanobis", "sensitive", "explore")[seed % 5]
    domain = ["realizable", "realizable", "relaxed", "unbounded"][rng.integers(4)]
    if (kind in ("counterparts", "explore") or seed >= SHIFTS) and domain == "unbounded":  # where moves are free
        domain = "relaxed"
    forest = TREES <= seed < SHIFTS
    domain = "realizable" if forest else domain
    n = int(
        [1, 2, 3, rng.integers(4, 20), rng.integers(20, 80), 300][rng.choice(6, p=[0.1, 0.1, 0.2, 0.4, 0.15, 0.05])]
    )
    n = min(n, most)
    some = people(rng, of, n, domain)
    head, outputs = [("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("regression", 1), ("sigmoid", 2)][rng.integers(5)]
    model = MODELS[rng.integers(len(MODELS))]
    if rng.random() < 0.1 and head == "regression":
        model = "linear"
    options: dict[str, Any] = {
        "order": [1.0, 2.0, math.inf, 1.5][rng.choice(4, p=[0.5, 0.2, 0.2, 0.1])],
        "gamma": float([0.0, 0.02, 0.1, 2.0, math.inf][rng.choice(5, p=[0.25, 0.2, 0.35, 0.1, 0.1])]),
        "ground": ["l1", "l2", "linf"][rng.integers(3)],
        "tier": ["tight", "interval"][int(rng.random() < 0.2)],
        "arithmetic": ["float64", "float32"][int(rng.random() < 0.15)],
        "attack": bool(n < 10 and rng.random() < 0.6) and AttackBudget(2, 2),
        "rounds": int(rng.integers(0, 2)) if n < 20 else 0,
        "chunk": int([7, 1000][rng.integers(2)]),
        "max_branches": int([0, 3, 1000][rng.choice(3, p=[0.1, 0.1, 0.8])]),
        "epsilon": [None, 0.1][rng.integers(2)],
        "confidence": [None, 0.9][int(rng.random() < 0.3)],
    }
    if head == "regression" and domain == "unbounded":
        options["output_range"] = (-1e4, 1e4)
    elif head == "regression" and rng.random() < 0.3:
        options["output_range"] = (-50.0, 50.0)
    options |= decided(np.random.default_rng([13, seed]), head, outputs)
    if seed >= SHIFTS:
        options = {name: value for name, value in options.items() if name not in ("gamma", "order", "ground")}
        options["shift"] = shifts(np.random.default_rng([14, seed]), some, seed % 6)
    delta = 1.0 if kind == "counterparts" else float(rng.choice([0.0, 0.05, 0.3]))
    judged: Model = network(rng, model, of.width, outputs, head)
    if forest:
        model, judged = "trees", trees(rng, of, outputs, head)
    found = isonomy.certify(judged, some, metric(rng, kind, some), delta, progress=None, **options)
    gaps = () if not forest or outputs > (head == "softmax") + 1 else whole_domain_gaps(
        found.problem, options["arithmetic"] == "float32"
    )  # fmt: skip
    records.write(directory, found, gaps=gaps)
    return f"{seed}: {n} people, {model}, {head} {outputs}, {kind}, {domain}, δ {delta}, {options}"
