"""Guesses about an undescribed table and model: dialect of the file, schema of the columns, reading of the model.

Everything here is a guess that a person reads and corrects: :class:`Guess` says of each column what it rests on. A
network file knows how many numbers it reads, not which. Every usual reading that gives this many numbers (order of
columns, one-hot or codes, scaled or not) is tried on the table, and the one under which the known outcomes are most
likely is proposed. It stays a guess: reference predictions of the original model are the proof
(:func:`isonomy.check_predictions`).
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.auditing.columns import further_outcomes, holds_amounts, holds_dates, is_code, rare_categories, refined
from isonomy.auditing.favour import guess_favourable
from isonomy.auditing.plan import Roles
from isonomy.datasets.catalogue import ENTRIES
from isonomy.errors import (
    DataError,
    FileError,
    IsonomyError,
    NetworkError,
    ParameterError,
    SchemaError,
    first_line,
    template,
)  # fmt: skip
from isonomy.fairness.reading import OtherReading, better_reading
from isonomy.loading import is_trees, open_source
from isonomy.model import Model
from isonomy.networks.preprocessing import Noted
from isonomy.population import Dialect, Feature, Label, Population, Schema, Split
from isonomy.population.encoding import MISSING_WORDS, text_of
from isonomy.population.feature import LARGEST_WHOLE
from isonomy.population.inference import find_identifiers, with_levels
from isonomy.population.outcome import decided
from isonomy.population.tables import (
    CELLS,
    CSV,
    PARQUET,
    TEXT,
    check_cells,
    check_columns,
    check_declared,
    header_of,
    open_parquet,
    open_text,
)
from isonomy.trees.load import read_trees

MARKS = ("?", "-", ".", "*", "--", "unknown", "Unknown")
"""Cells that stand for a missing number where all other cells of the column are numbers."""

ROWS = 2000
"""Individuals on whom readings are compared."""

ASKED = "as asked"
"""Why a column is left out that the user wants to be."""

_SEPARATORS = (",", ";", "\t", "|")
_GROUPED = r"[+-]?\d{1,3}(?:[.,' \u00a0\u202f]\d{3})*(?:[.,]\d+)?"  # 1.234,50 and its like
_DISTINCT = 50  # a text column with more values is a name or a note, not a category


@dataclass(frozen=True)
class Guess:
    """A schema that was guessed, with a remark on each column, and the columns that were left out."""

    schema: Schema
    remarks: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    favour: bool = False  # the favourable class was guessed from the words of the classes


def read_unknown(path: Path, limit: int = CELLS) -> tuple[pd.DataFrame, Dialect, dict[str, tuple[str, ...]]]:
    """Return a table with types, the dialect of its file, and the cells of numeric columns that mean missing.

    A file that has more cells than the ``limit`` is refused.
    """
    name = path.name.lower()
    if str(path) in ENTRIES:
        raise FileError(
            f"'{path}' is a table of the catalogue and has a schema already: 'isonomy datasets fetch {path}'."
        )
    if not path.is_file():
        raise FileError(f"Table {path} cannot be read: there is no such file.")
    if name.endswith(PARQUET):
        try:
            with open_parquet(path, limit) as file:
                check_declared(path, file.metadata, file.schema_arrow.names, file.metadata.num_rows, limit)
            return pd.read_parquet(path), Dialect(), {}
        except (OSError, ValueError) as error:
            raise FileError(f"Table {path} cannot be read as Parquet: {first_line(error)}.") from error
    if not name.endswith(CSV):
        raise FileError(f"Table {path} cannot be read: its name must end in .parquet, .pq, {', '.join(CSV)}.")
    dialect = _dialect(path, limit)
    try:
        with open_text(path, dialect.encoding) as file:
            header = next(csv.reader(file, delimiter=dialect.separator), [])
        repeated = next((name for name in header if name and header.count(name) > 1), None)
        if repeated is not None:  # an audit refuses it too, and pandas would give the second another name
            raise DataError(f"Table {path} has two columns called {repeated!r}; names must differ.")
        with open_text(path, dialect.encoding) as file:
            texts = pd.read_csv(file, sep=dialect.separator, dtype=str, keep_default_na=False, index_col=False)
    except (OSError, ValueError, csv.Error) as error:
        raise FileError(f"Table {path} cannot be read as CSV: {' '.join(str(error).split())}.") from error
    if not len(texts):
        raise DataError(f"Table {path} is empty: it has no row.")
    if dialect.separator == ";" and _decimal_commas(texts):
        dialect = replace(dialect, decimal=",")
    typed = {column: _typed(texts[column], dialect.decimal) for column in texts.columns}
    marks = {str(column): missing for column, (_, missing) in typed.items() if missing}
    return pd.DataFrame({column: values for column, (values, _) in typed.items()}), dialect, marks


def guess_schema(
    table: pd.DataFrame, marks: dict[str, tuple[str, ...]], name: str, roles: Roles, *, numbers: bool = False,
    every: bool = False,
) -> Guess:  # fmt: skip
    """Guess the schema of a table; columns that cannot be guessed are left out, unless they have a role.

    ``numbers``: the model gives numbers, so that the label is one if it can be. ``every``: columns that look like
    further outcomes are features, too.
    """
    single = {"label": roles.label, "weight": roles.weight, "id": roles.id, "split-column": roles.split_column}
    several = {"protected": roles.protected, "proxy": roles.proxy, "ignore": roles.ignore}
    role_of: dict[str, str] = {}
    for role, columns in ({role: (name,) for role, name in single.items() if name is not None} | several).items():
        for column in columns:
            if role_of.setdefault(column, role) != role:
                both = f"--{role_of[column]} and --{role}"
                raise ParameterError(f"Column {column!r} has one role. Got {both}: copy the column to give it both.")
    ignored = set(roles.ignore)
    named = set(role_of) - ignored
    for column in (*named, *ignored):
        if column not in table.columns:
            hint = "" if "," not in column else " Several columns are named one at a time, by an option each."
            raise DataError(f"The table has no column {column!r}; it has {', '.join(map(repr, table.columns))}.{hint}")
    left_out = dict.fromkeys(ignored, ASKED)
    identifiers = find_identifiers(table.drop(columns=[*named, *ignored]))
    left_out |= dict.fromkeys(identifiers if roles.id else identifiers[1:], "it looks like another identifier")
    for column in table.columns:
        if column not in named and column not in (*ignored, *identifiers) and (reason := _unusable(table[column])):
            left_out[str(column)] = reason
    if roles.label is not None and not every:
        others = [str(column) for column in table.columns if column not in {*named, *left_out, *identifiers}]
        left_out |= further_outcomes(table, roles.label, others)
    split = None if roles.split_column is None else _split(table[roles.split_column])
    unnamed = table if roles.id is None else table.drop(columns=roles.id)
    schema = Schema.infer(
        unnamed, name=name, label=roles.label, protected=roles.protected, proxies=roles.proxy, weight=roles.weight,
        split=split, ignore=tuple(left_out), max_categories=max(_DISTINCT, 200),
    )  # fmt: skip
    features = tuple(
        replace(each, missing_values=marks[each.name]) if each.name in marks and each.flagged else each
        for each in schema.features
    )
    features = tuple(refined(each, table[each.name]) for each in features)
    label = schema.label
    if numbers and label is not None and table[label.column].dtype.kind in "iuf":
        label = Label(label.column)
    label, guessed = _outcome(label, roles)
    features = with_similar(features, roles.similar)
    schema = replace(schema, features=features, label=label, id=roles.id or schema.id)
    return Guess(schema, {each.name: _remark(each, table[each.name]) for each in features}, left_out, guessed)


def with_similar(features: tuple[Feature, ...], similar: tuple[str, ...]) -> tuple[Feature, ...]:
    """Return features with the tolerances of texts such as ``age=2``, ``income=5%`` and ``postcode=any``."""
    changed = {each.name: each for each in features}
    for text in similar:
        name, _, much = text.rpartition("=")
        if name not in changed:
            right = f"NAME=2, NAME=5% or NAME=any, of the features {', '.join(map(repr, changed))}"
            raise ParameterError(template("similar", right, text))
        feature, share = changed[name], much.strip().endswith("%")
        if much.strip() == "any":
            changed[name] = replace(feature, proxy=not feature.protected)
            continue
        try:
            number = float(much.strip().removesuffix("%"))
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf or feature.kind == "categorical":
            right = (
                "any: it is a category"
                if feature.kind == "categorical"
                else "a number >= 0, a share such as 5%, or any"
            )
            raise ParameterError(template(f"similar {name}", right, much))
        parts = {"tolerance": None, "relative_tolerance": number / 100} if share else {"tolerance": number}
        changed[name] = replace(feature, **parts)
    return tuple(changed.values())


_YES = {"1": "0", "True": "False", "true": "false", "yes": "no", "Yes": "No", "Y": "N", "y": "n", "1.0": "0.0"}
"""Bare codes of an outcome that is, by its opposite."""


def _named_outcome(label: Label, favourable: tuple[str, ...]) -> tuple[str, ...]:
    """Return the favourable classes, where the outcome itself is named (``approved`` of a column of 0 and 1)."""
    yes = next((name for name, no in _YES.items() if set(label.classes) == {name, no}), None)
    return (yes,) if favourable == (label.column,) and yes is not None else favourable


def _outcome(label: Label | None, roles: Roles) -> tuple[Label | None, bool]:
    """Return the label with its favourable class and cut-off, and whether the class is a guess."""
    for name in ("favourable", "threshold"):
        if label is None and (value := getattr(roles, name)) not in (None, ()):
            raise ParameterError(template(name, "given beside --label, whose outcome it is about", value))
    favourable = roles.favourable if label is None or roles.favourable else guess_favourable(label)
    if label is not None:
        favourable = _named_outcome(label, favourable)
        label = replace(label, favourable=favourable, threshold=roles.threshold)
    return label, bool(favourable) and not roles.favourable


def with_categories(guess: Guess, model: Any, table: pd.DataFrame) -> Guess:
    """Declare what a model encodes category by category as such, in the categories that it knows.

    A postal code is no amount, whatever its digits say, and a table need not show every category.
    """
    for _ in table.columns:  # a model is read up to the first column that does not fit
        features = {each.name: each for each in guess.schema.features}
        noted = _known_categories(model, guess.schema, table)
        changed: dict[str, Feature] = {}
        for name, known in noted.items():
            feature, left = features.get(name), guess.left_out.get(name, ASKED) != ASKED
            if name in table.columns and (feature is not None or left) and _texts(table[name], known) & set(known):
                encoded = _with_known(table[name], known, feature)
                changed |= {} if encoded == feature else {name: encoded}
        if not changed:
            break
        features |= changed
        remarks, left_out = dict(guess.remarks), dict(guess.left_out)
        for name, feature in changed.items():
            unknown = len(_texts(table[name], feature.levels).difference(feature.levels))
            rest = f" {unknown} values of this table are not among them." if unknown else ""
            remarks[name] = f"guess: the {len(feature.categories)} categories that the model knows.{rest}"
            left_out.pop(name, None)
        ordered = tuple(features[name] for name in map(str, table.columns) if name in features)
        guess = Guess(replace(guess.schema, features=ordered), remarks, left_out, guess.favour)
    return guess


def _known_categories(model: Any, schema: Schema, table: pd.DataFrame) -> Mapping[str, tuple[str, ...]]:
    """Return the categories that a model knows, by column; of trees that keep hashes only, those of the table."""
    if not is_trees(model):
        noted: Noted = {}
        _reader_options(model, schema, noted=noted)
        return noted
    known = {}
    try:
        columns = read_trees(model, trees="all").columns
    except NetworkError:
        if isinstance(model, str | Path):
            raise
        return {}  # a live model can still be asked
    for column in columns:
        if column.coding == "hash" and column.name in table.columns:
            known[column.name] = tuple(sorted(_texts(table[column.name], ())))
        elif column.categories:
            known[column.name] = tuple(text_of(each) for each in column.categories)
    return known


def _with_known(column: pd.Series, known: tuple[str, ...], feature: Feature | None) -> Feature:
    """Return a feature with the categories that a model knows, in addition to its own if it has any."""
    if feature is None or feature.kind in ("numeric", "integer"):
        flags = {role: getattr(feature, role, False) for role in ("protected", "proxy", "immutable")}
        return with_levels(column, tuple(dict.fromkeys(known)), flags)
    missing = {*feature.missing_values, feature.missing_label} if feature.missing == "category" else set()
    more = [name for name in dict.fromkeys(known) if name not in (*feature.categories, *missing)]
    padded = _padded(column, known)
    own = (padded.get(name, name) for name in feature.categories)
    categories = tuple(dict.fromkeys((*own, *more))) if feature.kind == "categorical" else feature.categories
    return replace(feature, categories=categories) if more else feature


def _texts(column: pd.Series, known: tuple[str, ...]) -> set[str]:
    """Return the categories that the cells of a column name."""
    return set(_coded(column.dropna().drop_duplicates(), known))


def _coded(column: pd.Series, known: tuple[str, ...]) -> pd.Series:
    """Return cells as the categories that they name."""
    padded = _padded(column, known)
    return column.map(lambda cell: padded.get(text_of(cell), text_of(cell)), na_action="ignore")


def _padded(column: pd.Series, known: tuple[str, ...]) -> dict[str, str]:
    """Return known categories by the texts of integers that lost a leading zero, such as 1067 of 01067."""
    numbers = column.dtype.kind in "iu"
    return {str(int(name)): name for name in known if numbers and name.isascii() and name.isdigit()}


def with_codes(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return a table whose integers are texts where a schema has categories of digits with a leading zero."""
    codes = {
        each.name: _coded(table[each.name], each.levels)
        for each in schema.features
        if each.kind == "categorical" and table[each.name].dtype.kind in "iu"
    }
    return table.assign(**codes)


def _dialect(path: Path, limit: int) -> Dialect:
    encoding = "utf-8"
    try:
        header = _scan_text(path, encoding, limit)
    except UnicodeDecodeError:
        encoding = "latin-1"
        header = _scan_text(path, encoding, limit)
    except OSError as error:
        raise FileError(f"Table {path} cannot be read: {error.strerror or error}.") from error
    if header.startswith("\ufeff"):
        encoding = "utf-8-sig"
    return Dialect(_separator(header), encoding)


def _separator(header: str) -> str:
    return max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", header).count)


def _scan_text(path: Path, encoding: str, limit: int) -> str:
    """Return the first line of a file; check that it is text in this encoding and has no more cells than the limit."""
    header = header_of(path, encoding)
    separator, cells, size = _separator(header), 0, 0
    check_columns(path, 1 + header.count(separator), limit)
    with open_text(path, encoding) as file:
        while piece := file.read(1 << 20):
            cells, size = cells + piece.count(separator) + piece.count("\n"), size + len(piece)
            check_cells(path, max(cells, size // TEXT), limit, f"has {size:,} characters and more")
    return header


def _decimal_commas(texts: pd.DataFrame) -> bool:
    """Return whether some column holds numbers only when commas are read as decimal marks."""
    columns = (texts[column].str.strip() for column in texts.columns)
    known = (cells[~cells.isin((*MISSING_WORDS, *MARKS))] for cells in columns)
    return any(cells.str.fullmatch(r"[+-]?\d*,?\d+").all() and cells.str.contains(",").any() for cells in known)


def _typed(texts: pd.Series, decimal: str) -> tuple[pd.Series, tuple[str, ...]]:
    """Return numbers where all present cells are numbers, else texts; and the cells that mean missing.

    Integers of more digits than a float holds are names, and texts.
    """
    bare = texts.str.strip()
    present = ~bare.isin(MISSING_WORDS)
    shown = bare
    if decimal == ",":  # a point is then no decimal mark
        shown = bare.mask(bare.str.contains(".", regex=False), "").str.replace(",", ".", regex=False)
    for marks in ((), MARKS):
        counted = present & ~bare.isin(marks)
        numbers = pd.to_numeric(shown[counted], errors="coerce")
        if counted.any() and numbers.notna().all() and not shown[counted].str.fullmatch(r"[+-]?\d{16,}").any():
            integral = shown[counted].str.fullmatch(r"[+-]?\d{1,15}").all()
            column = pd.Series(pd.NA, index=texts.index, dtype="Int64" if integral else "Float64", name=texts.name)
            column[counted] = numbers.astype("Int64" if integral else "Float64")
            missing = tuple(sorted(set(bare[present & bare.isin(marks)])))
            if column.notna().all():
                return column.astype("int64" if integral else "float64"), missing
            return (column if integral else column.astype("float64")), missing
    return bare.where(present, None), ()


def _unusable(column: pd.Series) -> str:
    """Return why a column cannot be a feature; "" if it can."""
    if column.isna().all():
        return "it holds no value"
    if column.dtype.kind in "mMc":
        return f"it holds {column.dtype} values: turn them into numbers to use them"
    if column.dtype.kind in "iu" and max(-int(column.min()), int(column.max())) > LARGEST_WHOLE // 4:
        return "its whole numbers are too large: turn them into texts or smaller numbers to use them"
    distinct = column.nunique()
    if column.dtype.kind not in "iufb" and (reason := holds_dates(column)):
        return reason
    if column.dtype.kind not in "iufb" and distinct > _DISTINCT:
        texts = column.dropna().astype(str)
        texts = texts[~texts.isin(MARKS)]
        if len(texts) and texts.str.fullmatch(_GROUPED).all():
            longest = max(texts, key=len)
            return f"its cells look like numbers with thousands separators, such as {longest!r}: write them without"
        return holds_amounts(texts) or f"it has {distinct} different texts"
    return ""


def _split(column: pd.Series) -> Split:
    values = sorted({str(value) for value in column.dropna()})
    for train, test in (("train", "test"), ("Train", "Test"), ("training", "test"), ("0", "1"), ("False", "True")):
        if {train, test} <= set(values):
            return Split(str(column.name), train, test)
    raise SchemaError(
        f"Column {column.name!r} cannot be guessed as a split: it holds {', '.join(map(repr, values[:5]))}, no "
        "'train' and 'test'; leave --split-column out and write [split] by hand."
    )


def _remark(feature: Feature, column: pd.Series) -> str:
    """Return the remark on what a guess rests on."""
    gaps = int(column.isna().sum())
    missing = f"; {gaps} missing, as a person's may be" if gaps else ""
    if feature.kind in ("numeric", "integer"):
        low, high = f"{column.min():g}", f"{column.max():g}"
        codes = column.nunique() <= 12 and feature.kind == "integer"
        advice = " If these are codes, write categories instead." if codes else ""
        advice = (
            " It looks like a code, no amount: similar people should agree on it." if is_code(feature.name) else advice
        )
        same = (feature.low, feature.high) == (column.min(), column.max())
        kind = "whole numbers, " if feature.kind == "integer" and column.dtype.kind == "f" else ""
        widened = "" if same else ", widened"
        return f"guess: {kind}{low} … {high} in this table{widened}{missing}. low, high: what anybody can have.{advice}"
    values = f"the {len(feature.categories)} values in this table{missing}"
    return f"guess: {values}. Add those that it does not show.{rare_categories(feature, column)}"


@dataclass(frozen=True)
class Reading:
    """How a model is proposed to be read. ``known`` when the file itself says so."""

    inputs: Mapping[str, Any]
    options: Mapping[str, str]  # head, activation, reads: options of load_network
    what: str
    known: bool = False
    score: float = -math.inf
    accuracy: float | None = None
    r2: float | None = None  # of a regression
    shares: tuple[float, ...] = ()  # of the model's decisions about at most ROWS people, by class, weighted
    other: OtherReading | None = None  # an order of the classes under which it agrees better
    problem: str = ""  # why no reading fits


def guess_reading(
    model: Any, people: Population, given: Mapping[str, Any] | None = None
) -> tuple[Reading, list[Reading]]:
    """Return the reading of a model, a path or a live object, under which the outcomes are most likely, and all that
    fit, best first; the options of reading that are ``given`` are no guess."""
    schema = people.schema
    options, width, problem = _reader_options(model, schema, given or {})
    if width is None:  # the file names its columns, or cannot be read at all
        try:
            network = open_source(model, schema, **options)
        except NetworkError as error:
            return Reading({}, options, "", problem=problem or str(error)), []
        reading = scored(Reading({}, options, "as the model file itself says", known=True), network, people)
        return reading, [reading]
    fitting = []
    for reading in _readings(schema, people, width, options):
        try:
            network = open_source(model, replace(schema, inputs=reading.inputs), **reading.options)
        except IsonomyError:
            continue
        fitting.append(scored(reading, network, people))
    fitting.sort(key=lambda reading: -reading.score)
    if fitting:
        return fitting[0], fitting
    raw, onehot = len(schema.features), schema.width
    problem = (
        f"the model reads {width} numbers; these features give {raw} columns, or {onehot} numbers with categories "
        "one-hot: write [model.inputs]"
    )
    return Reading({}, options, "", problem=problem), []


def _reader_options(
    model: Any, schema: Schema, given: Mapping[str, Any] | None = None, noted: Noted | None = None
) -> tuple[dict[str, Any], int | None, str]:
    """Return the reader options of a model, its input width (None if it names its columns), and the error, or ""; the
    categories that it knows are ``noted``."""
    chosen = dict(given or {})
    if isinstance(model, Model):
        return {}, None, ""
    if is_trees(model):
        try:
            open_source(model, schema, **chosen)
        except NetworkError as error:  # where training stopped early, the best round is a first guess
            return (
                (chosen | {"trees": "best"}, None, "") if "trees='best'" in str(error) else (chosen, None, str(error))
            )
        return chosen, None, ""
    two = schema.label is not None and len(schema.label.classes) == 2
    head = "sigmoid" if two else "softmax" if schema.label is not None and schema.label.classes else "regression"
    attempts: list[dict[str, Any]] = [{}, {"head": head}, {"activation": "relu"}, {"activation": "relu", "head": head}]
    problem = ""
    by_name = hasattr(model, "feature_names_in_")  # an estimator that was fitted on columns with names reads them
    for options, about in itertools.product(attempts, (schema, None) if by_name else (None, schema)):
        options = options | chosen
        try:
            network = open_source(model, about, **options, noted=noted)
        except NetworkError as error:
            problem = problem if by_name and problem else str(error)  # of the attempt that has most options
            continue
        options = options | ({"head": network.head} if getattr(network, "assumed_head", False) else {})
        return options, network.input_width if about is None else None, ""
    return chosen, None, problem


def _readings(schema: Schema, people: Population, width: int, options: dict[str, str]) -> Iterator[Reading]:
    """Yield every usual reading; those with a wrong number of inputs fail when they are tried."""
    yield Reading({}, options, "as its names or their number say")
    yield Reading({}, {**options, "reads": "coordinates"}, "the coordinates of the schema as they are")
    yield Reading({}, {**options, "reads": "raw"}, "raw columns in the order of the schema")
    orders = {}
    seen = tuple(each for each in schema.features if not each.protected)
    for left_out, some in (("", schema.features), (", without the protected columns", seen)):
        orders[f"in the order of the table{left_out}"] = some
        numbers_first = sorted(some, key=lambda each: each.kind in ("categorical", "ordinal"))
        orders[f"numbers first, then categories{left_out}"] = tuple(numbers_first)
    encodings: dict[str, dict[str, Any]] = {
        "one-hot": {},
        "one-hot without the first": {"drop": "first"},
        "one-hot, two categories as one column": {"drop": "if_binary"},
        "as codes": {"encode": "ordinal"},
    }
    for (order, features), (encoding, table) in itertools.product(orders.items(), encodings.items()):
        if not features or _count(features, table) != width:
            continue
        for scale in ("none", "standard", "minmax"):
            inputs: dict[str, Any] = {"columns": [each.name for each in features]}
            for each in features:
                if each.kind in ("categorical", "ordinal"):
                    inputs |= {each.name: dict(table)} if table and each.kind == "categorical" else {}
                elif scale != "none":
                    inputs[each.name] = _scale(scale, people.frame[each.name].to_numpy(dtype=float, na_value=np.nan))
            words = {"none": "numbers as they are", "standard": "numbers standardised", "minmax": "numbers from 0 to 1"}
            yield Reading(inputs, options, f"{order}, {words[scale]}, categories {encoding}")


def _count(features: tuple[Feature, ...], table: Mapping[str, Any]) -> int:
    def numbers(each: Feature) -> int:
        if each.kind != "categorical" or table.get("encode") == "ordinal":
            return 1
        binary = table.get("drop") == "if_binary" and len(each.levels) == 2
        return len(each.levels) - (table.get("drop") == "first" or binary)

    return sum(map(numbers, features))


def _scale(scale: str, values: FloatArray) -> dict[str, Any]:
    values = values[np.isfinite(values)]
    if scale == "standard":
        return {"scale": scale, "mean": float(f"{values.mean():.9g}"), "std": float(f"{values.std():.9g}") or 1.0}
    low, high = float(values.min()), float(values.max())
    return {"scale": scale, "min": low, "max": high if high > low else low + 1.0}


def scored(reading: Reading, network: Model, people: Population) -> Reading:
    """Return a reading with the likelihood of the outcomes, in the better order of the classes, and its accuracy."""
    label = people.schema.label
    some = people if len(people) <= ROWS else people.sample(ROWS)
    if some.y is None or label is None or network.input_width != some.x.shape[1]:
        return reading
    with np.errstate(all="ignore"):
        given = network(some.x)
        if label.regression:
            high = decided(given, label, regression=True)
            shares = () if label.threshold is None else _shares(high, some, 2)
            error, spread = float(np.mean((given[:, 0] - some.y) ** 2)), float(np.var(some.y))
            return replace(reading, score=-error, r2=1 - error / spread if spread > 0 else None, shares=shares)
        if given.shape[1] != len(label.classes):
            return reading
        y = np.asarray(some.y, dtype=np.int64)
        other, decision = better_reading(given, y, label, some.weights), decided(given, label)
        places = range(len(label.classes)) if other is None else [other.classes.index(name) for name in label.classes]
        likely = float(np.mean(np.log(np.clip(given[np.arange(len(y)), np.asarray(places)[y]], 1e-6, 1))))
        score = likely if math.isfinite(likely) else -math.inf
        right = _shares((decision == y).astype(np.int64), some, 2)[1]
        shares = _shares(decision, some, len(label.classes))
        return replace(reading, score=score, accuracy=right, shares=shares, other=other)


def _shares(places: NDArray[np.int64], people: Population, count: int) -> tuple[float, ...]:
    """Return the weighted share of people at each of ``count`` places."""
    weights = people.weights / people.weights.max()
    return tuple((np.bincount(places, weights, count) / weights.sum()).tolist())
