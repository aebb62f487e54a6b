"""The one module that knows the engine: everything else asks here, in numpy.

Another engine needs another version of this file and nothing more. ``raw`` asks for bounds of the graph as it was
drawn, before layers are merged, where the engine can be asked so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

import isonomy
from isonomy.bounds.ends import Ends, margins, margins_at
from isonomy.bounds.interval import Interval
from isonomy.bounds.kernel import compare_sets, head_of
from isonomy.bounds.linear import Linear
from isonomy.errors import IsonomyError
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Operation, Select
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.sets import ConvexSets
from isonomy_verify.heads import Head

from .networks import Array, Net, Step
from .people import People
from .regions import Region

TIERS = ("interval", "tight")


EFFORT = isonomy.Effort(restarts=0, steps=4)
"""Finds of the engine's own search matter little here."""


class RefusedError(Exception):
    """The engine says, in a sentence, that it proves nothing here."""


@dataclass(frozen=True)
class Enclosed:
    """Margins at the centres and over the regions, (n, margins) each, and the largest violation (n,)."""

    at: tuple[Array, Array]
    over: tuple[Array, Array]
    violation: Array


@dataclass(frozen=True)
class Compared:
    """Margins of the near and of the far person, their difference, and the largest violation between the two."""

    near: tuple[Array, Array]
    far: tuple[Array, Array]
    difference: tuple[Array, Array]
    violation: Array


@dataclass(frozen=True)
class Certified:
    """A local certificate: bounds, the pairs behind the lower ones, and whose decision cannot change."""

    upper: Array
    lower: Array
    counterpart: Array
    certain: Array


def enclose(
    net: Net, centre: Array, region: Region, tier: str, *, float32: bool = False, raw: bool = False
) -> Enclosed:
    with _refusing():
        network, graph = _network(net), _graph(net, raw)
        options: dict[str, Any] = {"float32_run": float32, "original": network.graph}
        over: Any = {
            "interval": lambda: Interval(graph, **options),
            "tight": lambda: Linear(graph, **options),
        }[tier]()
        found = over.enclose(torch.from_numpy(centre), _sets(region))
        ends = Ends(network, None, float32)
        at, around = margins_at(found), margins(found)
        return Enclosed(_pair(at), _pair(around), ends.violation(at, around).numpy())


def compare(
    net: Net,
    centre: Array,
    near: Region,
    between: Region,
    *,
    limits: Region | None = None,
    within: tuple[Region, ...] = (),
    float32: bool = False,
    raw: bool = False,
    nested: bool = False,
    tight: bool = True,
) -> list[Compared]:
    """Somebody in ``near``, somebody ``between`` away from the first, within ``limits``; then for smaller ``near``."""
    with _refusing():
        network, room = _network(net.alive if raw else net), None if limits is None else _sets(limits)
        head = head_of(network, None, float32)
        sets = [_sets(part) for part in within]
        gaps = compare_sets(
            network, torch.from_numpy(centre), _sets(near), _sets(between), room, sets, float32_run=float32, tight=tight
        )
        return [Compared(*(ordered(head, side) for side in gap), head.gap(*gap)) for gap in gaps]


def ordered(head: Head, margins: tuple[Array, Array]) -> tuple[Array, Array]:
    """Margins of every ordered pair of classes."""
    if head.kind != "softmax" or head.outputs == 2:
        return margins[0], margins[1]
    k, at, (low, high) = head.outputs, {pair: i for i, pair in enumerate(head.pairs)}, margins
    pairs = [(c, j) for c in range(k) for j in range(k) if j != c]
    return (
        np.stack([low[:, at[c, j]] if j > c else -high[:, at[j, c]] for c, j in pairs], 1),
        np.stack([high[:, at[c, j]] if j > c else -low[:, at[j, c]] for c, j in pairs], 1),
    )


def certify_local(net: Net, people: People, tier: str, *, float32: bool, threshold: float | None) -> Certified:
    with _refusing(), _counted_time(60):
        found = isonomy.certify_local(
            _network(net),
            people.x,
            _metric(people),
            people.delta,
            domain=_domain(people),
            tier=tier,  # type: ignore[arg-type]
            arithmetic="float32" if float32 else "float64",
            threshold=threshold,
            attack=tier != "paper",
            effort=EFFORT,
            gap=1e-3,
            time_limit=60.0,
            progress=None,
        )
        return Certified(found.upper, found.lower, found.witnesses.counterpart, found.decision == "certified")


def certify(net: Net, people: People, gamma: float, order: float, ground: str, *, attack: bool) -> tuple[float, float]:
    """Upper and lower bound of the mean violation of every population within ``gamma``."""
    with _refusing():
        found = isonomy.certify(
            _network(net),
            people.x,
            _metric(people),
            people.delta,
            gamma,
            order=order,
            ground=ground,  # type: ignore[arg-type]
            domain=_domain(people),
            attack=attack,
            effort=EFFORT,
            rounds=1,
            progress=None,
        )
        return found.upper, found.lower


def certify_everywhere(net: Net, people: People) -> tuple[float, float]:
    """Upper and lower bound of the violation of anybody in the domain."""
    with _refusing(), _counted_time(5):
        found = isonomy.certify_everywhere(
            _network(net), _metric(people), people.delta, _domain(people), time_limit=60.0, progress=None
        )
        return found.upper, found.lower


# -- from numbers to the engine's nouns ---------------------------------------------------------------------------


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except IsonomyError as error:
        raise RefusedError(str(error)) from None


@contextmanager
def _counted_time(looks: int) -> Iterator[None]:
    """A clock that goes by how often it is looked at, so that a search ends at the same place on every machine."""
    ticks = itertools.count()
    with mock.patch("time.monotonic", lambda: 60.0 * next(ticks) / looks):
        yield


def _operation(step: Step) -> Operation:
    match step.op:
        case "input":
            return Input(step.width)
        case "affine":
            return Affine.of(torch.from_numpy(step.weight), torch.from_numpy(step.bias))
        case "activation":
            return Activation(step.kind, step.parameters)
        case "add":
            return Add()
        case "concat":
            return Concat()
        case "select":
            return Select(step.index)


def _network(net: Net) -> Network:
    return Network(Graph(tuple(Node(_operation(step), step.inputs) for step in net.steps)), net.head)


def _graph(net: Net, raw: bool) -> Graph:
    if not raw:
        return _network(net).margins
    network = _network(net.alive)
    if not net.pairs:
        return network.graph
    difference = torch.zeros(len(net.pairs), net.outputs, dtype=torch.float64)
    for row, (c, j) in enumerate(net.pairs):
        difference[row, j], difference[row, c] = 1.0, -1.0
    return network.graph.appended(Affine.of(difference, roundings=1))


def _sets(region: Region) -> ConvexSets:
    rows = slice(0, 1) if region.shared else slice(None)
    return ConvexSets(
        root=torch.from_numpy(region.root),
        order=region.order,
        radius=torch.from_numpy(region.radius[rows]),
        offset=torch.from_numpy(region.offset[rows]),
        low=torch.from_numpy(region.low[rows]),
        high=torch.from_numpy(region.high[rows]),
        blocks=(),
        base=torch.zeros(1, region.low.shape[1], dtype=torch.float64),
        inverse=torch.from_numpy(np.ascontiguousarray(region.inverse)),
        clipped=region.clipped,
    )


def _metric(people: People) -> isonomy.Metric:
    if people.metric == "root":
        return isonomy.Mahalanobis.from_root(people.root)
    if people.metric == "counterparts":
        return isonomy.Counterparts(people.weights, people.free, people.relative, people.origin, people.unit)
    return isonomy.WeightedLp(people.weights, people.order)


def _domain(people: People) -> Domain:
    if people.space == "unbounded":
        return Domain.unbounded(people.width)
    return Domain(
        kind=people.space,
        low=people.low,
        high=people.high,
        blocks=people.blocks,
        integer=people.integer,
        origin=people.origin,
        unit=people.unit,
        immutable=people.immutable,
        names=tuple(f"x{i}" for i in range(people.width)),
    )


def _pair(sides: tuple[torch.Tensor, torch.Tensor]) -> tuple[Array, Array]:
    return sides[0].numpy(), sides[1].numpy()
