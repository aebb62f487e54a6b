"""What is maximised: one linear function of the margins for each way in which somebody's treatment can change.

A *goal* is an output (a class, or a number) and a direction. With two classes, independent probabilities or numbers the
output is monotone in one margin, so the linear function is that margin. With ``k`` classes ``p_c = σ(t_c)`` with
``t_c = −log Σ_j exp(m_j)`` over the class's own margins ``m_j = z_j − z_c``, and for any ``q`` in the simplex

    t_c  ≤ −Σ q_j m_j + Σ q_j log q_j,                                          (rise; equality at q = softmax(m))
    −t_c ≤ log Σ exp(a_j) + Σ q_j (m_j − a_j) + (max d − min d)² / 8,           (fall; d = m − a, q = softmax(a))

the second by Hoeffding's lemma; the ranges of ``d`` come from bounds of the margins over the part, as does
``−t_c ≤ log Σ exp(high_j)``. Both meet ``±t_c`` as a part shrinks.

**Soundness.** Violations grow with the bound of a goal, whose conversion is rounded outward by ``Ends.doubt``. A
computed ``q`` adds up to 1 only nearly, which costs a few units of the largest margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isonomy.arithmetic import ELEMENTARY, UNIT
from isonomy.bounds.ends import Ends


@dataclass(frozen=True)
class Goals:
    """The goals of one network, numbered; even numbers rise and odd ones fall."""

    ends: Ends
    outputs: int  # how many margins there are

    @property
    def count(self) -> int:
        """How many goals there are."""
        return 2 * (1 if self.ends.head == "softmax" and self.ends.classes == 2 else self.ends.classes)

    @property
    def mixed(self) -> bool:
        """Does a goal look at several margins?"""
        return self.ends.head == "softmax" and self.ends.classes > 2

    def columns(self, goal: Tensor) -> Tensor:
        """The margins that each goal looks at, (rows, margins per goal)."""
        each = self.ends.classes - 1 if self.mixed else 1
        return (goal // 2)[:, None] * each + torch.arange(each)

    def form(self, goal: Tensor, low: Tensor, high: Tensor, lean: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients (rows, outputs) and constants (rows,) of a linear function above ``± t``.

        ``low`` and ``high`` (rows, outputs) bound the margins; ``lean`` (rows, margins per goal) chooses ``q``, freely.
        """
        columns, falls = self.columns(goal), goal % 2 == 1
        sign = torch.where(falls, 1.0, -1.0).double()[:, None]
        empty = torch.zeros(len(goal), self.outputs, dtype=torch.float64)
        if not self.mixed:
            return empty.scatter(1, columns, -sign), torch.zeros(len(goal), dtype=torch.float64)
        low, high = low.gather(1, columns), high.gather(1, columns)
        middle = (low + high) / 2
        q = torch.softmax(torch.where(falls[:, None], middle, lean), 1)
        size = torch.maximum(low.abs(), high.abs()).amax(1) + middle.abs().amax(1) + 10.0
        rises = torch.special.xlogy(q, q).sum(1)
        width = (high - middle).amax(1) - (low - middle).amin(1)
        drops = torch.logsumexp(middle, 1) - (q * middle).sum(1) + width.square() / 8 * (1 + 16 * UNIT)
        each = columns.shape[1]
        constant = torch.where(falls, drops, rises) + size * (1 + width) * (each * (16 * ELEMENTARY + 8 * each) * UNIT)
        return empty.scatter(1, columns, sign * q), constant

    def ranges(self, goal: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Upper bounds of ``± t`` from bounds of the margins alone."""
        columns, falls = self.columns(goal), goal % 2 == 1
        low, high = low.gather(1, columns), high.gather(1, columns)
        if not self.mixed:
            return torch.where(falls, -low[:, 0], high[:, 0])
        side = torch.where(falls, torch.logsumexp(high, 1), -torch.logsumexp(low, 1))
        return side + (4 * ELEMENTARY + self.ends.classes) * UNIT * (1 + side.abs())

    def change(self, goal: Tensor, at_x: tuple[Tensor, Tensor], bound: Tensor) -> Tensor:
        """The violation when ``± t`` is at most ``bound`` and what individuals themselves receive is enclosed."""
        output, falls = (goal // 2)[:, None], goal % 2 == 1
        low, high = at_x[0].gather(1, output)[:, 0], at_x[1].gather(1, output)[:, 0]
        if self.ends.head == "regression":
            change = bound + torch.where(falls, high, -low)
            return (change + (4 * UNIT) * (bound.abs() + low.abs() + high.abs())).clamp(0.0, self.ends.largest)
        doubt = self.ends.doubt
        rise = (torch.sigmoid(bound) + doubt).clamp(max=1.0) - low
        fall = high - (torch.sigmoid(-bound) - doubt).clamp(min=0.0)
        return (torch.where(falls, fall, rise) * (1 + 4 * UNIT) + 4 * UNIT).clamp(0.0, 1.0)

    def target(self, goal: Tensor, at_x: tuple[Tensor, Tensor], violation: Tensor) -> Tensor:
        """About the bound of ``± t`` that would make the violation this small; only ever a reason to stop early."""
        output, falls = (goal // 2)[:, None], goal % 2 == 1
        low, high = at_x[0].gather(1, output)[:, 0], at_x[1].gather(1, output)[:, 0]
        if self.ends.head == "regression":
            return violation - torch.where(falls, high, -low)
        share = torch.where(falls, 1 - high + violation, low + violation) - 2 * self.ends.doubt
        return torch.logit(share.clamp(0.0, 1.0))
