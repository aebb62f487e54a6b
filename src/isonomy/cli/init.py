"""``isonomy init``: a first schema and plan, from a table and a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from isonomy.auditing.plan import Plan, Roles
from isonomy.cli.console import Answer, remark
from isonomy.options import Given, select, with_options


@with_options(given=select(Roles), reading=select(Plan, "table_limit"))
def init(
    data: Annotated[Path, typer.Argument(help="The table of people: .csv, .tsv or .parquet.")],
    model: Annotated[Path, typer.Argument(help="The model file.")],
    given: Given,
    reading: Given,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> Answer:
    """Write a commented schema.toml and audit.toml from a table and a model, every guess marked.

    Example:

    isonomy init people.csv model.onnx --label approved --protected sex --protected age

    Read both files and correct what is marked as a guess: which values anybody can have, which columns are protected or
    proxies, what tolerance makes two people alike, how the model reads its columns. Then: isonomy audit audit.toml
    """
    from isonomy.auditing.proposal import propose, save

    proposal = propose(data, model, Roles(**given), out, Plan(**reading).table_limit)
    schema, audit = save(proposal, out, force=force)
    facts = {"schema": str(schema), "audit": str(audit), "ready": proposal.ready, "notes": list(proposal.notes)}
    return Answer(facts, _words(proposal.notes, schema, audit))


def _words(notes: Iterable[str], schema: Path, audit: Path) -> Iterator[str]:
    yield f"Written: {schema}, {audit}"
    for note in notes:
        remark(f"- {note}")
    yield f"Read and correct both, then: isonomy audit {audit}"
