"""The ground cost of a population shift: what it costs to turn one individual into another.

A ground cost ``c`` must be a *translation-invariant pseudometric that is finite*: the triangle inequality makes
Wasserstein distances distances, and a ball of radius ``r`` around any individual must be the same convex set,
since profiles add it to the set of similar individuals. So it is ``c(x, z) = ‖R (x − z)‖_p`` with one root
``R``. A metric may be singular: moves that it ignores are then free.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError, ParameterError, template
from isonomy.similarity.counterparts import Counterparts
from isonomy.similarity.lp import WeightedLp
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import down

GroundName = Literal["l1", "l2", "linf"]
Ground = GroundName | Metric

_ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


def ground_metric(ground: Ground, width: int, names: tuple[str, ...] = ()) -> Metric:
    """Return the metric that a ground cost stands for: ``"l1"``, ``"l2"``, ``"linf"``, or a metric as it is.

    A metric without a box part is a seminorm and will do, and so will weighted ℓ∞. Counterparts will do when each
    coordinate that is not free has a positive absolute tolerance, which is a weighted ℓ∞ too. A relative tolerance
    depends on the centre, and a tolerance of 0 makes any difference cost infinitely much: both are refused.
    """
    if isinstance(ground, str) and ground in get_args(GroundName):
        return WeightedLp(np.ones(width), _ORDERS[ground], names=names)
    if not isinstance(ground, Metric):
        raise ParameterError(template("ground", "'l1', 'l2', 'linf' or a metric", ground))
    if ground.width != width:
        expected = f"a metric on {width} coordinates, as the individuals have"
        raise ParameterError(template("ground", expected, f"{ground.width} coordinates"))
    _check_is_seminorm(ground)
    return ground


def ground_root(metric: Metric) -> tuple[FloatArray, float]:
    """Return ``R`` and ``p`` of a ground cost ``c(x, z) = ‖R (x − z)‖_p``, a box part written as a root of order ∞.

    **Soundness.** ``R`` is rounded down where it is rounded, so ``‖R (x − z)‖_p ≤ c(x, z)`` in real arithmetic, and
    short of it by a relative error of a few units roundoff at most.
    """
    _check_is_seminorm(metric)
    if not metric.boxed:
        return metric.gauge()
    counts = ~metric.free
    weights = metric.weights[counts] if isinstance(metric, WeightedLp) else down(1.0 / metric.form.tolerance[counts])
    root = np.zeros((weights.size, metric.width))
    root[:, counts] = np.diag(weights)
    return root, math.inf


def _check_is_seminorm(metric: Metric) -> None:
    if not metric.boxed or isinstance(metric, WeightedLp):
        return
    if not isinstance(metric, Counterparts):
        raise MetricError(
            f"A metric of kind '{metric.kind}' has a box part that may depend on the individual, so it is no ground "
            "cost: use 'l1', 'l2', 'linf', or a weighted, Mahalanobis, sensitive-subspace or Explore metric."
        )
    for refused, why in (
        (metric.relative > 0, "a relative tolerance, which depends on the individual"),
        (metric.tolerance == 0, "no tolerance, which makes any difference cost infinitely much"),
    ):
        places = np.flatnonzero(~metric.free & refused)
        if places.size:
            name = repr(metric.names[places[0]]) if metric.names else str(places[0])
            raise MetricError(
                f"These counterparts are no ground cost, since coordinate {name} has {why}: give it a positive "
                "tolerance in its own units, or use 'l1', 'l2', 'linf' or another metric."
            )
