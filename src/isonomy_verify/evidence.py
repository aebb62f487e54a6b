"""The objects that a certificate is about, made from its arrays: the network, and what is said of people.

**Soundness.** Every shape and index is looked at before it is used, and sizes are limited: what is wrong is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.behind import Turned
from isonomy_verify.claims import Profiles
from isonomy_verify.individuals import CERTIFIED, DECISIONS, FLIPPABLE, Individuals
from isonomy_verify.network import Node
from isonomy_verify.record import Record
from isonomy_verify.text import need as need
from isonomy_verify.text import number as number
from isonomy_verify.text import written as written

WIDEST, PIECES = 2**24, 2**12
"""Numbers that all nodes of a network hold together, and sums that one of them may be: a few nodes can ask for more."""


def nodes_of(record: Record) -> tuple[list[Node], int, int]:
    """The network's operations, how many outputs it has, and how many inputs."""
    kinds, names = (record.predicate["model"][part] for part in ("kinds", "names"))
    need(len(kinds) == len(names), "a network's nodes must have a kind and a name each")
    nodes, widths = read_nodes(record.group("model"), kinds)
    return nodes, widths[-1], widths[0]


def read_nodes(arrays: Mapping[str, NDArray[Any]], kinds: Sequence[str]) -> tuple[list[Node], list[int]]:
    """The operations of a network from the arrays of each, and how many numbers each holds."""
    nodes, widths, pieces = list[Node](), list[int](), list[int]()
    for i, kind in enumerate(kinds):
        inputs = tuple(int(j) for j in arrays[f"{i}.inputs"])
        need(all(0 <= j < i for j in inputs) and (len(inputs) > 0) == (i > 0), f"the inputs of node {i}")
        if kind == "input":
            widths.append(int(arrays[f"{i}.width"]))
            nodes.append(Node("input", width=widths[-1]))
        elif kind == "affine":
            nodes.append(
                Node(
                    "affine", inputs, weight=arrays[f"{i}.weight"], bias=arrays[f"{i}.bias"],
                    weight_error=arrays[f"{i}.weight_slack"], bias_error=arrays[f"{i}.bias_slack"],
                    size=arrays.get(f"{i}.magnitude"), bias_size=arrays.get(f"{i}.magnitude_bias"),
                    roundings=int(arrays[f"{i}.roundings"]),
                )
            )  # fmt: skip
            widths.append(len(arrays[f"{i}.bias"]))
        elif kind in ("add", "concat"):
            nodes.append(Node(kind, inputs))
            widths.append(widths[inputs[0]] if kind == "add" else sum(widths[j] for j in inputs))
        elif kind == "select":
            nodes.append(Node("select", inputs, columns=tuple(int(j) for j in arrays[f"{i}.index"])))
            widths.append(len(arrays[f"{i}.index"]))
        else:
            parameters = tuple(float(p) for p in arrays[f"{i}.parameters"])
            nodes.append(Node("activation", inputs, activation=Activation(str(kind), parameters)))
            widths.append(widths[inputs[0]])
        pieces.append(sum(pieces[j] for j in inputs) if kind in ("add", "concat", "affine", "select") else 1)
        need(widths[-1] <= WIDEST and pieces[-1] <= PIECES, f"node {i} would be too large")
    need(len(nodes) > 0 and nodes[0].kind == "input", "a network without an input")
    need(sum(widths) <= WIDEST, "a network that is too wide")
    return nodes, widths


def profiles_of(record: Record) -> Profiles:
    """Everybody's profile."""
    parts = {name: record.array(f"profiles.{name}") for name in ("count", "radius", "value", "largest")}
    count, shape = parts["count"], parts["radius"].shape
    need(count.ndim == 1 and parts["largest"].shape == (1,) and parts["value"].shape == shape, "profiles")
    need(len(shape) == 1 and ((count > 0) & (count <= shape[0])).all(), "profiles")
    start = np.append(0, np.cumsum(parts["count"]))
    profiles = Profiles(start, parts["radius"], parts["value"], float(parts["largest"][0]))
    profiles.check()
    return profiles


def sources_of(record: Record, profiles: Profiles) -> Array:
    """The radius of the pass behind every bound of a profile: one of a few, which a number names."""
    passes, chosen = record.array("profiles.passes"), record.array("profiles.pass")
    need(passes.ndim == 1 and chosen.shape == profiles.radius.shape and (chosen < len(passes)).all(), "passes")
    return np.asarray(passes[chosen])


def points_of(record: Record, n: int) -> tuple[NDArray[Any], Array, Array, Array]:
    """Of the witnesses of populations: how many each of ``n`` individuals has (n,), and their masses, costs and
    violations."""
    count, mass, cost, value = (record.array(f"points.{name}") for name in ("count", "mass", "cost", "value"))
    need(count.shape == (n,) and ((count >= 0) & (count <= len(mass))).all(), "witnesses")
    need(mass.shape == cost.shape == value.shape == (int(count.sum()),), "witnesses")
    need((mass >= 0).all() and (mass < math.inf).all() and (cost >= 0).all(), "masses and costs")
    need((value >= 0).all() and (value < math.inf).all(), "violations of witnesses")
    return count, mass, cost, value


def within_weights(owner: NDArray[np.int64], mass: Array, weights: Array) -> bool:
    """Has no individual more mass than its weight, exactly? What is missing stays with them, where nothing is
    claimed."""
    several = np.bincount(owner, minlength=len(weights))[owner] > 1
    held: dict[int, Fraction] = {}
    for i, part in zip(owner[several].tolist(), mass[several].tolist(), strict=True):
        held[i] = held.get(i, Fraction(0)) + Fraction(part)
    alone = bool((mass[~several] <= weights[owner[~several]]).all())
    return alone and all(total <= Fraction(float(weights[i])) for i, total in held.items())


def individuals_of(record: Record, n: int, largest: float, group: str = "local") -> Individuals:
    """What is said of everybody alone, in the arrays of a group."""
    upper, lower, decision = (record.array(f"{group}.{name}") for name in ("upper", "lower", "decision"))
    need(upper.shape == lower.shape == decision.shape == (n,), "bounds of other individuals")
    need((upper >= 0).all() and (lower >= 0).all() and (lower < math.inf).all(), "bounds of individuals")
    need((decision < len(DECISIONS)).all(), "decisions")
    return Individuals(upper, lower, decision, largest)


def steady_of(record: Record, decision: NDArray[np.uint8], moves: bool) -> Array:
    """The radius (n,) within which no decision can change, of everybody whose own stands; 0 where none is
    claimed."""
    steady = record.array("local.steady") if "steady" in record.names("local") else np.zeros(len(decision))
    need(steady.shape == decision.shape and ((steady >= 0) & (steady < math.inf)).all(), "radii of decisions")
    need(moves or not steady.any(), "radii of decisions where no individual moves")
    return np.where(decision == CERTIFIED, steady, 0.0)  # of others nothing follows from a radius


def turned_of(record: Record, decision: NDArray[np.uint8], weights: Array) -> Turned:
    """Whose decision was shown to change after a move; without arrays those whose own was turned, as they are."""
    if "owner" not in record.names("turned"):
        rows = np.flatnonzero(decision == FLIPPABLE)
        return Turned(rows, np.zeros(len(rows)), np.array(weights[rows]))
    owner, cost, mass = (record.array(f"turned.{name}") for name in ("owner", "cost", "mass"))
    need(owner.ndim == 1 and owner.shape == cost.shape == mass.shape, "those whose decision changes")
    need((np.diff(owner, prepend=-1, append=len(decision)) > 0).all(), "those whose decision changes")
    need(((cost >= 0) & (cost < math.inf) & (mass >= 0) & (mass < math.inf)).all(), "masses and costs")
    need((decision[owner[cost == 0]] == FLIPPABLE).all(), "a decision that changes without a move and a witness")
    return Turned(owner, np.array(cost), np.array(mass))


def check_labels(record: Record, n: int, classes: int) -> None:
    """Refuse outcomes that are not those of ``n`` individuals, or no numbers of classes; without these any."""
    if record.has("people.y"):
        y = record.array("people.y")
        need(y.shape == (n,) and np.isfinite(y).all(), "labels of other individuals")
        need(not classes or ((y >= 0) & (y < classes) & (y == np.rint(y))).all(), "labels that are no classes")
