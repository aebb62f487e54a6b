"""Networks evaluated exactly (in effect: 1,200 bits), and random networks of every operation."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import torch

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Select
from isonomy.networks.network import Network
from isonomy_verify.sets import ConvexSets

BITS = 1200
mpf = mpmath.mpf

KINDS = [
    ("relu", ()),
    ("leaky_relu", (0.01,)),
    ("leaky_relu", (-0.3,)),
    ("leaky_relu", (2.5,)),
    ("prelu", None),
    ("sigmoid", ()),
    ("tanh", ()),
    ("softplus", (1.0,)),
    ("softplus", (0.05,)),
    ("softplus", (30.0,)),
    ("elu", (1.0,)),
    ("elu", (0.0,)),
    ("elu", (3.7,)),
    ("gelu", ()),
    ("gelu_tanh", ()),
    ("silu", ()),
    ("erf", ()),
    ("hardswish", ()),
    ("clip", (-0.3, 0.7)),
    ("clip", (-np.inf, 6.0)),
    ("clip", (0.1, np.inf)),
]
RATIONAL = {"relu", "leaky_relu", "prelu", "clip"}


def exact_activation(kind: str, x: Any, parameters: tuple[float, ...]) -> Any:
    """The mathematical definition, in multiple precision."""
    zero, one = mpf(0), mpf(1)
    if kind == "relu":
        return max(x, zero)
    if kind in ("leaky_relu", "prelu"):
        return x if x >= 0 else mpf(parameters[0]) * x
    if kind == "clip":
        return min(max(x, mpf(parameters[0])), mpf(parameters[1]))
    with mpmath.workprec(300):
        if kind == "sigmoid":
            return one / (one + mpmath.exp(-x))
        if kind == "tanh":
            return mpmath.tanh(x)
        if kind == "softplus":
            beta = mpf(parameters[0])
            t = beta * x
            return (max(t, zero) + mpmath.log1p(mpmath.exp(-abs(t)))) / beta
        if kind == "elu":
            return x if x > 0 else mpf(parameters[0]) * mpmath.expm1(x)
        if kind == "gelu":
            return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        if kind == "gelu_tanh":
            inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3)
            return x / (one + mpmath.exp(-2 * inner))
        if kind == "silu":
            return x / (one + mpmath.exp(-x))
        if kind == "hardswish":
            return x * min(max(x / 6 + one / 2, zero), one)
        if kind == "erf":
            return mpmath.erf(x)
    raise AssertionError(kind)


def exact_outputs(graph: Graph, x: np.ndarray) -> list[Any]:
    """The outputs of a graph at one individual; call inside ``mpmath.workprec(BITS)``."""
    values: list[list[Any]] = []
    for node in graph.nodes:
        read = [values[j] for j in node.inputs]
        match node.op:
            case Input():
                values.append([mpf(float(v)) for v in x])
            case Affine(weight=weight, bias=bias):
                rows = zip(weight.tolist(), bias.tolist(), strict=True)
                values.append(
                    [
                        mpf(b) + sum((mpf(w) * v for w, v in zip(row, read[0], strict=True) if w), mpf(0))
                        for row, b in rows
                    ]
                )
            case Activation(kind="prelu", parameters=slopes):
                values.append([exact_activation("prelu", v, (s,)) for v, s in zip(read[0], slopes, strict=True)])
            case Activation(kind=kind, parameters=parameters):
                values.append([exact_activation(kind, v, parameters) for v in read[0]])
            case Add():
                values.append([sum(parts, mpf(0)) for parts in zip(*read, strict=True)])
            case Concat():
                values.append([v for part in read for v in part])
            case Select(index=index):
                values.append([read[0][i] for i in index])
    return values[-1]


def margins(network: Network) -> Graph:
    """The graph of what decides: of two classes ``z_1 - z_0``, of more ``z_j - z_c`` for each class c and other j, in
    this order; else the raw outputs themselves."""
    k = network.classes
    if network.head != "softmax":
        return network.graph
    pairs = [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]
    return network.graph.appended(Affine.of(np.eye(k)[[j for _, j in pairs]] - np.eye(k)[[c for c, _ in pairs]]))


def exact_margins(network: Network, x: np.ndarray) -> list[Any]:
    """The margins, from the raw outputs of the original graph."""
    z = exact_outputs(network.graph, x)
    if network.head != "softmax":
        return z
    k = len(z)
    if k == 2:
        return [z[1] - z[0]]
    return [z[j] - z[c] for c in range(k) for j in range(k) if j != c]


def exact_values(network: Network, x: np.ndarray) -> list[Any]:
    """What each class receives; the probability of class 1 where there are two."""
    z = exact_outputs(network.graph, x)
    with mpmath.workprec(300):
        if network.head == "regression":
            return z
        if network.head == "sigmoid":
            return [1 / (1 + mpmath.exp(-v)) for v in z]
        total = [1 / sum(mpmath.exp(other - own) for other in z) for own in z]
        return total[1:] if len(z) == 2 else total


def activation(rng: np.random.Generator, width: int, kinds: list[Any] = KINDS) -> Activation:
    kind, parameters = kinds[int(rng.integers(len(kinds)))]
    if parameters is None:
        parameters = tuple(rng.normal(size=width).tolist())
    return Activation(kind, parameters)


def affine(rng: np.random.Generator, width_in: int, width_out: int, scale: float = 1.0, bias: float = 1.0) -> Affine:
    weight = rng.normal(size=(width_out, width_in)) * scale / width_in**0.5
    weight[rng.random(weight.shape) < 0.1] = 0.0
    return Affine.of(weight, rng.normal(size=width_out) * bias)


def random_graph(
    rng: np.random.Generator, width: int, outputs: int, kinds: list[Any] = KINDS, scales: tuple[float, ...] = (1.0,),
    biases: tuple[float, ...] = (1.0,), widest: int = 6,
) -> Graph:  # fmt: skip
    """Affine layers, activations, sums, concatenations, selections and readings past the first layer."""
    nodes, widths = [Node(Input(width))], [width]

    def add(op: Any, inputs: tuple[int, ...], size: int) -> int:
        nodes.append(Node(op, inputs, f"node{len(nodes)}"))
        widths.append(size)
        return len(nodes) - 1

    def layer(at: int, size: int) -> int:
        return add(affine(rng, widths[at], size, float(rng.choice(scales)), float(rng.choice(biases))), (at,), size)

    at = 0
    for _ in range(int(rng.integers(1, 6))):
        move = int(rng.integers(8))
        if move <= 2:
            at = layer(at, int(rng.integers(1, widest + 1)))
        if move <= 3:
            at = add(activation(rng, widths[at], kinds), (at,), widths[at])
        if move == 4:  # a residual sum
            other = layer(at, widths[at])
            other = add(activation(rng, widths[other], kinds), (other,), widths[other]) if rng.random() < 0.7 else other
            extra = (layer(0, widths[at]),) if rng.random() < 0.3 else ()
            at = add(Add(), (at, other, *extra), widths[at])
        if move == 5:  # a concatenation, often with the input itself
            other = 0 if rng.random() < 0.5 else int(rng.integers(len(nodes)))
            at = add(Concat(), (at, other), widths[at] + widths[other])
        if move == 6:
            index = tuple(int(i) for i in rng.integers(widths[at], size=int(rng.integers(1, widths[at] + 2))))
            at = add(Select(index), (at,), len(index))
        if move == 7:
            at = add(Select(tuple(int(i) for i in rng.permutation(widths[at]))), (at,), widths[at])
    if widths[at] != outputs or rng.random() < 0.8:
        at = layer(at, outputs)
    return Graph(tuple(nodes)) if at else Graph((nodes[0], Node(affine(rng, width, outputs), (0,))))


def random_network(rng: np.random.Generator, width: int, **options: Any) -> Network:
    head = ["softmax", "softmax", "sigmoid", "sigmoid", "regression"][int(rng.integers(5))]
    outputs = {"softmax": [2, 3, 4], "sigmoid": [1, 3], "regression": [1, 2]}[head]
    return Network(random_graph(rng, width, int(rng.choice(outputs)), **options), head)


def box_around(centre: np.ndarray, others: np.ndarray) -> ConvexSets:
    """The smallest box of moves, rounded outward, that leads from each centre (n, m) to its others (n, k, m)."""
    moves = others - centre[:, None]
    low, high = moves.min(axis=1), moves.max(axis=1)
    low = np.where((others == centre[:, None]).all(axis=1), 0.0, np.nextafter(low, -np.inf))
    high = np.where((others == centre[:, None]).all(axis=1), 0.0, np.nextafter(high, np.inf))
    return ConvexSets.of_box(low, high)


def corners(centre: np.ndarray, radius: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points (n, count, m) of boxes around the centres, most of them corners."""
    shares = rng.choice([-1.0, 1.0, 1.0, -1.0, 0.0, 0.3], size=(len(centre), count, centre.shape[1]))
    return centre[:, None] + shares * radius[:, None]


def enclosed(low: float, exact: Any, high: float) -> bool:
    return mpf(float(low)) <= exact <= mpf(float(high))


def differentiable(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    """The outputs at individuals by torch, so that a test can climb them."""
    functions: dict[str, Any] = {
        "leaky_relu": lambda v, slope: torch.where(v >= 0, v, slope * v),
        "prelu": lambda v, *slopes: torch.where(v >= 0, v, torch.tensor(slopes) * v),
        "softplus": lambda v, beta: torch.logaddexp(beta * v, torch.zeros_like(v)) / beta,
        "gelu_tanh": lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
        "clip": torch.clamp,
        "erf": torch.erf,
    }
    values: list[torch.Tensor] = []
    for node in graph.nodes:
        read = [values[j] for j in node.inputs]
        match node.op:
            case Input():
                values.append(x)
            case Affine(weight=weight, bias=bias):
                values.append(read[0] @ torch.from_numpy(weight).T + torch.from_numpy(bias))
            case Activation(kind=kind, parameters=parameters):
                function = functions.get(kind) or getattr(torch.nn.functional, kind)
                values.append(function(read[0], *parameters))
            case Add():
                values.append(torch.stack(read).sum(0))
            case Concat():
                values.append(torch.cat(read, dim=1))
            case Select(index=index):
                values.append(read[0][:, list(index)])
    return values[-1]
