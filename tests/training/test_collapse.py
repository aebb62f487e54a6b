"""A network that decides nothing is called that, whatever its accuracy; one that decides is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.networks import Network
from isonomy.training.collapse import LEAST, collapse


def reading(weight: float, bias: float, noise: float = 0.0) -> Network:
    """Two classes by the first of two coordinates, and by the second as far as there is noise."""
    rows = np.array([[0.0, 0.0], [weight, noise]])
    return Network.from_layers([rows], [np.array([0.0, bias])])


def said(network: Network, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> str:
    return collapse(network, x, y, np.ones(len(x)) if weights is None else weights, ("no", "yes"))


def people(n: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Individuals whose first coordinate goes with their class, and whose second does not."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < round(share * n)).astype(np.int64)
    return np.stack([np.where(y == 1, 1.0, -1.0) + rng.normal(size=n), rng.normal(size=n)], axis=1), y


@pytest.mark.parametrize("share", [0.5, 0.3, 0.01])
def test_a_constant_network_has_collapsed_whatever_its_accuracy(share: float) -> None:
    x, y = people(1000, share)
    assert said(reading(0.0, -1.0), x, y) == "gives everybody the class 'no'"
    assert said(reading(0.0, 1.0), x, y) == "gives everybody the class 'yes'"
    assert said(reading(0.01, -9.0), x, y) == "gives everybody the class 'no'"  # probabilities differ, decisions do not


@pytest.mark.parametrize("share", [0.5, 0.3, 0.01])
def test_a_network_that_tells_people_apart_has_not(share: float) -> None:
    x, y = people(1000, share)
    assert said(reading(1.0, 0.0), x, y) == ""


def test_a_network_that_finds_some_of_a_rare_class_is_worth_more_than_its_majority() -> None:
    x, y = people(1000, 0.01)
    careful = reading(1.0, -2.0)
    given = careful(x).argmax(axis=1)
    assert 0 < (given[y == 1]).sum() < 10  # it finds a few of the ten, and takes few others for them
    assert said(careful, x, y) == ""


def test_decisions_that_go_with_nothing_are_a_collapse() -> None:
    x, y = people(1000, 0.3)
    assert said(reading(0.0, 0.0, noise=1.0), x, y).startswith("is no better than a constant: its balanced accuracy is")


def test_one_lucky_decision_is_none() -> None:
    """Of 30 people one is given the other class, and rightly: the balanced accuracy is 0.55."""
    x, y = np.zeros((30, 2)), np.repeat([1, 0], [10, 20])
    x[0, 0] = 1.0
    found = said(reading(2.0, -1.0), x, y)
    assert found.startswith("cannot be told from a constant by so few: ") and "0.550, that of a constant 0.500" in found
    x[:6, 0] = 1.0
    assert said(reading(2.0, -1.0), x, y) == ""


def test_where_one_class_is_wanted_nothing_is_said() -> None:
    x, _ = people(100, 0.5)
    for y in (np.zeros(100, dtype=np.int64), np.ones(100, dtype=np.int64)):
        assert said(reading(0.0, 1.0), x, y) == "" and said(reading(1.0, 0.0), x, y) == ""


def test_people_without_weight_do_not_count() -> None:
    x, y = people(100, 0.5)
    assert said(reading(1.0, 0.0), x, y, (y == 1).astype(float)) == ""  # one class is left
    x[0, 0], only = 50.0, reading(1.0, -30.0)
    assert said(only, x, y, np.where(np.arange(100) == 0, 0.0, 1.0)) == "gives everybody the class 'no'"


def test_a_regression_that_gives_one_number_has_collapsed() -> None:
    x, _ = people(500, 0.5)
    x -= x.mean(axis=0)
    y = 3 + 2 * x[:, 0]
    for weight, reason in ((0.0, "the same number"), (1e-3, "explains 0.2% of the variance"), (1.0, "")):
        network = Network.from_layers([np.array([[2 * weight, 0.0]])], [np.array([y.mean()])], head="regression")
        found = said(network, x, y)
        assert reason in found and bool(found) == bool(reason)
    shifted = Network.from_layers([np.array([[0.0, 1.0]])], [np.array([y.mean()])], head="regression")
    assert "explains 0.0%" in said(shifted, x, y)
    assert said(shifted, x, np.full(500, 3.0)) == ""


@given(decisions=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40), copies=st.integers(1, 3))
def test_against_counting(decisions: list[tuple[bool, bool]], copies: int) -> None:
    """An oracle that counts: never for all right, always for a constant, and never above both margins."""
    rows = np.array(decisions * copies, dtype=np.int64)
    given, y = rows[:, 0], rows[:, 1]
    reason = said(reading(2.0, -1.0), np.stack([given, given], axis=1).astype(float), y)
    if len(set(y.tolist())) == 1:
        assert reason == ""
    elif len(set(given.tolist())) == 1:
        assert reason.startswith("gives everybody")
    else:
        rates = [float((given[y == c] == c).mean()) for c in (0, 1)]
        excess, q = sum(rates) / 2 - 0.5, float(given.mean())
        error = 0.5 * (q * (1 - q) * (1 / (y == 0).sum() + 1 / (y == 1).sum())) ** 0.5
        if abs(excess - max(LEAST, 1.645 * error)) > 1e-9:
            assert bool(reason) == (excess <= max(LEAST, 1.645 * error))
