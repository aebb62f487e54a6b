"""Turn the body of a request into its answer and its entry in the log."""

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
from isonomy.service.requests import Asked
from isonomy.service.settings import Settings

Texts = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Outputs, upper and lower bounds as JSON, one text per individual, for the answer and the log."""


@dataclass(frozen=True, eq=False)
class Answered:
    """An answer; it may be sent once ``logged`` is done."""

    body: bytes
    request: str
    answers: Answers
    logged: Future[None]


class Answering:
    """Reads, certifies and logs requests; runs in a worker thread."""

    def __init__(self, certifier: Certifier, log: AuditLog, settings: Settings) -> None:
        self._certifier, self._log, self._settings = certifier, log, settings
        served = certifier.served
        head = {"certificate": served.identity, "epsilon": served.epsilon, "delta": served.problem.delta}
        self._head = json.dumps(head)[1:-1]

    def work(self, asked: Asked) -> float:
        """Return about the multiplications of an answer."""
        return self._certifier.work(len(asked.x), asked.budget_ms / 1000.0, asked.counterpart)

    def __call__(self, asked: Asked, caller: str, arrived: float) -> Answered:
        """Answer a request that arrived at ``arrived`` seconds of the monotonic clock."""
        seconds = arrived + asked.budget_ms / 1000.0 - time.monotonic()
        answers = self._certifier(asked.x, seconds=seconds, counterparts=asked.counterpart)
        request, at = new_request()
        head = (request, at, caller, self._certifier.served.identity, len(answers))
        outputs = [f"[{row}]" for row in json.dumps(answers.outputs.tolist())[2:-2].split("], [")]  # finite numbers
        upper, lower = (json.dumps(side.tolist())[1:-1].split(", ") for side in (answers.upper, answers.lower))
        entry = self._entry(head, answers, (outputs, upper, lower), asked.rows)
        return Answered(
            self._answer(request, answers, (outputs, upper, lower), asked.ids),
            request,
            answers,
            self._log.append(entry),
        )

    # Texts are written by hand, every number once for answer and log: with a dictionary for each individual and
    # pydantic's JSON a batch takes some 7 % more processor time.

    def _answer(self, request: str, answers: Answers, texts: Texts, ids: Sequence[Any]) -> bytes:
        """Write the answer as JSON; an infinite bound is null. Each individual has its id, where any has one."""
        outputs, *bounds = texts
        upper, lower = (["null" if bound == "Infinity" else bound for bound in side] for side in bounds)
        names: dict[Any, str] = {name: json.dumps(name) for name in set(answers.predictions)}
        both = list(zip(answers.outcome, answers.favourable, strict=True))
        text = {pair: json.dumps(dict(zip(("outcome", "favourable"), pair, strict=True)))[1:-1] for pair in set(both)}
        columns = (
            answers.predictions, map(text.__getitem__, both), outputs, upper, lower, answers.verdict, answers.decision,
            answers.tier, counterparts(answers.counterpart, len(answers)),
            [f'"id":{json.dumps(each)},' for each in ids] or repeat("", len(answers)),
        )  # fmt: skip
        rows = [
            f'{{{name}"prediction":{names[prediction]},{given},"outputs":{output},"upper":{upper},"lower":{lower},'
            f'"verdict":"{verdict}","decision":"{decision}","tier":"{tier}"{other}}}'
            for prediction, given, output, upper, lower, verdict, decision, tier, other, name in zip(
                *columns, strict=True
            )
        ]
        return f'{{"request":"{request}",{self._head},"predictions":[{",".join(rows)}]}}'.encode()

    def _entry(self, head: Row, answers: Answers, texts: Texts, rows: Sequence[Any]) -> Entry:
        """Return the entry of the log with its rows as JSON, the text that the chain hashes."""
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


def counterparts(people: pd.DataFrame | None, count: int) -> list[str]:
    """Write counterparts in raw units as JSON fields, one text per individual; a missing value is null."""
    if people is None:
        return [""] * count
    plain = people.astype(object).where(people.notna(), None)
    return [f',"counterpart":{json.dumps(row)}' for row in plain.to_dict("records")]
