"""Tables of any kind that narwhals reads (pandas, Polars, Arrow …) as one pandas frame of our own."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd

from isonomy.errors import DataError


def read_frame(frame: Any) -> pd.DataFrame:
    """A copy of a table as a pandas frame with unique text column names and at least one row."""
    table = frame.copy() if isinstance(frame, pd.DataFrame) else _to_pandas(frame)
    table.columns = pd.Index([str(column) for column in table.columns])
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"The table has two columns called {twice!r}; names must differ.")
    if len(table) == 0:
        raise DataError(f"The table is empty: it has {table.shape[1]} columns and no row.")
    return table


def _to_pandas(frame: Any) -> pd.DataFrame:
    try:
        table = nw.from_native(frame)
    except TypeError as error:
        raise DataError(f"A table must be a pandas, Polars or Arrow table. Got {type(frame).__name__}.") from error
    eager = table.collect() if isinstance(table, nw.LazyFrame) else table
    return eager.to_pandas()
