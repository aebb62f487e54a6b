"""Fair models as scikit-learn estimators.

    model = isonomy.FairClassifier(epsilon=0.05).fit(people.train)
    model.scorecard_; model.predict_proba(people.test); model.certify(people.test); model.to_onnx("model.onnx")

What is left behind is always an :class:`isonomy.Network` that certificates take, with ReLU layers: of a scorecard at
most one. Only methods that train networks need torch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from isonomy.arithmetic import FloatArray
from isonomy.certificates import Certificate, LocalCertificate, certify, certify_local
from isonomy.certificates.consistency import HERE, Counterexamples
from isonomy.certificates.options import (
    RUN,
    SEARCH,
    CertifyKeywords,
    LocalKeywords,
    RunOptions,
    SearchOptions,
    ShownProgress,
    options_of,
)
from isonomy.certificates.protocol import Shift
from isonomy.errors import DataError, IsonomyError, ParameterError, needed, template
from isonomy.fairness import scores
from isonomy.fairness.blind import blind_regression
from isonomy.given import instance, numbers
from isonomy.networks import Network
from isonomy.population import Domain, DomainKind, Population
from isonomy.progress import shown
from isonomy.similarity import Counterparts, Metric, SensitiveSubspace, WeightedLp
from isonomy.training.additive import Additive, IntArray
from isonomy.training.choice import Candidate, Data, Proof, candidates, choose, lowest_loss
from isonomy.training.collapse import CollapsedModelWarning, class_names, collapse
from isonomy.training.config import ALPHAS, ResolvedConfig, TrainingConfig, delta_of
from isonomy.training.onnx_file import write_onnx
from isonomy.training.scorecard import Scorecard

if TYPE_CHECKING:
    from isonomy.training.trainer import OnEpoch

_Outcomes = tuple[npt.NDArray[Any], FloatArray, int, Sequence[object]]
"""What is learned, how much each individual counts, the number of classes, and their names."""


class _Trained(NamedTuple):
    """A trained network, its alpha, the record of each epoch, of the kept one, and the learning rate."""

    network: Network
    alpha: float
    history: list[dict[str, float]]
    kept: dict[str, float]
    rate: float

    def row(self, proof: Proof, collapsed: bool) -> dict[str, Any]:
        """Return the row of a table to choose from; the loss is that of the rows set aside, else of all."""
        loss = self.kept.get("validation_error", self.kept["error"])
        bounds = {"local_upper": proof.local, "upper": proof.upper, "open": proof.open}
        return {"alpha": self.alpha, "loss": loss} | bounds | {"collapsed": collapsed}


@dataclass(eq=False, repr=False)
class FairEstimator(BaseEstimator, TrainingConfig):  # type: ignore[misc]
    """What classification and regression share: the training itself, certificates, the file."""

    def fit(
        self,
        X: Population | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on a population, whose label is learned (of classes the schema's index), or on ``X`` and ``y``.

        ``sample_weight`` says how much each of the rows trained on counts. ``on_epoch`` is called with the record of
        each epoch of a network, as it will stand in ``history_``.
        """
        x, given, weight, people = _individuals(self, X, y, sample_weight)
        wanted, weight, classes, names = self._outcomes(given, weight, people)
        self._check_parameters()
        self.domain_ = self._domain(x.shape[1], people)
        self.metric_ = self._metric(x.shape[1], people)
        self.delta_ = delta_of(self.metric_, self.delta)
        reads = _reads(self.reads_nothing_protected, self.metric_, x.shape[1], people)
        origin, unit, advice = 0.0, 1.0, "a larger 'epsilon'"
        if not classes:  # a regression learns standardised outcomes
            origin = float(np.average(wanted, weights=weight))
            unit = float(np.sqrt(np.average((wanted - origin) ** 2, weights=weight))) or 1.0
        learned = wanted if classes else (wanted - origin) / unit
        if self.method == "scorecard":
            self._fit_scorecard(Data(x, learned, weight / weight.mean(), classes, reads), people, names, (origin, unit))
        else:
            self._fit_network(Data(x, learned, weight, classes, reads), people, (origin, unit), on_epoch)
            more = ", more 'epochs', or class_weight='balanced'" if classes else " or more 'epochs'"
            advice = f"a smaller 'alpha'{more}"
        self.blind_ = None if people is None else blind_regression(people)
        reason = collapse(self.network_, x, wanted, weight, names, None if people is None else people.schema.label)
        self.collapsed_ = bool(reason)
        if reason:
            text = f"The network {reason}: it is fair because it decides nothing. Train with {advice}."
            warnings.warn(text, CollapsedModelWarning, stacklevel=2)
        return self

    def _fit_scorecard(
        self, data: Data, people: Population | None, names: Sequence[object], scale: tuple[float, float]
    ) -> None:
        """Choose an additive model among those certified, and leave it behind as a network and a table."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        prove = self._prover(data, people, seed)
        counts = np.flatnonzero(data.weight > 0)
        data = data._replace(x=data.x[counts], y=data.y[counts], weight=data.weight[counts])
        numeric = self.domain_.numeric & np.array([len(np.unique(column[:4096])) > 2 for column in data.x.T])

        def scaled(model: Additive) -> Additive:
            return model if data.classes else model.scaled(*scale)

        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(data.x.shape[1])])
        columns = list(map(str, columns if people is None else people.schema.coordinate_names))

        def fitted(free: bool) -> list[Candidate]:
            """Fit the models that read what similar people may differ in at will, or not."""
            left_out = data.reads[self.metric_.free[data.reads]]
            reads = data.reads if free else np.setdiff1d(data.reads, left_out)
            if not free and not 0 < len(reads) < len(data.reads):
                return []
            slices = {columns[j]: slice(j, j + 1) for j in left_out} if people is None else people.schema.slices
            names = [name for name, place in slices.items() if not free and np.isin(np.r_[place], left_out).any()]
            with shown("Fitting", self.progress) as tick:
                some = candidates(data._replace(reads=reads), numeric, seed, tick, ", ".join(names))
            return [replace(each, model=scaled(each.model)) for each in some]

        self.candidates_, self.choice_ = choose(
            fitted(True), data, self.domain_, self.epsilon, prove, lambda: fitted(False)
        )
        self.frontier_, chosen = self.choice_.table, self.candidates_[self.choice_.chosen]
        self.network_ = chosen.network(self.domain_)
        label = None if people is None else people.schema.label
        outcomes = [label.column if label else "the outcome"] if not data.classes else names
        self.scorecard_ = Scorecard.of(
            chosen.model, columns, None if people is None else people.schema, list(map(str, outcomes))
        )

    def _prover(self, data: Data, people: Population | None, seed: int) -> Callable[[Network, int | None], Proof]:
        """Return what certifies a network on ``judged`` training people that count, or by rounds on populations around
        them."""
        endless = not data.classes and self.domain_.kind == "unbounded"  # outputs of populations have no bound
        if endless and self.gamma > 0 and self.epsilon is not None:
            raise ParameterError(
                "No epsilon holds for numbers within gamma on the unbounded domain: give 'gamma=0', or people with a "
                "schema, or a 'domain' of another kind."
            )
        rows = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(data.weight > 0))[: self.judged])
        some: Any = data.x[rows] if people is None else people[rows]

        def prove(network: Network, rounds: int | None) -> Proof:
            self.network_ = network
            if endless:
                mean = self.certify_local(some, attack=False, progress=None).mean_upper
                return Proof(np.nan if self.gamma > 0 else mean, mean, np.nan)
            gamma, search = (0.0, SEARCH) if rounds is None else (self.gamma, replace(SEARCH, rounds=rounds))
            proved = self.certify(some, gamma, attack=False, progress=None, search=search)
            decided = (proved.local.decision != "none").any()
            open_ = np.average(proved.local.decision != "certified", weights=proved.weights)
            upper = proved.upper if gamma == self.gamma else np.nan
            return Proof(upper, proved.local.mean_upper, float(open_) if decided else np.nan)

        return prove

    def _fit_network(
        self, data: Data, people: Population | None, scale: tuple[float, float], on_epoch: OnEpoch | None
    ) -> None:
        """Train a perceptron with a penalty, which needs torch."""
        needed("torch", "torch", f"method={self.method!r}")
        from isonomy.training.gaps import Head
        from isonomy.training.trainer import TrainingData, best_record, train

        taught = self._training_metric(people)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        config = ResolvedConfig.of(self, self.metric_, len(data.x), seed)
        if taught is not self.metric_:
            config = replace(config, delta=delta_of(taught, None))
        task = TrainingData(data.x, data.y, data.weight, Head(data.classes), taught, self.domain_, data.reads)
        name = f"{self.method} {'x'.join(map(str, self.hidden))}".strip()

        def trained(alpha: float, resumable: bool) -> _Trained:
            own = replace(config, alpha=alpha, checkpoint=config.checkpoint if resumable else None)
            with shown("Training", self.progress) as tick:
                perceptron, history, rate = train(own, task, tick, on_epoch)
            network = perceptron.network("softmax" if data.classes else "regression", name, *scale)
            return _Trained(network, alpha, history, best_record(history), rate)

        if self.alpha is not None or not config.penalised:
            chosen = trained(config.alpha, True)
        else:
            prove, wanted = self._prover(data, people, seed), data.y if data.classes else scale[0] + scale[1] * data.y
            label = None if people is None else people.schema.label
            tried = [trained(alpha, False) for alpha in ALPHAS]
            lost = [bool(collapse(each.network, data.x, wanted, data.weight, label=label)) for each in tried]
            rows = [each.row(prove(each.network, SEARCH.rounds), gone) for each, gone in zip(tried, lost, strict=True)]
            self.frontier_ = pd.DataFrame(rows)
            chosen = tried[lowest_loss(self.frontier_, self.epsilon)]
        self.network_, self.alpha_, self.history_, self.kept_, self.learning_rate_ = chosen
        self.n_iter_ = len(self.history_)

    def _outcomes(self, given: npt.NDArray[Any], weight: FloatArray, people: Population | None) -> _Outcomes:
        """Return the outcomes that a network of this kind learns from labels."""
        raise NotImplementedError

    def certify(
        self,
        people: Population | npt.ArrayLike | str | os.PathLike[str] | Any,
        gamma: float | None = None,
        delta: float | None = None,
        *,
        shift: Shift | None = None,
        epsilon: float | None = None,
        confidence: float | None = None,
        search: SearchOptions = SEARCH,
        run: RunOptions = RUN,
        **keywords: Unpack[CertifyKeywords],
    ) -> Certificate:
        """Certify every population within ``gamma`` of ``people``, with the similarity of the training.

        ``gamma``, ``delta``, ``order``, ``ground``, ``domain`` and ``progress`` are the training's unless given (a
        population brings its own domain where the training named none). A ``shift`` such as :class:`isonomy.Transport`
        may stand in place of the first, third and fourth. The others are those of :func:`isonomy.certify`: the verdict
        ``epsilon``; a ``confidence`` with ``cluster`` and ``max_cluster``; what is decided, ``favourable`` and
        ``threshold``; ``schema`` and ``max_branches``; ``search`` with ``tier``, ``attack``, ``decide``,
        ``arithmetic``, ``output_range``, ``rounds``, ``seed``; ``run`` with ``unknown``, ``split``, ``engine``,
        ``scheduler``, ``work``, ``chunk``, ``counterexamples``.
        """
        check_is_fitted(self)
        instance("shift", shift, Shift | None, "None or a shift such as isonomy.Transport(0.1)")
        usual = self if shift is None else TrainingConfig()  # a shift has its own order and ground cost
        run = options_of(run, keywords)
        named: Any = {name: value for name, value in keywords.items() if value is not None and name != "progress"}
        named = {"order": usual.order, "ground": usual.ground} | named
        named["domain"] = self._certified_domain(people, keywords.get("domain"))
        return certify(
            self.network_, people, self.metric_, self.delta_ if delta is None else delta,
            0.0 if shift is None else shift, gamma=self.gamma if shift is None and gamma is None else gamma,
            epsilon=epsilon, confidence=confidence, search=search,
            run=replace(run, progress=self.progress) if run.progress == "auto" else run, **named,
        )  # fmt: skip

    def certify_local(
        self,
        people: Population | npt.ArrayLike | Any,
        delta: float | None = None,
        *,
        epsilon: float | None = None,
        predict: bool = True,
        progress: ShownProgress = "auto",
        search: SearchOptions = SEARCH,
        counterexamples: Counterexamples = HERE,
        **keywords: Unpack[LocalKeywords],
    ) -> LocalCertificate:
        """Certify the violation around each of the ``people``, with the similarity of the training.

        ``delta``, ``domain`` and ``progress`` are the training's unless given. The others are those of
        :func:`isonomy.certify_local`: ``schema``, ``predict``, ``threshold``, ``favourable``, ``max_branches``;
        ``search`` with ``tier``, ``attack``, ``decide``, ``arithmetic``, and for the exact tier ``time_limit``,
        ``gap`` and ``max_nodes``, and ``epsilon``; ``counterexamples``.
        """
        check_is_fitted(self)
        keywords["domain"] = self._certified_domain(people, keywords.get("domain"))
        return certify_local(
            self.network_, people, self.metric_, self.delta_ if delta is None else delta, epsilon=epsilon,
            predict=predict, progress=self.progress if progress == "auto" else progress, search=search,
            counterexamples=counterexamples, **keywords,
        )  # fmt: skip

    def _certified_domain(self, people: Any, domain: Domain | DomainKind | None) -> Domain | DomainKind | None:
        """Return the given domain, else the training's, unless a population brings its own."""
        if domain is not None:
            return domain
        return self.domain if isinstance(people, Population) else self.domain_

    def scores(self, people: Population) -> dict[str, dict[str, float]]:
        """Return the scores of the ``network`` on people with labels, and those of the ``blind`` regression.

        Both as :func:`isonomy.fairness.scores` has it; the blind one (``blind_``) was fitted on what ``fit`` got and
        reads nothing protected; empty where that were arrays, which do not say what is protected.
        """
        check_is_fitted(self)
        instance("people", people, Population, "a Population")
        blind = {} if self.blind_ is None else scores(self.blind_, people)
        return {"network": scores(self.network_, people), "blind": blind}

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX file that reads all coordinates."""
        check_is_fitted(self)
        write_onnx(self.network_, path)

    def _outputs(self, X: Population | npt.ArrayLike) -> FloatArray:
        """Return the network's outputs for individuals in the coordinates of the training."""
        check_is_fitted(self)
        return self.network_(
            X.x if isinstance(X, Population) else validate_data(self, X, dtype=np.float64, reset=False)
        )

    def _domain(self, width: int, people: Population | None) -> Domain:
        if isinstance(self.domain, Domain):
            return self.domain
        if people is not None:
            return people.domain if self.domain is None else people.schema.domain(self.domain)
        if self.domain in (None, "unbounded"):
            return Domain.unbounded(width)
        raise ParameterError(template("domain", "a Domain or 'unbounded' when individuals come as arrays", self.domain))

    def _metric(self, width: int, people: Population | None) -> Metric:
        metric = self.metric
        if metric is None:
            metric = WeightedLp(np.ones(width), 2) if people is None else Counterparts.of(people.schema)
        if metric.width != width:
            raise ParameterError(template("metric", f"a metric on {width} coordinates", metric.width))
        return metric

    def _training_metric(self, people: Population | None) -> Metric:
        """Return the metric of the training: that of the certificates, unless the method needs one with a root."""
        if self.method not in ("sensr", "sensei") or people is None or not self.metric_.boxed:
            return self.metric_
        return SensitiveSubspace.fit(people)


@dataclass(eq=False, repr=False)
class FairClassifier(ClassifierMixin, FairEstimator):  # type: ignore[misc]
    """A classifier whose unfairness can be bounded.

    ``method="scorecard"`` is an additive model: a plain regression, or a sum of piecewise linear functions of the
    columns, that reads nothing protected. Of all families and strengths (:mod:`isonomy.training.choice`) the one of the
    lowest cross-validated log-loss is taken whose certified mean violation, of every population within ``gamma`` of
    ``judged`` training people, is at most 0.85 ``epsilon``; change ``judged`` where a more certain choice is worth the
    time. Without ``epsilon`` every candidate is certified (``frontier_``, ``candidates_``,
    ``choice_.at(epsilon)``) and the lowest log-loss is taken. It needs no
    torch and reads none of the parameters below but those of the question (``delta``, ``metric``, ``domain``,
    ``ground``, ``order``), ``class_weight``, ``random_state`` and ``progress``. It leaves behind ``scorecard_``, the
    points of every value, and ``choice_``, which compares it with the plain regression.

    The other methods train networks, which needs ``isonomy[torch]``: ``"residual"`` (begins as a blind regression, with
    the penalty of ``u-dif``), ``"u-dif"`` (violations under every shift of the population within ``gamma``),
    ``"l-dif"`` (under shifts that are searched), ``"f-ibp"`` (no shift), ``"sensr"``, ``"sensei"``, ``"ftu"``
    (protected columns are not read) or ``"sgd"``. ``delta`` is the radius of similarity in the ``metric``; ``alpha``
    weighs the bound against cross-entropy; None trains with each of .05, .1, .3, 1, 3 from scratch and takes the lowest
    loss on rows set aside, among those that are certified as a scorecard has to be (``frontier_``, ``alpha_``).
    The network has ReLU layers of the widths ``hidden``; individuals are those of the ``domain``, by default the
    population's, and of arrays all of ``R^m``. ``ground`` and ``order`` define the Wasserstein distance, ``radii`` are
    those at which ``u-dif`` evaluates profiles, and 0 where the order is finite. ``bound="paper"`` trains on the
    paper's box form, ``bound="attacked"`` ``l-dif`` on the violation that a search reaches, as the paper writes it;
    both are for comparison.

    When to change what: ``method`` where a network is needed; ``delta`` and ``metric`` where others count as similar;
    ``gamma``, ``order`` and ``ground`` where populations shift further or otherwise; ``alpha`` where the trade-off is
    known; ``hidden`` where more data allow a larger network; ``epsilon`` to the violation that is allowed; ``blind``
    where protected columns are to be read, or not (scorecard, residual and ftu do not); ``domain`` where others than
    the schema's can occur; ``epochs``, ``batch_size`` and ``learning_rate`` where ``history_`` still falls, or jumps;
    ``ascent_steps`` where an attack finds more; ``alpha_ramp`` where training starts badly; ``validation`` and
    ``patience`` on very small or noisy tables; ``checkpoint`` where a training takes hours; ``random_state`` to repeat
    it; ``class_weight`` where a rare class matters as much.

    ``fit`` takes a :class:`Population`, of which a whole one gives its training split, or arrays. Without ``metric`` a
    population is given the counterparts of its schema, as in an audit, and arrays the unweighted ℓ2 distance. ``delta``
    is by default 1 for counterparts, and 0.05 in another metric. Counterparts have no root, which ``sensr`` needs: it
    learns by a ``SensitiveSubspace`` of what ``fit`` gets, and is certified by the counterparts.

    ``epochs`` are 10, and more on a small table, so that there are at least 600 steps, of ``batch_size`` rows with
    Adam. ``class_weight`` is that of scikit-learn, ``random_state`` decides all that is drawn, and
    ``progress`` is called with the epochs done and in all. A guard against networks that decide nothing: with
    ``1 − error / error of a constant`` as the share that is explained, alpha falls in proportion as a batch has less
    than a tenth of it. ``alpha_ramp`` are shares of the training between
    which alpha grows from 0 to its value. ``learning_rate="search"`` tries 20 values. A ``checkpoint`` file
    is written after every epoch; a training with the same data and parameters goes on from it. ``ascent_steps`` are
    those of ``l-dif`` (1 by default) and ``sensr`` (5).

    The share ``validation`` of the rows is set aside, a fifth unless given (none of fewer than 100 rows, and none
    with 0). After each epoch, from the first on, the objective (cross-entropy plus alpha times the bound, both in full)
    is computed for them, and the weights with the smallest one are kept. Training ends early when none was smaller for
    ``patience`` epochs after the ramps (None: it goes to the end).

    ``network_``, ``classes_``, of a network ``history_`` (a record for each epoch) and ``kept_`` (that of the epoch
    whose weights are kept), ``metric_``, ``delta_``, ``domain_``, ``blind_`` (a regression that reads nothing
    protected, to compare with: :meth:`scores`) and ``collapsed_`` (whether the network is no better than a constant on
    the training individuals, see :func:`isonomy.training.collapse.collapse`; ``fit`` warns of it) are left behind.
    """

    class_weight: Literal["balanced"] | dict[Any, float] | None = field(default=None, kw_only=True)

    def _outcomes(self, given: npt.NDArray[Any], weight: FloatArray, people: Population | None) -> _Outcomes:
        check_classification_targets(given)
        if people is not None and people.schema.label is not None:
            self.classes_ = np.arange(len(people.schema.label.classes))
            codes = np.asarray(given, dtype=np.int64)
        else:
            self.classes_, codes = np.unique(given, return_inverse=True)
        counted = np.unique(codes[weight > 0])
        if len(counted) < 2:
            raise DataError(f"The individuals must belong to at least two classes; here is {len(counted)} class.")
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=np.unique(given), y=given)
            weight = weight * np.asarray(factors)[np.unique(codes, return_inverse=True)[1]]  # of classes that occur
        names = list(self.classes_) if people is None else class_names(people.schema.label)
        return codes, weight, len(self.classes_), names

    def predict_proba(self, X: Population | npt.ArrayLike) -> FloatArray:
        """Return probabilities (n, classes)."""
        return self._outputs(X)

    def predict(self, X: Population | npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable class of each individual."""
        chosen = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])


@dataclass(eq=False, repr=False)
class FairRegressor(RegressorMixin, FairEstimator):  # type: ignore[misc]
    """A regression whose unfairness can be bounded; parameters as in :class:`FairClassifier`.

    The loss is the squared error, so that ``epsilon`` is in the outcome's own units. Outcomes are
    standardised during training, so ``alpha`` weighs the bound in units of their standard deviation; the
    network that is left behind, and its certificates, are in the outcome's own units.
    """

    def _outcomes(self, given: npt.NDArray[Any], weight: FloatArray, people: Population | None) -> _Outcomes:
        return np.asarray(given, dtype=np.float64), weight, 0, ()

    def predict(self, X: Population | npt.ArrayLike) -> FloatArray:
        """Return one number for each individual."""
        return self._outputs(X)[:, 0]


def _individuals(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[FloatArray, npt.NDArray[Any], FloatArray, Population | None]:
    """Return rows, outcomes and weights, checked; of a whole population the training split."""
    if not isinstance(X, Population):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        try:
            x, labels = validate_data(
                estimator, X, y, dtype=np.float64, y_numeric=isinstance(estimator, RegressorMixin)
            )
        except ValueError as error:
            sentence = " ".join(str(error).split()).split(": array=")[0].split(". ")[0].rstrip(".")
            raise DataError(f"'X' and 'y' cannot be trained on: {sentence}{_not_finite(X)}.") from None
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if not weight.sum() > 0:
            raise DataError("All sample weights are zero; at least one must be positive.")
        return x, labels, weight, None
    people = X.train if X.split == "all" else X
    if y is not None:
        raise ParameterError("A population brings its own labels: leave 'y' out.")
    if people.y is None:
        raise DataError(f"The population {people.schema.name!r} has no label column to train on.")
    if sample_weight is not None and len(people) != len(X):
        raise ParameterError("'sample_weight' must belong to the training rows: give fit(people.train, ...).")
    weight = people.weights if sample_weight is None else _check_sample_weight(sample_weight, people.x)
    estimator.n_features_in_ = people.x.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)
    return people.x, people.y, weight, people


def _not_finite(x: Any) -> str:
    """Return the place of a table's first cell that is not finite, if it has one."""
    try:
        places = np.argwhere(~np.isfinite(numbers("X", x, "a table")))
    except IsonomyError:
        return ""
    return "" if len(places) == 0 or places.shape[1] != 2 else f" in row {places[0, 0]}, column {places[0, 1]}"


def _reads(blind: bool, metric: Metric, width: int, people: Population | None) -> IntArray:
    """Return the coordinates that the network reads: those the model sees, without protected ones if ``blind``."""
    seen = np.ones(width, dtype=bool) if people is None else people.schema.seen_coordinates.copy()
    if blind:
        seen &= ~(metric.free if people is None else people.schema.protected_coordinates)
    if not seen.any():
        raise ParameterError("The network would read nothing: every coordinate is protected or not seen.")
    return np.flatnonzero(seen).astype(np.int64)
