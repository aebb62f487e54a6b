"""Populations by name."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from isonomy.datasets.acs import (
    INCOME,
    PERSON_FILES,
    TASKS,
    THRESHOLD,
    Surveys,
    Task,
    choose_pieces,
    label_column,
)
from isonomy.datasets.catalogue import ENTRIES, Description, Encoding
from isonomy.datasets.credit import find_credit, read_credit
from isonomy.datasets.folder import ENVIRONMENT, Folder, download_zip, find_folders
from isonomy.datasets.moons import make_moons
from isonomy.datasets.person_files import CENSUS_URL, person_file
from isonomy.errors import FileError, ParameterError, template
from isonomy.population import DomainKind, Population, Schema
from isonomy.population.domain import check_kind

_BUNDLED = ("adult", "german")
_SURVEY_ONLY = ("states", "years", "threshold")


def available(*, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> tuple[str, ...]:
    """The names that :func:`load_population` can load here and now, without the network."""
    return tuple(name for name in ENTRIES if _here(name, folder, surveys))


def describe(name: str, *, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> Description:
    """Source, licence, size, protected attributes, caveats of a table, and what of it is on this machine."""
    entry = ENTRIES[_check_name(name)]
    schema = make_moons(2).schema if name == "moons" else _schema(name, "default")
    return Description(
        **vars(entry), name=name, protected=schema.protected, proxies=schema.proxies,
        here=_here(name, folder, surveys),
    )  # fmt: skip


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
    """A population of the catalogue by ``name``, with its schema, in a ``domain``; :func:`describe` tells more.

    * ``adult``: 48,842 people of the US census, income above 50,000 dollars; sex and race protected;
    * ``german``: 1,000 loan applicants, good or bad risk; sex and marital status, age, foreign worker
      protected;
    * ``moons``: two interleaved half circles, the vertical coordinate protected; see :func:`make_moons`;
    * ``credit``: 30,000 clients of a bank, default on the next payment; sex and age protected;
    * ``acs-income``, ``acs-employment``, ``acs-coverage``: the tasks of Folktables on the American Community Survey,
      for ``states`` (postal codes; default: all that are on this machine) and ``years`` (default: 2018); sex and race
      protected. ``threshold`` is the income limit in dollars, 50,000 by default.

    ``encoding="paper"`` gives the columns of the paper "Certification of Distributional Individual Fairness" (credit
    and the survey tasks): codes read as numbers, few one-hot features, sex protected and not seen by the model.

    The first three are bundled. The others are looked for in ``folder`` or the one that ``ISONOMY_DATA`` names, then
    downloaded (unless ``download=False``) from the Census Bureau or UCI, or from ``url`` (``ISONOMY_CENSUS_URL``,
    ``ISONOMY_UCI_URL``) instead; this needs ``isonomy[data]``. All tables of a task have the same coordinates, whatever
    states and years they hold. ``surveys`` may be another way to keep survey files than the Bureau's own.
    """
    entry = ENTRIES[_check_name(name)]
    check_kind(domain)
    if encoding not in entry.encodings:
        known = " or ".join(map(repr, entry.encodings))
        raise ParameterError(template("encoding", f"{known} for {name!r}", encoding))
    given = {"states": states, "years": years, "threshold": threshold}
    allowed = _SURVEY_ONLY if name == INCOME.name else _SURVEY_ONLY[:2] if name in TASKS else ()
    for key, value in given.items():
        if value is not None and key not in allowed:
            raise ParameterError(f"{key!r} has no meaning for {name!r}: leave it out. Got {value!r}.")
    if name == "moons":
        return make_moons(domain=domain)
    if name in TASKS:
        limit = THRESHOLD if threshold is None else threshold
        return _load_survey(TASKS[name], encoding, states, years, limit, domain, folder, download, url, surveys)
    if name == "credit":
        frame = read_credit(folder, download=download, url=url)
    else:
        table = files("isonomy.datasets").joinpath("tables").joinpath(f"{name}.parquet")
        frame = pd.read_parquet(io.BytesIO(table.read_bytes()))
    return Population.from_frame(frame, _schema(name, encoding), domain=domain)


def _load_survey(
    task: Task,
    encoding: Encoding,
    states: Sequence[str] | None,
    years: Sequence[int] | None,
    threshold: float,
    domain: DomainKind,
    folder: Folder,
    download: bool,
    url: str | None,
    surveys: Surveys,
) -> Population:
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 100 <= threshold < 1e9:
        raise ParameterError(template("threshold", "an income in dollars from 100", threshold))
    dollars = task is INCOME and threshold != THRESHOLD
    found = surveys.find(task, find_folders(folder), dollars=dollars)
    pieces = choose_pieces(states, years, found)
    if not pieces:
        where = "the folder named" if find_folders(folder) else f"{ENVIRONMENT} is not set, so"
        raise FileError(
            f"No table of {task.name!r} for these years is on this machine ({where} holds none): name the 'states' to "
            f"download, or set {ENVIRONMENT} to a folder with person files such as {person_file('CA', 2018)}."
        )
    base = (url or os.environ.get("ISONOMY_CENSUS_URL") or CENSUS_URL).rstrip("/")
    for state, year in pieces:
        if (state, year) not in found:
            what = f"The survey of {year} for {state}{' with incomes in dollars' * dollars}"
            place = person_file(state, year)
            found[state, year] = download_zip(what, f"{base}/{place}", place, folder, allowed=download)
    survey = surveys.read(task, pieces, found, threshold)
    schema, notes = _survey_schema(task, encoding, threshold), list(survey.notes)
    if task is INCOME and len({year >= 2018 for _, year in pieces}) == 2:
        notes.append("Occupation codes follow the list of 2010 in surveys up to 2017 and that of 2018 after.")
    schema = replace(schema, description=" ".join([schema.description, *notes]), max_weight=survey.max_weight)
    return Population.from_frame(survey.frame, schema, domain=domain)


def _survey_schema(task: Task, encoding: Encoding, threshold: float) -> Schema:
    schema = _schema(task.name, encoding)
    if task is not INCOME or threshold == THRESHOLD or schema.label is None:
        return schema
    limit = f"{threshold:,.15g} dollars"
    words = {"0": f"at most {limit}", "1": f"above {limit}"}
    return replace(schema, label=replace(schema.label, column=label_column(task, threshold), labels=words))


def _here(name: str, folder: Folder, surveys: Surveys) -> tuple[str, ...]:
    if name in TASKS:
        return tuple(f"{state} {year}" for state, year in sorted(surveys.find(TASKS[name], find_folders(folder))))
    if name == "credit":
        file = find_credit(folder)
        return () if file is None else (str(file),)
    return ("generated",) if name == "moons" else ("bundled",)


@cache
def _schema(name: str, encoding: Encoding) -> Schema:
    file = f"{name}.toml" if encoding == "default" else f"{name}-{encoding}.toml"
    return Schema.from_toml(files("isonomy.datasets").joinpath("tables").joinpath(file).read_text(encoding="utf-8"))


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or name not in ENTRIES:
        raise ParameterError(template("name", f"one of {', '.join(map(repr, ENTRIES))}", name))
    return str(name)
