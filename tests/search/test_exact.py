"""Branch and bound against an independent mixed integer program (scipy's HiGHS), and at any time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from isonomy.networks.network import Network
from isonomy.search import Exact, Limits
from isonomy.sets import ConvexSets
from isonomy.similarity.regions import Regions

Layers = list[tuple[np.ndarray, np.ndarray]]


def network_of(seed: int, sizes: list[int]) -> tuple[Network, Layers]:
    rng = np.random.default_rng(seed)
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    layers = [(rng.normal(size=shape) * 1.4 / shape[1] ** 0.5, 0.3 * rng.normal(size=shape[0])) for shape in shapes]
    return Network.from_layers([w for w, _ in layers], [b for _, b in layers]), layers


def by_milp(
    layers: Layers, low: np.ndarray, high: np.ndarray, centre: np.ndarray, budget: float | None, sign: float
) -> float:
    """The largest ``sign · (z₁ − z₀)`` by big-M, then with the signs fixed and the linear program solved again.

    Variables: x, then (a, h, s) per hidden neuron with ``h = max(a, 0)`` and ``s`` its sign, then ``|x − centre|``.
    """
    hidden, width = layers[:-1], len(low)
    count = width + 3 * sum(len(b) for _, b in hidden) + width
    equal, equal_to, most, most_to = [], [], [], []
    lower, upper, whole = np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count)
    lower[:width], upper[:width] = low, high
    before, at = np.arange(width), width
    bound_low, bound_high = low, high
    binaries = []
    for weight, bias in hidden:
        size = len(bias)
        a, h, s = at + np.arange(size), at + size + np.arange(size), at + 2 * size + np.arange(size)
        at += 3 * size
        floor = np.minimum(weight, 0) @ bound_high + np.maximum(weight, 0) @ bound_low + bias - 1e-6
        roof = np.maximum(weight, 0) @ bound_high + np.minimum(weight, 0) @ bound_low + bias + 1e-6
        lower[h], lower[s], upper[s], whole[s] = 0, 0, 1, 1
        binaries += list(s)
        for i in range(size):
            row = np.zeros(count)
            row[a[i]], row[before] = 1, -weight[i]
            equal.append(row), equal_to.append(bias[i])
            for entries, right in (
                ({a[i]: 1, h[i]: -1}, 0.0),
                ({h[i]: 1, a[i]: -1, s[i]: -floor[i]}, -floor[i]),
                ({h[i]: 1, s[i]: -max(roof[i], 0)}, 0.0),
            ):
                row = np.zeros(count)
                for column, value in entries.items():
                    row[column] = value
                most.append(row), most_to.append(right)
        bound_low, bound_high, before = np.maximum(floor, 0), np.maximum(roof, 0), h
    if budget is not None:
        for side in (1.0, -1.0):
            for i in range(width):
                row = np.zeros(count)
                row[i], row[at + i] = side, -1
                most.append(row), most_to.append(side * centre[i])
        row = np.zeros(count)
        row[at : at + width] = 1
        most.append(row), most_to.append(budget)
    last = layers[-1][0][1] - layers[-1][0][0]
    goal = np.zeros(count)
    goal[before] = -sign * last
    constraints = [
        LinearConstraint(np.array(most), ub=np.array(most_to)),
        LinearConstraint(np.array(equal), equal_to, equal_to),
    ]
    options = {"mip_rel_gap": 0}
    found = milp(goal, constraints=constraints, integrality=whole, bounds=Bounds(lower, upper), options=options)
    assert found.status == 0
    for column in binaries:
        lower[column] = upper[column] = round(found.x[column])
    limits = list(zip(lower, upper, strict=True))
    again = linprog(goal, np.array(most), most_to, np.array(equal), equal_to, limits, method="highs")
    assert again.status == 0
    return float(-again.fun + sign * (layers[-1][1][1] - layers[-1][1][0]))


def regions_of(centre: np.ndarray, radius: float, budget: float | None) -> Regions:
    rows, width = centre.shape
    low = torch.full((rows, width), -radius, dtype=torch.float64)
    if budget is None:
        return Regions(np.arange(rows), torch.from_numpy(centre), ConvexSets.of_box(low, -low))
    eye = torch.eye(width, dtype=torch.float64)
    sets = ConvexSets(
        root=eye,
        order=1.0,
        radius=torch.full((rows,), budget, dtype=torch.float64),
        offset=torch.zeros(1, width, dtype=torch.float64),
        low=low,
        high=-low,
        blocks=(),
        base=torch.zeros(1, width, dtype=torch.float64),
        inverse=eye,
    )
    return Regions(np.arange(rows), torch.from_numpy(centre), sets)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("budget", [None, 0.5])
@pytest.mark.parametrize("sizes", [[3, 8, 8, 2], [4, 16, 2], [2, 6, 6, 6, 2]])
def test_it_meets_a_mixed_integer_program(sizes: list[int], budget: float | None, sign: float) -> None:
    network, layers = network_of(len(sizes), sizes)
    rng = np.random.default_rng(7)
    centre, radius = rng.normal(size=(2, sizes[0])), 0.4
    best = network.margins.evaluate(torch.from_numpy(centre))[:, 0] * sign

    def consider(region: int, y: torch.Tensor) -> float:
        assert (np.abs(y.numpy() - centre[region]) <= radius + 1e-9).all()
        value = sign * network.margins.evaluate(y[None])[0, 0].item()
        best[region] = max(best[region].item(), value)
        return value

    upper = Exact(network.margins).maximise(regions_of(centre, radius, budget), 0, sign, best, Limits(), consider)
    for row in range(2):
        truth = by_milp(layers, centre[row] - radius, centre[row] + radius, centre[row], budget, sign)
        assert upper[row].item() == pytest.approx(truth, abs=1e-6)
        assert best[row].item() == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
def test_it_is_a_bound_at_any_time(seconds: float) -> None:
    network, _ = network_of(1, [4, 24, 24, 2])
    rng = np.random.default_rng(5)
    centre, radius = rng.normal(size=(6, 4)), 0.5
    reached = torch.full((6,), -torch.inf, dtype=torch.float64)
    upper = Exact(network.margins).maximise(regions_of(centre, radius, None), 0, 1.0, reached, Limits(seconds=seconds))
    points = centre[:, None] + radius * rng.choice([-1.0, 1.0, 0.3], size=(6, 2000, 4))
    values = network.margins.evaluate(torch.from_numpy(points.reshape(-1, 4))).reshape(6, 2000)
    assert (values.max(1).values <= upper).all()
