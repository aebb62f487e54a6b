"""``isonomy verify`` and ``compare``: commands on existing certificates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from isonomy.cli.console import Answer
from isonomy.errors import FileError


def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json, its evidence beside it.")],
    model: Annotated[Path | None, typer.Option(help="The model file: is it the one that was certified?")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The table: is it the one that was certified? Or a folder of withheld arrays (.bin)."),
    ] = None,
    signer: Annotated[str | None, typer.Option(help="The public key that must have signed it.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Derive everybody, also in a large table.")] = False,
    seed: Annotated[int | None, typer.Option(help="Look at those whom an earlier check drew; proves nothing.")] = None,
) -> Answer:
    """Derive the claims of a certificate again, with the kernel alone, which needs numpy and nothing of the library.

    Example:

    isonomy verify audit-german/certificate.json

    With --model and --data the original files are read anew, as the certificate says, and compared. Every claim is
    proved again, recomputed, looked at, trusted, not checked or rejected. Of a table of more than 20,000 people some
    are drawn, and what that is worth is said. Exit status: 0 accepted, 1 not, 2 a file is missing, changed or
    malformed, 3 looked at only, by a seed that the issuer could know. The same check without this package: python -m
    isonomy_verify certificate.json
    """
    file = _certificate(certificate)
    checker, status = import_module("isonomy_verify"), import_module("isonomy_verify.check").STATUS
    folder = data if data is not None and any(data.glob("*.bin")) and not _has_table(data) else None
    try:
        report = checker.verify(file, data=folder, signer=signer, everybody=everybody, seed=seed)
    except checker.BadInput as error:
        raise FileError(f"The certificate {file} cannot be checked: {error}") from error
    report.claims += _originals(file, model, data if folder is None else None)
    facts = {name: value for name, value in vars(report).items() if name != "claims"}
    facts |= {
        "accepted": report.accepted,
        "result": report.answer,
        "claims": [dict(zip(("claim", "status", "detail"), each, strict=True)) for each in report.claims],
    }
    return Answer(facts, _show(report), status[report.result])


def _show(report: Any) -> Iterator[Any]:
    """Yield framed tables: a long line is wrapped within its frame, so that no line begins with a stranger's words."""
    from rich.table import Table
    from rich.text import Text

    question = Table("question", "", show_header=False)
    for name, detail in report.question.items():
        question.add_row(Text(name), Text(detail))
    yield question
    table = Table("claim", "", "detail")
    colours = {"proved again": "green", "recomputed": "green", "rejected": "bold red"}
    colours |= {"trusted": "yellow", "looked at": "yellow"}
    for name, status, detail in report.claims:
        table.add_row(Text(name), status, Text(detail), style=colours.get(status))
    yield table
    yield f"{report.answer.capitalize()}."


def _has_table(folder: Path) -> bool:
    """Return whether a folder holds a table, which a stray array in it does not make a folder of arrays."""
    from isonomy.population.tables import CSV, PARQUET

    return any(each.name.lower().endswith((*PARQUET, *CSV)) for each in folder.iterdir())


def _originals(file: Path, model: Path | None, data: Path | None) -> list[tuple[str, str, str]]:
    """Compare files with those that the audit read; return claims with status and detail."""
    from isonomy.auditing.originals import check_data, check_model
    from isonomy.records import read

    checks = [(check, each) for check, each in ((check_model, model), (check_data, data)) if each is not None]
    for _, each in checks:
        if not (each.is_file() or (each == data and each.is_dir())):
            raise FileError(f"There is no file '{each}'.")
    return [claim for check, each in checks for claim in check(read(file), each)]


def compare(
    old: Annotated[Path, typer.Argument(help="certificate.json, or the directory of an audit.")],
    new: Annotated[Path, typer.Argument(help="The one to compare with it.")],
) -> Answer:
    """Say what changed between two audits, as Markdown for pull requests.

    Example:

    isonomy compare audit-main audit-branch >> comment.md
    """
    import pandas as pd

    from isonomy.auditing.output import INDIVIDUALS
    from isonomy.records import read
    from isonomy.report.comparison import facts_of_change
    from isonomy.report.text import change_to_markdown, to_json

    files = [_certificate(path) for path in (old, new)]
    before, after = map(read, files)
    people = [pd.read_parquet(beside) if (beside := named_beside(file, INDIVIDUALS)) else None for file in files]
    facts = facts_of_change(before, after, people)
    return Answer(to_json(facts), change_to_markdown(facts).splitlines())


def named_beside(certificate: Path, name: str) -> Path | None:
    """Return the path of a file in the certificate's folder that the certificate names, None where it names none or
    the file is missing; a file that it does not name may contain anything, one that differs is refused.
    """
    kernel = import_module("isonomy_verify.record")
    try:
        record = kernel.Record.read(certificate)
        record.check_beside()
    except kernel.BadInput as error:
        raise FileError(f"The certificate {certificate} cannot be used: {error}") from error
    file = record.folder / name
    return file if name in record.hashes and file.is_file() else None


def _certificate(path: Path) -> Path:
    """Return the path of a certificate, or of that in a directory."""
    file = path / "certificate.json" if path.is_dir() else path
    if not file.is_file():
        raise FileError(f"There is no certificate {file}.")
    return file
