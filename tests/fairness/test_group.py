"""Group metrics against fairlearn, against tables computed by hand, and against what must be said aloud."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as reference

import isonomy
from isonomy.errors import DataError, NetworkError, ParameterError
from isonomy.fairness import Bootstrap, GroupFairness, group_fairness, scores
from isonomy.networks.network import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.similarity import WeightedLp

from .people import AGE, PAY, RACE, SEX, population, random_people

ADULT = Path(__file__).parents[2] / "benchmarks" / "networks" / "adult_2x256.onnx"
NAMES = {
    "demographic_parity_difference": reference.demographic_parity_difference,
    "demographic_parity_ratio": reference.demographic_parity_ratio,
    "equalised_odds_difference": reference.equalized_odds_difference,
    "equalised_odds_ratio": reference.equalized_odds_ratio,
    "equal_opportunity_difference": reference.equal_opportunity_difference,
    "equal_opportunity_ratio": reference.equal_opportunity_ratio,
}
RATES = {
    "selection_rate": reference.selection_rate,
    "true_positive_rate": reference.true_positive_rate,
    "false_positive_rate": reference.false_positive_rate,
}


def value(found: GroupFairness, attributes: str, metric: str, column: str = "value") -> float:
    rows = found.summary.set_index(["attributes", "metric"])
    return rows.loc[(attributes, metric), column]


def agree(found: GroupFairness, people: Population, selected: np.ndarray, actual: np.ndarray) -> None:
    """Every number of both tables is fairlearn's."""
    for title in dict.fromkeys(found.summary["attributes"]):
        sensitive = people.frame[title.split(" × ")].astype(str).agg(", ".join, axis=1).to_numpy()
        for metric, function in NAMES.items():
            expected = function(actual, selected, sensitive_features=sensitive, sample_weight=people.weights)
            assert value(found, title, metric) == pytest.approx(expected, rel=1e-9, abs=1e-12), (title, metric)
        frame = reference.MetricFrame(
            metrics=RATES,
            y_true=actual,
            y_pred=selected,
            sensitive_features=sensitive,
            sample_params={name: {"sample_weight": people.weights} for name in RATES},
        ).by_group
        rows = found.groups[found.groups["attributes"] == title].set_index("group")
        assert set(rows.index) == set(frame.index)
        for name in RATES:
            np.testing.assert_allclose(rows[name], frame.loc[rows.index, name].astype(float), rtol=1e-9)
        right = [
            np.average(
                selected[sensitive == group] == actual[sensitive == group], weights=people.weights[sensitive == group]
            )
            for group in rows.index
        ]
        np.testing.assert_allclose(rows["accuracy"], right, rtol=1e-9)
        share = [people.weights[sensitive == group].sum() / people.weights.sum() for group in rows.index]
        np.testing.assert_allclose(rows["share"], share, rtol=1e-9)
        assert rows["people"].tolist() == [(sensitive == group).sum() for group in rows.index]


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_random_people_as_fairlearn_has_them(seed: int, weight: bool) -> None:
    people, predicted = random_people(seed, weight=weight)
    found = group_fairness(predicted, people, bootstrap=Bootstrap(200))
    assert list(dict.fromkeys(found.summary["attributes"])) == ["sex", "race", "sex × race"]
    agree(found, people, predicted, np.asarray(people.y))


@pytest.mark.parametrize("size", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_adult_as_fairlearn_has_it(size: int) -> None:
    people = isonomy.load_population("adult").test.sample(size)
    network = isonomy.load_network(ADULT)
    # In the small sample some crossed groups have no positives, where fairlearn says 0: left to the large one.
    found = group_fairness(network, people, by=["sex"] if size == 3000 else None, bootstrap=Bootstrap(200))
    agree(found, people, network(people.x).argmax(axis=1), np.asarray(people.y))
    assert found.four_fifths["sex"] == "fail"
    stricter = group_fairness(network, people, threshold=0.7, by=["sex"], bootstrap=Bootstrap(200))
    agree(stricter, people, (network(people.x)[:, 1] >= 0.7).astype(int), np.asarray(people.y))


def test_by_hand() -> None:
    frame = {"sex": list("ffffmmmm"), "y": ["yes", "yes", "no", "no", "yes", "no", "no", "no"]}
    people = population(frame)
    found = group_fairness(np.array([1, 0, 0, 0, 1, 1, 1, 0]), people, by=["sex"])
    rows = found.groups.set_index("group")
    assert rows["selection_rate"].tolist() == [0.25, 0.75]
    assert rows["true_positive_rate"].tolist() == [0.5, 1.0]
    np.testing.assert_allclose(rows["false_positive_rate"], [0.0, 2 / 3])
    assert rows["accuracy"].tolist() == [0.75, 0.5]
    assert value(found, "sex", "demographic_parity_difference") == 0.5
    assert value(found, "sex", "demographic_parity_ratio") == pytest.approx(1 / 3)
    assert value(found, "sex", "equalised_odds_difference") == pytest.approx(2 / 3)
    assert value(found, "sex", "equalised_odds_ratio") == 0.0
    assert value(found, "sex", "equal_opportunity_difference") == 0.5
    assert (value(found, "sex", "demographic_parity_ratio", "lowest"), rows["small"].all()) == ("f", True)
    assert value(found, "sex", "equalised_odds_difference", "note").startswith("by the false positive rate")
    assert found.four_fifths == {"sex": "undecided"}  # four people in a group prove nothing
    assert "four-fifths rule: undecided" in str(found)


def test_an_undefined_rate_is_nan_with_a_reason() -> None:
    frame = {"race": list("aaaabbbbcccc"), "y": ["yes", "no"] * 4 + ["no"] * 4}
    people = population(frame, RACE, PAY)
    found = group_fairness(np.array([1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0]), people)
    row = found.groups.set_index("group").loc["c"]
    assert np.isnan(
        row[["true_positive_rate", "true_positive_rate_low", "true_positive_rate_high"]].astype(float)
    ).all()
    assert "true positive rate: nobody with a favourable outcome" in row["note"]
    assert value(found, "race", "equal_opportunity_difference") == 0.0  # a and b: one of two each
    assert value(found, "race", "equal_opportunity_difference", "groups") == 2
    assert "nobody with a favourable outcome: 'c'" in value(found, "race", "equal_opportunity_difference", "note")
    only = population({"sex": list("ffmm"), "y": ["yes", "no", "no", "no"]})
    found = group_fairness(np.array([1, 1, 0, 0]), only)
    for metric in ("equal_opportunity_difference", "equal_opportunity_ratio", "equalised_odds_difference"):
        assert np.isnan(value(found, "sex", metric))
        assert "fewer than two groups" in value(found, "sex", metric, "note")
    found = group_fairness(np.zeros(4, dtype=int), only)
    assert np.isnan(value(found, "sex", "demographic_parity_ratio"))
    assert "0 in every group" in value(found, "sex", "demographic_parity_ratio", "note")
    assert found.four_fifths == {"sex": "undecided"}
    assert "undefined" in str(found)


def test_people_of_weight_zero_are_nobody() -> None:
    people, predicted = random_people(3)
    weights = people.weights.copy()
    weights[people.frame["race"] == "c"] = 0.0
    weights[::7] = 0.0
    frame = people.frame.assign(w=weights)
    found = group_fairness(
        predicted, Population.from_frame(frame, people.schema), by=["race"], bootstrap=Bootstrap(200)
    )
    rows, kept = found.groups.set_index("group"), weights > 0
    expected = group_fairness(predicted[kept], people[kept], by=["race"], bootstrap=Bootstrap(200))
    pd.testing.assert_frame_equal(rows.loc[["a", "b"]], expected.groups.set_index("group"), check_like=True)
    assert (rows.loc["c", "people"], rows.loc["c", "small"]) == (0, True)
    assert np.isnan(rows.loc["c", "selection_rate"])
    assert "nobody with a positive weight" in rows.loc["c", "note"]


def test_numbers_are_cut_at_stated_edges() -> None:
    frame = {"age": [20, 29, 30, 39, 40, 49, 50, 60], "y": ["yes", "no"] * 4}
    people = population(frame, AGE, PAY)
    chosen = np.ones(8, dtype=int)
    default = group_fairness(chosen, people)
    assert default.groups["people"].tolist() == [2, 2, 2, 2]
    assert default.groups["group"].tolist()[:2] == ["age below 30", "age 30 to below 40"]
    assert "4 equal parts of the schema's range, 20 to 60" in str(default)
    stated = group_fairness(chosen, people, bins={"age": [30]})
    assert dict(zip(stated.groups["group"], stated.groups["people"], strict=True)) == {
        "age below 30": 2,
        "age 30 and above": 6,
    }
    code = Feature("sex", "integer", low=1, high=2, protected=True)
    coded = group_fairness(chosen, population({"sex": [1, 2] * 4, "y": frame["y"]}, code, PAY))
    assert coded.groups["group"].tolist() == ["sex 1", "sex 2"]
    pay = Feature("pay", "numeric", fill=1.0, protected=True)
    missing = population({"pay": [1.0, np.nan, 3.0, 5.0], "y": ["yes", "no"] * 2}, pay)
    found = group_fairness(chosen[:4], missing, bins={"pay": [2.0]})
    assert dict(zip(found.groups["group"], found.groups["people"], strict=True)) == {
        "pay below 2": 1,
        "pay 2 and above": 2,
        "pay missing": 1,
    }
    for bins in ({"age": []}, {"age": [40, 30]}, {"age": [np.inf]}, {"pay": [1.0]}):
        with pytest.raises(ParameterError, match="'bins'"):
            group_fairness(chosen, people, bins=bins)
    endless = population({"pay": frame["age"], "y": frame["y"]}, Feature("pay", "numeric", protected=True))
    with pytest.raises(ParameterError, match="'bins' must state edges for 'pay'"):
        group_fairness(chosen, endless)


def test_every_form_of_prediction() -> None:
    people, places = random_people(0)
    expected = group_fairness(places, people, bootstrap=Bootstrap(200))
    p = np.where(places, 0.8, 0.3)
    names = np.array(["no", "yes"])[places]
    for given, more in ((names, {}), (places == 1, {}), (p, {"threshold": 0.5}), (np.stack([1 - p, p], 1), {}),
                        (places == 1, {"favourable": "yes"})):  # fmt: skip
        found = group_fairness(given, people, bootstrap=Bootstrap(200), **more)
        pd.testing.assert_frame_equal(found.summary, expected.summary)
        pd.testing.assert_frame_equal(found.groups, expected.groups)
    swapped = group_fairness(places, people, favourable="no", bootstrap=Bootstrap(200))
    np.testing.assert_allclose(swapped.groups["selection_rate"], 1 - expected.groups["selection_rate"])
    for given, more in (
        (p, {}),
        (places, {"threshold": 0.5}),
        (places + 1, {}),
        (np.where(places, "yes", "maybe"), {}),
        (p[:-1], {"threshold": 0.5}),
        (p, {"threshold": 1.0}),
        (np.stack([p, p, p], 1), {}),
        (places, {"favourable": "maybe"}),
        (places, {"favourable": ["yes", "no"]}),
        (places == 1, {"threshold": 0.5}),
    ):
        with pytest.raises(ParameterError):
            group_fairness(given, people, **more)
    with pytest.raises(DataError, match="Row 3"):
        group_fairness(np.where(np.arange(len(p)) == 3, np.nan, p), people, threshold=0.5)


@pytest.mark.parametrize("classes", [("1", "0"), ("0", "1"), ("1", "2"), ("-1", "1"), ("False", "True")])
@pytest.mark.parametrize("place", [0, 1])
def test_predictions_that_a_classifier_gives_are_read_by_name_or_refused(classes: tuple[str, ...], place: int) -> None:
    """What ``predict`` gives are labels: a number is not taken for a place, nor False for the unfavourable one."""
    labels = np.array([classes[0]] * 3 + [classes[1]] * 5)
    people = population({"sex": list("fmfmfmfm"), "y": labels}, classes=classes)
    kinds = {"False": labels == "True"}.get(classes[0], labels)
    own = kinds if kinds.dtype == bool else labels.astype(np.int64)
    named = group_fairness(labels, people, favourable=classes[place]).groups
    try:
        found = group_fairness(own, people, favourable=classes[place]).groups
    except ParameterError as error:
        assert "two ways" in str(error) and "astype(str)" in str(error)
        assert (classes, place) in ((("1", "0"), 0), (("1", "0"), 1), (("False", "True"), 0))
    else:
        pd.testing.assert_frame_equal(found, named)
    if own.dtype != bool and classes != ("1", "0"):  # places, where they cannot be names
        places = np.array([0] * 3 + [1] * 5)
        pd.testing.assert_frame_equal(group_fairness(places, people, favourable=classes[place]).groups, named)
    if classes == ("1", "2"):
        with pytest.raises(ParameterError, match="two ways"):
            group_fairness(np.ones(8, dtype=int), people)


def test_classes_and_regressions() -> None:
    frame = {"sex": list("ffffmmmm"), "y": ["low", "mid", "high", "mid", "low", "high", "high", "low"]}
    people = population(frame, classes=("low", "mid", "high"))
    predicted = np.array([0, 1, 2, 2, 0, 1, 2, 2])
    last = group_fairness(predicted, people)
    assert last.groups["selection_rate"].tolist() == [0.5, 0.5]
    upper = group_fairness(predicted, people, favourable=["mid", "high"])
    assert upper.groups["selection_rate"].tolist() == [0.75, 0.75]
    assert upper.groups["true_positive_rate"].tolist() == [1.0, 1.0]
    schema = Schema("numbers", (SEX, PAY), Label("y"))
    table = pd.DataFrame({"sex": list("ffmm"), "pay": [0.2, 0.8, 0.4, 0.9], "y": [1.0, 3.0, 5.0, 7.0]})
    numbers = Population.from_frame(table, schema)
    network = Network.from_layers([[[0.0, 0.0, 10.0]]], [[0.0]], head="regression")
    with pytest.raises(ParameterError, match="'threshold' must be given"):
        group_fairness(network, numbers, favourable="high")
    found = group_fairness(network, numbers, threshold=4.0, favourable="high")  # predicts 2, 8, 4, 9
    assert found.groups["selection_rate"].tolist() == [0.5, 1.0]
    assert found.groups["accuracy"].tolist() == [0.5, 1.0]
    found = group_fairness(network, numbers, threshold=4.0, favourable="low")  # 4 itself is low now
    assert found.groups["selection_rate"].tolist() == [0.5, 0.5]
    assert found.rates["selection_rate"] == "selection rate of 'low'"
    with pytest.raises(NetworkError, match="predicts numbers"):
        group_fairness(network, population({"sex": list("fm"), "y": ["yes", "no"]}), threshold=4.0)


def test_without_a_favourable_class_groups_are_not_compared() -> None:
    """Which of two classes is sorted last says nothing: it must be named, in the call or in the schema."""
    people = population({"sex": list("ffmm"), "y": ["yes", "no", "yes", "no"]}, named=False)
    network = Network.from_layers([np.zeros((2, people.schema.width))], [np.zeros(2)])
    numbers = Population.from_frame(
        pd.DataFrame({"sex": list("fm"), "pay": [0.2, 0.8], "y": [1.0, 2.0]}), Schema("numbers", (SEX, PAY), Label("y"))
    )
    for given in (network, np.array([1, 0, 1, 0]), np.array([True, False, True, False]), np.full((4, 2), 0.5)):
        with pytest.raises(ParameterError, match=r"'no', 'yes' people hope for.*favourable = .* in \[label\]"):
            group_fairness(given, people)
    with pytest.raises(ParameterError, match="'high', 'low' people hope for"):
        group_fairness(np.array([1.0, 2.0]), numbers, threshold=1.5)
    # Everybody has a score equal to the cut-off, and is on the favourable side of it, whichever class that is.
    for name in ("yes", "no"):
        found = group_fairness(network, people, favourable=name)
        assert found.favourable == (name,) and found.groups["selection_rate"].tolist() == [1.0, 1.0]
        assert f"Selected is who is given '{name}'." in str(found) and f"selection rate of '{name}'" in str(found)
        assert f"accuracy on '{name}'" in str(found)
    label = replace(people.schema.label, favourable=("no",), threshold=0.7)
    told = replace(people, schema=replace(people.schema, label=label))
    found = group_fairness(np.array([[0.7, 0.3], [0.69, 0.31], [0.7, 0.3], [0.8, 0.2]]), told)
    assert found.groups["selection_rate"].tolist() == [0.5, 1.0] and "with the cut-off 0.7" in str(found)
    with pytest.raises(ParameterError, match="'threshold' must be given beside another 'favourable'"):
        group_fairness(network, told, favourable="yes")
    several = Network.from_layers([np.zeros((2, people.schema.width))], [np.zeros(2)], head="sigmoid")
    with pytest.raises(ParameterError, match="each a probability by itself"):
        group_fairness(several, told)


def test_errors_say_what_would_be_right() -> None:
    people, predicted = random_people(0)
    unlabelled = Population.from_frame(people.frame.drop(columns="y"), people.schema)
    with pytest.raises(DataError, match="no label column"):
        group_fairness(predicted, unlabelled)
    rates = group_fairness(predicted, unlabelled, outcomes=False, bootstrap=Bootstrap(200))
    assert set(rates.summary["metric"]) == {"demographic_parity_difference", "demographic_parity_ratio"}
    for by in (["sx"], [("sex", "sx")], "sex", [], ["sex", "sex"], [("sex", "sex")]):
        with pytest.raises(ParameterError, match="'by'"):
            group_fairness(predicted, people, by=by)
    women = (people.frame["sex"] == "f").to_numpy()
    with pytest.raises(DataError, match="one group of 'sex', 'f'"):
        group_fairness(predicted[women], people[women], by=["sex"])
    with pytest.raises(DataError, match="one group of 'sex', 'f'"):
        group_fairness(predicted[women], people[women], by=["race", ("sex", "race")])
    rest = group_fairness(predicted[women], people[women], bootstrap=Bootstrap(200))
    assert set(rest.summary["attributes"]) == {"race"}
    assert "sex was left out" in str(rest)
    plain = population({"y": ["yes", "no"]}, PAY)
    with pytest.raises(DataError, match="no protected feature"):
        group_fairness([1, 0], plain)
    for name, bad in (("confidence", 1.0), ("resamples", 100), ("resamples", 0), ("seed", -1)):
        with pytest.raises(ParameterError, match=f"'{name}'"):
            Bootstrap(**{name: bad})
    with pytest.raises(ParameterError, match="'smallest'"):
        group_fairness(predicted, people, smallest=0)
    with pytest.raises(NetworkError, match="reads 2 numbers"):
        group_fairness(Network.from_layers([np.eye(2)], [np.zeros(2)]), people)


def test_if_parity_lies_between_the_bounds_of_the_certificate() -> None:
    people, _ = random_people(1, n=120)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, people.schema.width)), rng.normal(size=(2, 8))]
    network = Network.from_layers(weights, [np.zeros(8), np.zeros(2)])
    certificate = isonomy.certify_local(network, people, WeightedLp(np.ones(people.schema.width), 2), 0.2)
    found = group_fairness(network, people, by=["race"], certificate=certificate, bootstrap=Bootstrap(200))
    low, high = (value(found, "race", "if_parity", f"bound_{end}") for end in ("low", "high"))
    race = people.frame["race"].to_numpy()

    def parity(violation: np.ndarray) -> float:
        means = [np.average(violation[race == g], weights=people.weights[race == g]) for g in "abc"]
        return max(means) - min(means)

    for share in rng.random((50, len(people))):
        assert low <= parity(certificate.lower + share * (certificate.upper - certificate.lower)) <= high
    lowers = [np.average(certificate.lower[race == g], weights=people.weights[race == g]) for g in "abc"]
    uppers = [np.average(certificate.upper[race == g], weights=people.weights[race == g]) for g in "abc"]
    assert high == pytest.approx(max(uppers[a] - lowers[b] for a in range(3) for b in range(3) if a != b))
    assert low == pytest.approx(max([0.0] + [lowers[a] - uppers[b] for a in range(3) for b in range(3) if a != b]))
    assert value(found, "race", "if_parity", "low") <= low <= high <= value(found, "race", "if_parity", "high")
    assert "if parity" in str(found)
    known = {"a": 0.5, "b": 0.1, "c": 0.3}  # and up to 0.1 more
    least = np.array([known[g] for g in race])
    clear = replace(certificate, lower=least, upper=least + 0.1)
    found = group_fairness(network, people, by=["race"], certificate=clear, bootstrap=Bootstrap(200))
    assert value(found, "race", "if_parity", "bound_low") == pytest.approx(0.3)
    assert value(found, "race", "if_parity", "bound_high") == pytest.approx(0.5)
    assert [value(found, "race", "if_parity", end) for end in ("lowest", "highest")] == ["b", "a"]
    with pytest.raises(ParameterError, match="'certificate'"):
        group_fairness(network, people[:50], certificate=certificate)


def test_the_mean_of_violations_that_underflow_is_not_rounded_up() -> None:
    """Products with weights lose digits below 1e-308; exact means are what both bounds must hold."""
    rng = np.random.default_rng(2)
    weights, violation = 10.0 ** rng.uniform(-90, 0, 40), 1e-310 * rng.random(40)
    people = population({"sex": ["f", "m"] * 20, "y": ["yes", "no"] * 20, "w": weights}, weight=True)
    network = Network.from_layers([np.zeros((2, people.schema.width))], [np.zeros(2)])
    certificate = isonomy.certify_local(network, people, WeightedLp(np.ones(people.schema.width), 2), 0.2)
    told = replace(certificate, lower=violation, upper=violation)
    rows = group_fairness(network, people, certificate=told).groups.set_index("group")
    for group, start in (("f", 0), ("m", 1)):
        own = [(Fraction(float(w)), Fraction(float(v))) for w, v in zip(weights, violation, strict=True)][start::2]
        mean = sum(w * v for w, v in own) / sum(w for w, _ in own)
        assert rows.loc[group, "violation_lower"] <= mean <= rows.loc[group, "violation_upper"]


def test_what_is_printed_is_rounded_outward() -> None:
    """Means of 0.12345 and 0.2: their difference is 0.07655, and a printed bound of 0.077 to 0.077 would exclude it."""
    people = population({"sex": ["f", "m"] * 20, "y": ["yes", "no"] * 20})
    network = Network.from_layers([np.zeros((2, people.schema.width))], [np.zeros(2)])
    certificate = isonomy.certify_local(network, people, WeightedLp(np.ones(people.schema.width), 2), 0.2)
    violation = np.where(people.frame["sex"] == "f", 0.12345, 0.2)
    told = replace(certificate, lower=violation, upper=violation)
    text = str(group_fairness(network, people, certificate=told, bootstrap=Bootstrap(4000, 0.996)))
    assert "0.076 to 0.077" in text and "99.6% intervals" in text


def test_accuracy_by_hand() -> None:
    """Weights 1, 1, 2, 4, 0: right are the first and the last three; somebody without weight is in no class."""
    frame = {"sex": list("fmmfm"), "pay": [0.1, 0.9, 0.8, 0.2, 0.4], "y": ["no", "no", "yes", "no", "yes"]}
    people = population(frame | {"w": [1.0, 1.0, 2.0, 4.0, 0.0]}, weight=True)
    reads_pay = np.zeros((2, people.x.shape[1]))
    reads_pay[1, people.schema.slices["pay"].start] = 1.0
    network = Network.from_layers([reads_pay], [np.array([0.0, -people.schema["pay"].coordinate(0.5)])])
    found = scores(network, people)
    assert {name: found[name] for name in ("accuracy", "balanced_accuracy", "classes", "auc")} == {
        "accuracy": 7 / 8, "balanced_accuracy": (5 / 6 + 1) / 2, "classes": 2, "auc": 5 / 6,
    }  # fmt: skip
    assert scores(network, population(frame, label=False)) == {}
    assert scores(network, population(frame | {"y": ["a", "a", "b", "a", "c"]}, classes=("a", "b", "c"))) == {}
    nobody = population(frame | {"w": [1.0, 1.0, 0.0, 4.0, 0.0]}, weight=True)
    assert scores(network, nobody)["balanced_accuracy"] == 5 / 6
