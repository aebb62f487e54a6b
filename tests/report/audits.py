"""Small audits of made-up people: two classes, three classes, a regression; names that would break a careless page."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import isonomy
from isonomy.attacks import AttackBudget
from isonomy.certificates.alone import changes_alone, questions
from isonomy.fairness import Bootstrap, group_fairness
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.report import Findings, ObservedShift
from isonomy.report.facts import facts_of
from isonomy.report.html import to_html
from isonomy.shift import wasserstein
from isonomy.similarity import Counterparts

NASTY = "<script>alert('x')</script>"
NASTIER = '"><img src=x onerror=alert(1)>&amp;'
PEOPLE = 70


def schema(head: str, nasty: bool = False) -> Schema:
    sexes = ("female", "male", NASTIER if nasty else "other")
    classes = {"softmax": ("no", "yes"), "three": ("low", "middle", NASTY if nasty else "high")}.get(head, ())
    return Schema(
        name=NASTY if nasty else "made up",
        features=(
            Feature("age", "integer", low=18, high=90, protected=True),
            Feature(NASTY if nasty else "sex", "categorical", categories=sexes, protected=True),
            Feature("income", low=1000, high=90_000, relative_tolerance=0.05),
            Feature("rank", "ordinal", categories=("first", "second", "third"), tolerance=1),
            Feature("town", "categorical", categories=("A", "B", NASTIER if nasty else "C", "D")),
            Feature("debt", low=0, high=1000, fill=0.0),
        ),
        label=Label("outcome", classes, favourable=classes[-1:]),
        description=NASTIER if nasty else "Made up for tests.",
    )


def people(head: str, nasty: bool = False, n: int = PEOPLE, seed: int = 0) -> Population:
    rng = np.random.default_rng(seed)
    plan = schema(head, nasty)
    sex, town = plan.features[1], plan.features[4]
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            sex.name: rng.choice(sex.categories, n, p=[0.5, 0.46, 0.04]),
            "income": 20_000 + 613.37 * np.arange(n) + rng.uniform(0, 9, n).round(2),
            "rank": rng.choice(["first", "second", "third"], n),
            town.name: rng.choice(town.categories, n, p=[0.6, 0.34, 0.03, 0.03]),
            "debt": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 1000, n).round(3)),
        }
    )
    assert plan.label is not None
    frame["outcome"] = rng.choice(plan.label.classes, n) if plan.label.classes else rng.uniform(0, 5000, n).round(1)
    return Population.from_frame(frame, plan)


def network(head: str, width: int, seed: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    outputs = {"softmax": 2, "three": 3, "regression": 1}[head]
    scale = 900.0 if head == "regression" else 1.0
    weights = [rng.normal(size=(8, width)), rng.normal(size=(outputs, 8)) * scale]
    biases = [rng.normal(size=8), rng.normal(size=outputs) * scale]
    return Network.from_layers(weights, biases, head="regression" if head == "regression" else "softmax", name=head)


def crowded() -> Population:
    """Many protected attributes with many groups."""
    rng = np.random.default_rng(0)
    levels = tuple(f"level number {level}" for level in range(8))
    names = [f"attribute {i}" for i in range(6)]
    features = tuple(Feature(name, "categorical", categories=levels, protected=True) for name in names)
    frame = pd.DataFrame(
        {name: rng.choice(levels, 600) for name in names} | {"outcome": rng.choice(["no", "yes"], 600)}
    )
    return Population.from_frame(
        frame, Schema("crowded", features, Label("outcome", ("no", "yes"), favourable=("yes",)))
    )


def render(findings: Findings) -> str:
    """The page of an audit."""
    return to_html(facts_of(findings))


def audit(head: str = "softmax", nasty: bool = False, **changes: Any) -> Findings:
    """An audit; ``changes`` are of the findings, or given to ``certify``."""
    fields = {field.name for field in dataclasses.fields(Findings)}
    options = {name: value for name, value in changes.items() if name not in fields}
    return dataclasses.replace(_audit(head, nasty, **options), **{k: v for k, v in changes.items() if k in fields})


@cache
def _audit(head: str, nasty: bool, **changes: Any) -> Findings:
    crowd = people(head, nasty)
    model = network(head, crowd.schema.width)
    options: dict[str, Any] = {"metric": Counterparts.of(crowd.schema), "delta": 1.0, "gamma": 0.1, "epsilon": 0.2}
    options |= {"tier": "interval", "rounds": 1, "attack": AttackBudget(steps=3, restarts=0, branches=4)} | changes
    named = [options.pop(name) for name in ("metric", "delta", "gamma")]
    certificate = isonomy.certify(model, crowd, *named, progress=None, **options)
    group = None
    if head != "regression":
        group = group_fairness(
            model,
            crowd,
            favourable=crowd.schema.label.classes[-1],
            certificate=certificate.local,
            bootstrap=Bootstrap(200),
        )
    return Findings(
        title=NASTY if nasty else "Made-up audit",
        people=crowd,
        model=model,
        certificate=certificate,
        group=group,
        alone=changes_alone(certificate, questions(crowd.schema, model.read_features(crowd.schema))),
        shifts=(ObservedShift(NASTY if nasty else "next year", wasserstein(crowd, people(head, nasty, seed=5))),),
        scores={"accuracy": 0.75} if head != "regression" else {},
        sources={NASTIER if nasty else "people.csv": "ab" * 32},
        command=f"isonomy audit {NASTY}" if nasty else "isonomy audit",
        created="2026-01-02T03:04:05Z",
    )
