"""A redacted page says nothing that holds for one person only."""

from __future__ import annotations

import re

import numpy as np
import pytest

import isonomy
from isonomy.fairness.groups import Grouping
from isonomy.report import Findings
from isonomy.report.numbers import cell
from isonomy.report.privacy import hidden_groups
from isonomy.similarity import Counterparts, WeightedLp

from .audits import audit, render
from .reading import read, table


def personal_texts(findings: Findings) -> set[str]:
    """Every way in which a value that only one person has might be written."""
    texts = set()
    for column in ("income", "debt"):
        values = findings.people.frame[column].dropna()
        for value in values[~values.duplicated(keep=False)]:
            texts |= {cell(value), str(value), f"{value:g}", f"{value:,.0f}", f"{value:.1f}", f"{value:.3f}"}
    return {text for text in texts if len(text) > 4}


def mentions(page: str, texts: set[str]) -> set[str]:
    numbers = set(re.findall(r"[\d][\d.,]*\d", read(page).text))
    return texts & numbers


@pytest.mark.parametrize("head", ["softmax", "regression"])
def test_no_value_of_a_single_person_is_on_the_page(head: str) -> None:
    whole, redacted = audit(head), audit(head, redacted=True)
    texts = personal_texts(whole)
    assert mentions(render(whole), texts), "the open page shows people, or this test sees nothing"
    assert not mentions(render(redacted), texts)


def test_no_extremes_of_what_the_metric_moves() -> None:
    stiff = WeightedLp(np.where(audit().people.schema.protected_coordinates, 0.0, 10.0), 2.0)
    page = read(render(audit(metric=stiff, delta=0.3, attack=False, redacted=True)))
    moves = table(page, "moves")
    assert {row[0]: row[1] for row in moves[:-1]} == {
        "age protected": "to other values",
        "sex protected": "to 2 other categories",
        "income": "to other values",
        "debt": "to other values",
    }


def test_no_rows_no_pairs_no_counterparts() -> None:
    page = read(render(audit(redacted=True)))
    assert not re.search(r"\brow \d", page.text, re.IGNORECASE)
    assert not [li for li in page.all("li") if li.attributes.get("class", "").startswith("pp ")]
    assert "For one person" not in page.text and not [
        each for each in page if each.attributes.get("id") == "people-lines-title"
    ]


def test_small_groups_are_not_shown_anywhere() -> None:
    findings = audit()
    sizes = findings.people.frame["sex"].value_counts()
    assert sizes["other"] < 5, "there is a group to hide"
    whole = read(render(findings))
    assert "other too few" in {row[0] for row in table(whole, "groups-2")}
    assert any("other" in row[0].partition(" →")[0] for row in table(whole, "from-sex"))
    page = read(render(audit(redacted=True)))
    for name in ("groups-2", "rates-2", "from-sex"):
        shown = {row[0].partition(" →")[0].removesuffix(" too few") for row in table(page, name)}
        assert "other" not in shown
        assert len(shown) <= 1, "two groups and a total would tell the third"
    assert not {cell for row in table(page, "from-sex") for cell in row[2:4]} & {"1", "2", "3", "4"}
    for row in table(page, "parity-2"):
        assert "other" not in row[3:], "nor does it stand behind a comparison"


def test_rates_of_few_people_are_not_shown_nor_compared() -> None:
    findings = audit(redacted=True)
    assert findings.group is not None
    page, rows = read(render(findings)), findings.group.groups
    for place, (_, some) in enumerate(rows.groupby("attributes", sort=False)):
        few = set(some["group"][some["note"].str.contains("positive rate: of")])
        for row in table(page, f"rates-{place + 1}"):
            hidden = [cell == "not shown" for cell in row[1:3]]
            assert any(hidden) == (row[0].removesuffix(" too few") in few)
        for row in table(page, f"parity-{place + 1}"):
            assert not (row[0].startswith("Equal") and few & set(row[3:]))


def test_a_handful_of_people_has_no_averages_of_values() -> None:
    findings = audit(redacted=True)
    few = findings.people[:3]
    certificate = isonomy.certify(
        findings.model, few, Counterparts.of(few.schema), 1.0, 0.1, tier="interval", rounds=0, progress=None
    )
    page = render(Findings("few", few, findings.model, certificate, redacted=True))
    for values in (few.frame["income"], few.frame["age"]):
        texts = {f"{values.mean():,.{digits}f}" for digits in range(4)} - {str(n) for n in range(0, 101, 10)}  # of axes
        assert len(texts) >= 3 and not mentions(page, texts)


def test_few_people_of_a_histogram_are_not_counted() -> None:
    counts = " ".join(row[2] for row in table(read(render(audit(redacted=True))), "histogram-table"))
    assert "1 to 4" in counts
    assert not set(re.findall(r"(\d+) people|(\d+) by what is", counts.replace("1 to 4", "few"))) & {"1", "2", "3", "4"}


def groupings(codes: dict[str, np.ndarray]) -> list[Grouping]:  # type: ignore[type-arg]
    singles = [Grouping((a,), tuple(f"{a}{v}" for v in range(code.max() + 1)), code) for a, code in codes.items()]
    one, two = singles
    joint = one.code * len(two.names) + two.code
    present, code = np.unique(joint, return_inverse=True)
    names = tuple(f"{one.names[v // len(two.names)]}, {two.names[v % len(two.names)]}" for v in present)
    return [one, two, Grouping((*one.attributes, *two.attributes), names, code)]


@pytest.mark.parametrize("seed", range(20))
def test_hidden_groups_cannot_be_had_by_subtraction(seed: int) -> None:
    """Whatever total is shown, the hidden groups below it are none, or at least two with at least five people."""
    rng = np.random.default_rng(seed)
    codes = {"a": rng.choice(4, 60, p=[0.6, 0.3, 0.06, 0.04]), "b": rng.choice(3, 60, p=[0.5, 0.4, 0.1])}
    codes = {name: np.unique(code, return_inverse=True)[1] for name, code in codes.items()}
    found = groupings(codes)
    hidden = hidden_groups(found)
    for grouping in found:
        sizes = np.bincount(grouping.code)
        secret = np.array([(grouping.title, name) in hidden for name in grouping.names])
        assert secret[sizes < 5].all()
        totals = [("", np.ones(len(sizes), dtype=bool))]
        if len(grouping.attributes) == 2:
            for single in found[:2]:
                totals += [
                    (name, np.array([name in cross.split(", ") for cross in grouping.names]))
                    for name in single.names
                    if (single.title, name) not in hidden
                ]
        for name, inside in totals:
            some = secret & inside
            everything = some.sum() == inside.sum()
            assert not some.any() or everything or (some.sum() >= 2 and sizes[some].sum() >= 5), (grouping.title, name)
