"""One look at a window of people: is the certificate still about them?

A certificate says: no population within γ of the audited one has a mean violation above ε. Of the people in a window,
taken as independent draws from today's population, three things are asked:

* how far are those of today's population whom the schema admits from the population behind the audited individuals, at
  least (a lower confidence bound, from dual potentials: :mod:`isonomy.shift.lower`),
* what is today's mean violation: at most, from the proved violations, and at least, from the attained ones, and
* what share of today's people does the schema refuse. Of them nothing is proved: each counts with the largest violation
  possible from above, and with none from below.

*expired*: the distance is above γ, or the mean violation above ε, or so many are refused that the mean of what is
proved exceeds ε whatever is true of the others, with confidence. *valid*: the mean violation is at most ε with
confidence. Otherwise *undecided*. Expired does not mean unfair: it means that the certificate no longer vouches.

**Soundness.** The risk is shared: half for the distance, a quarter for the mean from above, an eighth for the mean from
below, an eighth for the share (Clopper and Pearson, both sides). So with probability at least ``1 − risk`` every number
of the evaluation is right, whatever is true. Proved violations may come from several tiers: the upper bound of the mean
grows with every value, so it stays above the one for the violations themselves. Attained ones may come from any search:
the lower bound of the mean grows with every value too, since its bets are fixed in advance. This needs people who are
independent draws from one population (not the same people again and again, no change within the window) and who were
not used to fit network, metric or schema. Where two samples are compared ``whole``, ``certified`` needs no such thing:
it bounds the mean violation of the admitted people of the window themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import beta

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.certificates.consistency import compare
from isonomy.confidence import betting
from isonomy.errors import ParameterError, template
from isonomy.population import BoolArray, Population
from isonomy.shift import wasserstein
from isonomy.shift.lower import NOTHING
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import down, mean_up, up

State = Literal["valid", "expired", "undecided"]

ROUNDING = 1e-5
"""A transport problem is solved to a share of its largest cost: the curve is read off a little further out."""

LEFT_OUT = 2e-9
"""More of the people than may be left out of its solution, as shares do not add up to exactly 1."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What a certificate promises, as far as a monitor needs it.

    ``curve`` gives the proved mean violation for other γ. ``people`` are the audited individuals, or None where the
    certificate does not carry them: then nothing is said of distances. ``everybody`` is false where they are a sample.
    ``largest`` is the largest violation possible, also of people whom the schema refuses.
    """

    gamma: float
    order: float
    epsilon: float
    ground: Metric
    curve: Callable[[Sequence[float]], Sequence[float]]
    people: Population | FloatArray | None
    largest: float = 1.0
    everybody: bool = True

    @property
    def caution(self) -> str:
        """What has to be said beside every state."""
        return ""


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
    """Today's mean violation, with confidence: at least ``lower``, at most ``upper``.

    ``observed`` is the mean of the window's proved violations. Whoever was refused counts with the largest possible
    violation in ``observed`` and ``upper``, with none in ``lower``.
    """

    observed: float
    lower: float
    upper: float


@dataclass(frozen=True)
class RefusedShare:
    """Whom the schema refused: how many of the window, their share, and bounds of the share in today's population."""

    people: int
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
    refused: RefusedShare
    risk: float


def evaluate(
    reference: Reference,
    x: FloatArray,
    upper: FloatArray,
    lower: FloatArray | None = None,
    refused: BoolArray | None = None,
    *,
    risk: float,
    number: int = 1,
    seed: int = 0,
    sample: int = 500,
) -> Evaluation:
    """Judge a window of people ``x`` (n, m) with proved violations ``upper`` (n,), in the order of arrival.

    ``lower`` (n,) are attained violations, none where nobody looked for any. Of whoever was ``refused`` (n,) neither
    coordinates nor violations are read. ``sample`` is how many people at most enter one transport problem.
    """
    if not 0.0 < risk < 1.0:
        raise ParameterError(template("risk", "a number between 0 and 1", risk))
    if len(x) != len(upper) or not len(x):
        raise ParameterError(template("upper", f"one number for each of {len(x)} individuals", len(upper)))
    refused = np.zeros(len(x), dtype=bool) if refused is None else refused
    if lower is not None:  # bounds may have come later, from another tier; no row is told
        compare(
            np.where(refused, 0.0, lower), np.where(refused, 0.0, upper),
            lambda at: f"Number {at} of the window: the output for a similar individual", lambda at: {"number": at},
        )  # fmt: skip
    largest = reference.largest
    least = 0.0 if lower is None else mean_at_least(np.where(refused, 0.0, lower), largest, risk / 8.0)
    proved = np.where(refused, largest, upper)
    mean = MeanViolation(mean_up(proved), least, mean_at_most(proved, largest, risk / 4.0))
    share = refused_share(refused, risk / 8.0)
    distance = None if refused.all() else observe(reference, x[~refused], risk / 2.0, seed, sample)
    state, reason = _judge(reference, distance, mean, share)
    return Evaluation(number, len(x), state, f"{reason} {reference.caution}".rstrip(), distance, mean, share, risk)


def mean_at_most(upper: FloatArray, largest: float, risk: float) -> float:
    """At least the mean violation of the population, with probability ``1 − risk``; numbers without a limit bound no
    mean."""
    return betting(upper, largest, risk) if math.isfinite(largest) else math.inf


def mean_at_least(lower: FloatArray, largest: float, risk: float) -> float:
    """At most the mean violation of the population, with probability ``1 − risk``: what is missing to the largest
    violation, everybody's rounded up, is bounded from above."""
    if not math.isfinite(largest):
        return 0.0
    missing = np.clip(up(largest - lower), 0.0, largest)
    return max(0.0, float(down(largest - betting(missing, largest, risk))))


def refused_share(refused: BoolArray, risk: float) -> RefusedShare:
    """The share of the refused with its bounds of Clopper and Pearson, both right with probability ``1 − risk``."""
    n, count = len(refused), int(refused.sum())
    low = float(beta.ppf(risk / 2.0, count, n - count + 1)) if count else 0.0
    high = float(beta.isf(risk / 2.0, count + 1, n - count)) if count < n else 1.0
    # Quantiles are computed to far more digits than these.
    return RefusedShare(count, count / n, max(0.0, low * (1 - 1e-9)), min(1.0, high * (1 + 1e-9)))


def observe(reference: Reference, x: FloatArray, risk: float, seed: int, sample: int) -> Observed | None:
    """The distance of a window from the audited individuals; None without these."""
    if reference.people is None:
        return None
    confidence = float(np.nextafter(1.0 - risk, 1.0))
    found = wasserstein(
        reference.people, x, order=reference.order, ground=reference.ground, sample=sample, repeats=1,
        confidence=min(confidence, float(down(1.0))), seed=seed,
    )  # fmt: skip
    if confidence == 1.0:
        found = replace(found, lower=0.0, evidence=f"{NOTHING}, since a risk of {risk:.2g} is too small for it")
    read = reference.curve([found.estimate * (1 + ROUNDING), found.lower, math.inf])
    most = min(reference.largest, float(read[2]))
    return Observed(
        estimate=found.estimate,
        floor=found.floor,
        lower=found.lower,
        evidence=found.evidence,
        certified=min(float(up(read[0] + LEFT_OUT * most)), most),
        certified_at_lower=float(read[1]),
        whole=reference.everybody and found.individuals == (found.n_one, found.n_other),
    )


def _judge(
    reference: Reference, distance: Observed | None, mean: MeanViolation, share: RefusedShare
) -> tuple[State, str]:
    epsilon = reference.epsilon
    if distance is not None and distance.lower > reference.gamma:
        return "expired", (
            f"Today's population is at least {at_least(distance.lower)} away from the audited one, further than "
            f"gamma = {reference.gamma:g}."
        )
    if mean.lower > epsilon:
        return "expired", f"Today's mean violation is at least {at_least(mean.lower)}, above epsilon = {epsilon:g}."
    if math.isfinite(reference.largest) and share.lower * reference.largest > epsilon:
        return "expired", (
            f"The schema refuses a share of at least {at_least(share.lower)} of today's people, of whom the "
            f"certificate says nothing; with a violation of {at_most(reference.largest)} each, as is possible, the "
            f"mean is above epsilon = {epsilon:g}."
        )
    counted = ""
    if share.people:
        counted = f" The schema refused {share.people:,} in the window, who count with the largest violation possible."
    if mean.upper <= epsilon:
        return "valid", (
            f"Today's mean violation is at most {at_most(mean.upper)}, within epsilon = {epsilon:g}, and no distance "
            f"above gamma = {reference.gamma:g} is shown.{counted}"
        )
    return "undecided", (
        f"Today's mean violation lies between {at_least(mean.lower)} and {at_most(mean.upper)}, on both sides of "
        f"epsilon = {epsilon:g}: more people, or a tighter tier, would tell.{counted}"
    )
