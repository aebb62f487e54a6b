"""Similar people: metrics and domains as plain numbers, drawn, searched, and judged exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from .exact import MEMBERSHIP, norm_at_most, product
from .networks import Array
from .regions import BACK, Region

MetricKind = Literal["lp", "root", "counterparts"]
Space = Literal["unbounded", "relaxed", "realizable"]
RADII = (0.0, 1e-12, 1e-3, 0.05, 0.3, 0.3, 1.0, 4.0)


@dataclass(frozen=True, eq=False)
class People:
    """Individuals ``x`` (n, m), who counts as similar to them, and who counts at all."""

    x: Array
    metric: MetricKind
    delta: float
    space: Space
    order: float  # of the metric "lp"
    weights: Array  # of "lp", or the tolerances of "counterparts"
    root: Array
    free: NDArray[np.bool_]  # of "counterparts"
    relative: Array
    low: Array
    high: Array
    blocks: tuple[tuple[int, int], ...]
    integer: NDArray[np.bool_]
    origin: Array
    unit: Array
    immutable: NDArray[np.bool_]

    def __str__(self) -> str:
        names = ("x", "weights", "root", "free", "relative", "low", "high", "integer", "origin", "unit", "immutable")
        arrays = ", ".join(f"{name}=np.array({getattr(self, name).tolist()})" for name in names)
        rest = ("metric", "delta", "space", "order", "blocks")
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in rest)
        return f"People({arrays}, {numbers})"

    @property
    def width(self) -> int:
        return self.x.shape[1]

    def possible(self, y: Array) -> bool:
        """Does a vector stand for somebody, exactly?"""
        if self.space == "unbounded":
            return bool(np.isfinite(y).all())
        if not ((self.low <= y) & (y <= self.high)).all():
            return False
        for start, stop in self.blocks:
            block = y[start:stop]
            if self.space == "realizable":
                if not np.isin(block, (0.0, 1.0)).all() or (stop - start > 1 and block.sum() != 1):
                    return False
            elif stop - start > 1 and abs(math.fsum(block) - 1) > 1e-10:
                return False
        return self.space == "relaxed" or bool((y == self.snapped(y)).all())

    def snapped(self, y: Array) -> Array:
        whole = (np.rint(y * self.unit + self.origin) - self.origin) / self.unit
        return np.where(self.integer, whole, y)

    def similar(self, x: Array, y: Array) -> bool:
        """Is ``y`` certainly within ``delta`` of ``x``, and the same where nothing may change?"""
        if (x != y)[self.immutable].any():
            return False
        with ctx.workprec(MEMBERSHIP):
            delta = arb(self.delta)
            move = [arb(b) - arb(a) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
            if self.metric == "root":
                return norm_at_most(product(self.root, move), 2.0, delta)
            if self.metric == "counterparts":
                return all(self._counterpart(i, float(x[i]), float(y[i])) for i in range(len(x)))
            weights = [arb(w) for w in self.weights.tolist()]
            if self.order == 2:
                return bool(sum((w * v * v for w, v in zip(weights, move, strict=True)), arb(0)) <= delta * delta)
            return norm_at_most([w * v for w, v in zip(weights, move, strict=True)], self.order, delta)

    def _counterpart(self, i: int, a: float, b: float) -> bool:
        if self.free[i] or a == b:
            return True
        if not self.relative[i]:
            return bool(abs(arb(b) - arb(a)) <= arb(self.delta) * arb(float(self.weights[i])))
        raw = [arb(v) * arb(float(self.unit[i])) + arb(float(self.origin[i])) for v in (a, b)]
        if not (raw[0] > 0 and raw[1] > 0):
            return False
        with ctx.workprec(256):
            return bool(abs(raw[0].log() - raw[1].log()) <= arb(self.delta) * arb(float(self.relative[i])).log1p())

    def reach(self, x: Array) -> Region:
        """About the moves of similar people, categories apart: where to look."""
        m = len(x)
        low, high = self.low - x, self.high - x
        root, order = np.zeros((0, m)), 2.0
        if self.metric == "root":
            root = self.root
        elif self.metric == "lp":
            order = self.order
            scale = np.sqrt(self.weights) if order == 2 else self.weights
            root = np.diag(scale)[scale > 0]
        else:
            tolerance = np.where(self.free, math.inf, self.weights * self.delta)
            raw = x * self.unit + self.origin
            growth = np.abs(raw * np.expm1(self.delta * np.log1p(self.relative))) / self.unit
            tolerance = np.where((self.relative > 0) & ~self.free, growth, tolerance)
            low, high = np.maximum(low, -tolerance), np.minimum(high, tolerance)
        low, high = np.where(self.immutable, 0.0, low), np.where(self.immutable, 0.0, high)
        low, high = np.clip(low, -1e6, 0.0), np.clip(high, 0.0, 1e6)
        zero, none = np.zeros((1, m)), np.zeros((1, len(root)))
        inverse = np.linalg.pinv(root) if len(root) else np.zeros((m, 0))
        return Region(root, order, np.array([self.delta]), none, low[None], high[None], zero, inverse, False, True)

    def member(self, x: Array, proposal: Array, everybody: bool = False) -> Array:
        """Somebody similar to ``x`` (or, for ``everybody``, merely possible), as near to a proposal as is easy."""
        for categories in (proposal, x):
            for share in BACK:
                y = self._shaped(x, proposal - share * (proposal - x), categories, everybody)
                if self.possible(y) and (everybody or self.similar(x, y)):
                    return y
        return x

    def _shaped(self, x: Array, y: Array, categories: Array, everybody: bool) -> Array:
        y = np.nan_to_num(y) if self.space == "unbounded" else np.clip(np.nan_to_num(y), self.low, self.high)
        for start, stop in self.blocks:
            if self.space == "unbounded":
                continue
            if self.space == "realizable":
                block = categories[start:stop]
                y[start:stop] = block > 0.5 if stop - start == 1 else np.arange(stop - start) == block.argmax()
            elif stop - start > 1:
                y[start:stop] = y[start:stop] / y[start:stop].sum() if y[start:stop].sum() > 0 else x[start:stop]
        if self.space == "realizable":
            y = self.snapped(y)
            outside = self.integer & ((y < self.low) | (y > self.high))
            y = np.where(outside, x, y)
        return y if everybody else np.where(self.immutable, x, y)

    def recategorised(self, rng: np.random.Generator, y: Array) -> Array:
        """The same person with some categories drawn again."""
        y = y.copy()
        for start, stop in self.blocks:
            if rng.random() < 0.6:
                y[start:stop] = 0.0
                if stop - start == 1:
                    y[start] = float(rng.integers(2))
                else:
                    y[start + int(rng.integers(stop - start))] = 1.0
        return y

    def anybody(self, rng: np.random.Generator) -> Array:
        """Somebody possible."""
        low, high = np.maximum(self.low, -3.0), np.minimum(self.high, 3.0)
        share = rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()], self.width)
        y = np.clip(low + (high - low) * share, low, high)
        for start, stop in self.blocks:
            y[start:stop] = 0.0
            if stop - start > 1:
                y[start + int(rng.integers(stop - start))] = 1.0
            elif rng.random() < 0.5:
                y[start] = 1.0
        if self.space == "realizable":
            y = self.snapped(y)
            y = np.where(self.integer & ((y < self.low) | (y > self.high)), self.low, y)
        assert self.possible(y), "nobody"
        return y


def draw(rng: np.random.Generator, rows: int, space: Space) -> People:
    """People of a few numbers and categories, and a metric on them."""
    kinds = ["number"] * int(rng.integers(1, 4))
    if space != "unbounded":
        kinds += [str(rng.choice(["number", "whole", "flag", "block"])) for _ in range(int(rng.integers(0, 3)))]
    low, high, integer, origin, unit, blocks = [], [], [], [], [], []
    for kind in kinds:
        if kind == "block":
            size = int(rng.integers(2, 4))
            blocks.append((len(low), len(low) + size))
        else:
            size = 1
            if kind == "flag":
                blocks.append((len(low), len(low) + 1))
        whole = kind == "whole"
        first, scale = (float(rng.integers(0, 5)), float(rng.choice([7.0, 10.0, 1.0]))) if whole else (0.0, 1.0)
        ends = (
            ((0.0 - first) / scale, (12.0 - first) / scale)
            if whole
            else (-1.0, 2.0)
            if kind == "number"
            else (0.0, 1.0)
        )
        for _ in range(size):
            low.append(ends[0])
            high.append(ends[1])
            integer.append(whole)
            origin.append(first)
            unit.append(scale)
    m = len(low)
    infinite = np.full(m, math.inf)
    metric: MetricKind = rng.choice(["lp", "lp", "root", "counterparts"])  # type: ignore[assignment]
    bounded = space != "unbounded"
    weights = rng.uniform(0.3, 3.0, m)
    free = np.zeros(m, dtype=bool)
    if bounded:
        free = rng.random(m) < 0.25
        weights = np.where(free, 0.0, weights)
    rank = max(1, m - int(rng.integers(0, 2))) if bounded else m
    root = rng.normal(size=(rank, m)) + 2 * np.eye(rank, m)
    relative = np.where(rng.random(m) < 0.3, 0.2, 0.0) if metric == "counterparts" else np.zeros(m)
    offset = np.array(origin)
    if relative.any() and space != "realizable":
        offset = np.where(relative > 0, 2.5, offset)  # raw values are then positive
    numbers = ~np.array(integer) & np.array([hi - lo == 3.0 for lo, hi in zip(low, high, strict=True)])
    immutable = numbers & (rng.random(m) < 0.1) if bounded else np.zeros(m, dtype=bool)
    people = People(
        x=np.zeros((0, m)),
        metric=metric,
        delta=float(rng.choice(RADII)),
        space=space,
        order=float(rng.choice([1.0, 2.0, math.inf])),
        weights=weights if metric == "lp" else weights * 0.3,
        root=root,
        free=free,
        relative=np.where(np.array(integer), 0.0, relative),
        low=np.array(low) if bounded else -infinite,
        high=np.array(high) if bounded else infinite,
        blocks=tuple(blocks),
        integer=np.array(integer),
        origin=offset,
        unit=np.array(unit),
        immutable=immutable,
    )
    return replace(people, x=np.stack([people.anybody(rng) for _ in range(rows)]))
