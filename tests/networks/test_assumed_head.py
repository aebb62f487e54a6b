"""Several raw outputs are taken for a softmax, and whoever reads the network is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import isonomy
from isonomy import AssumedHeadWarning, Network, load_network


def module(ending: nn.Module | None = None) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)]
    return nn.Sequential(*layers, *([] if ending is None else [ending])).eval()


def from_state(path: Path, **given: Any) -> Network:
    torch.save(module().state_dict(), path / "m.pt")
    return load_network(path / "m.pt", activation="relu", **given)


def from_onnx(path: Path, **given: Any) -> Network:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module(), (torch.zeros(2, 3),), path / "m.onnx", dynamo=False)
    return load_network(path / "m.onnx", **given)


def from_module(path: Path, **given: Any) -> Network:
    return Network.from_torch(module(), **given)


READERS = [from_state, from_onnx, from_module]


@pytest.mark.parametrize("read", READERS)
def test_an_assumed_softmax_is_said(read: Callable[..., Network], tmp_path: Path) -> None:
    with pytest.warns(AssumedHeadWarning, match=r"ends in 2 raw numbers.*head='regression'.*\.$") as said:
        network = read(tmp_path)
    assert said[0].filename == __file__  # the caller's own line
    assert network.assumed_head and network.head == "softmax" and "softmax (assumed)" in repr(network)
    assert network.remark.startswith(f"'{network.name}' ends in 2 raw numbers")
    assert issubclass(isonomy.AssumedHeadWarning, UserWarning)


@pytest.mark.parametrize("head", ["softmax", "sigmoid", "regression"])
@pytest.mark.parametrize("read", READERS)
def test_a_head_that_is_said_is_taken_without_a_word(read: Callable[..., Network], head: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssumedHeadWarning)
        network = read(tmp_path, head=head)
    assert network.head == head and not network.assumed_head and not network.remark
    assert "assumed" not in repr(network)


@pytest.mark.parametrize("ending", [nn.Softmax(dim=1), nn.LogSoftmax(dim=1), nn.Sigmoid()])
def test_a_head_that_is_found_is_not_assumed(ending: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssumedHeadWarning)
        assert not Network.from_torch(module(ending)).assumed_head


def test_an_assumption_changes_no_number_and_no_hash(tmp_path: Path) -> None:
    said = Network.from_torch(module(), head="softmax")
    with pytest.warns(AssumedHeadWarning):
        assumed = Network.from_torch(module())
    x = np.random.default_rng(0).normal(size=(5, 3))
    assert assumed.hash() == said.hash() and (assumed(x) == said(x)).all()
