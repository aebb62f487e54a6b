"""The first files of an audit: a commented ``schema.toml`` and ``audit.toml``, with every guess marked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.auditing.guess import (
    ROWS,
    Guess,
    Reading,
    guess_reading,
    guess_schema,
    read_unknown,
    scored,
    with_categories,
    with_codes,
)
from isonomy.auditing.plan import LARGE, PANELS, READING, Plan, Roles
from isonomy.errors import FileError, NetworkError
from isonomy.fairness.reading import percent
from isonomy.files import atomic
from isonomy.loading import gives_numbers, open_source
from isonomy.options import options_of
from isonomy.population import Dialect, Population, Schema
from isonomy.population.outcome import decided
from isonomy.population.tables import CELLS
from isonomy.population.toml import write_key, write_value


@dataclass(frozen=True)
class Proposal:
    """The two texts, and notes on what to check before an audit."""

    schema: str
    audit: str
    notes: tuple[str, ...]
    ready: bool  # the audit can run as it is


@dataclass(frozen=True, eq=False)
class Draft:
    """What is guessed of a table and a model: the schema, the people that fit it, and how the model reads them."""

    guess: Guess
    schema: Schema
    people: Population
    reading: Reading
    notes: tuple[str, ...]
    ready: bool  # the audit can run as it is
    id_remark: str = ""


def propose(data: Path, model: Path, roles: Roles, folder: Path = Path(), table_limit: int = CELLS) -> Proposal:
    """Look at a table, of at most ``table_limit`` cells, and a model; propose a schema and a plan for ``folder``."""
    if not model.is_file():
        raise FileError(f"There is no file '{model}'.")
    table, dialect, marks = read_unknown(data, table_limit)
    made = draft(table, marks, data.name.split(".")[0], model, roles)
    known = {"data": relative(data, folder), "model": relative(model, folder)}
    guesses = dialect_guesses(data, dialect)
    if table_limit != CELLS:
        guesses["table_limit"] = table_limit, "as given"
    return Proposal(schema_text(made), audit_text(made, known, guesses), made.notes, made.ready)


def draft(
    table: pd.DataFrame, marks: dict[str, tuple[str, ...]], name: str, model: Any, roles: Roles,
    given: Mapping[str, Any] | None = None, schema: Schema | None = None,
) -> Draft:  # fmt: skip
    """Look at a ``table`` called ``name``, whose cells ``marks`` mean missing, and a ``model``, a path or an object;
    guess what is not ``given``: options of reading, or the ``schema``."""
    for every in (False, True):  # a model may read what looks like a further outcome
        guess = Guess(schema) if schema is not None else guess_schema(
            table, marks, name, roles, numbers=gives_numbers(model), every=every
        )  # fmt: skip
        guess = guess if schema is not None else with_categories(guess, model, table)
        people = Population.from_frame(with_codes(table, guess.schema), guess.schema, unknown="exclude")
        reading, fitting = _reading_of(model, people, given, schema)
        if not reading.problem:
            break
    declared = replace(guess.schema, inputs=reading.inputs)
    remark = _id_remark(roles)
    by_id = f"people are named by column {declared.id!r}, which is no feature{remark}"
    notes = [] if declared.id is None else [by_id]
    notes += [f"left out of the schema: column {name!r}, {why}" for name, why in guess.left_out.items()]
    if people.excluded:
        rows = "1 row does" if people.excluded == 1 else f"{people.excluded:,} rows do"
        notes.append(f"{rows} not fit the guessed schema, such as rows without a label")
    if not declared.protected:
        notes.append("no feature is protected: say which with --protected, or write protected = true in the schema")
    if declared.label is None:
        notes.append("no label: the reading of the model cannot be judged by its predictions; say which with --label")
    notes += _reading_notes(reading, fitting, people)
    notes += _outcome_notes(guess, reading, people)
    ready = not (reading.problem or _undetermined(reading, fitting))
    return Draft(guess, declared, people, reading, tuple(notes), ready, remark)


def _reading_of(
    model: Any, people: Population, given: Mapping[str, Any] | None, schema: Schema | None
) -> tuple[Reading, list[Reading]]:
    """Return how a model reads people, as their own ``schema`` says where that is enough, else the best guess."""
    if schema is not None:
        try:
            opened = open_source(model, schema, **(given or {}))
        except NetworkError:
            if schema.inputs:
                raise
        else:
            reading = Reading(schema.inputs, dict(given or {}), "as the schema says", known=True)
            return scored(reading, opened, people), []
    return guess_reading(model, people, given)


def save(proposal: Proposal, folder: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write both files; refuse to replace existing ones unless ``force``."""
    targets = folder / "schema.toml", folder / "audit.toml"
    for target in targets:
        if target.exists() and not force:
            raise FileError(f"{target} is there already: remove it, name another folder with --out, or say --force.")
    for target, text in zip(targets, (proposal.schema, proposal.audit), strict=True):
        with atomic(target) as partial:
            partial.write_text(text, encoding="utf-8")
    return targets


def _undetermined(reading: Reading, fitting: list[Reading]) -> bool:
    """Return whether several readings fit and no outcome decides between them."""
    return not reading.known and len(fitting) > 1 and math.isinf(reading.score)


def _reading_notes(reading: Reading, fitting: list[Reading], people: Population) -> list[str]:
    if reading.problem:
        return [f"the model cannot be read yet: {reading.problem}"]
    notes = [] if reading.known else [f"guess, of {len(fitting)} that fit: the model reads {reading.what}"]
    if not reading.known and ("standardised" in reading.what or "from 0 to 1" in reading.what):
        notes.append(
            "the numbers of its scaler are those of this table, a guess too: what is proved is about the model as it "
            "is read, so write your own scaler's into [model.inputs]"
        )
    if _undetermined(reading, fitting):
        notes.append("nothing tells which of these readings is right: write [model.inputs] yourself before the audit")
    if reading.accuracy is not None:
        weights = people.weights / people.weights.max()
        shares = np.bincount(np.asarray(people.y, dtype=np.int64), weights) / weights.sum()
        other = next((each.accuracy for each in fitting[1:] if each.accuracy != reading.accuracy), None)
        next_best = f"; the next reading {other:.3f}" if other is not None else ""
        base = f"; always saying the most frequent class is right for {shares.max():.3f}"
        words = f"Read as the schema says, the model's accuracy on {_compared_on(people)} is {reading.accuracy:.3f}"
        notes.append(f"{words}{next_best}{base}")
        if reading.other is not None:
            notes.append(
                f"the model is probably read the wrong way round: {reading.other}; correct the order of 'classes' in "
                "[label] (a file that names its classes was fitted on other labels), or audit it with --as-read"
            )
        elif reading.accuracy <= shares.max():
            notes.append(
                f"that is no better than always saying the most frequent class ({shares.max():.3f}): check the order "
                "of [label] classes and [model.inputs]"
            )
    if reading.r2 is not None:
        notes.append(f"Read as the schema says, the model's R² on this table is {reading.r2:.3f}")
        if reading.r2 <= 0:
            notes.append("that is no better than always saying the mean outcome: check [label] and [model.inputs]")
    return notes


def _compared_on(people: Population) -> str:
    """Return the phrase for the people on whom readings were compared."""
    return "this table" if len(people) <= ROWS else f"{ROWS:,} people of this table, drawn at random,"


NAME_IT = (
    'no favourable outcome is named, so groups will not be compared: write favourable = "CLASS" in [label], or say '
    "--favourable CLASS"
)


def _outcome_notes(guess: Guess, reading: Reading, people: Population) -> list[str]:
    """Return notes on the shares of each class in outcomes and decisions, and on the favourable class."""
    label = guess.schema.label
    if label is None or people.y is None:
        return []
    if label.regression:
        if label.threshold is None:
            return ["the outcome is a number without a cut-off, so there are no decisions: name one with --threshold"]
        classes: tuple[str, ...] = ("low", "high")
        actual = decided(np.asarray(people.y, dtype=np.float64)[:, None], label, regression=True)
    else:
        classes, actual = label.classes, np.asarray(people.y, dtype=np.int64)
    weights = people.weights / people.weights.sum()
    rates = []
    for place, name in enumerate(classes):
        about = "" if len(people) <= ROWS else f" about {_compared_on(people)}"
        given = f", {percent(reading.shares[place])} of the model's decisions{about}" if reading.shares else ""
        rates.append(f"{name!r} {percent(float(weights[actual == place].sum()))} of the outcomes in this table{given}")
    notes = [f"{label.column}: {'; '.join(rates)}"]
    named = " and ".join(map(repr, label.favourable))
    if guess.favour:
        notes.append(f"guess, from the words: {named} is what people hope for; if not, correct favourable in [label]")
    return notes if named else [*notes, NAME_IT.replace("CLASS", "high") if label.regression else NAME_IT]


_SCHEMA_HEAD = """\
# Written by 'isonomy init'. Lines marked "guess" come from this one table: read and correct them.
#   protected = true      must not matter: counterparts may differ in it
#   proxy = true          stands in for a protected feature: counterparts may differ in it too
#   tolerance = 2         counterparts may differ by 2 in this feature (relative_tolerance = 0.05: by 5 %)
#   immutable = true      similar people agree on it
#   id = "column"         above all tables: names people in what is written; no feature
#   seen = false          the model does not read it
"""


def _id_remark(roles: Roles) -> str:
    """Return the remark that the id is a guess; "" where it was given."""
    return "" if roles.id else " (a guess: it looks like an identifier, and every row has another value)"


def schema_text(made: Draft) -> str:
    """Return the schema as text, with a remark at each table and at the id."""
    schema, guess, reading, id_remark = made.schema, made.guess, made.reading, made.id_remark
    remarks = {f"[features.{write_key(name)}]": text for name, text in guess.remarks.items()}
    remarks[f"id = {write_value(schema.id or '')}"] = f"names people; no feature{id_remark}."
    if schema.label is not None and schema.label.classes:
        remarks["[label]"] = "guess: classes in sorted order; they must be in the order of the model's outputs."
    lines = [_SCHEMA_HEAD, *(f"# left out: {name!r}, {why}" for name, why in guess.left_out.items())]
    for line in dropwhile(lambda line: line.startswith("#"), schema.to_toml().splitlines()):  # the head says more
        if line == "[model.inputs]":
            lines += ["# How the model reads a row, a guess: " + reading.what + "."]
            lines += ["# Write the numbers of your own scaler; docs/reference/formats.md has all keys."]
        mark = "  # guess, from the words of the classes" if guess.favour and line.startswith("favourable = ") else ""
        lines.append(f"{line}{mark}")
        if line in remarks:
            lines.append(f"# {remarks[line]}")
        if line == "[label]" and schema.label is not None and not schema.label.favourable:
            first = (schema.label.classes or ("low", "high"))[-1]
            lines.append(
                f"# favourable = {write_value(first)}  # TO DO: the one that people hope for, to compare groups"
            )
    if reading.problem:
        lines += ["", f"# TO DO: {reading.problem}"]
    if "[model.inputs]" in reading.problem:
        lines += ["# For example:", "#", "# [model.inputs]", f"# columns = {write_value(list(schema.slices)[:3])}", "#"]
    return "\n".join(lines) + "\n"


def relative(path: Path, folder: Path) -> str:
    """Return a path as a file in ``folder`` names it."""
    return Path(os.path.relpath(str(path), str(folder))).as_posix()


def dialect_guesses(data: Path, dialect: Dialect) -> dict[str, tuple[Any, str]]:
    """Return what was guessed of how a CSV file is written, each with the reason."""
    usual = Dialect("\t" if data.name.lower().removesuffix(".gz").endswith(".tsv") else ",")
    seen = {"separator": "guess, from the first line", "encoding": "guess: it is not plain UTF-8",
            "decimal": "guess: numbers are written 3,14"}  # fmt: skip
    return {
        key: (getattr(dialect, key), why) for key, why in seen.items() if getattr(dialect, key) != getattr(usual, key)
    }


def audit_text(made: Draft, known: Mapping[str, Any], given: Mapping[str, tuple[Any, str]], by: str = "init") -> str:
    """Return every option of a plan by its panel, with values that are ``known``; those of reading and of large tables
    only where they are guessed or ``given``."""
    people, guesses = made.people, {key: (value, "guess") for key, value in made.reading.options.items()}
    if people.excluded:
        guesses["unknown"] = "exclude", f"guess: {people.excluded} rows do not fit the schema and are left out"
    guesses |= given
    known = {"name": people.schema.name, "schema": "schema.toml", **known}
    part = "rows that the schema's split column calls test" if people.schema.split else "all rows"
    remarks = {
        "delta": "1: counterparts with the tolerances of the schema as written. ", "split": f"Here auto is: {part}. ",
    }  # fmt: skip
    lines = [f"# Written by 'isonomy {by}'; run it with 'isonomy audit audit.toml'. Paths are relative to this file."]
    options = sorted(options_of(Plan).values(), key=lambda each: PANELS.index(each.panel))
    for panel, group in groupby(options, key=lambda each: each.panel):
        block = []
        for each in group:
            value, words = guesses.get(each.name, (known.get(each.name, each.default), each.words))
            shown = value if value not in (None, ()) else each.example
            if shown is not None and (each.name in guesses or panel not in (READING, LARGE)):
                mark = "" if value is shown else "# "
                block.append(f"{mark}{each.name} = {write_value(shown)}  # {remarks.get(each.name, '')}{words}")
        lines += ["", f"# {panel}", *block] if block else []
    return "\n".join([*lines, ""])
