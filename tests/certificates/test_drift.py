"""Drifts of declared numbers, against linear programs over everybody whom a schema allows, and by the words of it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy import Counterparts, Drift, Enumeration, Network, certify
from isonomy.certificates.dual import Dual, cells_of_table
from isonomy.certificates.moving import Moving
from isonomy.certificates.shifts import parsed_shift
from isonomy.errors import IsonomyError, ParameterError
from isonomy.population import Feature, Label, Population, Schema
from isonomy_verify.forms import Form

QUIET: dict[str, Any] = {"progress": None}
NAMES = ("age", "pay", "sex")


class Village:
    """Everybody whom a small schema allows, and a table of their probabilities."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.schema = Schema(
            "village",
            (
                Feature("age", "integer", low=1, high=6, origin=3.0, unit=2.5),
                Feature("pay", "integer", low=10, high=14, origin=0.0, unit=4.0, immutable=True),
                Feature("sex", "categorical", categories=("f", "m"), protected=True),
            ),
            Label("y", ("no", "yes")),
        )
        self.rows = [(float(a), float(b), c) for a, b, c in itertools.product(range(1, 7), range(10, 15), "fm")]
        frame = pd.DataFrame(self.rows, columns=list(NAMES))
        self.everybody = Population.from_frame(frame, Schema("village", self.schema.features))
        self.truth = np.round(rng.random(len(frame)) * rng.random(len(frame)), 3)
        self.model = Enumeration(self.answer, self.schema, head="probability")
        some = np.sort(rng.choice(len(frame), 5, replace=False))
        self.people, self.metric = self.everybody[some], Counterparts.of(self.schema)
        self.gap = np.abs(self.truth - self.truth.reshape(-1, 2)[:, ::-1].reshape(-1))  # to the one of the other sex
        self.some = some

    def answer(self, frame: pd.DataFrame) -> np.ndarray:
        where = {row: place for place, row in enumerate(self.rows)}
        return self.truth[[where[row] for row in frame[list(NAMES)].itertuples(index=False, name=None)]]

    def moves(self, amounts: dict[str, Any]) -> np.ndarray:
        """What every move costs by feature (features, n, everybody), in amounts; ∞ where something else changes."""
        raw = [(a, b, "fm".index(c)) for a, b, c in self.rows]
        every = np.array(raw, dtype=float)
        apart = every[None] - every[self.some][:, None]
        costs = []
        for name, amount in amounts.items():
            at = NAMES.index(name)
            own = isinstance(amount, str)
            most = float(amount[:-1]) / 100 * every[self.some][:, None, at] if own else amount
            costs.append(np.abs(apart[..., at]) / most)
        still = [at for at, name in enumerate(NAMES) if name not in amounts]
        costs[0] = np.where((apart[..., still] == 0).all(-1), costs[0], np.inf)
        return np.array(costs)

    def program(self, amounts: dict[str, Any], times: float) -> float:
        """The largest mean of a plan in which the mean cost of every feature is at most ``times``."""
        costs = self.moves(amounts).reshape(len(amounts), -1)
        possible, n, k = np.isfinite(costs).all(0), len(self.some), len(self.rows)
        plan = np.kron(np.eye(n), np.ones(k))[:, possible]
        found = linprog(-np.tile(self.gap, n)[possible], costs[:, possible], np.full(len(costs), times), plan,
                        np.full(n, 1 / n), method="highs")  # fmt: skip
        assert found.fun is not None
        return -float(found.fun)

    def ask(self, shift: Any, **options: Any) -> Any:
        return certify(self.model, self.people, self.metric, 1.0, shift, **QUIET, **options)


ONE = st.sampled_from([{"age": 1.5}, {"pay": 0.7}, {"age": "30%"}, {"pay": "4%"}, {"age": 40.0}])
TWO = st.sampled_from([{"age": 1.5, "pay": 0.7}, {"age": "30%", "pay": 1.0}, {"age": "50%", "pay": "5%"}])


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**16), ONE, st.sampled_from([0.3, 1.0, 2.0]))
def test_the_mean_move_of_one_feature_is_a_linear_program(seed: int, amounts: dict[str, Any], times: float) -> None:
    village = Village(seed)
    found, truth = village.ask(Drift(amounts, times=times)), village.program(amounts, times)
    assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper
    assert found.upper <= truth + 0.35  # the cells of a few radii, not of everybody
    exact = _listed(village, found, times)
    assert exact == pytest.approx(truth, abs=1e-8)


def _listed(village: Village, found: Any, times: float) -> float:
    """The bound of the dual over profiles that have every radius at which there is somebody."""
    drift = found.shift
    moving = Moving(found.problem, village.people.x, np.ones(5), drift.ground_cost, points=drift.point_cost)
    costs = drift.point_cost.distance_upper(village.people.x[:, None], village.everybody.x)
    radii = np.unique(np.append(costs[np.isfinite(costs)], drift.furthest))  # the last of which nobody is beyond
    radii = np.unique(np.append(radii, radii[radii > 0] * (1 - 1e-12)))  # right below, where cells begin
    values = moving.bound(np.arange(5), radii.tolist())
    return float(Dual([cells_of_table(radii, values, 1.0, np.ones(5))], drift).bound(times).upper)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**16), TWO, st.sampled_from([0.5, 1.0]))
def test_every_feature_has_a_budget_of_its_own(seed: int, amounts: dict[str, Any], times: float) -> None:
    village = Village(seed)
    found, truth = village.ask(Drift(amounts, times=times)), village.program(amounts, times)
    assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper
    worst = found.worst_case  # keeps to the budget of each feature
    costs = village.moves(amounts)
    at = [int(np.flatnonzero((village.everybody.x == person).all(1))[0]) for person in worst.points.person]
    spent = costs[:, worst.points.owner, at] @ (worst.masses / worst.total)
    assert (spent <= times * (1 + 1e-9)).all()
    assert float(village.gap[at] @ worst.masses / worst.total) == pytest.approx(found.lower, abs=1e-8)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**16), st.one_of(ONE, TWO), st.sampled_from([0.0, 1.0, 1.6]))
def test_for_everybody_it_is_the_largest_within_the_box(seed: int, amounts: dict[str, Any], times: float) -> None:
    village = Village(seed)
    found = village.ask(Drift(amounts, average=False, times=times))
    reach = (village.moves(amounts) <= times * (1 + 1e-12)).all(0)
    sure = (village.moves(amounts) <= times * (1 - 1e-12)).all(0)
    truth, least = (np.where(some, village.gap, 0.0).max(1).mean() for some in (reach, sure))
    assert least - 1e-9 <= found.upper <= truth + 1e-8 and found.lower <= truth + 1e-9
    assert found.multiplier is None and found.largest_gamma(1.0) == np.inf


def test_people_with_missing_values_zeros_and_other_scales() -> None:
    """A network: people who are possible, moved at random within the declared amounts, are below the bound."""
    schema = Schema(
        "odd",
        (
            Feature("hours", "integer", low=0, high=60, fill=40, origin=20.0, unit=15.0),
            Feature("debt", low=-50.0, high=50.0, origin=-10.0, unit=30.0),
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
        ),
    )
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"hours": rng.integers(0, 61, 30), "debt": rng.uniform(-50, 50, 30), "sex": list("fm") * 15})
    frame = frame.astype({"hours": float})
    frame.loc[0, "hours"], frame.loc[1, "debt"], frame.loc[2, "hours"] = np.nan, 0.0, 0.0
    people = Population.from_frame(frame, schema)
    weights = [rng.normal(size=(8, schema.width)), rng.normal(size=(2, 8))]
    model, metric = Network.from_layers(weights, [np.zeros(8), np.zeros(2)]), Counterparts.of(schema)
    amounts: dict[str, Any] = {"hours": 6, "debt": "20%"}
    for domain in ("realizable", "relaxed"):
        for average in (True, False):
            shift = Drift(amounts, average=average)
            found = certify(model, people, metric, 1.0, shift, domain=domain, **QUIET)
            assert found.lower <= found.upper
            for _ in range(20):
                moved = frame.copy()
                share = rng.random(30) if not average else rng.dirichlet(np.ones(30)) * 30 * (rng.random(30) < 0.3)
                sign = rng.choice([-1, 1], 30)
                moved["hours"] = np.clip(frame["hours"] + sign * np.floor(6 * share), 0, 60)
                moved["debt"] = np.clip(frame["debt"] + sign * share * 0.2 * frame["debt"].abs(), -50, 50)
                tomorrow = Population.from_frame(moved, schema)
                other = tomorrow.x.copy()
                other[:, schema.slices["sex"]] = other[:, schema.slices["sex"]][:, ::-1]
                gap = np.abs(model(tomorrow.x) - model(other))[:, 0].mean()
                assert gap <= found.upper


@pytest.mark.parametrize("seed", range(3))
def test_relative_moves_are_of_the_value_before(seed: int) -> None:
    """Costs: exact in rationals, and not symmetric."""
    rng = np.random.default_rng(seed)
    m = 4
    origin, unit = rng.normal(size=m) * 3, rng.uniform(0.1, 40, m)
    none, share = np.zeros(m), np.array([0.05, 2, 1, 0])
    form = Form(np.zeros((0, m)), 1.0, none.astype(bool), none, none, origin, unit, share)
    x, y = rng.normal(size=(2, 200, m))
    y[:, 3] = x[:, 3]
    x[:50, 0] = y[:50, 0] * (1 + 1e-15)
    low, high = form.box(x, 0.7)
    upper, lower = form.distance_upper(x, y), form.distance_lower(x, y)
    for i in range(len(x)):
        costs = []
        for j in range(3):
            v, w = (Fraction(row[j]) * Fraction(unit[j]) + Fraction(origin[j]) for row in (x[i], y[i]))
            costs.append(abs(v - w) / (Fraction(form.share[j]) * abs(v)))
            reach = Fraction(0.7) * Fraction(form.share[j]) * abs(v) / Fraction(unit[j])
            assert -Fraction(low[i, j]) >= reach <= Fraction(high[i, j]) <= reach * (1 + Fraction(1, 10**12))
        truth = max(costs)
        assert Fraction(lower[i]) <= truth <= Fraction(upper[i])
        assert upper[i] == pytest.approx(float(truth), rel=1e-9, abs=1e-9)
    assert np.isinf(form.distance_upper(x, y + 1.0)).all()  # the last one may not move
    assert (form.distance_upper(x, x) == 0).all()


WRONG: list[Any] = [{}, {"age": 0}, {"age": -1}, {"age": "x%"}, {"age": np.inf}, {"age": "-3%"}, [1], "age",
                    {"age": True}, {"age": None}, {1: 2}]  # fmt: skip


def test_what_is_refused() -> None:
    village = Village(0)
    for amounts in WRONG:
        with pytest.raises(ParameterError, match="'amounts' must"):
            Drift(amounts)
    with pytest.raises(ParameterError, match=r"of numbers \(age, pay\), no categories. Got 'sex'"):
        village.ask(Drift({"sex": 1}))
    with pytest.raises(ParameterError, match=r"of columns that there are \(age, pay\). Got 'agee'"):
        village.ask(Drift({"agee": 1}))
    with pytest.raises(ParameterError, match="'average'"):
        Drift({"age": 1}, average=1)  # type: ignore[arg-type]
    with pytest.raises(IsonomyError, match="'times'"):
        Drift({"age": 1}, times=-1)
    assert Drift({"age": "7%"}).amounts[0].amount >= 0.07 and Drift({"age": "5"}) == Drift({"age": 5})


def test_its_text_is_that_of_a_command() -> None:
    schema = Village(0).schema
    assert parsed_shift("drift:age=2,pay=5%", schema) == Drift({"age": 2, "pay": "5%"})
    assert parsed_shift(" drift: a+b = 2 :everybody", schema) == Drift({"a+b": 2}, average=False)
    for text in ("drift:", "drift:age", "drift:age=2,", "drift:age=2,age=3", "drift:=3"):
        with pytest.raises(ParameterError, match="of the form part:25%"):
            parsed_shift(text, schema)
