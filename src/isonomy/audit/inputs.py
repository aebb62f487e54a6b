"""From a plan to what is certified: people, network, metric, ground cost, and the hashes of their files."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from isonomy.audit.bundled import train_small
from isonomy.audit.plan import Plan
from isonomy.audit.tables import file_hash, is_catalogue, read_people
from isonomy.errors import ParameterError, template
from isonomy.networks import Network, simplify
from isonomy.networks.load import open_network
from isonomy.population import Dialect, Population, Schema, open_people
from isonomy.similarity import Counterparts, Metric, load_metric
from isonomy.similarity.ground import Ground, GroundName


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything that an audit needs, read and checked."""

    people: Population  # those who are audited
    network: Network
    metric: Metric
    ground: Ground
    others: tuple[tuple[str, Population], ...]  # tables to measure the distance to, by name
    sources: Mapping[str, str]  # file name -> SHA-256

    def fingerprint(self, plan: Plan) -> str:
        """SHA-256 of all that decides the bits of a certificate: contents, options, versions."""
        options = {key: value for key, value in asdict(plan).items() if key not in ("name", "out", "epsilon", "key")}
        versions = (version("isonomy"), np.__version__, platform.machine())
        words = f"{sorted(options.items())} {sorted(self.sources.items())} {versions} {self.network.hash()}"
        return hashlib.sha256(f"{words} {open_people(self.people).fingerprint()}".encode()).hexdigest()


def read_inputs(plan: Plan) -> Inputs:
    """Read the files of a plan; every fault is an error of one sentence."""
    sources: dict[str, str] = {}
    if plan.schema is not None and is_catalogue(plan.data):
        raise ParameterError(f"'schema' must be left out for {plan.data!r}, a table of the catalogue that has its own.")
    schema = None if plan.schema is None else Schema.from_toml(Path(plan.schema))
    whole = read_table(plan, plan.data, schema)
    people = _chosen(plan, whole)
    if plan.model is None:
        if not is_catalogue(plan.data):
            raise ParameterError("'model' must be given: the network file to audit, such as model.onnx.")
        network = train_small(whole.train, seed=plan.seed)
    else:
        network = read_network(plan, whole.schema)
    if is_catalogue(plan.data):
        sources[plan.data] = open_people(whole).fingerprint()
    metric = Counterparts.of(whole.schema) if plan.metric is None else load_metric(plan.metric)
    ground = read_ground(plan.ground, metric)
    others = tuple((_stem(source), read_table(plan, source, whole.schema)) for source in plan.against)
    files = [plan.data, plan.schema, plan.model, plan.metric, plan.ground if plan.ground.endswith(".toml") else None]
    for file in (*files, *plan.against):
        if file is not None and not is_catalogue(file):
            sources[_name(file, sources)] = file_hash(file)
    return Inputs(people, network, metric, ground, others, sources)


def read_table(plan: Plan, source: str, schema: Schema | None) -> Population:
    """All people of a table, as the plan reads tables."""
    dialect = Dialect(plan.separator, plan.encoding, plan.decimal)
    options: dict[str, Any] = {"domain": plan.domain, "unknown": plan.unknown}
    return read_people(source, None if is_catalogue(source) else schema, dialect=dialect, **options)


def read_network(plan: Plan, schema: Schema) -> Network:
    """The network of a plan, on the coordinates of a schema; affine steps are merged, so that checkers find layers."""
    options: dict[str, Any] = {
        "head": plan.head, "output": plan.output, "activation": plan.activation, "reads": plan.reads,
    }  # fmt: skip
    network = open_network(str(plan.model), schema, **options)
    return replace(network, graph=simplify(network.graph))


def read_ground(name: str, metric: Metric | None) -> Ground:
    """A ground cost by its name, by a file, or the fair metric itself."""
    for known in get_args(GroundName):
        if name == known:
            return known  # type: ignore[no-any-return]
    if name == "metric" and metric is not None:
        return metric
    if not name.endswith(".toml"):
        raise ParameterError(template("ground", "l1, l2, linf, metric, or a metric file (.toml)", name))
    return load_metric(name)


def part_of(plan: Plan, known: bool) -> str:
    """Which part of the table is audited: ``known`` says whether the table has a test part of its own."""
    return ("test" if known and not plan.held_out else "all") if plan.split == "auto" else plan.split


def _chosen(plan: Plan, people: Population) -> Population:
    """The individuals that are audited: a part of the table, or a sample of it."""
    part = part_of(plan, people.schema.split is not None or is_catalogue(plan.data))
    if part != "all":
        people = people.train if part == "train" else people.test
    if plan.held_out:
        people = people.held_out()
    return people if plan.limit is None else people.sample(plan.limit, plan.seed)


def _stem(source: str) -> str:
    return Path(source).name.split(".")[0]


def _name(file: str, taken: Mapping[str, str]) -> str:
    """The name of a file, with its folder where another file has the same."""
    name = Path(file).name
    return name if name not in taken else str(Path(file))
