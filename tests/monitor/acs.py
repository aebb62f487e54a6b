"""Californians: a small network, its certificate, a stream of the same people and one that is built to be far."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from tests.datasets.data_folder import FOLDER

import isonomy
from isonomy.population import Population
from isonomy.service import Served
from studies.surveys import load_population


@cache
def californians() -> tuple[Served, Population, Population]:
    """The certificate, others of the same population, and those of them who are sixty or older."""
    whole = load_population("acs-income", encoding="paper", states=["CA"], years=[2018], download=False, folder=FOLDER)
    train, test = whole.train[:5000], whole.test
    generator = torch.Generator().manual_seed(0)
    weights = [0.2 * torch.randn(out, wide, generator=generator) for wide, out in ((44, 16), (16, 16), (16, 2))]
    biases = [torch.zeros(len(weight)) for weight in weights]
    parameters = [part.requires_grad_() for part in (*weights, *biases)]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    x, y = torch.tensor(train.x, dtype=torch.float32), torch.tensor(np.asarray(train.y))
    for _ in range(3):
        for batch in torch.randperm(len(x), generator=generator).split(256):
            hidden = x[batch]
            for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                hidden = torch.nn.functional.linear(hidden if place == 0 else hidden.relu(), weight, bias)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(hidden, y[batch]).backward()
            optimiser.step()
    layers = [[part.detach().double().numpy() for part in parts] for parts in (weights, biases)]
    network = isonomy.Network.from_layers(*layers)
    assert (network(test.x).argmax(axis=1) == np.asarray(test.y)).mean() > 0.75
    order = np.random.default_rng(0).permutation(len(test))
    audited, others = test[order[:150]], test[order[150:10_000]]
    metric = isonomy.SensitiveSubspace.fit(train)
    certificate = isonomy.certify(
        network, audited, metric, delta=0.02, gamma=0.05, attack=False, rounds=1, progress=None
    )
    far = others[others.frame["AGEP"].to_numpy() >= 60]
    return Served.of_certificate(certificate, audited), others, far
