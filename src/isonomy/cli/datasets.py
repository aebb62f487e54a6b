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

    from isonomy.datasets.catalogue import ENTRIES

    table = Table("name", "people", "protected")
    for one in ENTRIES.values():
        table.add_row(one.name, one.size, ", ".join(one.protected))
    facts = [{"name": one.name, "size": one.size, "protected": one.protected} for one in ENTRIES.values()]
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

    shown = describe(name)
    facts = asdict(shown) | {"protected": shown.protected, "proxies": shown.proxies}
    return Answer(facts, str(shown).splitlines())


@app.command()
@answering
def fetch(
    name: Annotated[str, typer.Argument(help="A name of the catalogue.")],
    out: Annotated[Path, typer.Option(help="The folder to write NAME.parquet and NAME.toml to.")] = Path(),
) -> Answer:
    """Write a table and its schema as files.

    Example:

    isonomy datasets fetch german --out data
    """
    from isonomy.datasets import load_population
    from isonomy.files import atomic

    people = load_population(name)
    table, schema = out / f"{name}.parquet", out / f"{name}.toml"
    with atomic(table) as part:
        people.frame.to_parquet(part, index=False)
    with atomic(schema) as part:
        part.write_text(people.schema.to_toml(), encoding="utf-8")
    facts = {"table": str(table), "schema": str(schema), "people": len(people)}
    return Answer(facts, [f"Written: {table} ({len(people):,} people), {schema}"])
