"""The least change that changes a decision, among those found: the fewest features, then the smallest move.

It begins with the witnesses of another decision that an audit has, puts one feature after the other back where the
decision stays another one, and brings numbers nearer. What results is an example that was checked, and no proof that
nothing smaller would do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.local import LocalCertificate
from isonomy.population.outcome import decided
from isonomy.problem import Problem

HALVINGS = 10
"""Times that the move of a number is halved."""

Rows = NDArray[np.intp]


def least_changes(answers: Sequence[LocalCertificate], rows: Rows) -> FloatArray:
    """Return for the individuals ``rows`` (k,) who of another decision differs least (k, m), of all that answers to
    several questions have shown; the individual itself where there is none."""
    x = np.ascontiguousarray(answers[0].x[rows])
    best, fewest, nearest = x.copy(), np.full(len(x), np.inf), np.full(len(x), np.inf)
    for local in answers:
        some = np.flatnonzero(local.decision[rows] == "flippable")
        if not len(some):
            continue
        own = np.ascontiguousarray(x[some])
        other = _nearer(local.problem, own, _fewer(local.problem, own, local.witnesses.flip_counterpart[rows[some]]))
        count, size = changed(local.problem, own, other), np.abs(other - own).sum(axis=1)
        better = (count < fewest[some]) | ((count == fewest[some]) & (size < nearest[some]))
        place = some[better]
        best[place], fewest[place], nearest[place] = other[better], count[better], size[better]
    return best


def changed(problem: Problem, x: FloatArray, other: FloatArray) -> NDArray[np.int64]:
    """Return in how many features people differ from the individuals (n,)."""
    assert problem.schema is not None
    differs = [(x[:, where] != other[:, where]).any(axis=1) for where in problem.schema.slices.values()]
    return np.asarray(np.sum(differs, axis=0, dtype=np.int64))


def _turns(problem: Problem, x: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    """Return who is possible, similar and decided otherwise (n,)."""
    fits = problem.domain.contains(other) & problem.domain.allows(x, other)
    fits &= problem.metric.distance_upper(x, other) <= problem.delta
    regression = problem.model.head == "regression"
    mine, theirs = (decided(problem.model(each), problem.outcome, regression=regression) for each in (x, other))
    return np.asarray(fits & (mine != theirs))


def _fewer(problem: Problem, x: FloatArray, other: FloatArray) -> FloatArray:
    """Put features back, those that are not protected first, while the decision stays another one."""
    assert problem.schema is not None
    other = np.array(other)
    for feature in sorted(problem.schema.features, key=lambda each: each.protected):
        where, trial = problem.schema.slices[feature.name], other.copy()
        trial[:, where] = x[:, where]
        good = _turns(problem, x, trial)
        other[good] = trial[good]
    return other


def _nearer(problem: Problem, x: FloatArray, other: FloatArray) -> FloatArray:
    """Bring numbers nearer to the individual's own, while the decision stays another one."""
    assert problem.schema is not None
    for feature in problem.schema.features:
        place = problem.schema.slices[feature.name].start
        if feature.kind == "categorical":
            continue
        far, low, high = other[:, place].copy(), np.zeros(len(x)), np.ones(len(x))
        for _ in range(HALVINGS):
            middle, trial = (low + high) / 2, other.copy()
            trial[:, place] = x[:, place] + middle * (far - x[:, place])
            trial = np.asarray(problem.domain.snap(trial))
            good = _turns(problem, x, trial)
            other[good] = trial[good]
            low, high = np.where(good, low, middle), np.where(good, middle, high)
    return other
