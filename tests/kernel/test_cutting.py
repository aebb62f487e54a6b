"""Cuts and narrowing beside a derivation of their own in rationals: parts cover, and nothing feasible is dropped."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy_verify.cutting import Cutting, Parts, cut_box
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.similar import Similarity

steady = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LOW, HIGH = np.array([-1.0, -2.0, 0.0, 0.0, 0.0, 0.0]), np.array([1.0, 3.0, 1.0, 1.0, 1.0, 1.0])
ORIGIN, UNIT = np.array([0.0, 0.1, 0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.3, 1.0, 1.0, 1.0, 1.0])
WHOLE = np.arange(6) == 1
STORED = {"relaxed": "b5087b17f659576e", "realizable": "b363efbaf8b09753"}
NAMES = ("a", "k", "missing", "x", "y", "z")


def town(kind: str) -> Domain:
    """A number, a whole number in units of 0.3, the flag of the first's missing value, three categories."""
    low, high = LOW.copy(), HIGH.copy()
    low[1], high[1] = (-5 - 0.1) / 0.3, (6 - 0.1) / 0.3
    still = np.zeros(6, dtype=bool)
    return Domain(kind, low, high, ((2, 3), (3, 6)), WHOLE, ORIGIN, UNIT, still, NAMES, ((2, 0, 0.25),))  # type: ignore[arg-type]


def member(draw: st.DrawFn, kind: str) -> np.ndarray:
    """A vector of the domain."""
    missing, job, k = draw(st.integers(0, 1)), draw(st.integers(0, 2)), draw(st.integers(-5, 6))
    if kind == "relaxed":
        shares = np.array([float(draw(st.integers(least, 8))) for least in (1, 0, 0)])
        place = draw(st.floats(town(kind).low[1], town(kind).high[1]))
        return np.array([draw(st.floats(-1, 1)), place, draw(st.floats(0, 1)), *(shares / shares.sum())])
    return np.array([0.25 if missing else draw(st.floats(-1, 1)), (k - 0.1) / 0.3, missing, *np.eye(3)[job]])


def cutting(root: np.ndarray, order: float, delta: float, kind: str) -> Cutting:
    nothing, rng = np.zeros(6), np.random.default_rng(0)
    form = Form(root, order, np.ones(6, dtype=bool), nothing, nothing, nothing, np.ones(6))
    nodes = [Node("input", width=6), Node("affine", (0,), weight=rng.normal(size=(1, 6)), bias=np.zeros(1))]
    layers = normal_form(nodes)
    similarity = Similarity(form, delta, town(kind))
    return Cutting(similarity, Preparations(layers), Head("regression", 1), np.arange(1.0, 7.0))


def length(root: np.ndarray, order: float, x: np.ndarray, y: np.ndarray) -> Fraction:
    """The length of ``R (y − x)`` in rationals; of order 2, its square."""
    move = [Fraction(float(b)) - Fraction(float(a)) for a, b in zip(x, y, strict=True)]
    image = [abs(sum((Fraction(float(r)) * v for r, v in zip(row, move, strict=True)), Fraction(0))) for row in root]
    return sum((v * v for v in image), Fraction(0)) if order == 2 else sum(image) if order == 1 else max(image)


def holds(parts: Parts, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    first = (parts.x_low <= x) & (x <= parts.x_high)
    return np.asarray((first & (parts.y_low <= y) & (y <= parts.y_high)).all(1))


@st.composite
def questions(draw: st.DrawFn) -> tuple[np.ndarray, float, str, np.ndarray, np.ndarray]:
    kind, order = draw(st.sampled_from(["relaxed", "realizable"])), draw(st.sampled_from([1.0, 2.0, math.inf]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    root = (
        np.diag(rng.choice([0.0, 0.3, 1.0, 2.5], 6)) if order != 2 else rng.normal(size=(3, 6)) * (rng.random(6) < 0.8)
    )
    x, y = member(draw, kind), member(draw, kind)
    if draw(st.booleans()):
        y[2:] = x[2:]
        y[0] = x[0] if kind == "realizable" and x[2] == 1 else y[0]
    return root, order, kind, x, y


@steady
@given(question=questions(), data=st.data())
def test_a_feasible_pair_stays_in_a_part_of_every_cut_and_is_not_narrowed_away(
    question: tuple[np.ndarray, float, str, np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    """δ is the smallest float that is not below the pair's own length: it stands at the very edge."""
    root, order, kind, x, y = question
    exact = length(root, order, x, y)
    delta = math.sqrt(exact) if order == 2 else float(exact)
    while Fraction(delta) ** (2 if order == 2 else 1) < exact:
        delta = math.nextafter(delta, math.inf)
    cuts = cutting(root, order, delta, kind)
    assert cuts.domain.contains(np.stack([x, y])).all()
    part, alive = cuts.narrowed(cuts.everybody())
    for _ in range(30):
        assert alive.all() and holds(part, x, y).all()
        low, high = cuts.differences(part)
        for i in range(6):
            move = Fraction(float(y[i])) - Fraction(float(x[i]))
            assert low[0, i] <= move <= high[0, i]
        children = cuts.cut(part)
        if children is None:
            return
        mine = np.flatnonzero(holds(children, x, y))
        assert len(mine)
        part, alive = cuts.narrowed(children[data.draw(st.sampled_from(mine.tolist())) + np.zeros(1, dtype=int)])


@steady
@given(data=st.data(), kind=st.sampled_from(["relaxed", "realizable"]), between=st.booleans())
def test_the_halves_of_a_box_hold_every_member_and_leave_the_rest_alone(
    data: st.DataObject, kind: str, between: bool
) -> None:
    centre, one, other, somewhere = (data.draw(st.composite(member)(kind)) for _ in range(4))  # type: ignore[arg-type]
    moves = np.stack([one, other, somewhere]) - centre
    low, high = np.nextafter(moves.min(0), -math.inf), np.nextafter(moves.max(0), math.inf)
    move = [Fraction(float(b)) - Fraction(float(a)) for a, b in zip(centre, somewhere, strict=True)]
    cut = cut_box(town(kind), centre, low, high, np.arange(1.0, 7.0), between)
    if cut is None:
        assert between or (high - low).max() <= 1e-9
        return
    i = cut.coordinate
    assert low[i] <= cut.end < high[i] and low[i] < cut.begin <= high[i]
    assert move[i] <= cut.end or move[i] >= cut.begin
    for k in range(-5, 7) if i == 1 and kind == "realizable" else ():
        move[i] = Fraction((k - 0.1) / 0.3) - Fraction(float(centre[i]))
        assert (move[i] <= cut.end) != (move[i] >= cut.begin)
    assert not between or (kind == "realizable" and i == 1 and cut.end < cut.begin)


@pytest.mark.parametrize("kind", ["relaxed", "realizable"])
def test_boxes_and_cuts_are_what_they_were(kind: str) -> None:
    """Bit for bit: a change of any side of any part of a fixed tree shows."""
    state: Any = hashlib.sha256()
    for order in (1.0, 2.0, math.inf):
        root = np.eye(6) * [0.5, 0.25, 1.0, 0.0, 1.0, 2.0]
        cuts = cutting(root, order, 0.75, kind)
        open_ = [cuts.narrowed(cuts.everybody())[0]]
        for _ in range(60):
            children = cuts.cut(open_.pop(0))
            if children is not None:
                parts, alive = cuts.narrowed(children)
                for side in (*vars(parts).values(), *cuts.differences(parts), alive):
                    state.update(np.ascontiguousarray(side + 0.0).tobytes())
                open_ += [parts[np.array([row])] for row in np.flatnonzero(alive)]
    assert state.hexdigest()[:16] == STORED[kind]
