"""Checks of the files that an audit started from, the model and the table, against its certificate.

The certificate names the network and the people in their own form, and says how their files were read. Here a file is
read anew in that way and in no other, and compared: a file that cannot be read so, and a certificate that does not say
how, are refused. The file hashes that the certificate mentions prove nothing and are not used.

**Soundness.** People are compared by the SHA-256 of their coordinates, weights and labels, which a redacted certificate
has too. Of how they were selected everything is computed again that the table can show.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from isonomy.errors import IsonomyError
from isonomy.loading import open_model
from isonomy.model import Model
from isonomy.population import Dialect, PeopleSource, Schema, Selection, open_people
from isonomy.population.population import IntArray, drawn
from isonomy.population.tables import USUAL, described
from isonomy.records import Record
from isonomy_verify.asked import parted
from isonomy_verify.record import dtype_of
from isonomy_verify.text import listed, quoted

Claim = tuple[str, str, str]
"""What is claimed, its status (recomputed, trusted, rejected), and a word on it."""

CHUNK = 2**16
"""Rows of a table that are read at a time."""

SENTENCE = 200
"""Characters that are shown of an error about a file from elsewhere."""

MOST = 4
"""Columns whose words for missing values are shown."""

_DIALECT, _PARTS = ("separator", "encoding", "decimal"), ("x", "weights", "y")


def check_model(record: Record, path: Path) -> list[Claim]:
    """Check whether a model file gives the model of a certificate, and whether its head follows from the file."""
    reading, name, model = record.document["reading"]["model"], quoted(path.name), record.problem.model
    if model.condition:
        why = f"{name} was not read, and no prediction was computed again: all holds {model.condition}"
        return [("model file", "not checked", why)]
    if reading is None:
        return [("model file", "rejected", f"the certificate says of no model file how it was read: {name} is none")]
    try:
        model = _open(record, path, **reading)
    except IsonomyError as error:
        return [("model file", "rejected", f"{name} cannot be read as the certificate says: {_quote_error(error)}")]
    if not _same(model, record.problem.model):
        return [("model file", "rejected", f"{name} gives another {record.problem.model.noun} than the certified one")]
    claims = [
        ("model file", "recomputed", f"{name} gives the certified {model.noun}"),
        _check_head(record, path, reading),
    ]
    return [*claims, *_check_classes(record, model, name), *_declared_reading(record, reading)]


def _check_classes(record: Record, model: Model, name: str) -> list[Claim]:
    """Check the classes of a certificate against those of the file; one name for two outputs is rejected."""
    classes, own = record.document["question"]["classes"], list(model.named)
    if not classes:
        return []
    if own == classes:
        return [("classes", "recomputed", f"{name} names them itself")]
    if any(each in own and own.index(each) != place for place, each in enumerate(classes)):
        return [("classes", "rejected", f"{name} has classes {listed(own)}, and the certificate {listed(classes)}")]
    calls = f"{name} calls them {listed(own)}" if own else f"{name} names none"
    return [("classes", "trusted", f"that the outputs are those of {listed(classes)} is the issuer's word: {calls}")]


def _declared_reading(record: Record, reading: dict[str, Any]) -> list[Claim]:
    """Return the claim on options of reading a model that the issuer chose and the file does not contain."""
    chosen = [f"{part} {quoted(reading[part])}" for part in ("output", "activation") if reading[part] is not None]
    chosen += [f"boosting rounds {quoted(reading['trees'])}"] if reading.get("trees") is not None else []
    chosen += [f"inputs as {reading['reads']}"] if reading["reads"] != "auto" else []
    chosen += ["inputs as [model.inputs] in schema.toml says"] if record.schema.inputs else []
    return [("model reading", "trusted", f"{', '.join(chosen)}: the issuer's word")] if chosen else []


def _check_head(record: Record, path: Path, reading: dict[str, Any]) -> Claim:
    """Check whether the head follows from the file, read without the option, or was declared."""
    head, name = record.problem.model.head, quoted(path.name)
    try:
        own = _open(record, path, **reading | {"head": "auto"})
        follows, own_head = own.head == head and not own.assumed_head, "" if own.assumed_head else own.head
    except IsonomyError:  # such as one raw number, which may be anything
        follows, own_head = False, ""
    if follows:
        return "head", "recomputed", f"{head}: {name} says so itself"
    if own_head and head != "regression":  # outputs may be taken as the numbers that they are, whatever they mean
        return "head", "rejected", f"{name} is a {own_head} by itself, and the certificate reads it as {head}"
    if record.document["question"]["head_from"] != "declared":
        return "head", "rejected", f"{head} is said to be in the model file, and {name} does not say it"
    says = f"{name} is a {own_head} by itself" if own_head else "the file does not say it"
    return "head", "trusted", f"{head}: declared by the issuer, {says}"


def _open(record: Record, path: Path, **options: Any) -> Model:
    return open_model(path, record.schema, **options).on(record.schema)


def _same(one: Model, other: Model) -> bool:
    """Return whether two models have one kind, one head, and one section and arrays in a record."""
    if (one.kind, one.head, one.section()) != (other.kind, other.head, other.section()):
        return False
    mine, theirs = one.arrays(), other.arrays()
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[part], theirs[part]) for part in mine)


def check_data(record: Record, path: Path) -> list[Claim]:
    """Check whether a table holds the people of a certificate in the rows that it names, selected as it claims."""
    reading, name = record.document["reading"]["table"], quoted(path.name)
    selection = Selection.from_dict(record.document["selection"])
    if reading is None:
        return [("data file", "rejected", f"the certificate says of no table how it was read: {name} is none")]
    try:
        dialect = USUAL if reading["kind"] == "parquet" else Dialect(*(reading[part] for part in _DIALECT))
        other = next((part for part, is_ in described(path, dialect).items() if is_ != reading[part]), None)
        if other is not None:
            return [("data file", "rejected", f"{name} is read with another '{other}' than the certificate says")]
        with TemporaryDirectory() as work:
            options: Any = {"dialect": dialect, "unknown": reading["unknown"], "split": selection.part, "work": work}
            read = _TablePart.of(open_people(path, record.schema, **options), np.array(record.rows))
    except (IsonomyError, OSError, LookupError, ValueError, TypeError, AttributeError) as error:  # of codecs
        return [("data file", "rejected", f"{name} cannot be read as the certificate says: {_quote_error(error)}")]
    fault, part = _selection_fault(read, selection, record.rows), _part_by_column(record.schema, selection)
    word = fault or f"counted again in {name}: {selection.words()}{part}{_untestable(selection)}"
    claims = [("data rows", "rejected" if fault else "recomputed", word)]
    if read.people == len(record.rows):
        parts = {part: record.hashes.get(f"evidence/people.{part}.bin") for part in _PARTS}
        same = parts == {part: read.digests.get(part) for part in _PARTS}
        word = f"the {read.people:,} certified individuals" if same else "other people, weights or labels"
        claims = [("data file", "recomputed" if same else "rejected", f"{name} has {word} in its rows"), *claims[:same]]
        claims += _declared_marks(reading, record.schema) if same else []
    return claims


def _declared_marks(reading: dict[str, Any], schema: Schema) -> list[Claim]:
    """Return the claim on options of reading a table that cells do not show: 1,000 may be one or a thousand."""
    chosen = ["a comma is the decimal mark: 1,000 is 1"] if reading["decimal"] == "," else []
    chosen += [f"letters in {quoted(reading['encoding'])}"] if reading["encoding"] not in (None, USUAL.encoding) else []
    words = [f"{quoted(each.name)} {listed(each.missing_values)}" for each in schema.features if each.missing_values]
    some = "; ".join(words[:MOST]) + (f" and of {len(words) - MOST:,} more columns" if len(words) > MOST else "")
    chosen += [f"cells that are no value: of {some}"] if words else []
    return [("data reading", "trusted", f"{'; '.join(chosen)}: the issuer's word")] if chosen else []


@dataclass(frozen=True)
class _TablePart:
    """The part of a table that a selection names: its ``rows`` (n,), the number of certified ``people`` among them, and
    the ``digests`` of their coordinates, weights and labels."""

    rows: IntArray
    people: int
    digests: dict[str, str]
    selection: Selection

    @classmethod
    def of(cls, source: PeopleSource, certified: IntArray) -> _TablePart:
        """Read chunk by chunk, whatever the length of the table."""
        hashes: dict[str, Any] = {}
        rows, people, excluded = list[IntArray](), 0, 0
        for chunk in map(source.read, source.keys(CHUNK)):
            those = np.isin(chunk.rows, certified)
            for part in _PARTS:
                array = getattr(chunk, part)
                if array is not None:
                    some = np.ascontiguousarray(array[those], dtype_of(f"people.{part}"))
                    hashes.setdefault(part, hashlib.sha256()).update(some.tobytes())
            rows.append(chunk.rows)
            people, excluded = people + int(those.sum()), excluded + chunk.excluded
        every = np.concatenate(rows)
        digests = {part: of.hexdigest() for part, of in hashes.items()}
        return cls(every, people, digests, source.selection(len(every), excluded))


def _selection_fault(read: _TablePart, selection: Selection, rows: IntArray) -> str:
    """Return why rows of a table are not what a selection claims; "" where they are, or where it cannot be tested."""
    pool, table = len(read.rows), read.selection
    part = "table" if selection.part == "all" else f"{selection.part} part of the table"
    if read.people != len(rows):
        return f"the {part} has {read.people:,} of the {len(rows):,} rows of the certified individuals"
    if selection.rows not in (None, table.rows):
        return f"the table has {table.rows:,} rows, and {selection.rows:,} are said"
    if selection.excluded != table.excluded:
        return f"{table.excluded:,} rows do not fit the schema, and {selection.excluded:,} are said"
    if selection.pool not in (None, pool):
        return f"the {part} has {pool:,} people, and {selection.pool:,} are said"
    if selection.how == "all" and len(rows) != pool:
        return f"{len(rows):,} people are not all {pool:,} of the {part}"
    known = selection.how == "random" and selection.seed is not None and selection.pool is not None
    if known and not np.array_equal(read.rows[drawn(pool, len(rows), selection.seed or 0)], rows):
        return f"the seed {selection.seed} draws other people"
    return ""


def _part_by_column(schema: Schema, selection: Selection) -> str:
    """Return the phrase for the column whose values define the part."""
    return parted({} if schema.split is None else {"split": asdict(schema.split)}, selection.part)


def _untestable(selection: Selection) -> str:
    """Return the phrase for what of a selection no table can show."""
    if selection.how != "random":
        return ""
    known = selection.seed is not None and selection.pool is not None
    what = "that no other seed was tried before" if known else "that chance drew them"
    return f"; {what} is the issuer's word"


def _quote_error(error: Exception) -> str:
    """Return an error about a file, which may quote text from elsewhere: between marks, and cut."""
    return quoted(error, SENTENCE)
