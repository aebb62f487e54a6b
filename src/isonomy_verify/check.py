"""Checking a certificate: every claim is derived again, by the lines that derived it, from model, people and metric.

The claims rest on claims about individuals: with the multiplier λ, individual ``i`` adds at most ``c_i`` to the mean
(:func:`isonomy_verify.claims.claimed_heights`). The mean of all ``c_i`` is recomputed exactly; that ``c_i`` holds is
derived for everybody or, in a large table, for individuals drawn *after* all files were hashed, each with a probability
proportional to what it could hide, ``w_i (G − c_i)``, ``G`` the largest violation. Let ``T`` be the mean of
``G − c_i``. If the true mean exceeded the claimed one by more than ``θ T``, false ``c_i`` would have more than ``θ`` of
that probability, and ``k`` draws would miss them all with probability at most ``(1 − θ)^k``. This says nothing of how
many claims are false. Everybody's own bound and decision are claims of their own (:meth:`_Check.alone`), of which
more are drawn: for their mean in the same way, for how many they are each with the same probability.

**Soundness.** ``derived <= claim`` is compared without tolerance. Statuses: *proved again*; *recomputed* from what is
proved; *looked at*, where a seed that the issuer could know chose who was derived, which proves nothing of the others;
*trusted*, which no file can show; *not checked*; *rejected*. Whatever is wrong with a file is an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.alone import ROWS, Alone, witnesses
from isonomy_verify.alone import claims as claims_alone
from isonomy_verify.arithmetic import (
    SMALL,
    Array,
    exact_sum,
    mean_of_sums,
    products_down,
    products_up,
    rounded_down,
    up,
)
from isonomy_verify.asked import heading, parted, similar
from isonomy_verify.asked import weights as weights_told
from isonomy_verify.behind import (
    behind_drawn,
    decision_profiles,
    made_of_it,
    multiplier_of,
    nearby,
    nearby_decisions,
    stands_within,
)
from isonomy_verify.claims import claimed_heights, claimed_people, claimed_upper, inflated, inward, outward, verdict
from isonomy_verify.composed import Composed
from isonomy_verify.definitions import MATRICES, domain_of, form_of, head_of, schema_of, slices_of
from isonomy_verify.domain import Domain
from isonomy_verify.evidence import (
    check_labels,
    individuals_of,
    need,
    number,
    points_of,
    profiles_of,
    sources_of,
    steady_of,
    turned_of,
    within_weights,
    written,
)
from isonomy_verify.forms import Form
from isonomy_verify.gaps import GapClaim
from isonomy_verify.heads import Head
from isonomy_verify.individuals import CERTIFIED, Individuals, deflated, hints_of, witnessed
from isonomy_verify.kinds import model_of
from isonomy_verify.layout import GROUNDED
from isonomy_verify.models import ReachBounds
from isonomy_verify.reach import WIDE
from isonomy_verify.record import EVIDENCE, GROUND, METRIC, SCHEMA, BadInput, Record, signers
from isonomy_verify.reweighting import Hints, Reweighting
from isonomy_verify.sampling import risk_of
from isonomy_verify.selection import consistent, selected
from isonomy_verify.shifts import Movement, own_bounds, shift_of
from isonomy_verify.similar import Similarity
from isonomy_verify.text import listed, quoted

EVERYBODY = 20_000
"""Up to this number of individuals are all derived, unless fewer are asked for."""

THETA = ALPHA = 1e-3
"""In a larger table a mean above the claim by more than θ of what all could hide is missed with probability α."""

TRUSTED = (
    "model", "people", "metric", "ground", "domain", "selection", "remarks", "output range", "head", "classes",
    "model reading", "data reading",
)  # fmt: skip
"""What may be trusted in a certificate that is accepted."""

STATUS = {"accepted": 0, "not accepted": 1, "looked at": 3}
"""What a check can come to, and the exit status of a command; 2 is bad input."""


@dataclass
class Verification:
    """Claims as (name, status, detail), the question in lines by name, and the numbers that were derived here.

    All of it holds under ``condition``, if there is one: what no file can show of this kind of model.
    """

    question: dict[str, str]
    claimed_upper: float
    proved_upper: float = math.inf
    proved_lower: float = 0.0
    individuals: int = 0
    derived: int = 0
    seed: int | None = None
    condition: str = ""
    claims: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def result(self) -> str:
        """One of :data:`STATUS`: accepted where nothing is rejected, and nothing trusted but the origin of inputs and
        remarks; looked at where a seed that the issuer could know chose who was derived."""
        if any(
            status == "rejected" or (status == "trusted" and name not in TRUSTED) for name, status, _ in self.claims
        ):
            return "not accepted"
        return "looked at" if any(status == "looked at" for _, status, _ in self.claims) else "accepted"

    @property
    def accepted(self) -> bool:
        """Whether the result is that."""
        return self.result == "accepted"

    @property
    def answer(self) -> str:
        """The result, with what it rests on in the same words."""
        return f"{self.result}, {self.condition}" if self.condition else self.result

    def say(self, name: str, holds: Any, detail: str, status: str = "recomputed") -> None:
        """Note what became of a claim; None: nothing here can tell."""
        detail = detail if holds is None or not self.condition else f"{detail}; {self.condition}"
        self.claims.append((name, "trusted" if holds is None else status if holds else "rejected", detail))


def verify(
    path: str | Path,
    *,
    data: str | Path | None = None,
    signer: str | None = None,
    everybody: bool = False,
    seed: int | None = None,
) -> Verification:
    """Check a certificate.

    ``data`` is a folder that holds withheld arrays; ``signer`` a public key (in hexadecimal) that must have signed it.
    In a large table some individuals are derived unless ``everybody`` is asked for. ``seed`` draws the same ones again;
    an issuer who could know it could lie about all others, so that what it draws is looked at and never accepted.
    """
    try:
        with np.errstate(all="ignore"):
            record = Record.read(path, data)
            check = _Check(record)
            check.signatures(signer)
            check.upper(everybody, seed)
            check.lower()
            check.alone()
            check.features()
            check.gaps()
            check.shifts()
            check.rest()
            if data is not None and not record.predicate["withheld"]:
                words = "the certificate withholds nothing: no array was looked for in it"
                check.found.claims.append(("data folder", "not checked", words))
            return check.found
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    except Exception as error:  # of whatever kind: files may be made to harm
        kind = type(error).__name__
        raise BadInput(f"{path} or its evidence is not as it should be: {kind}, {quoted(error)}.") from None


class _Check:
    """One certificate on its way through the checks."""

    def __init__(self, record: Record) -> None:
        self.record, asked = record, record.predicate["question"]
        self.claims = record.predicate["claims"]
        self.delta, self.shift = number(asked["delta"]), shift_of(asked["shift"])
        self.others = [shift_of(each) for each in asked.get("shifts", [])]
        self.epsilon, self.tier = asked["epsilon"], str(asked["tier"])
        need(0 <= self.delta < math.inf, "the question is no question")
        need(self.epsilon is None or 0 <= number(self.epsilon) < math.inf, "epsilon")
        need(self.tier in ("interval", "tight") and asked["arithmetic"] in ("float64", "float32"), "tier, arithmetic")
        sure, others = asked["confidence"], self.claims["population"]
        need(others is None if sure is None else 0 < number(sure) < 1, "confidence")
        self.confidence = None if sure is None else number(sure)
        self.weights = record.array("people.weights")
        n, usable = len(self.weights), np.isfinite(self.weights) & (self.weights >= 0) & (self.weights <= 2.0**500)
        need(usable.all() and self.weights.any() and math.fsum(self.weights) >= SMALL, "weights")
        self.profiles = profiles_of(record)
        need(len(self.profiles) == n, "profiles of other individuals")
        need(self.shift.moves or not self.profiles.radius.any(), "a profile of people who move, where none does")
        self.multiplier = multiplier_of(self.claims)
        self.found = Verification({}, number(self.claims["upper"]), individuals=n)
        need(number(self.claims["lower"]) >= 0, "a lower bound below 0")
        self.float32, self.largest = asked["arithmetic"] == "float32", self.profiles.largest
        self.model = model_of(record)
        self.found.condition = self.model.condition
        schema = schema_of(record.text(SCHEMA))
        self.head = head_of(schema, asked, self.model.outputs)
        self.domain = domain_of(record.text(SCHEMA), str(asked["domain"]))
        space = domain_of(record.text(SCHEMA), "realizable")
        self.places = slices_of(schema["features"])
        moves = asked["shift"].get("then", asked["shift"])["kind"]
        self.texts = (METRIC, GROUND) if moves == GROUNDED else (METRIC,)
        metric, *others = forms = [form_of(record.text(name, MATRICES), name, space) for name in self.texts]
        self._settle(others[0] if others else None, space)
        widths = {form.width for form in forms}
        need({*widths, self.domain.width} == {self.model.width}, "a metric or schema of other coordinates")
        branches = asked["max_branches"]
        need(type(branches) is int and 0 <= branches <= 2**20, "max_branches")
        self.similarity = Similarity(metric, self.delta, self.domain, branches, keep=True)
        self.bounds = self.model.bounds(self.head, self.similarity, self.tier, self.float32)
        self.individuals = individuals_of(record, n, self.profiles.largest)
        need(
            ((self.individuals.decision > 0) == self.head.decides).all(),
            "decisions where there are none, or none where there are",
        )
        self.steady = steady_of(record, self.individuals.decision, self.shift.moves)
        check_labels(record, n, len(schema.get("label", {}).get("classes", [])))
        # What was derived of everybody alone: nan where nothing was.
        self.own, self.kept = np.full(n, np.nan), np.zeros(n, dtype=bool)
        self.range, self.evaluated, self.outside = self._range(), 0, 0
        self.drawn_behind: float | None = None
        self.why = consistent(record.predicate["selection"], n, record.array("people.rows"))
        chosen = record.predicate["selection"]
        word = f"{selected(chosen)}{parted(schema, chosen['part'])}: the issuer's word"
        who = f"{n:,} individuals" if self.why else word
        self.found.question |= heading(asked, schema, self.model.outputs, self.similarity)
        self.found.question |= {"weights": weights_told(np.array(self.weights), schema.get("weight")), "people": who}
        self.found.question |= similar(asked, metric, self.shift, self.ground)

    def _settle(self, ground: Form | None, space: Domain) -> None:
        """What bounds are derived of, what they keep to, and what points pay, where individuals move.

        Where none does, their own bounds are derived, and every claim about a shift follows from these.
        """
        asked = cast("Movement | Composed", self.shift) if self.shift.moves else own_bounds()
        self.settled: Movement | Composed
        self.ground: Form | None
        self.paid: Form | None
        bounded = self.domain.kind != "unbounded"
        self.settled, self.ground, self.paid = asked.costs(ground, self.places, space, bounded)
        self.derived_for, self.first = self.settled.movement, self.settled.reweighting

    def _range(self) -> tuple[float, float] | None:
        """What the outputs of a regression are declared to keep to."""
        declared = self.record.predicate["question"]["output_range"]
        if declared is None:
            return None
        need(isinstance(declared, list) and len(declared) == 2, "the output range")
        low, high = map(number, declared)
        need(self.head.kind == "regression" and -math.inf < low < high < math.inf, "the output range")
        return low, high

    def _keep(self, *people: Array) -> None:
        """Count outputs that are certainly outside the declared range, where there is one."""
        for some in people if self.range is not None else ():
            at = self.head.received(self.bounds.enclose(some))
            low, high = self.range or (0.0, 0.0)
            self.evaluated += len(some)
            self.outside += int(((at.low > high) | (at.high < low)).any(axis=1).sum())

    def signatures(self, signer: str | None) -> None:
        """The envelope, if there is one; one by the signer that is asked for."""
        keys = signers(self.record)
        if signer is not None:
            known = keys is not None and signer.strip().lower() in keys
            self.found.say("signature", known, f"{'signed' if known else 'not signed'} by {signer.strip()[:16]}…")
        elif keys is not None:
            self.found.say("signature", True, f"by {', '.join(f'{key[:16]}…' for key in keys)}: whose key is that?")

    def upper(self, everybody: bool, seed: int | None) -> None:
        """The claims about individuals, and what they imply."""
        found, shift = self.found, self.derived_for
        claims = self.claims if self.shift.moves else self.claims["local"]
        if self.first is not None and self.first.grouped_by and not self.record.has("people.x"):
            return found.say("mean", None, "the groups' rows are withheld: give --data, the folder that has them")
        implied, hidden = self._implied()
        holds = implied <= number(claims["upper"]) and hidden <= number(claims["hidden"])
        words = f"all {found.individuals:,} claims give {outward(implied, 9)}, claimed {number(claims['upper'])}"
        found.say("mean", holds, words)
        if not self.record.has("people.x"):
            return found.say("individuals", None, "their rows are withheld: give --data, the folder that has them")
        self.x = self.record.array("people.x")
        need(self.x.shape == (found.individuals, self.domain.width), "individuals of another shape")
        for start in range(0, len(self.x), 2**16):
            need(self.domain.contains(self.x[start : start + 2**16]).all(), "individuals outside the domain")
        for start in range(0, len(self.x), ROWS):
            self._keep(np.ascontiguousarray(self.x[start : start + ROWS]))
        largest = self._everywhere(claimed := float(inflated(self.profiles.largest)))
        rows = self._drawn(everybody, seed, claimed, hidden)
        slopes = [self.multiplier]
        if self.claims["population"] is not None and self.claims["population"]["multiplier"] is not None:
            slopes.append(multiplier_of(self.claims["population"]))
        wrong, unproved, total, highest, proved = 0, 0, 0, 0.0, replace(self.profiles, largest=largest)
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            value, owner = self._derived(some)
            most = inflated(self.profiles.value[self.profiles.places(some)])
            unproved += len(np.unique(owner[~(np.minimum(value, largest) <= most)]))
            cells, above = proved.cells(some, value), np.zeros(len(some), dtype=bool)
            for slope in slopes:
                derived = shift.heights(cells, slope)
                above |= ~(derived <= claimed_heights(self.profiles, some, shift, slope))  # what is no number is above
            derived = shift.heights(cells, self.multiplier)
            total += exact_sum(products_up(np.array(self.weights[some]), derived))
            highest = max(highest, float(derived.max()))
            wrong += int(above.sum())
        found.derived, status = len(rows), "proved again"
        if len(rows) == found.individuals:
            mean = mean_of_sums(total, exact_sum(np.array(self.weights)), highest)
            found.proved_upper = implied if self.first is not None else shift.bound(self.multiplier, mean)
            together = outward(found.proved_upper, 9)
            detail = f"all {len(rows):,} derived, {wrong:,} above their claim; together {together}"
        else:
            said, status = "an issuer who knew the seed could lie about all others: this proves nothing", "looked at"
            if seed is None:
                status = "proved again"
                found.proved_upper = float(up(number(claims["upper"]) + up(THETA * hidden)))
                exceeds = f"a table whose mean exceeds {outward(found.proved_upper)}"
                said = f"{exceeds} is accepted with probability at most {ALPHA:g}"
            detail = f"{len(rows):,} drawn (seed {found.seed}) and derived, {wrong:,} above their claim: {said}"
        found.say("individuals", wrong == 0, detail, status)
        detail = (
            f"{unproved:,} profiles have bounds that were not derived again, on which no claim about this shift rests"
        )
        found.claims.append(("other shifts", "not checked" if unproved else "proved again", detail))
        return None

    def _everywhere(self, claimed: float) -> float:
        """The largest violation of any individual, which is derived and compared with its claim."""
        self.everywhere, within = math.inf, math.inf
        if self.shift.moves or self.domain.kind != "unbounded":
            self.everywhere, within = self.reach.everywhere(np.asarray(self.x))
        largest = min(self.head.largest, self.everywhere if within == math.inf else math.inf)
        if self.range is not None:
            largest = min(largest, float(up(self.range[1] - self.range[0])))
        self.largest = largest
        detail = f"claimed {outward(claimed)}, derived {outward(largest)}"
        self.found.say("anybody", largest <= claimed, detail, "proved again")
        return largest

    def _implied(self) -> tuple[float, float]:
        """The bound that the claims about everybody imply, and how much they could hide."""
        if self.first is None:
            return claimed_upper(self.profiles, self.weights, self.derived_for, self.multiplier)
        settled, said = cast(Composed, self.settled), self.claims["hints"]
        self.hints = Hints(*(tuple(map(number, said[name])) for name in Hints._fields))
        groups = settled.groups(self.record.array("people.x"), self.places) if settled.grouped_by else None
        self.counted = claimed_people(self.profiles, self.weights, self.derived_for, self.multiplier, groups)
        largest = float(inflated(self.profiles.largest))
        upper = settled.bound(self.multiplier, self.counted, self.hints, largest)
        return upper, settled.hidden(self.counted, self.hints, largest)

    def _drawn(self, everybody: bool, seed: int | None, largest: float, hidden: float) -> NDArray[np.intp]:
        n = self.found.individuals
        # Where individuals move, a statement about the population bets on everybody's claim, of which a mean says
        # nothing; where none does, it follows from claims of which few can be false.
        behind = self.claims["population"] is not None or (self.claims.get("changes") or {}).get("behind")
        if everybody or n <= EVERYBODY or hidden == 0 or (self.shift.moves and behind):
            return np.arange(n)
        self.found.seed = secrets.randbits(63) if seed is None else int(seed)
        self.secret, self.draws = seed is None, np.random.default_rng(self.found.seed)
        return self._draw(
            lambda some: largest - claimed_heights(self.profiles, some, self.derived_for, self.multiplier)
        )

    def _draw(self, could_hide: Callable[[NDArray[np.intp]], Array]) -> NDArray[np.intp]:
        """Individuals drawn with replacement, each with a probability proportional to weight times what it could
        hide: enough to miss a share of θ with probability α at most."""
        counted, heaviest = np.flatnonzero(self.weights > 0), self.weights.max()  # shares of which add up, also if huge
        chance = np.empty(len(counted))
        for start in range(0, len(counted), 2**14):
            some = counted[start : start + 2**14]
            chance[start : start + 2**14] = self.weights[some] / heaviest * np.maximum(0.0, could_hide(some))
        ends = np.cumsum(chance)
        at = self.draws.random(_draws()) * ends[-1]
        return np.unique(counted[np.minimum(np.searchsorted(ends, at, side="right"), len(counted) - 1)])

    def _some(self, said: Individuals, largest: float) -> tuple[NDArray[np.intp], str]:
        """Individuals to look at alone, drawn by what their bounds could hide and all alike; and what that shows."""
        likely, n = self._draw(lambda some: largest - said.highs(some)), self.found.individuals
        rows = np.union1d(likely, self.draws.integers(0, n, _draws()))
        return rows, "proved again" if self.secret else "looked at"

    def _derived(self, rows: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
        """The bounds of these individuals' profiles, by the passes that the evidence names, ∞ where it names none; and
        whose they are. What bounds everybody within a radius does so within a smaller one."""
        places, tight = self.profiles.places(rows), self.tier == "tight"
        radius, source = self.profiles.radius[places], self.source[places]
        owner = np.repeat(np.arange(len(rows)), self.profiles.start[rows + 1] - self.profiles.start[rows])
        x, value = np.ascontiguousarray(self.x[rows]), np.full(len(places), math.inf)
        alone = radius == 0
        if self.ground is None or self.reach.is_norm:
            self._look(rows, x)
            value[alone] = self.own[rows][owner[alone]]
        else:
            value[alone] = self.reach.bound(x, [0.0], tight)[:, 0][owner[alone]]
        wide = ~alone & (source == WIDE) & (radius == WIDE)
        if wide.any() and self.domain.kind == "unbounded":
            value[wide] = self.everywhere
        for each in np.unique(source[~alone & ~wide & (source >= radius) & np.isfinite(source)]):
            some = np.flatnonzero(~alone & ~wide & (source == each) & (radius <= each))
            who, place = np.unique(owner[some], return_inverse=True)
            radii = np.unique(np.append(radius[some], each))
            table = self.reach.bound(x[who], radii.tolist(), tight)
            value[some] = table[place, np.searchsorted(radii, radius[some])]
        count = np.bincount(owner, minlength=len(rows))
        place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        within = np.full((len(rows), int(count.max())), math.inf)
        within[owner, place] = value
        return np.minimum.accumulate(within[:, ::-1], axis=1)[:, ::-1][owner, place], owner

    def _look(self, rows: NDArray[np.intp], x: Array) -> None:
        """Derive what is true of individuals alone."""
        known = self.bounds.chunk(x)
        said = self.individuals.decision[rows] == CERTIFIED
        self.own[rows], self.kept[rows] = known.upper, self.bounds.proved_decisions(x, known, said)

    @cached_property
    def reach(self) -> ReachBounds:
        """Bounds over balls: of the metric itself where no individual moves."""
        return self.bounds.reach(self.similarity.form if self.ground is None else self.ground)

    @cached_property
    def source(self) -> Array:
        """The radius of the pass behind every bound of a profile: a hint."""
        return sources_of(self.record, self.profiles)

    def lower(self) -> None:
        """The population that the witnesses describe: possible people, similar pairs, within the budget."""
        found, record = self.found, self.record
        claimed = number(self.claims["lower"]) if self.shift.moves else 0.0  # else of everybody alone
        if not record.has("points.person") or not record.has("people.x"):
            if claimed == 0:
                return found.say("lower", True, "nothing is claimed")
            return found.say("lower", None, "the witnesses are withheld: give --data, the folder that has them")
        n = found.individuals
        count, mass, cost, said = points_of(record, n)
        owner, used = np.repeat(np.arange(n), count), np.flatnonzero((said > 0) | ((mass > 0) & (claimed > 0)))
        value, good, above = np.zeros(len(used)), True, 0
        person, other = record.array("points.person"), record.array("points.counterpart")
        need(person.shape == other.shape == (len(mass), self.domain.width), "witnesses of another shape")
        head = Head(self.head.kind, self.head.outputs)
        for start in range(0, len(used), ROWS):
            some = used[start : start + ROWS]
            z, y, x = (np.ascontiguousarray(rows) for rows in (person[some], other[some], self.x[owner[some]]))
            fits = self._pays(x, z, cost[some]) & self.domain.allows(z, y)
            fits &= self.similarity.form.distance_upper(z, y) <= self.delta
            reached = head.attained(self.bounds.enclose(z), self.bounds.enclose(y))
            good &= bool((fits & (deflated(said[some]) <= reached)).all())
            above += int((reached > inflated(self.profiles.within(owner[some], np.array(cost[some])))).sum())
            value[start : start + ROWS] = reached
            self._keep(z, y)
        if claimed == 0:
            used, value = used[:0], value[:0]
        masses, costs = np.array(mass[used]), np.array(cost[used])
        within, found.proved_lower = self._attained(owner[used], masses, costs, np.maximum(value, 0.0))
        good &= within and claimed <= found.proved_lower and not above
        detail = f"{len(used):,} atoms reach {inward(found.proved_lower, 9)}, claimed {claimed}"
        return found.say("lower", good, f"{detail}; {above:,} above the profile of their individual", "proved again")

    def _pays(self, x: Array, z: Array, cost: Array) -> NDArray[np.bool_]:
        """Whether (k,) possible people ``z`` are no further from ``x`` than what is said to be paid."""
        pays = (x == z).all(axis=1) & (cost == 0)
        if self.paid is not None:
            pays = self.paid.distance_upper(x, z) <= cost
        return np.asarray(self.domain.contains(z) & pays)

    def _attained(self, owner: NDArray[np.int64], mass: Array, cost: Array, value: Array) -> tuple[bool, float]:
        """Whether the shift has a population with these masses on points, and its mean at least."""
        if self.first is not None:
            at = np.cumsum(np.asarray(self.weights) > 0) - 1  # among those who count
            if (self.weights[owner] <= 0).any():
                return False, 0.0
            settled = cast(Composed, self.settled)
            mean = settled.attained(self.counted, self.hints, at[owner], mass, cost, value)
            return mean is not None, mean or 0.0
        weight = exact_sum(np.array(self.weights))
        within = within_weights(owner, mass, self.weights) and self.derived_for.keeps(mass, cost, weight)
        return within, rounded_down(Fraction(exact_sum(products_down(mass, value)), weight))

    def alone(self) -> None:
        """What is claimed of everybody alone: the means of their bounds, whose violation is above or below ε, whose
        decision no similar individual has otherwise.

        Witnesses are all evaluated; bounds are derived of everybody or of those who are drawn. Of individuals drawn
        each with the same probability, ``k`` draws miss false claims of more than ``θ n`` of ``n`` with probability at
        most ``(1 − θ)^k``.
        """
        found, said, n = self.found, self.claims["local"], self.found.individuals
        implied = self.individuals.claims(self.weights, self.epsilon)
        words = ", ".join(f"{count:,} {kind}" for kind, count in implied["decisions"].items())
        holds = json.dumps(said, sort_keys=True) == json.dumps(implied, sort_keys=True)
        found.say("alone", holds, f"means from {implied['lower']} to {implied['upper']}; decisions: {words}")
        own = inflated(self.profiles.value[self.profiles.start[:-1]])  # what their profile says of them alone
        crossed = int((deflated(self.individuals.lower) > np.minimum(self.individuals.highs(slice(None)), own)).sum())
        least, others = number(self.claims["lower"]), self.claims["population"]
        uppers = [found.claimed_upper, *([] if others is None else [number(others["upper"])])]
        means = least <= min(uppers) and implied["lower"] <= implied["upper"]
        found.say("both sides", means and not crossed, f"{crossed:,} of {n:,} have a lower bound above their upper one")
        if not self.record.has("people.x") or not self._witnesses():
            return found.say("own bounds", None, "rows are withheld: give --data, the folder that has them")
        rows, status, some = np.arange(n), "proved again", found.seed is not None
        if some:
            rows, status = self._some(self.individuals, float(inflated(self.profiles.largest)))
        unseen = rows[np.isnan(self.own[rows])]
        for start in range(0, len(unseen), ROWS):
            block = unseen[start : start + ROWS]
            self._look(block, np.ascontiguousarray(self.x[block]))
        high = ~(np.minimum(self.own[rows], self.largest) <= self.individuals.highs(rows))
        turns = (self.individuals.decision[rows] == CERTIFIED) & ~self.kept[rows]
        turns |= ~stands_within(self.reach, self.x, rows, self.steady) if self.steady.any() else False
        bounds = f"{len(rows):,} derived, {int(high.sum()):,} above their claim"
        decisions = f"{len(rows):,} looked at, {int(turns.sum()):,} of those said to be certified are not"
        if some and self.secret:
            chance = f"accepted with probability at most {ALPHA:g}"
            bounds += f": a mean above {outward(_missed(implied))} is {chance}, and so are counts of epsilon"
            bounds += f" too large by more than {THETA:g} of everybody"
            decisions += f": a count too large by more than {math.ceil(THETA * n):,} is {chance}"
        found.say("own bounds", not high.any(), bounds, status)
        return found.say("decisions", not turns.any(), decisions, status)

    def features(self) -> None:
        """What is claimed of everybody when only some features may change, or all but some."""
        found, record, n = self.found, self.record, self.found.individuals
        for number_, said in enumerate(self.claims.get("alone", [])):
            own = Alone.of(record, number_, self.model, self.head, self._realizable(), self.places)
            name = f"{'all but' if own.held else 'only'} {listed(own.features)}"
            implied = claims_alone(own.features, own.held, own.said, self.weights)
            holds = json.dumps(said, sort_keys=True) == json.dumps(implied, sort_keys=True) and not own.crossed()
            counts = ", ".join(f"{count:,} {kind}" for kind, count in implied["decisions"].items())
            found.say(name, holds, f"means from {implied['lower']} to {implied['upper']}; decisions: {counts}")
            shown = None
            if record.has("people.x"):
                shown = witnesses(record, f"alone.{number_}", own.bounds, own.said, self.x)
            if shown is None:
                found.say("own bounds", None, "rows are withheld: give --data, the folder that has them")
                continue
            found.say(f"witnesses, {name}", shown[0], f"{sum(shown[1]):,} pairs, evaluated", "proved again")
            rows, status, chance = np.arange(n), "proved again", ""
            if found.seed is not None and math.isfinite(self.head.largest):
                rows, status = self._some(own.said, float(inflated(own.said.largest)))
                if self.secret:
                    above = f"a mean above {outward(_missed(implied))}"
                    chance = f": {above}, or a count too large by more than {math.ceil(THETA * n):,}"
                    chance += f", is accepted with probability at most {ALPHA:g}"
            high, turned = own.derived(self.x, rows)
            detail = f"{len(rows):,} derived, {high:,} above their claim, {turned:,} decisions do not stand{chance}"
            found.say(f"bounds, {name}", not high and not turned, detail, status)

    def gaps(self) -> None:
        """What is claimed of all possible people when only some features may change: see
        :mod:`isonomy_verify.gaps`."""
        space = domain_of(self.record.text(SCHEMA), "realizable")
        own = Similarity(self.similarity.form, self.delta, space, self.similarity.max_branches)
        for place in range(len(self.claims.get("gaps", []))):
            claim = GapClaim.of(self.record, place, self.model, self.head, own, self.places)
            name, (score, output) = f"anybody, only {listed(claim.features)}", claim.upper()
            detail = f"the score moves by at most {outward(score, 9)}, the output by {outward(output, 9)}"
            self.found.say(name, claim.holds(score, output), detail, "proved again")
            said = claim.said["decision"]
            detail = "evaluated" if said is None else f"evaluated; another decision is {said}"
            self.found.say(f"pairs, {name}", claim.attained(), detail, "proved again")

    def _realizable(self) -> Similarity:
        """The certificate's demand on the realizable domain, in which questions about single features are asked."""
        space = domain_of(self.record.text(SCHEMA), "realizable")
        if self.record.has("people.x"):
            for start in range(0, len(self.x), 2**16):
                need(space.contains(self.x[start : start + 2**16]).all(), "individuals outside the realizable domain")
        own = self.similarity
        return Similarity(own.form, own.delta, space, own.max_branches)

    def shifts(self) -> None:
        """What is claimed of shifts in which no individual moves: it follows from the claims of everybody alone."""
        if self.claims.get("changes") is not None:
            need(self.shift.moves and self.head.decides, "a share of decisions that was not asked for")
            self._changes(self.claims["changes"])
        asked = [*([] if self.shift.moves else [self.shift]), *self.others]
        for at, (shift, said) in enumerate(zip(asked, self.claims.get("shifts", []), strict=True)):
            self._reweighted(cast(Reweighting, shift), said, at == 0 and not self.shift.moves)

    def _changes(self, said: Mapping[str, Any]) -> None:
        """The share of decisions that can change where individuals move: the bound that follows from radii, and people
        who were shown to have another decision after a move."""
        found, decision, settled = self.found, self.individuals.decision, self.settled
        turned, moves = turned_of(self.record, decision, self.weights), self.record.names("turned")
        away = np.flatnonzero(turned.cost > 0)
        here = self.record.has("people.x") and ("person" not in moves or self.record.has("turned.person"))
        if len(away) and not here:
            found.say("moved witnesses", None, "rows are withheld: give --data, the folder that has them")
        elif len(away) or (here and "person" in moves):
            person, other = (self.record.array(f"turned.{name}") for name in ("person", "counterpart"))
            need(person.shape == other.shape == (len(away), self.domain.width), "witnesses of another shape: turned")
            good = True
            for start in range(0, len(away), ROWS):
                some, block = away[start : start + ROWS], slice(start, start + ROWS)
                parts = (self.x[turned.owner[some]], person[block], other[block])
                x, z, y = (np.ascontiguousarray(rows) for rows in parts)
                shown = witnessed(self.bounds, self.individuals, turned.owner[some], z, y, True)
                good &= bool((shown & self._pays(x, z, turned.cost[some])).all())
                self._keep(z, y)
            if len(away):
                words = f"{len(away):,} other decisions after a move, each at a pair, evaluated"
                found.say("moved witnesses", good, words, "proved again")
        groups = None
        if self.first is not None and self.first.grouped_by:
            if not self.record.has("people.x"):
                return found.say("decisions that can change", None, "the groups' rows are withheld: give --data")
            groups = self.first.groups(self.x, self.places)
        profiles = decision_profiles(decision, np.array(self.steady), self.reach.is_norm)
        holds, word = nearby_decisions(settled, profiles, self.weights, turned, groups, said, self.confidence)
        if found.seed is not None and self.secret:
            above = outward(min(1.0, float(up(number(said["upper"]) + up(THETA * number(said["hidden"]))))))
            word += f"; as people were drawn, more than {above} is accepted with probability at most {ALPHA:g}"
        return found.say("decisions that can change", holds, word)

    def _reweighted(self, shift: Reweighting, said: Mapping[str, Any], own: bool) -> None:
        """Recompute a claim by its hints; ``own``: of the certificate's own shift, as ``upper`` and ``lower`` are."""
        groups, found = None, self.found
        if shift.grouped_by:
            if not self.record.has("people.x"):
                return found.say("shift", None, f"{shift.words('')}: rows are withheld: give --data")
            groups = shift.groups(self.record.array("people.x"), self.places)
        implied = self.individuals.reweighted(shift, self.weights, groups, hints_of(said))
        pairs = [(said, implied)]
        need((said["changes"] is None) == (implied["changes"] is None), "decisions of which nothing is claimed")
        if said["changes"] is not None:
            pairs.append((said["changes"], implied["changes"]))
        holds = all(
            one["upper"] <= number(claim["upper"]) and 0 <= number(claim["lower"]) <= one["lower"]
            and one["hidden"] <= number(claim["hidden"]) for claim, one in pairs
        )  # fmt: skip
        more, word = made_of_it(self.individuals, shift, self.weights, groups, said, self.confidence)
        holds &= more
        if own:
            holds &= all(number(self.claims[name]) == number(said[name]) for name in ("upper", "lower", "hidden"))
            found.proved_upper, found.proved_lower = implied["upper"], implied["lower"]
        said_of = " and ".join(f"from {claim['lower']} to {claim['upper']}" for claim, _ in pairs)
        said_of = said_of.replace(" and ", ", decisions that can change ")
        detail = f"{shift.words('')}: average largest change {said_of}{word}"
        if found.seed is not None and not self.secret:
            found.proved_upper = math.inf if own else found.proved_upper
        elif found.seed is not None:
            most = (float(inflated(self.profiles.largest)), 1.0)  # true of anybody
            missed = [min(_missed(claim), top) for (claim, _), top in zip(pairs, most, strict=False)]
            if own:
                found.proved_upper = missed[0]
            above = " or ".join(str(outward(each)) for each in missed)
            detail += f"; as people were drawn, more than {above} is accepted with probability at most {ALPHA:g}"
            if said.get("behind") is not None and self.confidence is not None:
                false, risk = math.ceil(THETA * found.individuals), risk_of(self.confidence)
                tops = list(behind_drawn(self.individuals, shift, self.weights, groups, said, risk, false))
                above = " or ".join(map(str, tops))
                detail += f", and so is a population behind the sample with more than {above}"
                self.drawn_behind = tops[0] if own else self.drawn_behind
        return found.say("shift", holds, detail)

    def _witnesses(self) -> bool:
        """Are they there? Then it is noted whether all do what is said of them."""
        shown = witnesses(self.record, "local", self.bounds, self.individuals, self.x, self._keep)
        if shown is not None:
            detail = "{:,} violations and {:,} other decisions, each at a pair, evaluated".format(*shown[1])
            self.found.say("witnesses", shown[0], detail, "proved again")
        return shown is not None

    def rest(self) -> None:
        """Verdict, population, and what nothing here can tell."""
        found, claims, record = self.found, self.claims, self.record
        right = verdict(number(claims["lower"]), found.claimed_upper, self.epsilon)
        detail = "no epsilon was named" if right is None else f"{right} at {self.epsilon}"
        found.say("verdict", claims["verdict"] == right, detail)
        if claims["population"] is not None:
            self._population(claims["population"])
        elif record.predicate["question"]["confidence"] is not None:
            found.say("population", True, "nothing is claimed")
        for group in ("model", "people"):
            names = sorted(f"{EVIDENCE}/{group}.{name}.bin" for name in record.names(group))
            digest = hashlib.sha256(" ".join(record.hashes[name] for name in names).encode()).hexdigest()
            says = self.model.says if group == "model" else ""
            found.say(group, None, f"digest {digest[:16]}… of {len(names)} arrays, for you to compare{says}")
        texts = {"metric": METRIC, "ground": GROUND, "domain": SCHEMA}
        for group, name in texts.items():
            if name == GROUND and GROUND not in self.texts:
                continue
            found.say(group, None, f"{name}, digest {record.hashes[f'{EVIDENCE}/{name}'][:16]}…, for you to compare")
        self._trusted()
        strays, beside = record.check_beside(), sorted(set(record.hashes) - record.seen)
        if beside:
            found.claims.append(("files", "not checked", f"{listed(beside)}: the issuer's word"))
        if strays:
            words = f"{listed(strays)}: not named by the certificate, and may say anything"
            found.claims.append(("other files", "not checked", words))
        found.say("remarks", None, "names, dates, sources, how files were read: the issuer's word")

    def _population(self, said: Mapping[str, Any]) -> None:
        """The statement about the population behind the sample; where no individual moves, that about the shift."""
        if self.first is not None:
            holds = False
        elif self.shift.moves:
            holds = nearby(self.derived_for, self.profiles, self.weights, said, self.confidence, self.largest)
        else:
            own = self.claims["shifts"][0].get("behind")
            holds = own is not None and said["multiplier"] is None and said["upper"] == own["upper"]
        words = f"at most {outward(number(said['upper']))}, if these are independent draws"
        if self.drawn_behind is not None:
            words += (
                f"; as people were drawn, more than {self.drawn_behind} is accepted with probability at most {ALPHA:g}"
            )
        self.found.say("population", holds, words)

    def _trusted(self) -> None:
        """The declared range of outputs, which those that were computed must keep to, and how people were selected,
        which is the issuer's word; that it can be a word about these people is seen."""
        if self.range is not None:
            low, high = map(written, self.range)
            detail = f"outputs from {low} to {high} are declared, not proved; of {self.evaluated:,} computed here"
            self.found.say("output range", False if self.outside else None, f"{detail} {self.outside:,} are outside")
        words = self.why or f"{selected(self.record.predicate['selection'])}: the issuer's word; --data counts them"
        self.found.say("selection", False if self.why else None, words)


def _missed(claim: Mapping[str, Any]) -> float:
    """A table whose mean exceeds this is accepted by draws with probability at most α."""
    return float(up(number(claim["upper"]) + up(THETA * number(claim["hidden"]))))


def _draws() -> int:
    """This many draws miss a share of θ with probability at most α."""
    return math.ceil(math.log(ALPHA) / math.log1p(-THETA))
