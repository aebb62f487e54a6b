"""The network of the bundled audit: small, trained here and now on the training part."""

from __future__ import annotations

from itertools import pairwise

import torch

from isonomy.errors import DataError
from isonomy.networks.network import Network
from isonomy.population import Population

EPOCHS = 20


def train_small(people: Population, hidden: tuple[int, ...] = (32, 16), seed: int = 0) -> Network:
    """A plain classifier: cross-entropy, Adam, weight decay; deterministic by seed."""
    generator = torch.Generator().manual_seed(seed)
    if people.y is None:
        raise DataError(f"The table of {people.schema.name!r} has no label column to learn from.")
    x, y = torch.tensor(people.x), torch.tensor(people.y, dtype=torch.long)
    sizes = list(pairwise((x.shape[1], *hidden, int(y.max()) + 1)))
    weights = [torch.randn(o, i, generator=generator, dtype=torch.float64) * (2 / i) ** 0.5 for i, o in sizes]
    biases = [torch.zeros(o, dtype=torch.float64) for _, o in sizes]
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
