"""Describe the service at ``/openapi.json``: its routes, and JSON Schemas of requests and answers, from the schema of
the individuals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from isonomy.population import Feature, Schema
from isonomy.population.encoding import UNKNOWN, Coding
from isonomy.service.served import typical
from isonomy.service.settings import Settings
from isonomy.service.web import JSON

Json = dict[str, Any]
ID = ["string", "number", "null"]
MOST = 1000
"""Entries of one answer, at most."""


class Operation(NamedTuple):
    """A method, a path and its handler (run in a thread unless it is a coroutine). Without a ``summary`` it is not
    described; ``limited``: it takes the query parameter ``limit``."""

    method: str
    path: str
    handler: Callable[[Request], Response | Awaitable[Response]]
    summary: str = ""
    key: bool = True
    limited: bool = False


def description(schema: Schema, settings: Settings, operations: Iterable[Operation]) -> Json:
    """Describe all operations that have a summary."""
    paths: dict[str, Json] = {}
    for one in operations:
        if one.summary:
            paths.setdefault(one.path, {})[one.method.lower()] = _described(one, schema, settings)
    secured: Json = {"bearer": {"type": "http", "scheme": "bearer", "description": "an API key"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Isonomy",
            "version": version("isonomy"),
            "description": "Predictions with a proof of how differently a similar person could have been treated.",
        },
        "paths": paths,
        "components": {"securitySchemes": secured} if settings.keys else {},
    }


def _described(operation: Operation, schema: Schema, settings: Settings) -> Json:
    posted = operation.method == "POST"
    number: Json = {"type": "integer", "minimum": 1, "maximum": MOST}
    limit: Json = {"name": "limit", "in": "query", "description": "how many, at most", "schema": number}
    refusals = {"422": "a parameter that cannot be used"} if operation.key else {"503": "not now"}
    if operation.key and settings.keys:
        refusals["401"] = "no valid key"
    if posted:
        refusals |= {"408": "a slow body", "413": "a large body", "415": "no JSON", "503": "try again later"}
    refused = {code: {"description": why, **_holding(problem_schema())} for code, why in refusals.items()}
    good: Json = {"description": "the answer", **_holding(answer_schema() if posted else {"type": "object"})}
    body: Json = {"requestBody": {"required": True, **_holding(request_schema(schema, settings))}} if posted else {}
    security: Json = {"security": [{"bearer": []}]} if operation.key and settings.keys else {}
    parameters: Json = {"parameters": [limit]} if operation.limited else {}
    return {"summary": operation.summary, **parameters, **body, **security, "responses": {"200": good, **refused}}


def _holding(schema: Json) -> Json:
    return {"content": {JSON: {"schema": schema}}}


def request_schema(schema: Schema, settings: Settings) -> Json:
    """Describe the body of ``POST /v1/predictions``: individuals in raw units, exactly the columns of the schema."""
    columns: Json = {feature.name: feature_schema(feature) for feature in schema.features}
    named: Json = {} if schema.id is None else {schema.id: _about("the id, which the answer returns", type=ID)}
    individual: Json = _closed(columns | named, *named)
    individual["example"] = {feature.name: typical(feature) for feature in schema.features}
    tight = "'tight' goes on where the interval tier leaves the verdict undecided, within the budget"
    budget = f"milliseconds that the tight tier may take; {settings.budget_ms:g} if left out"
    most = f"for at most {settings.max_counterparts} individuals"
    shared: Json = {
        "tier": _about(tight, enum=["interval", "tight"], default="tight"),
        "budget_ms": _about(budget, type=["number", "null"], minimum=0, maximum=settings.max_budget_ms),
        "counterpart": _about(
            f"search the similar person who is treated most differently; {most}", type="boolean", default=False
        ),
    }
    batch: Json = {"type": "array", "items": individual, "minItems": 1, "maxItems": settings.max_batch}
    given: tuple[Json, ...] = ({"individual": individual}, {"individuals": batch})
    return {"oneOf": [_closed(either | shared, *shared) for either in given]}


def feature_schema(feature: Feature) -> Json:
    """Describe the values of one column."""
    described: Json = {"description": feature.description} if feature.description else {}
    coding = Coding(feature)
    names, null = [*coding.ranks, *coding.codes], [] if coding.absent == UNKNOWN else [None]  # a code is also a number
    if not coding.numeric:
        truths = [name == "True" for name in coding.ranks if name in ("True", "False")]
        return {"enum": [*names, *truths, *null], **described}
    number: Json = {"type": "integer" if coding.whole else "number", "minimum": coding.low, "maximum": coding.high}
    return {**({"anyOf": [number, {"enum": [*null, *names]}]} if null else number), **described}


def answer_schema() -> Json:
    """Describe the answer of ``POST /v1/predictions``."""
    row = _closed(
        {
            "id": _about("of the individual, where the request has ids", type=ID),
            "prediction": _about("the class that is given, or the number", type=["string", "number"]),
            "outcome": _about("the class, or high or low; null: a number without a cut-off", type=["string", "null"]),
            "favourable": _about("whether that is favourable; null: none is named", type=["boolean", "null"]),
            "outputs": {"type": "array", "items": {"type": "number"}},
            "upper": _about("no similar person is treated more differently; null: no limit", type=["number", "null"]),
            "lower": _about("the counterpart is treated this differently", type="number"),
            "verdict": {"enum": ["certified", "violated", "undecided"]},
            "decision": {"enum": ["certified", "flippable", "undecided", "none"]},
            "tier": {"enum": ["interval", "tight"]},
            "counterpart": _about("in raw units, where it was asked for", type="object"),
        },
        "id",
        "counterpart",
    )
    return _closed(
        {
            "request": _about("the name of this request in the audit log", type="string"),
            "certificate": {"type": "string"},
            "epsilon": {"type": "number"},
            "delta": {"type": "number"},
            "predictions": {"type": "array", "items": row},
        }
    )


def problem_schema() -> Json:
    """Describe the answer to a refused or failed request."""
    place: Json = {"type": "array", "items": {"type": ["string", "integer"]}}
    text: Json = {"type": "string"}
    detail: Json = {"type": "array", "items": _closed({"loc": place, "msg": text, "type": text})}
    return _closed({"detail": {"anyOf": [text, detail]}})


def _closed(properties: Json, *optional: str) -> Json:
    """Describe an object with exactly these properties, all required but the ``optional`` ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _about(description: str, **schema: Any) -> Json:
    return {**schema, "description": description}
