"""Cutting boxes: between lattice points, and never along a side that does not end."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from isonomy.population import Domain
from isonomy_verify.cutting import cut_box


def test_a_side_without_end_is_left_alone() -> None:
    low, high = np.array([-np.inf, -1.0]), np.array([np.inf, 1.0])
    with np.errstate(all="raise"):
        cut = cut_box(Domain.unbounded(2), np.zeros(2), low, high, np.array([0.0, 1.0]), False)
    assert cut is not None and (cut.coordinate, cut.end, cut.begin) == (1, 0.0, 0.0)


@pytest.mark.parametrize(("origin", "unit"), [(0.0, 1.0), (18.0, 3.0), (-7.0, 0.1), (1e6, 7.0)])
def test_every_whole_number_is_in_a_half(origin: float, unit: float) -> None:
    people = (np.arange(origin - 4, origin + 6) - origin) / unit
    domain = replace(
        Domain.unbounded(1),
        kind="realizable",
        low=people[:1],
        high=people[-1:],
        integer=[True],
        origin=[origin],
        unit=[unit],
    )
    for here, (first, last) in itertools.product(people, itertools.combinations(range(10), 2)):
        centre, low, high = (np.array([v]) for v in (here, people[first] - here, people[last] - here))
        cut = cut_box(domain, centre, low, high, np.ones(1), True)
        assert cut is not None
        for person in people[first : last + 1]:
            held = [person - here <= cut.end, person - here >= cut.begin]
            assert any(held) and not all(held)
