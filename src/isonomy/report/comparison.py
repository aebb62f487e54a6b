"""Facts of the change from one audit to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.report.numbers import listed
from isonomy.report.sections import Facts, Rounded, Section, exact, table

if TYPE_CHECKING:
    import pandas as pd

    from isonomy.records import Record

QUESTION = (
    "delta", "shift", "gamma", "order", "ground", "at_least", "kappa", "bins", "features", "limits", "strangers",
    "shifts", "epsilon", "tier", "domain", "classes", "favourable",
    "threshold", "individuals",
)  # fmt: skip
PARTS = {"model": "", "people": "people.x.bin", "metric": "metric.toml", "schema": "schema.toml"}
CHANGED = {
    "better": "✅ The new one certainly has a smaller average largest change.",
    "worse": "❌ The new one certainly has a larger average largest change.",
    None: "The bounds overlap: neither certainly has the smaller average largest change.",
}  # fmt: skip


def facts_of_change(old: Record, new: Record, people: Sequence[pd.DataFrame | None] = (None, None)) -> Facts:
    """Return what changed between two audits, in question and answer; ``people`` are their tables of individuals."""
    questions, hashes, verdicts = [], [], [old.verdict, new.verdict]
    for record in (old, new):
        asked, ground = record.document["question"], record.document["remarks"].get("ground")
        stated = asked | asked["shift"] | {"shift": asked["shift"]["kind"], "ground": ground}
        stated["shifts"] = [each.words("these people") for each in record.shifts]
        questions.append(stated | {"individuals": len(record.weights)})
        evidence = {part: record.hashes.get(f"evidence/{file}") for part, file in PARTS.items()}
        hashes.append(evidence | {"model": record.problem.model.hash()})
    changed = {part: hashes[0][part] != hashes[1][part] for part in PARTS}
    sides = {name: [one.get(name) for one in questions] for name in QUESTION}
    question = {name: two for name, two in sides.items() if two[0] != two[1]}
    moved = "epsilon" in question and verdicts[0] != verdicts[1] and all(verdicts)
    alike = not (changed["metric"] or changed["schema"] or set(question) - {"epsilon", "tier", "individuals"})
    certainly = None
    headline = "⚠️ The two audits ask different questions, so their numbers cannot be compared directly."
    if alike:  # only bounds that do not overlap say that something changed
        certainly = "better" if new.upper < old.lower else "worse" if new.lower > old.upper else None
        headline = CHANGED[certainly]
    condition = next((each.problem.model.condition for each in (old, new) if each.problem.model.condition), "")
    headline = f"{headline} All of it holds {condition}." if condition else headline
    made = [
        Rounded.of(each.lower, each.upper, each.epsilon, each.problem.model.head == "regression") for each in (old, new)
    ]
    rounded = max(made, key=lambda each: each.decimals)
    rows: list[Any] = [
        ("proved, at most", *(rounded.proved("upper", "Proved, at most", each.upper) for each in (old, new))),
        ("found, at least", *(rounded.attained("lower", "Found, at least", each.lower) for each in (old, new))),
        *([("verdict", *_verdicts(old, new))] if any(verdicts) else []),
        *((name, *map(_asked, values)) for name, values in question.items()),
    ]
    parts = [name for name, value in changed.items() if value]
    text = f"Changed: {', '.join(parts)}." if parts else f"{listed(list(PARTS)).capitalize()} are the same."
    listing = [
        exact("comparable", "Comparable", alike), exact("changed", "Changed", changed, text),
        exact("question", "Questions that differ", question, ""),
        exact("upper", "Proved, at most", [old.upper, new.upper], ""),
        exact("lower", "Found, at least", [old.lower, new.lower], ""),
        exact("verdict", "Verdicts", verdicts, ""), exact("certainly", "Certainly", certainly),
    ]  # fmt: skip
    sentences = [text]
    if moved:
        sentences.append("The two verdicts are about different ε: that they differ says nothing by itself.")
    if alike and people[0] is not None and people[1] is not None:
        both = people[0].merge(people[1], on="row", suffixes=("_old", "_new"))
        both = both[both["row"].isin(_shared_rows(old, new, both["row"]))]
        better = int(np.sum(both["upper_new"] < both["lower_old"]))
        worse = int(np.sum(both["lower_new"] > both["upper_old"]))
        turned = [int(np.sum(both[f"decision_{which}"] == "flippable")) for which in ("old", "new")]
        counts = {"both": len(both), "better": better, "worse": worse, "flippable": turned}
        listing.append(exact("individuals", "People in both", counts, ""))
        sentences.append(
            f"Of {len(both):,} people in both, {better:,} are certainly treated more equally than before and "
            f"{worse:,} less; decisions that a similar person can turn: {turned[0]:,} before, {turned[1]:,} after."
        )
    sentences.append(
        "Nothing was proved again here: these are the words of the two audits, and `isonomy verify` checks them."
    )
    shown = table("change", "What changed", "", "before", "after", rows=rows)
    return Facts(headline, None, (Section("change", tuple(listing), tuple(sentences), (shown,)),))


def _verdicts(old: Record, new: Record) -> list[str]:
    """Return both verdicts, each with what it rests on."""
    return [f"{each.verdict}{each.problem.model.behind}" if each.verdict else "none" for each in (old, new)]


def _asked(value: Any) -> str:
    """Return a part of a question as text: names with commas between them."""
    if isinstance(value, list):
        return ", ".join(f"“{each}”" for each in value) or "none"
    return "none" if value is None else str(value)


def _shared_rows(old: Record, new: Record, rows: Any) -> Any:
    """Return the rows in which both tables have the same person; none where only the row numbers are known."""
    digests = [[each.hashes.get(f"evidence/people.{part}.bin") for part in ("x", "rows")] for each in (old, new)]
    if digests[0] == digests[1]:
        return rows
    if old.people is None or new.people is None:
        return []
    rows, one, other = np.intersect1d(old.people.rows, new.people.rows, return_indices=True)
    return rows[(old.people.x[one] == new.people.x[other]).all(axis=1)]
