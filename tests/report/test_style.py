"""Contrast, computed from the colours in the style sheet by the formulas of WCAG 2."""

from __future__ import annotations

import re
from importlib import resources

import pytest

STYLE = resources.files("isonomy.report").joinpath("templates", "style.css").read_text(encoding="utf-8")


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+):\s*(#[0-9a-f]{3,6})\b", block))


def themes() -> dict[str, dict[str, str]]:
    light = colours(STYLE[: STYLE.index("@media")])
    dark = colours(re.search(r"prefers-color-scheme: dark\) \{(.*?)\}\n\}", STYLE, re.DOTALL)[1])  # type: ignore[index]
    printed = colours(STYLE[STYLE.index("@media print") :])
    assert set(dark) == set(light), "every colour has its dark counterpart"
    return {"light": light, "dark": dark, "print": light | printed}


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_and_lines_can_be_seen(theme: str) -> None:
    palette = themes()[theme]
    for surface in ("page", "panel"):
        for text in ("ink", "soft", "hot"):
            assert contrast(palette[text], palette[surface]) >= 4.5, (text, surface)
    for fill in ("quiet", "pale", "hot"):
        assert contrast(palette[fill], palette["page"]) >= (3 if fill != "pale" else 2.8), fill
    assert contrast(palette["hot"], palette["pale"]) >= 1.5 and contrast(palette["ink"], palette["tint"]) >= 4.5


def test_only_these_colours_are_used() -> None:
    rest = re.sub(r"--[a-z]+:\s*#[0-9a-f]{3,6}", "", STYLE)
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|hsl", rest)


def test_shown_and_proved_differ_by_more_than_colour() -> None:
    assert "stroke-dasharray" in re.search(r"\.line\.lower \{[^}]*\}", STYLE)[0]  # type: ignore[index]
    assert not re.search(r"\.line \{[^}]*dasharray", STYLE)
