"""Writing an audit larger than memory: one part in memory at a time, and a directory that is there whole or not at all.

===================  ===================================================================================================
``certificate.json``  the numbers, the question, and the SHA-256 of everything that they rest on
``parts/``            per chunk the profiles behind the bound, with which ``upper`` can be added up again
``individuals/``      per chunk ``row``, ``weight``, ``upper``, ``lower`` and, with an epsilon, ``verdict``
``report.html``, ``summary.md``, ``junit.xml``  for people and for CI
===================  ===================================================================================================

``certificate.json`` has a format of its own: it names the parts by hash instead of holding what the independent checker
needs, so ``isonomy verify`` refuses it. A redacted audit keeps neither the parts nor weights.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.audit.large import LargeFindings
from isonomy.audit.large_page import render_large
from isonomy.audit.large_summary import AGAIN, facts_of, markdown, number
from isonomy.audit.output import check_target, take_place
from isonomy.audit.summary import junit_of
from isonomy.engines.files import sweep, write_json
from isonomy.engines.parts import Part
from isonomy.errors import FileError

FORMAT, VERSION = "isonomy-large-certificate", 1


def write_large(findings: LargeFindings, directory: Path) -> dict[str, Any]:
    """Write everything into the work folder, which then takes its final name; gives the facts."""
    target, work = check_target(directory), findings.work
    try:
        parts, people = _individuals(findings, work)
        facts = {**facts_of(findings), **people}
        write_json(work / "certificate.json", _certificate(findings, facts, parts))
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


def _certificate(findings: LargeFindings, facts: dict[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    kept = {} if findings.redacted else {"parts": parts}
    return {
        "format": FORMAT,
        "version": VERSION,
        **facts,
        "identity": findings.certificate.identity,
        "radii": [number(radius) for radius in findings.certificate.radii],
        "recheck": "The parts are not kept in a redacted audit." if findings.redacted else AGAIN,
        **kept,
    }


def _individuals(findings: LargeFindings, work: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Everybody's bounds as Parquet, chunk by chunk; the parts by hash, and what is counted on the way."""
    found, folder = findings.certificate, work / "individuals"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    parts, verdicts, largest = [], Counter[str](), [0.0, 0.0]
    for path, part in zip(found.parts, found.each_part(), strict=True):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        parts.append({"file": f"parts/{path.name}", "rows": len(part), "sha256": digest})
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
    return parts, facts if found.epsilon is None else facts | {"verdicts": dict(sorted(verdicts.items()))}


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
