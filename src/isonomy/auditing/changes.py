"""Who changes to whom: decisions that flip, from category to category, with counts and the mean change.

Everything here is *shown*: each person counted has a similar one, in the certificate, who gets another decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, template
from isonomy.population.outcome import decided, favourable_places, named
from isonomy.report.findings import Findings
from isonomy.report.privacy import protected_cells

COLUMNS = ("attribute", "from", "to", "decision", "becomes", "people", "mean_change", "direction")
GAIN, LOSS = "gain", "loss"


def flips(findings: Findings, by: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return the decisions that flip, one row for each change of a feature and of the decision, most people first.

    ``by`` are features, by default the protected ones. Of a regression without a cut-off the people are counted for
    whom a similar one gets another number; ``mean_change`` is that of the favourable probability, else of the last
    class, or of the number, from the people to those similar. Of a redacted audit rows of few people are left out.
    """
    schema = findings.people.schema
    names = schema.protected if by is None else (by,) if isinstance(by, str) else tuple(by)
    strange = next((name for name in names if name not in schema.slices), None)
    if strange is not None:
        raise ParameterError(template("by", f"one of the features {', '.join(map(repr, schema.slices))}", strange))
    own, other, before, after, change = _pairs(findings)
    if not len(own):
        return pd.DataFrame(columns=list(COLUMNS))
    sides = [findings.certificate.problem.raw(each) for each in (own, other)]
    kinds = {each.name: each.kind for each in schema.features}
    tables = []
    for name in names:
        one, two = sides[0][name], sides[1][name]
        if kinds[name] in ("numeric", "integer"):
            start, end = pd.Series(name, one.index), _moved(one, two)
        else:
            start, end = one.astype(str), two.astype(str)
        rows = {"from": start, "to": end, "decision": before, "becomes": after, "mean_change": change}
        table = pd.DataFrame({key: np.asarray(each) for key, each in rows.items()})
        groups = table.groupby(["from", "to", "decision", "becomes"], observed=True, dropna=False)
        counted = groups["mean_change"].agg(["size", "mean"]).reset_index()
        if findings.redacted:
            counted = counted[~protected_cells(counted["size"].to_numpy(np.int64))]
        tables.append(counted.assign(attribute=name).rename(columns={"size": "people", "mean": "mean_change"}))
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.concat(tables, ignore_index=True)
    table["direction"] = [
        _direction(findings, *each) for each in zip(table["becomes"], table["mean_change"], strict=True)
    ]
    order = {name: place for place, name in enumerate(names)}
    keys = table["attribute"].map(order)
    table = table.iloc[np.lexsort((-table["people"], keys))]
    return table[list(COLUMNS)].reset_index(drop=True)


def counts(findings: Findings) -> tuple[int, int]:
    """Return for how many people a favourable decision is shown for a similar one, and for how many another one."""
    _, _, _, after, change = _pairs(findings)
    ways = [_direction(findings, *each) for each in zip(after, change.tolist(), strict=True)]
    return ways.count(GAIN), ways.count(LOSS)


def _moved(one: pd.Series, two: pd.Series) -> Any:
    sign = np.sign(two.astype("float64").to_numpy() - one.astype("float64").to_numpy())
    return np.array(["lower", "the same", "higher"])[np.nan_to_num(sign).astype(int) + 1]


def _pairs(findings: Findings) -> tuple[FloatArray, FloatArray, list[str], list[str], FloatArray]:
    """Return the people (k, m) whose decision flips, those similar, both decisions in words, and the change (k,)."""
    local, problem = findings.certificate.local, findings.certificate.problem
    outcome, regression = problem.outcome, problem.model.head == "regression"
    decides = not (local.decision == "none").all()
    some = local.decision == "flippable" if decides else local.lower > 0
    witnesses = local.witnesses
    own = witnesses.individual[some]
    other = (witnesses.flip_counterpart if decides else witnesses.counterpart)[some]
    if not len(own):
        return own, other, [], [], np.empty(0)
    gives, gets = problem.model(own), problem.model(other)
    labels = [
        [outcome.labels.get(name, name) if name is not None else "" for name, _ in named(chosen, outcome)]
        for chosen in (decided(each, outcome, regression=regression) for each in (gives, gets))
    ]
    good = [] if regression else list(favourable_places(outcome))
    change = (gets - gives)[:, good or [-1]].sum(axis=1)
    return own, other, labels[0], labels[1], change


def _direction(findings: Findings, becomes: str, change: float) -> str:
    """Return whether a change is a gain or a loss; "" where no favourable outcome is named."""
    outcome = findings.certificate.problem.outcome
    if not outcome.favourable:
        return ""
    good = {outcome.labels.get(name, name) for name in outcome.favourable}
    if becomes:
        return GAIN if becomes in good else LOSS
    return GAIN if (change > 0) == (outcome.favourable == ("high",)) else LOSS
