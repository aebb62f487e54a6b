"""``assert_fair`` passes with proof only, and says in its message who shows the opposite."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import isonomy
from isonomy.errors import ParameterError
from isonomy.testing import UndecidedWarning, UnfairError, assert_fair

ASKED: dict[str, Any] = {"label": "approved", "protected": ["sex"], "similar": {"age": 2}}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 60
    table = pd.DataFrame(
        {
            "person_id": [f"A-{i}" for i in range(n)],
            "age": rng.integers(18, 75, n),
            "sex": rng.choice(["female", "male"], n),
        }
    )
    score = (table["age"] - 40) / 20 + 0.7 * (table["sex"] == "male")
    return table.assign(approved=np.where(score + rng.normal(0, 0.5, n) > 0.3, "yes", "no"))


def fitted(people: pd.DataFrame, estimator: Any = None, outcome: Any = None) -> Any:
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["sex"]))
    pipeline = make_pipeline(columns, LogisticRegression() if estimator is None else estimator)
    return pipeline.fit(people[["age", "sex"]], people["approved"] if outcome is None else outcome)


@pytest.fixture(scope="module")
def model(people: pd.DataFrame) -> Any:
    return fitted(people)


def test_a_proof_passes(model: Any, people: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a line printed; the audit comes back."""
    audit = assert_fair(model, people, **ASKED, epsilon=0.9, flips=1.0)
    assert audit.findings.verdict == "certified" and audit.certificate.epsilon == 0.9
    assert capsys.readouterr().out == ""


def test_a_violation_fails_and_names_people(model: Any, people: pd.DataFrame) -> None:
    with pytest.raises(AssertionError, match="is not fair: violated") as caught:
        assert_fair(model, people, **ASKED, epsilon=0.01, undecided="warn")
    assert isinstance(caught.value, UnfairError)
    audit, lines = caught.value.audit, str(caught.value).splitlines()
    worst = int(np.argmax(audit.certificate.local.lower))
    named = next(line for line in lines if f"{people['person_id'][worst]}: the output changes by" in line)
    own, other = people["sex"][worst], ({"female", "male"} - {people["sex"][worst]}).pop()
    assert f"sex {own} → {other}" in named and f"age {people['age'][worst]} → " in named
    shown = float(named.split("changes by ")[1].split()[0])
    assert 0 <= audit.certificate.local.lower[worst] - shown < 1e-4
    assert "ε = 0.01" in lines[1] and repr(audit).splitlines()[0] in lines[2]


def test_flips_are_shown_proved_or_open(model: Any, people: pd.DataFrame) -> None:
    """The limit lies at the number shown, and below it; without a search nothing is shown, and some are open."""
    decisions = assert_fair(model, people, **ASKED, flips=1.0).certificate.local.decision
    shown, n = Counter(decisions.tolist())["flippable"], len(people)
    assert 0 < shown < n and set(decisions) == {"flippable", "certified"}
    assert_fair(model, people, **ASKED, flips=shown / n)
    with pytest.raises(UnfairError, match=f"violated: Of {n} decisions {shown} are shown to flip, {n - shown} proved"):
        assert_fair(model, people, **ASKED, flips=(shown - 1) / n)
    with pytest.raises(UnfairError, match="is not proved to be fair: undecided"):
        assert_fair(model, people, **ASKED, flips=(shown - 1) / n, no_search=True)


def test_undecided_fails_unless_it_may_pass_with_a_warning(model: Any, people: pd.DataFrame) -> None:
    """Without a search nothing is shown, so that a limit below what is proved is open."""
    asked = ASKED | {"epsilon": 0.01, "no_search": True}
    with pytest.raises(UnfairError, match='undecided="warn" lets this pass'):
        assert_fair(model, people, **asked)
    with pytest.warns(UndecidedWarning, match="is not proved to be fair"):
        assert assert_fair(model, people, **asked, undecided="warn").findings.verdict == "undecided"


def test_every_population_that_is_asked_about_counts(model: Any, people: pd.DataFrame) -> None:
    """These people keep the limit, and what an audit adds of itself is no matter; the worst tenth breaks it."""
    limit = assert_fair(model, people, **ASKED, epsilon=0.9).findings.claimed[1] * 1.01
    assert_fair(model, people, **ASKED, epsilon=limit)
    with pytest.raises(UnfairError, match="violated: Any part of these people that holds at least 10 %") as caught:
        assert_fair(model, people, **ASKED, epsilon=limit, shift=["part:100%", "part:10%"])
    assert caught.value.audit.findings.verdict == "certified"


def test_a_redacted_failure_names_nobody(model: Any, people: pd.DataFrame) -> None:
    with pytest.raises(UnfairError) as caught:
        assert_fair(model, people, **ASKED, epsilon=0.01, redact=True)
    assert "A-" not in str(caught.value) and "changes by" not in str(caught.value)


def test_few_people_are_not_shown_by_a_redacted_audit(model: Any, people: pd.DataFrame) -> None:
    """Neither as changes of a few, nor as the largest change, which is one person's; others are unchanged."""
    asked: dict[str, Any] = ASKED | {"quiet": True, "progress": None}
    shown, hidden = (isonomy.audit(model, people, **asked, redact=redact) for redact in (False, True))
    assert shown.flips("age")["people"].min() < 5 and "for one person" in repr(shown)
    for by in ("sex", "age", ["sex", "age"]):
        every, some = (each.flips(by) for each in (shown, hidden))
        assert (some["people"] >= 5).all() and len(some) <= len(every)
        lost = every.groupby("attribute")["people"].sum() - some.groupby("attribute")["people"].sum()
        assert not lost.between(1, 4).any()
    assert "for one person" not in repr(hidden) and "Nobody" not in repr(hidden)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'epsilon' must be given, or 'flips'"),
        ({"flips": 1.5}, "'flips' must be a share of the people from 0 to 1"),
        ({"epsilon": 0.1, "undecided": "pass"}, "'undecided' must be one of fail, warn"),
        ({"epsilon": 0.1, "epsilom": 0.1}, "epsilom"),
    ],
)
def test_what_cannot_be_asked(given: dict[str, Any], message: str, model: Any, people: pd.DataFrame) -> None:
    with pytest.raises((ParameterError, TypeError), match=message):
        assert_fair(model, people, **ASKED, **given)


def test_a_number_has_no_decisions_to_flip(people: pd.DataFrame) -> None:
    table = people.assign(approved=people["age"] * 10.0 + 3 * (people["sex"] == "male"))
    regressor = fitted(table, LinearRegression())
    with pytest.raises(ParameterError, match="'flips' must be left out for a model that decides nothing"):
        assert_fair(regressor, table, **ASKED, flips=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assert_fair(regressor, table, **ASKED, epsilon=30).findings.regression


def test_it_is_not_imported_with_the_library() -> None:
    code = "import sys, isonomy; assert 'isonomy.testing' not in sys.modules; import isonomy.testing as t; "
    code += "assert 'pytest' not in sys.modules and t.assert_fair"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
