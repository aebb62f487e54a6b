"""The trade-off between accuracy and certified violation, as a set of trained models.

models = isonomy.frontier(people, alphas=(0.0, 0.3, 1.0, 3.0))
models.table                   # scores and certified mean violation of each model, and who is dominated
models.best(epsilon=0.02)      # the most accurate model that is certified at epsilon
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from isonomy.errors import DataError, ParameterError, template
from isonomy.fairness import blind_scores, scores
from isonomy.given import instance
from isonomy.population import Population
from isonomy.training.collapse import collapse
from isonomy.training.estimators import FairClassifier

Measure = Callable[[FairClassifier, Population], float]
"""A certified upper bound of the violation of a model on a population."""

ALPHAS = (0.0, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Models along alpha, a row of ``table`` for each: ``alpha``, :func:`isonomy.fairness.scores`, ``upper``,
    ``collapsed``, ``pareto``.

    ``blind`` has the same scores of a logistic regression that reads nothing protected. ``classes`` is how many classes
    the model gives at all. ``collapsed`` models are no better than a constant, on the people judged or on the training
    rows: they are fair, and no solution. ``pareto`` marks the models among the others that no other one beats in both
    accuracy and upper.
    """

    table: pd.DataFrame
    models: tuple[FairClassifier, ...]
    blind: Mapping[str, float] = field(default_factory=dict)

    @property
    def pareto(self) -> pd.DataFrame:
        """Return the undominated models, by upper."""
        return self.table[self.table["pareto"]].sort_values("upper")

    def best(self, epsilon: float) -> FairClassifier:
        """Return the most accurate model that is certified at epsilon and has not collapsed."""
        return self.models[self.place(epsilon)]

    def place(self, epsilon: float) -> int:
        """Return the row of :meth:`best`."""
        alive = self.table[~self.table["collapsed"]]
        certified = alive[alive["upper"] <= epsilon]
        if len(certified):  # of equally accurate ones the fairest, never one that another of them dominates
            return int(certified.sort_values(["accuracy", "upper"], ascending=[False, True], kind="stable").index[0])
        lost = int((self.table["collapsed"] & (self.table["upper"] <= epsilon)).sum())
        if not len(alive):
            raise ParameterError(
                "No model is named, all have collapsed and are no better than a constant: train with smaller 'alphas', "
                "or for more epochs."
            )
        raise ParameterError(
            f"No model is certified at epsilon = {epsilon:g}, the smallest upper bound is {alive['upper'].min():.4g}"
            + (f"; {lost} that would be {'is' if lost == 1 else 'are'} no better than a constant: " if lost else ": ")
            + f"train with {'smaller' if lost else 'larger'} 'alphas'."
        )

    def __repr__(self) -> str:
        return f"Frontier of {len(self.models)} models\n{self.table.to_string(float_format='%.4f')}"


def frontier(
    people: Population,
    alphas: Sequence[float] = ALPHAS,
    *,
    model: FairClassifier | None = None,
    judged_on: Population | None = None,
    measure: Measure | None = None,
) -> Frontier:
    """Train along alpha on the training split of ``people`` and judge each model by accuracy and certified violation.

    ``model``, a :class:`FairClassifier` that need not be fitted, says how to train, each time with another of the
    ``alphas``. Models are judged on ``judged_on``, by default people's test split; when the choice among them shall
    itself be judged, hand over rows that neither training nor the final test uses. ``measure`` gives the certified
    upper bound, by default that of the populations within the model's gamma, by the tight tier.
    """
    instance("people", people, Population, "a Population")
    if not len(alphas) or not all(np.isfinite(alpha) and alpha >= 0 for alpha in alphas):
        raise ParameterError(template("alphas", "at least one finite number >= 0", tuple(alphas)))
    label = people.schema.label
    if label is not None and label.regression:
        raise ParameterError(
            f"A frontier is over accuracy, which needs classes; the label {label.column!r} is a number: train a "
            "regressor for each alpha instead (FairRegressor, or isonomy train --alpha)."
        )
    if model is not None and model.method == "scorecard":
        raise ParameterError(
            "A scorecard has no 'alpha': fit it without 'epsilon', and its 'frontier_' has all levels."
        )
    held_out = people.test if judged_on is None else judged_on
    if held_out.y is None:
        raise DataError(f"The population {held_out.schema.name!r} has no labels to judge accuracy by.")
    models, rows = [], []
    for alpha in alphas:
        trained = FairClassifier("u-dif") if model is None else FairClassifier(**model.get_params(deep=False))
        trained.set_params(alpha=alpha).fit(people)
        models.append(trained)
        upper = (measure or shifted)(trained, held_out)
        why = collapse(trained.network_, held_out.x, held_out.y, held_out.weights, label=held_out.schema.label)
        verdict = {"upper": upper, "collapsed": trained.collapsed_ or bool(why)}
        rows.append({"alpha": alpha, **scores(trained.network_, held_out), **verdict})
    table = pd.DataFrame(rows)
    alive = ~table["collapsed"].to_numpy(dtype=bool)
    table["pareto"] = False
    table.loc[alive, "pareto"] = _undominated(*(table.loc[alive, name].to_numpy() for name in ("accuracy", "upper")))
    learned = people.train if people.split == "all" else people
    return Frontier(table, tuple(models), blind_scores(learned, held_out))


def shifted(model: FairClassifier, people: Population) -> float:
    """Return the certified mean violation of every population within the model's gamma."""
    return model.certify(people, attack=False).upper


def _undominated(accuracy: np.ndarray[Any, Any], upper: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    better = (accuracy[:, None] >= accuracy) & (upper[:, None] <= upper)
    strictly = (accuracy[:, None] > accuracy) | (upper[:, None] < upper)
    return ~np.asarray((better & strictly).any(axis=0))
