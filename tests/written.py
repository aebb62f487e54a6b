"""Certificates that were written, as tests look at them and change them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isonomy_verify.record import dtype_of


def document_of(folder: Path) -> dict[str, Any]:
    """The whole statement."""
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    return found


def predicate_of(folder: Path) -> dict[str, Any]:
    """Question, claims and remarks."""
    found: dict[str, Any] = document_of(folder)["predicate"]
    return found


def hashes_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file that the statement names."""
    return {each["name"]: each["digest"]["sha256"] for each in document_of(folder)["subject"]}


def array_of(folder: Path, name: str) -> np.ndarray[Any, Any]:
    """An array of the evidence."""
    flat = np.fromfile(folder / "evidence" / f"{name}.bin", dtype_of(name))
    return flat.reshape(predicate_of(folder)["arrays"][name])


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit the predicate."""
    document = document_of(folder)
    edit(document["predicate"])
    (folder / "certificate.json").write_text(json.dumps(document))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
