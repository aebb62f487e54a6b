"""Sets of moves around several centres: drawn, searched, and their membership judged exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from flint import arb, ctx

from .exact import MEMBERSHIP, norm_at_most, product
from .networks import Array

Shape = Literal["box", "one-sided box", "ball", "ellipsoid", "clipped", "singular", "flip", "flip ball"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
SYMMETRIC: tuple[Shape, ...] = ("box", "ball", "ball", "ellipsoid", "ellipsoid", "clipped", "singular")
BACK = (0.0, 2.0**-53, 2.0**-51, 2.0**-48, 2.0**-44, 2.0**-38, 2.0**-30, 2.0**-20, 1e-3, 0.1, 0.5, 1.0)
"""By which shares a proposal is led back to a member until it is one itself."""


@dataclass(frozen=True, eq=False)
class Region:
    """For each row the moves ``v`` with ``|offset + root v| <= radius`` and ``low <= v <= high``.

    ``inside`` are members. ``shared`` says that all rows are the same, ``clipped`` whether the box holds anything back.
    """

    root: Array  # (r, m)
    order: float
    radius: Array  # (n,)
    offset: Array  # (n, r)
    low: Array  # (n, m)
    high: Array  # (n, m)
    inside: Array  # (n, m)
    inverse: Array  # (m, r)
    shared: bool
    clipped: bool

    def __str__(self) -> str:
        names = ("root", "radius", "offset", "low", "high", "inside", "inverse")
        arrays = ", ".join(f"{name}=np.array({getattr(self, name).tolist()})" for name in names)
        reshaped = arrays.replace("root=np.array([])", f"root=np.zeros({self.root.shape})")
        return f"Region({reshaped}, order={self.order}, shared={self.shared}, clipped={self.clipped})"

    def contains(self, row: int, move: Array) -> bool:
        """Is this exactly a member?"""
        if not ((self.low[row] <= move) & (move <= self.high[row])).all():
            return False
        if not len(self.root):
            return True
        with ctx.workprec(MEMBERSHIP):
            turned = product(self.root, [arb(v) for v in move.tolist()])
            vector = [arb(o) + t for o, t in zip(self.offset[row].tolist(), turned, strict=True)]
            return norm_at_most(vector, self.order, arb(float(self.radius[row])))

    def member(self, row: int, proposal: Array) -> Array:
        """The proposal, led back towards a known member as far as it needs to be."""
        inside = self.inside[row]
        proposal = np.clip(np.nan_to_num(proposal), self.low[row], self.high[row])
        for share in BACK:
            move = proposal - share * (proposal - inside)
            if self.contains(row, move):
                return np.asarray(move)
        assert self.contains(row, inside), "the known member is none"
        return inside

    def outermost(self, row: int, direction: Array) -> Array:
        """Proposals (k, m) that are far out along directions (k, m)."""
        low, high = self.low[row], self.high[row]
        if not len(self.root):
            return np.where(direction > 0, high, np.where(direction < 0, low, self.inside[row]))
        size = np.abs(direction).max(axis=1, keepdims=True)
        direction = direction / np.where(size > 0, size, 1.0)
        turned = direction @ self.inverse
        if self.order == math.inf:
            turned = np.sign(turned)
        elif self.order == 1:
            best = np.abs(turned).argmax(axis=1)
            turned = np.where(np.arange(turned.shape[1]) == best[:, None], np.sign(turned), 0.0)
        size = np.linalg.norm(turned, self.order, axis=1, keepdims=True)
        turned = self.radius[row] * turned / np.where(size > 0, size, 1.0) - self.offset[row]
        ball = turned @ self.inverse.T
        # What the ball leaves free goes to the end of the box.
        ruled = self.root.any(axis=0)
        corner = np.where(direction > 0, high, low)
        return np.clip(np.where(ruled, ball, corner), low, high)


def draw(rng: np.random.Generator, shape: Shape, rows: int, width: int, radius: float) -> Region:
    """A region of some shape and size for every row."""
    order = float(rng.choice([1.0, 2.0, 2.0, math.inf]))
    shared = shape in ("ball", "ellipsoid")
    radii = np.full(rows, radius) if shared else radius * rng.choice([1.0, 1.0, 0.5, 0.1], rows)
    zero = np.zeros((rows, width))
    if shape in ("box", "one-sided box", "flip"):
        low, high = -radii[:, None] * rng.random((rows, width)), radii[:, None] * rng.random((rows, width))
        still = rng.random((rows, width)) < 0.15
        low[still] = high[still] = 0.0
        if shape == "one-sided box":
            low = np.where(rng.random((rows, width)) < 0.5, 0.0, low)
        inside = zero
        if shape == "flip":
            inside = rng.choice([-1.0, 0.0, 0.5, 1.0], (rows, width))
            low, high = inside + low, inside + high
            inside = np.clip(inside, low, high)
        none = np.zeros((0, width))
        return Region(none, 2.0, np.zeros(rows), np.zeros((rows, 0)), low, high, inside, none.T, False, True)
    if shape in ("ball", "clipped"):
        scale = rng.uniform(0.3, 3.0, width) if rng.random() < 0.7 else np.ones(width)
        root, inverse = np.diag(scale), np.diag(1 / scale)
    else:
        rank = max(1, width - int(rng.integers(1, width + 1))) if shape == "singular" else width
        root = rng.normal(size=(rank, width)) + 2 * np.eye(rank, width)
        inverse = np.linalg.pinv(root)
        if shape == "singular" and rng.random() < 0.5:
            root[:, -1] = 0.0
            inverse = np.linalg.pinv(root)
    offset, inside = np.zeros((rows, len(root))), zero
    size = np.linalg.norm(inverse, {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[order], axis=1)
    high = np.outer(radii, size) * (1 + 1e-12) + 1e-300
    low = -high
    if shape in ("clipped", "singular"):
        reach = radii[:, None] if radius else 0.1
        low, high = -reach * rng.uniform(0, 1.5, (rows, width)), reach * rng.uniform(0, 1.5, (rows, width))
        at_edge = rng.random((rows, width)) < 0.2
        low = np.where(at_edge, 0.0, low)
    if shape == "flip ball":
        inside = rng.choice([-1.0, 0.0, 1.0], (rows, width))
        offset = -inside @ root.T
        room = 1e-13 * np.abs(root).sum()  # the offset is rounded, so the middle may be a little off
        radii = radii + room
        low, high = inside + low - 1e-12, inside + high + 1e-12
    return Region(root, order, radii, offset, low, high, inside, inverse, shared, not shared)


def smaller(region: Region, share: float) -> Region:
    """The part of a region around no move at all, for regions that hold it."""
    assert not region.inside.any()
    parts = (region.radius * share, region.offset, region.low * share, region.high * share, region.inside)
    return Region(region.root, region.order, *parts, region.inverse, region.shared, region.clipped)
