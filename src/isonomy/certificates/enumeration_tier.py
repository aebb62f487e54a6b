"""The tier of models of which only predictions are known: everybody similar is listed, asked about, and compared.

The bounds are the kernel's (:mod:`isonomy_verify.enumeration`), of the very predictions; here the model is asked, and
what would be too much is refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget, Finds
from isonomy.certificates.protocol import Nearby, Tier, register
from isonomy.enumeration import ADVICE, Enumeration
from isonomy.errors import ParameterError
from isonomy.population.outcome import favourable_places
from isonomy.problem import Problem
from isonomy.progress import Progress
from isonomy.search.branch import Limits
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Similarity, refused
from isonomy_verify import similar
from isonomy_verify.enumeration import (
    EndlessError,
    PredictionBounds,
    PredictionReach,
    count_candidates,
    distinct,
    similar_people,
)
from isonomy_verify.heads import Head
from isonomy_verify.models import Known

if TYPE_CHECKING:
    from isonomy.certificates.certificate import Certificate
    from isonomy.certificates.local import LocalCertificate

LISTED = 2**24
"""People who may be looked at for one block of individuals."""


class EnumerationTier(Tier):
    """The kernel's listing for a problem about a model that can only be asked; the same for every name of a tier."""

    size, bounds_everybody, moves_freely = 512, False, False

    def __init__(self, problem: Problem, tier: str, float32_run: bool) -> None:
        assert isinstance(problem.model, Enumeration)
        self.problem, self.model, outcome = problem, problem.model, problem.outcome
        favourable = favourable_places(outcome)
        one = favourable[0] if len(favourable) == 1 and favourable[0] in (0, 1) else 1  # of several classes no matter
        self.head = Head(self.model.head, self.model.classes, outcome.threshold, False, one)
        if problem.domain.kind != "realizable":
            raise self.model.unsupported(f"bounds on the {problem.domain.kind} domain: people are listed one by one")

    def chunk(self, x: FloatArray) -> Known:
        """Ask about everybody similar to the rows of ``x``, and compare."""
        return self.kernel_bounds_of(self.everybody(x)).chunk(x)

    def kernel_bounds(self) -> PredictionBounds:
        """Return the kernel's bounds, of the predictions that are kept."""
        table = self.model.table
        assert table is not None
        return PredictionBounds(table, self.head, self.problem.similarity.kernel)

    def recorded(self, certificate: Certificate, others: Sequence[LocalCertificate] = ()) -> Enumeration:
        """Return the model of nothing but the predictions that the certificate, and answers to others, rest on."""
        x, profiles = certificate.x, certificate.profiles
        people = [x, self.everybody(x)]
        people += [
            each for some in (certificate.points, certificate.turned) for each in (some.person, some.counterpart)
        ]
        people += [EnumerationTier(each.problem, "", False).everybody(x) for each in others]
        ground = certificate.shift.ground_cost
        if ground is not None:
            reach = self.reach(ground)
            furthest = np.maximum.reduceat(
                np.where(np.isfinite(profiles.source), profiles.source, 0.0), profiles.start[:-1]
            )
            furthest = np.maximum(furthest, certificate.radii)
            for radius in np.unique(furthest[furthest > 0] if reach.is_norm else furthest):
                near = reach.people(np.array(x[furthest == radius]), float(radius))
                people += [near, self.everybody(near)]
        return self.model.kept_for(np.concatenate(people))

    def reach(self, ground: Metric) -> EnumerationReach:
        """Return bounds over balls, by listing everybody within a radius."""
        return EnumerationReach(self, ground)

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Return the worst of everybody similar: nothing is searched for.

        **Soundness.** A counterpart is one whose distance, rounded up, is at most ``δ``.
        """
        bounds = self.kernel_bounds_of(self.everybody(x))
        at, problem = bounds.enclose(x), self.problem
        mine = self.head.decision(at)
        finds = Finds(np.zeros(len(x)), np.array(x), np.zeros(len(x), dtype=bool), np.array(x))
        best = np.zeros(len(x))  # of a flip
        with self._refused():
            for owner, y in self.candidates(x):
                sure = np.flatnonzero(problem.metric.distance_upper(x[owner], y) <= problem.delta)
                owner, y = owner[sure], y[sure]
                over = bounds.enclose(y)
                value, theirs = self.head.attained(at.of(owner), over), self.head.decision(over)
                _take_best(finds.lower, finds.counterpart, owner, value, y)
                flips = np.flatnonzero((mine[owner] >= 0) & (theirs >= 0) & (theirs != mine[owner]))
                finds.flips[owner[flips]] = True
                _take_best(best, finds.flip_counterpart, owner[flips], value[flips] + 1.0, y[flips])
        return finds

    def candidates(self, x: FloatArray) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield owners and people among whom the worst is taken: everybody similar."""
        yield from similar_people(self.problem.similarity.kernel, x)

    def nearby(self, x: FloatArray) -> Nearby:
        """Return the search for the worst of everybody within a ball."""
        return self._best_within(x, lambda known, cost: known.upper)

    def turning(self, x: FloatArray) -> Nearby:
        """Return the search for the nearest of everybody within a ball whose decision can change."""
        return self._best_within(x, lambda known, cost: np.where(known.kept, -1.0, 1 / (1 + cost)))

    def _best_within(self, x: FloatArray, score: Callable[[Known, FloatArray], FloatArray]) -> Nearby:
        """Return the search for those of everybody within a ball whose score, by what is known of them and what they
        cost, is largest."""

        def candidates(rows: NDArray[np.int64], ball: Similarity, budget: AttackBudget) -> FloatArray:
            some, best = np.array(x[rows]), np.full(len(rows), -1.0)
            person = some.copy()
            with self._refused():
                for owner, z in similar_people(ball.kernel, some):
                    cost = ball.metric.distance_upper(some[owner], z)
                    within = np.flatnonzero(cost <= ball.delta)
                    if len(within):
                        unique, back = distinct(z[within])
                        known = self.chunk(unique)
                        known = Known(known.upper[back], known.kept[back])
                        _take_best(best, person, owner[within], score(known, cost[within]), z[within])
            return person

        return candidates

    def close_gaps(
        self, x: FloatArray, upper: FloatArray, finds: Finds, limits: Limits, began: float, tick: Progress
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the bounds as they are, which everybody similar attains; those go to ``finds``."""
        for start in range(0, len(x), self.size):
            self._find(x, np.arange(start, min(start + self.size, len(x))), finds)
        return upper, np.zeros(len(x), dtype=bool)

    def decide(self, x: FloatArray, certified: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Find who has another decision, where no search did."""
        rows = np.flatnonzero(~certified & ~finds.flips)
        for start in range(0, len(rows), self.size):
            self._find(x, rows[start : start + self.size], finds)

    def _find(self, x: FloatArray, rows: NDArray[np.int64], finds: Finds) -> None:
        best = self.attack(np.array(x[rows]), AttackBudget())
        for part in ("lower", "counterpart", "flips", "flip_counterpart"):
            getattr(finds, part)[rows] = getattr(best, part)

    def everybody(self, x: FloatArray) -> FloatArray:
        """Return everybody similar to the rows of ``x``, each once."""
        people = [np.array(x)]
        for start in range(0, len(x), self.size):
            some = np.array(x[start : start + self.size])
            people += [y for _, y in self.listed(self.problem.similarity.kernel, some)]
            people = [distinct(np.concatenate(people))[0]]
        return people[0]

    def listed(self, who: similar.Similarity, x: FloatArray) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield owners and people of ``who`` is similar to the rows of ``x``; refuse too many of them beforehand."""
        with self._refused():
            count = count_candidates(who, x)
            if count > LISTED:
                raise ParameterError(
                    f"'{self.model.name}' would have to be asked about up to {count:,} people for {len(x):,} "
                    f"individuals, and at most {LISTED:,} are looked at: {ADVICE}."
                )
            yield from similar_people(who, x)

    def kernel_bounds_of(self, people: FloatArray) -> PredictionBounds:
        """Return the kernel's bounds of the predictions of ``people``, who are asked about."""
        kept = self.model.kept_for(people).table
        assert kept is not None
        return PredictionBounds(kept, self.head, self.problem.similarity.kernel)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Raise what cannot be listed as an error that names the feature."""
        try:
            with refused():
                yield
        except EndlessError as error:
            if error.coordinate:
                raise ParameterError(
                    f"'{self.model.name}' can only be asked about people one by one, and similar people take "
                    f"infinitely many values of '{self._feature(error.coordinate)}': declare it an integer with "
                    "a range, or let it agree (no tolerance, neither protected nor a proxy, a metric that demands it)."
                ) from None
            raise ParameterError(
                f"'{self.model.name}' would have to be asked about {error.count:,.0f} people for one individual: "
                f"{ADVICE}."
            ) from None

    def _feature(self, coordinate: str) -> str:
        """Return the feature of a coordinate."""
        names = self.problem.domain.names
        if self.problem.schema is None or coordinate not in names:
            return coordinate
        place = names.index(coordinate)
        slices = self.problem.schema.slices.items()
        return next((name for name, where in slices if where.start <= place < where.stop), coordinate)


class EnumerationReach:
    """Bounds over balls of a ground cost: everybody within a radius is listed, and everybody similar to them."""

    def __init__(self, tier: EnumerationTier, ground: Metric) -> None:
        self.tier, self.ground, domain = tier, ground, tier.problem.domain
        self.free = replace(domain, immutable=np.zeros(domain.width, dtype=bool))
        self.is_norm, self.single_radius, self.own_passes = similar.is_norm(ground.form), True, True

    def people(self, x: FloatArray, radius: float) -> FloatArray:
        """Return everybody within a radius of the rows of ``x``, each once."""
        ball = similar.Similarity(self.ground.form, radius, self.free, self.tier.problem.max_branches)
        near = [z for _, z in self.tier.listed(ball, x)]
        return distinct(np.concatenate([x, *near]))[0]

    def bound(self, x: FloatArray, radii: Sequence[float], tight: bool = True, size: int = 1024) -> FloatArray:
        """Return upper bounds (n, radii) of the violation within each of the ascending ``radii``."""
        near = self.people(x, radii[-1])
        bounds = self.tier.kernel_bounds_of(np.concatenate([near, self.tier.everybody(near)]))
        return PredictionReach(bounds, self.ground.form).bound(x, radii, tight, size)

    def stands(self, x: FloatArray, radius: float, margin: float = 0.0, size: int = 1024) -> NDArray[np.bool_]:
        """Return whether (n,) each person within the radius has the decision of everybody similar; that of no one where
        there would be too many to ask about."""
        try:
            near = self.people(x, radius)
            bounds = self.tier.kernel_bounds_of(np.concatenate([near, self.tier.everybody(near)]))
        except ParameterError:
            return np.zeros(len(x), dtype=bool)
        return PredictionReach(bounds, self.ground.form).stands(x, radius, margin, size)

    def everywhere(self, x: FloatArray) -> tuple[float, float]:
        """Return the largest violation that there can be."""
        return self.tier.head.largest, np.inf


def _take_best(
    best: FloatArray, person: FloatArray, owner: NDArray[np.int64], value: FloatArray, people: FloatArray
) -> None:
    """Put the largest ``value`` of each owner into ``best``, and whose it is into ``person``, where it is larger."""
    order = np.lexsort((value, owner))
    last = order[np.append(owner[order][1:] != owner[order][:-1], True)] if len(order) else order
    rise = last[value[last] > best[owner[last]]]
    best[owner[rise]], person[owner[rise]] = value[rise], people[rise]


register("enumeration", EnumerationTier)
