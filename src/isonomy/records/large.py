"""The certificate of an audit larger than memory: what it needs to be read again without its parts.

``certificate.json`` has the numbers and the question; ``evidence/`` has, each named there by its SHA-256,

* ``network.npz``, ``domain.npz``, ``metric.toml``, ``ground.toml``, ``schema.toml``: what was judged, by what;
* ``curve.npz``: an :class:`~isonomy.records.envelope.Envelope`, and the question that it answers;
* ``people.npz``: some of the individuals, drawn at random, unless the audit is redacted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.certificates.forms import Arrays, domain_arrays, domain_of, network_arrays, network_of
from isonomy.certificates.question import on_all_coordinates
from isonomy.errors import FileError
from isonomy.networks.network import Network
from isonomy.population import Domain, Population, Schema
from isonomy.records.envelope import Envelope
from isonomy.records.reading import document_in, evidence_of, people_of, readable, selection_of
from isonomy.records.writing import EVIDENCE, packed
from isonomy.similarity.files import metric_from_text, metric_to_text
from isonomy.similarity.metric import Metric

FORMAT, VERSION = "isonomy-large-certificate", 2

AGAIN = "give the command again that made it, with the same 'out': finished parts are not computed again"
"""What to do about a large certificate that something is missing in, or wrong with."""


@dataclass(frozen=True, eq=False)
class LargeRecord:
    """A certificate of an audit larger than memory, as it was written.

    ``people`` are some of the individuals, or all where ``everybody`` is true; None when the record is redacted.
    """

    path: Path
    document: dict[str, Any]
    network: Network
    metric: Metric
    ground: Metric
    schema: Schema
    domain: Domain
    envelope: Envelope
    largest: float  # no violation of anybody is above this
    counted: int  # individuals with a positive weight
    people: Population | None

    @property
    def delta(self) -> float:
        """Who counts as similar."""
        return float(self.document["delta"])

    @property
    def gamma(self) -> float:
        """How far populations may be."""
        return float(self.document["gamma"])

    @property
    def order(self) -> float:
        """Of the Wasserstein distance."""
        return float(self.document["order"])

    @property
    def epsilon(self) -> float | None:
        """The largest violation that was to be accepted, if one was named."""
        value = self.document["epsilon"]
        return None if value is None else float(value)

    @property
    def upper(self) -> float:
        """No population within γ has a mean violation above this."""
        return float(self.document["upper"])

    @property
    def lower(self) -> float:
        """An explicit population within γ has this mean violation."""
        return float(self.document["lower"])

    @property
    def verdict(self) -> str | None:
        """Against ε, if there is one."""
        value = self.document["verdict"]
        return None if value is None else str(value)

    @property
    def individuals(self) -> int:
        """How many were audited."""
        return int(self.document["individuals"])

    @property
    def everybody(self) -> bool:
        """Whether ``people`` are all the individuals that count."""
        return self.people is not None and len(self.people) == self.counted


def is_large(path: Path) -> bool:
    """Is this ``certificate.json``, or the one in this directory, of an audit larger than memory?"""
    try:
        document = json.loads(document_in(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False  # whoever reads it will say what is wrong
    return isinstance(document, dict) and document.get("format") == FORMAT


def read_large(path: Path) -> LargeRecord:
    """Read ``certificate.json`` (or its directory) with its evidence, and check hashes; parts are not looked at."""
    path = document_in(path)
    with readable(path):
        return _read(path)


def write_evidence(folder: Path, files: Mapping[str, tuple[str, bytes]]) -> dict[str, dict[str, Any]]:
    """Write the pieces into ``folder/evidence``; gives what the document says of them."""
    (folder / EVIDENCE).mkdir()
    for file, content in files.values():
        (folder / EVIDENCE / file).write_bytes(content)
    return {
        name: {"file": f"{EVIDENCE}/{file}", "sha256": hashlib.sha256(content).hexdigest(), "withheld": False}
        for name, (file, content) in files.items()
    }


def evidence_files(
    network: Network,
    metric: Metric,
    ground: Metric,
    schema: Schema,
    domain: Domain,
    envelope: Envelope,
    question: Mapping[str, float],
    people: Arrays | None,
) -> dict[str, tuple[str, bytes]]:
    """The pieces of evidence by name: each a file's name and content. ``question`` has delta, gamma, largest and
    counted: what the curve is about.
    """
    arrays = {
        "network": network_arrays(on_all_coordinates(network, schema)),
        "domain": domain_arrays(domain),
        "curve": envelope.arrays() | {name: np.array(value) for name, value in question.items()},
    }
    arrays |= {} if people is None else {"people": people}
    texts = {"metric": metric_to_text(metric), "ground": metric_to_text(ground), "schema": schema.to_toml()}
    files = {name: (f"{name}.npz", packed(part)) for name, part in arrays.items()}
    return files | {f"{name}_text": (f"{name}.toml", text.encode()) for name, text in texts.items()}


def _read(path: Path) -> LargeRecord:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError("it is not the certificate of an audit larger than memory.")
    if document["version"] != VERSION:
        raise FileError(
            f"its version is {document['version']}, without the network and the curve that version {VERSION} keeps: "
            f"{AGAIN}."
        )
    arrays, texts = evidence_of(path, document)
    schema = Schema.from_toml(texts["schema_text"])
    domain, curve = domain_of(arrays["domain"], schema.coordinate_names), arrays["curve"]
    for name in ("delta", "gamma", "order"):
        if float(document[name]) != float(curve[name]):
            raise FileError(
                f"its '{name}' is {document[name]}, but its bounds were made for {float(curve[name])}: {AGAIN}."
            )
    some = arrays.get("people")
    selection = selection_of(document, int(document["individuals"]))
    return LargeRecord(
        path=path,
        document=document,
        network=network_of(arrays["network"], str(document["network"])),
        metric=metric_from_text(texts["metric_text"]),
        ground=metric_from_text(texts["ground_text"]),
        schema=schema,
        domain=domain,
        envelope=Envelope.from_arrays(curve),
        largest=float(curve["largest"]),
        counted=int(curve["counted"]),
        people=None if some is None else people_of(some, schema, domain, selection.drawn(len(some["x"]), 0)),
    )
