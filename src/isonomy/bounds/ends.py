"""From enclosed margins to what people receive: violations and decisions.

The margins are those of :attr:`isonomy.networks.Network.margins`. With two classes (or a sigmoid) a probability is
``σ(t)``; with ``k`` classes ``p_c = σ(t_c)`` with ``t_c = −log Σ_{j≠c} exp(z_j − z_c)``; a regression gives the
number itself. At a known centre the violation is the larger of the rise to the highest and the fall to the lowest
value of the region, not the width between the two.

**Soundness.** σ and log-sum-exp are monotone; their computed values are widened by ``ELEMENTARY`` units and more.
A decision is certified only when the margin keeps strictly away from the boundary over the whole region.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from isonomy.arithmetic import ELEMENTARY, UNIT
from isonomy.errors import ParameterError, template
from isonomy.networks.network import Network


class Ends:
    """How the margins of one network are read: its head, and the cut-off of its decisions if there is one."""

    def __init__(self, network: Network, threshold: float | None = None, float32_run: bool = False) -> None:
        self.head, self.classes = network.head, network.classes
        self.threshold = _checked(network, threshold)
        unit = 2.0**-24 if float32_run else UNIT
        self.doubt = (4 * ELEMENTARY + self.classes) * unit

    @property
    def largest(self) -> float:
        """The largest violation possible: 1 for probabilities, no limit for numbers."""
        return math.inf if self.head == "regression" else 1.0

    @property
    def decides(self) -> bool:
        """Is there a decision at all? A regression needs a cut-off for one."""
        return self.head != "regression" or self.threshold is not None

    def values(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Enclosures of what each class receives, from enclosures of the margins (rows, margins)."""
        if self.head == "regression":
            return low, high
        low, high = self._logits(low, high)
        return (torch.sigmoid(low) - self.doubt).clamp(min=0.0), (torch.sigmoid(high) + self.doubt).clamp(max=1.0)

    def violation(self, at_centre: tuple[Tensor, Tensor], over_region: tuple[Tensor, Tensor]) -> Tensor:
        """The largest change from an enclosed centre to anywhere in the region, in any class."""
        (x_low, x_high), (y_low, y_high) = self.values(*at_centre), self.values(*over_region)
        change = torch.maximum(y_high - x_low, x_high - y_low).amax(1)
        # A difference of two numbers between 0 and 1 is off by at most one unit roundoff.
        return (change * (1 + 4 * UNIT) + 4 * UNIT).clamp(0.0, self.largest)

    def attained(self, x: tuple[Tensor, Tensor], y: tuple[Tensor, Tensor]) -> Tensor:
        """A change that certainly happens between two enclosed individuals: 0 where the enclosures overlap."""
        (x_low, x_high), (y_low, y_high) = self.values(*x), self.values(*y)
        change = torch.maximum(y_low - x_high, x_low - y_high).amax(1)
        return (change * (1 - 4 * UNIT) - 4 * UNIT).clamp(0.0, self.largest)

    def decision(self, low: Tensor, high: Tensor) -> Tensor:
        """The class that everybody within the enclosed margins is given, or −1 where that is not certain.

        Margins must differ by more than rounded probabilities can hide, so that a run which compares these, and not the
        margins, decides the same.
        """
        clear = 8 * self.doubt
        rows = torch.full((len(low),), -1, dtype=torch.long)
        if not self.decides:
            return rows
        if self.head == "softmax" and self.classes > 2:
            beaten = (high.reshape(len(high), self.classes, -1) < -clear).all(2)  # z_j − z_c < 0 for every j
            return torch.where(beaten.any(1), beaten.long().argmax(1), rows)
        if self.classes > 1 and self.head == "sigmoid":  # independent outputs: the clearly largest one wins
            runner_up = torch.stack([high[:, torch.arange(self.classes) != c].amax(1) for c in range(self.classes)], 1)
            wins = low > runner_up + clear
            return torch.where(wins.any(1), wins.long().argmax(1), rows)
        if self.threshold is None:
            return torch.where(low[:, 0] > clear, 1, torch.where(high[:, 0] < -clear, 0, rows))
        low, high = self.values(low, high)
        return torch.where(low[:, 0] > self.threshold, 1, torch.where(high[:, 0] < self.threshold, 0, rows))

    def _logits(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Enclosures of ``t`` with ``p = σ(t)``, one per class."""
        if self.head != "softmax" or self.classes == 2:
            return low, high
        shape = (len(low), self.classes, self.classes - 1)
        top, bottom = -torch.logsumexp(low.reshape(shape), 2), -torch.logsumexp(high.reshape(shape), 2)
        # The sum over classes loses a few units of its logarithm, and of 1 when the logarithm is small.
        slack = (4 * ELEMENTARY + self.classes) * UNIT
        return bottom - slack * (1 + bottom.abs()), top + slack * (1 + top.abs())


def _checked(network: Network, threshold: float | None) -> float | None:
    if threshold is None:
        return None
    several = network.classes > 2 or (network.head != "softmax" and network.classes > 1)
    if several:
        raise ParameterError(
            f"'threshold' needs two classes or one number; this network has {network.classes} outputs."
        )
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.integer | np.floating):
        raise ParameterError(template("threshold", "a number", threshold))
    if not math.isfinite(threshold) or (network.head != "regression" and not 0 < threshold < 1):
        expected = "a finite number" if network.head == "regression" else "a probability strictly between 0 and 1"
        raise ParameterError(template("threshold", expected, threshold))
    return float(threshold)
