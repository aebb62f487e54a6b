"""A test for a model that is read the wrong way round: another order of the classes agrees better with the labels.

**The test.** Another order is one of the ``k`` classes that the outputs may stand for: all of them up to ``k = 4``,
the reverse one beyond. One is called better where both its *ranking* and its *decisions* are, at ``LEVEL``:

- ranking: of the classes that change places, the outputs read as theirs rank their own people below the others: the
  mean of their AUCs is below 0.5, and at least one of them has a sum of ranks that chance hardly makes so small
  (Bonferroni over these classes). Of two classes that is the one AUC. It does not depend on the cut-off, nor on how
  frequent the classes are: a poor model that gives nearly everybody the same class, and would be right more often with
  the other one, is not called reversed.
- decisions: over the people whom exactly one of the two orders gets right, the sign test (McNemar, exact) rejects that
  either is as likely; or, with classes weighted alike, the sum of these signs is larger than random signs make it
  (Hoeffding's bound, which is exact too): a rare class must not be drowned by the other. Of two classes the opposite
  reading is right exactly where the reading as given is wrong, but for scores at the cut-off.

Both are corrected for the number of orders that were tried. Tests take people as one draw each, without sampling
weights, and leave out those of weight 0. With weights an order is called better only if the weighted AUCs agree with
the test of the ranking, and accuracy or balanced accuracy, which are named and weighted, is larger.

**Soundness.** Nothing that is proved depends on it. A model that is no better than chance is called reversed with a
probability of at most about ``LEVEL``, whatever its decisions: given the scores, the people of a class are a random
part of all. The law of their sum of ranks is that of Mann and Whitney, where ties leave it near a normal one. Where
they do not (few people of a class, few scores), the part is drawn without replacement, the moments of its sum are at
most those with replacement (Hoeffding 1963), and Chernoff's bound takes its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom, mannwhitneyu, rankdata

from isonomy.arithmetic import FloatArray
from isonomy.fairness.decisions import BoolArray, accuracies, auc
from isonomy.population.feature import Label
from isonomy.population.outcome import decided

LEVEL = 1e-3
MOST_PERMUTED = 4
"""Classes up to which every order is tried."""

EVEN, SEVERAL = 0.75, 20
"""Tied ranks whose variance is this part of that without ties, of as many people, follow a normal law in its tail."""


@dataclass(frozen=True)
class OtherReading:
    """An order of the classes under which a model agrees with the labels better, and both accuracies."""

    classes: tuple[str, ...]
    accuracy: float
    other_accuracy: float
    balanced_accuracy: float
    other_balanced_accuracy: float

    def __str__(self) -> str:
        order = ", ".join(f'"{name}"' for name in self.classes)
        return (
            f"as it is read, the model agrees with {percent(self.accuracy)} of the labels (balanced "
            f"{percent(self.balanced_accuracy)}), and with {percent(self.other_accuracy)} (balanced "
            f"{percent(self.other_balanced_accuracy)}) where its outputs stand for the classes {order} in this order"
        )


def percent(share: float) -> str:
    """Return a share with one decimal, ``25.3 %``."""
    return f"{100 * share:.1f} %"


def better_reading(
    prediction: FloatArray, y: NDArray[np.int64], label: Label, weights: FloatArray | None = None
) -> OtherReading | None:
    """Return the order of classes under which predictions (n, k) agree with classes (n,) better; None as a rule."""
    count = len(label.classes)
    if count < 2 or prediction.shape[1] != count or len(y) != len(prediction) or not np.isfinite(prediction).all():
        return None
    weights = np.ones(len(y)) if weights is None else weights
    counted = weights > 0
    prediction, y, weights = prediction[counted], y[counted], weights[counted]
    own = np.bincount(y, minlength=count)
    if (own > 0).sum() < 2:
        return None
    weights = weights / weights.max()  # sums of the largest ones must be finite
    as_given = tuple(range(count))
    orders = [each for each in permutations(as_given) if each != as_given]
    if count > MOST_PERMUTED:
        orders = [as_given[::-1]]
    level, right = LEVEL / len(orders), decided(prediction, label) == y
    given, better = accuracies(right, y, weights), list[tuple[float, tuple[int, ...], float]]()
    for order in orders:
        # Output j is read as class order[j]: column c of the other reading is the output with order[j] = c.
        other = decided(prediction[:, np.argsort(order)], label) == y
        accuracy, balanced = accuracies(other, y, weights)
        more = (accuracy > given[0] or balanced > given[1]) and _decides_better(right, other, 1.0 / own[y], level)
        if more and _ranks_below(prediction, y, order, level, weights):
            better.append((balanced, order, accuracy))
    if not better:
        return None
    balanced, order, accuracy = max(better)
    return OtherReading(tuple(label.classes[place] for place in order), given[0], accuracy, given[1], balanced)


def _decides_better(right: BoolArray, other: BoolArray, alike: FloatArray, level: float) -> bool:
    """Return whether another reading is right significantly more often, by people or by classes weighted alike."""
    differ = right != other
    wins, signs = int((other & differ).sum()), np.where(other, 1.0, -1.0)[differ] * alike[differ]
    if not len(signs):
        return False
    chance = float(binom.sf(wins - 1, len(signs), 0.5))
    total = float(signs.sum())
    balanced = math.exp(-(total**2) / (2.0 * float(signs @ signs))) if total > 0 else 1.0
    return min(chance, balanced) <= level / 2


def _ranks_below(
    prediction: FloatArray, y: NDArray[np.int64], order: tuple[int, ...], level: float, weights: FloatArray
) -> bool:
    """Return whether the outputs of the classes that move rank their own people significantly below the others."""
    moved = [c for c, there in enumerate(order) if c != there and 0 < (y == c).sum() < len(y)]
    for each in (weights, np.ones(len(y))):
        if not moved or not np.mean([auc(prediction[:, c], y == c, each) for c in moved]) < 0.5:
            return False
    return min(_chance(prediction[:, c], y == c) for c in moved) <= level / len(moved)


def _chance(score: FloatArray, own: BoolArray) -> float:
    """Bound the chance that a random part of all people, as large as ``own``, has ranks as low as its."""
    n, ties = float(len(score)), np.unique(score, return_counts=True)[1].astype(np.float64)
    spread, fewer = 1.0 - float((ties**3 - ties).sum()) / (n**3 - n), min(own.sum(), (~own).sum())
    if spread == 1 or (spread >= EVEN and fewer >= SEVERAL):
        return float(mannwhitneyu(score[own], score[~own], alternative="less").pvalue)
    ranks = rankdata(score) / n
    if 2 * own.sum() > len(own):  # the others are fewer, and their ranks from above
        ranks, own = 1.0 - ranks, ~own
    low, size = float(ranks[own].mean()), int(own.sum())
    values, counts = np.unique(ranks, return_counts=True)
    # Every slope gives a bound: E exp(slope (low - rank)), to the power of how many ranks are drawn.
    slopes = np.geomspace(0.1, 1e4, 64)[:, None]
    logs = logsumexp(slopes * (low - values), axis=1, b=counts / n)
    return float(np.exp(min(0.0, size * float(logs.min()))))
