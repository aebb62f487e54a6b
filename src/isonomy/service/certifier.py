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
from isonomy.attacks import AttackBudget, Finds, Known
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_people, counterexamples_saved_in
from isonomy.certificates.local import Bounds, decisions, verdicts
from isonomy.errors import DataError
from isonomy.population.outcome import decided, named
from isonomy.service.reading import BadRequestError, complaint
from isonomy.service.served import Served, placeholder

PIECE = 64
"""Individuals bounded by the tight tier at a time, at most, so that a latency budget can be met."""

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
        self.served, self.problem, self._evidence = served, served.problem, evidence
        float32_run = served.arithmetic == "float32"
        self.interval = Bounds(self.problem, "interval", float32_run)
        self.tight = Bounds(self.problem, "tight", float32_run)
        self.head = self.interval.head
        self._pace = _Pace()
        own, default = self.problem.domain, served.schema.domain(self.problem.domain.kind)
        self._own_domain = not (np.array_equal(own.low, default.low) and np.array_equal(own.high, default.high))
        self._outcome = self.problem.outcome

    def warm_up(self) -> None:
        """Certify one individual by every tier, so that no request pays for caches, and measure the pace."""
        x = placeholder(self.served.schema).x
        self(x, seconds=60.0, counterparts=True)
        self._pace.learn(*(min(self._timed(np.repeat(x, people, 0)) for _ in range(3)) for people in (1, PIECE)))

    def __call__(self, x: FloatArray, *, seconds: float = 0.0, counterparts: bool = False) -> Answers:
        """Certify individuals ``x`` (n, m); the tight tier may take ``seconds`` from now."""
        self._check_domain(x)
        upper, certified, tight = self._bounded(x, time.monotonic() + seconds)
        tier = ["tight" if tighter else "interval" for tighter in tight.tolist()]
        outputs, epsilon = self.problem.network(x), self.served.epsilon
        finds = self._search(x, upper, certified) if counterparts else None
        lower = np.zeros(len(x)) if finds is None else finds.lower
        flips = np.zeros(len(x), dtype=bool) if finds is None else finds.flips
        others = None if finds is None else (finds.counterpart, finds.flip_counterpart)
        with counterexamples_saved_in(self._evidence):
            compare_people(
                self.problem, x, lower, upper, certified & self.head.decides, flips, others, tier=tier,
                arithmetic=self.served.arithmetic, threshold=self._outcome.threshold,
                favourable=list(self._outcome.favourable),
            )  # fmt: skip
        verdict = verdicts(lower, upper, epsilon)
        return Answers(
            x, outputs, *self._decided(outputs), upper + 0.0, lower + 0.0, verdict.tolist(),  # SQLite has no -0.0
            decisions(certified, flips, self.head.decides).tolist(), tier,
            None if finds is None else self.served.schema.decode(finds.counterpart),
        )  # fmt: skip

    def _check_domain(self, x: FloatArray) -> None:
        """Refuse individuals outside a domain that is narrower than the schema's."""
        if self._own_domain:
            try:
                self.problem.check(x)
            except DataError as error:
                people = int((~self.problem.domain.contains(x)).sum())
                raise BadRequestError([complaint(str(error), "individuals")], people) from None

    def tighten(self, x: FloatArray) -> FloatArray:
        """Bound violations (n,) by the tight tier, without a time limit."""
        return self._chunks(self.tight, x)[0]

    def _bounded(self, x: FloatArray, ends_at: float) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Return upper bounds, whose decision is certified, and whose bound is the tight tier's, each (n,)."""
        upper, certified = self._chunks(self.interval, x)
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
        return upper, certified, tight

    def _chunks(self, bounds: Bounds, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        parts = [bounds.chunk(np.array(x[rows])) for rows in _pieces(len(x), bounds.size)]
        return np.concatenate([part.upper for part in parts]), np.concatenate([part.kept for part in parts])

    def _search(self, x: FloatArray, upper: FloatArray, certified: BoolArray) -> Finds:
        parts = [
            self.tight.attack(np.array(x[rows]), AttackBudget(), Known(upper[rows], certified[rows]))
            for rows in _pieces(len(x), self.tight.size)
        ]
        fields = ("lower", "counterpart", "flips", "flip_counterpart")
        return Finds(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))

    def _timed(self, x: FloatArray) -> float:
        began = time.monotonic()
        self.tight.chunk(x)
        return time.monotonic() - began

    def _decided(self, outputs: FloatArray) -> tuple[list[Any], list[str | None], list[bool | None]]:
        """Return predictions, decisions, and whether these are favourable, by the one rule of decisions."""
        regression = self.head.kind == "regression"
        decisions = named(decided(outputs, self._outcome, regression=regression), self._outcome)
        outcome = [name for name, _ in decisions]
        return outputs[:, 0].tolist() if regression else outcome, outcome, [favour for _, favour in decisions]


def _pieces(people: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, people, size)]


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
