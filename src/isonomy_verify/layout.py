"""The layout of a certificate and its schema: which keys they have at every level, and of which type each value is.

**Soundness.** A key that is not known is refused, wherever it stands: what no line of the checker looks at has no place
in a certificate. Types are exact; true and false are no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from isonomy_verify.text import BadInput, quoted

Rule = Callable[[Any], bool]

ARRAYS = {
    "people": {"x", "weights", "rows", "y"},
    "local": {"upper", "lower", "decision", "counterpart", "flip_counterpart", "steady"},
    "profiles": {"count", "radius", "value", "pass", "passes", "largest"},
    "points": {"count", "person", "counterpart", "cost", "value", "mass"},
    "turned": {"owner", "cost", "mass", "person", "counterpart"},
}
"""The arrays of every group but the model's, which follow from its kind (:data:`MODELS`)."""

TREES = (
    "coordinate", "threshold", "category", "masks", "missing", "left", "right", "roots", "output", "values", "base",
    "error", "run_error",
)  # fmt: skip
"""The arrays of a tree ensemble (:class:`isonomy_verify.trees.Trees`), and how far its library's own run may be off."""

NODES = {
    "input": {"width"},
    "affine": {"weight", "bias", "weight_slack", "bias_slack", "magnitude", "magnitude_bias", "roundings"},
    "select": {"index"},
    "add": set[str](),
    "concat": set[str](),
}
"""What a node of a kind has beside its inputs; every other kind is an activation and has parameters."""

BESIDE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
"""The name of a file beside the certificate, such as a report: no path, no blank, nothing hidden."""


class Part(NamedTuple):
    """A table: rules of the keys that it must have, and of those that it may have; None stands for any value."""

    must: Mapping[str, Rule]
    may: Mapping[str, Rule] = {}

    def check(self, value: Any, where: str) -> None:
        """Refuse another key, a missing one and a value of another type."""
        if not isinstance(value, dict):
            raise BadInput(f"The certificate is damaged: '{where}' must be a table.")
        rules = {**self.must, **self.may}
        strange = next((quoted(key) for key in value if key not in rules), "")
        lacking = next((f"{key!r} is missing" for key in self.must if key not in value), "")
        if strange or lacking:
            names = f"must have {', '.join(self.must)}" if self.must else f"may have {', '.join(self.may)}"
            right = f"'{where}' {names}, and nothing else"
            raise BadInput(f"The certificate is damaged: {right}: {strange or lacking}.")
        for key, each in value.items():
            if not rules[key](each):
                raise BadInput(
                    f"The certificate is damaged: '{where}' has a '{key}' that it cannot have, {shown(each)}."
                )


def shown(value: Any) -> str:
    """A stranger's value of JSON, quoted and cut."""
    return quoted(value if isinstance(value, str) else repr(value))


def any_(value: Any) -> bool:
    """Whatever it is: another line looks at it."""
    return True


def text(value: Any) -> bool:
    """A text."""
    return isinstance(value, str)


def letter(value: Any) -> bool:
    """A text of one character."""
    return isinstance(value, str) and len(value) == 1


def whole(value: Any) -> bool:
    """A whole number, not negative."""
    return type(value) is int and value >= 0


def flag(value: Any) -> bool:
    """True or false."""
    return type(value) is bool


def texts(value: Any) -> bool:
    """A list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def digests(value: Any) -> bool:
    """Texts by name."""
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def number(value: Any) -> bool:
    """A number as JSON has it."""
    return type(value) in (int, float)


def numbers(value: Any) -> bool:
    """A list of numbers."""
    return isinstance(value, list) and all(map(number, value))


def one_of(*known: Any) -> Rule:
    """One of these texts."""
    return lambda value: isinstance(value, str) and value in known


def optional(rule: Rule) -> Rule:
    """That, or null."""
    return lambda value: value is None or rule(value)


def table(rules: Mapping[str, Rule]) -> Rule:
    """A table with these keys, and no others."""
    return lambda value: isinstance(value, dict) and set(value) == set(rules) and all(rules[k](value[k]) for k in rules)


DOCUMENT = Part({"_type": text, "subject": any_, "predicateType": text, "predicate": any_})
SUBJECT, DIGEST = Part({"name": text, "digest": any_}), Part({"sha256": text})
PREDICATE = Part(
    dict.fromkeys(("question", "claims", "selection", "reading", "model", "remarks", "arrays", "withheld"), any_)
)
HEADS = ("softmax", "sigmoid", "regression", "probability")
MARKS = ("separator", "quote", "encoding", "decimal")
"""How a CSV file is written; null of a Parquet file, which says it itself."""

PARTS: dict[str, Part] = {
    "question": Part(
        dict.fromkeys(("delta", "shift", "epsilon", "confidence", "tier", "arithmetic", "domain"), any_)
        | {"output_range": any_, "max_branches": any_}
        | {"head": one_of(*HEADS), "head_from": one_of("file", "declared")}
        | {"classes": texts, "favourable": texts, "threshold": optional(number)},
        {"shifts": any_},
    ),
    "claims": Part(dict.fromkeys(("upper", "lower", "multiplier", "hidden", "verdict", "population", "local"), any_),
                   {"shifts": any_, "alone": any_, "gaps": any_, "changes": any_, "hints": any_}),
    "claims.local": Part(dict.fromkeys(("upper", "lower", "hidden", "verdicts", "decisions"), any_)),
    "claims.population": Part({"upper": any_, "multiplier": any_}),
    "selection": Part(
        {
            "people": whole, "pool": optional(whole), "rows": optional(whole), "excluded": whole,
            "part": one_of("all", "train", "test"), "how": one_of("all", "random", "chosen", "unknown"),
            "seed": optional(whole), "held_out": flag,
        }
    ),
    "reading": Part({"table": any_, "model": any_}),
    "reading.table": Part(
        {"kind": one_of("csv", "parquet"), "unknown": one_of("error", "exclude"), "missing": optional(texts)}
        | dict.fromkeys(MARKS, optional(text))
        | {"separator": optional(letter), "decimal": optional(one_of(".", ","))}
    ),
    "reading.model": Part(
        {
            "head": one_of("auto", "softmax", "sigmoid", "regression"), "output": optional(text),
            "activation": optional(text), "reads": one_of("auto", "raw", "coordinates"),
        },
        {"trees": lambda value: value in (None, "all", "best") or whole(value)},
    ),
    "remarks": Part(
        dict.fromkeys(("software", "created", "model", "schema", "metric", "refusal"), text) | {"sources": digests},
        {"ground": text},
    ),
}  # fmt: skip
"""Every table of the predicate by its place; those of ``claims.population`` and ``reading`` may be null."""

SHIFTS = {
    "transport": Part({"kind": text, "gamma": any_, "order": any_}),
    "drift": Part(
        {"kind": text, "features": texts, "amounts": numbers, "shares": any_, "average": flag, "times": any_}
    ),
    "composed": Part({"kind": text, "first": any_, "then": any_}),
    "part": Part({"kind": text, "at_least": any_}, {"strangers": any_}),
    "stability": Part({"kind": text, "kappa": any_, "bins": whole}, {"strangers": any_}),
    "mix": Part({"kind": text, "features": texts, "limits": any_}, {"strangers": any_}),
    "marginals": Part({"kind": text, "residual": any_, "tolerance": any_, "margins": any_}, {"strangers": any_}),
}
"""The question's shift, by its kind."""

MARGIN = Part({"feature": text, "edges": optional(numbers), "shares": numbers, "tilt": numbers})
"""One of the margins of a shift that names some."""

MODELS: dict[str, tuple[Part, Callable[[Mapping[str, Any]], set[str]]]] = {
    "network": (Part({"kind": text, "kinds": texts, "names": texts}), lambda model: _node_arrays(model["kinds"])),
    "trees": (Part({"kind": text, "width": whole}), lambda model: set(TREES)),
    "enumeration": (Part({"kind": text}), lambda model: {"people", "outputs"}),
    "shown": (Part({"kind": text}), lambda model: {"people", "outputs"}),
}
"""The section of the model, by its kind, and the arrays ``model.NAME`` that a section says there can be."""

MOVED = ("transport", "drift", "composed")
"""The kinds of shift in which individuals move, at a ground cost."""

GROUNDED = "transport"
"""The one whose ground cost is a ``ground.toml``, with a remark on it; others say it themselves."""

SCHEMA = Part(
    {"features": any_},
    dict.fromkeys(("name", "description", "weight", "id"), text)
    | {"max_weight": number}
    | dict.fromkeys(("label", "split", "model"), any_),
)
LABEL = Part(
    {"column": text},
    {"classes": texts, "labels": digests, "description": text, "favourable": texts, "threshold": number},
)
SPLIT, MODEL = Part({"column": text}, {"train": text, "test": text}), Part({"inputs": any_})
FEATURE = Part(
    {},
    dict.fromkeys(("kind", "missing", "missing_label", "description"), text)
    | dict.fromkeys(("categories", "missing_values"), texts)
    | dict.fromkeys(("protected", "proxy", "immutable", "seen"), flag)
    | dict.fromkeys(("origin", "unit", "low", "high"), number)
    | dict.fromkeys(("tolerance", "relative_tolerance"), lambda value: number(value) and value >= 0)
    | {"fill": any_, "labels": digests},
)
INPUT = Part(
    {},
    dict.fromkeys(("scale", "encode"), text)
    | dict.fromkeys(("mean", "std", "center", "scaling", "max", "factor", "offset", "min"), number)
    | dict.fromkeys(("missing", "indicator", "to", "categories", "drop", "values"), any_),
)
"""Tables of ``schema.toml``: of what a reader of models knows, ``[model.inputs]``, numbers prove themselves."""


def check_schema(table: Mapping[str, Any]) -> None:
    """Refuse a schema that says something else than a schema does, at any level."""
    SCHEMA.check(table, "schema.toml")
    for name, part in (("label", LABEL), ("split", SPLIT), ("model", MODEL)):
        if name in table:
            part.check(table[name], f"schema.toml, [{name}]")
    features = table["features"]
    if not isinstance(features, dict):
        raise BadInput("The certificate is damaged: 'schema.toml, [features]' must be a table.")
    for name, feature in features.items():
        FEATURE.check(feature, f"schema.toml, the feature {quoted(name)}")
        known = {*feature.get("categories", []), feature.get("missing_label", "missing")}
        _check_words(feature, known, f"schema.toml, the feature {quoted(name)}")
    label = table.get("label", {})
    classes = label.get("classes", [])
    _check_words(label, set(classes), "schema.toml, [label]")
    if not set(label.get("favourable", [])) < set(classes or ("low", "high")):
        raise BadInput(
            "The certificate is damaged: 'schema.toml, [label]' has a 'favourable' that is none of its classes."
        )
    inputs = table.get("model", {"inputs": {}})["inputs"]
    others = {"columns": texts, "scale": text}
    Part({}, dict.fromkeys(features, any_) | others).check(inputs, "schema.toml, [model.inputs]")
    for name in inputs:
        if name not in others or isinstance(inputs[name], dict):
            INPUT.check(inputs[name], f"schema.toml, the input {quoted(name)}")


def _check_words(of: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuse words for what is no category or class."""
    strange = next((key for key in of.get("labels", {}) if key not in known), None)
    if strange is not None:
        raise BadInput(f"The certificate is damaged: '{where}' has a word for {quoted(strange)}, which it lacks.")


NULLABLE = ("claims.population", "reading.table", "reading.model")


def check_document(document: Any) -> None:
    """Refuse a document that says something else than a certificate does, at any level."""
    DOCUMENT.check(document, "certificate.json")
    predicate = document["predicate"]
    PREDICATE.check(predicate, "predicate")
    for place, part in PARTS.items():
        value = predicate
        for key in place.split("."):
            value = value[key]
        if value is not None or place not in NULLABLE:
            part.check(value, place)
    _check_table(predicate["reading"]["table"])
    moved = _check_shift(predicate["question"]["shift"], predicate["remarks"])
    _check_shifts(predicate["question"], predicate["claims"])
    if not isinstance(predicate["arrays"], dict) or not texts(predicate["withheld"]):
        raise BadInput("The certificate is damaged: 'arrays' must be a table, and 'withheld' a list of names.")
    known = _arrays(predicate["model"]) | _alone_arrays(predicate["claims"].get("alone", []))
    known |= _gap_arrays(predicate["claims"].get("gaps", []))
    for name in predicate["arrays"]:
        if name not in known:
            raise BadInput(f"The certificate is damaged: {quoted(name)} is no array that a certificate has.")
    _check_subject(document["subject"], set(predicate["arrays"]), moved)


HINTS = ("multipliers", "population", "edges")
CLAIM = dict.fromkeys(("upper", "lower", "hidden"), any_) | dict.fromkeys(HINTS, numbers)
BEHIND: dict[str, Rule] = {"upper": number, "hints": numbers}
NEARBY: dict[str, Rule] = {"upper": number, "lower": number, "multiplier": optional(number)}
MAY: dict[str, Rule] = {"behind": optional(table(BEHIND))}
"""Of the population behind the sample: of a mean, and where individuals move of decisions, which have two sides."""


def _check_shifts(question: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
    """Refuse further shifts in which individuals move, and claims that are not one for each shift without moves."""
    others, said = question.get("shifts", []), claims.get("shifts", [])
    if not isinstance(others, list) or not isinstance(said, list):
        raise BadInput("The certificate is damaged: 'shifts' must be lists.")
    for each in others:
        if _check_kind(each, "question.shifts") in MOVED:
            raise BadInput("The certificate is damaged: 'question.shifts' has a shift in which individuals move.")
    if ("hints" in claims) != (question["shift"]["kind"] == "composed"):
        raise BadInput("The certificate is damaged: 'claims' must have 'hints' of a composition only.")
    if "hints" in claims:
        Part(dict.fromkeys(HINTS, numbers)).check(claims["hints"], "claims.hints")
    if len(said) != len(others) + (question["shift"]["kind"] not in MOVED):
        raise BadInput("The certificate is damaged: 'claims.shifts' must have a claim for each shift without moves.")
    if claims.get("changes") is not None:
        moved: dict[str, Rule] = {**NEARBY, "hidden": number}
        moved |= {"hints": table(dict.fromkeys(HINTS, numbers))} if "hints" in claims else {}
        Part(moved, {"behind": optional(table(NEARBY))}).check(claims["changes"], "claims.changes")
    for each in said:
        Part({**CLAIM, "changes": any_}, MAY).check(each, "claims.shifts")
        if each["changes"] is not None:
            both = {"behind": optional(table({**BEHIND, "lower": number}))}
            Part(CLAIM, both).check(each["changes"], "claims.shifts.changes")


def _check_kind(shift: Any, where: str) -> str:
    """Refuse a shift of no known kind, and one that says more or less than its kind does; return the kind."""
    kind = shift.get("kind") if isinstance(shift, dict) else None
    if not isinstance(kind, str) or kind not in SHIFTS:
        raise BadInput(f"The certificate is damaged: '{where}' must be a table of the kind {' or '.join(SHIFTS)}.")
    SHIFTS[kind].check(shift, where)
    for each in shift.get("margins", ()):
        MARGIN.check(each, f"{where}.margins")
    if kind == "composed":
        first, then = (_check_kind(shift[each], f"{where}.{each}") for each in ("first", "then"))
        if first not in ("part", "mix", "stability") or then not in MOVED or then == kind:
            raise BadInput(f"The certificate is damaged: '{where}' must reweight first, and move then.")
    return kind


def _check_shift(shift: Any, remarks: Mapping[str, Any]) -> bool:
    """Refuse a shift of no known kind, and one that says more or less than its kind does; return whether a ground cost
    of its own belongs to it."""
    kind = _check_kind(shift, "question.shift")
    kind = shift["then"]["kind"] if kind == "composed" else kind
    if ("ground" in remarks) != (kind == GROUNDED):
        raise BadInput("The certificate is damaged: 'remarks' must have a ground cost of a shift by transport only.")
    return kind == GROUNDED


def _check_table(table: Any) -> None:
    """Refuse a CSV file of which not everything is said, and a Parquet file of which marks are."""
    if table is not None and {table[part] is None for part in (*MARKS, "missing")} != {table["kind"] == "parquet"}:
        raise BadInput(
            "The certificate is damaged: 'reading.table' must have all marks of a CSV file, and none of a Parquet file."
        )


def _arrays(model: Any) -> set[str]:
    """The names of all arrays that a certificate of such a model can have; refuse a model of no known kind."""
    kind = model.get("kind") if isinstance(model, dict) else None
    if not isinstance(kind, str) or kind not in MODELS:
        raise BadInput(f"The certificate is damaged: 'model' must be a table of the kind {' or '.join(MODELS)}.")
    part, arrays = MODELS[kind]
    part.check(model, "model")
    names = {f"{group}.{name}" for group, parts in ARRAYS.items() for name in parts}
    return names | {f"model.{name}" for name in arrays(model)}


QUESTIONS = 256
"""Questions about single features that a certificate may answer."""


def _alone_arrays(said: Any) -> set[str]:
    """The arrays of questions about some features alone; refuse what is no list of such claims."""
    if not isinstance(said, list) or len(said) > QUESTIONS:
        raise BadInput("The certificate is damaged: 'claims.alone' must be a list of claims.")
    for each in said:
        Part({**PARTS["claims.local"].must, "features": texts}, {"held": lambda value: value is True}).check(
            each, "claims.alone"
        )
    return {f"alone.{number}.{name}" for number in range(len(said)) for name in ARRAYS["local"]}


GAP = ("cuts", "columns", "trees", "first", "h", "goals", "pair", "flip", "halves", "eighths")
"""The arrays of a gap of features: its hint, who attains it, and what shows that no decision differs."""


def _gap_arrays(said: Any) -> set[str]:
    """The arrays of gaps over the whole domain; refuse what is no list of such claims."""
    if not isinstance(said, list) or len(said) > QUESTIONS:
        raise BadInput("The certificate is damaged: 'claims.gaps' must be a list of claims.")
    bounds = dict.fromkeys(("score_lower", "score_upper", "lower", "upper"), number)
    for each in said:
        decision = optional(one_of("impossible", "shown", "open"))
        Part({"features": texts, **bounds, "decision": decision}).check(each, "claims.gaps")
    return {f"gaps.{place}.{name}" for place in range(len(said)) for name in GAP}


def _node_arrays(kinds: list[str]) -> set[str]:
    """The arrays of the nodes of a network."""
    return {f"{i}.{part}" for i, kind in enumerate(kinds) for part in ("inputs", *NODES.get(kind, ("parameters",)))}


def _check_subject(subject: Any, arrays: set[str], moved: bool) -> None:
    """Refuse a file that is neither evidence nor beside it, one that is named twice, and a hash that is none."""
    if not isinstance(subject, list):
        raise BadInput("The certificate is damaged: 'subject' must be a list.")
    known = {f"evidence/{name}.bin" for name in arrays}
    known |= {f"evidence/{name}.toml" for name in ("schema", "metric", *(("ground",) if moved else ()))}
    seen = set[str]()
    for each in subject:
        SUBJECT.check(each, "subject")
        DIGEST.check(each["digest"], "digest")
        name = each["name"]
        if name not in known and not BESIDE.fullmatch(name):
            raise BadInput(f"The certificate is damaged: it names {quoted(name)}, which is no file of its evidence.")
        if not re.fullmatch(r"[0-9a-f]{64}", each["digest"]["sha256"], re.ASCII):
            raise BadInput(f"The certificate is damaged: the SHA-256 of {quoted(name)} is none.")
        if name in seen:
            raise BadInput(f"The certificate names a file twice: {quoted(name)}.")
        seen.add(name)
