"""Random graphs for the kernel: small, of every operation, with weights of many scales."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from isonomy_verify.activations import Activation
from isonomy_verify.network import Node

from .truth import ACTIVATIONS


def activation(rng: np.random.Generator, width: int) -> Activation:
    """Any kind that is known."""
    found = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    if found.kind == "prelu":
        return Activation("prelu", tuple(rng.choice([0.1, 0.25, -0.5], width).tolist()))
    return found


def affine(rng: np.random.Generator, read: int, width: int, out: int) -> Node:
    """Weights of one scale or of many, some of them 0."""
    weight = rng.normal(size=(out, width)) / np.sqrt(width)
    match rng.integers(5):
        case 0:
            weight *= 10.0 ** rng.integers(-5, 5, size=(out, width))
        case 1:
            weight = np.round(weight * 3)
        case 2:
            weight[rng.random((out, width)) < 0.4] = 0.0
    bias = rng.normal(size=out) * (0.0 if rng.random() < 0.3 else 0.5)
    return Node("affine", (read,), weight=weight, bias=bias)


def draw(rng: np.random.Generator, steps: int = 7, outputs: int | None = None) -> list[Node]:
    """A graph in which anything may read anything before it."""
    nodes = [Node("input", width=int(rng.integers(1, 4)))]
    widths = [nodes[0].width]

    def put(node: Node, width: int) -> None:
        nodes.append(node)
        widths.append(width)

    for _ in range(steps):
        read = len(nodes) - 1 if rng.random() < 0.7 else int(rng.integers(len(nodes)))
        width = widths[read]
        match rng.choice(["affine", "affine", "activation", "activation", "add", "concat", "select"]):
            case "affine":
                out = int(rng.integers(1, 5))
                put(affine(rng, read, width, out), out)
            case "activation":
                put(Node("activation", (read,), activation=activation(rng, width)), width)
            case "add":
                same = [i for i, w in enumerate(widths) if w == width]
                put(Node("add", (read, *rng.choice(same, int(rng.integers(0, 3))).tolist())), width)
            case "concat":
                other = int(rng.integers(len(nodes)))
                if width + widths[other] <= 8:
                    put(Node("concat", (read, other)), width + widths[other])
            case "select":
                index = tuple(rng.integers(0, width, int(rng.integers(1, 5))).tolist())
                put(Node("select", (read,), columns=index), len(index))
    out = int(rng.integers(1, 4)) if outputs is None else outputs
    put(affine(rng, len(nodes) - 1, widths[-1], out), out)
    return nodes


def chain(
    rng: np.random.Generator, widths: list[int], kind: Activation | None = None, gain: float = 1.0, bias: float = 0.3
) -> list[Node]:
    """Affine maps and activations by turns; He's weights times a gain."""
    nodes = [Node("input", width=widths[0])]
    for i, (width, out) in enumerate(pairwise(widths)):
        weight = rng.normal(size=(out, width)) * (gain * np.sqrt(2 / width))
        nodes.append(Node("affine", (len(nodes) - 1,), weight=weight, bias=rng.normal(size=out) * bias))
        if i < len(widths) - 2:
            nodes.append(Node("activation", (len(nodes) - 1,), activation=kind or Activation("relu")))
    return nodes
