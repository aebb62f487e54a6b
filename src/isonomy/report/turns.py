"""Whose decision changes, which way, and by what: counts over the witnesses, and over runs with another category.

Per individual, of the whole question and of the protected attributes alone: ``alone`` where a witness who differs in
protected attributes only is decided otherwise; ``together`` where only one who differs in more is; ``never`` is
proved of both questions; ``open`` is the rest. Of those who are ``together``, ``others`` is where a witness with the
same protected attributes is decided otherwise, ``both`` the rest; ``unproved`` counts those where it is not proved
that the attributes alone change nothing, ``unsure`` those of ``both`` where that, or the same of the other
differences, is not proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.assembled import Assembled
from isonomy.certificates.local import LocalCertificate
from isonomy.fairness.groups import feature_groups
from isonomy.population.feature import Feature
from isonomy.population.outcome import decided, favourable_places
from isonomy.report.findings import Findings
from isonomy.report.numbers import cell
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE

KINDS = ("alone", "together", "never", "open")

BLOCK = 2**12
"""Individuals run at a time."""

ROWS = 20_000
"""Individuals, evenly spaced over the table, who are run again with other categories."""

MOST_VALUES = 12
"""Values of one attribute that everybody is run with."""

STEPS = 5
"""Values between its limits that stand for a number."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Exchange:
    """People of one category, run with another: how many, who gains and loses, the mean change of the score."""

    before: str
    after: str
    people: int
    gain: int
    lose: int
    change: float


@dataclass(frozen=True)
class Everybody:
    """All people, run with one value of an attribute: how many get the favourable outcome, the mean change."""

    value: str
    favoured: int
    change: float


class Turns:
    """What becomes of everybody's decision; without decisions masks are empty, without a favourable one directions."""

    def __init__(self, findings: Findings) -> None:
        self.findings, self.certificate = findings, findings.certificate
        local, n = findings.certificate.local, len(findings.people)
        joint = findings.joint
        self.decides = "none" not in local.decision_counts
        flips, kept = local.decided == FLIPPABLE, local.decided == CERTIFIED
        own = np.zeros(n, dtype=bool) if joint is None else joint.decided == FLIPPABLE
        safe = kept if joint is None else joint.decided == CERTIFIED
        self.alone: Mask = own
        self.together: Mask = flips & ~own
        self.never: Mask = kept & safe
        held = None if findings.held is None else findings.held.certificate.decided
        self.others: Mask = np.zeros(n, dtype=bool) if held is None else self.together & (held == FLIPPABLE)
        self.both: Mask = self.together & ~self.others
        neither = safe if held is None else safe & (held == CERTIFIED)
        self.unproved = 0 if joint is None else int((self.together & ~safe).sum())
        self.unsure = 0 if joint is None else int((self.both & ~neither).sum())
        self.outcome, self.head = self.certificate.problem.outcome, findings.model.head
        self.places = favourable_places(self.outcome)

    @cached_property
    def kind(self) -> NDArray[np.intp]:
        """Return the place (n,) of everybody in :data:`KINDS`; the last one without decisions."""
        return np.select([self.alone, self.together, self.never], [0, 1, 2], 3)

    def counts(self) -> dict[str, int]:
        """Return how many people are of each kind."""
        return {kind: int((self.kind == place).sum()) for place, kind in enumerate(KINDS)} if self.decides else {}

    def good(self, given: FloatArray) -> Mask | None:
        """Return who gets the favourable outcome (n,) by these outputs; None where none is named or decided."""
        if not self.places or not self.decides:
            return None
        return np.isin(decided(given, self.outcome, regression=self.head == "regression"), self.places)

    @property
    def output(self) -> int | None:
        """Return the place of the output that is the score: of the favourable class, the second of two, or the number;
        None of several others."""
        count = self.findings.model.classes if self.head == "regression" else (self.findings.model.class_count or 0)
        if count == 1:
            return 0
        if self.head != "regression" and len(self.places) == 1:
            return self.places[0]
        return 1 if count == 2 and self.head != "regression" else None

    def run(self, x: FloatArray | Assembled) -> FloatArray:
        """Return the model's outputs for individuals, who are looked at block by block."""
        starts = range(0, max(len(x), 1), BLOCK)
        return np.concatenate(
            [self.certificate.problem.model(np.ascontiguousarray(x[start : start + BLOCK])) for start in starts]
        )

    @cached_property
    def today(self) -> FloatArray:
        """Return everybody's own outputs."""
        return self.run(self.certificate.x)

    def witnesses(self) -> Iterator[FloatArray | Assembled]:
        """Yield everybody's witnesses of the whole question and of the attributes alone: the individual itself where
        there is none."""
        asked: list[LocalCertificate] = [self.certificate.local, *(each.certificate for each in self.findings.alone)]
        for each in asked if self.certificate.searched else []:
            yield from (each.witnesses.counterpart, each.witnesses.flip_counterpart)

    @cached_property
    def _seen(self) -> tuple[FloatArray, FloatArray, Mask, Mask]:
        """Return the lowest and the highest score (n,) of everybody and the witnesses, and who has a witness with the
        favourable outcome, and one without; zeros where there is no score, or no such outcome."""
        low = np.zeros(len(self.today)) if self.output is None else self.today[:, self.output].copy()
        high, given, refused = low.copy(), np.zeros(len(low), dtype=bool), np.zeros(len(low), dtype=bool)
        for some in self.witnesses():
            outputs = self.run(some)
            if self.output is not None:
                np.minimum(low, outputs[:, self.output], out=low)
                np.maximum(high, outputs[:, self.output], out=high)
            good = self.good(outputs)
            if good is not None:
                given |= good
                refused |= ~good
        return low, high, given, refused

    @property
    def shown(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the lowest and the highest score (n,) of everybody and the witnesses; None without a score."""
        return None if self.output is None else self._seen[:2]

    @cached_property
    def direction(self) -> tuple[Mask, Mask, Mask] | None:
        """Return who gets the favourable outcome today, who would gain it and who would lose it, by a witness."""
        good = self.good(self.today)
        if good is None:
            return None
        _, _, given, refused = self._seen
        turned = self.alone | self.together
        return good, turned & ~good & given, turned & good & refused

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Return the people who are run again with other values."""
        return np.arange(0, len(self.certificate.x), -(-len(self.certificate.x) // ROWS))

    def _bands(self, feature: Feature, x: FloatArray) -> list[tuple[str, Mask]]:
        """Return the bands of a number's values in which groups are formed, and who (n,) is in each."""
        if not feature.low < feature.high:
            return []
        grouping, _ = feature_groups(self.findings.people.schema, feature.name, x)
        return [(name, grouping.code == place) for place, name in enumerate(grouping.names)]

    def everybody_as(self, feature: Feature) -> tuple[list[Everybody], list[Exchange]]:
        """Return what becomes of people with each value of a feature, everything else equal, and from each category to
        each other one; of a number from each band of values."""
        where = self.findings.people.schema.slices[feature.name]
        x, today = self.certificate.x, self.today[self.rows]
        weights = self.findings.people.weights[self.rows]
        weights = weights if weights.sum() > 0 else np.ones(len(weights))
        mine = self.good(today)
        befores = (
            _categories(feature, x[self.rows, where]) if feature.categories else self._bands(feature, x[self.rows])
        )
        everybody, exchanges = [], []
        for name, block in _values(feature):
            values = np.broadcast_to(block, (len(x), feature.width))
            given = self.run(Assembled(x, np.arange(where.start, where.stop), values, self.rows))
            theirs = self.good(given)
            moved = np.zeros(len(given)) if self.output is None else given[:, self.output] - today[:, self.output]
            favoured = 0 if theirs is None else int(theirs.sum())
            everybody.append(Everybody(name, favoured, float(np.average(moved, weights=weights))))
            for before, own in befores:
                some = own & (weights > 0)
                if before == name or not some.any():
                    continue
                gain = lose = 0
                if mine is not None and theirs is not None:
                    gain, lose = int((some & ~mine & theirs).sum()), int((some & mine & ~theirs).sum())
                change = float(np.average(moved[some], weights=weights[some]))
                exchanges.append(Exchange(before, name, int(some.sum()), gain, lose, change))
        return everybody, exchanges


def _categories(feature: Feature, block: FloatArray) -> list[tuple[str, Mask]]:
    """Return the categories of a feature, and who (n,) has each."""
    return [(name, (block == own).all(axis=1)) for name, own in _values(feature)]


def has_values(feature: Feature) -> bool:
    """Return whether a feature has categories, or limits between which numbers stand for it."""
    return bool(feature.categories) or (math.isfinite(feature.low) and math.isfinite(feature.high))


def _values(feature: Feature) -> list[tuple[str, FloatArray]]:
    """Return values of a feature in words and in coordinates: its categories, or numbers between its limits."""
    if feature.kind == "categorical":
        rows = np.eye(len(feature.levels))
        return [(feature.labels.get(name, name), rows[i]) for i, name in enumerate(feature.levels)][:MOST_VALUES]
    if feature.kind == "ordinal":
        numbers, names = np.arange(len(feature.categories)), [feature.labels.get(c, c) for c in feature.categories]
    else:
        steps = np.linspace(feature.low, feature.high, STEPS)
        numbers = np.unique(np.rint(steps) if feature.kind == "integer" else steps)
        numbers = numbers[(numbers >= feature.low) & (numbers <= feature.high)]
        names = [cell(float(f"{number:.4g}")) for number in numbers]
        if feature.kind != "integer":
            numbers = np.array([float(f"{number:.4g}") for number in numbers]).clip(feature.low, feature.high)
    ends = [np.array([(number - feature.origin) / feature.unit, 0.0][: feature.width]) for number in numbers]
    return list(zip(names, ends, strict=True))[:MOST_VALUES]
