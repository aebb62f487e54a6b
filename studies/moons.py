"""Three notions in two dimensions: local, distributional and global fairness on the two moons.

Local certificates say nothing of people who were not seen; global ones of people whom nobody will ever see. Between
them, a distributional one weighs everybody by how many can get there: to move to a place at distance ``r`` costs ``r``,
so at most the share ``gamma / r`` of a population within gamma of the seen one does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.attacks import AttackBudget
from isonomy.certificates import certify, certify_everywhere, certify_local
from isonomy.certificates.worst_case import WorstCase
from isonomy.datasets import make_moons
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.similarity import WeightedLp
from isonomy.training import FairClassifier
from studies import Result, Setting, Store, style
from studies.gamma import refined, searched
from studies.methods import Way
from studies.steps import Line, Step, known, taken

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELTA, GAMMA, HIDDEN = 0.1, 0.1, (16, 16)
METRIC = WeightedLp([1.0, 0.1], 2)
"""The vertical coordinate is protected: the fair metric counts a tenth of its square."""
METHODS = ("sgd", "u-dif")
NOTIONS = ("local", "distributional", "global")
MARKS: dict[str, dict[str, Any]] = {
    "individuals of the upper moon": {"marker": "o", "color": style.BLUE, "ls": "none"},
    "of the lower moon": {"marker": "^", "color": style.GREEN, "ls": "none"},
    "decision boundary": {"color": style.BLACK, "ls": "-", "linewidth": 0.8},
    "to the worst population found": {"marker": r"$\rightarrow$", "color": style.RED, "markersize": 9, "ls": "none"},
    "worst pair found": {"marker": "*", "color": style.RED, "markersize": 8, "ls": "none"},
}


@dataclass(frozen=True)
class Scale:
    """People, epochs, columns and rows of the map, seconds of the global search, radii of the profiles."""

    people: int = 200
    epochs: int = 200
    map_width: int = 150
    map_height: int = 105
    seconds: float = 60.0
    radii: int = 80


def run(setting: Setting, store: Store, *, scale: Scale | None = None) -> Result:
    """A plain network and one trained against every shift, each in three notions."""
    scale = scale or (Scale(60, 40, 50, 35, 3.0, 16) if setting.quick else Scale())
    steps = [
        Step("moons", {"what": "notions", "method": method, "seed": 0, **vars(scale)}, partial(notions, method, scale))
        for method in METHODS
    ]
    found = taken(steps, setting, store)
    lines = [line for line in found.lines if known(line, "map")]
    data = pd.DataFrame(
        [
            {"method": line["method"], "accuracy": line["accuracy"], "notion": notion, **line[notion]}
            for line in lines
            for notion in NOTIONS
        ]
    )
    return Result(
        name="moons",
        title="Local, distributional and global fairness on two moons",
        story=(
            f"The first figure of the paper, computed instead of drawn: a network 2x16 on two coordinates, of which "
            f"the vertical one is protected (in the fair metric a step along it counts {_vertical():.2f} of one along "
            f"the other); delta {DELTA}, gamma {GAMMA}, {scale.people} individuals, dots and triangles by class. "
            "Colour is the proved bound of the violation that somebody at a place would suffer, shown as far as the "
            "notion cares: *local*, where somebody is similar to an individual, though the mean is that of the "
            "individuals alone, whose bound is the colour beneath them; *distributional*, fading with the share of a "
            "population within gamma that can be there; *global*, everywhere. Arrows lead to the population that was "
            "found to be worst within gamma, stars are the worst pair found in the whole domain. Accuracy is that on "
            f"the {2 * scale.people} people whom the network was trained on, the individuals among them.",
            *_verdict(lines),
            "**What is better than in the paper.** All three are numbers with proofs from one library, on the same "
            "network; the paper's figure is an illustration. The global one is found by branch and bound in two "
            "dimensions, where it is feasible. **What is not.** It is two dimensions: nothing here says how fast the "
            "global search becomes hopeless in more.",
            *found.words(),
        ),
        tables=(("Mean violation (local, distributional) and largest violation (global).", table(lines)),),
        data=data,
        draw=lambda drawn: draw(drawn, lines, scale),
        size=(9.0, 2.7 * max(1, len(lines)) + 0.6),
        alt="Two rows of three maps of the two moons: bounds of the violation around the individuals only, fading "
        "with the distance from them, and everywhere. The plain network is worst along its decision boundary.",
    )


def notions(method: str, scale: Scale) -> dict[str, Any]:
    """Train, certify in three notions, and map the domain."""
    people = make_moons(2 * scale.people)
    seen = people[: scale.people]
    model = FairClassifier(
        method, delta=DELTA, gamma=GAMMA, metric=METRIC, hidden=HIDDEN, epochs=scale.epochs, alpha=1.0,
        learning_rate=5e-3, validation=0.0, random_state=0, progress=None,
    )  # fmt: skip
    model.fit(np.array(people.x), np.asarray(people.y))
    network = model.network_
    local, seconds = timed(partial(certify_local, network, seen, METRIC, DELTA, tier="exact", progress=None))
    (upper, worst), more = timed(partial(shifted, network, seen, scale))
    everywhere, most = timed(
        partial(certify_everywhere, network, METRIC, DELTA, seen, time_limit=scale.seconds, progress=None)
    )
    moved = np.argsort(-worst.masses * worst.points.cost)[:12]
    moved = moved[worst.points.cost[moved] > 0]
    x, y = places(seen, scale)
    at = np.stack([side.ravel() for side in np.meshgrid(x, y)], axis=1)
    bound = certify_local(network, at, METRIC, DELTA, domain=seen.domain, attack=False, predict=True, progress=None)
    shape = (scale.map_height, scale.map_width)
    return {
        "accuracy": float((model.predict(np.array(people.x)) == people.y).mean()),
        "local": {"lower": local.mean_lower, "upper": local.mean_upper, "seconds": seconds},
        "distributional": {"lower": worst.value, "upper": upper, "seconds": more},
        "global": {"lower": everywhere.lower, "upper": everywhere.upper, "seconds": most},
        "map": bound.upper.reshape(shape).round(4),
        "decision": bound.prediction[:, 1].reshape(shape).round(4),
        "from": np.array(seen.x)[worst.points.owner[moved]].round(4),
        "to": worst.points.person[moved].round(4),
        "pair": [everywhere.witness.individual[0].round(4), everywhere.witness.counterpart[0].round(4)],
    }


def shifted(network: Network, seen: Population, scale: Scale) -> tuple[float, WorstCase]:
    """A distributional upper bound with many radii, and a worst population with many places to go."""
    effort = AttackBudget() if scale.radii > 20 else AttackBudget(steps=5, restarts=0)
    found = certify(network, seen, METRIC, DELTA, GAMMA, attack=effort, progress=None)
    points = searched(found, GAMMA / 8, effort)
    return refined(found, scale.radii).bound(GAMMA).upper, points.worst(found.problem, found.weights, found.shift)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and CPU seconds."""
    started = time.process_time()
    return work(), time.process_time() - started


def places(people: Population, scale: Scale) -> tuple[FloatArray, FloatArray]:
    """The coordinates of the map's columns and rows."""
    low, high = people.domain.low, people.domain.high
    return np.linspace(low[0], high[0], scale.map_width), np.linspace(low[1], high[1], scale.map_height)


def shares(x: FloatArray, y: FloatArray, people: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each place of the map: whether it is similar to somebody seen, and which share of people can be there."""
    at = np.stack(np.meshgrid(x, y), axis=2)[:, :, None]
    move = at - people
    similar = (np.sqrt(move[..., 0] ** 2 + 0.1 * move[..., 1] ** 2) <= DELTA).any(axis=2)
    nearest = np.linalg.norm(move, axis=3).min(axis=2)
    return similar.astype(float), np.minimum(1.0, GAMMA / np.maximum(nearest, 1e-9))


def _vertical() -> float:
    """What a vertical step of 1 counts in the fair metric."""
    return float(METRIC.distance(np.zeros((1, 2)), np.array([[0.0, 1.0]]))[0])


def table(lines: Sequence[Line]) -> pd.DataFrame:
    """Lower to upper for each network and notion."""
    rows = []
    for line in lines:
        row = {"trained with": Way(line["method"]).name, "accuracy": f"{line['accuracy']:.3f}"}
        for notion in NOTIONS:
            row[notion] = _bracket(line[notion]) + f" ({line[notion]['seconds']:.1f} CPU s)"
        rows.append(row)
    return pd.DataFrame(rows)


def _bracket(found: Mapping[str, float]) -> str:
    return f"{at_least(found['lower'], 3)} to {at_most(found['upper'], 3)}"


def _verdict(lines: Sequence[Line]) -> list[str]:
    return [
        f"{Way(line['method']).name} (accuracy {line['accuracy']:.3f}): "
        + ", ".join(f"{notion} {_bracket(line[notion])}" for notion in NOTIONS)
        + "."
        for line in lines
    ]


def draw(drawn: Figure, lines: Sequence[Line], scale: Scale) -> None:
    """A row for each network, a column for each notion."""
    panels = drawn.subplots(max(1, len(lines)), 3, sharex=True, sharey=True, squeeze=False)
    seen = make_moons(2 * scale.people)[: scale.people]
    x, y = places(seen, scale)
    people, labels = np.array(seen.x), np.asarray(seen.y)
    similar, reach = shares(x, y, people)
    image, top = None, max((np.max(line["map"]) for line in lines), default=1.0)
    for row, line in zip(panels, lines, strict=False):
        for axes, notion, alpha in zip(row, NOTIONS, (similar, reach, np.ones_like(reach)), strict=True):
            image = axes.imshow(
                np.array(line["map"]), extent=(x[0], x[-1], y[0], y[-1]), origin="lower", aspect="auto",
                cmap="magma_r", vmin=0.0, vmax=top, alpha=alpha, interpolation="nearest",
            )  # fmt: skip
            axes.contour(x, y, np.array(line["decision"]), [0.5], colors=style.BLACK, linewidths=0.8)
            for moon, marker in ((0, "o"), (1, "^")):
                some = people[labels == moon]
                look = {"marker": marker, "markersize": 3, "color": (style.BLUE, style.GREEN)[moon]}
                axes.plot(*some.T, **look, linestyle="none", markeredgecolor="white", markeredgewidth=0.3)
            kind = "largest" if notion == "global" else "mean"
            axes.set_title(f"{Way(line['method']).name}, {notion}: {kind} {_bracket(line[notion])}", fontsize=8)
            axes.grid(False)
        _marks(row[1], row[2], line)
    for axes in panels[-1]:
        axes.set_xlabel("horizontal")
    for row in panels:
        row[0].set_ylabel("vertical (protected)")
    if image is not None:
        from matplotlib.cm import ScalarMappable

        scale_of = ScalarMappable(norm=image.norm, cmap=image.cmap)
        drawn.colorbar(scale_of, ax=panels.ravel().tolist(), label="violation, proved", shrink=0.7, pad=0.01)
        style.legend(drawn, MARKS, "lower center", len(MARKS))


def _marks(middle: Axes, right: Axes, line: Line) -> None:
    """The worst population within gamma, and the worst pair of all."""
    for start, end in zip(line["from"], line["to"], strict=True):
        arrow = {"arrowstyle": "->", "color": style.RED, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        middle.annotate("", end, xytext=start, arrowprops=arrow)
    right.plot(*np.array(line["pair"]).T, marker="*", markersize=8, color=style.RED, markeredgecolor="white", lw=1)
