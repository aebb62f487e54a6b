"""Heads: probabilities, violations and decisions from margins, against ball arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ball_activations import sigma

from isonomy.networks.network import Network
from isonomy.population.feature import Label
from isonomy.population.outcome import decided
from isonomy_verify.arithmetic import Array
from isonomy_verify.heads import Head, Kind
from isonomy_verify.tiers import Enclosure

HEADS: list[tuple[Kind, int]] = [
    ("softmax", 2), ("softmax", 3), ("softmax", 5), ("sigmoid", 1), ("sigmoid", 2), ("sigmoid", 3),
    ("regression", 1), ("regression", 2),
]  # fmt: skip
EACH = pytest.mark.parametrize(("kind", "outputs"), HEADS)


def margins(head: Head, z: Array) -> Array:
    """Of outputs (n, k)."""
    return z if head.rows is None else np.stack([z[:, j] - z[:, c] for c, j in head.pairs], axis=1)


def received(head: Head, z: list[Any]) -> list[Any]:
    """What each class receives; the probability of class 1 where there are two."""
    if head.kind == "regression":
        return z
    if head.kind == "sigmoid":
        return [sigma(v) for v in z]
    if head.outputs == 2:
        return [sigma(z[1] - z[0])]
    total = []
    for c, zc in enumerate(z):
        top = arb(0)
        for j, zj in enumerate(z):
            if j != c:
                top += (zj - zc).exp()
        total.append(1 / (1 + top))
    return total


def around(head: Head, z: Array, rng: np.random.Generator) -> Enclosure:
    """An enclosure of the exact margins of float outputs: by their rounding and, now and then, wider."""
    m = margins(head, z)
    room = 4e-16 * (np.abs(z).max(1, keepdims=True) if head.pairs else 0.0)
    room = np.where(rng.random(m.shape) < 0.3, np.abs(rng.normal(size=m.shape)), room)
    return Enclosure(m - room, m + room)


def outputs_of(rng: np.random.Generator, n: int, k: int) -> Array:
    z = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-9, 4, (n, 1))
    z[: n // 5] = np.round(z[: n // 5])
    return z


@EACH
@pytest.mark.parametrize("coarse", [False, True])
def test_what_is_received_is_enclosed(kind: Kind, outputs: int, coarse: bool) -> None:
    rng = np.random.default_rng([50, outputs])
    head = Head(kind, outputs, None, coarse)
    z = outputs_of(rng, 60, outputs)
    enclosed = head.received(around(head, z, rng))
    with ctx.workprec(400):
        for row, values in enumerate(z.tolist()):
            for j, true in enumerate(received(head, [arb(v) for v in values])):
                assert not true > arb(float(enclosed.high[row, j])) and not true < arb(float(enclosed.low[row, j]))
    if kind != "regression":
        assert (enclosed.low >= 0).all() and (enclosed.high <= 1).all()


@pytest.mark.parametrize(("kind", "outputs"), [h for h in HEADS if h[0] != "regression"])
def test_float32_runs_of_a_head_are_covered(kind: Kind, outputs: int) -> None:
    """Probabilities as a float32 model computes them from float32 outputs, by the plain formulas."""
    rng = np.random.default_rng([54, outputs])
    head = Head(kind, outputs, None, run_unit=True)
    z = (rng.normal(size=(300, outputs)) * 3).astype(np.float32)
    exact = margins(head, z.astype(np.float64))
    enclosed = head.received(Enclosure(exact, exact))
    if kind == "sigmoid":
        found = 1 / (1 + np.exp(-z))
    else:
        found = np.exp(z - z.max(1, keepdims=True))
        found = found / found.sum(1, keepdims=True)
        found = found[:, 1:] if outputs == 2 else found
    assert found.dtype == np.float32
    assert (enclosed.low <= found).all() and (found <= enclosed.high).all()


@EACH
def test_violations_are_between_what_is_attained_and_what_is_proved(kind: Kind, outputs: int) -> None:
    rng = np.random.default_rng([51, outputs])
    head = Head(kind, outputs)
    one, other = outputs_of(rng, 80, outputs), outputs_of(rng, 80, outputs)
    other[:40] = one[:40] + rng.normal(size=(40, outputs)) * 10.0 ** rng.integers(-17, 0, (40, 1))
    other[:5] = one[:5]
    a, b = around(head, one, rng), around(head, other, rng)
    upper, lower = head.violation(a, b), head.attained(a, b)
    assert (lower <= upper).all() and (lower >= 0).all() and (upper <= head.largest).all()
    with ctx.workprec(400):
        for row in range(len(one)):
            here, there = (received(head, [arb(v) for v in z[row].tolist()]) for z in (one, other))
            changes = [abs(s - t) for s, t in zip(here, there, strict=True)]
            assert not any(change > arb(float(upper[row])) for change in changes)
            assert lower[row] == 0 or any(change >= arb(float(lower[row])) for change in changes)
    exact = Enclosure(margins(head, one), margins(head, one))
    still = Enclosure(margins(head, other), margins(head, other))
    gap = head.violation(exact, still) - head.attained(exact, still)
    assert (gap <= 1e-12 * (1 + np.abs(one).max(1) + np.abs(other).max(1))).all()


@EACH
def test_thresholds_of_ulps(kind: Kind, outputs: int) -> None:
    """Ends that are one float apart: neither a violation too small nor an attained change too large."""
    head = Head(kind, outputs)
    for value in (0.0, 0.3, -4.0, 25.0):
        z = np.full((1, outputs), value)
        near = z.copy()
        near[0, -1] = np.nextafter(value, math.inf)
        a, b = (Enclosure(margins(head, v), margins(head, v)) for v in (z, near))
        upper, lower = head.violation(a, b)[0], head.attained(a, b)[0]
        with ctx.workprec(400):
            pair = [received(head, [arb(v) for v in rows[0].tolist()]) for rows in (z, near)]
            change = max((abs(s - t) for s, t in zip(*pair, strict=True)), key=lambda ball: float(ball.mid()))
            if kind == "regression" or outputs < 2:
                assert not change > arb(float(upper)) and not change < arb(float(lower))


@EACH
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_of_what_nothing_is_known_the_violation_is_the_largest(kind: Kind, outputs: int, bad: float) -> None:
    head = Head(kind, outputs)
    width = len(head.pairs) or outputs
    low, high = np.zeros((width, width)), np.zeros((width, width))
    np.fill_diagonal(low, -bad if math.isinf(bad) else bad)
    np.fill_diagonal(high, bad)
    unknown = Enclosure(low, high)
    known = Enclosure(np.zeros((width, width)), np.zeros((width, width)))
    for a, b in ((unknown, known), (known, unknown), (unknown, unknown)):
        upper = head.violation(a, b)
        assert not np.isnan(upper).any()
        assert (upper >= (0.5 if head.kind != "regression" else math.inf) / (1 if outputs < 3 else outputs)).all()
        assert (head.attained(a, b) == 0).all()
        assert (head.violation(unknown, unknown) == head.largest).all() or head.kind == "softmax"
    if kind == "softmax" and outputs > 2:  # of one pair nothing is known: either class may have all that the two have
        assert (head.violation(unknown, unknown) >= 1 / outputs).all()
    everything = Enclosure(np.full((1, width), -bad), np.full((1, width), bad))
    assert head.violation(everything, everything)[0] == head.largest
    assert head.attained(everything, everything)[0] == 0
    assert (head.decision(everything) == -1).all()
    one_sided = Enclosure(np.full((1, width), -math.inf), np.full((1, width), math.inf))
    assert (head.decision(one_sided) == -1).all()


@pytest.mark.parametrize(("kind", "outputs"), [h for h in HEADS if h[0] != "regression"])
def test_decisions_hold_for_everybody_within(kind: Kind, outputs: int) -> None:
    rng = np.random.default_rng([52, outputs])
    head = Head(kind, outputs)
    z = outputs_of(rng, 200, outputs)
    z[:30] = z[:30, :1] + rng.normal(size=(30, outputs)) * 1e-15  # ties that rounding hides
    decided = head.decision(around(head, z, rng))
    assert (decided >= 0).any() and (decided == -1).any()
    with ctx.workprec(400):
        for row, choice in enumerate(decided.tolist()):
            values = [arb(v) for v in z[row].tolist()]
            if choice < 0:
                continue
            if outputs == 1:
                assert values[0] > 0 if choice else values[0] < 0
            else:
                assert all(values[choice] > v for j, v in enumerate(values) if j != choice)
    with np.errstate(over="ignore"):
        if outputs > 1:
            scores = 1 / (1 + np.exp(-z)) if kind == "sigmoid" else np.exp(z - z.max(1, keepdims=True))
            narrow = np.abs(z).max(1) < 30  # probabilities that have not run together
            assert (scores.argmax(1) == decided)[(decided >= 0) & narrow].all()


def test_without_a_threshold_a_regression_decides_nothing() -> None:
    assert Head("regression", 1).decision(Enclosure(np.ones((2, 1)), np.ones((2, 1)))).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("kind", "outputs", "threshold"),
    [
        ("softmax", 1, None),
        ("sigmoid", 0, None),
        ("argmax", 2, None),
        ("softmax", 3, 0.5),
        ("sigmoid", 2, 0.5),
        ("regression", 2, 0.5),
        ("softmax", 2, math.nan),
        ("softmax", 2, math.inf),
        ("softmax", 2, -0.1),  # which every probability exceeds, also one that nothing is known of
        ("sigmoid", 1, 1.1),
    ],
)
def test_heads_that_are_none_are_refused(kind: Any, outputs: int, threshold: float | None) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        Head(kind, outputs, threshold)


def decided_by(head: Head, t: Array) -> int:
    """The decision at margins (margins,) by its definition; −1 at a tie."""
    if head.threshold is not None:
        score = t[0] if head.kind == "regression" else 1 / (1 + math.exp(-t[0]))
        return -1 if score == head.threshold else int(score > head.threshold)
    if head.kind != "softmax" or head.outputs == 2:
        return int(t.argmax()) if len(t) > 1 else int(np.sign(t[0]) > 0) if t[0] else -1
    wins = [all(t[i] > 0 if c == pair[1] else t[i] < 0 for i, pair in enumerate(head.pairs) if c in pair)
            for c in range(head.outputs)]  # fmt: skip
    return wins.index(True) if any(wins) else -1


DECIDING = [(k, n, None) for k, n in HEADS if k != "regression"] + [
    ("softmax", 2, 0.3), ("sigmoid", 1, 0.8), ("regression", 1, 0.2),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "outputs", "threshold"), DECIDING)
def test_a_settled_decision_stands_whatever_changes_that_much(
    kind: Kind, outputs: int, threshold: float | None
) -> None:
    """Outputs that change by as much as is allowed, all of them against the decision."""
    rng = np.random.default_rng([54, outputs])
    head = Head(kind, outputs, threshold)
    z = rng.normal(size=(300, outputs)) * rng.choice([0.1, 1.0, 4.0], (300, 1))
    t = margins(head, z)
    room = np.abs(rng.normal(size=t.shape)) * rng.choice([0.0, 0.01], (300, 1))
    change = rng.random(300) * rng.choice([0.001, 0.1, 0.5], 300)
    settled = head.settled(Enclosure(t - room, t + room), change)
    assert {-1, 0, 1} <= set(settled.tolist())
    cut = 0.5 if threshold is None else threshold
    for row in np.flatnonzero(settled >= 0):
        choice = int(settled[row])
        for at in (t[row] - room[row], t[row] + room[row]):
            low, high = (side[0] for side in head.received(Enclosure(at[None], at[None])))
            assert decided_by(head, at) == choice
            if len(low) == 1:
                worst = low[0] - change[row] if choice else high[0] + change[row]
                assert worst > cut if choice else worst < cut
            else:
                others = np.delete(high, choice) + change[row]
                assert low[choice] - change[row] > others.max()


@pytest.mark.parametrize(("kind", "outputs"), [("softmax", 2), ("sigmoid", 1), ("regression", 1)])
@given(
    middle=st.floats(-40, 40) | st.floats(-1e-12, 1e-12),
    width=st.sampled_from([0.0, 1e-15, 1e-9, 1e-3, 1.0]),
    at_cut=st.booleans(),
    threshold=st.floats(1e-6, 1 - 1e-6) | st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1 / 3, 1e-12, 1 - 1e-12]),
    favourable=st.sampled_from([0, 1]),
    change=st.sampled_from([0.0, 1e-16, 1e-6, 0.1, 0.4]),
)
@settings(max_examples=150, deadline=None)
def test_what_is_certain_is_the_rule_of_the_favourable_side(
    kind: Kind,
    outputs: int,
    middle: float,
    width: float,
    at_cut: bool,
    threshold: float,
    favourable: int,
    change: float,
) -> None:
    """Each point of an enclosure is decided so by the exact rule, P(favourable) >= threshold, and so are float runs."""
    head, names = Head(kind, outputs, threshold, False, favourable), ("no", "yes")
    if kind == "regression":
        label, edge = Label("y", favourable=(("low", "high")[favourable],), threshold=threshold), threshold
    else:
        label = Label("y", names, favourable=(names[favourable],), threshold=threshold)
        edge = math.log(threshold / (1 - threshold)) * (1 if favourable else -1)
    middle = edge + middle * 1e-14 if at_cut else middle
    low, high = np.array([[middle - width]]), np.array([[middle + width]])
    margin = Enclosure(low, high)
    (choice,), (settled,) = head.decision(margin).tolist(), head.settled(margin, np.array([change])).tolist()
    assert settled in (-1, choice)
    contests = head.contests(np.array([choice]))
    if choice >= 0:  # what is decided excludes what would end it, and the other way round
        end = high[0] if contests.sign[0] > 0 else -low[0]
        assert head.excluded(contests.sign, end).all()
        assert not head.excluded(-contests.sign, -np.array([contests.sign[0] * middle])).any()
    for point in {float(low[0, 0]), middle, float(high[0, 0])}:
        weight = np.eye(1) if outputs == 1 else np.array([[-0.5], [0.5]])
        network = Network.from_layers([weight], [np.zeros(outputs)], head=kind)
        with mpmath.workprec(400):
            t = mpmath.mpf(point)
            score = t if kind == "regression" else 1 / (1 + mpmath.exp(-t if favourable else t))
            reached = score >= mpmath.mpf(threshold)
            if kind == "regression":
                exact = int(score > threshold) if favourable == 0 else int(reached)
            else:
                exact = favourable if reached else 1 - favourable
            for certain, moved in ((choice, 0.0), (settled, change)):
                if certain < 0:
                    continue
                assert certain == exact
                # As far as somebody may be treated differently, the same is decided.
                ends = [score - moved, score + moved]
                assert all((end > threshold) == (ends[0] > threshold) and end != threshold for end in ends)
        if choice >= 0:
            assert decided(network(np.array([[point]])), label, regression=kind == "regression").tolist() == [choice]


def exactly(head: Head, z: list[float], favourable: tuple[int, ...]) -> int:
    """The decision at raw outputs by its definition, in rational arithmetic; −1: none."""
    t, cut = [Fraction(each) for each in z], head.threshold
    if head.kind == "regression":
        return -1 if cut is None else int(t[0] > cut) if favourable == (0,) else int(t[0] >= cut)
    if head.kind == "sigmoid" and len(t) == 1:
        t = [Fraction(0), t[0]]
    if len(t) == 2:
        first = favourable[0] if favourable else 1
        margin = t[first] - t[1 - first]
        if cut is None or cut == 0.5:
            return first if margin >= 0 else 1 - first
        with mpmath.workprec(400):  # no float's sigmoid is a fraction, but that of 0
            score = 1 / (1 + mpmath.exp(-mpmath.mpf(margin.numerator) / margin.denominator))
            return first if score >= mpmath.mpf(cut) else 1 - first
    top = [place for place, each in enumerate(t) if each == max(t)]
    return next((place for place in top if place in favourable), top[0])


RULED = [
    ("softmax", 2, None), ("softmax", 2, 0.5), ("softmax", 2, 0.3), ("sigmoid", 1, None), ("sigmoid", 1, 0.5),
    ("sigmoid", 1, 0.3), ("sigmoid", 2, None), ("sigmoid", 3, None), ("softmax", 3, None), ("softmax", 5, None),
    ("regression", 1, None), ("regression", 1, 0.5), ("regression", 1, 0.3), ("regression", 1, -2.0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "outputs", "threshold"), RULED)
@pytest.mark.parametrize("place", [None, 0, 1])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_all_that_a_head_says_is_the_one_rule(
    kind: Kind, outputs: int, threshold: float | None, place: int | None, data: st.DataObject
) -> None:
    """Decision, settled, contests and excluded against ``decided`` of a run and against exact arithmetic, ties too."""
    favourable = () if place is None else (place,)
    head = Head(kind, outputs, threshold, False, 1 if place is None else place)
    names = ("low", "high") if kind == "regression" else tuple("abcde"[: 2 if outputs == 1 else outputs])
    classes = () if kind == "regression" else names
    label = Label("y", classes, favourable=tuple(names[p] for p in favourable), threshold=threshold)
    few = st.sampled_from([0.0, 0.25, -0.25, 0.3, 0.5, 2.0, -2.0, 1e-17, -1e-17, 30.0])  # so that ties are many
    z = data.draw(st.lists(few | st.floats(-30, 30), min_size=outputs, max_size=outputs))
    network = Network.from_layers([np.eye(outputs)], [np.zeros(outputs)], head=kind)
    run = int(decided(network(np.array([z])), label, regression=kind == "regression")[0])
    exact, t = exactly(head, z, favourable), margins(head, np.array([z]))
    point = Enclosure(t, t)
    (certain,), (still,) = head.decision(point).tolist(), head.settled(point, np.zeros(1)).tolist()
    assert certain in (-1, exact) and still in (-1, certain) and (certain == -1 or run == exact)
    if kind == "regression":
        assert run == exact  # no rounding stands between
    if len(set(z)) == 1 and kind != "regression" and outputs > 1:  # a tie of all, which no probability can hide
        assert run == exact and (certain == -1 or threshold not in (None, 0.5))
    contests = head.contests(np.array([exact]))
    if exact >= 0 and not (kind == "sigmoid" and outputs > 1):
        ended = ~head.excluded(contests.sign, contests.sign * t[0][contests.margin])
        assert certain == exact or ended.any()  # what is not certain has a contest that is not excluded
        assert certain == -1 or not ended.any()
        wrong = (exact + 1) % len(names)
        against = head.contests(np.array([wrong]))
        assert not head.excluded(against.sign, against.sign * t[0][against.margin]).all()
        assert head.excluded(contests.sign, head.needed(contests.sign)).all()  # what is asked for is enough


def test_the_favourable_side_decides_which_cut_off_is_meant() -> None:
    """P(class 1) = .4 and a cut-off of .5 or .7: class 0 has .6, which is enough for one of them alone."""
    margin = np.full((1, 1), math.log(0.4 / 0.6))
    at = Enclosure(margin, margin)
    assert [Head("sigmoid", 1, cut, False, 0).decision(at).item() for cut in (0.5, 0.7)] == [0, 1]
    assert [Head("sigmoid", 1, cut, False, 1).decision(at).item() for cut in (0.3, 0.7)] == [1, 0]
    for wrong in (2, -1, True, None):
        with pytest.raises(ValueError, match="favourable"):
            Head("sigmoid", 1, 0.5, False, wrong)  # type: ignore[arg-type]
