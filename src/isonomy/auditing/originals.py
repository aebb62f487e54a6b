"""Is this the model, is this the table? The files that an audit started from, held against its certificate.

The certificate names the network and the people in their own form, and says how their files were read. Here a file is
read anew in that way and in no other, and compared: a file that cannot be read so, and a certificate that does not say
how, are refused. What the certificate mentions of hashes proves nothing and is not looked at.

**Soundness.** People are compared by the SHA-256 of their coordinates, weights and labels, which a redacted certificate
has too. Of how they were selected everything is computed again that the table can show.
"""

from __future__ import annotations

import codecs
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.auditing.inputs import read_people
from isonomy.certificates.forms import network_arrays
from isonomy.certificates.question import on_all_coordinates
from isonomy.errors import IsonomyError
from isonomy.networks.load import open_network
from isonomy.networks.network import Network
from isonomy.population import Dialect, Population
from isonomy.population.selection import Selection
from isonomy.records import Record
from isonomy.records.reading import SENTENCE
from isonomy_verify.record import dtype_of
from isonomy_verify.text import printable, quoted

Claim = tuple[str, str, str]
"""What is claimed, its status (recomputed, trusted, rejected), and a word on it."""


def check_model(record: Record, path: Path) -> list[Claim]:
    """Whether a model file gives the network of a certificate, and whether it says itself what its outputs are."""
    said, name = record.document["reading"]["model"], quoted(path.name)
    if said is None:
        return [("model file", "rejected", f"the certificate says of no model file how it was read: {name} is none")]
    try:
        found = _opened(record, path, **said)
    except IsonomyError as error:
        return [("model file", "rejected", f"{name} cannot be read as the certificate says: {_shown(error)}")]
    one, other = network_arrays(found), network_arrays(record.network)
    if one.keys() != other.keys() or not all(np.array_equal(one[part], other[part]) for part in one):
        return [("model file", "rejected", f"{name} gives another network than the certified one")]
    return [("model file", "recomputed", f"{name} gives the certified network"), _head(record, path, said)]


def _head(record: Record, path: Path, said: dict[str, Any]) -> Claim:
    """Whether the head follows from the file, read without being told it, or was declared."""
    head, name = record.network.head, quoted(path.name)
    try:
        own = _opened(record, path, **said | {"head": "auto"})
        follows, told = own.head == head and not own.assumed_head, "" if own.assumed_head else own.head
    except IsonomyError:  # such as one raw number, which may be anything
        follows, told = False, ""
    if follows:
        return "head", "recomputed", f"{head}: {name} says so itself"
    if told and head != "regression":  # outputs may be taken as the numbers that they are, whatever they mean
        return "head", "rejected", f"{name} is a {told} by itself, and the certificate reads it as {head}"
    if record.document["question"]["head_from"] != "declared":
        return "head", "rejected", f"{head} is said to be in the model file, and {name} does not say it"
    return "head", "trusted", f"{head}: declared by the issuer, the file does not say it"


def _opened(record: Record, path: Path, **options: Any) -> Network:
    return on_all_coordinates(open_network(path, record.schema, **options), record.schema)


def check_data(record: Record, path: Path) -> list[Claim]:
    """Whether a table holds the people of a certificate in the rows that it names, and whether they were selected from
    it as is said."""
    said, name = record.document["reading"]["table"], quoted(path.name)
    if said is None:
        return [("data file", "rejected", f"the certificate says of no table how it was read: {name} is none")]
    try:
        codecs.lookup(said["encoding"])
        dialect = Dialect(*(said[part] for part in ("separator", "encoding", "decimal")))
        table = read_people(str(path), record.schema, dialect, domain=record.domain.kind, unknown=said["unknown"])
    except (IsonomyError, LookupError, ValueError, TypeError) as error:
        return [("data file", "rejected", f"{name} cannot be read as the certificate says: {_shown(error)}")]
    rows = np.array(record.rows)
    place = np.searchsorted(table.rows, rows)
    if not (table.rows[np.minimum(place, len(table) - 1)] == rows).all():
        return [("data file", "rejected", f"{name} does not have the rows of the certified individuals")]
    for part in ("x", "weights", "y"):
        array, known = getattr(table, part), record.hashes.get(f"evidence/people.{part}.bin")
        some = None if array is None else np.ascontiguousarray(array[place], dtype_of(f"people.{part}"))
        if known != (None if some is None else hashlib.sha256(some.tobytes()).hexdigest()):
            return [("data file", "rejected", f"{name} has other people, weights or labels in the certified rows")]
    selection = Selection.from_dict(record.document["selection"])
    wrong = _selected(table, selection, rows)
    told = wrong or f"counted again in {name}: {selection.words()}"
    return [
        ("data file", "recomputed", f"{name} has the {len(rows):,} certified individuals in its rows"),
        ("data rows", "rejected" if wrong else "recomputed", told),
    ]


def _selected(table: Population, said: Selection, rows: Any) -> str:
    """Why these rows of a table are not what a selection says; "" where they are, or where nothing can tell."""
    length = len(table) + table.excluded
    if said.rows is not None and said.rows != length:
        return f"the table has {length:,} rows, and {said.rows:,} are said"
    if said.rows is not None and said.excluded != table.excluded:
        return f"{table.excluded:,} rows do not fit the schema, and {said.excluded:,} are said"
    try:
        part = table if said.part == "all" else table.train if said.part == "train" else table.test
    except IsonomyError as error:
        return _shown(error)
    if not np.isin(rows, part.rows).all():
        return f"some of these people are not in the {said.part} part of the table"
    if said.pool is not None and said.pool != len(part):
        return f"the {said.part} part of the table has {len(part):,} people, and {said.pool:,} are said"
    if said.how == "all" and len(rows) != len(part):
        return f"{len(rows):,} people are not all {len(part):,} of the {said.part} part of the table"
    known = said.how == "random" and said.seed is not None and said.pool is not None
    if known and not np.array_equal(part.sample(len(rows), said.seed or 0).rows, rows):
        return f"the seed {said.seed} draws other people"
    return ""


def _shown(error: Exception) -> str:
    """An error about a file, in which a stranger's words may stand."""
    return printable(str(error))[:SENTENCE]
