"""What the page says about features, against answers computed another way."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.fairness import group_fairness
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.report import Findings
from isonomy.report.counterpart import facts_of_row
from isonomy.report.facts import facts_of
from isonomy.report.similar import similar
from isonomy.report.tomorrow import comparable, curve
from isonomy.shift import wasserstein

from .audits import audit, render
from .reading import read, table


def test_what_delta_allows_in_raw_units() -> None:
    moves = {move.feature: move.reach for move in similar(audit()).moves}
    assert moves == {
        "age": "to any value from 18 to 90",
        "sex": "to 2 other categories",
        "income": "by up to 5% more, or 4.762% less",
        "rank": "by up to 1 level more or less",
    }
    assert set(similar(audit()).fixed) == {"town", "debt"}


def small(frame: dict[str, object], income: Feature, network: Network, label: Label | None = None) -> Findings:
    """An audit of people of two sexes with an income, whom nobody searched."""
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    people = Population.from_frame(pd.DataFrame(frame), Schema("small", (sex, income), label=label))
    certificate = isonomy.certify(
        network, people, isonomy.Counterparts.of(people.schema), gamma=0.0, attack=False, rounds=0, progress=None
    )
    group = None if label is None else group_fairness(network, people)
    return Findings(title="small", people=people, model=network, certificate=certificate, group=group)


def test_what_a_few_people_can_differ_in_is_not_called_unable_to_differ() -> None:
    """5 % of nothing is nothing; only one of 3,000 has an income, and is not among those who are looked at."""
    network = Network.from_layers([np.array([[0.0, 0.0, 5.0]])], [np.zeros(1)], head="sigmoid")
    pay = Feature("income", low=0, high=1, relative_tolerance=0.05)
    for rich in (1001, 2999):  # behind the first 1,024, or between those who are evenly spaced
        frame = {"sex": ["f", "m"] * 1500, "income": np.where(np.arange(3000) == rich, 0.8, 0.0)}
        findings = small(frame, pay, network)
        assert findings.certificate.upper > 0
        assert "income" not in similar(findings).fixed and "nothing else" not in facts_of(findings).headline
        assert "the effect of income" in facts_of(findings).headline
    nothing = small({"sex": ["f", "m"] * 1500, "income": np.zeros(3000)}, Feature("income", low=0, high=1), network)
    assert similar(nothing).fixed == ("income",) and "reads nothing else" in facts_of(nothing).headline


def test_two_independent_sigmoids_have_no_cut_off_of_one_half() -> None:
    """Both probabilities may be below one half: the larger one decides, and the page says so."""
    rows = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    network = Network.from_layers([rows], [np.array([-2.0, -3.0])], head="sigmoid")
    pay = np.linspace(0, 1, 80)
    label = Label("y", ("no", "yes"), favourable=("yes",))
    frame = {"sex": ["f", "m"] * 40, "income": pay, "y": np.where(pay > 0.5, "yes", "no")}
    findings = small(frame, Feature("income", low=0, high=1), network, label)
    outputs = network(findings.people.x)
    assert (outputs < 0.5).all() and 0 < (outputs[:, 1] >= outputs[:, 0]).mean() < 1
    assert findings.group is not None and findings.group.groups["selection_rate"].min() > 0
    (said,) = facts_of(findings)["groups"].sentences
    assert "gives “yes”, where it is at least as probable as “no”." in said and "0.5" not in said


def test_a_counterpart_that_is_shown_is_not_taken_for_one_with_another_decision() -> None:
    """The largest change, upward from .6, does not cross the cut-off: who does is named beside it."""
    network = Network.from_layers([np.array([[0.5]])], [np.array([-0.1])], head="sigmoid")
    age = Feature("age", "integer", low=0, high=9, origin=0, unit=1, protected=True)
    schema = Schema("small", (age,), label=Label("y", ("no", "yes"), favourable=("yes",), threshold=0.5))
    people = Population.from_frame(pd.DataFrame({"age": [1, 0], "y": ["yes", "no"]}), schema)
    found = isonomy.certify_local(network, people, isonomy.Counterparts.of(schema), progress=None)
    assert found.decision.tolist() == ["flippable", "flippable"] and found.witnesses.counterpart[0, 0] == 9
    one, other = (str(facts_of_row(found, place, place).fact("decision")) for place in (0, 1))
    assert one == (
        "A similar person with another decision was found, not the one shown: no = 0.5250, yes = 0.4750, with age "
        "1 → 0."
    )
    assert other == "A similar person with another decision was found."


def test_distances_in_another_cost_are_not_put_on_the_curve() -> None:
    findings = audit()
    other = wasserstein(findings.people, findings.people, ground="l1")
    assert not comparable(findings.certificate, other)
    assert comparable(findings.certificate, findings.shifts[0].distance)
    moved = dataclasses.replace(findings.shifts[0], distance=other)
    section = facts_of(dataclasses.replace(findings, shifts=(moved,)))["tomorrow"]
    (shown,) = [each for each in section.tables if each.code == "shifts"]
    assert "not comparable" in str(shown.rows[0][0].note) and not section.drawn["lanes"]


def test_a_population_outside_is_called_outside() -> None:
    findings = audit()
    far = dataclasses.replace(findings.shifts[0].distance, lower=0.4, estimate=0.9)
    beyond = dataclasses.replace(findings, shifts=(dataclasses.replace(findings.shifts[0], distance=far),))
    (shown,) = [each for each in facts_of(beyond)["tomorrow"].tables if each.code == "shifts"]
    assert str(shown.rows[0][0].note).startswith("outside")
    assert "Already outside: next year" in read(render(beyond)).by_id("not-proved").text
    assert curve(beyond)[-1][0] == pytest.approx(0.4)


def test_groups_are_those_of_the_group_fairness() -> None:
    findings = audit()
    assert findings.group is not None
    rows, page = findings.group.groups, read(render(findings))
    for place, (_, some) in enumerate(rows.groupby("attributes", sort=False)):
        shown = table(page, f"groups-{place + 1}")
        assert [int(row[1]) for row in shown] == some["people"].tolist()
        for row, (_, exact) in zip(shown, some.iterrows(), strict=True):
            numbers = [float(number) / 100 for number in re.findall(r"[\d.]+", row[2])]
            wanted = [exact[f"selection_rate{end}"] for end in ("", "_low", "_high")]
            assert numbers == pytest.approx(wanted, abs=5.1e-4)
