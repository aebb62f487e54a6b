"""A schema with every kind of feature, and random raw rows that fit it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isonomy.population.schema import Schema

SCHEMA = """
name = "people"

[label]
column = "outcome"
classes = ["no", "yes"]

[features.age]
kind = "integer"
low = 18
high = 90
origin = 40
unit = 12.5

[features.income]
low = 0
high = 300
fill = 37.3

[features.sex]
categories = ["female", "male"]
protected = true

[features.job]
categories = ["clerk", "cook", "judge", "nurse"]
missing = "category"

[features.grade]
kind = "ordinal"
categories = ["low", "mid", "high"]

[features.union]
kind = "integer"
low = 0
high = 1
"""


def schema(extra: str = "") -> Schema:
    return Schema.from_toml(SCHEMA + extra)


def rows(n: int = 200, seed: int = 0, *, gaps: bool = True) -> pd.DataFrame:
    """Raw rows, with missing cells where the schema allows them."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 91, n),
            "income": draw.uniform(0, 300, n),
            "sex": draw.choice(["female", "male"], n),
            "job": draw.choice(["clerk", "cook", "judge", "nurse"], n).astype(object),
            "grade": draw.choice(["low", "mid", "high"], n),
            "union": draw.integers(0, 2, n),
        }
    )
    if gaps:
        frame.loc[draw.random(n) < 0.15, "income"] = np.nan
        frame.loc[draw.random(n) < 0.15, "job"] = np.nan
    return frame


def outcome(frame: pd.DataFrame, classes: tuple[str, ...] = ("no", "yes"), seed: int = 1) -> np.ndarray:
    """A label that depends on the row."""
    score = frame["age"] / 40 + frame["income"].fillna(50) / 150 + 0.5 * (frame["sex"] == "male")
    score = score + 0.3 * np.random.default_rng(seed).standard_normal(len(frame))
    ranks = np.digitize(score, np.quantile(score, np.linspace(0, 1, len(classes) + 1)[1:-1]))
    return np.array(classes)[ranks]
