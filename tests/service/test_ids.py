"""The id of an individual: it may stand in a request, names the answer, and is in no log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from isonomy.service import Settings, create_app

from .example import SCHEMA, rows, served_with


@pytest.fixture
def named(tmp_path: Path) -> Iterator[TestClient]:
    """The example with a schema that declares ids, features being stored."""
    about = served_with(schema=replace(SCHEMA, id="customer"))
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", store_features=True)
    with TestClient(create_app(about, settings), raise_server_exceptions=False) as client:
        yield client


def ask(client: TestClient, **body: Any) -> Any:
    return client.post("/v1/predictions", json=body)


def test_answers_return_the_ids(named: TestClient, tmp_path: Path) -> None:
    people = rows(4)
    plain = ask(named, individuals=people, tier="interval").json()["predictions"]
    ids = ["KND-83721x", 17, None, 'quo"ted\n']
    known = [row | {"customer": name} for row, name in zip(people, ids, strict=True)]
    answer = ask(named, individuals=known, tier="interval")
    named_answers = answer.json()["predictions"]
    assert [each.pop("id") for each in named_answers] == ids
    assert named_answers == plain, "an id changes nothing else"
    some = ask(named, individuals=[people[0], people[1] | {"customer": "B"}]).json()["predictions"]
    assert [each["id"] for each in some] == [None, "B"]
    single = ask(named, individual=people[0] | {"customer": "A"}, counterpart=True).json()["predictions"][0]
    assert single["id"] == "A" and "customer" not in single["counterpart"]
    assert all(b"83721" not in file.read_bytes() for file in tmp_path.iterdir()), "no log has an id"


def test_a_request_without_ids_is_answered_as_before(named: TestClient, client: TestClient) -> None:
    for each in (named, client):
        assert "id" not in ask(each, individuals=rows(2)).json()["predictions"][0]
    refused = ask(client, individual=rows(1)[0] | {"customer": "A"})
    assert refused.status_code == 422 and "Column 'customer'" in refused.text


@pytest.mark.parametrize("name", [[1], {"a": 1}, True])
def test_an_id_is_one_value(named: TestClient, name: Any) -> None:
    answer = ask(named, individuals=[rows(1)[0], rows(1)[0] | {"customer": name}])
    assert answer.status_code == 422
    (detail,) = answer.json()["detail"]
    assert (
        detail["loc"] == ["body", "individuals", 1, "customer"]
        and "is an id: a text, a number or null" in detail["msg"]
    )


def test_mistakes_beside_an_id_are_named(named: TestClient) -> None:
    wrong = rows(1)[0] | {"customer": "A", "age": 7}
    detail = ask(named, individual=wrong).json()["detail"]
    assert [each["loc"][-1] for each in detail] == ["age"]
    assert ask(named, individuals=["stranger", rows(1)[0] | {"customer": "A"}]).status_code == 422


def test_the_description_has_the_id(named: TestClient) -> None:
    whole = named.get("/openapi.json").json()
    document = whole["paths"]["/v1/predictions"]["post"]
    request = document["requestBody"]["content"]["application/json"]["schema"]
    answer = document["responses"]["200"]["content"]["application/json"]["schema"]
    for names in ({}, {"customer": "A"}, {"customer": 3}, {"customer": None}):
        body = {"individual": rows(1)[0] | names}
        jsonschema.validate(body, request)
        jsonschema.validate(ask(named, **body).json(), {**whole, **answer})
