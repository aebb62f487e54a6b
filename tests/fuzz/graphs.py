"""Random networks of every operation in every order, in styles that make one kind of defect visible each.

Where nothing bends a bound must meet the truth up to rounding, so a term that is missing shows (``straight``); with
weights that are orthogonal to what they read only rounding is left (``cancel``), and without layers there is no
rounding that another could hide behind (``bare``); chains of numbers are monotone, so that intervals are exact
(``scalar``); and so on. ``ordinary`` is everything at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .networks import KINDS, Array, Head, Net, Step, activation

Style = Literal[
    "ordinary", "straight", "scalar", "cancel", "bare", "extreme", "chains", "deep", "dead", "perceptron", "hinges",
    "wide",
]  # fmt: skip
STYLES: tuple[Style, ...] = get_args(Style)
STRAIGHT = ("relu", "leaky_relu", "prelu", "clip")
HEADS: tuple[tuple[Head, int], ...] = (
    ("softmax", 2), ("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("sigmoid", 2), ("regression", 1),
    ("regression", 1), ("regression", 2),
)  # fmt: skip


@dataclass
class _Draft:
    """A network in the making, with a run at one point, so that later weights can be chosen for it."""

    rng: np.random.Generator
    style: Style
    x: Array
    steps: list[Step]
    values: list[Array]

    def width(self, i: int) -> int:
        return len(self.values[i])

    def add(self, step: Step) -> int:
        self.steps.append(step)
        read = [self.values[j] for j in step.inputs]
        with np.errstate(all="ignore"):
            self.values.append(np.nan_to_num(_value(step, read)))
        return len(self.steps) - 1

    def affine(self, source: int, width: int, kind: str = "", away: bool = False) -> int:
        """An affine layer; ``kind`` is the activation that will read it, if it is known, and ``away`` from its kink."""
        rng, read = self.rng, self.values[source]
        n = len(read)
        weight = rng.normal(size=(width, n)) / n**0.5 * float(rng.choice([0.5, 1.0, 1.0, 2.0]))
        bias = rng.normal(size=width) * float(rng.choice([0.0, 0.3, 1.0]))
        if rng.random() < 0.1:
            weight = np.round(weight)
        if self.style == "cancel" and rng.random() < 0.8 and np.abs(read).max() > 0:
            weight -= np.outer(weight @ read, read) / (read @ read)
            bias = bias * float(rng.choice([0.0, 1e-12])) if rng.random() < 0.6 else rng.normal(size=width) * 1e6
        elif self.style == "extreme":
            weight, bias = _scaled(rng, weight, bias, read)
        elif self.style == "dead":
            weight[rng.random(width) < 0.3] = 0.0
            weight[:, rng.random(n) < 0.3] = 0.0
            if width > 1 and rng.random() < 0.5:
                weight[-1] = weight[0] * float(rng.choice([1.0, -1.0]))
            bias = np.where(rng.random(width) < 0.3, -50.0, bias)
        elif self.style == "straight" and kind in ("relu", "leaky_relu", "prelu"):
            bias = rng.choice([-1.0, 1.0, 1.0], width) * float(rng.choice([30.0, 3e3])) * (1 + np.abs(read).max())
        hinged = rng.random(width) < {"hinges": 0.8, "chains": 0.6}.get(self.style, 0.05)
        with np.errstate(all="ignore"):
            bias = np.where(hinged, np.nan_to_num(-(weight @ read)), bias)
        if self.style == "hinges":
            bias = bias + np.where(rng.random(width) < 0.5, 0.02 * rng.normal(size=width), 0.0)
        if away:
            bias = rng.choice([-1.0, -1.0, 1.0], width) * 10 * (1 + np.abs(weight @ read))
        return self.add(Step("affine", (source,), weight=weight, bias=bias))

    def activation(self, source: int, kind: str | None = None) -> int:
        kind = self.kind() if kind is None else kind
        return self.add(Step("activation", (source,), kind=kind, parameters=self.parameters(kind, self.width(source))))

    def kind(self) -> str:
        rng = self.rng
        if self.style in ("straight", "cancel", "extreme", "chains", "hinges", "wide") and rng.random() < 0.8:
            return str(rng.choice(STRAIGHT))
        return "relu" if rng.random() < 0.3 else str(rng.choice(KINDS))

    def parameters(self, kind: str, width: int) -> tuple[float, ...]:
        rng = self.rng
        far = self.style == "straight"
        match kind:
            case "leaky_relu":
                return (float(rng.choice([0.01, -0.3, 2.5, 0.0, 1.0, -3.0, rng.normal()])),)
            case "prelu":
                return tuple((2 * rng.normal(size=width)).tolist())
            case "softplus":
                return (float(rng.choice([1.0, 0.05, 30.0])),)
            case "elu":
                return (float(rng.choice([1.0, 0.0, 3.7])),)
            case "clip":
                wide = float(rng.choice([1e3, 1e9])) if far else 1.0
                low, high = -wide * rng.random(), wide * rng.random()
                return [(low, high), (-math.inf, high), (low, math.inf), (0.0, 6.0 * wide)][int(rng.integers(4))]
        return ()

    def recent(self) -> int:
        last = len(self.steps) - 1
        return last if self.rng.random() < 0.7 else int(self.rng.integers(0, last + 1))

    def matched(self, i: int, width: int) -> int:
        """A node of a given width that reads node ``i``."""
        if self.width(i) == width:
            return i
        if self.rng.random() < 0.4:
            return self.add(Step("select", (i,), index=tuple(self.rng.integers(0, self.width(i), width).tolist())))
        return self.affine(i, width)


def draw(rng: np.random.Generator, style: Style, x: Array) -> Net:
    """A network of some style, for individuals about ``x``."""
    draft = _Draft(rng, style, x, [Step("input", width=len(x))], [x])
    head, outputs = HEADS[int(rng.integers(len(HEADS)))]
    if style == "bare":
        return _bare(draft)
    widest = 1 if style == "scalar" else 3 if style == "deep" else 6
    if style == "wide":
        for width in (int(rng.integers(64, 68)), int(rng.integers(3, 8))):
            kind = draft.kind()
            draft.activation(draft.affine(len(draft.steps) - 1, width, kind), kind)
    elif style == "chains" and rng.random() < 0.85:
        # First slopes that are known, and not 1, through two activations or more; then a layer that bends.
        for block in range(int(rng.integers(2, 4))):
            away = block == 0 and bool(rng.random() < 0.85)
            kind = str(rng.choice(["leaky_relu", "prelu"])) if away else draft.kind()
            draft.activation(draft.affine(len(draft.steps) - 1, int(rng.integers(1, 4)), kind, away), kind)
            for _ in range(int(rng.integers(0 if block else 1, 3))):
                draft.activation(len(draft.steps) - 1, "leaky_relu" if away and rng.random() < 0.5 else None)
    elif style == "cancel" and rng.random() < 0.6:
        # Only the rounding of the last layer is left when what it reads is known exactly.
        if rng.random() < 0.6:
            draft.activation(0, str(rng.choice(["relu", "clip"])))
        if rng.random() < 0.3:
            draft.add(Step("select", (len(draft.steps) - 1,), index=tuple(rng.integers(0, len(x), 6).tolist())))
    elif style in ("perceptron", "deep", "scalar", "cancel", "hinges", "straight") and rng.random() < 0.6:
        for _ in range(int(rng.integers(1, 9 if style == "deep" else 4))):
            kind = "relu" if style in ("perceptron", "hinges") else draft.kind()
            draft.affine(len(draft.steps) - 1, int(rng.integers(1, widest + 1)), kind)
            draft.activation(len(draft.steps) - 1, kind)
    else:
        for _ in range(int(rng.integers(1, 12 if style == "deep" else 8))):
            _extend(draft, widest)
    last = len(draft.steps) - 1
    if rng.random() < 0.85 or draft.width(last) != outputs:
        last = draft.affine(last, outputs)
    if rng.random() < 0.12:
        draft.activation(last)
    return Net(tuple(draft.steps), head)


def _bare(draft: _Draft) -> Net:
    """An activation of the input itself, and no layer at all."""
    rng, m = draft.rng, len(draft.x)
    draft.activation(0, "relu" if rng.random() < 0.4 else None)
    match int(rng.integers(5)):
        case 0:
            draft.add(Step("concat", (1, 0)))
        case 1:
            draft.add(Step("add", (1, 0)))
        case 2:
            draft.add(Step("select", (1,), index=tuple(rng.integers(0, m, int(rng.integers(1, 3))).tolist())))
    return Net(tuple(draft.steps), "regression" if rng.random() < 0.7 else "sigmoid")


def _extend(draft: _Draft, widest: int) -> None:
    """One more operation on something that is already there."""
    rng, source = draft.rng, draft.recent()
    weights = [0.35, 0.35, 0.12, 0.08, 0.1]
    if draft.style == "chains":
        weights = [0.2, 0.6, 0.08, 0.04, 0.08]
    match int(rng.choice(5, p=weights)):
        case 0:
            kind = draft.kind()
            made = draft.affine(source, int(rng.integers(1, widest + 1)), kind)
            if rng.random() < 0.5:
                draft.activation(made, kind)
        case 1:
            draft.activation(source)
        case 2:
            width = draft.width(source)
            others = [draft.matched(draft.recent(), width) for _ in range(int(rng.integers(1, 3)))]
            draft.add(Step("add", (source, *others)))
        case 3:
            parts = (source, *(draft.recent() for _ in range(int(rng.integers(1, 3)))))
            if sum(map(draft.width, parts)) <= 2 * widest + 2:
                draft.add(Step("concat", parts))
        case 4:
            index = rng.integers(0, draft.width(source), int(rng.integers(1, widest + 1)))
            draft.add(Step("select", (source,), index=tuple(index.tolist())))


def _scaled(rng: np.random.Generator, weight: Array, bias: Array, read: Array) -> tuple[Array, Array]:
    """Weights and biases of sizes from 1e-160 to 1e150, some of which bring what they read back to about 1."""
    powers = rng.uniform(-160, 150) if rng.random() < 0.4 else float(rng.choice([-12.0, 6.0, 12.0]))
    largest = float(np.abs(read).max())
    with np.errstate(all="ignore"):
        if largest > 0 and rng.random() < 0.5:
            weight = weight * min(max(1 / largest, 1e-160), 1e150)
        elif largest < 1e100:
            weight = weight * 10.0**powers
        if rng.random() < 0.2:
            weight = weight * 10.0 ** rng.uniform(-12, 12, weight.shape)
        if rng.random() < 0.3:
            bias = bias * 10.0 ** rng.uniform(-8, 8)
    return np.nan_to_num(weight), np.nan_to_num(bias)


def _value(step: Step, read: list[Array]) -> Array:
    """One step at given inputs."""
    match step.op:
        case "affine":
            return np.asarray(step.weight @ read[0] + step.bias)
        case "add":
            return np.asarray(np.sum(read, axis=0))
        case "concat":
            return np.concatenate(read)
        case "select":
            return np.asarray(read[0][list(step.index)])
    return np.asarray(activation(step, read[0][None])[0])
