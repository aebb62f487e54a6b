"""From category to category, the worst group by itself, and what the people of a table are called."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import isonomy
from isonomy.auditing.plan import Plan
from isonomy.certificates import Mix
from isonomy.errors import ParameterError
from isonomy.report import Findings, directions
from isonomy.report.directions import MATRIX, _fits, _hidden
from isonomy.report.facts import Sheet, facts_of
from isonomy.report.numbers import whole_percent
from isonomy.report.privacy import NOT_SHOWN
from isonomy.report.sections import Cell, FactTable, Rounded
from isonomy.report.terminal import to_terminal
from isonomy.report.text import to_markdown
from isonomy.report.turns import Everybody, Exchange, Turns
from isonomy.similarity import Counterparts

from .audits import audit, render
from .reading import read, table


@cache
def mixed() -> Findings:
    base = audit()
    options: dict[str, Any] = {"tier": "interval", "rounds": 0, "progress": None, "shift": Mix(("sex",))}
    found = isonomy.certify(base.model, base.people, Counterparts.of(base.people.schema), 1.0, **options)
    return dataclasses.replace(base, certificate=found, alone=())


def who(findings: Findings) -> dict[str, FactTable]:
    return {each.code: each for each in facts_of(findings)["who"].tables}


@pytest.mark.parametrize("seed", range(20))
def test_hidden_counts_cannot_be_had_by_subtraction(seed: int) -> None:
    """All who gain with a value, less all who lose, is shown: of its counts none is hidden, or enough of them are."""
    rng = np.random.default_rng(seed)
    names = "abcd"
    exchanges = [
        Exchange(before, after, 40, *rng.choice([0, 1, 3, 4, 7, 20], 2).tolist(), 0.0)
        for before, after in product(names, names) if before != after
    ]  # fmt: skip
    shown = [each for each in exchanges if each.before != "a"]
    hidden = _hidden(exchanges, shown)
    for after in names:
        column = [each for each in exchanges if each.after == after]
        secret = [each for each in column if (each.before, after) in hidden]
        assert all(
            (each.before, after) in hidden for each in column
            if each not in shown or 0 < each.gain < 5 or 0 < each.lose < 5
        )  # fmt: skip
        counts = [count for each in secret for count in (each.gain, each.lose)]
        assert not secret or len(secret) == len(column) or (len(counts) >= 2 and sum(counts) >= 5)


def test_a_matrix_has_ways_and_tints_and_no_hidden_count() -> None:
    found = audit()
    values = [Everybody("low", 1, -0.1), Everybody("high", 9, 0.2)]
    exchanges = [Exchange("low", "high", 40, 9, 1, 0.2), Exchange("high", "low", 30, 0, 3, -0.1)]
    rounded, sex = Rounded(1, points=True), found.people.schema["sex"]
    shown = directions._matrix(found, Turns(found), rounded, sex, values, exchanges, frozenset({("high", "low")}))
    assert [name for name, _ in shown.heads] == ["From ↓ to →", "People", "→ low", "→ high"]
    (low, _, none, more), (high, _, hidden, _) = shown.rows
    assert (low.text, high.text, none) == ("low", "high", Cell())
    assert (str(more.text), more.kind, more.note) == ("▲ 9 ▼ 1", "tint-3", "+20.0")
    assert (hidden.text, hidden.kind) == (NOT_SHOWN, "")


def test_many_categories_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [Everybody(str(place), 0, 0.0) for place in range(MATRIX + 1)]
    exchanges = [Exchange("0", "1", 5, 1, 0, 0.1)]
    assert _fits(values[:-1], exchanges) and not _fits(values, exchanges)
    monkeypatch.setattr(directions, "MATRIX", 2)
    rows = who(audit())["from-sex"].rows
    assert rows and all(" → " in str(row[0].text) for row in rows)
    assert who(audit(redacted=True))["from-sex"].rows


def test_a_number_without_decisions_has_its_mean_changes() -> None:
    rows = table(read(render(audit("regression"))), "from-sex")
    assert all(not cells[place] or float(cells[place].replace("−", "-").replace(",", "")) is not None
               for place, (_, _, *cells) in enumerate(rows))  # fmt: skip
    assert not any("▲" in cell or "▼" in cell for row in rows for cell in row)


def test_people_have_the_noun_that_is_given() -> None:
    plain, named = audit(), dataclasses.replace(audit(), noun="applicants")
    assert "of 70 people (" in facts_of(plain).headline
    facts = facts_of(named)
    assert "of 70 applicants (" in facts.headline and "applicants not given “yes”" in facts["finding"].sentences[0]
    assert any("of 70 applicants (" in str(line) for line in to_terminal(facts))
    assert "of 70 applicants (" in to_markdown(facts) and "of 70 applicants (" in read(render(named)).text
    for text in ("\n".join(map(str, to_terminal(facts))), to_markdown(facts), read(render(named)).text):
        assert "these people" not in text.lower() and "of 70 people" not in text and "these applicants" in text
    assert facts.fact("title").value == facts_of(plain).fact("title").value
    assert named.certificate is plain.certificate and named.people.schema.hash() == plain.people.schema.hash()


def test_a_plan_has_a_noun() -> None:
    assert "--noun 'loan applicants'" in Plan(noun="loan applicants").command()
    assert "--noun" not in Plan().command()
    for bad in ("", "a<b>", "12", " people", "one two three four five"):
        with pytest.raises(ParameterError, match="'noun' must be a noun in the plural"):
            Plan(noun=bad)


def test_whole_per_cent() -> None:
    assert [whole_percent(*each) for each in ((0, 9), (121, 282), (9, 9), (1, 999), (998, 999))] == [
        "0 %", "43 %", "100 %", "<1 %", ">99 %"
    ]  # fmt: skip


def test_the_worst_group_of_a_mix_stands_by_itself() -> None:
    found = mixed()
    rows = facts_of(found)["tomorrow"].tables[0].rows
    place = next(i for i, row in enumerate(rows) if "by itself" in str(row[0].text))
    own, sex = found.certificate.individuals, found.people.frame["sex"]
    means = {name: own.highs(slice(None))[(sex == name).to_numpy()].mean() for name in set(sex)}
    name = max(means, key=lambda each: means[each])
    assert str(rows[place][0].note) == f"sex “{name}”: {(sex == name).sum()} people"
    assert rows[place][3].text.value == pytest.approx(means[name], abs=2e-6)  # type: ignore[union-attr]
    assert rows[place][3].text.value == pytest.approx(rows[place - 1][3].text.value, abs=2e-6)  # type: ignore[union-attr]
    low = own.lower[(sex == name).to_numpy()].mean()
    assert rows[place][2].text.value <= low  # type: ignore[union-attr]
    local = found.certificate.local.decision[(sex == name).to_numpy()]
    assert rows[place][4].text.value == pytest.approx(  # type: ignore[union-attr]
        ((local == "flippable").mean(), (local != "certified").mean())
    )


def test_a_worst_group_of_few_people_is_not_named_where_rows_stay_private() -> None:
    found = dataclasses.replace(mixed(), redacted=True)
    largest = mixed().people.frame["sex"].value_counts()
    rows = facts_of(found)["tomorrow"].tables[0].rows
    named = [str(row[0].note) for row in rows if "by itself" in str(row[0].text)]
    assert largest.min() < 5 and not any(f"“{largest.idxmin()}”" in each for each in named)
    assert len(rows) - len(named) >= 1


def test_other_differences_are_not_bounded_by_themselves_and_the_page_says_so() -> None:
    much = facts_of(audit())["much"].tables[0]
    (note,) = much.notes
    assert note == (
        "How much income or rank would change with the protected attributes as they are was not asked by itself: what "
        "is proved in the first row holds for that, too."
    )
    assert not facts_of(audit(alone=()))["much"].tables[0].notes
    bars = [row[1] for row in much.rows]
    assert all(isinstance(bar, Cell) and bar.drawn[0] == "between" and bar.drawn[2] <= bar.drawn[3] for bar in bars)


def test_where_nothing_was_searched_no_number_says_that_something_was_shown() -> None:
    text = read(render(audit(attack=False, decide=False, alone=()))).by_id("people").text
    assert "at least not searched" not in text and " to 0" not in text
    card = read(render(audit(attack=False, alone=()))).by_id("people").text
    assert "no search was made, at most" in card and "at least" not in card.partition("Furthest")[0]


def test_columns_of_the_note_on_what_is_equal_are_words() -> None:
    found = audit()
    sheet = Sheet(found)
    sheet.similar = sheet.similar._replace(fixed=("home_town", "debt"))
    assert sheet.asked().tables[0].notes[1].endswith("by more than a billionth of a unit: home town, debt.")
    assert "violation" not in to_markdown(facts_of(found)).replace("calls it a violation", "")
    named = [fact.words for fact in facts_of(found)["summary"].facts if fact.code in ("upper", "lower", "individuals")]
    assert named == ["People", "Average largest change within γ, proved", "Average largest change within γ, shown"]


def test_a_small_count_that_is_alone_takes_the_zeros_of_its_column_with_it() -> None:
    alone = [Exchange("a", "c", 40, 3, 0, 0.0), Exchange("b", "c", 40, 0, 0, 0.0)]
    assert _hidden(alone, alone) == {("a", "c"), ("b", "c")}
    beside = [Exchange("a", "c", 40, 3, 0, 0.0), Exchange("b", "c", 40, 9, 0, 0.0), Exchange("d", "c", 40, 0, 0, 0.0)]
    assert _hidden(beside, beside) == {("a", "c"), ("b", "c")}, "a zero stays"
    assert not _hidden(alone[1:], alone[1:])


def test_a_total_that_would_tell_a_hidden_count_is_not_shown() -> None:
    """Of two values, what everybody would get with one less what people get today is who gains with it."""
    exchanges = [Exchange("a", "b", 40, 1, 0, 0.1), Exchange("b", "a", 40, 9, 8, 0.1)]
    secret = directions._telling(exchanges, _hidden(exchanges, exchanges))
    assert secret == {"b"}
    found, values = audit(), [Everybody("a", 12, 0.1), Everybody("b", 11, 0.0)]
    rounded, sex = Rounded(1, points=True), found.people.schema["sex"]
    rows = directions._everybody(found, Turns(found), rounded, sex, values, secret).rows
    assert [str(row[1].text) for row in rows] == ["12", NOT_SHOWN]
