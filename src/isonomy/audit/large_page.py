"""The report of an audit larger than memory: what fits on a page whatever the size of the dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from isonomy.audit.large import LargeFindings
from isonomy.audit.large_sample import SAMPLE
from isonomy.audit.large_summary import AGAIN, rows
from isonomy.report import figures
from isonomy.report.numbers import Numbers, parameter
from isonomy.report.page import fill
from isonomy.report.shifted import Place
from isonomy.report.words import MARKS, other_rows

FILES = 50
"""Files of the dataset whose hashes stand on the page; certificate.json has them all."""


def render_large(findings: LargeFindings, facts: Mapping[str, Any]) -> str:
    """One HTML file that loads nothing from anywhere, in the style of the other report."""
    found = findings.certificate
    numbers = Numbers.of(found.lower, found.upper, found.epsilon, findings.asked.network.head != "regression")
    places = [Place(gamma, lower, upper) for gamma, upper, lower in findings.curve]
    drawn = len(places) > 1 and all(math.isfinite(place.upper) for place in places)
    kind = facts["verdict"] or "none"
    hashes = [*facts["sources"].items(), *((f"{name}, canonical form", text) for name, text in facts["hashes"].items())]
    own = len(facts["hashes"]) + len(findings.asked.sources)
    shown = hashes if len(hashes) <= FILES + own else [*hashes[:FILES], *hashes[-own:]]
    context = {
        "title": facts["title"],
        "facts": facts,
        "kind": kind,
        "mark": MARKS[kind],
        "rows": rows(findings, facts),
        "assumptions": _assumptions(findings, facts),
        "not_proved": [*other_rows(found.selection), *NOT_PROVED],
        "places": places,
        "curve": figures.curve(places, [], found.gamma, found.epsilon, numbers) if drawn else None,
        "numbers": numbers,
        "parameter": parameter,
        "hashes": shown,
        "more": len(hashes) - len(shown),
        "again": "A redacted audit keeps no parts: the command computes everything anew."
        if findings.redacted
        else AGAIN,
    }
    return fill("large.html", context)


NOT_PROVED = [
    ("Only these similar people", "Nothing is said about pairs that the metric does not call similar, and who counts "
     "as similar is a choice of people that no proof can justify."),
    ("Only shifts within γ", "Populations further away than γ, in the ground cost, may be treated worse."),
    ("Not everybody they stand for", "Nothing is said about the population that these people were drawn from."),
    ("An average, not everybody", "Single people can be treated much more unequally; the files in individuals/ have "
     "the bounds of each."),
    ("The gap", "Between what was proved and what was found the truth is unknown."),
    ("No decisions, no groups", "Whether decisions can change, rates of groups and distances to other tables were not "
     "looked at: an audit in memory, of a part of the table, has them."),
    ("No independent check", "isonomy_verify checks audits in memory. The parts show how the mean came about; that "
     "each profile bounds its individual is shown again only by computing it again."),
    ("Not that it is right", "A network can be fair in this sense and wrong, or useless."),
]  # fmt: skip


def _assumptions(findings: LargeFindings, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    network, who = findings.asked.network, findings.certificate.selection.words(findings.asked.schema.name)
    weighted = " Averages use their sampling weights." if findings.asked.schema.weight else ""
    kept = (
        "" if findings.redacted else f" At most {SAMPLE:,} of them, drawn at random, are kept in evidence/people.npz."
    )
    return [
        ("People", f"{who}.{weighted}{kept}"),
        ("Network", f"“{network.name}”, {network.input_width} inputs. {network.remark}".rstrip()),
        ("Arithmetic", "The bounds hold in exact arithmetic; rounding errors are added to them, and sums over chunks "
         "have none."),
        ("Similar people", f"Distance at most δ = {parameter(facts['delta'])} by this metric: {facts['metric']}."),
        ("Possible people", f"Those of the {facts['domain']} domain."),
        ("Nearby populations", f"Every population within γ = {parameter(facts['gamma'])} in the Wasserstein distance "
         f"of order {facts['order']}, where a change costs: {facts['ground']}."),
        ("Method", f"Bounds of the tier “{facts['tier']}” for each chunk of rows, and duality over all nearby "
         "populations at once."),
    ]  # fmt: skip
