"""What is attainable: similar pairs that a network treats differently.

Problem: for each individual ``x`` find ``y`` in the domain with ``d(x, y) ≤ δ`` and ``f(y)`` far from ``f(x)``. Every
region of the similar set is searched by projected gradient ascent, upwards and downwards for every output, from the
region's own anchor and from random starts. Steps are taken in the shape of the region (the ellipsoid of its
seminorm and box), and led back into it along the line to the anchor.

**Soundness.** The search proves nothing and is trusted with nothing. Each find is checked afresh: the vector ``y``
itself must be allowed by the domain, its distance rounded *up* must be at most ``δ``, and the value reported is the
change between two enclosures, rounded *down*. A failed check costs the find, never the truth of ``lower``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.bounds.ends import Ends, margins_at
from isonomy.bounds.interval import Interval
from isonomy.brief import brief
from isonomy.given import instance, whole
from isonomy.networks.graph import Graph
from isonomy.sets import ConvexSets
from isonomy.similarity.regions import Regions, Similarity

ROWS = 8192
"""Runs searched at once; bounds the memory of a batch."""


@dataclass(frozen=True)
class Effort:
    """How hard to search: gradient steps, random starts beside the anchor, branches per individual."""

    steps: int = 20
    restarts: int = 1
    branches: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("restarts", 0), ("branches", 1), ("seed", 0)):
            whole(name, getattr(self, name), least)


def checked_effort(effort: Effort | None) -> Effort:
    """The effort that a caller gave, or the usual one."""
    instance("effort", effort, Effort | None, "None or an isonomy.Effort, such as Effort(steps=20)")
    return effort or Effort()


@dataclass(frozen=True, eq=False)
class Finds:
    """The best checked find of each individual: ``lower`` 0 and ``counterpart`` x itself where there is none."""

    lower: FloatArray
    counterpart: FloatArray
    flips: NDArray[np.bool_]
    flip_counterpart: FloatArray

    __repr__ = brief


def attack(graph: Graph, ends: Ends, similarity: Similarity, x: FloatArray, effort: Effort) -> Finds:
    """Search the similar sets of the rows of ``x`` (n, m), which lie in the domain."""
    judge = Judge(graph, ends, similarity, x)
    generator = torch.Generator().manual_seed(effort.seed)
    for regions in _searched(similarity, x):
        anchors, inside = find_anchors(regions)
        regions, anchors = regions[inside], anchors[torch.from_numpy(inside)]
        # Changing categories alone is often the worst that can happen: try every branch as it stands.
        judge.consider(regions.owner, (regions.centre + anchors).numpy())
        for target in range(targets(ends)):
            for sign in (1.0, -1.0):
                chosen = _most_promising(graph, ends, regions, anchors, target, sign, effort.branches)
                some, base = regions[chosen], anchors[torch.from_numpy(chosen)]
                for start in range(0, len(some), ROWS):
                    part = slice(start, start + ROWS)
                    for restart in range(1 + effort.restarts):
                        finds = _ascend(graph, ends, some[part], base[part], target, sign, effort, restart, generator)
                        for y in as_individuals(similarity, some[part], base[part], finds):
                            judge.consider(some.owner[part], y)
    return judge.finds()


def _searched(similarity: Similarity, x: FloatArray) -> list[Regions]:
    """The regions of the similar sets; in the relaxed domain also those of whole people, its corners."""
    regions = similarity.regions(x)
    if similarity.domain.kind != "relaxed":
        return regions
    whole = similarity.domain.with_kind("realizable")
    people = np.flatnonzero(whole.contains(x))
    corners = Similarity(similarity.metric, similarity.delta, whole, similarity.max_branches).regions(x[people])
    return regions + [Regions(people[some.owner], some.centre, some.sets) for some in corners]


class Judge:
    """Checks finds and keeps the best of each individual."""

    def __init__(self, graph: Graph, ends: Ends, similarity: Similarity, x: FloatArray) -> None:
        self.exact, self.ends, self.similarity, self.x = Interval(graph), ends, similarity, x
        self.at_x = margins_at(self.exact.enclose(torch.from_numpy(x), None))
        self.decision = ends.decision(*self.at_x).numpy()
        self.lower, self.counterpart = np.zeros(len(x)), x.copy()
        self.flips, self.flip_counterpart = np.zeros(len(x), dtype=bool), x.copy()

    def consider(self, owner: NDArray[np.int64], y: FloatArray) -> None:
        """Look at candidates ``y`` for the individuals ``owner``."""
        x = self.x[owner]
        allowed = self.similarity.domain.allows(x, y)
        owner, x, y = owner[allowed], x[allowed], y[allowed]
        if len(owner):
            similar = self.similarity.metric.distance_upper(x, y) <= self.similarity.delta
            owner, y = owner[similar], y[similar]
        if not len(owner):
            return
        owner, y = self._extremes(owner, y)
        if not len(owner):
            return
        low, high = self.at_x[0][owner], self.at_x[1][owner]
        at_y = margins_at(self.exact.enclose(torch.from_numpy(y), None))
        value = self.ends.attained((low, high), at_y).numpy()
        _keep_best(owner, value, y, self.lower, self.counterpart)
        other = self.ends.decision(*at_y).numpy()
        flip = (other >= 0) & (self.decision[owner] >= 0) & (other != self.decision[owner]) & ~self.flips[owner]
        self.flip_counterpart[owner[flip]] = y[flip]
        self.flips[owner[flip]] = True

    def _extremes(self, owner: NDArray[np.int64], y: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """The candidates that go furthest, up or down in some output: only these are worth an enclosure."""
        with torch.no_grad():
            margins = self.exact.graph.evaluate(torch.from_numpy(np.ascontiguousarray(y)))
        finite = torch.isfinite(margins).all(1).numpy()  # a run that overflows shows nothing
        owner, y, margins = owner[finite], y[finite], margins[torch.from_numpy(finite)]
        if not len(owner):
            return owner, y
        best = [np.zeros(0, dtype=np.int64)]
        for target in range(targets(self.ends)):
            score = _score(margins, self.ends, target).numpy()
            best += [_last_of_each(owner, score), _last_of_each(owner, -score)]
        chosen = np.unique(np.concatenate(best))
        return owner[chosen], y[chosen]

    def finds(self) -> Finds:
        """The best of each individual."""
        return Finds(self.lower, self.counterpart, self.flips, self.flip_counterpart)


def _keep_best(
    owner: NDArray[np.int64], value: FloatArray, y: FloatArray, best: FloatArray, counterpart: FloatArray
) -> None:
    top = _last_of_each(owner, value)
    better = top[value[top] > best[owner[top]]]
    best[owner[better]], counterpart[owner[better]] = value[better], y[better]


def _last_of_each(owner: NDArray[np.int64], value: FloatArray) -> NDArray[np.int64]:
    """Where the largest value of each owner stands."""
    order = np.lexsort((value, owner))
    top: NDArray[np.int64] = order[np.append(owner[order][1:] != owner[order][:-1], True)]
    return top


def targets(ends: Ends) -> int:
    """How many outputs have to be searched: of two probabilities one says all."""
    return 1 if ends.head == "softmax" and ends.classes == 2 else ends.classes


def _score(margins: Tensor, ends: Ends, target: int) -> Tensor:
    """What the search raises or lowers: the logit of one class against the rest, or one raw output."""
    if ends.head == "softmax" and ends.classes > 2:
        return -torch.logsumexp(margins.reshape(len(margins), ends.classes, -1)[:, target], 1)
    return margins[:, target]


def search_precision(graph: Graph, x: Tensor) -> torch.dtype:
    """Gradients in float32 lead a search just as well, at half the price, unless the network's numbers do not fit."""
    with torch.no_grad():
        fine, coarse = graph.evaluate(x), graph.evaluate(x, torch.float32).double()
    return torch.float32 if bool((coarse - fine).norm() <= 1e-4 * fine.norm()) else torch.float64


def find_anchors(regions: Regions) -> tuple[Tensor, NDArray[np.bool_]]:
    """A move inside each region, to which steps are led back; and for which regions one was found."""
    sets = regions.sets
    still = torch.zeros_like(regions.centre)
    if not sets.root.shape[0]:
        still = torch.minimum(torch.maximum(still, sets.low), sets.high)
        return still, np.ones(len(regions), dtype=bool)
    nearest = (-(sets.offset @ sets.inverse.T)).expand(len(regions), -1)
    moves = torch.minimum(torch.maximum(nearest, sets.low), sets.high)
    inside = torch.linalg.vector_norm(sets.offset + moves @ sets.root.T, sets.order, dim=1) <= sets.radius
    return moves, inside.numpy()


def _most_promising(
    graph: Graph, ends: Ends, regions: Regions, anchors: Tensor, target: int, sign: float, most: int
) -> NDArray[np.int64]:
    """At most so many regions per individual, those whose anchor already goes furthest."""
    if not len(regions):
        return np.zeros(0, dtype=np.int64)
    with torch.no_grad():
        score = sign * _score(graph.evaluate(regions.centre + anchors), ends, target).numpy()
    order = np.lexsort((-score, regions.owner))
    owner = regions.owner[order]
    first = np.append(True, owner[1:] != owner[:-1])
    rank = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    return np.sort(order[rank < most])


def _ascend(
    graph: Graph,
    ends: Ends,
    regions: Regions,
    anchors: Tensor,
    target: int,
    sign: float,
    effort: Effort,
    restart: int,
    generator: torch.Generator,
) -> Tensor:
    """The best moves seen in a search from the anchors (restart 0) or from random places."""
    sets = regions.sets
    shape = _ellipsoid(sets)
    moves = anchors.clone()
    if restart:
        noise = torch.randn(moves.shape, generator=generator, dtype=torch.float64)
        length = (noise @ shape * noise).sum(1, keepdim=True).clamp(min=1e-300).sqrt()
        share = torch.rand(len(moves), 1, generator=generator, dtype=torch.float64)
        moves = led_back(sets, anchors, anchors + share * (noise @ shape) / length)
    best, top = moves.clone(), torch.full((len(moves),), -torch.inf, dtype=torch.float64)
    precision = search_precision(graph, regions.centre + moves)
    for step in range(effort.steps + 1):
        moves.requires_grad_(True)
        score = sign * _score(graph.evaluate(regions.centre + moves, precision).double(), ends, target)
        (gradient,) = torch.autograd.grad(score.sum(), moves)
        moves, score = moves.detach(), score.detach()
        better = score > top
        best[better], top[better] = moves[better], score[better]
        if step == effort.steps:
            break
        if step % 2 == 0:  # towards the place that is best to first order; at first all the way
            moves = led_back(sets, anchors, moves + (_furthest(sets, gradient) - moves) * 2 / (step + 2))
        else:  # along the gradient in the shape of the region, twice its size so that edges are reached
            direction = gradient @ shape
            length = (gradient * direction).sum(1, keepdim=True).clamp(min=1e-300).sqrt()
            moves = led_back(sets, anchors, moves + (2.0 - 2.0 * step / (effort.steps + 1)) * direction / length)
    return best


def _furthest(sets: ConvexSets, gradient: Tensor) -> Tensor:
    """Where a linear function is largest over the ball alone, or over the box where there is no ball."""
    if not sets.root.shape[0]:
        corner = torch.where(gradient > 0, sets.high, torch.where(gradient < 0, sets.low, 0.0))
        return torch.where(torch.isfinite(corner), corner, 0.0)
    pulled = gradient @ sets.inverse
    if sets.order == 1:
        top = torch.nn.functional.one_hot(pulled.abs().argmax(1), pulled.shape[1]).double() * pulled.sign()
    else:
        top = pulled / pulled.norm(dim=1, keepdim=True).clamp(min=1e-300)
    return (sets.radius[:, None] * top - sets.offset) @ sets.inverse.T


def _ellipsoid(sets: ConvexSets) -> Tensor:
    """The inverse of ``RᵀR/ρ² + diag(1/extent²)``: the shape of the largest regions, for everybody."""
    radius = float(sets.radius.max()) if sets.root.shape[0] else 1.0
    extent = sets.extent.amax(0)
    still, loose = extent == 0, torch.isinf(extent)
    inner = sets.root.T @ sets.root / min(max(radius, 1e-150), 1e150) ** 2
    inner = inner + torch.diag(torch.where(still | loose, 0.0, 1 / extent.square().clamp(min=1e-300)))
    inner = inner + torch.diag(torch.where(inner.diagonal() == 0, 1.0, 0.0))
    shape: Tensor = torch.linalg.pinv(inner, hermitian=True)
    moving = (~still).to(shape.dtype)
    return shape * moving[:, None] * moving


def led_back(sets: ConvexSets, anchors: Tensor, moves: Tensor) -> Tensor:
    """Lead moves back into their sets: box, simplices, then along the line to the anchor into the ball."""
    for start, stop in sets.blocks:
        base = sets.base[:, start:stop]
        moves[:, start:stop] = _to_simplex(base + moves[:, start:stop]) - base
    moves = torch.minimum(torch.maximum(moves, sets.low), sets.high)
    if not sets.root.shape[0]:
        return moves
    at = sets.offset + anchors @ sets.root.T
    line = (moves - anchors) @ sets.root.T
    radius = (sets.radius * (1 - 1e-9)).expand(len(moves))
    if sets.order == 2:
        along, length = (at * line).sum(1), line.square().sum(1).clamp(min=1e-300)
        room = (radius.square() - at.square().sum(1)).clamp(min=0)
        share = ((along.square() + length * room).sqrt() - along) / length
    else:
        share, step = torch.ones(len(moves), dtype=torch.float64), 1.0
        for _ in range(40):
            step /= 2
            outside = torch.linalg.vector_norm(at + share[:, None] * line, sets.order, dim=1) > radius
            share = torch.where(outside, share - step, (share + step).clamp(max=1.0))
    return anchors + share.clamp(0.0, 1.0)[:, None] * (moves - anchors)


def _to_simplex(rows: Tensor) -> Tensor:
    """Euclidean projection of each row onto the probability simplex."""
    ordered = rows.sort(dim=1, descending=True).values
    sums = ordered.cumsum(1) - 1
    count = torch.arange(1, rows.shape[1] + 1)
    last = (ordered * count > sums).sum(1, keepdim=True)
    return (rows - sums.gather(1, last - 1) / last).clamp(min=0)


def as_individuals(similarity: Similarity, regions: Regions, anchors: Tensor, moves: Tensor) -> list[FloatArray]:
    """The finds as individuals: slightly inside, and on the lattice where numbers are whole."""
    domain = similarity.domain
    near = (regions.centre + anchors).numpy()
    y = (regions.centre + anchors + (1 - 1e-9) * (moves - anchors)).numpy()
    y = np.clip(y, domain.low, domain.high)
    if domain.kind != "realizable" or not domain.integer.any():
        return [domain.filled(y)]
    # The nearest whole numbers may lie outside; those on the way to the anchor rarely do.
    origin, unit = domain.origin[domain.integer], domain.unit[domain.integer]
    whole, start = y[:, domain.integer] * unit + origin, near[:, domain.integer] * unit + origin
    inward = y.copy()
    inward[:, domain.integer] = (np.where(whole > start, np.floor(whole + 1e-9), np.ceil(whole - 1e-9)) - origin) / unit
    return [domain.filled(domain.snap(point)) for point in (y, inward, near + 0.5 * (y - near))]
