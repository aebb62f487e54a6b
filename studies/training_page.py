"""The page of the training experiment, made of the lines that it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from training_tables import CERTIFIED, DELTA, GAMMA, RIDGE, TABLES, Line, Table


def page(lines: Sequence[Line], tables: Sequence[Table] = TABLES) -> str:
    """Results as a page of tables."""
    parts = [
        "# Certified training: results",
        "",
        f"""Written by `python experiments/training_targets.py`; no number is typed by hand.
Sensitive subspace metric with ridge {RIDGE:g}, fitted on the training split; delta {DELTA:g}, gamma {GAMMA:g} (order 1,
l2), networks 2x256, unbounded domain. Choices are made on people set aside from the training split; what stands first
is measured on the test split, certificates (tight tier) on {CERTIFIED} of it. "box form" is the paper's bound, trained
in the same way.
""",
    ]
    for table in tables:
        found = [line for line in lines if line["table"] == table.name]
        if found:
            parts += [f"## {table.title}", "", *test_rows(table, found), "", *choice_rows(table, found), ""]
            parts += [*repair_rows(found), *frontier_rows(found)]
    return "\n".join(parts)


def test_rows(table: Table, found: Sequence[Line]) -> Iterator[str]:
    """The mean of all seeds, and each seed."""
    titles = ["model", "chosen", "seed", "accuracy", "below plain", "balanced", "mean local upper"]
    titles += ["distributional upper", "realizable domain", "CPU seconds", ""]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    base = mean([line["accuracy"] for line in of(found, "test", "plain")])
    for model in table.models:
        lines = of(found, "test", model.name)
        for label, group in [("mean", lines)] * (len(lines) > 1) + [(str(line["seed"]), [line]) for line in lines]:
            cells = {
                name: mean([line.get(name, np.nan) for line in group])
                for name in ("accuracy", "balanced_accuracy", "local", "shifted", "realizable", "seconds")
            }
            accuracy, *rest = cells.values()
            *uppers, seconds = rest
            note = "predicts one class only" if any(line["classes"] == 1 for line in group) else ""
            numbers = [accuracy, base - accuracy, *uppers]
            shown = " | ".join("" if np.isnan(number) else f"{number:.4f}" for number in numbers)
            yield f"| {model.name} | {told(group[0]['option'])} | {label} | {shown} | {seconds:.0f} | {note} |"


def choice_rows(table: Table, found: Sequence[Line]) -> Iterator[str]:
    """What the people set aside saw."""
    yield "What chose, on people set aside (one seed of its own):"
    yield ""
    yield "| model | tried | accuracy | balanced | mean local upper | distributional upper | |"
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(model.tried_as for model in table.models):
        for line in of(found, "choice", name):
            shown = " | ".join(f"{line[key]:.4f}" for key in ("accuracy", "balanced_accuracy", "local", "shifted"))
            note = "predicts one class only" if line["classes"] == 1 else ""
            yield f"| {name} | {told(line['option'])} | {shown} | {note} |"


def repair_rows(found: Sequence[Line]) -> Iterator[str]:
    """What repair made of the plain network."""
    lines = of(found, "repair", "repair")
    if not lines:
        return
    first = lines[0]
    yield f"Repair of the plain network (accuracy {first['before']:.4f}, mean local upper {first['before_local']:.4f}):"
    yield ""
    yield "| epsilon | reached | mean local upper | accuracy | decisions kept | mean change | CPU seconds | |"
    yield "|---|---|---|---|---|---|---|---|"
    for line in lines:
        names = ("local", "accuracy", "agreement", "change")
        shown = " | ".join(f"{line[name]:.4f}" for name in names) + f" | {line['seconds']:.0f}"
        reached, note = "yes" if line["reached"] else "no", "predicts one class only" if line["classes"] == 1 else ""
        yield f"| {line['option']['epsilon']:g} | {reached} | {shown} | {note} |"
    yield ""


def frontier_rows(found: Sequence[Line]) -> Iterator[str]:
    """The trade-off, model by model."""
    lines = of(found, "frontier", "frontier")
    if not lines:
        return
    yield "The frontier with the estimator's defaults (`u-dif`, ridge 0, realizable domain), judged on the test split:"
    yield ""
    yield "| alpha | accuracy | balanced | mean local upper | undominated | |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        shown = " | ".join(f"{line[name]:.4f}" for name in ("accuracy", "balanced_accuracy", "local"))
        pareto, note = "yes" if line["pareto"] else "no", "predicts one class only" if line["classes"] == 1 else ""
        yield f"| {line['option']['alpha']:g} | {shown} | {pareto} | {note} |"
    yield ""


def of(found: Sequence[Line], stage: str, model: str) -> list[Line]:
    """The lines of one model."""
    return [line for line in found if (line["stage"], line["model"]) == (stage, model)]


def told(option: dict[str, float]) -> str:
    """``alpha 0.8``."""
    return ", ".join(f"{name.replace('learning_', '')} {value:g}" for name, value in option.items())


def mean(numbers: Sequence[float]) -> float:
    """The mean, which is not a number when one is not."""
    return float(np.mean(numbers)) if numbers else float("nan")
