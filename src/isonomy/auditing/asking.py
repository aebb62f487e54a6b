"""A question in one call: a table and a model, files or objects, and what is guessed of them, each guess with a note.

:func:`ask` makes of them the plan and the inputs of an audit, and the two files that ask the same again. The command
line and :func:`isonomy.audit` both start here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from isonomy.auditing.guess import read_unknown, with_codes, with_similar
from isonomy.auditing.inputs import Inputs, read_inputs
from isonomy.auditing.plan import Plan, Roles
from isonomy.auditing.proposal import Draft, audit_text, dialect_guesses, draft, relative, schema_text
from isonomy.enumeration import Enumeration, FoundOnly
from isonomy.errors import FileError, NetworkError, ParameterError, template
from isonomy.loading import open_source
from isonomy.model import Model
from isonomy.options import options_of
from isonomy.population import Dialect, Population, Schema
from isonomy.population.encoding import text_of
from isonomy.population.tables import read_frame
from isonomy.problem import Problem
from isonomy.similarity.metric import Metric
from isonomy_verify.enumeration import EndlessError, count_candidates

READING = ("head", "output", "activation", "reads", "trees")
"""Options of a plan that say how a model is read."""

LOOKED_AT = 256
"""Rows on which a live model's own predictions are compared with those of the model as it is read."""

CLOSE = 1e-4
"""How far apart these may be: libraries compute in single precision."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question as an audit takes it: plan, inputs, notes on guesses, and the files that ask it again by name."""

    plan: Plan
    inputs: Inputs
    notes: tuple[str, ...]
    texts: Mapping[str, str]
    kind: str = "pandas"
    roles: Roles = field(default_factory=Roles)

    def command(self) -> str:
        """Return the command that asks the same of the same files, from any directory in which their paths hold."""
        plan = replace(self.plan, data=Plan().data, model=None, name="")
        words = ["isonomy", "audit", shlex.quote(self.plan.data), shlex.quote(str(self.plan.model))]
        for name, option in options_of(Roles).items():
            value = getattr(self.roles, name)
            several = value if isinstance(value, tuple) else () if value == option.default else (value,)
            words += [word for each in several for word in (option.flag, shlex.quote(str(each)))]
        return " ".join([*words, *plan.command("").split()]).strip()


@dataclass(frozen=True, eq=False)
class GivenTable:
    """A table as it was given: as a frame of pandas, its name, the path if it is a file, and how that is written."""

    table: pd.DataFrame
    name: str
    path: Path | None
    kind: str
    dialect: Dialect
    marks: dict[str, tuple[str, ...]]


def ask(
    model: Any,
    people: Any,
    roles: Roles,
    plan: Plan,
    *,
    schema: Schema | None = None,
    metric: Metric | None = None,
    folder: Path = Path(),
) -> Question:
    """Return the question about a ``model`` and ``people``, each a path or an object, with ``roles`` of columns and
    the options of a ``plan``; the files that ask it again name paths as they are seen from ``folder``.

    Without a ``schema`` one is guessed; without a ``metric`` similar people are counterparts of the schema.
    """
    given = read_given(people, plan.table_limit)
    if isinstance(model, str | Path) and not Path(model).is_file():
        raise FileError(f"There is no file '{model}'.")
    chosen = {name: _rounds(getattr(plan, name)) for name in READING if getattr(plan, name) not in (None, "auto")}
    if schema is None and roles.label is not None:  # the label has them, in the words of its classes
        favourable = roles.favourable or plan.favourable
        threshold = plan.threshold if roles.threshold is None else roles.threshold
        roles, plan = (
            replace(roles, favourable=favourable, threshold=threshold),
            replace(plan, favourable=(), threshold=None),
        )
    if schema is not None:
        _refuse_roles(roles)
        schema = replace(schema, features=with_similar(schema.features, roles.similar))
    source, made = _drafted(model, given, roles, chosen, schema)
    if not made.ready:
        raise NetworkError(
            f"The question is not clear yet: {_unclear(made)}. 'isonomy init' writes a schema to correct."
        )
    read = {name: str(value) for name, value in made.reading.options.items()}
    options: dict[str, Any] = read | {"unknown": "exclude" if made.people.excluded else plan.unknown}
    dialect: dict[str, Any] = {name: getattr(given.dialect, name) for name in ("separator", "encoding", "decimal")}
    named = isinstance(model, str | Path)
    plan = replace(
        plan, name=plan.name or made.schema.name, data=str(given.path or given.name), schema=None,
        model=str(model) if named else None, **options, **(dialect if given.path else {}),
    )  # fmt: skip
    table = None
    if given.path is None:
        frame = with_codes(given.table, made.schema)
        table = Population.from_frame(frame, made.schema, domain=plan.domain, unknown=plan.unknown)
    opened = None if named else open_source(source, made.schema, **made.reading.options)
    inputs = read_inputs(plan, opened, schema=made.schema, table=table, metric=metric)
    notes = made.notes
    if source is not model and inputs.model.head == "regression":
        raise NetworkError(
            f"'{source.name}' gives numbers of which no largest change is known, so an audit can prove nothing of it: "
            f"{_unread(notes)}; where similar people can be listed, isonomy.certify takes output_range=(low, high)."
        )
    if source is not model and (why := _endless(inputs, plan.delta)):
        inputs = replace(inputs, model=FoundOnly(source.model, inputs.schema, name=source.name))
        limit = f"similar people cannot all be listed ({why})"
        notes = (*notes, f"found only: flips are shown and nothing is proved, since {limit}")
    if opened is not None and source is model:
        _check_live(model, inputs, given)
    known = {"data": relative(given.path, folder)} if given.path else {}
    known |= {"model": relative(Path(model), folder)} if named else {}
    texts = {"schema.toml": schema_text(made), "audit.toml": _plan_text(made, plan, known, given)}
    return Question(plan, inputs, notes, texts, given.kind, roles)


def read_given(people: Any, limit: int) -> GivenTable:
    """Return a table that is a frame, or a file of at most ``limit`` cells."""
    if not isinstance(people, str | Path):
        frame = read_frame(people)
        kind = nw.from_native(people).implementation.value
        return GivenTable(frame.reset_index(drop=True), "people", None, kind, Dialect(), {})
    path = Path(people)
    table, dialect, marks = read_unknown(path, limit)
    return GivenTable(table, path.name.split(".")[0], path, "pandas", dialect, marks)


def to_kind(table: pd.DataFrame, kind: str) -> Any:
    """Return a table as a frame of the kind that was given: of Polars or Arrow, else of pandas."""
    if kind not in ("polars", "pyarrow"):
        return table
    frame = nw.from_native(table, eager_only=True)
    return frame.to_polars() if kind == "polars" else frame.to_arrow()


def _unclear(made: Draft) -> str:
    """Return what keeps a draft from being asked, and why columns that it speaks of were left out."""
    why = (made.reading.problem or made.notes[-1]).rstrip(".")
    left = [
        f"column {name!r} was left out, {reason}" for name, reason in made.guess.left_out.items() if repr(name) in why
    ]
    return "; ".join([why, *left])


def _rounds(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _refuse_roles(roles: Roles) -> None:
    """Refuse roles of columns beside a schema, which has them."""
    for item in fields(roles):
        value = getattr(roles, item.name)
        if value != item.default and item.name not in ("similar", "favourable", "threshold"):
            raise ParameterError(template(item.name, "left out beside a schema, which says it", value))


def _drafted(
    model: Any, given: GivenTable, roles: Roles, chosen: Mapping[str, Any], schema: Schema | None
) -> tuple[Any, Draft]:
    """Return the model as it can be read, and the draft of the question; a live model that cannot be read is asked."""
    made = draft(given.table, given.marks, given.name, model, roles, chosen, schema)
    if not made.reading.problem or isinstance(model, str | Path | Model) or not predicts(model):
        return model, made
    why = made.reading.problem.rstrip(".")
    try:
        source = Enumeration(AsGiven(model, given.table, given.kind), made.schema, name=_name(model))
        again = draft(given.table, given.marks, given.name, source, roles, {}, schema)
    except NetworkError as error:
        raise NetworkError(
            f"The model can neither be read nor asked. {error} It was not read because: {why}."
        ) from None
    return source, replace(again, notes=(*again.notes, f"{_ASKED}{why}"))


_ASKED = "the model is asked for its predictions, as it cannot be read: "


def _unread(notes: Iterable[str]) -> str:
    """Return why a model could not be read."""
    return next((note.removeprefix(_ASKED) for note in notes if note.startswith(_ASKED)), "it cannot be read")


def _endless(inputs: Inputs, delta: float) -> str:
    """Return why not everybody similar can be listed; "" where it can be done."""
    people = inputs.people
    if people is None:
        return ""
    problem = Problem.of(inputs.model, inputs.metric, delta, people.domain, inputs.schema)
    try:
        for start in range(0, len(people), LOOKED_AT):
            count_candidates(problem.similarity.kernel, people.x[start : start + LOOKED_AT])
    except EndlessError as error:
        return f"{error.coordinate} takes infinitely many values" if error.coordinate else f"{error.count:,.0f} of one"
    return ""


def _name(model: Any) -> str:
    return str(getattr(model, "__name__", type(model).__name__))


def predicts(model: Any) -> bool:
    """Return whether a live object can be asked about raw rows."""
    if hasattr(model, "state_dict"):
        return False
    return any(callable(getattr(model, name, None)) for name in ("predict_proba", "predict")) or callable(model)


class AsGiven:
    """A live model that is asked about raw rows in the types, and in the kind of frame, of the table as given."""

    def __init__(self, model: Any, table: pd.DataFrame, kind: str) -> None:
        self.model, self.kind = model, kind
        self.types = {str(name): column.dtype for name, column in table.items()}
        self.values = {
            str(name): {text_of(value): value for value in column.dropna().unique().tolist()}
            for name, column in table.items() if column.dtype.kind not in "iuf" or column.nunique() <= LOOKED_AT
        }  # fmt: skip
        for name in ("classes_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        for name in ("predict_proba", "predict"):
            if callable(getattr(model, name, None)):
                setattr(self, name, partial(self._ask, name))
        self.__name__ = _name(model)

    def _ask(self, name: str, frame: pd.DataFrame) -> Any:
        return getattr(self.model, name)(self.restored(frame))

    def __call__(self, frame: pd.DataFrame) -> Any:
        """Return what a function gives for raw rows."""
        return self.model(self.restored(frame))

    def restored(self, frame: pd.DataFrame) -> Any:
        """Return raw rows with the values and types that the table had."""
        columns = {}
        for name, column in frame.items():
            kind, known = self.types[str(name)], self.values.get(str(name), {})
            if column.dtype.kind not in "iuf":
                column = column.map(lambda cell, known=known: known.get(text_of(cell), cell), na_action="ignore")
            try:
                column = column.astype(kind)
            except (TypeError, ValueError):  # a gap in whole numbers, or a category that the table does not show
                column = column.astype("float64" if kind.kind in "iu" else object)
            columns[name] = column
        return to_kind(pd.DataFrame(columns), self.kind)


def _check_live(model: Any, inputs: Inputs, given: GivenTable) -> None:
    """Refuse a model that is read otherwise than it predicts itself, on a few rows of the table as it was given."""
    names, people = getattr(model, "feature_names_in_", None), inputs.people
    ask = (
        getattr(model, "predict_proba", None) if inputs.model.head != "regression" else getattr(model, "predict", None)
    )
    if isinstance(model, Model) or names is None or ask is None or people is None or given.path is not None:
        return
    if not set(map(str, names)) <= set(given.table.columns):
        return
    places = np.unique(np.linspace(0, len(people) - 1, min(len(people), LOOKED_AT)).astype(int))
    try:
        own = np.asarray(ask(given.table.iloc[people.rows[places]][list(map(str, names))]), dtype=np.float64)
    except Exception:  # such as texts where it wants codes: what it says of other rows is not known
        return
    read = inputs.model.on(inputs.schema)(people.x[places])
    own = own[:, None] if own.ndim == 1 else own
    if inputs.model.head != "regression" and own.shape[1] == read.shape[1]:
        order = _class_order(model, inputs.schema)
        own = own[:, order] if order else own
    if own.shape != read.shape:
        return
    scale = np.maximum(1.0, np.abs(own)) if inputs.model.head == "regression" else 1.0
    apart = (np.abs(own - read) / scale).max(axis=1)
    if not (apart <= CLOSE).all():
        place = int(np.argmax(~(apart <= CLOSE)))
        inputs.model.check_rows(inputs.schema, people.frame)  # which may say why
        raise NetworkError(
            f"'{inputs.model.name}' predicts {own[place].tolist()} for row {people.rows[places[place]]}, and "
            f"{read[place].tolist()} as it is read: a column has another meaning; give schema= with the right kinds."
        )


def _class_order(model: Any, schema: Schema) -> list[int]:
    """Return the places of the label's classes among the model's own; empty where these are numbers by place."""
    own = [text_of(each) for each in getattr(model, "classes_", ())]
    label = () if schema.label is None else schema.label.classes
    return [own.index(each) for each in label] if sorted(own) == sorted(label) else []


def _plan_text(made: Draft, plan: Plan, known: Mapping[str, Any], given: GivenTable) -> str:
    """Return the plan as an ``audit.toml``: guesses marked, and what was asked for."""
    guesses = {} if given.path is None else dialect_guesses(given.path, given.dialect)
    asked = {
        name: (getattr(plan, name), "as asked. " + each.words) for name, each in options_of(Plan).items()
        if name not in ("data", "schema", "model", "name", "out", *READING, *guesses, "unknown")
        and getattr(plan, name) != each.default
    }  # fmt: skip
    text = audit_text(made, known, guesses | asked, "audit")
    for part, words in (("data", "the table"), ("model", "the model")):
        if part not in known:
            text = re.sub(rf"(?m)^#? ?{part} = .*$", f"# {part}: {words} is an object, given to isonomy.audit", text)
    return text
