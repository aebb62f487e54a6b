"""A network as plain numbers: run in float64 and float32, and differentiated, with numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Head = Literal["softmax", "sigmoid", "regression"]
Operation = Literal["input", "affine", "activation", "add", "concat", "select"]
Summation = Literal["product", "forward", "backward"]


@dataclass(frozen=True, eq=False)
class Step:
    """One operation; which fields count depends on it."""

    op: Operation
    inputs: tuple[int, ...] = ()
    width: int = 0
    weight: Array = field(default_factory=lambda: np.zeros((0, 0)))
    bias: Array = field(default_factory=lambda: np.zeros(0))
    kind: str = ""
    parameters: tuple[float, ...] = ()
    index: tuple[int, ...] = ()

    def __str__(self) -> str:
        match self.op:
            case "input":
                return f'Step("input", width={self.width})'
            case "affine":
                numbers = f"weight=np.array({self.weight.tolist()}), bias=np.array({self.bias.tolist()})"
                return f'Step("affine", {self.inputs}, {numbers})'
            case "activation":
                return f'Step("activation", {self.inputs}, kind="{self.kind}", parameters={self.parameters})'
            case "select":
                return f'Step("select", {self.inputs}, index={self.index})'
        return f'Step("{self.op}", {self.inputs})'


@dataclass(frozen=True, eq=False)
class Net:
    """Steps in order, the first the input, the last the raw outputs; and the head that reads them."""

    steps: tuple[Step, ...]
    head: Head

    def __str__(self) -> str:
        steps = "".join(f"    {step},\n" for step in self.steps)
        return f'Net((\n{steps}), "{self.head}")'

    @cached_property
    def widths(self) -> tuple[int, ...]:
        found: list[int] = []
        for step in self.steps:
            read = [found[j] for j in step.inputs]
            match step.op:
                case "input":
                    found.append(step.width)
                case "affine":
                    found.append(len(step.bias))
                case "concat":
                    found.append(sum(read))
                case "select":
                    found.append(len(step.index))
                case _:
                    found.append(read[0])
        return tuple(found)

    @cached_property
    def alive(self) -> Net:
        """The steps that the output depends on."""
        needed = {0, len(self.steps) - 1}
        for i in range(len(self.steps) - 1, -1, -1):
            needed |= set(self.steps[i].inputs) if i in needed else set()
        place = {old: new for new, old in enumerate(sorted(needed))}
        steps = (replace(self.steps[i], inputs=tuple(place[j] for j in self.steps[i].inputs)) for i in place)
        return Net(tuple(steps), self.head)

    @property
    def bare(self) -> bool:
        """Is the input read by anything but affine layers?"""
        return any(0 in step.inputs and step.op != "affine" for step in self.alive.steps)

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Classes ``(c, j)`` whose difference ``z_j - z_c`` is a margin; none where outputs are the margins."""
        k = self.outputs
        if self.head != "softmax":
            return []
        return [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]

    def runs(self, x: Array, dtype: Any = np.float64, summation: Summation = "product") -> list[NDArray[Any]]:
        """Every node at points (k, m), rounded as ``dtype`` rounds, sums in a given order."""
        values: list[NDArray[Any]] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                read = [values[j] for j in step.inputs]
                match step.op:
                    case "input":
                        values.append(x.astype(dtype))
                    case "affine":
                        values.append(_affine(read[0], step.weight.astype(dtype), step.bias.astype(dtype), summation))
                    case "activation":
                        values.append(activation(step, read[0]))
                    case "add":
                        values.append(_total(read))
                    case "concat":
                        values.append(np.concatenate(read, axis=1))
                    case "select":
                        values.append(read[0][:, list(step.index)])
        return values

    def margins(self, x: Array, dtype: Any = np.float64, summation: Summation = "product") -> NDArray[Any]:
        """The numbers that decide, (k, margins)."""
        return self.margins_of(self.runs(x, dtype, summation)[-1])

    def margins_of(self, outputs: NDArray[Any]) -> NDArray[Any]:
        if not self.pairs:
            return outputs
        c, j = map(list, zip(*self.pairs, strict=True))
        with np.errstate(all="ignore"):
            return np.asarray(outputs[:, j] - outputs[:, c])

    def received(self, margins: NDArray[Any]) -> NDArray[Any]:
        """What people receive for given margins (k, margins): one number per class."""
        if self.head == "regression":
            return margins
        with np.errstate(all="ignore"):
            if self.head == "softmax" and self.outputs > 2:
                some = margins.reshape(len(margins), self.outputs, -1)
                return np.asarray(1 / (1 + np.exp(some).sum(axis=2, dtype=margins.dtype)), dtype=margins.dtype)
            return np.asarray(special.expit(margins))

    def gradient(self, x: Array, goal: Array) -> Array:
        """``d(goal · margins)/dx`` at points (k, m) for goals (k, margins); a guide, nothing more."""
        values = self.runs(x)
        back = [np.zeros_like(value) for value in values]
        back[-1] = goal
        if self.pairs:
            back[-1] = np.zeros_like(values[-1])
            for column, (c, j) in enumerate(self.pairs):
                back[-1][:, j] += goal[:, column]
                back[-1][:, c] -= goal[:, column]
        with np.errstate(all="ignore"):
            for i in range(len(self.steps) - 1, 0, -1):
                step, g = self.steps[i], back[i]
                match step.op:
                    case "affine":
                        back[step.inputs[0]] += g @ step.weight
                    case "activation":
                        z = values[step.inputs[0]]
                        h = 1e-6 * (1 + np.abs(z))
                        slope = (activation(step, z + h) - activation(step, z - h)) / (2 * h)
                        back[step.inputs[0]] += g * np.nan_to_num(slope)
                    case "add":
                        for j in step.inputs:
                            back[j] += g
                    case "concat":
                        start = 0
                        for j in step.inputs:
                            back[j] += g[:, start : start + self.widths[j]]
                            start += self.widths[j]
                    case "select":
                        np.add.at(back[step.inputs[0]], (slice(None), list(step.index)), g)
        return np.nan_to_num(back[0], nan=0.0, posinf=1e300, neginf=-1e300)

    def without(self, i: int) -> Net | None:
        """The network with step ``i`` passed over, where its input can stand in for it."""
        step = self.steps[i]
        if step.op == "input" or len(self.steps) < 3 or self.widths[step.inputs[0]] != self.widths[i]:
            return None
        stand = step.inputs[0]
        moved = {j: (stand if j == i else j) - (1 if j > i else 0) for j in range(len(self.steps))}
        steps = [replace(s, inputs=tuple(moved[j] for j in s.inputs)) for k, s in enumerate(self.steps) if k != i]
        return Net(tuple(steps), self.head) if i < len(self.steps) - 1 or stand == i - 1 else None


def _affine(x: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any], summation: Summation) -> NDArray[Any]:
    if summation == "product":
        return np.asarray(x @ weight.T + bias)
    order = range(x.shape[1]) if summation == "forward" else range(x.shape[1] - 1, -1, -1)
    total = np.tile(bias, (len(x), 1)) if summation == "forward" else np.zeros((len(x), len(bias)), dtype=x.dtype)
    for j in order:
        total = total + x[:, j : j + 1] * weight[:, j]
    return np.asarray(total if summation == "forward" else total + bias)


def _total(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    first, *rest = parts
    for part in rest:
        first = first + part
    return first


def activation(step: Step, x: NDArray[Any]) -> NDArray[Any]:
    """An activation in the precision of its argument."""
    number = x.dtype.type
    with np.errstate(all="ignore"):
        found = _FUNCTIONS[step.kind](x, *map(number, step.parameters))
    return np.asarray(found, dtype=x.dtype)


def _softplus(x: Any, beta: Any) -> Any:
    t = beta * x
    return (np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))) / beta


def _gelu_tanh(x: Any) -> Any:
    t = x.dtype.type
    return t(0.5) * x * (1 + np.tanh(t(0.7978845608028654) * (x + t(0.044715) * x * x * x)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, slope: np.where(x >= 0, x, slope * x),
    "prelu": lambda x, *slopes: np.where(x >= 0, x, np.array(slopes, dtype=x.dtype) * x),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "softplus": _softplus,
    "elu": lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: x.dtype.type(0.5) * x * (1 + special.erf(x * x.dtype.type(0.7071067811865476))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * special.expit(x),
    "erf": special.erf,
    "clip": lambda x, low, high: np.clip(x, low, high),
}
KINDS = tuple(_FUNCTIONS)
