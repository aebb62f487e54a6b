"""What every engine must keep: a test class inherits `EngineContract` and gives ``engine()``, a context manager."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import pytest

from isonomy.engine import Engine
from isonomy.errors import DataError


def scaled(shared: np.ndarray, item: int) -> tuple[int, float]:
    """Work that a worker can be sent."""
    return item, float((shared * item).sum())


def failing(shared: str, item: int) -> int:
    if item == 3:
        raise DataError(f"{shared} {item} is wrong.")
    return item


class EngineContract:
    """Every item is worked on, with what all share; what goes wrong is raised where the results are taken."""

    @staticmethod
    def engine() -> AbstractContextManager[Engine]:
        raise NotImplementedError

    def test_every_item_once(self) -> None:
        with self.engine() as engine:
            found = sorted(engine.map(scaled, np.arange(4.0), range(7)))
            assert found == [(item, 6.0 * item) for item in range(7)]
            assert not list(engine.map(scaled, np.arange(4.0), []))

    def test_errors_are_raised_again_and_the_engine_goes_on(self) -> None:
        with self.engine() as engine:
            with pytest.raises(DataError, match=r"^Row 3 is wrong\.$"):
                list(engine.map(failing, "Row", range(6)))
            assert sorted(engine.map(failing, "Row", range(3))) == [0, 1, 2]
