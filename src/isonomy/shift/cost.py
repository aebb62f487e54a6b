"""Ground costs between many individuals at once.

``c(x, z) = ‖R x − R z‖_p``: individuals are mapped by the root once, and their *places* ``R x`` are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from isonomy.arithmetic import FloatArray
from isonomy.similarity.ground import ground_root
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import TINY, gamma, norm_up

_NAMES: dict[float, Literal["cityblock", "euclidean", "chebyshev"]] = {
    1.0: "cityblock",
    2.0: "euclidean",
    math.inf: "chebyshev",
}


@dataclass(frozen=True, eq=False)
class GroundCost:
    """``‖R x − R z‖_norm`` with ``root`` ``R`` and ``norm`` 1, 2 or ∞.

    With a ``direction`` ``v`` it is ``|v · R (x − z)|``; the dual norm of ``v`` is at most 1, so that the cost along a
    direction is at most the cost itself.
    """

    root: FloatArray
    norm: float
    direction: FloatArray | None = None

    @classmethod
    def of(cls, metric: Metric) -> GroundCost:
        """The cost of a ground metric; a root without rows (everything free) gets one of zeros."""
        root, norm = ground_root(metric)
        return cls(root if len(root) else np.zeros((1, metric.width)), norm)

    def along(self, direction: FloatArray) -> GroundCost:
        """What of the cost is seen along a direction of the dual unit ball."""
        return replace(self, direction=direction)

    def places(self, x: FloatArray) -> FloatArray:
        """``R x`` of every individual, or ``v · R x`` as a single column."""
        places = np.asarray(x @ self.root.T, dtype=np.float64)
        return places if self.direction is None else np.asarray(places @ self.direction[:, None])

    def sizes(self, x: FloatArray) -> FloatArray:
        """``‖ |R| |x| ‖`` of every individual, to which rounding errors are proportional."""
        return norm_up(np.abs(x) @ np.abs(self.root).T, self.norm)

    def between(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """The matrix of costs between two sets of places."""
        return np.asarray(cdist(left, right, _NAMES[self.norm]), dtype=np.float64)

    def error(self, sizes: FloatArray, other: float) -> FloatArray:
        """A bound of the rounding error of the cost between an individual and a given *place*, by their sizes.

        ``R x`` is off by ``γ_m |R| |x|`` in every entry, hence by ``γ_m`` times the size in norm; the product with a
        direction by ``γ_r |v| |R x|``, at most ``γ_r`` times the size; the norm of the difference by ``γ_{r+3}``
        times its value, which is at most the sum of the sizes; the rest is for the rounding of the sizes.
        """
        rows, width = self.root.shape
        return np.asarray(2.0 * gamma(width + 2 * rows + 16) * (sizes + other) + (rows * width + 16) * 2.0 * TINY**0.5)
