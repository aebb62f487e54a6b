"""One person, from CSV to report: the forms of ``docs/architecture.md`` are all that there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import isonomy

N = 37
"""Individuals: a number that nothing else has."""

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"

FORMS: dict[str, set[str]] = {
    "a row of a file, frame or partition": set(),
    "Arrow batch or frame, dialect applied": set(),
    "`Chunk`: coordinates, weights, labels, row numbers": {"Population", "Chunk"},
    "`Regions`": {"Regions"},
    "bounds": {"Finds", "Individuals"},
    "columns of a chunk": {"Profiles", "Points"},
    "`Certificate`": {"LocalCertificate", "Witnesses"},
    "`Facts`": set(),
    "files: page, Markdown, JUnit, statement with arrays": set(),
}
"""The rows of the table, and what holds something of every individual in each."""

STEPS = {
    "attacks": {"Judge"},
    "certificates": {
        "Certificate",
        "Moving",
        "_Known",
        "_Choices",
        "Mixture",
        "WorstCase",
        "Counterexamples",
        "Assembled",
    },
    "fairness": {"Grouping", "Kinds"},
    "report": {"Turns"},
}
"""What a step makes for itself and leaves behind, by its package."""

SCHEMA = """
name = "walk"
[features]
age = { kind = "numeric", low = 0, high = 9 }
pay = { kind = "numeric", low = 0, high = 9 }
sex = { kind = "categorical", categories = ["f", "m"], protected = true }
[label]
column = "y"
classes = ["a", "b"]
favourable = ["b"]
"""


def held(value: Any) -> bool:
    """Whether it is an array or table with an entry for each individual."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and len(value) in (N, N + 1)
    return isinstance(value, pd.DataFrame | pd.Series) and len(value) == N


def holders(run: Callable[[], Any]) -> dict[str, str]:
    """The classes of the library whose objects hold something of every individual once they are made, and where."""
    seen: dict[str, str] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        made = frame.f_locals.get("self") if event == "return" and frame.f_code.co_name == "__init__" else None
        kind = type(made)
        if kind.__module__.startswith("isonomy") and any(map(held, getattr(made, "__dict__", {}).values())):
            seen.setdefault(kind.__qualname__, kind.__module__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return seen


def test_a_person_has_nine_forms(tmp_path: Path) -> None:
    """An audit of a CSV file makes no other, and the page lists them in this order."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 9, N), "pay": rng.uniform(0, 9, N), "sex": rng.choice(["f", "m"], N)})
    frame.assign(y=rng.choice(["a", "b"], N)).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    network = isonomy.Network.from_layers(
        [rng.normal(size=(4, 4)), rng.normal(size=(1, 4))], [np.zeros(4), np.zeros(1)], head="sigmoid"
    )
    plan = {
        "data": str(tmp_path / "people.csv"),
        "schema": str(tmp_path / "schema.toml"),
        "gamma": 0.05,
        "name": "walk",
    }
    seen = holders(lambda: isonomy.audit(network, plan=plan, progress=None).save(tmp_path / "out"))
    library = {name: where for name, where in seen.items() if where.startswith("isonomy.")}
    handed = set().union(*FORMS.values())
    for name, where in library.items():
        package = where.split(".")[1]
        assert name in handed or name in STEPS.get(package, ()), f"{where}.{name} is one more form of a person"
    assert {"Chunk", "Regions", "Profiles", "Individuals", "LocalCertificate"} <= set(seen)  # the check sees them
    rows = re.findall(r"^\| (.+?) \|", PAGE.read_text("utf-8").split("## One person")[1].split("## ")[0], re.MULTILINE)
    assert rows[1:] == list(FORMS) and len(FORMS) == 9
