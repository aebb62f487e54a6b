"""The Census Bureau's own person files, ``csv_pca.zip`` and the like.

One zip archive holds the 1-year person records of one state as a CSV file of some 290 columns, of which a task needs
about fifteen. The CSV is read as it is unpacked, block by block, so that only those columns are ever in memory.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pcsv

from isonomy.errors import DataError, FileError, first_line
from studies.surveys.codes import STATES, relationships

CENSUS_URL = "https://www2.census.gov/programs-surveys/acs/data/pums"
_NAME = re.compile(r"csv_p([a-z]{2})\.zip", re.IGNORECASE)
_BLOCK = 1 << 24  # bytes of CSV parsed at a time
# What the zip reader raises on a damaged, encrypted or unknown archive.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


def person_file(state: str, year: int) -> str:
    """Where the person file of a state and year lies, below the data folder and below the Bureau's address."""
    return f"{year}/1-Year/csv_p{state.lower()}.zip"


def find_person_files(folder: Path) -> dict[tuple[str, int], Path]:
    """State and year of every ``csv_pXX.zip`` in a folder, in ``<year>/1-Year`` and ``<year>`` below it.

    A file that lies in no folder of a year tells its year itself.
    """
    person_files: dict[tuple[str, int], Path] = {}
    for file in sorted((*folder.glob("csv_p*.zip"), *folder.glob("*/csv_p*.zip"), *folder.glob("*/1-Year/csv_p*.zip"))):
        match = _NAME.fullmatch(file.name)
        state = match[1].upper() if match else ""
        if state not in STATES:
            continue
        years = [part for part in file.relative_to(folder).parts[:-1] if re.fullmatch(r"20\d\d", part)]
        person_files[state, int(years[0]) if years else _own_year(file)] = file
    return person_files


def read_person_file(file: Path, columns: Sequence[str], state: str, year: int) -> pd.DataFrame:
    """Some columns of all persons of a file, as whole numbers; blanks are 0.

    RELP is made from RELSHIPP in files from 2019 on. The file must be that of the state and year.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            table = pa.concat_tables([_read_member(archive, name, columns, file) for name in _members(archive, file)])
    except (*_DAMAGED, pa.ArrowException) as error:
        raise FileError(f"Person file {file} cannot be read: {first_line(error)}.") from error
    own = _own_year(file)
    if own != year:
        raise DataError(f"Person file {file} holds the survey of {own}, not of {year}.")
    frame = pd.DataFrame({name: table[name].fill_null(0).to_numpy() for name in table.column_names})
    if "ST" in frame and len(frame) and int(frame["ST"].iloc[0]) != STATES[state]:
        raise DataError(f"Person file {file} holds state {int(frame['ST'].iloc[0])}, not {state} ({STATES[state]}).")
    if "RELSHIPP" in frame:
        frame["RELP"] = relationships(frame["RELSHIPP"])
    return frame[list(columns)]


def _read_member(archive: zipfile.ZipFile, name: str, columns: Sequence[str], file: Path) -> pa.Table:
    header = _header(archive, name)
    wanted = list(columns)
    if "RELP" in wanted and "RELP" not in header and "RELSHIPP" in header:
        wanted[wanted.index("RELP")] = "RELSHIPP"
    absent = next((column for column in wanted if column not in header), None)
    if absent is not None:
        raise DataError(f"Person file {file} has no column {absent!r}; the task needs {', '.join(map(repr, columns))}.")
    wanted += [column for column in ("ST",) if column in header]
    convert = pcsv.ConvertOptions(
        include_columns=wanted, column_types=dict.fromkeys(wanted, pa.int32()), null_values=["", " "]
    )
    with archive.open(name) as stream:
        table = pcsv.open_csv(stream, pcsv.ReadOptions(block_size=_BLOCK), convert_options=convert).read_all()
    return table.select(wanted)


def _members(archive: zipfile.ZipFile, file: Path) -> list[str]:
    names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
    if not names:
        raise FileError(f"Person file {file} holds no CSV file.")
    return names


def _header(archive: zipfile.ZipFile, name: str) -> list[str]:
    with archive.open(name) as stream:
        line = stream.readline().decode("utf-8-sig", errors="replace")
    return [cell.strip().strip('"') for cell in line.split(",")]


def _own_year(file: Path) -> int:
    """The survey year: of ``ss15phi.csv`` by its name, of ``psam_p15.csv`` (from 2017 on) by its serial numbers."""
    try:
        with zipfile.ZipFile(file) as archive:
            name = _members(archive, file)[0]
            old = re.match(r"ss(\d\d)p", Path(name).name, re.IGNORECASE)
            if old:
                return 2000 + int(old[1])
            header = _header(archive, name)
            with archive.open(name) as stream:
                stream.readline()
                cells = stream.readline().decode("utf-8", errors="replace").split(",")
    except _DAMAGED as error:
        raise FileError(f"Person file {file} cannot be read: {error}.") from error
    serial = dict(zip(header, cells, strict=False)).get("SERIALNO", "").strip().strip('"')
    if not re.match(r"20\d\d", serial):
        raise DataError(f"Person file {file} does not tell its year: SERIALNO must begin with it. Got {serial!r}.")
    return int(np.int64(serial[:4]))
