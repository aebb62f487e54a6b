"""From the body of a request to its answer and its entry in the log."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pandas as pd

from isonomy.service.certifier import Answers, Certifier
from isonomy.service.chain import new_request
from isonomy.service.log import AuditLog, Entry, Row
from isonomy.service.reading import BadRequestError, Reader, parse
from isonomy.service.settings import Settings

Texts = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Outputs, upper and lower bounds as JSON: in the answer and in the log."""


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
        self._reader = Reader(served.schema, settings)
        head = {"certificate": served.identity, "epsilon": served.epsilon, "delta": served.delta}
        self._head = json.dumps(head)[1:-1]

    def __call__(self, body: bytes, caller: str, arrived: float) -> Answered:
        """Answer a body that arrived at a moment of the monotonic clock."""
        document = parse(body)
        rows, budget, asked = self._reader.request(document)
        x = self._reader.coordinates(rows, single="individual" in document)
        if asked and len(rows) > self._settings.max_counterparts:
            most = f"Counterparts are searched for at most {self._settings.max_counterparts} individuals at a time."
            raise BadRequestError.at(most, "counterpart")
        answers = self._certifier(x, seconds=arrived + budget / 1000.0 - time.monotonic(), counterparts=asked)
        request, at = new_request()
        head = (request, at, caller, self._certifier.served.identity, len(answers))
        outputs = [f"[{row}]" for row in json.dumps(answers.outputs.tolist())[2:-2].split("], [")]  # finite numbers
        upper, lower = (json.dumps(side.tolist())[1:-1].split(", ") for side in (answers.upper, answers.lower))
        entry = self._entry(head, answers, (outputs, upper, lower), rows)
        return Answered(
            self._answer(request, answers, (outputs, upper, lower)), request, answers, self._log.append(entry)
        )

    # Texts are written by hand, every number once: a dictionary for each individual would cost more than its bounds.

    def _answer(self, request: str, answers: Answers, texts: Texts) -> bytes:
        """The answer as JSON, which knows no infinity: a bound without limit is null."""
        outputs, *bounds = texts
        upper, lower = (["null" if text == "Infinity" else text for text in side] for side in bounds)
        names: dict[Any, str] = {name: json.dumps(name) for name in set(answers.predictions)}
        both = list(zip(answers.outcome, answers.favourable, strict=True))
        said = {pair: json.dumps(dict(zip(("outcome", "favourable"), pair, strict=True)))[1:-1] for pair in set(both)}
        columns = (
            answers.predictions, map(said.__getitem__, both), outputs, upper, lower, answers.verdict, answers.decision,
            answers.tier, counterparts(answers.counterpart, len(answers)),
        )  # fmt: skip
        rows = [
            f'{{"prediction":{names[prediction]},{decided},"outputs":{output},"upper":{upper},"lower":{lower},'
            f'"verdict":"{verdict}","decision":"{decision}","tier":"{tier}"{other}}}'
            for prediction, decided, output, upper, lower, verdict, decision, tier, other in zip(*columns, strict=True)
        ]
        return f'{{"request":"{request}",{self._head},"predictions":[{",".join(rows)}]}}'.encode()

    def _entry(self, head: Row, answers: Answers, texts: Texts, rows: Sequence[Any]) -> Entry:
        """The entry of the log, and its rows as JSON, as the chain hashes them."""
        request, count = head[0], len(answers)
        stored = [[json.dumps(row) for row in rows]] if self._settings.store_features else []
        names: dict[Any, str] = {name: str(name) for name in set(answers.predictions)}
        quoted = {name: json.dumps(text) for name, text in names.items()}
        words = (answers.verdict, answers.decision, answers.tier)
        features = map(json.dumps, stored[0]) if stored else repeat("null", count)
        written = [
            f'["{request}", {place}, {quoted[prediction]}, "{output}", {upper}, {lower}, "{verdict}", "{decision}", '
            f'"{tier}", {cells}]'
            for place, prediction, output, upper, lower, verdict, decision, tier, cells in zip(
                range(count), answers.predictions, *texts, *words, features, strict=True
            )
        ]
        predictions = zip(
            repeat(request, count), range(count), map(names.__getitem__, answers.predictions), texts[0],
            answers.upper.tolist(), answers.lower.tolist(), *words, *stored, strict=True,
        )  # fmt: skip
        return Entry(head, list(predictions), f"[{json.dumps(head)}, {', '.join(written)}]")


def counterparts(found: pd.DataFrame | None, count: int) -> list[str]:
    """The counterparts in raw units, as parts of an answer; a missing value is null."""
    if found is None:
        return [""] * count
    plain = found.astype(object).where(found.notna(), None)
    return [f',"counterpart":{json.dumps(row)}' for row in plain.to_dict("records")]
