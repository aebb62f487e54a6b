"""Is this the model, is this the table? The files that an audit started from, held against its certificate.

The certificate names the network and the people in their own form, and says how their files were read. Here a file is
read anew in that way and in no other, and compared: a file that cannot be read so, and a certificate that does not say
how, are refused. What the certificate mentions of hashes proves nothing and is not looked at.

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

from isonomy.certificates.forms import network_arrays
from isonomy.certificates.question import on_all_coordinates
from isonomy.errors import IsonomyError
from isonomy.networks.load import open_network
from isonomy.networks.network import Network
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
"""Characters that are shown of an error, a sentence of this program about a stranger's file."""

MOST = 4
"""Columns whose words for missing values are shown."""

_DIALECT, _PARTS = ("separator", "encoding", "decimal"), ("x", "weights", "y")


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
    claims = [("model file", "recomputed", f"{name} gives the certified network"), _head(record, path, said)]
    return [*claims, *_classes(record, found, name), *_declared(record, said)]


def _classes(record: Record, found: Network, name: str) -> list[Claim]:
    """Whether the file calls the classes what the certificate calls them; one name for two outputs is rejected."""
    said, own = record.document["question"]["classes"], list(found.named)
    if not said:
        return []
    if own == said:
        return [("classes", "recomputed", f"{name} names them itself")]
    if any(each in own and own.index(each) != place for place, each in enumerate(said)):
        return [("classes", "rejected", f"{name} has classes {listed(own)}, and the certificate {listed(said)}")]
    calls = f"{name} calls them {listed(own)}" if own else f"{name} names none"
    return [("classes", "trusted", f"that the outputs are those of {listed(said)} is the issuer's word: {calls}")]


def _declared(record: Record, said: dict[str, Any]) -> list[Claim]:
    """What of the reading of a model the issuer chose, and the file does not say."""
    chosen = [f"{part} {quoted(said[part])}" for part in ("output", "activation") if said[part] is not None]
    chosen += [f"inputs as {said['reads']}"] if said["reads"] != "auto" else []
    chosen += ["inputs as [model.inputs] in schema.toml says"] if record.schema.inputs else []
    return [("model reading", "trusted", f"{', '.join(chosen)}: the issuer's word")] if chosen else []


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
    says = f"{name} is a {told} by itself" if told else "the file does not say it"
    return "head", "trusted", f"{head}: declared by the issuer, {says}"


def _opened(record: Record, path: Path, **options: Any) -> Network:
    return on_all_coordinates(open_network(path, record.schema, **options), record.schema)


def check_data(record: Record, path: Path) -> list[Claim]:
    """Whether a table holds the people of a certificate in the rows that it names, and whether they were selected from
    it as is said."""
    said, name = record.document["reading"]["table"], quoted(path.name)
    selection = Selection.from_dict(record.document["selection"])
    if said is None:
        return [("data file", "rejected", f"the certificate says of no table how it was read: {name} is none")]
    try:
        dialect = USUAL if said["kind"] == "parquet" else Dialect(*(said[part] for part in _DIALECT))
        other = next((part for part, is_ in described(path, dialect).items() if is_ != said[part]), None)
        if other is not None:
            return [("data file", "rejected", f"{name} is read with another '{other}' than the certificate says")]
        with TemporaryDirectory() as work:
            options: Any = {"dialect": dialect, "unknown": said["unknown"], "split": selection.part, "work": work}
            read = _Read.of(open_people(path, record.schema, **options), np.array(record.rows))
    except (
        IsonomyError,
        OSError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:  # codecs raise them all
        return [("data file", "rejected", f"{name} cannot be read as the certificate says: {_shown(error)}")]
    wrong = _selected(read, selection, record.rows)
    part = _part(record.schema, selection)
    told = wrong or f"counted again in {name}: {selection.words()}{part}{_unseen(selection)}"
    claims = [("data rows", "rejected" if wrong else "recomputed", told)]
    if read.people == len(record.rows):
        parts = {part: record.hashes.get(f"evidence/people.{part}.bin") for part in _PARTS}
        good = parts == {part: read.digests.get(part) for part in _PARTS}
        told = f"the {read.people:,} certified individuals" if good else "other people, weights or labels"
        claims = [("data file", "recomputed" if good else "rejected", f"{name} has {told} in its rows"), *claims[:good]]
        claims += _marks(said, record.schema) if good else []
    return claims


def _marks(said: dict[str, Any], schema: Schema) -> list[Claim]:
    """What of the reading of a table the issuer chose, and cells do not say: 1,000 may be one or a thousand."""
    chosen = ["a comma is the decimal mark: 1,000 is 1"] if said["decimal"] == "," else []
    chosen += [f"letters in {quoted(said['encoding'])}"] if said["encoding"] not in (None, USUAL.encoding) else []
    words = [f"{quoted(each.name)} {listed(each.missing_values)}" for each in schema.features if each.missing_values]
    some = "; ".join(words[:MOST]) + (f" and of {len(words) - MOST:,} more columns" if len(words) > MOST else "")
    chosen += [f"cells that are no value: of {some}"] if words else []
    return [("data reading", "trusted", f"{'; '.join(chosen)}: the issuer's word")] if chosen else []


@dataclass(frozen=True)
class _Read:
    """What a table has in the part that is spoken of: whose ``rows`` (n,), and of the certified ones how many
    ``people``, and the ``digests`` of their coordinates, weights and labels."""

    rows: IntArray
    people: int
    digests: dict[str, str]
    selection: Selection

    @classmethod
    def of(cls, source: PeopleSource, certified: IntArray) -> _Read:
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


def _selected(read: _Read, said: Selection, rows: IntArray) -> str:
    """Why these rows of a table are not what a selection says; "" where they are, or where nothing can tell."""
    pool, table = len(read.rows), read.selection
    part = "table" if said.part == "all" else f"{said.part} part of the table"
    if read.people != len(rows):
        return f"the {part} has {read.people:,} of the {len(rows):,} rows of the certified individuals"
    if said.rows not in (None, table.rows):
        return f"the table has {table.rows:,} rows, and {said.rows:,} are said"
    if said.excluded != table.excluded:
        return f"{table.excluded:,} rows do not fit the schema, and {said.excluded:,} are said"
    if said.pool not in (None, pool):
        return f"the {part} has {pool:,} people, and {said.pool:,} are said"
    if said.how == "all" and len(rows) != pool:
        return f"{len(rows):,} people are not all {pool:,} of the {part}"
    known = said.how == "random" and said.seed is not None and said.pool is not None
    if known and not np.array_equal(read.rows[drawn(pool, len(rows), said.seed or 0)], rows):
        return f"the seed {said.seed} draws other people"
    return ""


def _part(schema: Schema, said: Selection) -> str:
    """Which column says who is in the part."""
    return parted({} if schema.split is None else {"split": asdict(schema.split)}, said.part)


def _unseen(said: Selection) -> str:
    """What of a selection no table can show."""
    if said.how != "random":
        return ""
    known = said.seed is not None and said.pool is not None
    what = "that no other seed was tried before" if known else "that chance drew them"
    return f"; {what} is the issuer's word"


def _shown(error: Exception) -> str:
    """An error about a file, in which a stranger's words may stand: between marks, and cut."""
    return quoted(error, SENTENCE)
