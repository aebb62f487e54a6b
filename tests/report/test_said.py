"""What a reader acts on first: what is certified, what flips, what is read, and of which class a rate is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy
from isonomy.certificates.alone import ChangeAlone, changes_alone, questions
from isonomy.certificates.local import LocalCertificate
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.report import Findings
from isonomy.report.facts import facts_of
from isonomy.report.numbers import whole_percent
from isonomy.report.sections import Cell, Rounded
from isonomy.report.similar import similar
from isonomy.report.terminal import to_terminal
from isonomy.report.text import to_json, to_markdown
from isonomy.report.tomorrow import _headline, share_between
from isonomy.report.turns import Turns
from isonomy.report.words import CHANGED, finding, outcome
from isonomy.similarity import Counterparts
from isonomy_verify.individuals import DECISIONS

from .audits import audit, render

SCHEMA = """
[label]
column = "outcome"
classes = ["no", "yes"]
favourable = "yes"
[features.sex]
kind = "categorical"
categories = ["f", "m"]
protected = true
[features.race]
kind = "categorical"
categories = ["a", "b", "c"]
protected = true
[features.income]
low = 0
high = 1
tolerance = 0.1
[features.debt]
low = 0
high = 1
"""
QUICK: dict[str, Any] = {"gamma": 0.0, "tier": "interval", "limit": 40}


def decided(local: LocalCertificate, decision: list[str]) -> LocalCertificate:
    """Bounds with other decisions, which nothing checks."""
    other = object.__new__(LocalCertificate)
    codes = np.array([DECISIONS.index(kind) for kind in decision], dtype=np.uint8)
    other.__dict__.update(local.__dict__ | {"decided": codes})
    return other


def with_decisions(findings: Findings, decision: list[str], searched: bool = True) -> Findings:
    """The same audit with other decisions, as far as words are made of them."""
    local = decided(findings.certificate.local, decision)
    certificate = object.__new__(type(findings.certificate))
    certificate.__dict__.update(findings.certificate.__dict__ | {"local": local, "searched": searched})
    return dataclasses.replace(findings, certificate=certificate)


def everything(findings: Findings) -> list[str]:
    """Page, Markdown and terminal of an audit."""
    facts = facts_of(findings)
    return [render(findings), to_markdown(facts), "\n".join(map(str, to_terminal(facts)))]


def test_a_certified_mean_stands_beside_the_decisions_that_change() -> None:
    found = audit(epsilon=0.9)
    turns = Turns(found)
    changed = int((turns.alone | turns.together).sum())
    assert found.verdict == "certified" and changed
    assert facts_of(found).marks == (
        ("violated", f"{changed} of 70 decisions can change"), ("certified", "Average within the limit")
    )  # fmt: skip
    for text in everything(found)[:2]:
        assert f"{changed} of 70 decisions can change" in text and "Average within the limit" in text
    assert 'class="mark certified"' in render(found) and 'class="mark violated"' in render(found)


KIND = st.sampled_from(["certified", "flippable", "undecided"])


@given(
    three=st.lists(st.tuples(KIND, KIND, KIND), min_size=1, max_size=60), searched=st.booleans(), asked=st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_the_finding_adds_up_and_says_no_more_than_is_known(
    three: list[tuple[str, str, str]], searched: bool, asked: bool
) -> None:
    """Everybody is counted once: changed by the attributes alone, only with more, proved of both, or open. "Only" is
    said where it is proved that the attributes alone change nothing, and "together" where the other differences alone
    were not shown to; of these nothing is said where they were not asked about."""
    base, pairs = audit(), [each[:2] for each in three]
    whole, own, apart = ([each[side] for each in three] for side in range(3))
    joint, held = object.__new__(ChangeAlone), object.__new__(ChangeAlone)
    joint.__dict__.update(base.alone[0].__dict__ | {"certificate": decided(base.alone[0].certificate, own)})
    held.__dict__.update(joint.__dict__ | {"certificate": decided(base.alone[0].certificate, apart), "held": True})
    found = dataclasses.replace(
        base, alone=(joint,), held=held if asked else None, people=base.people[: len(pairs)]
    )  # fmt: skip
    found = with_decisions(found, whole, searched)
    turns, n = Turns(found), len(pairs)
    counts, said = turns.counts(), finding(found, turns, similar(base))
    assert sum(counts.values()) == n
    assert counts["alone"] == own.count("flippable")
    assert counts["never"] == sum(pair == ("certified", "certified") for pair in pairs)
    assert counts["together"] == sum(one == "flippable" != other for one, other in pairs)
    if counts["never"] == n:
        assert said.startswith(f"For none of {n} people can another age or sex, alone or together") and "proved" in said
        assert outcome(found, turns)[0] == "certified"
        return
    if not searched and not counts["alone"] + counts["together"]:
        assert said.startswith(
            f"For {counts['never']} of {n} people ({whole_percent(counts['never'], n)}) it is proved "
        )
        assert said.endswith(f"for {counts['open']} it is open, as no search was made.") and "would" not in said
        return
    share = whole_percent(counts["alone"], n)
    assert said.startswith(f"For {counts['alone']} of {n} people ({share}) another age or sex alone would change the ")
    more = [each[1:] for each in three if each[0] == "flippable" != each[1]]
    if not asked:
        sure = all(other == "certified" for other, _ in more)
        assert (f", for {len(more)} only where" in said) == (len(more) > 0 and sure) and "together" not in said
    else:
        both = [each for each in more if each[1] != "flippable"]
        sure = all(each == ("certified", "certified") for each in both)
        assert (f", for {len(both)} only together with" in said) == (len(both) > 0 and sure)
        others, word = len(more) - len(both), "others such a difference" if both else "a small difference of"
        assert (f", for {others} {word}" in said and " alone would" in said) == (others > 0)
    assert (f"for {counts['never']} it is proved that neither can" in said) == (counts["never"] > 0)
    assert (f"for {counts['open']} neither is shown nor proved" in said) == (counts["open"] > 0)
    assert ("no search was made" in said) == (counts["open"] > 0 and not searched)


def test_numbers_without_a_cut_off_are_no_decisions() -> None:
    found = audit("regression")
    for text in everything(found):
        assert "without a decision" not in text.lower()
    assert "No decisions were judged" in facts_of(found).headline and "--threshold" in facts_of(found).headline
    assert "decisions" not in to_json(facts_of(found))


def test_what_was_not_searched_for_is_not_called_shown() -> None:
    without, searched = audit(attack=False, decide=False), audit()
    for text in everything(without):
        assert "at least 0.0" not in text and "≥ 0" not in text and "no search was made" in text
        assert "no population was searched for, so there is no lower bound" in text.lower()
        assert "at least not searched" not in text
    assert str(facts_of(without).fact("lower")) == "not searched for"
    assert "≥" in facts_of(searched).fact("lower").bounded
    assert not facts_of(without)["people"].drawn.get("people", [{"least": []}])[0]["least"]


def test_without_epsilon_no_threshold_is_said_to_be_missing() -> None:
    """A threshold is the cut-off of a decision, which may well have been given."""
    found = audit()
    certificate = dataclasses.replace(found.certificate, epsilon=None)
    said = facts_of(dataclasses.replace(found, certificate=certificate))["summary"].sentences[0]
    assert "no ε was given" in said and "threshold" not in said


@pytest.mark.parametrize("favourable", ["no", "yes"])
def test_every_rate_names_its_class(favourable: str) -> None:
    found = audit()
    schema = dataclasses.replace(found.people.schema, label=Label("outcome", ("no", "yes"), favourable=(favourable,)))
    people = Population.from_frame(found.people.frame, schema)
    group = isonomy.group_fairness(
        found.model, people, favourable=favourable, bootstrap=isonomy.fairness.Bootstrap(200)
    )
    problem = dataclasses.replace(found.certificate.problem, outcome=schema.label)
    local = dataclasses.replace(found.certificate.local, problem=problem)
    certificate = dataclasses.replace(found.certificate, local=local)
    named = dataclasses.replace(found, people=people, group=group, certificate=certificate)
    section, quoted = facts_of(named)["groups"], f"“{favourable}”"
    assert (
        f"the largest change of the predicted probability of {quoted} when" in facts_of(named)["summary"].sentences[1]
    )
    for table in section.tables:
        heads = [head for head, _ in table.heads]
        assert any(quoted in each for each in (table.title, *heads)), table.code
        assert all(quoted in head for head in heads if "rate" in head or "Accuracy" in head)
    assert (
        f"Given {quoted} is who the model gives {quoted}, where it is at least as probable as “" in section.sentences[0]
    )
    page, notes = render(named), to_markdown(facts_of(named))
    assert page.count(f"Four-fifths rule for {quoted}: ") == len(group.four_fifths)
    assert f"Four-fifths rule for {quoted}" in notes


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b", "c"], n), "income": rng.random(n).round(3)}
    )
    frame["debt"] = rng.random(n).round(3)
    frame["outcome"] = np.where(frame["income"] - frame["debt"] / 2 + rng.normal(0, 0.2, n) > 0.3, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return {"data": str(tmp_path / "people.csv"), "schema": str(tmp_path / "schema.toml"), **QUICK}


def pipeline(plan: dict[str, Any], *protected: str) -> dict[str, Any]:
    """A fitted pipeline that drops the protected columns but for those named, as a file."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.read_csv(plan["data"])
    parts = [(StandardScaler(), ["income", "debt"])]
    parts += [(OneHotEncoder(), list(protected))] if protected else []  # type: ignore[list-item]
    model = make_pipeline(make_column_transformer(*parts, remainder="drop"), LogisticRegression())
    model.fit(frame.drop(columns="outcome"), frame["outcome"])
    path = Path(plan["data"]).with_name("model.skops")
    skops.io.dump(model, path)
    return plan | {"model": str(path)}


def test_a_model_that_reads_no_protected_attribute_is_called_so_first(files: dict[str, Any]) -> None:
    found = isonomy.audit(pipeline(files), progress=None).findings
    first = "The model reads neither sex nor race: changing them alone changes nothing."
    assert facts_of(found).headline.startswith(f"{first} What is bounded is the effect of income,")
    assert all(first in text for text in everything(found)) and not found.alone
    assert found.certificate.lower > 0  # by the tolerance, which is what the second sentence says


def test_a_model_that_reads_one_of_two(files: dict[str, Any]) -> None:
    found = isonomy.audit(pipeline(files, "sex"), progress=None).findings
    assert facts_of(found).headline.startswith("The model reads sex, but not race: changing it alone changes nothing.")
    assert [each.features for each in found.alone] == [("sex",)]
    both = isonomy.audit(pipeline(files, "sex", "race"), progress=None).findings
    assert "changes nothing" not in facts_of(both).headline and [each.features for each in both.alone] == [
        ("sex", "race"),
        ("sex",),
        ("race",),
    ]


def test_scores_stand_beside_the_verdict(files: dict[str, Any]) -> None:
    found = isonomy.audit(pipeline(files), progress=None).findings
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

    y, p = found.people.y, found.model(found.people.x)
    assert y is not None
    decided = (p[:, 1] >= 0.5).astype(int)
    assert found.scores["accuracy"] == pytest.approx(np.mean(decided == y))
    assert found.scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, decided))
    assert found.scores["auc"] == pytest.approx(roc_auc_score(y, p[:, 1])) and found.scores[
        "log_loss"
    ] == pytest.approx(log_loss(y, p))
    for text in everything(found):
        assert all(name in text for name in ("Accuracy", "Balanced accuracy", "AUC", "Log-loss"))
        assert f"{found.scores['auc']:.3f}" in text and f"{found.scores['log_loss']:.3f}" in text


def test_without_a_favourable_class_groups_are_left_out_and_the_way_is_named(files: dict[str, Any]) -> None:
    schema = Path(files["schema"])
    schema.write_text(schema.read_text().replace('favourable = "yes"\n', ""))
    found = isonomy.audit(pipeline(files), progress=None).findings
    assert found.group is None
    assert 'write favourable = "no" or "yes" in [label] of the schema, or say --favourable' in found.group_refusal
    for text in everything(found)[:2]:
        assert "Groups were not compared, since no favourable outcome is named" in text
    assert to_json(facts_of(found))["four_fifths"] is None


def test_a_regression_has_errors_beside_the_verdict_and_groups_with_a_cut_off(files: dict[str, Any]) -> None:
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.metrics import mean_absolute_error, r2_score
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = pd.read_csv(files["data"])
    frame["outcome"] = 100 * frame["income"] - 50 * frame["debt"]
    frame.to_csv(files["data"], index=False)
    model = make_pipeline(
        make_column_transformer((StandardScaler(), ["income", "debt"]), remainder="drop"),
        MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=200, random_state=0),
    ).fit(frame.drop(columns="outcome"), frame["outcome"])
    path, schema = Path(files["data"]).with_name("model.skops"), Path(files["schema"])
    skops.io.dump(model, path)
    cut = SCHEMA.replace('classes = ["no", "yes"]\nfavourable = "yes"', 'favourable = "high"\nthreshold = 30')
    schema.write_text(cut)
    found = isonomy.audit(files | {"model": str(path)}, progress=None).findings
    y, given = found.people.y, found.model(found.people.x)[:, 0]
    assert y is not None
    assert found.scores["mean_absolute_error"] == pytest.approx(mean_absolute_error(y, given))
    assert found.scores["r2"] == pytest.approx(r2_score(y, given)) and "auc" not in found.scores
    assert found.scores["accuracy"] == pytest.approx(np.mean((given >= 30) == (y >= 30)))
    for text in everything(found):
        assert "Mean absolute error" in text and "R²" in text and "Log-loss" not in text
    assert found.group is not None and "Error rates of “high” by sex" in render(found)
    assert "from a cut-off of 30 on, a score equal to it included" in facts_of(found)["groups"].sentences[0]
    schema.write_text(cut.replace('favourable = "high"\nthreshold = 30\n', ""))
    without = isonomy.audit(files | {"model": str(path)}, progress=None).findings
    assert without.group is None and "threshold = NUMBER" in without.group_refusal
    assert "No decisions were judged" in facts_of(without).headline


def attained_alone(network: Network, people: Population, feature: str) -> Any:
    """The largest change of a prediction over all categories of a feature, by trying each (n,)."""
    where, largest = people.schema.slices[feature], np.zeros(len(people))
    before = network(people.x)
    for category in np.eye(where.stop - where.start):
        x = people.x.copy()
        x[:, where] = category
        largest = np.maximum(largest, np.abs(network(x) - before).max(axis=1))
    return largest


@pytest.mark.parametrize("seed", range(5))
def test_one_feature_alone_is_bounded_over_all_its_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(
        "two",
        (
            Feature("sex", "categorical", categories=("f", "m", "o"), protected=True),
            Feature("race", "categorical", categories=("a", "b", "c", "d"), protected=True),
            Feature("pay", low=0, high=1, tolerance=0.2),
        ),
        Label("outcome", ("no", "yes")),
    )
    frame = pd.DataFrame(
        {"sex": rng.choice(["f", "m", "o"], 40), "race": rng.choice(list("abcd"), 40), "pay": rng.random(40)}
    )
    people = Population.from_frame(frame, schema)
    layers = [rng.normal(size=(9, schema.width)), rng.normal(size=(2, 9))]
    network = Network.from_layers(layers, [rng.normal(size=9), rng.normal(size=2)])
    certificate = isonomy.certify(network, people, Counterparts.of(schema), 1.0, 0.0, progress=None)
    changes = changes_alone(certificate, [("sex",), ("race",)])
    for change in changes:
        truth = attained_alone(network, people, *change.features)
        assert (change.certificate.lower <= truth + 1e-9).all() and (truth <= change.certificate.upper + 1e-12).all()
        assert change.certificate.lower == pytest.approx(truth, abs=1e-6) and change.certificate.upper == pytest.approx(
            truth, abs=1e-4
        )
    witnessed = certificate.local.witnesses.counterpart
    where, x = schema.slices["sex"], people.x.copy()
    x[:, where] = witnessed[:, where]
    by_witness = np.abs(network(x) - network(people.x)).max(axis=1).mean()
    # The worst pair does not have the worst value of each feature.
    assert by_witness < changes[0].certificate.mean_lower


def test_each_attribute_alone_has_a_line() -> None:
    shown = facts_of(audit())["much"].tables[0]
    assert [str(row[0].text) for row in shown.rows] == [
        "Everything that was asked about", "Protected attributes only", "Age alone", "Sex alone"
    ]  # fmt: skip
    hidden = facts_of(audit(redacted=True))["much"].tables[0]
    assert all("one person" not in head for head, _ in hidden.heads)


def test_a_terminal_has_at_most_twelve_lines_of_an_audit() -> None:
    for found in (audit(), audit("regression", epsilon=None), audit(redacted=True)):
        assert len(list(to_terminal(facts_of(found)))) <= 12


def test_decisions_that_other_differences_change_by_themselves_are_not_said_to_need_both() -> None:
    words = {fact.code: fact.words for fact in facts_of(audit())["finding"].facts}
    assert words.get("split.together", "only if other things differ").endswith("if other things differ")
    assert not CHANGED["together"].endswith("too")


def test_a_terminal_keeps_every_protected_attribute_and_says_what_it_leaves_out() -> None:
    rng = np.random.default_rng(0)
    names = ("sex", "race", "town")
    features = (*(Feature(name, "categorical", categories=("a", "b"), protected=True) for name in names),
                Feature("pay", low=0, high=1, tolerance=0.1))  # fmt: skip
    frame = pd.DataFrame({name: rng.choice(["a", "b"], 30) for name in names} | {"pay": rng.random(30)})
    frame["granted"] = np.where(frame["pay"] > 0.5, "yes", "no")
    schema = Schema("three", features, Label("granted", ("no", "yes"), favourable="yes"))
    people = Population.from_frame(frame, schema)
    network = Network.from_layers([rng.normal(size=(2, schema.width))], [rng.normal(size=2)])
    shifts = [isonomy.Part(0.5), isonomy.Stability(0.1), isonomy.Stability(0.25)]
    certificate = isonomy.certify(network, people, Counterparts.of(schema), 1.0, shift=shifts, progress=None)
    changes = changes_alone(certificate, questions(schema, names))
    found = Findings("three", people, network, certificate, alone=changes)
    lines = [str(line) for line in to_terminal(facts_of(found))]
    assert [sum(line.startswith(f"- {name.title()} alone") for line in lines) for name in names] == [1, 1, 1]
    assert len(lines) <= 12 and sum(line.startswith("- Any p") for line in lines) == 1
    assert sum("(not listed here: 2 populations)" in line for line in lines) == 1


def steep(count: int, pay: Any, delta: float, weight: float, **tolerance: float) -> Findings:
    """A model that reads pay alone, and steeply."""
    features = (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("pay", low=0, high=1, **tolerance),
    )  # type: ignore[arg-type]
    schema = Schema("s", features, Label("y", ("no", "yes"), favourable=("yes",)))
    frame = pd.DataFrame({"sex": ["f", "m"] * (count // 2), "pay": pay, "y": ["no", "yes"] * (count // 2)})
    people = Population.from_frame(frame, schema)
    network = Network.from_layers([[[0.0, 0.0, weight]]], [[-weight / 2]], head="sigmoid")
    found = isonomy.certify(network, people, Counterparts.of(schema), delta, 0.0, progress=None)
    return Findings("steep", people, network, found)


def test_what_was_not_seen_to_differ_is_not_said_to_be_equal() -> None:
    """Moves too small to be seen, and people between those who are looked at, change predictions all the same."""
    hidden = np.zeros(1100)
    hidden[-1] = 0.5  # 0 is like 0 alone; the last one may differ
    tiny = steep(4, np.full(4, 0.5), 1e-11, 1e10, tolerance=0.1)
    late = steep(1100, hidden, 1.0, 20.0, relative_tolerance=0.2)
    seen = "as far as was seen on all 4 people, for differences above a billionth of a unit"
    assert f"It reads nothing else in which similar people may differ, {seen}." in facts_of(tiny).headline
    assert "is the effect of pay," in facts_of(late).headline
    assert "Seen on 550 of 1,100 people, evenly spaced." in facts_of(late)["asked"].tables[0].notes[0]
    for found in (tiny, late):
        assert found.certificate.local.lower.max() > 0.001 and "Cannot differ" not in to_markdown(facts_of(found))


def test_a_person_of_whom_nothing_is_proved_is_called_so_once() -> None:
    found = audit(tier="interval", attack=False)
    upper = np.full(len(found.people), 0.97)
    local = dataclasses.replace(found.certificate.local, upper=upper)
    loose = dataclasses.replace(found, certificate=dataclasses.replace(found.certificate, local=local))
    entries = facts_of(loose)["people"].drawn["people"]
    assert entries and all(entry["most"] == "; nothing was proved here" for entry in entries)
    assert all(entry["most"].startswith(", at most ") for entry in facts_of(audit())["people"].drawn["people"])


def test_a_share_that_is_known_but_for_rounding_is_one_number() -> None:
    assert str(share_between(0.874999, 0.875)) == "87.5 %"
    assert str(share_between(0.999999, 1.0)) == "100 %" and str(share_between(0.0, 1e-6)) == "0 %"
    assert str(share_between(0.4, 0.5)) == "40.0 to 50.0 %"
    assert str(share_between(0.99997, 0.99997)) == ">99.9 %"


def test_a_number_is_exchanged_from_the_bands_of_its_groups() -> None:
    found = audit()
    shown = {each.code: each for each in facts_of(found)["who"].tables}["from-age"]
    ages = found.people.frame["age"]
    assert all(18 <= float(head.removeprefix("→ ")) <= 90 for head, _ in shown.heads[2:])
    for row in shown.rows:
        before = str(row[0].text)
        low, high = {"age below 36": (0, 36), "age 36 to below 54": (36, 54), "age 54 to below 72": (54, 72),
                     "age 72 and above": (72, 99)}[before]  # fmt: skip
        assert int(str(row[1].text)) == ((ages >= low) & (ages < high)).sum()


def test_the_headline_of_tomorrow_says_when_nothing_is_proved() -> None:
    rounded = Rounded(1, points=True)
    row = [Cell("Any part"), "", rounded.attained("l", "", 0.9), rounded.proved("u", "", 0.99), ""]
    assert _headline([row, row]) == (
        "In any part nothing was proved of the average largest change; shown is at least 90.0."
    )
