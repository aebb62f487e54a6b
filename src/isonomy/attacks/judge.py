"""The judge checks candidates afresh and records the best of each individual.

**Soundness.** A search is not trusted. The vector ``y`` itself must be allowed by the domain, its distance rounded *up*
must be at most ``δ``, and the value reported is the change between the kernel's enclosures of both runs, rounded
*down*. A candidate that fails a check is dropped; ``lower`` stays true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks.field import Field, IntArray
from isonomy.bounds.kernel import prepared_for
from isonomy.brief import brief
from isonomy.networks.network import Network
from isonomy.similarity.regions import Similarity
from isonomy_verify.heads import Head
from isonomy_verify.tiers import Enclosure, enclose_at

EXAMPLES = 16
"""Individuals on which the precision of a search is chosen."""

FEW = 16
"""Candidates that are all enclosed, without a choice among them."""


@dataclass(frozen=True, eq=False)
class Finds:
    """The best checked candidate of each individual: ``lower`` 0 and ``counterpart`` x itself where there is none."""

    lower: FloatArray
    counterpart: FloatArray
    flips: NDArray[np.bool_]
    flip_counterpart: FloatArray

    __repr__ = brief


class Judge:
    """Check candidates and record the best of each individual."""

    def __init__(
        self, network: Network, head: Head, similarity: Similarity, x: FloatArray, at: Enclosure | None = None
    ) -> None:
        """Enclose the margins at ``x`` (n, m), unless ``at`` has them."""
        self.prepared, self.head, self.similarity, self.x = prepared_for(network), head, similarity, x
        self.at_x = enclose_at(self.prepared, x) if at is None else at
        self.decision = head.decision(self.at_x)
        with np.errstate(all="ignore"):
            middle = 0.5 * self.at_x.low + 0.5 * self.at_x.high
            self.field = Field.of(self.prepared, head, x[:EXAMPLES], middle[:EXAMPLES])
            self.scores = self.field.scores(middle)
            self.received = self.field.received(self.scores)
        self.margin_to_flip = _margin_to_flip(head, self.decision, self.received)
        self.lower, self.counterpart = np.zeros(len(x)), x.copy()
        self.flips, self.flip_counterpart = np.zeros(len(x), dtype=bool), x.copy()

    def consider(self, owner: IntArray, y: FloatArray) -> None:
        """Check candidates ``y`` (k, m) for the individuals ``owner`` (k,) and record the best."""
        fits = self.fits(owner, y)
        owner, y = (owner, y) if fits.all() else (owner[fits], y[fits])
        people = int(np.count_nonzero(np.bincount(owner, minlength=1)))
        if len(owner) > people + max(FEW, people // 4):  # else choosing costs more than it saves
            chosen = self._promising(owner, y)
            owner, y = owner[chosen], y[chosen]
        if not len(owner):
            return
        at_x, at_y = self.at_x.of(owner), enclose_at(self.prepared, y)
        value, other = self.head.attained(at_x, at_y), self.head.decision(at_y)
        top = last_of_each(owner, value)
        better = top[value[top] > self.lower[owner[top]]]
        self.lower[owner[better]], self.counterpart[owner[better]] = value[better], y[better]
        flip = self._is_first_flip(owner, other)
        self.flip_counterpart[owner[flip]] = y[flip]
        self.flips[owner[flip]] = True

    def fits(self, owner: IntArray, y: FloatArray) -> NDArray[np.bool_]:
        """Return which candidates are possible individuals and certainly similar to their owners."""
        x, domain = self.x[owner], self.similarity.domain
        free = domain.kind == "unbounded" and not domain.immutable.any()
        fits: NDArray[np.bool_] = np.asarray(np.isfinite(y).all(1)) if free else domain.allows(x, y)
        rows = slice(None) if fits.all() else np.flatnonzero(fits)
        if fits.any():
            fits[rows] = self.similarity.metric.similar(x[rows], y[rows], self.similarity.delta)
        return fits

    def change(self, owner: IntArray, scores: FloatArray) -> FloatArray:
        """Return about the change of output (n,) from the owners to these scores (n, targets)."""
        return np.asarray(np.abs(self.field.received(scores) - self.received[owner]).max(1))

    def _promising(self, owner: IntArray, y: FloatArray) -> IntArray:
        """Return of each individual's candidates the one with the largest change, if above the recorded one, and one
        with another decision, if none is recorded: only these are worth an enclosure."""
        chosen = np.bincount(owner, minlength=len(self.x))[owner] == 1
        rows = np.flatnonzero(~chosen)
        if len(rows):
            mine = owner[rows]
            with np.errstate(all="ignore"):
                margins = self.field.margins(y[rows])
                value = np.nan_to_num(self.change(mine, self.field.scores(margins)), nan=-1.0, posinf=-1.0)
                flip = np.flatnonzero(self._is_first_flip(mine, self.head.decision(Enclosure(margins, margins))))
            top = last_of_each(mine, value)
            chosen[rows[top[value[top] > self.lower[mine[top]] * (1 - 1e-5)]]] = True
            chosen[rows[flip[np.unique(mine[flip], return_index=True)[1]]]] = True
        return np.flatnonzero(chosen)

    def _is_first_flip(self, owner: IntArray, decision: IntArray) -> NDArray[np.bool_]:
        """Return whether a decision differs from the owner's own, where no other one is recorded yet."""
        own = self.decision[owner]
        return np.asarray((decision >= 0) & (own >= 0) & (decision != own) & ~self.flips[owner])

    def finds(self) -> Finds:
        """Return the best candidate of each individual."""
        return Finds(self.lower, self.counterpart, self.flips, self.flip_counterpart)


def last_of_each(owner: IntArray, value: FloatArray) -> IntArray:
    """Return the index of the largest value of each owner."""
    order = np.lexsort((value, owner))
    top: IntArray = order[np.append(owner[order][1:] != owner[order][:-1], True)]
    return top


def _margin_to_flip(head: Head, decision: IntArray, received: FloatArray) -> FloatArray:
    """Return the least change of output (n,) with which the decision changes; infinite where nothing is decided."""
    if (decision < 0).all():
        return np.full(len(decision), np.inf)
    if received.shape[1] == 1:
        cut = 0.5 if head.threshold is None else 1 - head.threshold if head.mirrored else head.threshold
        margin = np.abs(received[:, 0] - cut)
    else:
        ordered = np.sort(received, axis=1)
        margin = (ordered[:, -1] - ordered[:, -2]) / 2
    return np.where(decision < 0, np.inf, margin)
