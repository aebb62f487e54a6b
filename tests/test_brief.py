"""Whatever holds a table shows itself in at most three lines, and no table in them."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy
from isonomy.attacks import AttackBudget
from isonomy.brief import LINES, brief
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity import Counterparts

QUICK = AttackBudget(steps=2, restarts=0, branches=2)


@pytest.fixture(scope="module")
def certificate() -> isonomy.Certificate:
    german = isonomy.load_population("german").test[:40]
    rng = np.random.default_rng(0)
    network = Network.from_layers([rng.normal(size=(2, german.schema.width))], [np.zeros(2)])
    metric = Counterparts.of(german.schema)
    return isonomy.certify(network, german, metric, 1.0, 0.1, tier="interval", rounds=1, attack=QUICK, progress=None)


def test_certificates_and_their_parts_are_short(certificate: isonomy.Certificate) -> None:
    local, question = certificate.local, certificate.problem
    german = isonomy.load_population("german")
    box = Domain("relaxed", [0.0], [1.0], (), [False], [0.0], [1.0], [False], ("a",))  # type: ignore[arg-type]
    everywhere = isonomy.certify_everywhere(
        Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid"), isonomy.WeightedLp([1.0]), 0.1, box, progress=None
    )
    things = [certificate, local, local.witnesses, question, question.domain, certificate.profiles, certificate.points]
    for thing in [*things, certificate.worst_case, certificate.cells, everywhere, everywhere.witness, german]:
        for text in (repr(thing), str(thing)):
            assert len(text.splitlines()) <= LINES and len(text) <= 400, text
            assert "\n 0" not in text and "array(" not in text
        assert repr(thing).startswith(type(thing).__name__)
    assert "upper=float64[40]" in repr(local)
    assert str(local).startswith("40 individuals: average largest change at most 0.")
    assert "shows the pair" in str(everywhere)


def test_short_things_are_shown_whole() -> None:
    assert brief(QUICK) == "AttackBudget(steps=2, restarts=0, branches=2, seed=0)"
