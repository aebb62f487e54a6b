"""Mix: groups of the individuals in other shares, each group as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.indices import Audited, Index, NewPeople, State
from isonomy.certificates.reweighting import Reweighting, checked_strangers
from isonomy.confidence import refuted_mean, share_bounds
from isonomy.errors import ParameterError, template
from isonomy.population import Schema
from isonomy_verify import reweighting as kernel
from isonomy_verify.arithmetic import mean_down, mean_up, rounded_down
from isonomy_verify.reweighting import Hints, Sample
from isonomy_verify.sampling import share_up

WITHIN = "Shares of groups alone are measured: that people within a group are as they were is never shown."

Limits = Mapping[Any, tuple[float, float]] | tuple[tuple[float, float], ...] | None


@dataclass(frozen=True)
class Mix(Reweighting):
    """Every mixture of the groups of the individuals by some ``features``: shares of groups move, people within a group
    stay as they are.

    Shares move freely, or within ``limits``: a mapping from a group, a category or a tuple of one of each feature, to
    its least and largest share; groups that it does not name move freely. As a tuple it has one pair for each group,
    in the order of their coordinates. A share of at most ``strangers`` may be other people.
    """

    kind: ClassVar[str] = "mix"
    noun: ClassVar[str] = "mix"
    covered: ClassVar[str] = "mixtures of groups"
    size_name: ClassVar[str] = "strangers"
    uncomposed: ClassVar[str] = ""
    span: ClassVar[tuple[float, float]] = (0.0, 1 - 2.0**-20)
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Mixtures of groups",
        "Strangers, at most",
        "The certificate is about other shares of the groups of these people; each group stays as it is.",
    )

    features: tuple[str, ...]
    limits: Limits = None
    strangers: float = 0.0

    def __post_init__(self) -> None:
        names = (self.features,) if isinstance(self.features, str) else self.features
        right = "names of features, each once"
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ParameterError(template("features", right, self.features))
        if not names or len(set(names)) < len(names):
            raise ParameterError(template("features", right, list(names)))
        object.__setattr__(self, "features", tuple(names))
        object.__setattr__(self, "strangers", checked_strangers(self.strangers))
        if isinstance(self.limits, Mapping):
            object.__setattr__(self, "limits", {key: tuple(pair) for key, pair in self.limits.items()})
        elif self.limits is not None:
            object.__setattr__(self, "limits", tuple((float(low), float(high)) for low, high in self.limits))
        pairs = (
            []
            if self.limits is None
            else [*(self.limits.values() if isinstance(self.limits, Mapping) else self.limits)]
        )
        for pair in pairs:
            if (
                len(pair) != 2
                or not all(isinstance(end, int | float) for end in pair)
                or not 0 <= pair[0] <= pair[1] <= 1
            ):
                raise ParameterError(
                    template("limits", "a least and a largest share, from 0 to 1, of each group", pair)
                )

    __hash__ = None  # type: ignore[assignment]

    @property
    def kernel(self) -> kernel.Mix:
        """Return features, limits and strangers."""
        if isinstance(self.limits, Mapping):
            raise ParameterError("'limits' of named groups need individuals with a schema.")
        try:
            return kernel.Mix(self.features, self.limits, self.strangers)
        except ValueError as error:
            raise ParameterError(str(error)) from None

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the features, unless shares have limits."""
        return () if self.limits is not None else self.features

    def groups(self, x: FloatArray, schema: Schema | None) -> NDArray[np.intp] | None:
        """Return the groups (n,) by the features."""
        if schema is None:
            raise ParameterError("A mix of groups needs individuals with a schema: certify a Population.")
        known = {each.name: each for each in schema.features}
        for name in self.features:
            if name not in known or not known[name].categories:
                some = ", ".join(each.name for each in schema.features if each.categories)
                raise ParameterError(template("features", f"features with categories ({some})", name))
        return kernel.groups_of(x, schema.slices, self.features)

    def resolved(self, x: FloatArray, schema: Schema | None, weights: FloatArray) -> Self:
        """Return the mix with limits in the order of the groups."""
        if not isinstance(self.limits, Mapping):
            return self
        groups = self.groups(x, schema)
        assert groups is not None and schema is not None
        first = np.unique(groups, return_index=True)[1]
        frame = schema.decode(np.asarray(x)[first], only=self.features)
        present = [tuple(map(str, row)) for row in frame[list(self.features)].itertuples(index=False)]
        named = {
            tuple(map(str, key)) if isinstance(key, tuple) else (str(key),): pair for key, pair in self.limits.items()
        }
        unknown = next((key for key in named if key not in present), None)
        if unknown is not None:
            raise ParameterError(template("limits", "of groups that are among the individuals", ", ".join(unknown)))
        return replace(self, limits=tuple(named.get(group, (0.0, 1.0)) for group in present))

    def hints(self, people: Sample) -> Hints:
        """Return the level of the group that has a share between its limits, and the worst shares."""
        count = int(people.groups.max()) + 1
        limits = self.kernel.limits or ((0.0, 1.0),) * count
        if len(limits) != count:
            raise ParameterError(template("limits", f"a pair for each of the {count} groups", len(limits)))
        sides = [
            [mean(values[people.groups == group], people.weights[people.groups == group]) for group in range(count)]
            for mean, values in ((mean_up, people.high), (mean_down, people.low))
        ]
        (level, _), (_, shares) = (_knapsack(means, limits) for means in sides)
        return Hints((level,), shares)

    def hints_behind(self, people: Sample, most: float, risk: float, counts: bool) -> tuple[float, ...]:
        """Return the level of the group that has a share between its limits, and means of groups that are refuted."""
        count = int(people.groups.max()) + 1
        each = (people.high[people.groups == group] for group in range(count))
        means = [
            share_up(int(some.sum()), len(some), risk / count) if counts else refuted_mean(some, most, risk / count)
            for some in each
        ]
        return _knapsack(means, self.kernel.limits or ((0.0, 1.0),) * count)[0], *means

    def masses(self, people: Sample, hints: Hints) -> FloatArray:
        """Return the individuals' weights, those of a group times its new share over its old one."""
        held = np.bincount(people.groups, people.weights)
        return np.asarray(people.weights * (np.array(hints.population) * held.sum() / held)[people.groups])

    def measured(self, audited: Audited, people: NewPeople, claim: Mapping[str, Any], risk: float) -> list[Index]:
        """Return the share of people of groups that are not among the audited ones; limits on shares count too. Of a
        redacted record, which does not tell groups, nothing."""
        if audited.x is None:
            return []
        places, n = audited.schema.slices, len(people)
        columns = np.concatenate([np.arange(places[name].start, places[name].stop) for name in self.features])
        known = np.unique(audited.x[audited.weights > 0][:, columns], axis=0)
        each = [int((people.x[:, columns] == group).all(axis=1).sum()) for group in known]
        least, most = share_bounds(n - sum(each), n, risk / (len(each) + 1))
        ends = [share_bounds(count, n, risk / (len(each) + 1)) for count in each]
        pairs = list(zip(ends, self.kernel.limits or ((0.0, 1.0),) * len(each), strict=True))
        outside = any(high < limit[0] or low > limit[1] for (low, high), limit in pairs)
        inside = all(low >= limit[0] and high <= limit[1] for (low, high), limit in pairs)
        possible = math.prod(len(each.levels) for each in audited.schema.features if each.name in self.features)
        state: State = "not known"
        if outside or least > self.strangers:
            state = "expired"
        elif inside and (most <= self.strangers or len(known) == possible):
            state = "holds"
        name = "share of people of groups that were not audited"
        note = WITHIN if state == "holds" else ""
        return [
            Index(self.words("these people"), name, 1 - sum(each) / n, 0.0, least, most, self.strangers, state, note)
        ]

    def resized(self, size: float) -> Self:
        """Return the mix with another share of strangers."""
        return replace(self, strangers=size)

    @property
    def size(self) -> float:
        """Return the share of strangers."""
        return self.strangers

    def sizes(self) -> list[float]:
        """Return shares of strangers: none, one and five per cent, its own."""
        return sorted({0.0, 0.01, 0.05, self.strangers})

    def section(self) -> dict[str, Any]:
        """Return features and limits."""
        limits = self.kernel.limits
        given = None if limits is None else [list(pair) for pair in limits]
        return self._with_strangers({"kind": self.kind, "features": list(self.features), "limits": given})

    def fingerprint(self) -> str:
        """Return features, limits and strangers."""
        return f"{self.kind} {self.features!r} {self.limits!r} {self.strangers!r}"

    def words(self, who: str) -> str:
        """Return "mix of the groups of the individuals by features"."""
        within = "" if self.limits is None else " within the limits"
        names = " and ".join(name.replace("_", " ") for name in self.features)
        return f"mix of the groups of {who} by {names}{within}{self.evenly}"

    @property
    def place(self) -> str:
        """Return "in a mix of the groups of the individuals the"."""
        return f"In a mix of the individuals' groups by {' and '.join(self.features)} the"

    @property
    def mean_words(self) -> str:
        """Return the mean of the worst mix."""
        return "Average largest change of the worst mix"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return features, limits and strangers."""
        shares = "any shares" if self.limits is None else "shares within limits"
        return [("mix", "Groups that mix", list(self.features), f"{', '.join(self.features)}: {shares}"),
                ("strangers", "Strangers, at most", self.strangers, None)]  # fmt: skip

    def assumption(self) -> tuple[str, str]:
        """Return which populations the proof covers."""
        shares = "any shares" if self.limits is None else "shares within the given limits"
        return "Mixtures of groups", (
            f"The groups of these people by {' and '.join(self.features)}, in {shares}; within a group the people "
            f"stay as they are{self.evenly}."
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that groups are taken as they are."""
        return "Groups stay as they are", (
            "A mix changes how many people are in each group, not who they are: other people of a group may be treated "
            "worse, and so may groups that are not among these people."
        )


def _knapsack(means: list[float], limits: tuple[tuple[float, float], ...]) -> tuple[float, tuple[float, ...]]:
    """Return the mean at which the shares add up to 1 when the largest means are filled first, and these shares."""
    shares = [Fraction(low) for low, _ in limits]
    left, level = 1 - sum(shares), min(means)
    for group in sorted(range(len(means)), key=lambda group: -means[group]):
        more = min(Fraction(limits[group][1]) - shares[group], left)
        if left > 0:
            level = means[group]
        shares[group], left = shares[group] + more, left - more
    return level, tuple(max(rounded_down(share), limits[group][0]) for group, share in enumerate(shares))
