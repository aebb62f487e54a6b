"""Modules of many shapes, all of five features, that readers must reproduce."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 5


def trained(module: nn.Module) -> nn.Module:
    """Batch norms with statistics and weights that are not the initial ones."""
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.running_mean.normal_(generator=generator)
            part.running_var.uniform_(0.3, 2.0, generator=generator)
            if part.affine:
                part.weight.data.normal_(generator=generator)
                part.bias.data.normal_(generator=generator)
        if isinstance(part, nn.PReLU):
            part.weight.data.normal_(generator=generator)
    return module.eval()


class Written(nn.Module):
    """A module with two layers and a forward given as a function."""

    def __init__(self, forward: Callable[[Written, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(WIDTH, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.wide = nn.Linear(12, 3)
        self.norm = nn.BatchNorm1d(6)
        self.factor = nn.Parameter(torch.linspace(0.5, 2.0, 6))
        self.register_buffer("mean", torch.linspace(-1, 1, WIDTH))
        self.register_buffer("std", torch.linspace(0.5, 3, WIDTH))
        self._written = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._written(self, x)


def _mlp(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 7), activation, nn.Linear(7, 6), activation, nn.Linear(6, 3))


ACTIVATIONS: dict[str, nn.Module] = {
    "relu": nn.ReLU(),
    "leaky_relu": nn.LeakyReLU(0.2),
    "prelu_one": nn.PReLU(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "softplus": nn.Softplus(),
    "elu": nn.ELU(0.7),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "hardswish": nn.Hardswish(),
    "hardtanh": nn.Hardtanh(-0.4, 0.6),
    "relu6": nn.ReLU6(),
}


def _residual(m: Written, x: Tensor) -> Tensor:
    h = torch.relu(m.first(x))
    h = h + torch.relu(m.second(h))
    return m.last(torch.add(h, m.second(h), alpha=0.5))


def _concatenated(m: Written, x: Tensor) -> Tensor:
    h = functional.relu(m.first(x))
    return m.wide(torch.cat([h, m.second(h).tanh()], dim=1))


def _skip_from_input(m: Written, x: Tensor) -> Tensor:
    return torch.cat((x, m.last(torch.relu(m.first(x)))), -1)


def _reshaped(m: Written, x: Tensor) -> Tensor:
    h = m.first(x).view(x.size(0), 2, 3).transpose(1, 2)
    h = torch.relu(h).reshape(x.shape[0], -1)
    h = torch.flatten(h.unsqueeze(1), 1)
    return m.last(h.reshape(-1, 3, 2).permute(0, 2, 1).flatten(1)).unsqueeze(2).squeeze(-1)


def _sliced(m: Written, x: Tensor) -> Tensor:
    h = torch.relu(m.first(torch.cat([x[:, 3:], x[:, :3]], 1)))
    return m.wide(torch.cat([h[:, ::2], h[:, [1, 1, 4]], h[..., -1:], h[:, 1:6]], dim=1))


def _gated_chunks(m: Written, x: Tensor) -> Tensor:
    a, b = m.first(x).chunk(2, dim=1)
    return m.last(torch.cat([torch.tanh(b), torch.relu(a)], 1))


def _normalised(m: Written, x: Tensor) -> Tensor:
    return m.last(torch.tanh(m.norm(m.first((x - m.mean) / m.std))))


def _constants(m: Written, x: Tensor) -> Tensor:
    h = 1.5 - m.first(2 * x + 0.25) / 3
    return m.last(torch.sigmoid(h * m.factor - m.factor)) * -0.5


def _functional(m: Written, x: Tensor) -> Tensor:
    h = functional.dropout(functional.elu(functional.linear(x, m.first.weight, m.first.bias)), training=m.training)
    h = functional.leaky_relu(h @ m.second.weight.t() + m.second.bias)
    return torch.addmm(m.last.bias, h.clamp(-1, 2), m.last.weight.t())


def _dense_on_matrix(m: Written, x: Tensor) -> Tensor:
    h = torch.stack([m.first(x), torch.relu(m.first(-x))], dim=1)
    return m.wide(functional.gelu(m.second(h)).flatten(1))


def _handwritten_gates(m: Written, x: Tensor) -> Tensor:
    h = m.first(x)
    h = 0.5 * h * (1.0 + torch.erf(h / 1.4142135623730951))
    h = m.second(h)
    h = h * torch.sigmoid(1.702 * h)
    h = m.second(h)
    h = 0.5 * h * (1 + torch.tanh(0.7978845608028654 * (h + 0.044715 * torch.pow(h, 3))))
    h = h * 0.5 * (torch.tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)) + 1)
    return m.last(h)


FORWARDS: dict[str, Callable[[Written, Tensor], Tensor]] = {
    "residual": _residual,
    "concatenated": _concatenated,
    "skip_from_input": _skip_from_input,
    "reshaped": _reshaped,
    "sliced": _sliced,
    "gated_chunks": _gated_chunks,
    "normalised": _normalised,
    "constants": _constants,
    "functional": _functional,
    "dense_on_matrix": _dense_on_matrix,
    "handwritten_gates": _handwritten_gates,
}


def modules() -> dict[str, nn.Module]:
    """Every architecture, by name, seeded."""
    torch.manual_seed(0)
    found: dict[str, nn.Module] = {f"mlp_{kind}": _mlp(activation) for kind, activation in ACTIVATIONS.items()}
    found |= {kind: Written(forward) for kind, forward in FORWARDS.items()}
    found["linear"] = nn.Linear(WIDTH, 2)
    found["prelu_many"] = nn.Sequential(nn.Linear(WIDTH, 4), nn.PReLU(4), nn.Linear(4, 2))
    found["batch_norm"] = nn.Sequential(
        nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 4), nn.BatchNorm1d(4, affine=False), nn.ReLU(), nn.Linear(4, 2)
    )
    found["batch_norm_channels"] = nn.Sequential(
        nn.Linear(WIDTH, 6), nn.Unflatten(1, (3, 2)), nn.BatchNorm1d(3), nn.Tanh(), nn.Flatten(), nn.Linear(6, 2)
    )
    found["nested"] = nn.Sequential(
        nn.Sequential(nn.Dropout(0.5), nn.Linear(WIDTH, 4)), nn.Identity(), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    )
    found["softmax"] = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 3), nn.Softmax(dim=1))
    found["log_softmax"] = nn.Sequential(nn.Linear(WIDTH, 3), nn.LogSoftmax(dim=-1))
    found["sigmoid"] = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
    found["double"] = _mlp(nn.Tanh()).double()
    return {name: trained(module) for name, module in found.items()}


def original(module: nn.Module, x: Tensor) -> Tensor:
    """The raw outputs of a module that may end in a head, from its own run, up to what the head forgets."""
    kind = next(module.parameters()).dtype
    with torch.no_grad():
        return module(x.to(kind)).double().reshape(len(x), -1)
