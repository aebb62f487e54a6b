"""Networks, heads and similar sets as the kernel (:mod:`isonomy_verify`) takes them.

What is the same for all individuals is prepared once for a network and a ball, and kept as long as the network lives.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, template
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.networks.network import Network
from isonomy.sets import ConvexSets
from isonomy_verify import activations, network
from isonomy_verify.differences import Gap, Pairs, compare
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.prepared import Prepared
from isonomy_verify.regions import Ball, BallBox, SingularError

KEPT = 8
"""Preparations that are kept for each network: radii and metrics that are asked for again and again."""

_layers: WeakKeyDictionary[Network, dict[bool, network.Network]] = WeakKeyDictionary()
_Kept = OrderedDict[tuple[int, float, bool, bool], tuple[FloatArray | None, Prepared]]
_prepared: WeakKeyDictionary[Network, _Kept] = WeakKeyDictionary()
_Balls = tuple[Pairs, Ball | None, Ball | None, tuple[FloatArray | None, FloatArray | None]]
_pairs: WeakKeyDictionary[Network, OrderedDict[tuple[float, ...], _Balls]] = WeakKeyDictionary()
_lock = threading.Lock()


def head_of(given: Network, threshold: float | None = None, float32_run: bool = False) -> Head:
    """How the network's outputs are read; ``threshold`` is the cut-off of its decisions, if there is one."""
    return Head(given.head, given.classes, _cut_off(given, threshold), float32_run)


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
                sizes = [None if of is None or np.array_equal(of, np.abs(by)) else of for of, by in parts]
                nodes.append(
                    Node(
                        "affine", node.inputs, weight=op.weight, bias=op.bias,
                        weight_error=op.weight_slack, bias_error=op.bias_slack, size=sizes[0],
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
    if not _is_ball(sets):
        return None
    still = (sets.extent[0] == 0) & ~sets.root.any(0)
    try:
        return Ball(sets.root, sets.order, float(sets.radius[0]), sets.inverse, still)
    except SingularError:
        return None


def region_of(sets: ConvexSets) -> BallBox:
    """A set for each row, or one for all."""
    return BallBox(
        sets.low, sets.high, sets.root, sets.order, sets.radius, sets.offset, sets.inverse, sets.blocks, sets.base
    )


def prepared_for(
    given: Network, sets: ConvexSets | None = None, float32_run: bool = False, scores: bool = False
) -> Prepared:
    """The network's margins made ready for ``sets`` if they are a ball that everybody shares, else for any sets.

    ``scores``: with several classes, instead of margins the numbers whose sigmoids are the probabilities.
    """
    sets = None if sets is None or not _is_ball(sets) else sets
    with _lock:
        kept = _prepared.setdefault(given, OrderedDict())
        # The ball is known by its root, which is kept so that its id stays its own.
        root = None if sets is None else sets.root
        head = head_of(given)
        scores = scores and head.kind == "softmax" and head.outputs > 2
        key = id(root), 0.0 if sets is None else float(sets.radius[0]), float32_run, scores
        found = kept.pop(key, None)
        if found is None:
            ball = None if sets is None else ball_of(sets)
            found = root, Prepared(_layers_of(given, scores), ball, float32_run)
        kept[key] = found
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return found[1]


def pairs_for(
    given: Network,
    near: ConvexSets | None = None,
    between: ConvexSets | None = None,
    float32_run: bool = False,
    keep: bool = True,
) -> tuple[Pairs, Ball | None, Ball | None]:
    """The network's margins made ready for pairs of people, and the balls that everybody shares, if both do.

    Without ``keep`` nothing is kept for others: for balls that nobody will ask for again.
    """
    sets = [each for each in (near, between) if each is not None and ball_of(each) is not None]
    with _lock:
        kept = _pairs.setdefault(given, OrderedDict())
        key = float(float32_run), *(number for each in sets[: 2 * (len(sets) == 2)] for number in _key(each))
        found = kept.pop(key, None)
        if found is None:
            like = next(reversed(kept.values()), None)
            one, other = None, None
            roots: tuple[FloatArray | None, FloatArray | None] = (None, None)
            if len(sets) == 2:
                one, roots = ball_of(sets[0]), (sets[0].root, sets[1].root)
                other = next((each[2] for at, each in kept.items() if at[0] == key[0] and at[3:] == key[3:]), None)
                other = ball_of(sets[1]) if other is None else other
            pairs = Pairs(_layers_of(given), float32_run, one, other, None if like is None else like[0])
            found = pairs, one, other, roots
            if not keep:
                return found[:3]
        kept[key] = found
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return found[:3]


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


def _is_ball(sets: ConvexSets) -> bool:
    """Is this one ball around 0 for everybody, and nothing else?"""
    return sets.rows == 1 and not sets.clipped and len(sets.root) > 0 and not sets.offset.any()


def _key(sets: ConvexSets) -> tuple[float, float]:
    """A ball is known by its root, which is kept so that its id stays its own, and by its radius."""
    return float(id(sets.root)), float(sets.radius[0])


def compare_sets(
    given: Network,
    centre: FloatArray,
    near: ConvexSets,
    between: ConvexSets,
    limits: ConvexSets | None = None,
    within: Sequence[ConvexSets] = (),
    *,
    float32_run: bool = False,
    tight: bool = True,
    keep: bool = True,
) -> list[Gap]:
    """Margins of somebody ``near``, of somebody a difference ``between`` away from them and within ``limits``, and
    the difference of the two; the same for every part of ``near`` in ``within``."""
    sets = (near, between) if limits is None else (None, None)
    pairs, one, other = pairs_for(given, sets[0], sets[1], float32_run, keep)
    if one is None or other is None:
        around, apart, *smaller = (region_of(each) for each in (near, between, *within))
        room = None if limits is None else region_of(limits)
        return compare(pairs, centre, around, apart, room, smaller, tight)
    balls = [ball for each in within if (ball := ball_of(each)) is not None]
    return compare(pairs, centre, one, other, None, balls, tight)


def _layers_of(given: Network, scores: bool = False) -> network.Network:
    """Margins, or scores, in normal form; made once."""
    layers = _layers.setdefault(given, {})
    if scores not in layers:
        nodes, head = nodes_of(given.graph), head_of(given)
        more, rows = (head.scores(len(nodes) - 1), None) if scores else ([], head.rows)
        layers[scores] = normal_form([*nodes, *more], rows)
    return layers[scores]
