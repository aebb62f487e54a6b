"""The page as a reader without JavaScript, or with a screen reader, meets it."""

from __future__ import annotations

import dataclasses
import math
import re
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.fairness import Bootstrap, group_fairness
from isonomy.report import Findings
from isonomy.report.figures import curve
from isonomy.report.sections import Fact
from isonomy.similarity import WeightedLp

from .audits import NASTIER, NASTY, audit, crowded, network, render, schema
from .reading import Element, read, table

SOFT = WeightedLp(np.ones(schema("softmax").width), 2.0)
KINDS: dict[str, dict[str, Any]] = {
    "two classes": {},
    "three classes": {"head": "three", "nasty": True},
    "regression": {"head": "regression", "epsilon": None},
    "redacted": {"redacted": True},
    "no shift": {"gamma": 0.0, "shifts": ()},
    "no search": {"attack": False, "group": None, "scores": {}},
    "far": {"order": math.inf, "ground": "l1", "domain": "relaxed", "confidence": 0.9},
    "wild": {"metric": SOFT, "delta": 0.2, "domain": "unbounded", "arithmetic": "float32"},
}


@cache
def page(kind: str) -> str:
    return render(audit(**KINDS[kind]))


@cache
def tree(kind: str) -> Element:
    return read(page(kind))


def findings(kind: str) -> Findings:
    return audit(**KINDS[kind])


every = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.some(3)
@every
def test_is_well_formed_and_named(kind: str) -> None:
    document = tree(kind)
    assert page(kind).startswith("<!DOCTYPE html>")
    (html,) = document.all("html")
    assert html.attributes["lang"] == "en-GB"
    assert any(meta.attributes.get("name") == "viewport" for meta in document.all("meta"))
    assert document.all("title")[0].text


@pytest.mark.some(3)
@every
def test_ids_are_unique_and_references_lead_somewhere(kind: str) -> None:
    ids = [element.attributes["id"] for element in tree(kind) if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for element in tree(kind):
        for name in ("aria-labelledby", "aria-describedby", "for"):
            assert set(element.attributes.get(name, "").split()) <= set(ids)
        target = element.attributes.get("href", "#main")
        assert target.startswith("#") and target[1:] in ids


@every
def test_loads_nothing_from_anywhere(kind: str) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page(kind).replace(NASTY, ""), re.IGNORECASE)
    document = tree(kind)
    assert not document.all("link", "img", "iframe", "object", "embed", "base", "form", "audio", "video")
    for element in document:
        assert not {"src", "srcset", "style", "action"} & set(element.attributes)
        assert not any(name.startswith("on") for name in element.attributes), "scripts stay in one place"
    (policy,) = [m.attributes["content"] for m in document.all("meta") if "http-equiv" in m.attributes]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@every
def test_headings_are_in_order(kind: str) -> None:
    levels = [int(element.name[1]) for element in tree(kind).all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@every
def test_has_landmarks_and_a_way_past_the_menu(kind: str) -> None:
    document = tree(kind)
    for name in ("header", "nav", "main", "footer"):
        assert len(document.all(name)) == 1
    first = document.all("body")[0].all("a")[0]
    assert first.attributes["href"] == "#main"
    linked = {link.attributes["href"] for link in document.all("nav")[0].all("a")}
    assert linked == {f"#{section.attributes['id']}" for section in document.all("section")}


@every
def test_tables_and_figures_can_be_heard(kind: str) -> None:
    document = tree(kind)
    for each in document.all("table"):
        assert each.all("caption")[0].text
        assert all("scope" in heading.attributes for heading in each.all("th"))
        width = {sum(1 for cell in row.all("td", "th")) for row in each.all("tr")}
        assert len(width) == 1, f"rows of different length in {each.attributes}"
    for svg in document.all("svg"):
        if svg.attributes.get("aria-hidden") != "true":
            assert svg.attributes["role"] == "img"
            assert svg.all("title")[0].text and svg.all("desc")[0].text
    for figure in document.all("figure"):
        section = next(section for section in document.all("section") if any(part is figure for part in section))
        assert section.all("details")[0].all("table"), "a table behind every figure"


@every
def test_numbers_agree_with_the_certificate(kind: str) -> None:
    certificate = findings(kind).certificate
    sentence = next(p for p in tree(kind).all("p") if p.attributes.get("class") == "sentence").text
    mean, _, rest = sentence.partition(". ")
    numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.?\d*", mean)]
    flips = int((certificate.local.decision == "flippable").sum())
    assert f"{flips} of 70 decisions flip" in rest if flips else "decisions" in rest
    if kind == "no shift":
        people, upper = numbers[0], numbers[1]
    else:
        assert numbers[0] == certificate.gamma
        people, upper = numbers[1], numbers[2]
    assert people == 70
    assert certificate.upper <= upper <= certificate.upper * 1.01 + 1e-3
    if kind == "no search":
        assert "no violation was searched for" in sentence
    else:
        assert certificate.lower * 0.99 - 1e-3 <= numbers[-1] <= certificate.lower


@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression", "redacted", "far"])
def test_the_curve_is_sound_and_passes_through_the_certificate(kind: str) -> None:
    certificate = findings(kind).certificate
    rows = [[float(cell.replace(",", "")) for cell in row] for row in table(tree(kind), "curve-table")]
    assert 15 <= len(rows) <= 40
    exact = certificate.curve([gamma for gamma, _, _ in rows])
    for (gamma, lower, upper), (_, whole) in zip(rows, exact.iterrows(), strict=True):
        assert lower <= upper
        assert whole["upper"] <= upper * (1 + 1e-12) or gamma == rows[-1][0]
        assert lower <= whole["lower"] + 1e-12
    own = next(row for row in rows if row[0] == certificate.gamma)
    assert own[2] >= certificate.upper and own[1] <= certificate.lower


def test_counts_add_up() -> None:
    document, people = tree("two classes"), findings("two classes").people
    rows = table(document, "histogram-table")
    assert sum(int(row[3]) for row in rows) == sum(int(row[2]) for row in rows) == len(people)
    spread = table(document, "spread-2")
    assert spread[0][:2] == ["everybody", "70"]
    counts = people.frame["sex"].value_counts()
    assert {row[0]: int(row[1]) for row in spread[1:]} == counts.to_dict()


def test_group_means_hold_the_means_of_the_bounds() -> None:
    found = findings("two classes")
    local, sex = found.certificate.local, found.people.frame["sex"].to_numpy()
    for row in table(tree("two classes"), "spread-2")[1:]:
        inside = sex == row[0]
        assert float(row[3]) <= local.lower[inside].mean() <= local.upper[inside].mean() <= float(row[4])
        middle = np.quantile(local.upper[inside], 0.5, method="inverted_cdf")
        assert middle <= float(row[5]) <= middle + 1e-3


def test_decisions_are_counted() -> None:
    found = findings("two classes")
    row = table(tree("two classes"), "decisions-1")[0]
    for kind, cell in zip(("certified", "flippable", "undecided"), row[3:], strict=True):
        assert float(cell.rstrip("%")) == pytest.approx(
            100 * (found.certificate.local.decision == kind).mean(), abs=0.06
        )


def test_weighted_shares_are_called_so() -> None:
    found = findings("two classes")
    schema = dataclasses.replace(found.people.schema, weight="weight")
    weighted = dataclasses.replace(found, people=dataclasses.replace(found.people, schema=schema))
    for section in ("people", "decisions"):
        assert "Shares are of the sampling weights." in read(render(weighted)).by_id(section).text
        assert "sampling weights" not in tree("two classes").by_id(section).text


def test_pairs_are_the_worst_ones_and_show_what_differs() -> None:
    found = findings("two classes")
    local = found.certificate.local
    worst = np.argsort(-local.lower, kind="stable")[:10]
    cards = [li for li in tree("two classes").all("li") if li.attributes.get("class") == "card"]
    assert [card.text.split()[2] for card in cards] == [f"{row}:" for row in found.people.rows[worst]]
    for row, card in zip(worst.tolist(), cards, strict=True):
        frame = local.witnesses.frame(row)
        marked = [line for line in card.all("tr") if "class" in line.attributes]
        shown = {line.all("th")[0].text.removesuffix(" protected"): line for line in marked}
        gets = shown.pop("probability of “yes”")
        assert set(shown) == set(frame.index[frame["individual"].map(str) != frame["counterpart"].map(str)])
        outputs = found.certificate.question.network(
            np.stack([local.witnesses.individual[row], local.witnesses.counterpart[row]])
        )[:, 1]
        assert [float(td.text.lstrip("→ ")) for td in gets.all("td")] == pytest.approx(outputs.tolist(), abs=6e-4)


def test_says_first_when_nothing_protected_can_move() -> None:
    stiff = WeightedLp(np.where(audit().people.schema.protected_coordinates, 1e9, 1.0), 2.0)
    document = read(render(audit(metric=stiff, delta=0.1, attack=False)))
    first = document.all("main")[0].all("p")[0]
    assert "No protected attribute and no declared proxy can move" in first.text
    rigid = read(render(audit(metric=stiff, delta=0.0, attack=False)))
    assert "nobody is similar to anybody else" in rigid.all("main")[0].all("p")[0].text
    assert not any(p.attributes.get("class") == "warning" for p in tree("two classes").all("p"))


def test_tells_what_was_not_proved() -> None:
    text = tree("two classes").by_id("not-proved").text
    for words in ("town", "metric is a choice", "within γ", "Not accuracy", "estimates", "average"):
        assert words in text


def test_a_regression_has_units_and_no_decisions() -> None:
    document = tree("regression")
    assert "in the unit of outcome" in document.by_id("verdict").text
    assert "no decisions" in document.by_id("decisions").text
    assert "probability" not in document.by_id("pairs").text
    assert "Bounds only" in document.by_id("verdict").text


def test_names_from_files_are_text() -> None:
    whole = page("three classes")
    assert NASTY not in whole and "<img" not in whole
    document = tree("three classes")
    assert len(document.all("script")) == 1 and not document.all("img")
    text = document.text
    assert NASTY in text and NASTIER in text
    assert document.all("h1")[0].text == NASTY


def test_observed_shifts_are_judged_by_their_lower_bound() -> None:
    (row,) = table(tree("two classes"), "shifts")
    distance = findings("two classes").shifts[0].distance
    assert row[0] == "next year"
    assert float(row[3]) == pytest.approx(distance.lower, rel=1e-3)
    assert ("outside:" in row[5]) == (distance.lower > 0.1)


def test_how_to_check_again() -> None:
    text = tree("two classes").by_id("check").text
    for words in ("isonomy verify certificate.json", "python -m isonomy_verify certificate.json", "ab" * 32):
        assert words in text
    assert findings("two classes").network.hash() in text


def test_is_of_moderate_size() -> None:
    assert all(len(page(kind).encode()) < 300_000 for kind in KINDS)


def test_many_groups_are_cut_short_and_it_says_so() -> None:
    people = crowded()
    model = network("softmax", people.schema.width)
    metric = WeightedLp(np.ones(people.schema.width), 2.0)
    options: dict[str, Any] = {"tier": "interval", "attack": False, "rounds": 0, "progress": None}
    certificate = isonomy.certify(model, people, metric, 0.1, 0.0, **options)
    by = [("attribute 0", "attribute 1")]
    one = group_fairness(model, people, favourable="yes", by=by, outcomes=False, bootstrap=Bootstrap(200))
    copies = [{"attributes": f"attribute {i} × {j}"} for i in range(6) for j in range(i)]
    group = dataclasses.replace(
        one,
        groups=pd.concat([one.groups.assign(**copy) for copy in copies], ignore_index=True),
        summary=pd.concat([one.summary.assign(**copy) for copy in copies], ignore_index=True),
    )
    whole = render(Findings("crowded", people, model, certificate, group))
    assert len(whole.encode()) < 1_000_000
    text = read(whole).text
    assert "smaller groups are left out" in text
    assert "Of the 15 pairs of protected attributes the first 10 are shown" in text


def test_people_are_judged_one_by_one() -> None:
    found = findings("two classes")
    text = tree("two classes").by_id("people").text
    for verdict in ("certified", "violated", "undecided"):
        share = 100 * (found.certificate.local.verdict(0.2) == verdict).mean()
        shown = re.search(rf"([\d.]+)% {verdict}", text)
        assert shown is not None and float(shown[1]) == pytest.approx(share, abs=0.051)


def test_the_drawn_curve_never_says_more_than_its_places() -> None:
    """Between two places the proved line is as high as at the right one, the found line as low as at the left one."""
    places = [
        (gamma, Fact("lower", "", lower), Fact("upper", "", upper))
        for gamma, lower, upper in ((0.0, 0.1, 0.2), (0.1, 0.3, 0.5), (0.2, 0.4, 0.6))
    ]
    drawn = str(curve(places, [], 0.1, None))
    for side, early in (("upper", True), ("lower", False)):
        (path,) = re.findall(rf'd="M([^"]*)" class="line {side}"', drawn)
        points = [tuple(map(float, point.split(","))) for point in path.split("L")]
        for (x0, y0), (x1, y1) in pairwise(points):
            assert x0 == x1 or y0 == y1, "steps, not slopes"
        assert (points[0][0] == points[1][0]) == early, "the proved line rises first, the found one last"
