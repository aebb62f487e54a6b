"""Default of Credit Card Clients (Yeh 2009), from the data folder or from UCI."""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from isonomy.errors import FileError, first_line
from studies.surveys.folder import DataFolder

UCI_URL = "https://archive.ics.uci.edu/static/public/350"
LABEL = "default payment next month"
_TABLE = "credit_default/credit_default.parquet"
_ARCHIVE = "default+of+credit+card+clients.zip"


def find_credit(folder: DataFolder) -> Path | None:
    """The table on this machine, if it is there."""
    files = (place / name for place in folder.places for name in (_TABLE, _ARCHIVE))
    return next((file for file in files if file.is_file()), None)


def read_credit(folder: DataFolder) -> pd.DataFrame:
    """The table of 30,000 clients, downloaded from UCI when it is not on this machine."""
    file = find_credit(folder)
    if file is None:
        file = folder.fetch("The table of credit card clients", _ARCHIVE, UCI_URL, "ISONOMY_UCI_URL")
    try:
        return pd.read_parquet(file) if file.suffix == ".parquet" else _from_archive(file)
    except FileError:
        raise
    except Exception as error:  # pandas and its spreadsheet reader raise anything on a damaged file
        raise FileError(f"Table {file} cannot be read: {first_line(error)}.") from error


def _from_archive(file: Path) -> pd.DataFrame:
    """UCI's archive holds an Excel sheet with a line of its own above the names."""
    with zipfile.ZipFile(file) as archive:
        sheets = [name for name in archive.namelist() if name.lower().endswith((".xls", ".csv"))]
        if not sheets:
            raise FileError(f"Table {file} cannot be read: the archive holds no .xls or .csv file.")
        content = io.BytesIO(archive.read(sheets[0]))
    if sheets[0].lower().endswith(".csv"):
        frame = pd.read_csv(content)
        return frame if LABEL in frame else pd.read_csv(io.BytesIO(content.getvalue()), header=1)
    if find_spec("xlrd") is None:
        raise FileError(f"Table {file} holds an Excel sheet: install xlrd to read it.")
    return pd.read_excel(content, header=1)
