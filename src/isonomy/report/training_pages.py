"""Pages about training: the points of a scorecard, and what a certified level costs. They load nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from isonomy.arithmetic import at_most
from isonomy.escapes import visible
from isonomy.report.figures import tag
from isonomy.report.html import csp_hash, stylesheet
from isonomy.report.numbers import decimals_of

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 300, 64, 14, 34, 48
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4")
MARKS = ("●", "■", "▲", "◆", "▼", "○", "□", "△", "◇", "▽")


def scorecard_page(title: str, base: Sequence[float], table: pd.DataFrame, choice: pd.DataFrame, sentence: str) -> str:
    """Return the page of a scorecard: the points of every value, feature by feature, and how it was chosen."""
    start = ", ".join(f"{each:.1f}" for each in base)
    parts: list[Markup] = [
        _paragraph(
            f"Everybody starts with {start} points, and each feature adds the points of its value. Twenty points "
            "double the odds; points of a regression are the outcome's units."
        )
    ]
    for feature, lines in table.groupby("feature", sort=False):
        shown = lines.drop(columns="feature")
        empty = [name for name in shown if shown[name].replace("", math.nan).isna().all()]
        parts += [tag("h2", _text(feature)), _table(shown.drop(columns=empty))]
    parts += [tag("h2", "How it was chosen"), _table(choice.reset_index(names="")), _paragraph(sentence)]
    return _page(title, parts)


def frontier_page(title: str, curve: pd.DataFrame, table: pd.DataFrame, sentences: Iterable[str]) -> str:
    """Return the page of a frontier: log-loss and balanced accuracy against what is proved, and every model."""
    parts = [_paragraph(each) for each in sentences]
    names = {"log_loss": "log-loss", "balanced_accuracy": "balanced accuracy"}
    bounds = {"upper": "proved within γ", "local_upper": "proved of these people"}
    for name, words in names.items():
        for bound, proved in bounds.items():
            if curve.empty or not curve[[name, bound]].notna().all(axis=1).any():
                continue
            parts.append(tag("figure", _trade(curve, bound, name, proved, words)))
    parts += [tag("h2", "Means over the seeds, with standard errors"), _table(curve)]
    parts += [tag("h2", "Every model"), _table(table)]
    return _page(title, parts)


def _trade(curve: pd.DataFrame, bound: str, name: str, proved: str, words: str) -> Markup:
    """Return a figure of one quantity against a bound, with errors, a line for each method."""
    known = curve[curve[[name, bound]].notna().all(axis=1)]
    across = _Axis(known, bound, LEFT, WIDTH - RIGHT, start=0.0)
    upwards = _Axis(known, name, HEIGHT - BOTTOM, TOP)
    parts = [tag("text", words, x=0, y=14, class_="axisname")]
    parts.append(tag("text", proved, x=WIDTH - RIGHT, y=HEIGHT - 6, text_anchor="end", class_="axisname"))
    for value, x in across.ticks:
        parts.append(tag("text", f"{value:.3g}", x=x, y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
    for value, y in upwards.ticks:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", f"{value:.3f}", x=LEFT - 6, y=y + 4, text_anchor="end"))
    for number, (method, group) in enumerate(known.groupby("method", sort=False)):
        places = [(across.at(row[bound]), upwards.at(row[name]), row) for _, row in group.sort_values(bound).iterrows()]
        path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        style = {"fill": "none", "stroke": "currentColor", "stroke_dasharray": DASHES[number % len(DASHES)] or "none"}
        parts.append(tag("path", d=path, **style))
        for x, y, row in places:
            parts += _errors(row, bound, name, across.at, upwards.at)
            hint = tag(
                "title", f"{method}, {row['option']:g}: {proved} {at_most(row[bound], 4)}, {words} {row[name]:.4f}"
            )
            mark = Markup("{}{}").format(MARKS[number % len(MARKS)], hint)
            parts.append(tag("text", mark, x=x, y=y + 5, text_anchor="middle"))
        x, y, _ = places[-1]
        parts.append(
            tag("text", f"{MARKS[number % len(MARKS)]} {method}", x=min(x, WIDTH - 90) + 8, y=y - 8, class_="halo")
        )
    title = tag("title", f"{words} against what is {proved}")
    return tag("svg", Markup("").join([title, *parts]), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", width=WIDTH)


def _errors(
    row: Any, bound: str, name: str, across: Callable[[float], float], upwards: Callable[[float], float]
) -> list[Markup]:
    """Return lines of one standard error on both sides."""
    lines = []
    ends = {side: [row[side] + sign * row[f"{side}_se"] for sign in (-1, 1)] for side in (bound, name)}
    if math.isfinite(row[f"{name}_se"]):
        x, (low, high) = across(row[bound]), map(upwards, ends[name])
        lines.append(tag("line", x1=x, x2=x, y1=low, y2=high, stroke="currentColor"))
    if math.isfinite(row[f"{bound}_se"]):
        y, (low, high) = upwards(row[name]), map(across, ends[bound])
        lines.append(tag("line", x1=low, x2=high, y1=y, y2=y, stroke="currentColor"))
    return lines


class _Axis:
    """A scale over the values of a column with their errors, and round places on it."""

    def __init__(self, table: pd.DataFrame, name: str, low: float, high: float, start: float | None = None) -> None:
        error = table[f"{name}_se"].fillna(0.0)
        least = float((table[name] - error).min()) if start is None else start
        most = float((table[name] + error).max())
        margin = 0.06 * (most - least) or 0.01
        self.least, self.most = least - (margin if start is None else 0.0), most + margin
        self.low, self.high = low, high

    def at(self, value: float) -> float:
        """Return the place of a value."""
        return self.low + (self.high - self.low) * (value - self.least) / (self.most - self.least)

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """Return five values and their places."""
        values = [self.least + share * (self.most - self.least) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        return [(value, self.at(value)) for value in values]


def _paragraph(text: str) -> Markup:
    return tag("p", _text(text))


def _text(text: object) -> str:
    return visible(str(text))


def _table(table: pd.DataFrame) -> Markup:
    """Return a table; numbers have four digits, bounds are rounded up, what is missing is empty."""
    head = Markup("").join(tag("th", _text(name), scope="col") for name in table)
    rows = [
        tag(
            "tr", Markup("").join(tag("td", _cell(value, str(name))) for name, value in zip(table, values, strict=True))
        )
        for values in table.itertuples(index=False, name=None)
    ]
    body = Markup("").join(rows)
    return tag("div", tag("table", tag("thead", tag("tr", head)) + tag("tbody", body)), class_="scroll")


def _cell(value: object, name: str) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and name.endswith("upper") and math.isfinite(value):
        return at_most(value, decimals_of(value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return _text(value)


def _page(title: str, parts: Iterable[Markup]) -> str:
    """Return a page with a title; its policy forbids everything but its own style."""
    style, policy = stylesheet(), "default-src 'none'; style-src {}; base-uri 'none'; form-action 'none'"
    head = Markup('<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{}">').format(
        policy.format(csp_hash(style))
    )
    head += Markup('<meta name="viewport" content="width=device-width, initial-scale=1">')
    head += tag("title", _text(title)) + Markup("<style>{}</style>").format(Markup(style))
    body = tag("main", tag("h1", _text(title)) + Markup("").join(parts))
    return f'<!DOCTYPE html>\n<html lang="en-GB"><head>{head}</head><body>{body}</body></html>\n'
