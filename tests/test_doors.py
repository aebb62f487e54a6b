"""What callers can do wrong, thrown at every public function: one sentence that names the parameter, or a result.

And what they do right in unusual ways: arrays of any layout, type or library give the very same certificate.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import isonomy
from isonomy import AttackBudget, Domain, FairClassifier, Mahalanobis, Network, Population, Schema, WeightedLp
from isonomy.errors import IsonomyError, MetricError
from isonomy.fairness import Bootstrap
from isonomy.population import Feature
from isonomy.population.feature import Label
from isonomy.training import FairRegressor, FineTuning

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(3, 2)), RNG.normal(size=(2, 3))]
BIASES = [RNG.normal(size=3), RNG.normal(size=2)]
NETWORK = Network.from_layers(WEIGHTS, BIASES)
METRIC = WeightedLp(np.ones(2))
X = RNG.random((5, 2))
SCHEMA = Schema(
    "doors",
    (Feature("a", low=0.0, high=1.0), Feature("b", low=0.0, high=1.0, protected=True)),
    label=Label("good", classes=("0", "1")),
)
FRAME = pd.DataFrame({"a": np.linspace(0, 1, 60), "b": np.linspace(1, 0, 60), "good": np.arange(60) % 2})
PEOPLE = Population.from_frame(FRAME, SCHEMA)
QUICK = AttackBudget(steps=1, restarts=0, branches=1)


def trained(kind: Callable[..., Any]) -> Callable[..., Any]:
    def fit(X: Any = PEOPLE.x, y: Any = PEOPLE.y, **parameters: Any) -> Any:
        return kind(**({"epochs": 1, "hidden": (2,), "method": "sgd", "progress": None} | parameters)).fit(X, y)

    return fit


ASKED: dict[str, Any] = {"model": NETWORK, "people": X, "metric": METRIC, "delta": 0.1}
HOW: dict[str, Any] = {"attack": QUICK, "progress": None, "tier": "interval"}
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "certify_local": (isonomy.certify_local, ASKED | HOW),
    "certify": (isonomy.certify, ASKED | HOW | {"gamma": 0.1, "rounds": 0}),
    "certify_everywhere": (
        isonomy.certify_everywhere,
        {"model": NETWORK, "metric": METRIC, "delta": 0.1, "domain": SCHEMA, "time_limit": 0.0, "progress": None},
    ),
    "certify a file": (
        isonomy.certify,
        ASKED | {"people": Path("nowhere/table.parquet"), "work": Path("nowhere/work"), "schema": SCHEMA, "gamma": 0.1},
    ),
    "wasserstein": (isonomy.wasserstein, {"one": X, "other": X + 0.1}),
    "group_fairness": (
        isonomy.group_fairness,
        {"model": NETWORK, "people": PEOPLE, "bootstrap": Bootstrap(200), "by": ["b"], "favourable": "1"},
    ),
    "Bootstrap": (Bootstrap, {}),
    "FairClassifier": (trained(FairClassifier), {}),
    "FairRegressor": (trained(FairRegressor), {}),
    "repair": (isonomy.repair, {"model": NETWORK, "people": PEOPLE, "epsilon": 0.9, "progress": None}),
    "FineTuning": (FineTuning, {}),
    "load_network": (isonomy.load_network, {"path": "nowhere.onnx"}),
    "load_metric": (isonomy.load_metric, {"path": "nowhere.toml"}),
    "load_population": (isonomy.load_population, {"name": "german"}),
    "from_layers": (Network.from_layers, {"weights": WEIGHTS, "biases": BIASES}),
    "WeightedLp": (WeightedLp, {"weights": np.ones(2)}),
    "Mahalanobis": (Mahalanobis, {"precision": np.eye(2)}),
    "AttackBudget": (AttackBudget, {}),
}

NO_NUMBER: list[Any] = ["0.1", None, True, [0.1], math.nan, -0.1, 1j, np.eye(2)]
NO_SIZE = [value for value in NO_NUMBER if value is not None]  # where None is the default
NO_TIME = [value for value in NO_NUMBER if value is not None]
NO_COUNT: list[Any] = ["3", None, True, 1.5, -1, [3], math.nan]
NO_TABLE: list[Any] = [
    np.zeros((0, 2)), np.zeros(2), 5, None, "people.csv", [["a", "b"]], X + 1j, X.astype("M8[s]"), [[1.0], [1.0, 2.0]],
    np.where(X[2, 1] == X, np.nan, X), np.where(X[2, 1] == X, np.inf, X), {"a": 1}, object(),
    pd.DataFrame({"a": [1.0, None], "b": pd.array([1, None], dtype="Int64")}), pd.DataFrame({"a": ["x"], "b": ["y"]}),
    np.ma.masked_array(X, X[2, 1] == X), torch.zeros(2, 2, dtype=torch.complex64), np.zeros((5, 3)),
]  # fmt: skip
NO_NETWORK: list[Any] = [
    "model.onnx",
    Path("model.onnx"),
    torch.nn.Linear(2, 2),
    LogisticRegression(),
    None,
    5,
    np.eye(2),
]
NO_METRIC: list[Any] = [np.eye(2), "l2", None, 5, [1.0, 1.0]]
NO_DOMAIN: list[Any] = ["nonsense", 5, ["realizable"], Domain.unbounded(7)]
SHARES: list[Any] = ["0.5", 0, 1, 0.0, 1.0, 1.5, -0.5, math.nan, True, [0.9]]

WRONG: dict[str, dict[str, list[Any]]] = {
    "certify_local": {
        "model": NO_NETWORK, "people": NO_TABLE, "metric": NO_METRIC, "delta": [*NO_NUMBER, math.inf, 1e308],
        "domain": [*NO_DOMAIN, "realizable"], "tier": ["fast", 5, None], "threshold": ["0.5", 2.0, math.nan, 1j],
        "arithmetic": ["float16", None], "attack": [5, "high", {"steps": 1}, None], "max_branches": NO_COUNT,
        "progress": [5, "never", True], "time_limit": NO_TIME, "gap": [*NO_NUMBER, math.inf],
        "epsilon": ["0.1", -1, math.nan, math.inf, True, 1j],
    },
    "certify": {
        "model": NO_NETWORK, "people": [each for each in NO_TABLE if not isinstance(each, str)],
        "metric": NO_METRIC, "delta": [*NO_NUMBER, math.inf, 1e308], "gamma": NO_TIME,
        "order": [0, 0.5, math.nan, "1", None, True, 1j], "ground": ["l3", 5, None, np.eye(2), WeightedLp(np.ones(3))],
        "epsilon": ["0.1", -1, math.nan, math.inf, True], "confidence": SHARES, "domain": [*NO_DOMAIN, "realizable"],
        "tier": ["exact", "fast", 5], "arithmetic": ["float16"], "rounds": NO_COUNT, "attack": [5, "high"],
        "output_range": [5, (1.0,), (1.0, 0.0), (0.0, math.inf), ("0", "1")], "max_branches": NO_COUNT,
        "seed": NO_COUNT, "progress": [5, "never"], "engine": ["spark"],
        "chunk": [*NO_COUNT, 0], "work": [5], "unknown": ["drop"], "split": ["half"], "scheduler": ["tcp://a:1"],
    },
    "certify_everywhere": {
        "model": NO_NETWORK, "metric": NO_METRIC, "delta": [*NO_NUMBER, math.inf],
        "domain": ["nonsense", None, X, Domain.unbounded(2)], "epsilon": ["0.1", -1, math.nan, math.inf, True],
        "time_limit": NO_TIME, "gap": [*NO_NUMBER, math.inf], "arithmetic": ["float16"], "seed": NO_COUNT,
        "progress": [5, "never"],
    },
    "certify a file": {
        "schema": [None, "schema.toml", 5], "model": NO_NETWORK, "metric": NO_METRIC, "delta": [*NO_NUMBER, math.inf],
        "gamma": NO_TIME, "order": [0, math.nan, "1", True], "epsilon": ["0.1", -1, math.nan, math.inf],
        "tier": ["exact", 5], "chunk": [*NO_COUNT, 0], "engine": ["spark"], "unknown": ["drop"], "split": ["half"],
        "rounds": NO_COUNT, "arithmetic": ["float16"], "output_range": [5, (1.0, 0.0)], "attack": [5],
        "max_branches": NO_COUNT, "people": [5, None], "work": [5],
    },
    "wasserstein": {
        "one": NO_TABLE, "other": NO_TABLE, "order": [0.5, 1e6, math.nan, "1", None, True],
        "ground": ["l3", 5, np.eye(2), WeightedLp(np.ones(3))], "sample": [*NO_COUNT, 1], "repeats": [*NO_COUNT, 0],
        "confidence": SHARES, "seed": NO_COUNT,
    },
    "group_fairness": {
        "model": ["model.onnx", torch.nn.Linear(2, 2), LogisticRegression(), None, 5, np.ones(3)],
        "people": [X, None, "german"], "threshold": ["0.5", 0.0, 1.0, math.nan, True, 1j],
        "by": ["b", 5, [], ["nobody"]],
        "bins": [5, {"nobody": [0.5]}, {"b": [2.0, 1.0]}], "certificate": [5, "certified"],
        "smallest": [*NO_COUNT, 0], "bootstrap": [0, 200, "thrice"], "favourable": ["splendid", 5],
    },
    "Bootstrap": {"confidence": SHARES, "resamples": [*NO_COUNT, 0, 5], "seed": NO_COUNT},
    "FairClassifier": {
        "method": ["adam", 5, None], "delta": [*NO_SIZE, math.inf], "gamma": [*NO_NUMBER, math.inf],
        "alpha": [*NO_SIZE, math.inf], "hidden": [5, "256", (0,), (-1,), (1.5,)], "metric": NO_METRIC[:2],
        "domain": ["nonsense", 5], "order": [0.5, math.nan, "1", None], "radii": [5, (), (-1.0,), ("a",)],
        "bound": ["loose"], "epochs": ["3", 0, -1, 1.5, True],
        "batch_size": [*NO_COUNT, 0], "learning_rate": ["fast", 0.0, -1.0, math.nan, None],
        "validation": ["0.1", -0.1, 1.0, math.nan], "patience": [0, "3", 1.5], "progress": [5, "never"],
        "alpha_ramp": [5, (0.0,), (0.5, 0.1), (-1, 2), ("a", "b")], "ascent_steps": [0, "3"],
        "X": [np.where(PEOPLE.x == PEOPLE.x[2, 1], np.nan, PEOPLE.x), np.zeros((0, 2)), np.zeros(60)],
    },
    "FairRegressor": {"delta": [*NO_SIZE, math.inf], "hidden": [5, (0,)], "progress": [5]},
    "repair": {
        "model": NO_NETWORK, "people": [X, None, "german"], "epsilon": [*NO_NUMBER, 0, math.inf],
        "metric": NO_METRIC[:2], "delta": [*NO_SIZE, math.inf], "tier": ["loose", 5, None],
        "shift": [0, 0.1, "far", isonomy.Transport(math.inf)], "tuning": [0, 8, {"trials": 8}],
    },
    "FineTuning": {
        "trials": [*NO_COUNT, 0], "floor": [*NO_NUMBER, 2.0], "epochs": [*NO_COUNT, 0], "alpha": [*NO_NUMBER, math.inf],
        "batch_size": [*NO_COUNT, 0], "learning_rate": NO_NUMBER,
        "random_state": NO_COUNT,
    },
    "load_network": {
        "path": [5, None, torch.nn.Linear(2, 2), LogisticRegression(), b"model.onnx"], "schema": ["schema.toml", 5],
        "head": ["tanh", 5, None], "reads": ["rows", None], "output": [5], "activation": [5], "name": [5],
    },
    "load_metric": {"path": [5, None, METRIC]},
    "load_population": {"name": ["nowhere", 5, None, ["german"]], "domain": ["nonsense", 5, None]},
    "from_layers": {
        "weights": [5, None, "w", [], [np.eye(2) * 1j, np.eye(2)], [["a", "b"], np.eye(2)]],
        "biases": [5, [np.zeros(3)], [np.zeros(3), np.zeros(2) * 1j]], "head": ["tanh", 5, None],
        "activation": ["rellu"],
    },
    "WeightedLp": {
        "weights": [5, None, "w", [], [-1.0], [math.nan], [1j], np.eye(2)], "order": [3, 0, math.nan, "2", None, True],
        "names": ["ab", ("a",)],
    },
    "Mahalanobis": {
        "precision": [5, None, "m", [], np.eye(2) * 1j, [[1.0], [1.0, 2.0]], np.ones((2, 3)), -np.eye(2), [[math.nan]],
                      [[1.0, 2.0], [0.0, 1.0]]],
    },
    "AttackBudget": {"steps": NO_COUNT, "restarts": NO_COUNT, "branches": [*NO_COUNT, 0], "seed": NO_COUNT},
}  # fmt: skip

CASES = [
    pytest.param(function, parameter, value, id=f"{function}-{parameter}-{number}")
    for function, parameters in WRONG.items()
    for parameter, values in parameters.items()
    for number, value in enumerate(values)
]
OTHER_WORDS = {
    "people": ("individual", "Row", "A table must be"),
    "model": ("reads",),
    "domain": ("coordinates",),
}


@pytest.mark.parametrize(("function", "parameter", "value"), CASES)
def test_one_sentence_names_what_is_wrong(function: str, parameter: str, value: Any) -> None:
    call, right = CALLS[function]
    with pytest.raises(IsonomyError) as caught:
        call(**(right | {parameter: value}))
    text = str(caught.value)
    assert text.endswith((".", "?")) and "\n" not in text and len(text) < 600
    words = (f"'{parameter}'", f"'{parameter}[", f"'{parameter} ", *OTHER_WORDS.get(parameter, ()))
    assert any(word in text for word in words) or parameter in text, text


def test_every_function_takes_what_is_right() -> None:
    for name in ("certify_local", "certify", "certify_everywhere", "wasserstein", "group_fairness", "from_layers"):
        call, right = CALLS[name]
        call(**right)


def test_a_cell_that_is_not_finite_is_named() -> None:
    x = X.copy()
    x[2, 1] = np.nan
    call, right = CALLS["certify_local"]
    for people in (x, np.ma.masked_array(X, X[2, 1] == X)):
        with pytest.raises(IsonomyError, match=r"^Row 2, coordinate 'x1' is nan: it must be finite\.$"):
            call(**(right | {"people": people}))


# -- the same numbers in other clothes --


def clothes(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One and the same array, seen in other ways."""
    backwards = array[::-1].copy()[::-1]
    mirrored = array[..., ::-1].copy()[..., ::-1]
    locked = array.copy()
    locked.setflags(write=False)
    odd = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view(np.float64).reshape(array.shape)
    odd[...] = array
    found: dict[str, Any] = {
        "rows backwards": backwards,
        "columns backwards": mirrored,
        "columns first": np.asfortranarray(array),
        "read-only": locked,
        "other bytes": array.astype(array.dtype.newbyteorder(">")),
        "objects": array.astype(object),
        "unaligned": odd,
        "every second": np.repeat(array, 2, axis=0)[::2],
        "list": array.tolist(),
        "tensor": torch.from_numpy(array.copy()),
        "tensor with gradients": torch.from_numpy(array.copy()).requires_grad_(),
        "matrix of longs": array.astype(np.longdouble),
    }
    if array.ndim == 2:
        found["transposed"] = np.ascontiguousarray(array.T).T
        found["frame"] = pd.DataFrame(array)
        found["frame of extension types"] = pd.DataFrame(array).convert_dtypes()
        found["masked, nothing hidden"] = np.ma.masked_array(array)
    return found


KINDS = list(clothes(X))


@pytest.mark.parametrize("kind", KINDS)
def test_people_in_other_clothes(kind: str) -> None:
    expected = isonomy.certify_local(NETWORK, X, METRIC, 0.1, attack=QUICK, progress=None)
    if "frame" not in kind:  # whose columns mean nothing without a schema
        found = isonomy.certify_local(NETWORK, clothes(X)[kind], METRIC, 0.1, attack=QUICK, progress=None)
        np.testing.assert_array_equal(found.upper, expected.upper)
        np.testing.assert_array_equal(found.lower, expected.lower)
    np.testing.assert_array_equal(NETWORK(clothes(X)[kind]), NETWORK(X))
    assert isonomy.wasserstein(clothes(X)[kind], X).estimate == pytest.approx(0.0, abs=1e-12)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["rows backwards", "columns first", "other bytes", "objects"])
def test_people_of_a_distribution_in_other_clothes(kind: str) -> None:
    options: dict[str, Any] = {"attack": QUICK, "progress": None, "tier": "interval", "rounds": 0}
    expected = isonomy.certify(NETWORK, X, METRIC, 0.1, 0.1, **options)
    found = isonomy.certify(NETWORK, clothes(X)[kind], METRIC, 0.1, 0.1, **options)
    assert (found.lower, found.upper) == (expected.lower, expected.upper)


@pytest.mark.parametrize("kind", KINDS)
def test_networks_and_metrics_in_other_clothes(kind: str) -> None:
    weights = [clothes(weight)[kind] for weight in WEIGHTS]
    biases = [clothes(bias).get(kind, bias) for bias in BIASES]
    network = Network.from_layers(weights, biases)
    assert network.hash() == NETWORK.hash()
    root = RNG.normal(size=(2, 2))
    metric = Mahalanobis.from_root(clothes(root)[kind])
    np.testing.assert_array_equal(metric.gauge()[0], root)
    np.testing.assert_array_equal(metric.distance(clothes(X)[kind], X), np.zeros(len(X)))
    np.testing.assert_array_equal(WeightedLp(clothes(np.array([1.0, 2.0])).get(kind, [1.0, 2.0])).weights, [1.0, 2.0])
    plain = isonomy.certify_local(NETWORK, X, Mahalanobis.from_root(root), 0.1, attack=False, progress=None)
    other = isonomy.certify_local(network, X, metric, 0.1, attack=False, progress=None)
    np.testing.assert_array_equal(plain.upper, other.upper)


@settings(max_examples=30, deadline=None)
@given(
    dtype=st.sampled_from(["?", "i1", "u2", ">i4", "i8", "f2", ">f4", "f4", "O", "boolean", "Int64", "Float32"]),
    turn=st.sampled_from(["", "rows", "columns", "both", "transposed"]),
    seed=st.integers(0, 2**16),
)
def test_small_whole_numbers_of_any_type(dtype: str, turn: str, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 2, size=(4, 2))
    given: Any = pd.DataFrame(x).astype(dtype) if dtype in ("boolean", "Int64", "Float32") else x.astype(dtype)
    if isinstance(given, np.ndarray):
        given = {"": given, "rows": given[::-1][::1], "columns": given[:, ::-1], "both": given[::-1, ::-1]}.get(
            turn, np.asfortranarray(given)
        )
    plain = np.array([[float(cell) for cell in row] for row in np.asarray(given, dtype=object).tolist()])
    np.testing.assert_array_equal(NETWORK(given), NETWORK(plain))
    given = given.to_numpy() if isinstance(given, pd.DataFrame) else given
    found = isonomy.certify_local(NETWORK, given, METRIC, 0.1, attack=False, progress=None, tier="interval")
    expected = isonomy.certify_local(NETWORK, plain, METRIC, 0.1, attack=False, progress=None, tier="interval")
    np.testing.assert_array_equal(found.upper, expected.upper)


def test_what_callers_write_to_their_table_afterwards_changes_nothing() -> None:
    x, network = np.random.default_rng(0).normal(size=(3, 2)), Network.from_layers([np.eye(2)], [np.zeros(2)])
    metric = WeightedLp(np.ones(2), 2)
    local = isonomy.certify_local(network, x, metric, 0.3, progress=None)
    certificate = isonomy.certify(network, x, metric, 0.3, gamma=0.1, progress=None)
    before = str(local.witnesses[0]), certificate.x.tobytes()
    x[:] = 0.0
    assert (str(local.witnesses[0]), certificate.x.tobytes()) == before


@pytest.mark.parametrize("delta", [1e160, 1e200, 1e308])
def test_any_delta_has_its_bound(delta: float) -> None:
    people = isonomy.load_population("german").test[:3]
    rng = np.random.default_rng(0)
    network = Network.from_layers([rng.normal(size=(2, people.x.shape[1]))], [np.zeros(2)])
    for metric in (isonomy.Counterparts.of(people.schema), WeightedLp(np.ones(people.x.shape[1]), np.inf)):
        found = isonomy.certify_local(network, people, metric, delta, progress=None)
        assert ((found.lower >= 0) & (found.lower <= found.upper) & (found.upper <= 1)).all()


def test_a_ground_cost_that_leaves_an_endless_coordinate_free() -> None:
    """People go there as far as they like, and nobody who does not read it is treated differently for it."""
    weights, x = np.array([[1.0, -1.0, 0.0], [0.0, 0.5, 0.0]]), np.ones((2, 3))
    metrics = (
        isonomy.Counterparts([0.1, 0.2, 0.0], [0, 0, 1]),
        isonomy.Counterparts([0.1, 0.2, 0], relative=[0, 0, 1]),
    )
    ground = WeightedLp([1.0, 1.0, 0.0])
    read, without = (Network.from_layers([part], [np.zeros(2)]) for part in (weights, weights[:, :2]))
    bounds = [isonomy.certify(read, x, metric, 0.3, 0.2, ground=ground, progress=None).upper for metric in metrics]
    two, flat = isonomy.Counterparts([0.1, 0.2]), WeightedLp([1.0, 1.0])
    less = isonomy.certify(without, x[:, :2], two, 0.3, 0.2, ground=flat, progress=None)
    assert bounds == pytest.approx([less.upper] * 2, rel=1e-6) and less.lower > 0
    with pytest.raises(MetricError, match=r"ground cost leaves 'x2' free, which the network reads"):
        isonomy.certify(
            Network.from_layers([weights + 0.1], [np.zeros(2)]), x, metrics[1], 0.3, 0.2, ground=ground, progress=None
        )


def test_nobody_else_is_possible() -> None:
    """A domain of one person: there is nowhere to go, and no radius to look at."""
    one, nothing = np.ones(2), np.zeros(2, dtype=bool)
    domain = isonomy.Domain("relaxed", one, one, (), nothing, 0 * one, one, nothing, ("a", "b"))
    network = Network.from_layers([np.eye(2)], [np.zeros(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = isonomy.certify(network, one[None], WeightedLp(one, 2), 0.3, gamma=0.3, domain=domain, progress=None)
    assert found.lower == 0.0 and found.upper <= 1e-9


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_numbers_of_few_bits_are_compared_as_they_are(kind: type[np.floating]) -> None:
    """Numpy rounds a plain number to the kind of the scalar that it is compared with: 1e300 becomes infinity."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = isonomy.certify(NETWORK, X, METRIC, kind(0.5), kind(0.25), epsilon=kind(0.5), attack=False, rounds=0)
        with pytest.raises(IsonomyError, match="'epsilon' must be None or a finite number"):
            isonomy.certify(NETWORK, X, METRIC, 0.5, epsilon=kind(math.inf), attack=False)
        plain = isonomy.certify(NETWORK, X, METRIC, 0.5, 0.25, epsilon=0.5, attack=False, rounds=0)
        assert found.upper == plain.upper
        for step in range(40):
            epsilon = kind(plain.local.mean_upper + step / 40 * (plain.upper - plain.local.mean_upper))
            gamma = plain.largest_gamma(epsilon)
            assert gamma == pytest.approx(plain.largest_gamma(float(epsilon)))
            assert gamma is None or plain.dual.bound(gamma).upper <= float(epsilon)


def test_the_seed_decides_what_a_search_draws() -> None:
    """And no upper bound; a budget of one's own brings its own."""

    def asked(seed: int, attack: bool | AttackBudget = True) -> isonomy.Certificate:
        return isonomy.certify(NETWORK, X, METRIC, 0.5, 0.25, rounds=0, seed=seed, attack=attack, progress=None)

    found = [asked(seed) for seed in range(3)]
    assert len({each.points.person.tobytes() for each in found}) == 3
    assert len({each.upper for each in found}) == 1
    again, own = asked(1), asked(7, AttackBudget(seed=1))
    for same in (again, own):
        assert same.points.person.tobytes() == found[1].points.person.tobytes() and same.lower == found[1].lower
