"""Networks, heads and similar sets as the kernel (:mod:`isonomy_verify`) takes them.

What is the same for all individuals is prepared once for a network and a ball, and kept as long as the network lives.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

from torch import Tensor

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.networks.network import Network
from isonomy.sets import ConvexSets
from isonomy_verify import activations, network
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.regions import Ball, BallBox, SingularError
from isonomy_verify.sweep import Prepared

KEPT = 8
"""Preparations that are kept for each network: radii and metrics that are asked for again and again."""

_layers: WeakKeyDictionary[Network, dict[bool, network.Network]] = WeakKeyDictionary()
_Kept = OrderedDict[tuple[int, float, bool, bool], tuple[Tensor | None, Prepared]]
_prepared: WeakKeyDictionary[Network, _Kept] = WeakKeyDictionary()
_lock = threading.Lock()


def head_of(given: Network, threshold: float | None = None, float32_run: bool = False) -> Head:
    """How the network's outputs are read."""
    return Head(given.head, given.classes, threshold, float32_run)


def nodes_of(graph: Graph) -> list[Node]:
    """The graph's operations with what is known of their errors."""
    nodes = []
    for node in graph.nodes:
        match node.op:
            case Input(width=width):
                nodes.append(Node("input", width=width))
            case Affine() as op:
                # A file says of every layer how large it is, also where that is nothing but its weights.
                parts = ((op.magnitude, op.weight), (op.magnitude_bias, op.bias))
                sizes = [None if of is None or of.equal(by.abs()) else of.numpy() for of, by in parts]
                nodes.append(
                    Node(
                        "affine", node.inputs, weight=op.weight.numpy(), bias=op.bias.numpy(),
                        weight_error=op.weight_slack.numpy(), bias_error=op.bias_slack.numpy(), size=sizes[0],
                        bias_size=sizes[1], roundings=op.roundings,
                    )
                )  # fmt: skip
            case Activation(kind=kind, parameters=parameters):
                nodes.append(Node("activation", node.inputs, activation=activations.Activation(kind, parameters)))
            case Add():
                nodes.append(Node("add", node.inputs))
            case Concat():
                nodes.append(Node("concat", node.inputs))
            case Select(index=index):
                nodes.append(Node("select", node.inputs, columns=index))
    return nodes


def ball_of(sets: ConvexSets) -> Ball | None:
    """The ball that everybody shares; None where there is none, or where its root is all but singular."""
    root = sets.root.numpy()
    if not sets.folds or not len(root):
        return None
    still = (sets.extent[0].numpy() == 0) & ~root.any(0)
    try:
        return Ball(root, sets.order, float(sets.radius[0]), sets.inverse.numpy(), still)
    except SingularError:
        return None


def region_of(sets: ConvexSets) -> BallBox:
    """A set for each row, or one for all."""
    return BallBox(
        sets.low.numpy(), sets.high.numpy(), sets.root.numpy(), sets.order, sets.radius.numpy(), sets.offset.numpy(),
        sets.inverse.numpy(), sets.blocks, sets.base.numpy(),
    )  # fmt: skip


def prepared_for(
    given: Network, sets: ConvexSets | None = None, float32_run: bool = False, scores: bool = False
) -> Prepared:
    """The network's margins made ready for a ball that everybody shares, or for sets of their own.

    ``scores``: with several classes, instead of margins the numbers whose sigmoids are the probabilities.
    """
    with _lock:
        kept = _prepared.setdefault(given, OrderedDict())
        # The ball is known by its root, which is kept so that its id stays its own.
        root = None if sets is None else sets.root
        head = head_of(given)
        scores = scores and head.kind == "softmax" and head.outputs > 2
        key = id(root), 0.0 if sets is None else float(sets.radius[0]), float32_run, scores
        found = kept.pop(key, None)
        if found is None:
            layers = _layers.setdefault(given, {})
            if scores not in layers:
                nodes = nodes_of(given.graph)
                more, rows = (head.scores(len(nodes) - 1), None) if scores else ([], head.rows)
                layers[scores] = normal_form([*nodes, *more], rows)
            ball = None if sets is None else ball_of(sets)
            found = root, Prepared(layers[scores], ball, float32_run)
        kept[key] = found
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return found[1]
