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
from isonomy.population.outcome import decided
from isonomy.report import Findings
from isonomy.report.facts import facts_of
from isonomy.report.figures import curve
from isonomy.report.numbers import whole_percent
from isonomy.report.sections import NOTHING, TRIVIAL, Fact, Rounded
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
        name = figure.all("svg")[0].attributes["aria-labelledby"]
        assert figure.all("details") or name.startswith("people-lines"), (
            "a table behind every figure but that of people"
        )


@every
def test_numbers_agree_with_the_certificate(kind: str) -> None:
    found, document = findings(kind), tree(kind)
    (heading,) = [each for each in document.all("h1") if each.attributes.get("class") == "sentence"]
    facts = facts_of(found)
    assert heading.text == facts.headline
    local = found.certificate.local
    if found.joint is not None and (local.decision != "none").any():
        alone, never = found.joint.decision == "flippable", found.joint.decision == "certified"
        never &= local.decision == "certified"
        if found.certificate.searched:
            share = whole_percent(int(alone.sum()), 70)
            assert f"For {alone.sum()} of 70 people ({share}) another" in heading.text
            assert (f"for {never.sum()} it is proved that neither can" in heading.text) == bool(never.any())
        else:
            assert (
                f"For {never.sum()} of 70 people ({whole_percent(int(never.sum()), 70)}) it is proved that another"
                in heading.text
            )
    upper, lower = found.claimed[1], found.claimed[0]
    size, scale = facts["finding"].sentences[-1], 1 if found.regression else 100
    assert size in document.by_id("much").text
    if upper <= TRIVIAL or found.regression:
        most = float(re.search(r"by at most ([\d.,]+)", size)[1].replace(",", "")) / scale  # type: ignore[index]
        assert upper <= most * (1 + 1e-12) <= upper * 1.02 + 2e-3
    else:
        assert NOTHING in size
    if found.certificate.searched:
        least = float(re.search(r"by at least ([\d.,]+) \(shown", size)[1].replace(",", "")) / scale  # type: ignore[index]
        assert lower * 0.99 - 2e-3 <= least <= lower + 1e-12
    else:
        assert "no search was made" in size


@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression", "redacted", "far"])
def test_the_curve_is_sound_and_passes_through_the_certificate(kind: str) -> None:
    certificate = findings(kind).certificate
    scale = 1 if kind == "regression" else 100
    shown = [
        [cell.replace(",", "").replace(NOTHING, "100") for cell in row] for row in table(tree(kind), "curve-table")
    ]
    rows = [[float(row[0]), *(float(cell) / scale for cell in row[1:])] for row in shown]
    assert 15 <= len(rows) <= 40
    exact = certificate.curve([gamma for gamma, _, _ in rows])
    for (gamma, lower, upper), (_, whole) in zip(rows, exact.iterrows(), strict=True):
        assert lower <= upper
        assert whole["upper"] <= upper * (1 + 1e-12) or gamma == rows[-1][0]
        assert lower <= whole["lower"] + 1e-12
    own = next(row for row in rows if row[0] == certificate.gamma)
    assert own[2] * (1 + 1e-12) >= certificate.upper and own[1] <= certificate.lower + 1e-12


def test_groups_have_their_sizes_means_and_decisions() -> None:
    document, found = tree("two classes"), findings("two classes")
    local, sex = found.certificate.local, found.people.frame["sex"].to_numpy()
    rows = table(document, "groups-2")
    assert {row[0].removesuffix(" too few"): int(row[1]) for row in rows} == found.people.frame[
        "sex"
    ].value_counts().to_dict()
    for row in rows:
        inside = sex == row[0].removesuffix(" too few")
        given = (decided(found.model(found.people.x[inside]), found.certificate.problem.outcome) == 1).mean()
        assert float(row[2].split("%")[0]) == pytest.approx(100 * given, abs=0.06)
        assert float(row[4]) / 100 <= local.lower[inside].mean() + 1e-12
        assert local.upper[inside].mean() <= float(row[5]) / 100 + 1e-12
        low, *_, high = map(float, re.findall(r"[\d.]+", row[6]))
        shown, left = (local.decision[inside] == "flippable").mean(), (local.decision[inside] != "certified").mean()
        assert low <= 100 * shown + 1e-9 <= low + 0.2 and high - 0.2 <= 100 * left + 1e-9 <= high + 2e-9


def test_everybody_is_run_with_every_category() -> None:
    """Against a loop over people: who gains and who loses with another category, and by how much the score changes."""
    found, document = findings("two classes"), tree("two classes")
    model, people = found.certificate.problem.model, found.people
    where = people.schema.slices["sex"]
    good = lambda x: decided(model(x), found.certificate.problem.outcome) == 1  # noqa: E731
    names, today = people.schema["sex"].categories, good(people.x)
    as_table = {row[0]: row for row in table(document, "as-sex")}
    seen = {}
    for place, after in enumerate(names):
        other = people.x.copy()
        other[:, where] = np.eye(3)[place]
        moved = model(other)[:, 1] - model(people.x)[:, 1]
        assert int(as_table[after][1]) == good(other).sum()
        assert float(as_table[after][2].replace("−", "-")) == pytest.approx(100 * moved.mean(), abs=0.06)
        for before in set(names) - {after}:
            some = (people.frame["sex"] == before).to_numpy()
            gain, lose = (some & ~today & good(other)).sum(), (some & today & ~good(other)).sum()
            seen[before, after] = (some.sum(), gain, lose, 100 * moved[some].mean())
    rows = table(document, "from-sex")
    (heads,) = [row.all("th") for row in document.by_id("from-sex").all("thead")]
    afters = [each.text.removeprefix("→ ") for each in heads[2:]]
    changes = [float(as_table[after][2].replace("−", "-")) for after in afters]
    assert changes == sorted(changes) and [row[0] for row in rows] == afters, "by favour, on both sides"
    for before, count, *cells in rows:
        for after, cell in zip(afters, cells, strict=True):
            if before == after:
                assert not cell
                continue
            *ways, change = cell.replace(",", "").split()
            counts = dict(zip(ways[::2], map(int, ways[1::2]), strict=True)) if ways != ["0"] else {}
            people_, gain, lose, mean = seen[before, after]
            assert (int(count), counts.get("▲", 0), counts.get("▼", 0)) == (people_, gain, lose)
            assert float(change.replace("−", "-")) == pytest.approx(mean, abs=0.06)


def test_people_are_the_worst_ones_and_show_what_differs() -> None:
    found = findings("two classes")
    local, people = found.certificate.local, found.people
    cards = [li for li in tree("two classes").all("li") if li.attributes.get("class", "").startswith("pp ")]
    worst = np.argsort(-local.lower, kind="stable")
    assert [card.attributes["data-name"] for card in cards] == [f"row {row}" for row in people.rows[worst]]
    good = decided(found.model(people.x), found.certificate.problem.outcome) == 1
    for row, card in list(zip(worst.tolist(), cards, strict=True))[:10]:
        frame = local.witnesses.frame(row)
        furthest = card.all("div")[-1]
        changed = {line.text.split()[0] for line in furthest.all("li")}
        assert changed == set(frame.index[frame["differs"] == "*"])
        assert ("p" in {each.attributes.get("class") for each in furthest.all("li")}) == bool(changed & {"age", "sex"})
        assert f"{'' if good[row] else 'not '}given “yes”" in card.text
        assert float(card.attributes["data-change"]) == local.lower[row]


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
    for words in ("right comparison", "metric is a choice", "than γ", "Not accuracy", "counted on these people"):
        assert words in text
    assert (
        "Not seen to differ, by more than a billionth of a unit: town, debt." in tree("two classes").by_id("asked").text
    )


def test_a_regression_has_units_and_no_decisions() -> None:
    document = tree("regression")
    assert "in the unit of outcome" in document.by_id("finding").text
    assert "No decisions were judged" in document.by_id("finding").text
    assert "probability" not in document.by_id("people").text and "points" not in document.by_id("much").text


def test_names_from_files_are_text() -> None:
    whole = page("three classes")
    assert NASTY not in whole and "<img" not in whole
    document = tree("three classes")
    assert len(document.all("script")) == 1 and not document.all("img")
    text = document.text
    assert NASTY in text and NASTIER in text
    assert NASTY in document.all("header")[0].text


def test_observed_shifts_are_judged_by_their_lower_bound() -> None:
    (row,) = table(tree("two classes"), "shifts")
    distance = findings("two classes").shifts[0].distance
    assert row[0].startswith("next year")
    assert float(row[3]) == pytest.approx(distance.lower, rel=1e-3)
    assert ("outside:" in row[0]) == (distance.lower > 0.1)


def test_how_to_check_again() -> None:
    text = tree("two classes").by_id("asked").text
    for words in ("isonomy verify certificate.json", "python -m isonomy_verify certificate.json", "ab" * 32):
        assert words in text
    assert findings("two classes").model.hash() in text


def test_is_of_moderate_size() -> None:
    assert all(len(page(kind).encode()) < 500_000 for kind in KINDS)


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


def test_where_the_bound_says_next_to_nothing_it_is_called_so() -> None:
    assert str(Rounded(1, points=True).proved("x", "", 0.951)) == NOTHING
    assert str(Rounded(1, points=True).proved("x", "", 0.95)) == "95.0"
    assert str(Rounded(3).proved("x", "", 0.97)) == "0.970", "numbers of a regression are no probabilities"


def test_the_drawn_curve_never_says_more_than_its_places() -> None:
    """Between two places the proved line is as high as at the right one, the found line as low as at the left one."""
    places = [
        (gamma, Fact("lower", "", lower), Fact("upper", "", upper))
        for gamma, lower, upper in ((0.0, 0.1, 0.2), (0.1, 0.3, 0.5), (0.2, 0.4, 0.6))
    ]
    drawn = str(curve(places, [], 0.1, None, "average"))
    for side, early in (("upper", True), ("lower", False)):
        (path,) = re.findall(rf'd="M([^"]*)" class="line {side}"', drawn)
        points = [tuple(map(float, point.split(","))) for point in path.split("L")]
        for (x0, y0), (x1, y1) in pairwise(points):
            assert x0 == x1 or y0 == y1, "steps, not slopes"
        assert (points[0][0] == points[1][0]) == early, "the proved line rises first, the found one last"
