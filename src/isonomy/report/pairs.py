"""One person beside the worst counterpart that was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from isonomy.certificates.local import LocalCertificate
from isonomy.report import words
from isonomy.report.findings import output_names, role_of
from isonomy.report.model import Cell, Facts, Rounded, Section, exact, table
from isonomy.report.numbers import cell


def facts_of_row(found: LocalCertificate, place: int, row: int, rounded: Rounded | None = None) -> Facts:
    """One person of a certificate, ``row`` of the table: the prediction, its bounds, and the worst counterpart."""
    network, schema = found.question.network, found.question.schema
    assert schema is not None
    upper, lower, decision = float(found.upper[place]), float(found.lower[place]), str(found.decision[place])
    rounded = rounded or Rounded.of(lower, upper, None, network.head == "regression")
    most = rounded.proved("upper", "For somebody similar this can change by at most", upper)
    least = rounded.found("lower", "A counterpart was found for whom it changes by", lower)
    pair, witnesses = found.witnesses.frame(place), found.witnesses
    gets = network(np.stack([witnesses.individual[place], witnesses.counterpart[place]]))
    names = output_names(network, schema)
    known = schema.label is not None and len(schema.label.classes) == len(names)
    keys = names if known else [f"output {i}" for i in range(len(names))]
    mine, theirs = (dict(zip(keys, each.tolist(), strict=True)) for each in gets)
    # Of two classes both change alike: the second is the one that is told.
    paired = network.head == "softmax" or network.classes == 1
    output = 1 if len(names) == 2 and paired else int(np.argmax(np.abs(gets[0] - gets[1])))
    told = f"predicted {names[output]}" if network.head == "regression" else f"probability of “{names[output]}”"
    roles = {each.name: role_of(each) for each in schema.features}
    lines = [(Cell(str(name), roles[str(name)]), cell(one), cell(other), differs == "*")
             for name, (one, other, differs) in zip(pair.index, pair.itertuples(index=False), strict=True)]  # fmt: skip
    tables = tuple(
        table(code, code, "Feature", "This person", "Counterpart", rows=[each[:3] for each in lines if each[3] == kind])
        for code, kind in (("differs", True), ("equal", False))
    )
    reached = f"a counterpart was found for whom it changes by {least}" if lower > 0 else "no change was found"
    listing = (
        exact("row", "Row", row),
        exact("prediction", "Prediction", mine, _given(mine, rounded)),
        most,
        least,
        exact("decision", "Decision", decision, words.DECISIONS[decision]),
        exact("counterpart_prediction", "The worst counterpart found", theirs, _given(theirs, rounded)),
        exact("differs", "Differs in", [str(name) for name in pair.index[pair["differs"] == "*"]], ""),
        *(exact(side, side, {str(name): _item(value) for name, value in pair[side].items()}, "")
          for side in ("individual", "counterpart")),
    )  # fmt: skip
    outputs = tuple(rounded.observed("gets", told, float(each[output])) for each in gets)
    headline = f"For somebody similar this can change by at most {most} (proved); {reached}."
    return Facts(headline, None, (Section("row", listing, tables=tables), Section("gets", outputs)))


def _given(outputs: Mapping[str, float], rounded: Rounded) -> str:
    return ", ".join(f"{name} {rounded.numbers.plain(value)}" for name, value in outputs.items())


def _item(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
