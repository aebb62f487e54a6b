"""A bound that is too small anywhere is an error everywhere, never a number and never a verdict."""

from __future__ import annotations

import json
import math
import pickle
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy
from isonomy import AttackBudget, Counterparts, SoundnessError, certify_everywhere, certify_local
from isonomy.attacks import Known
from isonomy.certificates import consistency
from isonomy.certificates.certify import certify
from isonomy.certificates.consistency import Counterexamples, compare, compare_means, compare_points, load
from isonomy.certificates.dual import Bound, Dual
from isonomy.certificates.local import Bounds
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import profiles_of_table, table_of_profiles
from isonomy.certificates.settling import GapSearch
from isonomy.errors import IsonomyError, ParameterError
from isonomy.networks.network import Network
from isonomy_verify.cutting import Cutting
from isonomy_verify.local import LocalBounds

from .judge import SCHEMA, WIDTH, people, perceptron

QUICK = AttackBudget(steps=4, restarts=0, branches=2)
METRIC = Counterparts.of(SCHEMA)
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def network(seed: int = 0) -> Network:
    return perceptron(np.random.default_rng(seed), WIDTH, 2)


def ask(**options: Any) -> Any:
    return certify_local(network(), people(8), METRIC, 1.0, **{"attack": QUICK, "progress": None, **options})


def shift(**options: Any) -> Any:
    some = {"attack": QUICK, "progress": None, "tier": "interval", "rounds": 1}
    return certify(network(), people(5), METRIC, 1.0, 0.2, **some, **options)


def smaller(result: Any) -> Any:
    return result / 1000


def shrunk(method: Callable[..., Any], change: Callable[[Any], Any] = smaller) -> Callable[..., Any]:
    return lambda *given, **named: change(method(*given, **named))


def refused(run: Callable[[], Any], words: str) -> tuple[SoundnessError, dict[str, Any]]:
    with pytest.raises(SoundnessError, match=words) as error:
        run()
    found = error.value
    assert not isinstance(found, ValueError) and isinstance(found, IsonomyError)
    assert (found.code, found.exit_status, found.http_status) == ("soundness", 4, 500)
    assert found.file is not None and str(found.file) in str(found)
    return found, json.loads(found.file.read_text())


# -- one bound too small in each place ------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["interval", "tight", "quick", "exact", "paper"])
@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_local_bounds(monkeypatch: Patch, tier: str, arithmetic: str) -> None:
    metric = isonomy.WeightedLp(np.ones(WIDTH), 2) if tier == "paper" else METRIC
    run = partial(certify_local, network(), people(4), metric, 0.5, attack=QUICK, progress=None, tier=tier,
                  arithmetic=arithmetic, time_limit=None, max_nodes=50)  # fmt: skip
    honest = run()
    assert (honest.lower <= honest.upper).all() and honest.lower.max() > 0
    monkeypatch.setattr(LocalBounds, "_violation", shrunk(LocalBounds._violation))
    _, document = refused(run, r"Row \d+: the output for a similar individual changes by 0\.\d+, and \S+ was proved")
    row = document["row"]
    assert document["lower"] == honest.lower[row] or tier == "exact"
    assert document["tier"] == tier and document["arithmetic"] == arithmetic


def test_a_search_that_bounds_too_little(monkeypatch: Patch) -> None:
    monkeypatch.setattr(GapSearch, "_value", shrunk(GapSearch._value))
    refused(partial(ask, tier="exact", time_limit=None, max_nodes=300), "similar individual changes by")


def test_decisions(monkeypatch: Patch) -> None:
    honest = ask()
    assert honest.witnesses.flips.any()

    def sure(self: Bounds, x: np.ndarray) -> Known:
        return Known(np.ones(len(x)), np.ones(len(x), dtype=bool))

    monkeypatch.setattr(Bounds, "chunk", sure)
    _, document = refused(ask, r"Row \d+: a similar individual has another decision, and none was proved to have one")
    row = document["row"]
    assert row == int(np.flatnonzero(honest.witnesses.flips)[0])
    assert document["flip_counterpart"] == honest.witnesses.flip_counterpart[row].tolist()


def test_profiles(monkeypatch: Patch) -> None:
    assert shift().lower > 0
    monkeypatch.setattr(Moving, "bound", shrunk(Moving.bound))
    _, document = refused(shift, r"Row \d+: the output between somebody at a cost of .* changes by")
    assert {"individual", "person", "counterpart", "cost", "gamma", "order", "ground"} <= set(document)


def test_anybody(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Moving, "everywhere", lambda self: (1e-6, math.inf))
    refused(shift, "at a cost of")


def test_the_dual_and_every_row_of_a_curve(monkeypatch: Patch) -> None:
    found = shift()
    honest = Dual.bound
    monkeypatch.setattr(Dual, "bound", lambda self, gamma: Bound(gamma, honest(self, gamma).upper / 1000, 0.0))
    refused(shift, r"Within 0\.2 of the individuals a population's mean output changes by")
    monkeypatch.setattr(Dual, "bound", honest)
    many = Dual.curve
    monkeypatch.setattr(Dual, "curve", lambda self, gammas: [Bound(g, 1e-9 if g else 1.0, 0.0) for g in gammas])
    refused(lambda: found.curve([0.0, 0.1]), r"Within 0\.1 of the individuals")
    monkeypatch.setattr(Dual, "curve", many)
    assert (found.curve([0.0, 0.1])["lower"] <= found.curve([0.0, 0.1])["upper"]).all()


def test_everywhere(monkeypatch: Patch) -> None:
    run = partial(certify_everywhere, network(), METRIC, 1.0, SCHEMA, time_limit=None, max_nodes=20, progress=None)
    assert run().lower <= run().upper
    monkeypatch.setattr(Cutting, "bound", shrunk(Cutting.bound))
    _, document = refused(run, "between two similar individuals of the domain changes by")
    assert len(document["individual"]) == len(document["counterpart"]) == WIDTH


def test_training(monkeypatch: Patch) -> None:
    """What a trained model certifies comes from the same functions."""
    german = isonomy.load_population("german")
    similar = {"metric": Counterparts.of(german.schema), "delta": 1.0}
    model = isonomy.FairClassifier("u-dif", hidden=(8,), epochs=1, random_state=0, progress=None, **similar)
    model.fit(german.train[:60])
    monkeypatch.setattr(LocalBounds, "_violation", shrunk(LocalBounds._violation, lambda bound: 0 * bound))
    refused(lambda: model.certify_local(german.test[:6]), "Row")
    refused(lambda: model.certify(german.test[:6]), "Row")


# -- what is compared, and how --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair", [(math.nan, 1.0), (0.0, math.nan), (math.nan, math.nan), (0.3, math.nextafter(0.3, 0))]
)
def test_no_tolerance_and_no_nan(pair: tuple[float, float]) -> None:
    compare_means("It", 0.3, 0.3)
    compare_means("It", 0.3, math.inf)
    refused(lambda: compare_means("It", *pair), "It changes by")
    with pytest.raises(SoundnessError):
        compare([0.0, pair[0]], [0.0, pair[1]], str, lambda at: {})


def test_a_block_of_rows_keeps_the_numbers_of_the_table(monkeypatch: Patch) -> None:
    """A large table is certified block by block; the error names the row of the table."""
    run = partial(shift, chunk=2)
    honest = run().local
    last = int(np.flatnonzero(honest.lower > 0)[-1])
    assert last >= 2
    lie = Bounds.chunk

    def only_the_last(self: Bounds, x: np.ndarray) -> Any:
        known = lie(self, x)
        return known._replace(upper=np.where((x == honest.x[last]).all(1), 0.0, known.upper))

    monkeypatch.setattr(Bounds, "chunk", only_the_last)
    _, document = refused(run, f"Row {last}:")
    assert document["individual"] == honest.x[last].tolist()


def test_a_declared_range_that_is_not_kept_is_the_callers() -> None:
    """Then the bound rests on something untrue, which is no contradiction of the program's."""
    rng = np.random.default_rng(0)
    numbers = perceptron(rng, WIDTH, 1, head="regression")
    with pytest.raises(ParameterError, match=r"'output_range' must be a range that outputs keep within, and one was"):
        certify(numbers, people(8), METRIC, 1.0, 0.1, attack=QUICK, progress=None, output_range=(0.0, 1e-3))


# -- the file -------------------------------------------------------------------------------------------------------


def test_the_file_is_enough_to_see_it_again(monkeypatch: Patch, here: Path) -> None:
    honest = ask()
    with monkeypatch.context() as lie:
        lie.setattr(LocalBounds, "_violation", shrunk(LocalBounds._violation))
        error, _ = refused(ask, "Row")
    assert error.file is not None and error.file.parent == here
    assert stat.S_IMODE(error.file.stat().st_mode) == 0o600 and error.file.name.startswith("isonomy-soundness-")
    assert [path.name for path in here.iterdir()] == [error.file.name]
    document, again, metric, domain = load(error.file)
    assert again.hash() == honest.problem.model.hash()
    x, y = (np.array([document[side]]) for side in ("individual", "counterpart"))
    found = certify_local(again, x, metric, document["delta"], domain=domain, attack=QUICK, progress=None)
    row = document["row"]
    alone, among_others = (found.upper[0], found.lower[0]), (honest.upper[row], honest.lower[row])
    assert alone == pytest.approx(among_others, rel=1e-12)  # one row and many are multiplied in other orders
    assert domain.allows(x, y).all() and (metric.distance_upper(x, y) <= document["delta"]).all()
    assert np.abs(again(x) - again(y)).max() == pytest.approx(document["lower"], abs=1e-9)
    assert set(document["versions"]) == {"isonomy", "numpy", "python", "machine"}


def test_the_error_comes_with_or_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, words in ((tmp_path / "file" / "below", "cannot be written"), (None, "no file was to be written")):
        with pytest.raises(SoundnessError, match=words) as error:
            compare_means("It", 1.0, 0.0, saved=Counterexamples(folder))
        assert error.value.file is None
    with pytest.raises(SoundnessError) as error:
        compare_means("It", 1.0, 0.0, saved=Counterexamples(tmp_path / "new"))
    copy = pickle.loads(pickle.dumps(error.value))
    assert str(copy) == str(error.value) and copy.file == error.value.file == next((tmp_path / "new").iterdir())


def test_evidence_that_cannot_be_made_hides_nothing(monkeypatch: Patch) -> None:
    def broken(metric: Any) -> str:
        raise TypeError("a metric\nwithout a text")

    monkeypatch.setattr(consistency, "metric_to_text", broken)
    monkeypatch.setattr(LocalBounds, "_violation", shrunk(LocalBounds._violation))
    with pytest.raises(SoundnessError, match=r"cannot be written \(a metric without a text\)"):
        ask()


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_points_are_compared_with_the_profile_of_their_owner(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """However many individuals at a time: the bound of the smallest radius that is not below the cost."""
    monkeypatch.setattr(consistency, "ROWS", rows)
    rng = np.random.default_rng(0)
    radii = np.array([0.0, 0.1, 0.5])
    profiles = profiles_of_table(radii, np.sort(rng.random((7, 3)), axis=1), 1.0)
    owner, cost = np.repeat(np.arange(7), 5), np.tile([0.0, 0.1, 0.1000001, 0.5, 0.7], 7)
    table = np.append(table_of_profiles(profiles)[1], np.ones((7, 1)), axis=1)
    table = np.minimum.accumulate(table[:, ::-1], axis=1)[:, ::-1]  # where a profile says nothing a larger radius does
    known = table[owner, np.searchsorted(radii, cost)]

    def evidence(at: int) -> dict[str, Any]:
        return {"at": at}

    compare_points(owner, cost, known, profiles, evidence)
    for at in range(len(owner)):
        too_much = known.copy()
        too_much[at] = np.nextafter(known[at], 2)
        with pytest.raises(SoundnessError, match=rf"Row {owner[at]}: .* at a cost of {float(cost[at])!r} "):
            compare_points(owner, cost, too_much, profiles, evidence, Counterexamples(None))
