"""The work on one chunk of individuals: the job that a worker needs, and the columns of a chunk.

Columns are the same whatever the size of the table: bounds and counterparts of all individuals, profiles, and the
points of the worst case. Columns of chunks are concatenated (:func:`joined`), in memory or, with a folder for work, in
files.

**Soundness.** A chunk is an ordinary question about its own individuals. The schedule only says which radii are worth
their price.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import numpy as np

from isonomy.arithmetic import FloatArray, at_least
from isonomy.attacks import AttackBudget
from isonomy.certificates.claims import individual_claims, turned_claims
from isonomy.certificates.consistency import HERE, Counterexamples
from isonomy.certificates.local import Arithmetic, LocalCertificate, certify_local
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import Schedule, profiles_of_table
from isonomy.certificates.protocol import Shift, Tier, tier_for
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.worst_case import TURNS, zero_cost_points
from isonomy.errors import (
    DataError,
    FileError,
    NotANumberError,
    ParameterError,
    UnsupportedOperationError,
    template,
)
from isonomy.files import Arrays, FolderStore, atomic
from isonomy.population.sources import Chunk, ChunkKey, PeopleSource
from isonomy.problem import Problem
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import up
from isonomy_verify.individuals import CERTIFIED
from isonomy_verify.similar import is_norm

LAYOUT = 4
"""The version of the columns; part of every key."""

PROFILE, POINT = ("radius", "value", "source"), ("person", "counterpart", "cost", "value")
"""Columns of profiles and of points, with as many rows for each individual as the count columns say."""

PILOT = 16
"""Individuals of the pilot group, evenly spread over the table."""

FEW = 64
"""A table of at most this many rows is its own pilot group."""

Share = Callable[[float], None]
"""Called with the share of some work that is done."""

ALMOST = 0.999
"""The share of a chunk that is done when all its columns are computed, but not saved."""

PASSES = 6
"""Passes with a moving centre on average."""

WORK = 2.0**37
"""Multiplications of a chunk, about: some twenty seconds of one thread, which is what a run that is killed loses."""

REGION, STEP = 2.0**20, 2.0**24
"""The overhead of a region, and a step of the searches around one individual, in multiplications."""


@dataclass(frozen=True, eq=False)
class Job:
    """A problem, a shift, and how hard to work on them, for all individuals."""

    problem: Problem
    shift: Shift
    tier: str
    attack: AttackBudget | None  # None: no search
    decide: bool
    rounds: int
    arithmetic: Arithmetic
    output_range: tuple[float, float] | None
    schedule: Schedule | None = None
    shifts: tuple[Reweighting, ...] = ()  # further ones, on which no column depends
    evidence: Path | None = None  # where a contradiction is saved, with the individual; None: nowhere

    @cached_property
    def identity(self) -> str:
        """Return the hash of all that a chunk's columns depend on, but for its individuals."""
        others = ("problem", "shift", "shifts", "evidence")
        numbers = [field.name for field in fields(self) if field.name not in others]
        texts = [
            f"isonomy {version('isonomy')} numpy {np.__version__} layout {LAYOUT}",
            self.problem.hash,
            self.shift.fingerprint(),
            *(f"{name} {getattr(self, name)!r}" for name in numbers),
        ]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def pilot_schedule(
        self, source: PeopleSource, keys: Sequence[ChunkKey], tick: Callable[[int], None] = lambda rows: None
    ) -> Schedule:
        """Make a schedule on a pilot group chosen by row numbers alone; ``tick`` is called with the rows done now."""
        x, weights, complete = self._pilot(source, keys)
        local = self._certify_local(x, None, False)
        largest = largest_violation(self.problem.model.head, self.output_range)
        if self.problem.domain.kind == "unbounded" and not math.isfinite(largest):
            raise ParameterError(
                "A regression on the unbounded domain has no largest violation: give 'output_range' as (low, high), or "
                "individuals with a schema (domain 'relaxed' or 'realizable')."
            )
        if not (self._tier.bounds_everybody or math.isfinite(largest)):
            raise ParameterError(
                f"'{self.problem.model.name}' gives numbers of which no largest violation is known: give "
                "'output_range' as (low, high)."
            )
        if self.moved_at is None:
            return Schedule((), None, 0.0, complete)
        moving = self._moving(x, self.moved_at)
        if weights.any():
            weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # a few may be too small to add up
            moving = replace(moving, weights=weights)
        schedule = self.shift.schedule(moving, local.upper, largest, self.tier == "tight", tick)
        return replace(schedule, whole=complete)

    @property
    def _tier(self) -> Tier:
        return tier_for(self.problem, self.tier)

    @property
    def moved_at(self) -> Metric | None:
        """Return the ground cost at which individuals move; None where none does, or where none has to and the tier
        would have to list all who could."""
        ground = self.shift.ground_cost
        stays = ground is not None and self.shift.alone and is_norm(ground.form)
        return None if stays and not self._tier.moves_freely else ground

    def rows(self, source: PeopleSource, keys: Sequence[ChunkKey]) -> int:
        """Return the number of rows that cost about ``WORK`` multiplications: counted on the pilot group, never timed,
        so that the same question is always cut in the same way."""
        return max(1, int(WORK / sum(self._work(self._pilot(source, keys)[0]))))

    def _work(self, x: FloatArray) -> tuple[float, float, float]:
        """Return about the multiplications for an individual: local bounds, bounds with a moving centre, searches."""
        regions = self.problem.similarity.passes(x)
        steps = 0 if self.attack is None else 1 + self.attack.steps
        near = passes = 0.0
        if self.moved_at is not None and self.schedule is not None:
            moving = self._moving(x, self.moved_at)
            passes = self.shift.passes(moving, self.tier == "tight", self.rounds, self.schedule)
            near = moving.reach.resized(max(self.schedule.rungs, default=0.0)).count(x)
        each = REGION + self._tier.price
        return regions * each, regions * near * passes * each, search_work(regions, steps, passes > 0)

    def _pilot(self, source: PeopleSource, keys: Sequence[ChunkKey]) -> tuple[FloatArray, FloatArray, bool]:
        """Return a few individuals, evenly spread, their weights, and whether they are the whole table."""
        some = spread(len(keys), PILOT)
        complete = sum(map(len, keys)) <= FEW
        each = FEW if complete else math.ceil(PILOT / len(some))
        chosen = []
        for index in range(len(keys)) if complete else some:
            chunk = source.read(keys[index])
            rows = spread(len(chunk), each)
            chosen.append((chunk.x[rows], chunk.weights[rows]))
        x, weights = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        if not len(x):  # then the first rows of the table
            first = next((chunk for key in keys if len(chunk := source.read(key))), None)
            if first is None:
                raise DataError("There are no individuals: no row of the table is left.")
            x, weights = first.x[:PILOT], first.weights[:PILOT]
        return x, weights, complete

    def columns(self, chunk: Chunk, share: Share = lambda done: None) -> Arrays:
        """Compute the columns of a chunk; ``share`` is called with the share of the work that is done."""
        x, n = chunk.x, len(chunk)
        about = {"rows": chunk.rows, "weights": chunk.weights, "x": x, "excluded": np.array([chunk.excluded])}
        about |= {} if chunk.y is None else {"y": np.asarray(chunk.y)}
        tier = tier_for(self.problem, self.tier, self.arithmetic == "float32")
        if not n:
            return about | _empty_columns(x.shape[1], tier.checked)
        local_tick, moving_tick, search_tick = self._stages(n, share)
        saved = Counterexamples(self.evidence, chunk.rows)
        local = self._certify_local(x, self.attack, self.decide, lambda done, total: local_tick(done), saved)
        known, largest = local.witnesses, largest_violation(self.problem.model.head, self.output_range)
        steady = np.zeros(n)
        points = zero_cost_points(x, local.lower, np.asarray(known.counterpart))
        turned = points[:0]
        if self.moved_at is not None:
            moving, tight = self._moving(x, self.moved_at), self.tier == "tight"
            assert self.schedule is not None
            schedule, upper = self.schedule, local.upper
            profile = self.shift.profiles(moving, upper, largest, tight, self.rounds, schedule, moving_tick)
            steady = self.shift.steady(moving, local.decided == CERTIFIED)
            if self.attack is not None:
                points, turned = self.shift.search(moving, points, profile, self.attack, search_tick)
                turned = turned_claims(tier, x, turned, moving.spent) if tier.checked else turned
        else:  # only the individuals themselves count
            largest = min(largest, self._everywhere(x))
            profile = profiles_of_table(np.zeros(1), local.upper[:, None], largest, np.zeros((n, 1)))
        if not (np.isfinite(profile.value).all() and (profile.value >= 0).all()):
            raise NotANumberError("A bound of these individuals is not a finite number >= 0; nothing is certified.")
        check_range(points.value, self.problem.model.head, self.output_range)
        outputs = self.output_range if self.problem.model.head == "regression" else None
        return (
            about
            | (individual_claims(tier, local, outputs) if tier.checked else {})
            | {
                "upper": local.upper,
                "lower": local.lower,
                "decision": local.decided,
                "counterpart": np.asarray(known.counterpart),
                "flip_counterpart": np.asarray(known.flip_counterpart),
                "largest": np.array([profile.largest]),
                "steady": steady,
                "profile_count": np.diff(profile.start).astype(np.int64),
                **{f"profile_{name}": getattr(profile, name) for name in PROFILE},
                "point_count": np.bincount(points.owner, minlength=n).astype(np.int64),
                **{f"point_{name}": getattr(points, name) for name in POINT},
                "turned_count": np.bincount(turned.owner, minlength=n).astype(np.int64),
                **{f"turned_{name}": getattr(turned, name) for name in POINT},
            }
        )

    def _stages(self, n: int, share: Share) -> tuple[Callable[[int], None], ...]:
        """Return the ticks of the three stages of a chunk of ``n`` individuals: the first is called with the rows done
        so far, others with the rows done now, once for each pass. Their shares are a guess; nothing depends on it."""
        searched, moved = self.attack is not None, self.shift.ground_cost is not None
        weights = [1.0, 4.0 * moved, 2.0 * moved * searched]
        begin, done = np.append(0.0, np.cumsum(weights)) / sum(weights), [0, 0, 0]

        def tick(stage: int, rows: int) -> None:
            done[stage] = done[stage] + rows if stage else rows
            part = min(1.0, done[stage] / (n * (1, PASSES, TURNS)[stage]))
            share(ALMOST * float(begin[stage] + part * (begin[stage + 1] - begin[stage])))

        return tuple(partial(tick, stage) for stage in range(3))

    def _certify_local(
        self,
        x: FloatArray,
        attack: AttackBudget | None,
        decide: bool,
        tick: Callable[[int, int], None] | None = None,
        saved: Counterexamples = HERE,
    ) -> LocalCertificate:
        return certify_local(
            self.problem, x, tier=self.tier, attack=attack or False, decide=decide,  # type: ignore[arg-type]
            arithmetic=self.arithmetic, progress=tick, predict=False, counterexamples=saved,
        )  # fmt: skip

    def _everywhere(self, x: FloatArray) -> float:
        """Return an upper bound of every violation in a bounded domain; infinite where nothing proves one."""
        if self.problem.domain.kind == "unbounded":
            return math.inf
        try:
            bound, reach = self._moving(x, self.problem.metric).everywhere()
        except UnsupportedOperationError:
            return math.inf
        return bound if math.isinf(reach) else math.inf

    def _moving(self, x: FloatArray, ground: Metric) -> Moving:
        points = None if self.shift.point_cost is self.shift.ground_cost else self.shift.point_cost
        return Moving(self.problem, x, np.ones(len(x)), ground, self.arithmetic == "float32", points)


def search_work(regions: float, steps: int, moving: bool = False) -> float:
    """Return about the multiplications of the searches around an individual with ``regions``."""
    return steps * (STEP * (1 if moving else 0.1) + REGION * regions / 4)


def _empty_columns(width: int, claimed: bool) -> Arrays:
    """Return the columns of a chunk without individuals; with those of claims where the checker knows the model."""
    none, wide, counts = np.zeros(0), np.zeros((0, width)), np.zeros(0, dtype=np.int64)
    claims: Arrays = {"claimed_lower": none, "claimed_decision": np.zeros(0, dtype=np.uint8)} if claimed else {}
    return claims | {
        "upper": none, "lower": none, "decision": np.zeros(0, dtype=np.uint8), "counterpart": wide,
        "flip_counterpart": wide, "profile_count": counts, "steady": none, "profile_radius": none,
        "profile_value": none,
        "profile_source": none, "largest": np.zeros(1), "point_count": counts, "point_person": wide,
        "point_counterpart": wide, "point_cost": none, "point_value": none, "turned_count": counts,
        "turned_person": wide, "turned_counterpart": wide, "turned_cost": none, "turned_value": none,
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Work:
    """A job, the source of its individuals, and the store of finished chunks (None: none is saved)."""

    job: Job
    source: PeopleSource
    store: FolderStore | None

    def saved_columns(self, key: ChunkKey) -> Arrays | None:
        """Return the saved columns of a chunk, if any."""
        return None if self.store is None else self.store.get(*_part(key))

    def parts(self, keys: Sequence[ChunkKey]) -> Iterator[Arrays]:
        """Yield the saved columns, one chunk after the other."""
        assert self.store is not None
        for key in keys:
            columns = self.saved_columns(key)
            if columns is None:
                raise FileError(
                    f"The part {self.store.path(_part(key)[0])} was changed after it was finished: run the same audit "
                    "again, in a work folder of its own."
                )
            yield columns


@dataclass(frozen=True, eq=False)
class Finished:
    """A chunk whose columns are computed: in ``columns``, or, where these are None, saved."""

    key: ChunkKey
    columns: Arrays | None
    computed: bool  # now, not in an earlier run


def finish(work: Work, key: ChunkKey, share: Share = lambda done: None) -> Finished:
    """Compute and save the columns of a chunk, unless an earlier run saved them."""
    if work.saved_columns(key) is not None:
        return Finished(key, None, False)
    try:
        columns = work.job.columns(work.source.read(key), share)
    except DataError as error:
        if not key.file:
            raise
        raise DataError(f"{key.place}, rows {key.start} to {key.stop}: {error}") from None
    if work.store is None:
        return Finished(key, columns, True)
    name, about = _part(key)
    work.store.put(name, columns, about)
    return Finished(key, None, True)


def _part(key: ChunkKey) -> tuple[str, str]:
    """Return the name of a chunk's part, and the key that it must match."""
    return f"parts/{key.index:08d}", f"{key.index} {key.start} {key.stop}"


def joined(chunks: Iterable[Arrays], folder: Path | None) -> Arrays:
    """Concatenate the columns of chunks: in memory, or in files of a folder, mapped into memory."""
    if folder is None:
        some = list(chunks)
        for chunk in some:
            _same_columns(some[0], chunk)
        return {name: np.concatenate([chunk[name] for chunk in some]) for name in some[0]}
    first: Arrays = {}
    files: dict[str, tuple[Path, BinaryIO]] = {}
    rows: dict[str, int] = {}
    with ExitStack() as stack:  # new files: a certificate of an earlier run still reads its own
        for chunk in chunks:
            first = first or {name: column[:0] for name, column in chunk.items()}
            _same_columns(first, chunk)
            for name, column in chunk.items():
                if name not in files:
                    partial = stack.enter_context(atomic(folder / name))
                    files[name] = partial, stack.enter_context(partial.open("wb"))
                files[name][1].write(np.ascontiguousarray(column).data)
                rows[name] = rows.get(name, 0) + len(column)
        columns = {}
        for name, (partial, file) in files.items():  # mapped before another run can put its own under the name
            file.flush()
            rest, dtype = first[name].shape[1:], first[name].dtype
            shape = (rows[name], *rest)
            columns[name] = np.memmap(partial, dtype, "r", shape=shape) if rows[name] else np.zeros(shape, dtype)
    return columns


def _same_columns(first: Arrays, chunk: Arrays) -> None:
    """Refuse chunks that do not fit together: a label column is in all files of a table, or in none."""
    other = first.keys() ^ chunk.keys()
    if other:
        raise DataError(
            f"Some files of the table have the label column and others have none ({', '.join(sorted(other))}): give "
            "all of them labels, or take the [label] out of the schema."
        )
    assert all(first[name].dtype == chunk[name].dtype for name in first)


def spread(n: int, count: int) -> list[int]:
    """Return at most ``count`` of the numbers below ``n``, evenly spread."""
    count = min(n, count)
    return [i * n // count for i in range(count)]


def largest_violation(head: str, output_range: tuple[float, float] | None) -> float:
    """Return the largest possible violation: 1 for probabilities, the width of the declared range for numbers."""
    if head != "regression":
        return 1.0
    return math.inf if output_range is None else float(up(output_range[1] - output_range[0]))


def check_range(attained: FloatArray, head: str, output_range: tuple[float, float] | None) -> None:
    """Refuse a declared range that the network was seen to leave: the bound would rest on something untrue."""
    change = float(attained.max(initial=0.0))
    if head == "regression" and output_range is not None and change > largest_violation(head, output_range):
        expected = f"a range that outputs keep within, and one was found to change by {at_least(change, 6)}"
        raise ParameterError(template("output_range", expected, output_range))
