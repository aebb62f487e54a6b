"""Parts on which the network is affine: a linear program gives the best multipliers and the point that attains them.

Problem: maximise ``aim · v`` over a box, blocks that add up to nothing, a ball and half-spaces. Balls of order 1 are
polyhedra. A ball of order 2 is approached by its tangents: where the solution leaves the ball, the tangent there is
added, and the multipliers of all tangents together are a split of the ball.

**Soundness.** The program is asked for multipliers and for points to look at; nothing that it claims is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.search.frame import Frame, State
from isonomy.sets import ConvexSets

TANGENTS = 40
"""Tangents added to a ball of order 2 before its multipliers are taken as they are."""


def settle(frame: Frame, row: int) -> tuple[float, Tensor | None]:
    """The bound of one part with the multipliers of a linear program, and the move that the program found."""
    part = frame[torch.tensor([row])]
    part = Frame(part.ready, part.goal, part.centre, part.sets, False, part.base, part.state)
    names = part.ready.kinks
    with torch.no_grad():
        aim = _coefficients(part, part.ready.last, part.form(part.state["lean"])[0])[0][0]
        rows, right, where = [np.zeros((0, len(aim)))], [np.zeros(0)], []
        for k in names:
            phase = part.state[f"phase {k}"][0]
            columns = phase.nonzero()[:, 0]
            if len(columns):
                one = torch.zeros(len(columns), len(phase), dtype=torch.float64)
                one[torch.arange(len(columns)), columns] = phase[columns]
                coefficients, constant = _coefficients(part, part.graph.nodes[k].inputs[0], one)
                rows.append(-coefficients)
                right.append(constant + (phase[columns] * part.base[f"point {k}"][0, columns]).numpy())
                where += [(k, int(column)) for column in columns]
        program = _Program.of(part.sets, np.concatenate(rows), np.concatenate(right))
        try:
            with np.errstate(all="ignore"):
                found = program.solve(aim)
        except (ValueError, np.linalg.LinAlgError):  # coefficients that overflow make no program
            return float("inf"), None
        free: State = {"lean": part.state["lean"]}
        free |= {f"beta {k}": torch.zeros_like(part.state[f"beta {k}"]) for k in names}
        for (k, column), multiplier in zip(where, found.multipliers.tolist(), strict=True):
            free[f"beta {k}"][0, column] = max(0.0, multiplier)
        values = [part.bound(free)]
        if (len(found.split) or len(found.levels)) and bool(torch.isfinite(part.sets.extent).all()):
            part.shape.keep = torch.zeros_like(part.sets.low[:1])
            part.shape.levels = torch.from_numpy(found.levels)[None] if len(found.levels) else None
            values.append(part.bound(free | {"turn": torch.from_numpy(found.split)[None]}))
    finite = [float(value[0]) for value in values if not bool(value.isnan())]
    return min(finite, default=float("inf")), None if found.move is None else torch.from_numpy(found.move)


def _coefficients(part: Frame, i: int, rows: Tensor) -> tuple[FloatArray, FloatArray]:
    """Rows of moves of node ``i`` as linear functions of the input's moves."""
    owner = torch.zeros(len(rows), dtype=torch.long)
    coefficients, constant = part.backward.form(i, rows, owner, lambda k: part.lines(k))
    return coefficients.numpy(), constant.numpy()


@dataclass(frozen=True)
class _Found:
    move: FloatArray | None
    multipliers: FloatArray  # of the half-spaces
    split: FloatArray  # of the ball
    levels: FloatArray  # of the blocks


@dataclass
class _Program:
    """``v`` in a box, with ``rows · v ≤ right``, and the ball as ``table · (v, more) ≤ ends``."""

    low: FloatArray
    high: FloatArray
    rows: FloatArray
    right: FloatArray
    sums: FloatArray
    root: FloatArray
    offset: FloatArray
    radius: float
    order: float

    @classmethod
    def of(cls, sets: ConvexSets, rows: FloatArray, right: FloatArray) -> _Program:
        """The first set of a batch, and half-spaces."""
        sums = np.zeros((len(sets.blocks), rows.shape[1]))
        for line, (start, stop) in enumerate(sets.blocks):
            sums[line, start:stop] = 1.0
        low, high, root = sets.low[0].numpy(), sets.high[0].numpy(), sets.root.numpy()
        return cls(low, high, rows, right, sums, root, sets.offset[0].numpy(), float(sets.radius[0]), sets.order)

    def solve(self, aim: FloatArray) -> _Found:
        """The best point and multipliers; without a point when there is none, and then multipliers that show it."""
        count, size = len(self.rows), len(self.root)
        tangents = np.zeros((0, size))
        if self.order == 2 and size:
            pulled = np.linalg.lstsq(self.root.T, aim, rcond=None)[0]
            length = np.linalg.norm(pulled)
            tangents = pulled[None] / length if length > 0 else tangents
        found, weight = self._run(aim, tangents), 1.0
        move: FloatArray | None = None
        for _ in range(TANGENTS if self.order == 2 and size else 0):
            if found.status != 0:
                break
            move = self._touching(aim, found)
            if move is not None and aim @ move >= -found.fun - 1e-10 * (1 + abs(found.fun)) and self._holds(move):
                break
            places = [found.x[: len(aim)]] if move is None else [found.x[: len(aim)], move]
            normals = [self.offset + self.root @ place for place in places]
            if np.linalg.norm(normals[0]) <= self.radius * (1 + 1e-11):
                move = None
                break
            tangents = np.vstack([tangents, *(normal / np.linalg.norm(normal) for normal in normals)])
            found = self._run(aim, tangents)
        if found.status == 0:
            move = np.asarray(found.x[: len(aim)], dtype=np.float64) if move is None else move
        else:
            move = None
            found = self._run(np.zeros_like(aim), tangents, missing=True)
            if found.status != 0 or found.fun <= 0:
                return _Found(None, np.zeros(count), np.zeros(size), np.zeros(len(self.sums)))
            # Missing by at least `fun` times the multipliers: scale until that outweighs the goal over the box.
            reach = np.maximum(np.abs(self.low), np.abs(self.high))
            weight = 4 * (float(np.abs(aim) @ np.where(np.isfinite(reach), reach, 0.0)) + 1.0) / found.fun
        prices = -np.asarray(found.ineqlin.marginals, dtype=np.float64) * weight
        rest = prices[count:]
        split = rest[:size] - rest[size : 2 * size] if self.order == 1 and size else rest @ tangents
        levels = -np.asarray(found.eqlin.marginals, dtype=np.float64) * weight
        return _Found(move, prices[:count], split if size else np.zeros(0), levels)

    def _touching(self, aim: FloatArray, found: Any) -> FloatArray | None:
        """Where the ball is best on the flat on which the solution lies: with the right flat this is the answer."""
        width = len(aim)
        pinned = (np.abs(found.lower.marginals[:width]) > 0) | (np.abs(found.upper.marginals[:width]) > 0)
        busy = np.abs(found.ineqlin.marginals[: len(self.rows)]) > 0
        flat = np.vstack([np.eye(width)[pinned], self.rows[busy], self.sums])
        free = np.eye(width)
        if len(flat):
            _, sizes, turned = np.linalg.svd(flat)
            free = turned[int((sizes > 1e-10 * max(1.0, sizes[0])).sum()) :].T
        if not free.shape[1]:
            return None
        at = np.asarray(found.x[:width], dtype=np.float64)
        back = np.linalg.pinv(self.root @ free)
        at = at - free @ (back @ (self.offset + self.root @ at))
        across = self.offset + self.root @ at
        room, pulled = self.radius**2 - across @ across, (free.T @ aim) @ back
        length = np.linalg.norm(pulled)
        if room <= 0 or length <= 0:
            return None
        return np.asarray(at + free @ (back @ (np.sqrt(room) * pulled / length)), dtype=np.float64)

    def _holds(self, move: FloatArray) -> bool:
        """Does a point keep to box and half-spaces, nearly?"""
        inside = (move >= self.low - 1e-9) & (move <= self.high + 1e-9)
        return bool(inside.all() and (self.rows @ move <= self.right + 1e-9).all())

    def _run(self, aim: FloatArray, tangents: FloatArray, missing: bool = False) -> Any:
        """One program; with ``missing`` half-spaces and ball may be missed, by as little as possible."""
        width, size = len(aim), len(self.root)
        extra = size if self.order == 1 else 0
        table = np.zeros((len(self.rows), width + extra + 1))
        table[:, :width], table[:, -1] = self.rows, -1.0
        right = self.right
        if extra:
            none, eye = np.zeros((extra, 1)), np.eye(extra)
            total = np.concatenate([np.zeros(width), np.ones(extra), [-1.0]])
            table = np.vstack([table, np.hstack([self.root, -eye, none]), np.hstack([-self.root, -eye, none]), total])
            right = np.concatenate([right, -self.offset, self.offset, [self.radius]])
        elif len(tangents):
            more = np.zeros((len(tangents), width + 1))
            more[:, :width], more[:, -1] = tangents @ self.root, -1.0
            table, right = np.vstack([table, more]), np.concatenate([right, self.radius - tangents @ self.offset])
        goal = np.concatenate([-aim, np.zeros(extra), [1.0 if missing else 0.0]])
        limits = [*zip(self.low, self.high, strict=True), *[(0.0, None)] * extra, (0.0, None if missing else 0.0)]
        equal = np.hstack([self.sums, np.zeros((len(self.sums), extra + 1))]) if len(self.sums) else None
        zero = np.zeros(len(self.sums)) if len(self.sums) else None
        return linprog(goal, table, right, equal, zero, limits, method="highs")
