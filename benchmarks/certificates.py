"""What a certificate claims beside the best that is known, how many bytes of hints it has, and how long checking takes.

    python -m benchmarks.certificates [--people 300] [--rows 100000] [--only german | adult | branching | large]
                                      [--quick]

For each case: the headline claimed and the best that the library knows (without the claims' margin), their ratio, the
same for the mean of everybody alone, decisions claimed of those known, bytes of hints per person (all that is stored
of somebody besides coordinates, weights and claimed values), and the seconds of audit, writing and checking.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import isonomy
from isonomy import records
from isonomy.auditing.inputs import train_small
from isonomy.datasets import load_population
from isonomy.networks import Network
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy.population import Population
from isonomy_verify import verify
from studies.surveys import available
from studies.surveys import load_population as survey

HINTS = ("profiles.count", "profiles.radius", "profiles.pass", "profiles.passes", "points.count", "local.decision")


def dense(rng: np.random.Generator, out: int, inner: int) -> Node:
    return affine(rng.normal(size=(out, inner)) / inner**0.5, rng.normal(size=out) * 0.1)


def residual(width: int, hidden: int = 24) -> Network:
    """Two blocks ``x + W gelu(norm(x))``, the norm as batch normalisation is when it runs."""
    rng = np.random.default_rng(0)
    nodes = [Node("input", width=width), dense(rng, hidden, width)._replace(inputs=(0,))]
    for _ in range(2):
        last = len(nodes) - 1
        norm = affine(np.diag(rng.uniform(0.5, 1.5, hidden)), rng.normal(size=hidden) * 0.1)
        nodes += [
            norm._replace(inputs=(last,)),
            dense(rng, hidden, hidden)._replace(inputs=(last + 1,)),
            Node("activation", (last + 2,), activation=Activation("gelu")),
        ]
        nodes += [dense(rng, hidden, hidden)._replace(inputs=(last + 3,)), Node("add", (last, last + 4))]
    return Network(Graph((*nodes, dense(rng, 2, hidden)._replace(inputs=(len(nodes) - 1,)))), "softmax", "residual")


def case(name: str, network: Network, people: Population, gamma: float, **options: Any) -> None:
    """Certify, write, check, and print a line."""
    metric = isonomy.Counterparts.of(people.schema)
    began = time.perf_counter()
    found = isonomy.certify(network, people, metric, 1.0, gamma, **{"progress": None, "decide": True, **options})
    audited = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = records.write(Path(folder), found)
        written = time.perf_counter()
        checked = verify(path)
        done = time.perf_counter()
        said = json.loads(path.read_text())["predicate"]
        files = (path.parent / "evidence" / f"{part}.bin" for part in HINTS)
        size = sum(file.stat().st_size for file in files) / len(people)
    own, known = said["claims"]["local"], found.local
    certain = own["decisions"].get("certified", 0), known.decision_counts.get("certified", 0)
    print(
        f"{name:<28} {len(people):>7,} people  upper {said['claims']['upper']:.6f} of {found.upper:.6f} "
        f"({said['claims']['upper'] / found.upper:.6f})  alone {own['upper'] / known.mean_upper:.6f}  "
        f"decisions {certain[0]:,} of {certain[1]:,}  hints {size:.0f} B  audit {audited - began:.1f} s  "
        f"writing {written - audited:.1f} s  checking {done - written:.1f} s  "
        f"{'accepted' if checked.accepted else 'REFUSED'}",
        flush=True,
    )


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--rows", type=int, default=100_000, help="of the large table")
    parser.add_argument("--only", default="", help="one case: german, adult, branching or large")
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    given = parser.parse_args()
    given.people, given.rows = (3, 10) if given.quick else (given.people, given.rows)

    def german() -> None:
        people = load_population("german")
        some = people.test.sample(min(given.people, len(people.test)))
        case("German credit, bundled", train_small(people.train), some, 0.1)

    def adult() -> None:
        people = load_population("adult")
        bank = train_small(people.train.sample(4000), hidden=(64, 64))
        case("Adult, MLP of 2 x 64", bank, people.test.sample(given.people), 0.05)

    def branching() -> None:
        people = load_population("german")
        some = people.test.sample(min(given.people, len(people.test)))
        case("German, GELU, residual, norm", residual(people.schema.width), some, 0.1)

    def large() -> None:
        if "acs-income" in available():
            name, people = "ACS Income", survey("acs-income", encoding="paper", years=[2018], download=False)
        else:
            name, people = "Adult", load_population("adult")
        model = train_small(people.train.sample(4000), hidden=(64, 64))
        some = people.test.sample(min(given.rows, len(people.test)))
        case(f"{name}, large", model, some, 0.05, rounds=0, attack=False, decide=False)

    for each in (german, adult, branching, large):
        if given.only in each.__name__:
            each()


if __name__ == "__main__":
    main()
