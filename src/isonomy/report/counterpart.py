"""Facts of one person and their worst counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray, reached
from isonomy.certificates.local import LocalCertificate
from isonomy.population.outcome import decided
from isonomy.report import words
from isonomy.report.findings import output_names, role_of
from isonomy.report.numbers import cell
from isonomy.report.sections import Cell, Facts, Rounded, Section, exact, table


def facts_of_row(
    local: LocalCertificate, place: int, row: int, rounded: Rounded | None = None, name: str | None = None
) -> Facts:
    """Return the facts of one person, ``row`` of the table: prediction, bounds of its change, worst counterpart.

    ``place`` is the person's row in the certificate, ``name`` the id in the table.
    """
    model, schema, witnesses = local.problem.model, local.problem.schema, local.witnesses
    assert schema is not None
    upper, lower, decision = float(local.upper[place]), float(local.lower[place]), str(local.decision[place])
    rounded = rounded or Rounded.of(lower, upper, None, model.head == "regression")
    most = rounded.proved("upper", "For somebody similar this can change by at most", upper)
    least = rounded.attained("lower", "A counterpart was found for whom it changes by", lower)
    pair = witnesses.frame(place)
    gets = model(np.stack([witnesses.individual[place], witnesses.counterpart[place]]))
    names = output_names(model, schema)
    known = schema.label is not None and len(schema.label.classes) == len(names)
    keys = names if known else [f"output {i}" for i in range(len(names))]
    mine, theirs = (dict(zip(keys, each.tolist(), strict=True)) for each in gets)
    # Of two classes both change alike: the second is the one that is shown.
    output = 1 if len(names) == 2 and model.exclusive else int(np.argmax(np.abs(gets[0] - gets[1])))
    output_name = f"predicted {names[output]}" if model.head == "regression" else f"probability of “{names[output]}”"
    roles, differs = {each.name: role_of(each) for each in schema.features}, pair["differs"] == "*"
    tables = tuple(
        table(code, code, "Feature", "This person", "Counterpart",
              rows=((Cell(str(name), roles[str(name)]), cell(one), cell(other)) for name, one, other, _ in
                    pair[own].itertuples(name=None)))
        for code, own in (("differs", differs), ("equal", ~differs))
    )  # fmt: skip
    change = "no change was found"
    if lower > 0:
        change = f"a counterpart was found for whom it changes by {reached(str(least))}"
    listing = (
        exact("row", "Row", row, str(row)),  # as it is typed
        exact("id", schema.id or "", name, "" if name is None else f"{schema.id} {name}"),
        exact("prediction", "Prediction", mine, _outputs_text(names, gets[0], rounded)),
        most,
        least,
        exact("decision", "Decision", decision, model.conditional(_decision_sentence(local, place, names, rounded))),
        *([exact("condition", "All of this holds", model.condition)] if model.condition else []),
        exact("counterpart_prediction", "The worst counterpart found", theirs, _outputs_text(names, gets[1], rounded)),
        exact("differs", "Differs in", [str(name) for name in pair.index[differs]], ""),
        *(exact(side, side, {str(name): _item(value) for name, value in pair[side].items()}, "")
          for side in ("individual", "counterpart")),
    )  # fmt: skip
    outputs = tuple(rounded.observed("gets", output_name, float(each[output])) for each in gets)
    headline = model.conditional(f"For somebody similar this can change by at most {most} (proved); {change}.")
    return Facts(headline, None, (Section("row", listing, tables=tables), Section("gets", outputs)))


def _decision_sentence(local: LocalCertificate, place: int, names: Sequence[str], rounded: Rounded) -> str:
    """Return the sentence on the decision, with the counterpart that changes it where that is not the one shown."""
    sentence, problem, witnesses = words.DECISIONS[str(local.decision[place])], local.problem, local.witnesses
    if local.decision[place] != "flippable":
        return sentence
    three = np.stack(
        [each[place] for each in (witnesses.individual, witnesses.counterpart, witnesses.flip_counterpart)]
    )
    gets = problem.model(three)
    own, shown, _ = decided(gets, problem.outcome, regression=problem.model.head == "regression")
    if own != shown:
        return sentence
    pair = witnesses.frame(place, flip=True)
    changes = [f"{name} {cell(one)} → {cell(other)}" for name, one, other, mark in pair.itertuples(name=None) if mark]
    return f"{sentence[:-1]}, not the one shown: {_outputs_text(names, gets[2], rounded)}, with {', '.join(changes)}."


def _outputs_text(names: Sequence[str], outputs: FloatArray, rounded: Rounded) -> str:
    return ", ".join(f"{name} = {rounded.plain(value)}" for name, value in zip(names, outputs, strict=True))


def _item(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
