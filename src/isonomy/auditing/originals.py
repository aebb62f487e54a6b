"""Checks of the files that an audit started from, the model and the table, against its certificate.

The certificate names the network and the people in their own form, and says how their files were read. Here a file is
read anew in that way and in no other, and compared: a file that cannot be read so, and a certificate that does not say
how, are refused. The file hashes that the certificate mentions prove nothing and are not used.

**Soundness.** People are compared by the SHA-256 of their coordinates, weights and labels, which a redacted certificate
has too. Of how they were selected everything is computed again that the table can show.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from isonomy.certificates.forms import network_arrays
from isonomy.certificates.question import on_all_coordinates
from isonomy.errors import IsonomyError
from isonomy.networks.load import open_network
from isonomy.networks.network import Network
from isonomy.population import Dialect, PeopleSource, Selection, open_people
from isonomy.population.population import IntArray, drawn
from isonomy.population.tables import USUAL, described
from isonomy.records import Record
from isonomy_verify.record import dtype_of
from isonomy_verify.text import quoted

Claim = tuple[str, str, str]
"""What is claimed, its status (recomputed, trusted, rejected), and a word on it."""

CHUNK = 2**16
"""Rows of a table that are read at a time."""

SENTENCE = 200
"""Characters that are shown of an error about a file from elsewhere."""

_DIALECT, _PARTS = ("separator", "encoding", "decimal"), ("x", "weights", "y")


def check_model(record: Record, path: Path) -> list[Claim]:
    """Check whether a model file gives the network of a certificate, and whether its head follows from the file."""
    reading, name = record.document["reading"]["model"], quoted(path.name)
    if reading is None:
        return [("model file", "rejected", f"the certificate says of no model file how it was read: {name} is none")]
    try:
        network = _open(record, path, **reading)
    except IsonomyError as error:
        return [("model file", "rejected", f"{name} cannot be read as the certificate says: {_quote_error(error)}")]
    one, other = network_arrays(network), network_arrays(record.network)
    if one.keys() != other.keys() or not all(np.array_equal(one[part], other[part]) for part in one):
        return [("model file", "rejected", f"{name} gives another network than the certified one")]
    return [("model file", "recomputed", f"{name} gives the certified network"), _check_head(record, path, reading)]


def _check_head(record: Record, path: Path, reading: dict[str, Any]) -> Claim:
    """Check whether the head follows from the file, read without the option, or was declared."""
    head, name = record.network.head, quoted(path.name)
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
    return "head", "trusted", f"{head}: declared by the issuer, the file does not say it"


def _open(record: Record, path: Path, **options: Any) -> Network:
    return on_all_coordinates(open_network(path, record.schema, **options), record.schema)


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
    except (IsonomyError, OSError, LookupError, ValueError, TypeError) as error:
        return [("data file", "rejected", f"{name} cannot be read as the certificate says: {_quote_error(error)}")]
    fault = _selection_fault(read, selection, record.rows)
    word = fault or f"counted again in {name}: {selection.words()}{_untestable(selection)}"
    claims = [("data rows", "rejected" if fault else "recomputed", word)]
    if read.people == len(record.rows):
        parts = {part: record.hashes.get(f"evidence/people.{part}.bin") for part in _PARTS}
        same = parts == {part: read.digests.get(part) for part in _PARTS}
        word = f"the {read.people:,} certified individuals" if same else "other people, weights or labels"
        claims = [("data file", "recomputed" if same else "rejected", f"{name} has {word} in its rows"), *claims[:same]]
    return claims


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
