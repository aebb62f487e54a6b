"""What callers give, brought into one form at the door, or refused in one sentence that names the parameter.

Tables and vectors become float64 in this machine's byte order, row after row in memory, whatever they were: views that
run backwards, columns first, read-only, other bytes or types, lists, tensors, data frames with missing values (which
become NaN, so that the caller can name the cells). What no real number stands for is refused.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from isonomy.errors import IsonomyError, ParameterError, template

FINITE = float(np.finfo(np.float64).max)
"""The largest number that is not infinity."""

_NUMBER = int | float | np.integer | np.floating
_NOT_NUMBERS = {"c": "complex numbers", "M": "dates", "m": "durations", "V": "records"}


def number(
    parameter: str, value: Any, expected: str, low: float = 0.0, high: float = math.inf, *, strict: bool = False
) -> float:
    """Return a number from ``low`` to ``high``, or strictly between them if ``strict``; never a NaN."""
    plain = isinstance(value, _NUMBER) and not isinstance(value, bool | np.bool_)
    # A float32 would have the ends rounded to its own kind before they are compared.
    exact = value.item() if isinstance(value, np.generic) else value
    if not plain or not (low < exact < high if strict else low <= exact <= high):
        raise ParameterError(template(parameter, expected, value))
    try:
        return float(exact)
    except OverflowError:
        raise ParameterError(template(parameter, expected, "a number beyond all floats")) from None


def whole(parameter: str, value: Any, least: int = 0, expected: str = "") -> int:
    """Return a whole number that is at least ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ParameterError(template(parameter, expected or f"a whole number >= {least}", value))
    return int(value)


def choice(parameter: str, value: Any, choices: Any) -> None:
    """Refuse what is none of the values of a ``Literal``."""
    if value not in get_args(choices):
        raise ParameterError(template(parameter, f"one of {', '.join(get_args(choices))}", value))


def instance(parameter: str, value: Any, kind: Any, expected: str) -> None:
    """Refuse what is not of a kind (a type, or several), by the name of the type that it has."""
    if not isinstance(value, kind):
        raise ParameterError(template(parameter, expected, type(value).__name__))


def numbers(
    parameter: str, values: Any, expected: str, error: type[IsonomyError] = ParameterError
) -> npt.NDArray[np.float64]:
    """Return an array in float64, contiguous and of this machine's bytes; memory is shared where it can be."""
    try:
        if type(values).__module__.split(".")[0] == "pandas":
            kinds = values.dtypes if values.ndim == 2 else [values.dtype]
            _refuse_kinds([kind for kind in kinds if isinstance(kind, np.dtype)])
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif hasattr(values, "detach"):  # a tensor
            values = as_array(values)
        elif isinstance(values, np.ma.MaskedArray):
            _refuse_kinds([values.dtype])
            values = np.ma.filled(values.astype(np.float64), np.nan)
        plain = np.asarray(values)
        _refuse_kinds([plain.dtype])
        array: npt.NDArray[np.float64] = np.require(plain, np.float64, ["C", "A"])
    except (TypeError, ValueError, OverflowError, RuntimeError) as fault:
        why = " ".join(str(fault).split())[:200].rstrip(".")
        raise error(f"'{parameter}' must be {expected}. Got {type(values).__name__}: {why}.") from None
    return array


def as_array(tensor: Any) -> npt.NDArray[Any]:
    """Return a tensor of torch, wherever and in whatever precision it is kept, as an array."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: npt.NDArray[Any] = (plain if plain.is_complex() else plain.double()).numpy()
    return array


def _refuse_kinds(dtypes: list[np.dtype[Any]]) -> None:
    for dtype in dtypes:
        if dtype.kind in _NOT_NUMBERS:
            raise TypeError(f"{_NOT_NUMBERS[dtype.kind]} ({dtype}) are no real numbers")
