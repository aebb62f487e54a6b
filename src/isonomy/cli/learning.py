"""What the commands that learn have in common: their options, the table, the words between bars."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isonomy.cli import options as o

if TYPE_CHECKING:
    from isonomy.audit import Plan
    from isonomy.population import Population

_TRAINING = "Training"


class Method(StrEnum):
    """How a network is trained."""

    udif = "u-dif"
    ldif = "l-dif"
    fibp = "f-ibp"
    sensr = "sensr"
    ftu = "ftu"
    sgd = "sgd"


MethodName = Annotated[
    Method,
    typer.Option(
        help="u-dif: fair under every shift within gamma; l-dif: under searched shifts; f-ibp: no shift; sensr; ftu: "
        "protected columns are not read; sgd: plain.",
        rich_help_panel=_TRAINING,
    ),
]
Alpha = Annotated[float, typer.Option(help="The weight of unfairness against error.", rich_help_panel=_TRAINING)]
Hidden = Annotated[str, typer.Option(help="The widths of the hidden layers.", rich_help_panel=_TRAINING)]
Epochs = Annotated[
    int | None,
    typer.Option(help="Passes over the table. Default: 10, more on a small one.", rich_help_panel=_TRAINING),
]
Rate = Annotated[float, typer.Option(help="Of the steps of training.", rich_help_panel=_TRAINING)]
TrainDelta = Annotated[float, typer.Option(help="Similar is who is at most this far apart.", rich_help_panel=_TRAINING)]
TrainGamma = Annotated[float, typer.Option(help="How far the population may shift.", rich_help_panel=_TRAINING)]

APART = (
    "out", "method", "delta", "gamma", "alpha", "hidden", "epochs", "learning_rate", "json",
)  # fmt: skip
"""Options that are not those of a plan."""


def read_people(said: dict[str, Any]) -> tuple[Plan, Population]:
    """The table to learn from, and the plan that its options make."""
    from isonomy.audit import Plan
    from isonomy.audit.inputs import read_table
    from isonomy.errors import ParameterError
    from isonomy.population import Schema

    if "data" not in said:
        raise ParameterError(
            "'data' must be given: the table to learn from, or a name of the catalogue such as german."
        )
    plan = Plan.of(said)
    schema = None if plan.schema is None else Schema.from_toml(o.path(plan.schema))
    return plan, read_table(plan, plan.data, schema)


def similar(plan: Plan) -> dict[str, Any]:
    """The metric and the ground cost of a plan."""
    from isonomy.audit.inputs import read_ground
    from isonomy.similarity import load_metric

    metric = None if plan.metric is None else load_metric(plan.metric)
    return {"metric": metric, "ground": read_ground(plan.ground, metric)}


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    from isonomy.errors import ParameterError, template

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(template(name, "numbers with commas between them", text)) from None


def widths(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    from isonomy.errors import ParameterError, template

    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ParameterError(template("hidden", "whole numbers with commas between them", text)) from None


def check_writable(out: Path) -> None:
    """Before a long training, not after it."""
    from isonomy.cli.files import whole

    with whole(out.with_name(f".{out.name}.check")) as part:
        part.touch()
    out.with_name(f".{out.name}.check").unlink()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of the libraries between the bars; what matters is said afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def collapse_of(model: Any, people: Population) -> str:
    """How a trained network has collapsed, on the training rows or the test rows; empty where it decides."""
    from isonomy.training.collapse import class_names, collapse

    names = class_names(people.schema.label)
    for some in (people.train, people.test):
        reason = "" if some.y is None else collapse(model.network_, some.x, some.y, some.weights, names)
        if reason:
            return reason
    return ""


def test_scores(network: Any, people: Population) -> dict[str, float]:
    """Accuracy on the test rows, of a classifier."""
    from isonomy.fairness import scores

    return {name: value for name, value in scores(network, people.test).items() if name != "classes"}
