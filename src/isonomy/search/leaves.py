"""Linear programs for parts on which the network is affine: the best multipliers, and the point that attains them.

Problem: maximise ``goal · u`` over a box, blocks that add up to 0, a ball and half-spaces. Balls of order 1 and
infinity are polyhedra. A ball of order 2 is approximated by its tangents: where the solution leaves the ball, the
tangent there is added, and the multipliers of all tangents together are a split of the ball.

**Soundness.** The program gives multipliers and candidates only; its value is not trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize

from isonomy.arithmetic import FloatArray
from isonomy_verify.branching import Hints, Leaves
from isonomy_verify.enclosure import Run, moves
from isonomy_verify.regions import Ball, BallBox, Region

TANGENTS = 40
"""The most tangents added to a ball of order 2."""


class Cut(NamedTuple):
    """A neuron that was cut: its pre-activation ``form · u + constant`` lies between ``low`` and ``high``."""

    layer: int
    column: int
    form: FloatArray
    constant: float
    low: float
    high: float


class Forms(NamedTuple):
    """A leaf as a linear problem: maximise ``goal · u`` over the region, in its own coordinates, within the cuts."""

    goal: FloatArray
    cuts: list[Cut]
    region: Region


@np.errstate(all="ignore")
def bound_by_linear_program(leaves: Leaves, row: int) -> FloatArray | None:
    """Bound one leaf with the multipliers of a linear program; return the move (m,) of its solution, if any."""
    parts = leaves.enclose(np.array([row]))
    forms = _forms(leaves, parts.run, row)
    program = _Program.of(forms)
    try:
        round_ = isinstance(forms.region, Ball) and forms.region.order == 2
        solution = program.dual(forms.goal) if round_ else program.solve(forms.goal)
    except (ValueError, OverflowError, np.linalg.LinAlgError):  # coefficients that overflow make no program
        return None
    count = len(forms.cuts)
    multipliers = [np.zeros((1, width)) for width in leaves.widths]
    for cut, high, low in zip(forms.cuts, solution.prices[:count], solution.prices[count:], strict=True):
        multipliers[cut.layer][0, cut.column] = float(low - high)  # p (z − low) ≥ 0, and q (high − z) ≥ 0
    slopes, _, _ = leaves.hints(parts.rows)
    for split in (None, solution.split[None] if isinstance(forms.region, BallBox) else None):
        leaves.derive(parts, Hints(slopes, [None] * len(slopes), multipliers, split))
    if solution.point is None:
        return None
    return np.asarray(moves(forms.region, solution.point[None], leaves.x.shape[1])[0])


def count_bending(leaves: Leaves, row: int) -> int:
    """Return the number of activations that are not straight over a leaf."""
    count = 0
    for k, layer in enumerate(leaves.prepared.network.layers[:-1]):
        if layer.activation is not None:
            count += int(layer.activation.bends(*leaves.ranges(k, np.array([row]))).sum())
    return count


def _forms(leaves: Leaves, run: Run, row: int) -> Forms:
    """Return pre-activations and goal of a leaf as linear functions of the region's coordinates."""
    rows = np.array([row])
    root = leaves.root[rows]
    matrices: list[FloatArray] = []
    constants: list[FloatArray] = []
    for k, layer in enumerate(run.layers):
        image = run.linear_images[k]
        matrix = np.zeros((layer.width, run.columns)) if image is None else image.matrix
        constant = np.array(run.start[k][0])
        for block in layer.blocks:
            if block.source:
                lines = run.lines[block.source - 1]
                matrix = matrix + (block.weight * lines.slope[0]) @ matrices[block.source - 1]
                middle = lines.slope[0] * constants[block.source - 1] + (lines.above[0] + lines.below[0]) / 2
                constant = constant + block.weight @ middle
        matrices.append(matrix)
        constants.append(constant)
    _, _, cut = leaves.hints(rows)
    cuts = [
        Cut(k, int(j), matrices[k][j], float(constants[k][j]), *(float(end[0, j]) for end in leaves.ranges(k, rows)))
        for k in range(len(leaves.widths)) for j in np.flatnonzero(cut[k][0])
    ]  # fmt: skip
    goal = float(leaves.sign[root[0]]) * matrices[-1][leaves.output[root[0]]]
    return Forms(goal, cuts, run.region)


@dataclass(frozen=True)
class _Solution:
    point: FloatArray | None
    prices: FloatArray  # of the half-spaces
    split: FloatArray  # of the ball


@dataclass
class _Program:
    """``u`` in a box, with ``rows · u ≤ right``, and the ball."""

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
    def of(cls, forms: Forms) -> _Program:
        """Make the program of a leaf's region and cuts: first all upper ends, then all lower ones."""
        width, region = len(forms.goal), forms.region
        rows = np.array([cut.form for cut in forms.cuts]).reshape(len(forms.cuts), width)
        highs = np.array([cut.high - cut.constant for cut in forms.cuts])
        lows = np.array([cut.constant - cut.low for cut in forms.cuts])
        rows, right = np.concatenate([rows, -rows]), np.concatenate([highs, lows])
        right = np.where(np.isfinite(right), right, 1e30)
        if isinstance(region, Ball):
            reach = np.full(width, region.radius)
            no_blocks = np.zeros((0, width)), np.eye(width), np.zeros(width)
            return cls(-reach, reach, rows, right, *no_blocks, region.radius, region.order)
        assert isinstance(region, BallBox)
        columns = region.columns
        sums = np.zeros((len(region.blocks), width))
        for line, (start, stop) in enumerate(region.blocks):
            sums[line] = (columns >= start) & (columns < stop)
        return cls(
            region.low[0, columns], region.high[0, columns], rows, right, sums, region.root[:, columns],
            region.offset[0], float(region.radius[0]), region.order,
        )  # fmt: skip

    @property
    def _polyhedral(self) -> bool:
        return self.order in (1, math.inf)

    def solve(self, goal: FloatArray) -> _Solution:
        """Return the best point and multipliers; where the part is empty no point, and multipliers that prove it."""
        count, size = len(self.rows), len(self.root)
        tangents = np.zeros((0, size))
        if self.order == 2 and size:
            normal = np.linalg.lstsq(self.root.T, goal, rcond=None)[0]
            length = np.linalg.norm(normal)
            tangents = normal[None] / length if length > 0 else tangents
        result, weight = self._run(goal, tangents), 1.0
        point: FloatArray | None = None
        for _ in range(TANGENTS if self.order == 2 and size else 0):
            if result.status != 0:
                break
            point = self._touching(goal, result)
            gap = 1e-10 * (1 + abs(result.fun))
            if point is not None and goal @ point >= -result.fun - gap and self._holds(point):
                break
            points = [result.x[: len(goal)]] if point is None else [result.x[: len(goal)], point]
            normals = [self.offset + self.root @ each for each in points]
            if np.linalg.norm(normals[0]) <= self.radius * (1 + 1e-11):
                point = None
                break
            tangents = np.vstack([tangents, *(normal / np.linalg.norm(normal) for normal in normals)])
            result = self._run(goal, tangents)
        if result.status == 0:
            point = np.asarray(result.x[: len(goal)], dtype=np.float64) if point is None else point
        else:
            point = None
            result = self._run(np.zeros_like(goal), tangents, missing=True)
            if result.status != 0 or result.fun <= 0:
                return _Solution(None, np.zeros(count), np.zeros(size))
            # Missing by at least `fun` times the multipliers: scale until that outweighs the goal over the box.
            reach = np.maximum(np.abs(self.low), np.abs(self.high))
            weight = 4 * (float(np.abs(goal) @ np.where(np.isfinite(reach), reach, 0.0)) + 1.0) / result.fun
        prices = -np.asarray(result.ineqlin.marginals, dtype=np.float64) * weight
        rest = prices[count:]
        split = rest[:size] - rest[size : 2 * size] if self._polyhedral and size else rest[: len(tangents)] @ tangents
        return _Solution(point, prices[:count], split)

    def dual(self, goal: FloatArray) -> _Solution:
        """Return the same over a ball of order 2 alone: ``min over p ≥ 0 of ρ‖goal − rowsᵀp‖ + right·p``, by
        quasi-Newton steps."""
        size = float(np.linalg.norm(goal)) or 1.0
        aim, scale = goal / size, np.maximum(np.linalg.norm(self.rows, axis=1), 1e-300)
        rows, right = self.rows / scale[:, None], self.right / scale

        def value(p: Any) -> Any:
            rest = aim - p @ rows
            length = max(float(np.linalg.norm(rest)), 1e-300)
            return self.radius * length + float(right @ p), right - rows @ rest * (self.radius / length)

        p: FloatArray = np.zeros(len(rows))
        if len(rows):
            options: Any = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-12 * max(self.radius, 1e-300)}
            limits = [(0.0, None)] * len(rows)
            p = minimize(value, p, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
        rest = aim - p @ rows
        point = rest * (self.radius / max(float(np.linalg.norm(rest)), 1e-300))
        return _Solution(point, p / scale * size, np.zeros(0))

    def _touching(self, goal: FloatArray, result: Any) -> FloatArray | None:
        """Return the best point of the ball on the active constraints of a result: if these are right, the solution."""
        width = len(goal)
        pinned = (np.abs(result.lower.marginals[:width]) > 0) | (np.abs(result.upper.marginals[:width]) > 0)
        active = np.abs(result.ineqlin.marginals[: len(self.rows)]) > 0
        constraints = np.vstack([np.eye(width)[pinned], self.rows[active], self.sums])
        free = np.eye(width)
        if len(constraints):
            _, sizes, basis = np.linalg.svd(constraints)
            free = basis[int((sizes > 1e-10 * max(1.0, sizes[0])).sum()) :].T
        if not free.shape[1]:
            return None
        at = np.asarray(result.x[:width], dtype=np.float64)
        back = np.linalg.pinv(self.root @ free)
        at = at - free @ (back @ (self.offset + self.root @ at))
        across = self.offset + self.root @ at
        slack, direction = self.radius**2 - across @ across, (free.T @ goal) @ back
        length = np.linalg.norm(direction)
        if slack <= 0 or length <= 0:
            return None
        return np.asarray(at + free @ (back @ (np.sqrt(slack) * direction / length)), dtype=np.float64)

    def _holds(self, point: FloatArray) -> bool:
        """Return whether a point is nearly in box and half-spaces."""
        inside = (point >= self.low - 1e-9) & (point <= self.high + 1e-9)
        return bool(inside.all() and (self.rows @ point <= self.right + 1e-9).all())

    def _run(self, goal: FloatArray, tangents: FloatArray, missing: bool = False) -> Any:
        """Solve one program; with ``missing`` half-spaces and ball may be violated, by as little as possible."""
        width, size = len(goal), len(self.root)
        extra = size if self.order == 1 else 0
        table = np.zeros((len(self.rows), width + extra + 1))
        table[:, :width], table[:, -1] = self.rows, -1.0
        right = self.right
        if size and self._polyhedral:
            none, eye = np.zeros((size, 1)), np.eye(size)
            if self.order == 1:
                total = np.concatenate([np.zeros(width), np.ones(extra), [-1.0]])
                ball = [np.hstack([self.root, -eye, none]), np.hstack([-self.root, -eye, none]), total]
                ends = [-self.offset, self.offset, [self.radius]]
            else:
                ball = [np.hstack([self.root, none - 1]), np.hstack([-self.root, none - 1])]
                ends = [self.radius - self.offset, self.radius + self.offset]
            table, right = np.vstack([table, *ball]), np.concatenate([right, *ends])
        elif len(tangents):
            more = np.zeros((len(tangents), width + 1))
            more[:, :width], more[:, -1] = tangents @ self.root, -1.0
            table, right = np.vstack([table, more]), np.concatenate([right, self.radius - tangents @ self.offset])
        aim = np.concatenate([-goal, np.zeros(extra), [1.0 if missing else 0.0]])
        limits = [*zip(self.low, self.high, strict=True), *[(0.0, None)] * extra, (0.0, None if missing else 0.0)]
        equal = np.hstack([self.sums, np.zeros((len(self.sums), extra + 1))]) if len(self.sums) else None
        zero = np.zeros(len(self.sums)) if len(self.sums) else None
        return linprog(aim, table, right, equal, zero, limits, method="highs")
