"""Notions of shift before real ones: from California to 50 other areas, what each has to allow, and what it proves.

A network is trained on California's people and certified for a sample of them; the same bounds are made of a sample of
each other area. For each notion there is the smallest size that covers the area, and the bound that California's people
prove for that size. It holds where the mean of the area's own bounds is not above it.

Total variation, ratio balls and the divergence of the joint law are here for comparison only: isonomy has none of
them. Divergences between people of two areas are estimated by held-out predictions of which of the two somebody is
from, which tends to estimate them too small; the index of the violation needs only the shares of bins.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.certificates import (
    Certificate,
    Marginals,
    Mix,
    Stability,
    certify,
    certify_local,
)
from isonomy.certificates.reweighting import bin_edges
from isonomy.certificates.stability import worst_shares
from isonomy.errors import DataError
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.similarity import Counterparts
from isonomy_verify.reweighting import Hints, sample_of
from isonomy_verify.reweighting import bounds as kernel_bounds
from studies import Result, Setting, Store, style
from studies.steps import Line, Step, known, taken
from studies.surveys import describe, load_population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOME, SOURCE, YEAR = "CA", "acs-income", 2018
BINS = 10
"""Of the index at the area's own size; more of them would be empty in a sample of an area."""
FIXED, LEFT, SIZES = 0.25, 0.3, (0.03, 0.1)
"""The index and the divergence that are fixed beforehand, and smaller divergences."""
G = 1.0


@dataclass(frozen=True)
class Scale:
    """Rows to train on, hidden layers, people of the certificate, of each area, and of each side of an estimate."""

    rows: int = 20000
    hidden: tuple[int, ...] = (32, 32)
    people: int = 4000
    others: int = 400
    estimate: int = 2000
    areas: int | None = None


NOTIONS = {
    "tv": "total variation *",
    "ratio": "every part with a density ratio of at most 4, and strangers *",
    "kl": "joint divergence (KL) *",
    "marginals": "known margins, and the divergence left, as estimated",
    **{f"marginals {size}": f"known margins, divergence left {size}" for size in SIZES},
    "marginals fixed": f"known margins, divergence left {LEFT}",
    "mix": "any mix of sex and race",
    "stability": "stability index of the violation",
    "stability fixed": f"stability index of the violation, {FIXED}",
}


def run(setting: Setting, store: Store, *, scale: Scale | None = None) -> Result:
    """California's networks, seeds outermost, and every other area."""
    scale = scale or (Scale(1000, (8,), 200, 60, 300, 3) if setting.quick else Scale())
    places = [place.split()[0] for place in describe(SOURCE).here if place.endswith(f" {YEAR}")]
    others = [place for place in places if place != HOME][: scale.areas]
    steps = [
        Step(
            SOURCE,
            {"what": what, "seed": seed, "area": other, **vars(scale)},
            partial(compute, scale, seed, other),
        )
        for seed in range(setting.seeds)
        for other in others
        for what, compute in (("notions", judged), ("margins", fixed_margins))
    ]
    found = taken(steps, setting, store)
    rows: dict[tuple[int, str], Line] = {}
    for line in found.lines:
        rows.setdefault((line["seed"], line["area"]), {}).update(line)
    lines = [row for row in rows.values() if known(row, "actual") and known(row, f"marginals {SIZES[0]} upper")]
    data = pd.DataFrame(lines).drop(columns=["what", *vars(scale)], errors="ignore")
    return Result(
        name="notions",
        title="Notions of shift before real shifts",
        story=(*story(scale, lines, data), *found.words()),
        tables=(
            (
                "Medians over areas and seeds. * is no notion of the library.",
                table(data),
            ),
        ),
        data=data,
        draw=lambda drawn: draw(drawn, data),
        size=(7.0, 4.2),
        alt="For each notion a box plot over areas and seeds of what is proved over what really happens there.",
    )


@cache
def area(place: str) -> Population:
    """Everybody of an area, all of the same weight; similar are people who differ in sex, race, two years, two
    hours."""
    people = load_population(SOURCE, states=[place], years=[YEAR])
    features = tuple(replace(each, proxy=False) for each in people.schema.features)
    schema = replace(people.schema, features=features, weight=None, max_weight=None)
    return replace(people, weights=np.ones(len(people)), schema=schema, domain=schema.domain())


def trained(people: Population, hidden: tuple[int, ...], seed: int) -> Network:
    """A plain classifier."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(hidden, alpha=1e-4, batch_size=128, max_iter=10, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(people.x, np.asarray(people.y))
    return Network.from_sklearn(model, name="plain")


@dataclass(frozen=True)
class Home:
    """A network, a certificate of people at home, and bounds of them (n,)."""

    network: Network
    certificate: Certificate
    people: Population

    @property
    def high(self) -> FloatArray:
        """Upper bounds (n,)."""
        return self.certificate.local.upper

    @property
    def low(self) -> FloatArray:
        """Lower bounds (n,)."""
        return self.certificate.local.lower


@lru_cache(1)
def home_of(scale: Scale, seed: int) -> Home:
    """The network and the certificate of a seed."""
    home = area(HOME)
    network = trained(home.train.sample(scale.rows, seed), scale.hidden, seed)
    people, metric = home.test.sample(scale.people, seed), Counterparts.of(home.schema)
    shifts = [Stability(FIXED), Mix(("SEX", "RAC1P"))]
    return Home(
        network,
        certify(network, people, metric, 1.0, shifts, decide=False, progress=None),
        people,
    )


def judged(scale: Scale, seed: int, place: str) -> Mapping[str, Any]:
    """What another area is, and what each notion proves of it."""
    home, other = home_of(scale, seed), area(place)
    certificate, some = (
        home.certificate,
        other.sample(min(scale.others, len(other)), seed),
    )
    metric = certificate.problem.metric
    local = certify_local(
        home.network,
        some,
        metric,
        1.0,
        attack=False,
        decide=False,
        predict=False,
        progress=None,
    )
    row = {"home": certificate.local.mean_upper, "actual": local.mean_upper}
    for name, shift in zip(
        ("stability fixed", "mix"),
        (certificate.shift, *certificate.shifts),
        strict=True,
    ):
        answer = certificate.under(shift)
        row |= {f"{name} upper": answer.upper, f"{name} lower": answer.lower}
    row |= index(home.high, home.low, local.upper)
    return row | reweighted(home, other, scale, seed)


def index(high: FloatArray, low: FloatArray, other: FloatArray) -> dict[str, float]:
    """The index of the violation, its bins merged upward until none is empty, and both bounds at it; people above the
    last bin are strangers."""
    row: dict[str, float] = {}
    for name, bins in (("stability", BINS), ("stability fixed", 20)):
        edges = bin_edges(high, np.ones(len(high)), bins)
        held = np.searchsorted(edges, other)
        inside = np.bincount(held, minlength=len(edges) + 1)[: len(edges)]
        kept = np.flatnonzero(inside > 0)
        ends = np.append(edges[kept[:-1]], edges[-1])  # an empty bin belongs to the next that is not
        place = np.searchsorted(ends, high)
        p = np.bincount(place, minlength=len(ends)) / len(high)
        q = np.bincount(np.searchsorted(ends, other), minlength=len(ends) + 1)[: len(ends)]
        q = q / q.sum()
        tau, kappa = (
            float((held == len(edges)).mean()),
            float(((q - p) * np.log(q / p)).sum()),
        )
        row |= {f"{name} radius": kappa, f"{name} strangers": tau}
        if name == "stability":
            slope, level, _ = worst_shares(ends, p, kappa)
            tops = np.zeros(len(ends))
            np.maximum.at(tops, place, low)
            worst = worst_shares(tops, p, kappa * (1 - 1e-9))[2]
            hints = Hints((slope, level), tuple(worst.tolist()), tuple(ends.tolist()))
            sample = sample_of(high, low, np.ones(len(high)))
            upper, lower = kernel_bounds(Stability(kappa, BINS, tau).kernel, sample, hints, G)
            row |= {"stability upper": upper, "stability lower": lower}
    return row


def fixed_margins(scale: Scale, seed: int, place: str) -> Mapping[str, Any]:
    """Bounds for the margins of another area, at smaller sizes of the divergence left, fixed beforehand."""
    home, other, row = home_of(scale, seed), area(place), dict[str, Any]()
    people = home.people
    try:
        shift = Marginals(other.frame).resolved(people.x, people.schema, people.weights)
    except DataError:
        return {f"marginals {size} {side}": math.nan for size in SIZES for side in ("upper", "lower")}
    cells = shift.groups(people.x, people.schema)
    for size in SIZES:
        answer = shift.resized(size).answer(home.high, home.low, people.weights, cells, G)
        row |= {
            f"marginals {size} upper": answer.upper,
            f"marginals {size} lower": answer.lower,
        }
    return row


def reweighted(home: Home, other: Population, scale: Scale, seed: int) -> dict[str, float]:
    """Bounds by margins and divergences, at their estimated sizes.

    The margins are those of the whole area. Where people at home can have them, what is left is estimated against the
    people who have them, and the rest of the joint divergence is known: how these are weighted hangs on cells only.
    """
    people, high, low = home.people, home.high, home.low
    new, tilt = (
        other.sample(min(scale.estimate, len(other)), seed + 1).x,
        np.zeros(len(people)),
    )
    row: dict[str, float] = {}
    try:
        shift = Marginals(other.frame).resolved(people.x, people.schema, people.weights)
    except DataError:
        row |= dict.fromkeys(("marginals radius", "marginals upper", "marginals fixed upper"), math.nan)
        ratio, old = estimated(people.x, people.weights, new, seed)
        left = float(np.log(ratio).mean())
    else:
        cells, there = (shift.groups(x, people.schema) for x in (people.x, new))
        assert cells is not None and there is not None
        tilts = np.array([each for margin in shift.known for each in margin.tilt])
        tilt, moved = (shift.tilting(each).exponents(tilts) for each in (cells, there))
        scale_up = math.log(np.exp(tilt).mean())
        ratio, old = estimated(people.x, np.exp(tilt), new, seed)
        row["marginals radius"] = residual = max(0.0, float(np.log(ratio).mean()))
        for name, size in (("marginals", residual), ("marginals fixed", LEFT)):
            answer = shift.resized(size).answer(high, low, people.weights, cells, G)
            row |= {f"{name} upper": answer.upper, f"{name} lower": answer.lower}
        ratio, old = ratio * np.exp(moved - scale_up), old * np.exp(tilt - scale_up)
        left = float(np.log(ratio).mean())
    row |= {
        "kl radius": max(left, 0.0),
        "kl upper": divergence_bound(high, max(left, 0.0)),
    }
    for name, most in (("tv", 1.0), ("ratio", 4.0)):
        tau = max(0.0, float((ratio > most).mean() - most * (old > most).mean()))
        tail = np.sort(high)[::-1][: max(1, math.ceil(min(1.0, (1 - tau) / most) * len(high)))]
        row |= {
            f"{name} radius": tau,
            f"{name} upper": tau * G + (1 - tau) * float(tail.mean()),
        }
    return row


def divergence_bound(high: FloatArray, kappa: float) -> float:
    """``min λκ + λ ln E exp(U / λ)`` over a grid."""
    top, slopes = high.max(), np.geomspace(1e-3, 1e3, 600)
    each = [slope * kappa + top + slope * math.log(np.exp((high - top) / slope).mean()) for slope in slopes]
    return float(min(*each, top))


def estimated(x: FloatArray, weights: FloatArray, new: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Density ratios of an area against people ``x`` with weights, at people of the area and at ``x``: by predictions
    of which of the two somebody is from, each of those it was not fitted on, so that the mean logarithm over the area
    is about a bound of the divergence from below."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    z, y = np.concatenate([x, new]), np.append(np.zeros(len(x)), np.ones(len(new)))
    each = np.append(weights / weights.sum(), np.full(len(new), 1 / len(new)))
    fold, log = np.random.default_rng(seed).integers(0, 2, len(z)), np.zeros(len(z))
    for part in (0, 1):
        model = HistGradientBoostingClassifier(max_iter=40, learning_rate=0.1, max_leaf_nodes=15, random_state=seed)
        rest = fold != part
        model.fit(z[rest], y[rest], sample_weight=each[rest] * rest.sum() / each[rest].sum())
        odds = np.clip(model.predict_proba(z[~rest])[:, 1], 1e-6, 1 - 1e-6)
        log[~rest] = np.log(odds / (1 - odds))
    ratio = np.exp(log) / float(np.average(np.exp(log[y == 0]), weights=weights))  # they average to 1 over ``x``
    return ratio[y == 1], ratio[y == 0]


def table(data: pd.DataFrame) -> pd.DataFrame:
    """A row for each notion."""
    rows = []
    for name, words in NOTIONS.items():
        upper = data.get(f"{name} upper")
        if upper is None:
            continue
        some = upper.notna()
        radius, lower = data.get(f"{name} radius"), data.get(f"{name} lower")
        needed = "–" if radius is None else f"{at_most(radius.median(), 3)} ({at_most(radius.max(), 3)})"
        population = "the same" if name.startswith("stability") else "–"
        rows.append({
            "notion": words, "size that areas need, median (largest)": needed,
            "proved there, median": at_most(upper.median(), 3),
            "lower": "–" if lower is None else at_least(lower.median(), 3), "population bound": population,
            "over what really happens": f"{over(data, name):.2f}",
            "holds": f"{int((data['actual'] <= upper)[some].sum())} of {int(some.sum())}",
            "none": int((~some).sum()),
        })  # fmt: skip
    return pd.DataFrame(rows)


def over(data: pd.DataFrame, name: str) -> float:
    """The median bound over the median of what is proved of the areas' own people."""
    some = data[f"{name} upper"].notna()
    return math.nan if not some.any() else float(data[f"{name} upper"][some].median() / data["actual"][some].median())


def story(scale: Scale, lines: list[Line], data: pd.DataFrame) -> tuple[str, ...]:
    """What was done, and which targets hold."""
    if not lines:
        return ("Nothing was computed yet.",)
    seeds, areas = data["seed"].nunique(), data["area"].nunique()
    home, actual = data["home"].median(), data["actual"]
    within = data["stability fixed radius"] <= FIXED
    kept = (data["actual"] <= data["stability fixed upper"]).groupby(data["seed"]).sum()
    each = ", ".join(str(int(count)) for count in kept)
    fixed, refused = (
        over(data, "stability fixed"),
        int(data["marginals fixed upper"].isna().sum()),
    )
    sizes = {
        **{f"{size}": f"marginals {size}" for size in SIZES},
        f"{LEFT}": "marginals fixed",
    }
    held = {size: int((actual <= data[f"{name} upper"]).sum()) for size, name in sizes.items()}
    asked = len(data) - refused
    each_size = "; ".join(f"{size}: {over(data, sizes[size]):.2f} times, {held[size]} of {asked}" for size in sizes)
    return (
        f"ACS Income: {seeds} networks ({'x'.join(map(str, scale.hidden))}) trained on California, certified for "
        f"{scale.people} of its test people; counterparts differ in sex, race, two years and two hours. Of {areas} "
        f"other areas {scale.others} people each are bounded in the same way. The mean violation proved at home is "
        f"{at_most(home, 3)} (median of the seeds), elsewhere {at_most(actual.median(), 3)} in the median and "
        f"{at_most(actual.max(), 3)} at most.",
        f"**Stability index .25, fixed beforehand** (20 bins): its bound is not below the mean of the area's own "
        f"bounds in {each} of {areas} areas (by seed), at {fixed:.2f} times the median of these (wanted: all, and "
        f"1.35). The index of the areas is at most .25 in {int(within.sum())} of {len(data)} cases; where it is not, "
        "the bound is not promised to hold.",
        f"**Known margins and a divergence left, fixed beforehand** (wanted: 1.25): bound over the median of what "
        f"happens, and cases in which it is not below it, by the divergence. {each_size}. In {refused} cases no "
        "reweighting of the sample has the margins. These are those of the area's whole table, up to half a per cent.",
        "What the areas really leave open is not known. The estimate for it in the table is hardly above 0 and not to "
        "be relied on: held-out predictions cannot tell an area from reweighted people of home, though the area's "
        "bound is often a few per cent above theirs, partly by chance: it is the mean of a sample.",
        "**What is not better.** Indices are those of samples: bins that are empty in an area are merged upward, "
        "values count as the upper ends of their bins. The index speaks of any people whose bounds are so spread, so "
        "that it needs no further statement about a population; a fixed reference is part of the certificate. Known "
        "margins and mixes are about these people, counted otherwise: of the population behind them nothing is proved "
        "here. Nobody can know the divergence that margins leave from the margins alone. The Wasserstein distance is "
        "not repeated here: [states](states.md) has it.",
    )


def draw(drawn: Figure, data: pd.DataFrame) -> None:
    """Bounds over what happens."""
    names = [name for name in NOTIONS if f"{name} upper" in data]
    axes = drawn.subplots()
    values = [(data[f"{name} upper"] / data["actual"]).dropna().to_numpy() for name in names]
    axes.boxplot(values[::-1], orientation="horizontal", widths=0.6, flierprops={"markersize": 3},
                 medianprops={"color": style.BLUE})  # fmt: skip
    axes.set_yticks(
        range(1, len(names) + 1),
        [NOTIONS[name].replace(", and strangers", "") for name in names[::-1]],
    )
    axes.axvline(1, color=style.RED, linewidth=0.8)
    axes.set_xlabel("bound over what really happens in the area")
