"""``isonomy init``: a first schema and plan, from a table and a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from isonomy.cli.console import Answer, remark

_ROLES = "What columns are"


def init(
    data: Annotated[Path, typer.Argument(help="The table of people: .csv, .tsv or .parquet.")],
    model: Annotated[Path, typer.Argument(help="The network file.")],
    label: Annotated[
        str | None, typer.Option(help="The outcome that the model predicts.", rich_help_panel=_ROLES)
    ] = None,
    protected: Annotated[
        list[str] | None, typer.Option(help="Must not matter, such as sex; may be repeated.", rich_help_panel=_ROLES)
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="Stands in for a protected column; may be repeated.", rich_help_panel=_ROLES),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Sampling weights.", rich_help_panel=_ROLES)] = None,
    split_column: Annotated[
        str | None, typer.Option(help="Tells training rows from test rows.", rich_help_panel=_ROLES)
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="To be left out; may be repeated.", rich_help_panel=_ROLES)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> Answer:
    """Write a commented schema.toml and audit.toml from a table and a model, every guess marked.

    Example:

    isonomy init people.csv model.onnx --label approved --protected sex --protected age

    Read both files and correct what is marked as a guess: which values anybody can have, which columns are protected or
    proxies, what tolerance makes two people alike, how the model reads its columns. Then: isonomy audit audit.toml
    """
    from isonomy.auditing.initial import propose, save

    found = propose(
        data, model, folder=out, label=label, protected=protected or (), proxies=proxy or (), weight=weight,
        split=split_column, ignore=ignore or (),
    )  # fmt: skip
    schema, audit = save(found, out, force=force)
    facts = {"schema": str(schema), "audit": str(audit), "ready": found.ready, "notes": list(found.notes)}
    return Answer(facts, _words(found.notes, schema, audit))


def _words(notes: Iterable[str], schema: Path, audit: Path) -> Iterator[str]:
    yield f"Written: {schema}, {audit}"
    for note in notes:
        remark(f"- {note}")
    yield f"Read and correct both, then: isonomy audit {audit}"
