"""The distributional bound: what no population within a Wasserstein radius of the individuals can exceed.

The problem is ``sup { E_Q[I] : W_p(P, Q) ≤ γ }`` for ``P = Σ π_i δ_i``, ``π_i = w_i / Σ w``. All possible people are
covered, for every individual, by *cells*: in a cell the cost is at least ``near`` and the violation at most ``value``.
Then for **any** multiplier ``λ ≥ 0``

    sup E_Q[I]  ≤  λ γ^p + Σ_i π_i h_i(λ),        h_i(λ) = max { value − λ near^p : cells of i },

and for γ = 0 and p = ∞, where a coupling moves no individual further than γ, without a multiplier

    sup E_Q[I]  ≤  Σ_i π_i max { value : cells of i that begin within γ }.

The mean can be taken in parts: heights of some individuals at a time, their products with the weights rounded up, exact
sums of both (:func:`isonomy_verify.arithmetic.mean_of_sums`).

**Soundness.** The caller promises that the cells of an individual cover everybody; what can be seen of that is
checked. All else holds for the floats given, in real arithmetic: costs are rounded down; heights, price, mean and their
sum up, each where it is computed. A price that overflows is infinite; a cost that overflows is above every value; what
is not a number is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import TINY, Array, U, down, mean_up, power_down, power_up, up

HUGE = 2.0**500
"""No value is above this, so that a cost that overflows is above every value."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A cover of all possible people, seen from each individual, stored flat and in any order.

    People in a cell of ``owner`` cost ``[near, far]``, or ``(near, far]`` where ``open_``, and violate by ``value`` at
    most. Everybody has a cell at cost 0 (that of the individual) and one with ``far = ∞``.
    """

    owner: NDArray[np.intp]
    near: Array
    far: Array
    value: Array
    open_: NDArray[np.bool_]
    weights: Array

    def __repr__(self) -> str:
        return f"Cells({len(self.weights)} individuals, {len(self.owner)} cells)"

    def __post_init__(self) -> None:
        count, n = self.owner.shape, self.weights.size
        types = {"owner": np.intp, "near": float, "far": float, "value": float, "open_": bool, "weights": float}
        for name, dtype in types.items():
            array = getattr(self, name)
            fits = array.dtype == dtype and array.ndim == 1 and (name == "weights" or array.shape == count)
            _need(fits, name, "a vector with one entry for each cell")
        usable = ((self.weights >= 0) & (self.weights < math.inf)).all() and self.weights.any()
        _need(usable, "weights", "numbers >= 0 with a positive, finite sum")
        _need(((self.owner >= 0) & (self.owner < n)).all(), "owner", f"numbers of individuals below {n}")
        _need(((self.near >= 0) & (self.near < math.inf)).all(), "near", "finite numbers >= 0")
        _need((self.far >= self.near).all(), "far", "at least 'near'")
        _need(((self.value >= 0) & (self.value <= HUGE)).all(), "value", f"finite numbers >= 0, at most {HUGE:.0e}")
        ends = {"an unbounded tail": self.far == math.inf, "a cell at cost 0": (self.near == 0) & ~self.open_}
        for name, seen in ends.items():
            missing = np.flatnonzero(np.bincount(self.owner[seen], minlength=n) == 0)
            if len(missing):
                raise ValueError(f"The cells of individual {missing[0]} do not cover everybody: {name} is missing.")


def confined(cells: Cells, furthest: float) -> Cells:
    """The cells, where no move costs more than ``furthest``: beyond it they are worth nothing, as they are empty."""
    if furthest == math.inf:
        return cells
    return replace(cells, value=np.where(cells.open_ & (cells.near >= furthest), 0.0, cells.value))


def plain(order: float, gamma: float) -> bool:
    """Whether no multiplier is needed; one that is given nevertheless is ignored."""
    return order == math.inf or gamma == 0


def bound(cells: Cells, order: float, gamma: float, multiplier: float | None) -> float:
    """No population within γ exceeds this, whatever the multiplier: anyone checks a certificate by it."""
    mean = mean_up(heights(cells, order, gamma, multiplier), cells.weights)
    return together(price(order, gamma, multiplier), mean)


def together(price: float, mean: float) -> float:
    """At least ``price + mean``: ``up(fl(a + b)) > a + b``, and nothing is rounded where nothing is paid."""
    if not (price >= 0 and mean >= 0):
        raise ValueError(f"A price and a mean must be numbers >= 0. Got {price} and {mean}.")
    return float(up(price + mean)) if price else mean


def price(order: float, gamma: float, multiplier: float | None) -> float:
    """At least ``λ γ^p``: ``λ γ^p ≤ λ power_up < up(fl(λ power_up))``; 0 where no multiplier is needed, or it is 0."""
    check(order, gamma, multiplier)
    if plain(order, gamma) or not multiplier:
        return 0.0
    with np.errstate(all="ignore"):
        return float(up(np.float64(multiplier) * power_up(gamma, order)) + TINY)


def heights(cells: Cells, order: float, gamma: float, multiplier: float | None) -> Array:
    """At least ``h_i``, or the largest value within reach, of each individual; never negative, as no value is.

    Rounding keeps the order, so one step after the maximum covers the difference: ``up(fl(a − b)) > a − b`` by at least
    half a last place, which or ``TINY`` covers underflow of ``b``. Nothing was rounded for ``λ = 0``.
    """
    highest = np.zeros(len(cells.weights))
    np.maximum.at(highest, cells.owner, gains(cells, order, gamma, multiplier))
    return highest if plain(order, gamma) or not multiplier else np.asarray(up(highest) + TINY)


def gains(cells: Cells, order: float, gamma: float, multiplier: float | None) -> Array:
    """``fl(value − b)`` of every cell with ``b ≤ λ near^p + 2^-1075``, or the values of those within reach, else −∞.

    ``μ = down(fl(λ (1 − 8u))) ≤ λ (1 − 8u)``, ``cost = power_down ≤ near^p``, ``b = fl(μ cost) ≤ (1 + u) μ cost +
    2^-1075``; if that overflows, ``λ near^p`` is above ``HUGE`` and the cell is worth nothing.
    """
    check(order, gamma, multiplier)
    if multiplier is None or plain(order, gamma):
        reached = (cells.near < gamma) | ((cells.near == gamma) & ~cells.open_)
        return np.where(reached, cells.value, -math.inf)
    with np.errstate(all="ignore"):
        least = max(0.0, float(down(multiplier * (1 - 8 * U))))
        return np.asarray(cells.value - least * power_down(cells.near, order))


def check(order: float, gamma: float, multiplier: float | None = 0.0) -> None:
    """Refuse an order below 1, a radius or a multiplier below 0, and no multiplier where one is needed."""
    if not order >= 1:
        raise ValueError(f"'order' must be a number >= 1, or infinity. Got {order}.")
    if not gamma >= 0:
        raise ValueError(f"'gamma' must be a number >= 0, or infinity. Got {gamma}.")
    if not (plain(order, gamma) if multiplier is None else 0 <= multiplier < math.inf):
        raise ValueError(f"'multiplier' must be a finite number >= 0. Got {multiplier}.")


def _need(holds: object, name: str, right: str) -> None:
    if not holds:
        raise ValueError(f"'cells.{name}' must be {right}.")
