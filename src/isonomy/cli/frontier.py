"""``isonomy frontier``: what fairness costs in accuracy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from isonomy.cli import learning
from isonomy.cli.console import Answer, bar, console
from isonomy.cli.learning import Training
from isonomy.options import Given, select, with_options


@with_options(given=learning.PLAN, training=select(Training, "method", "hidden", "epochs", "learning_rate"))
def frontier(
    given: Given,
    training: Given,
    out: Annotated[Path, typer.Option(help="The folder to write the models and frontier.csv to.")] = Path("frontier"),
    alphas: Annotated[str, typer.Option(help="Weights of unfairness against error.")] = "0,0.1,0.3,1,3",
    epsilon: Annotated[float | None, typer.Option(help="Name the most accurate model certified at this.")] = None,
) -> Answer:
    """Train along alpha: what does fairness cost in accuracy?

    Example:

    isonomy frontier --data people.csv --schema schema.toml --alphas 0,0.3,1,3 --epsilon 0.02

    Every model is judged on the test rows by its accuracy and its certified mean violation (of individuals, no shift).
    Models that have collapsed (no better than giving everybody one class) are marked and never named. The exit status
    is 3 when all have, or, with --epsilon, no other model is certified.
    """
    plan, people = learning.read_people(given)
    weights = learning.numbers("alphas", alphas, float)
    options = learning.estimator_options(plan, Training(**training))
    from isonomy.cli.files import whole
    from isonomy.errors import ParameterError
    from isonomy.training import FairClassifier
    from isonomy.training import frontier as trained
    from isonomy.training.frontier import mean_local

    with bar() as shown, learning.quiet():
        shown.stage("Training along alpha")
        done = []

        def measured(one: FairClassifier, judged: Any) -> float:
            done.append(one)
            shown(len(done), len(weights))
            return mean_local(one, judged)

        found = trained(people, weights, model=FairClassifier(**options), measure=measured)
    table = found.table.assign(model=[f"alpha-{weight:g}.onnx" for weight in weights])
    with whole(out / "frontier.csv") as part:
        table.to_csv(part, index=False)
    for name, each in zip(table["model"], found.models, strict=True):
        each.to_onnx(out / name)
    if plan.metric is None:
        found.models[0].metric_.save(out / "metric.toml")
    best, why = None, ""
    try:
        place = found.place(math.inf if epsilon is None else epsilon)
        best = None if epsilon is None else str(table["model"].iloc[place])
    except ParameterError as error:
        why = str(error)

    def people_read() -> None:
        _show_frontier(table)
        print(f"Written: {out / 'frontier.csv'} and {len(found.models)} models.")
        if epsilon is not None:
            print(f"Most accurate at epsilon {epsilon:g}: {best or 'none'}.")
        if why:
            print(f"Failed: {why}")

    facts = {"folder": str(out), "models": table.to_dict("records"), "best": best, "reason": why}
    return Answer(facts, people_read, 3 if why else 0)


def _show_frontier(table: Any) -> None:
    from rich.table import Table

    from isonomy.arithmetic import at_most

    shown = Table("alpha", "accuracy", "balanced", "certified mean violation", "", "model")
    for row in table.itertuples():
        mark = "undominated" if row.pareto else "collapsed" if row.collapsed else ""
        shown.add_row(
            f"{row.alpha:g}", f"{row.accuracy:.3f}", f"{row.balanced_accuracy:.3f}", at_most(row.upper), mark, row.model
        )
    console().print(shown)
