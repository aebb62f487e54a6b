"""Tree ensembles of scikit-learn behind a Platt curve: sums that are scaled and moved in front of a logistic link.

A classifier that is asked for its decision, or for the mean of its trees' probabilities, gives a sum of leaves, and
``expit(-(a sum + b))`` of it is one of scaled leaves. Of boosted trees of other libraries the curve is asked the
probability, itself a logistic of the sum: that is no sum any more, and is not read here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from isonomy.errors import UnsupportedOperationError
from isonomy.trees.described import kind_of
from isonomy.trees.forest import Forest
from isonomy.trees.pipelines import split_pipeline

_SUMS = (
    *("DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"),
    *("GradientBoostingClassifier", "HistGradientBoostingClassifier"),
)


def calibrated_member(model: Any) -> Any:
    """Return the one classifier of trees, with its curve, of a calibration by ``method="sigmoid"``; else None."""
    if kind_of(model) != "sklearn.calibration.CalibratedClassifierCV":
        return None
    members = list(getattr(model, "calibrated_classifiers_", ()))
    if len(members) != 1 or getattr(members[0], "method", "") != "sigmoid" or len(members[0].calibrators) != 1:
        return None
    kind = kind_of(split_pipeline(members[0].estimator)[1])
    fits = kind.startswith("sklearn.") and kind.rpartition(".")[2] in _SUMS
    return members[0] if fits and float(members[0].calibrators[0].a_) < 0 else None


def with_platt(forest: Forest, member: Any) -> Forest:
    """Return the forest whose outputs are ``expit(-(a sum + b))``.

    **Soundness.** With ``b`` inside, the base is rounded twice and the library rounds once more, which the base's error
    holds.
    """
    if forest.link == "probability" and len(forest.base) == 2:  # that of the second class
        forest = replace(forest, value=forest.value[:, 1:], base=forest.base[1:], output=np.zeros_like(forest.output))
    if len(forest.base) != 1 or forest.link not in ("probability", "logistic"):
        raise UnsupportedOperationError("a calibration of several classes is not read.")
    slope, moved = float(member.calibrators[0].a_), float(member.calibrators[0].b_)
    base = forest.base + moved * forest.divisor / slope
    error = forest.base_error + 2.0**-48 * float(np.abs(forest.base).max() + abs(moved * forest.divisor / slope))
    return replace(forest, base=base, base_error=error, link="logistic", link_scale=-slope)
