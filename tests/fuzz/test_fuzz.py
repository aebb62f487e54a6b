"""The fuzzer: some hundred cases with every run of the tests, tens of thousands in a campaign."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from isonomy_verify.heads import Head

from . import cases, decisions, people
from .exact import Truth, proved
from .networks import KINDS, Net, Step
from .run import Outcome, explained, outcome

SHORT = 200
"""Cases in the fast tests."""

MORE = 2_400
"""Cases in the slow tests, which begin after those of the fast ones."""

LONG = 100_000
"""Cases in a campaign, which begin after those of the slow tests."""

BATCH = 20


def run(numbers: Iterable[int]) -> list[Outcome]:
    """Run cases; none may fail, and hardly any be refused."""
    found = [outcome(number) for number in numbers]
    bad = [one for one in found if one.ended in ("failed", "crashed")]
    assert not bad, explained(bad[0], 30.0)
    return found


@pytest.mark.parametrize("start", range(0, SHORT, BATCH))
def test_every_bound_holds(start: int) -> None:
    found = run(range(start, start + BATCH))
    assert sum(one.ended == "refused" for one in found) <= BATCH // 2


@pytest.mark.slow
@pytest.mark.parametrize("start", range(SHORT, SHORT + MORE, 240))
def test_every_bound_holds_in_more_cases(start: int) -> None:
    run(number for number in range(start, start + 240) if cases.about_runs(number))


@pytest.mark.long
@pytest.mark.parametrize("start", range(SHORT + MORE, SHORT + MORE + LONG, 1000))
def test_every_bound_holds_in_a_campaign(start: int) -> None:
    run(range(start, start + 1000))


def test_cases_are_the_same_every_time() -> None:
    for number in range(32):
        assert str(cases.case(number)) == str(cases.case(number))


def test_every_operation_and_activation_is_drawn() -> None:
    steps = [step for number in range(SHORT) for step in cases.case(number).net.steps]
    assert {step.op for step in steps} == {"input", "affine", "activation", "add", "concat", "select"}
    assert {step.kind for step in steps if step.op == "activation"} == set(KINDS)
    assert any(len(set(step.index)) < len(step.index) for step in steps)


@pytest.mark.parametrize("tier", ["interval", "quick", "tight", "exact"])
def test_float32_runs_of_a_bare_input(tier: str) -> None:
    """A ReLU of the input itself: float32 has no 1.1, and takes what is 2e-8 above it."""
    net = Net((Step("input", width=1), Step("activation", (0,), kind="relu")), "regression")
    none = np.zeros(1, dtype=bool)
    zero, one = np.zeros(1), np.ones(1)
    everybody = people.People(
        x=np.zeros((1, 1)), metric="lp", delta=1.1, space="relaxed", order=2.0, weights=one, root=np.eye(1), free=none,
        relative=zero, low=zero, high=2 * one, blocks=(), integer=none, origin=zero, unit=one, immutable=none,
    )  # fmt: skip
    assert cases.Local(0, net, everybody, tier, True, None).check() is None


def test_float_runs_agree_with_exact_ones() -> None:
    """Two ways to evaluate a network: numpy in float64, balls of 128 bits."""
    rng = np.random.default_rng(0)
    for kind in KINDS:
        slopes = {
            "leaky_relu": (-0.3,),
            "prelu": (0.2, -0.1, 2.0),
            "softplus": (3.0,),
            "elu": (2.0,),
            "clip": (-0.5, 0.4),
        }
        net = Net(
            (
                Step("input", width=2),
                Step("affine", (0,), weight=rng.normal(size=(3, 2)), bias=rng.normal(size=3)),
                Step("activation", (1,), kind=kind, parameters=slopes.get(kind, ())),
                Step("select", (2,), index=(0, 0, 2)),
                Step("add", (2, 3)),
                Step("concat", (4, 0)),
                Step("affine", (5,), weight=rng.normal(size=(3, 5)), bias=rng.normal(size=3)),
            ),
            "softmax",
        )
        x = rng.normal(size=2)
        truth, margins = Truth(net, x), net.margins(x[None])
        exact = [float(v) for v in truth.margins()]
        assert np.allclose(margins[0], exact, rtol=1e-12)
        assert np.allclose(net.received(margins)[0], [float(v) for v in truth.received()], rtol=1e-12)
        assert proved(lambda truth=truth: truth.margins()[0], exact[0] - 1e-14 * (1 + abs(exact[0])))
        assert not proved(lambda truth=truth: truth.margins()[0], exact[0] + 1e-14 * (1 + abs(exact[0])))


def test_a_wrong_bound_is_seen_and_made_small() -> None:
    """An enclosure that is too narrow by one part in 10⁶ fails, and the case can be written down."""
    one = next(found for number in range(0, 64, 2) if isinstance(found := cases.case(number), cases.Enclose))
    truth = Truth(one.net, one.centre[0])
    wrong = np.array([float(v) for v in truth.margins()]) * (1 - 1e-6) - 1e-6
    (failure, *_) = cases._outside("a bound", (wrong - 1, wrong), truth)
    assert "high of margin 0" in failure.what
    assert "Net((" in str(one) and str(one.number) in str(one)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_every_decision_holds(start: int) -> None:
    """Certified people keep it and witnesses of flips turn it, also where a cut-off is somebody's very score."""
    for number in range(start, start + 20):
        failure = decisions.decided(number).check()
        assert failure is None, f"decision {number}: {failure}"


@pytest.mark.long
@pytest.mark.parametrize("start", range(60, 6060, 500))
def test_every_decision_holds_in_a_campaign(start: int) -> None:
    for number in range(start, start + 500):
        failure = decisions.decided(number).check()
        assert failure is None, f"decision {number}: {failure}"


@pytest.mark.parametrize("first", [0, 1])
def test_a_decision_that_is_mirrored_wrongly_is_seen(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that compares the cut-off with the probability of the other class says false things of some cases."""
    monkeypatch.setattr(Head, "mirrored", property(lambda head: head.favourable == 1 and head.kind != "regression"))
    some = [case for number in range(200) if (case := decisions.decided(number)).first == first and _asymmetric(case)]
    assert any(case.check() is not None for case in some[:30])


def _asymmetric(case: decisions.Decided) -> bool:
    return case.threshold is not None and case.threshold != 0.5 and case.net.head != "regression"
