"""One audit, six renderings: the same rounded numbers in all of them, each on the side on which it stays true."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from isonomy.escapes import for_markdown
from isonomy.records import write
from isonomy.report import Findings
from isonomy.report import findings as findings_module
from isonomy.report.counterpart import facts_of_row
from isonomy.report.facts import facts_of
from isonomy.report.html import to_html
from isonomy.report.sections import NOTHING, Fact
from isonomy.report.terminal import to_terminal
from isonomy.report.text import MARKDOWN_CODES, to_json, to_junit, to_markdown, to_model_card

from .audits import audit, render
from .reading import read

KINDS: dict[str, dict[str, Any]] = {
    "two classes": {},
    "regression": {"head": "regression", "epsilon": None},
    "redacted": {"redacted": True},
    "no shift": {"gamma": 0.0, "shifts": ()},
    "close call": {"epsilon": 0.999999},
}
EVERYWHERE = ("upper", "lower")
"""Facts of the headline, which every rendering has."""


@cache
def findings(kind: str) -> Findings:
    return audit(**KINDS[kind])


@cache
def renderings(kind: str) -> dict[str, str]:
    facts = facts_of(findings(kind))
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    with console.capture() as seen:
        for each in to_terminal(facts):
            console.print(each)
    return {
        "terminal": seen.get(),
        "html": read(to_html(facts)).text,
        "markdown": to_markdown(facts),
        "json": json.dumps(to_json(facts)["printed"], ensure_ascii=False),
        "junit": to_junit(facts),
        "card": to_model_card(facts),
    }


def number(fact: Fact, points: bool = False) -> Decimal:
    """What is printed; of points in the unit of the value."""
    value = Decimal(fact.printed.replace(",", "").replace("−", "-").replace("∞", "inf"))
    return value / 100 if points else value


def in_points(kind: str, fact: Fact) -> bool:
    return kind != "regression" and fact.code not in ("largest_gamma", "shift.lower")


every = pytest.mark.parametrize("kind", KINDS)


def test_findings_import_no_module_that_imports_them() -> None:
    source = Path(str(findings_module.__file__)).read_text(encoding="utf-8")
    imported = {str(node.module) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert not any(module.startswith("isonomy.report") for module in imported)


def test_facts_are_made_once() -> None:
    one = findings("two classes")
    assert facts_of(one) is facts_of(one) is not facts_of(dataclasses.replace(one))


@every
def test_what_is_printed_stays_true(kind: str) -> None:
    """Rounded up is at least the value, rounded down at most; and neither is far from it."""
    rounded = [fact for fact in facts_of(findings(kind)) if fact.rounding in ("up", "down") and fact.printed != "any"]
    assert len(rounded) > 30
    for fact in (fact for fact in rounded if fact.value is not None):
        value = Decimal(repr(float(fact.value)))
        if fact.printed == NOTHING:
            assert value > Decimal("0.95") and fact.proved
            continue
        shown = number(fact, in_points(kind, fact))
        assert shown >= value if fact.rounding == "up" else shown <= value, fact
        assert abs(shown - value) <= max(Decimal("0.001"), abs(value) / 50), fact


@every
def test_all_renderings_say_the_finding_and_its_size(kind: str) -> None:
    facts = facts_of(findings(kind))
    assert all(facts.fact(code).printed in facts["finding"].sentences[-1] for code in EVERYWHERE)
    for name, text in renderings(kind).items():
        said = (facts.headline, facts["finding"].sentences[-1]) if name != "json" else ()
        for each in said:
            each = for_markdown(each) if name in ("markdown", "card") else each
            assert each in " ".join(text.replace("\u00a0", " ").split()), (name, each)
    assert to_json(facts)["sentence"] == facts.headline


@every
def test_each_rendering_shows_the_numbers_of_the_facts(kind: str) -> None:
    facts, shown = facts_of(findings(kind)), renderings(kind)
    for code in (code for code in MARKDOWN_CODES if any(fact.code == code for fact in facts["summary"].facts)):
        assert facts.fact(code).printed in shown["markdown"]
    hidden = ("largest_gamma", "local.mean_upper", "local.mean_lower", "upper", "lower")
    for fact in facts:
        if fact.rounding in ("up", "down") and fact.printed and fact.code not in hidden:
            assert fact.printed in shown["html"].replace("\u00a0", " "), fact
    for code, printed in json.loads(shown["json"]).items():
        assert printed == facts.fact(code).printed


@every
def test_a_model_card_has_bounds_limits_and_hashes(kind: str) -> None:
    """One section, with the sides of all bounds, each limit of the proof, and the hash of the very model."""
    facts, text = facts_of(findings(kind)), renderings(kind)["card"]
    assert text.startswith("## Fairness\n") and not re.search("^#{1,2} ", text[3:], re.MULTILINE)
    limits = [fact for fact in facts["asked"].facts if fact.code == "not_proved"]
    assert len(limits) > 3 and all(f"- {fact.words}: {for_markdown(fact.value)}" in text for fact in limits)
    for code in ("upper", "lower"):
        fact = facts.fact(code)
        assert f"| {for_markdown(fact.words)} | {for_markdown(fact.bounded)} |" in text
    assert findings(kind).model.hash() in text and ("Decisions proved to stay" in text) == (not findings(kind).alone)
    assert all(for_markdown(note) in text for note in facts["summary"].notes)


@every
def test_machines_get_what_is_claimed(kind: str) -> None:
    found, document = findings(kind).certificate, to_json(facts_of(findings(kind)))
    assert (document["lower"], document["upper"]) == found.claimed[:2]
    assert found.upper <= document["upper"] <= found.upper * (1 + 1e-5) + 1e-5
    assert document["local"] == {"mean_upper": found.local.mean_upper, "mean_lower": found.local.mean_lower}
    json.dumps(document, allow_nan=False)


@every
def test_numbers_of_groups_are_facts(kind: str) -> None:
    """Cells of numbers hold facts, bounds among them rounded outward; texts stand for what is not shown."""
    facts = facts_of(findings(kind))
    for table in facts["groups"].tables:
        numbers = [place for place, (_, column) in enumerate(table.heads) if column == "n"]
        for cell in (row[place] for row in table.rows for place in numbers):
            assert isinstance(cell.text, Fact) or cell.text in ("not shown", "undefined", "", "–"), (table.code, cell)
    for fact in (fact for fact in facts if fact.rounding == "outward"):
        ends = [Decimal(each.replace("∞", "inf")) for each in fact.printed.removesuffix(" %").split(" to ")]
        low, high = (
            each / 100 if "%" in fact.printed or kind != "regression" else each for each in (ends[0], ends[-1])
        )
        assert low <= Decimal(repr(float(fact.value[0]))) and Decimal(repr(float(fact.value[1]))) <= high, fact


def test_numbers_are_on_their_side_of_epsilon() -> None:
    """A bound that is hardly above ε is not printed as ε."""
    base = findings("two classes").certificate
    for epsilon in (base.upper * (1 - 1e-7), base.lower * (1 - 1e-7), base.upper * (1 + 1e-7)):
        facts = facts_of(dataclasses.replace(audit(), certificate=dataclasses.replace(base, epsilon=epsilon)))
        accepted = Decimal(repr(epsilon))
        assert (number(facts.fact("upper"), True) <= accepted) == (facts.verdict == "certified")
        assert (number(facts.fact("lower"), True) > accepted) == (facts.verdict == "violated")


def test_a_find_below_what_is_claimed_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    base = audit()
    monkeypatch.setattr(type(base.certificate), "lower", 7e-9)
    assert base.claimed[0] == 0 and "by at least less than 0" in facts_of(base)["finding"].sentences[-1]


def test_no_shift_is_not_called_a_shift_of_nothing() -> None:
    base = findings("no shift")
    certificate = dataclasses.replace(base.certificate, epsilon=base.claimed[1] * 1.01)
    facts = facts_of(dataclasses.replace(base, certificate=certificate))
    assert facts.fact("largest_gamma").value == 0 and str(facts.fact("largest_gamma")) == "0"
    assert facts["summary"].sentences[0].endswith("Proved to stay within ε: for these people, without a shift.")


def test_where_anybody_may_come_there_is_a_bound_and_no_curve() -> None:
    told = audit(gamma=math.inf)
    assert told.claimed[1] < math.inf and "no finite bound" not in render(told)
    assert not facts_of(told)["tomorrow"].drawn


def test_a_redacted_audit_has_no_facts_of_persons() -> None:
    facts = facts_of(findings("redacted"))
    assert not facts["people"].drawn and "lines" not in facts["finding"].drawn
    assert "alone.most" not in {fact.code for fact in facts}
    assert "without --redact" in renderings("redacted")["html"] and "--redact" not in renderings("two classes")["html"]


def test_one_person() -> None:
    found = findings("two classes")
    local = found.certificate.local
    facts = facts_of_row(local, 3, int(found.people.rows[3]))
    upper, lower = facts.fact("upper"), facts.fact("lower")
    assert (upper.value, lower.value) == (local.upper[3], local.lower[3])
    assert number(lower) <= Decimal(repr(lower.value)) <= Decimal(repr(upper.value)) <= number(upper)
    differs, equal = facts["row"].tables
    assert {str(row[0].text) for row in differs.rows} == set(facts.fact("differs").value)
    assert len(differs.rows) + len(equal.rows) == len(found.people.schema.features)


@every
def test_the_verdict_is_that_of_the_certificate(kind: str, tmp_path: Path) -> None:
    """Also where ε lies between what was derived and what is claimed of it."""
    base = findings(kind)
    lower, upper = base.certificate.lower, base.certificate.upper
    for epsilon in (upper, (upper + base.claimed[1]) / 2, base.claimed[1], lower, base.claimed[0]):
        certificate = dataclasses.replace(base.certificate, epsilon=epsilon)
        told = dataclasses.replace(base, certificate=certificate)
        claims = json.loads(write(tmp_path / "record", certificate).read_text())["predicate"]["claims"]
        document = to_json(facts_of(told))
        assert (document["lower"], document["upper"], document["verdict"]) == tuple(
            claims[name] for name in ("lower", "upper", "verdict")
        )
        assert facts_of(told).verdict == claims["verdict"]
        largest = -1.0 if told.largest_gamma is None else told.largest_gamma
        assert (largest >= certificate.gamma) == (told.verdict == "certified")
