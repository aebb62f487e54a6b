"""Files of torch: state dicts, and archives of exported programs."""

from __future__ import annotations

import copy
import re
import warnings
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import Network, load_network

from .architectures import WIDTH, Written, modules
from .stored import X, mlp


@pytest.mark.parametrize("prefix", ["", "body."])
def test_state_dicts(prefix: str, tmp_path: Path) -> None:
    module = mlp(5, 7, 6, 2)
    torch.save({prefix + name: each for name, each in module.state_dict().items()}, tmp_path / "m.pt")
    network = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(network(X), Network.from_torch(module)(X), atol=1e-12)
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, tmp_path / "m.pth")
    np.testing.assert_allclose(load_network(tmp_path / "m.pth", activation="relu")(X), network(X), atol=0)
    with pytest.raises(NetworkError, match="say activation="):
        load_network(tmp_path / "m.pt")
    with pytest.raises(NetworkError, match="activation 'rellu'"):
        load_network(tmp_path / "m.pt", activation="rellu")


def test_layers_go_by_name_and_must_fit(tmp_path: Path) -> None:
    path, draw = tmp_path / "m.pt", np.random.default_rng(0)
    sizes = {"layer2": (6, 7), "layer10": (2, 6), "layer1": (7, 5)}
    state = {f"{name}.weight": torch.from_numpy(draw.standard_normal(size)) for name, size in sizes.items()}
    torch.save(state, path)
    hidden = X
    for name in ("layer1", "layer2", "layer10"):
        hidden = (np.tanh(hidden) if name != "layer1" else hidden) @ state[f"{name}.weight"].numpy().T
    given = load_network(path, activation="tanh").logits(X)
    np.testing.assert_allclose(given, hidden, atol=1e-12)
    torch.save({f"{name}.weight": torch.randn(3, 3) for name in "acb"}, path)
    with pytest.raises(NetworkError, match="in the order of their names and in that of the file"):
        load_network(path, activation="relu")
    torch.save({"a.weight": torch.randn(3, 2), "b.weight": torch.randn(3, 2)}, path)
    with pytest.raises(NetworkError, match="do not follow"):
        load_network(path, activation="relu")
    torch.save(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict(), path)
    with pytest.raises(NetworkError, match=r"'1\.weight' belongs to no dense layer"):
        load_network(path, activation="relu")


class Aliased(nn.Module):
    """As the code published with the paper has it: the first and the last layer have a name of their own besides."""

    def __init__(self, *widths: int, last_first: bool = False) -> None:
        super().__init__()
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        if last_first:
            self.lf = layers[-1]
        self.l1 = layers[0]
        if not last_first:
            self.lf = layers[-1]
        self.lays = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.lays[:-1]:
            x = torch.relu(layer(x))
        return self.lf(x)


@pytest.mark.parametrize("cloned", [False, True])
@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("widths", [(5, 7, 2), (5, 7, 7, 2), (5, 7, 7, 7, 7, 2), (5, 7, 6, 1), (5, 2), (5, 7, 5, 7, 2)])
def test_layers_that_have_two_names(widths: tuple[int, ...], last_first: bool, cloned: bool, tmp_path: Path) -> None:
    module, path = Aliased(*widths, last_first=last_first), tmp_path / "m.pt"
    torch.save({name: each.clone() if cloned else each for name, each in module.state_dict().items()}, path)
    head: Any = "regression"
    found = load_network(path, activation="relu", head=head)
    np.testing.assert_allclose(found(X), Network.from_torch(module, head=head)(X), atol=1e-12)
    assert sum(node.kind == "affine" for node in found.graph.nodes) == len(widths) - 1


def _ambiguous() -> dict[str, nn.Module]:
    twice, identity = nn.Linear(5, 5), nn.Linear(7, 7)
    nn.init.eye_(identity.weight)
    nn.init.zeros_(identity.bias)
    return {
        "a first layer as wide as its input": Aliased(5, 5, 2),
        "a last layer as wide as its input": Aliased(5, 2, 2),
        "a layer that is applied twice": nn.Sequential(twice, nn.ReLU(), twice, nn.ReLU(), nn.Linear(5, 2)),
        "two identities": nn.Sequential(
            nn.Linear(5, 7), nn.ReLU(), identity, nn.ReLU(), copy.deepcopy(identity), nn.ReLU(), nn.Linear(7, 2)
        ),
    }


@pytest.mark.parametrize("name", _ambiguous())
def test_equal_layers_that_may_be_one_or_two(name: str, tmp_path: Path) -> None:
    torch.save(_ambiguous()[name].state_dict(), tmp_path / "m.pt")
    with pytest.raises(NetworkError, match=r"^m\.pt: '.*' and '.*' hold the same parameters, .* use ONNX\.$"):
        load_network(tmp_path / "m.pt", activation="relu")


def test_equal_biases_or_weights_alone_make_no_equal_layers(tmp_path: Path) -> None:
    module = mlp(5, 7, 7, 7, 2)
    with torch.no_grad():
        for layer in (module[2], module[4]):
            layer.bias.zero_()
    torch.save(module.state_dict(), tmp_path / "m.pt")
    found = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(found(X), Network.from_torch(module)(X), atol=1e-12)
    with torch.no_grad():
        module[4].weight.copy_(module[2].weight)
        module[4].bias[3] = 1.0
    torch.save(module.state_dict(), tmp_path / "m.pt")
    found = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(found(X), Network.from_torch(module)(X), atol=1e-12)


PT2 = list(modules())


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "name", [name if i % 4 == 0 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(PT2)]
)
def test_exported_programs(name: str, tmp_path: Path) -> None:
    module = modules()[name].eval()
    kind = next(module.parameters()).dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamic = ({0: torch.export.Dim("n")},)
        program = torch.export.export(module, (torch.randn(3, WIDTH, dtype=kind),), dynamic_shapes=dynamic)
        torch.export.save(program, tmp_path / "m.pt2")
    x = np.random.default_rng(0).standard_normal((20, WIDTH))
    network = load_network(tmp_path / "m.pt2", head=head_of(module))
    np.testing.assert_allclose(network(x), Network.from_torch(module, width=WIDTH, head=head_of(module))(x), atol=1e-9)


def head_of(module: nn.Module) -> Any:
    try:
        return Network.from_torch(module, width=WIDTH).head
    except NetworkError:
        return "regression"


def test_archives_are_refused_by_layer_and_variant(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    normed = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(normed, (torch.randn(3, 5),)), path)
    with pytest.raises(UnsupportedOperationError, match=r"m\.pt2: node '1' \(LayerNorm\) is not supported"):
        load_network(path)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(5, 2)).eval()
    torch.export.save(torch.export.export(flat, (torch.randn(3, 5),)), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, re.sub(rb"aten\.(flatten|view|reshape)\.\w+", rb"aten.\1.__init__", content))
    with pytest.raises(UnsupportedOperationError, match="no variant '__init__'"):
        load_network(path)


def test_arguments_that_no_rule_reads_are_refused(tmp_path: Path) -> None:
    """A SELU that torch wrote out is an ELU with a scale; an ELU may also scale its input."""
    path, x = tmp_path / "m.pt2", torch.randn(20, 5)
    module = nn.Sequential(nn.Linear(5, 4), nn.SELU(), nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(module, (x,)).run_decompositions(), path)
    np.testing.assert_allclose(load_network(path, head="softmax").logits(x), module(x).detach(), atol=1e-5)
    scaled = Written(lambda self, x: torch.ops.aten.elu(self.first(x), 1.0, 1.0, 0.5)).eval()
    torch.export.save(torch.export.export(scaled, (torch.randn(3, WIDTH),)), path)
    with pytest.raises(UnsupportedOperationError, match="its option 'input_scale' is not supported"):
        load_network(path)


def test_an_archive_that_computes_with_parameters_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    module = Written(lambda self, x: self.first(x) * torch.relu(self.factor)).eval()
    torch.export.save(torch.export.export(module, (torch.randn(3, WIDTH),)), path)
    with pytest.raises(UnsupportedOperationError, match=r"node 'relu' \(relu\): an operation on constants alone"):
        load_network(path)
    assert Network.from_torch(module, width=WIDTH, head="softmax").classes == 6  # torch computes it


@pytest.mark.parametrize("names", [("state_dict", "model"), ("state_dict", "state_dict_ema"), ("model", "ema")])
def test_a_checkpoint_of_two_networks_does_not_say_which(names: tuple[str, str], tmp_path: Path) -> None:
    state = nn.Linear(3, 2).state_dict()
    rest = {"epoch": 3, "optimizer": {"state": {}, "param_groups": []}}
    torch.save({names[0]: state, **rest}, tmp_path / "m.pt")
    assert load_network(tmp_path / "m.pt", head="softmax").input_width == 3
    torch.save({names[0]: state, names[1]: nn.Linear(3, 2).state_dict(), **rest}, tmp_path / "m.pt")
    with pytest.raises(NetworkError, match=f"several state dicts \\('{names[0]}', '{names[1]}'\\)"):
        load_network(tmp_path / "m.pt", head="softmax")


class _ByRows(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * x.shape[0]


def test_an_archive_that_computes_with_the_number_of_rows_is_refused(tmp_path: Path) -> None:
    free = ({0: torch.export.Dim("rows")},)
    torch.export.save(torch.export.export(_ByRows(3, 2), (torch.ones(4, 3),), dynamic_shapes=free), tmp_path / "m.pt2")
    with pytest.raises(NetworkError, match="node 'mul' computes with the number of individuals"):
        load_network(tmp_path / "m.pt2", head="softmax")
