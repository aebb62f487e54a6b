"""``isonomy explain``: one person, what the network gives, and the worst counterpart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isonomy.auditing.plan import Plan
from isonomy.cli.audit import TABLE, File
from isonomy.cli.console import Answer, remark
from isonomy.options import Given, select, with_options

if TYPE_CHECKING:
    from isonomy.certificates import LocalCertificate
    from isonomy.population import Population

_NAMES = ("data", "schema", "model", "metric", "delta", "domain", *TABLE, "head", "output", "activation", "reads")

_DECISIONS = {
    "certified": "No similar person can get another decision.",
    "flippable": "A similar person with another decision was found.",
    "undecided": "Whether a similar person can get another decision is not decided.",
}


@with_options(given=select(Plan, *_NAMES))
def explain(
    given: Given,
    file: File = None,
    row: Annotated[
        int,
        typer.Option(help="The person's row in the table; 0 is the first row after the header.", show_default=False),
    ] = 0,
) -> Answer:
    """Explain one person: the prediction, how much it can change for somebody similar, and who that is.

    Examples:

    isonomy explain --row 17

    isonomy explain audit.toml --row 17

    isonomy explain audit-german --row 17

    The last one takes the person, the network and the metric from what an audit wrote.
    """
    import numpy as np

    from isonomy.auditing.inputs import read_inputs
    from isonomy.certificates import certify_local
    from isonomy.errors import ParameterError, template
    from isonomy.records import read

    if file is not None and (file.is_dir() or file.suffix == ".json"):
        record = read(file)
        if record.people is None:
            raise ParameterError(f"The certificate {file} is redacted: it has no individuals to explain.")
        everybody, network, metric, delta = record.people, record.network, record.metric, record.delta
    else:
        plan = Plan.of(given, file)
        if Path(plan.data).is_dir():
            raise ParameterError(
                f"'isonomy explain' reads one table into memory, and {plan.data} is a folder: give the directory of "
                "its audit, or as --data the file in it that holds the person, and --row counted within that file."
            )
        rest: Any = {"split": "all", "limit": None, "held_out": False, "against": (), "engine": None, "scheduler": None}
        inputs = read_inputs(replace(plan, **rest))
        assert inputs.people is not None
        everybody, network, metric, delta = inputs.people, inputs.network, inputs.metric, plan.delta
    if network.remark:
        remark(f"- {network.remark}")
    place = np.flatnonzero(everybody.rows == row)[:1]
    if not len(place):
        right = f"a row of the table, {everybody.rows.min()} to {everybody.rows.max()}"
        raise ParameterError(template("row", f"{right}, that fits the schema", row))
    person = everybody[place]
    found = certify_local(network, person, metric, delta, progress=None)
    facts = _facts(found, person, row)
    return Answer(facts, _show(facts))


def _facts(found: LocalCertificate, person: Population, row: int) -> dict[str, Any]:
    network, schema = found.question.network, person.schema
    pair = found.witnesses.frame(0)
    other = found.witnesses.counterpart
    mine, theirs = network(person.x)[0].tolist(), network(other)[0].tolist()
    classes = schema.label.classes if schema.label is not None and len(schema.label.classes) == len(mine) else ()
    labels = schema.label.labels if schema.label is not None else {}
    names = [labels.get(name, name) for name in classes] or [f"output {i}" for i in range(len(mine))]
    return {
        "row": row,
        "selection": person.selection.as_dict(),
        "prediction": dict(zip(names, mine, strict=True)),
        "upper": float(found.upper[0]),
        "lower": float(found.lower[0]),
        "decision": str(found.decision[0]),
        "counterpart_prediction": dict(zip(names, theirs, strict=True)),
        "differs": [str(name) for name in pair.index[pair["differs"] == "*"]],
        "individual": {str(name): _cell(value) for name, value in pair["individual"].items()},
        "counterpart": {str(name): _cell(value) for name, value in pair["counterpart"].items()},
    }


def _cell(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _show(facts: dict[str, Any]) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    from isonomy.arithmetic import at_least, at_most

    given = ", ".join(f"{name} {value:.4f}" for name, value in facts["prediction"].items())
    yield Text(f"Row {facts['row']}: {given}", style="bold")
    people = facts["selection"]["pool"]
    yield Text(f"One of {people:,} people, chosen with --row: what is proved here is about this person alone.")
    reached = f"a counterpart was found for whom it changes by {at_least(facts['lower'])}"
    yield Text(
        f"For somebody similar this can change by at most {at_most(facts['upper'])} (proved); "
        f"{reached if facts['lower'] > 0 else 'no change was found'}."
    )
    yield _DECISIONS.get(facts["decision"], "")
    if facts["lower"] > 0:
        theirs = ", ".join(f"{name} {value:.4f}" for name, value in facts["counterpart_prediction"].items())
        yield Text(f"The worst counterpart found: {theirs}; differs in {', '.join(facts['differs'])}.")
    table = Table("feature", "individual", "counterpart", "")
    for name, value in facts["individual"].items():
        other = facts["counterpart"][name]
        differs = name in facts["differs"]
        table.add_row(name, _text(value), _text(other), "differs" if differs else "", style="bold" if differs else None)
    yield table


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
