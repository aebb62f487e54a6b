"""People within reach of somebody, found by trial: proposals of every kind, of which the allowed ones are kept.

Nothing here knows of regions or sets: whether somebody is possible is asked of ``Domain.contains``, how far away of
``Metric.distance_upper``, both of which have tests of their own.
"""

from __future__ import annotations

import itertools

import numpy as np

from isonomy.networks.graph import Activation
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity import Metric

SHARES = (1.0, 0.999, 0.7, 0.4, 0.15, 0.0)
ACTIVATIONS = ["relu", "leaky_relu", "tanh", "sigmoid", "softplus", "elu", "gelu", "clip"]
PARAMETERS = {"leaky_relu": (-0.3,), "softplus": (1.0,), "elu": (1.0,), "clip": (-0.3, 0.7)}


def neighbours(
    rng: np.random.Generator,
    domain: Domain,
    metric: Metric,
    radius: float,
    x: np.ndarray,
    count: int,
    pull: np.ndarray | None = None,
    changes: bool = True,
) -> np.ndarray:
    """Possible people (k, m) within ``radius`` of ``x`` (m,), at its edge wherever proposals reach that far.

    Categories change (``changes``), one, several or all at once; numbers make up for it where the metric lets them,
    and move on: at random, into corners, along ``pull``.
    """
    base = np.tile(x, (count, 1))
    if domain.kind != "unbounded" and changes:
        _change_categories(rng, domain, base)
    root, _ = metric.gauge()
    number = domain.numeric
    flip = base - x
    span = np.where(np.isfinite(domain.high - domain.low), domain.high - domain.low, 10.0)
    inverse = np.linalg.pinv(root[:, number]) if len(root) else np.zeros((int(number.sum()), 0))
    middle = np.zeros_like(base)
    middle[:, number] = -(flip @ root.T) @ inverse.T
    low, high = metric.box(x, radius)
    columns = np.linalg.norm(root, axis=0) if len(root) else np.zeros(len(x))
    reach = np.minimum(radius / np.where(columns > 0, columns, 1e-300), np.minimum(np.maximum(-low, high), span))
    way = np.where(rng.random((count, 1)) < 0.5, rng.normal(size=base.shape), rng.choice([-1.0, 0.0, 1.0], base.shape))
    if pull is not None:
        some = rng.random(count) < 0.5
        way[some] = (
            np.sign(pull)
            * rng.choice([-1.0, 1.0], (int(some.sum()), 1))
            * (rng.random((int(some.sum()), len(x))) < 0.8)
        )
    if len(root):  # the very edge of a ball whose axes are not the coordinates'
        turned = np.zeros_like(base)
        unit = rng.normal(size=(count, len(root)))
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        turned[:, number] = radius * unit @ inverse.T
        round_ = rng.random((count, 1)) < 0.4
    found = [x[None]]
    for share in SHARES:
        move = share * way * reach
        if len(root):
            move = np.where(round_, share * turned, move)
        if domain.kind == "realizable":
            move[:, ~number] = 0.0
        y = domain.snap(np.clip(base + middle + move, domain.low, domain.high))
        if domain.kind == "relaxed":
            for start, stop in domain.blocks:
                if stop - start > 1:
                    y[:, start:stop] /= np.maximum(y[:, start:stop].sum(axis=1, keepdims=True), 1e-300)
        for flag, value, fill in domain.fills if domain.kind == "realizable" else ():
            y[y[:, flag] == 1.0, value] = fill
        y[:, domain.immutable] = x[domain.immutable]
        found.append(y)
    people = np.concatenate(found)
    return people[domain.allows(np.tile(x, (len(people), 1)), people) & (metric.distance_upper(x, people) <= radius)]


def _change_categories(rng: np.random.Generator, domain: Domain, base: np.ndarray) -> None:
    """Other categories in place: none, some or all of them; shares of them in the relaxed domain."""
    rate = rng.choice([0.0, 0.15, 0.5, 1.0], (len(base), 1))
    for start, stop in domain.blocks:
        if domain.immutable[start:stop].any():
            continue
        rows = np.flatnonzero(rng.random(len(base)) < rate[:, 0])
        if stop - start == 1:
            other = 1.0 - base[rows, start : start + 1]
        else:
            other = np.eye(stop - start)[rng.integers(stop - start, size=len(rows))]
        share = rng.random((len(rows), 1)) ** 2 if domain.kind == "relaxed" else 1.0
        base[rows, start:stop] += share * (other - base[rows, start:stop])


def slope(network: Network, z: np.ndarray) -> np.ndarray:
    """Which way one of the outputs rises at ``z``, by differences."""
    step = 1e-5
    around = np.concatenate([z + step * np.eye(len(z)), z - step * np.eye(len(z))])
    value = network(around)[:, 0]
    return (value[: len(z)] - value[len(z) :]) / (2 * step)


def worst_pair(
    rng: np.random.Generator,
    network: Network,
    domain: Domain,
    metric: Metric,
    delta: float,
    people: np.ndarray,
    count: int = 40,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest violation found among the ``people``, with the pair that shows it."""
    best = 0.0, people[0], people[0]
    for z in people:
        others = neighbours(rng, domain, metric, delta, z, count, slope(network, z))
        value = np.abs(network(others) - network(z[None])).max(axis=1)
        if value.max() > best[0]:
            best = float(value.max()), z, others[value.argmax()]
    return best


def mlp(rng: np.random.Generator, width: int) -> Network:
    """One to three hidden layers, steep enough for pairs to differ."""
    head = str(rng.choice(["softmax", "softmax", "sigmoid", "regression"]))
    outputs = int(rng.choice({"softmax": [2, 3], "sigmoid": [1, 2], "regression": [1, 2]}[head]))
    sizes = [width, *[int(rng.integers(2, 7)) for _ in range(int(rng.integers(1, 4)))], outputs]
    pairs = list(itertools.pairwise(sizes))
    weights = [1.5 * rng.normal(size=(b, a)) / a**0.5 for a, b in pairs]
    kind = str(rng.choice(ACTIVATIONS))
    return Network.from_layers(
        weights, [rng.normal(size=b) * 0.3 for _, b in pairs], Activation(kind, PARAMETERS.get(kind, ())), head
    )


def possible(
    kind: str, low: object, high: object, blocks: object = (), integer: object = None, immutable: object = None
) -> Domain:
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    none = np.zeros(len(low), dtype=bool)
    return Domain(
        kind,
        low,
        high,
        tuple(blocks),
        none if integer is None else integer,
        np.zeros(len(low)),
        np.ones(len(low)),
        none if immutable is None else immutable,
        tuple(f"x{k}" for k in range(len(low))),
    )
