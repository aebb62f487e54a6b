"""The distributional certificate of a dataset larger than memory.

Problem: as :func:`isonomy.certify`, for the rows of a Parquet dataset or a CSV file. The rows are cut into fixed
chunks; a plan (which radii are worth their price) is made once, on a pilot group; then every chunk is worked on by
itself, and its profiles are written as a part file. The dual is solved by a few passes over the parts.

A run that was killed at any moment is continued by starting it again: finished parts are read, not computed, and the
certificate is the same bit for bit.

**Soundness.** Each part is an ordinary set of profiles; sums over parts are exact; the upper bound is the dual at one
multiplier. See :mod:`isonomy.engines.dual` and :mod:`isonomy.engines.tallies`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.attacks import Effort, checked_effort
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means, evidence_folder, told
from isonomy.certificates.distributional import DistributionalTier, Verdict, checked_range, judge
from isonomy.certificates.dual import check_radius
from isonomy.certificates.local import Arithmetic
from isonomy.certificates.profiles import Plan
from isonomy.certificates.question import checked_asked, on_all_coordinates
from isonomy.engines.dual import StreamedDual
from isonomy.engines.files import read_json, sweep, write_json
from isonomy.engines.job import Job, Receipt, finish, tally
from isonomy.engines.parts import Part
from isonomy.engines.runners import Embedded, EngineName, Runner, check_engine, runner
from isonomy.engines.tallies import At, Tally
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import FINITE, instance, number, whole
from isonomy.networks.network import Network
from isonomy.population import ChunkKey, Domain, DomainKind, PeopleSource, Schema, open_people
from isonomy.population.schema import Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.stored import DaskFrame
from isonomy.progress import Progress, shown
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.metric import Metric, checked_delta
from isonomy.similarity.regions import MAX_BRANCHES
from isonomy_verify.arithmetic import TINY, nearest, power_down

SourceLike = str | PathLike | DaskFrame | PeopleSource  # type: ignore[type-arg]
"""Datasets that need not be in memory."""

CHUNK = 16_384
"""Rows of a chunk."""

LARGEST_CHUNK = 2**22
"""More rows would not be bounded memory any more."""

ACCURACY = 1e-7
"""The tolerance aimed at, as a share of the largest violation possible."""


@dataclass(frozen=True, eq=False)
class LargeCertificate:
    """What was proved of, and found in, the populations within γ of a dataset's individuals."""

    gamma: float
    order: float
    delta: float
    epsilon: float | None
    tier: str
    upper: float  # no population within gamma has a mean violation above this
    lower: float  # an explicit population attains this; 0 without a search
    multiplier: float | None  # with which the parts give ``upper`` again
    tolerance: float  # what a better multiplier could save, at most
    grid_error: float  # what the grid of radii may have cost, and the tolerance
    rows: int  # individuals
    excluded: int  # rows that did not fit the schema
    weight: float
    parts: tuple[Path, ...]
    computed: int  # parts that this run computed; the others were there
    dual: StreamedDual = field(repr=False)
    radii: tuple[float, ...] = field(repr=False)
    identity: str = field(default="", repr=False)  # the hash of all that the numbers depend on
    sources: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # files of the dataset, and their SHA-256
    selection: Selection = field(default=Selection(0, how="unknown"), repr=False)  # who of the dataset was judged

    __repr__ = brief

    def __post_init__(self) -> None:
        self._compare(self.gamma, self.lower, self.upper)

    def _compare(self, gamma: float, lower: float, upper: float) -> None:
        asked: dict[str, Any] = {"gamma": gamma, "order": self.order, "delta": self.delta, "identity": self.identity}
        compare_means(
            f"Within {gamma:g} of the individuals a population's mean output", lower, upper,
            parts=[str(part) for part in self.parts], **asked,
        )  # fmt: skip

    @property
    def verdict(self) -> Verdict:
        """Against the certificate's own ε."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify_dataset() for a verdict", None))
        return judge(self.lower, self.upper, self.epsilon)

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Upper, lower and tolerance for other γ, by passes over the parts in this process."""
        gammas = list(gammas)
        for gamma in gammas:
            check_radius(self.order, gamma)
        uppers, lowers = self.dual.uppers(gammas), self.dual.lowers(gammas)
        for found, lower in zip(uppers, lowers, strict=True):
            self._compare(found.gamma, lower, found.upper)
        return pd.DataFrame(
            {
                "gamma": gammas,
                "upper": [found.upper for found in uppers],
                "lower": lowers,
                "tolerance": [found.tolerance for found in uppers],
            }
        )

    def largest_gamma(self, epsilon: float) -> float | None:
        """Up to which shift no population exceeds ε, as far as the parts show; None if even these people do."""
        number("epsilon", epsilon, "a number >= 0")
        return self.dual.largest_gamma(epsilon, self.radii)

    def each_part(self) -> Iterator[Part]:
        """The parts one after the other, each checked as it is read: one is in memory at a time."""
        measure = self.dual.measure
        assert isinstance(measure, _Measure)
        return (measure.job.part(receipt.block) for receipt in measure.receipts)

    def summary(self) -> dict[str, object]:
        """The numbers, without the parts."""
        left_out = ("parts", "computed", "dual", "radii", "identity", "sources", "selection")
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name not in left_out}

    def __str__(self) -> str:
        shift = f"within {self.gamma:g} of these {self.rows:,} individuals"
        found = f"an explicit one reaches {at_least(self.lower)}" if self.lower > 0 else "none was found to be unequal"
        return f"No population {shift} has a mean violation above {at_most(self.upper)}; {found}."


def certify_dataset(
    source: SourceLike,
    schema: Schema,
    network: Network,
    metric: Metric,
    delta: float,
    gamma: float,
    *,
    work: Path | str,
    order: float = 1.0,
    ground: Ground = "l2",
    epsilon: float | None = None,
    domain: Domain | DomainKind | None = None,
    tier: DistributionalTier = "tight",
    engine: EngineName = "local",
    scheduler: str | None = None,
    chunk: int = CHUNK,
    attack: bool = True,
    unknown: Unknown = "error",
    split: SplitName = "all",
    rounds: int = 4,
    arithmetic: Arithmetic = "float64",
    output_range: tuple[float, float] | None = None,
    effort: Effort | None = None,
    max_branches: int = MAX_BRANCHES,
    accuracy: float = ACCURACY,
    progress: Progress | Literal["auto"] | None = "auto",
) -> LargeCertificate:
    """Bound the mean violation of every population within Wasserstein distance ``gamma`` of a dataset's individuals.

    ``source`` is a Parquet file, a folder of them, a CSV file, a Dask data frame, or what
    :func:`isonomy.population.open_people` opened. ``work`` is a folder that keeps the parts; the same
    call with the same folder goes on where a killed one stopped. ``engine="dask"`` works on the cluster at
    ``scheduler``, on the current Dask client, or on a local cluster; its workers must see ``source`` and ``work``
    under the same paths. ``chunk`` rows are worked on at a time, by one thread: memory grows with it, not with the
    dataset. ``attack=False`` leaves ``lower`` at 0 and is several times faster. ``accuracy`` is the tolerance of the
    dual, as a share of the largest violation possible. The rest is as for :func:`isonomy.certify`.
    """
    instance("schema", schema, Schema, "a Schema")
    checked_asked(network, metric)
    delta, max_branches = checked_delta(delta), whole("max_branches", max_branches)
    instance("source", source, SourceLike, "a path, a Dask data frame or a source of people")
    instance("work", work, str | PathLike, "a path")
    for name, value, choices in (
        ("unknown", unknown, Unknown), ("split", split, SplitName), ("arithmetic", arithmetic, Arithmetic),
    ):  # fmt: skip
        if value not in get_args(choices):
            raise ParameterError(template(name, f"one of {', '.join(get_args(choices))}", value))
    rounds, effort, output_range = whole("rounds", rounds), checked_effort(effort), checked_range(output_range)
    _check(tier, order, gamma, epsilon, chunk, accuracy)
    check_engine(engine, scheduler)
    folder = Path(work).resolve()
    opened = open_people(source, schema, work=folder, unknown=unknown, split=split, labels=False)
    blocks = opened.keys(chunk)
    space = domain if isinstance(domain, Domain) else schema.domain(domain or "realizable")
    job = Job(
        opened, chunk, on_all_coordinates(network, schema), metric, space,
        ground_metric(ground, space.width, space.names), float(delta), float(gamma), float(order), tier, attack,
        effort, rounds, arithmetic, output_range, max_branches, folder, evidence_folder(folder),
    )  # fmt: skip
    job = replace(job, plan=_plan(job, blocks))
    with shown("Certifying", progress) as tick, runner(engine, scheduler) as where:
        receipts = _finish(job, blocks, where, tick)
        weight = sum(receipt.weight for receipt in receipts)
        if not weight:
            raise DataError(f"Column {schema.weight!r}: all sampling weights are zero; at least one must be positive.")
        radii = tuple(sorted({radius for receipt in receipts for radius in receipt.radii}))
        largest = max(receipt.largest for receipt in receipts)
        known = _known(job, radii, largest, weight, receipts, where, accuracy)
    dual = replace(known, measure=_Measure(job, receipts, Embedded()))
    found = dual.uppers([job.gamma])[0]
    individuals = sum(receipt.rows for receipt in receipts)
    excluded = sum(receipt.excluded for receipt in receipts)
    with told(job.evidence):
        certificate = LargeCertificate(
            job.gamma, job.order, job.delta, epsilon, tier, found.upper, dual.lowers([job.gamma])[0], found.multiplier,
            found.tolerance, dual.grid_error(job.gamma), individuals, excluded, nearest(weight),
            tuple(job.path(block) for block in blocks), sum(receipt.computed for receipt in receipts), dual, radii,
            job.identity, opened.files, opened.selection(individuals, excluded),
        )  # fmt: skip
    write_json(folder / "result.json", {"identity": job.identity, **certificate.summary()})
    sweep(folder)
    return certificate


@dataclass(frozen=True, eq=False)
class _Measure:
    """One pass over the parts."""

    job: Job
    receipts: Sequence[Receipt]
    where: Runner

    def __call__(self, places: Sequence[At]) -> dict[At, Tally]:
        sums = dict.fromkeys(places, Tally(0, 0, 0.0))
        tasks = [(receipt.block, tuple(places)) for receipt in self.receipts]
        for found in self.where.run(tally, self.job, tasks):
            for place, some in found.items():
                sums[place] += some
        return sums


def _finish(job: Job, blocks: Sequence[ChunkKey], where: Runner, tick: Progress) -> list[Receipt]:
    """The parts of all blocks, in their order."""
    receipts, done, total = [], 0, sum(map(len, blocks))
    for receipt in where.run(finish, job, blocks):
        receipts.append(receipt)
        done += len(receipt.block)
        tick(done, total)
    return sorted(receipts, key=lambda receipt: receipt.block.index)


def _known(
    job: Job,
    radii: Sequence[float],
    largest: float,
    weight: int,
    receipts: Sequence[Receipt],
    where: Runner,
    accuracy: float,
) -> StreamedDual:
    """The dual with the passes that the certificate needs."""
    start = () if math.isinf(job.order) else _multipliers(job, radii, largest)
    dual = StreamedDual(_Measure(job, receipts, where), job.order, weight, start, accuracy * largest)
    dual.prepare([job.gamma])
    return dual


def _multipliers(job: Job, radii: Sequence[float], largest: float) -> tuple[float, ...]:
    """Around the pilot group's own, by factors of four; 0; and one at which no cell is worth its cost."""
    costs = power_down(np.asarray([radius for radius in radii if radius > 0]), job.order)
    nearest_cost = float(costs[costs > 0].min(initial=math.inf))
    steepest = min(2 * largest / max(nearest_cost, TINY), 1e300)
    guess = (job.plan.multiplier if job.plan else 0.0) or steepest
    some = [guess * 4.0**k for k in range(-6, 7)]
    return tuple(sorted({0.0, steepest, *(value for value in some if 0 < value < steepest)}))


def _plan(job: Job, blocks: Sequence[ChunkKey]) -> Plan:
    """The plan of an earlier run of the same job, else a new one."""
    path = job.work / "plan.json"
    kept = read_json(path)
    if kept is not None and kept.get("identity") == job.identity:
        return Plan(tuple(kept["rungs"]), kept["first"], kept["multiplier"])
    (plan,) = Embedded().run(lambda some, group: some.planned(group), job, [blocks])
    write_json(path, {"identity": job.identity, **asdict(plan)})
    return plan


def _check(tier: str, order: float, gamma: float, epsilon: float | None, chunk: int, accuracy: float) -> None:
    if tier not in get_args(DistributionalTier):
        raise ParameterError(template("tier", f"one of {', '.join(get_args(DistributionalTier))}", tier))
    check_radius(order, gamma)
    if epsilon is not None:
        number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    if type(chunk) is not int or not 1 <= chunk <= LARGEST_CHUNK:
        raise ParameterError(template("chunk", f"a whole number from 1 to {LARGEST_CHUNK}", chunk))
    number("accuracy", accuracy, "a number from 0 to below 1", high=math.nextafter(1.0, 0.0))
