"""The plan of an audit: files and numbers, from options or from an ``audit.toml``.

.. code-block:: toml

    name = "loans"
    data = "people.csv"          # a table (.csv, .tsv, .parquet), or a name of the catalogue such as "german"
    schema = "schema.toml"       # what its columns mean
    model = "model.onnx"
    delta = 1.0
    gamma = 0.1
    epsilon = 0.1                # asks for a verdict
    favourable = "approved"      # the class that people hope for, and its cut-off, where the schema says nothing else
    threshold = 0.5
    noun = "applicants"          # what the people of the table are called in the report
    against = ["last_year.csv"]  # populations to measure the distance to

Paths in a file are relative to that file. Options on the command line win over the file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from isonomy.errors import ParameterError, template
from isonomy.options import SHARE, SIZE, Panel, Rule, check_options, number, options_of, whole

PANELS = FILES, SIMILAR, RESULTS, WHO, READING, LARGE = (
    Panel("Files"), Panel("Similar people, close populations"), Panel("Verdict and results"), Panel("Who is audited"),
    Panel("Reading files"), Panel("Larger than memory"),
)  # fmt: skip
ROLES = Panel("What columns are")

USUAL = 0.1
"""The gamma where a distance is asked for, by ``against``, ``order`` or ``ground``, and none is named."""

TRANSPORT = ("gamma", "order", "ground")
"""Keys of a shift by transport; ``part`` asks for another one instead."""

IN_MEMORY = ("held_out", "limit")
"""Keys of audits whose people are all in memory; a stream has no use for them."""

_ORDER = number(lambda value: value >= 1, "a number from 1 to infinity")
_PART = number(lambda value: 0 < value <= 1, "a number above 0, at most 1")
_ROUNDS = Rule(
    lambda value: isinstance(value, str) and (value in ("all", "best") or (value.isdecimal() and int(value) > 0)),
    "all, best, or a number of rounds",
)
_PLURAL = Rule(
    lambda value: isinstance(value, str) and bool(re.fullmatch(r"[^\W\d_]+([ -][^\W\d_]+){0,3}", value)),
    "a noun in the plural, such as applicants",
)
_CHARACTER = Rule(lambda value: isinstance(value, str) and len(value) == 1, "one character")


@dataclass(frozen=True)
class Plan:
    """One audit. Without anything else it is the bundled one: German credit, a small network trained on the spot.

    A table of the catalogue brings its schema, and may do without a model: then a small one is trained on its training
    part. The fields are all options that there are: those of ``isonomy audit`` and the keys of an ``audit.toml``.
    """

    data: str = FILES(
        "german", "The table: .csv, .tsv, .parquet, or a name of the catalogue such as german.", path=True
    )
    schema: str | None = FILES(
        None, "What its columns mean; 'isonomy init' writes a first one.", path=True, example="schema.toml"
    )
    model: str | None = FILES(
        None, "The model: .onnx, .keras, .h5, .skops, .pt, .pt2, or trees of XGBoost (.json, .ubj), LightGBM (.txt) or "
        "CatBoost (.json); never a pickle.", path=True,
        example="model.onnx",
    )  # fmt: skip
    metric: str | None = FILES(
        None, "Who counts as similar, as a file. Default: counterparts of the schema.", path=True, example="metric.toml"
    )
    delta: float = SIMILAR(1.0, "Similar is who is at most this far apart.", SIZE)
    gamma: float | None = SIMILAR(
        None, "How far the population may move, as a Wasserstein distance; 'isonomy shift' measures it. Default: no "
        "one moves, and parts, mixes and stability are judged.", SIZE, example=0.1,
    )  # fmt: skip
    order: float = SIMILAR(1.0, "Of the Wasserstein distance, from 1 to inf.", _ORDER)
    ground: str = SIMILAR(
        "l2", "What moving somebody costs: l1, l2, linf in the schema's coordinates, metric, or a metric file.",
        path=True,
    )  # fmt: skip
    part: float | None = SIMILAR(
        None, "Instead of a shift: every part of these people that holds at least this share of them, such as 0.1.",
        _PART, example=0.1,
    )  # fmt: skip
    shift: tuple[str, ...] = SIMILAR(
        (), "Populations to judge beside gamma, without new bounds; may be repeated. part:25%, stability:0.25, "
        "mix:sex,race, marginals:people.csv,residual=0.3 (margins of a table); +5% adds strangers. In the place of "
        "gamma, with new bounds: drift:age=2,income=5% moves numbers, on average or, with :everybody behind it, of "
        "every person; 'part:25% & drift:age=2' reweights first and moves then. Default: parts of a quarter and a "
        "tenth, any mix of protected groups, stability .10 and .25.",
        example=("part:25%", "stability:0.25"),
    )  # fmt: skip
    domain: Literal["realizable", "relaxed", "unbounded"] = SIMILAR(
        "realizable", "realizable: a counterpart is somebody; relaxed: shares of categories; unbounded."
    )
    favourable: tuple[str, ...] = RESULTS(
        (), "The class of the label that people hope for, such as approved; high or low of a number; may be repeated. "
        "Default: the schema's.", example=("approved",),
    )  # fmt: skip
    threshold: float | None = RESULTS(
        None, "The cut-off: from this probability of the favourable class, or this number, on the decision is for it. "
        "Default: the schema's, else the most probable class.", example=0.5,
    )  # fmt: skip
    tier: Literal["interval", "tight"] = RESULTS("tight", "tight, or interval: faster and looser.")
    epsilon: float | None = RESULTS(
        None, "The largest average change that is acceptable; asks for a verdict.",
        SIZE, example=0.1,
    )  # fmt: skip
    confidence: float = RESULTS(0.95, "Of the statement about the population behind the table.", SHARE)
    against: tuple[str, ...] = RESULTS(
        (), "Another table, whose distance is measured; may be repeated.", path=True, example=("other.csv",)
    )
    split: Literal["auto", "test", "train", "all"] = WHO(
        "auto", "auto: the test rows where the schema has a split column or the table is of the catalogue, else all "
        "rows. test, train: the part that 'isonomy train' leaves out, or takes.",
    )  # fmt: skip
    held_out: bool = WHO(
        False, "Nothing was fitted on these rows: allows a statement about the population behind them."
    )
    limit: int | None = WHO(None, "So many individuals, drawn at random.", whole(1), example=1000)
    seed: int = WHO(0, "For everything drawn at random.")
    unknown: Literal["error", "exclude"] = WHO(
        "error", "Rows that do not fit the schema: error, or exclude and count them."
    )
    separator: str = READING(",", "Between the cells of a CSV file. Default: a comma.", _CHARACTER)
    encoding: str = READING("utf-8", "Of a CSV file, such as latin-1.")
    decimal: Literal[".", ","] = READING(".", "The decimal mark of a CSV file. Default: a point.")
    table_limit: int = READING(
        2**26, "Cells (rows times columns) of a table that may be in memory at once, some 50 bytes each.",
        whole(1),
    )  # fmt: skip
    head: Literal["auto", "softmax", "sigmoid", "regression"] = READING(
        "auto", "What the outputs are, where the file does not say it; several raw ones are else a softmax."
    )
    output: str | None = READING(None, "Which of several outputs of an ONNX file.")
    activation: str | None = READING(None, "Of a state dict (.pt), such as relu.")
    reads: Literal["auto", "raw", "coordinates"] = READING(
        "auto", "A model without column names reads raw columns or the schema's coordinates."
    )
    trees: str | None = READING(
        None, "Of boosted trees that stopped early: which rounds count, all, best or a number, as they are deployed.",
        _ROUNDS, example="best",
    )  # fmt: skip
    as_read: bool = READING(
        False, "Audit a model also where its outputs agree better with the labels in another order of the classes."
    )
    name: str = RESULTS("", "Of the audit. Default: the schema's.")
    model_version: str | None = RESULTS(None, "Of the model, as the report is to name it.", example="2.1")
    owner: str | None = RESULTS(
        None, "Who answers for the model, as the report is to name them.", example="Credit risk"
    )
    purpose: str | None = RESULTS(None, "What the model is for, as the report is to say it.", example="Consumer loans")
    noun: str = RESULTS("people", "For the people of the table, in sentences: such as applicants or patients.", _PLURAL)
    out: str | None = RESULTS(None, "The directory to write. Default: audit-NAME.", path=True)
    everywhere: bool = RESULTS(
        False, "Also judge all possible people, not only the table's: do protected attributes alone change anybody's "
        "decision, and by how much at most? For tree ensembles.",
    )  # fmt: skip
    redact: bool = RESULTS(False, "Keep people's rows out of what is written; it is not anonymous.")
    key: str | None = RESULTS(None, "A private key with which to sign the certificate.", path=True)
    engine: Literal["local", "dask"] | None = LARGE(
        None, "For a dataset larger than memory (a Parquet file, a folder of them, or a CSV file). local: stream it "
        "through this process; dask: spread it over a cluster (pip install isonomy[dask]).",
    )  # fmt: skip
    scheduler: str | None = LARGE(
        None, "The address of a Dask scheduler, such as tcp://10.0.0.1:8786. Default: a cluster on this machine."
    )
    chunk: int | None = LARGE(None, "The most rows of a part; costly ones have fewer. Default: 4096.", whole(1))
    no_search: bool = LARGE(False, "Prove only, and search for no counterparts; several times faster.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "favourable", _as_tuple(self.favourable))
        check_options(self)
        if self.held_out and self.split == "train":
            raise ParameterError("'held_out' says that nothing was fitted on these rows: 'split' cannot be 'train'.")
        if self.part is not None:
            for item in fields(self):
                if item.name in (*TRANSPORT, "against") and (value := getattr(self, item.name)) != item.default:
                    why = "left out where 'part' is given: no person moves, and no distance counts"
                    raise ParameterError(template(item.name, why, value))
        if self.scheduler is not None and self.engine != "dask":
            raise ParameterError(template("scheduler", "left out unless 'engine' is dask", self.scheduler))
        for name in IN_MEMORY if self.engine is not None else ():
            if (value := getattr(self, name)) not in (False, None):
                right = "left out when 'engine' is given (it is for tables in memory)"
                raise ParameterError(template(name, right, value))

    @property
    def radius(self) -> float | None:
        """Return γ, None where no one moves."""
        asked = self.against or self.order != 1 or self.ground != "l2"
        return USUAL if self.gamma is None and self.part is None and asked else self.gamma

    @classmethod
    def of(cls, options: Mapping[str, Any], file: str | Path | None = None) -> Plan:
        """Return the plan of a file, overridden by the options that are not None."""
        given = {key: value for key, value in options.items() if value is not None}
        entries = {} if file is None else read_plan(Path(file))
        for some in (entries, given):
            _one_shift(some)
        if "part" in given:  # an option wins over the other kind of shift in a file, too
            entries = {key: value for key, value in entries.items() if key not in TRANSPORT}
        elif any(key in given for key in TRANSPORT):
            entries.pop("part", None)
        entries |= given
        if entries and "data" not in entries and ("model" in entries or "schema" in entries):
            where = "" if file is None else f" in {file}"
            raise ParameterError(f"'data' must be given beside a model or schema{where}: the table of people to audit.")
        return cls(**entries)

    def command(self, program: str = "isonomy audit") -> str:
        """Return the command that repeats this audit, from any directory in which these paths hold."""
        words = [program]
        for item in fields(self):
            value = getattr(self, item.name)
            needed = item.name == "data" and (self.model is not None or self.schema is not None)
            if (value == item.default and not needed) or item.name == "out":
                continue
            flag = options_of(Plan)[item.name].flag
            for each in value if isinstance(value, tuple) else (value,):
                words += [flag] if each is True else [flag, shlex.quote(str(each))]
        return " ".join(words)


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a table, which cannot be guessed: options of ``isonomy init``."""

    label: str | None = ROLES(None, "The outcome that the model predicts.")
    favourable: tuple[str, ...] = ROLES(
        (), "The class of the label that people hope for, such as approved; high or low of a number; may be repeated."
    )
    threshold: float | None = ROLES(
        None, "The cut-off: from this probability of the favourable class, or this number, on the decision is for it."
    )
    protected: tuple[str, ...] = ROLES((), "Must not matter, such as sex; may be repeated.")
    proxy: tuple[str, ...] = ROLES((), "Stands in for a protected column; may be repeated.")
    weight: str | None = ROLES(None, "Sampling weights.")
    id: str | None = ROLES(None, "Names people in reports; no feature.")
    split_column: str | None = ROLES(None, "Tells training rows from test rows.")
    ignore: tuple[str, ...] = ROLES((), "To be left out; may be repeated.")
    similar: tuple[str, ...] = ROLES(
        (), "How far similar people may differ in a column: age=2, income=5%, postcode=any; may be repeated.",
        example=("age=2",),
    )  # fmt: skip


def _one_shift(entries: Mapping[str, Any]) -> None:
    """Refuse two kinds of shift at once."""
    other = next((key for key in TRANSPORT if key in entries), None)
    if "part" in entries and other is not None:
        raise ParameterError(
            template(other, "left out where 'part' is given: no person moves, and no distance counts", entries[other])
        )


def read_plan(path: Path) -> dict[str, Any]:
    """Read the entries of an ``audit.toml``; every error names the file and the key."""
    # These import numpy, which would delay --help.
    from isonomy.population.toml import read_text, read_toml, refuse_unknown

    entries, known = read_toml(read_text(path, "Audit file"), f"Audit file {path}"), options_of(Plan)
    refuse_unknown(entries, known, f"Audit file {path}", ParameterError)
    for key, value in entries.items():
        value = _as_tuple(value) if key == "favourable" else value
        value = str(value) if key == "trees" and type(value) is int else value
        entries[key] = value = tuple(value) if isinstance(value, list) else value
        if not known[key].rule.fits(value):
            raise ParameterError(f"Audit file {path}: {template(key, known[key].rule.right, value)}")
        if known[key].path:
            entries[key] = _resolve(path.parent, value)
    if "shift" in entries:
        entries["shift"] = tuple(_with_path(path.parent, text) for text in entries["shift"])
    return entries


def _with_path(folder: Path, text: str) -> str:
    """Return the text of a shift, with the table that it names, if it names one, in a folder."""
    kind, _, value = text.partition(":")
    return f"{kind}:{os.path.normpath(folder / value)}" if kind == "marginals" else text


def _as_tuple(value: Any) -> Any:
    """Return a single name as a tuple: one class needs no brackets."""
    return (value,) if isinstance(value, str) else value


def _resolve(folder: Path, value: Any) -> Any:
    """Resolve a path in the folder of the file that names it; names of the catalogue and ground costs are no paths."""
    if isinstance(value, tuple):
        return tuple(_resolve(folder, each) for each in value)
    return value if Path(value).suffix == "" and not (folder / value).exists() else os.path.normpath(folder / value)
