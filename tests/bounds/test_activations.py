"""Each activation: its image holds every value, and what float32 runs of torch compute; slopes hold every chord."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.networks.graph import ACTIVATIONS, Activation
from isonomy_verify.activations import Activation as Judged
from isonomy_verify.activations import Curve, slope_range
from isonomy_verify.arithmetic import U32

from .reference import KINDS, exact_activation, mpf

CASES = [Activation(kind, parameters if parameters is not None else (0.25,)) for kind, parameters in KINDS]
CASES += [Activation("softplus", (1e-3,)), Activation("softplus", (1e3,)), Activation("elu", (1e6,))]
CASES += [Activation("leaky_relu", (1e6,)), Activation("prelu", (-1e6,)), Activation("clip", (0.5, 0.5))]
each = pytest.mark.parametrize("activation", CASES, ids=lambda a: f"{a.kind}{a.parameters}")


def image(
    activation: Activation, low: np.ndarray, high: np.ndarray, unit: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """By the kernel; one element in each row."""
    judged = Judged(activation.kind, activation.parameters)
    bottom, top = Curve(judged, low[:, None], high[:, None], unit).image()
    return bottom[:, 0], top[:, 0]


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
def test_images_of_points_cover_the_values(activation: Activation) -> None:
    """Both the exact ones and those that are computed."""
    x = places()
    value = activation(x)
    bottom, top = image(activation, x, x)
    assert (bottom <= value).all() and (value <= top).all()
    with mpmath.workprec(300):
        for at, low, high in zip(x.tolist(), bottom.tolist(), top.tolist(), strict=True):
            exact = exact_activation(activation.kind, mpf(at), activation.parameters)
            assert mpf(low) <= exact <= mpf(high), at


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
        "hardswish": lambda: torch.nn.Hardswish(),
        "erf": lambda: torch.erf,
    }.get(activation.kind, lambda: None)()


@each
def test_images_cover_a_float32_run(activation: Activation) -> None:
    """torch's own modules in float32 at float32 numbers."""
    function = float32_function(activation)
    if function is None:
        pytest.skip("exact, or without a module")
    x = torch.from_numpy(places(300)).float()
    x = x[x.abs() < 1e6]
    found = function(x).double().numpy()
    bottom, top = image(activation, x.double().numpy(), x.double().numpy(), U32)
    wrong = (found < bottom) | (found > top)
    assert not wrong.any(), x[torch.from_numpy(wrong)]


@each
@settings(max_examples=30, deadline=None)
@given(data=st.data(), unit=st.sampled_from([0.0, U32]))
def test_image_holds_every_value(activation: Activation, data: st.DataObject, unit: float) -> None:
    numbers = (
        st.floats(-5, 5)
        | st.floats(-1e3, 1e3)
        | st.sampled_from([-1.2784645427610738, -0.7517915246935645, 0.0, -1e30, 1e30])
    )
    low, high = sorted((data.draw(numbers), data.draw(numbers)))
    bottom, top = (v.item() for v in image(activation, np.array([low]), np.array([high]), unit))
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


STRAIGHT = [activation for activation in CASES if Judged(activation.kind, activation.parameters).shape.slopes]


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
        points = np.linspace(*inside, 37)
        chords = np.diff(activation(points)) / np.diff(points)
        chords = chords[np.diff(points) > 0]
        room = 1e-9 * max(1.0, abs(lowest), abs(highest))
        assert (lowest - room <= chords).all() and (chords <= highest + room).all(), (a, b)
