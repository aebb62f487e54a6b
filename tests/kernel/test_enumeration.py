"""Lists of similar people, lower bounds of distances, and heads whose outputs are probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy_verify.domain import Domain
from isonomy_verify.enumeration import Predictions, distinct
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.similar import Similarity
from isonomy_verify.text import BadInput
from isonomy_verify.tiers import Enclosure

numbers = st.floats(-1e3, 1e3, allow_nan=False)


def sums_of(root: np.ndarray, order: float, move: list[Fraction]) -> Fraction:
    """The norm, or for order 2 its square, in rationals."""
    rows = [abs(sum((Fraction(float(a)) * v for a, v in zip(row, move, strict=True)), Fraction(0))) for row in root]
    if order == math.inf:
        return max(rows, default=Fraction(0))
    return sum(rows, Fraction(0)) if order == 1 else sum((value**2 for value in rows), Fraction(0))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([1.0, 2.0, math.inf]), st.integers(-8, 8))
def test_a_lower_bound_of_a_distance_is_below_it(seed: int, order: float, scale: int) -> None:
    rng, m = np.random.default_rng(seed), 4
    root = rng.normal(size=(3, m)) * 10.0**scale
    x, y = rng.normal(size=(2, m))
    y = np.where(rng.random(m) < 0.3, x, y)
    form = Form(root, order, np.ones(m, dtype=bool), np.zeros(m), np.zeros(m), np.zeros(m), np.ones(m))
    move = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x, y, strict=True)]
    low, high = (float(side) for side in (form.distance_lower(x, y), form.distance_upper(x, y)))
    exact, power = sums_of(root, order, move), 2 if order == 2 else 1
    assert Fraction(low) ** power <= exact <= Fraction(high) ** power
    assert high - low <= 1e-11 * high


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**20))
def test_a_lower_bound_of_what_single_coordinates_say_is_below_it(seed: int) -> None:
    rng, m = np.random.default_rng(seed), 4
    free = np.array([True, False, False, False])
    tolerance, relative = np.array([0.0, 0.7, 0.0, 0.0]), np.array([0.0, 0.0, 0.25, 0.0])
    form = Form(np.zeros((0, m)), 2.0, free, tolerance, relative, np.full(m, 3.0), np.full(m, 0.5))
    x, y = rng.normal(size=(2, m)) * 2
    y[3] = x[3] if rng.random() < 0.8 else y[3]
    low, high = (float(side) for side in (form.distance_lower(x, y), form.distance_upper(x, y)))
    assert low <= high and (math.isinf(low) or high - low <= 1e-11 * max(1.0, high))
    if x[3] != y[3]:
        assert low == math.inf
    within = abs(Fraction(x[1]) - Fraction(y[1])) / Fraction(0.7)
    assert high >= within and (x[3] != y[3] or x[2] != y[2] or Fraction(low) <= within)


@pytest.mark.parametrize("cut", [None, 0.25, 0.5])
@pytest.mark.parametrize("favourable", [0, 1])
def test_one_probability_is_decided_as_its_cut_off_says(cut: float | None, favourable: int) -> None:
    head = Head("probability", 1, cut, False, favourable)
    p = np.array([0.0, 0.2, 0.25, 0.3, 0.5, 0.7, 0.75, 0.8, 1.0])[:, None]
    at = Enclosure(p, p)
    got = head.decision(at).tolist()
    for value, decision in zip(p[:, 0].tolist(), got, strict=True):
        compared = 1 - value if favourable == 0 and cut is not None else value
        edge = 0.5 if cut is None else cut
        above = favourable if cut is not None else 1
        assert decision == (-1 if abs(compared - edge) < 1e-12 else above if compared > edge else 1 - above)
    received = head.received(at)
    assert (received.low == p).all() and (received.high == p).all() and head.largest == 1.0 and head.decides
    apart = head.violation(Enclosure(p[:1], p[:1]), Enclosure(p[-1:], p[-1:]))
    assert apart == pytest.approx(1.0) and apart >= 1.0
    assert head.attained(Enclosure(p[:1], p[:1]), Enclosure(p[1:2], p[1:2])) <= 0.2


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([None, 0.2, 0.5, 0.9]), st.sampled_from([0, 1]))
def test_what_excludes_a_contest_excludes_every_probability(seed: int, cut: float | None, favourable: int) -> None:
    rng, head = np.random.default_rng(seed), Head("probability", 1, cut, False, favourable)
    p, bound = rng.random(1), rng.uniform(-1.1, 1.1, 1)
    own = head.decision(Enclosure(p[:, None], p[:, None]))
    contests = head.contests(own)
    for sign in contests.sign:
        if head.excluded(np.array([sign]), bound)[0]:
            for q in rng.random(50):
                if sign * q <= bound[0]:
                    assert head.decision(Enclosure(np.array([[q]]), np.array([[q]])))[0] == own[0]


def test_what_is_no_number_may_be_any_probability() -> None:
    head, nothing = Head("probability", 2), Enclosure(np.full((1, 2), np.nan), np.full((1, 2), np.nan))
    assert head.received(nothing).low.max() == 0.0 and head.received(nothing).high.min() == 1.0
    assert head.decision(nothing)[0] == -1 and head.violation(nothing, nothing)[0] == 1.0
    wide = Enclosure(np.array([[-3.0, 0.2]]), np.array([[0.1, 7.0]]))
    assert head.received(wide).low.tolist() == [[0.0, 0.2]] and head.received(wide).high.tolist() == [[0.1, 1.0]]


def test_several_probabilities_are_decided_by_the_largest() -> None:
    head = Head("probability", 3)
    p = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    assert head.decision(Enclosure(p, p)).tolist() == [1, -1, 2]
    assert not len(head.contests(np.array([1, 2])).row)
    for wrong in ({"threshold": 0.5}, {"favourable": 2}):
        with pytest.raises(ValueError, match=r"must|is"):
            Head("probability", 3, **wrong)  # type: ignore[arg-type]
    gap = head.gap(Enclosure(p[:1], p[:1]), Enclosure(p[2:], p[2:]), Enclosure(p[2:] - p[:1], p[2:] - p[:1]))
    assert gap == pytest.approx(0.4)


def test_a_table_has_one_prediction_of_each() -> None:
    people = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    table = Predictions(people, np.array([[0.1], [0.2], [0.3]]))
    assert table.at(people[::-1])[:, 0].tolist() == [0.3, 0.2, 0.1] and table.at(-people * 0 + people).shape == (3, 1)
    assert table.at(np.array([[-0.0, 1.0]])) == 0.1 and table.known(np.array([[0.0, 1.0], [9.0, 9.0]])).tolist() == [
        True,
        False,
    ]
    with pytest.raises(BadInput, match="lacks 1 of 2 people"):
        table.at(np.array([[0.0, 1.0], [0.0, 2.0]]))
    with pytest.raises(BadInput, match="one person has two predictions"):
        Predictions(np.array([[0.0, 1.0], [-0.0, 1.0]]), np.array([[0.1], [0.1]]))
    kept, back = distinct(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    assert len(kept) == 2 and back[0] == back[2] != back[1]
    space = Domain.unbounded(2)
    form = Form(np.eye(2), 2.0, np.ones(2, dtype=bool), np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2))
    similarity = Similarity(form, 0.1, space)
    for values, head in (([[1.5], [0.2], [0.3]], Head("probability", 1)), ([[0.1], [0.2], [0.3]], Head("sigmoid", 1)),
                         ([[0.5, 0.6], [0.5, 0.5], [1, 0]], Head("probability", 2))):  # fmt: skip
        with pytest.raises(BadInput, match=r"predictions|probabilities"):
            Predictions(people, np.array(values)).bounds(head, similarity, "tight", False)
    with pytest.raises(BadInput, match="cannot be listed: 'x0' takes infinitely many values"):
        table.bounds(Head("probability", 1), similarity, "tight", False).chunk(people)
