"""Repair: a fairer model in the place of one that exists, and what it costs, on people who were held out.

Of a network weights are changed (:mod:`isonomy.training.repairing`). Of a tree ensemble no leaf is: it is averaged over
what protected features can be, decided by another cut-off, or fitted again by its own library, without the
protected columns, shallower, or monotone. Each way is judged like the original: by its certificate, its exact decisions
and its scores on the same people.

**Soundness.** Ways are proposed by people who are not judged; what is said of each is what :func:`isonomy.certify`
proves of it. An average tests nothing that was averaged over (:mod:`isonomy.trees.averaged`), so its violation there is
that of roundings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.brief import brief
from isonomy.certificates import Certificate, Transport, certify
from isonomy.certificates.certify import DistributionalTier
from isonomy.certificates.protocol import tier_for
from isonomy.certificates.tree_tier import TreeTier
from isonomy.errors import FileError, ParameterError, needed, template
from isonomy.fairness import scores
from isonomy.fairness.decisions import accuracies
from isonomy.given import FINITE, instance, number, whole
from isonomy.loading import holds_trees, open_trees
from isonomy.model import Model
from isonomy.population import Feature, Population
from isonomy.population.outcome import favourable_places
from isonomy.problem import Problem
from isonomy.progress import Progress, shown
from isonomy.similarity import Counterparts, Metric
from isonomy.trees.averaged import averaged, write_forest, write_original
from isonomy.trees.coordinates import SEPARATORS
from isonomy.trees.described import kind_of
from isonomy.trees.lightgbm_reader import text_of_live
from isonomy.trees.load import is_tree_model, read_trees
from isonomy.trees.model import TreeModel
from isonomy.trees.pipelines import split_pipeline
from isonomy.trees.ubjson import read_ubjson
from isonomy.trees.xgboost_reader import content_of_live

if TYPE_CHECKING:
    from isonomy.networks import Network
    from isonomy.training import FineTuning, Repair

TUNED, FEW = 1000, 50
"""People, at most and at least, by whom a cut-off is chosen."""

CUTS = 200
"""Cut-offs, at most, that are tried."""


@dataclass(frozen=True, eq=False)
class Refit:
    """How the library of a live estimator fits it again.

    ``columns`` (a frame) and ``labels`` are what its ``fit`` took, a row for each row of the table of the people; of
    these the training rows are fitted on. ``depths`` are tried as largest depths; ``monotone`` says in which columns
    outputs may only rise (1) or fall (-1), and is tried where it is given.
    """

    columns: pd.DataFrame
    labels: Any
    depths: Sequence[int] = (3, 2)
    monotone: Mapping[str, int] = field(default_factory=dict)

    __repr__ = brief

    def __post_init__(self) -> None:
        instance("columns", self.columns, pd.DataFrame, "a data frame, as the estimator was fitted on")
        if len(self.columns) != len(self.labels):
            raise ParameterError(template("labels", f"{len(self.columns)} labels, as rows", len(self.labels)))
        for depth in self.depths:
            whole("depths", depth, 1)
        wrong = {name: sign for name, sign in self.monotone.items() if name not in self.columns or sign not in (-1, 1)}
        if wrong:
            raise ParameterError(template("monotone", "columns of the frame, each with 1 or -1", wrong))


@dataclass(frozen=True, eq=False)
class Way:
    """One model and cut-off, judged: its certificate, and its scores on the same people.

    ``estimator`` is what the library fitted, where it did. ``threshold`` is the cut-off where it is another one.
    """

    name: str
    model: TreeModel
    certificate: Certificate
    scores: Mapping[str, float]
    threshold: float | None = None
    estimator: Any = None
    _original: Callable[[Path], None] | None = None

    __repr__ = brief

    @property
    def flippable(self) -> float:
        """Return the weighted share of people whose decision a similar person does not share, as was shown."""
        return self._share("flippable")

    @property
    def undecided(self) -> float:
        """Return the weighted share of people about whose similar ones this is not known."""
        return self._share("undecided")

    def _share(self, decision: str) -> float:
        return float(np.average(self.certificate.local.decision == decision, weights=self.certificate.weights))

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file that :func:`isonomy.load_model` and every command read."""
        if self.model.forest is None:
            raise FileError(f"'{self.model.name}' comes from a record, without its raw columns.")
        write_forest(self.model.forest, Path(path))

    def save_original(self, path: str | Path) -> None:
        """Write the model as a file of its own library: XGBoost's JSON or LightGBM's text.

        Leaves are rounded as that library stores them (XGBoost: float32), so it is another model by these roundings.
        """
        if self._original is None:
            library = self.model.forest.library if isinstance(self.model, TreeModel) and self.model.forest else ""
            raise FileError(
                f"'{self.name}' is not written for {library or 'its library'}: averages become files of XGBoost and "
                "LightGBM only. save() writes the same model as our own, which load_model and every command read."
            )
        self._original(Path(path))


@dataclass(frozen=True, eq=False)
class TreeRepair:
    """A tree ensemble and what could take its place, each judged on the same people; the original comes first.

    ``result["averaged"]`` is one :class:`Way`, ``print(result)`` shows all.
    """

    ways: tuple[Way, ...]
    epsilon: float | None

    __repr__ = brief

    @property
    def before(self) -> Way:
        """Return the original."""
        return self.ways[0]

    @property
    def best(self) -> Way | None:
        """Return the most accurate way, by AUC or else balanced accuracy or R², that is certified at epsilon."""
        if self.epsilon is None:
            return None
        certified = [each for each in self.ways if each.certificate.upper <= self.epsilon]
        return max(certified, key=lambda each: _accuracy(each.scores), default=None)

    @property
    def reached(self) -> bool:
        """Say whether any way is certified at epsilon."""
        return self.best is not None

    def __getitem__(self, name: str) -> Way:
        for each in self.ways:
            if each.name == name:
                return each
        raise ParameterError(template("name", f"one of {', '.join(repr(each.name) for each in self.ways)}", name))

    def __iter__(self) -> Iterator[Way]:
        return iter(self.ways)

    def frame(self) -> pd.DataFrame:
        """Return one row for each way: scores, mean violation proved and found, shares of decisions."""
        rows = []
        for each in self.ways:
            local = each.certificate
            row: dict[str, Any] = {
                name: each.scores[name] for name in ("auc", "balanced_accuracy", "r2") if name in each.scores
            }
            row |= {"upper": local.upper, "lower": local.lower}
            if (local.local.decision != "none").any():
                row |= {"flippable": each.flippable, "undecided": each.undecided, "threshold": each.threshold}
            rows.append({"way": each.name, **row})
        return pd.DataFrame(rows).set_index("way")

    def __str__(self) -> str:
        table = self.frame()
        formats: dict[str, tuple[str, Callable[[float], str]]] = {
            "auc": ("AUC", "{:.4f}".format), "balanced_accuracy": ("balanced accuracy", "{:.4f}".format),
            "r2": ("R²", "{:.4f}".format), "upper": ("proved", lambda value: at_most(value, 4)),
            "lower": ("found", lambda value: at_least(value, 4)), "flippable": ("flippable", "{:.1%}".format),
            "undecided": ("undecided", "{:.1%}".format),
            "threshold": ("cut-off", lambda value: "" if np.isnan(value) else f"{value:.4g}"),
        }  # fmt: skip
        cells = {
            title: [shown_as(value) for value in table[name].astype(float)]
            for name, (title, shown_as) in formats.items() if name in table
        }  # fmt: skip
        people = self.before.certificate.people
        who = f"{len(self.before.certificate)} individuals" if people is None else people.selection.words()
        return f"{pd.DataFrame(cells, index=table.index).rename_axis(None).to_string()}\nJudged on: {who}."


def _accuracy(scored: Mapping[str, float]) -> float:
    return next((scored[name] for name in ("auc", "balanced_accuracy", "r2") if name in scored), 0.0)


@overload
def repair(
    model: Network,
    people: Population,
    epsilon: float,
    *,
    metric: Metric | None = None,
    delta: float | None = None,
    shift: Transport | None = None,
    tier: DistributionalTier = "tight",
    judged_on: Population | None = None,
    tuning: FineTuning | None = None,
    progress: Progress | Literal["auto"] | None = "auto",
) -> Repair: ...


@overload
def repair(
    model: Any,
    people: Population,
    epsilon: float | None = None,
    *,
    metric: Metric | None = None,
    delta: float | None = None,
    shift: Transport | None = None,
    judged_on: Population | None = None,
    tuning: Refit | None = None,
    progress: Progress | Literal["auto"] | None = "auto",
) -> TreeRepair: ...


def repair(
    model: Any,
    people: Population,
    epsilon: Any = None,
    *,
    metric: Metric | None = None,
    delta: float | None = None,
    shift: Transport | None = None,
    tier: DistributionalTier = "tight",
    judged_on: Population | None = None,
    tuning: Any = None,
    progress: Progress | Literal["auto"] | None = "auto",
) -> Any:
    """Return fairer models than ``model``, with what they cost: of a network one that is certified at ``epsilon``
    (:class:`isonomy.training.Repair`), of a tree ensemble several ways (:class:`isonomy.repairing.TreeRepair`).

    A tree ensemble is a file, a live estimator or pipeline, or what :func:`isonomy.load_model` gave. It is averaged
    over the protected features and proxies that ``people`` have, and decided by the cut-off with the fewest flips
    that costs at most a point of balanced accuracy; ``tuning=Refit(columns, labels)`` has a live estimator fitted again
    by its library. ``epsilon`` then only says which way is ``best``.

    A network (affine layers and ReLU) is fine-tuned, as its ``tuning``, a :class:`isonomy.training.FineTuning`, says,
    until the bound of the ``tier`` is at most epsilon; no labels are needed: the original predictions are what is kept.

    Learned from is the training split of ``people``; judged on is ``judged_on``, by default the test split (the people
    themselves when they are a training split). By half of the test split, or who is left of it, the cut-off of trees is
    chosen, and the other half is judged on. Similar is who is within ``delta`` in the ``metric``, by default
    counterparts of the schema; ``delta`` is by default their 1, and 0.05 in another metric. The certificates are those
    of :func:`isonomy.certify` for the populations of a ``shift``: by default :class:`isonomy.Transport` of 0.1 for
    networks, and for trees of 0, the people as they are. ``progress`` is called with what is done and in all.
    """
    how: dict[str, Any] = {"metric": metric, "delta": delta, "judged_on": judged_on, "tuning": tuning}
    if not takes_trees(model):
        from isonomy.training import repair as repair_network  # which says what it needs

        return repair_network(model, people, epsilon, **how, shift=shift, tier=tier, progress=progress)
    instance("people", people, Population, "a Population")
    instance("metric", metric, Metric | None, "None or a metric, such as isonomy.WeightedLp(weights)")
    instance("shift", shift, Transport | None, "None or a shift by transport, such as isonomy.Transport(0.1)")
    instance("tuning", tuning, Refit | None, "None or a Refit(columns, labels)")
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    similarity = Counterparts.of(people.schema) if metric is None else metric
    delta = 0.05 if delta is None and not isinstance(similarity, Counterparts) else delta
    parts = _parts(people, judged_on)
    return _Trees(model, *parts, similarity, delta, shift or Transport(0.0)).repaired(epsilon, tuning, progress)


def takes_trees(model: Any) -> bool:
    """Return whether a model, file or estimator is repaired as a tree ensemble."""
    if isinstance(model, str | Path):
        return holds_trees(Path(model))
    return isinstance(model, TreeModel) or (not isinstance(model, Model) and is_tree_model(model))


def _parts(people: Population, judged: Population | None) -> tuple[Population, Population, Population]:
    """Return who is learned from, by whom a cut-off is chosen, and who is judged.

    A cut-off is chosen by people of the test part who are not judged: half of it, or those left of it. Scores of
    the training rows lie further from it than those of others. Only where few are left are they taken.
    """
    if people.split != "all":
        return people, people, people if judged is None else judged
    test = people.test
    if judged is None and len(test) >= 2 * FEW:
        judged = test.sample(len(test) - len(test) // 2)
    judged = test if judged is None else judged
    left = ~np.isin(test.rows, judged.rows)
    return people.train, test[left] if left.sum() >= FEW else people.train, judged


@dataclass(frozen=True, eq=False)
class _Trees:
    """What a repair of trees is about: the source, the people learned from, chosen by and judged on, who is similar."""

    source: Any
    train: Population
    tuned: Population
    judged: Population
    metric: Metric
    delta: float | None
    shift: Transport

    def repaired(
        self, epsilon: float | None, refit: Refit | None, progress: Progress | Literal["auto"] | None
    ) -> TreeRepair:
        """Return all ways, judged."""
        model, schema = self.opened(self.source), self.train.schema
        features = [each for each in schema.features if (each.protected or each.proxy) and not each.immutable]
        jobs: list[Callable[[], list[Way]]] = [lambda: self.both("as it is", model)]
        if features and model.forest is not None:
            jobs.append(lambda: self.both("averaged", *self.average(model, [each.name for each in features])))
        if refit is not None:
            if isinstance(self.source, str | Path | TreeModel):
                raise ParameterError(
                    template("model", "the fitted estimator itself, which 'tuning' fits again", self.source)
                )
            for name, estimator, dropped in _variants(self.source, refit, features):
                jobs.append(partial(self.fitted, name, estimator, dropped, refit))
        ways: list[Way] = []
        with shown("Repairing", progress) as tick:
            for done, job in enumerate(jobs, 1):
                ways += job()
                tick(done, len(jobs))
        first = [each for each in ways if each.threshold is None]
        return TreeRepair((*first, *(each for each in ways if each.threshold is not None)), epsilon)

    def opened(self, source: Any) -> TreeModel:
        """Return a model on the schema."""
        if isinstance(source, TreeModel):
            return source.on(self.train.schema)
        if isinstance(source, str | Path):
            return open_trees(source, self.train.schema)
        return TreeModel.of(read_trees(source), self.train.schema, name=type(source).__name__)

    def average(self, model: TreeModel, features: list[str]) -> tuple[TreeModel, Callable[[Path], None] | None]:
        """Return the average over some features, and what writes it as a file of the library."""
        forest, pieces = averaged(model, self.train, features)
        made = TreeModel.of(forest, self.train.schema, reads=model.reads, name=f"{model.name}, averaged")
        content = _content(self.source)
        return made, None if content is None else lambda path: write_original(content, pieces, path)

    def both(self, name: str, model: TreeModel, original: Callable[[Path], None] | None = None) -> list[Way]:
        """Return a model judged by its own cut-off, and by that with the fewest flips where there is one."""
        ways = [self.way(name, model, original=original)]
        cut = self.cut_off(ways[0].certificate.problem)
        if cut is not None:
            title = f"{'' if name == 'as it is' else f'{name}, '}another cut-off"
            ways.append(self.way(title, model, threshold=cut, original=original))
        return ways

    def way(self, name: str, model: TreeModel, threshold: float | None = None, **more: Any) -> Way:
        """Return a model and cut-off judged."""
        certificate = certify(
            model, self.judged, self.metric, self.delta, self.shift, threshold=threshold, progress=None
        )
        scored = scores(model, self.judged, certificate.problem.outcome)
        return Way(name, model, certificate, scored, threshold, more.get("estimator"), more.get("original"))

    def cut_off(self, problem: Problem, cost: float = 0.01) -> float | None:
        """Return the cut-off with the fewest people whose decision a similar one does not share, of those whose
        balanced accuracy is at most ``cost`` less; None where the model decides by none, or no other has fewer.

        People flip where the cut-off lies between the least and the greatest score of those similar to them.
        """
        people, label = self.tuned.sample(TUNED), problem.outcome
        if people.y is None or len(label.classes) != 2 or problem.model.class_count != 2:
            return None
        place = (favourable_places(label) or (1,))[0]
        low, high = _scores_around(problem, people.x)
        low, high = (low, high) if place == 1 else (1 - high, 1 - low)
        own, weights, named = (
            problem.model(people.x)[:, place],
            people.weights / people.weights.sum(),
            people.y == place,
        )
        now = 0.5 if label.threshold is None else label.threshold
        inside = np.unique(np.round(np.quantile(own, np.linspace(0.02, 0.98, CUTS)), 6))
        cuts = np.array([now, *inside[(inside > 0) & (inside < 1)]])
        flips = ((low < cuts[:, None]) & (cuts[:, None] <= high)) @ weights
        right = [accuracies((own >= cut) == named, people.y, people.weights)[1] for cut in cuts]
        allowed = np.array(right) >= right[0] - cost
        best = int(np.lexsort((np.arange(len(cuts)), np.where(allowed, flips, np.inf)))[0])
        return None if best == 0 else float(cuts[best])

    def fitted(self, name: str, estimator: Any, dropped: list[str], refit: Refit) -> list[Way]:
        """Return what a library fits to the training rows, judged."""
        rows = self.train.rows
        if len(refit.columns) <= int(rows.max()):
            raise ParameterError(
                template("columns", f"the rows of the table, at least {int(rows.max()) + 1}", len(refit.columns))
            )
        columns = refit.columns.drop(columns=dropped).iloc[rows]
        estimator.fit(columns, np.asarray(refit.labels)[rows])
        return [self.way(name, self.opened(estimator), estimator=estimator)]


def _scores_around(problem: Problem, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest probability (n,) of class 1 over everybody similar."""
    tier = tier_for(problem, "tight", False)
    assert isinstance(tier, TreeTier)
    received = tier.head.received(tier.kernel.over(tier.kernel.extremes(x)))
    return received.low[:, -1], received.high[:, -1]


def _content(source: Any) -> Any:
    """Return what :func:`write_original` needs of a model's own file or estimator; None where it has no such file."""
    if isinstance(source, str | Path):
        data = Path(source).read_bytes()
        if data[:5] in (b"tree\n", b"tree\r"):
            return data.decode()
        if data[:1] != b"{":
            return None
        parsed = json.loads(data) if data.lstrip(b"{ \r\n\t")[:1] == b'"' else read_ubjson(data)
        return parsed if "learner" in parsed else None
    kind = kind_of(source).partition(".")[0]
    if kind == "lightgbm":
        return text_of_live(source)[0]
    return content_of_live(source)[0] if kind == "xgboost" else None


# -- refits


def _variants(source: Any, refit: Refit, features: list[Feature]) -> list[tuple[str, Any, list[str]]]:
    """Return names, estimators that are not fitted, and columns left out."""
    names = {each.name for each in features} | {
        f"{each.name}{mark}{level}" for each in features for level in each.levels for mark in SEPARATORS
    }
    dropped = [str(name) for name in refit.columns if name in names]
    made: list[tuple[str, Any, list[str]]] = []
    if dropped:
        title = f"without {', '.join(each.name for each in features)}"
        made.append((title, _without_columns(_clone(source), dropped), dropped))
    for depth in refit.depths:
        estimator = _clone(source)
        last = split_pipeline(estimator)[1]
        given = last.get_params()
        known = "depth" if kind_of(last).startswith("catboost") and "max_depth" not in given else "max_depth"
        changed: dict[str, Any] = {known: depth}
        if isinstance(given.get("num_leaves"), int):
            changed["num_leaves"] = min(given["num_leaves"], 2**depth)
        last.set_params(**changed)
        made.append((f"depth {depth}", estimator, []))
    if refit.monotone:
        estimator = _clone(source)
        steps, last = split_pipeline(estimator)
        if steps:
            raise ParameterError(template("monotone", "left out: a pipeline makes other columns", dict(refit.monotone)))
        listed = [refit.monotone.get(str(name), 0) for name in refit.columns]
        kind = kind_of(last)
        name = "monotonic_cst" if kind.startswith("sklearn.") else "monotone_constraints"
        last.set_params(**{name: listed if not kind.startswith("xgboost") else tuple(listed)})
        made.append(("monotone", estimator, []))
    return made


def _clone(source: Any) -> Any:
    """Return the estimator as it was before it was fitted."""
    clone = needed("sklearn.base", "scikit-learn", "A refit").clone
    source = getattr(source, "best_estimator_", source)  # of a search
    if not hasattr(source, "get_params"):
        raise ParameterError(template("model", "an estimator with get_params and fit, not a bare booster", source))
    return clone(source)


def _without_columns(estimator: Any, names: list[str]) -> Any:
    """Take columns out of what an estimator that is not fitted names: its transformers and lists of categories."""
    steps, last = split_pipeline(estimator)
    for step in steps:
        if hasattr(step, "transformers"):
            step.transformers = [
                (
                    title,
                    inner,
                    [each for each in columns if each not in names] if isinstance(columns, list) else columns,
                )
                for title, inner, columns in step.transformers
            ]
    params = last.get_params()
    for key in ("cat_features", "categorical_features", "categorical_feature"):
        if isinstance(params.get(key), list):
            last.set_params(**{key: [each for each in params[key] if each not in names]})
    return estimator
