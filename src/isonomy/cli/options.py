"""Options that several commands share, each with its words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

_FILES = "Files"
_SIMILAR = "Similar people, close populations"
_WHO = "Who is audited"
_READING = "Reading files"

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")]


class Tier(StrEnum):
    """How bounds are computed."""

    interval = "interval"
    tight = "tight"


class Domain(StrEnum):
    """Among whom counterparts are sought."""

    realizable = "realizable"
    relaxed = "relaxed"
    unbounded = "unbounded"


class Split(StrEnum):
    """Which rows of the table."""

    auto = "auto"
    test = "test"
    train = "train"
    all = "all"


class Unknown(StrEnum):
    """What to do with rows that do not fit."""

    error = "error"
    exclude = "exclude"


class Head(StrEnum):
    """What the network's outputs mean."""

    auto = "auto"
    softmax = "softmax"
    sigmoid = "sigmoid"
    regression = "regression"


class Reads(StrEnum):
    """What a model without column names reads."""

    auto = "auto"
    raw = "raw"
    coordinates = "coordinates"


def _option(words: str, panel: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=words, rich_help_panel=panel, metavar=metavar, show_default=False)


File = Annotated[Path | None, typer.Argument(metavar="AUDIT.TOML", help="A file with these options as keys.")]
Data = Annotated[
    str | None, _option("The table: .csv, .tsv, .parquet, or a name of the catalogue such as german.", _FILES)
]
SchemaFile = Annotated[str | None, _option("What its columns mean; 'isonomy init' writes a first one.", _FILES)]
Model = Annotated[
    str | None, _option("The network: .onnx, .keras, .h5, .skops, .pt, .pt2 or .nnet; never a pickle.", _FILES)
]
MetricFile = Annotated[
    str | None, _option("Who counts as similar, as a file. Default: counterparts of the schema.", _FILES)
]
Delta = Annotated[float | None, _option("Similar is who is at most this far apart. Default: 1.", _SIMILAR)]
Gamma = Annotated[float | None, _option("How far the population may shift. Default: 0.1.", _SIMILAR)]
Order = Annotated[float | None, _option("Of the Wasserstein distance, from 1 to inf. Default: 1.", _SIMILAR)]
Ground = Annotated[
    str | None,
    _option(
        "What moving somebody costs: l1, l2, linf in the schema's coordinates, metric, or a metric file. Default: l2.",
        _SIMILAR,
    ),
]
DomainName = Annotated[
    Domain | None,
    _option("realizable: a counterpart is somebody (default); relaxed: shares of categories; unbounded.", _SIMILAR),
]
SplitName = Annotated[
    Split | None,
    _option(
        "auto (default): the test rows where the schema has a split column or the table is of the catalogue, else all "
        "rows. test, train: the part that 'isonomy train' leaves out, or takes.",
        _WHO,
    ),
]
HeldOut = Annotated[
    bool | None,
    typer.Option(
        "--held-out",
        help="Nothing was fitted on these rows: allows a statement about the population behind them.",
        rich_help_panel=_WHO,
        show_default=False,
    ),
]
Limit = Annotated[int | None, _option("So many individuals, drawn at random.", _WHO)]
Seed = Annotated[int | None, _option("For everything drawn at random. Default: 0.", _WHO)]
UnknownRows = Annotated[
    Unknown | None, _option("Rows that do not fit the schema: error (default), or exclude and count them.", _WHO)
]
Separator = Annotated[str | None, _option("Between the cells of a CSV file. Default: a comma.", _READING)]
Encoding = Annotated[str | None, _option("Of a CSV file, such as latin-1. Default: utf-8.", _READING)]
Decimal = Annotated[str | None, _option("The decimal mark of a CSV file, . or ,", _READING)]
HeadName = Annotated[
    Head | None,
    _option("What the outputs are, where the file does not say it; several raw ones are else a softmax.", _READING),
]
Output = Annotated[str | None, _option("Which of several outputs of an ONNX file.", _READING)]
Activation = Annotated[str | None, _option("Of a state dict (.pt), such as relu.", _READING)]
ReadsName = Annotated[
    Reads | None, _option("A model without column names reads raw columns or the schema's coordinates.", _READING)
]


def given(options: dict[str, Any], *apart: str) -> dict[str, Any]:
    """The options that were said, but those ``apart``, as plain values; an empty list was not said."""
    said = {key: value for key, value in options.items() if value is not None and value != [] and key not in apart}
    plain = {key: value.value if isinstance(value, StrEnum) else value for key, value in said.items()}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}


def path(text: str) -> Path:
    """A path, also where the text could be taken for TOML."""
    return Path(text)
