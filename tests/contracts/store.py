"""What every store must keep: a test class inherits `StoreContract` and gives ``store(folder, identity)``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isonomy.files import Store

ARRAYS = {
    "numbers": np.array([[0.1, -0.0], [np.inf, np.nan]]), "none": np.zeros((0, 3)), "counts": np.arange(5),
    "flags": np.array([True, False]), "small": np.array([7], dtype=np.uint8),
}  # fmt: skip


class StoreContract:
    """What was put is got bit for bit, by whoever asks about the same; nothing else is got."""

    @staticmethod
    def store(folder: Path, identity: str) -> Store:
        raise NotImplementedError

    def test_what_was_put_is_got_bit_for_bit(self, tmp_path: Path) -> None:
        store = self.store(tmp_path, "a")
        assert store.get("parts/1", "rows 0 to 5") is None
        store.put("parts/1", ARRAYS, "rows 0 to 5")
        for kept in (store, self.store(tmp_path, "a")):
            found = kept.get("parts/1", "rows 0 to 5")
            assert found is not None and list(found) == list(ARRAYS)
            for name, array in ARRAYS.items():
                assert found[name].dtype == array.dtype and found[name].shape == array.shape
                assert found[name].tobytes() == array.tobytes()

    def test_a_foreign_part_is_no_part(self, tmp_path: Path) -> None:
        store = self.store(tmp_path, "a")
        store.put("1", ARRAYS, "rows 0 to 5")
        assert store.get("1", "rows 0 to 6") is None and store.get("2", "rows 0 to 5") is None
        assert self.store(tmp_path, "b").get("1", "rows 0 to 5") is None

    @pytest.mark.parametrize("place", [0.0, 0.5, 0.99])
    def test_a_damaged_part_is_no_part(self, tmp_path: Path, place: float) -> None:
        store = self.store(tmp_path, "a")
        store.put("1", ARRAYS, "x")
        (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
        content = bytearray(file.read_bytes())
        content[int(place * len(content))] ^= 1
        file.write_bytes(bytes(content))
        assert store.get("1", "x") is None
        file.write_bytes(bytes(content[: len(content) // 2]))
        assert store.get("1", "x") is None

    def test_the_last_one_counts_and_nothing_is_left_half_written(self, tmp_path: Path) -> None:
        store = self.store(tmp_path, "a")
        store.put("1", ARRAYS, "x")
        store.put("1", {"other": np.ones(3)}, "x")
        found = store.get("1", "x")
        assert found is not None and list(found) == ["other"]
        assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
