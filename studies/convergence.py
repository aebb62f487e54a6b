"""Does the paper's ascent reach the number that would be a certificate? Its figure and table of numerical errors.

One question, three answers. The profiles ``g_i(phi)`` are the paper's: its box bound with ``delta + phi`` in place of
``delta``, at 500 radii between 0 and 2.4 for 50 individuals. On the same profiles

- the *ascent* of the paper looks for ``max mean g_i(phi_i)`` subject to ``mean phi_i <= gamma``,
- the *optimum* over the grid, which it enumerates, is solved exactly as a knapsack,
- the *dual* bounds every population within gamma, by weak duality; it adds radii where the grid matters to it.

**Soundness.** Profiles never fall, so between two radii they are at most what they are at the larger one, at a cost of
at least the smaller: the dual is never below the optimum, nor below any iterate of an ascent on the profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.attacks import AttackBudget
from isonomy.certificates import Transport, certify, certify_local
from isonomy.certificates.dual import Dual, cells_of_table
from isonomy_verify.dual import gains, heights
from studies import Result, Setting, Store, paper, style
from studies.methods import Way
from studies.models import Case, Size, cases
from studies.solvers import Ascent, interpolated, knapsack_even, quasi_subgradient, rescaled_gradient
from studies.steps import known, taken
from studies.tables import GERMAN, SURVEYS, Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELTA, GAMMA, LAST = 0.1, 0.05, 2.4
"""As in the paper's appendix: similarity, shift, and the largest radius of the grid."""
WAYS = (Way("sgd"), Way("sensr"), Way("f-ibp", box=True), Way("l-dif", box=True), Way("u-dif", box=True))
STEPS = (0.01, 0.1, 1.0)
"""First lengths of the ascents' steps; the paper does not print its own."""
SHORT = 0.001
"""Ascents that end further below the optimum count as short of it."""
ROUNDS, PARTS, TOLERANCE = 6, 3, 5e-4
"""How often, and into how many parts, the dual divides the cells that it rests on, and when it need not."""


@dataclass(frozen=True)
class Grid:
    """Individuals, radii, and iterations of an ascent."""

    people: int = 50
    radii: int = 500
    iterations: int = 500

    @property
    def spacing(self) -> float:
        """Between two radii."""
        return LAST / (self.radii - 1)


def run(
    setting: Setting, store: Store, *, datasets: Sequence[Dataset] | None = None, size: Size | None = None,
    grid: Grid | None = None, ways: Sequence[Way] = WAYS,
) -> Result:  # fmt: skip
    """Ascent, optimum and dual for networks trained in each way."""
    size = size or Size.of(setting)
    grid = grid or (Grid(12, 60, 100) if setting.quick else Grid())
    if datasets is None:
        datasets = (SURVEYS[0], GERMAN) if setting.quick else (*SURVEYS, GERMAN)
    tried = cases(datasets, replace(size, people=grid.people), setting)
    steps = [
        case.step("ascents", way, seed, partial(compared, case, way, seed, grid), radii=grid.radii,
                  iterations=grid.iterations)
        for seed in range(setting.seeds)
        for case in tried
        for way in ways
    ]  # fmt: skip
    found = taken(steps, setting, store)
    lines = [line for line in found.lines if known(line, "optimum")]
    return Result(
        name="convergence",
        title="The paper's ascent, the optimum, and a bound that needs no convergence",
        story=(
            f"The paper certifies by the *largest* mean of profiles under a budget (n = {grid.people}, "
            f"{grid.radii} radii between 0 and {LAST}, delta {DELTA}, gamma {GAMMA}) and looks for it by ascent. Every "
            "iterate of an ascent is a feasible point, so it bounds the maximum from *below*: a negative error means "
            "that the reported number is no certificate. Ascent, exact optimum over the grid (a knapsack, solved by "
            "dynamic programming) and our dual bound see the same profiles here, those of the paper's box bound; where "
            "a network was trained on a bound, this was its box form. There are two forms of the ascent, *projected* "
            "onto the budget after each step of a length that falls, the method that the paper names, and *rescaled* "
            "to the budget after each step along the gradient; with three first lengths of the steps they make six.",
            *_verdict(lines),
            "**What is better, and why.** The dual is right for every multiplier, so nothing has to converge, and one "
            "sort finds the best one. It covers every population within gamma, also those that split somebody's "
            "weight, and radii between those of the grid (it adds radii in the cells that it rests on); that is why it "
            "lies a little above the optimum, never below. The last two columns are the certificate of this library "
            "for the same network and the same ground cost, with its own profiles instead of the box: what no "
            "population exceeds, and what an explicit one attains.",
            "**What differs.** The paper's positive errors cannot be errors of an ascent on one and the same profile, "
            "since a feasible point exceeds the optimum over a fine grid only by the width of a cell; they measure "
            "its two evaluations against each other. The ascents here run on the profiles interpolated between all "
            "radii that were computed, from an even use of the budget; the best iterate counts. Networks and people "
            "are ours (2018; Employ trained on Massachusetts), and German is added. Where the box bound is near 1 "
            "without any shift, nothing is left to look for, and the picture leaves the network out.",
            *found.words(),
        ),
        tables=(
            ("Numerical errors: value minus optimum. Ascents: means of the seeds, the best and the worst of the six in "
             "this mean. Dual: the smallest of the seeds. In brackets the paper's.", errors(lines)),
            ("Values, means of the seeds; upper bounds are rounded up, lower ones down, and the first two to the "
             "nearest.", values(lines)),
        ),
        data=pd.DataFrame([_numbers(line) for line in lines]),
        draw=lambda drawn: draw(drawn, lines),
        size=(9.0, 2.9),
        alt="The value of the projected ascent after each iteration for networks trained in several ways, with the "
        "optimum over the grid and the dual bound as horizontal lines: ascents stay at or below the optimum, the dual "
        "just above.",
    )  # fmt: skip


def compared(case: Case, way: Way, seed: int, grid: Grid) -> dict[str, Any]:
    """All answers for one network."""
    network = case.network(way, seed).network

    def box(radius: float) -> FloatArray:
        judged = network, case.some, case.metric, DELTA + radius
        return certify_local(*judged, tier="paper", attack=False, predict=False, progress=None).upper

    ours = certify(
        network, case.some, case.metric, DELTA, GAMMA, ground=case.metric, domain="unbounded", progress=None,
        attack=AttackBudget() if grid == Grid() else AttackBudget(steps=5, restarts=0),
    )  # fmt: skip
    return answers(box, grid) | {"our_upper": ours.upper, "our_lower": ours.lower}


def answers(bound: Callable[[float], FloatArray], grid: Grid) -> dict[str, Any]:
    """Optimum, dual and ascents on the same profiles: ``bound`` gives everybody's at a radius, and never falls."""
    even = [grid.spacing * k for k in range(grid.radii)]
    known_at = {radius: bound(radius) for radius in even}
    for _ in range(ROUNDS):
        added = between(Dual([cells_of_table(*_profiles(known_at), 1.0)], Transport()))
        known_at |= {radius: bound(radius) for radius in added[: 4 * grid.radii - len(known_at)]}
    radii, values = _profiles(known_at)
    profile, n = interpolated(radii, values), len(values)
    ascents: dict[str, Ascent] = {}
    for step in STEPS:
        ascents[f"projected, {step:g}"] = quasi_subgradient(profile, n, GAMMA, steps=grid.iterations, step=step)
        ascents[f"rescaled, {step:g}"] = rescaled_gradient(profile, n, GAMMA, steps=grid.iterations, step=step)
    return {
        "local": float(values[:, 0].mean()),
        "optimum": knapsack_even(values[:, np.searchsorted(radii, even)], grid.spacing, GAMMA).value,
        "dual": Dual([cells_of_table(radii, values, 1.0)], Transport()).bound(GAMMA).upper,
        "ascents": {name: found.value for name, found in ascents.items()},
        "histories": {name: _thinned(found.history) for name, found in ascents.items()},
    }


def between(dual: Dual) -> list[float]:
    """Radii within those cells of the grid on which the dual rests, or may rest once others are divided; none if the
    grid costs next to nothing."""
    lost = dual.grid_error(GAMMA)
    if lost < TOLERANCE:
        return []
    cells, question = dual.blocks[0], (1.0, GAMMA, dual.bound(GAMMA).multiplier)
    active = gains(cells, *question) >= heights(cells, *question)[cells.owner] - lost
    ends = np.unique(np.stack([cells.near[active], cells.far[active]], axis=1), axis=0)
    # What a cell costs at most is what its profile gains across it, so wide ones come first.
    ends = ends[np.isfinite(ends[:, 1]) & (ends[:, 1] > ends[:, 0])]
    ends = ends[np.argsort(ends[:, 0] - ends[:, 1], kind="stable")]
    shares = np.arange(1, PARTS) / PARTS
    return [float(r) for near, far in ends for r in near + shares * (far - near)]


def _profiles(known_at: Mapping[float, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Radii, and everybody's bounds at them, made never to fall where rounding would have it."""
    radii = np.array(sorted(known_at))
    values = np.stack([known_at[radius] for radius in radii], axis=1)
    return radii, np.asarray(np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1])


def _thinned(history: FloatArray) -> list[float]:
    """Enough of a history for a picture: all of the first iterations, then every fifth."""
    return [round(float(value), 6) for value in (*history[:50], *history[50::5])]


def iterations(count: int) -> list[int]:
    """The iterations of a thinned history with so many entries."""
    return [*range(min(50, count)), *(50 + 5 * k for k in range(max(0, count - 50)))]


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line for the CSV."""
    names = ("dataset", "method", "box", "seed", "people", "radii", "local", "optimum", "dual")
    return {name: line[name] for name in (*names, "our_upper", "our_lower")} | {
        f"ascent {k}": v for k, v in line["ascents"].items()
    }


def _grouped(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Way], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, Way], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], Way(line["method"], line["box"])), []).append(line)
    return groups


def errors(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Ascent minus optimum, the printed error beside, and dual minus optimum."""
    rows = []
    for (name, way), group in _grouped(lines).items():
        printed = paper.NUMERICAL_ERROR.get(name, {}).get(way.method)
        gaps = [_mean([line["ascents"][k] - line["optimum"] for line in group]) for k in group[0]["ascents"]]
        rows.append({
            "people": name.capitalize(),
            "trained with": way.name,
            "the paper's error": "" if printed is None else f"({'+' * (printed > 0)}{paper.printed(printed, 4)})",
            "ascent, best of six": _signed(max(gaps)),
            "ascent, worst of six": _signed(min(gaps)),
            "dual": _signed(min(line["dual"] - line["optimum"] for line in group)),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _signed(error: float) -> str:
    """Four decimals and a sign, which a zero has none of."""
    return f"{error:+.4f}" if abs(error) >= 5e-5 else "0.0000"


def values(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The values themselves."""
    columns: dict[str, tuple[str, Callable[[float], str]]] = {
        "no shift, box": ("local", "{:.4f}".format), "optimum, box": ("optimum", "{:.4f}".format),
        "dual, box": ("dual", at_most), "our upper": ("our_upper", at_most), "our lower": ("our_lower", at_least),
    }  # fmt: skip
    rows = []
    for (name, way), group in _grouped(lines).items():
        row = {"people": name.capitalize(), "trained with": way.name}
        rows.append(row | {words: safe(_mean([line[of] for line in group])) for words, (of, safe) in columns.items()})
    return pd.DataFrame(rows)


def _verdict(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    if not lines:
        return []
    ascents = [[value - line["optimum"] for value in line["ascents"].values()] for line in lines]
    best, every = [max(gaps) for gaps in ascents], [gap for gaps in ascents for gap in gaps]
    short = [sum(gap < -SHORT for gap in gaps) for gaps in (best, every)]
    duals = [line["dual"] - line["optimum"] for line in lines]
    printed = [error for told in paper.NUMERICAL_ERROR.values() for error in told.values()]
    return [
        f"For {short[0]} of {len(best)} networks even the best of the six ascents ends more than {SHORT} below the "
        f"optimum, by {-min(best):.4f} in the worst case; so do {short[1]} of all {len(every)} ascents, some of "
        f"which have steps too short to converge. Of the paper's {len(printed)} printed errors "
        f"{sum(error < 0 for error in printed)} are negative. The dual minus the optimum lies between "
        f"{min(duals):.4f} and {max(duals):.4f}."
    ]


def draw(drawn: Figure, lines: Sequence[Mapping[str, Any]]) -> None:
    """The ascents of the first table that was run, a panel for each way of training that leaves something to ascend."""
    first = [line for line in lines if line["dataset"] == lines[0]["dataset"] and line["seed"] == 0]
    first = [line for line in first if line["optimum"] - line["local"] > SHORT]
    panels = drawn.subplots(1, max(1, len(first)), sharex=True, squeeze=False)[0]
    for axes, line in zip(panels, first, strict=False):
        _panel(axes, line)
    panels[0].set_ylabel("mean bound")
    if first:
        panels[len(first) // 2].set_xlabel(f"iterations of the projected ascent ({first[0]['dataset'].capitalize()})")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)


def _panel(axes: Axes, line: Mapping[str, Any]) -> None:
    for k, step in enumerate(STEPS):
        history = line["histories"][f"projected, {step:g}"]
        look = style.line(k) | {"marker": "", "linewidth": 1.2}
        axes.plot(iterations(len(history)), history, **look, label=f"ascent, first step {step:g}")
    axes.axhline(line["optimum"], color=style.BLACK, linestyle=":", label="optimum over the grid")
    axes.axhline(line["dual"], color=style.PURPLE, linestyle="-", linewidth=2, label="dual bound")
    axes.set_title(Way(line["method"], line["box"]).name)
