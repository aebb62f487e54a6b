"""The decision that follows from what a model gives: one rule for predictions, outcomes, groups and reports.

- Two classes: the favourable one (the second where none is named) is given from its ``threshold`` on; without one where
  it is at least as probable as the other, which is from 0.5 on, unless both come of sigmoids of their own.
- Several classes: the most probable one is given; of equally probable ones a favourable one, else the first.
- A regression: with a ``threshold`` high (1) or low (0) numbers; without one there is no decision (−1).

A score equal to the cut-off is on the favourable side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import ParameterError, SchemaError, template
from isonomy.given import instance
from isonomy.population.domain import FloatArray
from isonomy.population.feature import Label

NO_OUTCOME = Label("")
"""The outcome is not described."""


def favourable_places(label: Label | None) -> tuple[int, ...]:
    """Return the places of the favourable decisions among those of :func:`decided`; none where none is named."""
    if label is None:
        return ()
    known = label.classes or ("low", "high")
    return tuple(known.index(name) for name in label.favourable)


def outcome_of(
    label: Label | None,
    classes: int,
    favourable: str | Sequence[str] | None = None,
    threshold: float | None = None,
) -> Label:
    """Return what is decided by a model of ``classes`` classes (0: a regression): ``label``, but for what is given.

    Without a label that fits, classes are called by their places, "0", "1" and so on. A threshold is a probability of
    the favourable class: a caller who names another class than the label's names its threshold too.
    """
    fits = label is not None and len(label.classes) == classes
    if label is not None and not fits and label.threshold is not None:
        raise ParameterError(
            f"The label {label.column!r} has {len(label.classes) or 'no'} classes and the threshold {label.threshold}, "
            f"but the model gives {f'{classes} classes' if classes else 'numbers'}: give the label those."
        )
    own = label if label is not None and fits else Label("", tuple(map(str, range(classes))))
    if favourable is not None:
        instance("favourable", favourable, Sequence, "a class, or a list of classes")
        named = (favourable,) if isinstance(favourable, str) else tuple(favourable)
        if classes and own.threshold is not None and threshold is None and named != own.favourable:
            raise ParameterError(
                f"'threshold' must be given beside another 'favourable': the label's, {own.threshold}, is of "
                f"{own.favourable[0] if own.favourable else own.classes[1]!r}."
            )
        own = _replaced(own, "favourable", named, favourable)
    if threshold is not None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.integer | np.floating):
            raise ParameterError(template("threshold", "a number", threshold))
        own = _replaced(own, "threshold", float(threshold), threshold)
    return own


def _replaced(label: Label, name: str, value: Any, given: Any) -> Label:
    """Return the label with another value, or say what would be right for the parameter of that name."""
    try:
        return replace(label, **{name: value})
    except (SchemaError, TypeError):
        if name == "favourable":
            known = ", ".join(map(repr, label.classes or ("high", "low")))
            raise ParameterError(template(name, f"one or more, not all, of {known}", given)) from None
        kinds = {0: "a finite number", 2: "a probability strictly between 0 and 1"}
        right = kinds.get(len(label.classes), "left out with more than two classes: it needs two, or one number")
        raise ParameterError(template(name, right, given)) from None


def named(decisions: NDArray[np.int64], outcome: Label) -> list[tuple[str | None, bool | None]]:
    """Return for decisions (n,) of :func:`decided` their names, and whether they are favourable; None: not known."""
    names = outcome.classes or ("low", "high")
    good = [name in outcome.favourable if outcome.favourable else None for name in names]
    return [(names[place], good[place]) if place >= 0 else (None, None) for place in decisions.tolist()]


def rule(outcome: Label) -> str:
    """Return in words what is decided, by which cut-off, and what of it is favourable."""
    good, cut = outcome.favourable, outcome.threshold
    if outcome.regression and cut is None:
        return "nothing: a number has no decision without a cut-off"
    if outcome.regression:
        what = f"'low' up to {cut:.12g}, else 'high'" if good == ("low",) else f"'high' from {cut:.12g} on, else 'low'"
    elif len(outcome.classes) == 2:
        first = good[0] if good else outcome.classes[1]
        (other,) = set(outcome.classes) - {first}
        even = f"where it is at least as probable as {other!r}"
        where = even if cut is None else f"from a probability of {cut:.12g} on"
        what = f"{first!r} {where}, else {other!r}"
    else:
        what = f"the most probable of {len(outcome.classes)} classes; of equally probable ones "
        what += "a favourable one, else the first" if good else "the first"
    named = f"{' and '.join(map(repr, good))} {'is' if len(good) == 1 else 'are'} favourable"
    return f"{what}; {named if good else 'none is named as favourable'}"


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
