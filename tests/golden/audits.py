"""The golden audits, each a function without arguments: a question to the public API, and its results.

Nothing here depends on the clock: searches have no time limit and end when their gap is closed.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import isonomy
from isonomy import Counterparts, Metric, Network, Population

from .questions import (
    ADULT_NETWORK,
    learned,
    mahalanobis,
    perceptron,
    residual,
    subspace,
    survey_frame,
    table,
    weighted,
)
from .results import Results
from .witnesses import Asked

Audit = Callable[[], Results]
FloatArray = NDArray[np.float64]

AUDITS: dict[str, Audit] = {}
FAST: set[str] = set()
"""Those that are run with the fast tests."""

QUICK = isonomy.AttackBudget(steps=8, restarts=0)
"""Where the search for a worst case would take most of the time."""


def golden(run: Audit) -> Audit:
    """Known by the name of the function."""
    AUDITS[run.__name__] = run
    return run


def fast(run: Audit) -> Audit:
    """Quick enough for the fast tests."""
    FAST.add(run.__name__)
    return golden(run)


def ask(name: str) -> Results:
    """Run one audit on one thread: how linear algebra shares its work among threads can change the last bits."""
    with threadpool_limits(1):
        return AUDITS[name]()


# -- German credit: two classes, many categories ------------------------------------------------------------------


@fast
def german_counterparts() -> Results:
    people = table("german").test[:40]
    return local(perceptron("german", (24, 12)), people, Counterparts.of(people.schema), 1.0, (0.05, 0.2))


@golden
def german_subspace_realizable() -> Results:
    return local(perceptron("german", (24, 12)), table("german").test[:30], subspace("german"), 0.05, (0.1, 0.3))


@golden
def german_subspace_relaxed() -> Results:
    people = table("german").test[:30]
    return local(perceptron("german", (24, 12)), people, subspace("german"), 0.1, (0.1, 0.3), domain="relaxed")


@golden
def german_subspace_interval() -> Results:
    people = table("german").test[:30]
    return local(perceptron("german", (24, 12)), people, subspace("german"), 0.05, (0.1, 0.3), tier="interval")


@fast
def german_ridge_unbounded() -> Results:
    people, options = table("german").test[:60], {"domain": "unbounded"}
    return local(perceptron("german", (24, 12)), people, subspace("german", 1.0), 0.2, (0.05, 0.15), **options)


@golden
def german_order_1() -> Results:
    people = table("german").test[:24]
    metric, network = Counterparts.of(people.schema), perceptron("german", (16, 8))
    return distributional(network, people, metric, 1.0, 0.05, epsilon=0.3, confidence=0.95)


@golden
def german_order_2() -> Results:
    people = table("german").test[:12].with_domain("relaxed")
    network, options = perceptron("german", (16, 8)), {"order": 2.0, "epsilon": 0.08, "confidence": 0.9}
    return distributional(network, people, weighted("german", 2.0, 1.0), 0.1, 0.02, **options)


@golden
def german_order_inf() -> Results:
    people = table("german").test[:20]
    network = perceptron("german", (16, 8))
    return distributional(network, people, weighted("german", 2.0), 0.1, 0.02, order=math.inf, epsilon=0.2)


@golden
def german_own_ground() -> Results:
    """The cost of a shift is the fair metric itself, unbounded domain."""
    people, metric = table("german").test[:40].with_domain("unbounded"), subspace("german", 1.0)
    network = perceptron("german", (24, 12))
    return distributional(network, people, metric, 0.1, 0.1, ground=metric, epsilon=0.2, confidence=0.95)


# -- Adult: the plainly trained 2x256 network of the benchmarks ---------------------------------------------------


@golden
def adult_counterparts() -> Results:
    people = table("adult").test[:24]
    return local(isonomy.load_network(ADULT_NETWORK), people, Counterparts.of(people.schema), 1.0, (0.05, 0.2))


@golden
def adult_subspace_relaxed() -> Results:
    people, options = table("adult").test[:24], {"domain": "relaxed"}
    return local(isonomy.load_network(ADULT_NETWORK), people, subspace("adult"), 0.02, (0.05, 0.2), **options)


@golden
def adult_subspace_realizable() -> Results:
    people = table("adult").test[:16]
    return local(isonomy.load_network(ADULT_NETWORK), people, subspace("adult"), 0.02, (0.05, 0.2))


@golden
def adult_float32() -> Results:
    people, options = table("adult").test[:24], {"domain": "unbounded", "arithmetic": "float32"}
    network = isonomy.load_network(ADULT_NETWORK)
    return local(network, people, mahalanobis("adult", 0.5), 0.05, (0.05, 0.2), **options)


@golden
def adult_order_1() -> Results:
    people = table("adult").test[:10].with_domain("unbounded")
    network, metric = isonomy.load_network(ADULT_NETWORK), subspace("adult", 1.0)
    return distributional(network, people, metric, 0.02, 0.05, epsilon=0.2)


# -- Moons: two coordinates, where searches end -------------------------------------------------------------------


@fast
def moons_exact() -> Results:
    options = {"domain": "relaxed", "tier": "exact", "gap": 1e-6, "time_limit": math.inf}
    return local(
        perceptron("moons", (8, 6)), table("moons").test[:16], weighted("moons", math.inf, 1.0), 0.1, (0.05,), **options
    )


@fast
def moons_threshold() -> Results:
    people, options = table("moons").test[:60], {"domain": "unbounded", "threshold": 0.3}
    network = perceptron("moons", (16, 8), "sigmoid")
    return local(network, people, weighted("moons", 1.0, 1.0), 0.15, (0.1, 0.3), **options)


@golden
def moons_deep() -> Results:
    """What is kept are results of slopes that gradient steps had improved."""
    people = table("moons").test[:40]
    return local(perceptron("moons", (16, 16, 8)), people, weighted("moons", 2.0, 1.0), 0.1, (0.1, 0.3))


@golden
def moons_tanh_order_2() -> Results:
    people = table("moons").test[:40].with_domain("unbounded")
    network = perceptron("moons", (12, 8), activation="tanh")
    options = {"order": 2.0, "ground": "linf", "epsilon": 0.4, "confidence": 0.95}
    return distributional(network, people, mahalanobis("moons", 1.0), 0.1, 0.1, **options)


@golden
def moons_everywhere() -> Results:
    people, network = table("moons").with_domain("relaxed"), perceptron("moons", (5,))
    return everywhere(network, people, weighted("moons", 2.0, 1.0), 0.2, (0.1, 0.3))


# -- Wages: a regression ------------------------------------------------------------------------------------------


@fast
def wages_order_1_metric() -> Results:
    people, options = table("wages").test[:60], {"domain": "relaxed", "threshold": 18.0}
    return local(perceptron("wages", (16, 8), "regression"), people, weighted("wages", 1.0), 0.2, (1.0, 4.0), **options)


@golden
def wages_gelu_residual() -> Results:
    people = table("wages").test[:40]
    metric, network = Counterparts.of(people.schema), residual("wages", 12, "regression")
    return local(network, people, metric, 1.0, (2.0, 5.0), threshold=18.0)


@golden
def wages_distribution() -> Results:
    people = table("wages").test[:40]
    metric, network = Counterparts.of(people.schema), perceptron("wages", (10,), "regression")
    options = {"output_range": (0.0, 60.0), "epsilon": 8.0, "confidence": 0.9}
    return distributional(network, people, metric, 1.0, 0.05, **options)


# -- Grades: three classes, missing numbers, an immutable attribute -----------------------------------------------


@golden
def grades_learned() -> Results:
    people, options = table("grades").test[:40], {"domain": "relaxed"}
    return local(perceptron("grades", (16, 8)), people, learned("grades", 6), 0.05, (0.2, 0.5), **options)


@golden
def grades_exact() -> Results:
    people, options = table("grades").test[:16], {"tier": "exact", "gap": 1e-4, "time_limit": math.inf}
    return local(perceptron("grades", (8,)), people, Counterparts.of(people.schema), 1.0, (0.1, 0.3), **options)


@golden
def grades_order_1() -> Results:
    people = table("grades").test[:20].with_domain("unbounded")
    network, options = perceptron("grades", (10, 6)), {"ground": "l1", "epsilon": 0.15, "attack": QUICK}
    return distributional(network, people, mahalanobis("grades", 0.5), 0.1, 0.1, **options)


# -- A survey with sampling weights, in memory and as a dataset ---------------------------------------------------


@golden
def survey_weighted() -> Results:
    people = table("survey").test[:30]
    metric, network = weighted("survey", 2.0), perceptron("survey", (16, 8))
    return distributional(network, people, metric, 0.5, 0.1, epsilon=0.15, tier="interval")


@golden
def survey_dataset_local() -> Results:
    return dataset("local")


@golden
def survey_dataset_dask() -> Results:
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        return dataset("dask")


# -- how each kind of question is asked, and what is kept of the answer -------------------------------------------


def local(
    network: Network, people: Population, metric: Metric, delta: float, epsilons: Sequence[float] = (), **options: Any
) -> Results:
    """Every individual by itself."""
    found = isonomy.certify_local(network, people, metric, delta, progress=None, **options)
    asked = _asked(network, people, metric, delta, options.get("domain"))
    there, flips = found.witnesses, found.witnesses.flips
    cut = options.get("threshold")
    return Results(
        same=_same(asked, people),
        upper={"local": found.upper.tolist()},
        lower={"local": found.lower.tolist()},
        words={
            "decision": found.decision.tolist(),
            **{f"verdict at {epsilon:g}": found.verdict(epsilon).tolist() for epsilon in epsilons},
        },
        gap=options.get("gap", 0.0),
        check=lambda: [
            *asked.pairs(people.x, there.counterpart, found.lower),
            *asked.flips(people.x[flips], there.flip_counterpart[flips], cut),
        ],
    )


def distributional(
    network: Network, people: Population, metric: Metric, delta: float, gamma: float, **options: Any
) -> Results:
    """Every population within γ, people in memory."""
    if "confidence" in options:
        people = people.held_out()  # the first of a table whose order means nothing
    found = isonomy.certify(network, people, metric, delta, gamma, progress=None, **options)
    asked = _asked(network, people, metric, delta, None)
    curve, epsilon = found.curve(_gammas(gamma)), options["epsilon"]
    sure = {"population": [found.population_upper]} if "confidence" in options else {}
    worst = found.worst_case
    atoms = {key: getattr(worst.points, key) for key in ("owner", "person", "counterpart", "cost", "value")}
    order = options.get("order", 1.0)
    return Results(
        same=_same(asked, people),
        upper={"local": found.local.upper.tolist(), **_whole(found.upper, curve["upper"]), **sure},
        lower={"local": found.local.lower.tolist(), **_whole(worst.value, curve["lower"])},
        reach=_reaches(found, epsilon, gamma),
        words={"decision": found.local.decision.tolist(), "verdict": [found.verdict]},
        check=lambda: asked.population(
            people.x, people.weights, found.ground, gamma, order, {**atoms, "mass": worst.masses}, found.lower
        ),
    )


def everywhere(
    network: Network, people: Population, metric: Metric, delta: float, epsilons: Sequence[float]
) -> Results:
    """Everybody in the domain: once until the gap is closed, once until there is a verdict."""
    gap, options = 0.01, {"time_limit": math.inf, "progress": None}
    found = isonomy.certify_everywhere(network, metric, delta, people, gap=gap, **options)
    judged = [isonomy.certify_everywhere(network, metric, delta, people, epsilon=each, **options) for each in epsilons]
    asked, pair = _asked(network, people, metric, delta, None), found.witness
    return Results(
        same=_same(asked, people[:60]),
        upper={"everybody": [found.upper]},
        lower={"everybody": [found.lower]},
        words={"verdict": [each.verdict for each in judged]},
        gap=gap,
        check=lambda: [
            *asked.pairs(pair.individual, pair.counterpart, np.array([found.lower])),
            *(["individual outside the domain"] * (not asked.domain.contains(pair.individual).all())),
        ],
    )


def dataset(engine: str) -> Results:
    """A file of rows, cut into chunks."""
    frame, schema = survey_frame()
    people = table("survey").test[:24]
    network, metric, delta, gamma, epsilon = perceptron("survey", (16, 8)), weighted("survey", 2.0), 0.5, 0.1, 0.15
    with _folder() as folder:
        frame.iloc[people.rows].to_parquet(folder / "people.parquet", row_group_size=12)
        found = isonomy.certify(
            network, folder / "people.parquet", metric, delta, gamma, schema=schema, work=folder / "work", chunk=12,
            engine=engine, epsilon=epsilon, tier="interval", attack=QUICK, progress=None,
        )  # fmt: skip
        curve = found.curve(_gammas(gamma))
        reach = _reaches(found, epsilon, gamma)
    return Results(
        same=_same(_asked(network, people, metric, delta, None), people),
        upper={"local": found.local.upper.tolist(), **_whole(found.upper, curve["upper"])},
        lower={"local": found.local.lower.tolist(), **_whole(found.lower, curve["lower"])},
        reach=reach,
        words={"verdict": [found.verdict]},
    )


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _gammas(gamma: float) -> list[float]:
    return [0.0, gamma / 4, gamma, 2 * gamma]


def _whole(value: float, curve: Any) -> dict[str, list[float]]:
    return {"distribution": [value], "curve": [float(each) for each in curve]}


def _reaches(found: Any, epsilon: float, gamma: float) -> dict[str, list[float]]:
    """Up to which shift three ε hold: -1 where none does, and all shifts far beyond γ are as good as each other."""
    reaches = [found.largest_gamma(factor * epsilon) for factor in (0.5, 1.0, 1.5)]
    return {"largest gamma": [-1.0 if reach is None else min(reach, 100 * gamma) for reach in reaches]}


def _asked(network: Network, people: Population, metric: Metric, delta: float, domain: Any) -> Asked:
    space = people.domain if domain is None else people.schema.domain(domain)
    return Asked(network, np.asarray(people.schema.seen_coordinates), metric, space, delta)


def _same(asked: Asked, people: Population) -> dict[str, list[float]]:
    """What tells one question from another: predictions, individuals, and how far each is from the next."""
    return {
        "prediction": asked.predicted(people.x)[:, -1].tolist(),
        "individual": people.x.sum(axis=1).tolist(),
        "distance": _finite(asked.metric.distance(people.x[:-1], people.x[1:])).tolist(),
    }


def _finite(distance: FloatArray) -> FloatArray:
    """Counterparts that differ in a category are infinitely far apart."""
    return np.where(np.isfinite(distance), distance, -1.0)
