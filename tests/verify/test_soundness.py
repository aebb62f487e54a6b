"""The checker's own bounds hold for every pair of people that can be found, whatever metric, ground cost and network.

The oracle enumerates categories and whole numbers, draws the other coordinates at random and at the ends of what is
allowed, and evaluates distances and networks by their textbook formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from isonomy_verify.bounds import Layer, Metric, Moves
from isonomy_verify.people import Domain, Question

WIDTH = 6  # one-hot block 0-2, flag 3, whole number 4, number 5
UNIT = np.array([1, 1, 1, 1, 4.0, 1])
ACTIVATIONS = ("relu", "leaky_relu", "sigmoid", "tanh")


def metric(root: Any = None, order: float = 2.0, **box: Any) -> Metric:
    root = np.zeros((0, WIDTH)) if root is None else np.asarray(root, dtype=float)
    diagonal = root.shape == (WIDTH, WIDTH) and not (root - np.diag(np.diag(root))).any()
    parts = {"free": np.ones(WIDTH, dtype=bool), "tolerance": np.zeros(WIDTH), "relative": np.zeros(WIDTH)}
    parts |= {"origin": np.zeros(WIDTH), "unit": np.ones(WIDTH)} | {key: np.asarray(box[key]) for key in box}
    return Metric(root, order, diagonal, **parts)


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
        layers += [Layer(kind, leak=0.1 if kind == "leaky_relu" else 0.0)]
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
            domain_kind, np.array([0, 0, 0, 0, -1, -1.0]), np.ones(WIDTH), np.array([[0, 3], [3, 4]]),
            np.array([0, 0, 0, 0, 1, 0], dtype=bool), np.zeros(WIDTH), UNIT, immutable, np.zeros((0, 3)),
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
        "relaxed", -np.ones(WIDTH), np.ones(WIDTH), np.zeros((0, 2), dtype=int), np.zeros(WIDTH, dtype=bool),
        np.zeros(WIDTH), np.ones(WIDTH), np.zeros(WIDTH, dtype=bool), np.zeros((0, 3)),
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
    domain = Domain(
        "unbounded", *(np.full(WIDTH, s * np.inf) for s in (-1, 1)), np.zeros((0, 2), dtype=int), *[None] * 5
    )  # type: ignore[arg-type]
    question = Question(layers, "softmax", domain, metric(), 0.0, metric())
    exact = np.abs(received(layers, "softmax", x) - received(layers, "softmax", y)).max(1)
    found = question.attained(x, y)
    assert (found <= exact + 1e-15).all()
    assert np.allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_support_functions_hold_all_points(order: float) -> None:
    rng = np.random.default_rng(int(order))
    for root in (np.diag([1, 2, 0, 0.5, 1, 3.0]), rng.normal(size=(4, WIDTH))):
        low, high = -rng.random((3, WIDTH)), rng.random((3, WIDTH))
        radius, w = rng.uniform(0.1, 1, 3), rng.normal(size=(1, 7, WIDTH))
        top = Moves((low, high), metric(root, order), radius).support(w)
        v = rng.uniform(low[:, None], high[:, None], (3, 4000, WIDTH))
        size = np.linalg.norm(v @ root.T, order, axis=2)
        v = v * np.minimum(1, radius[:, None] / size)[..., None]
        assert ((v @ w[0].T).max(1) <= top).all()


def test_sets_out_of_reach_are_empty_and_others_are_not() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, WIDTH))
    low, high = np.full((200, WIDTH), -5.0), np.full((200, WIDTH), 5.0)
    low[:, :3] = high[:, :3] = rng.choice([-1.0, 0.0, 1.0], (200, 3))
    best = [np.linalg.lstsq(root[:, 3:], -root[:, :3] @ row[:3], rcond=None)[0] for row in low]
    price = np.linalg.norm(low[:, :3] @ root[:, :3].T + np.array(best) @ root[:, 3:].T, axis=1)
    empty = Moves((low, high), metric(root), np.full(200, 1.0)).empty()
    assert (empty == (price > 1)).all() and 0 < empty.sum() < 200
