"""The first table of the paper: what each way of training costs in accuracy, and what can be proved of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_most
from isonomy.reproduce import paper, style
from isonomy.reproduce.measures import averaged, measured, row_of, table
from isonomy.reproduce.models import BOUNDED, PLAIN, RIDGE, SURVEYS, WAYS, Case, Dataset, Size, Way, cases
from isonomy.reproduce.page import Result
from isonomy.reproduce.setting import Setting
from isonomy.reproduce.store import Store
from isonomy.training.penalties import Method

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def run(setting: Setting, store: Store, *, datasets: Sequence[Dataset] = SURVEYS, size: Size | None = None) -> Result:
    """Income, Employ and Coverage."""
    size = size or Size.of(setting)
    tried = cases(tuple(datasets), size, setting)
    data, found = measured(tried, setting, store)
    means = averaged(data)
    return Result(
        name="training",
        title="Ways of training: accuracy, and what is proved",
        story=(
            f"Networks {size.shape} (the paper: 2x256) trained in every way; delta {paper.DELTA}, gamma "
            f"{paper.GAMMA}, certificates of {size.people:,} test individuals, "
            f"{setting.seeds} seed{'s' * (setting.seeds > 1)}. **LFC** is the mean local violation that is proved, "
            "**E-DFC** the largest LFC among the other states or years, **A-DFC** the largest mean violation of any "
            "population within gamma: no population exceeds *upper*, and an explicit one, found and checked, attains "
            "*lower*. In brackets stands what the paper prints.",
            *praise(means, tried),
            *blame(means, tried),
            "**What is better, and why.** *LFC by the box* is the paper's own bound for the same network. It shows how "
            "much of the printed unfairness is the bound and not the network: certificates here are exact in the first "
            "layer and compare two runs of the network neuron by neuron, so that a small weight of the bound in the "
            "loss is enough, which costs little accuracy. Every *upper* is proved by weak duality, rounding errors "
            "included, whereas the paper's A-DFC is what an ascent has reached, which a population within gamma may "
            "exceed; and *lower* shows how far the truth can be below.",
            *forms(means, tried),
            *differences(tried),
            *found.words(),
        ),
        tables=tuple(
            (
                f"**{case.dataset.title}** ({case.dataset.words}), means of the seeds; in brackets: the paper.",
                table(means, case, paper.TRAINING.get(case.dataset.name, {})),
            )
            for case in tried
        ),
        data=data,
        draw=lambda drawn: draw(drawn, means, tried, paper.TRAINING),
        size=(7.2, 3.6),
        alt="Accuracy against the mean violation under every shift within gamma, a panel for each dataset and a mark "
        "for each way of training; a line leads from what is attained to what is proved. Grey marks are the paper's.",
    )


def praise(means: pd.DataFrame, tried: Sequence[Case]) -> list[str]:
    """What our U-DIF reaches beside the printed one."""
    told = []
    for case in tried:
        printed = paper.TRAINING.get(case.dataset.name, {}).get("u-dif")
        found = row_of(means, case, Way("u-dif"))
        if printed is not None and np.isfinite(found["a_dfc_upper"]):
            told.append(
                f"{case.dataset.title}: accuracy {found['accuracy']:.4f} with A-DFC proved to be at most "
                f"{at_most(found['a_dfc_upper'])} (the paper: {printed.accuracy:.3f} with {printed.a_dfc:.3f})"
            )
    return [f"**U-DIF with our bound.** {'; '.join(told)}."] if told else []


def blame(means: pd.DataFrame, tried: Sequence[Case]) -> list[str]:
    """Every printed figure that is better than ours with our own bounds."""
    worse = []
    for case in tried:
        for way in WAYS:
            printed = paper.TRAINING.get(case.dataset.name, {}).get(way.method)
            if printed is None or way.box:
                continue
            found = row_of(means, case, way)
            told = []
            if found["accuracy"] < printed.accuracy:
                told.append(f"accuracy {found['accuracy']:.3f} against {printed.accuracy:.3f}")
            for name, words in (("lfc", "LFC"), ("e_dfc", "E-DFC"), ("a_dfc_upper", "A-DFC")):
                other = printed.a_dfc if name == "a_dfc_upper" else getattr(printed, name)
                if found[name] > other:
                    told.append(f"{words} {at_most(found[name], 3)} against {other:.3f}")
            if told:
                price = f" at accuracy {found['accuracy']:.3f} against {printed.accuracy:.3f}"
                more = price if found["accuracy"] >= printed.accuracy else ""
                worse.append(f"{case.dataset.title}, {way.name}: {', '.join(told)}{more}")
    if not np.isfinite(means["accuracy"]).any():
        return []
    if not worse:
        return ["**What is not better.** Nothing: no printed figure is better than ours with our bounds."]
    return [f"**What is not better.** Ours against the printed figure: {'; '.join(worse)}."]


def forms(means: pd.DataFrame, tried: Sequence[Case]) -> list[str]:
    """The same method with our bound and with the box in its loss, judged by the same certificates."""
    pairs = [
        (row_of(means, case, way), row_of(means, case, replace(way, box=True))) for case in tried for way in BOUNDED
    ]
    pairs = [(ours, box) for ours, box in pairs if np.isfinite([ours["a_dfc_upper"], box["a_dfc_upper"]]).all()]
    if not pairs:
        return []
    accurate = [ours["accuracy"] > box["accuracy"] for ours, box in pairs]
    smaller = [ours["a_dfc_upper"] < box["a_dfc_upper"] for ours, box in pairs]
    return [
        f"**Our bound or the box form in the loss.** Of {len(pairs)} pairs of networks trained with one method, judged "
        f"by the same certificates, the one with our bound is the more accurate in {sum(accurate)} and has the smaller "
        f"A-DFC in {sum(smaller)}, both in {sum(map(min, accurate, smaller))}; the box form is better in both in "
        f"{sum(not max(pair) for pair in zip(accurate, smaller, strict=True))}. The same alpha weighs the larger bound "
        "more, so the two forms stand at different points of the trade-off."
    ]


def differences(tried: Sequence[Case]) -> list[str]:
    """Where data, parameters or meaning differ from the paper's."""
    trained = "; ".join(f"{case.dataset.title} on {case.dataset.words}, {_epochs(case)} epochs" for case in tried)
    blind = [case.dataset.title for case in tried if case.dataset.blind]
    said = [
        f"**What differs.** Trained were {trained} (the paper: California, from 2015 on, 50 epochs). California is a "
        "40 % sample of the survey, and Employ has no data of all ages for California, so Massachusetts stands for it "
        "and the other years are its own. Other places are those whose survey is on the machine, "
        f"{tried[0].size.people:,} people each. The columns are the paper's, scaled once for all states and years. "
        "The weight alpha of the bound was chosen on people set aside where the table of training results says so, "
        "and is 0.5 elsewhere; the paper does not print its own.",
        "The paper's LFC is the width of the interval of outputs; ours is the largest change from the individual's own "
        "output, up to a factor of two smaller. Its shift is measured by radii added to delta, ours by the "
        "Wasserstein distance of order 1 with Euclidean ground cost in the same coordinates. The metric is the "
        f"published one (sensitive subspace with ridge {RIDGE:g}), the domain unbounded.",
    ]
    if blind:
        said.append(
            f"In the paper's columns no network sees sex ({', '.join(blind)}), so FTU and SGD are the same network."
        )
    return said


def _epochs(case: Case) -> int:
    return case.size.epochs or case.dataset.epochs


def draw(
    drawn: Figure, means: pd.DataFrame, tried: Sequence[Case], printed: Mapping[str, Mapping[str, paper.Trained]]
) -> None:
    """Accuracy against the interval from lower to upper, a panel for each dataset."""
    panels = drawn.subplots(1, len(tried), sharex=True, squeeze=False)[0]
    methods = list(dict.fromkeys(way.method for way in WAYS))
    for axes, case in zip(panels, tried, strict=True):
        for way in WAYS:
            _mark(axes, row_of(means, case, way), way, style.points(methods.index(way.method)))
        for way in PLAIN + BOUNDED:
            told = printed.get(case.dataset.name, {}).get(way.method)
            if told is None:
                continue
            look = style.points(methods.index(way.method)) | {"color": style.GREY, "markersize": 3.5}
            axes.plot(told.a_dfc, told.accuracy, **look)
        axes.set_title(case.dataset.title)
    for axes in panels:  # they share their axis, so all of them are drawn first
        style.logarithmic(axes, "x")
    panels[0].set_ylabel("accuracy")
    drawn.supxlabel("mean violation of the worst population within gamma (A-DFC), proved", fontsize=9)
    _legend(drawn, methods, bool(printed))


def _mark(axes: Axes, found: pd.Series[Any], way: Way, look: dict[str, Any]) -> None:
    if np.isfinite(found["a_dfc_upper"]):
        face = "white" if way.box else look["color"]
        interval = [max(found["a_dfc_lower"], 1e-4), found["a_dfc_upper"]]
        axes.plot(interval, [found["accuracy"]] * 2, color=look["color"], linewidth=0.8)
        axes.plot(found["a_dfc_upper"], found["accuracy"], **look, markerfacecolor=face)


def _legend(drawn: Figure, methods: Sequence[Method], printed: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **style.points(k), label=Way(name).name) for k, name in enumerate(methods)]
    handles.append(Line2D([], [], linestyle="none", marker="o", color="black", mfc="white", label="box form"))
    if printed:
        handles.append(
            Line2D([], [], linestyle="none", marker="o", color=style.GREY, ms=3.5, label="the paper's figure")
        )
    handles.append(Line2D([], [], color="black", linewidth=0.8, label="from lower to upper"))
    drawn.legend(handles=handles, loc="outside upper center", ncols=5)
