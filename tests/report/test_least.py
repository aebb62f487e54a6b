"""The least change: somebody possible and similar of another decision, with no feature that could be put back."""

from __future__ import annotations

import numpy as np

from isonomy.population.outcome import decided
from isonomy.report.least import changed, least_changes

from .audits import audit


def test_nothing_can_be_put_back_and_no_witness_differs_in_fewer_features() -> None:
    found = audit()
    answers = [found.certificate.local, *(each.certificate for each in found.alone)]
    rows, problem = np.arange(len(found.people)), found.certificate.problem
    x, other = found.people.x, least_changes(answers, rows)
    flips = np.any([each.decision == "flippable" for each in answers], axis=0)
    differs = changed(problem, x, other)
    assert flips.any() and ((differs > 0) == flips).all()
    mine, theirs = (decided(problem.model(each), problem.outcome) for each in (x, other))
    assert (mine[flips] != theirs[flips]).all() and problem.domain.contains(other).all()
    for local in answers:
        own = local.decision == "flippable"
        assert (differs[own] <= changed(problem, x, local.witnesses.flip_counterpart[:])[own]).all()
    for row in np.flatnonzero(flips):
        for where in found.people.schema.slices.values():
            if (x[row, where] != other[row, where]).any() and differs[row] > 1:
                back = other[row : row + 1].copy()
                back[:, where] = x[row, where]
                near = problem.metric.distance_upper(x[row : row + 1], back)[0] <= problem.delta
                turned = decided(problem.model(back), problem.outcome)[0] != mine[row]
                assert not (near and turned), "one feature less would do"
