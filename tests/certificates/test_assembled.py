"""Rows that are put together where they are read are those of the whole array."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.certificates.assembled import Assembled, some_rows


def whole() -> tuple[Assembled, np.ndarray]:
    rng = np.random.default_rng(0)
    x, value, places = rng.random((9, 5)), rng.random((9, 2)), np.array([1, 4])
    array = x.copy()
    array[:, places] = value
    return Assembled(x, places, value), array


@pytest.mark.parametrize("some", [3, slice(2, 7), np.array([5, 0, 5]), np.arange(9) % 2 == 0])
def test_an_index_gives_the_rows_of_the_whole_array(some: object) -> None:
    rows, array = whole()
    assert np.array_equal(rows[some], array[some])  # type: ignore[index]
    chosen = np.array([8, 2, 2, 1, 0, 7, 3, 4, 5])
    assert np.array_equal(rows.only(chosen)[some], array[chosen][some])  # type: ignore[index]


def test_some_of_some_rows_are_rows_of_the_whole() -> None:
    rows, array = whole()
    mask, more = np.arange(9) % 3 == 1, np.array([2, 0])
    assert np.array_equal(np.asarray(rows.only(mask).only(more)), array[mask][more])
    assert rows.only(mask).shape == array[mask].shape and len(rows) == 9
    assert np.array_equal(np.asarray(some_rows(array, mask)), array[mask])
    assert some_rows(rows, np.zeros(9, dtype=bool)).shape == (0, 5)


def test_what_was_read_may_be_changed() -> None:
    rows, array = whole()
    rows[:][:] = 0.0
    assert np.array_equal(np.asarray(rows), array)
