"""Survey tables in the layout of the data folder of these studies: extracts of the Bureau's person files.

A piece is taken from the best file at hand: the person file, an extract that keeps dollars and weights, an extract of
one task, or a sample of that. What an extract does not hold is said in the description of the schema: an extract of a
task has no weights and serves the threshold of 50,000 dollars only. In the PublicCoverage sample STATE is inferred, and
its rows tell no exact place, so they are numbered by their place in the table of all states (FIPS code 0): which of
them are training rows cannot be matched with complete files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isonomy.errors import FileError
from studies.surveys import load
from studies.surveys.acs import (
    DEFAULT_YEAR,
    LARGEST_PWGTP,
    PERSON_FILES,
    Piece,
    Survey,
    Task,
    assemble,
    from_persons,
    label_column,
    person_numbers,
    piece_places,
    read_piece,
)


@dataclass(frozen=True)
class Extract:
    """A file that holds one task's rows, or a random share of them; ``raw``: all persons, with their weights.

    ``starts`` are the first ROW_INDEX of its states, where those are known.
    """

    file: str
    share: float = 1.0
    note: str = ""
    starts: tuple[tuple[str, int], ...] = ()
    raw: bool = False


RAW = Extract("acs_pums_raw_small_states/pums_person_14states_2018_HI_2015.parquet", raw=True)
EXTRACTS = {
    "acs-income": (
        Extract("acs_income_2018/income_2018_46states_full.parquet"),
        Extract(
            "acs_income_2018/income_2018_CA_FL_NY_PR_TX_40pct.parquet",
            0.4,
            "an exact 40 % random sample",
            (("CA", 73_020), ("FL", 324_489), ("NY", 970_141), ("TX", 1_369_456), ("PR", 1_655_429)),
        ),
    ),
    "acs-employment": (Extract("acs_employment_MA_2015_2018/employment_MA_2015_2018.parquet"),),
    "acs-coverage": (
        Extract(
            "acs_public_coverage_2018/public_coverage_2018_51areas_40pct.parquet",
            0.4,
            "an exact 40 % random sample whose states are inferred from the order of its rows, so that a handful of "
            "people at the edges may be labelled with the neighbouring state",
        ),
    ),
}
"""The extracts of each task, best first."""


@dataclass(frozen=True)
class Holding:
    """An extract in a folder."""

    path: Path
    extract: Extract


class StudyFiles:
    """Person files, and extracts of them."""

    def find(self, task: Task, folders: Iterable[Path], *, dollars: bool = False) -> dict[Piece, Any]:
        """The best file of every piece."""
        found: dict[Piece, Any] = {}
        for folder in reversed(tuple(folders)):
            for extract in (*(() if dollars else reversed(EXTRACTS[task.name])), RAW):
                holding = Holding(folder / extract.file, extract)
                found |= dict.fromkeys(_pieces_of(holding.path), holding)
            found |= PERSON_FILES.find(task, [folder])
        return found

    def read(self, task: Task, pieces: Sequence[Piece], found: Mapping[Piece, Any], threshold: float) -> Survey:
        """One table; where a file has no weights, all weights only undo the sampling of some states."""
        frames, shares = [], {piece: _share(found[piece]) for piece in pieces}
        weighted = not any(_without_weights(found[piece]) for piece in pieces)
        largest = max(shares.values())
        for holding in dict.fromkeys(found[piece] for piece in pieces):
            wanted = [piece for piece in pieces if found[piece] == holding]
            frame = _read(task, holding, wanted, threshold)
            if not weighted:  # weights of some files beside ones of others would mean nothing
                frame["PWGTP"] = np.float32(largest / _share(holding))
            frames.append(frame)
        most = LARGEST_PWGTP if weighted else float(np.float32(largest / min(shares.values())))
        return Survey(assemble(task, pieces, frames), most, _notes(pieces, found))


STUDY_FILES = StudyFiles()
load_population = partial(load.load_population, surveys=STUDY_FILES)
describe = partial(load.describe, surveys=STUDY_FILES)
available = partial(load.available, surveys=STUDY_FILES)


def _share(holding: Path | Holding) -> float:
    return holding.extract.share if isinstance(holding, Holding) else 1.0


def _without_weights(holding: Path | Holding) -> bool:
    return isinstance(holding, Holding) and not holding.extract.raw


def _notes(pieces: Sequence[Piece], found: Mapping[Piece, Any]) -> tuple[str, ...]:
    """What a reader must know about the files behind some pieces."""
    notes: dict[str, list[str]] = {}
    for piece in pieces:
        holding = found[piece]
        if isinstance(holding, Holding) and holding.extract.note:
            notes.setdefault(holding.extract.note, []).append(piece[0])
    sentences = [f"{', '.join(states)}: {note}." for note, states in notes.items()]
    if any(_without_weights(found[piece]) for piece in pieces):
        sampled = ", and 2.5 where a state is a 40 % sample" * (len({_share(found[piece]) for piece in pieces}) > 1)
        sentences.append(f"A file without person weights is among the sources: weights (PWGTP) are 1{sampled}.")
    return tuple(sentences)


def _pieces_of(file: Path) -> list[Piece]:
    if not file.is_file():
        return []
    with _reading(file):
        names = pq.read_schema(file).names
        columns = [name for name in ("STATE", "YEAR") if name in names]
        table = pq.read_table(file, columns=columns, read_dictionary=["STATE"])
        if "YEAR" not in columns:
            return [(state, DEFAULT_YEAR) for state in pc.unique(table["STATE"]).to_pylist()]
        groups = table.group_by(["STATE", "YEAR"]).aggregate([])
    return list(zip(groups["STATE"].to_pylist(), groups["YEAR"].to_pylist(), strict=True))


def _read(task: Task, holding: Path | Holding, pieces: Sequence[Piece], threshold: float) -> pd.DataFrame:
    if isinstance(holding, Path):
        return read_piece(task, pieces[0], holding, threshold)
    states = sorted({state for state, _ in pieces})
    names = pq.read_schema(holding.path).names
    columns = list(task.raw_columns) if holding.extract.raw else [*task.features, task.outcome_column]
    extra = [name for name in ("STATE", "YEAR", "ROW_INDEX") if name in names]
    with _reading(holding.path):
        table = pq.read_table(
            holding.path, columns=[*columns, *extra], filters=[("STATE", "in", states)], read_dictionary=["STATE"]
        )
    frame = pd.DataFrame({name: _column(table[name]) for name in table.column_names})
    if "YEAR" not in frame:
        frame["YEAR"] = np.int16(DEFAULT_YEAR)
    wanted = piece_places(frame, pieces) >= 0
    frame = frame if wanted.all() else frame[wanted].reset_index(drop=True)
    if holding.extract.raw:
        return from_persons(task, frame, threshold)
    return _numbered(frame.rename(columns={task.outcome_column: label_column(task, threshold)}), holding.extract)


def _numbered(frame: pd.DataFrame, extract: Extract) -> pd.DataFrame:
    if "ROW_INDEX" not in frame:
        return frame.assign(NUMBER=person_numbers(frame))
    rows = frame.pop("ROW_INDEX").to_numpy(dtype=np.int64)
    if not extract.starts:
        return frame.assign(NUMBER=frame["YEAR"].to_numpy(dtype=np.int64) * 100 * 10**7 + rows)
    starts = dict(extract.starts)
    first = np.array([starts[state] for state in frame["STATE"].cat.categories])[frame["STATE"].cat.codes]
    return frame.assign(NUMBER=person_numbers(frame, rows - first))


def _column(column: pa.ChunkedArray) -> pd.Series:
    """Numbers with blanks as 0, texts as a pandas category."""
    if pa.types.is_dictionary(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        texts: pd.Series = column.to_pandas().astype("category")
        return texts.cat.remove_unused_categories()
    return pd.Series(column.fill_null(0).to_numpy())


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turns what pyarrow says of an unreadable file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FileError(f"File {file} cannot be read as Parquet: {reason}.") from error
