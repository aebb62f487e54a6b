"""What is served is decided by the one rule, with the class and the cut-off of the certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import isonomy
from isonomy.networks.network import Network
from isonomy.population.outcome import decided, favourable_places, outcome_of
from isonomy.records import write
from isonomy.service import Served, Settings, create_app
from isonomy.service.certifier import Certifier

from .example import SCHEMA, network, population, rows, served, served_with

PEOPLE = population(rows(60, seed=5))
HEADS = [("softmax", 2), ("sigmoid", 1), ("softmax", 3), ("regression", 1)]


def judged(head: Any, outputs: int) -> Network:
    rng = np.random.default_rng(3)
    return Network.from_layers([rng.normal(size=(outputs, SCHEMA.width))], [np.zeros(outputs)], head=head)


@pytest.mark.parametrize(("head", "outputs"), HEADS)
@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("cut", [None, 0.3, "own"])
def test_what_is_served_is_decided_by_the_rule(head: Any, outputs: int, place: int | None, cut: Any) -> None:
    """Also where a score is the cut-off itself: then the favourable side is given."""
    model, x = judged(head, outputs), np.array(PEOPLE.x)
    given = model(x)
    side = 0 if place == 0 and head != "regression" else given.shape[1] - 1
    threshold = float(given[7, side]) if cut == "own" else cut
    if outputs == 3 and threshold is not None:
        return
    label = SCHEMA.label if head != "regression" and outputs < 3 else None
    names = ("low", "high") if head == "regression" else ("no", "yes") if label else ("0", "1", "2")
    favourable = None if place is None else names[place]
    outcome = outcome_of(label, 0 if head == "regression" else len(names), favourable, threshold)
    schema = replace(SCHEMA, label=label)
    found = Certifier(served_with(model=model, schema=schema, outcome=outcome))(x, counterparts=True)
    places = decided(given, outcome, regression=head == "regression").tolist()
    assert found.outcome == [None if each < 0 else names[each] for each in places]
    assert found.favourable == [None if each < 0 or place is None else each == place for each in places]
    assert found.predictions == (given[:, 0].tolist() if head == "regression" else found.outcome)
    if cut == "own" and place is not None:
        assert found.favourable[7] and found.decision[7] in ("undecided", "flippable")
    good = tuple(map(str, favourable_places(outcome)) if outcome.classes else outcome.favourable)
    library = isonomy.certify_local(
        model, x, served().problem.metric, 1.0, domain=SCHEMA.domain(), tier="interval", attack=False, progress=None,
        threshold=threshold, favourable=good or None,
    )  # fmt: skip
    sure = library.decision == "certified"
    assert all(found.decision[row] == "certified" for row in np.flatnonzero(sure))


def test_the_certificate_says_what_is_decided(tmp_path: Path, client: TestClient) -> None:
    """Not the schema of a table elsewhere, nor the largest output: the record's class and cut-off."""
    people = population(rows(12))
    certificate = isonomy.certify(
        network(), people, isonomy.Counterparts.of(SCHEMA), delta=1.0, gamma=0.0, rounds=0, attack=False,
        favourable="no", threshold=0.3, progress=None,
    )  # fmt: skip
    write(tmp_path / "audit", certificate)
    for here in (Served.of_certificate(certificate, people), Served.from_directory(tmp_path / "audit")):
        app = create_app(here, Settings(database=f"sqlite:///{tmp_path / 'log.db'}"))
        with TestClient(app) as asking:
            told = asking.get("/v1/certificate").json()
            assert told["outcome"] == {"classes": ["no", "yes"], "favourable": ["no"], "threshold": 0.3}
            assert told["decided"] == "'no' from a probability of 0.3 on, else 'yes'; 'no' is favourable"
            found = asking.post("/v1/predictions", json={"individuals": rows(40, seed=9)}).json()["predictions"]
            for row in found:
                assert row["prediction"] == row["outcome"] == ("no" if row["outputs"][0] >= 0.3 else "yes")
                assert row["favourable"] is (row["outcome"] == "no")
            recent = asking.get("/v1/predictions?limit=40").json()["recent"]
            assert sorted(row["prediction"] for row in recent) == sorted(row["prediction"] for row in found)
    plain = client.post("/v1/predictions", json={"individuals": rows(3, seed=9)}).json()["predictions"]
    assert all(row["favourable"] is None and row["outcome"] == row["prediction"] for row in plain)


def test_a_number_with_a_cut_off_is_high_or_low(tmp_path: Path) -> None:
    outcome = outcome_of(None, 0, "low", 0.2)
    here = served_with(model=judged("regression", 1), schema=replace(SCHEMA, label=None), outcome=outcome)
    with TestClient(create_app(here, Settings(database=f"sqlite:///{tmp_path / 'log.db'}"))) as asking:
        found = asking.post("/v1/predictions", json={"individuals": rows(20, seed=9)}).json()["predictions"]
    for row in found:
        assert row["prediction"] == row["outputs"][0] and row["favourable"] is (row["prediction"] <= 0.2)
        assert row["outcome"] == ("low" if row["prediction"] <= 0.2 else "high")
    assert {row["outcome"] for row in found} == {"low", "high"}
