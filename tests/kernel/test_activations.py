"""Activations: values, lines, slopes and the constants of the table against ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_series, ctx

from isonomy_verify.activations import CELLS, SHAPES, Activation, Curve, slope_range
from isonomy_verify.arithmetic import ELEMENTARY, U32, Array
from isonomy_verify.lines import parallel, touching

from .truth import ACTIVATIONS, apply

WIDTH = 3
EACH = pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}{list(a.parameters)}")
SMOOTH = [a for a in ACTIVATIONS if not a.shape.slopes]


def intervals(activation: Activation, rng: np.random.Generator, rows: int = 24) -> tuple[Array, Array]:
    """Intervals (rows, WIDTH) of all sizes: around kinks and turns, from them, touching them, single points."""
    shape = activation.shape
    special = [*shape.kinks, 0.0, *([] if shape.turn is None else [shape.turn[0]])]
    places = np.where(
        rng.random((rows, WIDTH)) < 0.5,
        rng.choice(special, (rows, WIDTH)),
        rng.normal(size=(rows, WIDTH)) * 10.0 ** rng.integers(-3, 3, (rows, WIDTH)),
    )
    sizes = 10.0 ** rng.integers(-17, 4, (rows, WIDTH)) * rng.random((rows, WIDTH))
    sizes[rng.random((rows, WIDTH)) < 0.4] = rng.uniform(0.5, 8.0)
    sizes[rng.random((rows, WIDTH)) < 0.1] = 0.0
    share = rng.choice([0.0, 1.0, 0.5, 0.3], (rows, WIDTH))
    low = places - share * sizes
    return low, np.maximum(low, places + (1 - share) * sizes)


def points(activation: Activation, low: float, high: float, rng: np.random.Generator) -> list[float]:
    """Floats within an interval at which extremes may be: ends, kinks, turns, ends and middles of cells, chance."""
    shape = activation.shape
    known = [*shape.kinks, 0.0, *([] if shape.turn is None else [shape.turn[0]])]
    shares = rng.permutation(2 * CELLS + 1)[:10] / (2 * CELLS)
    tried = [*known, *(low + shares * (high - low)), *rng.uniform(low, high, 3)]
    return [low, high, *(float(t) for t in tried if low <= t <= high)]


@EACH
@pytest.mark.parametrize("unit", [0.0, U32])
def test_values_and_lines_hold_everywhere(activation: Activation, unit: float) -> None:
    rng = np.random.default_rng(3)
    low, high = intervals(activation, rng)
    curve = Curve(activation, low, high, unit)
    bottom, top = curve.image()
    slopes = [curve.chord(), rng.normal(size=low.shape), np.zeros(low.shape)]
    if activation.shape.slope is not None:  # slopes of tangents in the middles of cells ask for the bulge
        middle = low + (rng.integers(0, CELLS, low.shape) + 0.5) / CELLS * (high - low)
        slopes.append(np.asarray(activation.shape.slope(middle)))
    lines = [(slope, *curve.extremes(slope)) for slope in slopes]
    with ctx.workprec(200):
        for i, j in np.ndindex(low.shape):
            tried = points(activation, low[i, j], high[i, j], rng)
            if activation.shape.slope is not None:
                tried.append(min(max(float(middle[i, j]), low[i, j]), high[i, j]))
            for t in tried:
                value = apply(activation, arb(t), j)
                assert not value > arb(top[i, j]) and not value < arb(bottom[i, j]), (low[i, j], high[i, j], t)
                for slope, below, above in lines:
                    gap = value - arb(slope[i, j]) * arb(t)
                    assert not gap > arb(above[i, j]) and not gap < arb(below[i, j]), (low[i, j], high[i, j], t)


@EACH
def test_a_coarse_run_is_within_the_lines(activation: Activation) -> None:
    """With ``unit`` the image holds what a float32 run computes as well."""
    rng = np.random.default_rng(4)
    low = rng.normal(size=(200, WIDTH)).astype(np.float32).astype(np.float64)
    curve = Curve(activation, low, low, U32)
    bottom, top = curve.image()
    parameters = tuple(float(np.float32(p)) for p in activation.parameters)
    shape = Activation(activation.kind, parameters).shape
    if activation.kind == "erf":
        return  # computed in double whatever the argument
    value = np.asarray(shape.value(low.astype(np.float32)), dtype=np.float64)
    assert (bottom <= value).all() and (value <= top).all()


def by_torch(activation: Activation) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """torch's own function of the whole line, where it has one and rounds."""
    names = {"leaky_relu": "LeakyReLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "softplus": "Softplus", "elu": "ELU",
             "gelu": "GELU", "silu": "SiLU", "hardswish": "Hardswish"}  # fmt: skip
    if activation.kind in names:
        return getattr(torch.nn, names[activation.kind])(*activation.parameters)
    return {"erf": torch.erf, "gelu_tanh": torch.nn.GELU(approximate="tanh")}.get(activation.kind)


TORCH = [a for a in ACTIVATIONS if by_torch(a)] + [Activation("softplus", (1e3,)), Activation("leaky_relu", (1e6,))]


@pytest.mark.parametrize("activation", TORCH, ids=lambda a: f"{a.kind}{list(a.parameters)}")
def test_images_cover_a_float32_run_by_torch(activation: Activation) -> None:
    rng, awkward = np.random.default_rng(1), [0.0, 1e-9, 0.7517915246935645, 1.2784645427610738, 6.0, 20.0, 37.0, 710.0]
    sizes = 10.0 ** rng.uniform(-18, 6, 300) * rng.choice([-1, 1], 300)
    x = np.concatenate([np.linspace(-12, 12, 300), sizes, awkward, np.negative(awkward)]).astype(np.float32)
    function = by_torch(activation)
    assert function is not None
    found, at = function(torch.from_numpy(x)).double().numpy(), x.astype(np.float64)[:, None]
    bottom, top = Curve(activation, at, at, U32).image()
    assert ((bottom[:, 0] <= found) & (found <= top[:, 0])).all()


@EACH
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-9, 1e-3])
def test_lines_near_zero_hold_a_coarse_run(activation: Activation, size: float) -> None:
    """Intercepts are no larger than anything needs, but not smaller than the error that a run of ``f`` may make."""
    low, high = np.full((1, WIDTH), -size), np.full((1, WIDTH), size)
    curve = Curve(activation, low, high, U32)
    around = parallel(activation, low, high, U32)
    sides = touching(activation, low, high, high, U32)
    room = curve.error * 0.99  # of what is assumed of a run, all but rounding in float64
    for t, value, error in zip(curve.points, curve.values, np.broadcast_to(room, curve.values.shape), strict=True):
        for slope, above in ((around.slope, around.above), (sides.slope, sides.above)):
            assert (value + error <= slope * t + above + 1e-300).all()
        for slope, under in ((around.slope, around.below), (sides.low_slope, sides.below)):
            assert (value - error >= slope * t + under - 1e-300).all()


@EACH
def test_lines_are_tight_on_narrow_intervals(activation: Activation) -> None:
    rng = np.random.default_rng(5)
    low = rng.normal(size=(50, WIDTH))
    below, above = (curve := Curve(activation, low, low + 1e-3)).extremes(curve.chord())
    kinks = [k for k in activation.shape.kinks if ((low <= k) & (k <= low + 1e-3)).any()]
    assert (above - below <= 1e-5 * (1 + sum(abs(p) for p in activation.parameters if math.isfinite(p)))).all() or kinks


@EACH
def test_a_point_has_a_narrow_image(activation: Activation) -> None:
    low = np.random.default_rng(6).normal(size=(50, WIDTH))
    bottom, top = Curve(activation, low, low).image()
    scale = max([1.0, activation.shape.at_zero, *(abs(p) for p in activation.parameters if math.isfinite(p))])
    assert (top - bottom <= 1e-13 * (3 + np.abs(low)) * scale).all()


@EACH
@pytest.mark.parametrize("unit", [0.0, U32])
def test_an_image_does_not_hang_on_other_intervals(activation: Activation, unit: float) -> None:
    low, high = np.full((2, WIDTH), -2.0), np.full((2, WIDTH), 1.0)
    alone = Curve(activation, low[:1], high[:1], unit).image()
    for far in (1e4, 1e200, np.inf):
        low[1], high[1] = -far, far
        with np.errstate(all="ignore"):
            beside = Curve(activation, low, high, unit).image()
        for mine, same in zip(beside, alone, strict=True):
            assert np.array_equal(mine[:1], same)


@EACH
@pytest.mark.parametrize("low", [-1e308, -1e200, -1e3])
@pytest.mark.parametrize("high", [1e3, 1e200, 1e308])
def test_huge_intervals_are_enclosed_or_not_a_number(activation: Activation, low: float, high: float) -> None:
    with np.errstate(all="ignore"):
        curve = Curve(activation, np.full((1, WIDTH), low), np.full((1, WIDTH), high))
        found = [curve.image(), *(curve.extremes(np.full((1, WIDTH), slope)) for slope in (0.0, 0.7))]
    with ctx.workprec(2200):
        for t in (low, high, 0.0, -1.0, 1.0, low / 3, high / 3):
            for j in range(WIDTH):
                value = apply(activation, arb(t), j)
                for slope, (bottom, top) in zip((0.0, 0.0, 0.7), found, strict=True):
                    gap = value - arb(slope) * arb(t)
                    assert math.isnan(top[0, j]) or not gap > arb(top[0, j])
                    assert math.isnan(bottom[0, j]) or not gap < arb(bottom[0, j])


@EACH
def test_infinite_and_unknown_ranges_claim_nothing(activation: Activation) -> None:
    """A value beyond the claim is never hidden behind a number."""
    ends = [(-math.inf, math.inf), (-math.inf, 1.0), (-1.0, math.inf), (math.nan, 1.0), (0.0, math.nan)]
    for low, high in ends:
        with np.errstate(all="ignore"):
            curve = Curve(activation, np.full((1, WIDTH), low), np.full((1, WIDTH), high))
            bottom, top = curve.image()
            least, most = slope_range(activation, curve.low, curve.high)
        for t in (-700.0, -1.0, 0.5, 1.0, 900.0):
            if (math.isnan(low) or low <= t) and (math.isnan(high) or t <= high):
                with ctx.workprec(200):
                    for j in range(WIDTH):
                        value = apply(activation, arb(t), j)
                        assert (
                            not top[0, j] < float(value.mid()) - 1e-9 and not bottom[0, j] > float(value.mid()) + 1e-9
                        )
        if (low, high) == (-math.inf, math.inf) or math.isnan(low + high):
            slopes = _all_slopes(activation)
            assert (least <= slopes.min(0) + 1e-9).all() and (most >= slopes.max(0) - 1e-9).all()


def _all_slopes(activation: Activation) -> Array:
    shape = activation.shape
    if shape.slopes:
        return np.stack([np.broadcast_to(slope, (WIDTH,)) for slope in shape.slopes])
    assert shape.slope is not None
    return np.asarray(shape.slope(np.linspace(-30, 30, 2001)[:, None] * np.ones(WIDTH)))


@EACH
def test_slopes_of_chords_are_within_their_range(activation: Activation) -> None:
    rng = np.random.default_rng(7)
    low, high = intervals(activation, rng)
    least, most = slope_range(activation, low, high)
    with ctx.workprec(300):
        for i, j in np.ndindex(low.shape):
            tried = sorted({*points(activation, low[i, j], high[i, j], rng)})
            tried += [float(np.nextafter(t, math.inf)) for t in tried if np.nextafter(t, math.inf) <= high[i, j]]
            values = [apply(activation, arb(t), j) for t in tried]
            for a in range(len(tried)):
                for b in (a - 1, int(rng.integers(len(tried)))):
                    if tried[a] != tried[b]:
                        slope = (values[a] - values[b]) / (arb(tried[a]) - arb(tried[b]))
                        assert not slope > arb(most[i, j]) and not slope < arb(least[i, j]), (tried[a], tried[b])


@EACH
def test_slopes_are_never_steeper_than_the_table_says(activation: Activation) -> None:
    rng = np.random.default_rng(8)
    low, high = intervals(activation, rng)
    least, most = slope_range(activation, low, high)
    steepest = activation.shape.steepest
    assert (-steepest <= least).all() and (least <= most).all() and (most <= steepest).all()
    assert (np.abs(Curve(activation, low, high).chord()) <= steepest).all()


# -- constants, proved over the whole line ------------------------------------------------------------------------


def series(activation: Activation, x: Any) -> Any:
    """A smooth activation, or the curved piece of one with kinks, as a power series."""
    one = arb_series([1])

    def logistic(t: Any) -> Any:
        return one / (one + (-t).exp()) if t[0].mid() > -200 else t.exp() / (one + t.exp())

    match activation.kind:
        case "sigmoid":
            return logistic(x)
        case "tanh":
            return 2 * logistic(2 * x) - one
        case "erf":
            return x.erf()
        case "softplus":
            beta = arb(activation.parameters[0])
            return (one + (beta * x).exp()).log() / beta
        case "elu":
            return arb(activation.parameters[0]) * (x.exp() - one)
        case "silu":
            return x * logistic(x)
        case "gelu":
            return x * ((-x / arb(2).sqrt()).erfc()) / 2
        case "gelu_tanh":
            return x * logistic(2 * (2 / arb.pi()).sqrt() * (x + arb("0.044715") * x * x * x))
        case "hardswish":
            return x * (x / 6 + arb_series([arb(1) / 2]))
        case "log1p":
            return (one + x).log()
    raise AssertionError(activation.kind)


def derivative(activation: Activation, middle: Fraction, radius: Fraction, number: int) -> Any:
    """A derivative of the function over a ball: its value in the middle, and the next one's bound times the radius."""
    centre = arb(middle.numerator) / middle.denominator
    room = arb(0, 1) * (arb(radius.numerator) / radius.denominator)
    at = series(activation, arb_series([centre, 1], prec=number + 1))[number]
    over = series(activation, arb_series([centre + room, 1], prec=number + 2))[number + 1]
    return math.factorial(number) * at + math.factorial(number + 1) * over * room


def proved(holds: Callable[[Any], bool], activation: Activation, number: int, low: float, high: float) -> bool:
    """Does a derivative have a property all over an interval? By halving until each part shows it."""
    ends = [Fraction(low) + (Fraction(high) - Fraction(low)) * i / 64 for i in range(65)]
    parts, tried = list(pairwise(ends)), 0
    with ctx.workprec(160):
        while parts:
            first, last = parts.pop()
            tried += 1
            if tried > 20000:
                return False
            if not holds(derivative(activation, (first + last) / 2, (last - first) / 2, number)):
                middle = (first + last) / 2
                parts += [(first, middle), (middle, last)]
    return True


def span(activation: Activation) -> tuple[float, float]:
    """Where the function is curved, as far as its tails are not plain."""
    scale = 1 / activation.parameters[0] if activation.kind == "softplus" else 1.0
    return {"elu": (-40.0, 0.0), "hardswish": (-3.0, 3.0), "log1p": (0.0, 40.0)}.get(
        activation.kind, (-12.0 * scale, 12.0 * scale)
    )


@pytest.mark.parametrize("activation", SMOOTH, ids=lambda a: f"{a.kind}{list(a.parameters)}")
@pytest.mark.parametrize("number", [1, 2])
def test_bounds_of_derivatives(activation: Activation, number: int) -> None:
    claim = (0, activation.shape.steepest, activation.shape.curvature)[number]
    # Some are attained, where halving would never end.
    assert proved(lambda d: bool(abs(d) <= arb(claim * (1 + 1e-9))), activation, number, *span(activation))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}{list(a.parameters)}")
def test_the_value_at_zero(activation: Activation) -> None:
    with ctx.workprec(200):
        for j in range(WIDTH):
            assert abs(apply(activation, arb(0), j)) <= arb(activation.shape.at_zero)


@pytest.mark.parametrize("activation", [a for a in SMOOTH if a.shape.turn], ids=lambda a: a.kind)
def test_the_turn_is_where_it_is_said_to_be(activation: Activation) -> None:
    assert activation.shape.turn is not None
    place, least = activation.shape.turn
    low, high = span(activation)
    low = max(low, -3.0) if activation.kind == "hardswish" else low
    assert proved(lambda d: bool(d < 0), activation, 1, low, place - 1e-9)
    assert proved(lambda d: bool(d > 0), activation, 1, place + 1e-9, high)
    with ctx.workprec(200):
        value = apply(activation, arb(place), 0)
        curvature = arb(activation.shape.curvature)
        assert value - curvature * arb(1e-9) ** 2 >= arb(least) - 2 * arb(ELEMENTARY)
        assert abs(value - arb(least)) <= arb(1e-15)


@pytest.mark.parametrize(
    "activation", [a for a in SMOOTH if not a.shape.turn], ids=lambda a: f"{a.kind}{list(a.parameters)}"
)
def test_without_a_turn_nothing_falls(activation: Activation) -> None:
    if activation.shape.curvature:
        assert proved(lambda d: bool(d > -arb(1e-30)), activation, 1, *span(activation))


@EACH
def test_slopes_beside_kinks(activation: Activation) -> None:
    shape = activation.shape
    if shape.slopes:
        assert len(shape.slopes) == len(shape.kinks) + 1
    with ctx.workprec(200):
        for kink, (left, right) in zip(shape.kinks, shape.beside, strict=False):
            for slope, step in ((left, -1e-9), (right, 1e-9)):
                rise = apply(activation, arb(kink) + arb(step)) - apply(activation, arb(kink))
                assert abs(rise / arb(step) - arb(slope)) < arb(1e-8) * (1 + shape.curvature)
        assert abs(float(np.max(np.abs(_all_slopes(activation))))) <= shape.steepest * (1 + 1e-9)


# -- parameters ---------------------------------------------------------------------------------------------------

ILLEGAL: list[tuple[str, tuple[Any, ...]]] = [
    ("relu", (1.0,)), ("sigmoid", (1.0,)), ("leaky_relu", ()), ("leaky_relu", (1.0, 2.0)), ("leaky_relu", (math.nan,)),
    ("leaky_relu", (math.inf,)), ("leaky_relu", (1e101,)), ("prelu", ()), ("prelu", (math.nan, 0.1)),
    ("prelu", (0.1, -math.inf)),
    ("clip", (1.0, 0.0)), ("clip", (math.nan, 1.0)), ("clip", (0.0, math.nan)), ("clip", (math.inf, math.inf)),
    ("clip", (-math.inf, -math.inf)), ("clip", (0.0,)), ("softplus", (0.0,)), ("softplus", (-1.0,)), ("softplus", ()),
    ("softplus", (math.inf,)), ("softplus", (math.nan,)), ("softplus", (1e-200,)), ("elu", (-0.1,)),
    ("elu", (math.inf,)),
    ("elu", (math.nan,)), ("elu", ()), ("elu", ("a",)), ("hardswish", (1.0,)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters"), ILLEGAL)
def test_illegal_parameters_are_refused(kind: str, parameters: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="cannot have the parameters"):
        Activation(kind, parameters)


def test_unknown_activations_are_refused() -> None:
    with pytest.raises(ValueError, match="no activation 'swish'"):
        Activation("swish")
    assert {a.kind for a in ACTIVATIONS} == set(SHAPES)


def test_slopes_of_elements_must_be_as_many() -> None:
    activation = Activation("prelu", (0.1, 0.2))
    activation.check_width(2)
    with pytest.raises(ValueError, match="cannot serve 3"):
        activation.check_width(3)
    assert activation.taken(np.array([1, 1, 0])).parameters == (0.2, 0.2, 0.1)
    assert Activation("relu").taken(np.array([1, 1, 0])) == Activation("relu")


@pytest.mark.parametrize(
    ("kind", "parameters", "interval", "slopes"),
    [
        ("relu", (), (0.0, 1.0), (1.0, 1.0)),
        ("relu", (), (-1.0, 0.0), (0.0, 0.0)),
        ("relu", (), (0.0, 0.0), (0.0, 1.0)),
        ("relu", (), (-1.0, 1e-300), (0.0, 1.0)),
        ("relu", (), (2.0, 2.0), (1.0, 1.0)),
        ("leaky_relu", (-0.5,), (-1.0, 1.0), (-0.5, 1.0)),
        ("clip", (0.0, 1.0), (0.0, 1.0), (1.0, 1.0)),
        ("clip", (0.0, 1.0), (1.0, 2.0), (0.0, 0.0)),
        ("clip", (0.0, 1.0), (-3.0, 3.0), (0.0, 1.0)),
    ],
)
def test_slopes_of_straight_pieces_are_exact(
    kind: str, parameters: tuple[float, ...], interval: tuple[float, float], slopes: tuple[float, float]
) -> None:
    low, high = (np.array([[end]]) for end in interval)
    least, most = slope_range(Activation(kind, parameters), low, high)
    assert (least[0, 0], most[0, 0]) == slopes


@pytest.mark.parametrize("activation", SMOOTH, ids=lambda a: f"{a.kind}{list(a.parameters)}")
def test_slopes_of_curved_pieces_are_close(activation: Activation) -> None:
    """On a narrow interval without a kink the range of slopes is as narrow as the curvature makes it."""
    assert activation.shape.slope is not None
    for place in (-1.7, 0.4, 2.2):
        low = np.full((1, WIDTH), place)
        least, most = slope_range(activation, low, low + 1e-3)
        room = 2e-3 * activation.shape.curvature + 1e-12
        at = activation.shape.slope(low)
        assert (most - least <= room).all() and (np.abs(least - at) <= room).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3, 1e6, 1e12])
def test_lines_of_a_logarithm_over_ranges_of_amounts(size: float) -> None:
    """Tangents where they touch, by the place where the derivative is the slope; close also over wide ranges."""
    rng, activation = np.random.default_rng(7), Activation("log1p")
    low = size * rng.choice([0.0, -0.1, 1.0], (40, 1)) * rng.random((40, 1))
    high = np.maximum(low, 0.0) + size * 10.0 ** rng.uniform(-9, 3, (40, 1))
    curve = Curve(activation, low, high)
    touched = np.clip(low + rng.random(low.shape) * (high - low), 0, high)
    for slope in (curve.chord(), 1 / (1 + touched)):
        below, above = curve.extremes(slope)
        with ctx.workprec(200):
            for i in range(len(low)):
                s, ends = arb(slope[i, 0]), [float(low[i, 0]), float(high[i, 0])]
                at = min(max(1 / slope[i, 0] - 1, max(0.0, ends[0])), ends[1])
                tried = [arb(t) for t in (*ends, at, min(max(0.0, ends[0]), ends[1]))]
                gaps = [apply(activation, t) - s * t for t in tried]
                most, least = max(float(gap.mid()) for gap in gaps), min(float(gap.mid()) for gap in gaps)
                assert all(gap < arb(above[i, 0]) and gap > arb(below[i, 0]) for gap in gaps)
                width = math.log1p(ends[1]) - math.log1p(max(0.0, ends[0]))
                slack = 1e-12 * (1 + abs(ends[0]) + abs(ends[1]))
                assert (
                    above[i, 0] - below[i, 0] - (most - least) <= 2.001 * (math.expm1(width / CELLS) ** 2 / 8) + slack
                )
        least, most = slope_range(activation, low, high)
        assert (least <= 1 / (1 + high)).all() and (most >= np.where(low > 0, 1 / (1 + np.maximum(low, 0)), 1)).all()
        assert (least >= np.where(low > 0, 1 / (1 + high), 0) - 1e-6).all() and (most <= 1).all()
