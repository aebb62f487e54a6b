"""Writing an audit: one directory, complete or not there at all.

Everything is written into a directory of another name next to the final one, which then takes its place. An earlier
audit of the same name is replaced; a directory that holds anything else is left alone, with an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.arithmetic import FloatArray
from isonomy.certificates.local import verdicts
from isonomy.errors import FileError, first_line
from isonomy.files import PARTIAL
from isonomy.population import Schema
from isonomy.report.facts import facts_of
from isonomy.report.findings import Findings
from isonomy.report.html import to_html
from isonomy.report.text import to_junit, to_markdown

RESUMABLE = ("schedule.json", "parts")
"""Files of a streamed audit that the next one with the same name starts from."""

INDIVIDUALS = "individuals.parquet"
RENDERED = ("report.html", INDIVIDUALS, "summary.md", "junit.xml")
"""Files for readers and CI: the certificate names them by their hash, and no check reads them."""

QUESTION = "question"
"""The folder of the files that ask an audit again."""

AS_ASKED = "# as it was asked: sha256 "
"""In front of the checksum of a question: one that was edited is never replaced."""

AUDIT_FILES = frozenset({"certificate.json", "certificate.dsse.json", "evidence", QUESTION, *RENDERED, *RESUMABLE})
"""Files that an audit writes."""

ID_SUFFIX = " (id)"
"""Behind the name of the id column in the table of individuals, where another column has that name."""

COUNTERPART = "counterpart: "
"""In front of a feature's name in the table of individuals: the value of the worst counterpart."""

STALE = 86_400
"""Seconds after which a half-written folder is removed."""

ROWS = 4_096
"""Individuals whose table is in memory at a time."""

_COPY = r"people-.*\.parquet"  # of a file without random access


def write(
    findings: Findings, directory: str | Path, *, key: str | Path | None = None, work: Path | None = None
) -> Path:
    """Write report, certificate, evidence, individuals and summaries; ``key`` signs the certificate.

    What is in ``work``, the folder of finished chunks, becomes part of the result too, and stays where it is.
    """
    from isonomy.records import write as write_record

    target = check_target(directory, key)
    staging = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")  # processes of two machines share numbers
    try:
        staging.mkdir(parents=True)
        _sweep(target)
        _write_individuals(findings, staging / INDIVIDUALS)
        for name, rendered in (("report.html", to_html), ("summary.md", to_markdown), ("junit.xml", to_junit)):
            (staging / name).write_text(rendered(facts_of(findings)), encoding="utf-8")
        write_record(
            staging, findings.certificate, sources=findings.sources, created=findings.created,
            redact=findings.redacted, key=None if key is None else Path(key), beside=RENDERED,
            table=findings.table, alone=findings.questions, gaps=findings.gaps,
        )  # fmt: skip
        if work is not None:
            for name in RESUMABLE:
                link(work / name, staging / name)
        _write_question(findings.question, target / QUESTION, staging / QUESTION)
        replace_directory(staging, target)
    except OSError as error:
        raise FileError(f"'out' cannot be written: {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _write_question(question: Mapping[str, str], old: Path, new: Path) -> None:
    """Write the files that ask the question again, with their checksum; keep what an earlier audit had otherwise."""
    if not question or edited(old):
        link(old, new)
        return
    new.mkdir()
    for name, text in question.items():
        mark = f"{AS_ASKED}{_checksum(question)}\n" if name == "audit.toml" else ""
        (new / name).write_text(text + mark, encoding="utf-8")


def _checksum(question: Mapping[str, str]) -> str:
    return hashlib.sha256("\0".join(question[name] for name in sorted(question)).encode()).hexdigest()


def edited(folder: Path) -> bool:
    """Return whether the files of a question are not as an audit wrote them."""
    if not folder.is_dir():
        return False
    texts = {each.name: each.read_bytes().decode(errors="replace") for each in folder.iterdir() if each.is_file()}
    text, _, mark = texts.get("audit.toml", "").rpartition(AS_ASKED)
    return mark.strip() != _checksum(texts | {"audit.toml": text})


def _sweep(target: Path) -> None:
    """Remove half-written folders of killed audits, which hold people's rows; younger ones may be in use."""
    for staging in target.parent.glob(f".{escape(target.name)}.*.part"):
        if time.time() - staging.stat().st_mtime > STALE:
            shutil.rmtree(staging, ignore_errors=True)


def work_of(target: Path) -> Path:
    """Return the folder for finished chunks of an audit that is running."""
    return target.with_name(f"{target.name}.work")


def open_work(target: Path) -> Path:
    """Open the work folder; a new one begins with the finished chunks of an earlier audit of the same name."""
    work = work_of(target)
    try:
        if work.exists():
            for name in sorted(each.name for each in work.iterdir()):
                if not (name in (*RESUMABLE, "columns") or name.endswith(PARTIAL) or re.fullmatch(_COPY, name)):
                    advice = "which no audit writes: remove it, or name another 'out'"
                    raise FileError(f"The work folder {work} holds {name!r}, {advice}.")
            return work
        work.mkdir(mode=0o700, parents=True)  # finished chunks hold people's rows
        for name in RESUMABLE:
            link(target / name, work / name)
    except OSError as error:
        raise FileError(f"The work folder {work} cannot be written: {error.strerror}.") from error
    return work


@contextmanager
def locked(work: Path) -> Iterator[Path]:
    """Lock the work folder for one audit, as long as the process lives; remove it at the end if it is empty."""
    with ExitStack() as held:
        if sys.platform != "win32":
            import fcntl

            folder = os.open(work, os.O_RDONLY)
            held.callback(os.close, folder)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError(f"Another audit works in {work}: wait for its end, or name another 'out'.") from None
            except OSError:  # a file system without locks
                pass
        try:
            yield work
        finally:
            with suppress(OSError):
                work.rmdir()


def link(old: Path, new: Path) -> None:
    """Link files under another name: parts are replaced, never changed, so that no copy is needed."""
    if old.is_dir():
        new.mkdir()
        for each in old.iterdir():
            link(each, new / each.name)
    elif old.is_file():
        try:
            os.link(old, new)
        except OSError:  # a file system without links
            shutil.copy2(old, new)


def _write_individuals(findings: Findings, path: Path) -> None:
    """Write the table of individuals in pieces; all have the columns of the first."""
    writer = None
    for start in range(0, len(findings.people), ROWS):
        table = pa.Table.from_pandas(individuals(findings, slice(start, start + ROWS)), preserve_index=False)
        if writer is None:
            kinds = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
            writer = pq.ParquetWriter(path, pa.schema(kinds, table.schema.metadata))
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def output_directory(out: str | None, name: str) -> str:
    """Return the directory to write; by default ``audit-NAME``, valid on every file system."""
    valid = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".-")
    return out or f"audit-{valid or 'people'}"


def check_target(directory: str | Path, key: str | Path | None = None) -> Path:
    """Return the directory if an audit may be written there with this key: before a long run, and again after it."""
    from isonomy.records.writing import read_key

    if key is not None:
        read_key(Path(key))
    return check_folder(directory, "out", "audit", AUDIT_FILES)


def check_folder(directory: str | Path, name: str, what: str, files: Collection[str]) -> Path:
    """Return the directory, called ``name``, if it is new or holds ``files`` of an earlier one only."""
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise FileError(f"{name!r} must be a directory. Got {target}, which is a file.")
    if target.is_dir():
        foreign = sorted(each.name for each in target.iterdir() if each.name not in files)
        if foreign:
            raise FileError(
                f"{name!r} must be a new directory or one of an earlier {what}. {target} holds {foreign[0]!r}, which "
                f"no {what} writes."
            )
    parent = next(each for each in (target.absolute().parent, *target.absolute().parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise FileError(f"{name!r} cannot be written: {parent} is not a directory that this user may write to.")
    return target


def replace_directory(staging: Path, target: Path) -> None:
    """Give a finished directory its final name; an earlier audit of that name is removed."""
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(8)}.old")
    target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def individuals(findings: Findings, rows: slice = slice(None)) -> pd.DataFrame:
    """Return one row for each of some individuals, in the order of the certificate.

    ``row`` is the place in the table (0 is the first row after the header), followed by the schema's id column, where
    there is one; ``upper`` and ``lower`` bound the violation, ``decision`` says whether a similar person can get
    another one, ``differs`` names the features in which the worst counterpart differs. Of a redacted audit only
    ``row``, the bounds, ``decision`` and ``verdict`` are there.
    """
    certificate, people = findings.certificate, findings.people
    local = certificate.local
    upper, lower = local.upper[rows], local.lower[rows]
    table = pd.DataFrame({"row": people.rows[rows], "upper": upper, "lower": lower, "decision": local.decision[rows]})
    if certificate.epsilon is not None:
        table["verdict"] = verdicts(lower, upper, certificate.epsilon)
    if findings.redacted:
        return table
    table.insert(1, "weight", people.weights[rows])
    x, other = np.asarray(people.x[rows]), np.asarray(local.witnesses.counterpart[rows])
    for mark, some in (("", x), (COUNTERPART, other)):
        table = table.assign(**{f"{mark}{name}": values for name, values in predictions(findings, some).items()})
    own, theirs = _raw(people.schema, x), _raw(people.schema, other)
    differs = own.astype(str).to_numpy() != theirs.astype(str).to_numpy()
    table["differs"] = [", ".join(own.columns[row]) for row in differs]
    names = {name: name if name not in table.columns else f"{name} (feature)" for name in own.columns}
    theirs = theirs.rename(columns=lambda name: f"{COUNTERPART}{name}")
    table = pd.concat([table, own.rename(columns=names), theirs], axis=1)
    if people.ids is not None:
        table.insert(1, f"{people.schema.id}{ID_SUFFIX * (people.schema.id in table.columns)}", people.ids[rows])
    return table


def ids_by_row(path: Path, name: str) -> dict[int, str | None] | None:
    """Return the ids of an audit's people by their rows, from its table of individuals; None where it has none."""
    try:
        columns = pq.read_schema(path).names
        if len(columns) < 2 or columns[1] not in (name, name + ID_SUFFIX):
            return None
        table = pq.read_table(path, columns=columns[:2])
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"{path} cannot be read as Parquet: {first_line(error)}.") from error
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def predictions(findings: Findings, x: FloatArray) -> dict[str, FloatArray]:
    """Return the outputs of the model (n,) by name: the probability of each class, or numbers."""
    given = findings.model(x)
    label = findings.people.schema.label
    classes = label.classes if label is not None and len(label.classes) == given.shape[1] else ()
    if findings.model.head == "regression":
        names = ["prediction"] if given.shape[1] == 1 else [f"prediction {i}" for i in range(given.shape[1])]
    else:
        names = [f"probability of {name}" for name in classes or range(given.shape[1])]
    return {name: given[:, i] for i, name in enumerate(names)}


def _raw(schema: Schema, x: FloatArray) -> pd.DataFrame:
    table = schema.decode(x)
    mixed = {name: table[name].astype("string") for name in table.columns if table[name].dtype == "object"}
    return table.assign(**mixed)
