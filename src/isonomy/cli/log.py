"""``isonomy log``: is the audit log of the service as it was written?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isonomy.cli.console import Answer, answering
from isonomy.cli.extras import part

app = typer.Typer(help="The audit log of 'isonomy serve'.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep 'verify' a command of its own, though there is no other."""


@app.command()
@answering
def verify(
    place: Annotated[
        str, typer.Argument(metavar="LOG", help="Its folder, its database file, or postgresql://user@host/name.")
    ],
    head: Annotated[str | None, typer.Option(help="A head that was noted elsewhere: it must be in the chain.")] = None,
) -> Answer:
    """Follow the chain of hashes through an audit log, and find the first record that is not as it was written.

    Example:

    isonomy log verify log/ --head 5f1c0e...

    Prints the head: note it where whoever writes the log cannot. Without --head nobody sees that the end was cut off,
    or that everything was linked anew. Exit status: 0 as it was written, 1 not.
    """
    database, chain = part("isonomy.service.database"), part("isonomy.service.chain")
    with database.read_only(place) as connection:
        found = chain.verify(connection, None if head is None else head.strip().lower())
    lines = [f"Records: {found.records}", f"Head:    {found.head}"]
    if found.forgotten:
        lines.append(f"{found.forgotten} requests were deleted by retention, as records of the chain say.")
    if found.wrong is not None:
        lines = [found.wrong, f"Up to there: {found.records} records, the last one with hash {found.head}."]
    elif head is not None:
        lines.append(f"The anchored head is in the chain, {found.after_anchor} records before its end.")
    else:
        lines.append("No record was edited, removed or moved, unless the end was cut off or all was linked anew.")
        lines.append("Only a head that was noted elsewhere (--head) shows that.")
    return Answer(asdict(found), lines, 0 if found.wrong is None else 1)
