"""A metric as a file: readable TOML that is restored bit for bit, and can be written by hand.

    kind = "weighted-lp"
    order = 2
    weights = [0, 1.5, 3]

``kind`` says which metric it is; the other keys are its parts. A ``mahalanobis`` file may give
``precision`` instead of ``root``, a ``sensitive-subspace`` file ``directions``.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.errors import FileError, MetricError, ParameterError, template
from isonomy.given import instance
from isonomy.population.toml import nearest, read_text, read_toml, write_value

if TYPE_CHECKING:
    from isonomy.similarity.metric import Metric

KINDS: dict[str, type[Metric]] = {}
"""Every metric by its kind; each adds itself when it is defined."""

_LONGEST = 2**27  # characters: a matrix of 2,000 by 2,000
_ABOUT = frozenset({"kind", "width", "fitted_on", "names"})


def load_metric(path: str | PathLike[str]) -> Metric:
    """Read a metric of any kind from its file at ``path``."""
    instance("path", path, str | PathLike, "the path of a metric file")
    if not Path(path).exists():
        raise FileError(f"There is no metric file {path}.")
    try:
        return metric_from_text(read_text(Path(path), "Metric file", _LONGEST), f"Metric file {path}")
    except (MetricError, ParameterError) as error:
        raise MetricError(f"The metric file {path}: {error}") from None


def metric_to_text(metric: Metric) -> str:
    """Return the TOML text of a metric."""
    about = {"kind": metric.kind, "width": metric.width, "fitted_on": metric.fitted_on, "names": metric.names}
    entries = {key: value for key, value in about.items() if value}
    entries |= {key: getattr(metric, key) for key in metric.parts}
    lines = [f"# {metric.describe()}", *(f"{key} = {_written(value)}" for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def metric_from_text(text: str, where: str = "The text of a metric") -> Metric:
    """Return the metric that a TOML text describes; ``where`` it stands is for errors."""
    table = read_toml(text, where, _LONGEST)
    kind = str(table.get("kind", ""))
    if kind not in KINDS:
        raise MetricError(f"'kind' must be one of {', '.join(map(repr, sorted(KINDS)))}. Got {kind!r}.")
    metric_class = KINDS[kind]
    defined_by = metric_class.defined_by
    known = _ABOUT | {*metric_class.parts, *defined_by}
    for key in table:
        if key not in known:
            raise MetricError(f"A metric of kind '{kind}' has no '{key}': {nearest(key, sorted(known), 'it may have')}")
    if sum(key in table for key in defined_by) != 1:
        raise MetricError(f"A metric of kind '{kind}' needs exactly one of {', '.join(defined_by)}.")
    width = table.get("width")
    if width is not None and (type(width) is not int or width < 1):
        raise MetricError(template("width", "a whole number >= 1", width))
    state = {key: value for key, value in table.items() if key not in _ABOUT}
    if not state.get("root", True) and width is not None:
        state["root"] = np.zeros((0, width))  # every coordinate is free
    make: Any = metric_class
    make = make.from_root if "root" in state else make
    metric: Metric = make(**state, fitted_on=str(table.get("fitted_on", "")), names=table.get("names", ()))
    if width not in (None, metric.width):
        raise MetricError(f"'width' is {width}, but the arrays have {metric.width} coordinates.")
    return metric


def _written(value: Any) -> str:
    """Return a TOML value; a matrix has one row on each line."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return "[\n" + "".join(f"  {write_value(row)},\n" for row in value.tolist()) + "]"
    return write_value(value.tolist() if isinstance(value, np.ndarray) else value)
