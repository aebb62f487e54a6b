"""Each activation: how accurately it is computed, where it turns, and that its image holds every value."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.arithmetic import UNIT, UNIT32
from isonomy.bounds.activations import doubt, image, shape
from isonomy.networks.graph import ACTIVATIONS, Activation
from isonomy_verify.activations import Activation as Judged
from isonomy_verify.activations import slope_range

from .reference import KINDS, exact_activation, mpf

CASES = [Activation(kind, parameters if parameters is not None else (0.25,)) for kind, parameters in KINDS]
CASES += [Activation("softplus", (1e-3,)), Activation("softplus", (1e3,)), Activation("elu", (1e6,))]
CASES += [Activation("leaky_relu", (1e6,)), Activation("prelu", (-1e6,)), Activation("clip", (0.5, 0.5))]
each = pytest.mark.parametrize("activation", CASES, ids=lambda a: f"{a.kind}{a.parameters}")


def places(count: int = 700) -> np.ndarray:
    rng = np.random.default_rng(1)
    sizes = 10.0 ** rng.uniform(-18, 6, count) * rng.choice([-1, 1], count)
    awkward = [
        0.0,
        -0.0,
        5e-324,
        1e-308,
        1e-9,
        0.7517915246935645,
        1.2784645427610738,
        5.0,
        6.0,
        20.0,
        37.0,
        710.0,
        1e8,
        1e30,
    ]
    grid = np.linspace(-12, 12, count)
    return np.concatenate([grid, rng.normal(size=count), sizes, awkward, np.negative(awkward)])


def test_every_activation_is_here() -> None:
    assert {case.kind for case in CASES} == set(ACTIVATIONS)


@pytest.mark.some(13)
@each
def test_doubt_covers_the_computed_values(activation: Activation) -> None:
    x = torch.from_numpy(places())
    value = activation(x)
    error = doubt(activation, x, value)
    with mpmath.workprec(300):
        for at, found, margin in zip(x.tolist(), value.tolist(), error.tolist(), strict=True):
            exact = exact_activation(activation.kind, mpf(at), activation.parameters)
            assert abs(mpf(found) - exact) <= mpf(margin), at


def float32_function(activation: Activation) -> torch.nn.Module | None:
    p = activation.parameters
    return {
        "relu": lambda: torch.nn.ReLU(),
        "leaky_relu": lambda: torch.nn.LeakyReLU(*p),
        "sigmoid": lambda: torch.nn.Sigmoid(),
        "tanh": lambda: torch.nn.Tanh(),
        "softplus": lambda: torch.nn.Softplus(*p),
        "elu": lambda: torch.nn.ELU(*p),
        "gelu": lambda: torch.nn.GELU(),
        "gelu_tanh": lambda: torch.nn.GELU(approximate="tanh"),
        "silu": lambda: torch.nn.SiLU(),
        "erf": lambda: torch.erf,
    }.get(activation.kind, lambda: None)()


@each
def test_doubt_covers_a_float32_run(activation: Activation) -> None:
    """torch's own modules in float32 at float32 numbers."""
    function = float32_function(activation)
    if function is None:
        pytest.skip("exact, or without a module")
    x = torch.from_numpy(places(300)).float()
    x = x[x.abs() < 1e6]
    found = function(x)
    value = activation(x.double())
    error = doubt(activation, x.double(), value, UNIT32)
    with mpmath.workprec(300):
        for at, got, margin in zip(x.tolist(), found.tolist(), error.tolist(), strict=True):
            exact = exact_activation(activation.kind, mpf(at), activation.parameters)
            assert abs(mpf(got) - exact) <= mpf(margin), at


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "silu"])
def test_turning_points(kind: str) -> None:
    """One sign change of the derivative; place and value as written; the value not above the true one."""
    place, value = shape(Activation(kind)).turn
    with mpmath.workprec(300):

        def f(v: mpmath.mpf) -> mpmath.mpf:
            return exact_activation(kind, v, ())

        def slope(v: mpmath.mpf) -> mpmath.mpf:
            return (f(v + mpf(2) ** -70) - f(v - mpf(2) ** -70)) * mpf(2) ** 69

        left, root = mpf(place) - mpf(10) ** -3, mpf(place) + mpf(10) ** -3
        assert slope(left) < 0 < slope(root)
        for _ in range(80):
            middle = (left + root) / 2
            left, root = (middle, root) if slope(middle) < 0 else (left, middle)
        assert abs(root - mpf(place)) < mpf(10) ** -12
        assert mpf(value) - 32 * mpf(UNIT) < f(root)
        assert abs(mpf(value) - f(root)) < mpf(10) ** -15
        slopes = [slope(mpf(v) / 8) for v in range(-100, 80)]
    changes = [a * b < 0 for a, b in itertools.pairwise(slopes)]
    assert sum(changes) == 1
    assert slopes[-1] > 0 > slopes[0]


@each
def test_steepest_slope(activation: Activation) -> None:
    kind, parameters = activation.kind, activation.parameters
    limit = mpf(shape(activation).steepest)
    with mpmath.workprec(200):
        xs = [mpf(float(v)) for v in np.linspace(-6, 6, 801)]
        ys = [exact_activation(kind, v, parameters) for v in xs]
        steepest = max(abs(b - a) / (v - u) for a, b, u, v in zip(ys, ys[1:], xs, xs[1:], strict=False))
    assert steepest <= limit


@each
@settings(max_examples=30, deadline=None)
@given(data=st.data(), unit=st.sampled_from([UNIT, UNIT32]))
def test_image_holds_every_value(activation: Activation, data: st.DataObject, unit: float) -> None:
    numbers = (
        st.floats(-5, 5)
        | st.floats(-1e3, 1e3)
        | st.sampled_from([-1.2784645427610738, -0.7517915246935645, 0.0, -1e30, 1e30])
    )
    low, high = sorted((data.draw(numbers), data.draw(numbers)))
    bottom, top = (
        float(v)
        for v in image(
            activation, torch.tensor([low], dtype=torch.float64), torch.tensor([high], dtype=torch.float64), unit
        )
    )
    shares = [0.0, 1.0, *data.draw(st.lists(st.floats(0, 1), max_size=5))]
    inner = [low + s * (high - low) for s in shares] + [
        -1.2784645427610738,
        -0.7517915246935645,
        -0.7524614220710162,
        0.0,
    ]
    with mpmath.workprec(300):
        for x in inner:
            if low <= x <= high:
                exact = exact_activation(activation.kind, mpf(x), activation.parameters)
                assert mpf(bottom) <= exact <= mpf(top), x


@each
def test_image_of_a_line_is_no_nan_and_of_a_nan_is_no_number(activation: Activation) -> None:
    infinity = torch.tensor([torch.inf]).double()
    bottom, top = image(activation, -infinity, infinity)
    far = activation(torch.tensor([1e6, -1e6]).double())
    assert bottom.isnan() or bottom <= far.min()
    assert top.isnan() or top >= far.max()
    bottom, top = image(activation, infinity * torch.nan, infinity)
    assert bool(bottom.isnan()) and bool(top.isnan())


STRAIGHT = [activation for activation in CASES if shape(activation).exact]


@pytest.mark.parametrize("activation", STRAIGHT, ids=lambda a: f"{a.kind}{a.parameters}")
def test_slopes_hold_every_chord_and_not_a_number_rules_nothing_out(activation: Activation) -> None:
    """Also over ranges of one point, on a kink, without an end, and over those of which nothing is known."""
    limits = [limit for limit in activation.parameters if np.isfinite(limit)] if activation.kind == "clip" else []
    ends = sorted({-torch.inf, -1.0, 0.0, 0.5, 1.0, torch.inf, *limits})
    ranges = [(a, b) for a, b in itertools.product(ends, ends) if a <= b]
    ranges += [(torch.nan, 1.0), (-1.0, torch.nan), (torch.nan, torch.nan)]
    low, high = (np.array([pair[side] for pair in ranges]) for side in (0, 1))
    if activation.kind == "prelu":
        low, high = (np.repeat(side[:, None], len(activation.parameters), 1) for side in (low, high))
    least, most = slope_range(Judged(activation.kind, activation.parameters), low, high)
    if activation.kind == "prelu":
        least, most = least[:, 0], most[:, 0]
    assert (least <= most).all()
    for (a, b), lowest, highest in zip(ranges, least.tolist(), most.tolist(), strict=True):
        inside = [max(-9.0, a), min(9.0, b)] if a <= b else [-9.0, 9.0]
        points = torch.linspace(*inside, 37, dtype=torch.float64)
        chords = activation(points).diff() / points.diff()
        chords = chords[points.diff() > 0]
        assert (lowest - 1e-9 <= chords).all() and (chords <= highest + 1e-9).all(), (a, b)
