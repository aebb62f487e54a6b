"""Which people of a table a certificate is about: in words made from numbers, and whether these can be true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def selected(of: Mapping[str, Any], name: str = "") -> str:
    """``300 of 2,164 people, drawn at random (seed 0) from the test part of the table (7,214 rows)``."""
    count, pool, rows = of["people"], of["pool"], of["rows"]
    side = {"all": "", "train": "the training part of ", "test": "the test part of "}[of["part"]]
    among = f"{side}the {f'table “{name}”' if name else 'table'}"
    part = among if side else f"{among} as given"
    people = f"{count:,} {'person' if count == 1 else 'people'}"
    drawn = people if pool is None else f"{count:,} of {pool:,} people"
    seed = "" if of["seed"] is None else f" (seed {of['seed']})"
    text = {
        "all": f"{people}, {part}",
        "random": f"{drawn}, drawn at random{seed} from {part}",
        "chosen": f"{drawn} of {among}, chosen by hand and not drawn at random",
        "unknown": f"{people} of {among}; how they were selected is not known",
    }[of["how"]]
    if of["excluded"]:
        those = "rows" if rows is None else f"of its {rows:,} rows"
        text += f"; {of['excluded']:,} {those} do not fit the schema and were left out"
    elif rows not in (None, pool, count):
        text += f" ({rows:,} rows)"
    return text + ("; said to be held out: nothing was fitted on them" if of["held_out"] else "")


def consistent(of: Mapping[str, Any], n: int, rows: NDArray[np.int64]) -> str:
    """Why a selection cannot be one of these ``n`` people, who stood in these ``rows`` (n,); "" if it can."""
    pool, table = of["pool"], of["rows"]
    if rows.shape != (n,) or not (np.diff(rows) > 0).all() or rows[0] < 0:
        return "rows of the table are named twice, or out of order"
    if of["people"] != n:
        return f"{of['people']:,} people are said to be selected, and {n:,} are here"
    if pool is not None and (pool < n or (of["how"] == "all" and pool != n)):
        return f"{n:,} people cannot be that selection of {pool:,}"
    if table is not None and (int(rows[-1]) >= table or (pool or n) + of["excluded"] > table):
        return f"a table of {table:,} rows does not have these"
    whole = n if of["how"] == "all" else pool
    if of["part"] == "all" and None not in (table, whole) and whole + of["excluded"] != table:
        return f"{whole:,} people are not the table of {table:,} rows"
    if of["seed"] is not None and of["how"] != "random":
        return "a seed is named, and nothing was drawn"
    return ""
