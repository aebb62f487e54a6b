"""Random features with rows that fit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from isonomy.population import Feature, Schema

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What TOML, CSV and people find difficult.
names = st.text("ab C?=.#[]'\"\\\n\t\x00\x7fé🙂1-", min_size=1, max_size=6)
sizes = st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3) | st.integers(-1000, 1000).map(float)
units = st.floats(1e-6, 1e6)


@dataclass(frozen=True)
class Case:
    """A schema and a frame that fits it."""

    schema: Schema
    frame: pd.DataFrame


@st.composite
def features(draw: st.DrawFn, name: str = "feature") -> Feature:
    kind = draw(st.sampled_from(["numeric", "integer", "ordinal", "categorical"]))
    given: dict[str, Any] = {flag: draw(st.booleans()) for flag in ("protected", "immutable", "seen", "proxy")}
    given["description"] = draw(st.just("") | names)
    if draw(st.booleans()) and kind != "categorical":
        given |= {"origin": draw(sizes), "unit": draw(units)}
    if kind in ("ordinal", "categorical"):
        categories = tuple(draw(st.lists(names, min_size=2, max_size=5, unique=True)))
        given["labels"] = {categories[0]: draw(names)} if draw(st.booleans()) else {}
        if draw(st.booleans()):
            given |= {"missing": "category", "missing_label": "absent one", "missing_values": ("no such",)}
            given["fill"] = draw(st.sampled_from([None, *categories])) if kind == "ordinal" else None
        return Feature(name, kind, categories=categories, **given)
    whole = kind == "integer"
    low, high = sorted(draw(st.lists(sizes.map(lambda v: float(round(v)) if whole else v), min_size=2, max_size=2)))
    if draw(st.booleans()) and (high - low > 1e-100 or "unit" in given or high == low):
        given |= {"low": low, "high": high}
    if draw(st.booleans()):
        given |= {"fill": low, "missing_values": ("?", "-7777777")}
    if draw(st.booleans()):
        given[draw(st.sampled_from(["tolerance", "relative_tolerance"]))] = draw(st.floats(0, 10))
    return Feature(name, kind, **given)


def cells(feature: Feature) -> st.SearchStrategy[Any]:
    """Raw values that fit a feature, missing ones included where it has a place for them."""
    if feature.kind in ("ordinal", "categorical"):
        usual: st.SearchStrategy[Any] = st.sampled_from(feature.categories)
        return usual | st.none() if feature.flagged or feature.missing == "category" else usual
    low = feature.low if np.isfinite(feature.low) else -1e7
    high = feature.high if np.isfinite(feature.high) else 1e7
    usual = st.integers(int(low), int(high)) if feature.kind == "integer" else st.floats(low + 0.0, high + 0.0)
    return usual | st.none() if feature.flagged else usual


@st.composite
def cases(draw: st.DrawFn, most_features: int = 4, most_rows: int = 6) -> Case:
    count = draw(st.integers(1, most_features))
    columns = [draw(features(f"column {i}")) for i in range(count)]
    rows = draw(st.integers(1, most_rows))
    frame = pd.DataFrame(
        {f.name: pd.Series(draw(st.lists(cells(f), min_size=rows, max_size=rows)), dtype="object") for f in columns}
    )
    return Case(Schema("random", tuple(columns)), frame)
