"""Does the network, as it was read, predict what the original model predicted?

A wrong column order or scale makes a perfectly valid network that is another one. Reference predictions for a few
rows, made with the original framework, find that out before anything is certified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, ParameterError, template
from isonomy.networks.network import Network
from isonomy.population.encoding import text_of
from isonomy.population.population import Population
from isonomy.population.schema import Schema


@dataclass(frozen=True)
class Agreement:
    """How many rows were compared, and the largest difference found (0 when labels were compared)."""

    rows: int
    largest: float


def check_predictions(
    model: Network,
    individuals: Any,
    reference: Any,
    *,
    schema: Schema | None = None,
    tolerance: float = 1e-6,
) -> Agreement:
    """Compare ``model`` with reference predictions, row by row; the first row that differs is an error.

    ``individuals`` is a population, a raw table beside its ``schema``, or an array of coordinates. ``reference``
    holds the probabilities of all classes ``(n, k)``, of class 1 alone ``(n,)``, the numbers of a regression, or
    class names. Numbers may be apart by ``tolerance``, those of a regression by as much of their size.
    """
    if not (isinstance(tolerance, int | float) and 0 <= tolerance < np.inf):
        raise ParameterError(template("tolerance", "a finite number >= 0", tolerance))
    x, names, schema = _coordinates(individuals, schema)
    expected = np.asarray(reference)
    if expected.shape[:1] != (len(x),):
        raise ParameterError(template("reference", f"{len(x)} predictions, one for each row", expected.shape))
    given = model(x)
    if expected.dtype.kind in "OUSb" and model.head != "regression":
        return _labels(model, given, expected, names, schema)
    try:
        wanted = expected.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(template("reference", "probabilities, numbers or class labels", expected.dtype)) from None
    if wanted.ndim == 1:
        given = given[:, 1:] if given.shape[1] == 2 and model.head != "regression" else given
        wanted = wanted[:, None]
    if wanted.shape != given.shape:
        shape = " or ".join(map(str, {given.shape, (len(x),)}))
        raise ParameterError(template("reference", f"an array of shape {shape}", expected.shape))
    apart = np.abs(given - wanted)
    scale = np.maximum(1.0, np.abs(wanted)) if model.head == "regression" else 1.0
    bad = ~(apart <= tolerance * scale)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise NetworkError(
            f"'{model.name}' differs from the reference in row {names[row]}: it gives {given[row, column]:.9g} where "
            f"{wanted[row, column]:.9g} is expected ({int(bad.any(axis=1).sum())} of {len(x)} rows differ by more than "
            f"{tolerance:g}); check the order, scaling and encoding of its inputs."
        )
    return Agreement(len(x), float(apart.max(initial=0.0)))


def _coordinates(individuals: Any, schema: Schema | None) -> tuple[FloatArray, list[Any], Schema | None]:
    """Coordinates, the names of the rows, and the schema if there is one."""
    if isinstance(individuals, Population):
        return individuals.x, individuals.rows.tolist(), individuals.schema
    if schema is not None:
        x = schema.encode(individuals).x
        return x, list(range(len(x))), schema
    if isinstance(individuals, np.ndarray) and individuals.ndim == 2 and individuals.dtype.kind in "fiu":
        return individuals.astype(np.float64), list(range(len(individuals))), None
    raise ParameterError(template("schema", "given beside a raw table", None))


def _labels(network: Network, given: FloatArray, expected: Any, names: list[Any], schema: Schema | None) -> Agreement:
    classes = schema.label.classes if schema is not None and schema.label is not None else ()
    if expected.ndim != 1 or (not classes and expected.dtype.kind != "b"):
        raise ParameterError(template("reference", "one label per row, of the classes in the schema", expected.shape))
    chosen = given.argmax(axis=1)
    known = {name: place for place, name in enumerate(classes or ("False", "True"))}
    for row, label in enumerate(expected.tolist()):
        place = known.get(text_of(label))
        if place is None:
            raise ParameterError(template("reference", f"labels among {', '.join(map(repr, known))}", label))
        best, own = given[row].max(), given[row, place] if place < given.shape[1] else -np.inf
        if place != chosen[row] and best > own:
            raise NetworkError(
                f"'{network.name}' differs from the reference in row {names[row]}: it prefers class {chosen[row]} with "
                f"{best:.6g}, the reference says {label!r}; check the order, scaling and encoding of its inputs."
            )
    return Agreement(len(expected), 0.0)
