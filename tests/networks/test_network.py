from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError
from isonomy.networks.graph import Activation, Graph, Node, activation, affine, diagonal
from isonomy.networks.network import Network
from isonomy_verify.activations import SHAPES

RANDOM = np.random.default_rng(0)


def perceptron(outputs: int = 3, head: str = "softmax", activation: str = "relu") -> Network:
    random = np.random.default_rng(1)
    sizes = [4, 6, 5, outputs]
    weights = [random.standard_normal((b, a)) for a, b in pairwise(sizes)]
    return Network.from_layers(weights, [random.standard_normal(b) for b in sizes[1:]], activation, head)  # type: ignore[arg-type]


def test_probabilities_of_each_head() -> None:
    x = RANDOM.standard_normal((7, 4))
    for k in (2, 3, 4):
        network = perceptron(k)
        z = network.logits(x)
        assert np.allclose(network(x), torch.softmax(torch.from_numpy(z), 1).numpy())
    p = perceptron(1, "sigmoid")(x)
    assert p.shape == (7, 2)
    assert np.allclose(p.sum(1), 1)
    assert perceptron(3, "sigmoid")(x).shape == (7, 3)
    with pytest.raises(NetworkError, match="one raw number"):
        perceptron(1, "softmax")


def test_adapters_go_in_front() -> None:
    network = perceptron()
    adapter = affine(RANDOM.standard_normal((4, 9)), np.ones(4))
    adapted = network.adapted(adapter)
    x = RANDOM.standard_normal((5, 9))
    moved = x @ adapter.weight.T + adapter.bias
    assert np.allclose(adapted.logits(x), network.logits(moved))
    assert adapted.input_width == 9
    with pytest.raises(NetworkError, match="gives 3 numbers but 'network' reads 4"):
        network.adapted(diagonal(np.ones(3)))


def test_hash_is_of_the_function_not_the_name() -> None:
    network = perceptron()
    assert network.hash() == perceptron().hash()
    assert network.hash() == Network(network.graph, network.head, "other").hash()
    assert network.hash() != perceptron(activation="tanh").hash()
    assert network.hash() != Network(network.graph, "sigmoid").hash()
    changed = list(network.graph.nodes)
    changed[1] = changed[1]._replace(weight=changed[1].weight + 1e-15)
    assert network.hash() != Network(Graph(tuple(changed)), network.head).hash()


def test_tensors_are_tables_too_and_large_ones_are_cut() -> None:
    network = perceptron()
    x = torch.randn(3, 4, dtype=torch.bfloat16, requires_grad=True)
    assert np.array_equal(network.logits(x), network.logits(x.detach().double().numpy()))
    big = RANDOM.standard_normal((40_000, 4))
    assert np.allclose(network(big)[-5:], network(big[-5:]))
    assert network(np.zeros((0, 4))).shape == (0, 3)
    fixed = np.ones((2, 4))
    fixed.flags.writeable = False
    assert network(fixed).shape == (2, 3)
    with pytest.raises(NetworkError, match="'x' must be a table of 4 columns"):
        network(np.zeros((2, 5)))


def test_activations_are_the_textbook_functions() -> None:
    x = torch.linspace(-30, 30, 2001, dtype=torch.float64)
    phi = 0.5 * (1 + torch.erf(x / 2**0.5))
    expected = {
        Activation("relu"): torch.clamp(x, min=0),
        Activation("leaky_relu", (-2.0,)): torch.where(x > 0, x, -2 * x),
        Activation("softplus", (2.0,)): torch.log1p(torch.exp(-2 * x.abs())) / 2 + x.clamp(min=0),
        Activation("elu", (0.5,)): torch.where(x > 0, x, 0.5 * torch.expm1(x)),
        Activation("gelu"): x * phi,
        Activation("gelu_tanh"): functional.gelu(x, approximate="tanh"),
        Activation("silu"): x * torch.sigmoid(x),
        Activation("clip", (-1.0, torch.inf)): x.clamp(min=-1),
    }
    for function, values in expected.items():
        assert np.allclose(function.shape.value(x.numpy()), values, rtol=1e-12, atol=1e-15), function
    slopes = Activation("prelu", (0.5, -1.0))
    assert slopes.shape.value(np.array([[-2.0, -2.0], [3.0, 3.0]])).tolist() == [[-1.0, 2.0], [3.0, 3.0]]


def test_bad_graphs_are_refused() -> None:
    start = Node("input", width=2)
    first = Node("select", (0,), columns=(0,))
    cases = {
        "begin with its input": (Node("add", (0, 0)),),
        r"Node 1 'h' \(affine\) does not fit what it reads, \[2\]": (start, diagonal(np.ones(3))._replace(inputs=(0,))),
        "earlier nodes only": (start, Node("add", (0, 1))),
        r"add.*\[2, 1\]": (start, first, Node("add", (0, 1))),
        r"select.*\[2\]": (start, first._replace(columns=(2,))),
        "2 numbers": (start, Node("activation", (0,), activation=Activation("prelu", (1.0,)))),
        r"activation.*\[2, 2\]": (start, Node("activation", (0, 0), activation=Activation("relu"))),
        "only node 0 may be an input": (start, start),
        r"concat.*\[\]": (start, Node("concat")),
    }
    for words, nodes in cases.items():
        with pytest.raises(NetworkError, match=words):
            Graph(nodes, ("x", "h", "z")[: len(nodes)])
    with pytest.raises(UnsupportedOperationError, match=r"'sine'.*" + ", ".join(sorted(SHAPES))):
        activation("sine")
    for kind, parameters in (("softplus", (0.0,)), ("elu", (-1.0,)), ("clip", (1.0, 0.0)), ("relu", (1.0,))):
        with pytest.raises(NetworkError):
            activation(kind, parameters)
    with pytest.raises(ParameterError, match="'head' must be one of"):
        Network(Graph((start,)), "logits")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'biases' must be"):
        Network.from_layers([np.eye(2)], [])
