"""The shifts that records know, by their kind."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isonomy.certificates.composed import Composed, composed
from isonomy.certificates.drift import Drift
from isonomy.certificates.marginals import Marginals
from isonomy.certificates.mix import Mix
from isonomy.certificates.part import Part
from isonomy.certificates.protocol import Shift
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.stability import Stability
from isonomy.certificates.transport import Transport
from isonomy.errors import DataError, ParameterError, template
from isonomy.population import Schema
from isonomy.population.tables import column_names, read_file
from isonomy.similarity.metric import Metric
from isonomy_verify.shifts import shift_of as kernel_shift_of
from isonomy_verify.text import need

MEMBERS = (Transport, Drift, Composed, Part, Stability, Mix, Marginals)
KINDS: dict[str, type[Shift]] = {kind.kind: kind for kind in MEMBERS}


def shift_of(section: Mapping[str, Any], ground: Metric | None) -> Shift:
    """Return the shift that the section of a record means, with its ground cost where individuals move."""
    need(section["kind"] in KINDS, "a shift of no known kind")
    kernel_shift_of(section)  # what is no shift there is none here
    if "first" in section:
        return composed(shift_of(section["first"], None), shift_of(section["then"], ground))
    numbers = {name: math.inf if value == "inf" else value for name, value in section.items()}
    return KINDS[section["kind"]].read(numbers, ground)


STRANGERS = re.compile(r"\+\s*[^+,:/=\\]*$")
"""A share of strangers behind a shift; a plus in the name of a file is none."""

FORMS = (
    "part:25%, stability:0.25, mix:sex,race or mix, marginals:people.csv,residual=0.3, and +5% behind it for "
    "strangers; or drift:age=2,income=5%, with :everybody behind it where not only means are bounded; "
    "or two with ' & ' between them, stability:0.1 & drift:age=2"
)


def parsed_shift(text: str, schema: Schema) -> Shift:
    """Return the shift of a text such as ``part:25%``, ``stability:0.25``, ``mix:sex,race`` or ``mix``, which is by all
    protected features with categories, or ``marginals:people.csv,residual=0.3``; ``+5%`` behind it adds strangers. Or
    of one such as ``drift:age=2,income=5%``, on average, or with ``:everybody`` behind it of every person.
    ``a & b`` composes two."""
    if len(parts := re.split(r"\s&\s", text)) == 2:
        return composed(*(parsed_shift(part, schema) for part in parts))
    if text.strip().startswith("drift:"):
        return _drift(text)
    form, _, share = text.rpartition("+") if STRANGERS.search(text) else (text, "", "")
    kind, _, value = form.strip().partition(":")
    strangers = _share(text, share) if share else 0.0
    if kind == "marginals" and value:
        return _marginals(text, value, strangers, schema)
    if kind == "part" and value:
        return Part(_share(text, value), strangers)
    if kind == "stability" and value:
        return Stability(_share(text, value), strangers=strangers)
    if kind == "mix":
        names = [name.strip() for name in value.split(",")] if value else protected_categories(schema)
        if names:
            return Mix(tuple(names), strangers=strangers)
        raise ParameterError(template("shift", "a mix of named features: none with categories is protected", text))
    raise ParameterError(template("shift", f"of the form {FORMS}", text))


def _marginals(text: str, value: str, strangers: float, schema: Schema) -> Marginals:
    """Return the margins of the table of people that is named, in the features that it has."""
    file, *options = value.split(",")
    pairs = [option.partition("=") for option in options]
    numbers: dict[str, Any] = {name.strip(): _share(text, share) for name, _, share in pairs}
    if not numbers.keys() <= {"residual", "tolerance"} or len(numbers) < len(pairs):
        raise ParameterError(template("shift", f"of the form {FORMS}", text))
    names = column_names(file)
    features = tuple(each for each in schema.features if each.name in names)
    if not features:
        raise DataError(f"Table {file} has no column of the schema, so that it has no margins.")
    weight = schema.weight if schema.weight in names else None
    known = replace(schema, features=features, label=None, weight=weight, max_weight=None, split=None, id=None)
    return Marginals(read_file(file, known), strangers=strangers, **numbers)


def usual_shifts(schema: Schema) -> list[Reweighting]:
    """Return the shifts of an audit that names none: parts of a quarter and a tenth, any mix of the protected groups,
    and the banks' amber and red of the stability index."""
    names = protected_categories(schema)
    mixes = [Mix(tuple(names))] if names else []
    return [Part(0.25), Part(0.1), *mixes, Stability(0.1), Stability(0.25)]


def protected_categories(schema: Schema) -> list[str]:
    """Return the protected features that have categories."""
    return [each.name for each in schema.features if each.protected and each.categories]


def _drift(text: str) -> Drift:
    """Return the drift of a text; names of features may hold anything but a comma and a sign of equality."""
    value = text.strip().removeprefix("drift:").strip()
    amounts = dict[str, float | str]()
    for each in value.removesuffix(":everybody").split(","):
        name, equal, amount = (part.strip() for part in each.rpartition("="))
        if not equal or not name or name in amounts:
            raise ParameterError(template("shift", f"of the form {FORMS}", text))
        amounts[name] = amount
    return Drift(amounts, average=not value.endswith(":everybody"))


def _share(text: str, value: str) -> float:
    """Return a number, or a per cent."""
    try:
        number = value.strip().removesuffix("%")
        return float(number) / 100 if number != value.strip() else float(number)
    except ValueError:
        raise ParameterError(template("shift", f"of the form {FORMS}", text)) from None
