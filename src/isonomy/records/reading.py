"""Reading a certificate back, for whoever compares, explains, monitors or serves it.

What is read has been checked against the hashes that the document names, and the signature if there is one. Whether
the *claims* are true is not asked here: that is what ``isonomy_verify`` does.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means
from isonomy.certificates.dual import Dual, check_radius
from isonomy.certificates.forms import Arrays, domain_of, metric_arrays, network_of
from isonomy.certificates.profiles import CellBlocks, Profiles
from isonomy.certificates.question import Question
from isonomy.certificates.worst_case import Points
from isonomy.errors import FileError, IsonomyError
from isonomy.networks.network import Network
from isonomy.population import Domain, Population, Schema, Selection
from isonomy.records import signature
from isonomy.records.writing import DOCUMENT, EVIDENCE, FORMAT, VERSION
from isonomy.similarity.files import metric_from_text
from isonomy.similarity.metric import Metric

_BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class Record:
    """A certificate as it was written: the document, and the evidence as the objects that it was made from."""

    path: Path
    document: dict[str, Any]
    network: Network
    metric: Metric
    ground: Metric
    schema: Schema
    domain: Domain
    profiles: Profiles
    weights: FloatArray
    people: Population | None  # None when the record is redacted
    points: Points | None

    __repr__ = brief

    @property
    def delta(self) -> float:
        """Who counts as similar."""
        return float(self.document["question"]["delta"])

    @property
    def gamma(self) -> float:
        """How far populations may be."""
        return float(self.document["question"]["gamma"])

    @property
    def order(self) -> float:
        """Of the Wasserstein distance."""
        return float(self.document["question"]["order"])

    @property
    def epsilon(self) -> float | None:
        """The largest violation that was to be accepted, if one was named."""
        value = self.document["question"]["epsilon"]
        return None if value is None else float(value)

    @property
    def confidence(self) -> float | None:
        """Of the statement about the population behind the sample, if one was asked for."""
        value = self.document["question"]["confidence"]
        return None if value is None else float(value)

    @property
    def upper(self) -> float:
        """No population within γ has a mean violation above this."""
        return float(self.document["claims"]["upper"])

    @property
    def lower(self) -> float:
        """An explicit population within γ has this mean violation."""
        return float(self.document["claims"]["lower"])

    @property
    def verdict(self) -> str | None:
        """Against ε, if there is one."""
        value = self.document["claims"]["verdict"]
        return None if value is None else str(value)

    @property
    def signer(self) -> str:
        """The public key whose signature was checked, or nothing."""
        return str(self.document["signature"]["public"]) if "signature" in self.document else ""

    @cached_property
    def question(self) -> Question:
        """What was asked, ready to be asked of others; not of a redacted record."""
        if self.people is None:
            raise FileError(f"The certificate {self.path} is redacted: it has no individuals.")
        return Question.of(self.network, self.people, self.metric, self.delta, self.domain)

    @cached_property
    def dual(self) -> Dual:
        """The dual of the transport problem over the profiles."""
        return Dual(CellBlocks(self.profiles, self.weights), self.order)

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Upper and lower for other γ; lower is missing where the record is redacted."""
        gammas = [float(gamma) for gamma in gammas]
        for gamma in gammas:
            check_radius(self.order, gamma)
        lower = [np.nan] * len(gammas)
        if self.points is not None:
            lower = [self.points.mixture(self.weights, gamma, self.order).value for gamma in gammas]
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        if self.points is not None:
            for gamma, attained, proved in zip(gammas, lower, upper, strict=True):
                what = f"Within {gamma:g} of the individuals a population's mean output"
                compare_means(what, attained, proved, self.question, gamma=gamma, order=self.order)
        return pd.DataFrame({"gamma": gammas, "upper": upper, "lower": lower})


def read(path: Path) -> Record:
    """Read ``certificate.json`` (or its directory) with its evidence, and check hashes and signature."""
    path = document_in(path)
    with readable(path):
        return _read(path)


def document_in(path: Path) -> Path:
    """The file ``certificate.json`` of a directory, or the file that was named."""
    return Path(path) / DOCUMENT if Path(path).is_dir() else Path(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever is wrong with the files of a certificate becomes an error of one sentence that names it."""
    try:
        yield
    except OSError as error:
        raise FileError(f"The certificate {error.filename or path} cannot be read: {error.strerror}.") from None
    except IsonomyError as error:
        raise FileError(f"The certificate {path} cannot be used: {error}") from None
    except _BROKEN as error:
        raise FileError(f"The certificate {path} is damaged: {type(error).__name__}, {error}.") from None


def evidence_of(path: Path, document: dict[str, Any]) -> tuple[dict[str, Arrays], dict[str, str]]:
    """The evidence that a document names, each piece compared with its SHA-256: arrays, and texts."""
    contents = {name: _content(path, part) for name, part in document["evidence"].items()}
    arrays = {name: _arrays(content) for name, content in contents.items() if content and not name.endswith("_text")}
    return arrays, {name: content.decode() for name, content in contents.items() if content and name.endswith("_text")}


def selection_of(remarks: dict[str, Any], people: int) -> Selection:
    """Who was audited; a certificate that does not say it leaves open how they were selected."""
    if "selection" not in remarks:
        return Selection(people, part=remarks["split"], how="unknown")
    return Selection.from_dict(remarks["selection"])


def people_of(arrays: Arrays, schema: Schema, domain: Domain, selection: Selection) -> Population:
    """The individuals of a piece of evidence."""
    return Population(
        frame=schema.decode(arrays["x"]),
        schema=schema,
        domain=domain,
        x=arrays["x"],
        y=None,
        weights=arrays["weights"],
        rows=arrays["rows"],
        selection=selection,
    )


def _read(path: Path) -> Record:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError("it is not an isonomy certificate.")
    if document["version"] != VERSION:
        raise FileError(f"its version is {document['version']}, and this program reads version {VERSION}.")
    if "signature" in document and not signature.holds(document):
        raise FileError("its signature is not that of its content.")
    arrays, texts = evidence_of(path, document)
    remarks = document["remarks"]
    schema = Schema.from_toml(texts["schema_text"])
    metric, ground = (metric_from_text(texts[f"{name}_text"]) for name in ("metric", "ground"))
    for name, found in (("metric", metric), ("ground", ground)):
        form = metric_arrays(found)
        if set(form) != set(arrays[name]) or any(not np.array_equal(form[k], arrays[name][k]) for k in form):
            raise FileError(f"{name}.toml and {name}.npz are not the same metric.")
    domain, part = domain_of(arrays["domain"], schema.coordinate_names), arrays["profiles"]
    selection = selection_of(remarks, len(part["weights"]))
    people = people_of(arrays["people"], schema, domain, selection) if "people" in arrays else None
    return Record(
        path=path,
        document=document,
        network=network_of(arrays["network"], remarks["network"]),
        metric=metric,
        ground=ground,
        schema=schema,
        domain=domain,
        profiles=Profiles.of(part["radii"], part["values"], float(part["largest"])),
        weights=part["weights"],
        people=people,
        points=_points(arrays["witnesses"]) if "witnesses" in arrays else None,
    )


def _content(path: Path, part: dict[str, Any]) -> bytes:
    """The bytes of a piece of evidence, or none when it is withheld."""
    file: Path = path.parent / part["file"]
    if part["withheld"]:
        return b""
    if Path(part["file"]).parent != Path(EVIDENCE):
        raise FileError(f"its evidence '{part['file']}' is not in '{EVIDENCE}'.")
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != part["sha256"]:
        raise FileError(f"'{part['file']}' is not the file that it was written with (another SHA-256).")
    return content


def _arrays(content: bytes) -> Arrays:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _points(arrays: Arrays) -> Points:
    return Points(*(arrays[name] for name in ("owner", "person", "counterpart", "cost", "value")))
