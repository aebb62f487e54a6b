"""One door for every kind of model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import isonomy
from isonomy.errors import NetworkError, ParameterError
from isonomy.training.onnx_file import write_onnx


def test_whatever_holds_a_model_gives_the_network_in_it(tmp_path: Path) -> None:
    people = isonomy.load_population("german")
    estimator = LogisticRegression(max_iter=500).fit(people.x[:200], people.y[:200])
    live = isonomy.load_model(estimator)
    assert np.allclose(live(people.x[:9]), estimator.predict_proba(people.x[:9]), atol=1e-12)
    assert isonomy.load_model(live) is live
    module = torch.nn.Sequential(torch.nn.Linear(people.x.shape[1], 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).double()
    network = isonomy.load_model(module, people.schema, head="softmax")
    write_onnx(network, tmp_path / "model.onnx")
    again = isonomy.load_model(tmp_path / "model.onnx", people.schema, head="softmax")
    assert np.allclose(network(people.x[:9]), again(people.x[:9]), atol=1e-6)
    for wrong in (None, 5, {"weights": []}):
        with pytest.raises(ParameterError, match="'source' must be a path, a torch module"):
            isonomy.load_model(wrong)


def test_a_network_has_its_own_head() -> None:
    network = isonomy.Network.from_layers([np.eye(2)], [np.zeros(2)], head="regression")
    assert isonomy.load_model(network, head="regression") is network
    with pytest.raises(NetworkError, match="has the head 'regression', so head='softmax' cannot be"):
        isonomy.load_model(network, head="softmax")
