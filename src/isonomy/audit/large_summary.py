"""What an audit larger than memory found, for machines and in a few words."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from isonomy.arithmetic import at_least, at_most
from isonomy.audit.large import LargeFindings
from isonomy.audit.summary import markdown_of, reach, sentence_of
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.metric import Metric

AGAIN = (
    "Run again with the same 'out': finished parts are read and compared with their checksums, not computed, and all "
    "sums are made anew."
)


def facts_of(findings: LargeFindings) -> dict[str, Any]:
    """The findings for machines; nobody's row."""
    found, asked = findings.certificate, findings.asked
    return {
        "isonomy": version("isonomy"),
        "remarks": [asked.network.remark] if asked.network.remark else [],
        "title": findings.title,
        "sentence": sentence_of(found, found.rows),
        "individuals": found.rows,
        "excluded": found.excluded,
        "weight": found.weight,
        "split": asked.split,
        "selection": found.selection.as_dict(),
        "delta": found.delta,
        "gamma": found.gamma,
        "order": number(found.order),
        "ground": findings.ground.describe(),
        "metric": asked.metric.describe(),
        "domain": findings.domain,
        "tier": found.tier,
        "epsilon": found.epsilon,
        "verdict": None if found.epsilon is None else found.verdict,
        "upper": found.upper,
        "lower": found.lower,
        "multiplier": found.multiplier,
        "tolerance": found.tolerance,
        "grid_error": found.grid_error,
        "largest_gamma": number(findings.largest_gamma),
        "curve": [{"gamma": gamma, "upper": upper, "lower": lower} for gamma, upper, lower in findings.curve],
        "sources": {**dict(found.sources), **asked.sources},
        "hashes": {
            "network": asked.network.hash(),
            "schema": asked.schema.hash(),
            "metric": _hash(asked.metric),
            "ground": _hash(findings.ground),
        },
        "command": findings.command,
        "created": findings.created,
        "redacted": findings.redacted,
    }


def markdown(findings: LargeFindings, facts: Mapping[str, Any]) -> str:
    """A page for pull requests and CI logs."""
    return markdown_of(facts, rows(findings, facts), f"{AGAIN} The command:")


def rows(findings: LargeFindings, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what is told everywhere."""
    here = findings.curve[0]
    told = [
        ("mean violation within γ, proved", f"≤ {at_most(facts['upper'])}"),
        ("mean violation within γ, found", f"≥ {at_least(facts['lower'])}"),
    ]
    if here[0] == 0 and facts["gamma"] > 0:
        told.append(("mean violation of these individuals, proved", f"≤ {at_most(here[1])}"))
        told.append(("mean violation of these individuals, found", f"≥ {at_least(here[2])}"))
    told += [
        ("γ (shift), order, ground cost", f"{facts['gamma']:g}, {facts['order']}, {facts['ground']}"),
        ("δ (similarity)", f"{facts['delta']:g}: {facts['metric']}"),
        ("audited", facts["selection"]["words"]),
        ("a better multiplier could save, at most", f"{facts['tolerance']:.1e}"),
        ("the grid of radii may have cost, at most", f"{facts['grid_error']:.2g}"),
    ]
    if facts["largest_gamma"] is not None:
        told.append(("proved within ε for shifts up to", reach(facts["largest_gamma"])))
    told.append(("largest violation of an individual, proved", f"≤ {at_most(facts['largest']['upper'])}"))
    told.append(("largest violation of an individual, found", f"≥ {at_least(facts['largest']['lower'])}"))
    if "verdicts" in facts:
        told.append(("verdicts of individuals", ", ".join(f"{n:,} {kind}" for kind, n in facts["verdicts"].items())))
    return told


def number(value: float | None) -> float | str | None:
    """JSON knows no infinity."""
    return "inf" if value == math.inf else value


def _hash(metric: Metric) -> str:
    return hashlib.sha256(metric_to_text(metric).encode()).hexdigest()
