"""Marginals: populations of which the margins are known, such as tomorrow's shares of categories."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, parameter
from isonomy.certificates.indices import Audited, Index, NewPeople, State
from isonomy.certificates.reweighting import Reweighting, bin_edges, checked_strangers
from isonomy.certificates.tilting import Tilting
from isonomy.confidence import share_bounds
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import FINITE, number, whole
from isonomy.population import Feature, Schema
from isonomy.population.encoding import Coding, complaint, encode_column, find_column
from isonomy.population.tables import read_frame
from isonomy.similarity.metric import Metric
from isonomy_verify import marginals as kernel
from isonomy_verify.marginals import Margin
from isonomy_verify.reweighting import Hints, Sample
from isonomy_verify.text import BadInput

Limits = list[tuple[Fraction, Fraction]]

TILTED = 0.9
"""How much of the tolerance the tilted individuals use: what is left is for roundings, here and elsewhere."""

KEPT = (1 - 1e-4, 0.99, 0.9)
"""How much of it the population of the lower bound uses: the first for which it keeps to the limits in floats."""

SPARE = 1e-6
"""The share of the divergence that it leaves unused, for roundings."""


@dataclass(frozen=True, eq=False)
class Marginals(Reweighting):
    """Every reweighting of the individuals with ``known`` margins, and at most a divergence ``residual`` beyond them.

    ``known`` is a table of other people, in whose columns the features of the schema are looked up, numbers in at most
    ``bins`` bins of about the same weight; or a mapping from a feature to its margin, ``{category: share}`` or, of a
    number, ``{upper end of a bin: share}``, the last end ``inf``. A share may be off by ``tolerance``. Let ``P_m`` be
    the individuals, reweighted as little as can be (in Kullback-Leibler divergence) until they have the margins: meant
    is every reweighting ``Q`` with the margins and ``KL(Q || P_m)`` of at most ``residual``. For the margins of ``P_m``
    itself this is what ``KL(Q || P)`` is above the least that the margins ask for. A share of at most ``strangers`` may
    be other people; the margins are of all together.
    """

    kind: ClassVar[str] = "marginals"
    uncomposed: ClassVar[str] = (
        "Known margins cannot be composed with moves: they are those of tomorrow's people, after they moved. Give them "
        "beside the movement in a list, with an answer of their own."
    )
    covered: ClassVar[str] = "populations of known margins"
    infers: ClassVar[bool] = False
    size_name: ClassVar[str] = "residual"
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Populations of known margins",
        "Divergence left, at most",
        "The certificate is about these people, reweighted to other margins; what the margins leave open is limited by "
        "a divergence.",
    )

    known: Any
    residual: float = 0.3
    strangers: float = 0.0
    tolerance: float = 0.005
    bins: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "residual", number("residual", self.residual, "a finite number >= 0", high=FINITE))
        object.__setattr__(self, "strangers", checked_strangers(self.strangers))
        right = "a number above 0, below 1"
        object.__setattr__(self, "tolerance", number("tolerance", self.tolerance, right, 0.0, 1.0, strict=True))
        whole("bins", self.bins, 2)
        known = self.known
        if isinstance(known, Mapping):
            known = {str(name): _checked_shares(name, shares) for name, shares in known.items()}
        elif not isinstance(known, tuple):
            known = read_frame(known)
        if not len(known):
            raise ParameterError(template("known", "margins of features, or a table of people", self.known))
        object.__setattr__(self, "known", known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marginals) and self.fingerprint() == other.fingerprint()

    __hash__ = None  # type: ignore[assignment]

    @property
    def size(self) -> float:
        """Return the divergence that is left."""
        return self.residual

    @property
    def kernel(self) -> kernel.Marginals:
        """Return margins, residual, tolerance and strangers."""
        if not isinstance(self.known, tuple):
            raise ParameterError("Margins need individuals with a schema: certify a Population.")
        try:
            return kernel.Marginals(self.known, self.residual, self.tolerance, self.strangers)
        except ValueError as error:
            raise ParameterError(str(error)) from None

    def groups(self, x: FloatArray, schema: Schema | None) -> NDArray[np.intp] | None:
        """Return the cells (n, f) of the individuals."""
        if schema is None:
            raise ParameterError("Margins need individuals with a schema: certify a Population.")
        return self.kernel.groups(x, schema.slices)

    def resolved(self, x: FloatArray, schema: Schema | None, weights: FloatArray) -> Self:
        """Return the shift with margins of the schema's features, and tilts that give the individuals these margins;
        margins that no reweighting of them has are refused."""
        if isinstance(self.known, tuple):
            return self
        if schema is None:
            raise ParameterError("Margins need individuals with a schema: certify a Population.")
        shift = replace(self, known=self._margins(schema))
        cells, counted = shift.kernel.groups(x, schema.slices), weights > 0
        tilted = shift.tilted(cells[counted], weights[counted])
        if tilted is None:
            shift._refuse(shift.tilting(cells[counted]).squeezed(TILTED), schema)
        return tilted

    def tilted(self, cells: NDArray[np.intp], weights: FloatArray) -> Self | None:
        """Return the shift with the tilts that give individuals in ``cells`` (n, f) with ``weights`` (n,) the margins:
        without strangers, if they can have them so; None where they cannot have them."""
        for limits in (self.kernel.near, self.kernel.limits):
            squeezed = self.tilting(cells, limits).squeezed(TILTED)
            tilt = squeezed.closest(_logs(weights))
            if squeezed.excess(tilt.shares) <= 0.5 * (1 - TILTED) * self.tolerance:
                parts = np.split(tilt.exponents, np.cumsum([len(each.shares) for each in self.known])[:-1])
                named = zip(self.known, parts, strict=True)
                return replace(self, known=tuple(each._replace(tilt=tuple(part.tolist())) for each, part in named))
        return None

    def tilting(self, cells: NDArray[np.intp], limits: Limits | None = None) -> Tilting:
        """Return ``cells`` (n, f) with ``limits`` as floats; None: those of people without the strangers."""
        low, high = (np.array(side, dtype=np.float64) for side in zip(*(limits or self.kernel.limits), strict=True))
        return Tilting(cells, np.maximum(low, 0.0), np.minimum(high, 1.0))

    def _margins(self, schema: Schema) -> tuple[Margin, ...]:
        """Return the margins of the schema's features that are known."""
        names = {each.name for each in schema.features}
        if isinstance(self.known, Mapping):
            unknown = next((name for name in self.known if name not in names), None)
            if unknown is not None:
                raise ParameterError(template("known", f"margins of features ({', '.join(sorted(names))})", unknown))
        features = [each for each in schema.features if each.name in self.known]
        margins = [
            _named(each, self.known[each.name]) if isinstance(self.known, Mapping) else self._counted(each, schema)
            for each in features
        ]
        several = tuple(each for each in margins if len(each.shares) > 1)
        if not several:
            raise ParameterError(template("known", f"margins of features ({', '.join(sorted(names))})", "none"))
        return several

    def _counted(self, feature: Feature, schema: Schema) -> Margin:
        """Return the margin of a feature in the table."""
        coding, column = Coding(feature), find_column(self.known, feature.name)
        x, bad = encode_column(column, coding)
        if bad.any():
            raise DataError(complaint(column, coding))
        weights = np.ones(len(x))
        if schema.weight is not None and schema.weight in self.known:
            weights = self.known[schema.weight].to_numpy(dtype=np.float64)
        if feature.kind == "categorical":
            return _margin(feature.name, None, weights @ x)
        edges = bin_edges(x[:, 0], weights, self.bins)[:-1]
        held = np.bincount(np.searchsorted(edges, x[:, 0]), weights, len(edges) + 1)
        return _margin(feature.name, tuple(edges.tolist()), np.asarray(held, dtype=np.float64))

    def _refuse(self, tilting: Tilting, schema: Schema) -> NoReturn:
        """Refuse margins that no reweighting has, in the words of the columns that keep it from them."""
        short, start, told_of = tilting.missing(), 0, []
        for margin in self.known:
            part = short[start : start + len(margin.shares)]
            if part.sum() > 1e-9:
                at = int(part.argmax())
                names = schema[margin.feature].levels if margin.edges is None else ()
                cell = repr(names[at]) if names else f"in bin {at + 1} of {len(margin.shares)}"
                told_of.append(
                    f"column {margin.feature!r} ({cell}, to be {margin.shares[at]:.4g}, is off by {part[at]:.4g})"
                )
            start += len(margin.shares)
        where = f": {'; '.join(told_of)}" if told_of else ""
        raise DataError(
            f"No reweighting of these individuals has the margins{where}. Take other margins, a larger 'tolerance', or "
            "'strangers'."
        )

    def hints(self, people: Sample) -> Hints:
        """Return the multipliers of divergence and cells, and those of the worst population that is one for sure."""
        if self.residual == 0:
            return Hints()
        tilting, kernel = self.tilting(people.groups), self.kernel
        tilts = np.array([tilt for each in self.known for tilt in each.tilt])
        base = _logs(people.weights) + tilting.exponents(tilts)
        base = base - np.logaddexp.reduce(base)
        worst = tilting.worst(people.high, base, self.residual)
        upper = Hints((worst.slope, *worst.theta.tolist()))
        near = self.tilting(people.groups, kernel.near)
        for kept in KEPT:
            reached = near.squeezed(kept).worst(people.low, base, self.residual * (1 - SPARE))
            hints = upper._replace(population=(reached.slope, *reached.theta.tolist()))
            try:
                if kernel.lower(people, hints) >= kernel.lower(people, upper):
                    return hints
            except BadInput:
                continue
        return upper

    def masses(self, people: Sample, hints: Hints) -> FloatArray:
        """Return the masses of the population that the hints describe, or of the tilted individuals."""
        total = math.fsum(people.weights.tolist())
        if hints.population:
            masses = self.kernel.masses(people, hints)[0]
        else:
            tilts = np.array([tilt for each in self.known for tilt in each.tilt])
            masses = np.exp(_logs(people.weights) + self.tilting(people.groups).exponents(tilts))
        return np.asarray(masses / masses.sum() * total)

    def measured(self, audited: Audited, people: NewPeople, claim: Mapping[str, Any], risk: float) -> list[Index]:
        """Return how far a margin is off, and what is known of the divergence that is left: that of the violation's
        bins, which is at most that of the people themselves. Of a redacted record nothing is known."""
        if audited.x is None:
            return []
        words, n, places = self.words("these people"), len(people), audited.schema.slices
        new = self.kernel.groups(people.x, places)
        shares = [share for each in self.known for share in each.shares]
        counts = np.bincount(new.ravel(), minlength=len(shares) + 1)[:-1]
        ends = [share_bounds(int(count), n, risk / 2 / len(shares)) for count in counts]
        pairs = list(zip(shares, ends, strict=True))
        least = max(max(0.0, low - share, share - high) for share, (low, high) in pairs)
        most = max(max(abs(high - share), abs(share - low)) for share, (low, high) in pairs)
        off = float(np.abs(counts / n - shares).max())
        state: State = "expired" if least > self.tolerance else "holds" if most <= self.tolerance else "not known"
        floor = float(np.sqrt(np.max(np.array(shares) * (1 - np.array(shares))) / n))
        margin = Index(words, "largest error of a margin", off, floor, least, most, self.tolerance, state)
        return [margin, self._left(audited, people, words, risk / 2)]

    def _left(self, audited: Audited, people: NewPeople, words: str, risk: float) -> Index:
        """Return the divergence of the violation's bins from that of the tilted audited people."""
        assert audited.x is not None
        counted = np.flatnonzero(audited.weights > 0)
        cells = self.kernel.groups(audited.x[counted], audited.schema.slices)
        tilts = np.array([tilt for each in self.known for tilt in each.tilt])
        tilted = np.exp(_logs(audited.weights[counted]) + self.tilting(cells).exponents(tilts))
        high = audited.alone.highs(counted)
        edges = bin_edges(high, tilted, 10)
        base = np.bincount(np.minimum(np.searchsorted(edges, high), len(edges) - 1), tilted)
        base = base / base.sum()
        counts = np.bincount(np.minimum(np.searchsorted(edges, people.upper), len(edges) - 1), minlength=len(base))
        shares = counts / len(people)
        estimate = float(sum(q * math.log(q / p) for q, p in zip(shares, base, strict=True) if q > 0))
        lower = 0.0
        for q, p in zip(np.cumsum(shares)[:-1], np.cumsum(base)[:-1], strict=True):  # of two bins: any cut is a bound
            low, most = share_bounds(round(q * len(people)), len(people), risk / len(base))
            near = min(max(p, low), most)
            lower = max(
                lower, near * math.log(near / p) + (1 - near) * math.log((1 - near) / (1 - p)) if near < 1 else 0.0
            )
        state: State = "expired" if lower > self.residual else "not known"
        floor = (len(base) - 1) / (2 * len(people))
        name = "divergence of the violation from the reweighted people's"
        return Index(words, name, max(0.0, estimate), floor, lower, math.inf, self.residual, state)

    def resized(self, size: float) -> Self:
        """Return the populations with another divergence left."""
        return replace(self, residual=size)

    def sizes(self) -> list[float]:
        """Return at most five divergences: 0, .1, .3, its own, twice that."""
        return sorted({0.0, 0.1, 0.3, self.residual, float(f"{2 * self.residual:.6g}")})

    def section(self) -> dict[str, Any]:
        """Return residual, tolerance and margins with their tilts."""
        margins = [
            {
                "feature": each.feature,
                "edges": None if each.edges is None else list(each.edges),
                "shares": list(each.shares),
                "tilt": list(each.tilt),
            }
            for each in self.kernel.margins
        ]
        numbers = {"residual": self.residual, "tolerance": self.tolerance}
        return self._with_strangers({"kind": self.kind, **numbers, "margins": margins})

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        made = kernel.marginals_of(section)
        return cls(made.margins, made.residual, made.strangers, made.tolerance)

    def fingerprint(self) -> str:
        """Return margins, or a hash of the table that has them, and numbers."""
        known = self.known
        if isinstance(known, pd.DataFrame):
            rows = pd.util.hash_pandas_object(known.astype(str), index=False).to_numpy()
            known = f"{list(known.columns)} {hashlib.sha256(rows.tobytes()).hexdigest()}"
        return f"{self.kind} {known!r} {self.residual!r} {self.strangers!r} {self.tolerance!r}"

    # -- words

    @property
    def _features(self) -> str:
        names = [each.feature for each in self.kernel.margins]
        return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 4 else " and ".join(names)

    def words(self, who: str) -> str:
        """Return "population with the known margins of features and a divergence left of at most κ"."""
        return (
            f"population made of {who} with the known margins of {self._features} and a divergence (KL) of at most "
            f"{parameter(self.residual)} left{self.evenly}"
        )

    @property
    def place(self) -> str:
        """Return "with the known margins a population's"."""
        return f"With the known margins and a divergence of {self.residual:g} left a population's"

    @property
    def mean_words(self) -> str:
        """Return the mean with the margins."""
        return "Average largest change with the known margins"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return margins, tolerance, residual and strangers."""
        names = [each.feature for each in self.kernel.margins]
        return [
            ("margins", "Known margins", names, ", ".join(names)),
            ("tolerance", "A share of a margin is off by at most", self.tolerance, None),
            ("residual", "Divergence (KL) left, at most", self.residual, None),
            *self._stranger_terms(),
        ]

    def assumption(self) -> tuple[str, str]:
        """Return which populations the proof covers."""
        return "Populations of known margins", (
            f"These people, reweighted so that the margins of {self._features} are the known ones, each share up to "
            f"{parameter(self.tolerance)}, and further by a Kullback-Leibler divergence of at most "
            f"{parameter(self.residual)} from the smallest reweighting that does it{self.evenly}."
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that the margins are taken as given, and the divergence cannot be seen."""
        return "Margins are taken as given", (
            "The margins are those that were given, and people are these, counted otherwise: others who look alike in "
            "the margins may be treated worse. How large the divergence is that the margins leave open cannot be seen "
            "in the margins; of new people it is only known from below."
        )


def _checked_shares(name: Any, shares: Any) -> dict[Any, float]:
    """Return the margin of a feature, or refuse it."""
    right = "a share >= 0 of each category or bin, which add up to 1"
    if not isinstance(shares, Mapping) or not shares:
        raise ParameterError(template(f"known[{name!r}]", right, shares))
    checked = {key: number(f"known[{name!r}]", share, right, 0.0, FINITE) for key, share in shares.items()}
    if abs(math.fsum(checked.values()) - 1) > 1e-3:
        raise ParameterError(template(f"known[{name!r}]", right, f"a sum of {math.fsum(checked.values()):.6g}"))
    return checked


def _named(feature: Feature, shares: Mapping[Any, float]) -> Margin:
    """Return the margin of a feature whose categories or ends of bins are named."""
    held = np.array(list(shares.values()))
    if feature.kind in ("numeric", "integer"):
        right = "upper ends of bins as numbers that differ, the last one inf"
        try:
            ends = np.array([float(key) for key in shares])
        except (TypeError, ValueError):
            raise ParameterError(template(f"known[{feature.name!r}]", right, list(shares))) from None
        order = np.argsort(ends)
        if not (np.diff(ends[order]) > 0).all() or ends.max() != math.inf:
            raise ParameterError(template(f"known[{feature.name!r}]", right, list(shares)))
        return _margin(feature.name, tuple(feature.coordinate(ends[order][:-1]).tolist()), held[order])
    coding, column = Coding(feature), pd.Series(list(shares), dtype=object, name=feature.name)
    x, bad = encode_column(column, coding)
    if bad.any():
        named = column[int(np.argmax(bad))]
        raise ParameterError(template(f"known[{feature.name!r}]", f"shares of {', '.join(feature.levels)}", named))
    if feature.kind == "categorical":
        return _margin(feature.name, None, held @ x)
    places, which = np.unique(x[:, 0], return_inverse=True)
    return _margin(feature.name, tuple(places[:-1].tolist()), np.bincount(which.reshape(-1), held).astype(np.float64))


def _margin(name: str, edges: tuple[float, ...] | None, held: FloatArray) -> Margin:
    """Return a margin by what cells hold, without tilts."""
    shares = np.minimum(held / held.sum(), 1.0)
    return Margin(name, edges, tuple(shares.tolist()), (0.0,) * len(shares))


def _logs(weights: FloatArray) -> FloatArray:
    """Return the logarithms (n,) of shares by weight."""
    scaled = weights / weights.max()
    return np.asarray(np.log(np.maximum(scaled, 1e-300)) - math.log(math.fsum(scaled.tolist())))
