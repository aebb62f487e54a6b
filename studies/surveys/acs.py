"""The American Community Survey tasks of Folktables (Ding et al. 2021): Income, Employment, PublicCoverage.

A *piece* is one state in one survey year, taken from the Census Bureau's own person file. All pieces get the same
columns, so that a schema made once reads them all. :class:`Surveys` is what another way to keep pieces has to offer.

**The split.** A person's number is ``(100 * year + FIPS code) * 10^7 + place``, ``place`` the position among the
task's rows of that state and year in the Bureau's order; training rows are those whose hashed number falls below 0.7.
The same person is therefore on the same side whichever states are loaded, and from whichever file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.errors import DataError, ParameterError, template
from isonomy.population.population import in_train
from studies.surveys.codes import STATES, birth_areas, check_state, occupation_groups
from studies.surveys.person_files import find_person_files, read_person_file

Piece = tuple[str, int]
IntArray = NDArray[np.int64]
DEFAULT_YEAR = 2018
THRESHOLD = 50_000
LARGEST_PWGTP = 9999.0
"""The largest person weight there can be, by the data dictionary of the survey."""


@dataclass(frozen=True)
class Task:
    """Which persons, which outcome, which columns."""

    name: str
    features: tuple[str, ...]
    needs: tuple[str, ...]  # for the filter and the outcome
    keep: Callable[[pd.DataFrame], pd.Series]
    outcome: Callable[[pd.DataFrame, float], pd.Series]
    outcome_column: str

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """What a person file must hold."""
        return tuple(dict.fromkeys((*self.features, *self.needs, "PWGTP")))


@dataclass(frozen=True)
class Survey:
    """Some pieces as one table: features, outcome, PWGTP, STATE, YEAR, SPLIT."""

    frame: pd.DataFrame
    max_weight: float = LARGEST_PWGTP  # that there can be, not that there is
    notes: tuple[str, ...] = ()  # what a reader must know of the files, one sentence each


class Surveys(Protocol):
    """Where pieces are kept; whatever ``find`` says of a piece is what ``read`` needs to know of it.

    A piece that was downloaded, or that ``find`` knows as a path, is a person file.
    """

    def find(self, task: Task, folders: Iterable[Path], *, dollars: bool = False) -> dict[Piece, Any]:
        """The pieces on this machine; ``dollars`` leaves out files that do not hold the income itself."""
        ...

    def read(self, task: Task, pieces: Sequence[Piece], at_hand: Mapping[Piece, Any], threshold: float) -> Survey:
        """One table of all pieces, in the order given."""
        ...


class PersonFiles:
    """The Census Bureau's own person files."""

    def find(self, task: Task, folders: Iterable[Path], *, dollars: bool = False) -> dict[Piece, Any]:
        """All that lie in the folders; a file in an earlier one comes first."""
        return {piece: file for folder in reversed(tuple(folders)) for piece, file in find_person_files(folder).items()}

    def read(self, task: Task, pieces: Sequence[Piece], at_hand: Mapping[Piece, Any], threshold: float) -> Survey:
        """Those who belong to the task, with the weights of the survey."""
        return Survey(assemble(task, pieces, [read_piece(task, piece, at_hand[piece], threshold) for piece in pieces]))


PERSON_FILES = PersonFiles()

INCOME = Task(
    name="acs-income",
    features=("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"),
    needs=("PINCP",),
    keep=lambda t: (t["AGEP"] > 16) & (t["PINCP"] > 100) & (t["WKHP"] > 0) & (t["PWGTP"] >= 1),
    outcome=lambda t, threshold: t["PINCP"] > threshold,
    outcome_column="PINCP_GT50K",
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
)  # fmt: skip
TASKS = {task.name: task for task in (INCOME, EMPLOYMENT, COVERAGE)}


def choose_pieces(states: Sequence[str] | None, years: Sequence[int] | None, at_hand: Iterable[Piece]) -> list[Piece]:
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
        return sorted(piece for piece in at_hand if piece[1] in chosen_years)
    chosen_states = list(dict.fromkeys(check_state(state) for state in states))
    if not chosen_states or not chosen_years:
        raise ParameterError("'states' and 'years' must name at least one each.")
    return [(state, int(year)) for state in chosen_states for year in chosen_years]


def read_piece(task: Task, piece: Piece, file: Path, threshold: float) -> pd.DataFrame:
    """The rows of a task in a person file."""
    state, year = piece
    return from_persons(
        task, read_person_file(file, task.raw_columns, state, year).assign(STATE=state, YEAR=year), threshold
    )


def from_persons(task: Task, everybody: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """All persons to the rows of a task, each with its number."""
    people = everybody[task.keep(everybody)].reset_index(drop=True)
    if people.empty:
        raise DataError(f"No person of {', '.join(map(str, everybody['STATE'].unique()))} belongs to {task.name!r}.")
    columns = {name: _small(people[name]) for name in (*task.features, "PWGTP")}
    frame = pd.DataFrame({**columns, "STATE": people["STATE"], "YEAR": people["YEAR"].astype(np.int16)})
    frame[label_column(task, threshold)] = task.outcome(people, threshold).to_numpy().astype(np.int8)
    frame["NUMBER"] = person_numbers(frame)
    return frame


def assemble(task: Task, pieces: Sequence[Piece], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table of all rows in the order of their pieces, with their sides of the split in place of their numbers."""
    table = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    places = piece_places(table, pieces)
    if (np.diff(places) < 0).any():
        table = table.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)
    states = pd.Index(list(dict.fromkeys(state for state, _ in pieces)), dtype="object")
    table["STATE"] = pd.Categorical(table["STATE"].to_numpy(), categories=states)
    numbers = table.pop("NUMBER").to_numpy()
    table["SPLIT"] = pd.Categorical.from_codes((~in_train(numbers)).astype(np.int8), pd.Index(["train", "test"]))
    if task is INCOME:
        table["OCCP_MAJOR"], table["POBP_AREA"] = occupation_groups(table["OCCP"]), birth_areas(table["POBP"])
    return table


def label_column(task: Task, threshold: float) -> str:
    """The outcome's column: for the income task it names the threshold."""
    return f"PINCP_GT{threshold:.15g}" if task is INCOME else task.outcome_column


def person_numbers(frame: pd.DataFrame, place: IntArray | None = None) -> IntArray:
    """The number of each person; without a ``place``, rows stand as the Bureau has them."""
    if place is None:
        place = np.asarray(frame.groupby(["STATE", "YEAR"], observed=True, sort=False).cumcount(), dtype=np.int64)
    codes, distinct = pd.factorize(frame["STATE"])
    fips = np.array([STATES[str(state)] for state in distinct], dtype=np.int64)[codes]
    return (frame["YEAR"].to_numpy(dtype=np.int64) * 100 + fips) * 10**7 + place


def piece_places(frame: pd.DataFrame, pieces: Sequence[Piece]) -> IntArray:
    """The place of each row's piece in an order; -1 where it has none."""
    order = {piece: place for place, piece in enumerate(pieces)}
    codes, states = pd.factorize(frame["STATE"])
    years, distinct = pd.factorize(frame["YEAR"])
    table = np.array([[order.get((str(s), int(y)), -1) for y in distinct] for s in states], dtype=np.int64)
    return table[codes, years]


def _small(column: pd.Series) -> pd.Series:
    """Whole numbers in 16 bits where they fit."""
    fits = column.min() >= -(2**15) and column.max() < 2**15
    return column.astype(np.int16 if fits else np.int32)
