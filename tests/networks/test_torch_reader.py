from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError
from isonomy.networks.load import load_network
from isonomy.networks.network import Network

from .architectures import WIDTH, modules, original

MODULES = modules()


def individuals(rows: int = 64, width: int = WIDTH) -> Tensor:
    return 2 * torch.randn(rows, width, generator=torch.Generator().manual_seed(3))


def check(network: Network, module: nn.Module, x: Tensor) -> None:
    """The network gives what the module gives, through its head."""
    own = original(module, x)
    last = list(module.modules())[-1]
    ours = torch.from_numpy(network.logits(x))
    if isinstance(last, nn.LogSoftmax):
        ours = torch.log_softmax(ours, 1)
    elif isinstance(last, nn.Softmax | nn.Sigmoid):
        ours = torch.from_numpy(network(x))[:, -own.shape[1] :]
    assert torch.allclose(ours, own, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MODULES)
def test_equals_torch(name: str) -> None:
    module = MODULES[name]
    check(Network.from_torch(module, width=WIDTH), module, individuals())


@pytest.mark.parametrize("name", ["mlp_relu", "batch_norm", "nested", "normalised", "linear"])
def test_width_is_seen_from_the_first_layer(name: str) -> None:
    assert Network.from_torch(MODULES[name]).input_width == WIDTH


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from(["ReLU", "Tanh", "GELU", "SiLU", "ELU", "Sigmoid", "Softplus", "LeakyReLU"]),
    st.integers(0, 2**20),
)
def test_random_perceptrons(widths: list[int], activation: str, seed: int) -> None:
    torch.manual_seed(seed)
    sizes = [WIDTH, *widths]
    layers: list[nn.Module] = []
    for read, given_ in pairwise(sizes):
        layers += [nn.Linear(read, given_), getattr(nn, activation)()]
    module = nn.Sequential(*layers, nn.Linear(sizes[-1], 2)).eval()
    check(Network.from_torch(module), module, individuals(16))


def test_the_module_is_left_alone() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    before = [p.clone() for p in module.parameters()]
    Network.from_torch(module)
    assert module.training
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_heads() -> None:
    layer = nn.Linear(3, 1)
    with pytest.raises(NetworkError, match=r"one raw number: say head='sigmoid' or head='regression'"):
        Network.from_torch(layer)
    assert Network.from_torch(layer, head="regression")(np.zeros((4, 3))).shape == (4, 1)
    one = Network.from_torch(layer, head="sigmoid")
    p = one(np.ones((1, 3)))
    assert p.shape == (1, 2)
    assert np.allclose(p.sum(), 1)
    assert np.allclose(p[0, 1], torch.sigmoid(layer(torch.ones(1, 3))).item())
    several = Network.from_torch(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid()))
    assert (several.head, several(np.zeros((2, 3))).shape) == ("sigmoid", (2, 4))
    kept = Network.from_torch(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()), head="regression")
    assert 0 < kept(np.zeros((1, 3)))[0, 0] < 1
    with pytest.raises(NetworkError, match="ends in a softmax"):
        Network.from_torch(nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), head="regression")
    with pytest.raises(ParameterError, match="'head' must be"):
        Network.from_torch(layer, head="logits")  # type: ignore[arg-type]

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            p = torch.sigmoid(self.layer(x))
            return torch.cat([1 - p, p], 1)

    both = Network.from_torch(Both())
    assert (both.head, both.classes) == ("sigmoid", 1)


def test_weight_norm_by_parametrization_is_read() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.ReLU(), nn.Linear(3, 2)).eval()
    check(Network.from_torch(module, width=4), module, individuals(width=4))


class Bad(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer, self.conv, self.norm = (kind, nn.Linear(4, 2), nn.LayerNorm(4), nn.BatchNorm1d(4))

    def forward(self, x: Tensor, extra: Tensor | None = None) -> Tensor:
        match self.kind:
            case "branch":
                return self.layer(x) if x.sum() > 0 else self.layer(-x)
            case "layer_norm":
                return self.layer(self.conv(x))
            case "product":
                return self.layer(x) * self.layer(-x)
            case "mixes":
                return self.layer(x + x.flip(0))
            case "by_row":
                at = torch.arange(x.size(0))
                return self.layer(x + x[at, at].unsqueeze(1))
            case "batch_first":
                return self.layer(x).transpose(0, 1)
            case "softmax_inside":
                return self.layer(torch.cat([torch.softmax(self.layer(x), 1)] * 2, 1))
            case "square":
                return self.layer(x * x)
            case "dropout":
                return self.layer(functional.dropout(x, 0.5))
            case "exp":
                return self.layer(torch.exp(x))
            case "random":
                return self.layer(x) + torch.rand(2)
            case "divisor":
                return 1 / self.layer(x)
            case "rounds":
                return torch.div(self.layer(x), 2.0, rounding_mode="floor")
            case "softplus":
                return functional.softplus(self.layer(x), threshold=1)
            case "pairs":
                return self.layer(x)[:, 0] + self.layer(x)
        return self.layer(x)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("branch", NetworkError, "must not branch"),
        ("layer_norm", UnsupportedOperationError, r"'conv' \(LayerNorm\) is not supported.*Linear"),
        ("product", UnsupportedOperationError, "'mul'.*product of two tensors"),
        ("mixes", NetworkError, "'flip'.*mixes individuals"),
        ("by_row", NetworkError, "'index.*treated alike"),
        ("batch_first", NetworkError, "'transpose'.*batch axis"),
        ("softmax_inside", UnsupportedOperationError, "'softmax'.*only as the last"),
        ("square", UnsupportedOperationError, "'mul'.*only within a GELU"),
        ("dropout", NetworkError, "'dropout'.*dropout is active"),
        ("exp", UnsupportedOperationError, r"'exp' \(exp\) is not supported; supported are:.{,60}BatchNorm1d.{,160}$"),
        ("random", NetworkError, "random"),
        ("divisor", UnsupportedOperationError, "'reciprocal'.*divisor"),
        ("rounds", UnsupportedOperationError, "'div'.*its option 'rounding_mode' is not supported"),
        ("softplus", UnsupportedOperationError, "softplus"),
        ("pairs", NetworkError, "'add'"),
    ],
)
def test_refusals_name_the_node(kind: str, error: type[NetworkError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        Network.from_torch(Bad(kind), width=4)
    assert "\n" not in str(caught.value)


def test_more_refusals() -> None:
    with pytest.raises(NetworkError, match="no stored statistics"):
        Network.from_torch(nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)))
    with pytest.raises(NetworkError, match=r"say width="):
        Network.from_torch(nn.Sequential(nn.ReLU()))
    with pytest.raises(NetworkError, match=r"agree in width"):
        Network.from_torch(nn.Linear(4, 2), width=5)
    with pytest.raises(ParameterError, match="'module' must be"):
        Network.from_torch(lambda x: x)  # type: ignore[arg-type]
    broken = nn.Linear(4, 2)
    broken.weight.data[0, 0] = torch.nan
    with pytest.raises(NetworkError, match="NaN"):
        Network.from_torch(broken)
    hooked = nn.Sequential(nn.Linear(4, 2))
    hooked[0].register_forward_hook(lambda module, x, y: 2 * y)
    with pytest.raises(NetworkError, match="hook"):
        Network.from_torch(hooked)
    outer = nn.Sequential(nn.Linear(4, 2))
    outer.register_forward_hook(lambda module, x, y: 2 * y)
    with pytest.raises(NetworkError, match="other numbers"):
        Network.from_torch(outer)


class _InPlace(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.one, self.other = kind, nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x)
        match self.kind:
            case "whole":
                torch.relu_(h)
            case "part":
                h[:, :3].relu_()
            case "view":
                h.view(-1, 2, 4).add_(1.0)
            case "copy":
                h.clone().add_(1.0)
        return self.other(h)


class _Counting(_InPlace):
    runs = 0

    def forward(self, x: Tensor) -> Tensor:
        _Counting.runs += 1
        return self.other(self.one(x)) * _Counting.runs


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_module_in_any_precision_is_confirmed(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    with pytest.raises(NetworkError, match="other numbers than its trace"):
        Network.from_torch(_Counting("").to(kind), head="regression")
    x = individuals(width=4)
    for module in (
        nn.Sequential(nn.Linear(4, 8), nn.Hardswish(), nn.Linear(8, 2), nn.Softmax(1)).to(kind),
        _InPlace("whole").to(kind),
    ):
        network = Network.from_torch(module, head="regression" if isinstance(module, _InPlace) else "auto")
        assert next(module.parameters()).dtype == kind
        assert np.allclose(network(x), module.double()(x.double()).detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["whole", "part", "view", "copy"])
@pytest.mark.parametrize("archive", [False, True])
def test_a_change_in_place_is_followed_or_refused(kind: str, archive: bool, tmp_path: Path) -> None:
    """A change through a view reaches the tensor that is viewed, which the program reads by its own name."""
    torch.manual_seed(0)
    module, x = _InPlace(kind).eval(), individuals(width=4)

    def read() -> Network:
        if not archive:
            return Network.from_torch(module, head="regression")
        torch.export.save(torch.export.export(module, (x[:3],)), tmp_path / "m.pt2")
        return load_network(tmp_path / "m.pt2", head="regression")

    if kind in ("part", "view"):
        with pytest.raises(NetworkError, match=r"'linear' is read after .* changed in place"):
            read()
    else:
        assert np.allclose(read()(x), module(x).detach().numpy(), atol=1e-6)


class _Variations(nn.Module):
    """What the architectures above leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.register_buffer("mask", torch.tensor([True, False, True, True, True, True, True]))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = self.first(x).clamp(min=-1)
        h = functional.alpha_dropout(h.float().type_as(x), 0.5, self.training)
        a, b, c = h.movedim(1, -1).split([1, 2, 3], 1)
        h = torch.cat([c.flip(1).clamp_max(2), b, a, h[:, :1]], 1)[:, self.mask]
        h = torch.stack(h.unflatten(1, (2, 3)).unbind(1), dim=-1).narrow(1, 0, 3).swapaxes(1, 2)
        return self.last(h.contiguous().flatten(1)[torch.arange(len(x))].to(torch.float64).float())


def test_variations_equal_torch() -> None:
    torch.manual_seed(0)
    module = _Variations().eval()
    check(Network.from_torch(module), module, individuals(width=4))


class _Unsteady(nn.Module):
    """A forward that is not one function."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.one, self.other = kind, nn.Linear(4, 2), nn.Linear(4, 2)
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        match self.kind:
            case "alone":
                return self.one(x) if len(x) > 1 else self.other(x)
            case "crowd":
                return self.one(x) if len(x) < 100 else self.other(x)
            case "far":  # the tensor of a trace is of another type
                return self.other(x) if type(x) is Tensor and bool((x.abs() > 20).any()) else self.one(x)
            case "noise":
                weight = self.one.weight
                return functional.linear(x, weight + 1e-5 * torch.randn_like(weight))
            case "dropped":
                return functional.linear(x, functional.dropout(self.one.weight, 1e-9, training=True))
            case "counted":
                return self.one(x) * (1 + self.runs.add_(1e-6))
            case "bits":
                return self.one(x.view(torch.int32).view(torch.float32))
        return functional.linear(x, functional.dropout(self.one.weight.clone().mul_(2), 0.5, self.training))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        *((kind, "other numbers than its trace.*number of rows") for kind in ("alone", "crowd", "far")),
        *((kind, "draws random numbers") for kind in ("noise", "dropped")),
        ("counted", r"add_.*changes a parameter or buffer, so that the next run is another function"),
        ("bits", "reading the bits of numbers as another type"),
    ],
)
def test_a_forward_that_is_not_one_function_is_refused(kind: str, sentence: str) -> None:
    with pytest.raises((NetworkError, UnsupportedOperationError), match=sentence):
        Network.from_torch(_Unsteady(kind), head="regression")


def test_a_dropout_of_weights_that_is_off_is_none() -> None:
    module, x = _Unsteady("steady").eval(), individuals(width=4)
    expected = module(x.to(torch.float32)).detach().numpy()
    assert np.allclose(Network.from_torch(module, head="regression")(x), expected, atol=1e-5)


def test_a_module_that_single_precision_blurs_is_confirmed() -> None:
    """Large numbers that cancel: a run in single precision is far from the function, one in double is not."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2), nn.Softmax(1))
    with torch.no_grad():
        module[0].weight.copy_(torch.eye(3))
        module[1].weight.copy_(torch.tensor([[1e6, 1e6, -1e6], [1e6, 1e6, -1e6 + 0.5]]))
    assert Network.from_torch(module).head == "softmax"
