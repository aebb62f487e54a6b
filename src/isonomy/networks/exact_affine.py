"""Affine functions of an individual's coordinates in exact rational arithmetic.

An adapter is a chain of steps (back to the raw value, minus a mean, over a scale, plus a gap filled). Each constant
is a float, so the whole chain is a rational number: it is computed exactly here and rounded once, at the end.

**Soundness.** The weights of :func:`affine_of` are the nearest floats of the exact ones, the slacks the exact
differences, rounded up. ``reach`` sums the absolute values along the chain, for the bound of a floating-point run of
the original steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from isonomy.errors import NetworkError
from isonomy.networks.affine import Affine
from isonomy.networks.limits import take

ZERO = Fraction(0)


@dataclass(frozen=True)
class ExactAffine:
    """``constant + sum_i terms[i] x_i`` exactly; ``reach`` and ``reach_constant`` are the same with absolute values."""

    terms: Mapping[int, Fraction]
    constant: Fraction
    reach: Mapping[int, Fraction]
    reach_constant: Fraction
    roundings: int = 0

    @classmethod
    def coordinate(cls, index: int) -> ExactAffine:
        """The coordinate itself."""
        return cls({index: Fraction(1)}, ZERO, {index: Fraction(1)}, ZERO)

    @classmethod
    def of(cls, constant: Fraction) -> ExactAffine:
        """A constant."""
        return cls({}, constant, {}, abs(constant))

    def times(self, factor: Fraction) -> ExactAffine:
        """The product with a number; a run rounds once."""
        if factor == 1:
            return self
        return ExactAffine(
            {i: term * factor for i, term in self.terms.items() if factor},
            self.constant * factor,
            {i: term * abs(factor) for i, term in self.reach.items()},
            self.reach_constant * abs(factor),
            self.roundings + 1,
        )

    def plus(self, other: ExactAffine | Fraction) -> ExactAffine:
        """The sum with a number or a function; a run rounds once."""
        if isinstance(other, Fraction):
            if not other:
                return self
            other = ExactAffine.of(other)
        terms = {i: self.terms.get(i, ZERO) + other.terms.get(i, ZERO) for i in {**self.terms, **other.terms}}
        return ExactAffine(
            {i: term for i, term in terms.items() if term},
            self.constant + other.constant,
            {i: self.reach.get(i, ZERO) + other.reach.get(i, ZERO) for i in {**self.reach, **other.reach}},
            self.reach_constant + other.reach_constant,
            max(self.roundings, other.roundings) + 1,
        )

    def rounded(self, times: int = 1) -> ExactAffine:
        """The same function, of which a run rounds so many times more."""
        return ExactAffine(self.terms, self.constant, self.reach, self.reach_constant, self.roundings + times)


def weighted(functions: Sequence[ExactAffine], factors: Sequence[Fraction]) -> ExactAffine:
    """``sum_i factors[i] * functions[i]``."""
    total = ExactAffine.of(ZERO)
    for function, factor in zip(functions, factors, strict=True):
        if factor:
            total = total.plus(function.times(factor)) if total.reach or total.constant else function.times(factor)
    return total


def exact(value: Any, what: str) -> Fraction:
    """A finite number as it is stored."""
    if isinstance(value, Fraction):
        return value
    try:
        number = float(value)
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
    weight = np.zeros((len(functions), width))
    magnitude = np.zeros_like(weight)
    columns: list[tuple[float, float, float, float]] = []
    for row, function in enumerate(functions):
        lost = ZERO
        for i, term in function.terms.items():
            weight[row, i] = nearest = _nearest(term)
            lost += abs(term - Fraction(nearest))
        for i, term in function.reach.items():
            magnitude[row, i] = _above(term)
        bias = _nearest(function.constant)
        gap = abs(function.constant - Fraction(bias))
        columns.append((bias, _above(lost), _above(gap), _above(function.reach_constant)))
    bias_, weight_slack, bias_slack, magnitude_bias = np.ascontiguousarray(np.array(columns).T)
    roundings = max(function.roundings for function in functions)
    return Affine(weight, bias_, weight_slack, bias_slack, magnitude, magnitude_bias, roundings)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise NetworkError("A scale of the model's inputs is too extreme: its weight overflows.") from None


def _above(value: Fraction) -> float:
    """The smallest float that is at least an exact number."""
    number = _nearest(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
