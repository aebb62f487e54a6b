"""Any model whose similar people are finitely many: all of them are listed, and what it predicted for each is kept.

Problem, for each individual ``x``: list every ``y in X`` with ``d(x, y) ≤ δ``. Categories, missing values and whole
numbers have finitely many values within the box of a region (:meth:`isonomy_verify.similar.Similarity.regions`); a real
number is finite only where it cannot move, or is missing. The violation is then the largest change between ``x`` and
those in the list, by the kept predictions.

**Soundness.** Regions cover the similar set. Within a region every combination of values in its box is listed, lattice
points up to the margin of the regions themselves; one is dropped only where it is no possible individual, or where its
distance is proved to be above ``δ``. A listed person without a kept prediction is an error. The bounds are those of the
function that gave the predictions, of which nothing else is known: they hold *given these predictions*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.models import PARTS, Bounds, Known, Model
from isonomy_verify.record import Record
from isonomy_verify.sets import Regions
from isonomy_verify.similar import Similarity, filled, is_norm, lattice_ends
from isonomy_verify.text import BadInput, need
from isonomy_verify.tiers import Enclosure

MOST_LISTED = 2**22
"""People who may be listed for one choice of categories."""

LISTED_NUMBERS = 2**26
"""People who may be kept in one table."""

LISTED_ROWS = 2**21
"""Numbers of people who are listed at a time."""

SUM = 1e-6
"""How far from 1 the kept probabilities of several classes may add up to."""

Index = NDArray[np.int64]


class EndlessError(ValueError):
    """Similar people who are not finitely many, or too many: ``coordinate`` says which one moves, ``count`` how many
    there would be."""

    def __init__(self, coordinate: str, count: float) -> None:
        self.coordinate, self.count = coordinate, count
        much = f"'{coordinate}' takes infinitely many values" if coordinate else f"there are {count:,.0f} of them"
        super().__init__(f"similar people cannot be listed: {much}")


class _Axis(NamedTuple):
    """One coordinate or block: how many values it takes in each region (r,), and which; ``start`` to ``stop`` are its
    coordinates, ``values`` (r, most, stop - start) what they are."""

    start: int
    stop: int
    options: Index
    values: Array


def similar_people(similarity: Similarity, x: Array) -> Iterator[tuple[Index, Array]]:
    """Everybody similar to individuals ``x`` (n, m), as (owner, people), some at a time.

    **Soundness.** See the module. The individual itself is always among them.
    """
    domain = similarity.domain
    for regions, axes, total in _counted(similarity, x):
        for owner, y in _listed(regions, axes, total, max(1, LISTED_ROWS // domain.width)):
            near = similarity.form.distance_lower(x[owner], y) <= similarity.delta
            kept = np.flatnonzero(near & domain.allows(x[owner], y))
            yield owner[kept], y[kept]


def count_candidates(similarity: Similarity, x: Array) -> int:
    """How many people :func:`similar_people` looks at, for individuals ``x`` (n, m)."""
    return sum(int(total.sum()) for _, _, total in _counted(similarity, x))


def _counted(similarity: Similarity, x: Array) -> Iterator[tuple[Regions, list[_Axis], Index]]:
    """Regions with what moves in them, and how many combinations there are (r,)."""
    domain = similarity.domain
    if domain.kind != "realizable":
        raise EndlessError(domain.names[0], np.inf)
    for regions in similarity.each(x):
        regions = filled(regions, domain)
        axes = _axes(regions, domain)
        total = np.prod([np.ones(len(regions)), *(axis.options for axis in axes)], axis=0)
        if (total > MOST_LISTED).any():
            raise EndlessError("", float(total.max()))
        yield regions, axes, total.astype(np.int64)


def _axes(regions: Regions, domain: Domain) -> list[_Axis]:
    """What moves in regions, one axis each; what does not is as in the centre."""
    low, high = (np.broadcast_to(side, regions.centre.shape) for side in (regions.sets.low, regions.sets.high))
    moves = ((low != 0.0) | (high != 0.0)).any(axis=0)
    axes, flags = [], {value: (flag, fill) for flag, value, fill in domain.fills}
    for start, stop in domain.blocks:
        if moves[start:stop].any():
            corners = np.eye(stop - start) if stop - start > 1 else np.array([[0.0], [1.0]])
            ends = (regions.centre + side for side in (low, high))
            first, last = (end[:, None, start:stop] for end in ends)
            inside = np.asarray(((corners >= first - 1e-9) & (corners <= last + 1e-9)).all(axis=2))
            axes.append(_chosen(start, stop, inside, np.broadcast_to(corners, (len(inside), *corners.shape))))
    for i in np.flatnonzero(moves & domain.numeric).tolist():
        flag, fill = flags.get(i, (-1, 0.0))
        missing = np.zeros(len(regions), dtype=bool)
        if flag >= 0:
            missing = (regions.centre[:, flag] == 1.0) & (low[:, flag] == 0.0) & (high[:, flag] == 0.0)
        still = (low[:, i] == 0.0) & (high[:, i] == 0.0)
        if not domain.integer[i]:
            if not (missing | still).all():
                raise EndlessError(domain.names[i], np.inf)
            values = np.where(missing, fill, regions.centre[:, i])[:, None, None]
            axes.append(_Axis(i, i + 1, np.ones(len(regions), dtype=np.int64), values))
            continue
        axes.append(_lattice(i, regions.centre[:, i], low[:, i], high[:, i], domain, missing, fill, flag >= 0))
    return axes


def _lattice(
    i: int, here: Array, low: Array, high: Array, domain: Domain, missing: Mask, fill: float, flagged: bool
) -> _Axis:
    """The whole numbers of a coordinate within its boxes, and its fill where it may be missing.

    **Soundness.** The margin is that of regions, far above rounding; the value of a whole number is computed by the
    expression of the encoder.
    """
    origin, unit = float(domain.origin[i]), float(domain.unit[i])
    first, last, margin = lattice_ends(origin, unit, here, low, high)
    ends = (domain.low[i] * unit + origin, domain.high[i] * unit + origin)
    first = np.maximum(np.ceil(first - margin), np.ceil(ends[0] - margin))
    last = np.minimum(np.floor(last + margin), np.floor(ends[1] + margin))
    count = np.where(missing, 0.0, np.maximum(last - first + 1, 0.0))
    if not (count <= MOST_LISTED).all():
        raise EndlessError("", float(np.nan_to_num(count, nan=np.inf).max()))
    steps = np.arange(int(count.max(initial=0)))
    values = ((first[:, None] + steps) - origin) / unit
    if flagged:  # the fill need be no whole number, and where a value is missing it is the only one
        values = np.column_stack([values, np.full(len(here), fill)])
        inside = np.column_stack([steps < count[:, None], np.ones(len(here), dtype=bool)])
    else:
        inside = steps < count[:, None]
    return _chosen(i, i + 1, inside, values[:, :, None])


def _chosen(start: int, stop: int, inside: Mask, values: Array) -> _Axis:
    """An axis of the values (r, k, width) that are ``inside`` (r, k), those first."""
    order = np.argsort(~inside, axis=1, kind="stable")
    return _Axis(start, stop, inside.sum(axis=1), np.take_along_axis(values, order[:, :, None], axis=1))


def _listed(regions: Regions, axes: Sequence[_Axis], total: Index, most: int) -> Iterator[tuple[Index, Array]]:
    """All combinations of the values of axes in regions that have this many each (r,), as (owner, people), at most this
    many at a time."""
    ends = np.cumsum(total)
    for start in range(0, int(ends[-1]) if len(ends) else 0, most):
        place = np.arange(start, min(start + most, int(ends[-1])))
        row = np.searchsorted(ends, place, side="right")
        place, y = place - (ends[row] - total[row]), np.array(regions.centre[row])
        for axis in axes:
            place, digit = np.divmod(place, axis.options[row])
            y[:, axis.start : axis.stop] = axis.values[row, digit]
        yield regions.owner[row], y


def keys_of(x: Array) -> NDArray[Any]:
    """People (n, m) as bytes (n,), equal where all coordinates are."""
    rows = np.ascontiguousarray(x, dtype=np.float64) + 0.0  # -0.0 is 0.0
    return rows.view(np.dtype((np.void, rows.shape[1] * 8)))[:, 0] if rows.size else np.zeros(len(rows), dtype="V1")


def distinct(x: Array) -> tuple[Array, Index]:
    """People (k, m), each once, and the place (n,) of every row of ``x`` among them."""
    _, first, back = np.unique(keys_of(x), return_index=True, return_inverse=True)
    return x[first] + 0.0, back.reshape(-1)


class Predictions(Model):
    """What a function predicted: ``people`` (k, m), each once, and ``values`` (k, outputs)."""

    condition = "given these predictions"
    says = ", predictions that no model was asked for here"

    def __init__(self, people: Array | None, values: Array, width: int = 0) -> None:
        """Without ``people``, whose ``width`` is known, nothing can be looked up."""
        self.people, self.width, self.outputs, self.values = people, width, values.shape[-1], values
        if people is None:
            return
        need(people.ndim == values.ndim == 2 and len(people) == len(values), "people without predictions")
        need(
            0 < len(people) <= LISTED_NUMBERS and people.shape[1] > 0 and values.shape[1] > 0,
            "a table without predictions",
        )
        need(np.isfinite(people).all() and np.isfinite(values).all(), "predictions that are no numbers")
        keys = keys_of(people)
        order = np.argsort(keys, kind="stable")
        self.keys, self.values = keys[order], np.asarray(values)[order]
        need((self.keys[1:] != self.keys[:-1]).all(), "one person has two predictions")
        self.width = people.shape[1]

    def known(self, x: Array) -> Mask:
        """Whose predictions (n,) are kept."""
        return self._places(x)[1]

    def _places(self, x: Array) -> tuple[Index, Mask]:
        """Where people would stand in the table, and whether they do."""
        keys = keys_of(x)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return place, np.asarray(self.keys[place] == keys)

    def at(self, x: Array) -> Array:
        """The predictions (n, outputs) of people; one who is not in the table is an error."""
        if self.people is None:
            raise BadInput("The people of the predictions are withheld: give --data, the folder that has them.")
        place, known = self._places(x)
        if missing := int((~known).sum()):
            raise BadInput(
                f"The table of predictions lacks {missing:,} of {len(x):,} people who are similar to others."
            )
        return self.values[place]

    def bounds(self, head: Head, similarity: Similarity, tier: str, float32_run: bool) -> PredictionBounds:
        """The bounds, the same for every tier; probabilities must be such."""
        need(head.kind in ("probability", "regression"), "predictions are probabilities or numbers")
        if head.kind == "probability":
            need(((self.values >= 0) & (self.values <= 1)).all(), "predictions that are no probabilities")
            sums = self.values.sum(axis=1)
            need(self.outputs == 1 or (np.abs(sums - 1) <= SUM).all(), "probabilities that do not add up to 1")
        return PredictionBounds(self, head, similarity)


def samples_of(record: Record) -> Samples:
    """The predictions of a record that has some of them."""
    table = table_of(record)
    return Samples(table.people, record.array("model.outputs"), table.width)


def table_of(record: Record) -> Predictions:
    """The predictions of a record."""
    values, shape = record.array("model.outputs"), record.predicate["arrays"].get("model.people", [])
    need(values.ndim == 2 and len(shape) == 2, "people without predictions")
    return Predictions(record.array("model.people") if record.has("model.people") else None, values, shape[1])


class PredictionBounds(Bounds):
    """Exact bounds by listing: the largest change between an individual and everybody similar, rounded outward."""

    size = 256

    def __init__(self, table: Predictions, head: Head, similarity: Similarity) -> None:
        self.table, self.head, self.similarity = table, head, similarity

    def enclose(self, x: Array) -> Enclosure:
        """What people were predicted, as it is."""
        values = self.table.at(x)
        return Enclosure(values, values)

    def chunk(self, x: Array) -> Known:
        """The largest violation of each individual, and whose decision no similar individual has otherwise."""
        at = self.enclose(x)
        decision = self.head.decision(at)
        upper, kept, seen = np.zeros(len(x)), decision >= 0, np.zeros(len(x), dtype=bool)
        for owner, y in self._similar(x):
            over = self.enclose(y)
            np.maximum.at(upper, owner, self.head.violation(at.of(owner), over))
            kept[owner[self.head.decision(over) != decision[owner]]] = False
            seen[owner] = True
        upper[~seen], kept[~seen] = np.inf, False  # everybody is similar to themselves: nobody listed proves nothing
        return Known(upper, kept, at)

    def proved_decisions(self, x: Array, known: Known, wanted: Mask, parts: int = PARTS) -> Mask:
        """Which of the ``wanted`` (n,) decisions stand: everybody similar was listed already."""
        return known.kept & wanted

    def reach(self, ground: Form) -> PredictionReach:
        """The bounds of everybody within a radius, who are listed too."""
        return PredictionReach(self, ground)

    def _similar(self, x: Array) -> Iterator[tuple[Index, Array]]:
        try:
            yield from similar_people(self.similarity, x)
        except EndlessError as error:
            raise BadInput(f"The certificate cannot be checked: {error}.") from None


class Samples(Predictions):
    """Predictions of individuals and of some people similar to them. Nothing is known of all others: what was shown can
    be looked up, and nothing is proved."""

    condition = "found only, and nothing is proved; given these predictions"

    def bounds(self, head: Head, similarity: Similarity, tier: str, float32_run: bool) -> SampleBounds:
        """The bounds that hold of any probabilities."""
        super().bounds(head, similarity, tier, float32_run)
        need(head.kind == "probability", "numbers of which no largest change is known")
        return SampleBounds(self, head, similarity)


class SampleBounds(PredictionBounds):
    """What holds whatever the model predicts of people who were not asked about: a probability changes by at most 1,
    and any decision may.

    **Soundness.** Nothing is claimed but the largest violation there can be; no decision is certain.
    """

    def chunk(self, x: Array) -> Known:
        """The largest violation there can be of each individual, and no decision."""
        return Known(np.full(len(x), self.head.largest), np.zeros(len(x), dtype=bool), self.enclose(x))

    def keeps(self, x: Array, upper: Array) -> Mask:
        """No decision, whatever ``upper`` (n,) says."""
        return np.zeros(len(x), dtype=bool)

    def proved_decisions(self, x: Array, known: Known, wanted: Mask, parts: int = PARTS) -> Mask:
        """No decision."""
        return np.zeros(len(x), dtype=bool)


class PredictionReach:
    """Bounds over balls of a ground cost, by listing everybody within a radius and everybody similar to them."""

    single_radius = own_passes = True

    def __init__(self, bounds: PredictionBounds, ground: Form) -> None:
        self.bounds, self.ball, self.is_norm = bounds, bounds.similarity.reached_by(ground), is_norm(ground)

    def bound(self, x: Array, radii: Sequence[float], tight: bool = True, size: int = 1024) -> Array:
        """Upper bounds (n, radii) of the violation of any individual within each of the ascending ``radii``."""
        worst = np.full((len(x), len(radii)), -1.0)
        for j, radius in enumerate(radii):
            try:
                for owner, z in similar_people(self.ball.resized(radius), x):
                    unique, back = distinct(z)
                    np.maximum.at(worst[:, j], owner, self.bounds.chunk(unique).upper[back])
            except EndlessError as error:
                raise BadInput(f"The certificate cannot be checked: {error}.") from None
        return np.where(worst < 0, np.inf, worst)  # everybody is near themselves: nobody listed proves nothing

    def stands(self, x: Array, radius: float, margin: float = 0.0, size: int = 1024) -> Mask:
        """Whether (n,) each person within the radius has the decision of everybody similar: changes are counted."""
        bounds = self.bounds
        if not bounds.head.decides:
            return np.zeros(len(x), dtype=bool)
        head = replace(bounds.head, counts=True, margin=max(margin, bounds.head.margin))
        counting = type(bounds)(bounds.table, head, bounds.similarity)
        return np.asarray(PredictionReach(counting, self.ball.form).bound(x, [radius])[:, 0] == 0)

    def everywhere(self, x: Array) -> tuple[float, float]:
        """The largest violation that there can be: others than those who were listed were not asked about."""
        return self.bounds.head.largest, np.inf
