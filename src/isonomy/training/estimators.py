"""Fair networks as scikit-learn estimators.

    model = isonomy.FairClassifier(method="u-dif", delta=0.05, gamma=0.1).fit(people.train)
    model.predict_proba(people.test); model.certify(people.test); model.to_onnx("model.onnx")

What is trained is always an MLP with ReLU; what is left behind is an :class:`isonomy.Network` that certificates take.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError
from isonomy.population import Population
from isonomy.training.base import FairEstimator, individuals, rows_of
from isonomy.training.collapse import CollapsedModelWarning, class_names, collapse
from isonomy.training.gaps import Head
from isonomy.training.trainer import OnEpoch


@dataclass(eq=False, repr=False)
class FairClassifier(ClassifierMixin, FairEstimator):  # type: ignore[misc]
    """A classifier whose unfairness can be bounded.

    ``method`` is ``"u-dif"`` (violations under every shift of the population within ``gamma``), ``"l-dif"`` (under
    shifts that are searched), ``"f-ibp"`` (no shift), ``"sensr"``, ``"ftu"`` (protected columns are not read) or
    ``"sgd"``. ``delta`` is the radius of similarity in the ``metric``; ``alpha`` weighs the bound against
    cross-entropy. ``ground`` and ``order`` define the Wasserstein distance, ``radii`` are those at which ``u-dif``
    evaluates profiles. ``bound="paper"`` trains on the paper's box form, for comparison.

    ``fit`` takes a :class:`Population`, of which a whole one gives its training split, or arrays. Without ``metric``
    a population is given a ``SensitiveSubspace`` fitted on what ``fit`` gets, arrays the unweighted ℓ2 distance.
    ``epochs`` are 10, and more on a small table, so that there are at least 600 steps. ``keep`` guards against networks
    that decide nothing: with ``1 − error / error of a constant`` as the share that is explained, alpha falls in
    proportion as a batch has less than ``keep`` of it (0: no guard). Schedules ``*_ramp`` are shares of the training
    between which a number grows from 0 to its value. With ``patience`` training stops when the objective (cross-entropy
    plus alpha times the bound) of the held-out ``validation`` share has not improved for so many epochs after the
    ramps, and the best weights are kept. ``learning_rate="search"`` tries 20 values. A ``checkpoint`` file is written
    after every epoch; a training with the same data and parameters goes on from it. ``ascent_steps`` are those of
    ``l-dif`` (1 unless said) and ``sensr`` (5).

    ``network_``, ``classes_``, ``history_`` (a record for each epoch), ``metric_``, ``domain_`` and ``collapsed_``
    (whether the network is no better than a constant on the training individuals, see
    :func:`isonomy.training.collapse.collapse`; ``fit`` warns of it) are left behind.
    """

    class_weight: Literal["balanced"] | dict[Any, float] | None = field(default=None, kw_only=True)

    def fit(
        self,
        X: Population | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on a population (its classes are the indices of the schema's), or on ``X`` and labels ``y``.

        ``on_epoch`` is called with the record of each epoch, as it will stand in ``history_``.
        """
        x, labels, weight, people = individuals(self, X, y, sample_weight)
        check_classification_targets(labels)
        if people is not None and people.schema.label is not None:
            self.classes_ = np.arange(len(people.schema.label.classes))
            codes = np.asarray(labels, dtype=np.int64)
        else:
            self.classes_, codes = np.unique(labels, return_inverse=True)
        counted = np.unique(codes[weight > 0])
        if len(counted) < 2:
            raise DataError(f"The individuals must belong to at least two classes; here is {len(counted)} class.")
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=np.unique(labels), y=labels)
            weight = weight * _spread(codes, factors)
        self._train(x, codes, weight, Head(len(self.classes_)), people, on_epoch)
        names = list(self.classes_) if people is None else class_names(people.schema.label)
        reason = collapse(self.network_, x, codes, weight, names)
        self.collapsed_ = bool(reason)
        if reason:
            warnings.warn(
                f"The network {reason}: it is fair because it decides nothing. Train with a smaller 'alpha', more "
                "'epochs', or class_weight='balanced'.",
                CollapsedModelWarning,
                stacklevel=2,
            )
        return self

    def predict_proba(self, X: Population | npt.ArrayLike) -> FloatArray:
        """Probabilities (n, classes)."""
        check_is_fitted(self)
        return self.network_(rows_of(self, X))

    def predict(self, X: Population | npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class of each individual."""
        check_is_fitted(self)
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found


@dataclass(eq=False, repr=False)
class FairRegressor(RegressorMixin, FairEstimator):  # type: ignore[misc]
    """A regression whose unfairness can be bounded; parameters as in :class:`FairClassifier`.

    The loss is the squared error. Outcomes are standardised during training, so ``alpha`` weighs the bound in units of
    their standard deviation; the network that is left behind, and its certificates, are in the outcome's own units.
    """

    def fit(
        self,
        X: Population | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on a population whose label is a number, or on ``X`` and numbers ``y``."""
        x, target, weight, people = individuals(self, X, y, sample_weight, numeric=True)
        target = np.asarray(target, dtype=np.float64)
        self._train(x, target, weight, Head(0), people, on_epoch)
        reason = collapse(self.network_, x, target, weight)
        self.collapsed_ = bool(reason)
        if reason:
            warnings.warn(
                f"The network {reason}: it is fair because it decides nothing. Train with a smaller 'alpha' or more "
                "'epochs'.",
                CollapsedModelWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Population | npt.ArrayLike) -> FloatArray:
        """One number for each individual."""
        check_is_fitted(self)
        return self.network_(rows_of(self, X))[:, 0]


def _spread(codes: npt.NDArray[np.int64], factors: FloatArray) -> FloatArray:
    """The factor of each individual's class; factors are in the order of the classes that occur."""
    return np.asarray(factors)[np.unique(codes, return_inverse=True)[1]]
