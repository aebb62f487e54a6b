"""What the commands that learn have in common: their options, the table, the words between bars."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from isonomy.audit.plan import Plan
from isonomy.options import Given, check_options, option, select, whole

if TYPE_CHECKING:
    from isonomy.population import Population

_PANEL = "Training"
TABLE = ("seed", "unknown", "separator", "encoding", "decimal")
"""Options by which every command reads a table."""
PLAN = select(
    Plan, "data", "schema", "metric", "delta", "gamma", "order", "ground", *TABLE, data=None, delta=0.05
)  # fmt: skip
"""Options of a plan that say what to train on, and who is similar."""


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    method: Literal["u-dif", "l-dif", "f-ibp", "sensr", "ftu", "sgd"] = option(
        "u-dif", "u-dif: fair under every shift within gamma; l-dif: under searched shifts; f-ibp: no shift; sensr; "
        "ftu: protected columns are not read; sgd: plain.", panel=_PANEL,
    )  # fmt: skip
    alpha: float = option(1.0, "The weight of unfairness against error.", panel=_PANEL)
    hidden: str = option("256,256", "The widths of the hidden layers.", panel=_PANEL)
    epochs: int | None = option(
        None, "Passes over the table. Default: 10, more on a small one.", whole(1), panel=_PANEL
    )
    learning_rate: float = option(1e-3, "Of the steps of training.", panel=_PANEL)

    def __post_init__(self) -> None:
        check_options(self)


def read_people(given: Given) -> tuple[Plan, Population]:
    """The table to learn from, and the plan that its options make."""
    from isonomy.audit.inputs import read_table
    from isonomy.errors import ParameterError
    from isonomy.population import Schema

    if "data" not in given:
        raise ParameterError(
            "'data' must be given: the table to learn from, or a name of the catalogue such as german."
        )
    plan = Plan.of(given)
    schema = None if plan.schema is None else Schema.from_toml(Path(plan.schema))
    return plan, read_table(plan, plan.data, schema)


def similar(plan: Plan) -> dict[str, Any]:
    """The metric and the ground cost of a plan."""
    from isonomy.audit.inputs import read_ground
    from isonomy.similarity import load_metric

    metric = None if plan.metric is None else load_metric(plan.metric)
    return {"metric": metric, "ground": read_ground(plan.ground, metric)}


def estimator_options(plan: Plan, training: Training) -> dict[str, Any]:
    """The arguments of a fair estimator."""
    return {
        "method": training.method, "delta": plan.delta, "gamma": plan.gamma, "order": plan.order,
        "hidden": numbers("hidden", training.hidden, int), "epochs": training.epochs,
        "learning_rate": training.learning_rate, "random_state": plan.seed, "progress": None, **similar(plan),
    }  # fmt: skip


def numbers(name: str, text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Numbers of a kind with commas between them."""
    from isonomy.errors import ParameterError, template

    try:
        return tuple(kind(part) for part in text.split(",") if part.strip() or kind is float)
    except ValueError:
        right = "whole numbers" if kind is int else "numbers"
        raise ParameterError(template(name, f"{right} with commas between them", text)) from None


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
    from isonomy.training.frontier import scores

    if people.schema.label is None or people.schema.label.regression:
        return {}
    found = scores(network, people.test)
    return {name: found[name] for name in ("accuracy", "balanced_accuracy")}
