"""Means over seeds, and the tables made of them, from numbers that are written here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies import measures, training, uci
from studies.methods import WAYS, Way
from studies.models import Case, Size
from studies.style import figure
from studies.tables import ADULT, CREDIT, GERMAN, INCOME, Dataset

ROW = {
    "accuracy": 0.8, "balanced_accuracy": 0.7, "lfc": 0.01, "lfc_lower": 0.005, "lfc_by_box": 0.2, "a_dfc_upper": 0.04,
    "a_dfc_lower": 0.02, "classes": 2,
}  # fmt: skip


def case_of(dataset: Dataset) -> Case:
    return Case(dataset, Size(), Path())


def rows(case: Case, way: Way, *seeds: dict[str, Any]) -> list[dict[str, Any]]:
    return [measures.row_key(case, way, seed) | ROW | found for seed, found in enumerate(seeds)]


def means_of(*found: list[dict[str, Any]]) -> pd.DataFrame:
    data = pd.DataFrame([row for each in found for row in each])
    missing = [name for name in measures.MEASURES if name not in data]
    return measures.averaged(data.assign(**dict.fromkeys(missing, np.nan)))


def test_places_are_averaged_before_the_worst_is_taken() -> None:
    """Each seed has another worst place, and the worst of the means is a third one."""
    case, way = case_of(INCOME), Way("sgd")
    first = {"lfc in AK 2018": 0.9, "lfc in AL 2018": 0.6, "lfc in WY 2018": 0.0}
    second = {"lfc in AK 2018": 0.0, "lfc in AL 2018": 0.6, "lfc in WY 2018": 0.8}
    found = measures.row_of(means_of(rows(case, way, first, second)), case, way)
    assert (found["e_dfc"], found["e_dfc_place"]) == (pytest.approx(0.6), "AL 2018")


def test_what_was_not_measured_elsewhere_has_no_place() -> None:
    case, way = case_of(GERMAN), Way("sgd")
    found = measures.row_of(means_of(rows(case, way, {})), case, way)
    assert np.isnan(found["e_dfc"]) and found["e_dfc_place"] is None


def test_the_spread_covers_every_seed() -> None:
    way = Way("u-dif")
    case = Case(GERMAN, Size(ways=(way,)), Path())
    seeds = [{"accuracy": a, "a_dfc_upper": u} for a, u in ((0.5, 0.25), (0.5, 0.25), (0.875, 0.625))]
    table = measures.table(means_of(rows(case, way, *seeds)), case, {})
    assert table.loc[0, ["accuracy", "A-DFC upper"]].tolist() == ["0.6250 ± 0.2500", "0.3750 ± 0.2500"]
    one = measures.table(means_of(rows(case, way, seeds[0])), case, {})
    assert one.loc[0, ["accuracy", "A-DFC upper"]].tolist() == ["0.5000", "0.2500"]


def test_printed_figures_stand_beside_what_is_computed_alike() -> None:
    """The printed LFC is a width by the box: beside ours only where the loss has our bound; stars mark choices."""
    case = case_of(INCOME)
    means = means_of(*(rows(case, way, {"lfc in AK 2018": 0.02}) for way in WAYS))
    table = measures.table(means, case, training.paper.TRAINING["income"]).set_index("trained with")
    assert table.loc["U-DIF", ["LFC", "LFC by the box"]].tolist() == ["0.0100 (0.002)", "0.2000"]
    assert table.loc["U-DIF, box form", ["LFC", "LFC by the box"]].tolist() == ["0.0100", "0.2000 (0.002)"]
    assert table.loc["SenSR", ["LFC", "LFC by the box"]].tolist() == ["0.0100", "0.2000 (0.895)"]
    assert table.loc["SGD", ["LFC", "LFC by the box"]].tolist() == ["0.0100", "0.2000"]
    assert table.loc["FTU", "E-DFC"] == "0.0200 AK 2018 (0.999)"
    finer = {"sensr": replace(training.paper.TRAINING["income"]["sensr"], accuracy=0.7825)}
    assert measures.table(means, case, finer).loc[2, "accuracy"] == "0.8000 (0.7825)"
    starred = [name for name, alpha in table["alpha"].items() if alpha.endswith("*")]
    assert starred == ["F-IBP", "U-DIF", "F-IBP, box form"]


def test_what_is_not_better_is_told_of_box_forms_too() -> None:
    """To the printed decimals: 0.7250 is not below 0.725, nor 0.0424 above 0.042."""
    case = case_of(INCOME)
    near = {"accuracy": 0.72496, "lfc": 0.0024, "lfc_by_box": 0.0026, "a_dfc_upper": 0.0424, "lfc in AK 2018": 0.0024}
    ways = Way("u-dif"), Way("u-dif", box=True)
    told = training.blame(means_of(*(rows(case, way, near) for way in ways)), [case])
    assert told == [
        "**What is not better.** Ours against the printed figure:\n\n"
        "- Income, U-DIF, box form: LFC by the box 0.003 against 0.002 at accuracy 0.725 against 0.725"
    ]
    means = means_of(rows(case, ways[0], near))
    assert training.blame(means, [case]) == ["**What is not better.** Nothing: no printed figure is better than ours."]


def test_the_two_forms_are_compared_by_name() -> None:
    case = case_of(CREDIT)
    won, lost = {"accuracy": 0.9, "a_dfc_upper": 0.01}, {"accuracy": 0.7, "a_dfc_upper": 0.09}
    even, fairer = {"accuracy": 0.8, "a_dfc_upper": 0.04}, {"accuracy": 0.8, "a_dfc_upper": 0.03}
    means = means_of(
        rows(case, Way("f-ibp"), lost), rows(case, Way("f-ibp", box=True), won),
        rows(case, Way("l-dif"), won), rows(case, Way("l-dif", box=True), lost),
        rows(case, Way("u-dif"), fairer), rows(case, Way("u-dif", box=True), even),
    )  # fmt: skip
    (told,) = training.forms(means, [case])
    assert "Of 3 pairs" in told and "more accurate in 1 and has the smaller A-DFC in 2" in told
    assert "both in 1 (Credit L-DIF); the box form is better in both in 1 (Credit F-IBP)." in told


def test_what_was_never_chosen_is_said() -> None:
    told = training.tuning([case_of(INCOME), case_of(ADULT)])
    assert "every alpha of L-DIF, L-DIF in box form, U-DIF in box form:" in told


def test_places_are_counted_and_named() -> None:
    first, second = case_of(INCOME), case_of(replace(INCOME, name="other", title="Other"))
    third = case_of(replace(INCOME, name="third", title="Third"))
    both = {"lfc in AK 2018": 0.1, "lfc in HI 2018": 0.1, "lfc in HI 2015": 0.1}
    found = [rows(case, Way("sgd"), both) for case in (first, second)] + [
        rows(third, Way("sgd"), {"lfc in MA 2016": 0.1})
    ]
    told = training.differences(pd.DataFrame([row for each in found for row in each]), [first, second, third])[0]
    assert (
        "up to 1,000 people each: 3 for Income and Other (AK, HI in 2018; HI in 2015), 1 for Third (MA in 2016)."
        in told
    )


@pytest.mark.parametrize(
    ("datasets", "labels", "marks"),
    [
        ((INCOME,), ["SGD = FTU"], [8 + 5]),
        ((GERMAN, CREDIT), ["SGD", "FTU (Credit: as SGD)"], [9, 8]),
        ((GERMAN, ADULT), ["SGD", "FTU"], [9, 9]),
    ],
    ids=["all blind", "some blind", "none blind"],
)
def test_one_network_is_one_mark(datasets: tuple[Dataset, ...], labels: list[str], marks: list[int]) -> None:
    """FTU is not drawn over SGD where they are the same; the paper's five marks have the same shapes."""
    tried = [case_of(dataset) for dataset in datasets]
    means = means_of(*(rows(case, way, {}) for case in tried for way in WAYS))
    with figure((7.0, 4.0)) as drawn:
        training.draw(drawn, means, tried, training.paper.TRAINING if INCOME in datasets else {})
        shown = [text.get_text() for text in drawn.legends[0].get_texts()]
        points = [[line for line in axes.lines if line.get_linestyle() == "None"] for axes in drawn.axes]
    assert shown[: len(labels)] == labels and shown[len(labels)] == "SenSR"
    assert [len(each) for each in points] == marks
    shapes = {line.get_marker() for line in points[0]}
    assert len(shapes) == (5 if labels == ["SGD = FTU"] else 6)


def test_how_much_smaller_ours_is() -> None:
    case = case_of(GERMAN)
    means = means_of(rows(case, Way("sgd"), {}), rows(case, Way("u-dif"), {"lfc": 0.1, "lfc_by_box": 0.35}))
    (told,) = uci._factors(means, [case])
    assert "It is 3.5 to 20.0 times *LFC*" in told
    assert uci._factors(means_of(rows(case, Way("sgd"), {"lfc": np.nan})), [case]) == []
