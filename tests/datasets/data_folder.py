"""Where the public tables lie: the folder in ISONOMY_DATA, or ``shared/data`` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("ISONOMY_DATA") or Path(__file__).parents[3] / "shared" / "data")

needs_data = pytest.mark.skipif(
    not (FOLDER / "acs_income_2018").is_dir(),
    reason="the public tables are not on this machine: set ISONOMY_DATA to their folder",
)
