"""One look at a window of people: is the certificate still about them?

A certificate says: no population within γ of the audited one has a mean violation above ε. Of the people in a window,
taken as independent draws from today's population, two things are asked:

* how far is today's population from the one behind the audited individuals, at least (a lower confidence bound, from
  dual potentials: :mod:`isonomy.shift.lower`), and
* what is today's mean of the proved violations ``upper_i`` (a lower and an upper confidence bound).

*expired*: the distance is above γ, or the mean above ε, with confidence. *valid*: the mean is at most ε with
confidence. Otherwise *undecided*. Expired does not mean unfair: it means that the certificate no longer vouches.

**Soundness.** The risk is shared: half for the distance, a quarter for each side of the mean. So with probability at
least ``1 − risk`` every number of the evaluation is right, whatever is true: the distance is at least ``lower``, the
mean of the proved violations lies between ``mean.lower`` and ``mean.upper``, and the mean violation itself is at most
``mean.upper``. This needs people who are independent draws from one population (not the same people again and again,
no change within the window) and who were not used to fit network, metric or schema. Where two samples are compared
``whole``, ``certified`` needs no such thing: it bounds the mean violation of the people of the window themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isonomy.arithmetic import FloatArray, at_least, at_most, mean_up
from isonomy.certificates.finite_sample import betting
from isonomy.errors import ParameterError, template
from isonomy.population import Population
from isonomy.shift import wasserstein
from isonomy.shift.confidence import mean_lower
from isonomy.similarity.metric import Metric

State = Literal["valid", "expired", "undecided"]

ROUNDING = 1e-5
"""A transport problem is solved to a share of its largest cost: the curve is read off a little further out."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What a certificate promises, as far as a monitor needs it.

    ``curve`` gives the proved mean violation for other γ. ``people`` are the audited individuals, or None where the
    certificate does not carry them: then nothing is said of distances. ``everybody`` is false where they are a sample.
    ``largest`` is the largest violation possible. ``caution`` is what has to be said beside every state.
    """

    gamma: float
    order: float
    epsilon: float
    ground: Metric
    curve: Callable[[Sequence[float]], Sequence[float]]
    people: Population | FloatArray | None
    largest: float = 1.0
    everybody: bool = True
    caution: str = ""


@dataclass(frozen=True)
class Observed:
    """The distance from the audited individuals.

    ``estimate`` is the distance between the two samples, large with small samples in many dimensions even when
    nothing has changed: about the ``floor``. ``lower`` is what the populations are apart at least, with confidence.
    ``certified`` is the proved mean violation at the estimate, ``certified_at_lower`` at the lower bound. ``whole``:
    everybody was compared with everybody, not a part of each.
    """

    estimate: float
    floor: float
    lower: float
    evidence: str
    certified: float
    certified_at_lower: float
    whole: bool


@dataclass(frozen=True)
class MeanViolation:
    """The mean of the proved violations: of the window, and confidence bounds for today's population."""

    observed: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Evaluation:
    """What one look at a window says; ``risk`` is the probability with which it may be wrong, at most."""

    number: int
    people: int
    state: State
    reason: str
    distance: Observed | None
    mean: MeanViolation
    risk: float


def evaluate(
    reference: Reference,
    x: FloatArray,
    upper: FloatArray,
    *,
    risk: float,
    number: int = 1,
    seed: int = 0,
    sample: int = 500,
) -> Evaluation:
    """Judge a window of people ``x`` (n, m) with proved violations ``upper`` (n,), in the order of arrival.

    ``sample`` is how many people at most enter one transport problem.
    """
    if not 0.0 < risk < 1.0:
        raise ParameterError(template("risk", "a number between 0 and 1", risk))
    if len(x) != len(upper) or not len(x):
        raise ParameterError(template("upper", f"one number for each of {len(x)} individuals", len(upper)))
    mean = mean_violation(upper, reference.largest, risk / 2.0)
    distance = observe(reference, x, risk / 2.0, seed, sample)
    state, reason = _judge(reference, distance, mean)
    return Evaluation(number, len(x), state, f"{reason} {reference.caution}".rstrip(), distance, mean, risk)


def mean_violation(upper: FloatArray, largest: float, risk: float) -> MeanViolation:
    """Confidence bounds of the mean of proved violations, both right with probability at least ``1 − risk``."""
    observed = mean_up(upper)
    if not math.isfinite(largest):  # numbers without a limit: a sample bounds no mean
        return MeanViolation(observed, 0.0, math.inf)
    low = mean_lower(upper, np.ones(len(upper)), 0.0, largest, risk / 2.0)
    return MeanViolation(observed, low, betting(upper, largest, risk / 2.0))


def observe(reference: Reference, x: FloatArray, risk: float, seed: int, sample: int) -> Observed | None:
    """The distance of a window from the audited individuals; None without these."""
    if reference.people is None:
        return None
    found = wasserstein(
        reference.people, x, order=reference.order, ground=reference.ground, sample=sample, repeats=1,
        confidence=float(np.nextafter(1.0 - risk, 1.0)), seed=seed,
    )  # fmt: skip
    read = reference.curve([found.estimate * (1 + ROUNDING), found.lower])
    return Observed(
        estimate=found.estimate,
        floor=found.floor,
        lower=found.lower,
        evidence=found.evidence,
        certified=float(read[0]),
        certified_at_lower=float(read[1]),
        whole=reference.everybody and found.individuals == (found.n_one, found.n_other),
    )


def _judge(reference: Reference, distance: Observed | None, mean: MeanViolation) -> tuple[State, str]:
    if distance is not None and distance.lower > reference.gamma:
        return "expired", (
            f"Today's population is at least {at_least(distance.lower)} away from the audited one, further than "
            f"gamma = {reference.gamma:g}."
        )
    if mean.lower > reference.epsilon:
        return "expired", (
            f"The mean of today's proved violations is at least {at_least(mean.lower)}, above epsilon = "
            f"{reference.epsilon:g}."
        )
    if mean.upper <= reference.epsilon:
        return "valid", (
            f"Today's mean violation is at most {at_most(mean.upper)}, within epsilon = {reference.epsilon:g}, and no "
            f"distance above gamma = {reference.gamma:g} is shown."
        )
    return "undecided", (
        f"Today's mean of proved violations lies between {at_least(mean.lower)} and {at_most(mean.upper)}, on both "
        f"sides of epsilon = {reference.epsilon:g}: more people, or a tighter tier, would tell."
    )
