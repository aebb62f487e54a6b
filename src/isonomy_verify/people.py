"""Who can be who: the people within reach of an individual, those similar to them, and how differently they fare.

Categories are enumerated where there are not too many choices, whole numbers keep to their lattice; boxes are outward.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from isonomy_verify.bounds import DOUBT, Array, Layer, Metric, Moves, Range, Sweep, U, gamma, sigmoid, up

CHOICES = 1024  # of categories, for one individual


class Domain(NamedTuple):
    """Which vectors are somebody: ranges, one-hot blocks (of width 1: flags), whole numbers ``(k - origin) / unit``."""

    kind: str
    low: Array
    high: Array
    blocks: Array  # (b, 2): first coordinate, and the one after the last
    integer: Array
    origin: Array
    unit: Array
    immutable: Array
    fills: Array  # (f, 3): a flag, and the coordinate that has this value when the flag is 1

    def contains(self, x: Array) -> Array:
        """Which rows are members, by the very expression that encodes a value."""
        whole = self.kind == "realizable"
        snapped = (np.rint(x * self.unit + self.origin) - self.origin) / self.unit
        fits = np.isfinite(x) & (x >= self.low) & (x <= self.high) & (~(self.integer & whole) | (x == snapped))
        member = np.asarray(fits.all(1))
        for start, stop in self.blocks:
            member &= (stop - start == 1) | (np.abs(x[:, start:stop].sum(1) - 1) <= (0.0 if whole else 1e-9))
            member &= (not whole) | np.isin(x[:, start:stop], (0.0, 1.0)).all(1)
        for flag, place, fill in self.fills if whole else []:
            member &= (x[:, int(flag)] != 1) | (x[:, int(place)] == fill)
        return member

    def moves(self, place: Range, metric: Metric, radius: Array, still: Array) -> tuple[Array, Moves]:
        """Moves from anybody between two corners that domain and metric leave, by choices of categories, and whose."""
        lowest, highest = place
        low, high = metric.box(highest, radius)
        low = np.where(still, 0.0, np.maximum(low, np.minimum(-up(highest - self.low), 0.0)))
        high = np.where(still, 0.0, np.minimum(high, np.maximum(up(self.high - lowest), 0.0)))
        span = np.abs(self.low) + np.abs(self.high) + np.abs(self.origin / self.unit) + 1 / self.unit
        first, last = np.ceil((low - 1e-9 * span) * self.unit), np.floor((high + 1e-9 * span) * self.unit)
        first, last = (k / self.unit + s * 16 * U * span * (k != 0) for k, s in ((first, -1), (last, 1)))
        which = self.integer & (self.kind == "realizable")
        low, high = np.where(which, np.maximum(low, first), low), np.where(which, np.minimum(high, last), high)
        here, moves = np.where(lowest == highest, lowest, 0.5), Moves((low, high), metric, radius)
        owner = np.arange(len(here))
        for start, stop in sorted(self.blocks.tolist(), key=lambda block: int(block[1] - block[0])):
            if self.kind != "realizable" or np.isinf(radius).all() or not np.isin(here[:, start:stop], (0, 1)).all():
                continue  # nobody's category is known here, or anybody is meant
            steps = np.eye(stop - start) if stop - start > 1 else np.array([[0.0], [1.0]])
            steps = steps - here[owner][:, None, start:stop]
            fits = (steps >= moves.low[:, None, start:stop]) & (steps <= moves.high[:, None, start:stop])
            row, state = np.nonzero(fits.all(2))
            low, high = moves.low[row], moves.high[row]
            low[:, start:stop] = high[:, start:stop] = steps[row, state]
            more = Moves((low, high), metric, moves.radius[row])
            kept = ~more.empty()
            if np.bincount(owner[row[kept]], minlength=1).max() <= CHOICES:
                owner, moves = owner[row[kept]], more[kept]
        return owner, moves


class Question(NamedTuple):
    """Everything that a bound depends on; ``head`` is softmax, sigmoid or regression."""

    layers: list[Layer]
    head: str
    domain: Domain
    metric: Metric
    delta: float
    ground: Metric

    def bound(self, x: Array, radius: Array) -> Array:
        """What the violation of nobody within the radius of each row exceeds."""
        worst, nobody = np.full(len(x), -1.0), np.zeros(len(self.domain.low), dtype=bool)
        owner, near = self.domain.moves((x, x), self.ground, radius, nobody)
        size = max(1, 2**22 // max(4096, sum(len(layer.bias) for layer in self.layers) ** 2))
        for start in range(0, len(owner), size):
            who = owner[start : start + size]
            for pair, value in self._pairs(x[who], near[start : start + size], size):
                np.maximum.at(worst, who[pair], value)
        return np.where(worst >= 0, worst, np.inf)  # everybody is at least similar to themselves

    def attained(self, x: Array, y: Array) -> Array:
        """At least this much more one of two people receives than the other."""
        both = np.concatenate([x, y])
        still = Moves((np.zeros_like(both), np.zeros_like(both)), None, np.zeros(len(both)))
        run = Sweep(self.layers, both, still.support, np.abs(both))
        low, high = (np.split(side, 2) for side in self._values(run.enclose(len(run.layers), self._rows()))[0])
        return np.asarray(np.maximum(low[1] - high[0], low[0] - high[1]).max(1))

    def _pairs(self, x: Array, near: Moves, size: int) -> Iterator[tuple[Array, Array]]:
        """Pairs of somebody in ``x + near`` and somebody similar: whose, and their largest gap."""
        domain, layers, rows, last, here = self.domain, self.layers, self._rows(), len(self.layers), x + near.low
        still, one = near.low == near.high, Sweep(layers, x, near.support, np.abs(x) + near.size)
        z, delta = one.enclose(last, rows), np.full(len(x), self.delta)
        place = np.where(still, here, -up(-here)), np.where(still, here, up(x + near.high))
        owner, between = domain.moves(place, self.metric, delta, domain.immutable)
        for start in range(0, len(owner), size):
            who, apart = owner[start : start + size], between[start : start + size]
            mine, fixed = near[who], still[who] & (apart.low == apart.high)
            low = np.maximum(-up(-mine.low - apart.low), np.minimum(-up(x[who] - domain.low), 0.0))
            high = np.minimum(up(mine.high + apart.high), np.maximum(up(domain.high - x[who]), 0.0))
            low, high = (np.where(fixed, mine.low + apart.low, side) for side in (low, high))
            whole = Moves((low, high), None, delta[who])

            def both(w: Array, mine: Moves = mine, apart: Moves = apart, whole: Moves = whole) -> Array:
                """What the domain cuts short goes to the whole, the rest to the sum of both; any split is right."""
                short = np.where(w > 0, (whole.high <= apart.high)[:, None], (whole.low >= apart.low)[:, None])
                cut, rest = np.where(short, w, 0.0), np.where(short, 0.0, w)
                split = whole.support(cut) + mine.support(rest) + apart.support(rest)
                return np.asarray(np.minimum(split + np.abs(split) * gamma(8), whole.support(w)))

            other = Sweep(layers, x[who], both, np.abs(x[who]) + whole.size)
            ranges = {i: (low[who], high[who]) for i, (low, high) in one.range.items()}
            gap = Sweep(layers, None, apart.support, apart.size, ranges, other.range).enclose(last, rows)
            yield who, self._gap((z[0][who], z[1][who]), other.enclose(last, rows), gap)

    def _rows(self) -> Array:
        """The margins: ``z_1 - z_0``; with k classes ``z_j - z_c`` for each c and j; else the outputs themselves."""
        k = len(self.layers[-1].bias)
        pairs = [(c, j) for c in range(1 if k == 2 else k) for j in range(k) if j != c]
        return np.stack([np.eye(k)[j] - np.eye(k)[c] for c, j in pairs]) if self.head == "softmax" else np.eye(k)

    def _values(self, margins: Range) -> tuple[Range, Range]:
        """Ranges of what each class receives, and of the number whose sigmoid that is."""
        k = len(self.layers[-1].bias)
        if self.head == "softmax" and k > 2:  # t_c = -log(sum over j of exp(z_j - z_c))
            sides = [side.reshape(-1, k, k - 1) for side in margins]
            high, low = (-(np.log(np.exp(s - s.max(2, keepdims=True)).sum(2)) + s.max(2)) for s in sides)
            margins = low - (DOUBT + 2 * k * U) * (1 + np.abs(low)), high + (DOUBT + 2 * k * U) * (1 + np.abs(high))
        if self.head == "regression":
            return margins, margins
        return (sigmoid(margins[0]) - DOUBT, sigmoid(margins[1]) + DOUBT), margins

    def _gap(self, z: Range, y: Range, move: Range) -> Array:
        """The largest change between two people, from the ranges of their margins and of the difference of these."""
        (mine, t), (yours, u), k = self._values(z), self._values(y), len(self.layers[-1].bias)
        apart = up(up(np.maximum(yours[1] - mine[0], mine[1] - yours[0])))
        if self.head == "regression":
            return np.asarray(np.maximum(np.minimum(apart, np.maximum(-move[0], move[1])).max(1), 0.0))
        if self.head == "softmax" and k > 2:
            move = -move[1].reshape(-1, k, k - 1).max(2), -move[0].reshape(-1, k, k - 1).min(2)
        rise, fall = _rise(*t, *u, move[1]), _rise(-t[1], -t[0], -u[1], -u[0], -move[0])
        return np.asarray(np.clip(np.minimum(apart, np.maximum(rise, fall)).max(1), 0.0, 1.0))


def _rise(z_low: Array, z_high: Array, y_low: Array, y_high: Array, move: Array) -> Array:
    """The largest ``sigmoid(t + D) - sigmoid(t)``, D at most ``move``; the larger, the nearer ``t + D/2`` is to 0."""
    first, last = np.maximum(z_low, y_low - move), np.minimum(z_high, y_high - move)
    at = np.minimum(np.maximum(-move / 2, first), last)
    rise = sigmoid(at + move) - sigmoid(at) + 2 * DOUBT + 8 * U * (np.abs(at) + np.abs(move))
    return np.where(move < 0, 0.0, np.where((first <= last) & np.isfinite(rise), rise, 1.0))
