"""The inputs of an audit, read from the files of a plan: people, network, metric, ground cost, and hashes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from isonomy.auditing.plan import Plan
from isonomy.datasets import load_population
from isonomy.datasets.catalogue import ENTRIES
from isonomy.errors import DataError, FileError, ParameterError, template
from isonomy.files import file_hash
from isonomy.loading import open_model
from isonomy.model import Model
from isonomy.networks import Network
from isonomy.networks.load import FORMATS
from isonomy.parallel import one_thread
from isonomy.population import Dialect, DomainKind, PeopleSource, Population, Schema, open_people
from isonomy.population.schema import Unknown
from isonomy.population.selection import SplitName
from isonomy.population.sources import table_files
from isonomy.population.tables import CELLS, described, read_pieces
from isonomy.problem import resolve_outcome
from isonomy.similarity import Counterparts, Metric, load_metric
from isonomy.similarity.ground import Ground, GroundName

PIECE = 2**16
"""Rows of which ids are read at a time."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of an audit, read and checked; a streamed table is read later."""

    people: Population | None  # the audited ones, where they are in memory
    schema: Schema
    model: Model
    metric: Metric
    ground: Ground
    others: tuple[tuple[str, Population], ...]  # tables to measure the distance to, by name
    sources: Mapping[str, str]  # file name -> SHA-256
    table: Mapping[str, Any] | None = None  # how the table is read; None where it is no file

    def open_source(self, plan: Plan, work: Path | None) -> PeopleSource:
        """Open the source of the people; ``work`` keeps a copy of a file without random access."""
        if self.people is not None:
            return open_people(self.people)
        split, dialect = part_of(plan, self.schema.split is not None), dialect_of(plan)
        return open_people(
            plan.data, self.schema, dialect=dialect, unknown=plan.unknown, split=split, work=work,
            table_limit=plan.table_limit,
        )  # fmt: skip


def read_inputs(
    plan: Plan,
    model: Model | None = None,
    *,
    schema: Schema | None = None,
    table: Population | None = None,
    metric: Metric | None = None,
) -> Inputs:
    """Read and check the files of a plan; a given ``model``, ``schema``, ``table`` or ``metric`` takes the place of its
    file."""
    sources: dict[str, str] = {}
    live, known = table is not None, plan.data in ENTRIES and table is None
    if plan.schema is not None and known:
        raise ParameterError(f"'schema' must be left out for {plan.data!r}, a table of the catalogue that has its own.")
    schema = Schema.from_toml(Path(plan.schema)) if schema is None and plan.schema is not None else schema
    if table is None and (plan.engine is None or known):
        table = read_table(plan, plan.data, schema)
    if table is not None:
        schema = table.schema
    if schema is None:
        raise ParameterError(f"'schema' must be given beside the table {plan.data}; 'isonomy init' writes a first one.")
    if model is not None:
        if plan.model is not None:
            raise ParameterError(
                "'model' is given twice, as an object and as a file of the plan: leave one of them out."
            )
    elif plan.model is not None:
        model = read_model(plan, schema)
    elif known and table is not None:
        model = train_small(table.train, seed=plan.seed)
    else:
        raise ParameterError("'model' must be given: the network file to audit, such as model.onnx.")
    schema = _with_outcome(plan, schema, model)
    if table is not None and schema.id is not None and schema.id not in table.frame.columns:
        raise DataError(
            f"Table {plan.data} has no column {schema.id!r}, by which the schema says people are named (id)."
        )
    people = None if table is None else select_people(plan, replace(table, schema=schema))
    if known and table is not None:
        sources[plan.data] = open_people(table).fingerprint()
    metric, ground = read_similarity(plan, schema, metric)
    others = tuple((Path(source).name.split(".")[0], read_table(plan, source, schema)) for source in plan.against)
    files = [plan.schema, plan.model, plan.metric, plan.ground if plan.ground.endswith(".toml") else None]
    for file in (None if people is None or live else plan.data, *files, *plan.against):
        if file is not None and file not in ENTRIES:
            name = Path(file).name  # with its folder where another file has the same
            sources[name if name not in sources else str(Path(file))] = file_hash(file)
    return Inputs(people, schema, model, metric, ground, others, sources, None if live else table_of(plan))


def _with_outcome(plan: Plan, schema: Schema, model: Model) -> Schema:
    """Return the schema with the plan's favourable class and threshold in its label.

    So groups, reports, records and services have one place to look. Outputs that the label is not about are decided by
    their numbers, which only the question holds.
    """
    outcome = resolve_outcome(model, schema, plan.favourable or None, plan.threshold)
    fits = schema.label is not None and len(outcome.classes) == len(schema.label.classes)
    return replace(schema, label=outcome) if fits and outcome != schema.label else schema


def dialect_of(plan: Plan) -> Dialect:
    """Return the dialect of the plan's CSV files."""
    return Dialect(plan.separator, plan.encoding, plan.decimal)


def table_of(plan: Plan) -> dict[str, Any] | None:
    """Return how the plan's table is read, as a certificate records it; None for a table of the catalogue."""
    return None if plan.data in ENTRIES else described(plan.data, dialect_of(plan)) | {"unknown": plan.unknown}


def read_table(plan: Plan, source: str, schema: Schema | None = None) -> Population:
    """Read all people of a table, as the plan reads tables; by its schema, unless another is given."""
    schema = Schema.from_toml(Path(plan.schema)) if schema is None and plan.schema is not None else schema
    try:
        how: dict[str, Any] = {name: getattr(plan, name) for name in ("domain", "unknown", "table_limit")}
        return read_people(source, schema, dialect_of(plan), **how)
    except DataError as error:
        if source in str(error):
            raise
        raise DataError(f"{source}: {error}") from error


def check_rows(plan: Plan, inputs: Inputs) -> None:
    """Refuse people whose raw rows the model reads otherwise than their coordinates; streams are read for it."""
    if inputs.people is not None:
        people = inputs.people
        inputs.model.check_rows(people.schema, people.frame)
        return
    if type(inputs.model).check_rows is Model.check_rows:  # which has nothing to refuse
        return
    first = 0
    for file in table_files(Path(plan.data)):
        start = first
        for offset, frame in read_pieces(file, inputs.schema, PIECE, dialect_of(plan), plan.table_limit):
            inputs.model.check_rows(inputs.schema, frame, start + offset)
            first = start + offset + len(frame)


def with_ids(people: Population, plan: Plan) -> Population:
    """Return streamed people, who have coordinates only, with the id column of their table, which is read again."""
    name = people.schema.id
    if name is None or name in people.frame.columns:
        return people
    slim = Schema(people.schema.name, people.schema.features[:1], id=name)
    ids, first = np.full(len(people), None, dtype=object), 0
    for file in table_files(Path(plan.data)):
        start = first
        for offset, frame in read_pieces(file, slim, PIECE, dialect_of(plan), plan.table_limit):
            first = start + offset + len(frame)
            if name in frame:
                some = slice(*np.searchsorted(people.rows, (start + offset, first)))
                ids[some] = frame[name].to_numpy(dtype=object)[people.rows[some] - start - offset]
    return replace(people, frame=people.frame.assign(**{name: ids}))


def read_people(
    source: str, schema: Schema | None, dialect: Dialect | None = None, *, domain: DomainKind = "realizable",
    unknown: Unknown = "error", table_limit: int = CELLS,
) -> Population:  # fmt: skip
    """Read the people of a file, by a schema, or of the catalogue."""
    if source in ENTRIES:
        return load_population(source, domain=domain)
    path = Path(source)
    if path.suffix == "" and not path.exists():
        raise FileError(
            f"There is no table {source!r}: name a .csv, .tsv or .parquet file, or one of the catalogue "
            f"({', '.join(sorted(ENTRIES))})."
        )
    if schema is None:
        raise ParameterError(f"'schema' must be given beside the table {source}; 'isonomy init' writes a first one.")
    how: dict[str, Any] = {"domain": domain, "unknown": unknown, "table_limit": table_limit}
    return Population.from_file(path, schema, dialect=dialect or Dialect(), **how)


def read_model(plan: Plan, schema: Schema) -> Model:
    """Read the model of a plan, on the coordinates of a schema."""
    options: dict[str, Any] = {name: getattr(plan, name) for name in ("head", "output", "activation", "reads")}
    options["trees"] = int(plan.trees) if plan.trees is not None and plan.trees.isdecimal() else plan.trees
    ending = Path(str(plan.model)).suffix.lower()
    for name in ("output", "activation"):
        if options[name] is not None and ending in FORMATS and name not in FORMATS[ending][2]:
            raise ParameterError(template(name, f"left out: of a {ending} file it changes nothing", options[name]))
    return open_model(str(plan.model), schema, **options)


def train_small(people: Population, hidden: tuple[int, ...] = (32, 16), seed: int = 0) -> Network:
    """Train the network of an audit that names none: cross-entropy, Adam, weight decay; deterministic by seed."""
    if people.y is None:
        raise DataError(f"The table of {people.schema.name!r} has no label column to learn from.")
    model = MLPClassifier(
        hidden, alpha=0.64, batch_size=min(64, len(people.x)), learning_rate_init=3e-3, max_iter=20, random_state=seed
    )
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is fixed
        model.fit(people.x, np.asarray(people.y))
    return Network.from_sklearn(model, name="small classifier")


def read_similarity(plan: Plan, schema: Schema, metric: Metric | None = None) -> tuple[Metric, Ground]:
    """Read the fair metric, unless it is given, by default counterparts of the schema, and the ground cost."""
    if metric is None:
        metric = Counterparts.of(schema) if plan.metric is None else load_metric(plan.metric)
    return metric, read_ground(plan.ground, metric)


def read_ground(name: str, metric: Metric | None) -> Ground:
    """Return a ground cost by its name, from a file, or the fair metric itself."""
    for known in get_args(GroundName):
        if name == known:
            return known  # type: ignore[no-any-return]
    if name == "metric" and metric is not None:
        return metric
    if not name.endswith(".toml"):
        raise ParameterError(template("ground", "l1, l2, linf, metric, or a metric file (.toml)", name))
    return load_metric(name)


def part_of(plan: Plan, known: bool) -> SplitName:
    """Return which part of the table is audited; ``known``: the table has a test part of its own."""
    return ("test" if known and not plan.held_out else "all") if plan.split == "auto" else plan.split


def select_people(plan: Plan, people: Population) -> Population:
    """Return the individuals that are audited: a part of the table, or a sample of it."""
    part = part_of(plan, people.schema.split is not None or plan.data in ENTRIES)
    if part != "all":
        people = people.train if part == "train" else people.test
    if plan.held_out:
        people = people.held_out()
    return people if plan.limit is None else people.sample(plan.limit, plan.seed)
