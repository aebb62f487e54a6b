"""Speed and tightness of the bounds, as ratios measured in one run.

    python benchmarks/bounds.py [--quick] [--out studies/results/bounds.md]

Speed, on one thread: the time of ``certify_local(attack=False)`` in *forwards*, the time of one float64 numpy forward
pass over the same people with buffers that are used again; processor time, the least of alternating runs. auto_LiRPA
and its peers count in the same way: a backward bound of ``k`` neurons costs about ``k`` passes over the layers before
them.

Tightness: a plainly trained 2x256 network on Adult (``train_adult.py``), mean upper bound over the mean lower bound of
a strong attack, with a fixed centre and with a centre that may move within a ball.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import argparse  # noqa: E402
import functools  # noqa: E402
import platform  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import isonomy  # noqa: E402
from isonomy.attacks import Field  # noqa: E402
from isonomy.bounds.kernel import head_of, preparations, prepared_for  # noqa: E402
from isonomy.parallel import set_workers  # noqa: E402
from isonomy.similarity.regions import Similarity  # noqa: E402
from isonomy_verify.sets import ConvexSets  # noqa: E402

NETWORK = Path(__file__).parent / "networks" / "adult_2x256.onnx"
STRONG = isonomy.AttackBudget(steps=120, restarts=7)
LINES: list[str] = []
FRESH_HEADING = "## Networks that nothing was tuned on"
"""The last section of the page, which ``fresh.py`` writes."""


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def random_network(rng: np.random.Generator, sizes: list[int]) -> isonomy.Network:
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [rng.normal(size=pair) * np.sqrt(2 / pair[1]) for pair in pairs]
    return isonomy.Network.from_layers(weights, [0.05 * rng.normal(size=pair[0]) for pair in pairs])


def seconds(run: Callable[[], object]) -> float:
    """Processor time: others on the machine do not count, as far as that can be."""
    start = time.process_time()
    run()
    return time.process_time() - start


class Forward:
    """One run of a perceptron in blocks of rows, into memory that is used again."""

    def __init__(self, network: isonomy.Network, rows: int = 1000) -> None:
        layers = [node for node in network.graph.nodes if node.kind == "affine"]
        self.layers = [(np.ascontiguousarray(op.weight.T), op.bias) for op in layers]
        self.room = [np.empty((rows, len(bias))) for _, bias in self.layers]
        self.rows = rows

    def __call__(self, x: np.ndarray) -> None:
        """Run all rows; what comes out is not kept."""
        for start in range(0, len(x), self.rows):
            hidden = x[start : start + self.rows]
            for i, ((weight, bias), room) in enumerate(zip(self.layers, self.room, strict=True)):
                hidden = np.matmul(hidden, weight, out=room[: len(hidden)])
                hidden += bias
                if i < len(self.layers) - 1:
                    np.maximum(hidden, 0.0, out=hidden)


def forwards(
    network: isonomy.Network, people: Any, metric: isonomy.Metric, delta: float, repeats: int, **options: Any
) -> tuple[float, float, float]:
    """The least time of a certificate in forward passes, in milliseconds, and its mean upper bound."""
    x = people if isinstance(people, np.ndarray) else people.x
    forward, unit, least, upper = Forward(network, min(1000, len(x))), np.inf, np.inf, 0.0

    def ours() -> None:
        nonlocal upper
        upper = isonomy.certify_local(
            network, people, metric, delta, attack=False, predict=False, progress=None, **options
        ).mean_upper

    for _ in range(repeats + 1):  # the first one prepares
        least = min(least, seconds(ours))
        unit = min(unit, *(seconds(lambda: forward(x)) for _ in range(3)))
    return least / unit, 1000 * least, upper


def speed(repeats: int, few: int, large: int) -> None:
    say("| network | metric | people | interval | quick | tight |")
    say("|---|---|---|---|---|---|")
    adult, rng = isonomy.load_population("adult"), np.random.default_rng(0)
    network, subspace = (
        isonomy.load_network(NETWORK, head="softmax"),
        isonomy.SensitiveSubspace.fit(adult.train, ridge=1.0),
    )
    unbounded: dict[str, Any] = {"domain": "unbounded"}
    m = adult.x.shape[1]
    spread = rng.normal(size=(m, m)) / 10
    ball = isonomy.Mahalanobis(np.eye(m) + spread @ spread.T)
    x = 0.3 * rng.normal(size=(few, m))
    some = adult.test[:few]
    wide = random_network(rng, [m, 256, 256, 2])
    counterparts = isonomy.Counterparts.of(adult.schema)
    rows: list[tuple[str, str, isonomy.Network, Any, isonomy.Metric, float, dict[str, Any]]] = [
        ("Adult 2x256", "subspace, ridge 1", network, some, subspace, 0.02, unbounded),
        ("Adult 2x256", "subspace, delta .05", network, some, subspace, 0.05, unbounded),
        ("Adult 2x256", "counterparts, realizable", network, some[: few // 10], counterparts, 1.0, {}),
        ("random 2x256", "Mahalanobis", wide, x, ball, 0.02, {}),
        ("random 3x256", "Mahalanobis", random_network(rng, [m, 256, 256, 256, 2]), x, ball, 0.02, {}),
        ("random 6x64", "Mahalanobis", random_network(rng, [m, 64, 64, 64, 64, 64, 64, 2]), x, ball, 0.02, {}),
        ("random 2x256, 5 classes", "Mahalanobis", random_network(rng, [m, 256, 256, 5]), x, ball, 0.02, {}),
        ("random 2x256", "order 1", wide, x, isonomy.WeightedLp(np.ones(m), 1), 0.02, {}),
        ("random 2x256", "order infinity", wide, x, isonomy.WeightedLp(np.ones(m), np.inf), 0.002, {}),
        ("random 2x256", "Mahalanobis", wide, 0.3 * rng.normal(size=(large, m)), ball, 0.02, {}),
    ]
    for name, kind, model, people, metric, delta, options in rows:
        cells = []
        for tier in ("interval", "quick", "tight"):
            times = repeats if len(people) <= few else 1
            count, _, upper = forwards(model, people, metric, delta, times, tier=tier, **options)
            cells.append(f"{count:.1f} ({upper:.5f})")
        say(f"| {name} | {kind} | {len(people):,} | " + " | ".join(cells) + " |")
    say()
    one = {
        tier: forwards(network, some[:1], subspace, 0.02, 10 * repeats, tier=tier, **unbounded)[1]
        for tier in ("interval", "quick", "tight")
    }
    say("One person of Adult: " + ", ".join(f"{tier} {value:.2f} ms" for tier, value in one.items()) + ".")


def fixed_centre(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    say("| δ | domain | attack | box form of the paper | interval | quick | tight | tight over attack |")
    say("|---|---|---|---|---|---|---|---|")
    some = people.test[:n]
    for delta in (0.02, 0.05):
        for domain in ("unbounded", "realizable"):
            cells, attack = [], 0.0
            for tier in ("paper", "interval", "quick", "tight"):
                if tier == "paper" and domain != "unbounded":  # it knows no other
                    cells.append("")
                    continue
                found = isonomy.certify_local(
                    network, some, metric, delta, domain=domain, tier=tier, attack=tier == "tight" and STRONG
                )
                cells.append(f"{found.mean_upper:.4f} ({np.quantile(found.upper, 0.9):.4f})")
                if tier == "tight":
                    attack, ratio = found.mean_lower, found.mean_upper / found.mean_lower
            say(f"| {delta} | {domain} | {attack:.4f} | " + " | ".join(cells) + f" | {ratio:.3f} |")


def decisions(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    """Whose decision can change: open after the tight tier, and after so many parts of branch and bound."""
    say("| δ | open after tight | forwards | parts at most | certified | flippable | undecided | forwards more |")
    say("|---|---|---|---|---|---|---|---|")
    some, forward = people.test[:n], Forward(network, min(1000, n))
    unit = min(seconds(lambda: forward(some.x)) for _ in range(10))
    for delta in (0.02, 0.05, 0.1):
        options: dict[str, Any] = {"domain": "unbounded", "attack": False, "predict": False, "progress": None}
        ask = functools.partial(isonomy.certify_local, network, some, metric, delta, **options)
        plain, tight = ask(), min(seconds(ask) for _ in range(3))
        for nodes in (1, 4, 16):
            began = time.process_time()
            found = ask(decide=True, max_nodes=nodes * n)
            took = (time.process_time() - began - tight) / unit
            counts = [int((found.decision == kind).sum()) for kind in ("certified", "flippable", "undecided")]
            say(
                f"| {delta} | {int((plain.decision == 'undecided').sum())} | {tight / unit:.0f} | {nodes * n:,} | "
                + " | ".join(map(str, counts)) + f" | {took:.0f} |"
            )  # fmt: skip


def exact(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    """How far branch and bound gets below the tight tier within so many times its time."""
    say("| δ | attack | tight | exact within 10 times the time | within 100 times |")
    say("|---|---|---|---|---|")
    x = people.test.x[:n]
    for delta in (0.02, 0.05):
        lower = isonomy.certify_local(network, x, metric, delta, attack=STRONG, progress=None).mean_lower

        def tight(delta: float = delta) -> isonomy.LocalCertificate:
            return isonomy.certify_local(network, x, metric, delta, attack=False, progress=None)

        unit, cells = min(seconds(tight) for _ in range(3)), [f"{tight().mean_upper:.4f}"]
        for times in (10, 100):
            found = isonomy.certify_local(
                network, x, metric, delta, tier="exact", time_limit=times * unit, attack=False, progress=None
            )
            cells.append(f"{found.mean_upper:.4f}")
        say(f"| {delta} | {lower:.4f} | " + " | ".join(cells) + " |")


def moving_centre(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    say("| δ | radius of the centre (ℓ2) | attack | two ranges | difference | difference over attack |")
    say("|---|---|---|---|---|---|")
    delta, x = 0.02, np.array(people.test.x[:n])
    head = head_of(network)
    similarity = Similarity(metric, delta, people.schema.domain("unbounded"))
    for radius in (0.01, 0.05, 0.1):
        apart, gap = [], []
        for start in range(0, n, 250):
            (piece,) = similarity.regions(x[start : start + 250])
            ball = ConvexSets.of_ball(np.ones(x.shape[1]), 2.0, radius)
            (found,) = preparations(network).compare(piece.centre, ball, piece.sets)
            apart.append(head.violation(found.near, found.far))
            gap.append(head.gap(*found))
        lower = attack_pairs(network, metric, x, delta, radius)
        upper, wide = np.concatenate(gap).mean(), np.concatenate(apart).mean()
        say(f"| {delta} | {radius} | {lower:.4f} | {wide:.4f} | {upper:.4f} | {upper / lower:.3f} |")


def attack_pairs(
    network: isonomy.Network,
    metric: isonomy.Metric,
    x: np.ndarray,
    delta: float,
    radius: float,
    steps: int = 120,
    restarts: int = 8,
) -> float:
    """The mean largest change found between ``z`` within ``radius`` of ``x`` and ``y`` similar to ``z``."""
    root = metric.gauge()[0]
    shape = np.linalg.inv(root.T @ root)
    field = Field(prepared_for(network), head_of(network))
    best, rng, target = np.zeros(len(x)), np.random.default_rng(0), np.zeros(len(x), dtype=np.int64)

    def probability(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        score, slope = field.scores_and_gradient(y, target, np.ones(len(y)))
        p = field.received(score)
        return p[:, 0], p * (1 - p) * slope

    def length(v: np.ndarray) -> np.ndarray:
        return np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-30)

    for restart in range(restarts):
        for sign in (1.0, -1.0):
            near = rng.normal(size=x.shape) * (restart > 0)
            near, apart = radius * near / length(near), np.zeros_like(x)
            for step in range(steps):
                (low, from_low), (high, from_high) = probability(x + near), probability(x + near + apart)
                by_near, by_apart = sign * (from_high - from_low), sign * from_high
                best, size = np.maximum(best, sign * (high - low)), 1 - step / steps
                near = near + 0.5 * size * radius * by_near / length(by_near)
                near = near * np.minimum(radius / length(near), 1)
                turned = by_apart @ shape
                apart = apart + size * delta * turned / np.sqrt(
                    np.maximum((turned * by_apart).sum(1, keepdims=True), 1e-30)
                )
                apart = apart * np.minimum(delta / length(apart @ root.T), 1)
    return float(best.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repetitions")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    quick = options.quick
    set_workers(1)

    say("# Results")
    say()
    command = f"python benchmarks/bounds.py{' --quick' if quick else ''} --out studies/results/bounds.md"
    say(f"Written by `{command}`, one thread:")
    say(f"numpy {np.__version__}, {platform.machine()}, Python {platform.python_version()},")
    say(f"isonomy {isonomy.__version__}.")
    say()
    say("## Speed")
    say()
    say("Forward passes over the same people, and the mean upper bound.")
    say()
    speed(1 if quick else 7, 100 if quick else 1000, 200 if quick else 100_000)
    say()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"Peak memory of the process so far: {peak:.0f} MB.")
    say()

    people = isonomy.load_population("adult")
    network = isonomy.load_network(NETWORK, head="softmax")
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    metric = isonomy.SensitiveSubspace.fit(people.train, ridge=1.0)
    n = 20 if quick else 1000
    say("## Tightness")
    say()
    say(f"Adult, plainly trained 2x256 (test accuracy {accuracy:.4f}), sensitive subspace metric with ridge 1,")
    say(f"{n} test individuals: mean upper bound (90th percentile) per tier.")
    say()
    fixed_centre(network, people, metric, n)
    say()
    say("Decisions, unbounded domain, without an attack beforehand:")
    say()
    decisions(network, people, metric, n)
    say()
    say(f"Branch and bound on {2 if quick else 20} of them, unbounded domain:")
    say()
    exact(network, people, metric, 2 if quick else 20)
    say()
    say("With a centre that may move, unbounded domain:")
    say()
    moving_centre(network, people, metric, n)
    if options.out is not None:
        old = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
        kept = "\n" + old[old.index(FRESH_HEADING) :] if FRESH_HEADING in old else ""
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n" + kept, encoding="utf-8")
        partial.rename(options.out)


if __name__ == "__main__":
    main()
