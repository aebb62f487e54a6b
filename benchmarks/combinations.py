"""How long bounds over many combinations of categories take, in milliseconds a person and in forward passes.

    python -m benchmarks.combinations [--people 300] [--moving 100] [--audit 0] [--only adult | german | unseen]
                                      [--quick]

Networks are trained here, without a thought of certificates (cross-entropy, Adam): 2x64 and 2x256 on the bundled Adult
table, whose counterparts have 420 combinations each; and, not used for any choice of the method, 3x32 on German and
2x64 on Adult with another seed. For each: the local bound with its witnesses, and, with ``--moving``, a certificate of
all populations within 0.1 with its curve. ``--audit`` people are audited without a shift, decisions settled, the record
written; its peak of memory is printed beside. Processor time of one thread; ``PRESENT`` lists regions one by one.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import isonomy
from isonomy import records
from isonomy.attacks import AttackBudget
from isonomy.certificates.protocol import tier_for
from isonomy.networks import Network
from isonomy.parallel import one_thread
from isonomy.population import Population
from isonomy.problem import Problem
from isonomy_verify import local

Listed = Callable[..., Any]


def trained(people: Population, hidden: tuple[int, ...], seed: int) -> Network:
    """A plain classifier."""
    model = MLPClassifier(hidden, alpha=1e-4, batch_size=64, max_iter=10, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(people.x, np.asarray(people.y))
    return Network.from_sklearn(model, name="plain")


def timed(work: Callable[[], Any], people: int) -> tuple[Any, float]:
    """A result, and milliseconds of a processor for each person."""
    began = time.process_time()
    found = work()
    return found, (time.process_time() - began) / people * 1e3


def local_bounds(name: str, network: Network, people: Population) -> None:
    """Print the local bound with witnesses, beside the one that lists regions."""
    problem = Problem.of(network, isonomy.Counterparts.of(people.schema), 1.0, people.domain, people.schema)
    tier, x = tier_for(problem, "tight"), np.array(people.x)
    tier.chunk(x[:4])
    many = np.repeat(x, 1 + 4000 // len(x), axis=0)
    forward = min(timed(lambda: network(many), len(many))[1] for _ in range(5))
    known, bound = timed(lambda: tier.chunk(x), len(x))
    finds, attack = timed(lambda: tier.attack(x, AttackBudget(), known), len(x))
    product, some = local.product_of, x[: max(8, len(x) // 8)]
    local.product_of = lambda *_: None  # type: ignore[assignment]
    try:
        listed, one_by_one = timed(lambda: tier.chunk(some), len(some))
    finally:
        local.product_of = product
    gain = float((listed.upper - known.upper[: len(some)]).mean())
    print(
        f"{name:<22} {problem.similarity.count(x):>5.0f} combinations  forward {forward * 1e3:.2f} us  bound "
        f"{bound:.3f} ms ({bound / forward:,.0f} forwards; listed {one_by_one:.2f} ms, {one_by_one / bound:.1f} times) "
        f" witnesses {attack:.3f} ms  both {bound + attack:.2f} ms ({(bound + attack) / forward:,.0f} forwards)  upper "
        f"{known.upper.mean():.6f} lower {finds.lower.mean():.6f}  tighter than listed by {gain:.1e}",
        flush=True,
    )


def within(name: str, network: Network, people: Population) -> None:
    """Print a certificate of all populations within 0.1, with its curve."""
    metric = isonomy.Counterparts.of(people.schema)

    def work() -> Any:
        found = isonomy.certify(network, people, metric, 1.0, isonomy.Transport(0.1), progress=None, decide=True)
        found.curve(found.shift.sizes())
        return found

    found, each = timed(work, len(people))
    print(
        f"{name:<22} Transport 0.1, {len(people)} people: {each:.1f} ms a person  upper {found.upper:.6f}  lower "
        f"{found.lower:.6f}  ratio {found.upper / found.lower:.3f}",
        flush=True,
    )


def audited(name: str, network: Network, people: Population) -> None:
    """Print a certificate of these very people, with decisions and record."""
    metric, began = isonomy.Counterparts.of(people.schema), time.perf_counter()

    def work() -> Any:
        found = isonomy.certify(network, people, metric, 1.0, 0.0, progress=None, decide=True)
        with tempfile.TemporaryDirectory() as folder:
            records.write(Path(folder), found)
        return found

    found, each = timed(work, len(people))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:<22} audit of {len(people):,} people: {each * len(people) / 1e3:.1f} s of a processor, "
        f"{time.perf_counter() - began:.1f} s on the clock, peak {peak:.2f} GiB  upper {found.upper:.6f}",
        flush=True,
    )


def main() -> None:
    """Print a line for each network and question."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--moving", type=int, default=0)
    parser.add_argument("--audit", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    given = parser.parse_args()
    if given.quick:
        given.people, given.moving, given.audit = 10, 2, 10
    adult, german = isonomy.load_population("adult"), isonomy.load_population("german")
    cases: list[tuple[str, Population, tuple[int, ...], int]] = [
        ("adult 2x64", adult, (64, 64), 0), ("adult 2x256", adult, (256, 256), 0),
        ("german 3x32, unseen", german, (32, 32, 32), 0), ("adult 2x64, unseen", adult, (64, 64), 1),
    ]  # fmt: skip
    with one_thread():
        for name, people, hidden, seed in cases:
            if given.only not in name:
                continue
            learned = people.train.sample(700) if given.quick else people.train
            network, test = trained(learned, hidden, seed), people.test
            local_bounds(name, network, test.sample(min(given.people, len(test))))
            if given.moving:
                within(name, network, test.sample(min(given.moving, len(test))))
            if given.audit:
                audited(name, network, test.sample(min(given.audit, len(test))))


if __name__ == "__main__":
    main()
