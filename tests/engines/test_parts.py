"""Part files: what comes back is what was written, or nothing does."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from isonomy.engines.parts import Part, read_part, write_part


def part(n: int = 30) -> Part:
    rng = np.random.default_rng(0)
    profile = np.sort(rng.random((3, n)), axis=0)
    value = np.where(rng.random((2, n)) < 0.2, -np.inf, rng.random((2, n)))
    return Part(
        "key", np.arange(n), rng.random(n), np.array([0.0, 0.1, 1 / 3]), profile, 1.0, rng.random((2, n)), value, 4
    )


@pytest.mark.parametrize("n", [0, 1, 30])
def test_bit_for_bit(tmp_path: Path, n: int) -> None:
    written = part(n)
    write_part(written, tmp_path / "parts" / "0.parquet")
    read = read_part(tmp_path / "parts" / "0.parquet", "key")
    assert read is not None and len(read) == n
    for field in fields(Part):
        one, other = getattr(written, field.name), getattr(read, field.name)
        assert np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype, field.name
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["0.parquet"]


def test_another_key_or_no_file(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    assert read_part(path, "key") is None
    write_part(part(), path)
    assert read_part(path, "other key") is None


def test_every_kind_of_damage_is_seen(tmp_path: Path) -> None:
    """One byte changed, anywhere: the file is no part any more, or holds the same numbers still."""
    path = tmp_path / "0.parquet"
    write_part(part(), path)
    right = path.read_bytes()
    whole = read_part(path, "key")
    assert whole is not None
    refused = 0
    for place in range(0, len(right), 37):
        path.write_bytes(right[:place] + bytes([right[place] ^ 0x41]) + right[place + 1 :])
        found = read_part(path, "key")
        refused += found is None
        if found is not None:  # a byte that means nothing
            assert all(np.array_equal(getattr(found, f.name), getattr(whole, f.name)) for f in fields(Part))
    assert refused > len(right) / 37 / 4
    for length in (0, 3, len(right) // 2, len(right) - 1):
        path.write_bytes(right[:length])
        assert read_part(path, "key") is None


def test_metadata_is_part_of_the_checksum(tmp_path: Path) -> None:
    """The same columns under another radius are another part."""
    path, other = tmp_path / "0.parquet", tmp_path / "1.parquet"
    write_part(part(), path)
    write_part(replace(part(), radii=np.array([0.0, 0.1, 0.4])), other)
    import pyarrow.parquet as pq

    mixed = pq.read_table(path).replace_schema_metadata(
        {b"isonomy": pq.read_table(other).schema.metadata[b"isonomy"].replace(b"0x1.999999999999ap-2", b"0x1p-1")}
    )
    pq.write_table(mixed, path)
    assert read_part(path, "key") is None
