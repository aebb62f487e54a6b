"""Witnesses looked at afresh, from the definitions: in the domain, similar, treated as differently as is claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy import Domain, Metric, Network

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TOLERANCE = 1e-9
"""The definitions are evaluated in plain arithmetic here, while claims are rounded to the safe side."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Who is compared with whom: the network on the coordinates that it sees, the metric, the domain and δ."""

    network: Network
    seen: BoolArray
    metric: Metric
    domain: Domain
    delta: float

    def predicted(self, x: FloatArray) -> FloatArray:
        """What the network gives these individuals."""
        return np.asarray(self.network(np.asarray(x) if x.shape[1] == self.network.input_width else x[:, self.seen]))

    def pairs(self, x: FloatArray, y: FloatArray, value: FloatArray) -> list[str]:
        """What is wrong with pairs that are claimed to be similar and to differ by ``value``."""
        difference = np.abs(self.predicted(x) - self.predicted(y)).max(axis=1)
        return [
            *_broken("counterpart outside the domain", ~self.domain.allows(x, y)),
            *_broken("counterpart not similar", self.metric.distance(x, y) > self.delta * (1 + TOLERANCE)),
            *_broken("violation not attained", difference < value - TOLERANCE),
        ]

    def flips(self, x: FloatArray, y: FloatArray, threshold: float | None) -> list[str]:
        """What is wrong with pairs that are claimed to be similar and to get different decisions."""
        if not len(x):
            return []
        same = self._decided(x, threshold) == self._decided(y, threshold)
        return [*self.pairs(x, y, np.zeros(len(x))), *_broken("decision does not flip", same)]

    def _decided(self, x: FloatArray, threshold: float | None) -> NDArray[np.int64]:
        given = self.predicted(x)
        decided = given.argmax(axis=1) if threshold is None else (given[:, -1] > threshold)
        return np.asarray(decided, dtype=np.int64)

    def population(
        self,
        x: FloatArray,
        weights: FloatArray,
        ground: Metric,
        gamma: float,
        order: float,
        atoms: dict[str, NDArray[np.generic]],
        claimed: float,
    ) -> list[str]:
        """What is wrong with a population that is claimed to be within γ and to have this mean violation.

        ``atoms``: whence (``owner``), who (``person``, ``counterpart``), how far (``cost``), how many (``mass``, in
        units of the weights), and each violation (``value``).
        """
        owner, mass, cost, value = (np.asarray(atoms[key]) for key in ("owner", "mass", "cost", "value"))
        person, counterpart = np.asarray(atoms["person"]), np.asarray(atoms["counterpart"])
        total = math.fsum(weights.tolist())
        spent = cost.max(initial=0.0) if math.isinf(order) else float((mass / total) @ cost**order) ** (1 / order)
        moved = np.bincount(owner, mass, len(x))
        return [
            *self.pairs(person, counterpart, value),
            *_broken("atom outside the domain", ~self.domain.contains(person)),
            *_broken("atom further than its cost", ground.distance(x[owner], person) > cost * (1 + TOLERANCE)),
            *_broken("mass is not that of the individual", np.abs(moved - weights) > TOLERANCE * total),
            *_broken("population too far away", np.array([spent > gamma * (1 + TOLERANCE)])),
            *_broken("mean violation not attained", np.array([float(mass @ value) / total < claimed - TOLERANCE])),
        ]


def _broken(what: str, rows: BoolArray) -> list[str]:
    return [f"{what}: row {row}" for row in np.flatnonzero(rows)[:3]]
