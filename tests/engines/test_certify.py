"""One call: people in memory, or the path of a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import isonomy
from isonomy.errors import ParameterError


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
    assert isinstance(large, isonomy.LargeCertificate) and isinstance(small, isonomy.DistributionalCertificate)
    assert large.rows == len(small.local) and 0 < large.upper <= 1


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    network, people, metric = question()
    with pytest.raises(ParameterError, match="'schema', and 'work'"):
        isonomy.certify(network, tmp_path / "people.parquet", metric, 1.0, 0.1)
    with pytest.raises(ParameterError, match="people"):
        isonomy.certify(network, people, metric, 1.0, 0.1, engine="dask")
