"""Writing an audit: one directory that is there whole or not at all.

Everything is written into a directory of another name beside the final one, which then takes its place. An earlier
audit of the same name is replaced; a directory that holds anything else is left alone, with an error.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from isonomy.audit.individuals import individuals
from isonomy.audit.summary import junit, markdown
from isonomy.errors import FileError
from isonomy.report.findings import Findings

OWN = frozenset({"report.html", "certificate.json", "evidence", "individuals.parquet", "summary.md", "junit.xml"})
"""What an audit writes."""

LARGE = frozenset({"individuals", "parts", "plan.json"})
"""What an audit larger than memory writes besides."""


def write(findings: Findings, directory: str | Path, *, key: str | Path | None = None) -> Path:
    """Write report, certificate, evidence, individuals and summaries; ``key`` signs the certificate."""
    from isonomy.records import write as write_record
    from isonomy.report import render

    target = check_target(directory, key)
    staging = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        staging.mkdir(parents=True)
        write_record(
            staging, findings.certificate, findings.network, findings.people, sources=findings.sources,
            created=findings.created, redact=findings.redacted, key=None if key is None else Path(key),
        )  # fmt: skip
        individuals(findings).to_parquet(staging / "individuals.parquet", index=False)
        (staging / "report.html").write_text(render(findings), encoding="utf-8")
        (staging / "summary.md").write_text(markdown(findings), encoding="utf-8")
        (staging / "junit.xml").write_text(junit(findings), encoding="utf-8")
        take_place(staging, target)
    except OSError as error:
        raise FileError(f"'out' cannot be written: {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def check_target(directory: str | Path, key: str | Path | None = None) -> Path:
    """The directory, if an audit may be written there with this key: asked before a long run, and again after it."""
    from isonomy.records.signature import read_key

    if key is not None:
        read_key(Path(key))
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise FileError(f"'out' must be a directory. Got {target}, which is a file.")
    if target.is_dir():
        strange = sorted(each.name for each in target.iterdir() if each.name not in OWN | LARGE)
        if strange:
            raise FileError(
                f"'out' must be a new directory or one of an earlier audit. {target} holds {strange[0]!r}, which no "
                "audit writes."
            )
    parent = next(each for each in (target.absolute().parent, *target.absolute().parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise FileError(f"'out' cannot be written: {parent} is not a directory that this user may write to.")
    return target


def take_place(staging: Path, target: Path) -> None:
    """Give a finished directory its final name; an earlier audit of that name goes away."""
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
