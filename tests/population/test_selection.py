"""What is said of who is judged: true of whatever was done to get at them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import ParameterError
from isonomy.population import Feature, Population, Schema, Selection
from isonomy.population.population import in_train

SCHEMA = Schema("loans", (Feature("pay", low=0, high=1000),))


def table(n: int = 1000, wrong: int = 0) -> Population:
    pay = np.arange(n, dtype=float)
    pay[:wrong] = -1.0
    return Population.from_frame(pd.DataFrame({"pay": pay}), SCHEMA, unknown="exclude")


@pytest.mark.parametrize(
    ("people", "words"),
    [
        (table(), "1,000 people, the table as given"),
        (table()[:], "1,000 people, the table as given"),
        (table().sample(5000), "1,000 people, the table as given"),
        (table().sample(300, 7), "300 of 1,000 people, drawn at random (seed 7) from the table as given"),
        (table().test, "282 people, the test part of the table (1,000 rows)"),
        (table().train, "718 people, the training part of the table (1,000 rows)"),
        (
            table().test.sample(100),
            "100 of 282 people, drawn at random (seed 0) from the test part of the table (1,000 rows)",
        ),
        (table()[:300], "300 of 1,000 people of the table, chosen by hand and not drawn at random"),
        (table()[[3]], "1 of 1,000 people of the table, chosen by hand and not drawn at random"),
        (table().sample(300)[:20].sample(9), "9 of 1,000 people of the table, chosen by hand and not drawn at random"),
        (table().sample(300).sample(20), "20 of 1,000 people, drawn at random from the table as given"),
        (
            table(1000, 10),
            "990 people, the table as given; 10 of its 1,000 rows do not fit the schema and were left out",
        ),
        (
            table(1000, 10).sample(50),
            "50 of 990 people, drawn at random (seed 0) from the table as given; 10 of its 1,000 rows do not fit the "
            "schema and were left out",
        ),
        (
            table().held_out().sample(50),
            "50 of 1,000 people, drawn at random (seed 0) from the table as given; said to be held out: nothing was "
            "fitted on them",
        ),
        (table(1), "1 person, the table as given"),
    ],
)
def test_the_words(people: Population, words: str) -> None:
    assert people.selection.words() == words
    assert Selection.from_dict(people.selection.as_dict()) == people.selection
    assert words in repr(people)


def test_the_table_has_its_name() -> None:
    assert table().test.selection.words("loans") == "282 people, the test part of the table “loans” (1,000 rows)"


def test_the_test_part_of_a_random_draw_is_a_random_draw_from_the_test_part() -> None:
    found = table().sample(300).test
    assert found.selection.how == "random" and found.selection.pool is None
    text = f"{len(found)} people, drawn at random (seed 0) from the test part of the table (1,000 rows)"
    assert found.selection.words() == text


STEPS = st.one_of(
    st.tuples(st.just("sample"), st.integers(1, 60)),
    st.tuples(st.just("slice"), st.integers(1, 60)),
    st.tuples(st.just("mask"), st.integers(2, 4)),
    st.tuples(st.sampled_from(["train", "test"]), st.just(0)),
)


@given(wrong=st.integers(0, 5), steps=st.lists(STEPS, max_size=4))
def test_nothing_is_said_that_is_not_so(wrong: int, steps: list[tuple[str, int]]) -> None:
    """Against the rows themselves: numbers, 'all' only where it is all, 'random' only where nobody chose."""
    people, chosen = table(60, wrong), False
    fit = set(range(wrong, 60))
    for kind, number in steps:
        before = set(people.rows.tolist())
        if kind == "sample":
            people = people.sample(number)
        elif kind == "slice":
            people = people[:number]
            chosen |= set(people.rows.tolist()) != before
        elif kind == "mask":
            mask = np.arange(len(people)) % number == 0
            people = people[mask]
            chosen |= set(people.rows.tolist()) != before
        elif people.split == "all":
            side = in_train(people.rows) == (kind == "train")
            if side.any():
                people = people.train if kind == "train" else people.test
    said, rows = people.selection, set(people.rows.tolist())
    sides = {"all": fit, "train": {r for r in fit if in_train(np.array([r]))[0]}}
    part = sides.get(said.part, fit - sides["train"])
    assert said.people == len(people) and said.rows == 60 and said.excluded == wrong
    assert rows <= part and (said.pool is None or len(rows) <= said.pool <= len(fit))
    assert (said.how == "chosen") == chosen and said.independent == (not chosen)
    if said.how == "all":
        assert rows == part and said.pool == len(part)
    numbers = [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", said.words())]
    assert numbers[0] == len(people)


def test_a_draw_is_spread_over_the_table_and_without_replacement() -> None:
    rows = table().sample(300, 0).rows
    assert len(np.unique(rows)) == 300 and rows.max() > 900
    assert not np.array_equal(rows, table().sample(300, 1).rows)


def test_a_piece_of_a_table_is_not_called_the_whole() -> None:
    frame = pd.DataFrame({"pay": [1.0, 2.0]})
    found = Population.from_piece(frame, SCHEMA, domain="realizable", unknown="error", first_row=10).selection
    assert found.words() == "2 people of the table; how they were selected is not known"
    assert not found.independent


def test_training_rows_cannot_be_called_held_out() -> None:
    with pytest.raises(ParameterError, match="train part"):
        table().train.held_out()
    assert not table().held_out().train.selection.held_out
    with pytest.raises(ParameterError, match="'selection'"):
        Population(**{**vars(table()), "selection": Selection(3)})


@pytest.mark.parametrize(("wrong", "name"), [((2.5,), "n"), ((True,), "n"), ((3, -1), "seed"), ((3, 1.5), "seed")])
def test_a_draw_that_is_none(wrong: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' must be a whole number"):
        table().sample(*wrong)
