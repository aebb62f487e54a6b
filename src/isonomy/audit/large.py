"""An audit of a dataset larger than memory: the plan in, what was proved out, chunk by chunk.

The folder ``OUT.work`` beside the result keeps every finished chunk (:mod:`isonomy.engines.parts`), so that a run that
was killed goes on where it was: whoever gives the same command again. When all is written that folder becomes the
result. A later run with the same ``out`` takes its parts up again, as far as they answer the same question.

What such an audit does not have, since it would need everybody in memory at once: counterparts in raw units, decisions,
group fairness, distances to other tables, and a statement about the population behind the table.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from isonomy.audit.inputs import part_of, read_ground, read_network
from isonomy.audit.plan import Plan
from isonomy.audit.tables import file_hash, is_catalogue
from isonomy.engines import LargeCertificate, certify
from isonomy.engines.dataset import CHUNK
from isonomy.errors import FileError, ParameterError
from isonomy.networks import Network
from isonomy.population import Domain, DomainKind, Schema
from isonomy.progress import Progress
from isonomy.similarity import Counterparts, Metric, load_metric
from isonomy.similarity.ground import Ground, ground_metric

STEPS = 4
"""Places of the curve for each γ; all of them are found by the same few passes."""

KEPT = ("plan.json", "parts")
"""What of a finished audit is of use to the next one."""

_OWN = frozenset(
    {*KEPT, "result.json", "individuals", "evidence", "certificate.json", "report.html", "summary.md", "junit.xml"}
)


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of everybody, read and checked; the dataset itself is only named."""

    schema: Schema
    network: Network
    metric: Metric
    ground: Ground
    split: str
    sources: Mapping[str, str]  # file name -> SHA-256, without the dataset


@dataclass(frozen=True, eq=False)
class LargeFindings:
    """Everything that an audit larger than memory found."""

    title: str
    asked: Asked
    domain: str
    unknown: str
    certificate: LargeCertificate
    curve: tuple[tuple[float, float, float], ...]  # gamma, upper, lower
    largest_gamma: float | None  # up to which ε is kept; None without an ε, or where it is not even kept at 0
    command: str
    created: str  # when the first run of this question began: ISO 8601, UTC
    redacted: bool
    work: Path = field(repr=False)
    data: Path = field(repr=False)
    chunk: int = field(repr=False)

    @property
    def ground(self) -> Metric:
        """What moving somebody costs."""
        return ground_metric(self.asked.ground, self.asked.schema.width, self.asked.schema.coordinate_names)

    @property
    def space(self) -> Domain:
        """Who is possible."""
        return self.asked.schema.domain(cast(DomainKind, self.domain))


def read_asked(plan: Plan) -> Asked:
    """Schema, network and metric of a plan; every fault is an error of one sentence."""
    if is_catalogue(plan.data) and not Path(plan.data).exists():
        raise ParameterError(
            "'data' must be a Parquet file, a folder of them or a CSV file when 'engine' is given. "
            f"Got {plan.data!r}, a table of the catalogue."
        )
    if plan.schema is None:
        raise ParameterError(f"'schema' must be given beside the table {plan.data}; 'isonomy init' writes a first one.")
    if plan.model is None:
        raise ParameterError("'model' must be given: the network file to audit, such as model.onnx.")
    if plan.redact and Path(plan.data).suffix.lower() not in (".parquet", ".pq") and not Path(plan.data).is_dir():
        raise ParameterError(
            "'redact' must be left out for a CSV file when 'engine' is given: its people would be copied to the disk. "
            "Give a Parquet file."
        )
    schema = Schema.from_toml(Path(plan.schema))
    network = read_network(plan, schema)
    metric = Counterparts.of(schema) if plan.metric is None else load_metric(plan.metric)
    files = [plan.schema, plan.model, plan.metric, plan.ground if plan.ground.endswith(".toml") else None]
    sources = {Path(file).name: file_hash(file) for file in files if file is not None}
    split = part_of(plan, schema.split is not None)
    return Asked(schema, network, metric, read_ground(plan.ground, metric), split, sources)


def run_large(
    plan: Plan,
    target: Path,
    progress: Progress | Literal["auto"] | None = "auto",
    *,
    asked: Asked | None = None,
    announce: Callable[[str], None] = lambda stage: None,
) -> LargeFindings:
    """Audit with the work folder of ``target``; nothing appears under the final name."""
    asked = asked or read_asked(plan)
    work = open_work(target)
    options: dict[str, Any] = {
        "schema": asked.schema, "work": work, "engine": plan.engine or "local", "scheduler": plan.scheduler,
        "chunk": plan.chunk or CHUNK, "unknown": plan.unknown, "split": asked.split, "tier": plan.tier,
        "domain": plan.domain, "order": plan.order, "ground": asked.ground, "epsilon": plan.epsilon,
        "attack": not plan.no_search, "progress": progress,
    }  # fmt: skip
    announce("Bounding chunk after chunk")
    try:
        found = certify(asked.network, Path(plan.data), asked.metric, plan.delta, plan.gamma, **options)
    finally:
        with suppress(OSError):
            work.rmdir()  # only where nothing was begun
    assert isinstance(found, LargeCertificate)
    announce("Solving for other shifts")
    return LargeFindings(
        title=plan.name or asked.schema.name,
        asked=asked,
        domain=plan.domain,
        unknown=plan.unknown,
        certificate=found,
        curve=_curve(found),
        largest_gamma=None if plan.epsilon is None else found.largest_gamma(plan.epsilon),
        command=plan.command(),
        created=datetime.fromtimestamp((work / "plan.json").stat().st_mtime, UTC).isoformat(timespec="seconds"),
        redacted=plan.redact,
        work=work,
        data=Path(plan.data),
        chunk=options["chunk"],
    )


def work_of(target: Path) -> Path:
    """The folder that keeps finished parts of an audit on its way."""
    return target.with_name(f"{target.name}.work")


def open_work(target: Path) -> Path:
    """Take the work folder into use; a new one begins with the parts of an earlier audit of the same name."""
    work = work_of(target)
    try:
        if work.exists():
            strange = sorted(each.name for each in work.iterdir() if not _is_own(each.name))
            if strange:
                raise FileError(
                    f"The work folder {work} holds {strange[0]!r}, which no audit writes: remove it, or name another "
                    "'out'."
                )
            return work
        work.mkdir(parents=True)
        for name in KEPT:
            _link(target / name, work / name)
    except OSError as error:
        raise FileError(f"The work folder {work} cannot be written: {error.strerror}.") from error
    return work


def parts_in(work: Path) -> int:
    """How many parts are finished."""
    return sum(1 for _ in work.glob("parts/*.parquet"))


def _is_own(name: str) -> bool:
    return name in _OWN or name.endswith(".partial") or (name.startswith("people-") and name.endswith(".parquet"))


def _link(old: Path, new: Path) -> None:
    """The same files under another name: parts are replaced, never changed, so that nothing is copied."""
    if old.is_dir():
        new.mkdir()
        for each in old.iterdir():
            _link(each, new / each.name)
    elif old.is_file():
        try:
            os.link(old, new)
        except OSError:  # a file system without links
            shutil.copy2(old, new)


def _curve(found: LargeCertificate) -> tuple[tuple[float, float, float], ...]:
    """Upper and lower from 0 to twice γ. A bound for a larger ball holds for a smaller one, and so does a find."""
    usual = 0 < found.gamma < math.inf
    gammas = [found.gamma * (step / STEPS) for step in range(2 * STEPS + 1)] if usual else []
    # What these passes sum up, the certificate keeps, and bounds for any γ are read from it (records.envelope).
    staircase = found.radii if found.order == math.inf else ()
    found.dual.prepare([0.0, *gammas, *staircase, math.inf], ["near"])
    if not usual:
        return ((found.gamma, found.upper, found.lower),)
    table = found.curve(gammas)
    lower = np.maximum.accumulate(table["lower"].to_numpy())
    upper = np.minimum.accumulate(table["upper"].to_numpy()[::-1])[::-1]
    return tuple(zip(gammas, upper.tolist(), lower.tolist(), strict=True))
