"""Cases by number: a network, a question about it, and whether the engine's answer holds.

The number alone decides everything, so that a failure can be had again. A case asks one of several questions: bounds of
one run over regions (``Enclose``), of two runs and their difference (``Compare``), and the certificates of the public
interface (``Local``, ``Shifted``, ``Everywhere``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx

from . import engine, graphs, people, regions, search
from .exact import Truth, proved, violation
from .networks import Array, Net, Step, Summation
from .people import People
from .regions import Region

RADII = (0.0, 1e-12, 1e-6, 0.02, 0.1, 0.3, 0.3, 2.0, 100.0)
ORDERS: tuple[Summation, ...] = ("product", "forward", "backward")
CYCLE = (
    "enclose", "compare", "enclose", "compare", "enclose", "compare", "local", "shifted",
    "enclose", "compare", "enclose32", "compare", "enclose", "compare32", "local", "compare",
    "enclose", "compare", "enclose", "compare", "enclose", "compare", "local", "everywhere",
    "enclose", "compare", "enclose32", "compare", "enclose", "compare32", "local", "compare",
)  # fmt: skip

WEIGHTS = {
    "ordinary": 4, "straight": 4, "scalar": 4, "cancel": 5, "bare": 3, "extreme": 3, "chains": 8, "deep": 2,
    "dead": 2, "perceptron": 2, "hinges": 4, "wide": 1,
}  # fmt: skip
"""How often each style is drawn."""


@dataclass(frozen=True)
class Failure:
    """A claim and the member at which it is proved wrong."""

    what: str
    claimed: float
    truth: str
    at: str

    def __str__(self) -> str:
        return f"{self.what}: claimed {self.claimed!r}, exactly {self.truth}\n  at {self.at}"


@dataclass(frozen=True, eq=False)
class Case:
    """One question; ``number`` also seeds the search for members."""

    number: int
    net: Net

    def check(self) -> Failure | None:
        """What is wrong with the engine's answer, if anything is. May raise ``RefusedError``."""
        return next(self.failures(), None)

    def failures(self) -> Iterator[Failure]:
        raise NotImplementedError

    def rows(self) -> Iterator[Case]:
        """The same question of single individuals."""
        raise NotImplementedError

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.number, 1])


@dataclass(frozen=True, eq=False)
class Enclose(Case):
    """Margins over regions around centres, by every tier that looks at one run."""

    centre: Array
    region: Region
    float32: bool
    raw: bool
    tiers: tuple[str, ...]

    def __str__(self) -> str:
        options = f"float32={self.float32}, raw={self.raw}, tiers={self.tiers}"
        return f"Enclose({self.number}, {self.net}, np.array({self.centre.tolist()}),\n    {self.region}, {options})"

    def failures(self) -> Iterator[Failure]:
        options = {"float32": self.float32, "raw": self.raw}
        found = {t: engine.enclose(self.net, self.centre, self.region, t, **options) for t in self.tiers}
        rng = self.rng
        for row, base in enumerate(self.centre):
            still = Truth(self.net, base)
            for tier, one in found.items():
                yield from _outside(f"{tier} at the centre of row {row}", (one.at[0][row], one.at[1][row]), still)
            for proposal in search.moves(
                self.net, base, self.region.inside[row], lambda w, row=row: self.region.outermost(row, w), rng
            ):
                move = self.region.member(row, proposal)
                there = Truth(self.net, base, move)
                for tier, one in found.items():
                    over, where = (one.over[0][row], one.over[1][row]), f"{tier} over row {row}"
                    yield from _outside(where, over, there)
                    yield from _exceeded(f"{tier} violation of row {row}", float(one.violation[row]), still, there)
                    if self.float32:
                        points = np.stack([base, base + move])
                        yield from _outside32(where, self.net, points, {1: over, 0: (one.at[0][row], one.at[1][row])})
                        yield from _exceeded32(where, self.net, points, float(one.violation[row]))

    def rows(self) -> Iterator[Enclose]:
        for row in range(len(self.centre)):
            yield replace(self, centre=self.centre[row : row + 1], region=_row(self.region, row))


@dataclass(frozen=True, eq=False)
class Compare(Case):
    """Somebody near a centre, somebody a difference away: margins of both, their difference, the violation."""

    centre: Array
    near: Region
    between: Region
    limits: Region | None
    shares: tuple[float, ...]
    float32: bool
    raw: bool
    nested: bool
    tight: bool

    def __str__(self) -> str:
        options = f"shares={self.shares}, float32={self.float32}, raw={self.raw}, nested={self.nested}"
        sets = f"{self.near},\n    {self.between},\n    {self.limits}, {options}, tight={self.tight}"
        return f"Compare({self.number}, {self.net}, np.array({self.centre.tolist()}),\n    {sets})"

    def failures(self) -> Iterator[Failure]:
        parts = [regions.smaller(self.near, share) for share in self.shares]
        answers = engine.compare(
            self.net, self.centre, self.near, self.between, limits=self.limits, within=tuple(parts),
            float32=self.float32, raw=self.raw, nested=self.nested, tight=self.tight,
        )  # fmt: skip
        rng = self.rng
        for number, (answer, near) in enumerate(zip(answers, [self.near, *parts], strict=True)):
            for row, base in enumerate(self.centre):
                yield from self._row(f"part {number}, row {row}", answer, near, row, base, rng)

    def _row(
        self, name: str, answer: engine.Compared, near: Region, row: int, base: Array, rng: np.random.Generator
    ) -> Iterator[Failure]:
        one = near.inside[row], lambda w: near.outermost(row, w)
        other = self.between.inside[row], lambda w: self.between.outermost(row, w)
        inner, outer, apart = ((side[0][row], side[1][row]) for side in (answer.near, answer.far, answer.difference))
        gap = float(answer.violation[row])
        for v, d in zip(*search.pairs(self.net, base, one, other, rng), strict=True):
            v, d = near.member(row, v), self.between.member(row, d)
            d = self._allowed(row, v, d)
            if d is None:
                continue
            here, there = Truth(self.net, base, v), Truth(self.net, base, v, d)
            yield from _outside(f"near, {name}", inner, here)
            yield from _outside(f"far, {name}", outer, there)
            yield from _outside(f"difference, {name}", apart, there, here)
            yield from _exceeded(f"violation, {name}", gap, here, there)
            if self.float32:
                points = np.stack([base + v, base + v + d])
                yield from _outside32(name, self.net, points, {0: inner, 1: outer}, apart)
                yield from _exceeded32(name, self.net, points, gap)

    def _allowed(self, row: int, v: Array, d: Array) -> Array | None:
        """The difference, shortened until the far person is within the limits."""
        if self.limits is None:
            return d
        low, high = self.limits.low[row], self.limits.high[row]
        ends = [(Fraction(a), Fraction(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        for share in (1.0, 0.5, 0.25, 0.0):
            step = self.between.member(row, np.clip(v + share * d, low, high) - v)
            there = [Fraction(a) + Fraction(b) for a, b in zip(v.tolist(), step.tolist(), strict=True)]
            if all(a <= t <= b for (a, b), t in zip(ends, there, strict=True)):
                return step
        return None

    def rows(self) -> Iterator[Compare]:
        for row in range(len(self.centre)):
            limits = None if self.limits is None else _row(self.limits, row)
            sets = {"near": _row(self.near, row), "between": _row(self.between, row), "limits": limits}
            yield replace(self, centre=self.centre[row : row + 1], **sets)
        if self.shares:
            yield replace(self, shares=())


@dataclass(frozen=True, eq=False)
class Local(Case):
    """The local certificate of the public interface."""

    people: People
    tier: str
    float32: bool
    threshold: float | None

    def __str__(self) -> str:
        options = f'"{self.tier}", float32={self.float32}, threshold={self.threshold}'
        return f"Local({self.number}, {self.net},\n    {self.people}, {options})"

    def failures(self) -> Iterator[Failure]:
        who = self.people
        found = engine.certify_local(self.net, who, self.tier, float32=self.float32, threshold=self.threshold)
        rng = self.rng
        for row, x in enumerate(who.x):
            upper, lower, own = float(found.upper[row]), float(found.lower[row]), Truth(self.net, x)
            if not lower <= upper:
                yield Failure(f"lower above upper, row {row}", upper, repr(lower), str(x))
            other = found.counterpart[row]
            yield from _short(f"lower of row {row}", lower, own, Truth(self.net, other))
            for y in _similar(self.net, who, x, rng):
                there = Truth(self.net, y)
                yield from _exceeded(f"{self.tier} upper of row {row}", upper, own, there)
                if self.float32:
                    yield from _exceeded32(f"{self.tier} upper of row {row}", self.net, np.stack([x, y]), upper)
                if found.certain[row] and self._decision(own) * self._decision(there) < 0:
                    yield Failure(f"decision of row {row} certified", 0.0, "another one", f"{x.tolist()}, {y.tolist()}")

    def _decision(self, truth: Truth) -> int:
        """1 or -1 for a clear decision of two, 0 where there are more or it is not clear."""
        if self.net.outputs > 2 or (self.net.head != "softmax" and self.net.outputs > 1):
            return 0
        with ctx.workprec(256):
            if self.threshold is None:
                (value,), cut = truth.margins(), 0.0
                if self.net.head == "regression":
                    return 0
            else:
                (value,), cut = truth.received(), self.threshold
            return 1 if value > cut else -1 if value < cut else 0

    def rows(self) -> Iterator[Local]:
        for row in range(len(self.people.x)):
            yield replace(self, people=replace(self.people, x=self.people.x[row : row + 1]))


@dataclass(frozen=True, eq=False)
class Shifted(Case):
    """The distributional certificate of one person: part of the mass moves away, as far as ``gamma`` pays for."""

    people: People
    gamma: float
    order: float
    ground: str
    attack: bool

    def __str__(self) -> str:
        options = f'{self.gamma}, {self.order}, "{self.ground}", attack={self.attack}'
        return f"Shifted({self.number}, {self.net},\n    {self.people}, {options})"

    def failures(self) -> Iterator[Failure]:
        who, (x,), rng = self.people, self.people.x, self.rng
        upper, lower = engine.certify(self.net, who, self.gamma, self.order, self.ground, attack=self.attack)
        if not lower <= upper:
            yield Failure("lower above upper", upper, repr(lower), str(x))
        norm = {"l1": 1.0, "l2": 2.0, "linf": math.inf}[self.ground]
        own = Truth(self.net, x)
        at_home = max(_similar(self.net, who, x, rng), key=lambda y: _change(self.net, x, y))
        for scale in (0.0, self.gamma, 3 * self.gamma + 0.1):
            direction = rng.normal(size=(3, who.width))
            size = np.maximum(np.linalg.norm(direction, norm, axis=1, keepdims=True), 1e-300)
            for proposal in x + scale * direction / size:
                z = who.member(x, who.recategorised(rng, proposal), everybody=True)
                for y in _similar(self.net, who, z, rng)[:4]:
                    pairs = (Truth(self.net, z), Truth(self.net, y)), (own, Truth(self.net, at_home))

                    def mean(z: Array = z, pairs: Any = pairs) -> Any:
                        share = self._share(x, z, norm)
                        return share * violation(*pairs[0]) + (1 - share) * violation(*pairs[1])

                    if proved(mean, upper):
                        yield Failure("upper", upper, _text(mean), f"z = {z.tolist()}, y = {y.tolist()}")

    def _share(self, x: Array, z: Array, norm: float) -> Any:
        """How much of the mass can move to ``z``, from below."""
        move = [arb(b) - arb(a) for a, b in zip(x.tolist(), z.tolist(), strict=True)]
        if norm == 2:
            cost = sum((v * v for v in move), arb(0)).sqrt()
        elif norm == 1:
            cost = sum((abs(v) for v in move), arb(0))
        else:
            cost = max((abs(v) for v in move), key=float)
        gamma = arb(self.gamma)
        if cost <= gamma:
            return arb(1)
        if self.order == math.inf or not cost > gamma:
            return arb(0)
        return (gamma / cost) ** int(self.order)

    def rows(self) -> Iterator[Shifted]:
        yield from ()


@dataclass(frozen=True, eq=False)
class Everywhere(Case):
    """The global certificate: any two similar people of a domain."""

    people: People

    def __str__(self) -> str:
        return f"Everywhere({self.number}, {self.net},\n    {self.people})"

    def failures(self) -> Iterator[Failure]:
        who, rng = self.people, self.rng
        upper, lower = engine.certify_everywhere(self.net, who)
        if not lower <= upper:
            yield Failure("lower above upper", upper, repr(lower), "")
        crowd = [*who.x, *(who.anybody(rng) for _ in range(8))]
        found = [(x, y) for x in crowd for y in _similar(self.net, who, x, rng)]
        for x, y in sorted(found, key=lambda pair: -_change(self.net, *pair))[:8]:
            yield from _exceeded("everywhere", upper, Truth(self.net, x), Truth(self.net, y))

    def rows(self) -> Iterator[Everywhere]:
        yield from ()


# -- claims against the truth -------------------------------------------------------------------------------------


def _outside(name: str, sides: tuple[Array, Array], truth: Truth, less: Truth | None = None) -> Iterator[Failure]:
    """Margins (or differences of margins) that are not between their bounds."""
    for i in range(len(sides[0])):

        def value(i: int = i) -> Any:
            own = truth.margins()[i]
            return own if less is None else own - less.margins()[i]

        at = " + ".join(str(part.tolist()) for part in truth.point)
        for side, bound in (("low", -float(sides[0][i])), ("high", float(sides[1][i]))):
            signed = value if side == "high" else lambda value=value: -value()
            if math.isnan(bound):
                yield Failure(f"{name}: {side} of margin {i}", bound, "a number", at)
            elif proved(signed, bound):
                yield Failure(f"{name}: {side} of margin {i} (sign as for high)", bound, _text(signed), at)


def _exceeded(name: str, bound: float, one: Truth, other: Truth) -> Iterator[Failure]:
    if math.isnan(bound) or proved(lambda: violation(one, other), bound):
        at = " against ".join(" + ".join(str(part.tolist()) for part in truth.point) for truth in (one, other))
        yield Failure(name, bound, _text(lambda: violation(one, other)), at)


def _short(name: str, bound: float, one: Truth, other: Truth) -> Iterator[Failure]:
    """A lower bound that its own witness does not attain."""
    if proved(lambda: -violation(one, other), -bound):
        yield Failure(name, bound, _text(lambda: violation(one, other)), str(other.point))


def _runs32(net: Net, points: Array) -> Iterator[tuple[str, Array]]:
    """Margins of float32 runs with sums in several orders, of those that stay finite throughout."""
    for order in ORDERS:
        values = net.runs(points, np.float32, order)
        margins = net.margins_of(values[-1])
        if all(np.isfinite(value).all() for value in (*values, margins)):
            yield order, margins


def _outside32(
    name: str,
    net: Net,
    points: Array,
    sides: dict[int, tuple[Array, Array]],
    difference: tuple[Array, Array] | None = None,
) -> Iterator[Failure]:
    for order, single in _runs32(net, points):
        margins = single.astype(np.float64)  # exact, and so are differences up to rounding to nearest
        checks = [(f"point {k}", margins[k], own) for k, own in sides.items()]
        if difference is not None:
            between = margins[1] - margins[0]
            apart = np.nextafter(difference[0], -math.inf), np.nextafter(difference[1], math.inf)
            checks.append(("difference", between, apart))
        for where, value, (low, high) in checks:
            for i in np.flatnonzero(~((low <= value) & (value <= high))):
                bounds = f"{low[i]!r} .. {high[i]!r}"
                what = f"{name}: float32 run ({order}), {where}, margin {i} outside {bounds}"
                yield Failure(what, float(high[i]), repr(float(value[i])), str(points.tolist()))


def _exceeded32(name: str, net: Net, points: Array, bound: float) -> Iterator[Failure]:
    for order, single in _runs32(net, points):
        received = net.received(single).astype(np.float64)
        change = float(np.nextafter(np.abs(received[1] - received[0]), -math.inf).max())
        if change > bound:
            yield Failure(f"{name}: violation of float32 runs ({order})", bound, repr(change), str(points.tolist()))


def _text(value: Any) -> str:
    with ctx.workprec(512):
        return str(value().str(25))


def _similar(net: Net, who: People, x: Array, rng: np.random.Generator) -> list[Array]:
    """People who are exactly similar to ``x`` and, as far as one can see, treated most differently."""
    found = [x]
    for attempt in range(3 if who.blocks and who.space != "unbounded" else 1):
        base = x if attempt == 0 else who.recategorised(rng, x)
        reach = who.reach(x)
        proposals = search.moves(net, base, np.zeros(len(x)), lambda w, reach=reach: reach.outermost(0, w), rng)
        found += [who.member(x, base + move) for move in proposals]
    unique = list({y.tobytes(): y for y in found}.values())
    return sorted(unique, key=lambda y: -_change(net, x, y))[:8]


def _change(net: Net, x: Array, y: Array) -> float:
    received = np.nan_to_num(net.received(net.margins(np.stack([x, y]))))
    return float(np.abs(received[1] - received[0]).max())


def _row(region: Region, row: int) -> Region:
    parts = {part: getattr(region, part)[row : row + 1] for part in ("radius", "offset", "low", "high", "inside")}
    return replace(region, **parts)


# -- cases by number ----------------------------------------------------------------------------------------------


def about_runs(number: int) -> bool:
    """Does the case ask for bounds of one run, or of the difference of two?"""
    return CYCLE[number % len(CYCLE)].startswith(("enclose", "compare"))


def case(number: int) -> Case:
    """The case of a number."""
    rng = np.random.default_rng([number, 0])
    question = CYCLE[number % len(CYCLE)]
    share = np.array([WEIGHTS[style] for style in graphs.STYLES]) / sum(WEIGHTS.values())
    style = graphs.STYLES[int(rng.choice(len(share), p=share))]
    if question in ("local", "shifted", "everywhere"):
        return _public(rng, number, question, style)
    rows = int(rng.choice([1, 1, 1, 2, 3]))
    rounds = style in ("cancel", "bare")  # rounding is all that these are about
    width = 1 if style == "scalar" else int(rng.choice([2, 3, 4] if style == "cancel" else [1, 1, 2, 2, 3, 4]))
    sizes = [1.0, 5.0, 1e3] if rounds else [0.0, 1.0, 1.0, 10.0, 1e3]
    centre = rng.normal(size=(rows, width)) * float(rng.choice(sizes))
    if rng.random() < 0.2:
        centre = np.round(centre)
    net = graphs.draw(rng, style, centre[0])
    float32, raw = question.endswith("32"), bool(rng.random() < 0.35)
    still = rounds and bool(rng.random() < 0.7)  # where nothing moves, or hardly anything, only rounding is left
    tiny = float(rng.choice([0.0, 1e-12, 1e-9])) if style == "bare" else 0.0
    if question.startswith("enclose"):
        radius = tiny if still else float(rng.choice(RADII))
        shape = rng.choice(("box", "ball", "ellipsoid") if still else regions.SHAPES)
        region = regions.draw(rng, shape, rows, width, radius)
        return Enclose(number, net, centre, region, float32, raw, engine.TIERS)
    # Balls and layers that bend: where all neurons of a layer are judged together.
    together = style in ("chains", "hinges", "perceptron") and bool(rng.random() < 0.8)
    round_, radii = ("ball", "ellipsoid", "clipped"), (0.01, 0.1, 0.3, 1.0)
    shape = rng.choice(round_ if together else ("box", "ball", "ellipsoid") if still else regions.SYMMETRIC)
    near = regions.draw(rng, shape, rows, width, tiny if still else float(rng.choice(radii if together else RADII)))
    shape = rng.choice(round_ if together else (*regions.SHAPES, *regions.SYMMETRIC))
    between = regions.draw(rng, shape, rows, width, float(rng.choice(radii if together else RADII[1:])))
    symmetric = not between.inside.any() and shape not in ("flip", "flip ball")
    limits = None
    if symmetric and rng.random() < 0.25:
        limits = regions.draw(rng, "box", rows, width, float(rng.choice([0.1, 1.0, 200.0])))
        # The near person is somebody too.
        limits = replace(limits, low=np.minimum(limits.low, near.low), high=np.maximum(limits.high, near.high))
    shares = (0.5,) if rng.random() < 0.3 else (0.0, 0.25) if rng.random() < 0.3 else ()
    nested, tight = bool(symmetric and rng.random() < 0.5), together or bool(rng.random() < 0.85)
    return Compare(number, net, centre, near, between, limits, shares, float32, raw, nested, tight)


def _public(rng: np.random.Generator, number: int, question: str, style: graphs.Style) -> Case:
    spaces: list[people.Space] = ["unbounded", "relaxed", "realizable"]
    space = spaces[int(rng.integers(1 if question == "everywhere" else 0, 3))]
    who = people.draw(rng, int(rng.choice([1, 2])) if question == "local" else 1, space)
    net = graphs.draw(rng, style, who.x[0])
    if question == "local":
        tier = ("interval", "tight", "quick", "exact", "paper")[int(rng.integers(5))]
        float32 = bool(rng.random() < 0.2)
        two = (net.head == "softmax" and net.outputs == 2) or net.outputs == 1
        threshold = float(rng.choice([0.3, 0.5, 0.9])) if two and rng.random() < 0.4 else None
        return Local(number, net, who, tier, float32, threshold)
    if question == "everywhere":
        return Everywhere(number, net, who)
    gamma, order = float(rng.choice([0.0, 0.05, 0.5])), float(rng.choice([1.0, 2.0, math.inf]))
    return Shifted(number, net, who, gamma, order, str(rng.choice(["l1", "l2", "linf"])), rng.random() < 0.2)


# -- failing cases made small -------------------------------------------------------------------------------------


def shrunk(found: Case, seconds: float = 60.0) -> Case:
    """A smaller case that fails too, as small as simple steps make it."""
    until = time.monotonic() + seconds
    going = True
    while going:
        going = False
        for smaller in _simpler(found):
            if time.monotonic() > until:
                return found
            if _fails(smaller):
                found, going = smaller, True
                break
    return found


def _fails(one: Case) -> bool:
    try:
        return one.check() is not None
    except Exception:
        return False


def _simpler(one: Case) -> Iterator[Case]:
    yield from (other for other in one.rows() if str(other) != str(one))
    for i in range(len(one.net.steps) - 1, 0, -1):
        net = one.net.without(i)
        if net is not None:
            yield replace(one, net=net)
    for i, step in enumerate(one.net.steps):
        if step.op == "affine":
            for simple in _rounder(step):
                steps = (*one.net.steps[:i], simple, *one.net.steps[i + 1 :])
                yield replace(one, net=Net(steps, one.net.head))


def _rounder(step: Step) -> Iterator[Step]:
    for digits in (0, 2):
        for part in ("weight", "bias"):
            before = getattr(step, part)
            after = np.round(before, digits)
            if digits == 0 and (before != 0).any():
                yield replace(step, **{part: np.zeros_like(before)})
            if (after != before).any():
                yield replace(step, **{part: after})
