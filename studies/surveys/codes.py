"""Codes of the American Community Survey: states, occupations, places of birth, relationships.

The Census Bureau's PUMS data dictionaries define them. Grouping by ranges, not by lists of codes, lets one schema read
every year: new codes are given numbers inside the range of their group.
"""

from __future__ import annotations

import difflib

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.errors import DataError, ParameterError

IntArray = NDArray[np.int64]

# Postal code: FIPS code, by which Census files are numbered. Folktables leaves DC out; the Bureau has it.
STATES = {
    "AL": 1, "AK": 2, "AZ": 4, "AR": 5, "CA": 6, "CO": 8, "CT": 9, "DE": 10, "DC": 11, "FL": 12, "GA": 13, "HI": 15,
    "ID": 16, "IL": 17, "IN": 18, "IA": 19, "KS": 20, "KY": 21, "LA": 22, "ME": 23, "MD": 24, "MA": 25, "MI": 26,
    "MN": 27, "MS": 28, "MO": 29, "MT": 30, "NE": 31, "NV": 32, "NH": 33, "NJ": 34, "NM": 35, "NY": 36, "NC": 37,
    "ND": 38, "OH": 39, "OK": 40, "OR": 41, "PA": 42, "RI": 44, "SC": 45, "SD": 46, "TN": 47, "TX": 48, "UT": 49,
    "VT": 50, "VA": 51, "WA": 53, "WV": 54, "WI": 55, "WY": 56, "PR": 72,
}  # fmt: skip

# Lowest code of each major group of occupations, the same in the lists of 2010 (surveys to 2017) and 2018.
OCCUPATIONS = {
    "MGR": 10, "BUS": 500, "FIN": 800, "CMM": 1000, "ENG": 1300, "SCI": 1600, "CMS": 2000, "LGL": 2100, "EDU": 2200,
    "ENT": 2600, "MED": 3000, "HLS": 3600, "PRT": 3700, "EAT": 4000, "CLN": 4200, "PRS": 4300, "SAL": 4700,
    "OFF": 5000, "FFF": 6000, "CON": 6200, "EXT": 6800, "RPR": 7000, "PRD": 7700, "TRN": 9000, "MIL": 9800,
}  # fmt: skip
LAST_OCCUPATION = 9830  # 9920 after it is "unemployed, no work in five years", which nobody with hours of work has

# The Bureau's own recode WAOB, as inclusive ranges of POBP.
BIRTH_AREAS = {
    "US state": ((1, 59),),
    "Puerto Rico and US islands": ((61, 99),),
    "Latin America": ((303, 303), (310, 399)),
    "Asia": ((158, 159), (161, 161), (200, 299)),
    "Europe": ((100, 157), (160, 160), (162, 199)),
    "Africa": ((400, 499),),
    "Northern America": ((300, 302), (304, 309)),
    "Oceania and at sea": ((60, 60), (500, 554)),
}

# RELSHIPP (surveys from 2019) in terms of RELP (to 2018). RELP 11, roomer or boarder, has no counterpart any more.
RELATIONSHIPS = {
    20: 0, 21: 1, 22: 13, 23: 1, 24: 13, 25: 2, 26: 3, 27: 4, 28: 5, 29: 6, 30: 7, 31: 8, 32: 9, 33: 10, 34: 12,
    35: 14, 36: 15, 37: 16, 38: 17,
}  # fmt: skip


def check_state(state: str) -> str:
    """A postal code in capitals."""
    code = str(state).upper()
    if code not in STATES:
        near = difflib.get_close_matches(code, STATES, n=1, cutoff=0.5)
        advice = f" (did you mean {near[0]!r}?)" if near else ""
        raise ParameterError(f"'states' must be postal codes such as 'CA', 'NY', 'PR'. Got {state!r}{advice}.")
    return code


def occupation_groups(codes: pd.Series) -> pd.Series:
    """The major group of each occupation."""
    numbers = codes.to_numpy(dtype=np.int64)
    lowest = np.array(list(OCCUPATIONS.values()))
    _require((numbers >= lowest[0]) & (numbers <= LAST_OCCUPATION), codes, "a census occupation code from 10 to 9830")
    return _named(np.searchsorted(lowest, numbers, side="right") - 1, list(OCCUPATIONS), codes)


def birth_areas(codes: pd.Series) -> pd.Series:
    """The world area of each place of birth."""
    numbers = codes.to_numpy(dtype=np.int64)
    table = np.full(555, -1)
    for place, ranges in enumerate(BIRTH_AREAS.values()):
        for low, high in ranges:
            table[low : high + 1] = place
    known = (numbers >= 1) & (numbers <= 554)
    _require(known, codes, "a census code of a place of birth from 1 to 554")
    return _named(table[numbers], list(BIRTH_AREAS), codes)


def relationships(codes: pd.Series) -> pd.Series:
    """RELP from RELSHIPP."""
    known = codes.isin(list(RELATIONSHIPS)).to_numpy(dtype=bool)
    _require(known, codes, "a relationship code from 20 to 38")
    return codes.map(RELATIONSHIPS).astype(np.int64)


def _named(places: IntArray, names: list[str], codes: pd.Series) -> pd.Series:
    categories = pd.Index(names, dtype="object")
    return pd.Series(pd.Categorical.from_codes(places.astype(np.int8), categories), index=codes.index)


def _require(known: NDArray[np.bool_], codes: pd.Series, right: str) -> None:
    if not known.all():
        where = int(np.argmin(known))
        raise DataError(f"Column {codes.name!r}, row {codes.index[where]}: {int(codes.iloc[where])} is not {right}.")
