"""A model of which only predictions are known, served: with the model itself, and from its record alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

import isonomy
from isonomy import Enumeration
from isonomy.records import write
from isonomy.service import Served, Settings, create_app

from .example import SCHEMA, population, rows

CONDITION = "Given these predictions: "


def score(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(0.3 * (frame["sex"] == "male") + frame["age"] / 200 + 0.1 * (frame["job"] == "other"))


def certificate() -> isonomy.Certificate:
    fixed = isonomy.Counterparts(
        np.zeros(SCHEMA.width), SCHEMA.protected_coordinates & ~SCHEMA.domain("realizable").numeric
    )
    return isonomy.certify(
        Enumeration(score, SCHEMA), population(rows(12)), fixed, 1.0, isonomy.Part(0.25), epsilon=0.9, progress=None
    )


@pytest.mark.parametrize("live", [True, False])
def test_who_was_audited_is_served_and_others_need_the_model(live: bool, tmp_path: Path) -> None:
    found = certificate()
    write(tmp_path / "out", found)
    served = Served.of_certificate(found, found.people) if live else Served.from_directory(tmp_path / "out")  # type: ignore[arg-type]
    assert served.statement.startswith(CONDITION)
    with TestClient(create_app(served, Settings(database=f"sqlite:///{tmp_path / 'log.db'}"))) as client:
        assert client.get("/v1/certificate").json()["statement"].startswith(CONDITION)
        audited = client.post("/v1/predictions", json={"individuals": rows(2)})
        assert audited.status_code == 200, audited.text
        for answer, upper in zip(audited.json()["predictions"], found.local.upper[:2], strict=True):
            assert answer["upper"] == pytest.approx(upper, abs=1e-9)
        other = client.post("/v1/predictions", json={"individuals": rows(3, seed=99)})
        assert other.status_code == 200 if live else "predictions of others need the model itself" in other.text
