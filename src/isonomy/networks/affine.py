"""Affine maps that know how far they are from the exact map they stand for.

Merging layers is what makes bounds tight (one row ``w1 - w0`` instead of two logits, an adapter absorbed by
the first layer), but the merged weights are rounded. Each :class:`Affine` therefore carries two slacks:

* ``weight_slack`` and ``bias_slack`` enclose the *exact* map of the original layers, in real arithmetic;
* ``magnitude``, ``magnitude_bias`` and ``roundings`` bound what a floating-point *run* of those layers adds.

**Soundness.** Every slack is an upper bound that includes the rounding of its own computation. Products of
matrices are conventional sums, in any order: ``|fl(AB) - AB| <= gamma_n |A||B|``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError
from isonomy_verify.arithmetic import TINY, gamma


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
        if matrix.ndim != 2:
            raise NetworkError(f"A weight must be a matrix. Got the shape {tuple(matrix.shape)}.")

        def column(values: FloatArray | None) -> FloatArray:
            return np.zeros(len(matrix)) if values is None else np.array(values, dtype=np.float64)

        if roundings is None:
            roundings = _most(matrix != 0, 1) + 1
        return cls(
            matrix,
            column(bias),
            column(weight_slack),
            column(bias_slack),
            magnitude_bias=None if magnitude_bias is None else column(magnitude_bias),
            roundings=roundings,
        )

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
        weight, bias = self.magnitude, self.magnitude_bias
        if weight is None:
            weight = _widened(np.abs(self.weight), self.weight_slack[:, None])
        if bias is None:
            bias = _widened(np.abs(self.bias), self.bias_slack)
        return weight, bias


@np.errstate(all="ignore")  # what overflows is refused as a weight
def compose(second: Affine, first: Affine) -> Affine:
    """``second`` after ``first`` as one map, with the rounding of the merged weights in its slacks.

    **Soundness.** With exact ``W'`` and ``D = W' - W``, the error ``W2' W1' - fl(W2 W1)`` is
    ``D2 W1' + W2 D1 + (W2 W1 - fl(W2 W1))``, bounded row by row in the 1-norm; for the runs,
    ``gamma_r + gamma_s + gamma_r gamma_s <= gamma_(r+s)``.
    """
    if second.width_in != first.width_out:
        raise NetworkError(f"A layer of {second.width_in} inputs cannot follow one of {first.width_out} outputs.")
    left, right = np.abs(second.weight), np.abs(first.weight)
    inner, width = second.width_in, first.width_in
    weight, bias = second.weight @ first.weight, second.weight @ first.bias + second.bias

    units = _of_units(left)
    terms = min(_most(left != 0, 1), _most(right != 0, 0))
    error = gamma(terms - (units or _of_units(right))) if terms else 0.0
    norms = _raised(right.sum(1) + first.weight_slack, width + 1)
    weight_slack = left @ first.weight_slack + second.weight_slack * _largest(norms)
    weight_slack = weight_slack + error * (left @ right).sum(1)
    if error or first.weight_slack.any() or second.weight_slack.any():
        weight_slack = _raised(weight_slack, 2 * inner + width + 8)

    terms = _most((left != 0) & (first.bias != 0), 1)
    error = gamma(terms - units + bool(second.bias.any())) if terms else 0.0
    offsets = _raised(np.abs(first.bias) + first.bias_slack, 1)
    bias_slack = left @ first.bias_slack + second.weight_slack * _largest(offsets) + second.bias_slack
    bias_slack = bias_slack + error * (left @ np.abs(first.bias) + np.abs(second.bias))
    if error or first.bias_slack.any() or second.weight_slack.any():
        bias_slack = _raised(bias_slack, 2 * inner + 8)

    (magnitude2, offset2), (magnitude1, offset1) = second.magnitudes(), first.magnitudes()
    return Affine(
        weight,
        bias,
        weight_slack,
        bias_slack,
        # What no path reads stays exactly zero.
        np.where(_reads(magnitude2, magnitude1), _raised(magnitude2 @ magnitude1, inner + 1), 0.0),
        _raised(magnitude2 @ offset1 + offset2, inner + 2),
        second.roundings + first.roundings,
    )


@np.errstate(all="ignore")  # what overflows is refused as a weight
def total(maps: Sequence[Affine]) -> Affine:
    """The sum of maps of the same input: one rounding per addition that really happens."""
    result = maps[0]
    for other in maps[1:]:
        if other.weight.shape != result.weight.shape:
            raise NetworkError(f"Cannot add {result.width_out} numbers to {other.width_out} numbers.")
        both = (result.weight != 0) & (other.weight != 0)
        lost = gamma(1) * np.where(both, np.abs(result.weight) + np.abs(other.weight), 0.0).sum(1)
        lost_bias = np.where((result.bias != 0) & (other.bias != 0), np.abs(result.bias) + np.abs(other.bias), 0.0)
        (magnitude1, offset1), (magnitude2, offset2) = result.magnitudes(), other.magnitudes()
        result = Affine(
            result.weight + other.weight,
            result.bias + other.bias,
            _widened(result.weight_slack, other.weight_slack, lost, operations=result.width_in + 5),
            _widened(result.bias_slack, other.bias_slack, gamma(1) * lost_bias, operations=4),
            _raised(magnitude1 + magnitude2, 1),
            _raised(offset1 + offset2, 1),
            max(result.roundings, other.roundings) + 1,
        )
    return result


def stack(maps: Sequence[Affine]) -> Affine:
    """Maps of the same input, one above the other; exact."""
    magnitudes = [each.magnitudes() for each in maps]
    return Affine(
        np.concatenate([each.weight for each in maps]),
        np.concatenate([each.bias for each in maps]),
        np.concatenate([each.weight_slack for each in maps]),
        np.concatenate([each.bias_slack for each in maps]),
        np.concatenate([weight for weight, _ in magnitudes]),
        np.concatenate([bias for _, bias in magnitudes]),
        max(each.roundings for each in maps),
    )


def rows(affine: Affine, index: Sequence[int]) -> Affine:
    """The outputs ``index`` of a map; exact."""
    at = list(index)
    return Affine(
        affine.weight[at],
        affine.bias[at],
        affine.weight_slack[at],
        affine.bias_slack[at],
        None if affine.magnitude is None else affine.magnitude[at],
        None if affine.magnitude_bias is None else affine.magnitude_bias[at],
        affine.roundings,
    )


def _raised(value: FloatArray, operations: int) -> FloatArray:
    """At least the exact value of an expression in non-negative numbers with so many rounded operations.

    The factor covers the roundings, its own included, and the addend covers underflow. Zero is raised too, so
    a caller that knows its zeros to be exact keeps them by not calling.
    """
    return value * (1.0 + 2.0 * gamma(operations + 2)) + operations * TINY


def _widened(value: FloatArray, *slacks: FloatArray, operations: int = 2) -> FloatArray:
    """``value`` plus slacks, rounded up; unchanged when there is no slack."""
    return _raised(value + sum(slacks), operations) if any(each.any() for each in slacks) else value


def _reads(second: FloatArray, first: FloatArray) -> npt.NDArray[np.bool_]:
    """Where the product of two non-negative matrices has a term at all."""
    return np.asarray((second != 0).astype(float) @ (first != 0) > 0)


def _most(marks: npt.NDArray[np.bool_], axis: int) -> int:
    """The largest number of marks along an axis."""
    return int(marks.sum(axis).max()) if marks.size else 0


def _largest(value: FloatArray) -> float:
    return float(value.max()) if value.size else 0.0


def _of_units(absolute: FloatArray) -> bool:
    """Whether every entry is 0 or 1, so that products with it are exact."""
    return bool(((absolute == 0) | (absolute == 1)).all())
