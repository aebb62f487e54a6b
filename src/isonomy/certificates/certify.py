"""From people and a model to a certificate: the same way for any table, wherever its chunks are worked on.

People come from a source (a population, a table, files of any size), cut into chunks. A schedule (which radii are worth
their price) is made once, on a pilot group; then every chunk is worked on by itself, here or on a cluster, and its
columns are concatenated. With a folder for ``work`` chunks are saved there: a run that was killed at any moment is
continued by giving the same call again, and the certificate is the same bit for bit.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget, attack_budget
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.chunks import POINT, PROFILE, Finished, Job, Work, finish, joined
from isonomy.certificates.consistency import counterexamples_saved_in, evidence_folder
from isonomy.certificates.finite_sample import Clusters
from isonomy.certificates.local import Arithmetic, LocalCertificate, Witnesses
from isonomy.certificates.profiles import Schedule
from isonomy.certificates.protocol import Model, Shift
from isonomy.certificates.question import (
    Question,
    check_model_and_metric,
    check_people,
    on_all_coordinates,
    own_delta,
    resolve_outcome,
)
from isonomy.certificates.transport import checked_shift
from isonomy.certificates.worst_case import Points
from isonomy.engine import EngineName, check_engine, open_engine
from isonomy.errors import DataError, ParameterError, template
from isonomy.files import Arrays, FolderStore, read_json, remove_partial_files, write_json
from isonomy.given import FINITE, choice, instance, number, whole
from isonomy.parallel import one_thread_in_blas
from isonomy.population import Domain, DomainKind, Population, Schema
from isonomy.population.encoding import find_column
from isonomy.population.population import in_train
from isonomy.population.schema import Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.sources import Chunk, ChunkKey, InMemory, PeopleSource, chunk_keys, open_people
from isonomy.progress import Progress, Shares, shown
from isonomy.similarity.ground import Ground
from isonomy.similarity.metric import Metric, checked_delta, overlaps
from isonomy.similarity.regions import MAX_BRANCHES, Similarity
from isonomy_verify.claims import Profiles
from isonomy_verify.dual import HUGE
from isonomy_verify.individuals import DECISIONS

DistributionalTier = Literal["interval", "tight"]

CHUNK = 4096
"""The most rows of a chunk; those that cost much have fewer."""

LARGEST_CHUNK = 2**22
"""The largest ``chunk`` allowed: with more rows memory would not be bounded."""


def certify(
    model: Model,
    people: Population | npt.ArrayLike | str | PathLike[str] | Any,
    metric: Metric,
    delta: float | None = None,
    shift: float | Shift = 0.0,
    *,
    gamma: float | None = None,
    order: float = 1.0,
    ground: Ground = "l2",
    epsilon: float | None = None,
    confidence: float | None = None,
    cluster: str | npt.ArrayLike | None = None,
    max_cluster: int | None = None,
    domain: Domain | DomainKind | None = None,
    tier: DistributionalTier = "tight",
    attack: bool | AttackBudget = True,
    decide: bool = False,
    favourable: str | Sequence[str] | None = None,
    threshold: float | None = None,
    arithmetic: Arithmetic = "float64",
    output_range: tuple[float, float] | None = None,
    rounds: int = 4,
    max_branches: int = MAX_BRANCHES,
    seed: int = 0,
    schema: Schema | None = None,
    unknown: Unknown = "error",
    split: SplitName = "all",
    engine: EngineName = "local",
    scheduler: str | None = None,
    work: str | PathLike[str] | None = None,
    chunk: int = CHUNK,
    progress: Progress | Literal["auto"] | None = "auto",
) -> Certificate:
    """Bound the mean violation of every population of a shift: those close to the individuals.

    ``model`` is a :class:`Network`, or any model with a tier. ``people``: a :class:`Population`; a table of numbers,
    which without a ``domain`` means all of ``R^m``; or, with a ``schema``, a pandas, Polars or Arrow table, the path of
    a Parquet file, of a folder of them or of a CSV file, or a Dask data frame, of which ``split`` takes one part and
    ``unknown="exclude"`` leaves out rows that do not fit. Similar is who is within ``delta`` in the ``metric``; None is
    for :class:`Counterparts` alone, whose tolerances mean 1.

    ``shift`` is a :class:`Transport`, a :class:`Part`, or a number, the γ of the former; ``gamma``, ``order`` and
    ``ground`` are those of a :class:`Transport` too. ``epsilon`` asks for a verdict, ``confidence`` for a statement
    about the population behind the sample. That takes individuals for independent draws; where they come in clusters
    that are drawn as wholes, such as households, name the column of the table that tells them apart, or give an array,
    as ``cluster``, and the most people that a cluster can have, known beforehand, as ``max_cluster``. ``rounds`` says
    how often profiles are improved where it matters. ``attack=False`` makes no search, leaves ``lower`` at 0 and is
    several times faster; ``attack=True`` draws by ``seed``, on which ``upper`` does not depend; an
    :class:`AttackBudget` has its own and says how hard it searches. ``decide`` settles by branch and bound whose
    decision can change, where the tier leaves it open. A regression needs a bounded domain, or the ``output_range``
    that its values are declared to keep within. ``tier``, ``favourable``, ``threshold``, ``arithmetic`` and
    ``max_branches`` are as for :func:`isonomy.certify_local`.

    ``work`` is a folder that keeps finished chunks; without one everything is in memory. Chunks have at most ``chunk``
    rows, and fewer where these would be more than some twenty seconds of counted work. ``engine="dask"`` works on the
    cluster at ``scheduler``, on the current Dask client, or on a local cluster; its workers must see files and ``work``
    under the same paths. ``progress`` is called with the rows done and in all, now and then.
    """
    populations = checked_shift(shift, gamma, order, ground)
    choice("tier", tier, DistributionalTier)
    choice("unknown", unknown, Unknown)
    choice("split", split, SplitName)
    choice("arithmetic", arithmetic, Arithmetic)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    if confidence is not None:
        confidence = number("confidence", confidence, "None or a number between 0 and 1", 0.0, 1.0, strict=True)
    if type(chunk) is not int or not 1 <= chunk <= LARGEST_CHUNK:
        raise ParameterError(template("chunk", f"a whole number from 1 to {LARGEST_CHUNK}", chunk))
    if work is not None:
        instance("work", work, str | PathLike, "a path")
    check_engine(engine, scheduler)
    max_branches, rounds, seed = whole("max_branches", max_branches), whole("rounds", rounds), whole("seed", seed)
    budget, output_range = attack_budget(attack, seed), checked_range(output_range)
    folder = None if work is None else Path(work).resolve()
    delta = own_delta(metric, delta)
    source, space, model = _open(model, people, metric, delta, domain, schema, unknown, split, max_branches, folder)
    job = Job(
        model, metric, checked_delta(delta), space, populations.on(space), tier, budget, bool(decide), rounds,
        arithmetic, output_range, max_branches, resolve_outcome(model, source.schema, favourable, threshold),
        evidence=evidence_folder(folder or Path()),
    )  # fmt: skip
    keys = source.keys(chunk)
    with shown("Certifying", progress) as tick:
        total = sum(map(len, keys))
        job = replace(job, schedule=_schedule(job, source, keys, folder, lambda rows: tick(0, total)))
    keys = source.keys(min(chunk, job.rows(source, keys)))
    store = None if folder is None else FolderStore(folder, f"{job.identity} {source.fingerprint()}")
    columns, computed = _columns(Work(job, source, store), keys, engine, scheduler, progress)
    return _certificate(job, source, columns, computed, epsilon, confidence, (cluster, max_cluster))


@dataclass(frozen=True, eq=False)
class _Array:
    """A source of individuals given as an array (n, m)."""

    x: FloatArray
    schema: None = None
    files: tuple[tuple[str, str], ...] = ()

    def keys(self, rows: int) -> list[ChunkKey]:
        """Cut the array into slices of at most ``rows`` rows."""
        return chunk_keys([("", len(self.x))], rows)

    def read(self, key: ChunkKey) -> Chunk:
        """Return the rows of a slice, all of weight 1."""
        x = self.x[key.start : key.stop]
        return Chunk(key, x, None, np.ones(len(x)), np.arange(key.start, key.stop), 0)

    def selection(self, people: int, excluded: int) -> Selection:
        """Return an unknown selection."""
        return Selection(people, how="unknown")

    def fingerprint(self) -> str:
        """Return the SHA-256 of shape and numbers."""
        return hashlib.sha256(repr(self.x.shape).encode() + self.x.tobytes()).hexdigest()


def _open(
    model: Model,
    people: Any,
    metric: Metric,
    delta: float,
    domain: Domain | DomainKind | None,
    schema: Schema | None,
    unknown: Unknown,
    split: SplitName,
    max_branches: int,
    work: Path | None,
) -> tuple[PeopleSource, Domain, Model]:
    """Check the inputs; return the source of people, the domain, and the model on all coordinates."""
    files = people.files if isinstance(people, InMemory) else ()
    if isinstance(people, InMemory):
        people = people.people
    check_people(people, schema)
    if isinstance(people, Population) or (schema is None and not isinstance(people, str | PathLike | PeopleSource)):
        question = Question.of(model, people, metric, delta, domain, max_branches)
        source = open_people(people, schema, split=split) if isinstance(people, Population) else _Array(question.x)
        if isinstance(source, InMemory):
            source = replace(source, files=files)
        return source, question.domain, question.model  # type: ignore[return-value]
    check_model_and_metric(model, metric)
    if isinstance(people, PeopleSource):
        people, schema = open_people(people, schema), people.schema
    if schema is None:
        raise ParameterError(f"'schema' must be given beside {people}: it says what the columns mean.")
    space = domain if isinstance(domain, Domain) else schema.domain(domain or "realizable")
    Similarity(metric, checked_delta(delta), space, max_branches)  # checks that they fit
    source = open_people(people, schema, unknown=unknown, split=split, work=work)
    return source, space, on_all_coordinates(model, schema)


def _schedule(
    job: Job, source: PeopleSource, keys: Sequence[ChunkKey], folder: Path | None, tick: Callable[[int], None]
) -> Schedule:
    """Read the schedule that an earlier run of the same job saved, else make one."""
    if folder is None:
        return job.pilot_schedule(source, keys, tick)
    identity = f"{job.identity} {source.fingerprint()} {len(keys)}"
    path = folder / "schedule.json"
    known = read_json(path)
    if known is not None and known.get("identity") == identity and (schedule := Schedule.read(known)) is not None:
        return schedule
    with one_thread_in_blas():
        schedule = job.pilot_schedule(source, keys, tick)
    write_json(path, {"identity": identity, **asdict(schedule)})
    return schedule


def _columns(
    work: Work,
    keys: Sequence[ChunkKey],
    engine: EngineName,
    scheduler: str | None,
    progress: Progress | Literal["auto"] | None,
) -> tuple[Arrays, int]:
    """Return the columns of all individuals, and the number of chunks that were computed."""
    finished, began = list[Finished](), time.time()
    with shown("Certifying", progress) as tick, open_engine(engine, scheduler) as where:
        parts = Shares(tick, sum(map(len, keys)))

        def finish_with_progress(work: Work, key: ChunkKey) -> Finished:
            return finish(work, key, partial(parts, key.index, len(key)))

        alone = len(keys) == 1 and engine == "local"  # then its stages have all threads
        # Progress inside a chunk is not seen from workers elsewhere.
        work_on = finish if engine == "dask" else finish_with_progress
        for each in [finish_with_progress(work, keys[0])] if alone else where.map(work_on, work, keys):
            finished.append(each)
            parts(each.key.index, len(each.key), 1.0)
    computed = sum(each.computed for each in finished)
    if work.store is not None:
        columns = joined(work.parts(keys), work.store.folder / "columns")
        remove_partial_files(work.store.folder, began)
        return columns, computed
    finished.sort(key=lambda each: each.key.index)
    return joined((each.columns or {} for each in finished), None), computed


def _certificate(
    job: Job,
    source: PeopleSource,
    columns: Arrays,
    computed: int,
    epsilon: float | None,
    confidence: float | None,
    cluster: tuple[str | npt.ArrayLike | None, int | None],
) -> Certificate:
    """Check the weights and make the certificate from the columns of all individuals."""
    x, weights, schema = columns["x"], columns["weights"], source.schema
    n = len(x)
    if not n:
        raise DataError("There are no individuals: no row of the table is left.")
    name = None if schema is None else schema.weight
    if not weights.any():
        raise DataError(f"Column {name!r}: all sampling weights are zero; at least one must be positive.")
    if not 1 / HUGE <= (total := math.fsum(weights.tolist())) <= HUGE:
        raise DataError(
            f"Column {name!r}: the sampling weights add up to {total:.3g}; scale them so that their sum lies between "
            f"{1 / HUGE:.0e} and {HUGE:.0e}."
        )
    question = Question(job.model, job.metric, job.delta, x, weights, job.domain, schema, job.max_branches, job.outcome)
    people = _people(source, columns, job.domain)
    clusters = _clusters(people, n, *cluster)
    decision = np.array(DECISIONS)[columns["decision"]]
    with counterexamples_saved_in(job.evidence, columns["rows"]):
        other, flip = columns["counterpart"], columns["flip_counterpart"]
        witnesses = Witnesses(x, other, columns["lower"], decision == "flippable", flip, question)
        local = LocalCertificate(
            columns["upper"], columns["lower"], witnesses, decision, np.empty((n, 0)), job.delta, job.tier,
            job.arithmetic, question,
        )  # fmt: skip
        start = np.append(0, np.cumsum(columns["profile_count"]))
        radius, value, passes = (columns[f"profile_{name}"] for name in PROFILE)
        profiles = Profiles(start, radius, value, float(columns["largest"].max()), passes)
        owner = np.repeat(np.arange(n), columns["point_count"])
        points = Points(owner, *(columns[f"point_{name}"] for name in POINT))
        assert job.schedule is not None
        return Certificate(
            job.shift, job.delta, epsilon, confidence, job.tier, job.arithmetic, local, profiles, points,
            _refusal(people, job.metric, job.shift, confidence, clusters), question, people, job.schedule,
            clusters, source.files, computed, job.output_range if job.model.head == "regression" else None,
            searched=job.attack is not None,
        )  # fmt: skip


def _people(source: PeopleSource, columns: Arrays, domain: Domain) -> Population | None:
    """Return the individuals as a population: the source's own, or one whose table has the protected features."""
    if isinstance(source, InMemory):
        return source.people if source.people.domain is domain else replace(source.people, domain=domain)
    if source.schema is None:
        return None
    x, rows = columns["x"], columns["rows"]
    y = columns.get("y")
    frame = source.schema.decode(x, only=source.schema.protected)
    selection = source.selection(len(x), int(columns["excluded"].sum()))
    return Population(frame, source.schema, domain, x, y, columns["weights"], rows, selection)


def checked_range(output_range: Any) -> tuple[float, float] | None:
    """Check a declared range of outputs: two finite numbers, the lower first."""
    if output_range is None:
        return None
    right = "None or two finite numbers, the lower first"
    if not isinstance(output_range, tuple | list | np.ndarray) or len(output_range) != 2:
        raise ParameterError(template("output_range", right, output_range))
    low, high = (number("output_range", end, right, -FINITE, FINITE) for end in output_range)
    if not low < high:
        raise ParameterError(template("output_range", right, output_range))
    return low, high


def _clusters(
    people: Population | None, n: int, cluster: str | npt.ArrayLike | None, max_cluster: int | None
) -> Clusters | None:
    """Check and number the clusters of the ``n`` individuals."""
    if cluster is None:
        if max_cluster is not None:
            raise ParameterError("'max_cluster' is the size of the largest 'cluster': give that too.")
        return None
    if isinstance(cluster, str):
        if people is None:
            raise ParameterError(template("cluster", "an array where the individuals are one", cluster))
        labels: Any = find_column(people.frame, cluster).to_numpy()
    else:
        labels = np.asarray(cluster)
        if labels.shape != (n,):
            raise ParameterError(template("cluster", f"a label for each of {n} individuals", f"shape {labels.shape}"))
    member, _ = pd.factorize(labels)
    if (member < 0).any():
        raise DataError(f"'cluster' has no label for individual {int(np.argmax(member < 0))}: give everybody one.")
    seen = int(np.bincount(member).max())
    expected = f"the most people that a cluster can have, known beforehand and at least {seen}, the most here"
    return Clusters(member.astype(np.int64), whole("max_cluster", max_cluster, seen, expected))


def _refusal(
    people: Population | None,
    metric: Metric,
    shift: Shift,
    confidence: float | None,
    clusters: Clusters | None,
) -> str:
    """Return why a statement about the population behind the sample cannot be made, "" where it can."""
    if confidence is None:
        return "No confidence was asked for: give 'confidence', for example 0.95."
    if shift.sample_refusal:
        return shift.sample_refusal
    if people is not None:
        if not (people.split == "test" or people.selection.held_out):
            train = people.split == "train"
            return (
                f"These individuals are of the {'training part of the table' if train else 'table as given'}, on which "
                "networks, metrics or schemas are fitted: a statement about the population behind them needs "
                "people that nothing was fitted on, the test part or rows that are said to be held out."
            )
        if len(people) < 2:
            return "A bound for the population needs at least two individuals."
        if people.repeated:
            return (
                "Rows of the table occur more than once among these individuals, so they are no independent draws: "
                "take each row once."
            )
        if len(np.unique(people.weights)) > 1:
            return "Individuals with unequal sampling weights are not independent draws from one population."
        # With E[w (h − μ)] = 0 bets on w / max_weight = 1 are fair for every possible draw: see isonomy.confidence.
        if people.schema.weight is not None and people.weights[0] != people.schema.max_weight:
            return (
                f"These individuals weigh alike (column {people.schema.weight!r}), but somebody who was not drawn may "
                "weigh more than all of them: only where they have the schema's 'max_weight' do they speak for others."
            )
        if clusters is not None and people.schema.split is None and not in_train(people.rows).any():
            return (
                "These individuals were set apart row by row, so that others of their clusters may have been fitted "
                "on: name a [split] column in the schema that keeps clusters together."
            )
        if clusters is not None and people.selection.how == "random":
            return (
                "These individuals were drawn one by one, so that their clusters are no independent draws as wholes: "
                "give the whole test part."
            )
        for name, each in (("metric", metric), ("ground metric", shift.ground_cost)):
            if each is not None and overlaps(each, people):
                return f"The {name} was fitted on {each.fitted_on}: fit it on the training part to judge the test part."
        if not people.selection.independent:
            how = "were chosen by hand" if people.selection.how == "chosen" else "were selected in a way not known"
            return (
                f"These individuals {how}, so that they need not be independent draws from one population: give the "
                "whole test part, or a random sample of it."
            )
    return ""
