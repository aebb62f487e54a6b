"""The whole report as one HTML file that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from typing import Any

import jinja2
from markupsafe import Markup

from isonomy.report import figures
from isonomy.report.comparison import compared
from isonomy.report.drivers import drivers
from isonomy.report.findings import Findings
from isonomy.report.numbers import Numbers, parameter, percent
from isonomy.report.outputs import changing, is_regression, output_names, unit
from isonomy.report.people import everybody, find_groupings, group_tables, histogram, judged, most_unfair
from isonomy.report.privacy import SMALLEST, hidden_groups
from isonomy.report.shifted import curve, shifts, worst_population
from isonomy.report.similar import similar
from isonomy.report.words import assumptions, cost_name, distance_words, meaning, not_proved, these, verdict


def render(findings: Findings) -> str:
    """The report of an audit: a self-contained page that prints, needs no network and reads without JavaScript.

    With ``findings.redacted`` nobody's row is on it: no pairs, no row numbers, no extremes, and no group of fewer than
    five people.
    """
    return fill("page.html", _context(findings), script="script.js")


def fill(name: str, context: Mapping[str, Any], *, script: str | None = None) -> str:
    """One of the pages with its style, and a script, inside."""
    style, code = Markup(_text("style.css")), Markup("" if script is None else _text(script))
    # The page itself forbids everything but its own style and script, whatever its text should contain.
    runs = f"script-src {_allowed(code)}; " if code else ""
    policy = f"default-src 'none'; style-src {_allowed(style)}; {runs}base-uri 'none'; form-action 'none'"
    template = _templates().get_template(name)
    return template.render(context, version=metadata.version("isonomy"), style=style, script=code, policy=policy)


def _context(findings: Findings) -> dict[str, Any]:
    """Everything that the templates name."""
    certificate, redacted = findings.certificate, findings.redacted
    numbers = Numbers.of(certificate.lower, certificate.upper, certificate.epsilon, not is_regression(findings))
    allowed = similar(findings)
    groupings, grouping_notes = find_groupings(findings.people)
    hidden = hidden_groups(groupings) if redacted else frozenset()
    whole, tables = everybody(findings), group_tables(findings, groupings, hidden)
    bins, places, observed = histogram(findings), curve(findings), shifts(findings)
    decided = bool((certificate.local.decision != "none").any())
    marked = [shift for shift in observed if shift.comparable][:6]
    return {
        "findings": findings,
        "certificate": certificate,
        "title": findings.title,
        "numbers": numbers,
        "verdict": verdict(findings, numbers),
        "meaning": meaning(findings),
        "these": these(findings),
        "unit": unit(findings),
        "changing": changing(findings),
        "regression": is_regression(findings),
        "outputs": output_names(findings),
        "assumptions": assumptions(findings, numbers),
        "similar": allowed,
        "not_proved": not_proved(findings, allowed, numbers),
        "whole": whole,
        "tables": tables,
        "grouping_notes": grouping_notes,
        "judged": judged(findings),
        "bins": bins,
        "end": bins[-1].high,
        "places": places,
        "shifts": observed,
        "curve": figures.curve(places, marked, certificate.gamma, certificate.epsilon, numbers) if places else None,
        "histogram": figures.histogram(bins, numbers, redacted),
        "decided": decided,
        "pairs": [] if redacted else most_unfair(findings),
        "searched": bool((certificate.local.lower > 0).any()),
        "drivers": drivers(findings),
        "worst": worst_population(findings),
        "compared": compared(findings, hidden, numbers),
        "hashes": {"network, canonical form": findings.network.hash(), "schema": findings.people.schema.hash()},
        "smallest": SMALLEST,
        "cost_name": cost_name(certificate),
        "distance_words": distance_words,
        "figures": figures,
        "percent": percent,
        "parameter": parameter,
        "isnan": math.isnan,
    }


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("isonomy.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _text(name: str) -> str:
    return resources.files("isonomy.report").joinpath("templates", name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    """The content security policy's name for an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
