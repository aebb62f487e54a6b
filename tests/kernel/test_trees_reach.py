"""Bounds over everybody within reach, against all pairs of people of small domains."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.forests import domain_of, form_of, outputs_of, people_of, trees_of

from isonomy.trees.witnesses import most_unequal
from isonomy_verify import tree_reach
from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Domain
from isonomy_verify.heads import Head
from isonomy_verify.similar import Similarity
from isonomy_verify.tree_bounds import TreeBounds


def everybody(domain: Domain) -> Array:
    """All members of a domain of whole numbers and categories."""
    filled = {value: (flag, fill) for flag, value, fill in domain.fills}
    axes: list[list[dict[int, float]]] = []
    for j in np.flatnonzero(domain.numeric).tolist():
        numbers = [{j: float((k - domain.origin[j]) / domain.unit[j])} for k in range(10)]
        if j in filled:
            flag, fill = filled[j]
            numbers = [{**each, flag: 0.0} for each in numbers] + [{j: fill, flag: 1.0}]
        axes.append(numbers)
    flags = {flag for flag, _ in filled.values()}
    for start, stop in domain.blocks:
        if start in flags:
            continue
        width = stop - start
        axes.append(
            [{start: 0.0}, {start: 1.0}] if width == 1
            else [{start + c: float(c == s) for c in range(width)} for s in range(width)]
        )  # fmt: skip
    people = np.zeros((math.prod(map(len, axes)), domain.width))
    for person, combination in zip(people, itertools.product(*axes), strict=True):
        for part in combination:
            for j, value in part.items():
                person[j] = value
    return people


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 2.0]), st.booleans(), st.booleans())
def test_everybody_in_reach(seed: int, order: float, missing: bool, small: bool) -> None:
    rng = np.random.default_rng(seed)
    domain = domain_of(rng, 0, 1 if missing else 2, int(missing))
    trees = trees_of(rng, domain, int(rng.integers(1, 6)), 3)
    tolerance = np.full(domain.width, math.inf)
    for j in np.flatnonzero(domain.numeric):
        tolerance[j] = (int(rng.integers(0, 3)) + 0.3) / domain.unit[j]
    for start, stop in domain.blocks:
        tolerance[start:stop] = 0.0 if rng.random() < 0.5 else math.inf
    form = form_of(domain, np.zeros((0, domain.width)), 2.0, tolerance)
    weights = rng.uniform(0.2, 2.0, domain.width)
    ground = form_of(domain, np.diag(weights), order, None)
    bounds = TreeBounds(trees, Head("sigmoid", 1), Similarity(form, 1.0, domain))
    people, x = everybody(domain), people_of(rng, domain, 1)
    radii = np.sort(rng.uniform(0.05, 1.2, 3)).tolist()
    cost = np.abs((people - x) * weights)
    cost = cost.sum(1) if order == 1 else np.sqrt((cost**2).sum(1))
    share = 1 / (1 + np.exp(-outputs_of(trees, domain, people)[:, 0]))
    violation, turned = np.zeros(len(people)), np.zeros(len(people), dtype=bool)
    near = np.flatnonzero(cost <= radii[-1])
    for i in near:
        alike = (np.abs(people - people[i]) <= tolerance + 1e-12).all(1)
        violation[i] = np.abs(share[alike] - share[i]).max()
        turned[i] = ((share[alike] > 0.5) != (share[i] > 0.5)).any()
    reach = bounds.reach(ground)
    cells = tree_reach.REACH_CELLS
    try:
        tree_reach.REACH_CELLS = 4 if small else cells
        bound = reach.bound(x, radii)[0]
        stands = np.array([bool(reach.stands(x, radius)[0]) for radius in radii])
        coarse = bounds.reach(ground, 2).bound(x, radii)[0]
        found, _, whole = most_unequal(reach, x, radii)
    finally:
        tree_reach.REACH_CELLS = cells
    truth = np.array([violation[cost <= r].max(initial=0.0) for r in radii])
    flips = np.array([turned[cost <= r].any() for r in radii])
    assert (bound >= truth - 1e-12).all() and not (stands & flips).any()
    assert (coarse >= truth - 1e-12).all() and reach.everywhere(x)[0] >= violation.max() - 1e-12
    best = [np.flatnonzero(np.abs(people - z).max(1) < 1e-9)[0] for z in found[0]]
    if not small and not missing:
        assert np.allclose(bound, truth, atol=1e-10) and whole.all()
        assert np.allclose(violation[best], truth, atol=1e-10) and (cost[best] <= np.array(radii) + 1e-9).all()
        assert (stands == ~flips).all() or np.abs(share - 0.5).min() < 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_people_who_change_categories_that_were_not_listed(seed: int) -> None:
    """More choices of categories than are listed: ``z`` need not have those of the centre."""
    rng = np.random.default_rng(seed)
    domain = domain_of(rng, 0, 0, 0)
    trees = trees_of(rng, domain, int(rng.integers(1, 6)), 3)
    root = np.diag(rng.choice([0.0, 0.7, 2.0], domain.width))
    form, ground = form_of(domain, root, 2.0, None), form_of(domain, np.zeros((0, domain.width)), 2.0, None)
    bounds = TreeBounds(trees, Head("sigmoid", 1), Similarity(form, 1.0, domain, max_branches=2))
    people = everybody(domain)
    share = 1 / (1 + np.exp(-outputs_of(trees, domain, people)[:, 0]))
    alike = form.distance_upper(people[:, None], people[None]) <= 1.0
    truth = np.where(alike, np.abs(share[:, None] - share[None]), 0.0).max()
    assert (bounds.reach(ground).bound(people[:2], [0.5]) >= truth - 1e-12).all()
