"""Blocks of a dataset against the table read at once."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from tests.certificates.people import SCHEMA, table

from isonomy.errors import DataError, FileError
from isonomy.population import open_people


def test_errors_name_file_row_and_column(tmp_path: Path) -> None:
    frame = table(50)
    frame.loc[33, "sex"] = "?"
    frame.to_parquet(tmp_path / "t.parquet")
    found = open_people(tmp_path / "t.parquet", SCHEMA, work=tmp_path)
    with pytest.raises(DataError, match=r"File t\.parquet: Column 'sex', row 33"):
        found.read(found.keys(20)[1])
    frame.drop(columns="debt").to_parquet(tmp_path / "u.parquet")
    found = open_people(tmp_path / "u.parquet", SCHEMA, work=tmp_path)
    with pytest.raises(DataError, match="has no column 'debt'; it has 'pay'"):
        found.read(found.keys(20)[0])
    with pytest.raises(FileError, match="no such file or folder"):
        open_people(tmp_path / "nothing.parquet", SCHEMA, work=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="has no Parquet file"):
        open_people(tmp_path / "empty", SCHEMA, work=tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(FileError, match="cannot be read as Parquet"):
        open_people(tmp_path / "bad.parquet", SCHEMA, work=tmp_path)
    pd.DataFrame(frame[:0]).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="is empty"):
        open_people(tmp_path / "none.parquet", SCHEMA, work=tmp_path)


def test_a_file_that_changes_during_the_run_is_an_error(tmp_path: Path) -> None:
    table(50).to_parquet(tmp_path / "t.parquet")
    found = open_people(tmp_path / "t.parquet", SCHEMA, work=tmp_path)
    table(50, seed=1).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(FileError, match="was changed during the run"):
        found.read(found.keys(20)[1])
