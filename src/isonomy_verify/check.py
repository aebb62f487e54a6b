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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import (
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
from isonomy_verify.claims import claimed_heights, claimed_upper, inflated, inward, outward, verdict
from isonomy_verify.decisions import certain
from isonomy_verify.definitions import MATRICES, domain_of, form_of, head_of, schema_of
from isonomy_verify.evidence import (
    check_labels,
    individuals_of,
    need,
    nodes_of,
    number,
    points_of,
    profiles_of,
    sources_of,
    written,
)
from isonomy_verify.heads import Head
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE, deflated, witnessed
from isonomy_verify.local import LocalBounds
from isonomy_verify.network import normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import WIDE, Reach
from isonomy_verify.record import EVIDENCE, GROUND, METRIC, SCHEMA, BadInput, Record, signers
from isonomy_verify.selection import consistent, selected
from isonomy_verify.shifts import shift_of
from isonomy_verify.similar import Similarity
from isonomy_verify.text import listed, quoted
from isonomy_verify.tiers import enclose_at

EVERYBODY = 20_000
"""Up to so many individuals are all derived, unless fewer are asked for."""

THETA = ALPHA = 1e-3
"""In a larger table a mean above the claim by more than θ of what all could hide is missed with probability α."""

ROWS = 1024
"""Individuals derived at a time."""

TRUSTED = (
    "network", "people", "metric", "ground", "domain", "selection", "remarks", "output range", "head", "classes",
    "model reading", "data reading",
)  # fmt: skip
"""What may be trusted in a certificate that is accepted."""

STATUS = {"accepted": 0, "not accepted": 1, "looked at": 3}
"""What a check can come to, and the exit status of a command; 2 is bad input."""


@dataclass
class Verification:
    """Claims as (name, status, detail), the question in lines by name, and the numbers that were derived here."""

    question: dict[str, str]
    claimed_upper: float
    proved_upper: float = math.inf
    proved_lower: float = 0.0
    individuals: int = 0
    derived: int = 0
    seed: int | None = None
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

    def say(self, name: str, holds: Any, detail: str, status: str = "recomputed") -> None:
        """Note what became of a claim; None: nothing here can tell."""
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
            check.rest()
            if data is not None and not record.predicate["withheld"]:
                told = "the certificate withholds nothing: no array was looked for in it"
                check.found.claims.append(("data folder", "not checked", told))
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
        self.epsilon, self.tier = asked["epsilon"], str(asked["tier"])
        need(0 <= self.delta < math.inf, "the question is no question")
        need(self.epsilon is None or 0 <= number(self.epsilon) < math.inf, "epsilon")
        need(self.tier in ("interval", "tight") and asked["arithmetic"] in ("float64", "float32"), "tier, arithmetic")
        sure, others = asked["confidence"], self.claims["population"]
        need(others is None if sure is None else 0 < number(sure) < 1, "confidence")
        self.weights = record.array("people.weights")
        n, usable = len(self.weights), np.isfinite(self.weights) & (self.weights >= 0) & (self.weights <= 2.0**500)
        need(usable.all() and self.weights.any() and math.fsum(self.weights) >= 2.0**-500, "weights")
        self.profiles = profiles_of(record)
        need(len(self.profiles) == n, "profiles of other individuals")
        need(self.shift.moves or not self.profiles.radius.any(), "a profile of people who move, where none does")
        self.multiplier = _multiplier(self.claims)
        self.found = Verification({}, number(self.claims["upper"]), individuals=n)
        need(number(self.claims["lower"]) >= 0, "a lower bound below 0")
        self.float32, self.largest = asked["arithmetic"] == "float32", self.profiles.largest
        nodes, outputs, width = nodes_of(record)
        schema = schema_of(record.text(SCHEMA))
        self.head = head_of(schema, asked, outputs)
        self.network = Preparations(normal_form(nodes, self.head.rows))
        self.domain = domain_of(record.text(SCHEMA), str(asked["domain"]))
        space = domain_of(record.text(SCHEMA), "realizable")
        texts = (METRIC, GROUND) if self.shift.moves else (METRIC,)
        metric, *others = self.forms = [form_of(record.text(name, MATRICES), name, space) for name in texts]
        self.ground = others[0] if others else None  # None: no individual moves
        widths = {form.width for form in self.forms}
        need({*widths, self.domain.width} == {width}, "a metric or schema of other coordinates")
        branches = asked["max_branches"]
        need(type(branches) is int and 0 <= branches <= 2**20, "max_branches")
        self.similarity = Similarity(metric, self.delta, self.domain, branches, keep=True)
        self.reach = Reach(
            self.network, self.head, self.similarity, metric if self.ground is None else self.ground, self.float32
        )
        self.bounds = LocalBounds(self.network, self.head, self.similarity, self.tier, self.float32)  # type: ignore[arg-type]
        self.individuals = individuals_of(record, n, self.profiles.largest)
        need(
            ((self.individuals.decision > 0) == self.head.decides).all(),
            "decisions where there are none, or none where there are",
        )
        check_labels(record, n, len(schema.get("label", {}).get("classes", [])))
        # What was derived of everybody alone: nan where nothing was.
        self.own, self.kept = np.full(n, np.nan), np.zeros(n, dtype=bool)
        self.range, self.evaluated, self.outside = self._range(), 0, 0
        self.why = consistent(record.predicate["selection"], n, record.array("people.rows"))
        chosen = record.predicate["selection"]
        word = f"{selected(chosen)}{parted(schema, chosen['part'])}: the issuer's word"
        who = f"{n:,} individuals" if self.why else word
        self.found.question |= heading(asked, schema, outputs, self.similarity)
        self.found.question |= {"weights": weights_told(np.array(self.weights), schema.get("weight")), "people": who}
        self.found.question |= similar(asked, metric, self.shift, self.ground)

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
            at = self.head.received(enclose_at(self.network.single(float32_run=False), some))
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
        found, shift = self.found, self.shift
        implied, hidden = claimed_upper(self.profiles, self.weights, shift, self.multiplier)
        holds = implied <= found.claimed_upper and hidden <= number(self.claims["hidden"])
        told = f"all {found.individuals:,} claims give {outward(implied, 9)}, claimed {found.claimed_upper}"
        found.say("mean", holds, told)
        if not self.record.has("people.x"):
            return found.say("individuals", None, "their rows are withheld: give --data, the folder that has them")
        self.x = self.record.array("people.x")
        need(self.x.shape == (found.individuals, self.domain.width), "individuals of another shape")
        for start in range(0, len(self.x), 2**16):
            need(self.domain.contains(self.x[start : start + 2**16]).all(), "individuals outside the domain")
        for start in range(0, len(self.x), ROWS):
            self._keep(np.ascontiguousarray(self.x[start : start + ROWS]))
        self.anybody, within = math.inf, math.inf
        if shift.moves or self.domain.kind != "unbounded":
            self.anybody, within = self.reach.everywhere(np.asarray(self.x))
        largest = min(self.head.largest, self.anybody if within == math.inf else math.inf)
        claimed = float(inflated(self.profiles.largest))
        if self.range is not None:
            largest = min(largest, float(up(self.range[1] - self.range[0])))
        self.largest = largest
        detail = f"claimed {outward(claimed)}, derived {outward(largest)}"
        found.say("anybody", largest <= claimed, detail, "proved again")
        rows = self._drawn(everybody, seed, claimed, hidden)
        slopes = [self.multiplier]
        if self.claims["population"] is not None and self.claims["population"]["multiplier"] is not None:
            slopes.append(_multiplier(self.claims["population"]))
        wrong, loose, total, highest, proved = 0, 0, 0, 0.0, replace(self.profiles, largest=largest)
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            value, owner = self._derived(some)
            most = inflated(self.profiles.value[self.profiles.places(some)])
            loose += len(np.unique(owner[~(np.minimum(value, largest) <= most)]))
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
            found.proved_upper = shift.bound(self.multiplier, mean)
            detail = (
                f"all {len(rows):,} derived, {wrong:,} above their claim; together {outward(found.proved_upper, 9)}"
            )
        else:
            said, status = "an issuer who knew the seed could lie about all others: this proves nothing", "looked at"
            if seed is None:
                status = "proved again"
                found.proved_upper = float(up(found.claimed_upper + up(THETA * hidden)))
                exceeds = f"a table whose mean exceeds {outward(found.proved_upper)}"
                said = f"{exceeds} is accepted with probability at most {ALPHA:g}"
            detail = f"{len(rows):,} drawn (seed {found.seed}) and derived, {wrong:,} above their claim: {said}"
        found.say("individuals", wrong == 0, detail, status)
        detail = f"{loose:,} profiles have bounds that were not derived again, on which no claim about this shift rests"
        found.claims.append(("other shifts", "not checked" if loose else "proved again", detail))
        return None

    def _drawn(self, everybody: bool, seed: int | None, largest: float, hidden: float) -> NDArray[np.intp]:
        n = self.found.individuals
        # A statement about the population bets on everybody's claim, of which a mean says nothing.
        if everybody or n <= EVERYBODY or hidden == 0 or self.claims["population"] is not None:
            return np.arange(n)
        self.found.seed = secrets.randbits(63) if seed is None else int(seed)
        self.secret, self.draws = seed is None, np.random.default_rng(self.found.seed)
        return self._draw(lambda some: largest - claimed_heights(self.profiles, some, self.shift, self.multiplier))

    def _draw(self, could_hide: Callable[[NDArray[np.intp]], Array]) -> NDArray[np.intp]:
        """Individuals drawn with replacement, each with a probability proportional to weight times what it could
        hide: enough to miss a share of θ with probability α at most."""
        counted, heaviest = np.flatnonzero(self.weights > 0), self.weights.max()  # shares of which add up, also if huge
        room = np.empty(len(counted))
        for start in range(0, len(counted), 2**14):
            some = counted[start : start + 2**14]
            room[start : start + 2**14] = self.weights[some] / heaviest * np.maximum(0.0, could_hide(some))
        ends = np.cumsum(room)
        at = self.draws.random(_draws()) * ends[-1]
        return np.unique(counted[np.minimum(np.searchsorted(ends, at, side="right"), len(counted) - 1)])

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
            value[wide] = self.anybody
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
        self.own[rows], self.kept[rows] = known.upper, certain(self.bounds, x, known, said)

    @cached_property
    def source(self) -> Array:
        """The radius of the pass behind every bound of a profile: a hint."""
        return sources_of(self.record, self.profiles)

    def lower(self) -> None:
        """The population that the witnesses describe: possible people, similar pairs, within the budget."""
        found, record, claimed = self.found, self.record, number(self.claims["lower"])
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
        alone = self.network.single(float32_run=False)
        head = Head(self.head.kind, self.head.outputs)
        for start in range(0, len(used), ROWS):
            some = used[start : start + ROWS]
            z, y, x = (np.ascontiguousarray(rows) for rows in (person[some], other[some], self.x[owner[some]]))
            fits = self.domain.contains(z) & self.domain.allows(z, y)
            fits &= self.similarity.form.distance_upper(z, y) <= self.delta
            if self.ground is None:
                fits &= (x == z).all(axis=1)
            else:
                fits &= self.ground.distance_upper(x, z) <= cost[some]
            reached = head.attained(enclose_at(alone, z), enclose_at(alone, y))
            good &= bool((fits & (deflated(said[some]) <= reached)).all())
            above += int((reached > inflated(self.profiles.within(owner[some], np.array(cost[some])))).sum())
            value[start : start + ROWS] = reached
            self._keep(z, y)
        if claimed == 0:
            used, value = used[:0], value[:0]
        weight = exact_sum(np.array(self.weights))
        within = _within(owner[used], np.array(mass[used]), self.weights)
        within &= self.shift.keeps(np.array(mass[used]), np.array(cost[used]), weight)
        total = exact_sum(products_down(np.array(mass[used]), np.maximum(value, 0.0)))
        found.proved_lower = rounded_down(self.shift.attained(Fraction(total, weight)))
        good &= within and claimed <= found.proved_lower and not above
        detail = f"{len(used):,} atoms reach {inward(found.proved_lower, 9)}, claimed {claimed}"
        return found.say("lower", good, f"{detail}; {above:,} above the profile of their individual", "proved again")

    def alone(self) -> None:
        """What is claimed of everybody alone: the means of their bounds, whose violation is above or below ε, whose
        decision nobody similar has otherwise.

        Witnesses are all evaluated; bounds are derived of everybody or of those who are drawn. Of individuals drawn
        each with the same probability, ``k`` draws miss false claims of more than ``θ n`` of ``n`` with probability at
        most ``(1 − θ)^k``.
        """
        found, said, n = self.found, self.claims["local"], self.found.individuals
        implied = self.individuals.claims(self.weights, self.epsilon)
        told = ", ".join(f"{count:,} {kind}" for kind, count in implied["decisions"].items())
        holds = json.dumps(said, sort_keys=True) == json.dumps(implied, sort_keys=True)
        found.say("alone", holds, f"means from {implied['lower']} to {implied['upper']}; decisions: {told}")
        own = inflated(self.profiles.value[self.profiles.start[:-1]])  # what their profile says of them alone
        crossed = int((deflated(self.individuals.lower) > np.minimum(self.individuals.highs(slice(None)), own)).sum())
        least, others = number(self.claims["lower"]), self.claims["population"]
        uppers = [found.claimed_upper, *([] if others is None else [number(others["upper"])])]
        means = least <= min(uppers) and implied["lower"] <= implied["upper"]
        found.say("both sides", means and not crossed, f"{crossed:,} of {n:,} have a lower bound above their upper one")
        if not self.record.has("people.x") or not self._witnesses():
            return found.say("own bounds", None, "rows are withheld: give --data, the folder that has them")
        rows, largest, some = np.arange(n), float(inflated(self.profiles.largest)), found.seed is not None
        if some:
            likely = self._draw(lambda drawn: largest - self.individuals.highs(drawn))
            rows = np.union1d(likely, self.draws.integers(0, n, _draws()))
        unseen = rows[np.isnan(self.own[rows])]
        for start in range(0, len(unseen), ROWS):
            block = unseen[start : start + ROWS]
            self._look(block, np.ascontiguousarray(self.x[block]))
        high = ~(np.minimum(self.own[rows], self.largest) <= self.individuals.highs(rows))
        turns = (self.individuals.decision[rows] == CERTIFIED) & ~self.kept[rows]
        bounds = f"{len(rows):,} derived, {int(high.sum()):,} above their claim"
        decisions = f"{len(rows):,} looked at, {int(turns.sum()):,} of those said to be certified are not"
        if some and self.secret:
            most = float(up(number(implied["upper"]) + up(THETA * number(implied["hidden"]))))
            chance = f"accepted with probability at most {ALPHA:g}"
            bounds += f": a mean above {outward(most)} is {chance}, and so are counts of epsilon"
            bounds += f" too large by more than {THETA:g} of everybody"
            decisions += f": a count too large by more than {math.ceil(THETA * n):,} is {chance}"
        status = "looked at" if some and not self.secret else "proved again"
        found.say("own bounds", not high.any(), bounds, status)
        return found.say("decisions", not turns.any(), decisions, status)

    def _witnesses(self) -> bool:
        """Are they there? Then it is noted whether all do what is said of them."""
        record, said, good, told = self.record, self.individuals, True, []
        for name, of in (("counterpart", said.lower > 0), ("flip_counterpart", said.decision == FLIPPABLE)):
            if not record.has(f"local.{name}"):
                return False
            owner, other = np.flatnonzero(of), record.array(f"local.{name}")
            need(other.shape == (len(owner), self.domain.width), f"witnesses of another shape: {name}")
            for start in range(0, len(owner), ROWS):
                some = owner[start : start + ROWS]
                x, y = (np.ascontiguousarray(rows) for rows in (self.x[some], other[start : start + ROWS]))
                good &= bool(witnessed(self.bounds, said, some, x, y, name == "flip_counterpart").all())
                self._keep(y)
            told.append(len(owner))
        detail = f"{told[0]:,} violations and {told[1]:,} other decisions, each at a pair, evaluated"
        self.found.say("witnesses", good, detail, "proved again")
        return True

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
        for group in ("network", "people"):
            names = sorted(f"{EVIDENCE}/{group}.{name}.bin" for name in record.names(group))
            digest = hashlib.sha256(" ".join(record.hashes[name] for name in names).encode()).hexdigest()
            says = ", what it says of its own roundings included" if group == "network" else ""
            found.say(group, None, f"digest {digest[:16]}… of {len(names)} arrays, for you to compare{says}")
        texts = {"metric": METRIC, "ground": GROUND, "domain": SCHEMA}
        for group, name in texts.items() if self.shift.moves else [("metric", METRIC), ("domain", SCHEMA)]:
            found.say(group, None, f"{name}, digest {record.hashes[f'{EVIDENCE}/{name}'][:16]}…, for you to compare")
        self._trusted()
        strays, beside = record.check_beside(), sorted(set(record.hashes) - record.seen)
        if beside:
            found.claims.append(("files", "not checked", f"{listed(beside)}: the issuer's word"))
        if strays:
            told = f"{listed(strays)}: not named by the certificate, and may say anything"
            found.claims.append(("other files", "not checked", told))
        found.say("remarks", None, "names, dates, sources, how files were read: the issuer's word")

    def _population(self, said: Mapping[str, Any]) -> None:
        """The statement about the population behind the sample, by Hoeffding or bets, and a range, fixed in advance."""
        upper, confidence = number(said["upper"]), self.record.predicate["question"]["confidence"]
        slope = _multiplier(said)
        largest = self.profiles.largest
        most, tries = float(inflated(largest)), self.shift.tries(largest, slope)
        trivial = upper >= most  # true of anybody, and so of every population
        holds = trivial or bool(tries and np.ptp(self.weights) == 0 and largest <= inflated(self.largest))
        if holds and not trivial:
            paid, every = self.shift.bound(slope, 0.0), np.arange(self.found.individuals)
            high = claimed_heights(self.profiles, every, self.shift, slope)
            holds = _confident(upper, paid, high, most, (1 - number(confidence)) / tries)
        self.found.say("population", holds, f"at most {outward(upper)}, if these are independent draws")

    def _trusted(self) -> None:
        """The declared range of outputs, which those that were computed must keep to, and how people were selected,
        which is the issuer's word; that it can be a word about these people is seen."""
        if self.range is not None:
            low, high = map(written, self.range)
            detail = f"outputs from {low} to {high} are declared, not proved; of {self.evaluated:,} computed here"
            self.found.say("output range", False if self.outside else None, f"{detail} {self.outside:,} are outside")
        told = self.why or f"{selected(self.record.predicate['selection'])}: the issuer's word; --data counts them"
        self.found.say("selection", False if self.why else None, told)


def _within(owner: NDArray[np.int64], mass: Array, weights: Array) -> bool:
    """Has nobody more mass than their weight, exactly? What is missing stays with them, where nothing is claimed."""
    several = np.bincount(owner, minlength=len(weights))[owner] > 1
    held: dict[int, Fraction] = {}
    for i, part in zip(owner[several].tolist(), mass[several].tolist(), strict=True):
        held[i] = held.get(i, Fraction(0)) + Fraction(part)
    alone = bool((mass[~several] <= weights[owner[~several]]).all())
    return alone and all(total <= Fraction(float(weights[i])) for i, total in held.items())


def _draws() -> int:
    """So many draws miss a share of θ with probability at most α."""
    return math.ceil(math.log(ALPHA) / math.log1p(-THETA))


def _confident(upper: float, price: float, high: Array, largest: float, alpha: float) -> bool:
    """Is a mean above what ``upper`` leaves refuted by Hoeffding's bound, or by bets on the values fixed in advance?

    **Soundness.** Factors of bets are above 1/32, so that a logarithm, and a sum of them, is wrong by less than
    ``2^-40`` for each individual; both are asked for more than is needed by that and a billionth.
    """
    n, m, h = len(high), (upper - price) / largest - 1e-9, high / largest
    odds = -math.log(0.9 * alpha) + n * 2.0**-40 + 1e-9
    theta = np.minimum(2.0 ** (-np.arange(math.ceil(max(0.0, math.log2(2 * n / odds))) + 1) / 2), 31 / 32)
    if not m < 1:
        return bool(m >= 1)  # not where it is no number
    wealth = sum(np.log1p(np.outer((m - h[k : k + 4096]) / (1 - m), theta)).sum(0) for k in range(0, n, 4096))
    simple = float(h.mean()) + math.sqrt(-math.log(0.1 * alpha) / (2 * n)) <= m
    return bool(simple or np.logaddexp.reduce(wealth) - math.log(len(theta)) >= odds)


def _multiplier(said: Mapping[str, Any]) -> float | None:
    return None if said["multiplier"] is None else number(said["multiplier"])
