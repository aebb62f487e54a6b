"""``isonomy.audit``: a model, a table and a question in one call, or the plan of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from isonomy.auditing.asking import Question, ask
from isonomy.auditing.inputs import read_inputs
from isonomy.auditing.pipeline import run
from isonomy.auditing.plan import Plan, Roles, read_plan
from isonomy.auditing.result import Audit
from isonomy.certificates.options import check_keywords
from isonomy.errors import DataError, ParameterError, template
from isonomy.model import Model
from isonomy.options import options_of
from isonomy.population import Schema
from isonomy.progress import Progress
from isonomy.similarity import Metric, load_metric

Names = str | Iterable[str]
Similar = Mapping[str, float | str]


class AuditKeywords(TypedDict, total=False):
    """Keywords of :func:`isonomy.audit`: roles of columns, options of an ``audit.toml``, and how to run."""

    proxy: Names
    ignore: Names
    id: str
    weight: str
    split_column: str
    schema: Schema | str | PathLike[str]
    metric: Metric | str | PathLike[str]
    limit: int
    shift: Names
    gamma: float
    order: float
    ground: str
    part: float
    epsilon: float
    delta: float
    confidence: float
    domain: Literal["realizable", "relaxed", "unbounded"]
    tier: Literal["interval", "tight"]
    held_out: bool
    seed: int
    unknown: Literal["error", "exclude"]
    head: Literal["auto", "softmax", "sigmoid", "regression"]
    output: str
    activation: str
    reads: Literal["auto", "raw", "coordinates"]
    trees: str | int
    as_read: bool
    no_search: bool
    everywhere: bool
    redact: bool
    key: str
    name: str
    noun: str
    quiet: bool
    work: str | PathLike[str] | None
    progress: Progress | Literal["auto"] | None


def audit(
    source: Any = None,
    frame: Any = None,
    *,
    model: Any = None,
    label: str | None = None,
    protected: Names = (),
    similar: Similar | None = None,
    favourable: Names = (),
    threshold: float | None = None,
    plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None,
    **keywords: Unpack[AuditKeywords],
) -> Audit:
    """Audit how unequally a model, the ``source``, can treat similar people of a ``frame``: whose decisions flip, who
    gains, and what is proved.

    ``source`` (or ``model``) is a fitted estimator or pipeline of scikit-learn, XGBoost, LightGBM or CatBoost, a
    torch module, anything with ``predict_proba``, a function of raw rows, or the path of a model file; ``frame`` is
    a pandas, Polars or Arrow table of raw rows, or the path of one. ``label`` names the outcome's column,
    ``protected`` the columns that must not matter, ``similar`` how far similar people may differ otherwise, such as
    ``{"age": 2, "income": "5%", "town": "any"}``; ``favourable`` is the class that people hope for, ``threshold``
    the cut-off. Everything else is guessed, and each guess printed with how to change it, unless ``quiet``: further
    columns by ``proxy``, ``ignore``, ``id``, ``weight`` and ``split_column``, all of them by ``schema``, who is
    similar by ``metric``.

    Every row is audited unless ``limit`` says otherwise. ``shift``, ``gamma``, ``order``, ``ground``, ``part``,
    ``epsilon``, ``delta``, ``confidence``, ``domain``, ``tier``, ``held_out``, ``seed``, ``unknown``, ``head``,
    ``output``, ``activation``, ``reads``, ``trees``, ``as_read``, ``no_search``, ``everywhere``, ``redact``, ``key``,
    ``name`` and ``noun`` are those of ``isonomy audit``. ``plan`` asks what a file asked: an ``audit.toml``, or its
    keys as a dictionary, with its own model and table where none are given; it may stand first, too. Nothing is written
    but finished chunks, to the folder ``work``; ``progress`` is called with the rows done and in all.
    """
    check_keywords("audit", keywords, AuditKeywords)
    if frame is None and _is_plan(source):
        plan = _one_of("plan", source, plan)
    else:
        model = _one_of("model", source, model)
    given: dict[str, Any] = {
        name: value for name, value in keywords.items() if name not in ("work", "progress", "quiet")
    }
    given |= {"label": label, "protected": protected, "favourable": favourable, "threshold": threshold}
    given["similar"] = tuple(f"{name}={much}" for name, much in (similar or {}).items())
    given = {name: value for name, value in given.items() if value is not None and value != ()}
    entries = _entries(plan)
    work, how = keywords.get("work"), (keywords.get("progress", "auto"),)
    if frame is None:
        return _planned(entries, model, given, work, *how)
    if model is None and (model := entries.get("model")) is None:
        raise ParameterError("'model' must be given beside a frame: a fitted model, or the path of one.")
    for name in ("data", "model"):
        entries.pop(name, None)
    asked = _asked(model, frame, given, entries)
    if not keywords.get("quiet", False):
        for note in asked.notes:
            print(f"isonomy: {in_python(note)}")
    findings = run(
        asked.plan, *how, work=None if work is None or asked.plan.redact else Path(work), inputs=asked.inputs
    )
    findings = replace(findings, command=_call(model, frame, given), question=asked.texts)
    return Audit(asked.plan, findings, tuple(map(in_python, asked.notes)), asked.kind)


def _one_of(name: str, first: Any, other: Any) -> Any:
    """Return the one of two values that is given."""
    if first is not None and other is not None:
        raise ParameterError(f"'{name}' is given twice: leave one of them out.")
    return other if first is None else first


def _is_plan(thing: Any) -> bool:
    """Return whether a first argument alone is a plan: nothing, a dictionary, or the path of a file of options."""
    return thing is None or isinstance(thing, Plan | Mapping | int) or str(thing).endswith(".toml")


def _entries(plan: Any) -> dict[str, Any]:
    """Return the options that a plan has, by name."""
    if isinstance(plan, str | PathLike):
        return read_plan(Path(plan))
    if isinstance(plan, Plan):
        return {
            each.name: getattr(plan, each.name) for each in fields(plan) if getattr(plan, each.name) != each.default
        }
    if plan is None:
        return {}
    if not isinstance(plan, Mapping):
        raise ParameterError(template("plan", "None, the path of an audit.toml or a dictionary", type(plan).__name__))
    unknown = next((key for key in plan if key not in options_of(Plan)), None)
    if unknown is not None:
        raise ParameterError(template("plan", "made of the keys of an audit.toml", unknown))
    return {key: tuple(value) if isinstance(value, list) else value for key, value in plan.items()}


def _planned(
    entries: dict[str, Any], model: Any, given: dict[str, Any], work: Any, progress: Progress | Literal["auto"] | None
) -> Audit:
    """Audit the table that a plan names, and its model, or the one that is given."""
    if model is not None and not isinstance(model, Model):
        raise DataError("'frame' must be given beside a model: a pandas, Polars or Arrow table, or the path of one.")
    options, roles, objects = _split(given)
    if roles or objects:
        name = next(iter(roles | objects))
        raise ParameterError(
            template(name, "left out with a plan, whose schema says it, or given with a frame", given[name])
        )
    plan = Plan.of(entries | options)
    folder = None if work is None or plan.redact else Path(work)
    if model is None:
        return Audit(plan, run(plan, progress, work=folder))
    findings = run(plan, progress, work=folder, inputs=read_inputs(plan, model))
    again = f"isonomy.audit(..., model=model)  # from Python, {model!r} and the options of: {findings.command}"
    return Audit(plan, replace(findings, command=again))


def _split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return options of a plan, roles of columns, and objects in the place of files, from what is given."""
    several = {"protected", "proxy", "ignore", "shift", "favourable", "similar"}
    values = {
        name: (value,) if isinstance(value, str) and name in several else tuple(value) if name in several else value
        for name, value in given.items()
    }
    values |= {"trees": str(values["trees"])} if "trees" in values else {}
    objects: dict[str, Any] = {name: values[name] for name in ("schema", "metric") if name in values}
    options = {name: value for name, value in values.items() if name in options_of(Plan) and name not in objects}
    roles = {name: value for name, value in values.items() if name in options_of(Roles) and name not in options}
    return options, roles, objects


def _asked(model: Any, frame: Any, given: Mapping[str, Any], entries: Mapping[str, Any]) -> Question:
    """Return the question: what is given wins over the entries of a plan."""
    options, roles, objects = _split(given)
    schema, metric = objects.get("schema", entries.get("schema")), objects.get("metric", entries.get("metric"))
    if schema is not None and not isinstance(schema, Schema):
        schema = Schema.from_toml(Path(schema))
    if metric is not None and not isinstance(metric, Metric):
        metric = load_metric(Path(metric))
    rest = {name: value for name, value in entries.items() if name not in ("schema", "metric")}
    plan = Plan(**(rest | options))
    return ask(model, frame, Roles(**roles), plan, schema=schema, metric=metric)


def in_python(note: str) -> str:
    """Return a note with the options of the command line as keywords."""
    return re.sub(r"--([a-z-]+)(?: [A-Z]+)?", lambda flag: f"{flag[1].replace('-', '_')}=", note)


def _call(model: Any, frame: Any, given: Mapping[str, Any]) -> str:
    """Return the call that asks the same again."""
    names = [
        repr(str(each)) if isinstance(each, str | Path) else name for each, name in ((model, "model"), (frame, "frame"))
    ]
    shown = dict(given)
    if "similar" in given:
        shown["similar"] = dict(each.rsplit("=", 1) for each in given["similar"])
    words = [
        f"{name}={value!r}" for name, value in shown.items()
        if isinstance(value, str | int | float | tuple | list | dict)
    ]  # fmt: skip
    return f"isonomy.audit({', '.join([*names, *words])})  # Python"
