"""Requests and answers as pydantic models, made from the schema of the individuals.

Cells are read as JSON writes them, more strictly than a table from a file: a number is a number and not a text that
looks like one, a missing value is ``null``. What is accepted becomes the coordinates of :meth:`isonomy.Schema.encode`,
bit for bit, since both go through :class:`~isonomy.population.encoding.Coding`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from pydantic import WithJsonSchema as Described
from pydantic_core import ErrorDetails, PydanticCustomError
from typing_extensions import TypedDict

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError
from isonomy.population import Feature, Schema
from isonomy.population.encoding import UNKNOWN, Coding, encode_cells, text_of
from isonomy.service.served import typical
from isonomy.service.settings import Settings

SHOWN, LONGEST, NAME = 20, 280, 60
"""Complaints in one answer, characters of a complaint and of a name that it repeats, at most."""

NO_PERSON = ("missing", "extra_forbidden", "dict_type", "id")
"""Faults of a request: an individual with one of these is none that the schema refuses."""

_typed_dict: Any = TypedDict  # made of names that are known when a service begins
CLOSED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class BadRequestError(DataError):
    """A body that cannot be used; ``details`` names each place and says what would be right.

    ``people`` counts individuals whom the schema refuses: all columns are there, with a value that it does not know.
    """

    def __init__(self, details: Sequence[dict[str, Any]], people: int = 0) -> None:
        super().__init__(str(details[0]["msg"]))
        self.details, self.people = list(details), people

    @classmethod
    def at(cls, message: str, *where: str | int, kind: str = "value_error", people: int = 0) -> BadRequestError:
        """Return the error of one complaint."""
        return cls([{"loc": ["body", *where], "msg": message, "type": kind}], people)


class Asked(NamedTuple):
    """A request as it was read: individuals in coordinates (n, m) and in raw units, their ids (empty where none has
    one), the milliseconds that the tight tier may take, and whether counterparts are wanted."""

    x: FloatArray
    rows: list[dict[str, Any]]
    ids: list[Any]
    budget_ms: float
    counterpart: bool


class Detail(BaseModel):
    """One complaint: its place, its words and its kind."""

    loc: list[str | int]
    msg: str
    type: str


class Refusal(BaseModel):
    """The answer to a refused or failed request."""

    detail: str | list[Detail]


class Prediction(BaseModel):
    """The prediction for one individual with its certificate."""

    model_config = ConfigDict(extra="forbid")

    id: str | float | None = Field(None, description="of the individual, where the request has ids")
    prediction: str | float = Field(description="the class that is given, or the number")
    outcome: str | None = Field(description="the class, or high or low; null: a number without a cut-off")
    favourable: bool | None = Field(description="whether that is favourable; null: none is named")
    outputs: list[float]
    upper: float | None = Field(description="no similar person is treated more differently; null: no limit")
    lower: float = Field(description="the counterpart is treated this differently")
    verdict: Literal["certified", "violated", "undecided"]
    decision: Literal["certified", "flippable", "undecided", "none"]
    tier: Literal["interval", "tight"]
    counterpart: dict[str, Any] | None = Field(None, description="in raw units, where it was asked for")


class Predictions(BaseModel):
    """The answer of ``POST /v1/predictions``."""

    model_config = ConfigDict(extra="forbid")

    request: str = Field(description="the name of this request in the audit log")
    certificate: str
    epsilon: float
    delta: float
    predictions: list[Prediction]


class Reader:
    """Reads requests about the individuals of one schema."""

    def __init__(self, schema: Schema, settings: Settings) -> None:
        self._schema, self._settings = schema, settings
        self._codings = [Coding(feature) for feature in schema.features]
        columns: dict[str, Any] = {coding.feature.name: _column(coding) for coding in self._codings}
        if schema.id is not None:
            columns[schema.id] = NotRequired[_ID]
        row: Any = _typed_dict("Individual", columns)
        example = {feature.name: typical(feature) for feature in schema.features}
        row.__pydantic_config__ = {**CLOSED, "json_schema_extra": {"example": example}}
        tight = "'tight' goes on where the interval tier leaves the verdict undecided, within the budget"
        most = f"for at most {settings.max_counterparts} individuals"
        budget = f"milliseconds that the tight tier may take; {settings.budget_ms:g} if left out"

        class Options(BaseModel):
            model_config = CLOSED
            tier: Literal["interval", "tight"] = Field("tight", description=tight)
            budget_ms: Annotated[float, Field(ge=0, le=settings.max_budget_ms)] | None = Field(None, description=budget)
            counterpart: bool = Field(
                False, description=f"search the similar person who is treated most differently; {most}"
            )

        class One(Options):
            individual: row

        class Many(Options):
            individuals: list[row] = Field(min_length=1, max_length=settings.max_batch)

        self._adapter: TypeAdapter[Any] = TypeAdapter(Annotated[Many | One, Field(union_mode="left_to_right")])

    def json_schema(self) -> dict[str, Any]:
        """Describe a request as JSON Schema, without references."""
        schema = self._adapter.json_schema()
        definitions = schema.pop("$defs")

        def inlined(part: Any) -> Any:
            if isinstance(part, list):
                return [inlined(each) for each in part]
            if not isinstance(part, dict):
                return part
            if "$ref" in part:
                return inlined(definitions[part["$ref"].rpartition("/")[2]])
            return {name: inlined(each) for name, each in part.items()}

        described: dict[str, Any] = inlined(schema)
        return described

    def __call__(self, body: bytes) -> Asked:
        """Read a body, or raise an error that names each place where it is wrong."""
        try:
            asked = self._adapter.validate_json(body)
        except ValidationError as error:
            raise self._refusal(error) from None
        rows = [asked.individual] if hasattr(asked, "individual") else asked.individuals
        if body.count(b":") != len(asked.model_fields_set) + sum(map(len, rows)):
            _check_names(body)
        if asked.counterpart and len(rows) > self._settings.max_counterparts:
            most = f"Counterparts are searched for at most {self._settings.max_counterparts} individuals at a time."
            raise BadRequestError.at(most, "counterpart")
        ids: list[Any] = []
        if self._schema.id is not None and any(self._schema.id in row for row in rows):
            ids = [row.pop(self._schema.id, None) for row in rows]
        x = encode_cells(rows, self._codings)
        budget = self._settings.budget_ms if asked.budget_ms is None else asked.budget_ms
        return Asked(x, rows, ids, budget if asked.tier == "tight" else 0.0, asked.counterpart)

    def _refusal(self, error: ValidationError) -> BadRequestError:
        """Return the complaints about a body, and count people outside the schema: objects with exactly its columns,
        whose values do not fit."""
        if error.error_count() > 2 * self._settings.max_batch * (len(self._codings) + 2):
            return BadRequestError.at("The body has names of no request, thousands of them.", kind="extra_forbidden")
        listed = error.errors(include_url=False, include_context=False, include_input=False)
        branches = {each["loc"][0] for each in listed if each["loc"]}
        meant = [name for name in branches if not any(_lacks(each, name) for each in listed)]
        if branches and len(meant) != 1:
            return BadRequestError.at("Give an object with either 'individual' or 'individuals'.", kind="missing")
        complaints: dict[tuple[str | int, ...], dict[str, Any]] = {}
        refused: dict[tuple[str | int, ...], bool] = {}
        for each in listed:
            if not branches or each["loc"][0] == meant[0]:
                # A cell that may be of several kinds has an error for each of them: the first counts.
                depth = {"individual": 1, "individuals": 2}.get(str(each["loc"][1:2][0]), 0) if each["loc"][1:] else 0
                place = each["loc"][1 : depth + 2] if depth else each["loc"][1:2]
                complaints.setdefault(place, _complaint(each, place))
                if depth:
                    value = len(place) == depth + 1 and each["type"] not in NO_PERSON
                    refused[place[:depth]] = refused.get(place[:depth], True) and value
        return BadRequestError(list(complaints.values())[:SHOWN], sum(refused.values()))


def _lacks(error: ErrorDetails, branch: Any) -> bool:
    """Say whether a body has not the individuals of one of the two kinds of request."""
    return error["loc"][0] == branch and (
        len(error["loc"]) == 1 or (len(error["loc"]) == 2 and error["type"] == "missing")
    )


def _complaint(error: ErrorDetails, place: tuple[str | int, ...]) -> dict[str, Any]:
    """Return one entry of the answer 422; names that a body has made up are cut."""
    where = [each[:NAME] if isinstance(each, str) else each for each in place]
    inside = len(where) > 1 and isinstance(where[-1], str)
    words = f"Column '{where[-1]}': {error['msg']}." if inside else f"{error['msg']}."
    words = words if len(words) <= LONGEST else f"{words[:LONGEST]}…"
    return {"loc": ["body", *where], "msg": words, "type": error["type"]}


def _check_names(body: bytes) -> None:
    """Refuse equal names in one object, since parsers differ in which one counts. Every name is followed by a colon:
    this is asked only where there are more colons than names that were read (in a text, say)."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        (name, times), *_ = Counter(name for name, _ in pairs).most_common(1) or [("", 0)]
        if times > 1:
            raise BadRequestError.at(f"'{name[:NAME]}' stands twice in one object.", kind="json_invalid")

    json.loads(body.decode(), object_pairs_hook=unique)


def _column(coding: Coding) -> Any:
    """Return the type of the cells of one feature; ``null`` and codes such as -9 may stand for a missing value."""
    absent = [None] * (coding.absent != UNKNOWN)
    known: list[Any] = [*coding.ranks, *absent]
    kinds: list[Any] = [Literal[tuple(known)]] if known else []
    if coding.numeric:
        kind = int if coding.whole else float
        limits = Field(ge=kind(coding.low), le=kind(coding.high))
        kinds = [Annotated[kind, limits], *kinds]
        if coding.whole:  # 3.0 is a whole number
            kinds.append(Annotated[float, AfterValidator(_whole), limits])
    else:
        if (codes := sorted(coding.codes)) and codes == list(
            range(codes[0], codes[-1] + 1)
        ):  # without calls, and no truths
            kinds = [Annotated[int, Field(ge=codes[0], le=codes[-1])], *kinds]
        truths = [name == "True" for name in coding.ranks if name in ("True", "False")]
        kinds += [Literal[tuple(truths)]] if truths else []
    if known and (coding.codes or coding.numeric):
        kinds.append(Annotated[float, AfterValidator(_known(coding))])
    either = Field(union_mode="left_to_right") if len(kinds) > 1 else Field()
    return Annotated[Union[tuple(kinds)], either, Described(column_schema(coding))]  # noqa: UP007


def _whole(cell: float) -> int:
    if not cell.is_integer():
        raise PydanticCustomError("whole", "Input should be a whole number")
    return int(cell)


def _known(coding: Coding) -> Callable[[float], str]:
    def known(cell: float) -> str:
        if (name := text_of(cell)) not in coding.ranks:
            raise PydanticCustomError("code", "Input should be a code that the schema has")
        return name

    return known


def _id(cell: Any) -> Any:
    if type(cell) in (str, int, type(None)) or (type(cell) is float and math.isfinite(cell)):
        return cell
    raise PydanticCustomError("id", "it is an id: a text, a number or null")


_ID = Annotated[Any, PlainValidator(_id), Described({"type": ["string", "number", "null"], "description": "the id"})]


def column_schema(coding: Coding) -> dict[str, Any]:
    """Describe the cells of one column; a code is also a number."""
    feature: Feature = coding.feature
    described = {"description": feature.description} if feature.description else {}
    names, null = [*coding.ranks, *coding.codes], [] if coding.absent == UNKNOWN else [None]
    if not coding.numeric:
        truths = [name == "True" for name in coding.ranks if name in ("True", "False")]
        return {"enum": [*names, *truths, *null], **described}
    number = {"type": "integer" if coding.whole else "number", "minimum": coding.low, "maximum": coding.high}
    return {**({"anyOf": [number, {"enum": [*null, *names]}]} if null else number), **described}
