"""``isonomy datasets``: the tables of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isonomy.cli.console import Answer, answering

app = typer.Typer(help="Tables to start with: what there is, and how to have it as files.", no_args_is_help=True)


@app.command("list")
@answering
def listed() -> Answer:
    """List the tables of the catalogue.

    Example:

    isonomy datasets list
    """
    from rich.table import Table

    from isonomy.datasets import describe
    from isonomy.datasets.catalogue import ENTRIES

    found = [describe(name) for name in sorted(ENTRIES)]
    table = Table("name", "people", "protected", "here")
    for one in found:
        here = ", ".join(one.here[:3]) + (f", … ({len(one.here)})" if len(one.here) > 3 else "")
        table.add_row(one.name, one.size, ", ".join(one.protected), here or "to be downloaded")
    facts = [{"name": one.name, "size": one.size, "protected": one.protected, "here": one.here} for one in found]
    return Answer(facts, [table])


@app.command()
@answering
def show(name: Annotated[str, typer.Argument(help="A name of the catalogue.")]) -> Answer:
    """Tell everything about one table: source, licence, protected attributes, caveats.

    Example:

    isonomy datasets show german
    """
    from dataclasses import asdict

    from isonomy.datasets import describe

    found = describe(name)
    return Answer(asdict(found), [str(found)])


@app.command()
@answering
def fetch(
    name: Annotated[str, typer.Argument(help="A name of the catalogue.")],
    state: Annotated[list[str] | None, typer.Option(help="Of a survey, such as CA; may be repeated.")] = None,
    year: Annotated[list[int] | None, typer.Option(help="Of a survey, such as 2018; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="The folder to write NAME.parquet and NAME.toml to.")] = Path(),
) -> Answer:
    """Write a table and its schema as files, downloading it where it is not here.

    Example:

    isonomy datasets fetch acs-income --state CA --state TX --out data
    """
    from isonomy.datasets import load_population
    from isonomy.files import atomic

    people = load_population(name, states=state or None, years=year or None)
    stem = "-".join([name, *map(str, state or ()), *map(str, year or ())])
    table, schema = out / f"{stem}.parquet", out / f"{stem}.toml"
    with atomic(table) as part:
        people.frame.to_parquet(part, index=False)
    with atomic(schema) as part:
        part.write_text(people.schema.to_toml(), encoding="utf-8")
    facts = {"table": str(table), "schema": str(schema), "people": len(people)}
    return Answer(facts, [f"Written: {table} ({len(people):,} people), {schema}"])
