"""No similar pair is ever lost: it lies in a part of every cut, that part is alive, and its bound holds the pair."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy import AttackBudget, Counterparts, Mahalanobis, SensitiveSubspace, WeightedLp
from isonomy.attacks import attack
from isonomy.bounds.kernel import head_of, preparations
from isonomy.networks.network import Network
from isonomy.population import Domain, Feature, Population, Schema
from isonomy.search.pairs import cutting_of
from isonomy.similarity.metric import form_of
from isonomy.similarity.regions import Similarity
from isonomy_verify.cutting import Cutting, Parts
from isonomy_verify.similar import Similarity as KernelSimilarity

TOWN = Schema(
    "town",
    (
        Feature("income", low=1.0, high=50.0, origin=1.0, unit=20.0, relative_tolerance=0.3),
        Feature("rate", low=0.0, high=1.0, unit=0.5, tolerance=0.2),
        Feature("age", "integer", low=18, high=40, origin=17.0, unit=10.0, tolerance=3.0),
        Feature("hours", "integer", low=0, high=8, unit=4.0, fill=4, tolerance=2.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "categorical", categories=("a", "b", "c"), proxy=True),
        Feature("born", "categorical", categories=("here", "there"), immutable=True),
    ),
)
WIDTH = TOWN.width


def townspeople(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    frame = pd.DataFrame(
        {
            "income": rng.uniform(1, 50, n),
            "rate": rng.uniform(0, 1, n),
            "age": rng.integers(18, 41, n),
            "hours": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["a", "b", "c"], n),
            "born": rng.choice(["here", "there"], n),
        }
    )
    return np.array(Population.from_frame(frame, TOWN, domain=kind).x)


def metric_of(name: str, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    weights = rng.uniform(0.2, 2, WIDTH)
    weights[TOWN.slices["sex"]] = 0.0
    if name == "counterparts":
        return Counterparts.of(TOWN)
    if name == "subspace":
        return SensitiveSubspace(np.concatenate([np.eye(WIDTH)[TOWN.slices["sex"]], rng.normal(size=(1, WIDTH))]))
    if name == "mahalanobis":
        return Mahalanobis.from_root(rng.normal(size=(WIDTH, WIDTH)) / 3)
    return WeightedLp(weights, {"l1": 1, "l2": 2, "linf": math.inf}[name])


def holds(parts: Parts, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which parts of a batch hold a pair."""
    first = (parts.x_low <= x) & (x <= parts.x_high)
    return (first & (parts.y_low <= y) & (y <= parts.y_high)).all(1)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "name",
    [
        "counterparts",
        "l2",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("l1", "linf", "subspace", "mahalanobis")),
    ],
)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["relaxed", "realizable"]), classes=st.integers(1, 3))
def test_a_similar_pair_is_never_lost(name: str, seed: int, kind: str, classes: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [WIDTH, 5, 5, classes]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    head = "regression" if classes == 1 else "softmax"
    network = Network.from_layers(weights, [0.3 * rng.normal(size=len(w)) for w in weights], head=head)
    similarity = Similarity(metric_of(name, rng), float(rng.choice([0.3, 1.0])), TOWN.domain(kind))
    cutting = cutting_of(similarity, network, preparations(network).network.reads)
    x = townspeople(rng, 6, kind)
    # An attack goes to the edge of the similar set, where a pair is lost first.
    y = attack(network, head_of(network), similarity, x, AttackBudget(steps=6, restarts=0, branches=4)).counterpart
    met, changes = [], []
    for one, other in [*zip(x, y, strict=True), *zip(y, x, strict=True)]:
        if similarity.metric.distance_upper(one[None], other[None])[0] > similarity.delta:
            continue  # relative tolerances are the same both ways only up to rounding
        part, alive = cutting.narrowed(cutting.everybody())
        for _ in range(25):
            assert alive.all() and holds(part, one, other).all()
            met.append(part)
            changes.append(float(np.abs(network(one[None]) - network(other[None])).max()))
            children = cutting.cut(part)
            if children is None:
                break
            mine = holds(children, one, other)
            assert mine.any()
            part, alive = cutting.narrowed(children[rng.permutation(np.flatnonzero(mine))[:1]])
    assert (np.array(changes) <= cutting.bound(Parts.join(met)) + 1e-12).all()


def test_shares_of_a_cut_add_up() -> None:
    rng = np.random.default_rng(0)
    network = Network.from_layers([rng.normal(size=(2, WIDTH))], [np.zeros(2)])
    similarity = Similarity(Counterparts.of(TOWN), 1.0, TOWN.domain("realizable"))
    cutting = cutting_of(similarity, network, preparations(network).network.reads)
    part, _ = cutting.narrowed(cutting.everybody())
    for _ in range(12):
        children = cutting.cut(part)
        assert children is not None
        moved = (children.x_low != part.x_low).any() or (children.x_high != part.x_high).any()
        assert children.share.sum() == pytest.approx(part.share[0] * (1 if moved else len(children)))
        part, _ = cutting.narrowed(children[:1])


@pytest.mark.parametrize("order", [1, 2])
def test_pairs_so_close_that_squares_underflow(order: int) -> None:
    """Of 11 squares only the last did not vanish: a direction was twice too long, and a similar pair too far."""
    width, no = 11, np.zeros(11, dtype=bool)
    domain = Domain(
        "relaxed", np.zeros(width), np.ones(width), (), no, np.zeros(width), np.ones(width), no, tuple("abcdefghijk")
    )
    network = Network.from_layers([np.ones((1, width))], [np.zeros(1)], head="regression")
    x, y = np.zeros((1, width)), np.ones((1, width))
    metric, delta = Mahalanobis.from_root(np.diag([1.5e-162] * 10 + [1.6e-162])), 6e-162
    if order == 1:
        metric, delta, y[:] = WeightedLp(np.full(width, 5e-324), 1), 4e-323, 0.6
        assert width * 0.6 < 8 == delta / 5e-324
    else:
        assert math.hypot(*[1.5] * 10, 1.6) < 6
    cutting = cutting_of(Similarity(metric, delta, domain), network, preparations(network).network.reads)
    _, alive = cutting.narrowed(Parts(x, x, y, y, np.ones(1)))
    assert alive.all()
    if order == 2:  # whoever is too far is still told
        assert (
            not cutting_of(Similarity(metric, 5e-162, domain), network, cutting.influence)
            .narrowed(Parts(x, x, y, y, np.ones(1)))[1]
            .any()
        )


def test_a_root_of_order_infinity_has_its_own_directions() -> None:
    """Both entries of ``R (x − y)`` are as long as δ: added up, as in the other orders, they seemed too far."""
    domain = Domain(
        "relaxed",
        np.zeros(2),
        np.ones(2),
        (),
        np.zeros(2, dtype=bool),
        np.zeros(2),
        np.ones(2),
        np.zeros(2),
        ("a", "b"),
    )
    network = Network.from_layers([np.ones((1, 2))], [np.zeros(1)], head="regression")
    parts = Parts(np.zeros((1, 2)), np.zeros((1, 2)), np.full((1, 2), 0.5), np.full((1, 2), 0.5), np.ones(1))
    for delta, similar in ((0.5, True), (0.4, False)):
        similarity = KernelSimilarity(form_of(np.eye(2), math.inf), delta, domain)
        cutting = Cutting(similarity, preparations(network), head_of(network), np.ones(2))
        assert cutting.narrowed(parts)[1].all() == similar
