"""The description of the service is true: whatever it allows is answered, whatever it does not allow is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks
from starlette.testclient import TestClient

from isonomy.service import new_key

SLOW = pytest.param(200, marks=pytest.mark.slow)
OPERATIONS = [
    ("POST", "/v1/predictions"),
    ("GET", "/v1/predictions"),
    ("GET", "/v1/monitor"),
    ("GET", "/v1/monitor/history"),
    ("GET", "/v1/certificate"),
    ("GET", "/health/ready"),
    ("GET", "/health/live"),
]


@pytest.fixture
def described(serve: Callable[..., TestClient]) -> tuple[Any, Any]:
    client = serve(max_batch=3, max_body=20_000, max_budget_ms=20.0)
    return client.app, schemathesis.openapi.from_asgi("/openapi.json", client.app)


@pytest.mark.parametrize("examples", [12, SLOW])
def test_the_description_is_true(described: tuple[Any, Any], examples: int) -> None:
    load_all_checks()
    app, schema = described
    known = [found.ok() for found in schema.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in known} == set(OPERATIONS)
    for method, path in OPERATIONS:
        operation = schema[path][method]
        count = examples if method == "POST" else max(3, examples // 10)
        check_operation(app, operation, schemathesis.GenerationMode.POSITIVE, count)
        if method == "POST":  # of the others nothing can be made that is not allowed, but for a bad 'limit'
            check_operation(app, operation, schemathesis.GenerationMode.NEGATIVE, count)


def check_operation(app: Any, operation: Any, mode: Any, examples: int) -> None:
    strategy = operation.as_strategy(generation_mode=mode)

    @given(case=strategy)
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        derandomize=True,
    )
    def run(case: Any) -> None:
        case.call_and_validate(app=app)

    run()


@given(secret=st.text(max_size=50))
@settings(max_examples=100, deadline=None)
def test_no_key_can_be_guessed(secret: str) -> None:
    from isonomy.service.keys import match_key

    _, key = new_key("somebody")
    assert match_key(secret, [key]) is None
