"""Members of the protocols in about twenty lines each, which the library does not have: a tree stump with its own tier,
a black box whose similar people are counted out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from isonomy.attacks import Finds
from isonomy.certificates.protocol import Tier, register
from isonomy.similarity.regions import Similarity
from isonomy_verify.arithmetic import down, up
from isonomy_verify.heads import Head
from isonomy_verify.local import Known


@dataclass(frozen=True)
class Stump:
    """``high`` above the cut in one coordinate, else ``low``: the probability of class 1."""

    column: int
    cut: float
    low: float
    high: float
    input_width: int
    kind: ClassVar[str] = "stump"
    head: ClassVar[str] = "sigmoid"
    name: ClassVar[str] = "a stump"
    classes: ClassVar[int] = 1
    named: ClassVar[tuple[str, ...]] = ()

    def __call__(self, x: Any, /) -> np.ndarray:
        p = np.where(np.asarray(x)[:, self.column] > self.cut, self.high, self.low)
        return np.stack([1 - p, p], axis=1)

    def hash(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


class StumpTier(Tier):
    """On the unbounded domain: can anybody similar stand on the other side of the cut?"""

    is_norm, single_radius = True, True  # it is its own reach, for a ground cost in which every move costs something

    def __init__(self, problem: Any, tier: str, float32: bool) -> None:
        model = problem.model
        self.problem, self.head, self.size, self.model = (
            problem,
            Head("sigmoid", 1, problem.outcome.threshold),
            64,
            model,
        )
        self.jump, self.ground = float(up(abs(model.high - model.low))), None
        cut = 0.5 if problem.outcome.threshold is None else problem.outcome.threshold
        self.turns = (model.high > cut) != (model.low > cut)

    def across(self, x: np.ndarray, extent: np.ndarray) -> np.ndarray:
        place, at = x[:, self.model.column], self.model.cut
        return np.where(place > at, down(place - extent) <= at, up(place + extent) > at)

    def extent(self, who: Similarity, x: np.ndarray) -> np.ndarray:
        return who.regions(x[:1])[0].sets.extent[:, self.model.column]

    def chunk(self, x: np.ndarray) -> Known:
        across = self.across(x, self.extent(self.problem.similarity, x))
        return Known(np.where(across, self.jump, 0.0), ~across | (not self.turns))

    def reach(self, ground: Any) -> Any:
        made = StumpTier(self.problem, "tight", False)
        made.ground = ground
        return made

    def bound(self, x: np.ndarray, radii: Any, tight: bool, size: int) -> np.ndarray:
        near = self.extent(self.problem.similarity, x)
        balls = [Similarity(self.ground, radius, self.problem.domain) for radius in radii]
        across = [self.across(x, up(near + self.extent(ball, x))) for ball in balls]
        return np.where(np.stack(across, axis=1), self.jump, 0.0)

    def everywhere(self, x: np.ndarray) -> tuple[float, float]:
        return self.jump, np.inf

    def attack(self, x: np.ndarray, budget: Any, known: Known | None = None) -> Finds:
        y, at = x.copy(), self.model.cut
        y[:, self.model.column] = np.where(x[:, self.model.column] > at, at, np.nextafter(at, np.inf))
        found = self.problem.metric.similar(x, y, self.problem.delta)
        y = np.where(found[:, None], y, x)
        return Finds(np.where(found, max(0.0, float(down(down(self.jump)))), 0.0), y, found & self.turns, y)

    def nearby(self, x: np.ndarray) -> Any:
        def candidates(rows: np.ndarray, ball: Similarity, budget: Any) -> np.ndarray:
            z, column = np.array(x[rows]), self.model.column
            move = ball.delta * (1 - 1e-9)
            z[:, column] += np.clip(self.model.cut - z[:, column], -move, move)
            return z

        return candidates


@dataclass(frozen=True)
class BlackBox:
    """Any function to the probability of class 1, of which nothing is known but its answers."""

    function: Callable[[np.ndarray], np.ndarray]
    input_width: int
    kind: ClassVar[str] = "black box"
    head: ClassVar[str] = "sigmoid"
    name: ClassVar[str] = "a black box"
    classes: ClassVar[int] = 1
    named: ClassVar[tuple[str, ...]] = ()

    def __call__(self, x: Any, /) -> np.ndarray:
        p = self.function(np.asarray(x))
        return np.stack([1 - p, p], axis=1)

    def hash(self) -> str:
        return hashlib.sha256(self.function.__qualname__.encode()).hexdigest()


class Enumeration(Tier):
    """Where similar people, and people within reach, are finitely many: all of them are asked."""

    is_norm, single_radius = True, True

    def __init__(self, problem: Any, tier: str, float32: bool) -> None:
        self.problem, self.head, self.size, self.balls = (
            problem,
            Head("sigmoid", 1, problem.outcome.threshold),
            64,
            Any,
        )

    def people(self, who: Similarity, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = who.regions(x)
        if any(regions.sets.extent.any() for regions in found):
            raise self.unsupported("bounds where somebody has more than finitely many similar people")
        return tuple(np.concatenate(each) for each in zip(*((r.owner, r.centre) for r in found), strict=True))

    def changes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        owner, y = self.people(self.problem.similarity, x)
        return owner, y, self.problem.model(y)[:, 1] - self.problem.model(x[owner])[:, 1]

    def chunk(self, x: np.ndarray) -> Known:
        owner, y, change = self.changes(x)
        upper, kept, decided = np.zeros(len(x)), np.ones(len(x), dtype=bool), self.problem.model(x)[:, 1] > 0.5
        np.maximum.at(upper, owner, np.where(change == 0, 0.0, up(np.abs(change))))
        kept[owner[(self.problem.model(y)[:, 1] > 0.5) != decided[owner]]] = False
        return Known(upper, kept)

    def reach(self, ground: Any) -> Any:
        made = Enumeration(self.problem, "tight", False)
        free = replace(self.problem.domain, immutable=np.zeros(self.problem.domain.width, dtype=bool))
        made.balls = lambda radius: Similarity(ground, radius, free)
        return made

    def bound(self, x: np.ndarray, radii: Any, tight: bool, size: int) -> np.ndarray:
        worst = np.zeros((len(x), len(radii)))
        for k, radius in enumerate(radii):
            owner, z = self.people(self.balls(radius), x)
            np.maximum.at(worst[:, k], owner, self.chunk(z).upper)
        return worst

    def everywhere(self, x: np.ndarray) -> tuple[float, float]:
        return 1.0, np.inf

    def attack(self, x: np.ndarray, budget: Any, known: Known | None = None) -> Finds:
        lower, best = np.zeros(len(x)), x.copy()
        for row, y, change in zip(*self.changes(x), strict=True):
            similar = self.problem.metric.similar(x[row : row + 1], y[None], self.problem.delta)[0]
            if similar and change and down(abs(change)) > lower[row]:
                lower[row], best[row] = down(abs(change)), y
        turned = (self.problem.model(best)[:, 1] > 0.5) != (self.problem.model(x)[:, 1] > 0.5)
        return Finds(lower, best, turned, best)

    def nearby(self, x: np.ndarray) -> Any:
        def candidates(rows: np.ndarray, ball: Similarity, budget: Any) -> np.ndarray:
            some = np.array(x[rows])
            owner, z = self.people(ball, some)
            best, value = some.copy(), np.full(len(some), -1.0)
            for row, person, worth in zip(owner, z, self.chunk(z).upper, strict=True):
                if worth > value[row] and ball.metric.distance_upper(some[row], person) <= ball.delta:
                    best[row], value[row] = person, worth
            return best

        return candidates


register("stump", StumpTier)
register("black box", Enumeration)
