"""Printed figures: written as they were printed, and compared no finer than that."""

from __future__ import annotations

import pytest

from studies import paper


@pytest.mark.parametrize(
    ("value", "digits", "words"),
    [
        (0.82, 3, "0.820"), (1.0, 3, "1.000"), (0.0009, 3, "0.0009"), (0.0082, 3, "0.0082"), (0.06885, 4, "0.06885"),
        (-0.0143, 4, "-0.0143"), (0.113219, 4, "0.113219"), (0.00002, 3, "0.00002"), (0.0, 3, "0.000"),
    ],
)  # fmt: skip
def test_no_decimal_is_lost(value: float, digits: int, words: str) -> None:
    assert paper.printed(value, digits) == words


@pytest.mark.parametrize(
    ("ours", "told", "larger"),
    [
        (0.0004, 0.0, False),
        (0.0006, 0.0, True),
        (0.00094, 0.0009, False),
        (0.00096, 0.0009, True),
        (0.0734, 0.073, False),
    ],
)
def test_ours_is_compared_to_the_printed_decimals(ours: float, told: float, larger: bool) -> None:
    assert (paper.as_precise(ours, told) > told) == larger
