"""Writing a dossier: one folder with the pages and tables of :mod:`isonomy.report.dossier`, and their audit."""

from __future__ import annotations

import secrets
import shutil
from os import PathLike
from pathlib import Path

from isonomy.auditing.output import QUESTION, check_folder, link, replace_directory, write
from isonomy.errors import FileError, ParameterError
from isonomy.files import file_hash
from isonomy.report.dossier import Dossier
from isonomy.report.findings import Findings
from isonomy.report.laws import Laws

AUDIT, SUMS = "audit", "SHA256SUMS"
"""The folder of the audit, and the file with the hashes of the others."""

DOSSIER_FILES = frozenset({
    AUDIT, SUMS, "dossier.md", "annex-iv.md", "inputs.csv", "flips.csv", "proxies.csv", "impact-ratios.csv",
    "laws.toml",
})  # fmt: skip
"""What a dossier consists of."""


def check_dossier(directory: str | PathLike[str], audit: Path | None = None) -> Path:
    """Return the directory if a dossier may be written there, next to the ``audit`` and not inside it."""
    target = check_folder(Path(directory), "dossier", "dossier", DOSSIER_FILES)
    if audit is not None:
        ours, theirs = target.resolve(), audit.resolve()
        if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
            raise ParameterError(f"'dossier' must be a folder beside that of the audit, {audit}. Got {target}.")
    return target


def write_dossier(
    findings: Findings, directory: str | PathLike[str], *, laws: Laws | None = None, audit: Path | None = None,
    key: str | None = None,
) -> Path:  # fmt: skip
    """Write a dossier with the ``audit`` that was written already, or with a new one that ``key`` signs."""
    target = check_dossier(directory, audit)
    staging = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        staging.mkdir(parents=True)
        if audit is None:
            write(findings, staging / AUDIT, key=key)
        else:
            link(audit, staging / AUDIT)
            _copy_question(audit, staging / AUDIT)
        behind = file_hash(staging / AUDIT / "certificate.json")
        sums = [f"{behind}  {AUDIT}/certificate.json"]
        for name, text in sorted(Dossier(findings, laws or Laws.read(), behind).files().items()):
            (staging / name).write_text(text, encoding="utf-8", newline="\n")
            sums.append(f"{file_hash(staging / name)}  {name}")
        (staging / SUMS).write_text("\n".join([*sums, ""]), encoding="utf-8", newline="\n")
        replace_directory(staging, target)
    except OSError as error:
        raise FileError(f"'dossier' cannot be written: {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _copy_question(audit: Path, kept: Path) -> None:
    """Put copies in the place of links to the files of the question, which people edit to ask another one."""
    if (audit / QUESTION).is_dir():
        shutil.rmtree(kept / QUESTION)
        shutil.copytree(audit / QUESTION, kept / QUESTION)
