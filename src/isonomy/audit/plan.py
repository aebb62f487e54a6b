"""What to audit: files and numbers, from options or from an ``audit.toml``.

.. code-block:: toml

    name = "loans"
    data = "people.csv"          # a table (.csv, .tsv, .parquet), or a name of the catalogue such as "german"
    schema = "schema.toml"       # what its columns mean
    model = "model.onnx"
    delta = 1.0
    gamma = 0.1
    epsilon = 0.1                # asks for a verdict
    against = ["last_year.csv"]  # populations to measure the distance to

Paths in a file are relative to that file. Options on the command line win over the file.
"""

from __future__ import annotations

import difflib
import math
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from isonomy.certificates.certify import DistributionalTier
from isonomy.errors import FileError, ParameterError, template
from isonomy.population import DomainKind

PATHS = ("data", "schema", "model", "metric", "ground", "against", "out", "key")
"""Keys that may name files."""

IN_MEMORY = ("confidence", "held_out", "limit", "seed", "against", "separator", "encoding", "decimal", "key")
"""Keys of audits whose people are all in memory; a stream has no use for them."""


@dataclass(frozen=True)
class Plan:
    """One audit. Without anything else it is the bundled one: German credit, a small network trained on the spot.

    * ``data``, ``schema``, ``model``, ``metric``: files. A table of the catalogue brings its schema, and may do without
      a model: then a small one is trained on its training part. Without ``metric``: counterparts of the schema.
    * ``delta``, ``gamma``, ``order``, ``ground``, ``epsilon``, ``confidence``, ``tier``, ``domain``: those of
      :func:`isonomy.certify`. ``ground`` may be ``"metric"`` (the fair metric itself) or a metric file.
    * ``split``: ``"auto"`` audits the test part where the table is known to have one (a split column in the schema, a
      table of the catalogue), else every row. ``held_out`` says that nothing was fitted on these rows.
    * ``limit``: so many individuals, drawn by ``seed``.
    * ``against``: tables whose distance is measured. ``unknown``: what to do with rows that do not fit the schema.
    * ``separator``, ``encoding``, ``decimal``: how a CSV file is written.
    * ``head``, ``output``, ``activation``, ``reads``: what a model file does not say itself.
    * ``out``: the directory to write. ``redact`` keeps people's rows out of it. ``key`` signs the certificate.
    * ``engine``: for a dataset larger than memory, ``"local"`` streams it through this process and ``"dask"`` spreads
      it over a cluster, the one at ``scheduler`` or a new one on this machine; ``chunk`` rows are worked on at a time;
      ``no_search`` leaves ``lower`` at 0 and is several times faster.
    """

    name: str = ""
    data: str = "german"
    schema: str | None = None
    model: str | None = None
    metric: str | None = None
    delta: float = 1.0
    gamma: float = 0.1
    order: float = 1.0
    ground: str = "l2"
    epsilon: float | None = None
    confidence: float | None = 0.95
    tier: str = "tight"
    domain: str = "realizable"
    split: str = "auto"
    held_out: bool = False
    limit: int | None = None
    seed: int = 0
    against: tuple[str, ...] = ()
    unknown: str = "error"
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    head: str = "auto"
    output: str | None = None
    activation: str | None = None
    reads: str = "auto"
    out: str | None = None
    redact: bool = False
    key: str | None = None
    engine: str | None = None
    scheduler: str | None = None
    chunk: int | None = None
    no_search: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value != item.default:
                check, right = _RULES[item.name]
                if not check(value):
                    raise ParameterError(template(item.name, right, value))
        if self.held_out and self.split == "train":
            raise ParameterError("'held_out' says that nothing was fitted on these rows: 'split' cannot be 'train'.")
        self._check_engine()

    @classmethod
    def of(cls, options: Mapping[str, Any], file: str | Path | None = None) -> Plan:
        """The plan of a file, with the options that were given besides; options that are None were not."""
        entries = {} if file is None else read_plan(Path(file))
        entries |= {key: value for key, value in options.items() if value is not None}
        if entries and "data" not in entries and ("model" in entries or "schema" in entries):
            where = "" if file is None else f" in {file}"
            raise ParameterError(f"'data' must be given beside a model or schema{where}: the table of people to audit.")
        return cls(**entries)

    def command(self, program: str = "isonomy audit") -> str:
        """The command that does this again, from any directory in which these paths hold."""
        words = [program]
        for item in fields(self):
            value = getattr(self, item.name)
            needed = item.name == "data" and (self.model is not None or self.schema is not None)
            if (value == item.default and not needed) or item.name == "out":
                continue
            option = f"--{item.name.replace('_', '-')}"
            if value is True:
                words.append(option)
            else:
                for each in value if isinstance(value, tuple) else (value,):
                    words += [option, shlex.quote(str(each))]
        return " ".join(words)

    def _check_engine(self) -> None:
        """Options of one kind of audit are refused in the other, before anything is read."""
        if self.scheduler is not None and self.engine != "dask":
            raise ParameterError(template("scheduler", "left out unless 'engine' is dask", self.scheduler))
        if self.engine is None:
            for name, value in (("chunk", self.chunk), ("no_search", self.no_search or None)):
                if value is not None:
                    raise ParameterError(template(name, "left out unless 'engine' is given", value))
            return
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in IN_MEMORY and value not in (item.default, None):
                raise ParameterError(
                    template(item.name, "left out when 'engine' is given (it is for tables in memory)", value)
                )


def read_plan(path: Path) -> dict[str, Any]:
    """The entries of an ``audit.toml``; every mistake names the file and the key."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"Audit file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise FileError(f"Audit file {path} cannot be read: it is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"Audit file {path} is not valid TOML: {error}.") from error
    for key, value in entries.items():
        if key not in _RULES:
            near = difflib.get_close_matches(key, _RULES, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(_RULES)}."
            raise ParameterError(f"Audit file {path} has an unknown key {key!r}; {advice}")
        entries[key] = value = tuple(value) if isinstance(value, list) else value
        if not _RULES[key][0](value):
            raise ParameterError(f"Audit file {path}: {template(key, _RULES[key][1], value)}")
        if key in PATHS:
            entries[key] = _beside(path.parent, value)
    return entries


def _beside(folder: Path, value: Any) -> Any:
    """A path relative to the file that names it; names of the catalogue and of ground costs are no paths."""
    if isinstance(value, tuple):
        return tuple(_beside(folder, each) for each in value)
    return value if Path(value).suffix == "" and not (folder / value).exists() else os.path.normpath(folder / value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _number(check: Callable[[float], bool], right: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: _is_number(value) and check(value)), right


def _whole(least: int) -> tuple[Callable[[Any], bool], str]:
    right = f"a whole number >= {least}"
    return (lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least), right


def _choice(*names: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value in names), f"one of {', '.join(names)}"


_TEXT: tuple[Callable[[Any], bool], str] = ((lambda value: isinstance(value, str) and value != ""), "a text in quotes")
_SWITCH: tuple[Callable[[Any], bool], str] = ((lambda value: isinstance(value, bool)), "true or false")
_SHARE = _number(lambda value: 0 < value < 1, "a number between 0 and 1")
_SIZE = _number(lambda value: 0 <= value < math.inf, "a finite number >= 0")
_TEXTS: tuple[Callable[[Any], bool], str] = (
    (lambda value: isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)),
    "a list of texts in quotes",
)

# key -> whether a value will do, and what would be right
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("name", "data", "schema", "model", "metric", "ground", "out", "key"), _TEXT),
    **dict.fromkeys(("encoding", "output", "activation"), _TEXT),
    **dict.fromkeys(("held_out", "redact", "no_search"), _SWITCH),
    **dict.fromkeys(("delta", "gamma", "epsilon"), _SIZE),
    "order": _number(lambda value: value >= 1, "a number from 1 to infinity"),
    "confidence": _SHARE,
    "tier": _choice(*get_args(DistributionalTier)),
    "domain": _choice(*get_args(DomainKind)),
    "split": _choice("auto", "test", "train", "all"),
    "limit": _whole(1),
    "seed": _whole(0),
    "against": _TEXTS,
    "unknown": _choice("error", "exclude"),
    "separator": ((lambda value: isinstance(value, str) and len(value) == 1), "one character"),
    "decimal": _choice(".", ","),
    "head": _choice("auto", "softmax", "sigmoid", "regression"),
    "reads": _choice("auto", "raw", "coordinates"),
    "engine": _choice("local", "dask"),
    "scheduler": _TEXT,
    "chunk": _whole(1),
}
