"""Small populations with known groups, for the tests of group fairness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isonomy.population import Feature, Label, Population, Schema

SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True)
RACE = Feature("race", "categorical", categories=("a", "b", "c"), protected=True)
AGE = Feature("age", "integer", low=20, high=60, protected=True)
PAY = Feature("pay", "numeric", low=0.0, high=1.0)


def population(
    frame: dict[str, Any],
    *features: Feature,
    classes: tuple[str, ...] = ("no", "yes"),
    label: bool = True,
    weight: bool = False,
    named: bool = True,
) -> Population:
    """People whose last class is the favourable one, unless none is ``named``."""
    schema = Schema(
        name="small",
        features=features or (SEX, PAY),
        label=Label("y", classes, favourable=classes[-1:] if named else ()) if label else None,
        weight="w" if weight else None,
    )
    n = len(next(iter(frame.values())))
    return Population.from_frame(pd.DataFrame({"pay": np.zeros(n)} | frame), schema)


def random_people(seed: int, n: int = 400, *, weight: bool = True) -> tuple[Population, np.ndarray]:
    """Sex, race and outcomes that depend on them, uneven weights; and predictions as places of classes."""
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.choice(3, n, p=[0.6, 0.3, 0.1])
    y = rng.random(n) < 0.3 + 0.2 * sex + 0.1 * race
    predicted = (rng.random(n) < 0.2 + 0.3 * y + 0.1 * sex + 0.05 * race).astype(np.int64)
    frame = {
        "sex": np.array(["f", "m"])[sex],
        "race": np.array(["a", "b", "c"])[race],
        "y": np.where(y, "yes", "no"),
        "w": rng.gamma(2.0, 1.0, n) + 0.1,
    }
    return population(frame, SEX, RACE, PAY, weight=weight), predicted
