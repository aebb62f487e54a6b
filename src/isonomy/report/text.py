"""The facts as plain text: Markdown for pull requests, a document for machines, JUnit for continuous integration."""

from __future__ import annotations

import math
import re
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

from isonomy.escapes import for_markdown, visible
from isonomy.report.sections import Facts, FactTable, rewritten
from isonomy.report.tomorrow import NOT_ASKED

SIGNS = {"certified": "✅", "violated": "❌", "undecided": "❓", "none": "–"}
MARKDOWN_CODES = (
    "selection", "changed.alone", "changed.together", "changed.never", "changed.open", "direction.today",
    "direction.gain", "direction.lose", "decisions.certified", "decisions.flippable", "decisions.undecided", "upper",
    "lower", "local.mean_upper", "local.mean_lower", "population.upper", "gamma", "at_least", "kappa", "mix",
    "strangers", "delta", "accuracy",
    "balanced_accuracy", "auc", "log_loss", "mean_absolute_error", "r2", "largest_gamma", "shifts", "favourable",
    "threshold", "four_fifths",
)  # fmt: skip
"""The facts of an audit that a page of Markdown shows, in this order."""

CARD_CODES = ("condition", *MARKDOWN_CODES[1:13], "population.upper", "favourable", "threshold", "four_fifths")
"""The facts of an audit that a model card shows; of decisions those of the whole question only where no other are."""


def to_json(facts: Facts) -> dict[str, Any]:
    """Return the values under their codes, in full; ``printed`` has the numbers as all renderings round them."""
    document: dict[str, Any] = {}
    for fact in facts.sections[0].facts:
        *above, name = fact.code.split(".")
        inside = document.setdefault(above[0], {}) if above else document
        inside[name] = "inf" if isinstance(fact.value, float) and fact.value == math.inf else fact.value
    rounded = [fact for fact in facts.sections[0].facts if fact.rounding in ("up", "down") and fact.printed]
    printed = {fact.code: fact.printed for fact in rounded}
    return {"isonomy": version("isonomy"), **document, "printed": printed}


def to_markdown(facts: Facts) -> str:
    """Return a page for pull requests and CI logs."""
    command = visible(str(facts.fact("command")))
    facts = rewritten(facts, for_markdown)
    known = {fact.code: fact for fact in facts["summary"].facts}
    lines = [f"# Audit: {known['title']}", "", facts.headline, ""]
    lines += [line for sentence in facts["finding"].sentences if sentence for line in (sentence, "")]
    marks = " ".join(f"{SIGNS[kind]} {mark[0].upper()}{mark[1:]}." for kind, mark in facts.marks)
    lines += [f"**{marks}** {facts['summary'].sentences[0]}", ""]
    lines += _notes(facts)
    shown = list({fact.words: fact for code in MARKDOWN_CODES if (fact := known.get(code)) and fact.printed}.values())
    lines += ["| | |", "|---|---|", *(_row(fact.words, fact.bounded) for fact in shown), ""]
    others = [each for each in facts["tomorrow"].tables if each.code in ("populations-table", "behind")]
    for table in (*facts["much"].tables, *others):
        lines += [f"{table.title}:", "", *_table(table)]
    says = dict.fromkeys(each["does_not_say"] for each in facts["tomorrow"].facts[0].value)
    lines += [line for sentence in (*facts["tomorrow"].sentences[1:], *says) for line in (sentence, "")]
    again = "Check it with `isonomy verify certificate.json`; run it again with:"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
    return "\n".join([*lines, again, "", fence, command, fence, ""])


def to_model_card(facts: Facts) -> str:
    """Return the section "Fairness" of a model card: the finding, the bounds, who counts as similar, and the limits."""
    facts = rewritten(facts, for_markdown)
    known, asked = {fact.code: fact for fact in facts["summary"].facts}, facts["asked"]
    about = f"{known['title']}, {known['created']}, {known['individuals']} people: {known['selection']}."
    lines = ["## Fairness", "", facts.headline, ""]
    lines += [line for sentence in facts["finding"].sentences if sentence for line in (sentence, "")]
    lines += [f"{facts['summary'].sentences[0]} {asked.sentences[0]}", "", f"Audited: {about}", ""]
    lines += _notes(facts)
    codes = [code for code in CARD_CODES if not (code.startswith("decisions.") and "changed.alone" in known)]
    shown = [fact for code in codes if (fact := known.get(code)) and fact.printed]
    lines += ["| | |", "|---|---|", *(_row(fact.words, fact.bounded) for fact in shown), ""]
    lines += ["### Who counts as similar", "", *_table(asked.tables[0]), "### Limits", ""]
    lines += [f"- {fact.words}: {fact.value}" for fact in asked.facts if fact.code == "not_proved"]
    lines += ["", "### What was audited", "", *_table(facts["check"].tables[0])]
    data = " --data FOLDER" if facts.redacted else ""
    check = f"`isonomy verify certificate.json{data}` derives again what the certificate claims."
    return "\n".join([*lines, f"Made by isonomy {version('isonomy')}; {check}", ""])


def change_to_markdown(facts: Facts) -> str:
    """Return what changed between two audits, for a pull request."""
    facts = rewritten(facts, for_markdown)
    (section,) = facts.sections
    (table,) = section.tables
    rows = [_row(*(str(cell.text) for cell in row)) for row in table.rows]
    head = [_row(*(name for name, _ in table.heads)), "|---|---|---|"]
    return "\n".join(["## Isonomy: what changed", "", facts.headline, "", *head, *rows, "", *section.sentences])


def to_junit(facts: Facts) -> str:
    """Return the verdict as a test case of JUnit, which CI systems show among other tests."""
    facts = rewritten(facts, visible)  # XML has no form, not even an escape, for control characters
    known, kind = {fact.code: fact for fact in facts["summary"].facts}, facts.verdict
    name, when = f"isonomy audit: {known['title']}", str(known["created"].value).removesuffix("+00:00")
    counts = {"tests": 1, "failures": int(kind == "violated"), "errors": int(kind == "undecided")}
    counts["skipped"] = int(kind is None)
    suite = ElementTree.Element("testsuite", {"name": name, "timestamp": when} | {k: str(n) for k, n in counts.items()})
    behind = f", {known['condition']}" if "condition" in known else ""
    limit = f"epsilon {known['epsilon']}" if kind else "no epsilon"
    case = ElementTree.SubElement(
        suite, "testcase", classname="isonomy", name=f"average largest change, {limit}{behind}"
    )
    if kind != "certified":
        element = {"violated": "failure", "undecided": "error", None: "skipped"}[kind]
        result = ElementTree.SubElement(case, element, message=facts["summary"].sentences[0])
        if kind is not None:
            result.set("type", kind)
            result.text = facts["finding"].sentences[-1]
    lines = facts.headline, *filter(None, facts["finding"].sentences), f"Audited: {known['selection']}."
    ElementTree.SubElement(case, "system-out").text = "\n".join(lines)
    for fact in facts["tomorrow"].facts[1:]:
        other = ElementTree.SubElement(suite, "testcase", classname="isonomy", name=f"{fact.words}, {limit}{behind}")
        outcome = {"violated": "failure", "undecided": "error"}.get(fact.value, "")
        outcome = "skipped" if outcome and fact.code == NOT_ASKED else outcome
        if outcome:
            why = ", not asked about" if outcome == "skipped" else ""
            ElementTree.SubElement(other, outcome, message=f"{fact.words}: {fact.value}{why}", type=fact.value)
        more = {"failure": ["failures"], "error": ["errors"], "skipped": ["skipped"]}.get(outcome, [])
        for attribute in ("tests", *more):
            suite.set(attribute, str(int(suite.get(attribute, "0")) + 1))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _notes(facts: Facts) -> list[str]:
    """Return the lines of notes without which the finding may be misread."""
    remarks = str(facts["summary"].facts[0])
    lines = [line for note in facts["summary"].notes for line in (f"Read this first: {note}", "")]
    return [*lines, f"Note: {remarks}", ""] if remarks else lines


def _table(table: FactTable) -> list[str]:
    """Return the lines of a table, without figures, and of its notes."""
    kept = [place for place, (_, kind) in enumerate(table.heads) if kind != "drawn"]
    lines = [_row(*(table.heads[place][0] for place in kept)), _row(*("---" for _ in kept))]
    lines += [*(_row(*(str(row[place].text) for place in kept)) for row in table.rows), ""]
    return [*lines, *(line for note in table.notes for line in (note, ""))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
