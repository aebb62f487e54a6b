"""Speed and tightness of the bounds, as ratios measured in one run.

    python benchmarks/bounds.py [--quick] [--wide] [--out docs/results.md]

Speed: 101 → 256 → 256 → 2 on the unbounded domain, Mahalanobis metric, δ = 0.02, float64, against three plain torch
matrix products with ReLU over the same chunks and threads; the median of alternating runs. The interval tier at
n = 100,000, the tight tier at n = 1000 (and at 2000 and 4000, to see that its cost is linear in n).

Tightness: a plainly trained 2x256 network on Adult (``train_adult.py``), mean upper bound over the mean lower bound of
a strong attack, with a fixed centre and with a centre that may move within a ball.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import isonomy
from isonomy.bounds.ends import Ends, margins
from isonomy.bounds.relational import Relational
from isonomy.certificates.local import chunk_rows
from isonomy.sets import ConvexSets, SumOfSets
from isonomy.similarity.regions import Similarity

NETWORK = Path(__file__).parent / "networks" / "adult_2x256.onnx"
STRONG = isonomy.Effort(steps=120, restarts=7)
LINES: list[str] = []


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def random_network(
    rng: np.random.Generator, sizes: list[int]
) -> tuple[isonomy.Network, list[tuple[torch.Tensor, torch.Tensor]]]:
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [rng.normal(size=pair) / np.sqrt(pair[1]) for pair in pairs]
    biases = [0.05 * rng.normal(size=pair[0]) for pair in pairs]
    layers = [(torch.tensor(w).T.contiguous(), torch.tensor(b)) for w, b in zip(weights, biases, strict=True)]
    return isonomy.Network.from_layers(weights, biases), layers


def plain(layers: list[tuple[torch.Tensor, torch.Tensor]], chunks: tuple[torch.Tensor, ...]) -> None:
    """Three products with ReLU into memory that is used again, so that allocation does not count on either side."""
    room = [torch.empty(len(chunks[0]), len(bias), dtype=torch.float64) for _, bias in layers]
    for hidden in chunks:
        for (weight, bias), buffer in zip(layers, room, strict=True):
            if bias is not layers[0][1]:
                hidden.relu_()
            hidden = torch.addmm(bias, hidden, weight, out=buffer[: len(hidden)])


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def speed(sizes: list[int], n: int, tier: str, repeats: int) -> None:
    rng = np.random.default_rng(0)
    network, layers = random_network(rng, sizes)
    spread = rng.normal(size=(sizes[0], sizes[0])) / 10
    metric = isonomy.Mahalanobis(np.eye(sizes[0]) + spread @ spread.T)
    x = 0.3 * rng.normal(size=(n, sizes[0]))
    compare(network, layers, metric, x, tier, repeats, " → ".join(map(str, sizes)))


def compare(
    network: isonomy.Network,
    layers: list[tuple[torch.Tensor, torch.Tensor]],
    metric: isonomy.Metric,
    x: np.ndarray,
    tier: str,
    repeats: int,
    name: str,
) -> None:
    """Alternating runs of a tier and of plain products over the same chunks."""
    chunks = torch.from_numpy(x).split(chunk_rows(network.margins, tier))

    def ours() -> None:
        isonomy.certify_local(network, x, metric, 0.02, tier=tier, attack=False, predict=False, progress=None)

    def theirs() -> None:
        plain(layers, chunks)

    ratios = []
    for _ in range(repeats + 1):
        took = seconds(ours)
        theirs()  # wakes torch's own threads, which ours had set aside
        ratios.append(took / seconds(theirs))
    ratios = ratios[1:]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    say(f"| {tier} | {name} | {len(x):,} | {middle:.2f} | {low:.2f} to {high:.2f} |")


def fixed_centre(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    say("| δ | domain | attack | box form of the paper | interval | tight | optimised | tight over attack |")
    say("|---|---|---|---|---|---|---|---|")
    some = people.test[:n]
    for delta in (0.02, 0.05):
        for domain in ("unbounded", "realizable"):
            cells, attack = [], 0.0
            for tier in ("paper", "interval", "tight", "optimised"):
                found = isonomy.certify_local(
                    network, some, metric, delta, domain=domain, tier=tier, attack=tier == "tight", effort=STRONG
                )
                cells.append(f"{found.mean_upper:.4f} ({np.quantile(found.upper, 0.9):.4f})")
                if tier == "tight":
                    attack, ratio = found.mean_lower, found.mean_upper / found.mean_lower
            say(f"| {delta} | {domain} | {attack:.4f} | " + " | ".join(cells) + f" | {ratio:.3f} |")


def exact(network: isonomy.Network, people: isonomy.Population, metric: isonomy.Metric, n: int) -> None:
    """How far branch and bound gets below the tight tier within so many times its time."""
    say("| δ | attack | tight | exact within 10 times the time | within 100 times |")
    say("|---|---|---|---|---|")
    x = people.test.x[:n]
    for delta in (0.02, 0.05):
        lower = isonomy.certify_local(network, x, metric, delta, effort=STRONG, progress=None).mean_lower

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
    say("| δ | radius of the centre (ℓ2) | attack | two ranges (linear) | relational | relational over attack |")
    say("|---|---|---|---|---|---|")
    delta, x = 0.02, np.array(people.test.x[:n])
    ends, tier = Ends(network), Relational(network.margins)
    similarity = Similarity(metric, delta, people.schema.domain("unbounded"))
    for radius in (0.01, 0.05, 0.1):
        apart, gap = [], []
        for start in range(0, n, 250):
            (piece,) = similarity.regions(x[start : start + 250])
            ball = ConvexSets.of_ball(torch.ones(x.shape[1], dtype=torch.float64), 2.0, radius)
            found = tier.compare(piece.centre, ball, SumOfSets(piece.sets, ball), piece.sets)
            near, far = margins(found.near), margins(found.far)
            apart.append(ends.violation(near, far))
            gap.append(ends.gap(near, far, (found.low, found.high)))
        lower = attack_pairs(network, metric, x, delta, radius)
        upper, wide = torch.cat(gap).mean().item(), torch.cat(apart).mean().item()
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
    root = torch.tensor(metric.gauge()[0])
    shape = torch.linalg.inv(root.T @ root)
    centre, best = torch.from_numpy(x), torch.zeros(len(x), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for restart in range(restarts):
        for sign in (1.0, -1.0):
            near = torch.randn(centre.shape, generator=generator, dtype=torch.float64) * (restart > 0)
            near = radius * near / near.norm(dim=1, keepdim=True).clamp(min=1e-30)
            apart = torch.zeros_like(centre)
            for step in range(steps):
                near.requires_grad_(), apart.requires_grad_()
                low, high = (
                    torch.sigmoid(network.margins.evaluate(p)[:, 0]) for p in (centre + near, centre + near + apart)
                )
                change = sign * (high - low)
                by_near, by_apart = torch.autograd.grad(change.sum(), (near, apart))
                near, apart = near.detach(), apart.detach()
                best = torch.maximum(best, change.detach())
                size = 1 - step / steps
                near = near + 0.5 * size * radius * by_near / by_near.norm(dim=1, keepdim=True).clamp(min=1e-30)
                near = near * (radius / near.norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1)
                turned = by_apart @ shape
                apart = apart + size * delta * turned / (turned * by_apart).sum(1, keepdim=True).clamp(min=1e-30).sqrt()
                apart = apart * (delta / (apart @ root.T).norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1)
    return best.mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repetitions")
    parser.add_argument("--wide", action="store_true", help="also two layers of 4096, which takes long")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    quick = options.quick
    torch.set_num_threads(min(2, torch.get_num_threads()))

    say("# Results")
    say()
    say(f"Written by `python benchmarks/bounds.py{' --quick' if quick else ''} --out docs/results.md`:")
    say(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()},")
    say(f"Python {platform.python_version()}, isonomy {isonomy.__version__}.")
    say()
    say("## Speed")
    say()
    say("Time over three plain matrix products with ReLU on the same chunks and threads (median and quartiles).")
    say()
    say("| tier | network | individuals | times the products | quartiles |")
    say("|---|---|---|---|---|")
    usual = [101, 256, 256, 2]
    speed(usual, 10_000 if quick else 100_000, "interval", 3 if quick else 15)
    speed(usual, 1000, "interval", 3 if quick else 15)
    for n in (1000,) if quick else (1000, 2000, 4000):
        speed(usual, n, "tight", 3 if quick else 7)
    if options.wide:
        speed([101, 4096, 4096, 2], 1000, "tight", 1)
    say()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"Peak memory of the process so far: {peak:.0f} MB.")
    say()

    people = isonomy.load_population("adult")
    network = isonomy.load_network(NETWORK)
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    metric = isonomy.SensitiveSubspace.fit(people.train, ridge=1.0)
    n = 200 if quick else 1000
    say("## Tightness")
    say()
    say(f"Adult, plainly trained 2x256 (test accuracy {accuracy:.4f}), sensitive subspace metric with ridge 1,")
    say(f"{n} test individuals: mean upper bound (90th percentile) per tier.")
    say()
    fixed_centre(network, people, metric, n)
    say()
    say("Branch and bound on 20 of them, unbounded domain:")
    say()
    exact(network, people, metric, 20)
    say()
    say("Speed on this network, as above (the products are those of a random network of the same widths):")
    say()
    say("| tier | network | individuals | times the products | quartiles |")
    say("|---|---|---|---|---|")
    _, layers = random_network(np.random.default_rng(0), [people.x.shape[1], 256, 256, 2])
    compare(network, layers, metric, np.array(people.test.x[:1000]), "tight", 3 if quick else 7, "Adult")
    say()
    say("With a centre that may move, unbounded domain:")
    say()
    moving_centre(network, people, metric, n)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        partial.rename(options.out)


if __name__ == "__main__":
    main()
