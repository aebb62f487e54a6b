"""The decision that follows from what a model gives: one rule for predictions, outcomes, groups and reports.

- Two classes: the favourable one (the second where none is named) is given from its ``threshold`` on; without one where
  it is at least as probable as the other, which is from 0.5 on.
- Several classes: the most probable one is given; of equally probable ones a favourable one, else the first.
- A regression: with a ``threshold`` high (1) or low (0) numbers; without one there is no decision (−1).

A score equal to the cut-off is on the favourable side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isonomy.population.domain import FloatArray
from isonomy.population.feature import Label

def favourable_places(label: Label | None) -> tuple[int, ...]:
    """Return the places of the favourable decisions among those of :func:`decided`; none where none is named."""
    if label is None:
        return ()
    known = label.classes or ("low", "high")
    return tuple(known.index(name) for name in label.favourable)


def decided(prediction: FloatArray, label: Label | None, *, regression: bool = False) -> NDArray[np.int64]:
    """Return the decision (n,) for each row of predictions (n, k): the place of a class, 1 or 0, or −1 for none."""
    threshold = None if label is None else label.threshold
    favourable = favourable_places(label)
    if regression:
        if threshold is None:
            return np.full(len(prediction), -1)
        high = prediction[:, 0] > threshold if favourable == (0,) else prediction[:, 0] >= threshold
        return np.asarray(high, dtype=np.int64)
    if prediction.shape[1] == 2:
        first = favourable[0] if favourable else 1
        cut = prediction[:, 1 - first] if threshold is None else threshold
        return np.asarray(np.where(prediction[:, first] >= cut, first, 1 - first), dtype=np.int64)
    largest = prediction == prediction.max(axis=1, keepdims=True)
    preferred = largest.copy()
    preferred[:, [place for place in range(prediction.shape[1]) if place not in favourable]] = False
    return np.asarray(np.where(preferred.any(axis=1), preferred.argmax(axis=1), largest.argmax(axis=1)))
