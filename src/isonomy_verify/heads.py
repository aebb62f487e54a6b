"""From margins to what people receive: violations and decisions.

A softmax of two classes is the sigmoid of ``z_1 − z_0``. Of ``k`` classes, ``p_c = σ(t_c)`` with ``t_c = −log Σ_{j≠c}
exp(z_j − z_c)``, so that margins ``z_j − z_c`` are all that is needed. Outputs that are probabilities already are
their own margins: one is that of class 1 of two, several are those of their classes. The violation is the largest
change of any probability, or of any number of a regression.

**Soundness.** All steps are monotone in the margins' ends; each rounds outward. A margin of which nothing is known
gives the largest change there can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Activation, sigmoid
from isonomy_verify.arithmetic import ELEMENTARY, U32, Array, U, down, up
from isonomy_verify.network import Node
from isonomy_verify.tiers import Enclosure

Kind = Literal["softmax", "sigmoid", "regression", "probability"]


class Contests(NamedTuple):
    """Of decisions: the row, and a margin that would end them if ``sign`` times it exceeded the cut-off."""

    row: NDArray[np.int64]
    margin: NDArray[np.int64]
    sign: Array


@dataclass(frozen=True)
class Head:
    """How raw outputs become probabilities or numbers, and decisions.

    ``threshold`` is the cut-off of a decision between two: the probability from which on the ``favourable`` one of
    the classes 0 and 1 is given, or a number of a regression, whose decisions are high (1) and low (0). Without it
    the largest output decides. Only what lies strictly beyond the cut-off is certain, so that it is no matter which
    side a score equal to it is on. ``run_unit``: a float32 run of the head is covered too; with a
    ``margin`` outputs are enclosed that much more widely, numbers of a regression relative to their size.

    **Soundness.** The probability of class 0 is ``σ(−m)`` of the margin ``m`` of class 1, and ``−m`` is exact: where
    class 0 is the favourable one, margins are mirrored and compared with the threshold itself, at the same charge. A
    cut-off ``1 − threshold`` for class 1, which rounds, is never formed.
    """

    kind: Kind
    outputs: int
    threshold: float | None = None
    run_unit: bool = False
    favourable: int = 1
    margin: float = 0.0
    counts: bool = False  # in the place of a change, 1 where a decision may be another one, else 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or self.outputs < (2 if self.kind == "softmax" else 1):
            raise ValueError(f"There is no head '{self.kind}' of {self.outputs} outputs.")
        if self.threshold is not None and (
            not math.isfinite(self.threshold) or len(self.pairs) > 1 or (not self.pairs and self.outputs > 1)
        ):
            raise ValueError("A threshold must be finite, and needs two classes or one number.")
        if self.threshold is not None and self.kind != "regression" and not 0 <= self.threshold <= 1:
            # Beyond what any probability is, also one that is not known would be decided.
            raise ValueError(f"A threshold of probabilities must lie between 0 and 1. Got {self.threshold}.")
        if type(self.favourable) is not int or self.favourable not in (0, 1):
            raise ValueError(f"The favourable one of two decisions is 0 or 1. Got {self.favourable}.")

    @property
    def mirrored(self) -> bool:
        """Is a threshold compared with the probability of class 0?"""
        return self.favourable == 0 and self.kind != "regression" and self.threshold is not None

    @property
    def cut(self) -> float | None:
        """What is received is compared with this; None where margins are compared with 0, or with one another."""
        return 0.5 if self.threshold is None and self.kind == "probability" and self.outputs == 1 else self.threshold

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Classes ``c < j`` whose difference ``z_j − z_c`` is a margin; none where the outputs are the margins."""
        if self.kind != "softmax":
            return []
        return [(c, j) for c in range(self.outputs) for j in range(c + 1, self.outputs)]

    @property
    def rows(self) -> Array | None:
        """The margins as linear functions of the outputs; None: the outputs themselves."""
        if not self.pairs:
            return None
        rows = np.zeros((len(self.pairs), self.outputs))
        for row, (c, j) in zip(rows, self.pairs, strict=True):
            row[j], row[c] = 1.0, -1.0
        return rows

    @property
    def largest(self) -> float:
        """The largest violation that there can be."""
        return math.inf if self.kind == "regression" else 1.0

    @property
    def decides(self) -> bool:
        """Is there a decision at all? A regression needs a cut-off for one."""
        return self.kind != "regression" or self.threshold is not None

    @property
    def accuracy(self) -> float:
        """Of a computed probability, absolute."""
        return self.margin + 4 * ELEMENTARY + ((32 + self.outputs) * U32 if self.run_unit else 0.0)

    @np.errstate(all="ignore")
    def logits(self, margins: Enclosure) -> Enclosure:
        """Enclosures of the ``t`` whose sigmoid each class receives; of two classes that of class 1."""
        if self.kind != "softmax" or self.outputs == 2:
            return margins
        unit = ELEMENTARY + (32 + self.outputs) * (U32 if self.run_unit else U)
        low, high = self._by_class(margins, -np.inf, -np.inf)
        first, last = -_log_sum_exp(high), -_log_sum_exp(low)
        return Enclosure(first - 4 * unit * (1 + np.abs(first)), last + 4 * unit * (1 + np.abs(last)))

    def _by_class(self, margins: Enclosure, *own: float) -> tuple[Array, Array]:
        """Both ends (n, classes, classes) of ``z_j − z_c``, with numbers for a class and itself."""
        low, high = (np.full((len(margins.low), self.outputs, self.outputs), each) for each in own)
        for i, (c, j) in enumerate(self.pairs):
            low[:, c, j], high[:, c, j] = margins.low[:, i], margins.high[:, i]
            low[:, j, c], high[:, j, c] = -margins.high[:, i], -margins.low[:, i]
        return low, high

    @np.errstate(all="ignore")
    def received(self, margins: Enclosure) -> Enclosure:
        """Enclosures of the probabilities or numbers."""
        if self.kind == "probability":  # of what is no number nothing is known
            low, high = (down(margins.low - self.margin), up(margins.high + self.margin)) if self.margin else margins
            return Enclosure(np.fmin(np.fmax(low, 0.0), 1.0), np.fmax(np.fmin(high, 1.0), 0.0))
        if self.kind == "regression":
            if not self.margin:
                return margins
            more = self.margin * (1 + np.maximum(np.abs(margins.low), np.abs(margins.high)))
            return Enclosure(margins.low - more, margins.high + more)
        ends = np.stack(self.logits(margins))  # what is not a number says nothing
        low, high = sigmoid(np.where(np.isnan(ends), [[[-np.inf]], [[np.inf]]], ends))
        return Enclosure(np.maximum(low - self.accuracy, 0.0), np.minimum(high + self.accuracy, 1.0))

    def violation(self, one: Enclosure, other: Enclosure) -> Array:
        """The largest change (n,) between two whose margins are enclosed; where decisions are counted, whether they may
        differ."""
        if self.counts:
            mine = self.decision(one)
            return np.where((mine >= 0) & (mine == self.decision(other)), 0.0, 1.0)
        n, both = len(one.low), self.received(Enclosure(*map(np.concatenate, zip(one, other, strict=True))))
        (low, high), (other_low, other_high) = ((side[:n] for side in both), (side[n:] for side in both))
        with np.errstate(all="ignore"):
            change = np.maximum(other_high - low, high - other_low).max(1)
            change = np.where(np.isnan(change), np.inf, change) * (1 + 4 * U) + 4 * U
        return np.minimum(np.maximum(change, 0.0), self.largest)

    @np.errstate(all="ignore")
    def gap(self, near: Enclosure, far: Enclosure, move: Enclosure) -> Array:
        """The largest change (n,) between two whose margins are enclosed, and so is the difference of the margins.

        ``σ(t + D) − σ(t)`` grows with ``D``, and for a given ``D`` is the larger the nearer ``t + D/2`` is to 0. Take
        the largest ``D`` and put ``t`` as near to ``−D/2`` as both enclosures allow; where they do not allow that
        ``D`` at all, their ends bound the change. Of ``k`` classes, ``t_c`` moves by no more than the margins of ``c``.
        Where decisions are counted, none changes if both are certain and equal, or if all that are no further apart
        have one.
        """
        if self.counts:
            mine, own = self.decision(near), replace(self, counts=False)
            stands = (mine >= 0) & (mine == self.decision(far)) | (own.settled(near, own.gap(near, far, move)) >= 0)
            return np.where(stands, 0.0, 1.0)
        apart, (least, most) = self.violation(near, far), move
        if self.kind in ("regression", "probability"):
            change = np.maximum(-least, most).max(1)
            return np.asarray(np.fmin(apart, np.where(np.isnan(change), np.inf, np.maximum(change, 0.0))))
        if self.kind == "softmax" and self.outputs > 2:
            low, high = self._by_class(move, np.inf, -np.inf)
            least, most = -high.max(2), -low.min(2)
        (zl, zu), (yl, yu) = self.logits(near), self.logits(far)
        rise = self._rise(zl, zu, yl, yu, most)
        fall = self._rise(-zu, -zl, -yu, -yl, -least)
        return np.asarray(np.clip(np.fmin(apart, np.maximum(rise, fall).max(1)), 0.0, 1.0))

    def _rise(self, zl: Array, zu: Array, yl: Array, yu: Array, move: Array) -> Array:
        """The largest ``σ(t + D) − σ(t)`` with ``D ≤ move``, ``t`` in the first interval, ``t + D`` in the second."""
        first, last = np.maximum(zl, yl - move), np.minimum(zu, yu - move)
        at = np.minimum(np.maximum(-move / 2, first), last)
        # Both places round: σ is no steeper than 1/4.
        rise = sigmoid(at + move) - sigmoid(at) + 2 * self.accuracy + (8 * U) * (np.abs(at) + np.abs(move))
        widest = sigmoid(yu) - sigmoid(zl) + 2 * self.accuracy
        widest = np.where(np.isnan(widest), 1.0, widest)
        rise = np.where((first <= last) & np.isfinite(rise), np.minimum(rise, widest), widest)
        return np.asarray(np.where(move < 0, 0.0, rise))

    def attained(self, one: Enclosure, other: Enclosure) -> Array:
        """A change (n,) that certainly happens between two enclosed individuals: 0 where the enclosures overlap."""
        a, b = self.received(one), self.received(other)
        with np.errstate(all="ignore"):
            change = np.maximum(b.low - a.high, a.low - b.high).max(1)
            change = np.nan_to_num(change, nan=0.0, posinf=0.0) * (1 - 4 * U) - 4 * U
        return np.asarray(np.clip(change, 0.0, self.largest))

    @property
    def goals(self) -> int:
        """How many numbers rise or fall with what an individual receives: of two classes one."""
        return 1 if self.kind == "softmax" and self.outputs == 2 else self.outputs

    def scores(self, last: int) -> list[Node]:
        """Operations behind node ``last``, the outputs, whose results are the ``t`` of :meth:`logits`.

        ``log(exp a + exp b) = a + softplus(b − a)``, one class after the other.
        """
        if self.kind != "softmax":
            return []
        k = self.outputs
        if k == 2:
            return [Node("affine", (last,), weight=np.array([[-1.0, 1.0]]), bias=np.zeros(1))]
        nodes: list[Node] = []

        def put(node: Node) -> int:
            nodes.append(node)
            return last + len(nodes)

        total = -1
        for step in range(1, k):
            rows = np.zeros((k, k))
            rows[np.arange(k), (np.arange(k) + step) % k] = 1.0
            margin = put(Node("affine", (last,), weight=rows - np.eye(k), bias=np.zeros(k)))
            if step == 1:
                total = margin
                continue
            both = put(Node("concat", (margin, total)))
            apart = put(Node("affine", (both,), weight=np.hstack([np.eye(k), -np.eye(k)]), bias=np.zeros(k)))
            more = put(Node("activation", (apart,), activation=Activation("softplus", (1.0,))))
            total = put(Node("add", (total, more)))
        put(Node("affine", (total,), weight=-np.eye(k), bias=np.zeros(k)))
        return nodes

    @np.errstate(all="ignore")
    def change(self, at: Enclosure, output: NDArray[np.int64], sign: Array, bound: Array) -> Array:
        """The violation (n,) where ``sign · t`` of an output, or ``sign`` times a number, is at most ``bound``.

        ``at`` encloses what individuals themselves receive.
        """
        rows = np.arange(len(bound))
        low, high = at.low[rows, output], at.high[rows, output]
        if self.kind in ("regression", "probability"):
            change = bound + np.where(sign > 0, -low, high)
            change = change + (4 * U) * (np.abs(bound) + np.abs(low) + np.abs(high))
        else:
            most = np.minimum(sigmoid(bound) + self.accuracy, 1.0)  # of the output, or of 1 minus it
            change = np.where(sign > 0, most - low, high - (1.0 - most)) * (1 + 8 * U) + 8 * U
        return np.asarray(np.clip(np.where(np.isnan(change), np.inf, change), 0.0, self.largest))

    @np.errstate(all="ignore")
    def aim(self, at: Enclosure, output: NDArray[np.int64], sign: Array, change: Array) -> Array:
        """About the bound with which :meth:`change` gives this; only ever a reason to stop."""
        rows = np.arange(len(change))
        low, high = at.low[rows, output], at.high[rows, output]
        if self.kind in ("regression", "probability"):
            return np.asarray(change - np.where(sign > 0, -low, high))
        share = np.clip(np.where(sign > 0, low, 1 - high) + change - 2 * self.accuracy, 0.0, 1.0)
        return np.asarray(np.log(share) - np.log1p(-share))

    def contests(self, decision: NDArray[np.int64]) -> Contests:
        """What must not happen if decisions (n,) are to stand, margin by margin.

        Nothing for an uncertain decision, nor for independent outputs of which the largest wins, which is no matter of
        single margins.
        """
        sure = np.flatnonzero(decision >= 0)
        if not self.decides or (self.kind in ("sigmoid", "probability") and self.outputs > 1):
            sure = sure[:0]
        if self.kind != "softmax" or self.outputs == 2:
            return Contests(sure, np.zeros_like(sure), np.where(decision[sure] > 0, -1.0, 1.0))
        found = [
            (i, margin, 1.0 if decision[i] == pair[0] else -1.0)
            for i in sure.tolist() for margin, pair in enumerate(self.pairs) if decision[i] in pair
        ]  # fmt: skip
        rows, margins, signs = zip(*found, strict=True) if found else ((), (), ())
        return Contests(np.array(rows, dtype=np.int64), np.array(margins, dtype=np.int64), np.array(signs, dtype=float))

    @np.errstate(all="ignore")
    def excluded(self, sign: Array, bound: Array) -> NDArray[np.bool_]:
        """Where a contest cannot be won, ``sign`` times the margin being at most ``bound``; as :meth:`decision` has
        it."""
        if self.cut is None:
            return np.asarray(bound < -8 * self.accuracy)
        end = self.received(self._compared(Enclosure((sign * bound)[:, None], (sign * bound)[:, None])))
        sign = -sign if self.mirrored else sign
        return np.where(sign > 0, end.high[:, 0] < self.cut, end.low[:, 0] > self.cut)

    @np.errstate(all="ignore")
    def needed(self, sign: Array) -> Array:
        """About the bound from which on contests are excluded; only ever a reason to stop."""
        if self.cut is None:
            return np.full(len(sign), -16 * self.accuracy)
        if self.kind == "probability":
            return np.asarray(sign * (1.0 - self.cut if self.mirrored else self.cut) - 2 * self.accuracy)
        sign = -sign if self.mirrored else sign
        cut = self.cut - 2 * sign * self.accuracy
        if self.kind != "regression":
            share = np.clip(cut, 0.0, 1.0)
            cut = np.log(share) - np.log1p(-share)
        return np.asarray(sign * cut - 1e-12 * np.abs(cut))

    def decision(self, margins: Enclosure) -> NDArray[np.int64]:
        """The class (n,) that everybody within the enclosed margins is given, or −1 where that is not certain.

        Margins must differ by more than rounded probabilities can hide, so that a run which compares those decides
        the same.
        """
        low, high, clear = margins.low, margins.high, 8 * self.accuracy
        undecided = np.full(len(low), -1)
        if not self.decides:
            return undecided
        if self.cut is not None:
            low, high = self.received(self._compared(margins))
            return self._beyond(low[:, 0], high[:, 0], self.cut)
        if self.outputs == 1 or len(self.pairs) == 1:
            return np.where(low[:, 0] > clear, 1, np.where(high[:, 0] < -clear, 0, undecided))
        if not self.pairs:  # independent outputs: the clearly largest one wins, also where they saturate
            return _largest(*self.received(margins), 0.0)
        wins = np.ones((len(low), self.outputs), dtype=bool)
        for i, (c, j) in enumerate(self.pairs):
            wins[:, c] &= high[:, i] < -clear
            wins[:, j] &= low[:, i] > clear
        return np.where(wins.any(1), wins.argmax(1), undecided)

    @np.errstate(all="ignore")
    def settled(self, margins: Enclosure, change: Array) -> NDArray[np.int64]:
        """The class of everybody whose outputs differ by at most ``change`` (n,) from those at enclosed margins; −1
        where that is not certain.

        **Soundness.** With outputs this far apart the margins are further apart than :meth:`decision` asks for: ``σ``
        and the exponential are no steeper than 1.
        """
        undecided = np.full(len(change), -1)
        if not self.decides:
            return undecided
        cut = self.cut
        low, high = self.received(self._compared(margins))
        size = np.maximum(np.abs(low), np.abs(high)) if self.kind == "regression" else np.ones_like(low)
        slack = change[:, None] * (1 + 4 * U) + self.accuracy
        slack = slack + (8 * U) * (size + slack)  # numbers of any size: what the sum rounds away
        low, high, clear = low - slack, high + slack, 8 * self.accuracy
        if low.shape[1] > 1:
            return _largest(low, high, clear)
        if cut is None:
            return np.where(low[:, 0] > 0.5 + clear, 1, np.where(high[:, 0] < 0.5 - clear, 0, undecided))
        return self._beyond(low[:, 0], high[:, 0], cut)

    def _compared(self, margins: Enclosure) -> Enclosure:
        """The margins whose sigmoid is, or that are, the probability that a threshold is compared with."""
        if not self.mirrored:
            return margins
        if self.kind == "probability":
            return Enclosure(down(1.0 - margins.high), up(1.0 - margins.low))
        return Enclosure(-margins.high, -margins.low)

    def _beyond(self, low: Array, high: Array, cut: float) -> NDArray[np.int64]:
        """The decision (n,) where enclosures lie strictly on one side of a cut-off; −1 elsewhere."""
        above = 0 if self.mirrored else 1
        return np.where(low > cut, above, np.where(high < cut, 1 - above, -1))


def _largest(low: Array, high: Array, clear: float) -> NDArray[np.int64]:
    """The number that is above all others of its row (n,) by more than ``clear``, wherever they are between their ends;
    −1 where none is."""
    wins = np.stack([low[:, c] > np.delete(high, c, axis=1).max(1) + clear for c in range(low.shape[1])], axis=1)
    return np.where(wins.any(1), wins.argmax(1), -1)


def _log_sum_exp(values: Array) -> Array:
    """``log Σ exp`` over the last axis, of which each row's own class is −∞."""
    top = values.max(2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log(np.exp(values - np.where(np.isfinite(top), top, 0.0)).sum(2)) + np.where(
            np.isfinite(top[..., 0]), top[..., 0], 0.0
        )
    return np.asarray(np.where(np.isfinite(top[..., 0]), total, top[..., 0]))
