"""The American Community Survey tasks of Folktables (Ding et al. 2021): Income, Employment, PublicCoverage.

A *piece* is one state in one survey year, taken from the best file at hand: the Census Bureau's own person file, an
extract of it that keeps dollars and weights, an extract of one task, or a sample of that. All pieces get the same
columns, so that a schema made once reads them all.

**The split.** A person's number is ``(100 * year + FIPS code) * 10^7 + place``, ``place`` the position among the
task's rows of that state and year in the Bureau's order; training rows are those whose hashed number falls below 0.7.
The same person is therefore on the same side whichever states are loaded, and from whichever file, with one exception:
the PublicCoverage sample tells no exact place, so its rows are numbered by their place in the table of all states (FIPS
code 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isonomy.datasets.codes import STATES, birth_areas, check_state, occupation_groups
from isonomy.datasets.pums import find_person_files, read_person_file
from isonomy.errors import DataError, FileError, ParameterError, template
from isonomy.population.population import in_train

Piece = tuple[str, int]
IntArray = NDArray[np.int64]
DEFAULT_YEAR = 2018
THRESHOLD = 50_000
LARGEST_PWGTP = 9999.0
"""The largest person weight there can be, by the data dictionary of the survey."""

_RAW = "acs_pums_raw_small_states/pums_person_14states_2018_HI_2015.parquet"


@dataclass(frozen=True)
class Extract:
    """A file that holds one task's rows, or a random share of them.

    ``starts`` are the first ROW_INDEX of its states, where those are known.
    """

    file: str
    share: float = 1.0
    note: str = ""
    starts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Task:
    """Which persons, which outcome, which columns."""

    name: str
    features: tuple[str, ...]
    needs: tuple[str, ...]  # for the filter and the outcome
    keep: Callable[[pd.DataFrame], pd.Series]
    outcome: Callable[[pd.DataFrame, float], pd.Series]
    outcome_column: str  # of the extracts
    extracts: tuple[Extract, ...]  # best first

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """What a person file must hold."""
        return tuple(dict.fromkeys((*self.features, *self.needs, "PWGTP")))


@dataclass(frozen=True)
class Holding:
    """The file that a piece is read from, and how."""

    file: Path
    kind: str  # "person file", "raw", "extract"
    extract: Extract | None = None


INCOME = Task(
    name="acs-income",
    features=("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"),
    needs=("PINCP",),
    keep=lambda t: (t["AGEP"] > 16) & (t["PINCP"] > 100) & (t["WKHP"] > 0) & (t["PWGTP"] >= 1),
    outcome=lambda t, threshold: t["PINCP"] > threshold,
    outcome_column="PINCP_GT50K",
    extracts=(
        Extract("acs_income_2018/income_2018_46states_full.parquet"),
        Extract(
            "acs_income_2018/income_2018_CA_FL_NY_PR_TX_40pct.parquet",
            0.4,
            "an exact 40 % random sample",
            (("CA", 73_020), ("FL", 324_489), ("NY", 970_141), ("TX", 1_369_456), ("PR", 1_655_429)),
        ),
    ),
)
EMPLOYMENT = Task(
    name="acs-employment",
    features=(
        "AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR", "DEYE", "DREM",
        "SEX", "RAC1P",
    ),
    needs=("ESR",),
    keep=lambda t: pd.Series(True, index=t.index),
    outcome=lambda t, _: t["ESR"] == 1,
    outcome_column="ESR_EQ1",
    extracts=(Extract("acs_employment_MA_2015_2018/employment_MA_2015_2018.parquet"),),
)  # fmt: skip
COVERAGE = Task(
    name="acs-coverage",
    features=(
        "AGEP", "SCHL", "MAR", "SEX", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR", "DEYE", "DREM",
        "PINCP", "ESR", "FER", "RAC1P",
    ),
    needs=("PUBCOV",),
    # A blank income (children under 15) was read as 0, so their age keeps them out; Folktables' comparison does.
    keep=lambda t: (t["AGEP"] < 65) & (t["AGEP"] >= 15) & (t["PINCP"] <= 30_000),
    outcome=lambda t, _: t["PUBCOV"] == 1,
    outcome_column="PUBCOV_EQ1",
    extracts=(
        Extract(
            "acs_public_coverage_2018/public_coverage_2018_51areas_40pct.parquet",
            0.4,
            "an exact 40 % random sample whose states are inferred from the order of its rows, so that a handful of "
            "people at the edges may be labelled with the neighbouring state",
        ),
    ),
)  # fmt: skip
TASKS = {task.name: task for task in (INCOME, EMPLOYMENT, COVERAGE)}


def find_pieces(task: Task, folders: Iterable[Path], *, dollars: bool = False) -> dict[Piece, Holding]:
    """The pieces on this machine; ``dollars`` leaves out files that do not hold the income itself."""
    found: dict[Piece, Holding] = {}
    for folder in reversed(tuple(folders)):
        for extract in () if dollars else reversed(task.extracts):
            file = folder / extract.file
            found |= dict.fromkeys(_pieces_of(file), Holding(file, "extract", extract))
        found |= dict.fromkeys(_pieces_of(folder / _RAW), Holding(folder / _RAW, "raw"))
        found |= {piece: Holding(file, "person file") for piece, file in find_person_files(folder).items()}
    return found


def choose_pieces(states: Sequence[str] | None, years: Sequence[int] | None, found: Iterable[Piece]) -> list[Piece]:
    """The states times the years asked for; without states, all there are of the years."""
    if isinstance(states, str) or isinstance(years, int):
        wrong = ("states", "a list such as ['CA', 'NY']", states)
        wrong = wrong if isinstance(states, str) else ("years", "a list such as [2015, 2018]", years)
        raise ParameterError(template(*wrong))
    chosen_years = list(dict.fromkeys(years if years is not None else [DEFAULT_YEAR]))
    for year in chosen_years:
        if isinstance(year, bool) or not isinstance(year, (int, np.integer)) or not 2010 <= year <= 2100:
            raise ParameterError(template("years", "survey years such as 2018", year))
    if states is None:
        return sorted(piece for piece in found if piece[1] in chosen_years)
    chosen_states = list(dict.fromkeys(check_state(state) for state in states))
    if not chosen_states or not chosen_years:
        raise ParameterError("'states' and 'years' must name at least one each.")
    return [(state, int(year)) for state in chosen_states for year in chosen_years]


def read_pieces(task: Task, pieces: Sequence[Piece], found: Mapping[Piece, Holding], threshold: float) -> pd.DataFrame:
    """One table of all pieces, in the order given: features, outcome, PWGTP, STATE, YEAR, SPLIT."""
    frames = []
    shares = [holding.extract.share if holding.extract else 1.0 for holding in (found[piece] for piece in pieces)]
    weighted = not any(found[piece].extract for piece in pieces)
    for holding in dict.fromkeys(found[piece] for piece in pieces):
        wanted = [piece for piece in pieces if found[piece] == holding]
        frame = _read_holding(task, holding, wanted, threshold)
        if not weighted:  # weights of some files beside ones of others would mean nothing
            frame["PWGTP"] = np.float32(max(shares) / (holding.extract.share if holding.extract else 1.0))
        frames.append(frame)
    table = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    order = {piece: place for place, piece in enumerate(pieces)}
    places = _places(table, order)
    if (np.diff(places) < 0).any():
        table = table.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)
    table["STATE"] = _coded(table["STATE"].to_numpy(), list(dict.fromkeys(state for state, _ in pieces)))
    numbers = table.pop("NUMBER").to_numpy()
    table["SPLIT"] = pd.Categorical.from_codes((~in_train(numbers)).astype(np.int8), pd.Index(["train", "test"]))
    if task is INCOME:
        table["OCCP_MAJOR"], table["POBP_AREA"] = occupation_groups(table["OCCP"]), birth_areas(table["POBP"])
    return table


def largest_weight(pieces: Sequence[Piece], found: Mapping[Piece, Holding]) -> float:
    """The largest weight that :func:`read_pieces` can give: the survey's own limit, or what undoes the sampling."""
    shares = [holding.extract.share if holding.extract else 1.0 for holding in (found[piece] for piece in pieces)]
    sampled = any(found[piece].extract for piece in pieces)
    return float(np.float32(max(shares) / min(shares))) if sampled else LARGEST_PWGTP


def caveats(task: Task, pieces: Sequence[Piece], found: Mapping[Piece, Holding]) -> list[str]:
    """What a reader must know about the files behind some pieces, one sentence each."""
    notes: dict[str, list[str]] = {}
    for piece in pieces:
        extract = found[piece].extract
        if extract is not None and extract.note:
            notes.setdefault(extract.note, []).append(piece[0])
    sentences = [f"{', '.join(states)}: {note}." for note, states in notes.items()]
    if any(found[piece].kind == "extract" for piece in pieces):
        shares = {holding.extract.share if holding.extract else 1.0 for holding in (found[piece] for piece in pieces)}
        sampled = ", and 2.5 where a state is a 40 % sample" * (len(shares) > 1)
        sentences.append(f"A file without person weights is among the sources: weights (PWGTP) are 1{sampled}.")
    if task is INCOME and len({year >= 2018 for _, year in pieces}) == 2:
        sentences.append("Occupation codes follow the list of 2010 in surveys up to 2017 and that of 2018 after.")
    return sentences


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


def _read_holding(task: Task, holding: Holding, pieces: Sequence[Piece], threshold: float) -> pd.DataFrame:
    if holding.kind == "person file":
        (state, year), *_ = pieces
        everybody = read_person_file(holding.file, task.raw_columns, state, year).assign(STATE=state, YEAR=year)
        return _from_persons(task, everybody, threshold)
    states = sorted({state for state, _ in pieces})
    names = pq.read_schema(holding.file).names
    columns = list(task.raw_columns) if holding.kind == "raw" else [*task.features, task.outcome_column]
    extra = [name for name in ("STATE", "YEAR", "ROW_INDEX") if name in names]
    with _reading(holding.file):
        table = pq.read_table(
            holding.file, columns=[*columns, *extra], filters=[("STATE", "in", states)], read_dictionary=["STATE"]
        )
    frame = pd.DataFrame({name: _column(table[name]) for name in table.column_names})
    if "YEAR" not in frame:
        frame["YEAR"] = np.int16(DEFAULT_YEAR)
    wanted = _places(frame, {piece: place for place, piece in enumerate(pieces)}) >= 0
    frame = frame if wanted.all() else frame[wanted].reset_index(drop=True)
    if holding.kind == "raw":
        return _from_persons(task, frame, threshold)
    return _from_extract(task, frame, holding.extract, threshold)


def _from_persons(task: Task, everybody: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """All persons to the rows of a task."""
    people = everybody[task.keep(everybody)].reset_index(drop=True)
    if people.empty:
        raise DataError(f"No person of {', '.join(map(str, everybody['STATE'].unique()))} belongs to {task.name!r}.")
    columns = {name: _small(people[name]) for name in (*task.features, "PWGTP")}
    frame = pd.DataFrame({**columns, "STATE": people["STATE"], "YEAR": people["YEAR"].astype(np.int16)})
    frame[label_column(task, threshold)] = task.outcome(people, threshold).to_numpy().astype(np.int8)
    frame["NUMBER"] = _numbers(frame, _within(frame))
    return frame


def _from_extract(task: Task, frame: pd.DataFrame, extract: Extract | None, threshold: float) -> pd.DataFrame:
    frame = frame.rename(columns={task.outcome_column: label_column(task, threshold)})
    if "ROW_INDEX" not in frame:
        frame["NUMBER"] = _numbers(frame, _within(frame))
        return frame
    rows = frame.pop("ROW_INDEX").to_numpy(dtype=np.int64)
    starts = dict(extract.starts) if extract is not None else {}
    if not starts:
        frame["NUMBER"] = frame["YEAR"].to_numpy(dtype=np.int64) * 100 * 10**7 + rows
    else:
        first = np.array([starts[state] for state in frame["STATE"].cat.categories])[frame["STATE"].cat.codes]
        frame["NUMBER"] = _numbers(frame, rows - first)
    return frame


def label_column(task: Task, threshold: float) -> str:
    """The outcome's column: for the income task it names the threshold."""
    return f"PINCP_GT{threshold:.15g}" if task is INCOME else task.outcome_column


def _within(frame: pd.DataFrame) -> IntArray:
    """The place of each row among those of its state and year."""
    groups = frame.groupby(["STATE", "YEAR"], observed=True, sort=False)
    return np.asarray(groups.cumcount(), dtype=np.int64)


def _numbers(frame: pd.DataFrame, place: IntArray) -> IntArray:
    codes, distinct = pd.factorize(frame["STATE"])
    fips = np.array([STATES[str(state)] for state in distinct], dtype=np.int64)[codes]
    return (frame["YEAR"].to_numpy(dtype=np.int64) * 100 + fips) * 10**7 + place


def _places(frame: pd.DataFrame, order: Mapping[Piece, int]) -> IntArray:
    """The place of each row's piece in an order; -1 where it has none."""
    codes, states = pd.factorize(frame["STATE"])
    years, distinct = pd.factorize(frame["YEAR"])
    table = np.array([[order.get((str(s), int(y)), -1) for y in distinct] for s in states], dtype=np.int64)
    return table[codes, years]


def _coded(values: object, categories: list[str]) -> pd.Categorical:
    return pd.Categorical(values, categories=pd.Index(categories, dtype="object"))  # type: ignore[call-overload,no-any-return]


def _column(column: pa.ChunkedArray) -> pd.Series:
    """Numbers with blanks as 0, texts as a pandas category."""
    if pa.types.is_dictionary(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        texts: pd.Series = column.to_pandas().astype("category")
        return texts.cat.remove_unused_categories()
    return pd.Series(column.fill_null(0).to_numpy())


def _small(column: pd.Series) -> pd.Series:
    """Whole numbers in 16 bits where they fit, as in the extracts."""
    fits = column.min() >= -(2**15) and column.max() < 2**15
    return column.astype(np.int16 if fits else np.int32)


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turns what pyarrow says of an unreadable file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FileError(f"File {file} cannot be read as Parquet: {reason}.") from error
