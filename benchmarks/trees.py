"""Speed and exactness of the bounds of tree ensembles, on one thread.

    python -m benchmarks.trees [--out studies/results/trees.md] [--seeds 2] [--people 100] [--parts 4000] [--reader]
                               [--quick]

Models are trained here, on the bundled tables, by XGBoost, LightGBM, CatBoost and scikit-learn, on the coordinates of
people, and read as every live object is. Times are processor time; *predicts* are times of one ``predict`` of the same
library over the same people. Veritas, where it is installed, answers the same questions: a search for each choice of
protected categories and each end, since its boxes hold numbers only. Forests have no gaps here: of some their pairs of
leaves fill gigabytes. ``--reader`` checks all configurations of the readers against their libraries, too. What was
measured is kept beside the page, in a file .jsonl; models that are in it are not measured again. ``--quick`` measures
one small model and keeps nothing.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import argparse  # noqa: E402
import json  # noqa: E402
import tempfile  # noqa: E402
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


def trained(x: np.ndarray, y: np.ndarray, schema: Schema, seed: int, known: set[str]) -> Iterator[Model]:
    """Train models of four libraries but those ``known``, and read them as every live object is read."""
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
    for name in sorted(set(named) - known):
        own = named[name]
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


def models(seeds: int, tables: list[str], known: set[tuple[str, int, str]]) -> Iterator[tuple[Any, ...]]:
    """Every model but those ``known``, with its table, seed, domain and people."""
    for seed, name in product(range(seeds), tables):
        population = isonomy.load_population(name)
        domain = population.schema.domain("realizable")
        x, y = np.ascontiguousarray(population.x), np.asarray(population.y).astype(int)
        rows = np.random.default_rng(seed).permutation(len(x))
        some, rest = rows[: len(x) * 3 // 4][:20_000], rows[len(x) * 3 // 4 :]
        here = {each[2] for each in known if each[:2] == (name, seed)}
        for model in trained(x[some], y[some], population.schema, seed, here):
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
    unit, fields = 2.0**-bounds.cells.sums.exponent, found.gap.fields
    return {
        "trees": len(np.unique(fields.tree)), "pairs": len(fields.tree), "attained": found.lower * unit,
        "proved": found.upper * unit, "boxes": found.parts, "s": spent, "s by the clock": clock,
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


ABOUT = ("table", "seed", "model", "protected")
TITLES = {
    "local": "Protected features and three tolerances",
    "wide": "Wide: protected features, and five (Adult) or eight (German) moving numbers",
    "profile": "Everybody within all radii up to .1", "gap": "The largest gap of a protected feature, anywhere",
}  # fmt: skip


def summary(tables: dict[str, pd.DataFrame], reader: str = "not run here") -> pd.DataFrame:
    """Targets beside what was measured."""
    lines = []

    def put(question: str, target: str, table: pd.DataFrame, measured: str) -> None:
        if len(table):
            lines.append((f"{question}, {len(table)} rows", target, measured.format(**_digest(table))))

    empty = pd.DataFrame(columns=["model", "ms a person", "exact"])
    own, wide, profiles = (tables.get(name, empty) for name in ("local", "wide", "profile"))
    forest = own["model"].str.startswith("forest").astype(bool)
    said = "worst mean {most:.2f} ms, median {median:.2f} ms; {exact:.1%} exact"
    put("boosted, protected and three tolerances", "2 ms, 100 % exact; .5 ms in the median", own[~forest], said)
    put("forests of 200 deep trees", "25 ms, 99 % exact", own[forest], said)
    put("wide", "1 s, 95 % exact", wide, said)
    put("profile", "100 ms", profiles, "worst mean {most:.0f} ms, median {median:.0f} ms")
    if "gap" in tables:
        gaps = tables["gap"]
        good = ((gaps["attained"] == gaps["proved"]) & (gaps["s"] <= 60)).mean()
        said = f"{good:.0%} exact in 60 s; median {gaps['s'].median():.1f} s, worst {gaps['s'].max():.0f} s"
        put("global gap", "90 % exact in 60 s, median 10 s", gaps, said)
    lines.append(("readers, rows on thresholds", "0 of 280 configurations wrong", reader))
    return pd.DataFrame(lines, columns=["question", "target", "measured"])


def _digest(table: pd.DataFrame) -> dict[str, float]:
    """Worst and median time, and the share that is exact."""
    ms, exact = table.get("ms a person", table.get("s")), table.get("exact")
    return {"most": ms.max(), "median": ms.median(), "exact": float("nan") if exact is None else exact.mean()}


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


def write(path: Path, lines: list[dict[str, Any]], asked: str) -> None:
    """Write the page of all lines: for each question the last one of a model."""
    import platform

    intro = (
        f"# Tree ensembles\n\nWritten by `python -m benchmarks.trees {asked}`, one thread: numpy {np.__version__}, "
        f"{platform.machine()}, Python {platform.python_version()}, isonomy {isonomy.__version__}. Times are processor "
        f"time where no clock is named; the machine had other work, which the clock counts. *predicts* are times of "
        f"one `predict` of the same library over the same people, *off* is the largest difference of its probabilities "
        f"from ours, *at r* the mean bound of anybody within r. Gaps are of the raw score, each in at most the parts "
        f"that the command names; forests have none: their pairs of leaves fill gigabytes.\n\n"
    )
    reader = [row["measured"] for row in lines if row["kind"] == "reader"][-1:]
    tables: dict[str, pd.DataFrame] = {}
    for name in TITLES:
        each = [{k: v for k, v in row.items() if k != "kind"} for row in lines if row["kind"] == name]
        about = [column for column in ABOUT if each and column in each[0]]
        if each:
            tables[name] = pd.DataFrame(each).drop_duplicates(about, keep="last").sort_values(about)
    parts = [intro + markdown(summary(tables, *reader))]
    parts += [f"## {TITLES[name]}\n\n{markdown(table)}" for name, table in tables.items()]
    with atomic(path) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def kept(path: Path) -> list[dict[str, Any]]:
    """Return the lines that were measured before."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("studies/results/trees.md"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--parts", type=int, default=4000)
    parser.add_argument("--tables", nargs="+", default=["german", "adult"], choices=["german", "adult"])
    parser.add_argument("--reader", action="store_true")
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.people, given.parts, given.tables = 1, 4, 50, ["german"]
        with tempfile.TemporaryDirectory() as folder:
            given.out = Path(folder) / given.out.name
            measure(given)
    else:
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Measure every model, or with ``--quick`` the first, and write the page after each."""
    lines = given.out.with_suffix(".jsonl")

    def keep(**row: Any) -> None:
        """Add a line, and write the page of all."""
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=float) + "\n")
        write(given.out, kept(lines), f"--seeds {given.seeds} --people {given.people} --parts {given.parts} --reader")

    if given.reader:
        keep(kind="reader", measured=readers())
    known = {(row["table"], row["seed"], row["model"]) for row in kept(lines) if row["kind"] == "done"}
    for name, seed, model, domain, x in models(given.seeds, given.tables, known):
        about = {"table": name, "seed": seed, "model": model.name}
        some, few = x[: given.people], x[: max(4, given.people // 10)]
        similar, wide = (bounds_of(model, domain, metric(name, domain, each[name])) for each in (TOLERANCES, WIDE))
        asked_too = veritas_of(model, similar, name, few) if model.name.startswith(("XGB", "Light")) else {}
        keep(kind="local", **about, **local(model, similar, some, 50), **asked_too)
        keep(kind="wide", **about, **local(model, wide, few, 1))
        keep(kind="profile", **about, **profile(similar, few))
        if not model.name.startswith("forest"):
            alone = bounds_of(model, domain, metric(name, domain, {}))
            for protected in PROTECTED[name]:
                keep(kind="gap", **about, protected=protected, **gap(alone, domain, protected, given.parts))
        keep(kind="done", **about)
        print(name, seed, model.name, flush=True)
        if given.quick:
            break


if __name__ == "__main__":
    main()
