"""A small population with every kind of feature, two of them protected."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isonomy.population import Feature, Population, Schema


def schema(protected: tuple[str, ...] = ("sex", "age"), weighted: bool = False) -> Schema:
    features = (
        Feature("income", low=1.0, high=1000.0, origin=0.0, unit=100.0, relative_tolerance=0.05),
        Feature("sex", "categorical", categories=("female", "male", "other")),
        Feature("age", "integer", low=18, high=90, tolerance=2.0),
        Feature("hours", "integer", low=0, high=100, tolerance=3.0, fill=40),
        Feature("school", "ordinal", categories=("primary", "secondary", "university"), tolerance=1.0),
        Feature("job", "categorical", categories=("clerk", "nurse")),
        Feature("constant", low=0.0, high=1.0),
    )
    marked = [Feature(**{**vars(f), "protected": f.name in protected}) for f in features]
    return Schema("people", tuple(marked), weight="copies" if weighted else None)


def people(
    n: int = 400, protected: tuple[str, ...] = ("sex", "age"), weighted: bool = False, repeated: bool = False
) -> Population:
    rng = np.random.default_rng(7)
    sex = rng.choice(["female", "male", "other"], n, p=[0.5, 0.4, 0.1])
    age = rng.integers(18, 91, n)
    hours = np.clip(20 + 10 * (sex == "male") + age // 4 + rng.integers(0, 9, n), 0, 100).astype(float)
    frame = pd.DataFrame(
        {
            "income": np.clip(100 + 5.0 * age + 100 * (sex == "male") + rng.normal(0, 50, n), 1, 1000),
            "sex": sex,
            "age": age,
            "hours": np.where(rng.random(n) < 0.1, np.nan, hours),
            "school": rng.choice(["primary", "secondary", "university"], n),
            "job": np.where(rng.random(n) < 0.2 + 0.5 * (sex == "female"), "nurse", "clerk"),
            "constant": 0.3,
            "copies": np.arange(n) % 3,
        }
    )
    if repeated:
        frame = frame.loc[frame.index.repeat(frame["copies"])].assign(copies=1).reset_index(drop=True)
    return Population.from_frame(frame, schema(protected, weighted))
