"""A member of the protocols that the library does not have: a tree stump with its own tier, in some sixty lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from isonomy.attacks import Finds
from isonomy.certificates.protocol import Tier, register
from isonomy.model import Model
from isonomy.similarity.regions import Similarity
from isonomy_verify.arithmetic import down, up
from isonomy_verify.heads import Head
from isonomy_verify.local import Known


@dataclass(frozen=True)
class Stump(Model):
    """``high`` above the cut in one coordinate, else ``low``: the probability of class 1."""

    column: int
    cut: float
    low: float
    high: float
    width: int
    kind: ClassVar[str] = "stump"
    head: ClassVar[str] = "sigmoid"
    name: ClassVar[str] = "a stump"
    classes: ClassVar[int] = 1
    input_width = property(lambda self: self.width)

    def __call__(self, x: Any, /) -> np.ndarray:
        p = np.where(np.asarray(x)[:, self.column] > self.cut, self.high, self.low)
        return np.stack([1 - p, p], axis=1)

    def hash(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


class StumpTier(Tier):
    """On the unbounded domain: can anybody similar stand on the other side of the cut?"""

    # It is its own reach, for a ground cost in which every move costs something.
    is_norm, single_radius, own_passes = True, True, False

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

    def stands(self, x: np.ndarray, radius: float, margin: float = 0.0, size: int = 1024) -> np.ndarray:
        return np.zeros(len(x), dtype=bool)

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


register("stump", StumpTier)
