"""Populations that lie within gamma of another by construction: the transport that makes them is explicit.

A certificate speaks of every population within gamma, real ones among them. Whether a real one lies within gamma is a
measurement; for these it is a fact: people are replaced one by one by others, or the whole population is mixed with
another, and what that costs is added up and rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from isonomy.arithmetic import FloatArray
from isonomy.similarity import Metric
from isonomy_verify.arithmetic import up


@dataclass(frozen=True, eq=False)
class Shift:
    """Weights of those who stay and of those who come, and the mean cost of getting from the one to the other."""

    words: str
    stays: FloatArray
    comes: FloatArray
    cost: float

    def mean(self, here: FloatArray, there: FloatArray) -> float:
        """The mean of something that is known of those who are here and of those who come."""
        return math.fsum([*(self.stays * here).tolist(), *(self.comes * there).tolist()])


def constructed(costs: FloatArray, here: FloatArray, there: FloatArray, gamma: float, seed: int = 0) -> Iterator[Shift]:
    """Shifts within gamma, kind ones and unkind ones.

    ``costs[i, j]`` is what turning individual ``i`` into newcomer ``j`` costs, rounded up; ``here`` and ``there`` are
    their violations, which the unkind ones look at.
    """
    n, m = costs.shape
    everybody, rng = np.arange(n), np.random.default_rng(seed)
    gain = there[None] - here[:, None]
    rate = gain / np.maximum(costs, 1e-12)
    anybody, nearest = rng.choice(np.arange(m), n), np.argmin(costs, axis=1)
    worth, worst = np.argmax(rate, axis=1), np.argmax(gain, axis=1)
    yield replaced("people at random become others at random", costs, rng.permutation(n), anybody, gamma)
    yield replaced("people become the nearest others", costs, np.argsort(costs.min(axis=1)), nearest, gamma)
    order = np.argsort(-rate[everybody, worth])
    yield replaced("people become those who suffer most for the way", costs, order, worth, gamma)
    order = np.argsort(-gain[everybody, worst])
    yield replaced("people become those who suffer most", costs, order, worst, gamma)
    yield mixed("a mixture with the others", costs, gamma)


def replaced(words: str, costs: FloatArray, order: NDArray[np.intp], become: NDArray[np.intp], gamma: float) -> Shift:
    """In this order people become others, ``i`` becoming ``become[i]``, as long as the budget ``n gamma`` lasts."""
    n, m = costs.shape
    stays, comes, spent = np.full(n, 1 / n), np.zeros(m), 0.0
    for i in order.tolist():
        with_this = float(up(spent + costs[i, become[i]]))
        if float(up(with_this / n)) <= gamma:
            spent = with_this
            stays[i] = 0.0
            comes[become[i]] += 1 / n
    return Shift(words, stays, comes, float(up(spent / n)) if spent else 0.0)


def mixed(words: str, costs: FloatArray, gamma: float) -> Shift:
    """A share of everybody goes over to the other population, along an optimal assignment."""
    n, m = costs.shape
    others = np.arange(n) % m  # everybody has somebody to become
    rows, columns = linear_sum_assignment(costs[:, others])
    whole = float(up(up(math.fsum(costs[rows, others[columns]].tolist())) / n))
    share = 1.0 if whole <= gamma else gamma / whole * (1 - 1e-12)
    comes = np.zeros(m)
    np.add.at(comes, others[columns], share / n)
    return Shift(words, np.full(n, (1 - share) / n), comes, float(up(share * whole)) if share else 0.0)


def costs_between(x: FloatArray, others: FloatArray, ground: Metric) -> FloatArray:
    """What turning everybody here into everybody there costs, rounded up."""
    return np.stack([ground.distance_upper(one[None], others) for one in x])
