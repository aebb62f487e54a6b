"""Affine maps that know how far they are from the exact map they stand for.

Merging layers is what makes bounds tight (one row ``w1 - w0`` instead of two logits, an adapter absorbed by
the first layer), but the merged weights are rounded. Each :class:`Affine` therefore carries two slacks:

* ``weight_slack`` and ``bias_slack`` enclose the *exact* map of the original layers, in real arithmetic;
* ``magnitude``, ``magnitude_bias`` and ``roundings`` bound what a floating-point *run* of those layers adds.

**Soundness.** Every slack is an upper bound that includes the rounding of its own computation. Products of
matrices are conventional sums, in any order: ``|fl(AB) - AB| <= gamma_n |A||B|``.

An adapter is a chain of steps (back to the raw value, minus a mean, over a scale, plus a gap filled). Each constant is
a float, so the whole chain is rational: an :class:`ExactAffine` is computed exactly and rounded once, at the end, by
:func:`affine_of`, whose slacks are the exact differences, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError
from isonomy.given import as_array
from isonomy.networks.limits import take
from isonomy_verify.arithmetic import TINY, gamma

ZERO = Fraction(0)
Constant = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Affine:
    """``y = W x + b``, where the exact ``W`` and ``b`` lie within the slacks of the stored ones.

    ``sum_j |W_exact - W|_ij <= weight_slack_i`` and ``|b_exact - b| <= bias_slack``. A run of the original
    layers with unit roundoff ``u`` differs from the exact map by at most
    ``gamma_roundings(u) * (magnitude |x| + magnitude_bias)``, underflow apart; both magnitudes also bound
    ``|W_exact|`` and ``|b_exact|``. Use :meth:`magnitudes`: a stored ``None`` means "the weights themselves".
    """

    weight: FloatArray  # (out, in)
    bias: FloatArray  # (out,)
    weight_slack: FloatArray  # (out,)
    bias_slack: FloatArray  # (out,)
    magnitude: FloatArray | None = None  # (out, in)
    magnitude_bias: FloatArray | None = None  # (out,)
    roundings: int = 0

    def __post_init__(self) -> None:
        if self.weight.ndim != 2:
            raise NetworkError(f"A weight must be a matrix. Got the shape {tuple(self.weight.shape)}.")
        rows = self.weight.shape[:1]
        expected = {"bias": rows, "weight_slack": rows, "bias_slack": rows, "magnitude_bias": rows}
        expected |= {"weight": self.weight.shape, "magnitude": self.weight.shape}
        for field, shape in expected.items():
            array = getattr(self, field)
            if array is None:
                continue
            if array.shape != shape or array.dtype != np.float64:
                got = f"{array.dtype} of shape {tuple(array.shape)}"
                raise NetworkError(f"The {field} must be float64 of shape {tuple(shape)}. Got {got}.")
            if not np.isfinite(array).all():
                raise NetworkError(f"The {field} holds a NaN or an infinite number; all must be finite.")

    @classmethod
    def of(
        cls,
        weight: FloatArray,
        bias: FloatArray | None = None,
        *,
        weight_slack: FloatArray | None = None,
        bias_slack: FloatArray | None = None,
        magnitude_bias: FloatArray | None = None,
        roundings: int | None = None,
    ) -> Affine:
        """One layer: exact unless slacks are given; one rounding per product, one for the bias."""
        matrix = np.array(weight, dtype=np.float64)

        def column(values: FloatArray | None) -> FloatArray:
            return np.zeros(matrix.shape[:1]) if values is None else np.array(values, dtype=np.float64)

        offset = None if magnitude_bias is None else column(magnitude_bias)
        roundings = _most(np.atleast_2d(matrix) != 0, 1) + 1 if roundings is None else roundings
        return cls(matrix, column(bias), column(weight_slack), column(bias_slack), None, offset, roundings)

    @classmethod
    def diagonal(
        cls, scale: FloatArray, bias: FloatArray | None = None, *, roundings: int = 2, **slacks: FloatArray | None
    ) -> Affine:
        """``y = scale * x + bias``, element by element, with the slacks of :meth:`of`."""
        return cls.of(np.diag(scale), bias, roundings=roundings, **slacks)

    @classmethod
    def identity(cls, width: int, roundings: int = 0) -> Affine:
        """``y = x``; a run may round it."""
        return cls.diagonal(np.ones(width), roundings=roundings)

    @classmethod
    def selection(cls, index: Sequence[int], width: int) -> Affine:
        """``y_i = x_index[i]``, exact also in a floating-point run."""
        return cls.of(np.eye(width)[list(index)], roundings=0)

    @property
    def width_in(self) -> int:
        """How many numbers it takes."""
        return int(self.weight.shape[1])

    @property
    def width_out(self) -> int:
        """How many numbers it gives."""
        return int(self.weight.shape[0])

    def magnitudes(self) -> tuple[FloatArray, FloatArray]:
        """Both magnitudes with ``None`` filled in, at least ``|W_exact|`` and ``|b_exact|``."""
        weight = _widened(np.abs(self.weight), self.weight_slack[:, None]) if self.magnitude is None else self.magnitude
        bias = _widened(np.abs(self.bias), self.bias_slack) if self.magnitude_bias is None else self.magnitude_bias
        return weight, bias


def _raised(value: FloatArray, operations: int) -> FloatArray:
    """At least the exact value of an expression in non-negative numbers with so many rounded operations.

    The factor covers the roundings, its own included, and the addend covers underflow. Zero is raised too, so
    a caller that knows its zeros to be exact keeps them by not calling.
    """
    return value * (1.0 + 2.0 * gamma(operations + 2)) + operations * TINY


def _widened(value: FloatArray, *slacks: FloatArray, operations: int = 2) -> FloatArray:
    """``value`` plus slacks, rounded up; unchanged when there is no slack."""
    return _raised(value + sum(slacks), operations) if any(each.any() for each in slacks) else value


def _most(marks: npt.NDArray[np.bool_], axis: int) -> int:
    """The largest number of marks along an axis."""
    return int(marks.sum(axis).max(initial=0))


def numbers(array: Any) -> FloatArray:
    """A constant in float64; float32 and smaller convert exactly."""
    if hasattr(array, "detach"):  # a tensor
        array = as_array(array)
    plain = np.asarray(array)
    if plain.dtype.kind in "cUSOMm":  # complex, text, objects, dates
        raise NetworkError(f"a constant must hold real numbers. Got {plain.dtype}.")
    with np.errstate(all="ignore"):  # a NaN or infinity is refused where it would become a weight
        result: FloatArray = np.array(plain, dtype=np.float64)
    return result


# -- exact


_Terms = Mapping[int | None, Fraction]


@dataclass(frozen=True)
class ExactAffine:
    """``terms[None] + sum_i terms[i] x_i`` exactly; ``reach`` is the same with absolute values, summed along the chain,
    for the bound of a floating-point run of the original steps."""

    terms: _Terms
    reach: _Terms
    roundings: int = 0

    @classmethod
    def coordinate(cls, index: int) -> ExactAffine:
        """The coordinate itself."""
        return cls({index: Fraction(1)}, {index: Fraction(1)})

    @classmethod
    def of(cls, constant: Fraction) -> ExactAffine:
        """A constant."""
        return cls({None: constant}, {None: abs(constant)}) if constant else cls({}, {})

    def times(self, factor: Fraction) -> ExactAffine:
        """The product with a number; a run rounds once."""
        if factor == 1:
            return self
        terms = {i: term * factor for i, term in self.terms.items() if factor}
        return ExactAffine(terms, {i: term * abs(factor) for i, term in self.reach.items()}, self.roundings + 1)

    def plus(self, other: ExactAffine | Fraction) -> ExactAffine:
        """The sum with a number or a function; a run rounds once."""
        if isinstance(other, Fraction):
            if not other:
                return self
            other = ExactAffine.of(other)
        terms = {i: term for i, term in _sum(self.terms, other.terms).items() if term}
        return ExactAffine(terms, _sum(self.reach, other.reach), max(self.roundings, other.roundings) + 1)


def _sum(first: _Terms, second: _Terms) -> _Terms:
    return {i: first.get(i, ZERO) + second.get(i, ZERO) for i in {**first, **second}}


def weighted(functions: Sequence[ExactAffine], factors: Sequence[Fraction]) -> ExactAffine:
    """``sum_i factors[i] * functions[i]``."""
    total = ExactAffine.of(ZERO)
    for function, factor in zip(functions, factors, strict=True):
        if factor:
            total = total.plus(function.times(factor)) if total.reach else function.times(factor)
    return total


def exact(value: Any, what: str) -> Fraction:
    """A finite number as it is stored."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int | np.integer):
        return Fraction(int(value))
    try:  # Python would also take 1_0 for a number
        number = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise NetworkError(f"{what} must be a finite number. Got {value!r}.")
    return Fraction(number)


def affine_of(functions: Sequence[ExactAffine], width: int) -> Affine:
    """Functions as one affine map of ``width`` coordinates, rounded once, with rigorous slacks."""
    if not functions:
        raise NetworkError("The model reads no feature at all.")
    take(2 * len(functions) * width, f"a map of {width} coordinates to {len(functions)} numbers")
    weight, magnitude = np.zeros((2, len(functions), width))
    bias, weight_slack, bias_slack, magnitude_bias = np.zeros((4, len(functions)))
    for row, function in enumerate(functions):
        lost = ZERO
        for i, term in function.terms.items():
            nearest = _nearest(term)
            gap = abs(term - Fraction(nearest))
            if i is None:
                bias[row], bias_slack[row] = nearest, _above(gap)
            else:
                weight[row, i], lost = nearest, lost + gap
        weight_slack[row] = _above(lost)
        for i, term in function.reach.items():
            if i is None:
                magnitude_bias[row] = _above(term)
            else:
                magnitude[row, i] = _above(term)
    roundings = max(function.roundings for function in functions)
    return Affine(weight, bias, weight_slack, bias_slack, magnitude, magnitude_bias, roundings)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise NetworkError("A scale of the model's inputs is too extreme: its weight overflows.") from None


def _above(value: Fraction) -> float:
    """The smallest float that is at least an exact number."""
    number = _nearest(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
