"""Writing an audit larger than memory: one part in memory at a time, and a directory that is there whole or not at all.

===================  ===================================================================================================
``certificate.json``  the numbers, the question, and the SHA-256 of everything that they rest on
``evidence/``         network, metric, schema, the curve, and a sample of people: what a service needs
``parts/``            per chunk the profiles behind the bound, with which ``upper`` can be added up again
``individuals/``      per chunk ``row``, ``weight``, ``upper``, ``lower`` and, with an epsilon, ``verdict``
``report.html``, ``summary.md``, ``junit.xml``  for people and for CI
===================  ===================================================================================================

``certificate.json`` has a format of its own: it names the parts by hash instead of holding what the independent checker
needs, so ``isonomy verify`` refuses it. A redacted audit keeps neither the parts nor weights nor people.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.audit.large import LargeFindings
from isonomy.audit.large_page import render_large
from isonomy.audit.large_sample import sample
from isonomy.audit.large_summary import AGAIN, facts_of, markdown, number
from isonomy.audit.output import check_target, take_place
from isonomy.audit.summary import junit_of
from isonomy.engines.files import sweep, write_json
from isonomy.engines.parts import Part
from isonomy.errors import FileError
from isonomy.records.envelope import Envelope
from isonomy.records.large import FORMAT, VERSION, evidence_files, write_evidence
from isonomy.records.writing import EVIDENCE


def write_large(findings: LargeFindings, directory: Path) -> dict[str, Any]:
    """Write everything into the work folder, which then takes its final name; gives the facts."""
    target, work = check_target(directory), findings.work
    try:
        seen = _individuals(findings, work)
        facts = {**facts_of(findings), **seen.facts}
        evidence = _evidence(findings, seen, work)
        write_json(work / "certificate.json", _certificate(findings, facts, seen.parts, evidence))
        for name, text in (
            ("report.html", render_large(findings, facts)),
            ("summary.md", markdown(findings, facts)),
            ("junit.xml", junit_of(facts)),
        ):
            (work / name).write_text(text, encoding="utf-8")
        _tidy(work, findings.redacted)
        take_place(work, target)
    except OSError as error:
        raise FileError(f"'out' cannot be written: {target}: {error.strerror or error}.") from error
    return facts


@dataclass(frozen=True)
class _Seen:
    """What one pass over the parts tells."""

    parts: list[dict[str, Any]]  # each by its hash
    facts: dict[str, Any]
    counted: list[int]  # individuals of each part whose weight is positive
    largest: float  # no violation of anybody is above this


def _certificate(
    findings: LargeFindings, facts: dict[str, Any], parts: list[dict[str, Any]], evidence: dict[str, Any]
) -> dict[str, Any]:
    kept = {} if findings.redacted else {"parts": parts}
    return {
        "format": FORMAT,
        "version": VERSION,
        **facts,
        "identity": findings.certificate.identity,
        "radii": [number(radius) for radius in findings.certificate.radii],
        "recheck": "The parts are not kept in a redacted audit." if findings.redacted else AGAIN,
        "network": findings.asked.network.name,
        "people": _people_hash(findings),
        "evidence": evidence,
        **kept,
    }


def _evidence(findings: LargeFindings, seen: _Seen, work: Path) -> dict[str, Any]:
    """Network, metric, schema, curve and some people as files; what the certificate says of them."""
    found, asked = findings.certificate, findings.asked
    shutil.rmtree(work / EVIDENCE, ignore_errors=True)
    question = {"delta": found.delta, "gamma": found.gamma, "largest": seen.largest, "counted": sum(seen.counted)}
    files = evidence_files(
        asked.network, asked.metric, findings.ground, asked.schema, findings.space, Envelope.of(found.dual), question,
        None if findings.redacted else sample(findings, seen.counted),
    )  # fmt: skip
    return write_evidence(work, files)


def _people_hash(findings: LargeFindings) -> str:
    """SHA-256 of what decides who was audited, schema aside: files in their order, and which of their rows."""
    words = [*(digest for _, digest in findings.certificate.sources), findings.asked.split, findings.unknown]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _individuals(findings: LargeFindings, work: Path) -> _Seen:
    """Everybody's bounds as Parquet, chunk by chunk; the parts by hash, and what is counted on the way."""
    found, folder = findings.certificate, work / "individuals"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    parts, counted, anybody = [], [], 0.0
    verdicts, largest = Counter[str](), [0.0, 0.0]
    for path, part in zip(found.parts, found.each_part(), strict=True):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        parts.append({"file": f"parts/{path.name}", "rows": len(part), "sha256": digest})
        counted.append(int((part.weights > 0).sum()))
        anybody = max(anybody, part.largest)
        upper, lower = part.profile[0], part.value[0]  # at radius 0: the individuals themselves
        columns: dict[str, Any] = {"row": part.rows, "upper": upper, "lower": lower}
        if not findings.redacted:
            columns["weight"] = part.weights
        if found.epsilon is not None:
            columns["verdict"] = _verdicts(part, found.epsilon)
            verdicts.update(columns["verdict"].tolist())
        pq.write_table(pa.table(columns), folder / path.name)
        largest = [max(largest[0], upper.max(initial=0.0)), max(largest[1], lower.max(initial=0.0))]
    facts: dict[str, Any] = {"largest": {"upper": float(largest[0]), "lower": float(largest[1])}}
    facts |= {} if found.epsilon is None else {"verdicts": dict(sorted(verdicts.items()))}
    return _Seen(parts, facts, counted, anybody)


def _verdicts(part: Part, epsilon: float) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    kept = np.where(part.profile[0] <= epsilon, "certified", "undecided")
    return np.where(part.value[0] > epsilon, "violated", kept)


def _tidy(work: Path, redacted: bool) -> None:
    """Leave what belongs to the result: no copies of people, no halves."""
    sweep(work)
    for copy in (*work.glob("people-*.parquet"), work / "result.json"):
        copy.unlink(missing_ok=True)
    if redacted:
        shutil.rmtree(work / "parts", ignore_errors=True)
        (work / "plan.json").unlink(missing_ok=True)
