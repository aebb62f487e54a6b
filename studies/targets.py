"""Accuracy and certificates of trained networks, with every choice made on people whom the figures do not see.

For each table a tenth of the training split (200 people at least) is set aside. Networks are trained on the rest, and
these people choose the learning rate of the plain network and the alpha of each method: on Income the smallest of a
grid whose certificate there is below the goal, on the other tables the largest that costs them at most a point of
accuracy (the smallest, if all cost more). Only then is each choice trained on the whole training split, once for each
seed, and measured on the test split. Two models stand for what a user does with the library: ``repair`` of a plain
network to given epsilons, and the ``frontier`` along alpha.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from isonomy.certificates import Transport, certify, certify_local
from isonomy.fairness import scores
from isonomy.population import Population
from isonomy.similarity import SensitiveSubspace
from isonomy.training import FairClassifier, frontier, repair
from studies import Result, Setting, Store, paper
from studies.methods import RIDGE, Way
from studies.models import Case, Size, cases
from studies.steps import Found, Line, Step, known, taken
from studies.tables import ADULT, COVERAGE, CREDIT, EMPLOY, GERMAN, INCOME, Dataset

MARGIN = 0.95
"""A goal counts as reached on the people set aside when the certificate is this share of it: they are few."""
COST = 0.01
"""The accuracy that a choice without a goal may lose on the people set aside."""
CHOICE_SEED = 100
COLUMNS = (
    "dataset", "what", "model", "option", "seed", "people", "judged", "accuracy", "balanced_accuracy", "classes",
    "local", "shifted", "realizable", "seconds", "before", "before_local", "agreement", "change", "reached", "pareto",
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A line of a table: how it is trained, and what chooses its alpha (or its learning rate)."""

    way: Way
    alphas: tuple[float, ...] = ()
    goal: tuple[str, float] | None = None  # "local" or "shifted", and the upper bound wanted
    rates: tuple[float, ...] = ()

    @property
    def tried_as(self) -> str:
        """The same for models that are one training with several goals: they share their trials."""
        return "plain" if self.way.method == "sgd" else self.way.name.lower()

    @property
    def name(self) -> str:
        """As it is called in tables."""
        return self.tried_as + (f", goal {self.goal[1]:g}" if self.goal else "")

    def options(self) -> list[dict[str, float]]:
        """What is chosen from, in the order of trial."""
        return [{"alpha": a} for a in self.alphas] or [{"learning_rate": r} for r in self.rates] or [{}]


@dataclass(frozen=True)
class Plan:
    """A table, and the models trained on it."""

    dataset: Dataset
    models: tuple[Model, ...]
    repaired: tuple[float, ...] = ()  # epsilons to which the plain network is repaired
    frontier: tuple[float, ...] = ()  # alphas of the trade-off
    realizable: tuple[Model, ...] = ()  # certified on the realizable domain as well, which takes longer


def _own(dataset: Dataset, epochs: int | None) -> Dataset:
    """A table in columns and weights of its own, with the delta and gamma of the surveys."""
    load = {name: value for name, value in dataset.load.items() if name != "encoding"}
    words = dataset.words + ", in columns of our own" * (load != dataset.load)
    return Dataset(dataset.name, dataset.title, dataset.source, load, words, epochs=epochs, weighted=True)


PLAIN = Model(Way("sgd"), rates=(1e-3, 2e-3))
ALPHAS = (0.5, 2.0)
OTHERS = (PLAIN, Model(Way("f-ibp"), ALPHAS), Model(Way("u-dif"), ALPHAS))
U_DIF = [Model(Way("u-dif"), (0.3, 0.5, 0.65, 0.8, 1.0, 1.25), ("shifted", goal)) for goal in (0.058, 0.03)]
PLANS = (
    Plan(
        INCOME,
        (
            PLAIN,
            Model(Way("f-ibp"), (1.4, 1.8, 2.3, 3.0), ("local", 0.0125)),
            *U_DIF,
            Model(Way("f-ibp", box=True), (0.3, 0.6, 1.0, 2.0), ("local", 0.0125)),
            Model(Way("sensr")),
            Model(Way("l-dif"), (0.5, 1.0, 2.0), ("shifted", 0.058)),
        ),
        repaired=(0.02, 0.0125),
        realizable=(PLAIN, U_DIF[1]),
    ),
    Plan(
        _own(GERMAN, None),
        (*OTHERS, Model(Way("f-ibp", box=True), ALPHAS)),
        repaired=(0.1, 0.03, 0.01),
        frontier=(0.0, 0.3, 1.0, 3.0),
    ),
    Plan(_own(ADULT, 6), OTHERS),
    Plan(_own(CREDIT, 8), OTHERS),
    Plan(_own(EMPLOY, 4), OTHERS),
    Plan(_own(COVERAGE, 5), OTHERS),
)


class Apart(Case):
    """The training split alone: some learn, and those set aside choose."""

    @cached_property
    def split(self) -> tuple[Population, Population]:
        """Who is learned from, and who chooses."""
        return parted(self.whole.train)

    def key(self, way: Way, seed: int) -> dict[str, Any]:
        """Everything that the weights of a network depend on."""
        return super().key(way, seed) | {"apart": True}


def parted(train: Population) -> tuple[Population, Population]:
    """The training split without, and with only, the people set aside for choices."""
    order = np.random.default_rng(0).permutation(len(train))
    cut = max(len(train) // 10, min(200, len(train) // 3))
    return train[np.sort(order[cut:])], train[np.sort(order[:cut])]


def run(setting: Setting, store: Store, *, plans: Sequence[Plan] = PLANS, size: Size | None = None) -> Result:
    """Choices first, then what was chosen, seeds outermost, then repairs and frontiers."""
    size = size or Size.of(setting)
    datasets = [plan.dataset for plan in plans]
    choices = _choices(list(zip(plans, cases(datasets, size, setting, Apart), strict=True)), setting, store)
    tried = [line for line in choices.lines if known(line, "accuracy")]
    both = zip(plans, cases(datasets, size, setting), strict=True)
    there = [(plan, case) for plan, case in both if plan.dataset.title not in choices.absent]
    steps = [
        _trained("test", model.name, case, model.way, chosen(model, *_trials(plan, model, tried)), seed,
                 model in plan.realizable)
        for seed in range(setting.seeds)
        for plan, case in there
        for model in plan.models
    ]  # fmt: skip
    for plan, case in there:
        for epsilon in plan.repaired:
            compute, option = partial(repaired, case, epsilon), {"epsilon": epsilon}
            steps.append(case.step("repair", PLAIN.way, 0, compute, model="repair", option=option))
        if plan.frontier:
            compute, alphas = partial(traded, case, plan.frontier), list(plan.frontier)
            steps.append(case.step("frontier", Way("u-dif"), 0, compute, model="frontier", alphas=alphas))
    rest = taken(steps, setting, store)
    found = Found(choices.lines + rest.lines, choices.absent | rest.absent, choices.left + rest.left)
    lines = [each for line in found.lines for each in _flat(line)]
    return Result(
        name="targets",
        title="Certified training: results",
        story=(
            f"Sensitive subspace metric with ridge {RIDGE:g}, fitted on the training split; delta {paper.DELTA:g}, "
            f"gamma {paper.GAMMA:g} (order 1, l2), networks {size.shape}, unbounded domain. Choices are made on people "
            "set aside from the training split; what stands first is measured on the test split, certificates (tight "
            f'tier) on {size.people} of it. "box form" is the paper\'s bound, trained in the same way.',
            *found.words(),
        ),
        tables=tuple(table for plan in plans for table in tables(plan, of_table(plan, lines))),
        data=pd.DataFrame([line | {"option": told(line["option"])} for line in lines]).reindex(columns=list(COLUMNS)),
    )


def _choices(tried: Sequence[tuple[Plan, Case]], setting: Setting, store: Store) -> Found:
    """One option of every model after the other, until each has enough; what could not be computed stands last."""
    lines: list[Line] = []
    absent: dict[str, str] = {}
    while True:
        steps = {
            (plan.dataset.name, model.tried_as, str(option)): _trained(
                "choice", model.tried_as, case, model.way, option, CHOICE_SEED
            )
            for plan, case in tried
            if plan.dataset.title not in absent
            for model in plan.models
            for option in _next(model, _trials(plan, model, lines)[0])
        }
        found = taken(list(steps.values()), setting, store)
        absent |= found.absent
        new = [line for line in found.lines if known(line, "accuracy")]
        if not new:
            return Found(lines + found.lines, absent, found.left)
        lines += new


def _trials(plan: Plan, model: Model, lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """What was tried for a model, up to the first option that is enough, and what was tried for the plain one."""
    there = of_table(plan, lines)
    at = {str(line["option"]): line for line in of(there, "choice", model.tried_as)}
    tried: list[Line] = []
    for option in model.options():
        if str(option) in at and not enough(model, tried):
            tried.append(at[str(option)])
    return tried, of(there, "choice", "plain")


def _next(model: Model, tried: Sequence[Line]) -> list[dict[str, float]]:
    """The next option to try, if there is a choice and one is left."""
    options = model.options()
    return [] if len(options) == 1 or enough(model, tried) else options[len(tried) : len(tried) + 1]


def enough(model: Model, tried: Sequence[Line]) -> bool:
    """Whether the goal is reached, so that larger alphas need not be tried."""
    return model.goal is not None and bool(tried) and bool(tried[-1][model.goal[0]] <= MARGIN * model.goal[1])


def chosen(model: Model, tried: Sequence[Line], plain: Sequence[Line]) -> dict[str, float]:
    """The option that the people set aside prefer."""
    if not tried:
        return model.options()[0]
    best = max((line["accuracy"] for line in plain), default=0.0)
    if model.rates:
        return dict(max(tried, key=lambda line: line["accuracy"])["option"])
    if model.goal is not None:
        return dict(tried[-1]["option"])  # the first that reaches the goal, or the strongest
    allowed = [line for line in tried if line["accuracy"] >= best - COST and line["classes"] > 1]
    return dict((allowed or tried[:1])[-1]["option"])


def _trained(
    what: str, name: str, case: Case, way: Way, option: dict[str, float], seed: int, realizable: bool = False
) -> Step:
    parameters = {"alphas": {way: option["alpha"]}} if "alpha" in option else option
    compute = partial(judged, case, parameters, way, seed, realizable)
    more = {"realizable_too": True} if realizable else {}
    return case.tuned(**parameters).step(what, way, seed, compute, model=name, option=option, **more)


def judged(case: Case, parameters: Mapping[str, Any], way: Way, seed: int, realizable: bool = False) -> dict[str, Any]:
    """Train once, and what is found on the people who judge."""
    some, metric, dataset = case.some, case.metric, case.dataset  # read once, whatever the parameters
    trained = case.tuned(**parameters).network(way, seed)
    asked = trained.network, some, metric, dataset.delta, dataset.gamma
    shifted = certify(*asked, attack=False, progress=None)
    line = {name: trained.facts[name] for name in ("accuracy", "balanced_accuracy", "classes")} | {
        "local": shifted.local.mean_upper,
        "shifted": shifted.upper,
        "seconds": trained.facts["cpu_seconds"],
        "judged": len(case.split[1]),
    }
    if realizable:
        line["realizable"] = certify(*asked, attack=False, domain="realizable", progress=None).upper
    return line


def repaired(case: Case, epsilon: float) -> dict[str, Any]:
    """Repair the plain network of the first seed, on the training split."""
    plain, delta = case.network(PLAIN.way, 0), case.dataset.delta
    before = certify_local(plain.network, case.some, case.metric, delta, attack=False, progress=None)
    began = time.process_time()
    found = repair(
        plain.network,
        case.whole,
        epsilon,
        metric=case.metric,
        delta=delta,
        shift=Transport(0.0),
        judged_on=case.some,
        progress=None,
    )
    seconds = time.process_time() - began
    return scores(found.network, case.whole.test) | {
        "seconds": seconds,
        "before": plain.facts["accuracy"],
        "local": found.certificate.local.mean_upper,
        "before_local": before.mean_upper,
        "agreement": found.agreement,
        "change": found.change,
        "reached": found.reached,
    }


def traded(case: Case, alphas: Sequence[float]) -> dict[str, Any]:
    """The frontier in a metric that leaves the protected attributes free, realizable; nobody is set aside."""
    people, size = case.whole.with_domain("realizable"), case.size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairClassifier(
            delta=0.05, hidden=size.hidden, metric=SensitiveSubspace.fit(people.train), epochs=size.epochs,
            validation=0.0, random_state=0, progress=None,
        )  # fmt: skip
        found = frontier(
            people, alphas, model=model,
            measure=lambda one, judged: one.certify_local(judged, attack=False).mean_upper,
        )  # fmt: skip
    return {"models": found.table.rename(columns={"upper": "local"}).to_dict("records")}


def _flat(line: Line) -> list[Line]:
    """What was computed: a line, or of a frontier one for each alpha."""
    found = [row | {"option": {"alpha": row["alpha"]}} for row in line.get("models", [])] or [line]
    return [line | each for each in found if known(each, "accuracy")]


def of_table(plan: Plan, lines: Sequence[Line]) -> list[Line]:
    """The lines of one table."""
    return [line for line in lines if line["dataset"] == plan.dataset.name]


def of(lines: Sequence[Line], what: str, model: str) -> list[Line]:
    """The lines of one model."""
    return [line for line in lines if (line["what"], line["model"]) == (what, model)]


WORDS = {
    "balanced_accuracy": "balanced", "below": "below plain", "local": "mean local upper", "classes": "",
    "shifted": "distributional upper", "realizable": "realizable domain", "seconds": "CPU seconds",
    "agreement": "decisions kept", "change": "mean change", "pareto": "undominated",
}  # fmt: skip
"""Columns of the tables, where they are not called as in the lines."""
FORMS = {"seconds": ".0f", "epsilon": "g", "alpha": "g"}


def tables(plan: Plan, lines: Sequence[Line]) -> Iterator[tuple[str, pd.DataFrame]]:
    """What was found about one table, with captions."""
    shown: tuple[str, ...]
    repairs, trade = of(lines, "repair", "repair"), of(lines, "frontier", "frontier")
    names = ("accuracy", "balanced_accuracy", "local", "shifted", "classes")
    if lines:
        heading = f"## {plan.dataset.title}, {plan.dataset.words}"
        shown = ("model", "chosen", "seed", "accuracy", "below", *names[1:-1], "realizable", "seconds", "classes")
        tested = _table(_tested(plan, lines), *shown)
        yield f"{heading}\n\nOn the test split, the mean of the seeds and each seed:", tested
        each = dict.fromkeys(model.tried_as for model in plan.models)
        tried = [line | {"tried": told(line["option"])} for name in each for line in of(lines, "choice", name)]
        yield "What chose, on people set aside (one seed of its own):", _table(tried, "model", "tried", *names)
    if repairs:
        before = f"accuracy {repairs[0]['before']:.4f}, mean local upper {repairs[0]['before_local']:.4f}"
        shown = ("epsilon", "reached", "local", "accuracy", "agreement", "change", "seconds", "classes")
        yield f"Repair of the plain network ({before}):", _table(repairs, *shown)
    if trade:
        defaults = "the estimator's defaults (`u-dif`, ridge 0, realizable domain)"
        shown = ("alpha", *names[:3], "pareto", "classes")
        yield f"The frontier with {defaults}, judged on the test split:", _table(trade, *shown)


def _tested(plan: Plan, lines: Sequence[Line]) -> Iterator[Line]:
    """The mean of all seeds, and each seed."""
    plain = [line["accuracy"] for line in of(lines, "test", PLAIN.name)]
    for model in plan.models:
        tested = of(lines, "test", model.name)
        for label, group in [("mean", tested)] * (len(tested) > 1) + [(str(line["seed"]), [line]) for line in tested]:
            means: Line = {**pd.DataFrame(group).mean(numeric_only=True, skipna=False)}
            below = np.mean(plain) - means["accuracy"] if plain else None
            words = {"model": model.name, "chosen": told(group[0]["option"]), "seed": label}
            yield means | {**words, "below": below, "classes": min(line["classes"] for line in group), "option": {}}


def _table(lines: Iterable[Line], *names: str) -> pd.DataFrame:
    return pd.DataFrame(
        [{WORDS.get(name, name): _cell(name, (line | line["option"]).get(name)) for name in names} for line in lines]
    )


def _cell(name: str, value: Any) -> str:
    """A number with four decimals; nothing where none was asked for."""
    if name == "classes":
        return "predicts one class only" if value == 1 else ""
    if isinstance(value, str | bool):
        return value if isinstance(value, str) else ("no", "yes")[value]
    return "" if value is None or value != value else format(value, FORMS.get(name, ".4f"))


def told(option: Mapping[str, float]) -> str:
    """``alpha 0.8``."""
    return ", ".join(f"{name.replace('learning_', '')} {value:g}" for name, value in option.items())
