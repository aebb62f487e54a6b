"""Measure whether a certificate is still about new people: the index of each shift."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.certificates.indices import UNMEASURED, Audited, Gauge, Index, NewPeople, State, tails
from isonomy.certificates.local import certify_local
from isonomy.certificates.reweighting import Reweighting
from isonomy.confidence import share_bounds
from isonomy.errors import DataError
from isonomy.population import Population
from isonomy.records import Record
from isonomy.shift import wasserstein

LOOSER = "Those served may have looser bounds than the audited ones: isonomy shift --certificate compares the same."


def measure(record: Record, people: Population, confidence: float, seed: int = 0) -> list[Index]:
    """Bound new people by the record's problem, and measure the index of each of its shifts."""
    if len(np.unique(people.weights)) > 1:
        raise DataError("Confidence bounds need new people of equal weight: their sampling weights differ.")
    tier: Any = record.document["question"]["tier"]
    local = certify_local(record.problem, people, tier=tier, attack=False, decide=True, predict=False, progress=None)
    measured = indices(record, NewPeople(people.x, local.upper, local.decided), confidence)
    return moved(record, people.x, 1 - confidence, seed) + measured


def moved(record: Record, x: FloatArray, risk: float, seed: int = 0) -> list[Index]:
    """Measure, of a shift in which people move, the distance of new people ``x`` (n, m) from the audited ones, or what
    each column that moves says of it; only lower bounds are known of either."""
    shift, people = record.shift, record.people
    if shift.ground_cost is None:
        return []
    words = shift.words("these people")
    if people is None:
        return [_unmeasured(words, "The audited people are withheld, so that nothing of it can be measured.")]
    gauges, columns = shift.gauges(people), shift.columns(people, x)
    if columns and np.ptp(people.weights):
        return [_unmeasured(words, f"Tails need audited people of equal weight. {shift.never}")]
    share = risk / max(1, len(gauges) + len(columns))
    each = [_distance(people, x, gauge, words, share, seed) for gauge in gauges]
    each += [tails(column, words, *shift.reweighted, share) for column in columns]
    return [replace(index, note=shift.never) for index in each] or [_unmeasured(words, shift.never)]


def window_indices(record: Record, x: FloatArray, upper: FloatArray, risk: float, seed: int) -> list[Index]:
    """Measure the shifts of a record for people ``x`` (n, m) of a stream, with bounds ``upper`` (n,) of any tier; the
    distance of one in which they move by transport is the monitor's own.

    **Soundness.** What *holds* by looser bounds than the certificate's holds all the same; that an index of bounds is
    *expired* can be said of the certificate's own bounds only, and is not said.
    """
    still = indices(record, NewPeople(x, upper, np.zeros(len(x), dtype=np.uint8)), 1 - risk / 2, decisions=False)
    for at, each in enumerate(still):
        if each.state == "expired" and each.of_bounds:
            still[at] = replace(each, state="not known", note=LOOSER)
    gauged = record.shift.distance_cost is None
    return [*(moved(record, x, risk / 2, seed) if gauged else []), *still]


def _unmeasured(words: str, why: str) -> Index:
    return Index(words, UNMEASURED, 0.0, 0.0, 0.0, math.inf, 0.0, "not known", why)


def _distance(people: Population, x: FloatArray, gauge: Gauge, words: str, risk: float, seed: int) -> Index:
    """Return a distance of new people from the audited ones, of which no upper confidence bound is known."""
    confidence = min(1 - risk, float(np.nextafter(1.0, 0.0)))
    distance = wasserstein(people, x, order=gauge.order, ground=gauge.ground, confidence=confidence, seed=seed)
    lower = distance.lower if 1 - confidence <= risk else 0.0  # else the risk is too small for a proof
    state: State = "expired" if gauge.decisive and lower > gauge.radius else "not known"
    return Index(words, gauge.quantity, distance.estimate, distance.floor, lower, math.inf, gauge.radius, state)


def indices(record: Record, people: NewPeople, confidence: float, decisions: bool = True) -> list[Index]:
    """Measure the index of every shift of a record in which no individual moves, and the share of strangers; that of
    ``decisions``, too."""
    still = [each for each in (record.shift, *record.shifts) if isinstance(each, Reweighting)]
    audited = Audited(record.alone, record.weights, None if record.people is None else record.people.x, record.schema)
    risk = (1 - confidence) / (len(still) + 1)
    measured = [_beyond(record, min((shift.strangers for shift in still), default=0.0), people, risk)]
    for shift, claim in zip(still, record.answers, strict=True):
        measured += shift.measured(audited, people, claim if decisions else {**claim, "changes": None}, risk)
    return measured


def _beyond(record: Record, allowed: float, people: NewPeople, risk: float) -> Index:
    """Return the share of people with a bound above all audited ones: strangers, whatever the shift."""
    count = int((people.upper > record.alone.highs(slice(None)).max()).sum())
    least, most = share_bounds(count, len(people), risk)
    state: State = "expired" if least > allowed else "holds" if most <= allowed else "not known"
    return Index("strangers", "share of people bounded above all audited ones", count / len(people), 0.0, least, most,
                 allowed, state, of_bounds=True)  # fmt: skip
