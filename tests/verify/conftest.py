"""A small audit, written once, and a forger who recomputes every hash."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy
from isonomy import records
from isonomy.audit.bundled import train_small
from isonomy.certificates.dual import Cells, Dual
from isonomy.certificates.profiles import Profiles
from isonomy.datasets import load_population

Arrays = dict[str, Any]


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """German credit, four people, a network of eight and six neurons, and a few radii of their profiles."""
    people = load_population("german")
    network = train_small(people.train, hidden=(8, 6))
    some = people.test[:4]
    metric = isonomy.Counterparts.of(people.schema)
    certificate = isonomy.certify(network, some, metric, 1.0, 0.1, epsilon=0.4, rounds=0, progress=None)
    radii, values = certificate.profiles.radii, certificate.profiles.values
    finite = np.flatnonzero(np.isfinite(values).all(axis=0))
    few = [finite[radii[finite] >= least][0] for least in (0.0, 0.03, 0.13)]
    certificate = replace(certificate, profiles=Profiles.of(radii[few], values[:, few], certificate.profiles.largest))
    directory = tmp_path_factory.mktemp("audit")
    records.write(directory, certificate, network, some)
    return directory


class Forger:
    """Edits a copy of a certificate and makes all hashes fit again."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.directory = directory / "forged"
        shutil.copytree(source, self.directory)
        self.document = json.loads((self.directory / "certificate.json").read_text())

    def arrays(self, name: str) -> Arrays:
        return dict(np.load(self.directory / "evidence" / f"{name}.npz"))

    def put(self, name: str, arrays: Arrays) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        (self.directory / "evidence" / f"{name}.npz").write_bytes(buffer.getvalue())

    def change(self, name: str, key: str, edit: Callable[[Any], Any]) -> None:
        arrays = self.arrays(name)
        before = arrays[key].copy()
        arrays[key] = np.asarray(edit(arrays[key].copy()))
        assert not np.array_equal(before, arrays[key]), f"{name}.{key} was not changed"
        self.put(name, arrays)

    def follow(self) -> None:
        """Claim what the forged profiles and witnesses give."""
        profiles, points, claims = self.arrays("profiles"), self.arrays("witnesses"), self.document["claims"]
        cells = Cells.from_profiles(
            profiles["radii"], profiles["values"], float(profiles["largest"]), profiles["weights"]
        )
        bound = Dual.of(cells, float(self.document["question"]["order"])).bound(self.document["question"]["gamma"])
        claims["upper"], claims["multiplier"] = bound.upper, bound.multiplier
        claims["lower"] = float(points["mass"] @ points["value"] / profiles["weights"].sum())
        epsilon = self.document["question"]["epsilon"]
        claims["verdict"] = (
            "certified" if bound.upper <= epsilon else "violated" if claims["lower"] > epsilon else "undecided"
        )

    def done(self) -> Path:
        for part in self.document["evidence"].values():
            file = self.directory / part["file"]
            if file.is_file():
                part["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        (self.directory / "certificate.json").write_text(json.dumps(self.document))
        return self.directory


@pytest.fixture
def forger(audit: Path, tmp_path: Path) -> Forger:
    return Forger(audit, tmp_path)
