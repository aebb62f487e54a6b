"""The largest gap of protected features, against all pairs of people of small domains; hints of strangers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.forests import domain_of, outputs_of, trees_of
from tests.kernel.test_trees_reach import everybody

from isonomy.search import trees as search
from isonomy_verify import tree_crossing, tree_global, tree_search
from isonomy_verify.heads import Head
from isonomy_verify.tree_cells import Cells
from isonomy_verify.tree_crossing import SCALE, Crossing, Halving, refuted
from isonomy_verify.tree_global import Hint, bound, pairs_of, real_gap
from isonomy_verify.trees import TreeError


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.sampled_from([1, 2**14]))
def test_the_gap_is_that_of_all_pairs(seed: int, parts: int, small: int) -> None:
    rng = np.random.default_rng(seed)
    domain = domain_of(rng, 0, 1, 1)
    trees = trees_of(rng, domain, int(rng.integers(1, 9)), 4)
    cells = Cells(trees, domain, Head("regression", 1))
    names = rng.choice(["flag", "block3=0", "block4=0", "whole0", "whole1"], int(rng.integers(1, 3)), replace=False)
    starts = [domain.names.index(str(name)) for name in names]
    protected = [k for k, axis in enumerate(cells.axes) if axis.start in starts]
    with pytest.MonkeyPatch.context() as patch:
        for module in (search, tree_global):
            patch.setattr(module, "SMALL_GRID", small)
        result = search.find_gap(cells, protected, 0, parts if parts < 30 else 10_000)
        assert bound(result.gap, result.hint) == result.upper
    people = everybody(domain)
    value = outputs_of(trees, domain, people)[:, 0]
    free = np.zeros(domain.width, dtype=bool)
    for start in starts:
        width = next((stop - first for first, stop in domain.blocks if first == start), 1)
        free[start : start + width] = True
    for flag, number, _ in domain.fills:
        free[flag] |= free[number]
    _, group = np.unique(people[:, ~free], axis=0, return_inverse=True)
    least, most = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(least, group, value)
    np.maximum.at(most, group, value)
    truth = float((most - least).max())
    unit = 2.0**-cells.sums.exponent
    assert result.lower * unit <= truth + 1e-9
    assert real_gap(cells, result.upper, cells.sums.error, 0) >= truth - 1e-9
    if parts == 30 or (small > 1 and result.parts == 1):  # a small domain needs no cut
        assert result.upper == result.lower
        assert abs(result.upper * unit - truth) < 1e-9
    if result.pair is not None:
        assert domain.contains(domain.filled(result.pair)).all()
        first, second = outputs_of(trees, domain, domain.filled(result.pair))[:, 0]
        assert abs(first - second - result.lower * unit) < 1e-9


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 1000]), st.sampled_from([1, 64, 2**14]))
def test_whether_scores_go_across_a_margin_is_as_all_pairs_say(seed: int, parts: int, small: int) -> None:
    """With enough parts the answer is that of everybody: a cell whose people do, or a cover that the kernel accepts."""
    rng = np.random.default_rng(seed)
    domain = domain_of(rng, 0, 1, 1)
    trees = trees_of(rng, domain, int(rng.integers(1, 9)), 4)
    cells = Cells(trees, domain, Head("regression", 1))
    starts = [domain.names.index(str(name)) for name in rng.choice(["flag", "block3=0", "whole0"], 2, replace=False)]
    protected = [k for k, axis in enumerate(cells.axes) if axis.start in starts]
    people, free = everybody(domain), np.zeros(domain.width, dtype=bool)
    value = cells.sum_at(people)[:, 0]
    for start in starts:
        free[start : next((stop for first, stop in domain.blocks if first == start), start + 1)] = True
    for flag, number, _ in domain.fills:
        free[flag] |= free[number]
    _, group = np.unique(people[:, ~free], axis=0, return_inverse=True)
    least, most = np.full(group.max() + 1, 2**62), np.full(group.max() + 1, -(2**62))
    np.minimum.at(least, group, value)
    np.maximum.at(most, group, value)
    at, wide, middle = int(rng.integers(len(least))), int((most - least).max()), int(np.median(value))
    for below, above in ((int(least[at]), int(most[at])), (int(least[at]) - 1, int(most[at])), (int(value[0]),) * 2,
                         (middle, middle + int(wide * rng.random()) + 1)):  # fmt: skip
        truth = bool(((least <= below) & (most >= above)).any())
        crossing = Crossing(pairs_of(cells, protected, 0, every=True), below, above)
        with pytest.MonkeyPatch.context() as patch:
            for module in (search, tree_crossing):
                patch.setattr(module, "SMALL_GRID", small)
            patch.setattr(search, "STARTS", int(rng.integers(2)))
            result = search.find_crossing(crossing, [], parts)
            if isinstance(result, Halving):
                assert refuted(crossing, result) and not truth
            none = Halving(np.zeros((0, 4), dtype=np.int64), np.array([int(rng.integers(SCALE + 1))]))
            assert not (refuted(crossing, none) and truth)  # no cover of strangers refutes what is true
        if result is None:
            assert parts == 3
        elif not isinstance(result, Halving):
            pair = domain.filled(search.pair_in(cells, crossing.pairs, result))
            one, two = cells.sum_at(pair)[:, 0]
            assert truth and domain.contains(pair).all() and one >= above and two <= below


def test_covers_of_strangers() -> None:
    """A box that is missing, weights that are none, and a box that is not excluded."""
    rng = np.random.default_rng(11)
    domain = domain_of(rng, 2, 2, 1)
    cells = Cells(trees_of(rng, domain, 30, 5), domain, Head("regression", 1))
    protected = [k for k, axis in enumerate(cells.axes) if domain.names[axis.start] in ("flag", "block4=0")]
    wide = search.find_gap(cells, protected).lower
    with pytest.MonkeyPatch.context() as patch:
        for module in (search, tree_crossing):
            patch.setattr(module, "SMALL_GRID", 1)
        crossing = Crossing(pairs_of(cells, protected, 0, every=True), int(-0.495 * wide), int(0.495 * wide))
        cover = search.find_crossing(crossing, [], 5000)
        assert isinstance(cover, Halving) and len(cover.cuts) > 4 and refuted(crossing, cover)
        for weights in (cover.weights[1:], cover.weights + SCALE + 1, cover.weights - SCALE - 1):
            with pytest.raises(TreeError, match="weight"):
                refuted(crossing, Halving(cover.cuts, weights))
        with pytest.raises(TreeError, match="halves"):
            refuted(crossing, Halving(cover.cuts[:-1], cover.weights[:-1]))
        assert not refuted(crossing, Halving(cover.cuts[:2], cover.weights[:3]))
        patch.setattr(tree_crossing, "HELD", 0)
        with pytest.raises(TreeError, match="too many boxes"):
            refuted(crossing, cover)


def test_memory_has_a_limit_and_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that may keep nothing ends with a bound that holds; trees with too many pairs become coarser."""
    free = example()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_search, "HELD", 0)
        few = example()
        patch.undo()
        patch.setattr(search, "WORK", 0)
        less = example()
    for each in (few, less):
        assert each.parts < free.parts and each.upper >= free.lower and bound(each.gap, each.hint) >= each.lower
    monkeypatch.setattr(tree_global, "ENDS", len(free.gap.low) * len(free.gap.fields.tree) // 2)
    coarse = example()
    assert len(coarse.gap.fields.tree) < len(free.gap.fields.tree) and coarse.upper >= free.lower
    monkeypatch.setattr(tree_global, "HELD", 0)
    with pytest.raises(TreeError, match="too many boxes"):
        bound(free.gap, free.hint)


def example() -> search.TreeGap:
    """A gap with cuts."""
    rng = np.random.default_rng(5)
    domain = domain_of(rng, 3, 3, 1)
    cells = Cells(trees_of(rng, domain, 60, 5), domain, Head("regression", 1))
    protected = [k for k, axis in enumerate(cells.axes) if domain.names[axis.start] in ("flag", "block4=0")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "SMALL_GRID", 1)
        return search.find_gap(cells, protected, 0, 6)


def test_hints_of_strangers() -> None:
    result = example()
    gap, (cuts, h, goals) = result.gap, result.hint
    assert len(cuts) >= 4 and bound(gap, result.hint) == result.upper
    axis = next(iter(h))
    trees, first, numbers = h[axis]

    def refused(hint: Hint, words: str) -> None:
        with pytest.raises(TreeError, match=words):
            bound(gap, hint)

    wrong = numbers.copy()
    wrong[0, 0] += 1
    refused(Hint(cuts, {**h, axis: (trees, first, wrong)}, goals), "add to zero")
    refused(Hint(cuts, {**h, axis: (trees, first, numbers.astype(float))}, goals), "whole")
    refused(Hint(cuts, {**h, axis: (trees[::-1], first, numbers)}, goals), "ascend")
    refused(Hint(cuts, {**h, axis: (trees + 10**6, first, numbers)}, goals), "not there")
    refused(Hint(cuts, {**h, 99: (trees, first, numbers)}, goals), "whole")
    huge = np.zeros_like(numbers)
    huge[0], huge[1] = 2**62, -(2**62)
    refused(Hint(cuts, {**h, axis: (trees, first, huge)}, goals), "moderate")
    refused(Hint(cuts[:-1], h, goals), "pairs")
    refused(Hint(cuts[[0, 0]], h, goals), "no two halves")
    lost = cuts.copy()
    lost[1, 2] += 1
    refused(Hint(lost, h, goals), "no two halves")
    orphan = cuts.copy()
    orphan[2:4, 0] = 0
    refused(Hint(orphan, h, goals), "no two halves")
    empty = cuts[:2].copy()
    empty[:, 2] = 10**6
    refused(Hint(empty, h, goals), "leaves nothing")
    # Goals only say when to stop.
    for other in ((0, 0), (10**18, 10**18), (-(10**18), -(10**18))):
        assert bound(gap, Hint(cuts, h, other)) >= result.lower
