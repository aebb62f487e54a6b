"""Compute local certificates at prediction time; whatever does not depend on the individual is prepared once.

**Soundness.** Bounds come from the same objects as in :func:`isonomy.certify_local`, fed with the same rows in the
same chunks: for the same table of individuals the numbers are the library's, bit for bit. The tight tier gets the rows
that the interval tier leaves undecided, in pieces of at most ``PIECE``; whichever bound is smaller counts, and ``tier``
says which one it is.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget, Known
from isonomy.brief import brief
from isonomy.certificates.chunks import REGION, WORK, search_work
from isonomy.certificates.consistency import Counterexamples
from isonomy.certificates.local import LocalCertificate, Witnesses, bound_blocks, decisions
from isonomy.certificates.protocol import tier_for
from isonomy.errors import DataError
from isonomy.population.outcome import decided, named
from isonomy.service.requests import BadRequestError
from isonomy.service.served import Served, placeholder

PIECE = 64
"""Individuals bounded by the tight tier at a time, at most, so that a latency budget can be met."""

PER_SECOND = WORK / 20
"""Multiplications in a second of one thread, about."""

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions with their certificates, one row per individual.

    ``predictions`` are classes, or the numbers of a regression; ``outcome`` is the decision (a class, high or low, None
    without a cut-off), ``favourable`` whether it is favourable, None where no favourable one is named.
    ``lower`` is 0 and ``counterpart`` None unless counterparts were asked for.
    """

    x: FloatArray
    outputs: FloatArray  # (n, k): probabilities, or the numbers of a regression
    predictions: list[str] | list[float]
    outcome: list[str | None]
    favourable: list[bool | None]
    upper: FloatArray
    lower: FloatArray
    verdict: list[str]
    decision: list[str]
    tier: list[str]
    counterpart: pd.DataFrame | None

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.upper)


class Certifier:
    """Certifies any individuals of one schema. Safe to use from several threads."""

    def __init__(self, served: Served, evidence: Path | None = None) -> None:
        """Take ``evidence``, the folder where a contradiction is saved, with the person; None: not saved."""
        self.served, self.problem, self._saved = served, served.problem, Counterexamples(evidence)
        self.interval, self.tight = (
            tier_for(self.problem, tier, served.arithmetic == "float32") for tier in ("interval", "tight")
        )
        self.head = self.interval.head
        self._pace, self._regions = _Pace(), 1.0
        own, default = self.problem.domain, served.schema.domain(self.problem.domain.kind)
        self._own_domain = not (np.array_equal(own.low, default.low) and np.array_equal(own.high, default.high))

    def warm_up(self) -> None:
        """Certify one individual by every tier, so that no request pays for caches; count regions, measure the pace."""
        audited = self.served.people if self.problem.model.condition else None  # whose predictions are surely known
        x = placeholder(self.served.schema).x if audited is None else np.array(audited.x[:1])
        self(x, seconds=60.0, counterparts=True)
        self._regions = self.problem.similarity.count(x)
        self._pace.learn(*(min(self._timed(np.repeat(x, people, 0)) for _ in range(3)) for people in (1, PIECE)))

    def work(self, people: int, seconds: float, counterparts: bool) -> float:
        """Return about the multiplications of an answer, as the parts of an audit are counted; the tight tier takes no
        more of them than fit into ``seconds``."""
        regions, steps = people * self._regions, 1 + AttackBudget().steps
        tight = min(regions * (REGION + self.tight.price), max(seconds, 0.0) * PER_SECOND)
        searches = people * search_work(self._regions, steps) if counterparts else 0.0
        return regions * (REGION + self.interval.price) + tight + searches

    def __call__(self, x: FloatArray, *, seconds: float = 0.0, counterparts: bool = False) -> Answers:
        """Certify individuals ``x`` (n, m); the tight tier may take ``seconds`` from now."""
        self._check_domain(x)
        upper, certified, finds = bound_blocks(self.interval, x)
        tight = self._tighten(x, upper, certified, time.monotonic() + seconds)
        if counterparts:
            finds = self.tight.attack(np.array(x), AttackBudget(), Known(upper, certified))
        witnesses = Witnesses(x, finds.counterpart, finds.lower, finds.flips, finds.flip_counterpart, self.problem)
        local = LocalCertificate(
            upper + 0.0, finds.lower + 0.0, witnesses,  # SQLite has no -0.0
            decisions(certified, finds.flips, self.head.decides), self.problem.model(x), np.ones(len(x)),
            "tight" if tight.any() else "interval", self.served.arithmetic, self.problem, self._saved,
        )  # fmt: skip
        return Answers(
            x, local.prediction, *self._decided(local.prediction), local.upper, local.lower,
            local.verdict(self.served.epsilon).tolist(), local.decision.tolist(),
            np.where(tight, "tight", "interval").tolist(),
            self.served.schema.decode(finds.counterpart) if counterparts else None,
        )  # fmt: skip

    def _check_domain(self, x: FloatArray) -> None:
        """Refuse individuals outside a domain that is narrower than the schema's."""
        if self._own_domain:
            try:
                self.problem.check(x)
            except DataError as error:
                people = int((~self.problem.domain.contains(x)).sum())
                raise BadRequestError.at(str(error), "individuals", people=people) from None

    def tighten(self, x: FloatArray) -> FloatArray:
        """Bound violations (n,) by the tight tier, without a time limit."""
        return bound_blocks(self.tight, x)[0]

    def _tighten(self, x: FloatArray, upper: FloatArray, certified: BoolArray, ends_at: float) -> BoolArray:
        """Tighten bounds of undecided individuals in place, while time is left; return whose bound is tighter (n,)."""
        tight = np.zeros(len(x), dtype=bool)
        undecided = np.flatnonzero(upper > self.served.epsilon)
        while len(undecided) and (size := self._pace.fits(ends_at - time.monotonic())):
            rows, undecided = undecided[:size], undecided[size:]
            began = time.monotonic()
            bound, unchanged = self.tight.chunk(x[rows])[:2]
            self._pace.note(len(rows), time.monotonic() - began)
            better = bound < upper[rows]
            upper[rows[better]], tight[rows[better]] = bound[better], True
            certified[rows] |= unchanged
        return tight

    def _timed(self, x: FloatArray) -> float:
        began = time.monotonic()
        self.tight.chunk(x)
        return time.monotonic() - began

    def _decided(self, outputs: FloatArray) -> tuple[list[Any], list[str | None], list[bool | None]]:
        """Return predictions, decisions, and whether these are favourable, by the one rule of decisions."""
        regression, rule = self.head.kind == "regression", self.problem.outcome
        decided_by = named(decided(outputs, rule, regression=regression), rule)
        outcome = [name for name, _ in decided_by]
        return outputs[:, 0].tolist() if regression else outcome, outcome, [favour for _, favour in decided_by]


class _Pace:
    """Estimates how many individuals the tight tier can bound in a given time, from recent timings.

    A piece costs a fixed time and a time per individual. When nothing has fitted for ``PATIENCE`` seconds one
    individual is tried all the same, since the estimate may come from a busy moment.
    """

    PATIENCE = 30.0

    def __init__(self) -> None:
        self._piece, self._each, self._noted, self._lock = 0.05, 0.001, time.monotonic(), threading.Lock()

    def learn(self, one: float, many: float) -> None:
        """Set the estimate from the seconds of one individual and of ``PIECE``."""
        each = max((many - one) / (PIECE - 1), 1e-6)
        self._piece, self._each = max(one - each, 0.0), each

    def note(self, people: int, seconds: float) -> None:
        """Move the estimate a third of the way, in proportion, to the seconds that a piece took."""
        with self._lock:
            factor = (seconds / (self._piece + self._each * people)) ** 0.3
            self._piece, self._each, self._noted = factor * self._piece, factor * self._each, time.monotonic()

    def fits(self, seconds: float) -> int:
        """Return the number of individuals that fit into ``seconds``."""
        with self._lock:
            people = max(0, min(PIECE, int((seconds - self._piece) / self._each)))
            if not people and seconds > 0 and time.monotonic() - self._noted > self.PATIENCE:
                self._noted, people = time.monotonic(), 1
            return people
