"""What every source of people must keep: a test class inherits `SourceContract` and gives one method.

``open(frame, folder)`` opens the rows of a table in the form that the class is about.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import DataError, ParameterError
from isonomy.population import Chunk, Feature, Label, PeopleSource, Population, Schema, Split

SCHEMA = Schema(
    "loans",
    (
        Feature("age", "integer", low=18, high=98, protected=True),
        Feature("pay", low=-10, high=10, fill=0.0),
        Feature("job", "categorical", categories=("1", "2", "NA"), missing="category", missing_values=("?",)),
        Feature("rank", "ordinal", categories=("low", "high")),
    ),
    label=Label("repaid", ("no", "yes")),
    weight="w",
    split=Split("part", "old", "new"),
)
CHUNKS = (1, 7, 30, 64, 1000)


def table(n: int = 90, seed: int = 0) -> pd.DataFrame:
    """People, three single rows and a run of twelve of which do not fit the schema."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 99, n),
            "unused": rng.integers(0, 9, n),
            "pay": pd.Series(rng.uniform(-10, 10, n)).mask(rng.random(n) < 0.1),
            "job": rng.choice(["1", "2", "NA", "?"], n),
            "rank": rng.choice(["low", "high"], n),
            "repaid": rng.choice(["no", "yes"], n),
            "w": rng.choice([0.0, 0.3, 1.0, 7.1], n),
            "part": rng.choice(["old", "new"], n),
        }
    )
    frame.loc[[3, 17, 44], "rank"] = "middle"
    frame.loc[60:71, "age"] = 3
    return frame


def same(one: Chunk, other: Chunk) -> bool:
    """Equal keys, arrays (bits, types, or none) and counts."""
    arrays = [(getattr(one, name), getattr(other, name)) for name in ("x", "y", "weights", "rows")]
    equal = [a is b if a is None or b is None else a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays]
    return one.key == other.key and one.excluded == other.excluded and all(equal)


class SourceContract:
    """Inherit and write ``open``; ``named`` says whether the source knows files by name."""

    named = True

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        """The rows of a table as a source with the schema of this file."""
        raise NotImplementedError

    @pytest.fixture
    def source(self, tmp_path: Path) -> Iterator[PeopleSource]:
        yield self.open(table(), tmp_path, unknown="exclude")

    def test_it_is_a_source(self, source: PeopleSource) -> None:
        assert isinstance(source, PeopleSource)
        assert source.schema == SCHEMA
        assert bool(source.files) == self.named
        assert all(len(digest) == 64 for _, digest in source.files)

    def test_the_same_arrays_twice_in_any_order(self, source: PeopleSource) -> None:
        keys = source.keys(13)
        first = [source.read(key) for key in keys]
        again = [source.read(key) for key in reversed(keys)][::-1]
        assert all(map(same, first, again))

    @pytest.mark.parametrize("rows", CHUNKS)
    @pytest.mark.parametrize("split", ["all", "train", "test"])
    def test_chunks_of_any_size_hold_the_same_people(self, tmp_path: Path, rows: int, split: str) -> None:
        source = self.open(table(), tmp_path, unknown="exclude", split=split)
        people = Population.from_frame(table(), SCHEMA, unknown="exclude")
        people = people if split == "all" else getattr(people, split)
        keys = source.keys(rows)
        chunks = [source.read(key) for key in keys]
        assert [key.index for key in keys] == list(range(len(keys))) and len(set(keys)) == len(keys)
        assert all(1 <= len(key) <= rows and len(chunk) <= len(key) for key, chunk in zip(keys, chunks, strict=True))
        for name in ("x", "y", "weights", "rows"):
            assert np.array_equal(np.concatenate([getattr(chunk, name) for chunk in chunks]), getattr(people, name))
        assert all(chunk.y is not None and chunk.y.dtype == np.int64 for chunk in chunks)
        excluded = sum(chunk.excluded for chunk in chunks)
        assert excluded == people.excluded == 15
        chosen = source.selection(len(people), excluded)
        assert (chosen.people, chosen.rows, chosen.excluded, chosen.part) == (len(people), 90, 15, split)
        assert chosen.how == "all" and chosen.pool == len(people)

    def test_a_pickled_copy_reads_the_same(self, source: PeopleSource) -> None:
        copy = pickle.loads(pickle.dumps(source))
        assert copy.keys(13) == source.keys(13) and copy.fingerprint() == source.fingerprint()
        key = source.keys(13)[1]
        assert same(copy.read(pickle.loads(pickle.dumps(key))), source.read(key))

    def test_the_fingerprint_follows_the_values(self, tmp_path: Path) -> None:
        def fingerprint(name: str, frame: pd.DataFrame, **options: Any) -> str:
            (tmp_path / name).mkdir(exist_ok=True)
            return self.open(frame, tmp_path / name, **{"unknown": "exclude", **options}).fingerprint()

        plain = fingerprint("a", table())
        assert plain == fingerprint("b", table()), "the content counts, not where it lies"
        changed = [table() for _ in range(3)]
        changed[0].loc[89, "pay"] = 0.125
        changed[1].loc[0, "w"] = 5.0
        changed[2].loc[88, "repaid"] = {"no": "yes", "yes": "no"}[changed[2].loc[88, "repaid"]]
        others = [fingerprint(f"c{i}", frame) for i, frame in enumerate(changed)]
        others += [fingerprint("d", table(), split=split) for split in ("train", "test")]
        assert len({plain, *others}) == 6

    def test_a_cell_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"Column 'rank', row 3: 'middle' is not one of the levels") as caught:
            source = self.open(table()[:10], tmp_path)
            for key in source.keys(4):
                source.read(key)
        assert "\n" not in str(caught.value)

    def test_a_column_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="has no column 'pay'; it has 'age'"):
            source = self.open(table()[:3].drop(columns="pay"), tmp_path)
            source.read(source.keys(4)[0])

    def test_nobody(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="empty"):
            self.open(table()[:0], tmp_path)

    def test_chunks_have_rows(self, source: PeopleSource) -> None:
        for rows in (0, -1, 1.5):
            with pytest.raises(ParameterError, match="'rows' must be a whole number >= 1"):
                source.keys(rows)  # type: ignore[arg-type]
