"""The work on one chunk: everything a worker needs, and what it does with it.

**Soundness.** A chunk is an ordinary question about its own individuals: local bounds, profiles and finds come from the
functions behind :func:`isonomy.certify`. The plan only says which radii are worth their price.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Effort
from isonomy.certificates.consistency import Evidence, compare_points, described, told
from isonomy.certificates.distributional import DistributionalTier, check_range, largest_violation, search_radii
from isonomy.certificates.local import Arithmetic, LocalCertificate, certify_local
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import Plan, make_plan, profiles
from isonomy.certificates.worst_case import search
from isonomy.engines.parts import LAYOUT, Part, read_part, write_part
from isonomy.engines.tallies import At, Tally, tallies
from isonomy.errors import DataError, FileError, NotANumberError, ParameterError
from isonomy.networks.network import Network
from isonomy.population import Chunk, ChunkKey, Domain, PeopleSource
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import exact_sum
from isonomy_verify.heads import Head

PILOT = 32
"""Individuals on whom the plan is made."""

PILOT_BLOCKS = 16
"""Blocks, evenly spread over the dataset, that they are taken from."""


@dataclass(frozen=True)
class Receipt:
    """What the rest of the run needs to know of a part."""

    block: ChunkKey
    rows: int
    excluded: int
    weight: int  # an exact sum
    radii: tuple[float, ...]
    largest: float
    computed: bool  # now, not in an earlier run


@dataclass(frozen=True, eq=False)
class Job:
    """A question about a dataset; ``network`` reads all coordinates of the schema."""

    source: PeopleSource
    chunk: int
    network: Network
    metric: Metric
    domain: Domain
    ground: Metric
    delta: float
    gamma: float
    order: float
    tier: DistributionalTier
    attack: bool
    effort: Effort
    rounds: int
    arithmetic: Arithmetic
    output_range: tuple[float, float] | None
    max_branches: int
    work: Path
    evidence: Path | None  # where a contradiction is written, with the person; None: nowhere
    plan: Plan | None = None

    @cached_property
    def identity(self) -> str:
        """The hash of all that the result depends on, but for the plan, which follows from it."""
        texts = [
            f"isonomy {version('isonomy')} numpy {np.__version__} layout {LAYOUT}",
            self.network.hash(),
            metric_to_text(self.metric),
            metric_to_text(self.ground),
            f"{self.source.fingerprint()} {self.chunk}",
            repr((self.delta, self.gamma, self.order, self.tier, self.attack, self.effort, self.rounds)),
            repr((self.arithmetic, self.output_range, self.max_branches)),
            *(repr(np.asarray(getattr(self.domain, part.name)).tolist()) for part in fields(self.domain)),
        ]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def key(self, block: ChunkKey) -> str:
        """The hash of all that a part depends on."""
        text = f"{self.identity} {self.plan!r} {block.index} {block.start} {block.stop}"
        return hashlib.sha256(text.encode()).hexdigest()

    def path(self, block: ChunkKey) -> Path:
        """Where the part of a block is kept."""
        return self.work / "parts" / f"{block.index:08d}.parquet"

    def part(self, block: ChunkKey) -> Part:
        """The finished part of a block, checked."""
        part = read_part(self.path(block), self.key(block))
        if part is None:
            raise FileError(
                f"The part {self.path(block)} was changed after it was finished: run the same audit again, in a work "
                "folder of its own."
            )
        return part

    def compute(self, people: Chunk) -> Part:
        """Profiles and finds of some individuals."""
        n = len(people.x)
        if not n:
            none = np.zeros((1, 0))
            return Part("", people.rows, people.weights, np.zeros(1), none, 0.0, none, none, people.excluded)
        moving, local = self._looked_at(people.x)
        found = profiles(
            moving, local.upper, self.gamma, self.order, self._largest(moving.head),
            rounds=self.rounds, tight=self.tier == "tight", plan=self.plan,
        )  # fmt: skip
        values = np.minimum.accumulate(np.minimum(found.values, found.largest)[:, ::-1], axis=1)[:, ::-1]
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise NotANumberError("A bound of these individuals is not a finite number >= 0; nothing is certified.")
        # A radius at which nobody has a bound of their own says nothing that the next one does not say.
        says = np.append((values[:, :-1] < values[:, 1:]).any(axis=0), True)
        says[0] = True
        radii, profile = found.radii[says], np.ascontiguousarray(values.T[says])
        cost, value = self._attained(moving, local)
        check_range(value, moving.head, self.output_range)
        return Part("", people.rows, people.weights, radii, profile, found.largest, cost, value, people.excluded)

    def compare(self, part: Part, x: FloatArray | None = None) -> None:
        """Refuse a part in which somebody was found above a profile; with ``x`` the individuals are at hand."""
        more = {"gamma": self.gamma, "order": self.order, "tier": self.tier, "arithmetic": self.arithmetic}

        def evidence(at: int) -> Evidence:
            person = {} if x is None else {"individual": x[at % len(part)].tolist()}
            return described(self) | more | {"ground": metric_to_text(self.ground), "identity": self.identity} | person

        owner = np.tile(np.arange(len(part)), len(part.cost))
        profiles = part.radii, part.profile.T, part.largest
        compare_points(owner, part.cost.ravel(), part.value.ravel(), profiles, evidence)

    def planned(self, blocks: Sequence[ChunkKey]) -> Plan:
        """A plan from a pilot group that row numbers alone decide."""
        some = _spread(len(blocks), PILOT_BLOCKS)
        each, chosen = math.ceil(PILOT / len(some)), []
        for index in some:
            x = self.source.read(blocks[index]).x
            chosen.append(x[_spread(len(x), each)])
        x = np.concatenate(chosen)
        if not len(x):  # then whoever stands first
            x = next((people for block in blocks if len(people := self.source.read(block).x)), x)[:PILOT]
        if not len(x):
            raise DataError("There are no individuals: no row of the dataset is left.")
        moving, local = self._looked_at(x, attack=False)
        largest, tight = self._largest(moving.head), self.tier == "tight"
        if self.domain.kind == "unbounded" and not math.isfinite(largest):
            raise ParameterError(
                "A regression on the unbounded domain has no largest violation: give 'output_range' as (low, high), or "
                "a bounded domain ('relaxed' or 'realizable')."
            )
        return make_plan(moving, local.upper, self.gamma, self.order, largest, tight=tight)

    def _looked_at(self, x: FloatArray, attack: bool | None = None) -> tuple[Moving, LocalCertificate]:
        local = certify_local(
            self.network, x, self.metric, self.delta, domain=self.domain, tier=self.tier,
            attack=self.attack if attack is None else attack, arithmetic=self.arithmetic, effort=self.effort,
            max_branches=self.max_branches, progress=None, predict=False,
        )  # fmt: skip
        float32 = self.arithmetic == "float32"
        moving = Moving(local.question, self.ground, float32)
        return moving, local

    def _largest(self, head: Head) -> float:
        return largest_violation(head, self.output_range)

    def _attained(self, moving: Moving, local: LocalCertificate) -> tuple[FloatArray, FloatArray]:
        """Costs and values (points, n) of whom the search found: at cost 0, and at each radius."""
        n = len(local)
        costs, values = [np.zeros(n)], [local.lower]
        for radius in search_radii(self.gamma, self.order, moving.diameter) if self.attack else []:
            points = search(moving, local.lower, local.witnesses.counterpart, [radius], self.effort)
            cost, value = np.zeros(n), np.full(n, -np.inf)
            who = points.owner[n:]  # the first n are the individuals themselves
            cost[who], value[who] = points.cost[n:], points.value[n:]
            costs.append(cost)
            values.append(value)
        return np.stack(costs), np.stack(values)


def _spread(n: int, count: int) -> list[int]:
    """At most ``count`` of the numbers below ``n``, evenly spread."""
    count = min(n, count)
    return [i * n // count for i in range(count)]


def finish(job: Job, block: ChunkKey) -> Receipt:
    """The part of a block: the one that is there if it is right, else computed and written."""
    key, path = job.key(block), job.path(block)
    part = read_part(path, key)
    computed = part is None
    if part is None:
        people = job.source.read(block)
        try:
            with told(job.evidence, people.rows):
                part = replace(job.compute(people), key=key)
                job.compare(part, people.x)
        except DataError as error:
            raise DataError(f"{block.place}, rows {block.start} to {block.stop}: {error}") from None
        write_part(part, path)
    else:
        with told(job.evidence, part.rows):
            job.compare(part)
    radii = tuple(part.radii.tolist())
    return Receipt(block, len(part), part.excluded, exact_sum(part.weights), radii, part.largest, computed)


def tally(job: Job, task: tuple[ChunkKey, Sequence[At]]) -> dict[At, Tally]:
    """What a finished part adds to the sums."""
    block, places = task
    return tallies(job.part(block), job.order, places)
