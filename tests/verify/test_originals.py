"""Model and table in the hands of the reader: what the certificate mentions of them proves nothing."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import isonomy
from isonomy import records
from isonomy.auditing.originals import check_data, check_model
from isonomy.networks.load import open_network
from isonomy.population import Feature, Population, Schema

from .conftest import Forger

SCHEMA = Schema(
    "people",
    (
        Feature("age", low=0.0, high=10.0, unit=5.0, tolerance=1.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    ),
)


def model(path: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(SCHEMA.width, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    torch.save(network.state_dict(), path)
    return path


def table(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(0, 10, 6), "sex": rng.choice(["f", "m"], 6)})
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An audit of one model and table, whose remarks mention other ones, and garbage."""
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    model(tmp_path / "other.pt", 1)
    people = Population.from_frame(pd.read_csv(table(tmp_path / "people.csv", 0)), SCHEMA)
    table(tmp_path / "others.csv", 1)
    (tmp_path / "garbage.bin").write_bytes(b"garbage")
    found = isonomy.certify(network, people, isonomy.Counterparts.of(SCHEMA), 1.0, attack=False, progress=None)
    names = ("model.pt", "other.pt", "people.csv", "others.csv", "garbage.bin")
    sources = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names}
    records.write(tmp_path / "audit", found, sources=sources)
    return tmp_path


def test_the_model_is_read_anew(place: Path) -> None:
    record = records.read(place / "audit")
    assert check_model(record, place / "model.pt")[1] == "recomputed"
    assert check_model(record, place / "other.pt")[1] == "rejected"  # although its hash is mentioned
    assert check_model(record, place / "garbage.bin")[1] == "trusted"
    (place / "garbage.bin").write_bytes(b"other garbage")
    assert check_model(record, place / "garbage.bin")[1] == "rejected"


def test_the_table_is_read_anew(place: Path) -> None:
    record = records.read(place / "audit")
    assert check_data(record, place / "people.csv")[1] == "recomputed"
    assert check_data(record, place / "others.csv")[1] == "rejected"
    assert check_data(record, place / "garbage.bin")[1] == "trusted"
    shutil.copy(place / "people.csv", place / "again.csv")
    assert check_data(record, place / "again.csv")[1] == "recomputed"


def test_other_weights_are_those_of_another_population(place: Path, tmp_path: Path) -> None:
    """The same people, of whom those who are treated well count more."""
    forger = Forger(place / "audit", tmp_path)
    forger.put("people.weights", np.r_[100.0, np.ones(5)])
    assert check_data(records.read(forger.done()), place / "people.csv")[1] == "rejected"
