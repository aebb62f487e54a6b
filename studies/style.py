"""One restrained style for every picture: legible in print, and for people who see colours differently.

Colours are those of Okabe and Ito. Lines differ by marker and dash as well, so that nothing depends on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#767676"
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def figure(size: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure in this style, drawn without a screen; settings of the caller's own pictures stay as they are."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        drawn = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def logarithmic(axes: Axes, which: Literal["x", "y", "xy"] = "xy") -> None:
    """Scale by logarithms, with plain numbers at the ticks; called last, when everything is drawn.

    An axis without anything positive, of an experiment that has found nothing so far, stays as it is.
    """
    if "x" in which and math.isfinite(axes.dataLim.minposx):
        axes.set_xscale("log")
        _ticks(axes.xaxis, axes.get_xlim())
    if "y" in which and math.isfinite(axes.dataLim.minposy):
        axes.set_yscale("log")
        _ticks(axes.yaxis, axes.get_ylim())


def _ticks(axis: Axis, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    decades = math.log10(limits[1] / limits[0])
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0) if decades > 0.7 else "all"))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def legend(drawn: Figure, marks: Mapping[str, Mapping[str, Any]], place: str, columns: int) -> None:
    """What marks mean, outside of all panels; each is given by the words beside it."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look, label=words) for words, look in marks.items()]
    drawn.legend(handles=handles, loc=f"outside {place}", ncols=columns)  # type: ignore[call-overload]


def line(number: int) -> dict[str, Any]:
    """Colour, marker and dash of the line with this number, for ``axes.plot(x, y, **line(k))``."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def points(number: int) -> dict[str, Any]:
    """The same without the line between the points."""
    return line(number) | {"linestyle": "none"}
