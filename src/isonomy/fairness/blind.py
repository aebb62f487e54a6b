"""A baseline: the scores of a plain regression that reads no protected coordinate."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from isonomy.fairness.decisions import scores
from isonomy.networks.network import Network
from isonomy.population import Population

_NEVER = -50.0
"""The raw output of a class that does not occur in the training data."""


def blind_scores(learned: Population, judged: Population) -> dict[str, float]:
    """Return the :func:`scores` of ``judged`` by the blind regression of ``learned``; empty where there is none."""
    network = blind_regression(learned)
    return {} if network is None else scores(network, judged)


def blind_regression(people: Population) -> Network | None:
    """Fit a logistic regression (C = 1), of numbers a linear one, that reads no protected coordinate, as a network.

    It reads the schema's other coordinates, as far as a model sees them, standardised by the weighted mean and
    deviation of ``people``. None without labels, with fewer than two classes, or where nothing is left to read.
    """
    label, weights = people.schema.label, people.weights
    reads = people.schema.seen_coordinates & ~people.schema.protected_coordinates
    if people.y is None or label is None or not reads.any() or not weights.sum() > 0:
        return None
    x, count = people.x[:, reads], len(label.classes)
    origin = np.average(x, axis=0, weights=weights)
    spread = np.sqrt(np.average((x - origin) ** 2, axis=0, weights=weights))
    unit = np.where(spread > 0, spread, 1.0)
    if label.regression:
        linear = LinearRegression().fit((x - origin) / unit, people.y, sample_weight=weights)
        coefficients, intercepts = linear.coef_[None, :], np.array([linear.intercept_])
    elif len(np.unique(people.y[weights > 0])) < 2:
        return None
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=1.0, max_iter=1000)
            model.fit((x - origin) / unit, people.y, sample_weight=weights / weights.mean())
        coefficients, intercepts = np.zeros((count, x.shape[1])), np.full(count, _NEVER)
        two = len(model.classes_) == 2  # the first is 0 then
        intercepts[model.classes_] = np.array([0.0, model.intercept_[0]]) if two else model.intercept_
        coefficients[model.classes_[-1:] if two else model.classes_] = model.coef_
    weight = np.zeros((len(coefficients), people.schema.width))
    weight[:, reads] = coefficients / unit
    bias = intercepts - weight[:, reads] @ origin
    return Network.from_layers(
        [weight], [bias], head="regression" if label.regression else "softmax", name="blind regression"
    )
