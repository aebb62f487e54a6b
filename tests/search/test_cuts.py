"""Cutting boxes: between lattice points, and never along a side that does not end."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from isonomy.population import Domain
from isonomy.search.cuts import cut_box, halves


def test_a_side_without_end_is_left_alone() -> None:
    low, high = torch.tensor([-torch.inf, -1.0]).double(), torch.tensor([torch.inf, 1.0]).double()
    with np.errstate(all="raise"):
        cut = cut_box(Domain.unbounded(2), torch.zeros(2).double(), low, high, torch.tensor([0.0, 1.0]).double(), False)
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
        centre, low, high = (torch.tensor([v]).double() for v in (here, people[first] - here, people[last] - here))
        cut = cut_box(domain, centre, low, high, torch.ones(1).double(), True)
        assert cut is not None
        sides = halves(cut, low, high)
        for person in people[first : last + 1]:
            held = [float(a) <= person - here <= float(b) for a, b in sides]
            assert any(held) and not all(held)
