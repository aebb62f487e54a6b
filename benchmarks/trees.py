"""Speed and exactness of the bounds of tree ensembles, on one thread.

    python -m benchmarks.trees [--out studies/results/trees.md] [--seeds 2] [--people 100] [--parts 2000] [--reader]

Models are trained here, on the bundled tables, by XGBoost, LightGBM, CatBoost and scikit-learn, on the coordinates of
people, and read as every live object is. Times are processor time; *predicts* are times of one ``predict`` of the same
library over the same people. Veritas, where it is installed, answers the same questions: a search for each choice of
protected categories and each end, since its boxes hold numbers only. Forests have no gaps here: of some their pairs of
leaves fill gigabytes. ``--reader`` checks all configurations of the readers against their libraries, too.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import argparse  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from itertools import product  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import isonomy  # noqa: E402
from isonomy.files import atomic  # noqa: E402
from isonomy.population import Schema  # noqa: E402
from isonomy.search.trees import find_gap  # noqa: E402
from isonomy.trees.load import read_trees  # noqa: E402
from isonomy.trees.model import TreeModel  # noqa: E402
from isonomy_verify.domain import Domain  # noqa: E402
from isonomy_verify.forms import Form  # noqa: E402
from isonomy_verify.heads import Head  # noqa: E402
from isonomy_verify.similar import Similarity  # noqa: E402
from isonomy_verify.tree_bounds import TreeBounds  # noqa: E402
from isonomy_verify.tree_global import bound  # noqa: E402

PROTECTED = {"adult": ("sex", "race"), "german": ("personal_status", "foreign_worker")}
TOLERANCES = {
    "adult": {"age": 2, "hours-per-week": 5, "education-num": 1},
    "german": {"age": 2, "duration": 6, "credit_amount": 500},
}
WIDE = {
    "adult": {"age": 7, "hours-per-week": 10, "education-num": 2, "capital-gain": 5000, "capital-loss": 400},
    "german": {
        "age": 6, "duration": 7, "credit_amount": 1800, "employment": 1, "installment_rate": 1, "residence_since": 1,
        "existing_credits": 1, "num_dependents": 1,
    },
}  # fmt: skip


class Model(NamedTuple):
    """A trained model, what was read of it, and one prediction of everybody."""

    name: str
    read: TreeModel
    predict: Callable[[np.ndarray], np.ndarray]
    own: Any


def trained(x: np.ndarray, y: np.ndarray, schema: Schema, seed: int) -> Iterator[Model]:
    """Train models of four libraries, and read them as every live object is read."""
    import catboost
    import lightgbm
    import xgboost
    from sklearn.ensemble import RandomForestClassifier

    boosted = {"n_jobs": 1, "random_state": seed, "subsample": 0.8}
    named: dict[str, Any] = {
        f"XGBoost {n} trees, depth {d}": xgboost.XGBClassifier(
            n_estimators=n, max_depth=d, learning_rate=0.1, **boosted
        ) for n, d in ((200, 5), (500, 6), (800, 6))
    } | {
        f"LightGBM {n} trees, 31 leaves": lightgbm.LGBMClassifier(
            n_estimators=n, num_leaves=31, verbose=-1, subsample_freq=1, **boosted
        ) for n in (200, 500)
    } | {
        "CatBoost 500 trees, depth 6": catboost.CatBoostClassifier(
            iterations=500, depth=6, verbose=0, thread_count=1, random_seed=seed, allow_writing_files=False
        ),
        "forest of 200 deep trees": RandomForestClassifier(200, random_state=seed, n_jobs=1, min_samples_leaf=2),
    }  # fmt: skip
    for name, own in named.items():
        read = TreeModel.of(read_trees(own.fit(x, y)), schema, reads="coordinates")
        yield Model(name, read, own.predict_proba, own)


def metric(name: str, domain: Domain, tolerances: dict[str, float]) -> Form:
    """Counterparts: protected features are free, some numbers within a tolerance, the rest equal."""
    m = domain.width
    free = np.array([any(n.split("=")[0] == p for p in PROTECTED[name]) for n in domain.names])
    tolerance = np.zeros(m)
    for feature, value in tolerances.items():
        j = domain.names.index(feature)
        tolerance[j] = value / domain.unit[j] * (1 + 1e-12)
    return Form(np.zeros((0, m)), 2.0, free, tolerance, np.zeros(m), domain.origin, domain.unit)


def models(seeds: int) -> Iterator[tuple[str, int, Model, Domain, np.ndarray]]:
    """Every model with its table, seed, domain and people."""
    for seed, name in product(range(seeds), ("german", "adult")):
        population = isonomy.load_population(name)
        domain = population.schema.domain("realizable")
        x, y = np.ascontiguousarray(population.x), np.asarray(population.y).astype(int)
        rows = np.random.default_rng(seed).permutation(len(x))
        some, rest = rows[: len(x) * 3 // 4][:20_000], rows[len(x) * 3 // 4 :]
        for model in trained(x[some], y[some], population.schema, seed):
            yield name, seed, model, domain, x[rest]


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a run, and what it gave."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def bounds_of(model: Model, domain: Domain, form: Form) -> TreeBounds:
    """Bounds of a model's probability."""
    return TreeBounds(model.read.trees, Head(model.read.head, 1, 0.5), Similarity(form, 1.0, domain))


def local(model: Model, bounds: TreeBounds, x: np.ndarray, step: int) -> dict[str, Any]:
    """Time and exactness of the bounds over similar people, ``step`` of them at a time."""
    predict = min(timed(lambda: model.predict(x))[0] for _ in range(3))
    off = np.abs(model.read(x) - model.predict(x)).max()
    times, exact, began = [], [], time.perf_counter()
    for start in range(0, len(x), step):
        some = x[start : start + step]
        spent, extremes = timed(lambda some=some: bounds.extremes(some))
        times.append(spent / len(some) * 1e3)
        exact += extremes.exact.tolist()
    return {
        "ms a person": np.mean(times), "worst": max(times),
        "by the clock": (time.perf_counter() - began) * 1e3 / len(x), "exact": np.mean(exact),
        "predicts": np.mean(times) * len(x) / 1e3 / predict, "off": float(off),
    }  # fmt: skip


def veritas_of(model: Model, bounds: TreeBounds, name: str, x: np.ndarray) -> dict[str, Any]:
    """Time of Veritas for the same ends, and how often it gives the same; empty where it cannot be asked."""
    try:
        import veritas
    except ModuleNotFoundError:
        return {}
    domain = bounds.similarity.domain
    trees = veritas.get_addtree(model.own, silent=True)
    low, high = bounds.similarity.ranges(x)
    free = [(a, b) for a, b in domain.blocks if domain.names[a].split("=")[0] in PROTECTED[name]]
    states = [np.eye(b - a) if b - a > 1 else np.array([[0.0], [1.0]]) for a, b in free]
    ours = bounds.over(bounds.extremes(x))
    times, same = [], 0
    for i in range(len(x)):
        began, attained = time.process_time(), []
        for kind in (veritas.HeuristicType.MIN_OUTPUT, veritas.HeuristicType.MAX_OUTPUT):
            values = []
            for choice in product(*states):
                at, a, b = x[i].copy(), x[i] + low[i], x[i] + high[i]
                for (start, stop), state in zip(free, choice, strict=True):
                    at[start:stop] = a[start:stop] = b[start:stop] = state
                a = np.where(domain.numeric, a, at).astype(np.float32)
                b = np.nextafter(np.where(domain.numeric, b, at).astype(np.float32), np.float32(np.inf))
                config = veritas.Config(kind)
                config.stop_when_optimal = True
                search = config.get_search(
                    trees, [veritas.Interval(*map(float, ends)) for ends in zip(a, b, strict=True)]
                )
                search.step_for(10.0, 1000)
                values.append(search.get_solution(0).output if search.num_solutions() else np.nan)
            attained.append(np.nanmin(values) if kind == veritas.HeuristicType.MIN_OUTPUT else np.nanmax(values))
        times.append(time.process_time() - began)
        same += bool(abs(attained[0] - ours.low[i, 0]) < 1e-4 and abs(attained[1] - ours.high[i, 0]) < 1e-4)
    return {"Veritas, ms a person": np.mean(times) * 1e3, "same ends": f"{same} of {len(x)}"}


def profile(bounds: TreeBounds, x: np.ndarray) -> dict[str, Any]:
    """Time of bounds over everybody within radii up to 0.1, one person at a time."""
    m = x.shape[1]
    ground = Form(np.eye(m), 2.0, np.ones(m, bool), np.zeros(m), np.zeros(m), np.zeros(m), np.ones(m))
    reach, times, values = bounds.reach(ground), [], []
    for i in range(len(x)):
        spent, value = timed(lambda i=i: reach.bound(x[i : i + 1], [0.0, 0.025, 0.05, 0.1]))
        times.append(spent * 1e3)
        values.append(value[0])
    mean = np.mean(values, 0)
    return {"ms a person": np.mean(times), "worst": max(times), "at 0": mean[0], "at .05": mean[2], "at .1": mean[3]}


def gap(bounds: TreeBounds, domain: Domain, protected: str, parts: int) -> dict[str, Any]:
    """Time and result of the largest gap of a protected feature over the whole domain."""
    axes = [k for k, a in enumerate(bounds.cells.axes) if domain.names[a.start].split("=")[0] == protected]
    began = time.perf_counter()
    spent, found = timed(lambda: find_gap(bounds.cells, axes, 0, parts))
    clock = time.perf_counter() - began
    check, _ = timed(lambda: bound(found.gap, found.hint))
    unit, fields = 2.0**-bounds.cells.sums.exponent, found.gap.fields
    return {
        "trees": len(np.unique(fields.tree)), "pairs": len(fields.tree), "attained": found.lower * unit,
        "proved": found.upper * unit, "boxes": found.parts, "s": spent - check, "s to check": check,
        "both by the clock": clock,
    }  # fmt: skip


def readers() -> str:
    """Check every configuration of the readers against its library; say how many are wrong."""
    from tests.trees.configurations import CONFIGURATIONS
    from tests.trees.originals import ROWS
    from tests.trees.test_configurations import check

    wrong = []
    for each in CONFIGURATIONS:
        try:
            check(each)
        except AssertionError:
            wrong.append(str(each))
    said = f"{len(wrong)} of {len(CONFIGURATIONS)} configurations wrong, {ROWS:,} rows or more each"
    return "; ".join([said, *wrong])


TITLES = {
    "local": "Protected features and three tolerances",
    "wide": "Wide: protected features, and five (Adult) or eight (German) moving numbers",
    "profile": "Everybody within all radii up to .1", "gap": "The largest gap of a protected feature, anywhere",
}  # fmt: skip


def summary(rows: dict[str, list[dict[str, Any]]], reader: str) -> pd.DataFrame:
    """Targets beside what was measured."""
    table = {name: pd.DataFrame(each) for name, each in rows.items()}
    own, lines = table["local"], []
    forest = own["model"].str.startswith("forest")
    boosted = own[~forest]
    ms, all_exact = boosted["ms a person"], boosted["exact"].mean()
    said = f"worst mean {ms.max():.2f} ms, median {ms.median():.2f} ms; {all_exact:.1%} exact"
    lines.append(("boosted, protected and three tolerances", "2 ms, 100 % exact; .5 ms in the median", said))
    ms = own[forest]["ms a person"]
    lines.append(
        (
            "forests of 200 deep trees",
            "25 ms, 99 % exact",
            f"{ms.max():.1f} ms; {own[forest]['exact'].mean():.1%} exact",
        )
    )
    wide = table["wide"]
    lines.append(
        (
            "wide",
            "1 s, 95 % exact",
            f"worst mean {wide['ms a person'].max() / 1e3:.2f} s; {wide['exact'].mean():.1%} exact",
        )
    )
    ms = table["profile"]["ms a person"]
    lines.append(("profile", "100 ms", f"worst mean {ms.max():.0f} ms, median {ms.median():.0f} ms"))
    gaps = table["gap"]
    spent = gaps["s"]
    good = ((gaps["attained"] == gaps["proved"]) & (spent <= 60)).mean()
    said = f"{good:.0%} of {len(gaps)} exact in 60 s; median {spent.median():.1f} s, worst {spent.max():.0f} s"
    lines.append(("global gap", "90 % exact in 60 s, median 10 s", said))
    lines.append(("readers, rows on thresholds", "0 of 280 configurations wrong", reader or "not run here"))
    return pd.DataFrame(lines, columns=["question", "target", "measured"])


def markdown(table: pd.DataFrame) -> str:
    """A table with numbers of four digits."""

    def cell(value: Any, name: str) -> str:
        if isinstance(value, float):
            return (
                ""
                if np.isnan(value)
                else f"{value:.1%}"
                if name == "exact"
                else f"{value:.1e}"
                if name == "off"
                else f"{value:.4g}"
            )
        return str(value)

    lines = ["| " + " | ".join(map(str, table)) + " |", "|" + "---|" * table.shape[1]]
    lines += ["| " + " | ".join(cell(row[name], str(name)) for name in table) + " |" for _, row in table.iterrows()]
    return "\n".join(lines)


def write(path: Path, rows: dict[str, list[dict[str, Any]]], reader: str, command: str) -> None:
    """Write the page."""
    import platform

    intro = (
        f"# Tree ensembles\n\nWritten by `{command}`, one thread: numpy {np.__version__}, {platform.machine()}, Python "
        f"{platform.python_version()}, isonomy {isonomy.__version__}. Times are processor time where no clock is "
        f"named; the machine had other work, which the clock counts. *predicts* are times of one `predict` of the same "
        f"library over the same people, *off* is the largest difference of its probabilities from ours, *at r* the "
        f"mean bound of anybody within r. Gaps are of the raw score; forests have none: their pairs of leaves fill "
        f"gigabytes.\n\n"
    )
    parts = [intro + markdown(summary(rows, reader))]
    parts += [f"## {TITLES[name]}\n\n{markdown(pd.DataFrame(each))}" for name, each in rows.items()]
    with atomic(path) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, and print or write the page after every model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--parts", type=int, default=2000)
    parser.add_argument("--reader", action="store_true")
    given = parser.parse_args()
    asked = f"--seeds {given.seeds} --people {given.people} --parts {given.parts}{' --reader' * given.reader}"
    command = f"python -m benchmarks.trees {asked} --out studies/results/trees.md"
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TITLES}
    reader = readers() if given.reader else ""
    for name, seed, model, domain, x in models(given.seeds):
        about = {"table": name, "seed": seed, "model": model.name}
        some, few = x[: given.people], x[: max(4, given.people // 10)]
        similar, wide = (bounds_of(model, domain, metric(name, domain, each[name])) for each in (TOLERANCES, WIDE))
        asked_too = veritas_of(model, similar, name, few) if model.name.startswith(("XGB", "Light")) else {}
        rows["local"].append(about | local(model, similar, some, 50) | asked_too)
        rows["wide"].append(about | local(model, wide, few, 1))
        rows["profile"].append(about | profile(similar, few))
        if not model.name.startswith("forest"):
            alone = bounds_of(model, domain, metric(name, domain, {}))
            for protected in PROTECTED[name]:
                rows["gap"].append(about | {"protected": protected} | gap(alone, domain, protected, given.parts))
        print(about, {key: each[-1] for key, each in rows.items() if each}, flush=True)
        if given.out is not None:
            write(given.out, rows, reader, command)
    print(markdown(summary(rows, reader)))


if __name__ == "__main__":
    main()
