"""What does a certified level cost? The frontiers of the default, the plain regression and networks, on six tables.

Every method has its own grid and is chosen alike: of its models that are certified at 0.85 of a level on training
people, the one of the lowest log-loss on people who were left out of its fit. What was chosen is judged on test people:
log-loss and scores on all of them, certificates (tight tier, default rounds) on some. All read nothing protected, and
networks keep the weights of their best epoch. Models that have collapsed are never chosen.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isonomy.certificates import certify
from isonomy.fairness import scores
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.similarity import SensitiveSubspace
from isonomy.training import FairClassifier
from isonomy.training.choice import MARGIN
from studies import Result, Setting, Store, style
from studies.methods import RIDGE
from studies.steps import Found, Line, Step, known, taken
from studies.surveys import load_population
from studies.tables import ADULT, COVERAGE, CREDIT, EMPLOY, GERMAN, INCOME, Dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = (GERMAN, CREDIT, ADULT, INCOME, EMPLOY, COVERAGE)
LEVELS = (0.005, 0.01, 0.02, 0.05, 0.1)
DELTA, GAMMA = 0.02, 0.025
ALPHAS = (0.05, 0.1, 0.3, 1.0, 3.0)
DEFAULT, PLAIN = "default", "regression"
NETWORKS: Mapping[str, tuple[float, ...]] = {
    "residual": ALPHAS, "u-dif": ALPHAS, "ftu": (0.0,),
}  # fmt: skip
"""Methods that train networks, with the weights of their bound that are tried."""

MORE: Mapping[str, tuple[float, ...]] = {"f-ibp": ALPHAS, "l-dif": ALPHAS, "sensr": (0.0,), "sensei": ALPHAS}
"""Those of ``--full`` besides."""


@dataclass(frozen=True)
class Size:
    """Rows learned from, training people who choose and test people who judge by certificates, hidden layers."""

    rows: int = 4_000
    chosen_by: int = 25
    judged: int = 25
    hidden: tuple[int, ...] = (32, 32)
    scored: int = 20_000
    networks: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: NETWORKS)

    @classmethod
    def of(cls, setting: Setting) -> Size:
        """The quick form, the usual one, or the whole night's."""
        if setting.quick:
            return cls(300, 4, 4, (8,), 200, {"u-dif": (0.1, 1.0), "ftu": (0.0,)})
        return cls(20_000, 100, 200, (32, 32), 100_000, {**NETWORKS, **MORE}) if setting.full else cls()


class Sample:
    """The people of a table as one seed draws them; read only when something is computed."""

    def __init__(self, dataset: Dataset, size: Size, seed: int) -> None:
        self.dataset, self.size, self.seed = dataset, size, seed

    @cached_property
    def people(self) -> tuple[Population, Population]:
        """Those learned from, and the others."""
        load = {name: value for name, value in self.dataset.load.items() if name != "encoding"}
        whole = load_population(self.dataset.source, **load, domain="unbounded")
        whole = replace(whole, weights=np.ones(len(whole)))
        if len(whole) < 5 * self.size.rows and len(whole) < 5_000:  # a small table is divided anew by each seed
            order = np.random.default_rng(self.seed).permutation(len(whole))
            cut = min(self.size.rows, int(0.72 * len(whole)))
            return whole[np.sort(order[:cut])], whole[np.sort(order[cut:])]
        return whole.train.sample(self.size.rows, seed=self.seed), whole.test.sample(self.size.scored, seed=self.seed)

    @cached_property
    def metric(self) -> SensitiveSubspace:
        """Who counts as similar, learned from those learned from."""
        return SensitiveSubspace.fit(self.people[0], ridge=RIDGE)

    def fitted(self, method: Any, **options: Any) -> FairClassifier:
        """A model of a method."""
        model = FairClassifier(
            method, delta=DELTA, gamma=GAMMA, metric=self.metric, judged=self.size.chosen_by, random_state=self.seed,
            progress=None, **options,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a collapse stands in the line
            return model.fit(self.people[0])

    def proved(self, network: Network, people: Population) -> tuple[float, float]:
        """The certified mean violations of these people, and of every population within gamma."""
        certificate = certify(network, people, self.metric, DELTA, gamma=GAMMA, attack=False, progress=None)
        return certificate.local.mean_upper, certificate.upper

    def tested(self, network: Network) -> dict[str, float]:
        """Scores and bounds on people who were not learned from."""
        others = self.people[1]
        local, upper = self.proved(network, others.sample(self.size.judged, seed=self.seed))
        return scores(network, others) | {"local": local, "upper": upper}


def run(setting: Setting, store: Store, *, datasets: Sequence[Dataset] = TABLES, size: Size | None = None) -> Result:
    """Seeds outermost, tables next; of each the scorecards and regressions first, then the networks."""
    size = size or Size.of(setting)
    samples = [[Sample(dataset, size, seed) for dataset in datasets] for seed in range(setting.seeds)]
    steps = []
    for sample in (sample for row in samples for sample in row):
        steps.append(_step(sample, DEFAULT, None, partial(scorecards, sample)))
        steps += [
            _step(sample, method, alpha, partial(network, sample, method, alpha))
            for method, alphas in size.networks.items()
            for alpha in alphas
        ]
    found = taken(steps, setting, store)
    models = pd.DataFrame(list(_models(found.lines)))
    table = chosen(models, datasets)
    return Result(
        name="frontiers",
        title="Frontiers: what a certified level costs",
        story=(*_story(setting, size), *verdicts(table, found.lines, datasets), *found.words(), *_complete(found)),
        tables=tuple(_tables(table, datasets)),
        data=table,
        draw=partial(draw, table=table, datasets=datasets),
        size=(7.2, 5.2),
        alt="Log-loss of test people against the level at which models are certified, a panel for each table and a "
        "line for each method, with standard errors over the seeds.",
    )


def _step(sample: Sample, method: str, alpha: float | None, compute: Any) -> Step:
    size = sample.size
    key = {
        "dataset": sample.dataset.name, "seed": sample.seed, "method": method, "alpha": alpha, "rows": size.rows,
        "chosen_by": size.chosen_by, "judged": size.judged, "hidden": list(size.hidden), "scored": size.scored,
    }  # fmt: skip
    return Step(sample.dataset.title, key, compute)


def scorecards(sample: Sample) -> dict[str, Any]:
    """Every candidate of the default as its choice sees it, and on test people those that a level chooses."""
    began = time.process_time()
    model = sample.fitted("scorecard")
    seconds = time.process_time() - began
    wanted = set()
    for level in (*LEVELS, None):
        choice = model.choice_.at(level)
        wanted |= {choice.chosen, choice.regression}
    rows = []
    others = sample.people[1]
    losses = {place: _losses(model.candidates_[place].network(model.domain_), others) for place in wanted}
    pairs = []
    for level in LEVELS:
        choice = model.choice_.at(level)
        if choice.reached:
            apart = losses[choice.chosen] - losses[choice.regression]
            error = float(apart.std() / math.sqrt(len(apart)))
            pairs.append({"level": level, "apart": float(apart.mean()), "error": error})
    for place, row in model.frontier_.iterrows():
        line = {"family": row["family"], "option": row["C"], "chosen_loss": row["loss"], "chosen_upper": row["upper"]}
        if place in wanted:
            line |= sample.tested(model.candidates_[int(str(place))].network(model.domain_))
        rows.append(line | {"collapsed": False})
    return {"models": rows, "pairs": pairs, "seconds": seconds}


def _losses(network: Network, people: Population) -> np.ndarray[Any, Any]:
    """The log-loss of everybody."""
    assert people.y is not None
    return np.asarray(-np.log(np.clip(network(people.x)[np.arange(len(people)), people.y], 1e-15, 1.0)))


def network(sample: Sample, method: str, alpha: float) -> dict[str, Any]:
    """One network: its loss on people set aside and its bound on training people, then the same on test people."""
    began = time.process_time()
    model = sample.fitted(method, alpha=alpha, hidden=sample.size.hidden, blind=True)
    seconds = time.process_time() - began
    learned = sample.people[0]
    _, upper = sample.proved(model.network_, learned.sample(sample.size.chosen_by, seed=sample.seed))
    line = {"option": alpha, "chosen_loss": model.kept_["validation_error"], "chosen_upper": upper}
    return {"models": [line | sample.tested(model.network_) | {"collapsed": model.collapsed_}], "seconds": seconds}


def _models(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """One row for each model and each method that may choose it."""
    for line in lines:
        for model in line.get("models", []):
            row = {"dataset": line["dataset"], "seed": line["seed"], **model}
            yield row | {"method": line["method"]}
            if model.get("family") == PLAIN:
                yield row | {"method": PLAIN}


NAMES = ("log_loss", "balanced_accuracy", "auc", "local", "upper")
COLUMNS = ("dataset", "level", "method", "seed", "option", "family", *NAMES, "apart")


def chosen(models: pd.DataFrame, datasets: Sequence[Dataset]) -> pd.DataFrame:
    """For every table, level, method and seed what was chosen, and how far its log-loss is ``apart`` from that of the
    regression that was chosen at the same level and seed."""
    rows: list[dict[str, Any]] = []
    if models.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    alive = models[~models["collapsed"].astype(bool)]
    for (name, seed), mine in alive.groupby(["dataset", "seed"], sort=False):
        for level in LEVELS:
            best = {}
            for method, group in mine.groupby("method", sort=False):
                allowed = group[group["chosen_upper"] <= MARGIN * level]
                if len(allowed):
                    best[method] = allowed.iloc[int(np.argmin(allowed["chosen_loss"].to_numpy()))]
            plain = best[PLAIN]["log_loss"] if PLAIN in best else math.nan
            rows += [
                {"dataset": name, "seed": seed, "level": level, "method": method, "apart": row["log_loss"] - plain}
                | {key: row.get(key) for key in ("option", "family", *NAMES)}
                for method, row in best.items()
            ]
    places = {dataset.name: place for place, dataset in enumerate(datasets)}
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values(["dataset", "level", "seed"], key=lambda s: s.map(places) if s.name == "dataset" else s,
                             kind="stable", ignore_index=True)  # fmt: skip


def mean_and_error(values: pd.Series[Any]) -> tuple[float, float]:
    """The mean over the seeds and its standard error; NaN for one seed."""
    numbers = values.dropna().to_numpy(dtype=float)
    if not len(numbers):
        return math.nan, math.nan
    return float(numbers.mean()), float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else math.nan


def beaten_by(table: pd.DataFrame, dataset: str) -> list[str]:
    """Methods and levels at which the default's log-loss is above another's by more than one standard error of the
    differences, seed by seed."""
    told = []
    mine = table[table["dataset"] == dataset]
    for (level, method), group in mine[mine["method"] != DEFAULT].groupby(["level", "method"], sort=False):
        default = mine[(mine["method"] == DEFAULT) & (mine["level"] == level)].set_index("seed")["log_loss"]
        difference = (default - group.set_index("seed")["log_loss"]).dropna()
        missing = group["seed"].nunique() - len(difference)
        mean, error = mean_and_error(difference)
        if missing or (math.isfinite(mean) and mean > (error if math.isfinite(error) else 0.0)):
            told.append(f"{method} at {level:g}")
    return told


def wins(lines: Sequence[Line], dataset: str) -> list[str]:
    """Levels at which the default's log-loss is below the regression's by more than 1.96 standard errors: of the test
    people of every seed, and between the seeds where there are several."""
    pairs = pd.DataFrame([each for line in lines if line["dataset"] == dataset for each in line.get("pairs", [])])
    told = []
    for level, group in pairs.groupby("level") if len(pairs) else ():
        error = float(np.sqrt((group["error"] ** 2).sum())) / len(group)
        between = mean_and_error(group["apart"])[1]
        error = math.hypot(error, between) if math.isfinite(between) else error
        if group["apart"].mean() < -1.96 * error:
            told.append(f"{level:g} by {-group['apart'].mean():.4f} ± {error:.4f}")
    return told


def _story(setting: Setting, size: Size) -> Iterator[str]:
    methods = ", ".join(f"{name} (alpha {', '.join(f'{a:g}' for a in alphas)})" if len(alphas) > 1 else name
                        for name, alphas in size.networks.items())  # fmt: skip
    shape = "x".join(map(str, size.hidden))
    yield (
        f"Metric SenSR with ridge {RIDGE:g}, delta {DELTA:g}, gamma {GAMMA:g}, unbounded domain; "
        f"{setting.seeds} seed{'s' * (setting.seeds > 1)}; at most {size.rows:,} rows to learn from, drawn anew by "
        f"each seed, and at most {size.scored:,} test people for scores; certificates by the tight tier with default "
        f"rounds, of {size.chosen_by} training people for the choice and of {size.judged} test people for what stands "
        f"here. Networks {shape}: {methods}. "
        + ("" if setting.full else "The form with more rows, people and methods is `--full`.")
    )
    yield (
        "The default is `FairClassifier(epsilon=level)`: a certified scorecard. Each method is chosen alike: the "
        f"lowest log-loss on people left out of its fit, among its models that are certified at {MARGIN:g} of the "
        "level on training people. A method that has no such model at a level has no row there. All read nothing "
        "protected."
    )


def verdicts(table: pd.DataFrame, lines: Sequence[Line], datasets: Sequence[Dataset]) -> Iterator[str]:
    """Whether the targets are reached, in numbers."""
    there = [each for each in datasets if (table["dataset"] == each.name).any()]
    if not there:
        return
    seeds = int(table["seed"].nunique())
    good: list[str] = []
    bad: list[str] = []
    for each in there:
        lost = beaten_by(table, each.name)
        alone = set(table[table["dataset"] == each.name]["method"]) <= {DEFAULT, PLAIN}
        words = f" (behind {_listed(lost)})" if lost else " (beside the regression only)" if alone else ""
        (bad if lost else good).append(f"{each.title}{words}")
    word = "within one standard error of the seeds" if seeds > 1 else "of one seed, without a standard error,"
    yield (
        f"**The default against all others.** {word.capitalize()} its log-loss is no higher than any other method's at "
        f"every level on {len(good)} of {len(there)} tables (at least five of six are wanted)"
        + (f": {', '.join(good)}. " if good else ". ")
        + (f"Not on {'; '.join(bad)}." if bad else "")
    )
    won = {each.title: wins(lines, each.name) for each in there}
    clear = [f"{title} (at {', '.join(levels)})" for title, levels in won.items() if levels]
    yield (
        f"**The default against the regression.** Its log-loss is lower by more than 1.96 standard errors (of the test "
        "people and between seeds) at some level "
        f"on {len(clear)} of {len(there)} tables (three are wanted)" + (f": {'; '.join(clear)}." if clear else ".")
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _complete(found: Found) -> Iterator[str]:
    """Which parts of which methods and seeds are there."""
    if found.left:
        counts: dict[str, set[tuple[str, int]]] = {}
        for line in found.lines:
            if known(line, "models"):
                counts.setdefault(line["method"], set()).add((line["dataset"], line["seed"]))
        each = "; ".join(f"{method} on {len(places)} samples" for method, places in counts.items())
        yield f"What is here: {each}. Comparisons are made seed by seed, where both are there."


WORDS = {"log_loss": "log-loss", "balanced_accuracy": "balanced accuracy", "auc": "AUC", "local": "local",
         "upper": "within gamma"}  # fmt: skip


def _tables(table: pd.DataFrame, datasets: Sequence[Dataset]) -> Iterator[tuple[str, pd.DataFrame]]:
    for dataset in datasets:
        mine = table[table["dataset"] == dataset.name]
        if mine.empty:
            continue
        rows = []
        for (level, method), group in mine.groupby(["level", "method"], sort=False):
            row = {"level": f"{level:g}", "method": method, "seeds": str(group["seed"].nunique())}
            row["against the regression"] = "" if method == PLAIN else _cell(group["apart"], "+.4f")
            rows.append(row | {WORDS[name]: _cell(group[name]) for name in NAMES} | {"chosen": _options(group)})
        yield f"## {dataset.title}\n\nTest people, mean ± standard error over the seeds:", pd.DataFrame(rows)


def _options(group: pd.DataFrame) -> str:
    """What was chosen: families and their C, or alphas."""
    told = [f"{family} {option:g}" if isinstance(family, str) else f"{option:g}"
            for family, option in zip(group["family"], group["option"], strict=True)]  # fmt: skip
    return ", ".join(dict.fromkeys(told))


def _cell(values: pd.Series[Any], form: str = ".4f") -> str:
    mean, error = mean_and_error(values)
    if not math.isfinite(mean):
        return ""
    return format(mean, form) + (f" ± {error:.4f}" if math.isfinite(error) else "")


def draw(drawn: Figure, *, table: pd.DataFrame, datasets: Sequence[Dataset]) -> None:
    """A panel for each table: log-loss against the level."""
    there = [each for each in datasets if (table["dataset"] == each.name).any()] or list(datasets)
    columns = min(3, len(there))
    panels = drawn.subplots(math.ceil(len(there) / columns), columns, squeeze=False).ravel()
    methods = list(dict.fromkeys([DEFAULT, PLAIN, *table["method"]]))
    looks = {method: style.line(number) for number, method in enumerate(methods)}
    for axes, dataset in zip(panels, there, strict=False):
        for method in methods:
            mine = table[(table["dataset"] == dataset.name) & (table["method"] == method)]
            places = [(level, *mean_and_error(group["log_loss"])) for level, group in mine.groupby("level")]
            if places:
                x, y, error = np.array(places).T
                axes.errorbar(x, y, yerr=np.nan_to_num(error), capsize=2, **looks[method])
        axes.set_title(dataset.title)
        style.logarithmic(axes, "x")
    for axes in panels[len(there) :]:
        axes.set_axis_off()
    drawn.supxlabel("certified level, within gamma", fontsize=9)
    drawn.supylabel("log-loss of test people", fontsize=9)
    style.legend(drawn, looks, "upper center", min(5, len(methods)))
