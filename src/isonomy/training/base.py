"""What both estimators share: parameters and their checks, the training itself, certificates, the file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from isonomy.arithmetic import FloatArray
from isonomy.certificates import Certificate, LocalCertificate, certify, certify_local
from isonomy.errors import DataError, IsonomyError, ParameterError, template
from isonomy.given import FINITE, instance, number, numbers, whole
from isonomy.population import Domain, DomainKind, Population
from isonomy.progress import Progress, shown
from isonomy.similarity import Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.ground import Ground
from isonomy.training.fitting import Request, Similar, default_epochs, default_radii, fitted
from isonomy.training.gaps import Head
from isonomy.training.onnx_file import write_onnx
from isonomy.training.penalties import Form, Method
from isonomy.training.perceptron import Perceptron
from isonomy.training.reach import IntArray
from isonomy.training.schedule import Ramp
from isonomy.training.trainer import OnEpoch, Plan


@dataclass(eq=False, repr=False)
class FairEstimator(BaseEstimator):  # type: ignore[misc]
    """What classification and regression share; the parameters are described in :class:`FairClassifier`."""

    method: Method = "u-dif"
    delta: float = 0.05
    gamma: float = 0.1
    alpha: float = 1.0
    hidden: tuple[int, ...] = (256, 256)
    _: KW_ONLY
    metric: Metric | None = None
    domain: Domain | DomainKind | None = None
    ground: Ground = "l2"
    order: float = 1.0
    radii: tuple[float, ...] | None = None
    bound: Form = "relational"
    keep: float = 0.1
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float | Literal["search"] = 1e-3
    weight_decay: float = 0.0
    ascent_steps: int | None = None
    alpha_ramp: tuple[float, float] = (0.0, 0.3)
    delta_ramp: tuple[float, float] = (0.0, 0.0)
    gamma_ramp: tuple[float, float] = (0.0, 0.0)
    validation: float = 0.0
    patience: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    progress: Progress | Literal["auto"] | None = "auto"

    def certify(
        self,
        people: Population | npt.ArrayLike,
        gamma: float | None = None,
        delta: float | None = None,
        **options: Any,
    ) -> Certificate:
        """The certificate for every population within gamma, with the similarity of the training.

        ``gamma`` and ``delta`` are the training's unless given; ``options`` are those of ``isonomy.certify``.
        """
        options = {"ground": self.ground, "order": self.order} | self._asked(people, options)
        delta = self.delta if delta is None else delta
        gamma = self.gamma if gamma is None else gamma
        return certify(self.network_, people, self.metric_, delta, gamma, **options)

    def certify_local(
        self, people: Population | npt.ArrayLike, delta: float | None = None, **options: Any
    ) -> LocalCertificate:
        """Certificates of the violation around each individual, with the similarity of the training."""
        options = self._asked(people, options)
        return certify_local(self.network_, people, self.metric_, self.delta if delta is None else delta, **options)

    def _asked(self, people: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Options with the training's domain, unless a population brings its own or the caller names one."""
        check_is_fitted(self)
        asked: dict[str, Any] = {"progress": self.progress}
        if not isinstance(people, Population):
            asked["domain"] = self.domain_
        elif self.domain is not None:
            asked["domain"] = self.domain
        return asked | options

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX file that reads all coordinates."""
        check_is_fitted(self)
        write_onnx(self.network_, path)

    def _train(
        self,
        x: FloatArray,
        y: npt.NDArray[Any],
        weight: FloatArray,
        head: Head,
        people: Population | None,
        on_epoch: OnEpoch | None,
    ) -> Perceptron:
        """Train, and leave everything that was learned; a regression learns standardised outcomes."""
        self._check_parameters()
        width = x.shape[1]
        self.domain_ = self._domain(width, people)
        self.metric_ = self._metric(width, people)
        reads = _reads(self.method, self.metric_, width, people)
        origin, unit = 0.0, 1.0
        if not head.classes:
            origin = float(np.average(y, weights=weight))
            unit = float(np.sqrt(np.average((y - origin) ** 2, weights=weight))) or 1.0
            y = (y - origin) / unit
        request = Request(
            x=x,
            y=y,
            weight=weight,
            head=head,
            similar=Similar(self.metric_, self.domain_, self.ground, self.order, self.bound),
            plan=self._plan(len(x)),
            reads=reads,
            hidden=tuple(self.hidden),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            validation=self.validation,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
        )
        with shown("Training", self.progress) as tick:
            search = self.learning_rate == "search"
            trained, self.history_, self.learning_rate_ = fitted(request, tick, on_epoch, search)
        name = f"{self.method} {'x'.join(map(str, self.hidden))}".strip()
        self.network_ = trained.network("softmax" if head.classes else "regression", name, origin, unit)
        self.n_iter_ = len(self.history_)
        return trained

    def _plan(self, rows: int) -> Plan:
        epochs = default_epochs(rows, self.batch_size) if self.epochs is None else self.epochs

        def ramp(share: tuple[float, float]) -> Ramp:
            return Ramp(share[0] * epochs, share[1] * epochs)

        return Plan(
            method=self.method,
            delta=float(self.delta),
            gamma=float(self.gamma),
            alpha=float(self.alpha),
            radii=default_radii(self.gamma, self.order) if self.radii is None else tuple(self.radii),
            keep=float(self.keep),
            epochs=epochs,
            batch_size=self.batch_size,
            learning_rate=1e-3 if self.learning_rate == "search" else float(self.learning_rate),
            weight_decay=self.weight_decay,
            steps=self.ascent_steps or (5 if self.method == "sensr" else 1),
            alpha_ramp=ramp(self.alpha_ramp),
            delta_ramp=ramp(self.delta_ramp),
            gamma_ramp=ramp(self.gamma_ramp),
            patience=self.patience,
        )

    def _check_parameters(self) -> None:
        for name, kind in (("method", Method), ("bound", Form)):
            if getattr(self, name) not in get_args(kind):
                raise ParameterError(template(name, f"one of {', '.join(get_args(kind))}", getattr(self, name)))
        for name in ("delta", "gamma", "alpha", "keep", "weight_decay"):
            number(name, getattr(self, name), "a finite number >= 0", high=FINITE)
        for name in ("epochs", "batch_size", "ascent_steps"):
            if name == "batch_size" or getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise ParameterError(template("hidden", "a tuple of widths, such as (256, 256)", self.hidden))
        for width in self.hidden:
            whole("hidden", width, 1)
        if self.learning_rate != "search":
            right = "a number above 0, or 'search'"
            number("learning_rate", self.learning_rate, right, high=math.inf, strict=True)
        number("validation", self.validation, "a share 0 <= share < 1", high=math.nextafter(1.0, 0.0))
        if self.patience is not None and (whole("patience", self.patience, 1) < 1 or self.validation == 0):
            raise ParameterError(template("patience", "epochs >= 1, together with 'validation' > 0", self.patience))
        number("order", self.order, "a number >= 1, or infinity", 1.0)
        for name in ("alpha_ramp", "delta_ramp", "gamma_ramp"):
            ends, right = getattr(self, name), "two shares of the training from 0 to 1, the earlier first"
            if not isinstance(ends, tuple | list) or len(ends) != 2:
                raise ParameterError(template(name, right, ends))
            begin, end = (number(name, share, right, high=1.0) for share in ends)
            if begin > end:
                raise ParameterError(template(name, right, ends))
        if self.radii is not None:
            if not isinstance(self.radii, tuple | list) or not self.radii:
                raise ParameterError(template("radii", "None or some numbers >= 0", self.radii))
            for radius in self.radii:
                number("radii", radius, "None or some numbers >= 0", high=FINITE)
        instance("metric", self.metric, Metric | None, "None or a metric, such as isonomy.WeightedLp(weights)")

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
            metric = WeightedLp(np.ones(width), 2) if people is None else SensitiveSubspace.fit(people)
        if metric.width != width:
            raise ParameterError(template("metric", f"a metric on {width} coordinates", metric.width))
        return metric


def individuals(
    estimator: Any, X: Any, y: Any, sample_weight: Any, numeric: bool = False
) -> tuple[FloatArray, npt.NDArray[Any], FloatArray, Population | None]:
    """Rows, outcomes and weights, checked; of a whole population the training split."""
    if not isinstance(X, Population):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        try:
            x, labels = validate_data(estimator, X, y, dtype=np.float64, y_numeric=numeric)
        except ValueError as error:
            raise DataError(f"'X' and 'y' cannot be trained on: {_first_sentence(error)}{_not_finite(X)}.") from None
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


def _first_sentence(error: ValueError) -> str:
    return " ".join(str(error).split()).split(": array=")[0].split(". ")[0].rstrip(".")


def _not_finite(x: Any) -> str:
    """Where a table has its first cell that is not finite, if it has one."""
    try:
        places = np.argwhere(~np.isfinite(numbers("X", x, "a table")))
    except IsonomyError:
        return ""
    return "" if len(places) == 0 or places.shape[1] != 2 else f" in row {places[0, 0]}, column {places[0, 1]}"


def rows_of(estimator: Any, X: Any) -> FloatArray:
    """The individuals to predict for, in the coordinates of the training."""
    if isinstance(X, Population):
        return X.x
    rows: FloatArray = validate_data(estimator, X, dtype=np.float64, reset=False)
    return rows


def _reads(method: Method, metric: Metric, width: int, people: Population | None) -> IntArray:
    """The coordinates that the network reads: those the model sees, without protected ones for ``ftu``."""
    seen = np.ones(width, dtype=bool) if people is None else people.schema.seen_coordinates.copy()
    if method == "ftu":
        seen &= ~(metric.free if people is None else people.schema.protected_coordinates)
    if not seen.any():
        raise ParameterError("The network would read nothing: every coordinate is protected or not seen.")
    return np.flatnonzero(seen).astype(np.int64)
