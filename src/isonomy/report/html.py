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
    facts = rewritten(facts, visible)  # markup is escaped by the templates, but not what turns the direction of writing
    style, script = Markup(_text("style.css")), Markup(_text("script.js"))
    # The page itself forbids everything but its own style and script, whatever its text should contain.
    policy = f"default-src 'none'; style-src {csp_hash(style)}; script-src {csp_hash(script)}; "
    policy += "base-uri 'none'; form-action 'none'"
    shift, people = facts["shift"].drawn, facts["people"].drawn
    return _templates().get_template("page.html").render(
        facts=facts, known={fact.code: fact for fact in facts["summary"].facts},
        curve=figures.curve(**shift) if shift["places"] else "", histogram=figures.histogram(**people),
        figures=figures, version=metadata.version("isonomy"), style=style, script=script, policy=policy,
    )  # fmt: skip


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("isonomy.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _text(name: str) -> str:
    return resources.files("isonomy.report").joinpath("templates", name).read_text(encoding="utf-8")


def csp_hash(text: str) -> str:
    """Return the content security policy's name for an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
