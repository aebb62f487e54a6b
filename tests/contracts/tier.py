"""What every tier must keep: a test class inherits `TierContract` and gives ``tier()``, a tier, and a few
individuals.

People are found by trial (``tests/certificates/neighbours.py``), who know nothing of regions: whoever is possible and
similar must lie below what is proved, and whatever is attained must be so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.certificates.neighbours import neighbours

from isonomy.attacks import AttackBudget
from isonomy.certificates.protocol import Tier
from isonomy.errors import UnsupportedOperationError
from isonomy.similarity.ground import ground_metric

RADII = (0.05, 0.4, 1.5)


class TierContract:
    """Nobody found by trial is above what is proved; everybody who was found is similar, and treated so differently."""

    searches = True
    reaches = True

    @staticmethod
    def tier() -> tuple[Tier, np.ndarray]:
        raise NotImplementedError

    @staticmethod
    def changes(tier: Tier, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        model = tier.problem.model
        return np.abs(model(y) - model(x)).max(axis=1)

    def near(self, tier: Tier, x: np.ndarray, count: int = 40) -> np.ndarray:
        problem, rng = tier.problem, np.random.default_rng(3)
        near = neighbours(rng, problem.domain, problem.metric, problem.delta, x, count)
        return near[problem.domain.allows(np.broadcast_to(x, near.shape), near)]

    def test_nobody_similar_is_above_the_bound(self) -> None:
        tier, x = self.tier()
        known = tier.chunk(np.array(x))
        assert known.upper.shape == known.kept.shape == (len(x),) and (known.upper >= 0).all()
        decided = tier.problem.model(x).argmax(axis=1)
        for row, person in enumerate(x):
            near = self.near(tier, person)
            assert (self.changes(tier, person[None], near) <= known.upper[row] + 1e-12).all()
            if known.kept[row] and tier.head.decides:
                assert (tier.problem.model(near).argmax(axis=1) == decided[row]).all()

    def test_a_row_is_bounded_about_alike_wherever_it_stands(self) -> None:
        tier, x = self.tier()
        np.testing.assert_allclose(tier.chunk(x[::-1].copy()).upper[::-1], tier.chunk(x).upper, rtol=1e-6, atol=1e-9)

    def test_what_is_found_is_so(self) -> None:
        tier, x = self.tier()
        problem = tier.problem
        if not self.searches:
            with pytest.raises(UnsupportedOperationError, match=problem.model.name):
                tier.attack(x, AttackBudget())
            return
        finds, known = tier.attack(x, AttackBudget(steps=5, restarts=1)), tier.chunk(x)
        assert problem.domain.allows(x, finds.counterpart).all()
        assert problem.metric.similar(x, finds.counterpart, problem.delta).all()
        assert (finds.lower <= self.changes(tier, x, finds.counterpart) + 1e-12).all()
        assert (finds.lower <= known.upper).all() and not (finds.flips & known.kept).any() and finds.lower.any()
        both = problem.model(finds.flip_counterpart).argmax(axis=1) != problem.model(x).argmax(axis=1)
        assert both[finds.flips].all()

    def test_nobody_within_reach_is_above_the_bound(self) -> None:
        tier, x = self.tier()
        problem = tier.problem
        ground = ground_metric("l2", problem.domain.width)
        if not self.reaches:
            with pytest.raises(UnsupportedOperationError, match=problem.model.name):
                tier.reach(ground)
            return
        reach, rng = tier.reach(ground), np.random.default_rng(5)
        bound, (anybody, furthest) = reach.bound(x, RADII, True, tier.moving_size), reach.everywhere(x)
        assert bound.shape == (len(x), len(RADII)) and (bound >= 0).all()
        free = replace(problem.domain, immutable=np.zeros(problem.domain.width, dtype=bool))
        for row, person in enumerate(x[:4]):
            for k, radius in enumerate(RADII):
                for z in neighbours(rng, free, ground, radius, person, 8):
                    worst = self.changes(tier, z[None], self.near(tier, z, 12)).max(initial=0.0)
                    assert worst <= bound[row, k] + 1e-12 and (worst <= anybody + 1e-12 or radius > furthest)

    def test_whoever_is_proposed_nearby_is_a_row_each_or_several(self) -> None:
        tier, x = self.tier()
        from isonomy.similarity.regions import Similarity

        ball = Similarity(ground_metric("l2", tier.problem.domain.width), 0.5, tier.problem.domain)
        rows = np.array([2, 0])
        near = tier.nearby(x)(rows, ball, AttackBudget(steps=2, restarts=0))
        assert near.ndim in (2, 3) and (len(near), near.shape[-1]) == x[rows].shape
