"""``isonomy key``: make, list, rotate and expire API keys of the service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from isonomy.cli.console import Answer, answering
from isonomy.cli.service import part
from isonomy.errors import ParameterError

app = typer.Typer(help="API keys of 'isonomy serve'.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the key, which the log of the service has.")]
Keys = Annotated[Path, typer.Option(help="The file of keys, as for 'isonomy serve'.")]
Expires = Annotated[
    str | None, typer.Option(help="The last day on which it can be used, as 2027-01-31, or 2027-01-31T12:00:00Z (UTC).")
]
Roles = Annotated[str | None, typer.Option(help="Some of predict, read and admin, with commas. Default: predict,read.")]
Allowed = Annotated[str | None, typer.Option(help="Requests, at most: 10/s, 600/min, 5000/h or 100000/d.")]
DAY = timedelta(days=1)
ONCE = "It is shown this once; the file has only its hash."


@app.command()
@answering
def new(name: Name, keys: Keys, expires: Expires = None, roles: Roles = None, rate: Allowed = None) -> Answer:
    """Make a key, write its hash to the file, and show the key once.

    Example:

    isonomy key new bank-1 --keys keys.txt --expires 2027-01-31 --roles predict --rate 10/s
    """
    keyed, now = part("isonomy.service.keys"), datetime.now(UTC)
    terms = _terms(keyed, now, expires, roles, rate)
    with keyed.edited_keys(keys) as (lines, known):
        if any(key is not None and key.name == name and keyed.is_valid(key, now) for key in known):
            raise ParameterError(f"'{keys}' has a valid key named '{name}': use 'isonomy key rotate', or another name.")
        secret, key = keyed.new_key(name, **terms)
        lines.append(key.line())
    return Answer({"key": secret, **key.terms()}, [secret, ONCE])


@app.command("list")
@answering
def listed(keys: Keys) -> Answer:
    """List the keys of the file, with the beginning of each hash.

    Example:

    isonomy key list --keys keys.txt
    """
    from rich.table import Table

    keyed, now = part("isonomy.service.keys"), datetime.now(UTC)
    table = Table("name", "hash", "roles", "rate", "expires", "")
    facts = []
    for key in keyed.read_keys(keys):
        valid = keyed.is_valid(key, now)
        facts.append({**key.terms(), "hash": key.digest[:8], "valid": valid})
        ends = "never" if key.expires is None else keyed.written(key.expires)
        state = "valid" if valid else "expired"
        table.add_row(key.name, key.digest[:8], ", ".join(key.roles), str(key.rate or "any"), ends, state)
    return Answer(facts, [table])


@app.command()
@answering
def rotate(
    name: Name,
    keys: Keys,
    overlap_days: Annotated[float, typer.Option(help="How long the old key can still be used.", min=0.0)] = 7.0,
    expires: Expires = None,
) -> Answer:
    """Make a second key of a name, with the same roles and rate; the old one expires after an overlap.

    Example:

    isonomy key rotate bank-1 --keys keys.txt --overlap-days 7 --expires 2028-01-31
    """
    keyed, now = part("isonomy.service.keys"), datetime.now(UTC).replace(microsecond=0)
    with keyed.edited_keys(keys) as (lines, known):
        old = keyed.valid_keys(known, name, now, keys)[-1]
        if old.expires is not None and expires is None:
            shown = keyed.written(old.expires)
            raise ParameterError(f"The key '{name}' expires {shown}: say by --expires when the new one does.")
        ends = keyed.end_keys(lines, known, name, now, min(overlap_days, 36_500.0) * DAY + now)
        secret, key = keyed.new_key(name, **_terms(keyed, now, expires), roles=old.roles, rate=old.rate)
        lines.append(key.line())
    until = f"Keys of this name from before can be used until {keyed.written(ends)}."
    return Answer({"key": secret, **key.terms(), "before_expire": keyed.written(ends)}, [secret, ONCE, until])


@app.command()
@answering
def expire(
    name: Name,
    keys: Keys,
    at: Annotated[str | None, typer.Option(help="The last day, or a moment, as for --expires. Default: now.")] = None,
) -> Answer:
    """Let all keys of a name expire, now or later.

    Example:

    isonomy key expire bank-1 --keys keys.txt
    """
    keyed, now = part("isonomy.service.keys"), datetime.now(UTC).replace(microsecond=0)
    with keyed.edited_keys(keys) as (lines, known):
        keyed.valid_keys(known, name, now, keys)
        ends = keyed.end_keys(lines, known, name, now, now if at is None else keyed.parsed_moment(at))
    shown = keyed.written(ends)
    return Answer({"name": name, "expires": shown}, [f"All keys named '{name}' can be used until {shown}."])


def _terms(
    keyed: Any, now: datetime, expires: str | None, roles: str | None = None, rate: str | None = None
) -> dict[str, Any]:
    """Return the terms that were given, as the service has them; a new key must not have expired."""
    readers = {"expires": keyed.parsed_moment, "roles": keyed.parsed_roles, "rate": keyed.parsed_rate}
    given = {"expires": expires, "roles": roles, "rate": rate}
    terms = {name: readers[name](value) for name, value in given.items() if value is not None}
    if "expires" in terms and terms["expires"] <= now:
        raise ParameterError(f"'expires' must be a time to come. Got {keyed.written(terms['expires'])}.")
    return terms
