"""Tree ensembles: exact extremes over similar people, against everybody of every cell; arrays of strangers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.forests import (
    Case,
    domain_of,
    exact_outputs,
    form_of,
    outputs_of,
    people_of,
    similar_people,
    trees_of,
)

from isonomy.trees.witnesses import attaining
from isonomy_verify import tree_bounds
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.similar import Similarity
from isonomy_verify.tree_bounds import TreeBounds
from isonomy_verify.trees import TreeError, Trees

SLACK = Fraction(1, 10**12)


def metric_of(rng: np.random.Generator, domain: Domain, kind: str) -> tuple[Form, float]:
    """A metric of a kind, and a delta: no person lies on the edge of either."""
    m, tolerance = domain.width, np.full(domain.width, math.inf)
    for j in np.flatnonzero(domain.numeric):
        wide = (int(rng.integers(0, 4)) + 0.3) / domain.unit[j] if domain.integer[j] else rng.uniform(0, 0.6)
        tolerance[j] = 0.0 if rng.random() < 0.2 else wide
    for start, stop in domain.blocks:
        tolerance[start:stop] = 0.0 if rng.random() < 0.3 else math.inf
    if kind == "box":
        return form_of(domain, np.zeros((0, m)), 2.0, tolerance), 1.0
    order = 1.0 if kind == "sum" else 2.0
    root = rng.normal(size=(m, m)) * 0.5 if kind == "mixed" else np.diag(rng.uniform(0.1, 1.5, m))
    free = None if rng.random() < 0.5 else tolerance
    return form_of(domain, root, order, free), float(rng.uniform(0.2, 1.5))


def case_of(rng: np.random.Generator, outputs: int = 1, vector: bool = False) -> Case:
    """A domain with every kind of coordinate, trees and two people."""
    domain = domain_of(rng, 1, 1, 1)
    return Case(domain, trees_of(rng, domain, int(rng.integers(1, 6)), 3, outputs, vector), people_of(rng, domain, 2))


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["box", "sum", "squares", "mixed"]),
    st.sampled_from([(1, False), (3, False), (3, True)]),
    st.sampled_from([1, 6, 2**17]),
)
def test_extremes_are_those_of_all_similar_people(seed: int, kind: str, outputs: tuple[int, bool], cells: int) -> None:
    rng = np.random.default_rng(seed)
    domain, trees, x = case_of(rng, *outputs)
    form, delta = metric_of(rng, domain, kind)
    head = Head("softmax", 3) if outputs[0] == 3 else Head("sigmoid", 1)
    bounds = TreeBounds(trees, head, Similarity(form, delta, domain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_bounds, "GRID_CELLS", cells)  # branch and bound from here on
        extremes = bounds.extremes(x)
    witnesses = attaining(bounds, x, extremes)
    assert domain.contains(witnesses.reshape(-1, domain.width)).all()
    unit = Fraction(2) ** -bounds.cells.sums.exponent
    for i, person in enumerate(x):
        people = similar_people(form, delta, domain, trees, person)
        every = outputs_of(trees, domain, people)
        for k, (c, j) in enumerate(head.pairs or [(-1, 0)]):

            def margin(y: Any, c: int = c, j: int = j) -> Fraction:
                exact = exact_outputs(trees, domain, y)
                return exact[j] - (exact[c] if c >= 0 else 0)

            values = every[:, j] - (every[:, c] if c >= 0 else 0.0)
            error = Fraction(float(bounds.error[k])) + SLACK
            least, most = margin(people[values.argmin()]), margin(people[values.argmax()])
            low, high = int(extremes.low[i, k]) * unit, int(extremes.high[i, k]) * unit
            assert low <= least + error and high >= most - error
            if kind != "mixed":
                assert abs(low - least) <= error and abs(high - most) <= error
                assert extremes.exact[i]
            for side, value in ((0, low), (1, high)):
                assert abs(margin(witnesses[i, k, side]) - value) <= error
                if kind == "box":
                    far = form.distance_upper(person[None], witnesses[i, k, side][None])[0]
                    assert far <= delta * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_violations_and_decisions(seed: int, several: bool) -> None:
    rng = np.random.default_rng(seed)
    domain, trees, x = case_of(rng, 3 if several else 1)
    form, delta = metric_of(rng, domain, "box")
    head = Head("softmax", 3) if several else Head("sigmoid", 1, 0.4)
    bounds = TreeBounds(trees, head, Similarity(form, delta, domain))
    known = bounds.chunk(x)
    certain = bounds.proved_decisions(x, known, np.ones(len(x), dtype=bool))
    for i, person in enumerate(x):
        z = outputs_of(
            trees, domain, np.concatenate([person[None], similar_people(form, delta, domain, trees, person)])
        )
        p = np.exp(z - z.max(1, keepdims=True))
        p = p / p.sum(1, keepdims=True) if several else 1 / (1 + np.exp(-z))
        truth = np.abs(p - p[0]).max()
        assert known.upper[i] >= truth - 1e-12
        if not several:
            assert known.upper[i] <= truth + 1e-10
        decision = p.argmax(1) if several else (p[:, 0] > 0.4).astype(int)
        margin = np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2] if several else np.abs(p[:, 0] - 0.4)
        if margin.min() > 1e-9:
            assert certain[i] == (decision == decision[0]).all() == known.kept[i]


def test_a_run_near_the_cut_off_is_undecided() -> None:
    domain = Domain.unbounded(1)
    form = Form(np.zeros((0, 1)), 2.0, np.zeros(1, bool), np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1))
    trees = Trees(*[np.array(a) for a in ([-1], [0.0], [-1])], np.zeros((0, 2), bool), np.array([0]), *[np.array(
        a) for a in ([-1], [-1], [0], [0])], np.array([[1e-6]]), np.zeros(1), np.zeros(1))  # fmt: skip
    similar = Similarity(form, 0.0, domain)
    head, x = Head("sigmoid", 1, 0.5), np.zeros((1, 1))
    assert TreeBounds(trees, head, similar).chunk(x).kept.all()
    assert not TreeBounds(trees, head, similar, run_error=1e-5).chunk(x).kept.any()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_unbounded_domain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = 3
    domain = Domain.unbounded(m)
    trees = trees_of(rng, domain, 5, 4)
    order = float(rng.choice([1.0, 2.0, math.inf]))
    weights = rng.uniform(0.5, 3.0, m)
    free, zero = np.ones(m, dtype=bool), np.zeros(m)
    form = Form(np.diag(weights), order, free, zero, zero, zero, np.ones(m))
    bounds = TreeBounds(trees, Head("regression", 1), Similarity(form, 0.7, domain))
    x = rng.uniform(-1, 1, (1, m))
    people = x + rng.uniform(-1, 1, (4000, m)) * 0.7 / weights
    size = np.abs(people - x) * weights
    people = people[np.linalg.norm(size, order, axis=1) <= 0.7]
    values = outputs_of(trees, domain, np.concatenate([x, people]))[:, 0]
    over = bounds.over(bounds.extremes(x))
    assert over.low[0, 0] <= values.min() + 1e-12 and over.high[0, 0] >= values.max() - 1e-12
    tested = attaining(bounds, x, bounds.extremes(x))[0, 0]
    assert (form.distance_upper(x, tested) <= 0.7 * (1 + 1e-9)).all()


def stump(**changes: Any) -> Trees:
    """One test with two leaves."""
    parts: dict[str, Any] = {
        "coordinate": [0, -1, -1], "threshold": [0.5, 0.0, 0.0], "category": [-1, -1, -1],
        "masks": np.zeros((1, 2), bool),
        "missing": [0, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1], "roots": [0], "output": [0],
        "values": [[0.0], [1.0], [2.0]], "base": [0.0], "error": [0.0],
    } | changes  # fmt: skip
    return Trees.from_arrays({name: np.array(part) for name, part in parts.items()})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left": [3, -1, -1]}, "child that is not there"),
        ({"left": [-2, -1, -1]}, "child that is not there"),
        ({"right": [1, -1, -1]}, "Node 1 has two parents"),
        ({"left": [0, -1, -1]}, "two parents"),
        ({"coordinate": [0, 0, -1], "left": [1, 0, -1], "right": [2, 2, -1]}, "two parents"),
        ({"roots": [0, 1], "output": [0, 0]}, "two parents"),
        ({"roots": [1]}, "belongs to no tree"),
        ({"roots": [7]}, "must be nodes"),
        ({"output": [1]}, "adds to output 1"),
        ({"output": [-2]}, "adds to output -2"),
        ({"output": [0, 0]}, "entry of 'output'"),
        ({"values": [[0.0], [np.inf], [0.0]]}, "Node 1 has a value that is not finite"),
        ({"threshold": [np.nan, 0.0, 0.0]}, "no number"),
        ({"threshold": [0.5, 0.0]}, "'threshold' of trees must have 3 rows"),
        ({"category": [1, -1, -1]}, "set of categories"),
        ({"missing": [3, 0, 0]}, "missing"),
        ({"left": [1.5, -1, -1]}, "whole"),
        ({"left": [[1, -1, -1]]}, "axes"),
        ({"base": [np.nan]}, "'base'"),
        ({"error": [-1.0]}, "'base' must be finite"),
        ({"values": [["a"], ["b"], ["c"]]}, "numbers"),
        ({"coordinate": [-5, -1, -1]}, "coordinate below"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(changes: dict[str, Any], words: str) -> None:
    stump()
    with pytest.raises(TreeError, match=words):
        stump(**changes)


def test_a_missing_array_is_named() -> None:
    arrays = stump().arrays()
    assert all(np.array_equal(value, arrays[name]) for name, value in Trees.from_arrays(arrays).arrays().items())
    del arrays["left"]
    with pytest.raises(TreeError, match="'left'"):
        Trees.from_arrays(arrays)


def test_what_a_domain_has_not_is_refused() -> None:
    rng = np.random.default_rng(0)
    domain, head = domain_of(rng), Head("sigmoid", 1)
    with pytest.raises(TreeError, match="coordinate 99"):
        stump(coordinate=[99, -1, -1]).check(domain, head)
    with pytest.raises(TreeError, match="'flag' as a number"):
        stump(coordinate=[domain.names.index("flag"), -1, -1]).check(domain, head)
    with pytest.raises(TreeError, match="no block of at most 2 states"):
        stump(coordinate=[domain.names.index("block3=0"), -1, -1], category=[0, -1, -1]).check(domain, head)
    with pytest.raises(TreeError, match="relaxed"):
        stump().check(domain.with_kind("relaxed"), head)
    with pytest.raises(TreeError, match="1 outputs"):
        stump().check(domain, Head("softmax", 2))


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e200])
def test_sums_have_headroom_and_charge_their_roundings(size: float) -> None:
    rng = np.random.default_rng(1)
    domain = Domain.unbounded(3)
    trees = trees_of(rng, domain, 200, 4)
    trees = Trees.from_arrays(trees.arrays() | {"values": trees.values * size, "base": trees.base * size})
    sums = trees.sums
    largest = np.zeros(len(trees.roots))
    np.maximum.at(largest, trees.tree_of, np.abs(sums.leaves[:, 0]).astype(np.float64))
    assert largest.sum() + abs(float(sums.base[0])) < 2.0**58
    unit = Fraction(2) ** -sums.exponent
    lost = np.zeros(len(trees.roots), dtype=object)
    for node in np.flatnonzero(trees.coordinate < 0):
        off = abs(Fraction(float(trees.values[node, 0])) - int(sums.leaves[node, 0]) * unit)
        lost[trees.tree_of[node]] = max(lost[trees.tree_of[node]], off)
    lost = sum(lost) + abs(Fraction(float(trees.base[0])) - int(sums.base[0]) * unit)
    assert Fraction(float(sums.error[0])) >= lost
    form = Form(np.zeros((0, 3)), 2.0, np.zeros(3, bool), np.zeros(3), np.zeros(3), np.zeros(3), np.ones(3))
    bounds = TreeBounds(trees, Head("regression", 1), Similarity(form, 0.0, domain))
    x = rng.uniform(-1, 1, (20, 3))
    at = bounds.enclose(x)
    for low, high, person in zip(at.low[:, 0], at.high[:, 0], x, strict=True):
        exact = exact_outputs(trees, domain, person)[0]
        assert Fraction(float(low)) <= exact <= Fraction(float(high))
        assert high - low <= 1e-12 * size * 200 + 2.0**-898


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_witnesses_have_values_that_people_have(seed: int) -> None:
    """Real numbers recorded in steps of 0.05: a witness has such a value wherever its cell holds one."""
    rng = np.random.default_rng(seed)
    domain = domain_of(rng, 2, 0, 0)
    trees = trees_of(rng, domain, 4, 3)
    form = form_of(domain, np.zeros((0, domain.width)), 2.0, np.where(domain.numeric, 0.4, np.inf))
    x = people_of(rng, domain, 3)
    x[:, :2] = np.round(x[:, :2] * 20) / 20
    bounds = TreeBounds(trees, Head("regression", 1), Similarity(form, 1.0, domain))
    extremes = bounds.extremes(x)
    step = np.where(domain.numeric, 0.05, 0.0)
    plain, stepped = attaining(bounds, x, extremes), attaining(bounds, x, extremes, step)
    for near, person in ((plain, None), (stepped, 0.05)):
        values = outputs_of(trees, domain, near.reshape(-1, domain.width)).reshape(3, 2)
        unit = 2.0**-bounds.cells.sums.exponent
        assert np.allclose(values, np.stack([extremes.low, extremes.high], 2)[:, 0] * unit, atol=1e-9)
        if person is None:
            continue
        for i in range(3):
            for side in range(2):
                for k, axis in enumerate(bounds.cells.axes):
                    if not axis.numeric:
                        continue
                    j = axis.start
                    low = max(axis.first[extremes.first[i, 0, side, k]], x[i, j] - 0.4)
                    high = min(axis.last[extremes.last[i, 0, side, k]], x[i, j] + 0.4)
                    steps = np.arange(-20, 21) * 0.05
                    inside = steps[(steps >= low + 1e-9) & (steps <= high - 1e-9)]
                    if len(inside):
                        assert np.abs(steps - near[i, 0, side, j]).min() < 1e-9
