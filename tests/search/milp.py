"""The largest margin of a ReLU network over a box or an l1 ball, by mixed integer programming; no code of the library.

Big-M with bounds from interval arithmetic, solved by HiGHS without a gap; then the signs that it found are fixed and
the linear program is solved again, since a mixed integer solution satisfies its signs only up to a tolerance.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

Layers = list[tuple[np.ndarray, np.ndarray]]


def largest(
    layers: Layers, centre: np.ndarray, radius: float, budget: float | None, row: np.ndarray, room: float = 1e-6
) -> tuple[float, float]:
    """The largest ``row · output`` with ``|x − centre|_∞ ≤ radius`` and, with a budget, ``|x − centre|_1 ≤ budget``.

    What the program says, which is right up to its tolerances, and what its point attains, which is below the truth.
    ``room`` widens the bounds of the big-M form. Variables: x, then (a, h, s) per hidden neuron with ``h = max(a, 0)``
    and ``s`` its sign, then ``|x − centre|`` where there is a budget.
    """
    hidden, width = layers[:-1], len(centre)
    low, high = centre - radius, centre + radius
    count = width + 3 * sum(len(b) for _, b in hidden) + (0 if budget is None else width)
    equal, equal_to, most, most_to = [], [], [], []
    lower, upper, whole = np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count)
    lower[:width], upper[:width] = low, high
    before, at = np.arange(width), width
    bound_low, bound_high = low, high
    binaries: list[int] = []
    for weight, bias in hidden:
        size = len(bias)
        a, h, s = at + np.arange(size), at + size + np.arange(size), at + 2 * size + np.arange(size)
        at += 3 * size
        floor = np.minimum(weight, 0) @ bound_high + np.maximum(weight, 0) @ bound_low + bias - room
        roof = np.maximum(weight, 0) @ bound_high + np.minimum(weight, 0) @ bound_low + bias + room
        lower[a], upper[a], lower[h], upper[h] = floor, roof, 0, np.maximum(roof, 0)
        lower[s], upper[s], whole[s] = 0, 1, 1
        lower[s[floor > 0]], upper[s[roof < 0]] = 1, 0
        binaries += list(s)
        for i in range(size):
            line = np.zeros(count)
            line[a[i]], line[before] = 1, -weight[i]
            equal.append(line), equal_to.append(bias[i])
            if floor[i] > 0:  # h = a
                line = np.zeros(count)
                line[h[i]], line[a[i]] = 1, -1
                equal.append(line), equal_to.append(0.0)
            for entries, right in (
                ({a[i]: 1, h[i]: -1}, 0.0),
                ({h[i]: 1, a[i]: -1, s[i]: -floor[i]}, -floor[i]),
                ({h[i]: 1, s[i]: -roof[i]}, 0.0),
            ):
                if floor[i] <= 0 <= roof[i]:
                    line = np.zeros(count)
                    for column, value in entries.items():
                        line[column] = value
                    most.append(line), most_to.append(right)
        bound_low, bound_high, before = np.maximum(floor, 0), np.maximum(roof, 0), h
    lower[at:], upper[at:] = 0, radius
    if budget is not None:
        for side in (1.0, -1.0):
            for i in range(width):
                line = np.zeros(count)
                line[i], line[at + i] = side, -1
                most.append(line), most_to.append(side * centre[i])
        line = np.zeros(count)
        line[at:] = 1
        most.append(line), most_to.append(budget)
    goal = np.zeros(count)
    goal[before] = -(row @ layers[-1][0])
    constraints = [
        LinearConstraint(np.array(most).reshape(-1, count), ub=np.array(most_to)),
        LinearConstraint(np.array(equal), equal_to, equal_to),
    ]
    if not most:
        constraints = constraints[1:]
    options = {"mip_rel_gap": 0}
    found = milp(goal, constraints=constraints, integrality=whole, bounds=Bounds(lower, upper), options=options)
    if found.status == 4 and room < 1:  # "Solve error": the same problem with more room around it often goes through
        return largest(layers, centre, radius, budget, row, 10 * room)
    assert found.status == 0, found.message
    for column in binaries:
        lower[column] = upper[column] = round(found.x[column])
    limits = list(zip(lower, upper, strict=True))
    precise = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    again = linprog(goal, np.array(most), most_to, np.array(equal), equal_to, limits, method="highs", options=precise)
    assert again.status == 0
    # The point satisfies its constraints up to a tolerance: led back a little, it is one of the set for certain.
    move = np.clip(again.x[:width] - centre, -radius, radius)
    if budget is not None:
        move = move * min(1.0, budget / max(np.abs(move).sum(), 1e-300))
    return float(-again.fun + row @ layers[-1][1]), run(layers, centre + move * (1 - 1e-12), row)


def run(layers: Layers, x: np.ndarray, row: np.ndarray) -> float:
    """``row · output`` at a point."""
    for weight, bias in layers[:-1]:
        x = np.maximum(weight @ x + bias, 0)
    return float(row @ (layers[-1][0] @ x + layers[-1][1]))


def violation(
    layers: Layers, centre: np.ndarray, radius: float, budget: float | None, regression: bool
) -> tuple[float, float]:
    """The largest change of ``sigmoid(z_1 − z_0)``, or of the number, from the centre: as proved, and as attained."""
    row = np.array([1.0]) if regression else np.array([-1.0, 1.0])
    top, bottom = largest(layers, centre, radius, budget, row), largest(layers, centre, radius, budget, -row)

    def received(t: float) -> float:
        return t if regression else float(1 / (1 + np.exp(-t)))

    here = received(run(layers, centre, row))
    proved, attained = (max(received(up) - here, here - received(-down)) for up, down in zip(top, bottom, strict=True))
    return proved, attained
