"""Who counts as alike: what every metric shares.

Each metric is ``d(x, y) = max(‖R (x − y)‖_p, box part)``: a seminorm given by a *root* ``R`` (its *gauge*),
and a part that looks at one coordinate at a time and may depend on the centre ``x`` (its *box*). These are the arrays
of its :class:`~isonomy_verify.forms.Form`, from which the kernel derives who is similar.

**Soundness.** ``box`` is rounded outward, so it holds every similar individual; ``distance_upper`` is
rounded upward, so an individual whose ``distance_upper`` is at most ``delta`` *is* similar. Both hold for
the real numbers that the float64 inputs stand for, under the assumptions of ``isonomy.arithmetic``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, MetricError, ParameterError, template
from isonomy.files import atomic
from isonomy.given import FINITE, number, numbers
from isonomy.similarity.files import KINDS, metric_to_text
from isonomy_verify.arithmetic import gamma
from isonomy_verify.forms import Form, norm, raised

if TYPE_CHECKING:
    from isonomy.population.population import Population

BoolArray = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class Metric(ABC):
    """How unlike two individuals are, protected attributes and their proxies discounted; never squared.

    A metric remembers what it was ``fitted_on`` ("" when written by hand) and the ``names`` of the coordinates, if they
    are known. The public methods validate and are final. A new metric gives ``kind``, ``form``, ``describe``, what its
    file holds, and, where it has a box part, ``_box_distance``.
    """

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]  # what defines the metric, as its file says it: attributes, and keys of the file
    defined_by: ClassVar[tuple[str, ...]]  # keys of which a file has exactly one; the others may be left out
    fitted_on: str  # what it was learned from, e.g. "german (train), 700 individuals"; "" when written by hand
    names: tuple[str, ...]  # coordinate names, or () when unknown

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    @property
    @abstractmethod
    def form(self) -> Form:
        """Return the metric as the kernel takes it; computed once."""

    @abstractmethod
    def describe(self) -> str:
        """Return one sentence for people."""

    @property
    def width(self) -> int:
        """Return the number of coordinates of an individual."""
        return self.form.width

    @cached_property
    def free(self) -> BoolArray:
        """Return the mask ``(width,)`` of ignored coordinates; a free *direction* may mix several."""
        return np.asarray(self.form.free & ~self.form.root.any(axis=0))

    @property
    def boxed(self) -> bool:
        """Say whether there is a box part at all."""
        return self.form.boxed

    @final
    def gauge(self) -> tuple[FloatArray, float]:
        """Return the root ``R``, shape ``(r, width)`` with ``r ≥ 0``, and the order ``p`` of its norm: 1, 2 or ∞."""
        return self.form.root, self.form.order

    @final
    def box(self, x: ArrayLike, delta: float) -> tuple[FloatArray, FloatArray]:
        """Return offsets ``low ≤ y − x ≤ high`` that hold every ``y`` whose box part is at most ``delta``.

        Both have the shape of ``x``; ±∞ where nothing is demanded. **Soundness**: rounded outward; with
        ``delta = 0`` the offsets are exactly 0 or infinite.
        """
        delta = checked_delta(delta)
        return self.form.box(self._individuals("x", x), delta)

    @final
    def distance(self, x: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return ``d(x, y)`` row by row (rows broadcast), in ordinary floating-point arithmetic."""
        left, right = self._pair(x, y)
        root, order = self.gauge()
        with np.errstate(all="ignore"):
            ball = norm((left - right) @ root.T, order)
            both = np.maximum(ball, self._box_distance(left, right))
        return _without_nan(both)

    @final
    def distance_upper(self, x: ArrayLike, y: ArrayLike) -> FloatArray:
        """Bound ``d(x, y)`` in real arithmetic from above, to within a few rounding errors.

        **Soundness**: every operation is rounded upward or carries its error bound; overflow gives ∞.
        Individuals that differ in free coordinates only get exactly 0.
        """
        left, right = self._pair(x, y)
        with np.errstate(all="ignore"):
            ball = self.form.ball_upper(left, right, self._root_roundings())
            both = np.maximum(ball, self._box_distance_upper(left, right))
        return _without_nan(both)

    @final
    def similar(self, x: ArrayLike, y: ArrayLike, delta: float) -> BoolArray:
        """Return the mask of rows that are certainly within ``delta`` of each other: most by a coarse bound, the rest
        by :meth:`distance_upper`.

        **Soundness**: for order 2 the error of ``R (x − y)`` is in norm at most ``γ ‖R‖ ‖x − y‖``, Frobenius; squares
        that underflow lose less than 1e-150, which is added.
        """
        left, right = self._pair(x, y)
        root, order = self.gauge()
        sure = np.zeros(len(right), dtype=bool)
        if order == 2 and len(root) and len(left) == len(right) and not self.boxed:
            with np.errstate(all="ignore"):
                move = left - right
                rotated, length = move @ root.T, np.linalg.norm(move, axis=1) + 1e-150
                error = gamma(root.shape[1] + 8) * (float(np.linalg.norm(root)) + 1e-150) * length
                size = (np.linalg.norm(rotated, axis=1) + 1e-150 + error) * (1 + gamma(2 * root.size + 64))
                sure = raised(size, 2 * len(root) + self._root_roundings()) <= delta
        rest = np.flatnonzero(~sure)
        if len(rest):
            every = np.broadcast_to(left, right.shape)
            sure[rest] = self.distance_upper(every[rest], right[rest]) <= delta
        return sure

    @final
    def save(self, path: str | PathLike[str]) -> None:
        """Write the metric as a readable TOML file from which it is restored bit for bit, complete or not at all."""
        with atomic(Path(path), "metric file", folders=False) as partial:
            partial.write_text(metric_to_text(self), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"

    # -- what a subclass may give, beside its form ---------------------------------------------------------

    def _root_roundings(self) -> int:
        """Return ``roundings``: by definition the metric is between 1 and ``1 + γ_roundings`` times its gauge."""
        return 0

    def _box_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1])

    def _box_distance_upper(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.form.box_upper(x, y)

    def _set(self, width: int, fitted_on: str, names: Sequence[str], **parts: Any) -> None:
        """Set the attributes of a metric, which is frozen; names are one for each coordinate, or none at all."""
        if not isinstance(names, list | tuple) or len(names) not in (0, width):
            raise MetricError(template("names", f"a list of {width} coordinate names, or empty", names))
        for key, value in (parts | {"fitted_on": fitted_on, "names": tuple(map(str, names))}).items():
            object.__setattr__(self, key, value)

    # -- validation, once, at the door -----------------------------------------------------------------------

    def _individuals(self, parameter: str, x: ArrayLike) -> FloatArray:
        expected = f"rows of {self.width} coordinates, as the metric has"
        rows = numbers(parameter, x, expected)
        if rows.ndim == 0 or rows.shape[-1] != self.width:
            raise ParameterError(template(parameter, expected, f"shape {rows.shape}"))
        if not np.isfinite(rows).all():
            *row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
            place = f"row {', '.join(map(str, row))}, " if row else ""
            name = f" ('{self.names[column]}')" if self.names else ""
            value = rows[(*row, column)]
            raise DataError(f"'{parameter}' must be finite: {place}coordinate {column}{name} is {value}.")
        return rows

    def _pair(self, x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        left, right = self._individuals("x", x), self._individuals("y", y)
        try:
            np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            expected = f"as many rows as 'x' has, shape {left.shape}"
            raise ParameterError(template("y", expected, f"shape {right.shape}")) from None
        return left, right


def checked_delta(delta: float) -> float:
    """Return ``delta`` as a float, or raise an error that says what it must be."""
    return checked_number("delta", delta)


def checked_number(parameter: str, value: float, low: float = 0.0) -> float:
    """Return a finite number that is at least ``low``."""
    return number(parameter, value, f"a finite number >= {low:g}", low, FINITE)


def frozen(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only copy: metrics do not change, and the caller's array is not ours."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def vector(parameter: str, values: ArrayLike, low: float = 0.0) -> FloatArray:
    """Return one finite number ≥ ``low`` for each coordinate, read-only."""
    expected = "a list of finite numbers" + (f" >= {low:g}" if math.isfinite(low) else "")
    array = numbers(parameter, values, expected, MetricError)
    if array.ndim != 1 or array.size == 0:
        raise MetricError(template(parameter, expected, f"shape {array.shape}"))
    if not (good := np.isfinite(array) & (array >= low)).all():
        i = int(np.flatnonzero(~good)[0])
        raise MetricError(template(parameter, expected, float(array[i])) + f" Its position is {i}.")
    return frozen(array)


def form_of(root: FloatArray, order: float = 2.0, **coordinates: NDArray[Any]) -> Form:
    """Return the form of a seminorm by its root, beside tolerances of single ``coordinates``: all free by default."""
    m = root.shape[1]
    nothing = {"free": np.ones(m, dtype=bool), "tolerance": np.zeros(m), "relative": np.zeros(m)}
    return Form(root, order, **(nothing | {"origin": np.zeros(m), "unit": np.ones(m)} | coordinates))


def fitting_basis(population: Population) -> tuple[BoolArray, str, tuple[str, ...]]:
    """Return the basis of every fit on a population: the protected coordinates, of which there must be some and not
    all, and the metric's ``fitted_on`` and ``names``."""
    schema, people = population.schema, len(population.x)
    if people == 0:
        raise DataError("A metric cannot be fitted on an empty population: give at least one individual.")
    protected = np.asarray(schema.protected_coordinates, dtype=bool)
    if not protected.any():
        raise MetricError(
            f"No metric can be fitted, since the schema '{schema.name}' declares no protected "
            "feature: mark at least one with 'protected = true'."
        )
    if protected.all():
        raise MetricError(f"The schema '{schema.name}' has no feature that is not protected.")
    return protected, f"{schema.name} ({population.split}), {people} individuals", schema.coordinate_names


def overlaps(metric: Metric, people: Population) -> bool:
    """Say whether a metric is known to be fitted on some of these people: on the same part of a table, or on all of it.

    Only parts are compared: the name of a table does not tell whether two files hold the same people.
    """
    parts = ("train", "test", "all") if people.split == "all" else (people.split, "all")
    return any(f"({part})" in metric.fitted_on for part in parts)


def _without_nan(distance: FloatArray) -> FloatArray:
    """Replace NaN, which only an overflow can bring about here, by ∞."""
    return np.asarray(np.where(np.isnan(distance), np.inf, distance), dtype=np.float64)
