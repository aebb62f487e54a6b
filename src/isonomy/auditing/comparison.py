"""Two audits side by side: what changed in the question, and what changed in the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.errors import FileError

QUESTION = ("delta", "gamma", "order", "ground", "epsilon", "tier", "domain", "individuals")
HASHES = ("network", "people", "metric", "schema")


def facts_of(path: Path) -> dict[str, Any]:
    """What a comparison needs of an audit: its certificate, and the individuals where they lie beside it."""
    from isonomy.records import read

    folder = path if path.is_dir() else path.parent
    file = path / "certificate.json" if path.is_dir() else path
    if not file.is_file():
        raise FileError(f"There is no certificate {file}.")
    record = read(file)
    asked, remarks = record.document["question"], record.document["remarks"]
    hashes = {name: record.hashes[f"evidence/{name}"] for name in ("schema.toml", "metric.toml", "people.x.bin")}
    table = folder / "individuals.parquet"
    return {
        **{name: asked[name] for name in ("delta", "gamma", "order", "epsilon", "tier", "domain")},
        "ground": remarks["ground"],
        "individuals": len(record.weights),
        "upper": record.upper,
        "lower": record.lower,
        "verdict": record.verdict,
        "hashes": {
            "network": record.network.hash(),
            "people": hashes["people.x.bin"],
            "metric": hashes["metric.toml"],
            "schema": hashes["schema.toml"],
        },
        "people": pd.read_parquet(table) if table.is_file() else None,
    }


def compared(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What changed, for machines."""
    same = {name: old["hashes"][name] == new["hashes"][name] for name in HASHES}
    question = {name: [old[name], new[name]] for name in QUESTION if old[name] != new[name]}
    alike = bool(same["metric"] and same["schema"]) and not set(question) - {"epsilon", "tier", "individuals"}
    found: dict[str, Any] = {
        "comparable": alike,
        "changed": {name: not value for name, value in same.items()},
        "question": question,
        "upper": [old["upper"], new["upper"]],
        "lower": [old["lower"], new["lower"]],
        "verdict": [old["verdict"], new["verdict"]],
        "certainly": _certainly(old, new) if alike else None,
    }
    if alike and old["people"] is not None and new["people"] is not None:
        found["individuals"] = _individuals(old["people"], new["people"])
    return found


def markdown(found: dict[str, Any]) -> str:
    """What changed, for people."""
    words = {"better": "✅ The new one is certainly fairer.", "worse": "❌ The new one is certainly less fair."}
    head = words.get(found["certainly"], "The bounds overlap: neither is certainly fairer.")
    if not found["comparable"]:
        head = "⚠️ The two audits ask different questions, so their numbers cannot be compared directly."
    lines = ["## Isonomy: what changed", "", head, "", "| | before | after |", "|---|---|---|"]
    lines.append(f"| proved, at most | {' | '.join(at_most(value) for value in found['upper'])} |")
    lines.append(f"| found, at least | {' | '.join(at_least(value) for value in found['lower'])} |")
    if any(found["verdict"]):
        lines.append(f"| verdict | {' | '.join(value or 'none' for value in found['verdict'])} |")
    lines += [f"| {name} | {before} | {after} |" for name, (before, after) in found["question"].items()]
    changed = [name for name, value in found["changed"].items() if value]
    same = [name for name, value in found["changed"].items() if not value]
    lines += ["", f"Changed: {', '.join(changed)}." if changed else f"{_listed(same).capitalize()} are the same."]
    if "individuals" in found:
        people = found["individuals"]
        lines.append(
            f"Of {people['both']:,} individuals in both, {people['better']:,} are certainly treated more equally than "
            f"before and {people['worse']:,} less; decisions that a similar person can turn: "
            f"{people['flippable'][0]:,} before, {people['flippable'][1]:,} after."
        )
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _certainly(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Only bounds that do not overlap say that something changed."""
    if new["upper"] < old["lower"]:
        return "better"
    return "worse" if new["lower"] > old["upper"] else None


def _individuals(old: pd.DataFrame, new: pd.DataFrame) -> dict[str, Any]:
    both = old.merge(new, on="row", suffixes=("_old", "_new"))
    return {
        "both": len(both),
        "better": int(np.sum(both["upper_new"] < both["lower_old"])),
        "worse": int(np.sum(both["lower_new"] > both["upper_old"])),
        "flippable": [int(np.sum(both[f"decision_{which}"] == "flippable")) for which in ("old", "new")],
    }
