"""Reading a certificate back, to compare, explain, monitor or serve it.

The files are checked against the hashes that the document names, and the signature if there is one. Whether the
*claims* are true is not checked here: ``isonomy_verify`` does that.
"""

from __future__ import annotations

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
from isonomy.certificates.models import model_of
from isonomy.certificates.protocol import Shift, ShiftDual
from isonomy.certificates.reweighting import Reweighting, ShiftBounds
from isonomy.certificates.shifts import shift_of
from isonomy.certificates.worst_case import Points
from isonomy.errors import FileError, IsonomyError
from isonomy.population import Domain, Population, Schema, Selection
from isonomy.population.feature import Label
from isonomy.population.population import IntArray
from isonomy.problem import Problem
from isonomy.similarity.files import metric_from_text
from isonomy.similarity.metric import Metric
from isonomy_verify import record as files
from isonomy_verify.claims import Profiles, inflated
from isonomy_verify.definitions import MATRICES
from isonomy_verify.evidence import individuals_of, number, profiles_of, sources_of
from isonomy_verify.individuals import Individuals, deflated
from isonomy_verify.text import printable, quoted

SENTENCE = 500
"""Characters that are shown of an error about a file from elsewhere."""

_BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, eq=False)
class Record:
    """A certificate as it was written: the document, and the evidence as the objects that it was made from."""

    path: Path
    document: dict[str, Any]  # question, claims, selection, how files were read, remarks
    hashes: dict[str, str]  # SHA-256 of every file
    signers: tuple[str, ...]  # public keys whose signatures were checked
    problem: Problem
    schema: Schema
    shift: Shift  # the populations that the claims are about
    shifts: tuple[Reweighting, ...]  # further ones, in which no individual moves
    epsilon: float | None  # the accepted mean violation, if one was named
    confidence: float | None  # of the statement about the population behind the sample, if there is one
    arithmetic: str
    upper: float  # no population of the shift has a mean violation above this
    lower: float  # an explicit population of the shift has this mean violation
    verdict: str | None  # against ε, if there is one
    profiles: Profiles
    alone: Individuals  # claims about everybody alone
    weights: FloatArray
    rows: IntArray  # places of the individuals in the table
    people: Population | None  # None when the record is redacted
    points: Points | None

    __repr__ = brief

    @property
    def signer(self) -> str:
        """Return the public key whose signature was checked, or ``""``."""
        return self.signers[0] if self.signers else ""

    @cached_property
    def dual(self) -> ShiftDual:
        """Return the dual of the shift over the profiles."""
        schema, x = self.schema, np.empty((0, 0)) if self.people is None else self.people.x
        if self.people is None and self.shift.grouped_by:
            raise FileError("The record is redacted: it does not tell who is in which group.")
        return self.shift.dual(self.profiles, self.weights, self.shift.groups(x, schema))

    @property
    def answers(self) -> list[dict[str, Any]]:
        """Return the claims about shifts in which no individual moves: its own, if it is one, and the further ones."""
        return list(self.document["claims"].get("shifts", []))

    def under(self, shift: Reweighting) -> ShiftBounds:
        """Return the bounds of the mean violation for a shift in which no individual moves, from the evidence."""
        x = np.empty((0, 0)) if self.people is None else self.people.x
        if self.people is None and shift.kernel.grouped_by:
            raise FileError("The record is redacted: it does not tell who is in which group.")
        groups, largest = shift.groups(x, self.schema), float(inflated(self.profiles.largest))
        return shift.answer(self.alone.highs(slice(None)), deflated(self.alone.lower), self.weights, groups, largest)

    def proved_and_attained(self) -> tuple[float, float | None]:
        """Return both bounds as the evidence has them, without a margin; the second is None where it is redacted."""
        if isinstance(self.shift, Reweighting):
            if self.people is None and self.shift.kernel.grouped_by:
                return self.upper, None
            answer = self.under(self.shift)
            return answer.upper, None if self.people is None else answer.lower
        if self.people is None and self.shift.grouped_by:
            return self.upper, None
        dual, size = self.dual, self.shift.size
        attained = None if self.points is None else dual.attained(self.points, self.weights, size).value
        return self.dual.bound(self.shift.size).upper, attained

    @property
    def gamma(self) -> float:
        """Return the largest distance of populations, where the shift is by transport."""
        return self.shift.number("gamma")

    @property
    def order(self) -> float:
        """Return the order of the Wasserstein distance."""
        return self.shift.number("order")

    @property
    def ground(self) -> Metric | None:
        """Return the ground cost by which distances of populations are measured; None where there is none."""
        return self.shift.distance_cost

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Return upper and lower bounds for other sizes of the shift; lower is missing where the record is redacted.

        A record has the points of its own lower bound only: lower bounds for other sizes are at most the certificate's.
        """
        gammas = [float(gamma) for gamma in gammas]
        shifts = [self.shift.resized(gamma) for gamma in gammas]
        if isinstance(self.shift, Reweighting):
            answers = [self.under(shift) for shift in shifts if isinstance(shift, Reweighting)]
            lower = [np.nan if self.people is None else each.lower for each in answers]
            upper = [each.upper for each in answers]
            return pd.DataFrame({self.shift.size_name: gammas, "upper": upper, "lower": lower})
        lower = [np.nan] * len(gammas)
        if self.points is not None:
            lower = [self.dual.attained(self.points, self.weights, gamma).value for gamma in gammas]
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        if self.points is not None and self.people is not None:
            people = self.people.x, self.weights
            for shift, attained, proved in zip(shifts, lower, upper, strict=True):
                compare_means(f"{shift.place} mean output", attained, proved, self.problem, people, **shift.evidence())
        return pd.DataFrame({self.shift.size_name: gammas, "upper": upper, "lower": lower})


def read(path: Path) -> Record:
    """Read ``certificate.json`` (or its directory) with its evidence, and check hashes and signature."""
    path = document_in(path)
    with readable(path):
        return _read(path)


def document_in(path: Path) -> Path:
    """Return the file ``certificate.json`` of a directory, or the file itself."""
    return Path(path) / files.DOCUMENT if Path(path).is_dir() else Path(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise any error about the files of a certificate as a FileError of one sentence that names it."""
    try:
        yield
    except files.BadInput as error:
        raise FileError(f"The certificate {path} cannot be used: {error}") from None
    except IsonomyError as error:  # which may quote text from elsewhere
        raise FileError(f"The certificate {path} cannot be used: {printable(str(error))[:SENTENCE]}") from None
    except _BROKEN as error:
        raise FileError(f"The certificate {path} is damaged: {type(error).__name__}, {quoted(error)}.") from None


def _read(path: Path) -> Record:
    record = files.Record.read(path)
    signers = files.signers(record) or []
    predicate = dict(record.predicate)
    question, claims, remarks = (predicate[name] for name in ("question", "claims", "remarks"))
    schema = Schema.from_toml(record.text(files.SCHEMA))
    moved = f"{files.EVIDENCE}/{files.GROUND}" in record.hashes
    metric, ground = (
        metric_from_text(record.text(name, MATRICES)) if name == files.METRIC or moved else None
        for name in (files.METRIC, files.GROUND)
    )
    assert metric is not None
    domain = schema.domain(question["domain"])
    arrays = {name: record.array(f"model.{name}") for name in record.names("model") if record.has(f"model.{name}")}
    weights = record.array("people.weights")
    evidence = profiles_of(record)
    profiles = Profiles(evidence.start, evidence.radius, evidence.value, evidence.largest, sources_of(record, evidence))
    complete = "people.x" not in predicate["withheld"]
    return Record(
        path=path,
        document=predicate,
        hashes=dict(record.hashes),
        signers=tuple(signers),
        problem=Problem(
            model_of(predicate["model"], arrays, question["head"], remarks["model"]).on(schema),
            metric,
            number(question["delta"]),
            domain,
            schema,
            _outcome(question, schema),
            question["max_branches"],
        ),
        schema=schema,
        shift=shift_of(question["shift"], ground).on(domain, schema),
        shifts=tuple(shift_of(each, None) for each in question.get("shifts", ())),  # type: ignore[misc]
        epsilon=None if question["epsilon"] is None else number(question["epsilon"]),
        confidence=None if question["confidence"] is None else number(question["confidence"]),
        arithmetic=str(question["arithmetic"]),
        upper=number(claims["upper"]),
        lower=number(claims["lower"]),
        verdict=None if claims["verdict"] is None else str(claims["verdict"]),
        profiles=profiles,
        alone=individuals_of(record, len(weights), evidence.largest),
        weights=weights,
        rows=record.array("people.rows"),
        people=_people(record, schema, domain) if complete else None,
        points=_points(record) if complete else None,
    )


def _outcome(question: dict[str, Any], schema: Schema) -> Label:
    column = "" if schema.label is None else schema.label.column
    good, cut = tuple(question["favourable"]), question["threshold"]
    return Label(column, tuple(question["classes"]), favourable=good, threshold=cut)


def _people(record: files.Record, schema: Schema, domain: Domain) -> Population:
    """Return the individuals; their frame has the protected features only."""
    x, rows = record.array("people.x"), record.array("people.rows")
    y = record.array("people.y") if "y" in record.names("people") else None
    if y is not None and schema.label is not None and not schema.label.regression:
        y = y.astype(np.int64)
    frame, selection = schema.decode(x, only=schema.protected), Selection.from_dict(record.predicate["selection"])
    return Population(frame, schema, domain, x, y, record.array("people.weights"), rows, selection)


def _points(record: files.Record) -> Points:
    owner = np.repeat(np.arange(len(record.array("points.count"))), record.array("points.count"))
    return Points(owner, *(record.array(f"points.{name}") for name in ("person", "counterpart", "cost", "value")))
