"""What was asked, in words that the checker makes from numbers and enumerations: whose outcomes, by which model, who
counts as similar. A stranger's text stands in quotation marks (:func:`isonomy_verify.text.quoted`), never bare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.evidence import written
from isonomy_verify.text import listed, quoted

HEADS = {
    "softmax": "probabilities of {} classes (softmax)",
    "sigmoid": "{} probabilities, each by itself (sigmoid)",
    "regression": "{} numbers (regression)",
}
HEAD_FROM = {
    "file": "as the model file says, by the issuer's word: --model reads it",
    "declared": "declared by the issuer: the model file need not say it",
}


def heading(question: Mapping[str, Any], schema: Mapping[str, Any], outputs: int) -> dict[str, str]:
    """Model, outcome and protected features, each in one line."""
    features = schema.get("features", {})
    roles = [listed([name for name, of in features.items() if of.get(role) is True]) for role in ("protected", "proxy")]
    run = "float32" if question["arithmetic"] == "float32" else "exact arithmetic"
    proxies = f"; proxies {roles[1]}" if roles[1] else ""
    return {
        "head": f"{head(question['head'], outputs)}, {HEAD_FROM[question['head_from']]}; run in {run}",
        "outcome": outcome(question),
        "protected": f"{roles[0] or 'no feature is'}{proxies}",
    }


def head(kind: str, outputs: int) -> str:
    """What the outputs are."""
    if outputs == 1:
        return {"sigmoid": "one probability (sigmoid)", "regression": "one number (regression)"}.get(kind, kind)
    return HEADS[kind].format(outputs)


def outcome(question: Mapping[str, Any]) -> str:
    """Classes, favourable ones and cut-off."""
    classes, good, cut = (question[name] for name in ("classes", "favourable", "threshold"))
    return "; ".join(
        (
            f"classes {listed(classes)}" if classes else "no classes are named",
            f"favourable {listed(good)}" if good else "none is named as favourable",
            "no threshold" if cut is None else f"threshold {written(float(cut))}",
        )
    )


def weights(of: Array) -> str:
    """Equal, or what share the heaviest hold."""
    n, heaviest = len(of), max(1, round(len(of) / 100))
    if n < 2 or not np.ptp(of):
        return "equal"
    scaled = np.sort(np.asarray(of, dtype=np.float64) / np.max(of))[::-1]
    share = math.ceil(100 * float(scaled[:heaviest].sum() / scaled.sum()) - 1e-9)
    none = int((scaled == 0).sum())
    who = "the heaviest 1 %" if n >= 100 else "the heaviest one"
    return f"unequal: {who} ({heaviest:,} of {n:,}) hold {share} % of the weight" + (f", {none:,} none" if none else "")


def similar(question: Mapping[str, Any], remarks: Mapping[str, Any]) -> dict[str, str]:
    """Who counts as similar, which populations are meant, and what was asked of them."""
    delta, gamma, order = (written(float(question[name])) for name in ("delta", "gamma", "order"))
    epsilon, confidence = question["epsilon"], question["confidence"]
    return {
        "similar": f"at most {delta} apart by the metric, {quoted(remarks['metric'])}; {question['domain']} domain",
        "populations": f"within {gamma} in the Wasserstein distance of order {order} by the ground cost, "
        f"{quoted(remarks['ground'])}",
        "asked": f"{'no epsilon' if epsilon is None else f'epsilon {written(float(epsilon))}'}; "
        f"{'no confidence' if confidence is None else f'confidence {written(float(confidence))}'}; in quotation marks "
        "the issuer's words",
    }
