"""All unstable neurons together: they share one difference of two people.

Problem: behind an activation whose slopes lie in ``[s − t, s + t]`` the difference of two runs is ``Δ' = sΔ + e`` with
``|e_i| ≤ t_i |Δ_i|``. Summed neuron by neuron, ``Σ c_i e_i`` may be as large as ``Σ |c_i| t_i max|Δ_i|``, as if every
neuron could see the difference that suits it best. But all of them see the same one: ``Δ = m + A u + η`` with a single
``u`` in the unit ball, so that by Cauchy and Schwarz

    Σ |c_i| t_i |Δ_i|  ≤  Σ |c_i| t_i |m_i|  +  ‖c‖₂ √λmax(Aᵀ diag(t²) A)  +  min(‖ct‖₂ ‖η‖₂, Σ |c_i| t_i η_i).

``m`` and ``A`` are carried forward exactly (``A ← W diag(s) A``), what the activations leave open goes into ``η``. The
wider the regions, the more this gains: with every neuron unstable it is a fraction of the sum of maxima.

**Soundness.** ``u`` comes from an ellipsoid that holds the set of differences. The largest eigenvalue is bounded by
norms of repeated squares, which needs no eigensolver: ``λmax(G)² = λmax(G²)`` and ``λmax ≤ ‖·‖_F``. ``A`` is kept in
the precision of the interval tier; how far it can be from the exact one is bounded in norm and added to ``η``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, UNIT32, gamma
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.sets import ConvexSets, Shape, norm_upper

SQUARES = 4
"""How often a Gram matrix is squared: the 16th power overestimates an eigenvalue of 100 equal ones by a sixth."""

FLOOR = 2.0**-110
"""More than a product of float32 matrices of norm 1 can lose by underflow, for each column of the first."""

LEAST = 2.0**-50
"""Squares of numbers above this, and below its inverse, are far from what underflows or overflows in float32."""


@dataclass(frozen=True)
class Cover:
    """An ellipsoid ``middle + size · factor u``, ``‖u‖₂ ≤ 1``, that holds every move of a set up to ``error`` (2-norm).

    Factors are of Frobenius norm about 1.
    """

    middle: Tensor  # (rows or 1, m)
    size: Tensor  # (rows or 1,)
    factor: Tensor  # (rows or 1, m, q)
    error: Tensor  # (rows or 1,)

    @classmethod
    def of(cls, sets: Shape) -> Cover | None:
        """From the ball, if its root determines every coordinate that moves.

        None for other sets: an ellipsoid around a box is so much larger that neurons one by one are better off.

        **Soundness.** Coordinates with one possible value take it. For moves ``v`` of the others ``Rv + o = ρu``, and
        with any ``K`` ``v = K(ρu − o) + (I − KR)v``; the last term is at most ``|I − KR|`` times the extent of the box.
        """
        if not isinstance(sets, ConvexSets) or not bool(torch.isfinite(sets.extent).all()):
            return None
        free = (sets.high > sets.low).any(0)
        if not bool(free.any()):
            return None
        still, place = torch.where(free, 0.0, sets.low), torch.eye(len(free), dtype=torch.float64)[:, free]
        root, extent = sets.root[:, free], sets.extent[:, free]
        if len(root) < root.shape[1]:
            return None
        terms = 2 * gamma(sum(sets.root.shape) + 8)
        inverse = sets.inverse if bool(free.all()) else torch.linalg.pinv(root)
        length = norm_upper(inverse.reshape(1, -1), 2)
        radius = sets.radius * (1.0 if sets.order <= 2 else len(root) ** 0.5) * (1 + 4 * UNIT)
        offset = sets.offset + still @ sets.root.T
        large = norm_upper(sets.offset, 2) + norm_upper(still, 2) * norm_upper(sets.root.reshape(1, -1), 2)
        left = (torch.eye(root.shape[1], dtype=torch.float64) - inverse @ root).abs()
        doubt = left + (inverse.abs() @ root.abs() + 1) * terms
        error = norm_upper(extent @ doubt.T, 2) + length * (large + radius) * terms
        error = error * (1 + gamma(sum(root.shape) + 16)) + TINY
        if not bool((error <= 1e-6 * norm_upper(extent, 2)).all()):  # nor where that is not a number
            return None
        middle = still - offset @ (place @ inverse).T
        return cls(middle, radius * length, (place @ (inverse / length))[None], error)


@dataclass(frozen=True)
class _Seen:
    """What is known of the difference at one node: ``middle + size · factor u + η``.

    ``error`` bounds the 2-norm of ``η``, but for what an activation left open: ``rough`` bounds that, in coordinates of
    ``mask`` only. ``each`` bounds ``η`` by coordinate. ``norm`` bounds the Frobenius norm of the factor.
    """

    middle: Tensor
    factor: Tensor
    norm: Tensor
    error: Tensor
    rough: Tensor
    slope: Tensor | None = None  # by which the factor is still to be multiplied
    mask: Tensor | None = None
    each: Tensor | None = None

    @property
    def total(self) -> Tensor:
        """The 2-norm of all that is open."""
        return self.error + self.rough

    @property
    def product(self) -> Tensor:
        """The factor, multiplied out."""
        return self.columns.transpose(0, 1)

    @property
    def columns(self) -> Tensor:
        """The same with neurons first."""
        factor = self.factor.transpose(0, 1)
        return factor if self.slope is None else factor * self.slope.T[..., None].to(factor.dtype)


class Joint:
    """Differences of two runs over one batch of regions, carried forward node by node."""

    def __init__(self, graph: Graph, cover: Cover, rows: int, working: torch.dtype = torch.float32) -> None:
        self.graph, self.cover, self.rows, self.working = graph, cover, rows, working
        self.unit = UNIT if working == torch.float64 else UNIT32
        self.seen: dict[int, _Seen] = {}
        self.slope: dict[int, Tensor] = {}  # s and t of every activation
        self.half: dict[int, Tensor] = {}
        self.room: dict[int, Tensor] = {}  # for the rounding of both
        self._limits: dict[int, tuple[Tensor, Tensor]] = {}
        self.spread: dict[int, Tensor] = {}  # ‖t ∘ (size · factor u)‖₂ at most, per region

    def step(self, i: int, norm: Tensor | None, extra: Tensor, slopes: tuple[Tensor, Tensor] | None = None) -> None:
        """Go on to node ``i``.

        ``norm`` bounds the spectral norm of its weight, ``extra`` (rows,) whatever else the node adds to differences,
        ``slopes`` are the least and the largest of an activation.
        """
        node, parts = self.graph.nodes[i], [self.seen[j] for j in self.graph.nodes[i].inputs]
        none = torch.zeros(self.rows, dtype=torch.float64)
        match node.op:
            case Input():
                norm = norm_upper(self.cover.factor.flatten(1), 2)
                error = self.cover.error + extra + self.cover.size * norm * (4 * self.unit) + self.cover.size * FLOOR
                self.seen[i] = _Seen(self.cover.middle, self.cover.factor.to(self.working), norm, error, none)
            case Affine():
                assert norm is not None
                self.seen[i] = self._affine(node.op, parts[0], norm, extra)
            case Activation():
                assert slopes is not None
                self.seen[i] = self._activation(i, parts[0], *slopes, extra)
            case Add():
                self.seen[i] = self._sum(parts, extra)
            case Concat():
                middle = _cat([part.middle for part in parts])
                factor = _cat([part.product for part in parts])
                size, total = _total([part.norm for part in parts]), _total([part.total for part in parts])
                self.seen[i] = _Seen(middle, factor, size, total + extra * (1 + gamma(8)), none)
            case Select(index=index):
                (part,), chosen = parts, list(index)
                repeats = max(index.count(j) for j in set(index)) ** 0.5 * (1 + 4 * UNIT)
                error = part.total * repeats + extra
                factor = part.product[:, chosen]
                self.seen[i] = _Seen(part.middle[:, chosen], factor, part.norm * repeats, error, none)

    def lines(self, k: int, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        """``s`` and ``t`` of activation ``k`` for slopes between ``least`` and ``most``, as in the step or closer."""
        return (least + most) / 2, torch.where(least == most, 0.0, (most - least) / 2 + self.room[k])

    def limits(self, i: int) -> tuple[Tensor, Tensor]:
        """The difference of each neuron of node ``i``: middles and half widths, (rows, width)."""
        if i in self._limits:
            return self._limits[i]
        seen = self.seen[i]
        each = seen.total[:, None] if seen.each is None else torch.minimum(seen.total[:, None], seen.each)
        wide = torch.linalg.vector_norm(seen.product, dim=2).double() * (1 + gamma(seen.factor.shape[2] + 8, self.unit))
        half = (wide + FLOOR**0.5) * self.cover.size[:, None] + each + seen.middle.abs() * (4 * UNIT)
        half = (half * (1 + gamma(8)) + TINY).expand(self.rows, -1)
        lost = ~torch.isfinite(seen.middle + half)  # what overflowed says nothing, rather than not-a-number
        self._limits[i] = torch.where(lost, 0.0, seen.middle), torch.where(lost, torch.inf, half)
        return self._limits[i]

    def reach(self, i: int) -> Tensor:
        """At least the 2-norm of the differences at node ``i``, per region."""
        seen = self.seen[i]
        size = norm_upper(seen.middle, 2) + seen.norm * self.cover.size + seen.total
        return (size * (1 + gamma(8))).expand(self.rows)

    def slack(
        self, k: int, c: Tensor, owner: Tensor | slice, most: Tensor, half: Tensor | None = None, share: float = 1.0
    ) -> Tensor:
        """The largest ``c · e`` behind activation ``k``; ``most`` (rows, width) bounds ``|Δ|`` before it.

        Over smaller regions: with ``half`` at most what it was, and all but the middles at most ``share`` as large.
        """
        seen, half = self.seen[self.graph.nodes[k].inputs[0]], (self.half[k] if half is None else half)[owner]
        g = c.abs() * half
        apart = (g * most[owner]).sum(1)
        middle = (g * _rows(seen.middle, owner).abs()).sum(1)
        spread = norm_upper(torch.where(half > 0, c, 0.0), 2) * self.spread[k][owner]
        rest = norm_upper(g, 2) * _rows(seen.total, owner)
        if seen.each is not None:
            rest = torch.minimum(rest, (g * seen.each[owner]).sum(1))
        together = middle + (spread + rest) * share
        return torch.minimum(apart, together) * (1 + gamma(2 * c.shape[1] + 16)) + TINY

    def _affine(self, op: Affine, below: _Seen, norm: Tensor, extra: Tensor) -> _Seen:
        weight, terms = op.weight, 2 * gamma(op.width_in + 8)
        frobenius = norm_upper(weight.reshape(1, -1), 2)
        rounding = norm_upper(below.middle, 2) * frobenius * terms + extra + TINY
        floor = FLOOR * op.width_in * (1 + frobenius + below.norm)
        coarse = frobenius * below.norm * (2 * gamma(op.width_in + 8, self.unit)) + floor
        rounding = rounding + coarse * self.cover.size
        each = below.error[:, None] * norm_upper(weight, 2)
        if below.mask is None:
            each = each + below.rough[:, None] * norm_upper(weight, 2)
        else:
            squares = below.mask.double() @ weight.square().T * (1 + terms) + op.width_in * TINY
            each = each + below.rough[:, None] * (squares.sqrt() * (1 + 4 * UNIT))
        each = (each + rounding[:, None]) * (1 + gamma(16))
        error = (norm * below.total + rounding) * (1 + gamma(8))
        flat = below.columns  # (width, rows or 1, q): one product for all rows, and nothing to copy
        factor = (weight.to(self.working) @ flat.flatten(1)).reshape(-1, *flat.shape[1:]).transpose(0, 1)
        norm = (torch.minimum(norm, frobenius[0]) * below.norm + coarse) * (1 + gamma(8))
        return _Seen(below.middle @ weight.T, factor, norm, error, torch.zeros_like(error), each=each)

    def _activation(self, k: int, below: _Seen, least: Tensor, most: Tensor, extra: Tensor) -> _Seen:
        self.room[k] = (16 * UNIT) * (least.abs() + most.abs() + 1)
        slope, half = self.slope[k], self.half[k] = self.lines(k, least, most)
        steep, open_ = slope.abs().amax(1), half.amax(1)
        _, width, q = below.factor.shape
        gram = self._gram(below, half.to(self.working))
        trace = gram.diagonal(dim1=1, dim2=2).sum(1).double()
        doubt = trace * (4 * gamma(width + q + 8, self.unit)) + FLOOR * (width + below.norm.square())
        root = (top(gram) + doubt).sqrt() + below.norm * open_ * (4 * self.unit) + FLOOR
        spread = self.spread[k] = (root * self.cover.size * (1 + gamma(8)) + TINY).expand(self.rows)
        left = open_ * below.total
        if below.each is not None:
            left = torch.minimum(left, norm_upper(half * below.each, 2))
        rough = (norm_upper(half * below.middle, 2) + spread + left) * (1 + gamma(8))
        middle, norm = slope * below.middle, below.norm * steep
        coarse = norm * (4 * self.unit) + FLOOR
        error = steep * below.total + norm_upper(middle, 2) * (4 * UNIT) + coarse * self.cover.size + extra + TINY
        pending = slope if below.slope is None else slope * below.slope  # activation after activation: both are due
        return _Seen(middle, below.factor, norm, error * (1 + gamma(8)), rough, pending, half > 0)

    def _gram(self, below: _Seen, half: Tensor) -> Tensor:
        """``Aᵀ diag(t²) A`` for every region: ``Σ t_i² a_i a_iᵀ``, one product where all have the same ``A``."""
        (factor,) = below.factor[:1]
        if below.slope is None and len(below.factor) == 1 and LEAST < float(factor.abs().max()) < 1 / LEAST:
            outer = (factor[:, :, None] * factor[:, None, :]).flatten(1)
            return torch.mm(half.square(), outer).reshape(len(half), factor.shape[1], factor.shape[1])
        part = below.product * half[..., None]
        return part.transpose(1, 2) @ part

    def _sum(self, parts: list[_Seen], extra: Tensor) -> _Seen:
        middle, factor = parts[0].middle, parts[0].product
        for part in parts[1:]:
            middle, factor = middle + part.middle, factor + part.product
        norm, total = _total([part.norm for part in parts]), _total([part.total for part in parts])
        size = _total([norm_upper(part.middle, 2) for part in parts])
        rounds = 2 * len(parts) + 8
        coarse = norm * gamma(rounds, self.unit) + FLOOR
        error = (total + size * gamma(rounds) + coarse * self.cover.size + extra + TINY) * (1 + gamma(rounds))
        return _Seen(middle, factor, (norm + coarse) * (1 + gamma(rounds)), error, torch.zeros_like(error))


def top(gram: Tensor) -> Tensor:
    """Upper bounds (rows,) in float64 of the largest eigenvalue of symmetric matrices (rows, q, q).

    **Soundness.** ``λmax(G) ≤ ‖G‖₂ = ‖G²‖₂^½`` for symmetric ``G``. Each matrix is scaled to a Frobenius norm of at
    most 1 before it is squared, so that the square is off by at most ``η`` in norm; symmetrising an almost symmetric
    matrix brings it no further from the symmetric one that it stands for.
    """
    q, unit = gram.shape[-1], UNIT if gram.dtype == torch.float64 else UNIT32
    eta, grow = 4 * gamma(q + 8, unit), 1 + 4 * gamma(q * q + 8, unit)
    floor = TINY if gram.dtype == torch.float64 else FLOOR
    largest = gram.abs().amax((1, 2)) + floor  # first of all, so that no square of an entry under- or overflows
    gram, scales = gram / largest[:, None, None], [largest.double()]
    for _ in range(SQUARES):
        gram = (gram + gram.transpose(1, 2)) / 2
        scale = torch.linalg.vector_norm(gram, dim=(1, 2)) * grow + floor
        gram = gram / scale[:, None, None]
        scales.append(scale.double())
        gram = gram @ gram
    found: Tensor = torch.linalg.vector_norm(gram, dim=(1, 2)).double() * grow + floor
    for scale in reversed(scales[1:]):
        found = (found + eta).sqrt() * (scale + floor) * (1 + 8 * UNIT)
    return (found + eta) * (scales[0] * (1 + 8 * unit) + floor)


def spectral_norm(weight: Tensor) -> Tensor:
    """An upper bound of the 2-norm of a matrix."""
    small = weight if weight.shape[0] < weight.shape[1] else weight.T
    size = norm_upper(weight.reshape(1, -1), 2)[0]
    square = top((small @ small.T)[None])[0] + size.square() * (2 * gamma(max(weight.shape) + 8))
    return torch.minimum(square.sqrt() * (1 + 8 * UNIT) + TINY, size)


def _total(parts: list[Tensor]) -> Tensor:
    """Sums that are not rounded down."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total * (1 + gamma(len(parts) + 8))


def _cat(parts: list[Tensor]) -> Tensor:
    rows = max(len(part) for part in parts)
    return torch.cat([part.expand(rows, *part.shape[1:]) for part in parts], 1)


def _rows(values: Tensor, owner: Tensor | slice) -> Tensor:
    return values if len(values) == 1 else values[owner]
