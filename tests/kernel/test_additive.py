"""Exact differences of additive networks: against enumeration, against people who are drawn, and against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from isonomy.networks import Network
from isonomy_verify.additive import Additive
from isonomy_verify.network import normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.sets import ConvexSets

WIDTH, BENT = 4, 3


class Case:
    """A network of bends on three coordinates of four, and one neuron that reads all and is never cut off."""

    def __init__(self, seed: int, outputs: int = 1, lift: float = 40.0, scale: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        hidden = BENT * 3 + 1
        self.weight, self.bias = np.zeros((hidden, WIDTH)), scale * self.rng.normal(size=hidden) / 2
        for i in range(hidden - 1):
            self.weight[i, i // 3] = self.rng.choice([-1, 1]) * self.rng.uniform(0.5, 2)
        self.weight[-1], self.bias[-1] = self.rng.normal(size=WIDTH), lift * scale
        self.outer, self.last = self.rng.normal(size=(outputs, hidden)), self.rng.normal(size=outputs)
        self.network = normal_form(
            Network.from_layers([self.weight, self.outer], [self.bias, self.last], head="regression").graph.nodes
        )
        self.x = scale * self.rng.normal(size=(3, WIDTH)) / 2

    def __call__(self, y: np.ndarray) -> np.ndarray:
        return np.maximum(y @ self.weight.T + self.bias, 0.0) @ self.outer.T + self.last

    def box(self, most: float) -> ConvexSets:
        low, high = -self.rng.uniform(0, most, (2, 3, WIDTH))
        low[:, 1], high[:, 1] = 0.0, 0.0  # which stands still
        return ConvexSets.of_box(low, -high)

    def ball(self, radius: float) -> ConvexSets:
        root = np.diag(self.rng.uniform(0.5, 2, WIDTH)) @ np.linalg.qr(self.rng.normal(size=(WIDTH, WIDTH)))[0]
        inverse, nothing = np.linalg.inv(root), np.zeros((1, WIDTH))
        extent = (radius * np.linalg.norm(inverse, axis=1) * (1 + 1e-9))[None]
        return ConvexSets(root, 2.0, np.array([radius]), nothing, -extent, extent, (), nothing, inverse, clipped=False)

    def drawn(self, sets: ConvexSets, row: int, count: int = 20_000) -> np.ndarray:
        if not len(sets.root):
            share = self.rng.choice([0.0, 1.0, self.rng.random()], size=(count, WIDTH))
            return np.asarray(sets.low[row] + share * (sets.high[row] - sets.low[row]))
        u = self.rng.normal(size=(count, WIDTH))
        u *= sets.radius[0] * self.rng.random((count, 1)) ** 0.1 / np.linalg.norm(u, axis=1)[:, None]
        return u @ sets.inverse.T


def test_boxes_are_exact() -> None:
    """The largest change is a sum of one-dimensional ones, each at an end or at a bend."""
    for seed in range(8):
        case = Case(seed, outputs=1 + seed % 2)
        sets = case.box(1.0)
        low, high = Additive.of(case.network).differences(case.x, None, sets)  # type: ignore[union-attr]
        for i, x in enumerate(case.x):
            most, least = np.zeros((2, len(case.outer)))
            for j in range(WIDTH):
                bends = -case.bias[:-1] / case.weight[:-1].sum(1) - x[j]
                ends = sets.low[i, j], sets.high[i, j]
                places = np.clip(np.r_[ends, bends[case.weight[:-1, j] != 0]], *ends)
                moved = np.tile(x, (len(places), 1))
                moved[:, j] += places
                change = case(moved) - case(x[None])
                most, least = most + change.max(0), least + change.min(0)
            np.testing.assert_allclose(high[i], most, atol=1e-9)
            np.testing.assert_allclose(low[i], least, atol=1e-9)
            assert (high[i] >= most - 1e-13).all() and (low[i] <= least + 1e-13).all()


@pytest.mark.parametrize("shape", ["box", "ball"])
def test_no_pair_that_is_drawn_lies_outside(shape: str) -> None:
    """One person who moves, and two of whom both move; and the bounds are no looser than without the rule."""
    for seed in range(4):
        case = Case(seed)
        between, near = getattr(case, shape)(0.6), ConvexSets.of_ball(np.ones(WIDTH), 2.0, 0.3)
        model, plain = Preparations(case.network), Preparations(case.network)
        plain.additive = None
        tight, before = (each.enclose(case.x, between, "tight") for each in (model, plain))
        gap, old = (each.compare(case.x, near, between)[0].between for each in (model, plain))
        for ours, theirs in ((tight, before), (gap, old)):
            assert (ours.low >= theirs.low).all() and (ours.high <= theirs.high).all()
        width, other = (float((each.high - each.low).mean()) for each in (gap, old))
        assert width < other, "the difference of two people is where the rule says most"
        for i, x in enumerate(case.x):
            d, z = case.drawn(between, i), case.drawn(near, 0)
            y = case(x + d)[:, 0]
            assert tight.low[i, 0] <= y.min() and y.max() <= tight.high[i, 0]
            change = (case(x + z + d) - case(x + z))[:, 0]
            assert gap.low[i, 0] <= change.min() and change.max() <= gap.high[i, 0]


def test_a_box_with_people_who_move_along_it_is_exact() -> None:
    """Two boxes: the largest summand of each coordinate, on a fine grid and at all bends."""
    case = Case(3)
    near, between = case.box(0.7), case.box(0.5)
    high = Additive.of(case.network).differences(case.x, near, between)[1][:, 0]  # type: ignore[union-attr]
    for i, x in enumerate(case.x):
        total = 0.0
        for j in range(WIDTH):
            z = np.linspace(near.low[i, j], near.high[i, j], 801)
            d = np.linspace(between.low[i, j], between.high[i, j], 401)
            first, second = (np.tile(x, (len(z) * len(d), 1)) for _ in range(2))
            first[:, j] += np.repeat(z, len(d))
            second[:, j] = first[:, j] + np.tile(d, len(z))
            total += (case(second) - case(first)).max()
        assert total - 1e-12 <= high[i] <= total + 0.02


def test_who_else_is_asked_about_changes_nothing_and_no_sign_nothing_said() -> None:
    case = Case(1)
    sets = case.box(0.5)
    model = Additive.of(case.network)
    assert model is not None
    whole, alone = model.differences(case.x, None, sets)[1], model.differences(case.x[1:2], None, sets[1:2])[1]
    np.testing.assert_allclose(alone, whole[1:2], rtol=1e-12)
    cut = Case(1, lift=0.0)
    model = Additive.of(cut.network)
    assert model is not None
    known = model.differences(cut.x, None, sets)[1]
    at = cut.x @ cut.weight[-1] + cut.bias[-1]
    reach = np.maximum(-sets.low, sets.high) @ np.abs(cut.weight[-1])
    assert (np.isfinite(known[:, 0]) == (np.abs(at) > reach)).all() and np.isinf(known).any()
    nothing = ConvexSets.of_box(np.zeros((3, WIDTH)), np.zeros((3, WIDTH)))
    low, high = model.differences(cut.x, None, nothing)
    assert (low <= 0).all() and (high >= 0).all() and (high - low < 1e-9).all(), "nobody moves"
    deep = Network.from_layers([np.eye(2)] * 3, [np.zeros(2)] * 3, head="regression")
    assert Additive.of(normal_form(deep.graph.nodes)) is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e7])
def test_bounds_hold_in_fractions(scale: float) -> None:
    """At the corner that is largest the exact difference of the float network is below the bound."""
    case = Case(5, scale=scale)
    low, high = scale * -np.full((3, WIDTH), 0.25), scale * np.full((3, WIDTH), 0.5)
    bound = Additive.of(case.network).differences(case.x, None, ConvexSets.of_box(low, high))[1][:, 0]  # type: ignore[union-attr]

    def exact(y: np.ndarray) -> Fraction:
        hidden = [
            max(Fraction(0), sum((Fraction(w) * Fraction(v) for w, v in zip(row, y, strict=True)), Fraction(b)))
            for row, b in zip(case.weight.tolist(), case.bias.tolist(), strict=True)
        ]
        return sum((Fraction(v) * h for v, h in zip(case.outer[0].tolist(), hidden, strict=True)), Fraction(0))

    for i, x in enumerate(case.x):
        best = np.array(x)
        for j in range(WIDTH):
            bends = -case.bias[:-1] / case.weight[:-1].sum(1) - x[j]
            ends = low[i, j], high[i, j]
            places = np.clip(np.r_[ends, bends[case.weight[:-1, j] != 0]], *ends)
            moved = np.tile(x, (len(places), 1))
            moved[:, j] += places
            best[j] = moved[case(moved)[:, 0].argmax(), j]
        rise = exact(best.tolist()) - exact(x.tolist())  # type: ignore[arg-type]
        assert rise <= Fraction(bound[i]) <= rise + Fraction(scale + 1e-5) * Fraction(1e-8)
