"""The example, served within this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from isonomy.service import Settings, create_app

from .example import served


@pytest.fixture(autouse=True)
def called_testserver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name by which Starlette's client calls."""
    monkeypatch.setattr("isonomy.service.app.LOOPBACK", ("localhost", "127.0.0.1", "::1", "testserver"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """A client of the example with some settings."""
    with ExitStack() as stack:

        def start(**settings: Any) -> TestClient:
            settings.setdefault("database", f"sqlite:///{tmp_path / 'audit.db'}")
            app = create_app(served(), Settings(**settings))
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield start


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()
