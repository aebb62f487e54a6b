"""The slack of rounded constants and fused functions reaches the function that the original computes."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from isonomy.errors import UnsupportedOperationError
from isonomy.networks.builder import Builder, Value
from isonomy.networks.graph import Activation, Graph, Node
from isonomy.networks.operations import fused_where, multiply

mpmath.mp.prec = 200

FUNCTIONS = {
    "gelu": lambda x: x * (1 + mpmath.erf(x / mpmath.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "gelu_tanh": lambda x: x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3))) / 2,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
}

sizes = st.floats(1e-3, 1e3).map(lambda v: float(np.float32(v)))


def enclosure(graph: Graph, x: float) -> tuple[mpf, mpf]:
    """The range of the output of a one-wide chain at ``x``, in 200 bits, with all slacks."""
    low = high = mpf(x)
    for node in graph.nodes:
        match node.kind:
            case "affine":
                w, b = mpf(node.weight.item()), mpf(node.bias.item())
                reach = mpf(node.weight_error.item()) * max(abs(low), abs(high)) + mpf(node.bias_error.item())
                low, high = min(w * low, w * high) + b - reach, max(w * low, w * high) + b + reach
            case "activation":
                # Wide enough for the points used: every slope here is at most 2.
                middle, half = FUNCTIONS[node.activation.kind]((low + high) / 2), high - low
                low, high = middle - half, middle + half
            case kind:
                assert kind == "input"
    return low, high


def finished(builder: Builder, value: Value) -> Graph:
    return builder.finish(value, "regression").graph


def f32(value: float) -> float:
    return float(np.float32(value))


@settings(max_examples=80, deadline=None)
@given(sizes, sizes, st.floats(-8, 8))
def test_gelu_with_any_constants(k: float, s: float, x: float) -> None:
    builder = Builder((1,), 2)
    gate = builder.add(builder.activation(builder.divide(builder.input, k), "erf"), 1.0)
    graph = finished(builder, multiply(builder, multiply(builder, multiply(builder, builder.input, s), gate), 0.3))
    assert [node.activation for node in graph.nodes if node.activation] == [Activation("gelu")]
    low, high = enclosure(graph, x)
    true = mpf(s) * mpf(x) * (1 + mpmath.erf(mpf(x) / mpf(k))) * mpf(0.3)
    assert low <= true <= high
    assert high - low <= 1e-12 * (1 + abs(s * x))


@settings(max_examples=80, deadline=None)
@given(sizes, sizes, st.floats(-8, 8), st.booleans())
def test_silu_with_any_constants(k: float, s: float, x: float, negative: bool) -> None:
    k = -k if negative else k
    builder = Builder((1,), 2)
    gate = builder.divide(builder.activation(multiply(builder, builder.input, k), "sigmoid"), s)
    graph = finished(builder, multiply(builder, gate, builder.input))
    low, high = enclosure(graph, x)
    true = mpf(x) / (1 + mpmath.exp(-mpf(k) * mpf(x))) / mpf(s)
    assert low <= true <= high
    assert high - low <= 1e-12 * (1 + abs(x / s))


@pytest.mark.parametrize("precision", [float, f32])
@pytest.mark.parametrize("x", np.linspace(-7, 7, 57).tolist())
def test_tanh_form(precision: type[float], x: float) -> None:
    beta, kappa, s = precision(0.7978845608028654), precision(0.044715), 1.7
    builder = Builder((1,), 2)
    v = multiply(builder, builder.input, 1.0)
    cube = multiply(builder, multiply(builder, multiply(builder, v, kappa), v), v)
    inner = multiply(builder, builder.add(v, cube), beta)
    gate = builder.add(1.0, builder.activation(inner, "tanh"))
    graph = finished(builder, multiply(builder, multiply(builder, v, s), gate))
    low, high = enclosure(graph, x)
    argument = mpf(beta) * (mpf(x) + mpf(kappa) * mpf(x) ** 3)
    assert low <= mpf(s) * mpf(x) * (1 + mpmath.tanh(argument)) <= high
    assert high - low < (1e-5 if precision is f32 else 1e-13) * (1 + abs(x))


def test_almost_functions_are_refused() -> None:
    builder = Builder((1,), 2)
    x = builder.input
    gates = [
        builder.add(builder.activation(x, "erf"), 1.5),
        builder.add(builder.activation(x, "sigmoid"), 0.1),
        builder.add(builder.activation(builder.add(x, 0.2), "erf"), 1.0),
        builder.add(builder.activation(multiply(builder, x, -1.0), "erf"), 1.0),
        builder.add(builder.activation(builder.add(x, builder.apply(Node("cube"), x)), "tanh"), 1.0),
    ]
    for gate in gates:
        with pytest.raises(UnsupportedOperationError, match="product of two tensors"):
            multiply(builder, x, gate)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 5), st.floats(-100, 100))
def test_softplus_that_is_linear_beyond(beta: float, x: float) -> None:
    for inverse in (1 / mpf(beta), mpf(f32(1 / beta))):
        builder = Builder((1,), 2)
        t = multiply(builder, builder.input, beta)
        smooth = builder.activation(t, "softplus", 1.0)
        smooth = builder.divide(smooth, beta) if inverse == 1 / mpf(beta) else multiply(builder, smooth, float(inverse))
        value = fused_where(builder, builder.apply(Node("comparison", bias=np.array([20.0])), t), builder.input, smooth)
        graph = finished(builder, value)
        low, high = enclosure(graph, x)
        y = mpf(beta) * mpf(x)
        assert low <= (mpf(x) if y > 20 else mpmath.log1p(mpmath.exp(y)) * inverse) <= high
        assert high - low < 1e-5 / beta
        # Of a weight two runs have the same, which both pieces here have not.
        assert all(node.weight_error.max() < 1e-13 / beta for node in graph.nodes if node.kind == "affine")


@settings(max_examples=100, deadline=None)
@given(*[st.floats(-50, 50)] * 4, st.floats(0, 50), st.floats(1e-8, 1.0))
def test_batch_norm_and_division(
    x: float, scale: float, bias: float, mean: float, variance: float, epsilon: float
) -> None:
    builder = Builder((1,), 2)
    parts = [np.array([each]) for each in (scale, bias, mean, variance)]
    graph = finished(builder, builder.normalise(builder.input, *parts[2:], *parts[:2], epsilon=epsilon))
    low, high = enclosure(graph, x)
    true = (mpf(x) - mpf(mean)) / mpmath.sqrt(mpf(variance) + mpf(epsilon)) * mpf(scale) + mpf(bias)
    assert low <= true <= high
    if abs(scale) > 1e-300:
        low, high = enclosure(finished(builder, builder.divide(builder.input, scale)), x)
        assert low <= mpf(x) / mpf(scale) <= high


def test_dividing_by_a_power_of_two_is_exact() -> None:
    builder = Builder((3,), 2)
    layer = finished(builder, builder.divide(builder.input, np.array([2.0, -0.25, 3.0]))).nodes[-1]
    assert (layer.weight_error > 0).tolist() == [False, False, True]
    assert layer.weight.diagonal()[:2].tolist() == [0.5, -4.0]


def test_a_second_constant_is_added_to_the_first() -> None:
    builder = Builder((2,), 2)
    layer = builder.matmul(builder.input, np.eye(2), np.array([1.0, 2.0]))
    slack = builder.with_error(builder.matmul(builder.input, np.eye(2)), 0.5)
    for value, expected in ((layer, [11.0, 22.0]), (slack, [10.0, 20.0])):
        graph = finished(builder, builder.add(value, np.array([10.0, 20.0])))
        assert graph.evaluate(np.zeros((1, 2))).tolist() == [expected]
        assert any(node.bias_error.any() for node in graph.nodes if node.kind == "affine") == (value is slack)
