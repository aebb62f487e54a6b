"""From the body of a request to its answer and its entry in the log."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.service.certifier import Answers, Certifier, OutsideError
from isonomy.service.log import AuditLog, Entry
from isonomy.service.reading import BadRequestError, Reader, complaint, parse
from isonomy.service.settings import Settings
from isonomy.service.tables import new_request


@dataclass(frozen=True, eq=False)
class Answered:
    """An answer that may be sent once ``logged`` is done."""

    body: bytes
    request: str
    answers: Answers
    logged: Future[None]


class Answering:
    """Reads, certifies and logs; runs in a thread of the arithmetic."""

    def __init__(self, certifier: Certifier, log: AuditLog, settings: Settings) -> None:
        self._certifier, self._log, self._settings = certifier, log, settings
        served = certifier.served
        self._reader = Reader(served.schema, settings.max_batch, settings.max_budget_ms)
        head = {"certificate": served.identity, "epsilon": served.epsilon, "delta": served.delta}
        self._head = json.dumps(head)[1:-1]

    def __call__(self, body: bytes, caller: str, arrived: float) -> Answered:
        """Answer a body that arrived at a moment of the monotonic clock."""
        document = parse(body)
        rows, options = self._reader.request(document)
        x = self._reader.coordinates(rows, single="individual" in document)
        if options.counterpart and len(rows) > self._settings.max_counterparts:
            most = f"Counterparts are searched for at most {self._settings.max_counterparts} individuals at a time."
            raise BadRequestError.at(most, "counterpart")
        budget = self._settings.budget_ms if options.budget_ms is None else options.budget_ms
        seconds = arrived + budget / 1000.0 - time.monotonic() if options.tier == "tight" else 0.0
        try:
            answers = self._certifier(x, seconds=seconds, counterparts=options.counterpart)
        except OutsideError as error:
            raise BadRequestError([complaint(str(error), "individuals")], error.people) from None
        request, at = new_request()
        outputs = [f"[{row}]" for row in json.dumps(answers.outputs.tolist())[2:-2].split("], [")]  # finite numbers
        entry = self._entry(request, at, caller, answers, outputs, rows)
        return Answered(self._written(request, answers, outputs), request, answers, self._log.append(entry))

    def _entry(
        self, request: str, at: int, caller: str, answers: Answers, outputs: Sequence[str], rows: Sequence[Any]
    ) -> Entry:
        count = len(answers)
        stored = [json.dumps(row) for row in rows] if self._settings.store_features else [None] * count
        predictions = zip(
            [request] * count, range(count), map(str, answers.predictions), outputs,
            (answers.upper + 0.0).tolist(), (answers.lower + 0.0).tolist(),  # SQLite has no -0.0: none may be hashed
            answers.verdict, answers.decision, answers.tier, stored, strict=True,
        )  # fmt: skip
        return Entry((request, at, caller, self._certifier.served.identity, count), list(predictions))

    def _written(self, request: str, answers: Answers, outputs: Sequence[str]) -> bytes:
        """The answer as JSON; written by hand, since a dictionary per individual would cost more than its bounds."""
        names: dict[Any, str] = {name: json.dumps(name) for name in set(answers.predictions)}
        columns = (
            answers.predictions, outputs, _numbers(answers.upper), _numbers(answers.lower), answers.verdict,
            answers.decision, answers.tier, counterparts(answers.counterpart, len(answers)),
        )  # fmt: skip
        rows = [
            f'{{"prediction":{names[prediction]},"outputs":{output},"upper":{upper},"lower":{lower},'
            f'"verdict":"{verdict}","decision":"{decision}","tier":"{tier}"{other}}}'
            for prediction, output, upper, lower, verdict, decision, tier, other in zip(*columns, strict=True)
        ]
        return f'{{"request":"{request}",{self._head},"predictions":[{",".join(rows)}]}}'.encode()


def counterparts(found: pd.DataFrame | None, count: int) -> list[str]:
    """The counterparts in raw units, as parts of an answer; a missing value is null."""
    if found is None:
        return [""] * count
    columns = [[_plain(cell) for cell in found[name].tolist()] for name in found.columns]
    rows = zip(*columns, strict=True)
    return [f',"counterpart":{json.dumps(dict(zip(found.columns, row, strict=True)))}' for row in rows]


def _plain(cell: Any) -> Any:
    if cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell


def _numbers(values: FloatArray) -> list[str]:
    """As JSON, which knows no infinity: a bound without limit is null."""
    return json.dumps(values.tolist())[1:-1].replace("Infinity", "null").split(", ")
