"""``isonomy shift``: how far two populations are apart, and which gamma covers it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from isonomy.auditing.plan import Plan
from isonomy.cli.audit import TABLE
from isonomy.cli.console import Answer
from isonomy.options import Given, select, with_options

if TYPE_CHECKING:
    from isonomy.shift import Distance


@with_options(given=select(Plan, "schema", "order", "ground", *TABLE))
def shift(
    one: Annotated[str, typer.Argument(help="A table, or a name of the catalogue.")],
    other: Annotated[str, typer.Argument(help="Another table of the same schema.")],
    given: Given,
    sample: Annotated[int, typer.Option(help="At most so many individuals of each are compared at a time.")] = 2000,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
) -> Answer:
    """Measure the distance between two populations, and suggest a gamma.

    Example:

    isonomy shift this_year.csv last_year.csv --schema schema.toml

    The distance between two samples is never 0, even of one population: the floor says what sampling alone makes of it.
    Where whole tables were compared (--sample), the suggested gamma reaches the second table as it is, sampling noise
    included: a certificate for everybody of the first table with this gamma speaks about the second. Where samples were
    drawn it is what these are apart, and may fall short of the tables.
    """
    from isonomy.auditing.inputs import read_ground, read_table
    from isonomy.shift import wasserstein

    plan = Plan.of({"data": one, **given})
    tables, cost = [read_table(plan, source) for source in (one, other)], read_ground(plan.ground, None)
    found = wasserstein(*tables, order=plan.order, ground=cost, sample=sample, confidence=confidence, seed=plan.seed)
    suggested = rounded_up(found.estimate + 2 * found.spread)
    real = max(found.estimate - found.floor, found.lower, 0.0)
    facts = {"one": one, "other": other, **asdict(found), "suggested_gamma": suggested, "reaches": found.whole}
    lines = [
        str(found),
        f"Sampling alone explains {found.floor:.4g}; beyond that they are about {real:.4g} apart.",
        f"Suggested gamma: {suggested:g}, {reach(found)}.",
    ]
    return Answer(facts, lines)


def reach(found: Distance) -> str:
    """What is known of the distance between the tables themselves."""
    if found.whole:
        return "which reaches the second table as it is"
    sizes = zip(found.individuals, (found.n_one, found.n_other), strict=True)
    drawn = " and ".join(f"{some:,} of {everybody:,}" for some, everybody in sizes)
    most = max(found.n_one, found.n_other)
    return f"about what samples of {drawn} are apart; whether it reaches the second table, --sample {most} would tell"


def rounded_up(value: float, digits: int = 2) -> float:
    """A number with two digits that is not smaller."""
    from decimal import ROUND_CEILING

    from isonomy.arithmetic import rounded

    if value <= 0 or not math.isfinite(value):
        return max(value, 0.0)
    return float(rounded(value, digits - 1 - math.floor(math.log10(value)), ROUND_CEILING))
