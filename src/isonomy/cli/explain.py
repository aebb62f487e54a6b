"""``isonomy explain``: one person, what the network gives, and the worst counterpart."""

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
    from isonomy.networks import Network
    from isonomy.population import Population
    from isonomy.population.feature import Label
    from isonomy.similarity.metric import Metric

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
) -> Answer:
    """Explain one person: the prediction, how much it can change for somebody similar, and who that is.

    Examples:

    isonomy explain --row 17

    isonomy explain audit.toml --row 17

    isonomy explain audit-german --row 17

    The last one takes the person, the network and the metric from what an audit wrote.
    """
    import numpy as np

    from isonomy.certificates import certify_local
    from isonomy.errors import ParameterError, template
    from isonomy.population.outcome import decided, named, rule
    from isonomy.report.pairs import facts_of_row
    from isonomy.report.terminal import row_to_terminal
    from isonomy.report.text import to_json

    audited = file if file is not None and (file.is_dir() or file.suffix == ".json") else None
    everybody, network, metric, delta, outcome = _planned(given, file) if audited is None else _read(given, audited)
    if network.remark:
        remark(f"- {network.remark}")
    how = "the first one, as no --row was given" if row is None else "chosen with --row"
    row = int(everybody.rows.min()) if row is None else row
    place = np.flatnonzero(everybody.rows == row)[:1]
    if not len(place):
        first, last = everybody.rows.min(), everybody.rows.max()
        right = f"a row of the table, {first} to {last}, that fits the schema"
        if audited is not None and last - first >= len(everybody):
            right = f"one of the {len(everybody):,} rows that were audited, such as {first} or {last}"
        raise ParameterError(template("row", right, row))
    person = everybody[place]
    found = certify_local(
        network, person, metric, delta, favourable=outcome.favourable or None, threshold=outcome.threshold,
        progress=None,
    )  # fmt: skip
    facts = facts_of_row(found, 0, row)
    outcome = found.question.outcome
    ((name, favour),) = named(decided(found.prediction, outcome, regression=network.head == "regression"), outcome)
    document = {"row": row, "selection": person.selection.as_dict()} | to_json(facts)
    document |= {"outcome": name, "favourable": favour, "decided": rule(outcome)}
    among = f"{len(everybody):,} {'people' if audited is None else 'audited people'}"
    given_text = "" if name is None else f"Given is {name!r}. "
    return Answer(
        document, chain(row_to_terminal(facts, f"One of {among}, {how}"), [f"{given_text}Decided is {rule(outcome)}."])
    )


def _read(given: Given, file: Path) -> tuple[Population, Network, Metric, float, Label]:
    """People, network, metric, δ and what is decided, as an audit wrote them."""
    from isonomy.errors import ParameterError, template
    from isonomy.records import read

    for name, value in given.items():
        right = "left out with the folder of an audit, which has its own: give audit.toml to ask otherwise"
        raise ParameterError(template(name, right, value))
    record = read(file)
    if record.people is None:
        raise ParameterError(f"The certificate {file} is redacted: it has no individuals to explain.")
    return record.people, record.network, record.metric, record.delta, record.outcome


def _planned(given: Given, file: Path | None) -> tuple[Population, Network, Metric, float, Label]:
    """People, network, metric, δ and what is decided, from the files of a plan."""
    from isonomy.auditing.inputs import read_inputs
    from isonomy.certificates.question import asked_outcome
    from isonomy.errors import ParameterError

    plan = Plan.of(given, file)
    if Path(plan.data).is_dir():
        raise ParameterError(
            f"'isonomy explain' reads one table into memory, and {plan.data} is a folder: give the directory of "
            "its audit, or as --data the file in it that holds the person, and --row counted within that file."
        )
    rest: Any = {"split": "all", "limit": None, "held_out": False, "against": (), "engine": None, "scheduler": None}
    inputs = read_inputs(replace(plan, **rest))
    assert inputs.people is not None
    outcome = asked_outcome(inputs.network, inputs.schema, plan.favourable or None, plan.threshold)
    return inputs.people, inputs.network, inputs.metric, plan.delta, outcome
