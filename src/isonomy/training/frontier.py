"""The trade-off between error and certified violation, as a set of models: networks along alpha, scorecards along C.

models = isonomy.frontier(people, alphas=(0.0, 0.3, 1.0, 3.0), methods=("scorecard", "u-dif"), seeds=3)
models.table                   # scores and certified mean violation of each model, and who is dominated
models.curve                   # means over the seeds, with standard errors
models.alternatives()          # to a model that was ``given``, by people set aside
models.best(epsilon=0.02)      # chosen on people set aside, certified there at 0.85 epsilon
models.plot()                  # log-loss and balanced accuracy against what is proved
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pandas as pd

from isonomy.errors import DataError, ParameterError, needed, template
from isonomy.fairness import blind_scores, scores
from isonomy.given import instance, whole
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.training.choice import MARGIN
from isonomy.training.collapse import collapse
from isonomy.training.config import Method
from isonomy.training.estimators import FairClassifier

Measure = Callable[[FairClassifier, Population], float]
"""A certified upper bound of the violation of a model on a population."""

ALPHAS = (0.0, 0.1, 0.3, 1.0, 3.0)

GIVEN = "given"
"""The method of a model that exists already."""

ASIDE = 0.2
"""The share of the training rows that is set aside to choose by."""

SIDES = ("aside_upper", "aside_log_loss", "aside_balanced_accuracy")
"""What is known of each model on people set aside."""

_CERTIFIED = 100
"""People set aside who are certified, at most."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """Models, a row of ``table`` for each: its ``method`` (``"regression"``, ``"additive"`` and ``"capped"`` are
    scorecards), ``alpha`` or ``C``, ``seed``, :func:`isonomy.fairness.scores`, ``local_upper``, ``upper``,
    ``collapsed``, ``pareto``, all of people judged; and ``aside_log_loss``, ``aside_balanced_accuracy`` and
    ``aside_upper`` of people set aside.

    ``blind`` has the same scores of a logistic regression that reads nothing protected. ``classes`` is how many classes
    the model gives at all. ``collapsed`` models are no better than a constant on the training rows, with those set
    aside: they are fair, and no solution. ``pareto`` marks the models among the others that no other one beats in both
    accuracy and upper. What is named by :meth:`best` is chosen by people set aside, never by those judged.
    """

    table: pd.DataFrame
    models: tuple[FairClassifier, ...]
    blind: Mapping[str, float] = field(default_factory=dict)

    @property
    def pareto(self) -> pd.DataFrame:
        """Return the undominated models, by upper."""
        return self.table[self.table["pareto"]].sort_values("upper")

    @property
    def curve(self) -> pd.DataFrame:
        """Return means over the seeds of models that have not collapsed, a row for each method and alpha or C, with
        standard errors (``..._se``; NaN for one seed)."""
        alive = self.table[~self.table["collapsed"]]
        rows = []
        for (method, option), group in alive.groupby(["method", _option(alive)], sort=False):
            row: dict[str, Any] = {"method": method, "option": option, "seeds": len(group)}
            for name in ("log_loss", "balanced_accuracy", "local_upper", "upper"):
                values = group[name].to_numpy(dtype=float)
                row[name] = values.mean()
                row[f"{name}_se"] = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            rows.append(row)
        return pd.DataFrame(rows)

    def best(self, epsilon: float) -> FairClassifier:
        """Return the model of the lowest log-loss, among those that are certified at 0.85 epsilon on people set aside
        and have not collapsed; the loss is that of people set aside, too."""
        return self.models[self.place(epsilon)]

    def place(self, epsilon: float) -> int:
        """Return the row of :meth:`best`."""
        alive, limit = self.table[~self.table["collapsed"]], MARGIN * epsilon
        certified = alive[alive["aside_upper"] <= limit]
        if len(certified):  # of equally good ones the fairest
            return int(certified.sort_values(["aside_log_loss", "aside_upper"], kind="stable").index[0])
        lost = int((self.table["collapsed"] & (self.table["aside_upper"] <= limit)).sum())
        if not len(alive):
            raise ParameterError(
                "No model is named, all have collapsed and are no better than a constant: train with smaller 'alphas', "
                "or for more epochs."
            )
        raise ParameterError(
            f"No model is certified at {limit:.4g} ({MARGIN:g} epsilon) on people set aside, the smallest upper bound "
            f"is {alive['aside_upper'].min():.4g}"
            + (f"; {lost} that would be {'is' if lost == 1 else 'are'} no better than a constant: " if lost else ": ")
            + f"train with {'smaller' if lost else 'larger'} 'alphas'."
        )

    def alternatives(self) -> pd.DataFrame:
        """Return the rows of models that could take the place of the one that was given, which comes first, then by
        bound: on people set aside they are certified lower, with a log-loss no higher and a balanced accuracy no lower.
        The given model may have learned from these people, which speaks for it."""
        given = self.table[self.table["method"] == GIVEN]
        if given.empty:
            raise ParameterError(template("given", "a network to compare with", None))
        own, others = given.iloc[0], self.table[(self.table["method"] != GIVEN) & ~self.table["collapsed"]]
        lower, loss, right = (others[name] for name in SIDES)
        better = (lower < own[SIDES[0]]) & (loss <= own[SIDES[1]]) & (right >= own[SIDES[2]])
        rows: pd.DataFrame = pd.concat([given, others[better].sort_values(SIDES[0], kind="stable")])
        return rows

    def plot(self) -> Any:
        """Draw log-loss and balanced accuracy against what is proved, locally and within gamma, a line for each method
        with standard errors over the seeds; return the figure of matplotlib."""
        pyplot = needed("matplotlib.pyplot", "plot", "A plot")
        names = {"log_loss": "log-loss", "balanced_accuracy": "balanced accuracy"}
        bounds = {"local_upper": "proved of these people", "upper": "proved within γ"}
        figure, panels = pyplot.subplots(2, 2, figsize=(8, 6), layout="constrained", squeeze=False)
        curve = self.curve
        for row, (name, words) in zip(panels, names.items(), strict=True):
            for axes, (bound, proved) in zip(row, bounds.items(), strict=True):
                for method, group in curve.groupby("method", sort=False):
                    mine = group.sort_values(bound)
                    errors = {"xerr": mine[f"{bound}_se"].fillna(0), "yerr": mine[f"{name}_se"].fillna(0)}
                    axes.errorbar(mine[bound], mine[name], **errors, marker="o", markersize=4, capsize=2, label=method)
                axes.set(xlabel=proved, ylabel=words)
        panels[0][0].legend(frameon=False, fontsize="small")
        return figure

    def __repr__(self) -> str:
        return f"Frontier of {len(self.models)} models\n{self.table.to_string(float_format='%.4f', na_rep='')}"


def _option(table: pd.DataFrame) -> pd.Series[Any]:
    """Return alpha, or C, or 0 of each model."""
    return table["alpha"].fillna(table["C"]).fillna(0.0)


def frontier(
    people: Population,
    alphas: Sequence[float] = ALPHAS,
    *,
    model: FairClassifier | None = None,
    methods: Sequence[Method] | None = None,
    seeds: int = 1,
    given: Network | None = None,
    judged_on: Population | None = None,
    measure: Measure | None = None,
) -> Frontier:
    """Train models on the training split of ``people`` and judge each by its scores and certified violation.

    ``model``, a :class:`FairClassifier` that need not be fitted, says how to train and asks the question. Of each of
    the ``methods``, by default its own (or ``"u-dif"``), a network is trained with each of the ``alphas`` and ``seeds``
    times; ``"scorecard"`` gives the plain regressions and additive models that no other one beats on training people,
    ``"given"`` is a network that exists already. Models are judged on ``judged_on``, by default people's test split. A
    fifth of the training split is set aside: nothing learns from it, and by it :meth:`Frontier.best` names a model.
    ``measure`` gives the certified upper bound of people, by default that of the populations within the model's gamma,
    by the tight tier.
    """
    usual = FairClassifier("u-dif") if model is None else model
    chosen = (usual.method,) if methods is None else tuple(methods)
    _check(people, alphas, chosen, seeds)
    held_out = people.test if judged_on is None else judged_on
    if held_out.y is None:
        raise DataError(f"The population {held_out.schema.name!r} has no labels to judge by.")
    train = people.train if people.split == "all" else people
    learned, aside = _set_aside(train)
    models, rows = [], []
    for row, trained in _trained(usual, learned, alphas, chosen, seeds, given):
        trained.named_ = model_name(row, seeds)
        models.append(trained)
        rows.append(row | _judged(trained, held_out, train, aside, measure))
    table = pd.DataFrame(rows)
    alive = ~table["collapsed"].to_numpy(dtype=bool)
    table["pareto"] = False
    table.loc[alive, "pareto"] = _undominated(*(table.loc[alive, name].to_numpy() for name in ("accuracy", "upper")))
    return Frontier(table, tuple(models), blind_scores(train, held_out))


def model_name(row: Mapping[str, Any], seeds: int = 1) -> str:
    """Return what a model is called, as a file's name: its method, alpha or C, and its seed where there are several."""
    parts = [str(row["method"])]
    parts += [f"{name}-{row[name]:g}" for name in ("alpha", "C") if not math.isnan(row[name])]
    return "-".join([*parts, *([f"seed-{row['seed']}"] if seeds > 1 and row["seed"] is not None else [])])


def _check(people: Population, alphas: Sequence[float], methods: Sequence[str], seeds: int) -> None:
    instance("people", people, Population, "a Population")
    whole("seeds", seeds, 1)
    if not len(alphas) or not all(np.isfinite(alpha) and alpha >= 0 for alpha in alphas):
        raise ParameterError(template("alphas", "at least one finite number >= 0", tuple(alphas)))
    if not methods or any(each not in get_args(Method) for each in methods):
        raise ParameterError(template("methods", f"some of {', '.join(get_args(Method))}", tuple(methods)))
    label = people.schema.label
    if label is not None and label.regression:
        raise ParameterError(
            f"A frontier is over accuracy, which needs classes; the label {label.column!r} is a number: train a "
            "regressor for each alpha instead (FairRegressor, or isonomy train --alpha)."
        )


def _set_aside(train: Population) -> tuple[Population, Population]:
    """Return who is learned from and who chooses, the same for every model."""
    order = np.random.default_rng(0).permutation(len(train))
    cut = max(1, math.floor(ASIDE * len(train)))
    return train[np.sort(order[cut:])], train[np.sort(order[:cut])]


def _trained(
    usual: FairClassifier,
    learned: Population,
    alphas: Sequence[float],
    methods: Sequence[str],
    seeds: int,
    given: Network | None,
) -> Iterator[tuple[dict[str, Any], FairClassifier]]:
    """Give each fitted model with the row that names it."""
    some: FairClassifier | None = None
    first = usual.random_state if isinstance(usual.random_state, int) else 0
    for method in methods:
        for seed in range(first, first + seeds) if seeds > 1 else (usual.random_state,):
            row: dict[str, Any] = {"method": method, "alpha": math.nan, "C": math.nan, "seed": seed}
            made = FairClassifier(**usual.get_params(deep=False)).set_params(method=method, random_state=seed)
            if method == "scorecard":
                some = made.set_params(epsilon=None).fit(learned)
                for place in np.flatnonzero(_undominated(-some.frontier_["loss"].to_numpy(),
                                                         some.frontier_["upper"].to_numpy())):  # fmt: skip
                    one = some.candidates_[place]
                    yield row | {"method": one.family, "C": one.c}, _with_network(some, one.network(some.domain_))
                continue
            for alpha in alphas if method in ("f-ibp", "l-dif", "u-dif", "residual", "sensei") else (0.0,):
                some = FairClassifier(**made.get_params(deep=False)).set_params(alpha=alpha).fit(learned)
                yield row | {"alpha": alpha}, some
    if given is not None and some is not None:
        row = {"method": GIVEN, "alpha": math.nan, "C": math.nan, "seed": None}
        yield row, _with_network(some, given.on(learned.schema))


def _with_network(fitted: FairClassifier, network: Network) -> FairClassifier:
    """Return a copy of a fitted estimator that asks the same question of another network."""
    other = copy(fitted)
    other.network_, other.collapsed_ = network, False
    return other


def _judged(
    model: FairClassifier, held_out: Population, train: Population, aside: Population, measure: Measure | None
) -> dict[str, Any]:
    """Return scores and bounds of a model on people judged, and what names it on people set aside."""
    few, local = aside.sample(_CERTIFIED), math.nan
    if measure is None:
        certificate = model.certify(held_out, attack=False)
        upper, local = certificate.upper, certificate.local.mean_upper
    else:
        upper = measure(model, held_out)
    aside_upper = model.certify(few, attack=False).upper if measure is None else measure(model, few)
    label = train.schema.label
    lost = train.y is not None and collapse(model.network_, train.x, train.y, train.weights, label=label)
    scored = scores(model.network_, aside)
    chosen_by = dict(zip(SIDES, (aside_upper, scored["log_loss"], scored["balanced_accuracy"]), strict=True))
    verdict = {"local_upper": local, "upper": upper, "collapsed": bool(lost)}
    return scores(model.network_, held_out) | verdict | chosen_by


def _undominated(accuracy: np.ndarray[Any, Any], upper: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    better = (accuracy[:, None] >= accuracy) & (upper[:, None] <= upper)
    strictly = (accuracy[:, None] > accuracy) | (upper[:, None] < upper)
    return ~np.asarray((better & strictly).any(axis=0))
