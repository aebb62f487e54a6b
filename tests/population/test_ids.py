"""A column that names people: no feature, in no hash and no coordinate, and read as it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import SchemaError
from isonomy.population import Population, Schema, open_people, stream

TEXT = 'id = "customer"\n[features.age]\nlow = 0\nhigh = 100\n[features.sex]\ncategories = ["f", "m"]\n'
SCHEMA = Schema.from_toml(TEXT)
FRAME = pd.DataFrame({"age": [20.0, 30, 40], "customer": ["007", "b 2", None], "sex": ["f", "m", "f"]})


def test_an_id_is_written_and_read_and_changes_nothing_else() -> None:
    without = replace(SCHEMA, id=None)
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA != without
    assert SCHEMA.hash() == without.hash() and SCHEMA.coordinate_names == without.coordinate_names
    np.testing.assert_array_equal(SCHEMA.encode(FRAME).x, without.encode(FRAME.drop(columns="customer")).x)
    one, other = (open_people(Population.from_frame(FRAME, each)) for each in (SCHEMA, without))
    assert one.fingerprint() == other.fingerprint()
    with pytest.raises(SchemaError, match="'age' has two roles"):
        replace(SCHEMA, id="age")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_ids_of_people_are_texts(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    (FRAME.to_csv if name.endswith("csv") else FRAME.to_parquet)(path, index=False)
    people = Population.from_file(path, SCHEMA)
    assert people.ids is not None and people.ids.tolist() == ["007", "b 2", None]
    assert people[[2, 0]].ids.tolist() == [None, "007"]  # type: ignore[union-attr]
    assert [piece.ids.tolist() for piece in stream(path, SCHEMA, chunk_rows=2)] == [["007", "b 2"], [None]]  # type: ignore[union-attr]
    assert Population.from_file(path, replace(SCHEMA, id=None)).ids is None
    numbered = Population.from_frame(FRAME.assign(customer=[1, 2, np.nan]), SCHEMA)
    assert numbered.ids is not None and numbered.ids.tolist() == ["1", "2", None]


def test_a_table_may_lack_the_ids(tmp_path: Path) -> None:
    """As it may lack the label: that of a later year, or a request."""
    FRAME.drop(columns="customer").to_csv(tmp_path / "t.csv", index=False)
    assert Population.from_file(tmp_path / "t.csv", SCHEMA).ids is None
    assert len(SCHEMA.encode(FRAME.drop(columns="customer")).x) == 3
