"""Populations nearby: the curve over γ, the shifts that were observed, the worst population against the real one."""

from __future__ import annotations

import math

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.protocol import Shift
from isonomy.certificates.transport import plain_order
from isonomy.population.feature import Feature
from isonomy.report.findings import Findings, role_of
from isonomy.report.numbers import decimals_of, parameter, percent, signed
from isonomy.report.privacy import SMALLEST, protected_cells
from isonomy.report.sections import Cell, Fact, Rounded, Section, round_down, table
from isonomy.shift import Distance

NOTHING = ("0", "0 points")
"""Changes that vanish in the digits shown, and are left out."""

MOST_CATEGORIES = 8
MANY_POINTS = 400_000
"""Attainable points from which on the curve has fewer places, as each needs a new allocation of the budget."""


Change = tuple[float, tuple[str, ...]]
"""The size of a change in coordinates, and its row: what, observed, worst case, change."""

Side = tuple[FloatArray, FloatArray]
"""One feature of the people of a population, in coordinates, and how much each of them counts."""


def shift(findings: Findings, rounded: Rounded) -> Section:
    """Tabulate the bounds over γ, and the observed shifts; of a shift without moves the bounds over its size."""
    if findings.certificate.shift.ground_cost is None:
        return _sizes(findings, rounded)
    certificate, places, measured, lanes = findings.certificate, curve(findings), [], []
    gamma = certificate.gamma
    rows = [
        (parameter(place), rounded.attained("curve.lower", "Found, at least", lower),
         rounded.proved("curve.upper", "Proved, at most", upper))
        for place, lower, upper in places
    ]  # fmt: skip
    own = next((number for number, place in enumerate(places) if place[0] == gamma), None)
    bounds = table("curve-table", "Mean violation of populations within γ", "Shift γ#", "Found: at least#",
                   "Proved: at most#", rows=rows, marked=own)  # fmt: skip
    for each in findings.shifts:
        distance, estimate, least = each.distance, f"{each.distance.estimate:.4g}", round_down(each.distance.lower)
        fact = Fact("shift.lower", "At least", distance.lower, "down", True, least)
        measured.append((each.name, estimate, f"{distance.floor:.4g}", fact, parameter(distance.confidence),
                         meaning(certificate, distance)))  # fmt: skip
        if comparable(certificate, distance):
            lanes.append((each.name, distance.lower, distance.estimate, f"at least {least}, estimate {estimate}"))
    others = table("shifts", "Observed shifts", "Population", "Estimate#", "Floor#", "At least#", "Confidence#",
                   "What it means@wide", rows=measured)  # fmt: skip
    points = [(place[0], *row[1:]) for place, row in zip(places, rows, strict=True)] if gamma > 0 else []
    why = {0.0: "γ is 0, and only these very people were judged.",
           math.inf: "γ is ∞, and the bound is that for every population."}  # fmt: skip
    none = () if points else (why.get(gamma, "no finite bound was proved."),)
    drawn = {"places": points, "lanes": lanes[:6], "gamma": gamma, "epsilon": certificate.epsilon}
    return Section("shift", (), none, (bounds, others), drawn=drawn)


def _sizes(findings: Findings, rounded: Rounded) -> Section:
    """Tabulate the bounds over sizes of a shift in which no individual moves, populations becoming more; if redacted,
    small parts of the people are left out. No distance is measured."""
    certificate, own = findings.certificate, findings.certificate.shift
    title, head, about = own.curve_words
    sizes = [size for size in own.sizes() if not findings.redacted or own.size == size
             or size * len(findings.people) >= SMALLEST]  # fmt: skip
    bounds = certificate.curve(sizes)
    # A bound of more populations holds for fewer, and what fewer of them reach more do too.
    lower = np.maximum.accumulate(bounds["lower"].to_numpy())
    upper = np.minimum.accumulate(bounds["upper"].to_numpy()[::-1])[::-1]
    place = sizes.index(own.size) if own.size in sizes else None
    if place is not None:
        lower[place], upper[place] = findings.claimed
        upper = np.maximum.accumulate(upper)
    rows = [
        (_printed(own.resized(size)), rounded.attained("curve.lower", "Found, at least", low),
         rounded.proved("curve.upper", "Proved, at most", high))
        for size, low, high in zip(sizes, lower.tolist(), upper.tolist(), strict=True)
    ]  # fmt: skip
    shown = table("curve-table", own.mean_words, f"{head}#", "Found: at least#", "Proved: at most#", rows=rows,
                  marked=place)  # fmt: skip
    drawn = {"places": (), "lanes": (), "gamma": None, "epsilon": certificate.epsilon}
    return Section("shift", (), (about, title), (shown, table("shifts", "", "", rows=[])), drawn=drawn)


def _printed(shift: Shift) -> str:
    """Return the size of a shift, as its terms have it."""
    value, printed = next((value, text) for code, _, value, text in shift.terms() if code == shift.size_name)
    return parameter(value) if printed is None else printed


def curve(findings: Findings) -> list[tuple[float, float, float]]:
    """Return places from 0 to beyond γ, with lower and upper bound; the certificate's own γ is one of them."""
    certificate = findings.certificate
    gamma = certificate.gamma
    if gamma == 0:
        return [(0.0, *findings.claimed)]
    if math.isinf(gamma):
        return []
    far = max((s.distance.estimate for s in findings.shifts if comparable(certificate, s.distance)), default=0.0)
    places = 8 if len(certificate.points.value) < MANY_POINTS else 3  # for each γ
    end = max(2.0, min(4.0, math.ceil(places * 1.1 * far / gamma) / places))
    # Numbers as they are printed, so that bounds hold for what is read.
    steps = [step / places for step in range(round(end * places) + 1)]
    gammas = [gamma if step == 1 else float(f"{gamma * step:.6g}") for step in steps]
    table = certificate.curve(gammas)
    if not np.isfinite(table["upper"]).all():
        return []
    # A larger ball holds the smaller one's populations, and a bound for it holds for the smaller one too.
    lower = np.maximum.accumulate(table["lower"].to_numpy())
    upper = np.minimum.accumulate(table["upper"].to_numpy()[::-1])[::-1]
    own = gammas.index(gamma)
    lower[own], upper[own] = findings.claimed
    upper = np.maximum.accumulate(upper)
    return list(zip(gammas, lower.tolist(), upper.tolist(), strict=True))


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
    order = plain_order(certificate.ground)
    names = [certificate.ground.describe()] if order is None else [f"l{order:g}", certificate.ground.describe()]
    return distance.order == certificate.order and distance.ground in names


def worst_population(findings: Findings, lower: str) -> Section:
    """Tabulate means and shares, weighted by mass, of the population that attains ``lower`` and of the observed one."""
    certificate, people, own = findings.certificate, findings.people, findings.certificate.shift
    if findings.redacted and len(people) < SMALLEST:
        return Section("worst", (), (f"Not shown, to protect fewer than {SMALLEST} people.",))
    if findings.redacted and own.ground_cost is None:
        few = f"Left out: this report is redacted, and the worst {own.noun} may be a few people."
        return Section("worst", (), (few,))
    worst = certificate.worst_case
    weights = people.weights / people.weights.sum(), worst.masses / worst.masses.sum()
    rows, unchanged, left_out = [], [], 0
    for feature in people.schema.features:
        where = people.schema.slices[feature.name]
        sides = [(people.x[:, where], weights[0]), (worst.points.person[:, where], weights[1])]
        if feature.kind == "categorical" or (feature.kind == "ordinal" and people.domain.kind == "realizable"):
            lines = _shares(feature, sides, findings.redacted)
        else:
            lines = _means(feature, sides)
        some = sorted((line for line in lines if line[1][-1] not in NOTHING), key=lambda line: -line[0])
        unchanged += [] if some else [feature.name]
        rows += [(Cell(feature.name, role_of(feature)), *texts) for _, texts in some[:MOST_CATEGORIES]]
        left_out += len(some[MOST_CATEGORIES:])
    if not rows:
        why = "a search found no change that makes the average worse"
        if own.alone:
            why = "nothing else was asked for" if own.ground_cost is None else "γ = 0 allows no change"
        elif not certificate.searched:
            why = "no search was made for a change that makes the average worse"
        return Section("worst", (), (f"It is the observed population itself: {why}.",))
    how = (
        f"The {own.noun} that reaches {lower} holds {percent(worst.total / people.weights.sum())} of these people. "
        "This is how it differs from all of them. It is the worst that was found, not the worst there is."
    )
    if own.ground_cost is not None:
        moved = float(worst.masses[worst.points.cost > 0].sum() / worst.masses.sum())
        how = (
            f"The population that reaches {lower} comes from these people by changing {percent(moved)} of them, at a "
            f"cost of {worst.transport:.3g} (γ = {parameter(certificate.gamma)}). This is how it differs from the one "
            "that was observed: read it as the kind of shift to watch for. It is the worst that was found, not the "
            "worst there is."
        )
    notes = [f"{left_out} smaller changes of categories are left out."] if left_out else []
    notes += [f"Categories of fewer than {SMALLEST} people are not shown."] if findings.redacted else []
    notes += [f"The same in both, to the digits shown: {', '.join(unchanged)}."] if unchanged else []
    shown = table("worst-table", "Observed and worst-case population, feature by feature", "Feature", "", "Observed#",
                  "Worst case#", "Change#", rows=rows, notes=tuple(notes))  # fmt: skip
    return Section("worst", (), (how,), (shown,))


def _means(feature: Feature, sides: list[Side]) -> list[Change]:
    """Return the mean of a number where it is known, and the share of people for whom it is missing."""
    missing = []
    if feature.flagged:
        missing = [_share(feature.missing_label, *(float(block[:, 1] @ weight) for block, weight in sides))]
        sides = [(block, weight * (1 - block[:, 1])) for block, weight in sides]
    if not all(weight.sum() > 0 for _, weight in sides):
        return missing
    means = [float(block[:, 0] @ weight / weight.sum()) for block, weight in sides]
    raw = [mean * feature.unit + feature.origin for mean in means]
    digits = decimals_of(*raw)
    what = "mean rank" if feature.kind == "ordinal" else "mean"
    texts = (what, *map(Rounded(digits).plain, raw), signed(raw[1] - raw[0], digits))
    return [(abs(means[1] - means[0]), texts), *missing]


def _shares(feature: Feature, sides: list[Side], redacted: bool) -> list[Change]:
    """Return the share of people in each category or level."""
    blocks, weights = zip(*sides, strict=True)
    if feature.kind == "ordinal":
        ranks = [np.rint(block[:, 0] * feature.unit + feature.origin).astype(np.int64) for block in blocks]
        blocks = tuple(np.eye(len(feature.categories))[rank] for rank in ranks)
    shares = zip(*(block.T @ weight for block, weight in zip(blocks, weights, strict=True)), strict=True)
    hidden = protected_cells((blocks[0] > 0).sum(axis=0)) if redacted else np.zeros(len(feature.levels), dtype=bool)
    return [
        _share(feature.labels.get(level, level), float(before), float(after))
        for level, (before, after), masked in zip(feature.levels, shares, hidden, strict=True)
        if not masked
    ]


def _share(name: str, before: float, after: float) -> Change:
    points = f"{signed(100 * (after - before), 1)} points"
    return abs(after - before), (name, percent(before), percent(after), points)
