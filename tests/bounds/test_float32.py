"""``arithmetic="float32"``: enclosures also hold float32 runs of the original, unfused module, whatever the order of
its sums."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from isonomy.networks.network import Network
from isonomy_verify.sets import ConvexSets

from .asked import enclose

steady = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**31 - 1)


def box_around(centre: np.ndarray, others: np.ndarray) -> ConvexSets:
    """The smallest box of moves, rounded outward, that leads from each centre (n, m) to its others (n, k, m)."""
    moves, still = others - centre[:, None], (others == centre[:, None]).all(axis=1)
    ends = ((moves.min(axis=1), -np.inf), (moves.max(axis=1), np.inf))
    return ConvexSets.of_box(*(np.where(still, 0.0, np.nextafter(side, way)) for side, way in ends))


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class WithInput(nn.Module):
    """Reads the raw coordinates again at the end."""

    def __init__(self, inner: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.inner, self.last = inner, last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([self.inner(x), x], dim=1))


class Shuffled(nn.Module):
    """A linear layer that adds up its products in another order: sorted, reversed, or term by term."""

    def __init__(self, layer: nn.Linear, rng: np.random.Generator) -> None:
        super().__init__()
        self.layer, self.order = layer, torch.from_numpy(rng.permutation(layer.in_features))
        self.stepwise = rng.random() < 0.5

    def forward(self, x: Tensor) -> Tensor:
        x, weight = x[:, self.order], self.layer.weight[:, self.order]
        if not self.stepwise:
            return nn.functional.linear(x, weight, self.layer.bias)
        total = self.layer.bias.expand(len(x), -1)
        for j in range(x.shape[1]):
            total = total + x[:, j : j + 1] * weight[:, j]
        return total


def activations() -> list[nn.Module]:
    return [
        nn.ReLU(), nn.LeakyReLU(0.3), nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.ELU(1.3), nn.GELU(),
        nn.GELU(approximate="tanh"), nn.SiLU(), nn.ReLU6(), nn.PReLU(),
    ]  # fmt: skip


def random_module(rng: np.random.Generator, width: int, outputs: int, size: float) -> nn.Module:
    torch.manual_seed(int(rng.integers(2**31)))
    hidden = int(rng.integers(2, 8))
    # ReLUs are exact: half of the networks have nothing else, so that nothing hides the errors of the layers.
    pick = [activations()[int(i)] for i in rng.integers(11, size=2) * (rng.random() < 0.5)]
    parts: list[nn.Module] = [nn.Linear(width, hidden)]
    if rng.random() < 0.5:
        norm = nn.BatchNorm1d(hidden)
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.3, 2)
        parts.append(norm)
    parts += [pick[0], Residual(nn.Sequential(nn.Linear(hidden, hidden), pick[1]))]
    if rng.random() < 0.5:
        parts.append(nn.Linear(hidden, hidden))  # two linear layers in a row are merged when read
    body = nn.Sequential(*parts)
    if rng.random() < 0.4:
        module: nn.Module = WithInput(body, nn.Linear(hidden + width, outputs))
    else:
        module = nn.Sequential(body, nn.Linear(hidden, outputs))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= size
    return module.eval()


def shuffled(module: nn.Module, rng: np.random.Generator) -> nn.Module:
    twin = copy.deepcopy(module)
    for parent in list(twin.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Shuffled(child, rng))
    return twin


def runs(module: nn.Module, x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Raw outputs of several float32 runs, as float64."""
    with torch.no_grad():
        twins = [module, *(shuffled(module, rng) for _ in range(2))]
        return [twin(torch.from_numpy(x).float()).double().numpy() for twin in twins]


def margins_of(network: Network, raw: np.ndarray) -> np.ndarray:
    if network.head != "softmax":
        return raw
    k = raw.shape[1]
    pairs = [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]
    return np.stack([raw[:, j] - raw[:, c] for c, j in pairs], axis=1)


@steady
@given(
    seed=seeds,
    radius=st.sampled_from([0.0, 1e-6, 0.1]),
    size=st.sampled_from([1.0, 3.0]),
    far=st.sampled_from([1.0, 1e3]),
    tier=st.sampled_from(["interval", "quick", "tight"]),
)
def test_float32_runs_stay_inside(seed: int, radius: float, size: float, far: float, tier: Any) -> None:
    rng = np.random.default_rng(seed)
    width, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    module = random_module(rng, width, outputs, size)
    head = "softmax" if outputs > 1 else str(rng.choice(["sigmoid", "regression"]))
    network = Network.from_torch(module, width=width, head=head)
    centre = rng.normal(size=(2, width)) * far
    others = centre[:, None] + radius * rng.choice([-1.0, 1.0, 1.0, -1.0, 0.0, 0.3], (2, 6, width))
    found = enclose(network, centre, box_around(centre, others), tier, float32_run=True)
    (at_low, at_high), (low, high), upper = found
    alone_low, alone_high = enclose(network, centre, None, float32_run=True).at
    own, moved = runs(module, centre, rng), [runs(module, others[row], rng) for row in range(2)]
    for run in own:
        found_at = margins_of(network, run)
        assert (at_low <= found_at).all() and (found_at <= at_high).all()
        assert (alone_low <= found_at).all() and (found_at <= alone_high).all()
    for row in range(2):
        for run in moved[row]:
            found_over = margins_of(network, run)
            assert (low[row] <= found_over).all() and (found_over <= high[row]).all()
            for other in own:
                if head == "regression":
                    assert np.abs(run - other[row]).max() <= upper[row]
                else:
                    p, q = (torch.from_numpy(v).float() for v in (run, other[row : row + 1]))
                    p, q = (torch.softmax(v, 1) if head == "softmax" else torch.sigmoid(v) for v in (p, q))
                    assert (p.double() - q.double()).abs().max().item() <= upper[row]


def test_a_float64_certificate_does_not_claim_to_cover_float32() -> None:
    """The suite above would be empty if plain enclosures covered float32 runs as well."""
    rng = np.random.default_rng(0)
    module = random_module(rng, 4, 2, 1.0)
    network = Network.from_torch(module, width=4)
    centre = rng.normal(size=(50, 4))
    low, high = enclose(network, centre, None).at
    run = margins_of(network, runs(module, centre, rng)[0])
    assert ((run < low) | (run > high)).any()


def test_underflow_is_magnified_by_large_weights() -> None:
    """1.0003e-40 is subnormal in float32: off by up to 7e-46, and by 7e-8 after a weight of 1e38."""
    module = nn.Sequential(nn.Linear(1, 1)).eval()
    with torch.no_grad():
        module[0].weight.fill_(1e38)
        module[0].bias.fill_(0.0)
    network = Network.from_torch(module, width=1, head="regression")
    for x in np.linspace(1e-40, 1.001e-40, 50):
        with torch.no_grad():
            run = module(torch.tensor([[x]], dtype=torch.float32)).item()
        centre = np.array([[x]])
        low, high = enclose(network, centre, box_around(centre, centre[:, None]), "interval", float32_run=True).over
        assert low.item() <= run <= high.item()
