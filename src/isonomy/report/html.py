"""The facts of an audit as one HTML file that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import metadata, resources

import jinja2
from markupsafe import Markup

from isonomy.escapes import visible
from isonomy.report import figures
from isonomy.report.sections import Facts, rewritten


def to_html(facts: Facts) -> str:
    """Return the report of an audit: a self-contained page that needs no network and reads without JavaScript."""
    facts = rewritten(facts, _shown)  # markup is escaped by the templates, but not what turns the direction of writing
    style, script = Markup(_text("style.css")), Markup(_text("script.js"))
    # The page itself forbids everything but its own style and script, whatever its text should contain.
    policy = f"default-src 'none'; style-src {csp_hash(style)}; script-src {csp_hash(script)}; "
    policy += "base-uri 'none'; form-action 'none'"
    finding, tomorrow = facts["finding"].drawn, facts["tomorrow"].drawn
    kinds, bins, scale = finding["kinds"], finding["bins"], 100.0 if finding["points"] else 1.0
    unit = "points" if finding["points"] else finding["axis"]
    axis = f"largest change, {finding['axis']}"
    hero = histogram = figures.bars("histogram", "How many people have how large a change", bins, kinds, scale, axis)
    if "lines" in finding:
        words = facts["finding"].sentences[0] or facts.headline
        some = finding["lines"], finding["top"], finding["cut"], scale
        hero = figures.lines(*some, finding["axis"], words)
    return _templates().get_template("page.html").render(
        facts=facts, known={fact.code: fact for fact in facts["summary"].facts},
        curve=figures.curve(**tomorrow, name=f"average largest change, {unit}", scale=scale) if tomorrow else "",
        hero=hero, histogram=histogram if "lines" in finding else "", figures=figures,
        contents=[each for each in CONTENTS if each[0] != "who" or facts["who"].tables],
        version=metadata.version("isonomy"), style=style, script=script, policy=policy,
    )  # fmt: skip


CONTENTS = (
    ("finding", "The finding"), ("who", "Who gains, who loses"), ("much", "How much"),
    ("tomorrow", "Tomorrow’s people"), ("groups", "Groups"), ("people", "People"), ("asked", "What was asked"),
)  # fmt: skip
"""Sections of the page, in order."""


def _shown(text: str) -> str:
    """Return a text without characters that cannot be seen, and no break between a number and its per cent sign."""
    return visible(text).replace(" %", "\N{NO-BREAK SPACE}%")


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("isonomy.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _text(name: str) -> str:
    return resources.files("isonomy.report").joinpath("templates", name).read_text(encoding="utf-8")


def stylesheet() -> str:
    """Return the style of every page."""
    return _text("style.css")


def csp_hash(text: str) -> str:
    """Return the content security policy's name for an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
