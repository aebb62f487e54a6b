"""How far two populations are apart, in the ground cost of a certificate.

Between small samples in many dimensions a Wasserstein distance is mostly noise, so it never comes alone: beside the
*estimate* stands the *floor*, what two samples of one and the same population are apart, and a *lower* confidence
bound of the distance between the populations themselves. A certificate for shifts up to gamma has expired when that
bound exceeds gamma.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isonomy.arithmetic import FloatArray, at_least, parameter, reached
from isonomy.errors import DataError, NotANumberError, ParameterError, template
from isonomy.given import number, numbers, whole
from isonomy.population import Population
from isonomy.shift.lower import NO_PROOF, Rows, lower_bound
from isonomy.shift.transport import GroundCost, exact
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.metric import Metric, overlaps

Pair = tuple[Rows, Rows]

_LARGEST_ORDER = 100.0  # beyond, powers of costs vanish in float64


@dataclass(frozen=True)
class Distance:
    """``W_order`` of two populations under a ground cost.

    * ``estimate``: the mean distance of ``repeats`` pairs of subsamples, of ``individuals`` each; ``spread`` is their
      standard deviation (0 when whole tables were compared). Biased upwards by about the floor.
    * ``floor``: the same between samples of one population, of the same sizes, with its ``floor_spread``;
      ``floor_of`` says of which: one of the two where it is large enough, else both pooled.
    * ``lower``: at most the true distance with probability at least ``confidence``; ``evidence`` says by what.
    """

    estimate: float
    spread: float
    floor: float
    floor_spread: float
    floor_of: str
    lower: float
    evidence: str
    confidence: float
    order: float
    ground: str
    n_one: int
    n_other: int
    individuals: tuple[int, int]

    def __str__(self) -> str:
        sure = f"with confidence {parameter(self.confidence)}"
        proved = f"the populations are at least {reached(at_least(self.lower))} apart {sure}"
        if self.evidence.startswith(NO_PROOF):
            proved = f"of the populations themselves it proves {self.evidence}"
        elif not self.shown:
            proved = f"that the populations differ at all is not shown {sure}"
        order = "∞" if self.order == math.inf else f"{self.order:g}"
        sizes = f"{self.individuals[0]:,} of {self.n_one:,} and {self.individuals[1]:,} of {self.n_other:,} individuals"
        return (
            f"W_{order} distance under {self.ground}: {self.estimate:.4g} between samples ({sizes}), where "
            f"samples of one population are {self.floor:.4g} ± {self.floor_spread:.2g} apart; {proved}."
        )

    @property
    def shown(self) -> bool:
        """Say whether the populations differ, with confidence: the lower bound is above 0."""
        return self.lower > 0.0

    @property
    def whole(self) -> bool:
        """Say whether the whole tables were compared."""
        return self.individuals == (self.n_one, self.n_other)


def wasserstein(
    one: Population | ArrayLike,
    other: Population | ArrayLike,
    *,
    order: float = 1.0,
    ground: Ground = "l2",
    sample: int = 2000,
    repeats: int = 3,
    confidence: float = 0.95,
    seed: int = 0,
    max_weight: float | None = None,
) -> Distance:
    """Return the Wasserstein distance ``W_p(P, Q) = (min E c(x, y)^p)^(1/p)`` over couplings of two populations, ``c``
    the ``ground`` cost (see :class:`isonomy.Transport`).

    ``one`` and ``other`` are populations of one schema, or arrays of individuals. ``order`` is any number from 1 to
    100, or infinity: the bottleneck distance. At most ``sample`` individuals of each are compared at a time,
    ``repeats`` times for the floor; ``lower`` holds with ``confidence``, and ``seed`` decides what is drawn.

    Sampling weights are respected: the populations are those that the weights stand for. ``max_weight`` is the largest
    weight that can occur in either, known beforehand (of a survey, from its description); by default it is that of the
    tables' schemas. Without it a table with a weight column gets an estimate but no ``lower``, since an individual
    who was not drawn might weigh more than all who were; weights cut at a limit make another population, and are the
    caller's to cut.

    In a realizable domain another category costs what the norm of the one-hot coordinates says: 2 (l1), √2 (l2),
    1 (linf).

    **Soundness.** ``lower`` assumes that the rows of each table are independent draws (a person with a weight), that
    the tables are independent of each other (or, without weights of 0, paired row by row: the same people twice),
    that no weight above ``max_weight`` can occur, and that the ground metric was not fitted on them; see
    ``isonomy.shift.lower``. It holds on every domain, bounded or not. ``estimate`` and ``floor`` are
    estimates and prove nothing.
    """
    left, right, names = _tables(one, other, max_weight)
    metric = ground_metric(ground, left.x.shape[1], names)
    cost = GroundCost.of(metric)
    _check(order, sample, repeats, confidence, seed)
    streams = np.random.default_rng(seed).spawn(3)
    sizes = (min(sample, len(left)), min(sample, len(right)))
    pairs = [(left, right)]
    if sizes != (len(left), len(right)):
        pairs = [(_draw(left, sizes[0], streams[0]), _draw(right, sizes[1], streams[0])) for _ in range(repeats)]
    distances = [_distance(pair, cost, float(order)) for pair in pairs]
    source, same = _same_population(left, right, sizes)
    floors = [_distance(pair, cost, float(order)) for pair in _splits(same, sizes, repeats, streams[1])]
    refused = _refusal(one, other, metric, max_weight)
    lower, evidence = 0.0, f"{NO_PROOF}, since {refused}"
    if not refused:
        lower, evidence = lower_bound(left, right, cost, float(order), sample, 1.0 - confidence, streams[2])
    return Distance(
        estimate=float(np.mean(distances)), spread=float(np.std(distances)), floor=float(np.mean(floors)),
        floor_spread=float(np.std(floors)), floor_of=source, lower=lower, evidence=evidence,
        confidence=float(confidence), order=float(order), n_one=len(left), n_other=len(right), individuals=sizes,
        ground=ground if isinstance(ground, str) else metric.describe(),
    )  # fmt: skip


def _distance(pair: Pair, cost: GroundCost, order: float) -> float:
    first, second = pair
    costs = cost.between(cost.places(first.x), cost.places(second.x))
    distance = exact(costs, first.weights, second.weights, order) if np.isfinite(costs).all() else math.inf
    if not math.isfinite(distance):
        raise NotANumberError(
            "The distance is beyond all numbers: give individuals whose coordinates are closer together."
        )
    return distance


def _draw(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    return rows[rng.permutation(len(rows))[:size]]


def _same_population(one: Rows, other: Rows, sizes: tuple[int, int]) -> tuple[str, list[Rows]]:
    """Return the tables that hold two disjoint samples of these sizes, else both pooled with equal total weight."""
    large = {name: rows for name, rows in (("one", one), ("other", other)) if len(rows) >= sum(sizes)}
    if large:
        return " and ".join(large), list(large.values())
    weights = np.concatenate([one.shares * len(one), other.shares * len(other)])
    return "both pooled", [Rows(np.concatenate([one.x, other.x]), weights)]


def _splits(tables: list[Rows], sizes: tuple[int, int], repeats: int, rng: np.random.Generator) -> Iterator[Pair]:
    """Yield disjoint samples of the given sizes, from each table in turn."""
    for i in range(repeats):
        mixed = _draw(tables[i % len(tables)], sum(sizes), rng)
        yield mixed[: sizes[0]], mixed[sizes[0] :]


def _refusal(one: object, other: object, ground: Metric, max_weight: float | None) -> str:
    """Return why nothing can be proved of the populations behind the tables, if that is known."""
    for name, people in (("one", one), ("other", other)):
        if not isinstance(people, Population):
            continue
        if people.schema.weight is not None and _limit(people, max_weight) is None:
            return (
                f"the sampling weights of '{name}' (column {people.schema.weight!r}) have no known limit: give the "
                "largest that can occur as 'max_weight', here or in the schema"
            )
        if people.repeated:
            return f"rows of '{name}' occur more than once: they are no independent draws"
        if overlaps(ground, people):
            return f"the ground metric was fitted on {ground.fitted_on}, people of '{name}': fit it on others"
    return ""


def _limit(people: Population, max_weight: float | None) -> float | None:
    return people.schema.max_weight if max_weight is None else max_weight


def _tables(
    one: Population | ArrayLike, other: Population | ArrayLike, max_weight: float | None
) -> tuple[Rows, Rows, tuple[str, ...]]:
    if isinstance(one, Population) and isinstance(other, Population) and one.schema.hash() != other.schema.hash():
        raise DataError(
            f"'one' and 'other' must share one schema, or their coordinates mean different things. Got "
            f"{one.schema.name!r} and {other.schema.name!r}, which differ."
        )
    if max_weight is not None and not 0.0 < max_weight < math.inf:
        raise ParameterError(template("max_weight", "a positive number", max_weight))
    left, right = _rows("one", one, max_weight), _rows("other", other, max_weight)
    if left.x.shape[1] != right.x.shape[1]:
        expected = f"individuals of {left.x.shape[1]} coordinates, as 'one' has"
        raise ParameterError(template("other", expected, f"{right.x.shape[1]} coordinates"))
    named = next((people for people in (one, other) if isinstance(people, Population)), None)
    return left, right, () if named is None else named.schema.coordinate_names


def _rows(parameter: str, people: Population | ArrayLike, max_weight: float | None) -> Rows:
    """Return the individuals of positive weight, scaled so that the largest weight that can occur is 1.

    Where none is known, the largest weight is: good enough for an estimate.
    """
    if isinstance(people, Population):
        positive = people.weights > 0.0
        if not positive.any():
            raise DataError(f"All sampling weights of '{parameter}' are zero; at least one must be positive.")
        weights = people.weights[positive]
        largest = float(weights.max())
        limit = None if people.schema.weight is None else _limit(people, max_weight)
        if limit is not None and largest > limit:
            expected = f"at least {largest:g}, a weight of '{parameter}', since no larger one than it can occur"
            raise ParameterError(template("max_weight", expected, limit))
        return Rows(people.x[positive], np.asarray(weights / (limit or largest)))
    x: FloatArray = numbers(parameter, people, "a population or a matrix of numbers")
    if x.ndim != 2 or 0 in x.shape:
        raise ParameterError(
            template(parameter, "a population or a matrix with a row per individual", f"shape {x.shape}")
        )
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0].tolist()
        raise DataError(f"'{parameter}' must be finite: row {row}, coordinate {column} is {x[row, column]}.")
    return Rows(x, np.ones(len(x)))


def _check(order: float, sample: int, repeats: int, confidence: float, seed: int) -> None:
    right = f"a number from 1 to {_LARGEST_ORDER:g}, or infinity"
    if _LARGEST_ORDER < number("order", order, right, 1.0) < math.inf:
        raise ParameterError(template("order", right, order))
    for name, value, least in (("sample", sample, 2), ("repeats", repeats, 1), ("seed", seed, 0)):
        whole(name, value, least)
    number("confidence", confidence, "a number between 0 and 1", 0.0, 1.0, strict=True)
