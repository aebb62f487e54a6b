"""The bundled audit: German credit, a small network trained here and now, local certificates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from isonomy.arithmetic import FloatArray
from isonomy.certificates.local import LocalCertificate, certify_local
from isonomy.datasets import load_population
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.progress import Progress
from isonomy.similarity import Counterparts

EPOCHS = 20


@dataclass(frozen=True, eq=False)
class BundledAudit:
    """The parts of the audit, for whoever prints them."""

    people: Population
    network: Network
    certificate: LocalCertificate
    accuracy: float


def run_bundled_audit(seed: int = 0, progress: Progress | None = None) -> BundledAudit:
    """Train on the training split, certify the test split against its counterparts (δ = 1)."""
    people = load_population("german")
    network = train_small(people.train, seed=seed)
    certificate = certify_local(network, people.test, Counterparts.of(people.schema), 1.0, progress=progress)
    hits = network(people.test.x).argmax(axis=1) == people.test.y
    return BundledAudit(people, network, certificate, float(np.average(hits, weights=people.test.weights)))


def train_small(people: Population, hidden: tuple[int, ...] = (32, 16), seed: int = 0) -> Network:
    """A plain classifier: cross-entropy, Adam, weight decay; deterministic by seed."""
    generator = torch.Generator().manual_seed(seed)
    if people.y is None:
        raise ValueError("the population has no label to learn")
    x, y = torch.tensor(people.x), torch.tensor(people.y, dtype=torch.long)
    sizes = (x.shape[1], *hidden, int(y.max()) + 1)
    weights = [torch.randn(o, i, generator=generator, dtype=torch.float64) * (2 / i) ** 0.5 for i, o in _pairs(sizes)]
    biases = [torch.zeros(o, dtype=torch.float64) for _, o in _pairs(sizes)]
    optimiser = torch.optim.Adam([p.requires_grad_() for p in (*weights, *biases)], lr=3e-3, weight_decay=1e-2)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(x), generator=generator), 64):
            hidden_state = x[batch]
            for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
                hidden_state = torch.relu(hidden_state @ weight.T + bias)
            loss = torch.nn.functional.cross_entropy(hidden_state @ weights[-1].T + biases[-1], y[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return Network.from_layers([w.detach() for w in weights], [b.detach() for b in biases], name="small classifier")


def _pairs(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(pairwise(sizes))


def quantiles(values: FloatArray) -> tuple[float, float, float]:
    """Median, 90th percentile and maximum."""
    return float(np.median(values)), float(np.quantile(values, 0.9)), float(values.max())
