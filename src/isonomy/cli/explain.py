"""``isonomy explain``: one person, what the model gives, and the worst counterpart."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isonomy.auditing.plan import Plan
from isonomy.cli.audit import TABLE, File
from isonomy.cli.console import Answer, remark
from isonomy.options import Given, select, with_options

if TYPE_CHECKING:
    from isonomy.population import Population
    from isonomy.problem import Problem

_NAMES = (
    "data", "schema", "model", "metric", "delta", "domain", "favourable", "threshold", *TABLE, "head", "output",
    "activation", "reads",
)  # fmt: skip


@with_options(given=select(Plan, *_NAMES))
def explain(
    given: Given,
    file: File = None,
    row: Annotated[
        int | None, typer.Option(help="The person's row in the table; 0 is the first row after the header.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--id", help="The person's id, where the schema declares such a column.")
    ] = None,
) -> Answer:
    """Explain one person: the prediction, how much it can change for somebody similar, and who that is.

    Examples:

    isonomy explain --row 17

    isonomy explain audit.toml --row 17

    isonomy explain audit-german --row 17

    isonomy explain audit.toml --id A-1042

    From the directory of an audit the person, the model and the metric are taken as that audit wrote them.
    """
    from isonomy.certificates import certify_local
    from isonomy.errors import ParameterError
    from isonomy.population.outcome import decided, named, rule
    from isonomy.report.counterpart import facts_of_row
    from isonomy.report.terminal import row_to_terminal
    from isonomy.report.text import to_json

    audited = file if file is not None and (file.is_dir() or file.suffix == ".json") else None
    people, problem, ids = _read_plan(given, file) if audited is None else _read_audit(given, audited)
    if problem.model.remark:
        remark(f"- {problem.model.remark}")
    if name is not None and row is not None:
        raise ParameterError("'row' and 'id' both say who is meant: give one of them.")
    how = "the first one, as no --row was given" if row is None else "chosen with --row"
    if name is not None:
        row, how = _row_of(name, ids, people), "chosen with --id"
    row = int(people.rows.min()) if row is None else row
    place = _place_of(row, people, audited is not None)
    person = people[[place]]
    local = certify_local(problem, person, progress=None)
    facts = facts_of_row(local, 0, row, name=None if ids is None else ids[place])
    outcome = problem.outcome
    ((given_class, favour),) = named(
        decided(local.prediction, outcome, regression=problem.model.head == "regression"), outcome
    )
    document = {"row": row, "selection": person.selection.as_dict()} | to_json(facts)
    document |= {"outcome": given_class, "favourable": favour, "decided": rule(outcome)}
    among = f"{len(people):,} {'people' if audited is None else 'audited people'}"
    decision = "" if given_class is None else f"Given is {given_class!r}. Decided is {rule(outcome)}."
    return Answer(document, chain(row_to_terminal(facts, f"One of {among}, {how}"), filter(None, [decision])))


def _place_of(row: int, people: Population, audited: bool) -> int:
    """Return the place of the person in a row of the table."""
    from isonomy.errors import ParameterError, template

    places = (people.rows == row).nonzero()[0]
    if not len(places):
        first, last = people.rows.min(), people.rows.max()
        right = f"a row of the table, {first} to {last}, that fits the schema"
        if audited and last - first >= len(people):
            right = f"one of the {len(people):,} rows that were audited, such as {first} or {last}"
        raise ParameterError(template("row", right, row))
    return int(places[0])


def _read_audit(given: Given, file: Path) -> tuple[Population, Problem, Any]:
    """Read people, problem and ids as an audit wrote them."""
    from isonomy.errors import ParameterError, template
    from isonomy.records import read

    for name, value in given.items():
        right = "left out with the folder of an audit, which has its own: give audit.toml to ask otherwise"
        raise ParameterError(template(name, right, value))
    record = read(file)
    if record.people is None:
        raise ParameterError(f"The certificate {file} is redacted: it has no individuals to explain.")
    return record.people, record.problem, _ids_of(record)


def _read_plan(given: Given, file: Path | None) -> tuple[Population, Problem, Any]:
    """Read people, problem and ids from the files of a plan."""
    from isonomy.auditing.inputs import read_inputs
    from isonomy.errors import ParameterError
    from isonomy.problem import Problem as Posed

    plan = Plan.of(given, file)
    if Path(plan.data).is_dir():
        raise ParameterError(
            f"'isonomy explain' reads one table into memory, and {plan.data} is a folder: give the directory of "
            "its audit, or as --data the file in it that holds the person, and --row counted within that file."
        )
    rest: Any = {"split": "all", "limit": None, "held_out": False, "against": (), "engine": None, "scheduler": None}
    inputs = read_inputs(replace(plan, **rest))
    assert inputs.people is not None
    people = inputs.people
    problem = Posed.of(
        inputs.model, inputs.metric, plan.delta, people.domain, people.schema,
        favourable=plan.favourable or None, threshold=plan.threshold,
    )  # fmt: skip
    return people, problem, people.ids


def _ids_of(record: Any) -> Any:
    """Read the ids (n,) of audited people from the table of individuals beside their certificate."""
    import numpy as np

    from isonomy.auditing.output import INDIVIDUALS, ids_by_row
    from isonomy.cli.certificates import named_beside

    if record.schema.id is None:
        return None
    table = named_beside(record.path, INDIVIDUALS)
    known = None if table is None else ids_by_row(table, record.schema.id)
    return None if known is None else np.array([known.get(row) for row in record.people.rows.tolist()], dtype=object)


def _row_of(name: str, ids: Any, people: Any) -> int:
    """Return the row of the only person with an id, or raise an error that says why there is none such."""
    from isonomy.errors import ParameterError, template

    column = people.schema.id
    if column is None:
        raise ParameterError(template("id", "left out: the schema declares no id column; say --row", name))
    if ids is None:
        raise ParameterError(template("id", f"left out: nothing here has the column {column!r}; say --row", name))
    rows = people.rows[ids == name.strip()].tolist()
    if len(rows) == 1:
        return int(rows[0])
    if rows:
        listed = ", ".join(map(str, rows[:5])) + ", …" * (len(rows) > 5)
        raise ParameterError(
            f"'id' must name one person: {len(rows)} rows have {column} {name!r} ({listed}); say --row."
        )
    empty = int(sum(each is None for each in ids))
    some = next((each for each in ids if each is not None), None)
    such = "" if some is None else f", such as {some!r}"
    gaps = f"; {empty:,} rows have none" if empty else ""
    raise ParameterError(template("id", f"in the column {column!r}{such}{gaps}", name))
