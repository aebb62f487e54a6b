"""The one module that knows the engine: everything else asks here, in numpy.

Another engine needs another version of this file and nothing more. Bounds of one run, and of the difference of two, are
the kernel's: ``raw`` gives it the network and the sets as they were drawn, otherwise they come through the library
(:mod:`isonomy.bounds.kernel`) as those of certificates do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import isonomy
from isonomy.bounds.kernel import preparations, prepared_for
from isonomy.errors import IsonomyError
from isonomy.networks.graph import Graph, affine
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy_verify import activations, differences, tiers
from isonomy_verify import network as kernel
from isonomy_verify.enclosure import Prepared
from isonomy_verify.heads import Head
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.sets import ConvexSets, ball_of, region_of

from .networks import Array, Net
from .people import People
from .regions import Region

TIERS = ("interval", "quick", "tight")
"""``rows`` is the tight tier with a backward pass of its own for every open neuron."""

EFFORT = isonomy.AttackBudget(restarts=0, steps=4)
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


@dataclass(frozen=True)
class Judged:
    """A local certificate with its decisions: what is ``said`` of each, and the ``other`` person of a flip."""

    upper: Array
    lower: Array
    counterpart: Array
    said: NDArray[np.str_]
    other: Array


def enclose(
    net: Net, centre: Array, region: Region, tier: str, *, float32: bool = False, raw: bool = False
) -> Enclosed:
    with _refusing(raw), np.errstate(all="ignore"):
        head = Head(net.head, net.outputs, None, float32)
        if raw:
            own = _drawn(region)
            shared = own if isinstance(own, Ball) else None
            prepared = Prepared(kernel.normal_form(_nodes(net), head.rows), shared, float32)
        else:
            sets = _sets(region)
            own, shared = region_of(sets), ball_of(sets)
            prepared = prepared_for(_network(net), sets if shared else None, float32)
        at = tiers.enclose_at(prepared, centre)
        over = tiers.enclose(prepared, centre, tier, None if shared else own)  # type: ignore[arg-type]
        return Enclosed(ordered(head, at), ordered(head, over), head.violation(at, over))


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
    with _refusing(raw), np.errstate(all="ignore"):
        head = Head(net.head, net.outputs, None, float32)
        if raw:
            drawn = [near, between, *within]
            sets = [_drawn(each) for each in drawn]
            shared = limits is None and all(isinstance(each, Ball) for each in sets)
            if not shared:
                sets = [_boxed(each) for each in drawn]
            room = None if limits is None else _boxed(limits)
            balls = sets[:2] if shared else (None, None)
            pairs = differences.Pairs(kernel.normal_form(_nodes(net), head.rows), float32, *balls)  # type: ignore[arg-type]
            gaps = differences.compare(pairs, centre, sets[0], sets[1], room, sets[2:], tight)
        else:
            limited = None if limits is None else _sets(limits)
            parts = [_sets(part) for part in within]
            options = {"float32_run": float32, "tight": tight}
            gaps = preparations(_network(net)).compare(centre, _sets(near), _sets(between), limited, parts, **options)
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
            attack=tier != "paper" and EFFORT,
            gap=1e-3,
            time_limit=60.0,
            progress=None,
        )
        return Certified(found.upper, found.lower, found.witnesses.counterpart, found.decision == "certified")


def decide(
    net: Net, people: People, tier: str, float32: bool, threshold: float | None, first: int, *, decide: bool
) -> Judged:
    """What is said of decisions, of which number ``first`` is the favourable one."""
    names = ("low", "high") if net.head == "regression" else ("0", "1")
    with _refusing(), _counted_time(60):
        found = isonomy.certify_local(
            _network(net), people.x, _metric(people), people.delta, domain=_domain(people), tier=tier,  # type: ignore[arg-type]
            arithmetic="float32" if float32 else "float64", threshold=threshold, favourable=names[first],
            decide=decide, attack=EFFORT, gap=1e-3, time_limit=60.0, progress=None,
        )  # fmt: skip
    seen = found.witnesses
    return Judged(found.upper, found.lower, seen.counterpart, found.decision, seen.flip_counterpart)


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
            attack=attack and EFFORT,
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
def _refusing(raw: bool = False) -> Iterator[None]:
    """The library's own errors, or those of the kernel where it is asked itself."""
    try:
        yield
    except (IsonomyError, ValueError) as error:
        if raw or isinstance(error, IsonomyError):
            raise RefusedError(str(error)) from None
        raise


@contextmanager
def _counted_time(looks: int) -> Iterator[None]:
    """A clock that goes by how often it is looked at, so that a search ends at the same place on every machine."""
    ticks = itertools.count()
    with mock.patch("time.monotonic", lambda: 60.0 * next(ticks) / looks):
        yield


def _network(net: Net) -> Network:
    own = [
        affine(step.weight, step.bias)._replace(inputs=step.inputs) if step.op == "affine" else node
        for step, node in zip(net.steps, _nodes(net), strict=True)
    ]
    return Network(Graph(tuple(own)), net.head)


def _nodes(net: Net) -> list[kernel.Node]:
    """The steps of a drawn network as the kernel's nodes."""
    found = []
    for step in net.steps:
        match step.op:
            case "input":
                found.append(kernel.Node("input", width=step.width))
            case "affine":
                found.append(kernel.Node("affine", step.inputs, weight=step.weight, bias=step.bias))
            case "activation":
                activation = activations.Activation(step.kind, step.parameters)
                found.append(kernel.Node("activation", step.inputs, activation=activation))
            case "select":
                found.append(kernel.Node("select", step.inputs, columns=step.index))
            case op:
                found.append(kernel.Node(op, step.inputs))
    return found


def _drawn(region: Region) -> Ball | BallBox:
    """A drawn region; one ball where all rows share it."""
    if region.shared and len(region.root):
        return Ball(region.root, region.order, float(region.radius[0]), np.ascontiguousarray(region.inverse))
    return _boxed(region)


def _boxed(region: Region) -> BallBox:
    """A drawn region as sets of each row's own."""
    inverse = np.ascontiguousarray(region.inverse)
    return BallBox(region.low, region.high, region.root, region.order, region.radius, region.offset, inverse)


def _sets(region: Region) -> ConvexSets:
    rows = slice(0, 1) if region.shared else slice(None)
    return ConvexSets(
        root=region.root,
        order=region.order,
        radius=region.radius[rows],
        offset=region.offset[rows],
        low=region.low[rows],
        high=region.high[rows],
        blocks=(),
        base=np.zeros((1, region.low.shape[1])),
        inverse=np.ascontiguousarray(region.inverse),
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
