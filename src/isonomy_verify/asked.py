"""What was asked, in words that the checker makes from numbers and enumerations: whose outcomes, by which model, who
counts as similar. A stranger's text stands in quotation marks (:func:`isonomy_verify.text.quoted`), never bare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.definitions import slices_of
from isonomy_verify.evidence import written
from isonomy_verify.forms import Form
from isonomy_verify.shifts import Shift
from isonomy_verify.similar import Similarity
from isonomy_verify.text import listed, quoted

Lines = dict[str, str]
"""Sentences by name."""

PAIRS = 2**22
"""Numbers that are looked at to see whether every change of a feature counts."""

HEADS = {
    "softmax": "probabilities of {} classes (softmax)",
    "sigmoid": "{} probabilities, each by itself (sigmoid)",
    "regression": "{} numbers (regression)",
    "probability": "probabilities of {} classes, as the model gives them",
}
HEAD_FROM = {
    "file": "as the model file says, by the issuer's word: --model reads it",
    "declared": "declared by the issuer: the model file need not say it",
}


def heading(question: Mapping[str, Any], schema: Mapping[str, Any], outputs: int, similarity: Similarity) -> Lines:
    """Model, outcome, protected features and what was asked, each in one line."""
    run = "float32" if question["arithmetic"] == "float32" else "exact arithmetic"
    epsilon, confidence = question["epsilon"], question["confidence"]
    return {
        "head": f"{head(question['head'], outputs)}, {HEAD_FROM[question['head_from']]}; run in {run}",
        "outcome": outcome(question),
        "protected": protected(schema["features"], similarity),
        "asked": f"{'no confidence' if confidence is None else f'confidence {written(float(confidence))}'}; "
        f"{'no epsilon' if epsilon is None else f'epsilon {written(float(epsilon))}'}; in quotation marks the issuer's "
        "words",
    }


def protected(features: Mapping[str, Any], similarity: Similarity) -> str:
    """Which features are, which stand in for them, and of which the metric leaves a change out.

    **Soundness.** That every change counts is said where upper bounds of all distances are within delta.
    """
    places = slices_of(features)
    roles = [[name for name, of in features.items() if of.get(role) is True] for role in ("protected", "proxy")]
    if not roles[0]:
        return "no feature is"
    held = [name for name in roles[0] if not every_change(similarity, places[name])]
    some = f"not every change of {listed(held)} alone counts as similar"
    which = some if held else "each may change alone, to any value"
    return f"{listed(roles[0])}: {which}" + (f"; proxies {listed(roles[1])}" if roles[1] else "")


def every_change(similarity: Similarity, place: slice) -> bool:
    """Whether two people who differ in the coordinates of one feature alone are similar, whatever these are."""
    form, domain, width = similarity.form, similarity.domain, place.stop - place.start
    if domain.immutable[place].any():
        return False
    if form.free[place].all() and not form.root[:, place].any():
        return True
    low, high = domain.low[place], domain.high[place]
    if not (np.isfinite(low) & np.isfinite(high)).all() or width**2 * form.width > PAIRS:
        return False
    fill = next((fill for flag, _, fill in domain.fills if flag == place.stop - 1), None)
    if any(block == (place.start, place.stop) for block in domain.blocks):
        corners = np.eye(width)
    elif fill is not None and domain.kind == "realizable":
        corners = np.array([[low[0], 0.0], [high[0], 0.0], [fill, 1.0]])
    else:  # distances are largest at the corners
        corners = np.array(list(product(*zip(low, high, strict=True))))
    whole = np.zeros((len(corners), form.width))
    whole[:, place] = corners
    return bool((form.distance_upper(whole[:, None], whole[None]) <= similarity.delta).all())


def head(kind: str, outputs: int) -> str:
    """What the outputs are."""
    if outputs == 1:
        alone = {"sigmoid": "one probability (sigmoid)", "regression": "one number (regression)"}
        return {**alone, "probability": "one probability, as the model gives it"}.get(kind, kind)
    return HEADS[kind].format(outputs)


def outcome(question: Mapping[str, Any]) -> str:
    """Classes, favourable ones and cut-off."""
    classes, good, cut = (question[name] for name in ("classes", "favourable", "threshold"))
    named = f"classes {listed(classes)}" if classes else "no classes are named"
    hoped = f"favourable {listed(good)}" if good else "none is named as favourable"
    return f"{named}; {hoped}; " + ("no threshold" if cut is None else f"threshold {written(float(cut))}")


def parted(schema: Mapping[str, Any], part: str) -> str:
    """Which rows a part of a table is, where a column says it: any column may be called a split."""
    split = schema.get("split")
    if part == "all" or split is None:
        return ""
    return f"; the {part} part is where the column {quoted(split['column'])} says {quoted(split.get(part, part))}"


def weights(of: Array, column: str | None = None) -> str:
    """Equal, or what share the heaviest hold; and which column of the table is called the weight."""
    n, heaviest = len(of), max(1, round(len(of) / 100))
    if n < 2 or not np.ptp(of):
        return "equal"
    scaled = np.sort(np.asarray(of, dtype=np.float64) / np.max(of))[::-1]
    share = math.ceil(100 * float(scaled[:heaviest].sum() / scaled.sum()) - 1e-9)
    none, who = int((scaled == 0).sum()), "the heaviest 1 %" if n >= 100 else "the heaviest one"
    by = "" if column is None else f", by the column {quoted(column)}"
    return (
        f"unequal: {who} ({heaviest:,} of {n:,}) hold {share} % of the weight{f', {none:,} none' if none else ''}{by}"
    )


def similar(question: Mapping[str, Any], metric: Form, shift: Shift, ground: Form | None) -> Lines:
    """Who counts as similar, and which populations are meant; ``ground`` is what moving costs, None where no
    individual moves."""
    delta = written(float(question["delta"]))
    return {
        "similar": f"at most {delta} apart: {distance(metric)}; {question['domain']} domain",
        "populations": shift.words("" if ground is None else distance(ground)),
    }


def distance(form: Form) -> str:
    """What a metric looks at."""
    equal, within, ratio = (int(part.sum()) for part in form.parts)
    counts = {
        "may take any value": int(form.free.sum()), "stay within a tolerance": within, "stay within a ratio": ratio,
        "must be equal": equal,
    }  # fmt: skip
    parts = [] if form.root.size == 0 else [f"the norm of order {written(form.order)} of {len(form.root):,} sums"]
    if form.boxed:
        parts.append(", ".join(f"{count:,} {how}" for how, count in counts.items() if count))
    return f"{' and '.join(parts) or 'nothing'}, of {form.width:,} coordinates"
