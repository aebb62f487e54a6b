"""What is known of one chunk of individuals, as a file: written whole or not at all, and checked whenever it is read.

A part is a Parquet file with one row for each individual: its row in the table, its weight, its profile (``within_k``
bounds the violation of anybody within the radius ``k``), and what was found (``cost_k``, ``value_k``: somebody at that
cost with that violation; ``-inf`` where nobody was). Radii and checksum are in the file's metadata.

**Soundness.** A part counts only if its key is the hash of everything that went into it and its checksum is that of the
numbers read. Anything else is as good as no part at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.brief import brief
from isonomy.errors import FileError

LAYOUT = 1
"""The version of the file's form; part of every key."""

_ABOUT = b"isonomy"


@dataclass(frozen=True, eq=False)
class Part:
    """The profiles of a chunk: ``profile[k]`` holds for ``radii[k]``, beyond the last only ``largest`` is known.

    ``cost`` and ``value`` (points, n) are what was found: row 0 the individuals themselves at cost 0.
    """

    key: str
    rows: NDArray[np.int64]
    weights: FloatArray
    radii: FloatArray
    profile: FloatArray  # (radii, n), not decreasing from one radius to the next
    largest: float
    cost: FloatArray
    value: FloatArray
    excluded: int

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.rows)


def write_part(part: Part, path: Path) -> None:
    """Put the part in its place at once."""
    columns = _columns(part)
    about = _about(part)
    about["checksum"] = _checksum(about, columns)
    table = pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two workers may write the same part when one was believed dead: each has a file of its own until the last moment.
    partial = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FileError(f"The part {path} cannot be written: {error.strerror}.") from None


def read_part(path: Path, key: str) -> Part | None:
    """The part with this key, or None where there is no such part or not one bit for bit as it was written."""
    try:
        table = pq.read_table(path, partitioning=None)
        about = json.loads(table.schema.metadata[_ABOUT])
        columns = {name: table[name].to_numpy() for name in table.column_names}
        checksum = about.pop("checksum")
        if about["key"] != key or checksum != _checksum(about, columns):
            return None
        radii = np.array([float.fromhex(text) for text in about["radii"]])
        n = len(columns["row"])

        def stacked(name: str, count: int) -> FloatArray:
            return np.array([columns[f"{name}_{k}"] for k in range(count)], dtype=np.float64).reshape(count, n)

        return Part(
            key, columns["row"], columns["weight"], radii, stacked("within", len(radii)),
            float.fromhex(about["largest"]), stacked("cost", about["points"]), stacked("value", about["points"]),
            about["excluded"],
        )  # fmt: skip
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None


def _columns(part: Part) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {"row": part.rows, "weight": part.weights}
    columns |= {f"within_{k}": column for k, column in enumerate(part.profile)}
    columns |= {f"cost_{k}": column for k, column in enumerate(part.cost)}
    return columns | {f"value_{k}": column for k, column in enumerate(part.value)}


def _about(part: Part) -> dict[str, Any]:
    return {
        "key": part.key,
        "radii": [radius.hex() for radius in part.radii.tolist()],
        "largest": part.largest.hex(),
        "points": len(part.value),
        "excluded": part.excluded,
    }


def _checksum(about: dict[str, Any], columns: dict[str, NDArray[Any]]) -> str:
    """Of the numbers, not of the bytes in the file: compression may differ, the numbers may not."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(columns):
        digest.update(f"{name} {columns[name].dtype} {len(columns[name])}".encode())
        digest.update(np.ascontiguousarray(columns[name]).data)
    return digest.hexdigest()
