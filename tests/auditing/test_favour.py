"""The favourable class is guessed from words, never from codes; init marks the guess and names every rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.auditing.favour import guess_favourable
from isonomy.auditing.plan import Roles
from isonomy.auditing.proposal import propose
from isonomy.errors import IsonomyError
from isonomy.population import Label, Schema

from .test_reading import sigmoid_of_income


@pytest.mark.parametrize(
    ("classes", "favourable"),
    [
        (("approved", "rejected"), ("approved",)),
        (("bad", "good"), ("good",)),
        (("not_hired", "hired"), ("hired",)),
        (("Fully Paid", "Charged Off"), ("Fully Paid",)),
        (("<=50K", ">50K"), (">50K",)),
        (("default", "no default"), ("no default",)),
        (("denied", "pending"), ("pending",)),
        (("high risk", "low risk"), ("low risk",)),
        (("accepted", "rejected", "waitlist"), ("accepted",)),
        (("0", "1"), ()),
        (("no", "yes"), ()),
        (("False", "True"), ()),
        (("negative", "positive"), ()),
        (("A", "B"), ()),
        (("approved", "hired"), ()),
        (("denied", "rejected"), ()),
        (("<=30", ">30"), ()),
        (("default: no", "default: yes"), ("default: no",)),
        (("denied, no income", "pending"), ()),
        (("approved with conditions", "approved without conditions"), ()),
        (("paid, no delay", "paid late"), ()),
        ((), ()),
    ],
)
def test_words_tell_and_codes_do_not(classes: tuple[str, ...], favourable: tuple[str, ...]) -> None:
    assert guess_favourable(Label("outcome", classes)) == favourable
    assert set(guess_favourable(Label("outcome", classes[::-1]))) == set(favourable), "the order does not matter"


def test_words_of_codes_tell() -> None:
    assert guess_favourable(Label("outcome", ("0", "1"), labels={"0": "repaid", "1": "default"})) == ("0",)


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    def make(classes: tuple[Any, Any]) -> tuple[Path, Path]:
        rng = np.random.default_rng(0)
        income = rng.random(400)
        good = rng.random(400) < 1 / (1 + np.exp(2 - 6 * income))
        table = {"sex": rng.choice(["f", "m"], 400), "income": income, "outcome": np.where(good, *classes)}
        pd.DataFrame(table).to_csv(tmp_path / "people.csv", index=False)
        sigmoid_of_income(tmp_path / "model.onnx")
        return tmp_path / "people.csv", tmp_path / "model.onnx"

    return make


def notes_of(paths: tuple[Path, Path], **roles: Any) -> tuple[str, str]:
    found = propose(*paths, Roles(label="outcome", protected=("sex",), **roles))
    return found.schema, "\n".join(found.notes)


def test_a_guess_is_marked_and_both_rates_name_their_class(files: Callable[..., Any]) -> None:
    paths = files(("granted", "denied"))
    schema, notes = notes_of(paths)
    assert 'favourable = ["granted"]  # guess' in schema or 'favourable = "granted"  # guess' in schema
    label = Schema.from_toml(schema).label
    assert label is not None and label.favourable == ("granted",)
    share = 100 * (pd.read_csv(paths[0])["outcome"] == "granted").mean()
    assert f"'granted' {share:.1f} % of the outcomes in this table" in notes and "% of the model's decisions" in notes
    assert "guess, from the words: 'granted'" in notes


@pytest.mark.parametrize("copies", [1, 6])
def test_rates_and_accuracy_are_weighted_and_say_about_whom(files: Callable[..., Any], copies: int) -> None:
    """Outcomes, decisions and accuracy are of the same weights; of a large table the model is run on some rows."""
    paths = files(("granted", "denied"))
    table = pd.concat([pd.read_csv(paths[0])] * copies)
    table["w"] = np.where(table["income"] > 0.5, 10.0, 0.1)
    table.to_csv(paths[0], index=False)
    schema, notes = notes_of(paths, weight="w")
    label = Schema.from_toml(schema).label
    assert label is not None and label.classes == ("denied", "granted")
    granted = np.where(table["income"] >= 0.5, "granted", "denied")
    share = 100 * np.average(granted == "granted", weights=table["w"])
    assert share > 98 and f"{np.average(table['outcome'] == 'granted', weights=table['w']):.1%}".rstrip("%") in notes
    if copies == 1:
        right = np.average(granted == table["outcome"], weights=table["w"])
        assert f"accuracy on this table is {right:.3f}" in notes and f"{share:.1f} % of the model's decisions" in notes
    else:
        about = "2,000 people of this table, drawn at random"
        assert f"accuracy on {about}" in notes and f"of the model's decisions about {about}" in notes
        assert notes.split("'granted' ")[1].split("outcomes in this table, ")[1][0] == "9"


def test_without_words_one_sentence_says_how_to_name_it(files: Callable[..., Any]) -> None:
    schema, notes = notes_of(files((1, 0)))
    label = Schema.from_toml(schema).label
    assert label is not None and label.favourable == ()
    assert 'favourable = "CLASS" in [label]' in notes and "--favourable" in notes and "# favourable = " in schema
    assert "'1' " in notes and "% of the outcomes" in notes


def test_what_is_said_is_written(files: Callable[..., Any]) -> None:
    schema, notes = notes_of(files((1, 0)), favourable=("1",), threshold=0.4)
    label = Schema.from_toml(schema).label
    assert label is not None and label.favourable == ("1",) and label.threshold == 0.4
    assert "guess, from the words" not in notes and "--favourable" not in notes


def test_what_cannot_be_favourable_is_refused(files: Callable[..., Any]) -> None:
    paths = files(("granted", "denied"))
    with pytest.raises(IsonomyError, match="'favourable' must be one or more, not all, of 'denied', 'granted'"):
        notes_of(paths, favourable=("approved",))
    with pytest.raises(IsonomyError, match="beside --label"):
        propose(*paths, Roles(favourable=("granted",)))
