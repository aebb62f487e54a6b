"""What the checker derives holds for every pair of people that can be found, whatever metric, ground cost and network.

The oracle enumerates categories and whole numbers, draws the other coordinates at random and at the ends of what is
allowed, and evaluates distances and networks by their textbook formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form as Metric
from isonomy_verify.heads import Head
from isonomy_verify.local import LocalBounds
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import Reach
from isonomy_verify.regions import BallBox
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import enclose_at

WIDTH = 6  # one-hot block 0-2, flag 3, whole number 4, number 5
UNIT = np.array([1, 1, 1, 1, 4.0, 1])
ACTIVATIONS = ("relu", "leaky_relu", "sigmoid", "tanh")


def metric(root: Any = None, order: float = 2.0, **box: Any) -> Metric:
    root = np.zeros((0, WIDTH)) if root is None else np.asarray(root, dtype=float)
    parts = {"free": np.ones(WIDTH, dtype=bool), "tolerance": np.zeros(WIDTH), "relative": np.zeros(WIDTH)}
    parts |= {"origin": np.zeros(WIDTH), "unit": np.ones(WIDTH)} | {key: np.asarray(box[key]) for key in box}
    return Metric(root, order, **parts)


class Layer:
    """One step of a chain: an affine map, or an activation."""

    def __init__(self, kind: str, weight: Any = None, bias: Any = None) -> None:
        self.kind, self.weight, self.bias = kind, weight, bias

    def node(self, i: int) -> Node:
        if self.kind == "affine":
            return Node("affine", (i,), weight=self.weight, bias=self.bias)
        return Node("activation", (i,), activation=Activation(self.kind, (0.1,) if self.kind == "leaky_relu" else ()))


class Question:
    """The bounds as the checker asks for them."""

    def __init__(
        self, layers: list[Layer], head: str, domain: Domain, similar: Metric, delta: float, ground: Metric
    ) -> None:
        nodes = [Node("input", width=WIDTH), *(layer.node(i) for i, layer in enumerate(layers))]
        self.head = Head(head, len(layers[-1].bias), None, False)  # type: ignore[arg-type]
        self.network = Preparations(normal_form(nodes, self.head.rows))
        self.similarity = Similarity(similar, delta, domain, 1000, keep=True)
        self.reach = Reach(self.network, self.head, self.similarity, ground)

    def bound(self, x: Array, radii: Array) -> Array:
        """For every row of one individual a radius; infinity stands for anybody."""
        found = [self.reach.bound(x[:1], [float(r)])[0, 0] for r in radii[np.isfinite(radii)]]
        if self.reach.is_norm:
            found[0] = min(found[0], float(LocalBounds(self.network, self.head, self.similarity).chunk(x[:1]).upper[0]))
        return np.array(found + [self.reach.everywhere(x)[0]] * int(np.isinf(radii).sum()))

    def attained(self, x: Array, y: Array) -> Array:
        alone = self.network.single(float32_run=False)
        return self.head.attained(enclose_at(alone, x), enclose_at(alone, y))


def draw_metric(rng: np.random.Generator, kind: str) -> Metric:
    if kind == "counterparts":
        free = np.array([1, 1, 1, 0, 0, rng.random() < 0.3], dtype=bool)
        relative = np.array([0, 0, 0, 0, 0, 0.3 * (rng.random() < 0.5)])
        tolerance = np.array([0, 0, 0, 0, 0.26, 0.2])
        return metric(free=free, tolerance=tolerance, relative=relative, origin=np.full(WIDTH, 3.0))
    if kind == "dense":
        return metric(rng.normal(size=(5, WIDTH)) / 2)
    scale = rng.uniform(0.2, 1.5, WIDTH) * (rng.random(WIDTH) < 0.8)
    return metric(np.diag(scale), {"l1": 1.0, "l2": 2.0}[kind])


def distances(of: Metric, x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """By the definition."""
    far = np.linalg.norm((others - x) @ of.root.T, of.order, axis=1) if len(of.root) else np.zeros(len(others))
    for i in np.flatnonzero(~of.free):
        if of.relative[i] > 0:
            v, w = (of.unit[i] * end + of.origin[i] for end in (x[i], others[:, i]))
            apart = np.abs(np.log(v) - np.log(w)) / np.log1p(of.relative[i])
        else:
            apart = np.where(
                x[i] == others[:, i], 0.0, np.inf if not of.tolerance[i] else 1.0 / (of.tolerance[i] or 1.0)
            )
            apart = apart * np.where(of.tolerance[i] > 0, np.abs(x[i] - others[:, i]), 1.0)
        far = np.maximum(far, np.nan_to_num(apart, posinf=np.inf))
    return far


def everybody(rng: np.random.Generator, whole: bool, around: np.ndarray) -> np.ndarray:
    """Possible people: all categories and whole numbers, with other numbers near a place, at the ends, anywhere."""
    numbers = [-1.0, 1.0, around[5], *(around[5] + rng.normal(size=4) * 0.2), *(around[5] + np.array([-0.2, 0.2]))]
    category, flag, k, number = np.meshgrid(range(3), (0.0, 1.0), range(-4, 5), np.clip(numbers, -1, 1))
    people = np.column_stack([np.eye(3)[category.ravel()], flag.ravel(), k.ravel() / 4, number.ravel()])
    if not whole:
        mix = rng.dirichlet(np.ones(3), len(people))
        people[:, :3] = np.where(rng.random((len(people), 1)) < 0.5, people[:, :3], mix)
        people[:, 3:] = np.clip(people[:, 3:] + rng.normal(size=(len(people), 3)) * 0.1, [0, -1, -1], 1)
    return people


def network(rng: np.random.Generator, kind: str, outputs: int) -> list[Layer]:
    layers, width = [], WIDTH
    for out in (5, 4, outputs):
        layers += [Layer("affine", rng.normal(size=(out, width)), rng.normal(size=out))]
        layers += [Layer(kind)]
        width = out
    return layers[:-1]


def received(layers: list[Layer], head: str, x: np.ndarray) -> np.ndarray:
    for layer in layers:
        if layer.kind == "affine":
            x = x @ layer.weight.T + layer.bias
        else:
            rules = {"relu": lambda p: np.maximum(p, 0), "leaky_relu": lambda p: np.where(p > 0, p, 0.1 * p)}
            x = (rules | {"sigmoid": lambda p: 1 / (1 + np.exp(-p)), "tanh": np.tanh})[layer.kind](x)
    if head == "softmax":
        return np.exp(x) / np.exp(x).sum(1, keepdims=True)
    return 1 / (1 + np.exp(-x)) if head == "sigmoid" else x


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", ["counterparts", "dense", "l1", "l2"])
@pytest.mark.parametrize("head", ["softmax", "sigmoid", "regression"])
@pytest.mark.parametrize("domain_kind", ["realizable", pytest.param("relaxed", marks=pytest.mark.slow)])
def test_no_pair_exceeds_the_bound(kind: str, head: str, domain_kind: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, len(kind), len(head), len(domain_kind)])
        whole = domain_kind == "realizable"
        immutable = np.zeros(WIDTH, dtype=bool)
        immutable[3] = seed == 1
        domain = Domain(
            domain_kind, np.array([0, 0, 0, 0, -1, -1.0]), np.ones(WIDTH), ((0, 3), (3, 4)),  # type: ignore[arg-type]
            np.array([0, 0, 0, 0, 1, 0], dtype=bool), np.zeros(WIDTH), UNIT, immutable, tuple(map(str, range(WIDTH))),
        )  # fmt: skip
        layers = network(rng, ACTIVATIONS[seed], (2, 3, 1, 3)[seed] if head != "softmax" else (2, 3, 2, 3)[seed])
        similar = draw_metric(rng, kind)
        ground = draw_metric(rng, ("l2", "l1", "dense", "l2")[seed])
        delta = 1.0 if kind == "counterparts" else 0.4
        question = Question(layers, head, domain, similar, delta, ground)
        x = everybody(rng, True, np.zeros(WIDTH))[rng.integers(486)]
        radii = np.array([0.0, 0.1, 0.5, 1.5, np.inf])
        with np.errstate(all="ignore"):
            bounds = question.bound(np.repeat(x[None], 5, 0), radii)
        near = np.concatenate([x[None], everybody(rng, whole, x)])
        assert domain.contains(near).all()
        cost = distances(ground, x, near)
        seen = np.zeros(5)
        for i in [0, *rng.choice(len(near), 60, p=(w := np.exp(-3 * cost)) / w.sum())]:
            z = near[i]
            flips = np.repeat(z[None], 4, 0)  # moves of single features, which small metrics allow
            flips[:3, :3] = np.eye(3)
            flips[3, 5] = np.clip(z[5] + rng.choice([-0.2, 0.2]), -1, 1)
            others = np.concatenate([everybody(rng, whole, z)[rng.integers(486, size=60)], z[None], flips])
            others = others[(others == z)[:, immutable].all(1)]
            others = others[distances(similar, z, others) <= delta]
            gap = np.abs(received(layers, head, others) - received(layers, head, z[None])).max(initial=0.0)
            seen = np.where(cost[i] <= radii, np.maximum(seen, gap), seen)
        assert (seen <= bounds + 1e-12).all(), (seed, seen, bounds)
        assert seen[-1] > 0


def test_a_known_answer() -> None:
    """``relu(x - 0.4)``: from 0.5 to 0.7 it rises by 0.2, as far as anybody within 0.5 of 0 can see it rise."""
    layers = [
        Layer("affine", np.eye(WIDTH)[5:], np.array([-0.4])),
        Layer("relu"),
        Layer("affine", np.ones((1, 1)), np.zeros(1)),
    ]
    domain = Domain(
        "relaxed", -np.ones(WIDTH), np.ones(WIDTH), (), np.zeros(WIDTH, dtype=bool),
        np.zeros(WIDTH), np.ones(WIDTH), np.zeros(WIDTH, dtype=bool), tuple(map(str, range(WIDTH))),
    )  # fmt: skip
    near = metric(free=np.zeros(WIDTH, dtype=bool), tolerance=0.2 * np.eye(WIDTH)[5])
    question = Question(layers, "regression", domain, near, 1.0, metric(np.eye(WIDTH)))
    with np.errstate(all="ignore"):
        found = question.bound(np.zeros((4, WIDTH)), np.array([0.0, 0.1, 0.3, 0.5]))
    assert (found >= [0.0, 0.0, 0.1, 0.2]).all()
    assert found[0] <= 1e-12 and found[-1] <= 0.2 + 1e-12


def test_at_a_point_nothing_is_left_but_rounding() -> None:
    rng = np.random.default_rng(0)
    layers = network(rng, "relu", 2)
    x, y = rng.normal(size=(2, 50, WIDTH))
    no, none = np.zeros(WIDTH, dtype=bool), np.zeros(WIDTH)
    infinite = np.full(WIDTH, np.inf)
    domain = Domain("unbounded", -infinite, infinite, (), no, none, none + 1, no, tuple(map(str, range(WIDTH))))
    question = Question(layers, "softmax", domain, metric(np.eye(WIDTH)), 0.0, metric(np.eye(WIDTH)))
    exact = np.abs(received(layers, "softmax", x) - received(layers, "softmax", y)).max(1)
    found = question.attained(x, y)
    assert (found <= exact + 1e-15).all()
    assert np.allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_support_functions_hold_all_points(order: float) -> None:
    rng = np.random.default_rng(int(order))
    for root in (np.diag([1, 2, 0, 0.5, 1, 3.0]), rng.normal(size=(4, WIDTH))):
        low, high = -rng.random((3, WIDTH)), rng.random((3, WIDTH))
        radius, w = rng.uniform(0.1, 1, 3), rng.normal(size=(7, WIDTH))
        region = BallBox(low, high, root, order, radius)
        top = np.stack([region.support(np.repeat(row[None], 3, 0), slice(None)) for row in w], axis=1)
        v = rng.uniform(low[:, None], high[:, None], (3, 4000, WIDTH))
        size = np.linalg.norm(v @ root.T, order, axis=2)
        v = v * np.minimum(1, radius[:, None] / size)[..., None]
        assert ((v @ w.T).max(1) <= top).all()
