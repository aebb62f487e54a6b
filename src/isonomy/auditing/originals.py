"""Is this the model, is this the table? The files that an audit started from, held against its certificate.

The certificate names the network and the people in their own form. Here a model or table file is read anew, as the
certificate's schema says, and compared with that form; where it cannot be read so (a model that needs further
options, a redacted certificate) only the SHA-256 that the certificate mentions is left, and that is said. A file that
can be read and gives something else is another one, whatever the certificate mentions: its remarks are not proved.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from isonomy.auditing.inputs import read_people
from isonomy.certificates.forms import network_arrays
from isonomy.errors import IsonomyError
from isonomy.files import file_hash
from isonomy.networks.graph import Activation, Affine
from isonomy.networks.load import open_network
from isonomy.population import Dialect
from isonomy.records import Record

Claim = tuple[str, str, str]
"""What is claimed, its status (recomputed, trusted, rejected), and a word on it."""

_DIALECTS = [Dialect(*each) for each in itertools.product((",", ";", "\t", "|"), ("utf-8", "latin-1"), (".", ","))]


def check_model(record: Record, path: Path) -> Claim:
    """Whether a model file gives the network of a certificate."""
    wanted, read = network_arrays(record.network), False
    seen = np.flatnonzero(record.schema.seen_coordinates).tolist()
    bends = {node.op.kind for node in record.network.graph.nodes if isinstance(node.op, Activation)} or {"relu"}
    options = itertools.product(("auto", record.network.head), ("auto", "coordinates", "raw"), sorted(bends))
    for head, reads, activation in options:
        try:
            network = open_network(path, record.schema, head=head, reads=reads, activation=activation)
            if network.input_width != record.schema.width:
                network = network.adapted(Affine.selection(seen, record.schema.width))
            found = network_arrays(network)
        except IsonomyError:
            continue
        read = True
        if found.keys() == wanted.keys() and all(np.array_equal(found[name], wanted[name]) for name in wanted):
            return "model file", "recomputed", f"{path.name} gives the certified network"
    if read:
        return "model file", "rejected", f"{path.name} gives another network than the certified one"
    return _by_hash(record, "model file", path)


def check_data(record: Record, path: Path) -> Claim:
    """Whether a table holds the people of a certificate, in its rows."""
    if record.people is None:
        return _by_hash(record, "data file", path)
    read = False
    for dialect in _DIALECTS:
        try:
            table = read_people(str(path), record.schema, dialect=dialect, unknown="exclude")
        except IsonomyError:
            continue
        read = True
        place = {row: i for i, row in enumerate(table.rows.tolist())}
        rows = [place.get(row, -1) for row in record.people.rows.tolist()]
        pairs = ((table.x, record.people.x), (table.weights, record.people.weights))
        if min(rows) >= 0 and all(np.array_equal(own[rows], certified) for own, certified in pairs):
            return "data file", "recomputed", f"{path.name} has the {len(rows)} certified individuals in its rows"
    if read:
        return "data file", "rejected", f"{path.name} has other people, or weights, in the rows of the certified ones"
    return _by_hash(record, "data file", path)


def _by_hash(record: Record, claim: str, path: Path) -> Claim:
    known = record.document["remarks"]["sources"]
    if file_hash(path) in known.values():
        return claim, "trusted", f"{path.name} has a SHA-256 that the certificate mentions; it was not read anew"
    return claim, "rejected", f"{path.name} is not what was certified, and the certificate mentions no such file"
