"""Networks with one hidden layer of ReLUs whose bends add up, coordinate by coordinate: exact differences.

Problem: for ``z`` in ``x + near`` and ``y = z + d``, ``d`` in ``between``, bound ``o(y) − o(z)`` for each output. Of
the hidden neurons some read one coordinate that moves (*hinges*), some none, and the others must have a known sign over
the sets. Then

    o(y) − o(z) = const + t·d + Σ_j [G_j(z_j + d_j) − G_j(z_j)],

``G_j`` the sum of the hinges of a coordinate, and changes add over coordinates. Sets are ``‖R v + o‖ ≤ ρ`` within a
box; for **any** splits ``s`` and ``s'`` of the balls of ``between`` and ``near``

    t·d + Σ_j … ≤ ρ‖s‖ − s·o + ρ'‖s'‖ − s'·o' + Σ_j max over z_j, d_j of [t_j d_j + G_j(z_j + d_j) − G_j(z_j)
                  − (Rᵀs)_j d_j − (R'ᵀs')_j z_j].

Each summand is piecewise linear on a rectangle, so that it is largest at a corner of a piece: where two of the lines
cross on which ``z_j`` is at an end or at a bend, ``d_j`` at an end, ``z_j + d_j`` at a bend. Without balls the sum is
exact. With ``near = {0}`` it bounds how far an output moves from that at ``x``.

**Soundness.** Any point of the rectangle may be looked at besides, and splits are hints. The exact layers are within
``γ(size |h| + |b|)`` of their float weights, which is charged twice; what is computed here is within ``γ`` of the sizes
of everything that is added, also where a bend is a rounding away from where it was looked for, since the function is
continuous and its slopes are weighed by the same sizes. What is not a number is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import SMALL, TINY, Array, U, dual_order, gamma, norm_up
from isonomy_verify.differences import PAIR_BLOCK
from isonomy_verify.domain import Mask
from isonomy_verify.network import Network
from isonomy_verify.regions import Index
from isonomy_verify.sets import ConvexSets

BENDS = 16
"""The most hinges of a coordinate."""

SPLIT_STEPS = 10
"""How often splits are moved towards where their bound falls."""


class Additive:
    """The layers of such a network: ``weight`` and ``bias`` of the hidden one, ``outer`` of the outputs, and ``direct``
    for what outputs read of the input themselves."""

    def __init__(self, network: Network) -> None:
        self.network = network
        first, last = network.layers
        self.weight, self.bias, width = first.blocks[0].weight, first.bias, network.width
        none = np.zeros((last.width, width))
        self.outer = next(
            (block.weight for block in last.blocks if block.source == 1), np.zeros((last.width, first.width))
        )
        self.direct = next((block.weight for block in last.blocks if block.source == 0), none)
        self.terms = gamma(16 * (width + first.width) + 128)

    @classmethod
    def of(cls, network: Network) -> Additive | None:
        """The network as such, where it has one hidden layer of ReLUs; None where it has not."""
        if network.depth != 1:
            return None
        first = network.layers[0]
        relu = first.activation is not None and first.activation.kind == "relu"
        return cls(network) if relu and first.reads_input_only else None

    @np.errstate(all="ignore")  # what overflows ends as an infinite bound
    def differences(self, x: Array, near: ConvexSets | None, between: ConvexSets) -> tuple[Array, Array]:
        """Both ends (n, outputs) of the difference; infinite where a neuron is neither a hinge nor of known sign.

        People with the same coordinates that move are bounded together, so that a bound is the same whichever others
        are asked about.
        """
        low, high = (np.full((len(x), len(self.outer)), end) for end in (-np.inf, np.inf))
        moves = np.broadcast_to(between.low < between.high, x.shape)
        if near is not None:
            moves = moves | (near.low < near.high)
        for rows, moving in _alike(moves):
            for start in range(0, len(rows), PAIR_BLOCK):
                some = rows[start : start + PAIR_BLOCK]
                pair = _Pair(self, x[some], None if near is None else near[some], between[some], moving)
                if pair.usable:
                    high[some], low[some] = pair.most(1.0), -pair.most(-1.0)
        return low, high


def _alike(moves: Mask) -> Iterator[tuple[Index, Mask]]:
    """Rows with the same coordinates that move."""
    if len(moves) and (moves == moves[:1]).all():
        yield np.arange(len(moves)), moves[0]
        return
    patterns, which = np.unique(moves, axis=0, return_inverse=True)
    for number, moving in enumerate(patterns):
        yield np.flatnonzero(which.reshape(-1) == number), moving


def _within(places: Array, low: Array, high: Array) -> Array:
    """The places of each row between ``low`` and ``high``, as many as any row has, and where it has fewer ends."""
    inside = (places > low) & (places < high)
    kept = np.argsort(~inside, axis=2, kind="stable")[:, :, : int(inside.sum(2).max(initial=0))]
    return np.clip(np.take_along_axis(places, kept, 2), low, high)


class _Ball(NamedTuple):
    """``‖R v + o‖ ≤ ρ`` on the coordinates that move, which stand still ones are taken into ``offset``."""

    root: Array
    inverse: Array
    offset: Array  # (rows, r)
    offset_error: Array  # (rows, r): rounding of the offset
    radius: Array  # (rows, 1)
    order: float

    @classmethod
    def of(cls, sets: ConvexSets, moving: Mask, fixed: Array) -> _Ball | None:
        if not len(sets.root) or not moving.any():
            return None
        root, still = sets.root[:, moving], sets.root[:, ~moving]
        offset = sets.offset + fixed[:, ~moving] @ still.T
        offset_error = gamma(still.shape[1] + 8) * (np.abs(sets.offset) + np.abs(fixed[:, ~moving]) @ np.abs(still).T)
        whole = bool(moving[sets.root.any(0)].all()) and sets.inverse.shape == sets.root.T.shape
        inverse: Array = np.asarray(sets.inverse[moving] if whole else np.linalg.pinv(root), dtype=np.float64)
        radius = np.broadcast_to(sets.radius, len(offset))[:, None] if len(sets.radius) == 1 else sets.radius[:, None]
        return cls(root, inverse, offset, offset_error, radius, sets.order)

    def end(self, s: Array) -> tuple[Array, Array, Array]:
        """``ρ‖s‖_q − s·o`` from above for splits (rows, outputs, r), ``Rᵀs``, and the size of its rounding."""
        offset, offset_error = self.offset[:, None], self.offset_error[:, None]
        norm = norm_up(s.reshape(-1, s.shape[2]), dual_order(self.order)).reshape(s.shape[:2])
        along = (s * offset).sum(2)
        size = (np.abs(s) * (np.abs(offset) * gamma(s.shape[2] + 8) + offset_error)).sum(2)
        split_weight, grow = s @ self.root, gamma(s.shape[2] + 16)
        return (
            self.radius * norm * (1 + 8 * U) - along + size * 1.01,
            split_weight,
            (np.abs(s) @ np.abs(self.root)) * grow,
        )

    def maximiser(self, s: Array) -> Array:
        """About where ``s`` is largest in the ball, as moves."""
        if self.order == 2:
            u = s / np.maximum(np.sqrt((s * s).sum(2, keepdims=True)), 1e-300)
        elif self.order == np.inf:
            u = np.sign(s)
        else:
            best = np.abs(s).argmax(2)[..., None]
            u = np.zeros_like(s)
            np.put_along_axis(u, best, np.sign(np.take_along_axis(s, best, 2)), 2)
        return np.asarray((self.radius[:, None] * u - self.offset[:, None]) @ self.inverse.T)


class _Pair:
    """One batch of pairs of sets in which the same coordinates move."""

    def __init__(self, model: Additive, x: Array, near: ConvexSets | None, between: ConvexSets, moving: Mask) -> None:
        self.model, self.moving, self.usable = model, moving, False
        n, shape = len(x), x.shape
        nothing = np.zeros(shape)
        self.near = nothing, nothing
        if near is not None:
            self.near = np.broadcast_to(near.low, shape), np.broadcast_to(near.high, shape)
        self.between = np.broadcast_to(between.low, shape), np.broadcast_to(between.high, shape)
        reach = [np.maximum(np.abs(low), np.abs(high)) for low, high in (self.near, self.between)]
        if not np.isfinite(reach[0] + reach[1]).all():
            return
        self.sizes(np.abs(x) + reach[0] + reach[1])
        # What stands still takes its one value, in the near run and in the far one.
        weight, outer, still = model.weight, model.outer, ~moving
        at_near = model.bias + (x + self.near[0])[:, still] @ weight[:, still].T
        at_far = at_near + self.between[0][:, still] @ weight[:, still].T
        part = weight[:, moving]
        reads = (part != 0).sum(1)
        fixed, hinge, mixed = reads == 0, reads == 1, reads > 1
        rise = np.maximum(at_far, 0.0) - np.maximum(at_near, 0.0)
        self.constant = rise[:, fixed] @ outer[:, fixed].T + self.between[0][:, still] @ model.direct[:, still].T
        self.slope = np.broadcast_to(model.direct[:, moving], (n, len(outer), int(moving.sum())))
        self.known = np.ones(n, dtype=bool)
        if mixed.any():
            wide = np.abs(part[mixed]).T
            centre = x[:, moving] @ part[mixed].T
            doubt = self.noise[:, mixed] + model.terms * self.top_hidden[:, mixed]
            first, second = at_near[:, mixed] + centre, at_far[:, mixed] + centre
            step = [each[:, moving] @ wide * (1 + model.terms) + doubt for each in (reach[0], reach[0] + reach[1])]
            active = (first > step[0]) & (second > step[1])
            dead = (first < -step[0]) & (second < -step[1])
            self.known = (active | dead).all(1)
            acting = outer[:, mixed] * active[:, None]
            self.slope = self.slope + acting @ part[mixed]
            self.constant = self.constant + (acting @ (at_far - at_near)[:, mixed, None])[..., 0]
        self.at = np.abs(x[:, moving])[:, None]
        self.low, self.high = (each[:, moving] for each in self.between)
        self.near_low, self.near_high = (each[:, moving] for each in self.near)
        self.usable = self._corners(x[:, moving], part, at_near, at_far, hinge)
        self.ball = _Ball.of(between, moving, self.between[0])
        self.near_ball = None if near is None else _Ball.of(near, moving, self.near[0])

    def sizes(self, top: Array) -> None:
        """How large hidden neurons are, how far they are off, and what of that reaches the outputs in one run."""
        model = self.model
        first, last = model.network.layers
        eta = first.eta([top])[:, None]
        self.top_hidden = eta * first.rho * 1.01
        self.noise = first.unit * 1.01 * self.top_hidden + first.slack
        hidden = self.top_hidden + self.noise
        tops = [top if block.source == 0 else hidden for block in last.blocks]
        most = last.eta(tops)[:, None]
        under = TINY * (2 + float(first.rho.sum() + last.rho.sum())) * (2 + eta + most) + SMALL
        lost = self.noise @ np.abs(model.outer).T * (1 + model.terms) + last.unit * 1.01 * last.rho * most + last.slack
        size = (hidden @ np.abs(model.outer).T + top @ np.abs(model.direct).T) * (1 + model.terms)
        self.error = 2.02 * lost + 4 * model.terms * size + 4 * under

    def _corners(self, x: Array, part: Array, at_near: Array, at_far: Array, hinge: Mask) -> bool:
        """Look at the corners of all pieces: moves ``z`` and ``d`` (rows, columns, points) and the rises of hinges
        (rows, outputs, columns, points); say whether hinges are few enough."""
        rows, place = np.nonzero((part != 0) & hinge[:, None])
        self.columns, count = np.unique(place, return_counts=True)
        if not len(self.columns):
            return True
        if count.max() > BENDS:
            return False
        n, j, most = len(x), len(self.columns), int(count.max())
        steep, outer = np.ones((j, most)), np.zeros((len(self.model.outer), j, most))
        bias = [np.zeros((n, j, most)), np.zeros((n, j, most))]
        for number, column in enumerate(self.columns):
            mine = rows[place == column]
            steep[number, : len(mine)] = part[mine, column]
            outer[:, number, : len(mine)] = self.model.outer[:, mine]
            for each, at in zip(bias, (at_near, at_far), strict=True):
                each[:, number, : len(mine)] = at[:, mine]
        own = x[:, self.columns, None]
        low, high = (each[:, self.columns, None] for each in (self.low, self.high))
        near_low, near_high = (each[:, self.columns, None] for each in (self.near_low, self.near_high))
        near = _within(-bias[0] / steep - own, near_low, near_high)
        far = _within(-bias[1] / steep - own, near_low + low, near_high + high)
        if (near_low == near_high).all():
            d = np.clip(np.concatenate([low, high, far - near_low], axis=2), low, high)
            z = np.broadcast_to(near_low, d.shape)
        else:
            lines = np.concatenate([near_low, near_high, near], axis=2)
            crossing = far[:, :, None] - lines[..., None]
            ends = [np.broadcast_to(each[..., None], (*lines.shape, 1)) for each in (low, high)]
            d = np.concatenate([*ends, crossing], axis=3).reshape(n, j, -1)
            z = np.repeat(lines, 2 + far.shape[2], axis=2)
            flat = [np.broadcast_to(each, far.shape) for each in (low, high)]
            d = np.clip(np.concatenate([d, *flat], axis=2), low, high)
            z = np.clip(np.concatenate([z, *(far - each for each in flat)], axis=2), near_low, near_high)
        rise = np.maximum(steep[:, None] * (own + z + d)[..., None] + bias[1][:, :, None], 0.0)
        rise -= np.maximum(steep[:, None] * (own + z)[..., None] + bias[0][:, :, None], 0.0)
        self.z, self.d = z, d
        self.rise = np.einsum("njpk,ojk->nojp", rise, outer)
        return True

    def most(self, sign: float) -> Array:
        """At least the largest ``sign`` times the difference, (rows, outputs)."""
        slope = sign * self.slope
        best = np.full(slope.shape[:2], np.inf)
        zero = np.zeros_like(slope)
        wanted = np.array(slope)
        if len(self.columns):
            ends = sign * (self.rise[..., 1] - self.rise[..., 0])
            width = (self.d[..., 1] - self.d[..., 0])[:, None]
            wanted[..., self.columns] += np.where(width > 0, ends / np.where(width > 0, width, 1.0), 0.0)
        masks = [zero]
        if self.ball is not None or self.near_ball is not None:
            masks = [zero, zero + 1.0, self._held_back(wanted)]
        values = [self._value(sign, slope, wanted * mask, zero)[0] for mask in masks]
        best = np.min(values, axis=0)
        if len(self.columns) and len(masks) > 1:
            mask = np.choose(np.argmin(values, axis=0)[..., None], masks)
            best = np.minimum(best, self._steered(sign, slope, wanted * mask, mask))
        total = best + sign * self.constant + self.error
        return np.asarray(np.where(np.isnan(total) | ~self.known[:, None], np.inf, total))

    def _held_back(self, wanted: Array) -> Array:
        """1 where the ball says how far a coordinate moves, 0 where the box does."""
        if self.ball is None:
            return np.zeros_like(wanted)
        reach = norm_up(self.ball.inverse, dual_order(self.ball.order)) * self.ball.radius
        middle = -(self.ball.offset @ self.ball.inverse.T)
        boxed = (self.high < middle + 0.5 * reach)[:, None], (self.low > middle - 0.5 * reach)[:, None]
        return np.asarray(1.0 - np.where(wanted > 0, *boxed))

    def _value(self, sign: float, slope: Array, w: Array, v: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The bound for splits that take ``w`` from what ``d`` is worth and ``v`` from what ``z`` is; where every
        coordinate with bends is largest, and where the balls are."""
        total: Array = np.zeros(slope.shape[:2])
        directions, errors, places = [], [], []
        for ball, taken in ((self.ball, w), (self.near_ball, v)):
            if ball is None:
                directions.append(np.zeros_like(slope))
                errors.append(np.zeros_like(slope))
                places.append(np.zeros((*slope.shape[:2], len(self.columns))))
                continue
            s = taken @ ball.inverse
            value, split_weight, error = ball.end(s)
            total = total + value
            directions.append(split_weight)
            errors.append(error)
            places.append(ball.maximiser(s)[..., self.columns])
        worth, cost = slope - directions[0], -directions[1]
        reach = np.maximum(np.abs(self.low), np.abs(self.high))[:, None]
        near_reach = np.maximum(np.abs(self.near_low), np.abs(self.near_high))[:, None]
        # Bends are within a rounding of where they were looked for, relative to the coordinate itself.
        size = (
            (np.abs(worth) + np.abs(directions[0])) * (reach + self.at) + np.abs(cost) * (near_reach + self.at)
        ).sum(2)
        total = total + self.model.terms * (size + np.abs(total))
        total = total + (errors[0] * reach + errors[1] * near_reach).sum(2) * (1 + self.model.terms)
        gain = np.maximum(worth * self.low[:, None], worth * self.high[:, None])
        gain = gain + np.maximum(cost * self.near_low[:, None], cost * self.near_high[:, None])
        d = z = np.zeros((*slope.shape[:2], 0))
        if len(self.columns):
            here = sign * self.rise + worth[..., self.columns, None] * self.d[:, None]
            here = here + cost[..., self.columns, None] * self.z[:, None]
            at = here.argmax(3)[..., None]
            gain[..., self.columns] = np.take_along_axis(here, at, 3)[..., 0]
            d, z = (
                np.take_along_axis(np.broadcast_to(each[:, None], here.shape), at, 3)[..., 0]
                for each in (self.d, self.z)
            )
        return total + gain.sum(2), d, z, places[0], places[1]

    def _steered(self, sign: float, slope: Array, w: Array, mask: Array) -> Array:
        """The least bound over splits that are moved, coordinate by coordinate, to where the bound falls: by how far
        apart the places are that the ball and the coordinate choose."""
        w, v = np.array(w), np.zeros_like(slope)
        columns, open_ = self.columns, mask[..., self.columns]
        spread = np.abs(self.rise).max((2, 3), initial=0.0)[:, :, None]
        width = np.maximum(self.d.max(2) - self.d.min(2), 1e-300)[:, None]
        away = np.maximum(self.z.max(2) - self.z.min(2), 1e-300)[:, None]
        steep = np.minimum(np.ptp(self.rise, axis=3) / width, spread / width)
        steep_near = np.ptp(self.rise, axis=3) / away * (self.z.max(2) > self.z.min(2))[:, None]
        best = np.full(slope.shape[:2], np.inf)
        for step in range(SPLIT_STEPS):
            value, d, z, ball_d, ball_z = self._value(sign, slope, w, v)
            best = np.fmin(best, value)
            rate = 0.5 / np.sqrt(1.0 + step)
            w[..., columns] += rate * open_ * steep * np.clip((d - ball_d) / width, -1, 1)
            if self.near_ball is not None:
                v[..., columns] += rate * steep_near * np.clip((z - ball_z) / away, -1, 1)
        return best
