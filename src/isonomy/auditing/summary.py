"""The findings in a few words: a sentence, a dictionary for machines, a page of Markdown, a JUnit file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

import numpy as np

from isonomy.arithmetic import at_least, at_most
from isonomy.certificates.certificate import Certificate
from isonomy.errors import DataError
from isonomy.report.findings import Findings

STATUS = {"certified": 0, "violated": 1, "undecided": 3, None: 0}
"""The exit status of each verdict."""


def sentence(findings: Findings) -> str:
    """What was proved and what was found, in one sentence."""
    return sentence_of(findings.certificate, len(findings.people))


def sentence_of(found: Certificate, individuals: int) -> str:
    """The sentence for a certificate of so many individuals."""
    upper, lower, n = at_most(found.upper), at_least(found.lower), f"these {individuals:,} individuals"
    if found.gamma == 0:
        text = f"The mean violation over {n} is at most {upper}"
        return f"{text}; counterparts that were found reach {lower}." if found.lower > 0 else f"{text}."
    text = f"No population within {found.gamma:g} of {n} has a mean violation above {upper}"
    return f"{text}; an explicit population reaches {lower}." if found.lower > 0 else f"{text}."


def verdict(findings: Findings) -> str | None:
    """Against ε, if one was given."""
    return None if findings.certificate.epsilon is None else findings.certificate.verdict


def document(findings: Findings) -> dict[str, Any]:
    """The findings for machines; only numbers about everybody, nobody's row."""
    found, local = findings.certificate, findings.certificate.local
    kinds, counts = np.unique(local.decision, return_counts=True)
    result: dict[str, Any] = {
        "isonomy": version("isonomy"),
        "remarks": [findings.network.remark] if findings.network.remark else [],
        "title": findings.title,
        "sentence": sentence(findings),
        "individuals": len(findings.people),
        "excluded": findings.people.excluded,
        "split": findings.people.split,
        "selection": findings.people.selection.as_dict(),
        "delta": found.delta,
        "gamma": found.gamma,
        "order": found.order if math.isfinite(found.order) else "inf",
        "ground": found.ground.describe(),
        "metric": found.question.metric.describe(),
        "domain": found.question.domain.kind,
        "tier": found.tier,
        "epsilon": found.epsilon,
        "verdict": verdict(findings),
        "upper": found.upper,
        "lower": found.lower,
        "local": {"mean_upper": local.mean_upper, "mean_lower": local.mean_lower},
        "decisions": dict(zip(kinds.tolist(), counts.tolist(), strict=True)),
        "population": _population(findings),
        "accuracy": findings.accuracy,
        "balanced_accuracy": findings.balanced_accuracy,
        "four_fifths": None if findings.group is None else findings.group.four_fifths,
        "shifts": [
            {
                "name": shift.name,
                "estimate": shift.distance.estimate,
                "floor": shift.distance.floor,
                "lower": shift.distance.lower,
            }
            for shift in findings.shifts
        ],
        "sources": dict(findings.sources),
        "command": findings.command,
        "created": findings.created,
        "redacted": findings.redacted,
    }
    if found.epsilon is not None:
        kinds, counts = np.unique(local.verdict(found.epsilon), return_counts=True)
        result["verdicts"] = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
        largest = found.largest_gamma(found.epsilon)
        result["largest_gamma"] = "inf" if largest == math.inf else largest
    return result


def markdown(findings: Findings) -> str:
    """A page for pull requests and CI logs."""
    facts = document(findings)
    rows = [
        ("mean violation within γ, proved", f"≤ {at_most(facts['upper'])}"),
        ("mean violation within γ, found", f"≥ {at_least(facts['lower'])}"),
        ("mean violation of these individuals, proved", f"≤ {at_most(facts['local']['mean_upper'])}"),
        ("mean violation of these individuals, found", f"≥ {at_least(facts['local']['mean_lower'])}"),
        ("γ (shift), order, ground cost", f"{facts['gamma']:g}, {facts['order']}, {facts['ground']}"),
        ("δ (similarity)", f"{facts['delta']:g}: {facts['metric']}"),
        ("audited", facts["selection"]["words"]),
        ("decisions", ", ".join(f"{count} {kind}" for kind, count in facts["decisions"].items())),
    ]
    if "upper" in facts["population"]:
        text = f"≤ {at_most(facts['population']['upper'])} with confidence {facts['population']['confidence']:g}"
        rows.append(("the population behind the sample", text))
    if facts["accuracy"] is not None:
        rows.append(("accuracy", f"{facts['accuracy']:.3f} (balanced {facts['balanced_accuracy']:.3f})"))
    if facts.get("largest_gamma") is not None:
        rows.append(("proved within ε for shifts up to", reach(facts["largest_gamma"])))
    rows += [
        (f"distance to {shift['name']}", f"{shift['estimate']:.4g} (floor {shift['floor']:.4g})")
        for shift in facts["shifts"]
    ]
    rows += [(f"four-fifths rule, {name}", kind) for name, kind in (facts["four_fifths"] or {}).items()]
    return markdown_of(facts, rows, "Checked again with `isonomy verify certificate.json`, run again with:")


def markdown_of(facts: Mapping[str, Any], rows: Sequence[tuple[str, str]], again: str) -> str:
    """The page: sentence, verdict, a table of these rows, and the command after the words ``again``."""
    mark = {"certified": "✅ certified", "violated": "❌ violated", "undecided": "❓ undecided"}
    lines = [f"# Audit: {facts['title']}", "", facts["sentence"], ""]
    if facts["verdict"]:
        lines += [f"**{mark[facts['verdict']]}** against ε = {facts['epsilon']:g}.", ""]
    lines += [line for remark in facts["remarks"] for line in (f"Note: {remark}", "")]
    lines += ["| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows), ""]
    return "\n".join([*lines, again, "", "```", facts["command"], "```", ""])


def reach(largest: float | str | None) -> str:
    """Up to which shift ε is kept, rounded down; ``"inf"`` stands for every shift."""
    return "any" if largest in ("inf", math.inf) else at_least(float(largest or 0.0))


def junit(findings: Findings) -> str:
    """The verdict as a test case: what CI systems show beside other tests."""
    return junit_of(document(findings))


def junit_of(facts: Mapping[str, Any]) -> str:
    """The same from the facts of any audit."""
    suite = ElementTree.Element(
        "testsuite", name=f"isonomy audit: {facts['title']}", timestamp=facts["created"].removesuffix("+00:00")
    )
    limit = "no epsilon" if facts["epsilon"] is None else f"epsilon {facts['epsilon']:g}"
    case = ElementTree.SubElement(suite, "testcase", classname="isonomy", name=f"mean violation, {limit}")
    kind = facts["verdict"]
    if kind == "violated":
        message = f"an explicit population reaches {at_least(facts['lower'])}"
        ElementTree.SubElement(case, "failure", type="violated", message=message).text = facts["sentence"]
    elif kind == "undecided":
        message = f"neither proved nor refuted: between {at_least(facts['lower'])} and {at_most(facts['upper'])}"
        ElementTree.SubElement(case, "error", type="undecided", message=message).text = facts["sentence"]
    elif kind is None:
        ElementTree.SubElement(case, "skipped", message="no epsilon was given, so there is no verdict")
    ElementTree.SubElement(case, "system-out").text = f"{facts['sentence']}\nAudited: {facts['selection']['words']}."
    for name, count in (
        ("tests", 1),
        ("failures", int(kind == "violated")),
        ("errors", int(kind == "undecided")),
        ("skipped", int(kind is None)),
    ):
        suite.set(name, str(count))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _population(findings: Findings) -> dict[str, Any]:
    """The statement about the population behind the sample, or why there is none."""
    found = findings.certificate
    try:
        return {"upper": found.population_upper, "confidence": found.confidence}
    except DataError as error:
        return {"refusal": str(error)}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
