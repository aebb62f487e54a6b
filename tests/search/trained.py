"""Small networks trained in a second, plainly, on moons and on six columns of German credit."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import torch
from sklearn.datasets import make_moons

import isonomy
from isonomy.networks.network import Network

from .milp import Layers


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "moons":
        x, y = make_moons(400, noise=0.15, random_state=0)
        return x, y
    people = isonomy.load_population("german")
    spread = np.argsort(-people.x.std(0), kind="stable")[:6]
    x = people.x[:600, spread]
    return (x - x.mean(0)) / x.std(0), np.asarray(people.y[:600])


@cache
def trained(name: str, hidden: tuple[int, ...], regression: bool = False) -> tuple[Network, Layers]:
    x, y = (torch.from_numpy(np.array(part)) for part in table(name))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = [x.shape[1], *hidden, 1 if regression else 2]
        layers = [torch.nn.Linear(*pair, dtype=torch.float64) for pair in itertools.pairwise(sizes)]
    steps = [step for layer in layers for step in (layer, torch.nn.ReLU())][:-1]
    module = torch.nn.Sequential(*steps)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(200):
        optimiser.zero_grad()
        out = module(x)
        loss = torch.nn.functional.mse_loss(out[:, 0], y.double() + x[:, 0]) if regression else None
        loss = torch.nn.functional.cross_entropy(out, y.long()) if loss is None else loss
        loss.backward()
        optimiser.step()
    found = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers]
    head = "regression" if regression else "softmax"
    return Network.from_layers([w for w, _ in found], [b for _, b in found], head=head), found
