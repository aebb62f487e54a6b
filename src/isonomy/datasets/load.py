"""Populations by name."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
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
from isonomy.datasets.catalogue import ENTRIES, TABLES, Description, Encoding, schema_of
from isonomy.datasets.credit import find_credit, read_credit
from isonomy.datasets.folder import ENVIRONMENT, DataFolder, Folder
from isonomy.datasets.person_files import CENSUS_URL, person_file
from isonomy.errors import FileError, ParameterError, template
from isonomy.population import DomainKind, Population, Schema
from isonomy.population.domain import check_kind

_SURVEY_ONLY = ("states", "years", "threshold")


def available(*, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> tuple[str, ...]:
    """The names that :func:`load_population` can load here and now, without the network."""
    return tuple(name for name in ENTRIES if _here(name, DataFolder(folder), surveys))


def describe(name: str, *, folder: Folder = None, surveys: Surveys = PERSON_FILES) -> Description:
    """Source, licence, size, protected attributes, caveats of a table, and what of it is on this machine."""
    entry, schema = ENTRIES[_check_name(name)], schema_of(name)
    here = _here(name, DataFolder(folder), surveys)
    return Description(**vars(entry), name=name, protected=schema.protected, proxies=schema.proxies, here=here)


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
    place, schema = DataFolder(folder, download, url), schema_of(name, encoding)
    if name in TASKS:
        frame, schema = _read_survey(
            TASKS[name], schema, states, years, THRESHOLD if threshold is None else threshold, place, surveys
        )
    elif name == "credit":
        frame = read_credit(place)
    else:
        frame = pd.read_parquet(io.BytesIO(TABLES.joinpath(f"{name}.parquet").read_bytes()))
    return Population.from_frame(frame, schema, domain=domain)


def make_moons(n: int = 1000, *, noise: float = 0.1, seed: int = 0, domain: DomainKind = "realizable") -> Population:
    """``n`` individuals on two interleaved half circles, with Gaussian noise, within the schema's range."""
    if n < 2:
        raise ParameterError(template("n", "a whole number >= 2", n))
    if not 0 <= noise < np.inf:
        raise ParameterError(template("noise", "a finite number >= 0", noise))
    schema, generator = schema_of("moons"), np.random.default_rng(seed)
    lower = np.arange(n) % 2 == 1
    angle = generator.uniform(0.0, np.pi, n)
    horizontal = np.where(lower, 1.0 - np.cos(angle), np.cos(angle))
    vertical = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    frame = pd.DataFrame({"moon": np.where(lower, "lower", "upper")})
    for feature, exact in zip(schema.features, (horizontal, vertical), strict=True):
        frame[feature.name] = np.clip(exact + generator.normal(0.0, noise, n), feature.low, feature.high)
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
    if name == "credit":
        file = find_credit(folder)
        return () if file is None else (str(file),)
    return ("generated",) if name == "moons" else ("bundled",)


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or name not in ENTRIES:
        raise ParameterError(template("name", f"one of {', '.join(map(repr, ENTRIES))}", name))
    return str(name)
