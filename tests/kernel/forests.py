"""Random tree ensembles and domains, and what they do by exact arithmetic, person by person."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.trees import Trees


class Case(NamedTuple):
    """A domain, trees on it and people."""

    domain: Domain
    trees: Trees
    x: Array


def domain_of(rng: np.random.Generator, numbers: int = 2, whole: int = 1, missing: int = 1) -> Domain:
    """A realizable domain: real numbers, whole numbers, numbers that may be missing, a flag and two blocks."""
    low, high, integer, origin, unit, blocks, fills, names = [], [], [], [], [], [], [], []

    def put(name: str, a: float, b: float, is_whole: bool = False, o: float = 0.0, u: float = 1.0) -> int:
        for values, value in zip((low, high, integer, origin, unit, names), (a, b, is_whole, o, u, name), strict=True):
            values.append(value)
        return len(names) - 1

    for i in range(numbers):
        put(f"real{i}", -1.0, 1.0)
    for i in range(whole + missing):
        o, u = float(rng.integers(-3, 4)), float(rng.choice([1.0, 3.0, 7.5]))
        j = put(f"whole{i}", (0 - o) / u, (9 - o) / u, True, o, u)
        if i >= whole:
            flag = put(f"missing{i}", 0.0, 1.0)
            blocks.append((flag, flag + 1))
            fills.append((flag, j, (float(rng.integers(0, 10)) - o) / u))
    flag = put("flag", 0.0, 1.0)
    blocks.append((flag, flag + 1))
    for width in (3, 4):
        start = len(names)
        for c in range(width):
            put(f"block{width}={c}", 0.0, 1.0)
        blocks.append((start, start + width))
    none = np.zeros(len(names), dtype=bool)
    return Domain(
        "realizable", np.array(low), np.array(high), tuple(blocks), np.array(integer), np.array(origin),
        np.array(unit), none, tuple(names), tuple(fills),
    )  # fmt: skip


def people_of(rng: np.random.Generator, domain: Domain, n: int) -> Array:
    """Members of a domain."""
    x = rng.uniform(-1, 1, (n, domain.width))
    for j in np.flatnonzero(domain.integer):
        x[:, j] = (rng.integers(0, 10, n) - domain.origin[j]) / domain.unit[j]
    for start, stop in domain.blocks:
        x[:, start:stop] = 0.0
        if stop - start == 1:
            x[:, start] = rng.integers(0, 2, n)
        else:
            x[np.arange(n), start + rng.integers(0, stop - start, n)] = 1.0
    return domain.filled(x)


def trees_of(
    rng: np.random.Generator, domain: Domain, trees: int, depth: int, outputs: int = 1, vector: bool = False
) -> Trees:
    """Random trees: thresholds on lattice points and between, sets of categories, all sides for missing values."""
    rows: list[list[float]] = []
    values: list[list[float]] = []
    masks: list[list[bool]] = []
    starts = {start: max(2, stop - start) for start, stop in domain.blocks}
    columns = outputs if vector else 1

    def grow(level: int) -> int:
        me = len(rows)
        rows.append([-1, 0.0, -1, 0, -1, -1])
        values.append(rng.normal(size=columns).round(int(rng.integers(1, 17))).tolist())
        if level == depth or rng.random() < 0.1:
            return me
        values[me] = [0.0] * columns
        j = int(rng.choice([*np.flatnonzero(domain.numeric), *starts]))
        threshold, category = 0.0, -1
        if j in starts:
            category = len(masks)
            masks.append([bool(b) for b in rng.integers(0, 2, 4)])
        elif domain.integer[j]:
            point = (float(rng.integers(-1, 11)) - domain.origin[j]) / domain.unit[j]
            threshold = float(rng.choice([point, np.nextafter(point, 9), np.nextafter(point, -9), point + 0.03]))
        else:
            threshold = round(float(rng.uniform(-1, 1)), int(rng.integers(1, 9)))
        left, right = grow(level + 1), grow(level + 1)
        rows[me] = [j, threshold, category, int(rng.integers(0, 3)), left, right]
        return me

    roots = [grow(0) for _ in range(trees)]
    table = np.array(rows, dtype=np.float64)
    whole = table.astype(np.int64)
    output = np.full(trees, -1) if vector and outputs > 1 else rng.integers(0, outputs, trees)
    return Trees(
        whole[:, 0], table[:, 1], whole[:, 2], np.array(masks or [[False] * 4]), whole[:, 3], whole[:, 4], whole[:, 5],
        np.array(roots), output, np.array(values), rng.normal(size=outputs), np.zeros(outputs),
    )  # fmt: skip


def exact_outputs(trees: Trees, domain: Domain, y: Array) -> list[Fraction]:
    """The outputs of one person, leaf by leaf."""
    flags = {value: flag for flag, value, _ in domain.fills}
    widths = {start: stop - start for start, stop in domain.blocks}
    total = [Fraction(float(b)) for b in trees.base]
    for root, output in zip(trees.roots, trees.output, strict=True):
        node = int(root)
        while (j := int(trees.coordinate[node])) >= 0:
            if trees.category[node] >= 0:
                state = int(y[j]) if widths[j] == 1 else int(np.argmax(y[j : j + widths[j]]))
                left = bool(trees.masks[trees.category[node], state])
            else:
                left = bool(y[j] <= trees.threshold[node])
                if j in flags and y[flags[j]] == 1.0 and trees.missing[node]:
                    left = trees.missing[node] == 1
            node = int(trees.left[node] if left else trees.right[node])
        for o in range(trees.outputs) if output < 0 else [int(output)]:
            total[o] += Fraction(float(trees.values[node, o if output < 0 else 0]))
    return total


def candidates(trees: Trees, domain: Domain, x: Array) -> list[Array]:
    """Values per coordinate that reach every cell; whole numbers are all there."""
    values = []
    for j in range(domain.width):
        if domain.integer[j]:
            values.append((np.arange(10) - domain.origin[j]) / domain.unit[j])
        elif domain.numeric[j]:
            t = np.unique(trees.threshold[(trees.coordinate == j) & (trees.category < 0)])
            values.append(np.unique(np.concatenate([[x[j]], t, np.nextafter(t, 9)])))
        else:
            values.append(np.array([0.0, 1.0]))
    return values


def similar_people(form: Form, delta: float, domain: Domain, trees: Trees, x: Array) -> Array:
    """Everybody similar, a person for each cell at least, by distances of candidates."""
    flags = {value: flag for flag, value, _ in domain.fills}
    free = form.free
    axes: list[list[dict[int, float]]] = []
    options = candidates(trees, domain, x)
    low, high = form.box(x[None], delta)
    for j in np.flatnonzero(domain.numeric).tolist():
        # Where a real number's cell is only reached up to an end of the box, that end is a candidate as well.
        ends = [] if domain.integer[j] or free[j] else [x[j] + low[0, j], x[j] + high[0, j]]
        mine = [{j: float(v)} for v in [*options[j].tolist(), *ends] if domain.low[j] <= v <= domain.high[j]]
        if j in flags:
            fill = next(f for _, v, f in domain.fills if v == j)
            mine = [{**each, flags[j]: 0.0} for each in mine] + [{j: fill, flags[j]: 1.0}]
        axes.append(mine)
    for start, stop in domain.blocks:
        if start in flags.values():
            continue
        width = stop - start
        if width == 1:
            axes.append([{start: 0.0}, {start: 1.0}])
        else:
            axes.append([{start + c: float(c == s) for c in range(width)} for s in range(width)])
    # Coordinates that the box holds apart are dropped at once, and so few are combined.
    for k, choices in enumerate(axes):
        axes[k] = [c for c in choices if all(_within(form, delta, x, j, v) for j, v in c.items())]
    y = np.repeat(x[None], int(np.prod([len(choices) for choices in axes])), axis=0)
    for choices, index in zip(axes, np.indices([len(c) for c in axes]).reshape(len(axes), -1), strict=True):
        for j in choices[0] if choices else ():
            y[:, j] = np.array([choice[j] for choice in choices])[index]
    moved = np.abs((y - x) @ form.root.T)
    size = {1.0: moved.sum(1), 2.0: np.sqrt((moved**2).sum(1)), math.inf: moved.max(1, initial=0.0)}[form.order]
    assert not (np.abs(size - delta) < 1e-9).any() or not len(form.root), "a person on the edge of the ball"
    return y[size <= delta] if len(form.root) else y


def _within(form: Form, delta: float, x: Array, j: int, v: float) -> bool:
    return bool(form.free[j]) or bool(abs(v - x[j]) <= delta * form.tolerance[j] * (1 + 1e-12) + 1e-15)


def outputs_of(trees: Trees, domain: Domain, y: Array) -> Array:
    """The outputs (n, outputs) of people, in floats: to see who has the least and who the greatest."""
    flags = {value: flag for flag, value, _ in domain.fills}
    widths = {start: stop - start for start, stop in domain.blocks}
    total = np.tile(trees.base, (len(y), 1))

    def add(node: int, rows: Array, output: int) -> None:
        j = int(trees.coordinate[node])
        if j < 0:
            if output < 0:
                total[rows] += trees.values[node]
            else:
                total[rows, output] += trees.values[node, 0]
            return
        if trees.category[node] >= 0:
            state = y[rows, j].astype(int) if widths[j] == 1 else y[rows, j : j + widths[j]].argmax(1)
            left = trees.masks[trees.category[node], state]
        else:
            left = y[rows, j] <= trees.threshold[node]
            if j in flags and trees.missing[node]:
                left = np.where(y[rows, flags[j]] == 1.0, trees.missing[node] == 1, left)
        add(int(trees.left[node]), rows[left], output)
        add(int(trees.right[node]), rows[~left], output)

    for root, output in zip(trees.roots, trees.output, strict=True):
        add(int(root), np.arange(len(y)), int(output))
    return total


def form_of(domain: Domain, root: Array, order: float, tolerance: Array | None) -> Form:
    """A metric of a root and, where a tolerance is finite, of single coordinates."""
    m = domain.width
    tolerance = np.full(m, math.inf) if tolerance is None else tolerance
    free = np.isinf(tolerance)
    finite = np.where(free, 0.0, tolerance)
    return Form(root, order, free, finite, np.zeros(m), np.zeros(m), np.ones(m))
