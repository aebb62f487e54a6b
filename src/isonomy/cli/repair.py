"""``isonomy repair``: a network changed as little as possible until it is certified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isonomy.audit.plan import Plan
from isonomy.cli import learning
from isonomy.cli.console import Answer, bar, remark
from isonomy.options import Given, select, with_options

_NAMES = ("data", "schema", "model", "metric", "delta", *learning.TABLE, "head", "activation", "reads")


@with_options(given=select(Plan, *_NAMES, data=None, delta=0.05))
def repair(
    given: Given,
    epsilon: Annotated[float, typer.Option(help="The mean violation to reach.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("repaired.onnx"),
    rounds: Annotated[int, typer.Option(help="How often unfairness may be weighed more.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the table in each round.")] = 3,
) -> Answer:
    """Change a network as little as possible until it is certified at epsilon.

    Example:

    isonomy repair --data people.csv --schema schema.toml --model model.onnx --epsilon 0.05

    No labels are needed. Certified is the mean violation of the test rows, without a shift. Exit status: 0 reached, 3
    not reached, also where only networks reach it that have collapsed: that give everybody one class, or are no better.
    """
    plan, people = learning.read_people(given)
    from isonomy.arithmetic import at_most
    from isonomy.audit.inputs import read_network
    from isonomy.errors import ParameterError
    from isonomy.training import repair as repaired
    from isonomy.training.onnx_file import write_onnx

    if plan.model is None:
        raise ParameterError("'model' must be given: the network file to repair, such as model.onnx.")
    network = read_network(plan, people.schema)
    if network.remark:
        remark(f"- {network.remark}")
    learning.check_writable(out)
    with bar() as shown, learning.quiet():
        shown.stage("Repairing")
        found = repaired(
            network, people, epsilon, metric=learning.similar(plan)["metric"], delta=plan.delta, rounds=rounds,
            epochs=epochs, random_state=plan.seed, progress=shown,
        )  # fmt: skip
    write_onnx(found.network, out)
    facts = {
        "model": str(out), "reached": found.reached, "epsilon": epsilon, "upper": found.certificate.mean_upper,
        "agreement": found.agreement, "change": found.change, "collapsed": found.collapsed,
        "reason": found.reason,
    }  # fmt: skip
    fairest = "the fairest network found that decides" if found.lost else "the fairest network found"
    words = "reached" if found.reached else f"not reached; this is {fairest}"
    words = "no success, since the network decides nothing" if found.collapsed else words
    advice = "Give a network that decides." if found.collapsed else "Allow a larger epsilon."
    lines = [
        f"Certified mean violation: {at_most(found.certificate.mean_upper)} (epsilon {epsilon:g}: {words}).",
        f"Decisions kept: {found.agreement:.1%} of the test rows; outputs change by {found.change:.4f} on average.",
        *([] if found.reached else [f"Failed: {found.reason} {advice}"]),
        f"Written: {out}; it reads the schema's coordinates (--reads coordinates).",
    ]
    return Answer(facts, "\n".join(lines), 0 if found.reached else 3)
