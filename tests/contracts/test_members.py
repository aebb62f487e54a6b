"""The library's members of every protocol, and the toys, against their contracts; a new one is a short class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.contracts.engine import EngineContract
from tests.contracts.model import ModelContract
from tests.contracts.shift import ReweightingContract, ShiftContract
from tests.contracts.store import StoreContract
from tests.contracts.support_set import WIDTH, SupportSetContract
from tests.contracts.test_toys import CARDS, METRIC, SCHEMA, STUMP, X, black_box, seen
from tests.contracts.tier import TierContract

from isonomy import (
    Counterparts,
    Domain,
    Drift,
    Mahalanobis,
    Marginals,
    Mix,
    Network,
    Part,
    Schema,
    Stability,
    Transport,
    WeightedLp,
)
from isonomy.certificates.protocol import Tier, tier_for
from isonomy.engine import DaskEngine, Engine, LocalEngine
from isonomy.files import FolderStore, Store
from isonomy.population import Feature
from isonomy.problem import Problem
from isonomy_verify.dual import Cells
from isonomy_verify.marginals import Margin
from isonomy_verify.regions import Ball, BallBox, Sum
from isonomy_verify.sets import ConvexSets, region_of


def net(width: int, head: str = "softmax", outputs: int = 2) -> Network:
    rng = np.random.default_rng(8)
    sizes = (width, 7, 5, outputs)
    weights = [rng.normal(size=(n, m)) / np.sqrt(m) * 1.5 for m, n in itertools.pairwise(sizes)]
    return Network.from_layers(weights, [rng.normal(size=n) * 0.3 for n in sizes[1:]], head=head)  # type: ignore[arg-type]


# -- models --


class TestNetwork(ModelContract):
    model = staticmethod(lambda: net(2))
    people = staticmethod(lambda: X)


class TestRegression(ModelContract):
    model = staticmethod(lambda: net(2, "regression", 1))
    people = staticmethod(lambda: X)


class TestStump(ModelContract):
    model = staticmethod(lambda: STUMP)
    people = staticmethod(lambda: X)


class TestBlackBox(ModelContract):
    model = staticmethod(lambda: black_box())
    people = staticmethod(lambda: seen().x)


# -- tiers --


class Numbers(TierContract):
    """A tier of the kernel, for numbers without bounds."""

    name = "tight"
    head, outputs = "softmax", 2

    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        return tier_for(Problem.of(net(2, self.head, self.outputs), METRIC, 0.3), self.name), X[:8]


class TestTight(Numbers): ...


class TestQuick(Numbers):
    name = "quick"


class TestInterval(Numbers):
    name, outputs = "interval", 3


class TestTightNumbers(Numbers):
    head, outputs = "regression", 1


class TestRealizable(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        return tier_for(Problem.of(net(SCHEMA.width), Counterparts.of(SCHEMA), 1.0, schema=SCHEMA)), seen().x[:8]


class TestBoundedMahalanobis(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        features = tuple(Feature(name, low=-1.5, high=1.5, origin=0, unit=1) for name in "ab")
        box = Schema("box", features).domain("relaxed")
        x = np.clip(X[:8], -1.5, 1.5)
        return tier_for(Problem.of(net(2), Mahalanobis(np.array([[2.0, 0.7], [0.7, 1.0]])), 0.4, box)), x


class TestStumpTier(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        return tier_for(Problem.of(STUMP, METRIC, 0.6)), X[:12]


class TestEnumeration(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        return tier_for(Problem.of(black_box(), Counterparts.of(SCHEMA), 1.0, schema=SCHEMA)), seen().x[:8]


# -- shifts --


def transported(some: Cells, order: float, gamma: float) -> float:
    """Masses on cells, at their nearest cost, by HiGHS."""
    n, share = len(some.weights), some.weights / some.weights.sum()
    whose = (np.arange(n)[:, None] == some.owner).astype(float)
    if np.isinf(order) or gamma == 0:
        worst = np.where((some.near < gamma) | ((some.near == gamma) & ~some.open_), some.value, 0.0)
        return float(sum(share[i] * worst[some.owner == i].max() for i in range(n)))
    budget = {} if np.isinf(gamma) else {"A_ub": (some.near**order)[None], "b_ub": [gamma**order]}
    return -float(linprog(-some.value, A_eq=whose, b_eq=share, method="highs", **budget).fun)


class Transported(ShiftContract):
    order, gamma = 1.0, 0.2

    def shift(self) -> Any:  # type: ignore[override]
        return Transport(self.gamma, self.order, WeightedLp(np.ones(3)))

    def truth(self, some: Cells) -> float:  # type: ignore[override]
        return transported(some, self.order, self.gamma)


class TestFirstOrder(Transported): ...


class TestDrift(Transported):
    average = True

    def shift(self) -> Any:
        return Drift({"x1": 3, "x2": "5%"}, self.average, self.gamma).on(Domain.unbounded(3))


class TestDriftOfEverybody(TestDrift):
    average, order = False, np.inf


class TestSecondOrder(Transported):
    order = 2.0


class TestNobodyMoves(Transported):
    gamma = 0.0


class TestAnybodyIsAnybody(Transported):
    gamma = np.inf


class TestNobodyFurther(Transported):
    order, gamma = np.inf, 0.5


class TestParts(ReweightingContract):
    @staticmethod
    def shifts() -> list[Any]:
        return [Part(0.3), Part(0.01), Part(1.0), Part(0.5, strangers=0.1)]


class TestIndices(ReweightingContract):
    @staticmethod
    def shifts() -> list[Any]:
        return [Stability(0.25), Stability(0.0), Stability(3.0, 5), Stability(0.1, 2, strangers=0.2)]


class TestMixes(ReweightingContract):
    @staticmethod
    def shifts() -> list[Any]:
        limits = ((0.1, 0.5), (0.0, 1.0), (0.2, 0.3))
        return [Mix(["sex"]), Mix(["sex", "race"], limits), Mix(["sex"], None, strangers=0.3)]


class TestMargins(ReweightingContract):
    @staticmethod
    def shifts() -> list[Any]:
        known = (Margin("sex", None, (0.3, 0.3, 0.4), (0.0,) * 3), Margin("age", (0.5,), (0.5, 0.5), (0.0, 0.0)))
        return [Marginals(known, residual, tau, 0.1) for residual in (0.0, 0.3, 2.0) for tau in (0.0, 0.1)]

    @staticmethod
    def cells(groups: Any) -> Any:
        return np.stack([groups, 3 + np.arange(40) % 2], axis=1)

    @staticmethod
    def tilted(shift: Any, cells: Any, weights: Any) -> Any:
        return shift.tilted(cells, weights)


# -- sets of moves --

ROOT = np.array([[1.0, 0.2, 0.0, 0.0], [0.0, 1.5, 0.3, 0.0], [0.0, 0.0, 0.8, -0.2], [0.1, 0.0, 0.0, 2.0]])


def in_ball(rng: np.random.Generator, order: float, radius: float, count: int) -> np.ndarray:
    u = rng.normal(size=(count, WIDTH))
    u *= (radius * rng.random((count, 1)) ** 0.25) / np.linalg.norm(u, order, axis=1, keepdims=True)
    return u @ np.linalg.inv(ROOT).T


class OneBall(SupportSetContract):
    order = 2.0

    def region(self) -> Any:  # type: ignore[override]
        return Ball(ROOT, self.order, 0.7)

    def moves(self, rng: np.random.Generator, row: int, count: int) -> np.ndarray:  # type: ignore[override]
        return in_ball(rng, self.order, 0.7, count)


class TestBall(OneBall): ...


class TestDiamond(OneBall):
    order = 1.0


class TestCube(OneBall):
    order = np.inf


LOW = np.array([[-0.3, -1.0, -0.2, 0.0], [-1.0, -0.1, -2.0, -0.4], [0.0, 0.0, 0.0, 0.0]])
HIGH = np.array([[0.4, 0.0, 0.9, 0.3], [1.0, 0.3, 0.0, 0.1], [0.5, 0.0, 0.2, 0.0]])


class TestBoxes(SupportSetContract):
    region = staticmethod(lambda: region_of(ConvexSets.of_box(LOW, HIGH)))
    moves = staticmethod(lambda rng, row, count: rng.uniform(LOW[row], HIGH[row], (count, WIDTH)))


class TestBallsInBoxes(SupportSetContract):
    region = staticmethod(lambda: BallBox(LOW, HIGH, ROOT, 2.0, np.array([0.3, 0.8, 0.2])))

    def moves(self, rng: np.random.Generator, row: int, count: int) -> np.ndarray:  # type: ignore[override]
        v = np.append(rng.uniform(LOW[row], HIGH[row], (40 * count, WIDTH)), np.zeros((1, WIDTH)), axis=0)
        v = np.append(v, v * rng.random((len(v), 1)), axis=0)
        return v[np.linalg.norm(v @ ROOT.T, axis=1) <= [0.3, 0.8, 0.2][row]]


class TestShares(SupportSetContract):
    """Three shares of a block and a number."""

    base = np.array([[0.2, 0.3, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]])

    def region(self) -> Any:  # type: ignore[override]
        low, high = np.full((1, 4), -0.4), np.full((1, 4), 0.4)
        low, high = np.where(np.arange(4) < 3, -self.base, low), np.where(np.arange(4) < 3, 1 - self.base, high)
        return region_of(ConvexSets.of_box(low, high, self.base, ((0, 3),)))

    def moves(self, rng: np.random.Generator, row: int, count: int) -> np.ndarray:  # type: ignore[override]
        shares = rng.dirichlet(np.ones(3), count) - self.base[row, :3]
        return np.hstack([shares, rng.uniform(-0.4, 0.4, (count, 1))])


class TestSum(SupportSetContract):
    """Somebody similar to somebody near."""

    region = staticmethod(lambda: Sum(BallBox(LOW, HIGH), Ball(ROOT, 2.0, 0.7)))

    def moves(self, rng: np.random.Generator, row: int, count: int) -> np.ndarray:  # type: ignore[override]
        return rng.uniform(LOW[row], HIGH[row], (count, WIDTH)) + in_ball(rng, 2.0, 0.7, count)


# -- stores and engines --


class TestFolderStore(StoreContract):
    @staticmethod
    def store(folder: Path, identity: str) -> Store:
        return FolderStore(folder, identity)


class TestLocalEngine(EngineContract):
    @staticmethod
    @contextmanager
    def engine() -> Iterator[Engine]:
        yield LocalEngine()


class TestDaskEngine(EngineContract):
    @staticmethod
    def engine() -> AbstractContextManager[Engine]:
        distributed = pytest.importorskip("distributed")

        @contextmanager
        def opened() -> Iterator[Engine]:
            with distributed.Client(
                processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
            ) as client:
                yield DaskEngine(client)

        return opened()


def test_the_cards_are_all_there_are() -> None:
    assert len(CARDS) == 36 and len(seen()) == 25
