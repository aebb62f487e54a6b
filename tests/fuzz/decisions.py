"""Decisions by number: cut-offs that are attained, nearly so or extreme, either class being the favourable one.

What is said of a decision is held against exact runs: nobody similar to somebody certified is decided otherwise, the
witness of a flip is, by the one rule of :mod:`isonomy.population.outcome`, which a score equal to the cut-off keeps on
the favourable side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from flint import ctx

from . import engine, graphs, people
from .cases import WEIGHTS, Case, Failure, _exceeded, _short, _similar
from .exact import Truth
from .networks import Array, Net
from .people import People

CUTS = (0.5, 0.3, 1e-9, 1 - 1e-9)
DELTAS = (0.0, 1e-12, 1e-3, 0.3)
BITS = 512


@dataclass(frozen=True, eq=False)
class Decided(Case):
    """The decisions of a local certificate: ``first`` is the favourable one of two."""

    people: People
    tier: str
    float32: bool
    threshold: float | None
    first: int
    decide: bool

    def __str__(self) -> str:
        options = f'"{self.tier}", {self.float32}, {self.threshold!r}, {self.first}, {self.decide}'
        return f"Decided({self.number}, {self.net},\n    {self.people}, {options})"

    def failures(self) -> Iterator[Failure]:
        who, rng = self.people, self.rng
        found = engine.decide(
            self.net, who, self.tier, self.float32, self.threshold, self.first, decide=self.decide
        )  # fmt: skip
        for row, x in enumerate(who.x):
            own, other = Truth(self.net, x), found.other[row]
            mine, said = self.decision(own), found.said[row]
            yield from _short(
                f"lower of row {row}", float(found.lower[row]), own, Truth(self.net, found.counterpart[row])
            )
            if said == "flippable":
                theirs = self.decision(Truth(self.net, other))
                if not who.possible(other) or not who.similar(x, other) or mine < 0 or theirs < 0 or mine == theirs:
                    yield Failure(f"row {row} flippable", float(theirs), str(mine), f"{x.tolist()}, {other.tolist()}")
            for y in _similar(self.net, who, x, rng):
                there = Truth(self.net, y)
                yield from _exceeded(f"{self.tier} upper of row {row}", float(found.upper[row]), own, there)
                theirs = self.decision(there)
                if said == "certified" and mine >= 0 and theirs >= 0 and mine != theirs:
                    yield Failure(f"row {row} certified", float(theirs), str(mine), f"{x.tolist()}, {y.tolist()}")

    def decision(self, truth: Truth) -> int:
        """The class (or 1 high, 0 low) that the rule gives in exact arithmetic; −1 where so many bits do not tell."""
        with ctx.workprec(BITS):
            if self.net.head == "regression":
                (value,), cut = truth.outputs(), self.threshold
            else:  # the logit of the favourable one, compared with that of the cut-off or with 0
                (value,), cut = truth.margins() if self.threshold is None else truth.received(), self.threshold or 0.0
                if self.first == 0:
                    value = -value if self.threshold is None else 1 - value
            if self.net.head == "regression" and self.first == 0:  # low up to the cut-off
                return 0 if value <= cut else 1 if value > cut else -1
            return self.first if value >= cut else 1 - self.first if value < cut else -1

    def rows(self) -> Iterator[Decided]:
        for row in range(len(self.people.x)):
            yield replace(self, people=replace(self.people, x=self.people.x[row : row + 1]))


def decided(number: int) -> Decided:
    """The case of a number."""
    rng = np.random.default_rng([number, 2])
    styles = [style for style in graphs.STYLES if style not in ("deep", "wide")]
    share = np.array([WEIGHTS[style] for style in styles], dtype=float)
    while True:
        space: people.Space = ("unbounded", "relaxed", "realizable")[int(rng.integers(3))]  # type: ignore[assignment]
        who = replace(people.draw(rng, int(rng.integers(1, 4)), space), delta=float(rng.choice(DELTAS)))
        net = graphs.draw(rng, styles[int(rng.choice(len(styles), p=share / share.sum()))], who.x[0])
        if (net.head == "softmax" and net.outputs == 2) or (net.head != "softmax" and net.outputs == 1):
            break
    first = int(rng.integers(2))
    tier = ("interval", "tight", "quick", "exact")[int(rng.integers(4))]
    threshold = _cut(rng, net, who, first)
    return Decided(number, net, who, tier, bool(rng.random() < 0.2), threshold, first, bool(rng.random() < 0.5))


def _cut(rng: np.random.Generator, net: Net, who: People, first: int) -> float | None:
    """A cut-off: none, one of a few, or the score of somebody, or the float beside it."""
    kind = int(rng.integers(4))
    if kind == 0 and net.head != "regression":
        return None
    if kind == 1:
        return float(rng.choice(CUTS))
    x = who.x[int(rng.integers(len(who.x)))]
    some: list[Array] = [x, *_similar(net, who, x, rng)]
    scores = np.nan_to_num(net.received(net.margins(np.stack(some)))[:, 0], posinf=1e300, neginf=-1e300)
    if net.head != "regression" and first == 0:
        scores = 1 - scores
    score = float(rng.choice(scores))
    score = float(rng.choice([score, np.nextafter(score, -9e99), np.nextafter(score, 9e99), scores.mean()]))
    return score if net.head == "regression" or 0 < score < 1 else 0.5
