"""The bounds written a second time in ball arithmetic: the float64 certificate contains the exact one.

Nothing here is shared with the code under test but the networks' numbers. ``arb`` carries 256 bits and encloses its own
rounding, so the lower end of a bound computed with it is a number that no sound float64 bound of the same relaxation
can fall below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ball_activations import apply, sigma

from isonomy import Mahalanobis, Metric, WeightedLp, certify_local
from isonomy.networks.graph import Activation, Graph, Head, Node, affine
from isonomy.networks.network import Network
from isonomy_verify.activations import SHAPES
from isonomy_verify.sets import ConvexSets

from .asked import enclose

PRECISION = 256
steady = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from(["box", "off-centre", "l1", "l2", "linf"])

KINDS: list[tuple[str, tuple[float, ...]]] = [
    ("relu", ()), ("leaky_relu", (0.1,)), ("leaky_relu", (-0.3,)), ("leaky_relu", (2.5,)), ("prelu", ()), ("clip",
    (-0.3, 0.7)), ("clip", (-math.inf, 0.5)), ("sigmoid", ()), ("tanh", ()), ("erf", ()), ("softplus", (1.0,)),
    ("softplus", (20.0,)), ("elu", (1.0,)), ("elu", (2.5,)), ("gelu", ()), ("gelu_tanh", ()), ("silu", ()),
    ("hardswish", ()), ("log1p", ()),
]  # fmt: skip
STRAIGHT = [kind for kind in KINDS if kind[0] in ("relu", "leaky_relu", "prelu", "clip")]
TURNS = {"hardswish": "-1.5", "silu": "-1.278464542761", "gelu": "-0.751791524693", "gelu_tanh": "-0.752461422071"}

Interval2 = tuple[Any, Any]
Support = Callable[[list[Any]], Any]


def test_every_activation_is_looked_at() -> None:
    assert {kind for kind, _ in KINDS} == set(SHAPES)


# -- arithmetic -----------------------------------------------------------------------------------------------------


def largest(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = total.max(value)
    return total


def smallest(values: list[Any]) -> Any:
    return -largest([-value for value in values])


def dot(left: list[Any], right: list[Any]) -> Any:
    return sum((a * b for a, b in zip(left, right, strict=True)), arb(0))


def image(kind: str, parameters: tuple[float, ...], low: Any, high: Any) -> Interval2:
    """The exact range over an interval: ends, and the turning point where there is one inside."""
    ends = [apply(kind, parameters, low), apply(kind, parameters, high)]
    turns = []
    if kind in TURNS:
        turns = [arb(TURNS[kind], "1e-11")]
    if kind in ("leaky_relu", "prelu") and parameters[0] < 0:
        turns = [arb(0)]
    inside = [apply(kind, parameters, turn.mid()) for turn in turns if low < turn and turn < high]
    return smallest([*ends, *inside]), largest([*ends, *inside])


# -- networks and sets ----------------------------------------------------------------------------------------------


@dataclass
class Plain:
    """A perceptron as lists of numbers; ``last`` holds the margins in exact arithmetic."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    kinds: list[tuple[str, tuple[float, ...]]]
    head: Head
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        nodes = []
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer:
                nodes.append(Node("activation", activation=Activation(*self.kinds[layer - 1])))
            nodes.append(affine(weight, bias))
        self.network = Network(Graph.chain(nodes), self.head)

    def layers(self) -> list[tuple[list[list[Any]], list[Any]]]:
        """Rows and biases of every layer, the last one merged into the margins without rounding."""
        found = [
            ([[arb(float(w)) for w in row] for row in weight], [arb(float(b)) for b in bias])
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]
        rows, bias = found[-1]
        if self.head == "softmax":
            k = len(rows)
            pairs = [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]
            rows_of = [[a - b for a, b in zip(rows[j], rows[c], strict=True)] for c, j in pairs]
            found[-1] = rows_of, [bias[j] - bias[c] for c, j in pairs]
        return found

    def activation(self, layer: int, neuron: int) -> tuple[str, tuple[float, ...]]:
        kind, parameters = self.kinds[layer]
        return kind, (parameters[neuron],) if kind == "prelu" else parameters

    def run(self, x: list[Any]) -> list[Any]:
        values = x
        for layer, (rows, bias) in enumerate(self.layers()):
            if layer:
                values = [apply(*self.activation(layer - 1, i), v) for i, v in enumerate(values)]
            values = [dot(row, values) + b for row, b in zip(rows, bias, strict=True)]
        return values

    def size(self, x: np.ndarray, extent: np.ndarray) -> float:
        """How large the numbers on the way to the outputs are: what rounding is relative to."""
        reach = np.abs(x) + extent
        total = 1.0
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer:
                steep = max([1.2, *map(abs, filter(math.isfinite, self.kinds[layer - 1][1]))])
                reach = 1 + steep * reach
            reach = np.abs(weight) @ reach + np.abs(bias)
            total = max(total, float(reach.max()))
        return total


def draw(rng: np.random.Generator, kinds: list[Any], widest: int = 12, depth: int = 3) -> Plain:
    head, outputs = [("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("sigmoid", 2), ("regression", 1)][rng.integers(5)]
    sizes = [int(rng.integers(1, 6)), *(int(s) for s in rng.integers(1, widest + 1, size=rng.integers(1, depth)))]
    sizes.append(outputs)
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    chosen = [kinds[int(rng.integers(len(kinds)))] for _ in sizes[1:-1]]
    chosen = [
        (kind, tuple(rng.normal(size=width).tolist()) if kind == "prelu" else parameters)
        for (kind, parameters), width in zip(chosen, sizes[1:-1], strict=True)
    ]
    return Plain(weights, [rng.normal(size=b) * 0.5 for b in sizes[1:]], chosen, head)


@dataclass
class Region:
    """One convex set of moves three times over: ours, its support function in arb, and members of it."""

    sets: ConvexSets
    support: Support
    members: list[list[Any]]
    extent: np.ndarray


def region(rng: np.random.Generator, shape: str, width: int, radius: float, count: int = 6) -> Region:
    if shape in ("box", "off-centre"):
        low, high = -radius * rng.random(width), radius * rng.random(width)
        still = rng.random(width) < 0.2
        low[still] = high[still] = 0.0
        if shape == "off-centre":
            low, high = low + 0.9 * radius, high + 0.9 * radius + 1e-3 * radius
        ends = [[arb(float(a)), arb(float(b))] for a, b in zip(low, high, strict=True)]
        members = [[end[int(rng.integers(2))] for end in ends] for _ in range(count)]
        sets = ConvexSets.of_box(low[None], high[None])

        def box(w: list[Any]) -> Any:
            return sum(((v * a).max(v * b) for v, (a, b) in zip(w, ends, strict=True)), arb(0))

        return Region(sets, box, members, np.maximum(np.abs(low), np.abs(high)))
    scale = rng.uniform(0.3, 3.0, width)
    exact, reach = [arb(float(s)) for s in scale], arb(radius)
    order = {"l1": 1.0, "l2": 2.0, "linf": math.inf}[shape]

    def ball(w: list[Any]) -> Any:
        turned = [v / s for v, s in zip(w, exact, strict=True)]
        return reach * norm(turned, {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[order])

    members = []
    for _ in range(count):
        corner = order == 1.0 and rng.random() < 0.7
        way = np.eye(width)[rng.integers(width)] * rng.choice([-1, 1]) if corner else rng.normal(size=width)
        way = np.sign(way) if order == math.inf else way
        unit = [arb(float(v)) / s for v, s in zip(way, exact, strict=True)]
        length = norm([arb(float(v)) for v in way], order).upper()
        members.append([reach * v / length for v in unit])
    return Region(ConvexSets.of_ball(scale, order, radius), ball, members, radius / scale)


def norm(values: list[Any], order: float) -> Any:
    if order == math.inf:
        return largest([abs(v) for v in values])
    if order == 1:
        return sum((abs(v) for v in values), arb(0))
    return sum((v * v for v in values), arb(0)).sqrt()


# -- the bounds, again ----------------------------------------------------------------------------------------------


def through(rows: list[list[Any]], bias: list[Any], ranges: list[Interval2]) -> list[Interval2]:
    found = []
    for row, b in zip(rows, bias, strict=True):
        ends = [(w * low, w * high) for w, (low, high) in zip(row, ranges, strict=True)]
        found.append((b + sum((a.min(c) for a, c in ends), arb(0)), b + sum((a.max(c) for a, c in ends), arb(0))))
    return found


def first_layer(plain: Plain, x: list[Any], support: Support) -> list[Interval2]:
    rows, bias = plain.layers()[0]
    at = [dot(row, x) + b for row, b in zip(rows, bias, strict=True)]
    return [(c - support([-w for w in row]), c + support(row)) for c, row in zip(at, rows, strict=True)]


def propagated(plain: Plain, x: list[Any], support: Support) -> list[Interval2]:
    """Interval bound propagation after an exact first layer."""
    ranges = first_layer(plain, x, support)
    for layer, (rows, bias) in enumerate(plain.layers()[1:]):
        after = [image(*plain.activation(layer, i), low, high) for i, (low, high) in enumerate(ranges)]
        ranges = through(rows, bias, after)
    return ranges


Line = tuple[Any, Any]
"""Slope and constant."""


def chord(kind: str, parameters: tuple[float, ...], low: Any, high: Any) -> tuple[Line, Line]:
    """Parallel lines above and below a function of straight pieces."""
    kinks = {"clip": [p for p in parameters if math.isfinite(p)]}.get(kind, [0.0])
    points = [low, high, *(arb(k) for k in kinks if low < arb(k) and arb(k) < high)]
    ends = apply(kind, parameters, low), apply(kind, parameters, high)
    slope = (ends[1] - ends[0]) / (high - low) if low < high else arb(0)
    gaps = [apply(kind, parameters, p) - slope * p for p in points]
    return (slope, largest(gaps)), (slope, smallest(gaps))


def leaning(kind: str, above: Line, below: Line, low: Any, high: Any, mode: str) -> Line:
    if kind != "relu" or not (low < 0 and high > 0) or mode == "chord":
        return below
    steep = mode == "steep" or (mode == "adaptive" and above[0] > arb(0.5))
    return arb(int(steep)), arb(0)


def backward(
    plain: Plain, ranges: list[list[Interval2]], row: list[Any], bias: Any, x: list[Any], support: Support, mode: str
) -> Any:
    """An upper bound of ``row · (last activations) + bias`` as a linear function of the move."""
    layers = plain.layers()
    for layer in range(len(ranges) - 1, -1, -1):
        turned = []
        for i, c in enumerate(row):
            kind, parameters = plain.activation(layer, i)
            low, high = ranges[layer][i]
            above, below = chord(kind, parameters, low, high)
            slope, constant = above if c > 0 else leaning(kind, above, below, low, high, mode)
            turned.append(c * slope)
            bias = bias + c * constant
        rows, under = layers[layer]
        bias = bias + dot(turned, under)
        row = [dot(turned, [rows[i][j] for i in range(len(rows))]) for j in range(len(rows[0]))]
    return bias + dot(row, x) + support(row)


def bends(kind: str, parameters: tuple[float, ...], low: Any, high: Any) -> bool:
    kinks = {"clip": [p for p in parameters if math.isfinite(p)]}.get(kind, [0.0])
    return any(low < arb(k) and arb(k) < high for k in kinks)


def linear(plain: Plain, x: list[Any], support: Support) -> list[Interval2]:
    """Backward linear bounds: bending neurons tightened layer by layer, outputs with three kinds of lower slopes."""
    layers = plain.layers()
    ranges = [first_layer(plain, x, support)]
    for layer in range(1, len(layers)):
        rows, bias = layers[layer]
        after = [image(*plain.activation(layer - 1, i), low, high) for i, (low, high) in enumerate(ranges[-1])]
        found, last = [], layer == len(layers) - 1
        for i, (low, high) in enumerate(through(rows, bias, after)):
            if last or bends(*plain.activation(layer, i), low, high):
                for mode in ("adaptive", "flat", "steep") if last else ("chord",):
                    negative = [-w for w in rows[i]]
                    high = high.min(backward(plain, ranges, rows[i], bias[i], x, support, mode))
                    low = low.max(-backward(plain, ranges, negative, -bias[i], x, support, mode))
            found.append((low, high))
        ranges.append(found)
    return ranges[-1]


def received(head: str, ranges: list[Interval2]) -> list[Interval2]:
    """What each class receives over enclosed margins."""
    if head == "regression":
        return ranges
    if head == "softmax" and len(ranges) > 1:
        k = round((1 + math.sqrt(1 + 4 * len(ranges))) / 2)
        groups = [ranges[c * (k - 1) : (c + 1) * (k - 1)] for c in range(k)]
        one = arb(1)
        return [
            (1 / sum((high.exp() for _, high in group), one), 1 / sum((low.exp() for low, _ in group), one))
            for group in groups
        ]
    return [(sigma(low), sigma(high)) for low, high in ranges]


def violation(plain: Plain, x: list[Any], ranges: list[Interval2]) -> Any:
    at = received(plain.head, [(value, value) for value in plain.run(x)])
    over = received(plain.head, ranges)
    return largest([(y[1] - c[0]).max(c[1] - y[0]) for c, y in zip(at, over, strict=True)])


# -- comparisons ----------------------------------------------------------------------------------------------------


def compare(
    plain: Plain,
    x: np.ndarray,
    around: Region,
    tier: Any,
    exact: list[Interval2],
    relative: float,
    size: float,
    below: float = 0.0,
) -> None:
    """The float64 enclosure contains the exact one (but for ``below``), and is wider by rounding only."""
    found = enclose(plain.network, x[None], around.sets, tier)
    (low, high), upper = found.over, float(found.violation[0])
    point = [arb(float(v)) for v in x]
    at = plain.run(point)
    room = arb(1e-9) * size
    for i, (bottom, top) in enumerate(exact):
        ours = arb(float(low[0, i])), arb(float(high[0, i]))
        assert not ours[1] + below < top and not ours[0] - below > bottom, i
        spare = relative * (abs(top - at[i]) + abs(bottom - at[i])) + room
        assert ours[1] <= top + spare and ours[0] >= bottom - spare, i
    truth = violation(plain, point, exact)
    assert not arb(upper) + below < truth
    if size < 1e4 and plain.head != "regression":
        assert arb(upper) <= truth * (1 + relative) + arb(1e-9 * size)


def contains(plain: Plain, x: np.ndarray, around: Region, tier: Any) -> None:
    """True outputs at members of the set, in arb, never leave the float64 enclosure, nor changes the bound."""
    found = enclose(plain.network, x[None], around.sets, tier)
    (low, high), upper = found.over, arb(float(found.violation[0]))
    assert not np.isnan(low).any() and not np.isnan(high).any()
    point = [arb(float(v)) for v in x]
    for move in around.members:
        values = plain.run([c + v for c, v in zip(point, move, strict=True)])
        for i, value in enumerate(values):
            assert not arb(float(high[0, i])) < value and not arb(float(low[0, i])) > value, (i, move)
        assert not upper < violation(plain, point, [(value, value) for value in values]), move


@steady
@given(seed=seeds, shape=shapes, radius=st.sampled_from([0.0, 1e-9, 1e-2, 1.0, 30.0]), kind=st.sampled_from(KINDS))
def test_interval_tier(seed: int, shape: str, radius: float, kind: Any) -> None:
    rng = np.random.default_rng(seed)
    with ctx.workprec(PRECISION):
        plain = draw(rng, [kind])
        x = rng.normal(size=plain.weights[0].shape[1])
        around = region(rng, shape, len(x), radius)
        exact = propagated(plain, [arb(float(v)) for v in x], around.support)
        compare(plain, x, around, "interval", exact, 1e-9, plain.size(x, around.extent))


@settings(steady, max_examples=6)
@given(seed=seeds, shape=shapes, kind=st.sampled_from(KINDS))
def test_interval_tier_of_wide_layers(seed: int, shape: str, kind: Any) -> None:
    """Wider layers are summed in another order."""
    rng = np.random.default_rng(seed)
    sizes = [3, 68, 65, 1]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    kind = (kind[0], tuple(rng.normal(size=68).tolist()) if kind[0] == "prelu" else kind[1])
    other = ("relu", ())
    with ctx.workprec(PRECISION):
        plain = Plain(weights, [rng.normal(size=b) for b in sizes[1:]], [kind, other], "sigmoid")
        x = rng.normal(size=3)
        around = region(rng, shape, 3, float(rng.choice([1e-6, 1e-2, 0.3])))
        exact = propagated(plain, [arb(float(v)) for v in x], around.support)
        compare(plain, x, around, "interval", exact, 1e-9, plain.size(x, around.extent))


@steady
@given(seed=seeds, shape=shapes, radius=st.sampled_from([1e-3, 0.1, 1.0, 30.0]), kind=st.sampled_from(STRAIGHT))
def test_tight_tier_of_straight_pieces(seed: int, shape: str, radius: float, kind: Any) -> None:
    """Backward bounds by chords and usual lower lines, in exact arithmetic, are hardly ever tighter, and not by much.

    The kernel chooses slopes of its own, which often suit an output better; so soundness is asked of the true outputs.
    """
    rng = np.random.default_rng(seed)
    with ctx.workprec(PRECISION):
        plain = draw(rng, [kind], widest=7, depth=4)
        x = rng.normal(size=plain.weights[0].shape[1])
        around = region(rng, shape, len(x), radius)
        exact = linear(plain, [arb(float(v)) for v in x], around.support)
        size = plain.size(x, around.extent)
        compare(plain, x, around, "tight", exact, 0.1, size, math.inf)
        contains(plain, x, around, "tight")


# -- where nothing is relaxed ---------------------------------------------------------------------------------------


def stable(rng: np.random.Generator, hidden: int, size: float) -> Plain:
    """ReLUs that are all active or all inactive within ten of the origin (times the size of the weights)."""
    head, outputs = [("softmax", 2), ("sigmoid", 1), ("regression", 1)][int(rng.integers(3))]
    sizes = [int(rng.integers(1, 6)), *(int(s) for s in rng.integers(1, 9, size=hidden)), outputs]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    weights[0] = weights[0] * size
    if hidden:
        weights[-1] = weights[-1] / size
    biases = [rng.choice([-1.0, 1.0, 1.0], size=b) * 50.0 * size * 60.0**i for i, b in enumerate(sizes[1:])]
    biases[-1] = rng.normal(size=outputs)
    return Plain(weights, biases, [("relu", ())] * hidden, head)


@steady
@given(
    seed=seeds,
    metric_kind=st.sampled_from(["mahalanobis", "l1", "l2", "linf"]),
    tier=st.sampled_from(["quick", "tight"]),
    hidden=st.integers(0, 2),
    size=st.sampled_from([1.0, 1e6, 1e-12]),
    delta=st.sampled_from([1e-6, 0.01, 0.3]),
)
def test_a_network_without_bends_is_met_exactly(
    seed: int, metric_kind: str, tier: Any, hidden: int, size: float, delta: float
) -> None:
    """The largest violation of an affine function over a ball is closed-form: not below it, and not above rounding."""
    rng = np.random.default_rng(seed)
    with ctx.workprec(PRECISION):
        plain = stable(rng, hidden, size)
        width = plain.weights[0].shape[1]
        x = rng.normal(size=width)
        metric, support = metric_of(rng, metric_kind, width, delta)
        found = certify_local(plain.network, x[None], metric, delta, tier=tier, attack=False, progress=None)
        point = [arb(float(v)) for v in x]
        ranges = [(v - support([-w for w in row]), v + support(row)) for row, v in straight(plain, point, support)]
        truth = violation(plain, point, ranges)
        upper = arb(float(found.upper[0]))
        assert not upper < truth
        floor = 1e-12 * plain.size(x, np.full(width, delta)) * (1 / size if hidden else 1.0)
        assert upper <= truth * (1 + 1e-9) + arb(floor)


def straight(plain: Plain, x: list[Any], support: Support) -> list[tuple[list[Any], Any]]:
    """The margins of a network of stable ReLUs as rows of one matrix, with their values at ``x``."""
    layers = plain.layers()
    found = [(row, dot(row, x) + b) for row, b in zip(*layers[0], strict=True)]
    for rows, bias in layers[1:]:
        assert all(v > support([-w for w in row]) or v < -support(row) for row, v in found)
        active = [(row, v) if v > 0 else ([arb(0)] * len(x), arb(0)) for row, v in found]
        columns = [[row[j] for row, _ in active] for j in range(len(x))]
        values = [v for _, v in active]
        found = [([dot(row, c) for c in columns], dot(row, values) + b) for row, b in zip(rows, bias, strict=True)]
    return found


def metric_of(rng: np.random.Generator, kind: str, width: int, delta: float) -> tuple[Metric, Support]:
    """A metric of ours, and the support function of its ball in exact arithmetic."""
    reach = arb(delta)
    if kind == "mahalanobis":
        root = rng.normal(size=(width, width)) + 3 * np.eye(width)
        matrix = arb_mat(width, width, [arb(float(v)) for v in root.T.ravel()])

        def ellipsoid(w: list[Any]) -> Any:
            turned = matrix.solve(arb_mat(width, 1, w))
            return reach * norm([turned[i, 0] for i in range(width)], 2.0)

        return Mahalanobis.from_root(root), ellipsoid
    weights, order = rng.uniform(0.3, 4, width), {"l1": 1.0, "l2": 2.0, "linf": math.inf}[kind]
    scale = [arb(float(w)).sqrt() if order == 2 else arb(float(w)) for w in weights]

    def ball(w: list[Any]) -> Any:
        turned = [v / s for v, s in zip(w, scale, strict=True)]
        return reach * norm(turned, {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[order])

    return WeightedLp(weights, order), ball


def test_arb_itself_knows_the_turning_points() -> None:
    """The lowest points that are written down here are where the derivative changes sign."""
    with ctx.workprec(PRECISION):
        for kind, text in TURNS.items():
            middle, step = arb(text), arb("1e-10")
            low = apply(kind, (), middle)
            assert apply(kind, (), middle - step) > low - arb("1e-20") and apply(kind, (), middle + step) > low - arb(
                "1e-20"
            )


@pytest.mark.parametrize("kind", KINDS)
def test_a_break_would_be_seen(kind: Any) -> None:
    """The comparison itself notices an enclosure that is narrower by one part in 10⁸."""
    rng = np.random.default_rng(7)
    with ctx.workprec(PRECISION):
        plain = draw(rng, [kind])
        x = rng.normal(size=plain.weights[0].shape[1])
        around = region(rng, "box", len(x), 0.5)
        exact = propagated(plain, [arb(float(v)) for v in x], around.support)
        wider = [(low - 1e-8 * (high - low), high + 1e-8 * (high - low)) for low, high in exact]
        with pytest.raises(AssertionError):
            compare(plain, x, around, "interval", wider, 1.0, 1.0)
