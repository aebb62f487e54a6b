"""Small SVG figures, drawn without a plotting library.

What was shown is filled, what was proved is a black line, and the gap between them is pale: a loose proof looks loose.
Axes start at 0. Colours come from the page's style sheet through classes. Figures inside table cells stand next to the
numbers that they show, and are hidden from screen readers; others have a title, a description and a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup

from isonomy.report.numbers import parameter, round_up
from isonomy.report.sections import NOT_SEARCHED, UNSEARCHED, Fact

Scale = Callable[[float], float]
"""From values to coordinates of a figure."""

Place = tuple[float, Fact, Fact]
"""A shift, and the lower and upper bound within it."""

Lane = tuple[str, float, float, str]
"""An observed shift: its name, its lower bound, its estimate, in words."""

Bin = tuple[float, float, tuple[float, ...], float | None, str]
"""From, to, people of each kind, people by what was proved (None: no outline), in words."""

Person = tuple[float, float, float, str]
"""Of one person: score today, lowest and highest shown, and the kind."""

WIDTH, HEIGHT, TALL = 720, 360, 520
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 40, 64
LANE = 48  # the height of an observed shift below the curve


def tag(name: str, content: object = "", **attributes: object) -> Markup:
    """Return an SVG element; attributes and text are escaped, elements inside are not."""
    inside = Markup("")
    for key, value in attributes.items():
        dashed = key if key == "viewBox" else key.rstrip("_").replace("_", "-")
        inside += Markup(' {}="{}"').format(dashed, f"{value:.6g}" if isinstance(value, float) else value)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), inside, content)


def curve(
    places: Sequence[Place], lanes: Sequence[Lane], gamma: float, epsilon: float | None, name: str, scale: float = 1.0
) -> Markup:
    """Draw upper and lower bound over γ, the certificate's own γ and ε, and a lane for every observed shift; numbers of
    the upright axis are ``scale`` times the bounds.

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
    parts = [_axes(end, top, across, upwards, "distance of the shift, γ", name, upright=scale)]
    lines = {side: _steps(points, early=side == "upper") for side, points in sides.items()}
    parts.append(tag("path", d=_path([*lines["upper"], *reversed(lines["lower"])]) + "Z", class_="gap"))
    if epsilon is not None and 0.02 * top < epsilon <= top:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=upwards(epsilon), y2=upwards(epsilon), class_="limit"))
        parts.append(tag("text", f"limit {scale * epsilon:.10g}", x=LEFT + 6, y=upwards(epsilon) - 6, class_="halo"))
    parts.append(tag("line", x1=across(gamma), x2=across(gamma), y1=TOP, y2=HEIGHT - BOTTOM, class_="asked"))
    own = f"asked: {parameter(gamma)}"
    parts.append(tag("text", own, x=across(gamma), y=TOP - 8, text_anchor="middle"))
    for side, label, offset in (("upper", "proved, at most", -14), ("lower", "shown, at least", 26)):
        points = sides[side]
        parts.append(tag("path", d=_path(lines[side]), class_=f"line {side}"))
        for (shift, lower, upper), (x, y) in zip(places, points, strict=True):
            value = upper if side == "upper" else lower
            said = UNSEARCHED if str(value) == NOT_SEARCHED else f"{label} {value}"
            words = tag("title", f"γ = {parameter(shift)}: {said}")
            parts.append(tag("circle", words, cx=x, cy=y, r=4 if shift == gamma else 2, class_=f"dot {side}"))
        x, y = points[max(0, len(points) - 1 - len(points) // 12)]
        parts.append(tag("text", label, x=x, y=y + offset, text_anchor="end", class_=f"halo {side}"))
    parts += [_lane(lane, across, end, HEIGHT + LANE * row) for row, lane in enumerate(lanes)]
    (_, lower, upper), (_, last_lower, last_upper) = places[0], places[-1]
    description = (
        f"Two rising steps. Without a shift at most {upper} is proved and {lower} was shown; at a shift of "
        f"{parameter(end)} these are {last_upper} and {last_lower}. The table below has all values."
    )
    return _figure("curve", height, "The further people shift, the more is possible", description, parts)


def bars(name: str, title: str, bins: Sequence[Bin], kinds: Sequence[str], scale: float, axis: str) -> Markup:
    """Draw how many people are in each bin, stacked by kind, and as an outline what is proved of them; numbers of the
    axis are ``scale`` times those of the bins."""
    most = max(1.0, *(max(sum(counts), proved or 0.0) for _, _, counts, proved, _ in bins))
    end, top = bins[-1][1], round_up(most)
    across, upwards = _scale(end, LEFT, WIDTH - RIGHT), _scale(top, HEIGHT - BOTTOM, TOP)
    drawn, outline = [], []
    for low, high, counts, proved, words in bins:
        below = 0.0
        for kind, count in zip(kinds, counts, strict=True):
            size = {"width": across(high) - across(low) - 2, "height": upwards(below) - upwards(below + count)}
            if count:
                place = {"x": across(low) + 1, "y": upwards(below + count)}
                drawn.append(tag("rect", tag("title", words), **place, **size, class_=f"k-{kind}"))
            below += count
        outline += [] if proved is None else [(across(low), upwards(proved)), (across(high), upwards(proved))]
    if outline:
        drawn.append(
            tag("path", d=_path([(LEFT, upwards(0)), *outline, (outline[-1][0], upwards(0))]), class_="outline")
        )
    parts = [_axes(end, top, across, upwards, axis, "people", scale), *drawn]
    fullest = max(bins, key=lambda each: sum(each[2]))[-1]
    description = f"{len(bins)} equal steps, the fullest one: {fullest}. The table below has all steps."
    return _figure(name, HEIGHT, title, description, parts)


def lines(people: Sequence[Person], top: float, cut: float | None, scale: float, axis: str, words: str) -> Markup:
    """Draw one line for each person, in the order given: from the lowest to the highest score shown, and today's."""
    across, upwards = _scale(len(people), LEFT, WIDTH - RIGHT), _scale(top, TALL - 12, TOP)
    wide = (WIDTH - RIGHT - LEFT) / len(people)
    parts = []
    for value in _ticks(top, 4):
        y = upwards(value)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", f"{scale * value:,.10g}", x=LEFT - 8, y=y + 5, text_anchor="end"))
    for i, (today, low, high, kind) in enumerate(people):
        middle, thick = across(i + 0.5), max(0.6, 0.7 * wide)
        box = {"x": middle - thick / 2, "width": thick}
        size = {"y": upwards(high), "height": max(0.8, upwards(low) - upwards(high))}
        parts.append(tag("rect", **box, **size, class_=f"k-{kind}"))
        parts.append(tag("rect", **box, y=upwards(today) - 1.2, height=2.4, class_="today"))
    if cut is not None:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=upwards(cut), y2=upwards(cut), class_="cut"))
    parts.append(tag("text", axis, x=0, y=14, class_="axisname"))
    return _figure("people-lines", TALL, "Every line is one person", words, parts)


def split(counts: Sequence[tuple[str, int]]) -> Markup:
    """Draw a bar of the numbers of people of each kind, one after another."""
    total, start, parts = max(1, sum(count for _, count in counts)), 0.0, []
    for kind, count in counts:
        share = count / total
        if count:
            size = {"x": _percent_of(start, 1), "width": _percent_of(max(0.0, share - 0.003), 1)}
            parts.append(tag("rect", **size, y=0, height=16, class_=f"k-{kind}"))
        start += share
    return _inline(parts, 16)


def between(lower: float, upper: float, end: float) -> Markup:
    """Draw a bar up to what was shown, pale up to what was proved, and a black mark there."""
    low, high = (_percent_of(value, end) for value in (lower, min(upper, end)))
    gap = f"{float(high[:-1]) - float(low[:-1]):.2f}%"
    parts = [
        tag("rect", x=0, width=low, y=4, height=10, class_="shown"),
        tag("rect", x=low, width=gap if upper > lower else "0%", y=4, height=10, class_="gap"),
        tag("rect", x=high, width=2.5, y=0, height=18, transform="translate(-1.5)", class_="mark"),
    ]
    return _inline(parts, 18)


def both(lose: int, gain: int, most: int) -> Markup:
    """Draw who loses to the left of the middle, and who gains to the right of it."""
    left, right = (50 * count / max(1, most) for count in (lose, gain))
    parts = [
        tag("rect", x=f"{50 - left:.2f}%", width=f"{left:.2f}%", y=3, height=10, class_="k-alone"),
        tag("rect", x="50%", width=f"{right:.2f}%", y=3, height=10, class_="k-alone"),
        tag("rect", x="50%", width=1.5, y=0, height=16, transform="translate(-.75)", class_="mark"),
    ]
    return _inline(parts, 16)


def rate(value: float, low: float, high: float, small: bool) -> Markup:
    """Draw an observed share and its interval on a line from 0 to 1."""
    parts = [
        tag("line", x1=0, x2="100%", y1=8, y2=8, class_="grid"),
        tag("rect", x=_percent_of(low, 1), width=_percent_of(high - low, 1), y=6, height=4, class_="shown"),
        tag("circle", cx=_percent_of(value, 1), cy=8, r=5, class_="dot lower" if small else "dot upper"),
    ]
    return _inline(parts, 16)


def person(today: float, low: float, high: float, top: float, cut: float | None, kind: str) -> Markup:
    """Draw the scores shown for one person, the score today and the cut-off."""
    start, wide = _percent_of(low, top), max(0.4, 100 * (high - low) / top)
    parts = [
        tag("line", x1=0, x2="100%", y1=11, y2=11, class_="grid"),
        tag("rect", x=start, width=f"{wide:.2f}%", y=7, height=8, class_=f"k-{kind}"),
        tag("rect", x=_percent_of(today, top), width=4, y=3, height=16, transform="translate(-2)", class_="today"),
    ]
    if cut is not None:
        at = _percent_of(cut, top)
        parts.append(tag("line", x1=at, x2=at, y1=0, y2=22, class_="cut"))
    return _inline(parts, 22)


def key(kind: str) -> Markup:
    """Draw a swatch for a legend."""
    inside = tag("rect", x=0, y=1, width=12, height=12, class_=f"k-{kind}")
    if kind in ("upper", "today", "cut"):
        inside = tag("line", x1=0, x2=14, y1=7, y2=7, class_="line upper")
    return tag("svg", inside, class_="key", width=14, height=14, aria_hidden="true")


def _lane(lane: Lane, across: Scale, end: float, y: float) -> Markup:
    name, lower, estimate, words = lane
    low, high = across(min(lower, end)), across(min(estimate, end))
    short = name if len(name) <= 32 else f"{name[:31]}…"
    off = ", off this figure" if estimate > end else ""
    parts = [
        tag("text", f"{short}: {words}{off}", x=LEFT, y=y + 10),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y + 24, y2=y + 24, class_="grid"),
        tag("line", x1=low, x2=high, y1=y + 24, y2=y + 24, class_="guess"),
        tag("line", x1=low, x2=low, y1=y + 18, y2=y + 30, class_="shift"),
        tag("circle", cx=high, cy=y + 24, r=4.5, class_="shift"),
        tag("title", f"{name}: {words}"),
    ]
    return tag("g", Markup("").join(parts))


def _axes(
    end: float, top: float, across: Scale, upwards: Scale, x_name: str, y_name: str, scale: float = 1.0,
    upright: float = 1.0,
) -> Markup:  # fmt: skip
    base, parts = upwards(0.0), []
    for i, value in enumerate(_ticks(top * upright, 5)):
        y = upwards(value / upright)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid" if i else "axis"))
        parts.append(tag("text", f"{value:,.10g}", x=LEFT - 8, y=y + 5, text_anchor="end"))
    for i, value in enumerate(_ticks(end * scale, 8)):
        x = across(value / scale)
        parts.append(tag("line", x1=x, x2=x, y1=base, y2=base + 5, class_="axis"))
        middle = "minor" if i % 2 else "tick"
        parts.append(tag("text", f"{value:,.10g}", x=x, y=base + 22, text_anchor="middle", class_=middle))
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
    return f"{100 * min(max(0.0, value), end) / end:.2f}%"
