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
    certificate: Annotated[
        str | None, typer.Option(help="A certificate of the first table: is it still about the second one?")
    ] = None,
) -> Answer:
    """Measure the distance between two populations, and suggest a gamma where a shift is shown.

    Example:

    isonomy shift this_year.csv last_year.csv --schema schema.toml

    The distance between two samples is never 0, even of one population: the floor says what sampling alone makes of it.
    A gamma is suggested only where the populations differ with confidence, and never below the lower bound of their
    distance; else it is said that no shift is shown, and what a certificate with the floor as gamma would mean.

    Where whole tables were compared (--sample), a gamma at or above their distance reaches the second table as it is,
    sampling noise included: a certificate for everybody of the first table with this gamma speaks about the second.
    Where samples were drawn it is what these are apart, and may fall short of the tables.

    With --certificate the people of the second table are bounded, and the index of each notion that it speaks of is
    measured: the stability index, the largest part that they can be, the share of groups that were not audited. It is
    expired where the lower confidence bound exceeds what is certified, it holds where the upper one lies below, and
    else that is not known. The exit status is 1 where it is expired.
    """
    from isonomy.auditing.inputs import read_ground, read_table
    from isonomy.shift import wasserstein

    plan = Plan.of({"data": one, **given})
    if certificate is not None:
        return _still_about(plan, other, certificate, confidence)
    tables, cost = [read_table(plan, source) for source in (one, other)], read_ground(plan.ground, None)
    distance = wasserstein(*tables, order=plan.order, ground=cost, sample=sample, confidence=confidence, seed=plan.seed)
    reaching = rounded_up(max(distance.estimate + 2 * distance.spread, distance.lower))
    floor = rounded_up(distance.floor)
    sentences = shifted(distance, reaching) if distance.shown else unshifted(distance, reaching, floor)
    facts = {"one": one, "other": other, **asdict(distance), "shown": distance.shown, "reaches": distance.whole}
    facts |= {"suggested_gamma": reaching if distance.shown else None, "reaching_gamma": reaching, "floor_gamma": floor}
    return Answer(facts | {"sentences": sentences}, [str(distance), *sentences])


def _still_about(plan: Plan, other: str, certificate: str, confidence: float) -> Answer:
    """Measure the index of each notion of a certificate for the people of another table."""
    from pathlib import Path

    from isonomy.auditing.indices import measure
    from isonomy.auditing.inputs import read_table
    from isonomy.given import number
    from isonomy.records import read

    number("confidence", confidence, "a number between 0 and 1", 0.0, 1.0, strict=True)
    record = read(Path(certificate))
    people = read_table(plan, other, record.schema)
    measured = measure(record, people, confidence, plan.seed)
    states = {each.state for each in measured}
    facts = {"certificate": certificate, "other": other, "individuals": len(people), "confidence": confidence}
    listed = [asdict(each) | {"upper": None if math.isinf(each.upper) else each.upper} for each in measured]
    lines = [f"{len(people):,} people of {other}, with confidence {confidence:g}:", *map(str, measured)]
    return Answer(facts | {"indices": listed}, lines, 1 if "expired" in states else 0)


def shifted(distance: Distance, suggested: float) -> list[str]:
    """Explain the suggested gamma of a shift that is shown: at least its lower bound, and reaching the second table."""
    real = max(distance.estimate - distance.floor, distance.lower)
    return [
        f"Sampling alone explains {distance.floor:.4g}; beyond that they are about {real:.4g} apart.",
        f"Suggested gamma: {suggested:g}, {reach(distance)}.",
    ]


def unshifted(distance: Distance, reaching: float, floor: float) -> list[str]:
    """Explain why no gamma is suggested, what the floor as gamma means, and which gamma reaches the second table."""
    moved = {1.0: "moved so far on average", math.inf: "moved so far at most"}
    how = moved.get(distance.order, f"moved so far in the mean of order {distance.order:g}")
    category = {"l1": "2", "l2": "1.41", "linf": "1"}.get(distance.ground)
    price = "" if category is None else f" (another category costs {category})"
    return [
        "No shift is shown: the lower confidence bound of the distance is 0. No gamma is suggested.",
        f"Sampling alone explains {distance.floor:.4g}: a certificate with gamma = {floor:g} would speak of every "
        f"population in which people are {how}{price}, and pay for the noise of samples of this size, not for a shift.",
        f"Where the second table itself is meant: gamma {reaching:g}, {reach(distance)}.",
    ]


def reach(distance: Distance) -> str:
    """Describe what is known of the distance between the tables themselves."""
    if distance.whole:
        return "which reaches the second table as it is"
    sizes = zip(distance.individuals, (distance.n_one, distance.n_other), strict=True)
    samples = " and ".join(f"{drawn:,} of {total:,}" for drawn, total in sizes)
    most = max(distance.n_one, distance.n_other)
    return f"about what samples of {samples} are apart; whether it reaches the second table, --sample {most} would tell"


def rounded_up(value: float) -> float:
    """Round a number up to two digits."""
    from decimal import ROUND_CEILING

    from isonomy.arithmetic import rounded

    if value <= 0 or not math.isfinite(value):
        return max(value, 0.0)
    return float(rounded(value, 1 - math.floor(math.log10(value)), ROUND_CEILING))
