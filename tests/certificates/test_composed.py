"""Compositions, reweighted first and moved then, against linear programs and random populations on finite supports."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy import Counterparts, Drift, Marginals, Mix, Network, Part, Stability, Transport, WeightedLp, certify
from isonomy.certificates.composed import Composed, ComposedDual
from isonomy.certificates.profiles import profiles_of_table
from isonomy.certificates.shifts import parsed_shift
from isonomy.certificates.worst_case import Points
from isonomy.errors import ParameterError
from isonomy.population import Feature, Population, Schema

QUIET: dict[str, Any] = {"progress": None}
GROUND = WeightedLp(np.ones(1))
SEEDS = st.integers(0, 2**16)


class Support:
    """People with a few places each, at costs and with values that rise, and profiles that say exactly that."""

    def __init__(self, seed: int, n: int = 6, k: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.costs = np.append(0.0, np.cumsum(rng.uniform(0.05, 0.8, k - 1)))
        self.values = np.sort(rng.random((n, k)) * rng.random((n, 1)), axis=1)
        self.values[:, -1] = self.values.max()  # as far as anybody who is further away is known
        self.weights = rng.uniform(0.2, 2.0, n)
        self.groups = np.append([0, 1], rng.integers(0, 2, n - 2))
        below = self.costs[1:] * (1 - 1e-13)  # right below a place nobody is at it yet
        radii = np.append(0.0, np.stack([below, self.costs[1:]], axis=1).ravel())
        within = np.repeat(self.values, 2, axis=1)[:, :-1]  # v0, v0, v1, v1, … , at 0, below 1, 1, below 2, …
        assert within.shape[1] == len(radii)
        self.profiles = profiles_of_table(radii, within, float(self.values.max()))
        owner = np.repeat(np.arange(n), k)
        place = np.zeros((len(owner), 1))
        self.points = Points(owner, place, place, np.tile(self.costs, n), self.values.ravel())

    def dual(self, shift: Any) -> ComposedDual:
        return ComposedDual(shift, self.profiles, self.weights, self.groups)

    def program(self, first: Any, gamma: float) -> float:
        """The largest mean: masses on places, whose sums by person are a population of the part or mix."""
        n, k = self.values.shape
        own = np.kron(np.eye(n), np.ones(k))
        share = self.weights / self.weights.sum()
        rows, most = [np.tile(self.costs, n)], [gamma]
        equal, right = [np.ones(n * k)], [1.0]
        if isinstance(first, Part):
            rows += list(own)
            most += (share / first.at_least).tolist()
        else:  # in a group masses are as the weights, and groups have shares within limits
            for group in (0, 1):
                some = np.flatnonzero(self.groups == group)
                held = share[some].sum()
                for i in some[1:]:
                    equal.append(own[i] / share[i] - own[some[0]] / share[some[0]])
                    right.append(0.0)
                low, high = (0.0, 1.0) if first.limits is None else first.limits[group]
                total = own[some].sum(0)
                rows += [total, -total]
                most += [high, -low]
                assert held > 0
        found = linprog(-self.values.ravel(), np.array(rows), most, np.array(equal), right, method="highs")
        assert found.fun is not None
        return -float(found.fun)


FIRSTS = st.sampled_from([Part(0.5), Part(0.2), Part(1.0), Mix(("g",)), Mix(("g",), ((0.2, 0.9), (0.1, 0.8)))])


@settings(max_examples=20, deadline=None)
@given(SEEDS, FIRSTS, st.sampled_from([0.05, 0.3, 1.0]))
def test_parts_and_mixes_that_move_are_linear_programs(seed: int, first: Any, gamma: float) -> None:
    support, shift = Support(seed), Composed(first, Transport(gamma, ground=GROUND))
    truth, dual = support.program(first, gamma), support.dual(shift)
    found = dual.bound(gamma)
    assert truth - 1e-9 <= found.upper == pytest.approx(truth, abs=1e-8)
    for multiplier in (0.0, 0.1, 1.0, 7.0):  # every one is a bound
        assert dual.value(multiplier, gamma) >= truth - 1e-9
    reached = dual.attained(support.points, support.weights, gamma)
    assert reached.value <= truth + 1e-9 and reached.value >= 0.75 * truth
    claims = support.dual(shift).claims(support.points, support.weights, gamma)
    assert found.upper <= claims.upper <= found.upper * (1 + 1e-4) + 1e-6 and claims.plan.value <= truth + 1e-9


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([0.05, 0.3]), st.sampled_from([0.1, 0.5]), st.booleans())
def test_no_population_of_an_index_that_moved_is_above(seed: int, kappa: float, gamma: float, everybody: bool) -> None:
    """Random populations: bins of heights in shares of that index, anybody of a bin, plans within the budget."""
    support, rng = Support(seed), np.random.default_rng(seed)
    order = math.inf if everybody else 1.0
    shift, first = Composed(Stability(kappa, 4), Transport(gamma, order, ground=GROUND)), Stability(kappa, 4)
    dual = support.dual(shift)
    found = dual.bound(gamma)
    people = dual.people(found.multiplier, gamma)
    edges = np.array(first.hints(people).edges)
    place = np.searchsorted(edges, people.high)
    base = np.bincount(place, support.weights) / support.weights.sum()
    for _ in range(40):
        other = rng.dirichlet(np.ones(len(edges)) * rng.choice([0.5, 3.0]))
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            q = base + middle * (other - base)
            low, high = (middle, high) if ((q - base) * np.log(q / base)).sum() <= kappa else (low, middle)
        mass = np.zeros(len(people.high))
        for b, share in enumerate(base + low * (other - base)):
            mass[rng.choice(np.flatnonzero(place == b))] += share
        if everybody:
            mean = mass @ np.where(support.costs <= gamma, support.values, 0.0).max(1)
        else:
            n, k = support.values.shape
            plan = linprog(-support.values.ravel(), np.tile(support.costs, n)[None], [gamma],
                           np.kron(np.eye(n), np.ones(k)), mass, method="highs")  # fmt: skip
            assert plan.fun is not None
            mean = -float(plan.fun)
        assert mean <= found.upper + 1e-9
    assert dual.attained(support.points, support.weights, gamma).value <= found.upper


def test_strangers_and_sizes() -> None:
    support = Support(3)
    for first in (Part(0.5, 0.1), Stability(0.2, 4, 0.1), Mix(("g",), None, 0.1)):
        shift = Composed(first, Transport(0.3, ground=GROUND))
        dual, plain = (
            support.dual(shift),
            support.dual(Composed(type(first)(**{**vars(first), "strangers": 0.0}), shift.then)),
        )
        largest = support.profiles.largest
        assert dual.bound(0.3).upper == pytest.approx(0.9 * plain.bound(0.3).upper + 0.1 * largest, rel=1e-9)
        assert dual.attained(support.points, support.weights, 0.3).value <= dual.bound(0.3).upper
        uppers = [each.upper for each in dual.curve([0.0, 0.1, 0.3, 1.0, 3.0])]
        assert (np.diff(uppers) >= -1e-12).all() and uppers[-1] <= largest
        epsilon = 0.5 * (uppers[1] + uppers[2])
        size = dual.largest_gamma(epsilon)
        assert size is not None and dual.bound(size).upper <= epsilon < dual.bound(size * 1.01).upper
        assert dual.largest_gamma(0.0) is None and dual.largest_gamma(largest) == math.inf


SCHEMA = Schema(
    "small",
    (
        Feature("age", "integer", low=18, high=80, origin=40.0, unit=20.0),
        Feature("pay", low=1.0, high=100.0, origin=20.0, unit=30.0, relative_tolerance=0.1),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    ),
)


def asked(shift: Any, **options: Any) -> Any:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 81, 25), "pay": rng.uniform(1, 100, 25), "sex": rng.choice(list("fm"), 25)}
    )
    people = Population.from_frame(frame, SCHEMA)
    weights = [rng.normal(size=(6, 4)) * 1.5, rng.normal(size=(2, 6))]
    model = Network.from_layers(weights, [np.zeros(6), np.zeros(2)])
    return certify(model, people, Counterparts.of(SCHEMA), 1.0, shift, **QUIET, **options)


@pytest.mark.parametrize("average", [True, False])
def test_a_certificate_of_people_who_were_reweighted_and_drift(average: bool) -> None:
    drift = Drift({"age": 2}, average=average)
    alone = asked(drift)
    for first in (Part(0.4), Stability(0.1, 6), Mix(["sex"])):
        found = asked(drift & first)
        assert found.shift.first.kind == first.kind and found.shift.then == drift
        assert 0 < found.lower <= found.upper <= 1 and found.upper >= max(alone.upper, found.under(first).upper) - 1e-9
        assert found.lower >= found.under(first).lower - 1e-9
        worst = found.worst_case
        assert worst.value == pytest.approx(found.lower, abs=1e-7)
        if average:
            cost = (worst.masses / worst.total) @ worst.points.cost
            assert cost <= 1 + 1e-9
        curve = found.curve([0.0, 0.5, 1.0])
        assert curve["upper"].is_monotonic_increasing and (curve["lower"] <= curve["upper"]).all()
        text = str(found)
        assert (
            text.startswith("No ") and "(then drifting: age by at most 2" in text and found.claimed.upper >= found.upper
        )
    with pytest.raises(Exception, match="no statement about the population"):
        asked(drift & Part(0.4), confidence=0.9).population  # noqa: B018


def test_what_cannot_be_composed() -> None:
    part, drift = Part(0.3), Drift({"age": 2})
    assert drift & part == part & drift == parsed_shift("drift:age=2 & part:30%", SCHEMA)
    assert hash(part & drift) == hash(drift & part) and (part & drift).words("them").startswith("part of them")
    both, kinds = drift & part, "individuals? moves? cannot be composed|moves cannot be composed"
    for one, other in ((part, Stability(0.1)), (drift, Transport(0.1)), (both, part), (part, both), (both, drift)):
        with pytest.raises(ParameterError, match=kinds):
            one & other
    with pytest.raises(ParameterError, match="both sides of '&'"):
        part & 0.1  # type: ignore[operator]
    with pytest.raises(ParameterError, match="margins cannot be composed"):
        Marginals(pd.DataFrame({"sex": ["f", "m"]})) & drift
    with pytest.raises(ParameterError, match="at most one shift in which individuals move"):
        asked([drift & part, drift])


def test_shifts_compose_as_soon_as_they_are_imported() -> None:
    """In a process of its own: nothing else has imported what composes them."""
    code = "import isonomy; isonomy.Part(0.25) & isonomy.Drift({'age': 2})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
