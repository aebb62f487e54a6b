"""Good splits of a weight between a ball and a box: hints, of which nothing needs to be right."""

from __future__ import annotations

import math

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.regions import BallBox


class Splitting:
    """Good splits of weights between ball and box, and where the weight is largest, by the alternating direction
    method of multipliers; warm from step to step. Nothing here proves anything.

    ``maximise t·v`` with copies ``w = R v + o`` in the ball and ``p = v`` in the box; ``v`` itself only keeps the sums
    of its blocks. The multiplier of the first copy is the split.
    """

    @np.errstate(all="ignore")
    def __init__(self, region: BallBox) -> None:
        self.region, root = region, region._root
        self.weight = max(float(np.linalg.norm(root)), 1e-100) / math.sqrt(max(root.shape[1], 1))
        square = root.T @ root + self.weight**2 * np.eye(root.shape[1])
        # Of a root whose square overflows there is no hint.
        inner = np.linalg.pinv(square if np.isfinite(square).all() else np.eye(len(square)), hermitian=True)
        sums = np.array(
            [np.isin(np.arange(root.shape[1]), place) for place in region._places if len(place)], dtype=float
        )
        if len(sums):
            inner = inner - inner @ sums.T @ np.linalg.pinv(sums @ inner @ sums.T, hermitian=True) @ sums @ inner
        self.inner = inner
        middle = np.clip(-(region.offset @ region._inverse.T), region._low, region._high)
        self.p = np.broadcast_to(np.where(np.isfinite(middle), middle, 0.0), (region.rows, root.shape[1]))
        self.middle, self.q = self.p, np.zeros_like(self.p)
        self.w = self.p @ root.T + region.offset
        self.split = np.zeros_like(self.w)

    @np.errstate(all="ignore")
    def step(self, t: Array, times: int) -> tuple[Array, Array]:
        """A place (n, columns) in the set, about where ``t·v`` is largest, and a split (n, rows of the root)."""
        region, root, square = self.region, self.region._root, self.weight**2
        radius = np.maximum(region.radius, 1e-100)
        size = (np.linalg.norm(t, axis=1) / (self.weight * radius))[:, None]
        size = np.where(size > 0, size, 1.0)
        mine, box = self.split / size, self.q / size
        for _ in range(times):
            v = (t / size + (self.w - region.offset - mine) @ root + square * (self.p - box)) @ self.inner
            across = v @ root.T + region.offset
            self.w = into_ball(across + mine, region.order, region.radius)
            mine = mine + across - self.w
            self.p = np.clip(v + box, region._low, region._high)
            box = box + v - self.p
        self.split, self.q = mine * size, box * size
        norm = np.linalg.norm(self.p @ root.T + region.offset, region.order, axis=1)
        share = np.minimum(1.0, radius / np.maximum(norm, 1e-300))[:, None]
        return np.nan_to_num(self.middle + share * (self.p - self.middle)), np.nan_to_num(self.split)


def into_ball(w: Array, order: float, radius: Array) -> Array:
    """The nearest point of a ball around 0."""
    if order == math.inf:
        return np.clip(w, -radius[:, None], radius[:, None])
    if order == 2:
        return np.asarray(w * np.minimum(1.0, radius / np.maximum(np.linalg.norm(w, axis=1), 1e-300))[:, None])
    size = np.sort(np.abs(w), axis=1)[:, ::-1]
    excess = (np.cumsum(size, axis=1) - radius[:, None]) / np.arange(1, w.shape[1] + 1)
    cut = np.maximum(np.take_along_axis(excess, np.maximum((size > excess).sum(1) - 1, 0)[:, None], 1), 0.0)
    return np.asarray(np.sign(w) * np.maximum(np.abs(w) - cut, 0.0))
