"""The box around the similar set: how much larger it is, and what going through it costs.

The paper's Theorem 5.1 encloses the ellipsoid ``{v : v'Mv <= delta^2}`` of similar people in the box with half-widths
``delta sqrt((M^-1)_ii)`` and bounds the network over the box. Its own figure shows that the share of the box which the
ellipsoid fills falls super-exponentially. An affine first layer needs no box: over the ellipsoid its range is known
exactly, by the support function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.certificates import certify_local
from isonomy.certificates.local import Tier
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.similarity import Metric, WeightedLp
from isonomy.training.config import Method
from studies import Result, Setting, Store, style
from studies.methods import Way
from studies.models import Case, Size, cases
from studies.steps import Line, known, taken
from studies.tables import ADULT, GERMAN, INCOME, Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIMENSIONS = tuple(range(2, 21))
MATRICES = 20
DELTAS = (0.01, 0.02, 0.05, 0.1)
WAYS = (Way("sgd"), Way("u-dif"))
BOUNDS = {
    "paper": "box, whole width (the paper)",
    "box_change": "box, change from the individual",
    "interval": "support function, then intervals",
    "tight": "support function, then linear bounds",
    "lower": "attained",
}
COLUMNS = ("dataset", "method", "alpha", "seed", "judged_at", "people", *BOUNDS, "width", "filled")


def run(
    setting: Setting, store: Store, *, datasets: Sequence[Dataset] = (INCOME, ADULT, GERMAN), size: Size | None = None
) -> Result:
    """Volumes by dimension, then mean local bounds of trained networks through the box and without it."""
    size = size or Size.of(setting)
    tried = cases(datasets, size, setting)
    deltas = DELTAS[1:3] if setting.quick else DELTAS
    steps = [
        case.step("bounds", way, seed, partial(bounds, case, way, seed, delta), judged_at=delta)
        for seed in range(setting.seeds)
        for case in tried
        for way in WAYS
        for delta in deltas
    ]
    found = taken(steps, setting, store)
    fills = pd.DataFrame(volumes(DIMENSIONS, MATRICES))
    data = pd.DataFrame(found.lines)
    data = data.reindex(columns=list(COLUMNS))
    return Result(
        name="orthotope",
        title="The ellipsoid of similar people and its box",
        story=(
            "The paper encloses the ellipsoid of similar people in a box and bounds the network over the box. Left: "
            "an ellipse and its box. Middle: the share of the box that the ellipsoid fills, for "
            f"{MATRICES} random matrices of each dimension (M = A'A with twice as many normal rows as columns), from "
            "the closed form of both volumes where the paper samples. Even a ball fills next to nothing of its cube.",
            *_fills(found.lines),
            "Right, and in the table: the mean local bound of test individuals through the box and without it. *Box, "
            "whole width* is the bound of the paper; *box, change from the individual* is the same box, but asks how "
            "far outputs get from the individual's own; *support function* replaces the box by the exact range of "
            "the first layer over the ellipsoid and goes on with the same intervals; *linear bounds* is the default of "
            "certificates; *attained* is the mean violation of pairs that were found and checked.",
            *_gains(data),
            "**What is not better.** From the second layer on the interval bound is as loose as the paper's; networks "
            "that were trained on a bound leave less to gain. The paper's figure has no table to compare with.",
            *found.words(),
        ),
        tables=(("Mean local upper bounds, means of the seeds.", table(data)),),
        data=pd.concat(
            [fills.assign(what="share of the box"), data.assign(what="bounds").reindex(columns=["what", *COLUMNS])],
            ignore_index=True,
        ),
        draw=lambda drawn: draw(drawn, fills, data, tried[0].dataset),
        size=(9.0, 3.1),
        alt="Left: an ellipse in its box. Middle: the share of the box that an ellipsoid fills falls faster than "
        "exponentially with the dimension. Right: mean local bounds by delta, the box far above the support function.",
    )


def bounds(case: Case, way: Way, seed: int, delta: float) -> dict[str, Any]:
    """Mean local bounds of one network, each in its own way."""
    network, metric, some = case.network(way, seed).network, case.metric, case.some
    inside = judged(network, some, metric, delta, tier="tight", attack=True)
    return {
        "paper": judged(network, some, metric, delta, tier="paper").mean_upper,
        "box_change": judged(network, some, box_metric(metric), delta, tier="interval").mean_upper,
        "interval": judged(network, some, metric, delta, tier="interval").mean_upper,
        "tight": inside.mean_upper,
        "lower": inside.mean_lower,
        "width": metric.width,
        "filled": log10_filled(precision(metric)),
    }


def judged(network: Network, some: Population, metric: Metric, delta: float, tier: Tier, attack: bool = False) -> Any:
    """A local certificate on the unbounded domain, without a search unless it is asked for."""
    return certify_local(
        network, some, metric, delta, domain="unbounded", tier=tier, attack=attack, predict=False, progress=None
    )


def precision(metric: Metric) -> FloatArray:
    """``M`` with ``d(x, y)^2 = (x - y)' M (x - y)``."""
    root, order = metric.gauge()
    assert order == 2 and np.linalg.matrix_rank(root) == metric.width, "the ellipsoid must be bounded"
    return np.asarray(root.T @ root)


def box_metric(metric: Metric) -> WeightedLp:
    """The metric whose balls are the boxes around the ellipsoids."""
    return WeightedLp(1 / half_widths(precision(metric)), math.inf)


def half_widths(m: FloatArray) -> FloatArray:
    """Half-widths of the box around ``{v : v'Mv <= 1}``."""
    return np.sqrt(np.diag(np.linalg.inv(m)))


def log10_filled(m: FloatArray) -> float:
    """The decimal logarithm of the share of the box that the ellipsoid fills, from the closed form of both volumes."""
    d = len(m)
    ellipsoid = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1) - np.linalg.slogdet(m)[1] / 2
    return float((ellipsoid - np.log(2 * half_widths(m)).sum()) / math.log(10))


def volumes(dimensions: Sequence[int], matrices: int) -> list[Line]:
    """Shares of random ellipsoids, and of the ball, which fills the most."""
    rng, lines = np.random.default_rng(0), []
    for d in dimensions:
        filled = [log10_filled(a.T @ a) for a in (rng.normal(size=(2 * d, d)) for _ in range(matrices))]
        line = {"dimension": d, "ball": log10_filled(np.eye(d))}
        lines.append(line | {"least": min(filled), "median": float(np.median(filled)), "most": max(filled)})
    return lines


def _fills(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    shares = {line["dataset"]: line for line in lines if known(line, "filled")}
    if not shares:
        return []
    told = [
        f"10^{line['filled']:.0f} for {name.capitalize()} ({line['width']} coordinates)"
        for name, line in shares.items()
    ]
    return [f"For the fair metrics of the tables (sensitive subspace, ridge 1) the share is {', '.join(told)}."]


def _gains(data: pd.DataFrame) -> list[str]:
    some = data[(data["judged_at"] == 0.05) & data["paper"].notna()]
    told = []
    for (name, method), group in some.groupby(["dataset", "method"], sort=False):
        mean = group[list(BOUNDS)].mean()
        told.append(
            f"{str(name).capitalize()}, {Way(cast(Method, method)).name}: {at_most(mean['paper'])} through the box, "
            f"{at_most(mean['interval'])} through the support function, {at_least(mean['lower'])} attained"
        )
    why = "**What is better, and why.** The first layer is affine, so over the ellipsoid its range needs no box."
    return [f"{why} At delta 0.05: {'; '.join(told)}."] if told else []


def table(data: pd.DataFrame) -> pd.DataFrame:
    """Formatted cells, rounded to the safe side."""
    rows = []
    for (name, method, delta), group in data.groupby(["dataset", "method", "judged_at"], sort=False):
        cells = {
            "people": str(name).capitalize(),
            "trained with": Way(cast(Method, method)).name,
            "delta": f"{delta:g}",
        }
        for bound, words in BOUNDS.items():
            value = group[bound].mean()
            safe = at_least if bound == "lower" else at_most
            cells[words] = safe(float(value)) if np.isfinite(value) else None  # type: ignore[assignment]
        rows.append(cells)
    return pd.DataFrame(rows)


def draw(drawn: Figure, fills: pd.DataFrame, data: pd.DataFrame, dataset: Dataset) -> None:
    """Ellipse and box; shares by dimension; bounds by delta for the first table that was run."""
    left, middle, right = drawn.subplots(1, 3, width_ratios=(0.85, 1, 1.35))
    _ellipse(left)
    middle.plot(fills["dimension"], 10 ** fills["ball"], **style.line(2), markevery=3, label="ball in its cube")
    middle.plot(fills["dimension"], 10 ** fills["median"], **style.line(0), markevery=3, label="random ellipsoids")
    middle.fill_between(
        fills["dimension"], 10 ** fills["least"], 10 ** fills["most"], color=style.BLUE, alpha=0.2, lw=0
    )
    middle.set(xlabel="dimension", ylabel="share of the box that is filled")
    style.logarithmic(middle, "y")
    middle.set_xticks(range(2, 21, 3))
    middle.legend(loc="lower left")
    some = data[(data["method"] == "sgd") & data["paper"].notna()]
    name = next((name for name in some["dataset"] if name == dataset.name), next(iter(some["dataset"]), ""))
    means = some[some["dataset"] == name].groupby("judged_at")[list(BOUNDS)].mean()
    for k, (bound, words) in enumerate(BOUNDS.items()):
        right.plot(means.index, means[bound], **style.line(k), label=words)
    right.set(xlabel="delta", ylabel="mean local violation", title=f"{name.capitalize()}, SGD" if name else "")
    style.logarithmic(right)
    right.set_xticks(list(means.index), [f"{delta:g}" for delta in means.index])
    right.minorticks_off()
    drawn.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3)


def _ellipse(axes: Axes) -> None:
    """People, the ellipse of those similar to one of them, and its box."""
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    people = np.random.default_rng(0).multivariate_normal(np.zeros(2), covariance, 150)
    circle = np.stack([f(np.linspace(0, 2 * np.pi, 200)) for f in (np.cos, np.sin)], axis=1)
    ring = 2 * circle @ np.linalg.cholesky(covariance).T
    half = 2 * half_widths(np.linalg.inv(covariance))
    axes.plot(*people.T, linestyle="none", marker=".", markersize=3, color=style.GREY)
    axes.plot(*ring.T, color=style.BLUE, linestyle="-")
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * half
    axes.plot(*corners.T, color=style.RED, linestyle="--")
    axes.annotate("box", (half[0], -half[1]), xytext=(-4, 6), textcoords="offset points", ha="right", color=style.RED)
    axes.annotate("ellipse", (-1.85, 1.45), color=style.BLUE)
    axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
    axes.set_xticks([-2, 0, 2])
    axes.set_yticks([-2, 0, 2])
    axes.grid(False)
