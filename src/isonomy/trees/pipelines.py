"""What scikit-learn's preprocessing does in front of trees, folded into their tests, so that these are on raw columns.

Every column that reaches the model is a function of one raw column: a nondecreasing one of a number (scalers, fills),
or a lookup of a category (encoders). A test of the first becomes a test of the raw number, by bisection of the very
floating-point steps that the pipeline runs; a test of the second a set of categories.

**Soundness.** Steps are run in the type of the table's numbers, float64 or float32, in the order of the pipeline, as
scikit-learn runs them; each is nondecreasing, roundings included.
Transformers are read by their kind, and what is not among these is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.limits import reading
from isonomy.trees.assembly import MASK_CELLS
from isonomy.trees.bins import on_bins
from isonomy.trees.described import Described, kind_of
from isonomy.trees.forest import CATEGORY, NUMBER_NOT_ZERO, ZERO, Column, Forest, cell_key
from isonomy.trees.source import Source, Step
from isonomy.trees.thresholds import Numbers, largest_at_most


def transformed(step: Any, columns: list[Source]) -> list[Source]:
    """Return the columns that one fitted transformer makes of others."""
    if _does_nothing(step):
        return columns
    if isinstance(step, str) and step == "drop":
        return []
    kind = kind_of(step)
    name = kind.rpartition(".")[2]
    rule = _RULES.get(name) if kind.startswith("sklearn.") else None
    if rule is None:
        raise UnsupportedOperationError(
            f"the transformer {name} in front of trees cannot be read; these can: {', '.join(sorted(_RULES))}."
        )
    width = int(getattr(step, "n_features_in_", len(columns)))
    if width != len(columns):
        raise NetworkError(f"{name} was fitted on {width} columns but gets {len(columns)}.")
    with reading(name, absent="is not fitted"):
        made: list[Source] = rule(step, columns)
        return made


def _does_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _pipeline(step: Any, columns: list[Source]) -> list[Source]:
    for _, inner in step.steps:
        columns = transformed(inner, columns)
    return columns


def _by_column(step: Any, columns: list[Source]) -> list[Source]:
    if step.transformer_weights:
        raise UnsupportedOperationError("weights of transformers are not read in front of trees.")
    places = step._transformer_to_input_indices
    made: list[Source] = []
    for name, inner, _ in step.transformers_:
        made += transformed(inner, [columns[int(i)] for i in places[name]]) if len(places[name]) else []
    return [replace(each, sparse=bool(step.sparse_output_)) for each in made]


def _scale(*, minus: str = "", over: str = "", times: str = "", plus: str = "", same: bool = False) -> Any:
    """Return the rule ``(x - minus) / over``, or ``x * times + plus``, each named by the attribute that holds it.

    ``same``: constants are rounded to the type of the numbers first; else each operation is in float64 and its result
    rounded to that type, as numpy does in place.
    """

    def rule(step: Any, columns: list[Source]) -> list[Source]:
        parts = {key: getattr(step, name) if name else None for key, name in _named.items()}
        if not getattr(step, "with_mean", True) or not getattr(step, "with_centering", True):
            parts["minus"] = None
        if not getattr(step, "with_std", True) or not getattr(step, "with_scaling", True):
            parts["over"] = None
        limits = getattr(step, "feature_range", (-1.0, 1.0)) if getattr(step, "clip", False) else None
        made = []
        for i, column in enumerate(columns):
            own = {key: None if part is None else float(part[i]) for key, part in parts.items()}
            if any(own[key] is not None and not own[key] > 0 for key in ("over", "times")):  # type: ignore[operator]
                raise UnsupportedOperationError("a scale that is not positive turns numbers around.")
            made.append(column.then(_affine(own, limits, column.dtype, same)))
        return made

    _named = {"minus": minus, "over": over, "times": times, "plus": plus}
    return rule


def _affine(own: dict[str, float | None], limits: Any, dtype: Any, same: bool) -> Step:
    operations = {"minus": np.subtract, "over": np.divide, "times": np.multiply, "plus": np.add}
    parts = [(operations[key], part) for key, part in own.items() if part is not None]

    def step(x: Numbers) -> Numbers:
        for operation, part in parts:
            x = operation(x, np.array([part], dtype=dtype if same else np.float64)).astype(dtype)
        return x if limits is None else np.clip(x, dtype(limits[0]), dtype(limits[1]))

    return step


def _impute(step: Any, columns: list[Source]) -> list[Source]:
    _refuse_marks(step, "fills")
    made = []
    for column, statistic in zip(columns, step.statistics_, strict=True):
        value = cell_key(statistic)
        if value is None and not step.keep_empty_features:
            continue  # nothing was known in training: the column is dropped
        fill: Any = 0.0 if value is None else value if isinstance(value, str) else float(column.dtype(value))
        unseen = fill if _is_nan(column.unseen) else column.unseen
        made.append(replace(column, gap=fill if _is_nan(column.gap) else column.gap, unseen=unseen))
    return made + (_indicate(step.indicator_, columns) if step.add_indicator else [])


def _refuse_marks(step: Any, does: str) -> None:
    """Refuse a step for which another cell than a missing one counts as missing."""
    if cell_key(step.missing_values) is not None:
        raise UnsupportedOperationError(
            f"it {does} cells that hold {step.missing_values!r}; only missing ones are read."
        )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _indicate(step: Any, columns: list[Source]) -> list[Source]:
    """Return 0 for a cell that is there and 1 for a missing one."""
    _refuse_marks(step, "marks")
    made = []
    for i in np.asarray(step.features_, dtype=np.int64):
        column = columns[i]
        if column.steps or column.labels or not _is_nan(column.gap):
            raise UnsupportedOperationError("an indicator of missing values behind other steps is not read.")
        made.append(replace(column, steps=(np.zeros_like,), gap=1.0, sparse=False))
    return made


def _one_hot(step: Any, columns: list[Source]) -> list[Source]:
    made = []
    grouped = getattr(step, "_default_to_infrequent_mappings", None) if step._infrequent_enabled else None
    dropped = step._drop_idx_after_grouping
    for i, (column, cells) in enumerate(zip(columns, step.categories_, strict=True)):
        into = (
            np.arange(len(cells)) if grouped is None or grouped[i] is None else np.asarray(grouped[i], dtype=np.int64)
        )
        rare = int(into.max()) if grouped is not None and grouped[i] is not None else None
        refuses = step.handle_unknown == "error"
        unseen = rare if step.handle_unknown in ("infrequent_if_exist", "warn") else None
        for output in range(int(into.max()) + 1):
            if dropped is not None and dropped[i] is not None and int(dropped[i]) == output:
                continue
            values = (into == output).astype(np.float64)
            other = None if refuses else float(unseen == output)
            made.append(looked_up(column, cells, values, other, other, bool(step.sparse_output)))
    return made


def _ordinal(step: Any, columns: list[Source]) -> list[Source]:
    if step._infrequent_enabled:
        raise UnsupportedOperationError("rare categories that share a number are not read; leave min_frequency out.")
    other = None if step.handle_unknown == "error" else float(step.unknown_value)
    gap = float(step.encoded_missing_value)
    made = []
    for column, cells in zip(columns, step.categories_, strict=True):
        values = np.array([gap if _is_nan(each) else i for i, each in enumerate(cells)], dtype=np.float64)  # None has i
        made.append(looked_up(column, cells, values, other, other))
    return made


def looked_up(
    column: Source, cells: Any, values: Numbers, unseen: float | None, gap: float | None, sparse: bool = False
) -> Source:
    """Return a lookup of the raw column; a missing cell is a category of its own where the encoder met one."""
    if column.steps or column.labels:
        raise UnsupportedOperationError("an encoder behind other steps is not read.")
    keys = [cell_key(each) for each in cells]
    if keys.count(None) > 1:
        raise UnsupportedOperationError("None and NaN are two categories; write one of them for a missing cell.")
    known = {key: float(value) for key, value in zip(keys, values, strict=True)}
    filled = (
        column.gap if isinstance(column.gap, str) or (column.gap is not None and column.gap == column.gap) else None
    )
    labels = tuple(key for key in keys if key is not None)
    return Source(
        column.raw,
        labels=labels,
        values=tuple(known[key] for key in labels),
        unseen=unseen,
        gap=known.get(filled, gap if filled is None else unseen),
        sparse=sparse,
    )


def _function(step: Any, columns: list[Source]) -> list[Source]:
    """Apply a function of numpy that never falls; where a number has no result, the schema must not allow it."""
    if step.func is None:
        return columns
    stored = step.func.kind if isinstance(step.func, Described) else None
    named = [each for each in _RISING if step.func is each[0] or stored == f"numpy.{each[0].__name__}"]
    if not named or step.kw_args:
        known = ", ".join(function.__name__ for function, _ in _RISING)
        name = stored or getattr(step.func, "__name__", str(step.func))
        raise UnsupportedOperationError(f"the function {name} of columns is not read ({known} are); apply it before.")
    made, (function, least) = list[Source](), named[0]
    for column in columns:
        if least > -np.inf and (column.steps or column.labels):
            raise UnsupportedOperationError(f"{function.__name__} behind other steps is not read.")
        if isinstance(column.gap, float) and column.gap <= least:
            raise UnsupportedOperationError(f"{function.__name__} has no result for the fill {column.gap!r}.")
        bits = column.bits if column.steps else 32  # numpy runs it in float16 on narrower whole numbers
        made.append(replace(column.then(_rising(function, least)), least=max(least, column.least), bits=bits))
    return made


def _rising(function: Any, least: float) -> Step:
    """Return the function as the pipeline runs it, and minus infinity where it has no result."""

    def step(x: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(np.where(x <= least, -np.inf, function(x)) if least > -np.inf else function(x))

    return step


_RISING = (
    (np.log1p, -1.0), (np.log, 0.0), (np.log2, 0.0), (np.log10, 0.0), (np.sqrt, -np.nextafter(0.0, 1.0)),
    *((function, -np.inf) for function in (np.cbrt, np.arcsinh, np.arctan, np.tanh, np.exp, np.expm1)),
)  # fmt: skip
"""Functions that never fall, and the largest number from which on downward they have no finite result."""


def _binarize(step: Any, columns: list[Source]) -> list[Source]:
    limit: Any = (
        step.threshold if isinstance(step.threshold, np.generic) else float(step.threshold)
    )  # as numpy compares
    made = [_without_gap(column).then(lambda x: (x > limit).astype(x.dtype)) for column in columns]
    return [each if each.labels or each.place is not None else replace(each, levels=(0.0, 1.0)) for each in made]


def _bin(step: Any, columns: list[Source]) -> list[Source]:
    """Return the number of each column's bin, or one column for each bin."""
    if step.dtype is not None:
        raise UnsupportedOperationError("bins of another type than the table's numbers are not read; leave dtype out.")
    made: list[Source] = []
    for column, edges in zip(columns, step.bin_edges_, strict=True):
        inner = np.asarray(edges, dtype=np.float64)[1:-1]
        bins, levels = _without_gap(column).then(_binned(inner)), tuple(map(float, range(len(inner) + 1)))
        if step.encode == "ordinal":
            made.append(bins if column.labels or column.place is not None else replace(bins, levels=levels))
            continue
        if column.labels or column.place is not None:
            raise UnsupportedOperationError("bins of a category are not read.")
        for place in range(len(inner) + 1):
            gap = None if bins.gap is None else float(bins.gap == place)
            sparse = step.encode == "onehot"
            made.append(replace(bins, place=place, sides=(0.0, 1.0), gap=gap, levels=levels, sparse=sparse))
    return made


def _binned(inner: Numbers) -> Step:
    return lambda x: np.asarray(np.searchsorted(inner, x, side="right").astype(x.dtype))


def _without_gap(column: Source) -> Source:
    """Return a column in front of a step that refuses missing cells."""
    return replace(column, gap=None) if _is_nan(column.gap) else column


_RULES: dict[str, Any] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _by_column,
    "StandardScaler": _scale(minus="mean_", over="scale_", same=True),
    "RobustScaler": _scale(minus="center_", over="scale_"),
    "MaxAbsScaler": _scale(over="scale_"),
    "MinMaxScaler": _scale(times="scale_", plus="min_"),
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "SimpleImputer": _impute,
    "MissingIndicator": _indicate,
    "FunctionTransformer": _function,
    "Binarizer": _binarize,
    "KBinsDiscretizer": _bin,
}


def folded(forest: Forest, sources: Sequence[Source], names: Sequence[str]) -> Forest:
    """Return the forest over raw columns of a forest over the columns that a pipeline makes of them."""
    if len(sources) != len(forest.columns):
        raise NetworkError(f"it reads {len(forest.columns)} columns, but {len(sources)} arrive.")
    absent = forest.library == "XGBoost" and any(each.sparse for each in sources)
    if absent:
        sources = [_without_zeros(each, forest.columns[i].name) for i, each in enumerate(sources)]
    if any(each.place is not None for each in sources):
        forest, sources = on_bins(forest, sources)
    columns = [_raw_column(names[raw], raw, sources, forest) for raw in range(len(names))]
    new = {
        name: getattr(forest, name).copy()
        for name in ("feature", "kind", "threshold", "subset", "missing_left", "unseen_left")
    }
    masks: list[NDArray[np.bool_]] = []
    for j, source in enumerate(sources):
        nodes = np.flatnonzero(forest.feature == j)
        new["feature"][nodes] = source.raw
        if source.labels:
            _fold_lookup(forest, source, nodes, new, masks)
        elif forest.columns[j].coding == "number":
            _fold_number(forest, source, nodes, new)
        elif source.steps:
            raise UnsupportedOperationError(
                f"column {forest.columns[j].name!r} is scaled and then taken as a category."
            )
        else:
            for node in nodes:
                new["subset"][node] = len(masks)
                masks.append(forest.masks[forest.subset[node]])
            if cell_key(source.gap) is not None:
                new["missing_left"][nodes] = _side(forest, nodes, source.gap)
    widest = max(1, *(len(each.categories) for each in columns), *(len(each) for each in masks), 1)
    if len(masks) * widest > MASK_CELLS:
        raise NetworkError(f"its {len(masks):,} tests of up to {widest:,} categories are more than can be read.")
    table = np.zeros((max(1, len(masks)), widest), dtype=np.bool_)
    for row, mask in zip(table, masks, strict=False):
        row[: len(mask)] = mask
    return replace(forest, columns=tuple(columns), masks=table, **new)


def _without_zeros(source: Source, name: str) -> Source:
    """Return a source of sparse rows as XGBoost takes them: a zero is not stored, and so it is missing."""
    if not source.labels:
        raise UnsupportedOperationError(
            f"{name}: XGBoost takes zeros of sparse rows as missing; fit with sparse_threshold=0 and "
            "sparse_output=False."
        )
    values = tuple(np.nan if value == 0 else value for value in source.values)
    gaps = [np.nan if each == 0 else each for each in (source.unseen, source.gap)]
    return replace(source, values=values, unseen=gaps[0], gap=gaps[1])


def _raw_column(name: str, raw: int, sources: Sequence[Source], forest: Forest) -> Column:
    own = [(j, each) for j, each in enumerate(sources) if each.raw == raw]
    lookups = [each for _, each in own if each.labels]
    if not lookups:
        kinds = {forest.columns[j].coding for j, _ in own}
        if len(kinds) > 1:
            raise UnsupportedOperationError(f"column {name!r} is read as a number and as a category.")
        missing = all(_takes(each.gap, forest.columns[j]) for j, each in own)
        least = max((each.least for _, each in own), default=-np.inf)
        runs_in = next((np.dtype(each.dtype).name for _, each in own if each.steps), "")
        bits = max((each.bits for _, each in own), default=0)
        return (
            Column(name, missing=missing, least=least, runs_in=runs_in, bits=bits)
            if kinds <= {"number"}
            else replace(forest.columns[own[0][0]], name=name)
        )
    if len(lookups) < len(own) or len({each.labels for each in lookups}) > 1:
        raise UnsupportedOperationError(f"column {name!r} is encoded in two ways.")
    takes = [all(_takes(getattr(each, part), forest.columns[j]) for j, each in own) for part in ("unseen", "gap")]
    return Column(name, lookups[0].labels, "label", "side" if takes[0] else "refused", missing=takes[1])


def _takes(value: Any, column: Column) -> bool:
    """Say whether a cell that becomes ``value`` is not refused on its way through the pipeline and the model."""
    return value is not None and (value == value or column.missing)


def _fold_number(forest: Forest, source: Source, nodes: NDArray[np.int64], new: dict[str, Any]) -> None:
    if source.steps:
        if (forest.kind[nodes] == NUMBER_NOT_ZERO).any():
            raise UnsupportedOperationError("scaled numbers of which zero counts as missing are not read.")
        limits, place = np.unique(forest.threshold[nodes], return_inverse=True)
        ends = largest_at_most(source.numbers, limits)
        _refuse_wavering(source, limits, ends)
        new["threshold"][nodes] = ends[place]
    gap = source.gap
    if gap is None:
        return  # it is refused, so either side will do
    if isinstance(gap, str):
        raise UnsupportedOperationError(f"a missing number is filled with {gap!r}.")
    if gap == gap:
        new["missing_left"][nodes] = _passes(forest, nodes, gap)
    if gap == gap and (forest.kind[nodes] == NUMBER_NOT_ZERO).any():
        raise UnsupportedOperationError("filled numbers of which zero counts as missing are not read.")


def _refuse_wavering(source: Source, limits: Numbers, ends: Numbers) -> None:
    """Refuse steps that go up and down around a threshold, as a library's own function might in its last bits."""
    low = high = ends
    with np.errstate(all="ignore"):
        for _ in range(_NEIGHBOURS):
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
            wrong = np.isfinite(ends) & ~((source.numbers(low) <= limits) & ~(source.numbers(high) <= limits))
            if wrong.any():
                raise UnsupportedOperationError(f"its steps waver around {float(ends[np.argmax(wrong)])!r}.")


_NEIGHBOURS = 32
"""Floating-point numbers on either side of a threshold at which the steps are run."""


def _passes(forest: Forest, nodes: NDArray[np.int64], value: float) -> NDArray[np.bool_]:
    """Say at which nodes a number, or a missing one, goes left."""
    passed = value <= forest.threshold[nodes]
    missing = (value != value) | ((forest.kind[nodes] == NUMBER_NOT_ZERO) & (abs(value) <= ZERO))
    return np.where(missing, forest.missing_left[nodes], passed)


def _side(forest: Forest, nodes: NDArray[np.int64], cell: Any) -> NDArray[np.bool_]:
    """Say at which nodes, all of one column, a cell goes left."""
    code = forest.columns[int(forest.feature[nodes[0]])].code(cell) if len(nodes) else 0
    return forest._goes_left(nodes.astype(np.int32), np.full(len(nodes), float(code)))


def _fold_lookup(
    forest: Forest, source: Source, nodes: NDArray[np.int64], new: dict[str, Any], masks: list[NDArray[np.bool_]]
) -> None:
    column = forest.columns[int(forest.feature[nodes[0]])] if len(nodes) else None
    if column is None:
        return

    def goes(value: float | None) -> NDArray[np.bool_]:
        if value is None:  # it is refused, so either side will do
            return np.zeros(len(nodes), dtype=np.bool_)
        if column.coding == "number":
            return _passes(forest, nodes, value)
        return _side(forest, nodes, value)

    table = np.column_stack([goes(value) for value in source.values])
    rows, place = np.unique(table, axis=0, return_inverse=True)
    new["subset"][nodes] = place.reshape(-1) + len(masks)
    masks.extend(rows)
    new["kind"][nodes], new["threshold"][nodes] = CATEGORY, 0.0
    new["missing_left"][nodes] = goes(source.gap)
    new["unseen_left"][nodes] = goes(source.unseen)


def split_pipeline(estimator: Any) -> tuple[list[Any], Any]:
    """Return the preprocessing steps, and the model at the end; a search predicts with its best."""
    kind = kind_of(estimator)
    if kind == "sklearn.frozen._frozen.FrozenEstimator":
        return split_pipeline(estimator.estimator)
    if kind == "sklearn.pipeline.Pipeline":
        *before, last = (step for _, step in estimator.steps)
        inner, core = split_pipeline(last)
        return [*(step for step in before if not _does_nothing(step)), *inner], core
    if kind.startswith("sklearn.model_selection.") and hasattr(estimator, "best_estimator_"):
        return split_pipeline(estimator.best_estimator_)
    return [], estimator


def raw_names(steps: Iterable[Any]) -> list[str]:
    """Return the names of the columns that the first step was fitted on, or f0, f1, …"""
    first = next(iter(steps))
    while kind_of(first) == "sklearn.pipeline.Pipeline":
        first = next(step for _, step in first.steps if not _does_nothing(step))
    names = getattr(first, "feature_names_in_", None)
    return [f"f{i}" for i in range(int(first.n_features_in_))] if names is None else list(map(str, names))
