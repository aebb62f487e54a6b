"""Everybody as a table: prediction, bounds, decision, and the worst counterpart that was found, in raw units."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.certificates.local import verdicts
from isonomy.population import Schema
from isonomy.report.findings import Findings

OTHER = "counterpart: "
"""In front of a feature's name: the value of the worst counterpart."""


def individuals(findings: Findings, rows: slice = slice(None)) -> pd.DataFrame:
    """One row for each of some individuals, in the order of the certificate.

    ``row`` is the place in the table (0 is the first row after the header), ``upper`` and ``lower`` bound the
    violation, ``decision`` says whether a similar person can get another one, ``differs`` names the features in which
    the worst counterpart differs. Of a redacted audit only ``row``, the bounds, ``decision`` and ``verdict`` are there.
    """
    certificate, people = findings.certificate, findings.people
    local = certificate.local
    upper, lower = local.upper[rows], local.lower[rows]
    table = pd.DataFrame({"row": people.rows[rows], "upper": upper, "lower": lower, "decision": local.decision[rows]})
    if certificate.epsilon is not None:
        table["verdict"] = verdicts(lower, upper, certificate.epsilon)
    if findings.redacted:
        return table
    table.insert(1, "weight", people.weights[rows])
    x, other = np.asarray(people.x[rows]), np.asarray(local.witnesses.counterpart[rows])
    for name, values in predictions(findings, x).items():
        table[name] = values
    for name, values in predictions(findings, other).items():
        table[f"{OTHER}{name}"] = values
    own, theirs = _raw(people.schema, x), _raw(people.schema, other)
    differs = np.array([_unlike(own[name], theirs[name]) for name in own.columns]).T
    table["differs"] = [", ".join(own.columns[row]) for row in differs]
    names = {name: name if name not in table.columns else f"{name} (feature)" for name in own.columns}
    theirs = theirs.rename(columns=lambda name: f"{OTHER}{name}")
    return pd.concat([table, own.rename(columns=names), theirs], axis=1)


def predictions(findings: Findings, x: FloatArray) -> dict[str, FloatArray]:
    """What the network gives: the probability of each class, or numbers, by name."""
    given = findings.network(x)
    label = findings.people.schema.label
    classes = label.classes if label is not None and len(label.classes) == given.shape[1] else ()
    if findings.network.head == "regression":
        names = ["prediction"] if given.shape[1] == 1 else [f"prediction {i}" for i in range(given.shape[1])]
    else:
        names = [f"probability of {name}" for name in classes or range(given.shape[1])]
    return {name: given[:, i] for i, name in enumerate(names)}


def _raw(schema: Schema, x: FloatArray) -> pd.DataFrame:
    table = schema.decode(x)
    mixed = {name: table[name].astype("string") for name in table.columns if table[name].dtype == "object"}
    return table.assign(**mixed)


def _unlike(one: pd.Series, other: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return (one.astype(str) != other.astype(str)).to_numpy(dtype=bool)
