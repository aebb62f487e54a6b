"""Measure whether a certificate is still about new people: the index of each shift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isonomy.certificates.indices import Audited, Gauge, Index, NewPeople, State
from isonomy.certificates.local import certify_local
from isonomy.certificates.reweighting import Reweighting
from isonomy.confidence import share_bounds
from isonomy.errors import DataError
from isonomy.population import Population
from isonomy.records import Record
from isonomy.shift import wasserstein


def measure(record: Record, people: Population, confidence: float, seed: int = 0) -> list[Index]:
    """Bound new people by the record's problem, and measure the index of each of its shifts.

    Of shifts in which people move it is the distance from the audited people, or of each column that moves, of which
    only a lower bound is known.
    """
    if len(np.unique(people.weights)) > 1:
        raise DataError("Confidence bounds need new people of equal weight: their sampling weights differ.")
    tier: Any = record.document["question"]["tier"]
    local = certify_local(record.problem, people, tier=tier, attack=False, decide=True, predict=False, progress=None)
    measured = indices(record, NewPeople(people.x, local.upper, local.decided), confidence)
    gauges = [] if record.people is None else record.shift.gauges(record.people)
    return [_distance(record, people, gauge, 1 - (1 - confidence) / len(gauges), seed) for gauge in gauges] + measured


def _distance(record: Record, people: Population, gauge: Gauge, confidence: float, seed: int) -> Index:
    """Return a distance of new people from the audited ones, of which no upper confidence bound is known."""
    assert record.people is not None
    distance = wasserstein(
        record.people, people, order=gauge.order, ground=gauge.ground, confidence=confidence, seed=seed
    )
    state: State = "expired" if gauge.decisive and distance.lower > gauge.radius else "not known"
    return Index(record.shift.words("these people"), gauge.quantity, distance.estimate, distance.floor, distance.lower,
                 math.inf, gauge.radius, state)  # fmt: skip


def indices(record: Record, people: NewPeople, confidence: float) -> list[Index]:
    """Measure the index of every shift of a record in which no individual moves, and the share of strangers."""
    still = [each for each in (record.shift, *record.shifts) if isinstance(each, Reweighting)]
    audited = Audited(record.alone, record.weights, None if record.people is None else record.people.x, record.schema)
    risk = (1 - confidence) / (len(still) + 1)
    measured = [_beyond(record, min((shift.strangers for shift in still), default=0.0), people, risk)]
    for shift, claim in zip(still, record.answers, strict=True):
        measured += shift.measured(audited, people, claim, risk)
    return measured


def _beyond(record: Record, allowed: float, people: NewPeople, risk: float) -> Index:
    """Return the share of people with a bound above all audited ones: strangers, whatever the shift."""
    count = int((people.upper > record.alone.highs(slice(None)).max()).sum())
    least, most = share_bounds(count, len(people), risk)
    state: State = "expired" if least > allowed else "holds" if most <= allowed else "not known"
    return Index("strangers", "share of people bounded above all audited ones", count / len(people), 0.0, least, most,
                 allowed, state)  # fmt: skip
