"""Files that are there whole or not at all, and arrays that come back bit for bit or do not come back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from isonomy.errors import FileError
from isonomy.files import (
    Arrays,
    atomic,
    file_hash,
    read_arrays,
    read_json,
    remove_partial_files,
    write_arrays,
    write_json,
)


def arrays(n: int = 30) -> Arrays:
    rng = np.random.default_rng(0)
    value = np.where(rng.random((2, n)) < 0.2, -np.inf, rng.random((2, n)))
    return {
        "row": np.arange(n), "kind": rng.integers(0, 4, n).astype(np.uint8), "x": rng.random((n, 3)), "value": value,
        "radius": np.array([0.0, 0.1, 1 / 3]), "nobody": np.zeros((0, 3)), "number": np.array(np.nan),
        "turned": np.asfortranarray(rng.random((n, 2))), "foreign": rng.random(n).astype(">f8"),
    }  # fmt: skip


def same(one: Arrays, other: Arrays) -> bool:
    return list(one) == list(other) and all(
        one[name].shape == other[name].shape and one[name].astype(other[name].dtype).tobytes() == other[name].tobytes()
        for name in one
    )


# -- arrays ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 30])
def test_bit_for_bit(tmp_path: Path, n: int) -> None:
    written = arrays(n)
    write_arrays(tmp_path / "parts" / "0.arrays", written, "about")
    read = read_arrays(tmp_path / "parts" / "0.arrays", "about")
    assert read is not None and same(written, read)
    assert all(read[name].dtype == array.dtype.newbyteorder("<") for name, array in written.items())
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["0.arrays"]


def test_about_something_else_or_no_file(tmp_path: Path) -> None:
    path = tmp_path / "0.arrays"
    assert read_arrays(path, "about") is None
    write_arrays(path, arrays(), "about")
    assert read_arrays(path, "something else") is None
    assert read_arrays(tmp_path, "about") is None


def test_every_kind_of_damage_is_seen(tmp_path: Path) -> None:
    """One byte changed, anywhere: no arrays any more, or the same ones still."""
    path = tmp_path / "0.arrays"
    write_arrays(path, arrays(), "about")
    right = path.read_bytes()
    refused = 0
    for place in range(0, len(right), 37):
        path.write_bytes(right[:place] + bytes([right[place] ^ 0x41]) + right[place + 1 :])
        found = read_arrays(path, "about")
        refused += found is None
        assert found is None or same(arrays(), found)  # a byte that means nothing
    assert refused > len(right) / 37 * 0.9
    for length in (0, 3, right.index(b"\n"), right.index(b"\n") + 1, len(right) // 2, len(right) - 1):
        path.write_bytes(right[:length])
        assert read_arrays(path, "about") is None
    path.write_bytes(right + b"\0")
    assert read_arrays(path, "about") is None


@pytest.mark.parametrize(
    "change",
    [
        {"about": "other"},
        {"arrays": [["a", "<f8", [3, 2]]]},
        {"arrays": [["b", "<f8", [2, 3]]]},
        {"arrays": [["a", "<i8", [2, 3]]]},
        {"arrays": []},
        {"arrays": None},
        {"sha256": "0" * 64},
        {"sha256": None},
    ],
)
def test_the_line_in_front_is_part_of_the_checksum(tmp_path: Path, change: dict[str, object]) -> None:
    """The same numbers under another name, shape or type are other arrays."""
    path = tmp_path / "0.arrays"
    write_arrays(path, {"a": np.arange(6.0).reshape(2, 3)}, "about")
    line, numbers = path.read_bytes().split(b"\n", 1)
    path.write_bytes(json.dumps(json.loads(line) | change).encode() + b"\n" + numbers)
    assert read_arrays(path, "about") is None and read_arrays(path, "other") is None


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"[1, 2]\n", b"null\n", b"PAR1", b"\xff\xfe\n", b"{" * 3_000_000, b"5\n" * 9]
)
def test_foreign_files_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.arrays").write_bytes(content)
    assert read_arrays(tmp_path / "0.arrays", "about") is None
    np.save(tmp_path / "1.npy", np.arange(5))
    assert read_arrays(tmp_path / "1.npy", "about") is None


def test_arrays_are_not_changed_by_a_later_file_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "0.arrays"
    write_arrays(path, arrays(), "about")
    found = read_arrays(path, "about")
    write_arrays(path, {"row": np.zeros(3)}, "about")
    assert found is not None and same(arrays(), found)


# -- whole or not at all -----------------------------------------------------------------------------------------


def test_what_fails_on_the_way_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    with atomic(path) as partial:
        partial.write_text("first")
        assert not path.exists() and partial.parent == path.parent
    for trouble in (ValueError, KeyboardInterrupt):
        with pytest.raises(trouble), atomic(path) as partial:
            partial.write_text("half")
            raise trouble
    assert path.read_text() == "first" and list(path.parent.iterdir()) == [path]


def test_two_writers_are_not_in_each_others_way(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic(path) as one, atomic(path) as other:
        assert one != other
        one.write_text("one"), other.write_text("other")
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"The file .*x\.json cannot be written: File exists\."):
        write_json(tmp_path / "file" / "x.json", {})
    (tmp_path / "folder" / "x").mkdir(parents=True)
    with pytest.raises(FileError, match="cannot be written"):
        write_json(tmp_path / "folder", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_sweeping_takes_halves_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("a.partial", "parts/b.partial", "parts/c.arrays", "partial"):
        (tmp_path / name).write_text("")
    remove_partial_files(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c.arrays", "partial", "parts"]


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    path, content = tmp_path / "a.json", {"a": 0.1 + 0.2, "b": 5e-324, "c": float("inf"), "d": ["ä"]}
    write_json(path, content)
    assert read_json(path) == content
    for text in ("", "[1]", "{", "\x00"):
        path.write_text(text)
        assert read_json(path) is None
    assert read_json(tmp_path / "none") is None and read_json(tmp_path) is None


def test_hashes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert file_hash(tmp_path / "a") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    with pytest.raises(FileError, match="cannot be read"):
        file_hash(tmp_path / "b")
