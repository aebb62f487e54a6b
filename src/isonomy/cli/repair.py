"""``isonomy repair``: a network changed as little as possible until it is certified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isonomy.cli import learning
from isonomy.cli import options as o
from isonomy.cli.bars import bars
from isonomy.cli.talk import answer, remark


def repair(
    data: o.Data = None,
    schema: o.SchemaFile = None,
    model: o.Model = None,
    epsilon: Annotated[float, typer.Option(help="The mean violation to reach.", show_default=False)] = ...,  # type: ignore[assignment]
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("repaired.onnx"),
    metric: o.MetricFile = None,
    delta: learning.TrainDelta = 0.05,
    rounds: Annotated[int, typer.Option(help="How often unfairness may be weighed more.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the table in each round.")] = 3,
    seed: o.Seed = None,
    unknown: o.UnknownRows = None,
    separator: o.Separator = None,
    encoding: o.Encoding = None,
    decimal: o.Decimal = None,
    head: o.HeadName = None,
    activation: o.Activation = None,
    reads: o.ReadsName = None,
    json: o.Json = False,
) -> None:
    """Change a network as little as possible until it is certified at epsilon.

    Example:

    isonomy repair --data people.csv --schema schema.toml --model model.onnx --epsilon 0.05

    No labels are needed. Certified is the mean violation of the test rows, without a shift. Exit status: 0 reached, 3
    not reached, also where only networks reach it that have collapsed: that give everybody one class, or are no better.
    """
    said = o.given(dict(locals()), "epsilon", "rounds", *learning.APART)
    plan, people = learning.read_people(said)
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
    with bars() as shown, learning.quiet():
        shown.stage("Repairing")
        found = repaired(
            network, people, epsilon, metric=learning.similar(plan)["metric"], delta=delta, rounds=rounds,
            epochs=epochs, random_state=plan.seed, progress=shown.tick,
        )  # fmt: skip
    write_onnx(found.network, out)
    facts = {
        "model": str(out), "reached": found.reached, "epsilon": epsilon, "upper": found.certificate.mean_upper,
        "agreement": found.agreement, "change": found.change, "collapsed": found.collapsed,
        "reason": found.reason,
    }  # fmt: skip
    if json:
        answer(facts)
    else:
        fairest = "the fairest network found that decides" if found.lost else "the fairest network found"
        words = "reached" if found.reached else f"not reached; this is {fairest}"
        words = "no success, since the network decides nothing" if found.collapsed else words
        print(f"Certified mean violation: {at_most(found.certificate.mean_upper)} (epsilon {epsilon:g}: {words}).")
        print(
            f"Decisions kept: {found.agreement:.1%} of the test rows; outputs change by {found.change:.4f} on average."
        )
        if not found.reached:
            advice = "Give a network that decides." if found.collapsed else "Allow a larger epsilon."
            print(f"Failed: {found.reason} {advice}")
        print(f"Written: {out}; it reads the schema's coordinates (--reads coordinates).")
    raise typer.Exit(0 if found.reached else 3)
