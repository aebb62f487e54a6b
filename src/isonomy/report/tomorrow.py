"""Other populations than the one that was audited: what is proved and shown of each, the curve over γ, and the
distances to populations that were measured."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from isonomy.certificates.certificate import Certificate, judge
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.transport import plain_order
from isonomy.errors import IsonomyError
from isonomy.fairness.groups import feature_groups, make_groupings
from isonomy.report.findings import Findings
from isonomy.report.numbers import cell, parameter, percent, round_up, spoken
from isonomy.report.sections import (
    NOT_SEARCHED,
    NOTHING,
    UNSEARCHED,
    Cell,
    Fact,
    Rounded,
    Section,
    exact,
    percentage,
    round_down,
    table,
)
from isonomy.shift import Distance
from isonomy_verify.arithmetic import mean_down, mean_up, up
from isonomy_verify.claims import downward, outward
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE, deflated

MANY_POINTS = 400_000
"""Attainable points from which on the curve has fewer places, as each needs a new allocation of the budget."""

DRAWN = (
    "These bounds hold for the population of which these people are a sample, provided that they are independent "
    "draws on which neither model nor metric nor schema was fitted. Each holds with that confidence, not all of them "
    "together."
)

MOST_LANES = 6

SHARE = Rounded(1, points=True)

NOT_ASKED = "answer.not_asked"
"""The code of a verdict on a population that nobody asked about: it fails no test."""

KNOWN = 2e-6
"""Between bounds of a share that differ by no more than this there is only rounding: far below the last digit shown."""


def tomorrow(findings: Findings, rounded: Rounded, population: Fact, groups: Collection[tuple[str, str]]) -> Section:
    """Tabulate what is proved and shown of each population; of the facts the first list is for machines, the others are
    verdicts. Then the curve over γ, and the distances that were measured. ``groups`` are those that a redacted page may
    speak of, by attributes and name."""
    certificate, rows, sampled, listing, verdicts = findings.certificate, list[Any](), list[Any](), [], []
    worst = list[Any]()
    still = [each for each in (certificate.shift, *certificate.shifts) if isinstance(each, Reweighting)]
    own = findings.certificate.individuals.claims(findings.people.weights, None)
    ends = [own["upper"], findings.claimed[1], *(claim["upper"] for claim in findings.certificate.shift_claims)]
    end = round_up(max(end for end in ends if math.isfinite(end)))
    if not (still and still[0].alone):
        rows.append(_row("These people", "as they are", own["lower"], own["upper"], None, end, rounded))
    for shift, claim in zip(still, findings.certificate.shift_claims, strict=True):
        name, changes = _name(shift), claim["changes"]
        title, says = shift.limit("")
        note = "as they are" if shift.alone else title[0].lower() + title[1:]
        rows.append(_row(name, note, claim["lower"], claim["upper"], changes, end, rounded))
        some = _worst_group(findings, shift.apart, end, rounded, groups)
        rows, worst = [*rows, *some], [*worst, *some]
        bounds = {side: claim[side] for side in ("upper", "lower")}
        shares = None if changes is None else {side: changes[side] for side in ("upper", "lower")}
        listing.append({"shift": shift.section(), **bounds, "changes": shares, "does_not_say": says})
        if claim.get("behind") is not None:
            mean, both = claim["behind"], None if changes is None else changes["behind"]
            share = "" if both is None else share_between(both["lower"], both["upper"])
            bound = rounded.proved("behind.upper", "Behind the sample, at most", mean["upper"])
            sampled.append((_name(shift, "the population behind these people"), bound, share))
            sides = None if both is None else {side: both[side] for side in ("upper", "lower")}
            listing[-1]["behind"] = {"upper": mean["upper"], "changes": sides}
        if certificate.epsilon is not None:
            verdict = judge(claim["lower"], claim["upper"], certificate.epsilon)
            asked = shift is certificate.shift or findings.shifts_asked
            verdicts.append(exact("answer.verdict" if asked else NOT_ASKED, name, verdict))
    if certificate.shift.ground_cost is not None and not certificate.shift.alone:
        name = f"Any {certificate.shift.words('these people')}"
        rows.append(_row(name, "people change too", *findings.claimed, certificate.change_claims, end, rounded))
    moved = certificate.shift.ground_cost is not None
    if not certificate.refusal and (moved or not sampled):
        who, both = "The population behind these people", (certificate.change_claims or {}).get("behind")
        share = "" if both is None else share_between(both["lower"], both["upper"])
        sampled.append((f"Any {certificate.shift.words(who.lower())}" if moved else who, population, share))
    listing += _moved(certificate)
    shown = table("populations-table", "The average of the largest changes, for other people than these", "Who@wide",
                  f"0 to {rounded.plain(end)}@drawn", "Worst shown, at least#", "Proved, at most#",
                  "Decisions that can change#", rows=rows)  # fmt: skip
    first = exact("populations", "Other populations", listing, "")
    curve, drawn = _curve(findings, rounded)
    title = f"Behind the sample, each with {percent(certificate.confidence or 0)} confidence"
    behind = table("behind", title, "Population@wide", "Proved, at most#", "Decisions that can change#", rows=sampled,
                   notes=(DRAWN,))  # fmt: skip
    distances = (*([behind] if sampled else []), *_distances(findings), *_meaning(findings))
    unsearched = () if certificate.searched else (f"{UNSEARCHED[0].upper()}{UNSEARCHED[1:]}.",)
    sentences = (_headline([row for row in rows if row not in worst]), *unsearched, *strangers(findings, rounded))
    return Section("tomorrow", (first, *verdicts), sentences, (shown, *curve, *distances), drawn=drawn)


def _moved(certificate: Certificate) -> list[dict[str, Any]]:
    """Return, for machines, the shift in which individuals move, where something is said of its decisions."""
    changes = certificate.change_claims
    if changes is None or certificate.shift.size == math.inf:
        return []
    claimed, section = certificate.claimed, certificate.shift.section()
    section = {name: "inf" if value == math.inf else value for name, value in section.items()}
    shares = {side: changes[side] for side in ("upper", "lower")}
    listed = {"shift": section, "upper": claimed.upper, "lower": claimed.lower, "changes": shares}
    says = {"does_not_say": certificate.shift.limit("")[1]}
    if changes["behind"] is None:
        return [listed | says]
    sides = {side: changes["behind"][side] for side in ("upper", "lower")}
    return [listed | says | {"behind": {"upper": certificate.population_upper, "changes": sides}}]


def _name(shift: Reweighting, who: str = "these people") -> str:
    """Return the populations of a shift in a few words, ``who`` the people of which they are made."""
    return f"{who[0].upper()}{who[1:]}" if shift.alone else f"Any {shift.words(who)}"


def _worst_group(
    findings: Findings, features: tuple[str, ...], end: float, rounded: Rounded, groups: Collection[tuple[str, str]]
) -> list[Any]:
    """Return the group by these features whose bound is largest, by itself; nothing without features, where there is
    one group only, or where a redacted page may not speak of it.

    **Soundness.** Both sides are means of what is claimed of each of its people.
    """
    if not features:
        return []
    try:
        ((grouping,), _) = make_groupings(findings.people, [features], None)
    except IsonomyError:
        return []
    own, weights = findings.certificate.individuals, np.asarray(findings.people.weights, dtype=np.float64)
    high, low = own.highs(slice(None)), deflated(own.lower)
    members = (np.flatnonzero((grouping.code == code) & (weights > 0)) for code in range(len(grouping.names)))
    some = max((each for each in members if len(each)), key=lambda each: mean_up(high[each], weights[each]))
    if findings.redacted and (grouping.title, grouping.names[grouping.code[some[0]]]) not in groups:
        return []
    singles = {name: feature_groups(findings.people.schema, name, findings.people.x)[0] for name in features}
    name = ", ".join(f"{spoken(name)} “{each.names[each.code[some[0]]]}”" for name, each in singles.items())
    changes = None
    if own.decision.any():
        can, may = own.decision == FLIPPABLE, own.decision != CERTIFIED
        changes = {"lower": mean_down(can[some].astype(float), weights[some]),
                   "upper": mean_up(may[some].astype(float), weights[some])}  # fmt: skip
    count = "1 person" if len(some) == 1 else f"{len(some):,} people"
    bounds = downward(mean_down(low[some], weights[some])), outward(mean_up(high[some], weights[some]))
    return [_row("The group with the largest bound, by itself", f"{name}: {count}", *bounds, changes, end, rounded)]


def _headline(rows: list[Any]) -> str:
    """Return what is proved of the largest set of populations that anything was asked of."""
    if len(rows) < 2:
        return "Nothing was asked of other populations than these people."
    worst = max(rows[1:], key=lambda row: row[3].value)
    name = str(worst[0].text)
    where = f"In {name[0].lower()}{name[1:]}"
    if str(worst[3]) == NOTHING:
        shown = UNSEARCHED if str(worst[2]) == NOT_SEARCHED else f"shown is at least {worst[2]}"
        return f"{where} nothing was proved of the average largest change; {shown}."
    return f"{where} the average largest change is at most {worst[3]} (proved)."


def _row(name: str, note: str, lower: float, upper: float, changes: Any, end: float, rounded: Rounded) -> list[Any]:
    """Return one population: its bounds as numbers and as a bar, and the share of decisions that can change."""
    share: Any = "" if changes is None else share_between(changes["lower"], changes["upper"])
    return [
        Cell(name, note=note), Cell(drawn=("between", lower, upper, end)),
        rounded.attained("answer.lower", "Shown, at least", lower),
        rounded.proved("answer.upper", "Proved, at most", upper), share,
    ]  # fmt: skip


def share_between(low: float, high: float) -> Fact:
    """Return the fact of two bounds of a share of people, in per cent; one number where only rounding is between."""
    if high - low <= KNOWN:
        return Fact("answer.changes", "Decisions that can change", (low, high), "nearest", True, _spaced(low))
    ends = SHARE.lower(low), SHARE.upper(high)
    printed = f"{ends[0]} to {ends[1]} %" if ends[0] != ends[1] else f"{ends[0].removesuffix('.0')} %"
    return Fact("answer.changes", "Decisions that can change", (low, high), "outward", True, printed)


def _spaced(share: float) -> str:
    """Return a share in per cent, to the nearest; none that is partial is 0 or 100."""
    return percent(share if KNOWN < share < 1 - KNOWN else round(share)).replace("%", " %")


def strangers(findings: Findings, rounded: Rounded) -> tuple[str, ...]:
    """Return what each per cent of unknown people adds at most, where something is said of other populations."""
    if not findings.certificate.shift_claims:
        return ()
    alone = findings.certificate.individuals
    lower = alone.claims(findings.people.weights, None)["lower"]
    added = float(up(0.01 * up(alone.largest - lower)))
    return (
        f"Each per cent of unknown people, of whom nothing is known, adds at most {rounded.upper(added)}{rounded.unit} "
        "to the average of these people, and at most a per cent to the share of decisions that can change.",
    )


def _curve(findings: Findings, rounded: Rounded) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the bounds over γ as a table, and what a figure of them needs; nothing where no one moves."""
    certificate, places = findings.certificate, curve(findings)
    if len(places) < 2:
        return (), {}
    rows = [
        (parameter(place), rounded.attained("curve.lower", "Shown, at least", lower),
         rounded.proved("curve.upper", "Proved, at most", upper))
        for place, lower, upper in places
    ]  # fmt: skip
    own = next(number for number, place in enumerate(places) if place[0] == certificate.gamma)
    title, head = ("The average within each distance γ", "Distance γ")
    if certificate.shift.distance_cost is None:
        title, head, _ = certificate.shift.curve_words
    shown = table("curve-table", title, f"{head}#", "Shown, at least#", "Proved, at most#", rows=rows, marked=own)
    if certificate.shift.distance_cost is None:
        return (shown,), {}
    lanes = [
        (each.name, each.distance.lower, each.distance.estimate,
         f"at least {round_down(each.distance.lower)}, estimate {each.distance.estimate:.4g}")
        for each in findings.shifts if comparable(certificate, each.distance)
    ]  # fmt: skip
    points = [(place[0], *row[1:]) for place, row in zip(places, rows, strict=True)]
    drawn = {"places": points, "lanes": lanes[:MOST_LANES], "gamma": certificate.gamma, "epsilon": certificate.epsilon}
    return (shown,), drawn


def curve(findings: Findings) -> list[tuple[float, float, float]]:
    """Return places from 0 to beyond γ, with lower and upper bound; the certificate's own γ is one of them."""
    certificate = findings.certificate
    if certificate.shift.ground_cost is None or math.isinf(gamma := certificate.gamma):
        return []
    if gamma == 0:
        return [(0.0, *findings.claimed)]
    far = max((s.distance.estimate for s in findings.shifts if comparable(certificate, s.distance)), default=0.0)
    places = 8 if len(certificate.points.value) < MANY_POINTS else 3  # for each γ
    end = max(2.0, min(4.0, math.ceil(places * 1.1 * far / gamma) / places))
    # Numbers as they are printed, so that bounds hold for what is read.
    steps = [step / places for step in range(round(end * places) + 1)]
    gammas = [gamma if step == 1 else float(f"{gamma * step:.6g}") for step in steps]
    bounds = certificate.curve(gammas)
    if not np.isfinite(bounds["upper"]).all():
        return []
    # A larger ball holds the smaller one's populations, and a bound for it holds for the smaller one too.
    lower = np.maximum.accumulate(bounds["lower"].to_numpy())
    upper = np.minimum.accumulate(bounds["upper"].to_numpy()[::-1])[::-1]
    own = gammas.index(gamma)
    lower[own], upper[own] = findings.claimed
    upper = np.maximum.accumulate(upper)
    return list(zip(gammas, lower.tolist(), upper.tolist(), strict=True))


def _distances(findings: Findings) -> tuple[Any, ...]:
    """Tabulate how far populations that were measured are away."""
    certificate, rows = findings.certificate, []
    for each in findings.shifts:
        distance = each.distance
        least = Fact("shift.lower", "At least", distance.lower, "down", True, round_down(distance.lower))
        note = meaning(certificate, distance)
        rows.append((Cell(each.name, note=note), f"{distance.estimate:.4g}", f"{distance.floor:.4g}", least,
                     parameter(distance.confidence)))  # fmt: skip
    note = "Two samples of one population are about the floor apart, by which an estimate is too large."
    shown = table("shifts", "Populations that were measured, in the distance γ", "Population@wide", "Estimate#",
                  "Floor#", "At least#", "Confidence#", rows=rows, notes=(note,))  # fmt: skip
    return (shown,) if rows else ()


def meaning(certificate: Certificate, distance: Distance) -> str:
    """Return what an observed shift means for the certificate."""
    if not comparable(certificate, distance):
        says = "measured with another cost or order: not comparable with γ"
    elif distance.lower > certificate.gamma:
        says = "outside: this population is further away than γ, and the certificate does not cover it"
    elif distance.estimate <= certificate.gamma:
        says = "the estimate is within γ"
    elif distance.estimate <= distance.floor + 2 * distance.floor_spread:
        says = "no shift is visible: two samples of one population are as far apart"
    else:
        says = "not shown to be outside; the estimate, which noise makes too large, is beyond γ"
    sizes = " and ".join(f"{count:,}" for count in distance.individuals)
    return f"{says}; {sizes} people compared, exactly"


def comparable(certificate: Certificate, distance: Distance) -> bool:
    """Return whether a distance was measured in the certificate's own order and ground cost."""
    if certificate.shift.distance_cost is None:
        return False
    order = plain_order(certificate.ground)
    names = [certificate.ground.describe()] if order is None else [f"l{order:g}", certificate.ground.describe()]
    return distance.order == certificate.order and distance.ground in names


def _meaning(findings: Findings) -> tuple[Any, ...]:
    """Tabulate changes of everybody that cost γ, feature by feature, and how many people can change a category."""
    certificate = findings.certificate
    if certificate.shift.distance_cost is None or not 0 < certificate.gamma < math.inf:
        return ()
    ground, gamma, width = certificate.ground, certificate.gamma, findings.people.schema.width
    rows: list[Any] = []
    for feature in findings.people.schema.features:
        where = findings.people.schema.slices[feature.name]
        one, other = np.zeros((1, width)), np.zeros((1, width))
        if feature.kind == "categorical" and feature.width > 1:
            one[0, where.start], other[0, where.start + 1] = 1.0, 1.0
        else:
            other[0, where.start] = 1.0
        cost = float(ground.distance_upper(one, other)[0])
        if not 0 < cost < math.inf:
            continue
        if feature.kind == "categorical":
            if certificate.order == 1:
                share = min(1.0, gamma / cost)
                rows.append(
                    (
                        spoken(feature.name),
                        percentage("distance", "People", share),
                        "of the people, to another category",
                    )
                )
        else:
            raw = float(f"{gamma / cost * feature.unit:.3g}")
            rows.append(
                (
                    spoken(feature.name),
                    cell(raw),
                    "more or less for everybody" + (", in ranks" * (feature.kind == "ordinal")),
                )
            )
    title = f"How large a distance of {parameter(gamma)} is: each line alone costs so much"
    return (table("distance-table", title, "Feature", "About#", "", rows=rows),) if rows else ()
