"""Small SVG figures, drawn without a plotting library.

Upper bounds are solid and blue, lower bounds dashed and orange, so that they differ without colour
too. Colours come from the page's style sheet through classes. Two figures stand alone, with title and description; the
others are drawn inside table cells, next to the numbers that they show, and hidden from screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup

from isonomy.report.numbers import parameter
from isonomy.report.people import DECISIONS, Group, round_up
from isonomy.report.sections import Fact

Scale = Callable[[float], float]
"""From values to coordinates of a figure."""

Place = tuple[float, Fact, Fact]
"""A shift, and the lower and upper bound within it."""

Bars = Sequence[tuple[float, float, float, float, str]]
"""From, to, people by their upper bounds, by their lower bounds, in words."""

Lane = tuple[str, float, float, str]
"""An observed shift: its name, its lower bound, its estimate, in words."""

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 52, 76
LANE = 48  # the height of an observed shift below the curve


def tag(name: str, content: object = "", **attributes: object) -> Markup:
    """Return an SVG element; attributes and text are escaped, elements inside are not."""
    inside = Markup("")
    for key, value in attributes.items():
        dashed = key if key == "viewBox" else key.rstrip("_").replace("_", "-")
        inside += Markup(' {}="{}"').format(dashed, f"{value:.6g}" if isinstance(value, float) else value)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), inside, content)


def curve(places: Sequence[Place], lanes: Sequence[Lane], gamma: float, epsilon: float | None) -> Markup:
    """Draw upper and lower bound over γ, the certificate's own γ and ε, and a lane for every observed shift.

    **Soundness.** Both are steps: an upper bound at a place holds for every smaller shift, a lower bound for every
    larger one. A straight line between two places would lie below the truth, which is concave in γ at order 1.
    """
    end, top = places[-1][0], round_up(max(upper.value for _, _, upper in places))
    height = HEIGHT + LANE * len(lanes)
    across, upwards = _scale(end, LEFT, WIDTH - RIGHT), _scale(top, HEIGHT - BOTTOM, TOP)
    sides = {
        "upper": [(across(shift), upwards(upper.value)) for shift, _, upper in places],
        "lower": [(across(shift), upwards(lower.value)) for shift, lower, _ in places],
    }
    parts = [_axes(end, top, across, upwards, "shift of the population, γ", "average unfairness")]
    lines = {side: _steps(points, early=side == "upper") for side, points in sides.items()}
    parts.append(tag("path", d=_path([*lines["upper"], *reversed(lines["lower"])]) + "Z", class_="open"))
    if epsilon is not None and 0.02 * top < epsilon <= top:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=upwards(epsilon), y2=upwards(epsilon), class_="epsilon"))
        parts.append(tag("text", f"ε = {parameter(epsilon)}", x=LEFT + 6, y=upwards(epsilon) - 6, class_="note halo"))
    parts.append(tag("line", x1=across(gamma), x2=across(gamma), y1=TOP, y2=HEIGHT - BOTTOM, class_="gamma"))
    own = f"γ = {parameter(gamma)}"
    parts.append(tag("text", own, x=across(gamma), y=TOP - 8, class_="note", text_anchor="middle"))
    for side, label, offset in (("upper", "proved: at most", -16), ("lower", "found: at least", 32)):
        points = sides[side]
        parts.append(tag("path", d=_path(lines[side]), class_=f"line {side}"))
        for (shift, lower, upper), (x, y) in zip(places, points, strict=True):
            words = tag("title", f"γ = {parameter(shift)}: {label} {upper if side == 'upper' else lower}")
            parts.append(tag("circle", words, cx=x, cy=y, r=5 if shift == gamma else 3, class_=f"dot {side}"))
        x, y = points[max(0, len(points) - 1 - len(points) // 12)]
        parts.append(tag("text", label, x=x, y=y + offset, text_anchor="end", class_=f"label halo {side}"))
    for row, lane in enumerate(lanes):
        parts.append(_lane(lane, across, end, HEIGHT + LANE * row))
    (_, lower, upper), (_, last_lower, last_upper) = places[0], places[-1]
    description = (
        f"Two rising steps. Without a shift at most {upper} is proved and {lower} was found; at a shift of "
        f"{parameter(end)} these are {last_upper} and {last_lower}. The truth lies between them. The table below "
        "has all values."
    )
    return _figure("curve", height, "Average unfairness over the size of the shift", description, parts)


def histogram(bars: Bars) -> Markup:
    """Draw the numbers of people over violations: bars by the upper bounds, a dashed outline by the lower bounds."""
    end, top = bars[-1][1], round_up(max(1, *(max(upper, lower) for _, _, upper, lower, _ in bars)))
    across, upwards = _scale(end, LEFT, WIDTH - RIGHT), _scale(top, HEIGHT - 80 - BOTTOM, TOP)
    drawn, outline = [], []
    for low, high, upper, lower, words in bars:
        left, right, level = across(low), across(high), upwards(upper)
        size = {"width": right - left - 2, "height": upwards(0) - level}
        drawn.append(tag("rect", tag("title", words), x=left + 1, y=level, **size, class_="bar"))
        outline += [(left, upwards(lower)), (right, upwards(lower))]
    line = tag("path", d=_path([(LEFT, upwards(0)), *outline, (outline[-1][0], upwards(0))]), class_="line lower")
    parts = [_axes(end, top, across, upwards, "unfairness of a person", "people"), *drawn, line]
    fullest = max(bars, key=lambda each: each[2])[-1]
    steps = f"{len(bars)} equal steps from 0 to {end:.6g}, the fullest one: {fullest}."
    description = f"{steps} The table below has all steps."
    return _figure("histogram", HEIGHT - 80, "How many people have which unfairness", description, parts)


def box(group: Group, end: float, whiskers: bool) -> Markup:
    """Draw quartiles and median of upper and lower bounds, and the interval that holds 90 % of people."""
    parts = []
    for side, values, y in (("upper", group.upper, 3), ("lower", group.lower, 16)):
        at = [_percent_of(value, end) for value in values]
        if whiskers:
            parts.append(tag("line", x1=at[0], x2=at[4], y1=y + 3.5, y2=y + 3.5, class_=f"thin {side}"))
        width = f"{max(0.4, float(at[3][:-1]) - float(at[1][:-1])):.2f}%"
        parts.append(tag("rect", x=at[1], width=width, y=y, height=7, class_=f"box {side}"))
        middle = {"x": at[2], "y": y - 2.5, "width": 3, "height": 12}
        parts.append(tag("rect", **middle, transform="translate(-1.5)", class_="median"))
    return _inline(parts, 26)


def bar(value: float, end: float) -> Markup:
    """Draw a bar from 0; nothing for a negative value."""
    return _inline([tag("rect", x=0, y=3, width=_percent_of(max(0.0, value), end), height=10, class_="plainbar")], 16)


def stacked(shares: Sequence[float]) -> Markup:
    """Draw the shares certified, flippable and undecided, one after another."""
    parts, start = [], 0.0
    for kind, share in zip(DECISIONS, shares, strict=True):
        if share > 0:
            parts.append(tag("rect", x=_percent_of(start, 1), width=_percent_of(share, 1), y=2, height=14, class_=kind))
        start += share
    return _inline(parts, 18)


def key(kind: str) -> Markup:
    """Draw a swatch for a legend."""
    inside = (
        tag("rect", x=0, y=1, width=14, height=12, class_=kind)
        if kind in DECISIONS
        else tag("line", x1=0, x2=28, y1=7, y2=7, class_=f"line {kind}")
    )
    return tag("svg", inside, class_="key", width=14 if kind in DECISIONS else 28, height=14, aria_hidden="true")


def _lane(lane: Lane, across: Scale, end: float, y: float) -> Markup:
    name, lower, estimate, words = lane
    low, high = across(min(lower, end)), across(min(estimate, end))
    short = name if len(name) <= 32 else f"{name[:31]}…"
    off = ", off this figure" if estimate > end else ""
    parts = [
        tag("text", f"{short}: {words}{off}", x=LEFT, y=y + 10, class_="note"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y + 24, y2=y + 24, class_="grid"),
        tag("line", x1=low, x2=high, y1=y + 24, y2=y + 24, class_="guess"),
        tag("line", x1=low, x2=low, y1=y + 18, y2=y + 30, class_="shift"),
        tag("circle", cx=high, cy=y + 24, r=4.5, class_="shift"),
        tag("title", f"{name}: {words}"),
    ]
    return tag("g", Markup("").join(parts))


def _axes(end: float, top: float, across: Scale, upwards: Scale, x_name: str, y_name: str) -> Markup:
    base, parts = upwards(0.0), []
    for i, value in enumerate(_ticks(top, 5)):
        y = upwards(value)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid" if i else "axis"))
        parts.append(tag("text", f"{value:,.10g}", x=LEFT - 10, y=y + 5, text_anchor="end", class_="tick"))
    for i, value in enumerate(_ticks(end, 8)):
        x = across(value)
        parts.append(tag("line", x1=x, x2=x, y1=base, y2=base + 5, class_="axis"))
        middle = "tick minor" if i % 2 else "tick"
        parts.append(tag("text", f"{value:,.10g}", x=x, y=base + 24, text_anchor="middle", class_=middle))
    parts.append(tag("text", x_name, x=WIDTH - RIGHT, y=base + 50, text_anchor="end", class_="axisname"))
    parts.append(tag("text", y_name, x=0, y=14, class_="axisname"))
    return Markup("").join(parts)


def _ticks(end: float, most: int) -> list[float]:
    """Return round numbers from 0 to ``end``, at most ``most`` steps."""
    end = min(end, 1e300)  # further than any step can count
    power = 10.0 ** math.floor(math.log10(end / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if end / (factor * power) <= most * (1 + 1e-9))
    return [float(f"{step * k:.10g}") for k in range(math.floor(end / step * (1 + 1e-9)) + 1)]


def _figure(name: str, height: float, title: str, description: str, parts: Iterable[str]) -> Markup:
    ids = f"{name}-title {name}-description"
    inside = [tag("title", title, id=f"{name}-title"), tag("desc", description, id=f"{name}-description"), *parts]
    content = Markup("").join(inside)
    return tag("svg", content, viewBox=f"0 0 {WIDTH} {height:g}", role="img", aria_labelledby=ids, class_="figure")


def _inline(parts: Iterable[str], height: float) -> Markup:
    return tag("svg", Markup("").join(parts), width="100%", height=height, class_="inline", aria_hidden="true")


def _scale(end: float, low: float, high: float) -> Scale:
    return lambda value: low + (high - low) * min(value, end) / end


def _steps(points: Sequence[tuple[float, float]], early: bool) -> list[tuple[float, float]]:
    """Return points joined by steps, each of which rises at its beginning (``early``) or at its end."""
    between = ((x, y) if early else (y, x) for x, y in pairwise(points))
    corners = [(at[0], level[1]) for at, level in between]
    return [points[0], *(each for pair in zip(corners, points[1:], strict=True) for each in pair)]


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _percent_of(value: float, end: float) -> str:
    return f"{100 * min(value, end) / end:.2f}%"
