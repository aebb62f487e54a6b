"""Many combinations of categories together: nobody exceeds the bounds, which are those of each combination alone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy_verify import local as local_module
from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array, stepped_up
from isonomy_verify.combinations import Gaps, Images, Product, is_shared, product_of
from isonomy_verify.domain import Domain
from isonomy_verify.enclosure import Run
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.local import LocalBounds
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import Reach
from isonomy_verify.sets import Regions
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Enclosure

from .truth import run

M = 11
BLOCKS = ((3, 6), (6, 7), (7, 11))
"""Three numbers, the first whole, a block of three, a flag, a block of four: 24 combinations."""

steady = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(["relu", "relu", "deep", "tanh", "leaky", "residual", "linear"])


def domain(immutable: bool = False, fills: bool = False) -> Domain:
    low, high = np.zeros(M), np.ones(M)
    low[:3], high[:3] = (-2.0, -1.0, 0.0), (2.0, 1.0, 3.0)
    fixed = np.zeros(M, dtype=bool)
    fixed[7:11] = immutable
    whole = np.arange(M) == 0
    unit, origin = np.where(whole, 2.0, 1.0), np.zeros(M)
    names = tuple(f"c{i}" for i in range(M))
    return Domain("realizable", low, high, BLOCKS, whole, origin, unit, fixed, names, ((6, 1, 0.0),) if fills else ())


def form(delta: float) -> Form:
    free = np.arange(M) >= 3
    tolerance, relative = np.zeros(M), np.zeros(M)
    tolerance[:2], relative[2] = (1.0, delta), 0.1
    return Form(np.zeros((0, M)), 2.0, free, tolerance, relative, np.zeros(M), np.ones(M))


def people(rng: np.random.Generator, n: int, where: Domain) -> Array:
    x = np.zeros((n, M))
    x[:, :3] = rng.uniform(where.low[:3], where.high[:3], (n, 3))
    x[:, 0] = np.rint(x[:, 0] * 2) / 2
    for start, stop in BLOCKS:
        if stop - start == 1:
            x[:, start] = rng.integers(0, 2, n)
        else:
            x[np.arange(n), start + rng.integers(0, stop - start, n)] = 1.0
    return where.filled(x)


def nodes_of(rng: np.random.Generator, kind: str, outputs: int, scale: float) -> list[Node]:
    def dense(read: int, width: int, inner: int) -> Node:
        weight = scale * rng.normal(size=(width, inner)) / np.sqrt(inner)
        return Node("affine", (read,), weight=weight, bias=scale * 0.3 * rng.normal(size=width))

    shape = Activation("tanh") if kind == "tanh" else Activation("leaky_relu", (0.2,))
    shape = Activation("relu") if kind in ("relu", "deep", "residual") else shape
    nodes, last = [Node("input", width=M)], M
    for _ in range({"deep": 3, "linear": 0}.get(kind, 2)):
        nodes += [dense(len(nodes) - 1, 7, last), Node("activation", (len(nodes),), activation=shape)]
        last = 7
    if kind == "residual":  # the input is read again behind the activations
        nodes += [Node("concat", (len(nodes) - 1, 0))]
        last += M
    return [*nodes, dense(len(nodes) - 1, outputs, last)]


def made(
    seed: int, kind: str, what: tuple[str, int], scale: float, delta: float = 0.1, **options: bool
) -> tuple[np.random.Generator, list[Node], LocalBounds, Array]:
    rng, head = np.random.default_rng(seed), Head(*what)  # type: ignore[arg-type]
    nodes = nodes_of(rng, kind, head.outputs, scale)
    where = domain(**options)
    network = Preparations(normal_form(nodes, head.rows))
    bounds = LocalBounds(network, head, Similarity(form(delta), 1.0, where))
    return rng, nodes, bounds, people(rng, 3, where)


def margins(nodes: list[Node], head: Head, y: Array) -> list[Any]:
    outputs = run(nodes, y)
    return [outputs[j] - outputs[c] for c, j in head.pairs] or outputs


def places(rng: np.random.Generator, product: Product, i: int, count: int) -> Array:
    """Corners and inner points of the box of numbers of a person."""
    share = rng.random((count, M))
    share[: count // 2] = np.rint(share[: count // 2])
    low, high = product.low[i], np.maximum(product.low[i], product.high[i])
    return np.clip(low + share * (high - low), low, high)


heads = st.sampled_from([("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("regression", 2)])


@steady
@given(seeds, kinds, heads, st.sampled_from([1.0, 4.0, 1e-4, 1e6, 1e150]), st.booleans(), st.booleans())
def test_intervals_hold_the_exact_margins(
    seed: int, kind: str, what: tuple[str, int], scale: float, immutable: bool, fills: bool
) -> None:
    rng, nodes, bounds, x = made(seed, kind, what, scale, immutable=immutable, fills=fills)
    product = product_of(bounds.similarity, x)
    assert product is not None and product.size == (6 if immutable else 24) and product.allowed.all()
    for tile, over in Images(bounds.alone, product).intervals():
        count = tile.combinations.stop - tile.combinations.start
        for pair in rng.choice(len(tile.owner), 6):
            i, j = int(tile.owner[pair]), tile.combinations.start + int(pair) % count
            there = product.at(np.array([i]), np.array([j]))[0]
            for move in places(rng, product, i, 4):
                exact = margins(nodes, bounds.head, there + move)
                for value, low, high in zip(exact, over.low[pair], over.high[pair], strict=True):
                    assert not (value > arb(float(high))) and not (value < arb(float(low)))


@steady
@given(seeds, kinds, heads, st.sampled_from([0.0, 0.02, 0.3]), st.sampled_from(["interval", "quick", "tight"]))
def test_bounds_are_those_of_single_combinations(
    seed: int, kind: str, what: tuple[str, int], delta: float, tier: str
) -> None:
    """No looser than the path that lists regions, and above everybody who was looked at."""
    rng, _, bounds, x = made(seed, kind, what, 2.0, delta)
    bounds.tier = tier  # type: ignore[assignment]
    known = bounds.chunk(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_module, "product_of", lambda *_: None)
        listed = bounds.chunk(x)
    assert (known.upper <= listed.upper * (1 + 1e-9) + 1e-9).all()
    assert tier == "tight" or np.allclose(known.upper, listed.upper, rtol=1e-9, atol=1e-9)
    assert (known.kept >= listed.kept).all()
    product = product_of(bounds.similarity, x)
    assert product is not None
    for i, at in enumerate(x):
        row = np.full(product.size, i)
        y = np.concatenate([product.at(row, np.arange(product.size)) + move for move in places(rng, product, i, 6)])
        own, other = (bounds.network.network.run(each)[-1] for each in (np.repeat(at[None], len(y), 0), y))
        assert bounds.head.attained(Enclosure(own, own), Enclosure(other, other)).max() <= known.upper[i] + 1e-9
        decided = [bounds.head.decision(Enclosure(each, each)) for each in (own, other)]
        assert not known.kept[i] or (decided[0] == decided[1]).all()


@pytest.mark.parametrize("what", [("softmax", 2), ("regression", 1)])
def test_a_claim_is_the_same_in_any_chunk(what: tuple[str, int]) -> None:
    rng, _, bounds, _ = made(7, "relu", what, 2.0)
    x = people(rng, 24, bounds.similarity.domain)
    ground = Form(np.eye(M), 2.0, np.ones(M, dtype=bool), *np.zeros((3, M)), np.ones(M))
    reach = Reach(bounds.network, bounds.head, bounds.similarity, ground)
    whole, moved = bounds.chunk(x), reach.bound(x, [0.05, 0.2])
    for size in (5, 16):
        parts = [slice(k, k + size) for k in range(0, len(x), size)]
        known = [bounds.chunk(x[part]) for part in parts]
        assert np.array_equal(np.concatenate([each.upper for each in known]), whole.upper)
        assert np.array_equal(np.concatenate([each.kept for each in known]), whole.kept)
        assert np.array_equal(np.concatenate([reach.bound(x[part], [0.05, 0.2]) for part in parts]), moved)


@steady
@given(seeds, st.sampled_from(["relu", "deep", "tanh", "leaky"]), heads, st.sampled_from([0.0, 0.03, 0.3]))
def test_gaps_hold_both_runs_and_their_difference(seed: int, kind: str, what: tuple[str, int], radius: float) -> None:
    rng, nodes, bounds, x = made(seed, kind, what, float(np.random.default_rng(seed).choice([1.0, 3.0, 1e5])))
    ground = Form(np.eye(M), 2.0, np.ones(M, dtype=bool), *np.zeros((3, M)), np.ones(M))
    reach = Reach(bounds.network, bounds.head, bounds.similarity, ground)
    assert is_shared(bounds.network.network) and reach.own_passes
    (near,) = reach.within(radius).regions(x)
    product = product_of(bounds.similarity, near.centre, (near.sets.low, near.sets.high))
    assert product is not None
    where, bound = bounds.similarity.domain, reach.bound(x, [radius])[:, 0]
    for tile, gap in Gaps(bounds.network.pairs()[0], where, near, product).intervals():
        for pair in rng.choice(len(tile.owner), 5):
            i = int(tile.owner[pair])
            j = tile.combinations.start + int(pair) % (tile.combinations.stop - tile.combinations.start)
            step = rng.normal(size=3) * [0.0, 1.0, 1.0]  # the first is whole: it stays
            z = near.centre[i].copy()
            z[:3] += step * radius / max(np.linalg.norm(step), 1e-9) * rng.choice([0.5, 0.999])
            z = np.clip(z, where.low, where.high)
            y = z.copy()
            y[product.columns] = product.states[j]
            move = rng.choice([0.0, 0.5, 0.999]) * form(0.1).box(z[None], 1.0)[rng.integers(0, 2)][0, :3]
            y[:3] = np.clip(z[:3] + move, where.low[:3], where.high[:3])
            y[0] = z[0]
            one, other = (margins(nodes, bounds.head, each) for each in (z, y))
            for k, (a, b) in enumerate(zip(one, other, strict=True)):
                for value, ends in ((a, gap.near), (b, gap.far), (b - a, gap.between)):
                    assert not (value > arb(float(ends.high[pair, k]))), (radius, k)
                    assert not (value < arb(float(ends.low[pair, k]))), (radius, k)
            both = [Enclosure(*2 * [np.array([[float(v.mid()) for v in each]])]) for each in (one, other)]
            assert bounds.head.attained(*both)[0] <= bound[i] + 1e-9


@steady
@given(seeds, st.sampled_from(["relu", "deep", "tanh"]), st.sampled_from([0.01, 0.2, 1.5]), st.booleans())
def test_bounds_of_people_who_move_are_no_looser(seed: int, kind: str, radius: float, tight: bool) -> None:
    _, _, bounds, x = made(seed, kind, ("softmax", 2), 2.0)
    ground = Form(np.eye(M), 2.0, np.ones(M, dtype=bool), *np.zeros((3, M)), np.ones(M))
    reach, listed = (Reach(bounds.network, bounds.head, bounds.similarity, ground) for _ in range(2))
    listed.__dict__["_listed"] = False
    found, known = (each.bound(x, [radius / 2, radius], tight) for each in (reach, listed))
    assert reach.own_passes and not listed.own_passes
    assert (found[:, 1] <= known[:, 1] * (1 + 1e-9) + 1e-9).all()
    assert (found.mean(0) <= known.mean(0) + 1e-9).all()


@steady
@given(seeds, kinds, heads, st.booleans(), st.sampled_from([0.0, 0.05]))
def test_blocks_that_nothing_reads_are_had_in_common(
    seed: int, kind: str, what: tuple[str, int], fills: bool, radius: float
) -> None:
    """Bounds hold for those who differ there, too; a flag goes with a value that may be read, and stays free."""
    rng, nodes, made_bounds, x = made(seed, kind, what, 2.0, fills=fills)
    for at, node in enumerate(nodes):
        if node.weight is not None and node.weight.shape[1] != 7:  # reads the input, perhaps behind activations
            keep = np.arange(node.weight.shape[1]) < node.weight.shape[1] - 5
            nodes[at] = node._replace(weight=node.weight * keep)
    head, similarity = made_bounds.head, made_bounds.similarity
    bounds = LocalBounds(Preparations(normal_form(nodes, head.rows)), head, similarity)
    held = np.flatnonzero(bounds.alike.domain.immutable).tolist()
    assert held == ([7, 8, 9, 10] if fills else [6, 7, 8, 9, 10]) and bounds.similarity is similarity
    alike, product = product_of(bounds.alike, x), product_of(similarity, x)
    assert product is not None and alike is not None and (alike.size, product.size) == (6 if fills else 3, 24)
    ground = Form(np.eye(M), 2.0, np.ones(M, dtype=bool), *np.zeros((3, M)), np.ones(M))
    known, moved = bounds.chunk(x), bounds.reach(ground).bound(x, [radius])[:, 0]
    for i, at in enumerate(x):
        row = np.full(product.size, i)
        y = np.concatenate([product.at(row, np.arange(product.size)) + move for move in places(rng, product, i, 6)])
        y[:, 0] = at[0]
        y = y[similarity.domain.contains(y) & (similarity.form.distance_upper(at, y) <= 1)]
        assert len(y) > 6
        own, other = (bounds.network.network.run(each)[-1] for each in (np.repeat(at[None], len(y), 0), y))
        change = head.attained(Enclosure(own, own), Enclosure(other, other)).max()
        assert change <= min(known.upper[i], moved[i]) + 1e-9
    paid = Similarity(replace(similarity.form, root=np.eye(M)[:1]), 1.0, similarity.domain)
    assert paid.in_common(np.ones(M, dtype=bool)) is paid


def test_what_is_no_product_is_listed() -> None:
    _, _, bounds, x = made(1, "relu", ("softmax", 2), 2.0)
    alike = bounds.similarity
    assert product_of(Similarity(alike.form, 1.0, alike.domain, 23), x) is None
    assert product_of(Similarity(alike.form, 1.0, replace(alike.domain, kind="relaxed")), x) is None
    paid = replace(alike.form, root=np.eye(M)[:1])
    assert product_of(Similarity(paid, 1.0, alike.domain), x) is None


def test_hostile_weights_and_empty_boxes() -> None:
    """What overflows says nothing, and where there is nobody nothing is known."""
    for scale in (1e200, 1e300):
        _, _, bounds, x = made(3, "relu", ("softmax", 2), scale)
        known = bounds.chunk(x)
        assert not np.isnan(known.upper).any() and (known.upper == 1.0).any() and (known.upper <= 1.0).all()
    _, _, bounds, x = made(3, "relu", ("regression", 1), 2.0)
    x[1, 0] += 0.2  # not a whole number: no place of the lattice may be left of its box
    product = product_of(bounds.similarity, x)
    assert product is not None
    product.low[1, 0], product.high[1, 0] = 0.1, -0.1
    assert product.empty.tolist() == [False, True, False]
    known = bounds._combined(product)
    assert np.isinf(known.upper[1]) and not known.kept[1] and np.isfinite(known.upper[[0, 2]]).all()


def test_a_missing_combination_is_noticed() -> None:
    """A person may only take what is allowed: bounds of the others do not count, and all of the allowed ones do."""
    _, _, bounds, x = made(5, "relu", ("regression", 1), 3.0)
    product = product_of(bounds.similarity, x)
    assert product is not None
    full, each = bounds._combined(product).upper, []
    for j in range(product.size):
        some = np.zeros_like(product.allowed)
        some[:, j] = True
        each.append(bounds._combined(product._replace(allowed=some)).upper)
    assert np.allclose(np.max(each, axis=0), full, rtol=1e-9)
    assert len({float(v) for v in np.stack(each)[:, 0]}) > 12


@given(st.floats(0, 1e300))
def test_steps_go_up_a_little(value: float) -> None:
    found = float(stepped_up(np.array([value]))[0])
    assert value <= found <= value * (1 + 2.0**-33) + 1e-300
    assert float(stepped_up(np.array([found]))[0]) == found


def test_combinations_are_all_of_them() -> None:
    _, _, bounds, x = made(2, "relu", ("softmax", 2), 1.0)
    product = product_of(bounds.similarity, x)
    assert product is not None
    found = {tuple(state) for state in product.states.tolist()}
    each = [np.eye(3).tolist(), [[0.0], [1.0]], np.eye(4).tolist()]
    assert found == {tuple(itertools.chain(*states)) for states in itertools.product(*each)}
    there = product.at(np.array([0]), np.array([5]))
    assert bounds.similarity.domain.contains(there).all() and (there[0, :3] == x[0, :3]).all()


@steady
@given(seeds, st.booleans(), st.booleans())
def test_regions_are_those_that_are_listed(seed: int, immutable: bool, wanders: bool) -> None:
    """The same centres and boxes, also where some categories cannot be left or taken."""
    rng = np.random.default_rng(seed)
    where, asked = domain(immutable), form(0.2)
    asked = replace(asked, free=asked.free & (rng.random(M) < 0.8))
    alike, x = Similarity(asked, 1.0, where), people(rng, 4, where)
    centre_box = (
        (np.where(where.numeric, -0.1, 0.0)[None], np.where(where.numeric, 0.2, 0.0)[None]) if wanders else None
    )
    product = product_of(alike, x, centre_box)
    assert product is not None
    (listed,) = alike.regions(x, centre_box)
    mine = product.regions(*np.nonzero(product.allowed))

    def rows(regions: Regions) -> list[tuple[float, ...]]:
        parts = (regions.owner[:, None], regions.centre, regions.sets.low, regions.sets.high)
        return sorted(map(tuple, np.concatenate(parts, axis=1).tolist()))

    assert rows(mine) == rows(listed)


def test_decisions_are_kept_as_where_regions_are_listed() -> None:
    rng, _, bounds, _ = made(4, "relu", ("softmax", 2), 1.0)
    x = people(rng, 40, bounds.similarity.domain)
    known = bounds.chunk(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_module, "product_of", lambda *_: None)
        listed = bounds.chunk(x)
    assert 5 < known.kept.sum() < 35
    assert np.array_equal(known.kept, listed.kept)


def test_a_network_without_activations() -> None:
    _, _, bounds, x = made(1, "linear", ("regression", 1), 2.0)
    known = bounds.chunk(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_module, "product_of", lambda *_: None)
        assert np.allclose(known.upper, bounds.chunk(x).upper, rtol=1e-9)
    assert not is_shared(bounds.network.network)


@steady
@given(seeds, kinds, st.booleans())
def test_sizes_of_pairs_are_at_least_those_of_each_combination(seed: int, kind: str, float32_run: bool) -> None:
    _, _, bounds, x = made(seed, kind, ("softmax", 2), 1.0)
    prepared = bounds.network.single(None, float32_run)
    product = product_of(bounds.similarity, x)
    assert product is not None
    images = Images(prepared, product)
    assert (images.weighed is not None) == is_shared(prepared.network)
    for tile in images.tiles():
        found = images.run(tile)
        there = product.at(tile.owner, tile.combination)
        apart = Run(prepared, there, images.box[tile.owner], found.start, found.linear_images)
        assert (found.sizes(0) >= apart.sizes(0) * (1 - 1e-15)).all()
        assert (found._largest(0)[0].max(1) >= apart._largest(0)[0].max(1)).all()
        if found.weighed is not None:
            assert (found.weighed.sums >= apart.top[0].sum(1) * (1 - 1e-14)).all()
