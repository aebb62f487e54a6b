"""What an audit has to say: every number, rounded to the side on which it stays true, and every sentence, once.

:func:`facts` says it of an audit, :func:`facts_of_row` of one person, :func:`facts_of_change` of two audits. Renderers
(:mod:`isonomy.report.html`, :mod:`~isonomy.report.terminal`, :mod:`~isonomy.report.text`) choose a form, never a number
or a word, so that page, terminal, Markdown, JSON and JUnit cannot contradict each other. What redaction hides is not in
the facts, so that no renderer can show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.report.drivers import drivers
from isonomy.report.findings import Findings
from isonomy.report.groups import groups
from isonomy.report.model import Fact, Facts, Rounded, Section, exact, table
from isonomy.report.pairs import facts_of_row
from isonomy.report.sections import Sheet
from isonomy.report.shifted import worst_population
from isonomy.report.similar import listed

if TYPE_CHECKING:
    import pandas as pd

    from isonomy.records import Record

__all__ = ["Fact", "Facts", "Section", "facts", "facts_of_change", "facts_of_row"]


def facts(audit: Findings) -> Facts:
    """What there is to say of an audit; of a redacted one nothing that holds for one person only."""
    sheet = Sheet(audit)
    sections = (
        sheet.summary(), sheet.proved(), sheet.not_proved(), sheet.shift(), sheet.people(), sheet.decisions(),
        sheet.pairs(), drivers(audit, sheet.round), worst_population(audit, str(sheet.lower)),
        groups(audit, sheet.hidden, sheet.round), sheet.check(),
    )  # fmt: skip
    return Facts(sheet.headline, audit.verdict, sections, audit.redacted)


QUESTION = ("delta", "gamma", "order", "ground", "epsilon", "tier", "domain", "individuals")
PARTS = {"network": "", "people": "people.x.bin", "metric": "metric.toml", "schema": "schema.toml"}


def facts_of_change(old: Record, new: Record, people: Sequence[pd.DataFrame | None] = (None, None)) -> Facts:
    """What changed between two audits, in question and answer; ``people`` are their tables of individuals, if known."""
    asked, hashes = [], []
    for record in (old, new):
        said = record.document["question"] | {"ground": record.document["remarks"]["ground"]}
        asked.append({name: said[name] for name in QUESTION[:-1]} | {"individuals": len(record.weights)})
        evidence = {part: record.hashes.get(f"evidence/{file}") for part, file in PARTS.items()}
        hashes.append(evidence | {"network": record.network.hash()})
    changed = {part: hashes[0][part] != hashes[1][part] for part in PARTS}
    question = {name: [one[name] for one in asked] for name in QUESTION if asked[0][name] != asked[1][name]}
    alike = not (changed["metric"] or changed["schema"] or set(question) - {"epsilon", "tier", "individuals"})
    certainly = None
    if alike:  # only bounds that do not overlap say that something changed
        certainly = "better" if new.upper < old.lower else "worse" if new.lower > old.upper else None
    headline = {
        "better": "✅ The new one is certainly fairer.", "worse": "❌ The new one is certainly less fair.",
        None: "The bounds overlap: neither is certainly fairer.",
    }[certainly] if alike else (
        "⚠️ The two audits ask different questions, so their numbers cannot be compared directly."
    )  # fmt: skip
    made = [Rounded.of(each.lower, each.upper, each.epsilon, each.network.head == "regression") for each in (old, new)]
    rounded = max(made, key=lambda each: each.numbers.decimals)
    rows: list[Any] = [
        ("proved, at most", *(rounded.proved("upper", "Proved, at most", each.upper) for each in (old, new))),
        ("found, at least", *(rounded.found("lower", "Found, at least", each.lower) for each in (old, new))),
    ]
    verdicts = [old.verdict, new.verdict]
    rows += [("verdict", *(each or "none" for each in verdicts))] if any(verdicts) else []
    rows += [(name, *map(str, values)) for name, values in question.items()]
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
    if alike and people[0] is not None and people[1] is not None:
        both = people[0].merge(people[1], on="row", suffixes=("_old", "_new"))
        better = int(np.sum(both["upper_new"] < both["lower_old"]))
        worse = int(np.sum(both["lower_new"] > both["upper_old"]))
        turned = [int(np.sum(both[f"decision_{which}"] == "flippable")) for which in ("old", "new")]
        counts = {"both": len(both), "better": better, "worse": worse, "flippable": turned}
        listing.append(exact("individuals", "Individuals in both", counts, ""))
        sentences.append(
            f"Of {len(both):,} individuals in both, {better:,} are certainly treated more equally than before and "
            f"{worse:,} less; decisions that a similar person can turn: {turned[0]:,} before, {turned[1]:,} after."
        )
    shown = table("change", "What changed", "", "before", "after", rows=rows)
    return Facts(headline, None, (Section("change", tuple(listing), tuple(sentences), (shown,)),))
