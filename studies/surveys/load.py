"""Populations of the studies by name: the survey tasks and credit, beside those that isonomy bundles."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from isonomy import datasets
from isonomy.datasets.catalogue import ENTRIES as BUNDLED
from isonomy.errors import FileError, ParameterError, template
from isonomy.population import DomainKind, Population, Schema
from isonomy.population.domain import check_kind
from studies.surveys.acs import INCOME, PERSON_FILES, TASKS, THRESHOLD, Surveys, Task, choose_pieces, label_column
from studies.surveys.credit import find_credit, read_credit
from studies.surveys.folder import ENVIRONMENT, DataFolder, Folder
from studies.surveys.person_files import CENSUS_URL, person_file

Encoding = Literal["default", "paper"]
TABLES = Path(__file__).with_name("tables")
_SURVEY_ONLY = ("states", "years", "threshold")


@dataclass(frozen=True)
class Source:
    """A table of the studies; ``here`` names its states and years on this machine, or its file."""

    name: str
    summary: str
    source: str
    licence: str
    size: str
    here: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


def _read_catalogue() -> dict[str, Source]:
    content: dict[str, dict[str, Any]] = tomllib.loads((TABLES / "catalogue.toml").read_text(encoding="utf-8"))
    survey = content.pop("survey")
    entries = {}
    for name, table in content.items():
        shared = survey if name in TASKS else {}
        caveats = (*shared.get("caveats", ()), *table.get("caveats", ()))
        entries[name] = Source(name, **(shared | table | {"caveats": caveats}))
    return entries


ENTRIES: Mapping[str, Source] = _read_catalogue()


@cache
def schema_of(name: str, encoding: Encoding = "default") -> Schema:
    """Read the schema of a table, with the features' own columns or with those of the paper."""
    return Schema.from_toml(TABLES / (f"{name}.toml" if encoding == "default" else f"{name}-{encoding}.toml"))


def available(*, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> tuple[str, ...]:
    """Return the names that :func:`load_population` can load without the network."""
    own = tuple(name for name in ENTRIES if _here(name, DataFolder(folder), surveys))
    return tuple(sorted((*own, *BUNDLED)))


def describe(name: str, *, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> Source:
    """Return source, licence, size and caveats of a survey task or of credit, and what of it is on this machine."""
    return replace(ENTRIES[_check_name(name)], here=_here(name, DataFolder(folder), surveys))


def load_population(
    name: str,
    *,
    domain: DomainKind = "realizable",
    encoding: Encoding = "default",
    states: Sequence[str] | None = None,
    years: Sequence[int] | None = None,
    threshold: float | None = None,
    folder: Folder = None,
    download: bool = True,
    url: str | None = None,
    surveys: Surveys = PERSON_FILES,
) -> Population:
    """Read a population by ``name``, with its schema, in a ``domain``.

    * those that :func:`isonomy.load_population` bundles;
    * ``credit``: 30,000 clients of a bank, default on the next payment; sex and age protected;
    * ``acs-income``, ``acs-employment``, ``acs-coverage``: the tasks of Folktables on the American Community Survey,
      for ``states`` (postal codes; default: all that are on this machine) and ``years`` (default: 2018); sex and race
      protected. ``threshold`` is the income limit in dollars, 50,000 by default.

    ``encoding="paper"`` gives the columns of the paper "Certification of Distributional Individual Fairness": codes
    read as numbers, few one-hot features, sex protected and not seen by the model.

    Files are looked for in ``folder`` or the one that ``ISONOMY_DATA`` names, then downloaded (unless
    ``download=False``) from the Census Bureau or UCI, or from ``url`` (``ISONOMY_CENSUS_URL``, ``ISONOMY_UCI_URL``).
    All tables of a task have the same coordinates, whatever states and years they hold. ``surveys`` may be another way
    to keep survey files than the Bureau's own.
    """
    given = {"states": states, "years": years, "threshold": threshold}
    allowed = _SURVEY_ONLY if name == INCOME.name else _SURVEY_ONLY[:2] if name in TASKS else ()
    for key, value in given.items():
        if value is not None and key not in allowed:
            raise ParameterError(f"{key!r} has no meaning for {name!r}: leave it out. Got {value!r}.")
    if name in BUNDLED:
        return datasets.load_population(name, domain=domain)
    _check_name(name)
    check_kind(domain)
    if encoding not in ("default", "paper"):
        raise ParameterError(template("encoding", f"'default' or 'paper' for {name!r}", encoding))
    place, schema = DataFolder(folder, download, url), schema_of(name, encoding)
    if name in TASKS:
        frame, schema = _read_survey(
            TASKS[name], schema, states, years, THRESHOLD if threshold is None else threshold, place, surveys
        )
    else:
        frame = read_credit(place)
    return Population.from_frame(frame, schema, domain=domain)


def _read_survey(
    task: Task,
    schema: Schema,
    states: Sequence[str] | None,
    years: Sequence[int] | None,
    threshold: float,
    folder: DataFolder,
    surveys: Surveys,
) -> tuple[pd.DataFrame, Schema]:
    """The table of a survey task, and the task's schema with what is known of these files."""
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 100 <= threshold < 1e9:
        raise ParameterError(template("threshold", "an income in dollars from 100", threshold))
    dollars = task is INCOME and threshold != THRESHOLD
    at_hand = surveys.find(task, folder.places, dollars=dollars)
    pieces = choose_pieces(states, years, at_hand)
    if not pieces:
        where = "the folder named" if folder.places else f"{ENVIRONMENT} is not set, so"
        raise FileError(
            f"No table of {task.name!r} for these years is on this machine ({where} holds none): name the 'states' to "
            f"download, or set {ENVIRONMENT} to a folder with person files such as {person_file('CA', 2018)}."
        )
    for state, year in pieces:
        if (state, year) not in at_hand:
            what = f"The survey of {year} for {state}{' with incomes in dollars' * dollars}"
            at_hand[state, year] = folder.fetch(what, person_file(state, year), CENSUS_URL, "ISONOMY_CENSUS_URL")
    survey = surveys.read(task, pieces, at_hand, threshold)
    notes, label = list(survey.notes), schema.label
    if task is INCOME and len({year >= 2018 for _, year in pieces}) == 2:
        notes.append("Occupation codes follow the list of 2010 in surveys up to 2017 and that of 2018 after.")
    if dollars and label is not None:
        limit = f"{threshold:,.15g} dollars"
        words = {"0": f"at most {limit}", "1": f"above {limit}"}
        label = replace(label, column=label_column(task, threshold), labels=words)
    description = " ".join([schema.description, *notes])
    return survey.frame, replace(schema, label=label, description=description, max_weight=survey.max_weight)


def _here(name: str, folder: DataFolder, surveys: Surveys) -> tuple[str, ...]:
    if name in TASKS:
        return tuple(f"{state} {year}" for state, year in sorted(surveys.find(TASKS[name], folder.places)))
    file = find_credit(folder)
    return () if file is None else (str(file),)


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or name not in ENTRIES:
        raise ParameterError(template("name", f"one of {', '.join(map(repr, (*ENTRIES, *BUNDLED)))}", name))
    return str(name)
