"""Readers behave exactly like the original: every leaf of every tree, at and around every threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.trees.configurations import CONFIGURATIONS, Configuration
from tests.trees.originals import ROWS, original

from isonomy.trees import read_trees


def test_there_are_280_different_configurations() -> None:
    assert len(CONFIGURATIONS) == len(set(map(str, CONFIGURATIONS))) == 280


def check(configuration: Configuration) -> None:
    library = original(configuration)
    forest = read_trees(library.source())
    rows = library.rows(forest)
    assert len(rows) >= ROWS
    leaves = library.leaves(rows)
    if leaves is not None:
        assert same_leaves(forest.leaves(rows), leaves, library.renumbered)
    else:
        assert np.array_equal(forest.value[forest.nodes(rows), 0], library.tree_values(rows))
    margins = library.margins(rows)
    if margins is not None:
        assert (np.abs(forest.margins(rows) - margins) <= forest.run_error(rows)).all()
    outputs = forest.outputs(rows)
    assert (np.abs(outputs - library.outputs(rows)) <= forest.output_error(rows)).all()


def same_leaves(read: Any, own: Any, renumbered: bool) -> bool:
    """The same numbers; or a renumbering of each tree's leaves that takes one to the other, both ways."""
    if not renumbered:
        return np.array_equal(read, own)
    for first, second in zip(read.T, own.T, strict=True):
        pairs = np.unique(np.column_stack([first, second]), axis=0)
        if len(pairs) != len(np.unique(first)) or len(pairs) != len(np.unique(second)):
            return False
    return True


QUICK = [each for i, each in enumerate(CONFIGURATIONS) if i % 14 == 3]


@pytest.mark.parametrize("configuration", QUICK, ids=str)
def test_a_draw_of_configurations(configuration: Configuration) -> None:
    check(configuration)


@pytest.mark.slow
@pytest.mark.parametrize("configuration", [each for each in CONFIGURATIONS if each not in QUICK], ids=str)
def test_every_other_configuration(configuration: Configuration) -> None:
    check(configuration)
