"""What size costs: the time of training by width, and time and value of certificates by width and depth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_most
from isonomy.certificates import certify
from isonomy.training import FairClassifier
from studies import Result, Setting, Store, paper, style
from studies.methods import BOUNDED, Way
from studies.models import Case, Size, cases
from studies.steps import Step, taken
from studies.tables import ADULT, UCI, Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPOCHS = f"the paper's {paper.PARAMETERS['adult'].epochs} epochs"
LONGER = {"german": 20}
"""Times as many epochs on a small table, so that there are 600 steps, as in the estimators' own default."""
JUDGED = (Way("sgd"), *BOUNDED)


@dataclass(frozen=True)
class Sizes:
    """The widths of one hidden layer, the depths at one width, and how much of everything else."""

    widths: tuple[int, ...] = (8, 16, 32, 64, 256, 1024, 4096)
    depths: tuple[int, ...] = (1, 2, 3, 4, 6)
    deep: int = 64
    epochs: int = 10
    rows: int | None = None
    people: int = 200

    @classmethod
    def of(cls, setting: Setting) -> Sizes:
        """The whole experiment, or its quick form."""
        return cls((8, 64), (1, 2), 8, 5, 1000, 20) if setting.quick else cls()

    def size(self, dataset: Dataset, hidden: tuple[int, ...]) -> Size:
        """Networks of one shape."""
        return Size(self.rows, self.epochs * LONGER.get(dataset.name, 1), hidden, self.people)


def run(
    setting: Setting, store: Store, *, datasets: Sequence[Dataset] = UCI, judged: Dataset = ADULT,
    sizes: Sizes | None = None,
) -> Result:  # fmt: skip
    """One seed: times hardly depend on it."""
    sizes = sizes or Sizes.of(setting)
    shapes = [(width,) for width in sizes.widths]
    deeper = [(sizes.deep,) * depth for depth in sizes.depths if (sizes.deep,) * depth not in shapes]
    steps = [
        _training(dataset, way, shape, sizes, setting) for shape in shapes for dataset in datasets for way in BOUNDED
    ]
    steps += [_certificate(judged, way, shape, sizes, setting) for shape in (*shapes, *deeper) for way in JUDGED]
    found = taken(steps, setting, store)
    lines = pd.DataFrame([_row(line) for line in found.lines])
    for name in ("cpu_seconds", "upper", "local", "accuracy"):
        lines[name] = lines.get(name, pd.Series(np.nan, lines.index))
    trained, bounds = (lines[lines["what"] == what].copy() for what in ("training time", "certificate"))
    # Time is in proportion to epochs.
    whole = trained["dataset"].map({name: told.epochs for name, told in paper.PARAMETERS.items()})
    trained["minutes"] = trained["cpu_seconds"] / 60 * whole / trained["epochs"]
    return Result(
        name="scalability",
        title="What size costs",
        story=(
            f"**Training.** One hidden layer of {sizes.widths[0]} to {sizes.widths[-1]} neurons, with the paper's "
            f"learning rate, delta and gamma, one seed: minutes of one processor core for {EPOCHS}. They were measured "
            f"over {sizes.epochs} (German, which is small: {sizes.epochs * LONGER['german']}), and scaled. Beside "
            "them stand the minutes that training by mixed-integer programming (MILP) took for the same widths on "
            "several GPUs (Benussi et al. 2022), which the paper plots as well.",
            *_longest(trained),
            f"**Certificates.** {judged.title}: upper bounds for every population within gamma of {sizes.people} test "
            "individuals, and the seconds of one core that they take (without the search for a worst population), by "
            f"width, and by depth with {sizes.deep} neurons in each layer.",
            *_growth(bounds, sizes),
            "**What is better, and why.** Bounds that need no integer program make training a matter of minutes on one "
            "core, as in the paper. The paper says that its certificates get looser as networks grow and prints no "
            "numbers; here the first layer is exact, so that with one hidden layer only the kinks of its neurons are "
            "relaxed. What that gains over the box is measured [elsewhere](orthotope.md), not by width.",
            "**What is not.** Bounds still grow with the size of a network, and upper bounds alone do not say how much "
            "of that is the network's own doing. The paper's minutes are a laptop's and those of the literature a "
            "server's, so only orders of magnitude compare. The mixed-integer program proves a statement about the "
            "whole domain, which is more than a bound for populations near the people at hand.",
            *found.words(),
        ),
        tables=(
            (f"Minutes of training for {EPOCHS}, one core; literature: minutes on several GPUs.",
             _times(trained, datasets, sizes)),
            (f"Certificates by width, one hidden layer, {judged.title}.", _bounds(bounds, [*shapes])),
            (f"Certificates by depth, {sizes.deep} neurons in each layer, {judged.title}.",
             _bounds(bounds, [(sizes.deep,) * depth for depth in sizes.depths])),
        ),
        data=lines,
        draw=lambda drawn: _draw(drawn, trained, bounds, datasets, sizes),
        size=(9.0, 5.0),
        alt="Five panels: minutes of training by width beside those of mixed-integer programming; upper bounds and "
        "seconds of certificates by width; the same by depth.",
    )  # fmt: skip


def _training(dataset: Dataset, way: Way, shape: tuple[int, ...], sizes: Sizes, setting: Setting) -> Step:
    case = cases((dataset,), sizes.size(dataset, shape), setting)[0]
    key = {"what": "training time", **case.key(way, 0)}

    def compute() -> dict[str, Any]:
        _warm_up(case)
        facts = case.network(way, 0).facts
        return {name: facts[name] for name in ("cpu_seconds", "accuracy", "classes")}

    return Step(dataset.title, key, compute)


def _warm_up(case: Case) -> None:
    """Train something first, so that no time holds what a process does once."""
    model = FairClassifier(
        "u-dif",
        delta=0.05,
        alpha=1.0,
        hidden=(2,),
        metric=case.metric,
        domain="unbounded",
        epochs=1,
        random_state=0,
        progress=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(case.train.sample(64))


def _certificate(dataset: Dataset, way: Way, shape: tuple[int, ...], sizes: Sizes, setting: Setting) -> Step:
    case = cases((dataset,), sizes.size(dataset, shape), setting)[0]

    def compute() -> dict[str, Any]:
        trained = case.network(way, 0)
        people, metric = case.some, case.metric
        started = time.process_time()
        found = certify(trained.network, people, metric, dataset.delta, dataset.gamma, attack=False, progress=None)
        upper = found.upper
        seconds = time.process_time() - started
        return {"cpu_seconds": seconds, "upper": upper, "local": found.local.mean_upper} | {
            name: trained.facts[name] for name in ("accuracy", "classes")
        }

    return case.step("certificate", way, 0, compute)


def _row(line: dict[str, Any]) -> dict[str, Any]:
    hidden = line["hidden"]
    return {"width": hidden[0], "depth": len(hidden)} | {
        name: value for name, value in line.items() if name not in ("load", "hidden", "box", "rows")
    }


def _pick(lines: pd.DataFrame, name: str, **wanted: Any) -> float:
    """One number, NaN where it was not computed."""
    for column, value in wanted.items():
        lines = lines[lines[column] == value]
    return float(lines[name].iloc[0]) if len(lines) else float("nan")


def _times(trained: pd.DataFrame, datasets: Sequence[Dataset], sizes: Sizes) -> pd.DataFrame:
    rows = []
    for dataset in datasets:
        told = dict(zip(paper.MILP_WIDTHS, paper.MILP_MINUTES.get(dataset.name, ()), strict=False))
        for width in sizes.widths:
            cells: dict[str, Any] = {"table": dataset.title, "width": width}
            for way in BOUNDED:
                minutes = _pick(trained, "minutes", dataset=dataset.name, width=width, method=way.method)
                cells[way.name] = f"{minutes:.2g}" if np.isfinite(minutes) else None
            rows.append(cells | {"MILP, literature": str(told.get(width, ""))})
    return pd.DataFrame(rows)


def _bounds(bounds: pd.DataFrame, shapes: Sequence[tuple[int, ...]]) -> pd.DataFrame:
    rows = []
    for shape in shapes:
        cells: dict[str, Any] = {"hidden layers": f"{len(shape)}x{shape[0]}"}
        for way in JUDGED:
            asked = {"width": shape[0], "depth": len(shape), "method": way.method}
            upper, seconds = _pick(bounds, "upper", **asked), _pick(bounds, "cpu_seconds", **asked)
            accuracy = _pick(bounds, "accuracy", **asked)
            known = np.isfinite(upper)
            cells[f"{way.name}: accuracy, upper, seconds"] = (
                f"{accuracy:.4f}, {at_most(upper)}, {seconds:.1f}" if known else None
            )
        rows.append(cells)
    return pd.DataFrame(rows)


def _longest(trained: pd.DataFrame) -> list[str]:
    """The longest training of each method, and what the paper prints."""
    said = []
    for way in BOUNDED:
        known = trained[(trained["method"] == way.method) & np.isfinite(trained["minutes"])]
        if len(known):
            worst = known.loc[known["minutes"].idxmax()]
            told = f"; the paper {paper.WIDEST_MINUTES[way.method]}" if way.method in paper.WIDEST_MINUTES else ""
            place = f"{worst['dataset'].capitalize()}, width {worst['width']}"
            said.append(f"{way.name} {worst['minutes']:.1f} ({place}{told})")
    return [f"The longest trainings, in minutes: {', '.join(said)}."] if said else []


def _growth(bounds: pd.DataFrame, sizes: Sizes) -> list[str]:
    """How the bound grows from the smallest to the largest network, by method."""
    said = []
    for way in JUDGED:
        first, last = (
            _pick(bounds, "upper", width=width, depth=1, method=way.method)
            for width in (sizes.widths[0], sizes.widths[-1])
        )
        shallow, deep = (
            _pick(bounds, "upper", width=sizes.deep, depth=depth, method=way.method)
            for depth in (sizes.depths[0], sizes.depths[-1])
        )
        if np.isfinite([first, last, shallow, deep]).all():
            said.append(
                f"{way.name} from {at_most(first)} at width {sizes.widths[0]} to {at_most(last)} at "
                f"{sizes.widths[-1]}, and from {at_most(shallow)} at depth {sizes.depths[0]} to {at_most(deep)} at "
                f"{sizes.depths[-1]}"
            )
    return [f"The upper bound goes {'; '.join(said)}."] if said else []


def _draw(
    drawn: Figure, trained: pd.DataFrame, bounds: pd.DataFrame, datasets: Sequence[Dataset], sizes: Sizes
) -> None:
    panels = drawn.subplot_mosaic([["times", "width", "width_seconds"], ["times", "depth", "depth_seconds"]])
    for number, dataset in enumerate(datasets):
        slowest = [
            max(_pick(trained, "minutes", dataset=dataset.name, width=w, method=way.method) for way in BOUNDED)
            for w in sizes.widths
        ]
        look = style.line(number)
        panels["times"].plot(sizes.widths, slowest, **look, label=f"{dataset.title}, slowest of ours")
        told = paper.MILP_MINUTES.get(dataset.name, ())
        panels["times"].plot(
            paper.MILP_WIDTHS[: len(told)], told, **_starred(look), label=f"{dataset.title}, MILP (literature)"
        )
    _by_width(panels["times"], sizes, f"minutes of training, {EPOCHS}")
    for number, way in enumerate(JUDGED):
        look = style.line(number)
        for name, column in (("", "upper"), ("_seconds", "cpu_seconds")):
            wide = [_pick(bounds, column, width=w, depth=1, method=way.method) for w in sizes.widths]
            deep = [_pick(bounds, column, width=sizes.deep, depth=d, method=way.method) for d in sizes.depths]
            panels[f"width{name}"].plot(sizes.widths, wide, **look, label=way.name)
            panels[f"depth{name}"].plot(sizes.depths, deep, **look)
    for name, words in (("", "upper bound"), ("_seconds", "seconds of a certificate")):
        _by_width(panels[f"width{name}"], sizes, words)
        axes = panels[f"depth{name}"]
        axes.set(xticks=sizes.depths, xlabel=f"hidden layers of {sizes.deep} neurons", ylabel=words)
        style.logarithmic(axes, "y")
    for name, place in (("times", "left"), ("width", "right")):
        handles, labels = panels[name].get_legend_handles_labels()
        columns = 2 if name == "times" else 4
        drawn.legend(handles, labels, loc=f"outside lower {place}", ncols=columns)  # type: ignore[call-overload]


def _starred(look: dict[str, Any]) -> dict[str, Any]:
    """The same colour as stars: figures of the literature."""
    return look | {"marker": "*", "linestyle": "none", "markersize": 7}


def _by_width(axes: Axes, sizes: Sizes, upwards: str) -> None:
    axes.set(xlabel="neurons in the hidden layer", ylabel=upwards)
    style.logarithmic(axes)
    axes.set_xticks(sizes.widths, [str(width) for width in sizes.widths])
    axes.set_xticks([], minor=True)
