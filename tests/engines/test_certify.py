"""One call: people in memory, or the path of a dataset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import isonomy
from isonomy.certificates.local import Bounds
from isonomy.certificates.moving import Moving
from isonomy.engines import job, parts
from isonomy.engines.tallies import Tally
from isonomy.errors import ParameterError, SoundnessError

from .people import SCHEMA, ask, table


def question() -> tuple[isonomy.Network, isonomy.Population, isonomy.Metric]:
    people = isonomy.load_population("german")
    rng = np.random.default_rng(0)
    network = isonomy.Network.from_layers(
        [rng.normal(size=(4, people.x.shape[1])) / 8, rng.normal(size=(2, 4))], [np.zeros(4), np.zeros(2)]
    )
    return network, people, isonomy.Counterparts.of(people.schema)


def test_a_path_goes_to_the_engine_and_people_do_not(tmp_path: Path) -> None:
    network, people, metric = question()
    people.frame.head(40).to_parquet(tmp_path / "people.parquet")
    options = {"tier": "interval", "attack": False, "progress": None}
    large = isonomy.certify(
        network, tmp_path / "people.parquet", metric, 1.0, 0.1, schema=people.schema, work=tmp_path / "work", **options
    )
    small = isonomy.certify(network, people[:40], metric, 1.0, 0.1, **options)
    assert isinstance(large, isonomy.LargeCertificate) and isinstance(small, isonomy.Certificate)
    assert large.rows == len(small.local) and 0 < large.upper <= 1


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    network, people, metric = question()
    with pytest.raises(ParameterError, match="'schema', and 'work'"):
        isonomy.certify(network, tmp_path / "people.parquet", metric, 1.0, 0.1)
    with pytest.raises(ParameterError, match="people"):
        isonomy.certify(network, people, metric, 1.0, 0.1, engine="dask")


@pytest.mark.some(2)
@pytest.mark.parametrize("place", ["local", "profile", "dual", "read"])
def test_a_bound_that_is_too_small_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """In a chunk, in a part that is computed or read, and in the whole: an error with a file in the work folder."""
    source, work = tmp_path / "people.csv", tmp_path / "work"
    table(60).to_csv(source, index=False)
    if place == "read":
        assert ask(source, work, attack=True).lower > 0
        read = parts.read_part

        def lie(path: Path, key: str) -> parts.Part | None:
            found = read(path, key)
            return None if found is None else replace(found, profile=found.profile / 1e3)

        monkeypatch.setattr(job, "read_part", lie)
    elif place == "dual":
        mean = Tally.mean_up
        monkeypatch.setattr(Tally, "mean_up", lambda self, weight: mean(self, weight) / 1e3)
    else:
        owner, name = (Bounds, "_violation") if place == "local" else (Moving, "bound")
        honest = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, **named: honest(*given, **named) / 1e3)
    with pytest.raises(SoundnessError) as error:
        ask(source, work, attack=True)
    assert error.value.file is not None and error.value.file.parent == work
    document = json.loads(error.value.file.read_text())
    assert document["lower"] > document["upper"]
    if place in ("local", "profile"):
        assert SCHEMA.encode(table(60)).x[document["row"]] == pytest.approx(document["individual"], abs=1e-9)
    assert not (work / "result.json").exists() or place == "read"
