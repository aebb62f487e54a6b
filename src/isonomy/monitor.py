"""Monitor whether a certificate still covers today's population.

A :class:`Monitor` evaluates a window over a stream of people repeatedly; :func:`evaluate` is one evaluation, a look.

A certificate says: no population of a shift, such as those within γ of the audited one, has a mean violation above ε.
Of the people in a window, taken as independent draws from today's population, three quantities are bounded:

* the distance between those of today's population whom the schema admits and the population behind the audited
  individuals, from below (a lower confidence bound, from dual potentials: :mod:`isonomy.shift.lower`),
* today's mean violation: from above by the proved violations, from below by the attained ones, and
* the share of today's people whom the schema refuses. Nothing is proved for them: each counts with the largest
  possible violation in upper bounds, and with none in lower bounds.

*expired*: the distance is above γ, or the mean violation above ε, or the refused share is so large that the mean of
what is proved exceeds ε whatever is true of the others, with confidence. *valid*: the mean violation is at most ε with
confidence, and the certificate itself keeps ε. Otherwise *undecided*. Expired does not mean unfair: it means that the
certificate no longer vouches.

With ``notions`` every shift of the certificate has a state of its own, *holds*, *expired* or *not known*, for those of
today's population whom the schema admits (:mod:`isonomy.certificates.indices`).

**Soundness.** With ``notions`` half of the risk is theirs. The rest is shared: half for the distance, a quarter for
the mean from above, an eighth for the mean from below, an eighth for the share (Clopper and Pearson, both sides). So
with probability at least ``1 − risk`` every number of the evaluation is right, whatever is true. Proved violations
may come from several tiers: the upper bound of the mean grows with every value, so it stays above the one for the
violations themselves. Attained ones may come from any search: the lower bound of the mean grows with every value too,
since its bets are fixed in advance. This needs people who are independent draws from one population (not the same
people again and again, no change within the window) and who were not used to fit network, metric or schema. Where two
samples are compared ``whole``, ``certified`` needs no such thing: it bounds the mean violation of the admitted people
of the window themselves.

**What is guaranteed.** Among enough looks at a single confidence level one is wrong at last. With
``guarantee="all"`` the ``k``-th look gets the risk ``α / (k (k + 1))``; these add up to α, so with probability at
least ``1 − α`` *all* evaluations, ever, are right: windows may overlap, and the audited individuals may be used again
in each, since the union bound asks for no independence between looks. The price is a bound that widens with the
logarithm of ``k``. With ``guarantee="each"`` every single evaluation is right with probability at least ``1 − α``,
and nothing is claimed of several together. In both cases the people of a window must be independent draws from one
population, and the moments of looking must not be chosen by what was seen.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.certificates.consistency import compare
from isonomy.certificates.indices import Index
from isonomy.certificates.indices import State as IndexState
from isonomy.certificates.protocol import Shift
from isonomy.confidence import betting, share_bounds
from isonomy.errors import ParameterError, template
from isonomy.fairness.groups import feature_groups
from isonomy.given import number as in_range
from isonomy.given import whole
from isonomy.population import BoolArray, Population, Schema
from isonomy.shift import wasserstein
from isonomy.shift.lower import NO_PROOF
from isonomy_verify.arithmetic import down, mean_up, up

State = Literal["valid", "expired", "undecided"]
Guarantee = Literal["all", "each"]
Tighten = Callable[[FloatArray], FloatArray]
"""Maps people (n, m) to smaller proved violations (n,), at a higher cost."""

ROUNDING = 1e-5
"""Relative error of the transport solver: the curve is read at an estimate enlarged by it."""

LEFT_OUT = 2e-9
"""Upper bound of the mass that the transport solution omits, as shares do not add up to exactly 1."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The promise of a certificate, as far as a monitor needs it.

    ``curve`` gives the proved mean violation for other sizes of the ``shift``, γ where individuals move. ``people`` are
    the audited individuals, or None where the certificate does not carry them: then, and where no individual moves, no
    distance is bounded. ``everybody`` is false where they are a sample.
    ``largest`` is the largest violation possible, also of people whom the schema refuses. ``notions`` measures every
    shift of the certificate but a distance: from people (n, m), their proved violations (n,), a risk and a seed.
    """

    shift: Shift
    epsilon: float
    curve: Callable[[Sequence[float]], Sequence[float]]
    people: Population | FloatArray | None
    largest: float = 1.0
    everybody: bool = True
    notions: Callable[[FloatArray, FloatArray, float, int], list[Index]] | None = None

    @property
    def caution(self) -> str:
        """Return why the certificate does not keep its own epsilon, "" where it does; every reason ends with it."""
        return ""


@dataclass(frozen=True)
class Observed:
    """The distance from the audited individuals.

    ``estimate`` is the distance between the two samples, large with small samples in many dimensions even when
    nothing has changed: about the ``floor``. ``lower`` is a lower confidence bound of the populations' distance.
    ``certified`` is the proved mean violation at the estimate, ``certified_at_lower`` at the lower bound. ``whole``:
    all people of both samples were compared, not a part of each.
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
    """Today's average largest change, with confidence: at least ``lower``, at most ``upper``.

    ``observed`` is the mean of the window's proved violations. A refused person counts with the largest possible
    violation in ``observed`` and ``upper``, with none in ``lower``.
    """

    observed: float
    lower: float
    upper: float


@dataclass(frozen=True)
class RefusedShare:
    """Count and share of the window that the schema refused, and bounds of the share in today's population."""

    people: int
    observed: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Evaluation:
    """The result of one look at a window; the probability that it is wrong is at most ``risk``."""

    number: int
    people: int
    state: State
    reason: str
    distance: Observed | None
    mean: MeanViolation
    refused: RefusedShare
    risk: float
    shifts: tuple[Index, ...] = ()  # each shift of the certificate, for those whom the schema admits


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

    ``lower`` (n,) are attained violations, None without a search. Coordinates and violations of ``refused`` (n,) rows
    are not read. At most ``sample`` people enter one transport problem.
    """
    in_range("risk", risk, "a number between 0 and 1", 0.0, 1.0, strict=True)
    if len(x) != len(upper) or not len(x):
        raise ParameterError(template("upper", f"one number for each of {len(x)} individuals", len(upper)))
    refused = np.zeros(len(x), dtype=bool) if refused is None else refused
    if lower is not None:  # bounds may come from another tier, later than the search; no row is named
        compare(
            np.where(refused, 0.0, lower), np.where(refused, 0.0, upper),
            lambda at: f"Number {at} of the window: the output for a similar individual", lambda at: {"number": at},
        )  # fmt: skip
    largest, whole = reference.largest, risk
    if reference.notions is not None:  # which half the risk is for
        risk /= 2.0
    least = 0.0 if lower is None else mean_at_least(np.where(refused, 0.0, lower), largest, risk / 8.0)
    proved = np.where(refused, largest, upper)
    mean = MeanViolation(mean_up(proved), least, mean_at_most(proved, largest, risk / 4.0))
    share = refused_share(refused, risk / 8.0)
    distance = None if refused.all() else observe(reference, x[~refused], risk / 2.0, seed, sample)
    state, reason = _state_of(reference, distance, mean, share)
    shifts = tuple(_notions(reference, distance, x[~refused], upper[~refused], risk, seed, bool(refused.any())))
    reason = f"{reason} {reference.caution}".rstrip()
    return Evaluation(number, len(x), state, reason, distance, mean, share, whole, shifts)


def _notions(
    reference: Reference,
    distance: Observed | None,
    x: FloatArray,
    upper: FloatArray,
    risk: float,
    seed: int,
    some: bool,
) -> Iterator[Index]:
    """Yield the state of every shift of the certificate for the people ``x`` (n, m) whom the schema admits; where it
    refused ``some``, none holds."""
    shift = reference.shift
    if distance is not None:
        gamma = shift.number("gamma")
        state: IndexState = "expired" if distance.lower > gamma else "not known"
        yield Index(shift.words("these people"), "Wasserstein distance", distance.estimate, distance.floor,
                    distance.lower, math.inf, gamma, state, shift.never)  # fmt: skip
    for each in reference.notions(x, upper, risk, seed) if reference.notions is not None and len(x) else ():
        note = "The schema refused some people, of whom nothing is known."
        yield replace(each, state="not known", note=note) if some and each.state == "holds" else each


def mean_at_most(upper: FloatArray, largest: float, risk: float) -> float:
    """Bound the mean violation of the population from above, with probability ``1 − risk``; infinite without a finite
    ``largest``."""
    return betting(upper, largest, risk) if math.isfinite(largest) else math.inf


def mean_at_least(lower: FloatArray, largest: float, risk: float) -> float:
    """Bound the mean violation of the population from below, with probability ``1 − risk``: the mean of the differences
    to ``largest``, each rounded up, is bounded from above."""
    if not math.isfinite(largest):
        return 0.0
    missing = np.clip(up(largest - lower), 0.0, largest)
    return max(0.0, float(down(largest - betting(missing, largest, risk))))


def refused_share(refused: BoolArray, risk: float) -> RefusedShare:
    """Bound the refused share by Clopper and Pearson; both bounds hold with probability ``1 − risk``."""
    n, count = len(refused), int(refused.sum())
    return RefusedShare(count, count / n, *share_bounds(count, n, risk))


def observe(reference: Reference, x: FloatArray, risk: float, seed: int, sample: int) -> Observed | None:
    """Measure the distance of a window (n, m) from the audited individuals; None without these, and without a ground
    cost."""
    shift, ground = reference.shift, reference.shift.distance_cost
    if reference.people is None or ground is None:
        return None
    confidence = float(np.nextafter(1.0 - risk, 1.0))
    distance = wasserstein(
        reference.people, x, order=shift.number("order"), ground=ground, sample=sample, repeats=1,
        confidence=min(confidence, float(down(1.0))), seed=seed,
    )  # fmt: skip
    if confidence == 1.0:
        distance = replace(distance, lower=0.0, evidence=f"{NO_PROOF}, since a risk of {risk:.2g} is too small for it")
    bounds = reference.curve([distance.estimate * (1 + ROUNDING), distance.lower, math.inf])
    largest = min(reference.largest, float(bounds[2]))
    return Observed(
        estimate=distance.estimate,
        floor=distance.floor,
        lower=distance.lower,
        evidence=distance.evidence,
        certified=min(float(up(bounds[0] + LEFT_OUT * largest)), largest),
        certified_at_lower=float(bounds[1]),
        whole=reference.everybody and distance.individuals == (distance.n_one, distance.n_other),
    )


def _state_of(
    reference: Reference, distance: Observed | None, mean: MeanViolation, share: RefusedShare
) -> tuple[State, str]:
    epsilon, kept = reference.epsilon, f"and the certificate is about each {reference.shift.noun} of the audited people"
    if reference.shift.distance_cost is not None:
        gamma = reference.shift.number("gamma")
        if distance is not None and distance.lower > gamma:
            return "expired", (
                f"Today's population is at least {at_least(distance.lower)} away from the audited one, further than "
                f"gamma = {gamma:g}."
            )
        kept = f"and no distance above gamma = {gamma:g} is shown"
    if mean.lower > epsilon:
        return (
            "expired",
            f"Today's average largest change is at least {at_least(mean.lower)}, above epsilon = {epsilon:g}.",
        )
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
        # A certificate that did not keep its own epsilon vouches for nothing, however well today's people fare.
        return "undecided" if reference.caution else "valid", (
            f"Today's average largest change is at most {at_most(mean.upper)}, within epsilon = {epsilon:g}, "
            f"{kept}.{counted}"
        )
    return "undecided", (
        f"Today's average largest change lies between {at_least(mean.lower)} and {at_most(mean.upper)}, on both sides "
        f"of epsilon = {epsilon:g}: more people, or a tighter tier, would tell.{counted}"
    )


class _Window(NamedTuple):
    """One row for each place of the window, or for each person in a snapshot of it."""

    x: FloatArray
    upper: FloatArray
    lower: FloatArray
    tight: BoolArray  # bounded by the tighter tier, or refused: not to be tightened
    refused: BoolArray


class Monitor:
    """The latest ``window`` people of a stream; every ``every`` arrivals, from ``least`` on, a look is due.

    ``seen`` is the number of earlier looks, so that a guarantee for all of them survives a restart. Safe to use
    from several threads; looks are taken one at a time.
    """

    def __init__(
        self,
        reference: Reference,
        width: int,
        *,
        window: int = 1000,
        every: int = 250,
        least: int = 200,
        confidence: float = 0.95,
        guarantee: Guarantee = "all",
        sample: int = 500,
        tighten: Tighten | None = None,
        seen: int = 0,
    ) -> None:
        for name, value, smallest in (("window", window, 8), ("every", every, 1), ("least", least, 1)):
            whole(name, value, smallest)
        in_range("confidence", confidence, "a number between 0 and 1", 0.0, 1.0, strict=True)
        if guarantee not in get_args(Guarantee):
            raise ParameterError(template("guarantee", "'all' or 'each'", guarantee))
        self.reference, self.window, self.every, self.least = reference, window, every, min(least, window)
        self.confidence, self.guarantee, self.sample = confidence, guarantee, sample
        self.number = seen
        self._tighten = tighten
        flags = np.zeros(window, dtype=bool)
        self._buffer = _Window(np.empty((window, width)), np.empty(window), np.empty(window), flags, flags.copy())
        self.arrived, self._evaluated = 0, 0  # people, the refused among them, since the start of this monitor
        self._lock, self._look_lock = threading.Lock(), threading.Lock()

    @property
    def due(self) -> bool:
        """Return whether a look is due."""
        with self._lock:
            return min(self.arrived, self.window) >= self.least and self.arrived - self._evaluated >= self.every

    def add(self, x: FloatArray, upper: FloatArray, lower: FloatArray | None = None) -> bool:
        """Add people ``x`` (n, m) with proved violations ``upper`` (n,) to the window; return whether a look is due.

        ``lower`` (n,) are attained violations, None without a search.
        """
        return self._add(x, upper, np.zeros(len(x)) if lower is None else lower, False)

    def refuse(self, count: int) -> bool:
        """Add ``count`` people whom the schema refused to the window; return whether a look is due."""
        count = min(count, self.window)  # more would only replace one another
        return self._add(np.zeros((count, self._buffer.x.shape[1])), np.zeros(count), np.zeros(count), True)

    def _add(self, x: FloatArray, upper: FloatArray, lower: FloatArray, refused: bool) -> bool:
        with self._lock:
            last, skipped = slice(-self.window, None), max(0, len(x) - self.window)
            x, upper, lower = x[last], upper[last], lower[last]
            places = (self.arrived + skipped + np.arange(len(x))) % self.window
            values: tuple[Any, ...] = (x, upper, lower, refused, refused)
            for array, new in zip(self._buffer, values, strict=True):
                array[places] = new
            self.arrived += skipped + len(x)
        return self.due

    def people(self) -> tuple[FloatArray, FloatArray]:
        """Return the window's admitted people (n, m) and their proved violations (n,), in the order of arrival."""
        window, _ = self._snapshot()
        return window.x[~window.refused], window.upper[~window.refused]

    def risk(self, number: int) -> float:
        """Return the risk of the look with this number."""
        alpha = float(np.nextafter(1.0 - self.confidence, 0.0))
        return alpha if self.guarantee == "each" else float(down(alpha / (float(number) * (number + 1.0))))

    def look(self) -> Evaluation:
        """Evaluate the window as it is now.

        People are bounded again by the tighter tier, unless the bounds at hand already show that the mean is within
        epsilon: confidence bounds grow with every value, so tighter values cannot change that.
        """
        with self._look_lock:
            window, first = self._snapshot()
            number = self.number + 1
            risk, largest = self.risk(number), self.reference.largest
            upper = np.where(window.refused, largest, window.upper)
            within = mean_at_most(upper, largest, risk / 4.0) <= self.reference.epsilon
            if self._tighten is not None and not within and not window.tight.all():
                upper[~window.tight] = np.minimum(upper[~window.tight], self._tighten(window.x[~window.tight]))
                self._store(first, upper)
            evaluation = evaluate(
                self.reference, window.x, upper, window.lower, window.refused,
                risk=risk, number=number, seed=number, sample=self.sample,
            )  # fmt: skip
            self.number, self._evaluated = number, first + len(window.x)
            return evaluation

    def _snapshot(self) -> tuple[_Window, int]:
        """Copy the window in the order of arrival; return it and the number of earlier arrivals."""
        with self._lock:
            if not self.arrived:
                raise ParameterError("The window is empty: nobody has come by yet.")
            first = max(0, self.arrived - self.window)
            places = np.arange(first, self.arrived) % self.window
            arrays: Any = [array[places] for array in self._buffer]
            return _Window(*arrays), first

    def _store(self, first: int, upper: FloatArray) -> None:
        """Store tighter bounds of people who have not left the window."""
        with self._lock:
            rows = np.arange(max(first, self.arrived - self.window), first + len(upper))
            self._buffer.upper[rows % self.window], self._buffer.tight[rows % self.window] = upper[rows - first], True


@dataclass(frozen=True)
class GroupViolation:
    """The number of people of one protected group, and the mean of their proved violations."""

    feature: str
    group: str
    people: int
    mean_upper: float


def by_group(schema: Schema, x: FloatArray, upper: FloatArray, smallest: int = 10) -> list[GroupViolation]:
    """Average proved violations by protected group of at least ``smallest`` people, by the rule of group fairness.

    Smaller groups would disclose persons. A number to which the schema gives no range is left out.
    """
    violations = []
    for name in schema.protected:
        try:
            grouping = feature_groups(schema, name, x)[0]
        except ParameterError:  # no range that could be split
            continue
        for place, group in enumerate(grouping.names):
            members = grouping.code == place
            if members.sum() >= max(1, smallest):
                label = group.removeprefix(f"{name} ")  # the result names the feature
                violations.append(GroupViolation(name, label, int(members.sum()), mean_up(upper[members])))
    return violations
