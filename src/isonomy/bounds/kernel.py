"""Networks and heads as the kernel (:mod:`isonomy_verify`) takes them, with what it prepared for each network.

What is the same for all individuals is prepared once for a network and a ball, and kept as long as the network lives.
"""

from __future__ import annotations

import math
import threading
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.errors import ParameterError, template
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.networks.network import Network
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.prepared import Prepared
from isonomy_verify.sets import ConvexSets, region_of

__all__ = ["head_of", "nodes_of", "preparations", "prepared_for", "region_of"]

_ready: WeakKeyDictionary[Network, dict[bool, Preparations]] = WeakKeyDictionary()
_lock = threading.Lock()


def head_of(
    given: Network, threshold: float | None = None, float32_run: bool = False, favourable: tuple[int, ...] = ()
) -> Head:
    """Return the kernel's head of a network; ``threshold`` is the cut-off of its decisions, if there is one, and of two
    classes the probability of the ``favourable`` one, by default of class 1."""
    one = favourable[0] if len(favourable) == 1 and favourable[0] in (0, 1) else 1  # of several classes no matter
    return Head(given.head, given.classes, _cut_off(given, threshold), float32_run, one)


def nodes_of(graph: Graph) -> list[Node]:
    """Return the graph's operations with the known bounds of their errors."""
    nodes = []
    for node in graph.nodes:
        match node.op:
            case Input(width=width):
                nodes.append(Node("input", width=width))
            case Affine() as op:
                # A file says of every layer how large it is, also where that is nothing but its weights.
                parts = ((op.magnitude, op.weight), (op.magnitude_bias, op.bias))
                sizes = [None if of is None or np.array_equal(of, np.abs(by)) else of for of, by in parts]
                nodes.append(
                    Node(
                        "affine", node.inputs, weight=op.weight, bias=op.bias,
                        weight_error=op.weight_slack, bias_error=op.bias_slack, size=sizes[0],
                        bias_size=sizes[1], roundings=op.roundings,
                    )
                )  # fmt: skip
            case Activation() as op:
                nodes.append(Node("activation", node.inputs, activation=op.kernel))
            case Add() | Concat() as op:
                nodes.append(Node(type(op).__name__.lower(), node.inputs))
            case Select(index=index):
                nodes.append(Node("select", node.inputs, columns=index))
    return nodes


def preparations(given: Network, scores: bool = False) -> Preparations:
    """Return the network's margins in normal form, with everything prepared for them; made once.

    ``scores``: with several classes, instead of margins the numbers whose sigmoids are the probabilities.
    """
    head = head_of(given)
    scores = scores and head.kind == "softmax" and head.outputs > 2
    with _lock:
        ready = _ready.setdefault(given, {})
        if scores not in ready:
            nodes = nodes_of(given.graph)
            more, rows = (head.scores(len(nodes) - 1), None) if scores else ([], head.rows)
            ready[scores] = Preparations(normal_form([*nodes, *more], rows))
        return ready[scores]


def prepared_for(
    given: Network, sets: ConvexSets | None = None, float32_run: bool = False, scores: bool = False
) -> Prepared:
    """Prepare the network for ``sets`` if they are one ball for all individuals, else for any sets."""
    return preparations(given, scores).single(sets, float32_run)


def _cut_off(given: Network, threshold: float | None) -> float | None:
    if threshold is None:
        return None
    several = given.classes > 2 or (given.head != "softmax" and given.classes > 1)
    if several:
        raise ParameterError(f"'threshold' needs two classes or one number; this network has {given.classes} outputs.")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.integer | np.floating):
        raise ParameterError(template("threshold", "a number", threshold))
    if not math.isfinite(threshold) or (given.head != "regression" and not 0 < threshold < 1):
        expected = "a finite number" if given.head == "regression" else "a probability strictly between 0 and 1"
        raise ParameterError(template("threshold", expected, threshold))
    return float(threshold)
