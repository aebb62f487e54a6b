"""When has a network stopped deciding? A constant is perfectly fair, and of no use: it must not pass for a success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.escapes import visible
from isonomy.networks import Network
from isonomy.population import Label
from isonomy.population.outcome import decided

LEAST = 0.01
"""How much better than a constant a network has to be, at least: of two classes, one is given to those who belong to it
more often than to the others by two percentage points; of a number, one percent of the variance is explained."""

CHANCE = 1.645
"""Standard errors that decisions made without looking exceed once in twenty times."""


class CollapsedModelWarning(UserWarning):
    """A network that was trained or repaired decides nothing."""


def collapse(
    network: Network,
    x: FloatArray,
    wanted: npt.ArrayLike,
    weights: npt.ArrayLike,
    names: Sequence[object] = (),
    label: Label | None = None,
) -> str:
    """Return why a network has collapsed, as the second half of a sentence about it; empty where it has not.

    ``wanted`` is what it should give the individuals ``x``: labels, or the decisions (of a regression the numbers) of
    the network that it was made from. ``names`` are those of the classes; decisions are those of the ``label``, with
    its cut-off.

    The criterion is to be *no better than a constant*, by measures that a constant cannot make look good. Accuracy is
    none: with a class of 1 %, giving everybody the other one is 99 % right. The balanced accuracy of a constant is one
    over the number of classes that occur, whatever their shares, and so is that expected of decisions made without
    reading any individual. A network has collapsed when it gives everybody one class where several are wanted, or when
    its balanced accuracy is above that number by no more than ``LEAST``, or by no more than what chance gives decisions
    with the same shares (``CHANCE`` standard errors: on 30 rows one lucky decision proves nothing). A regression has
    collapsed when it gives everybody one number, or explains no more than ``LEAST`` of the variance, of which the best
    constant explains nothing.

    Where only one class (or number) is wanted the criterion decides nothing, and the result is empty.
    """
    share = np.asarray(weights, dtype=np.float64)
    counts = share > 0
    target, share, given = np.asarray(wanted)[counts], share[counts], answers(network, x[counts], label)
    if len(np.unique(target)) < 2:
        return ""
    if network.head == "regression":
        return _collapsed_regression(given, target, share)
    return _collapsed_decisions(given, target, share, names)


def class_names(label: Label | None) -> list[str]:
    """Return the classes as people call them."""
    return [] if label is None else [label.labels.get(name, name) for name in label.classes]


def answers(network: Network, x: FloatArray, label: Label | None = None) -> npt.NDArray[Any]:
    """Return the class (:func:`isonomy.population.outcome.decided`), or the predicted number, of each individual."""
    given = network(x)
    if network.head == "regression":
        return given[:, 0]
    return decided(given, label if label is not None and len(label.classes) == given.shape[1] else None)


def _collapsed_decisions(
    given: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], weights: FloatArray, names: Sequence[object]
) -> str:
    classes = np.unique(wanted)
    if (given == given[0]).all():
        if len(names) > given[0]:
            return f"gives everybody the class '{visible(str(names[given[0]]))}'"
        return "gives all the same class"
    rates, variance = [], 0.0
    for each in classes:
        own = weights[wanted == each]
        rates.append(np.average(given[wanted == each] == each, weights=own))
        often = np.average(given == each, weights=weights)
        variance += often * (1 - often) * np.square(own).sum() / own.sum() ** 2  # one over the effective number
    constant, balanced = 1 / len(classes), float(np.mean(rates))
    if balanced > constant + max(LEAST, CHANCE * constant * np.sqrt(variance)):
        return ""
    few = balanced > constant + LEAST
    what = "cannot be told from a constant by so few" if few else "is no better than a constant"
    return f"{what}: its balanced accuracy is {balanced:.3f}, that of a constant {constant:.3f}"


def _collapsed_regression(given: FloatArray, wanted: FloatArray, weights: FloatArray) -> str:
    centre = np.average(wanted, weights=weights)
    spread = np.average((wanted - centre) ** 2, weights=weights)
    explained = 1 - np.average((given - wanted) ** 2, weights=weights) / spread
    if np.ptp(given) <= 1e-6 * np.ptp(wanted):
        return "gives everybody the same number"
    if explained > LEAST:
        return ""
    return f"is no better than a constant: it explains {max(explained, 0.0):.1%} of the variance"
