"""A network: a graph of operations up to its raw outputs, and the head that turns these into decisions."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import AssumedHeadWarning, NetworkError, ParameterError, needed, template
from isonomy.given import numbers
from isonomy.networks.graph import Activation, Affine, Graph, Head, Input, Node
from isonomy.networks.inputs import Reads
from isonomy.networks.simplify import simplify
from isonomy.population.schema import Schema
from isonomy_verify.activations import sigmoid

if TYPE_CHECKING:
    import torch

__all__ = ["Head", "Network"]

_PARTS, _REAL = ("weights", "biases"), "an array of real numbers"
_ROWS = 16_384  # rows evaluated at once, so that memory does not grow with hidden width times n


@dataclass(frozen=True, eq=False)
class Network:
    """What is judged: maps an individual to class probabilities, or to numbers.

    ``graph`` ends before the head, in *raw outputs*. The head ``"softmax"`` makes them the probabilities of
    two or more classes; ``"sigmoid"`` makes a single one the probability of class 1 of two, and several of
    them independent probabilities; ``"regression"`` leaves them as numbers.
    """

    kind: ClassVar[str] = "network"
    graph: Graph
    head: Head
    name: str = "network"
    assumed_head: bool = False  # several raw outputs were taken as a softmax, as is custom; nothing said so

    def __post_init__(self) -> None:
        if self.head not in get_args(Head):
            raise ParameterError(template("head", f"one of {', '.join(get_args(Head))}", self.head))
        if self.head == "softmax" and self.classes < 2:
            raise NetworkError(
                f"'{self.name}' ends in one raw number, whose softmax is always 1: say head='sigmoid' or "
                "head='regression'."
            )

    @classmethod
    def from_torch(
        cls,
        module: torch.nn.Module,
        *,
        width: int | None = None,
        head: Head | Literal["auto"] = "auto",
        name: str | None = None,
    ) -> Network:
        """Read a ``torch.nn.Module`` in evaluation mode; the module itself is left as it is.

        ``width`` is the number of features; it is needed only when the first layer does not tell. ``head`` is found at
        the end of the module; several raw outputs are taken as a softmax with a warning, unless it is said.
        """
        needed("torch", "torch", "A live torch module")
        from isonomy.networks.torch_reader import read_torch

        read = read_torch(module, width=width, head=head)
        network = cls(read.graph, read.head, type(module).__name__ if name is None else name, read.assumed)
        if network.assumed_head:
            warnings.warn(network.remark, AssumedHeadWarning, stacklevel=2)
        return network

    @classmethod
    def from_sklearn(
        cls,
        estimator: Any,
        schema: Schema | None = None,
        *,
        head: Head | Literal["auto"] = "auto",
        reads: Reads = "auto",
        name: str | None = None,
    ) -> Network:
        """Read a fitted scikit-learn estimator or whole pipeline; with a schema it reads the schema's coordinates.

        The adapter is taken from the pipeline: raw columns by the names of its training table, so that the network
        answers for raw rows. An estimator without names reads ``"raw"`` columns or ``"coordinates"``; ``reads`` says
        which when their number does not. Outputs follow the order of the schema's classes. Without a schema a bare
        estimator reads its own features.
        """
        from isonomy.networks.sklearn_reader import read_sklearn

        read = read_sklearn(estimator, schema, head=head, reads=reads)
        return cls(read.graph, read.head, type(estimator).__name__ if name is None else name)

    @classmethod
    def from_layers(
        cls,
        weights: Sequence[npt.ArrayLike],
        biases: Sequence[npt.ArrayLike],
        activation: str | Activation = "relu",
        head: Head = "softmax",
        name: str = "network",
    ) -> Network:
        """A multi-layer perceptron from its weights (out, in) and biases (out,)."""
        for parameter, given in (("weights", weights), ("biases", biases)):
            if not hasattr(given, "__len__") or isinstance(given, str) or not len(given):
                raise ParameterError(template(parameter, "a list with an array for each layer", given))
        if len(weights) != len(biases):
            raise ParameterError(template("biases", f"{len(weights)} vectors, one for each layer", len(biases)))
        between = activation if isinstance(activation, Activation) else Activation(activation)
        nodes: list[Node] = []
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            arrays = (
                numbers(f"{kind}[{layer}]", each, _REAL) for kind, each in zip(_PARTS, (weight, bias), strict=True)
            )
            affine = Affine.of(*arrays)
            if not nodes:
                nodes.append(Node(Input(affine.width_in), (), "input"))
            else:
                nodes.append(Node(between, (len(nodes) - 1,), f"{between.kind}{layer}"))
            nodes.append(Node(affine, (len(nodes) - 1,), f"layer{layer + 1}"))
        return cls(Graph(tuple(nodes)), head, name)

    @property
    def remark(self) -> str:
        """What was assumed when the network was read, in one sentence; empty if nothing was."""
        if not self.assumed_head:
            return ""
        return (
            f"'{self.name}' ends in {self.classes} raw numbers, which were taken for a softmax of as many classes: say "
            "head='softmax' if that is right, head='sigmoid' or head='regression' if not."
        )

    @property
    def input_width(self) -> int:
        """How many features the network reads."""
        return self.graph.input_width

    @property
    def classes(self) -> int:
        """How many raw outputs there are: k for softmax, 1 for a single sigmoid or number."""
        return self.graph.output_width

    def logits(self, x: npt.ArrayLike) -> FloatArray:
        """The raw outputs (n, classes) at individuals (n, m), in float64."""
        table = numbers("x", x, _REAL)
        if table.ndim != 2 or table.shape[1] != self.input_width:
            raise NetworkError(template("x", f"a table of {self.input_width} columns", table.shape))
        parts = [self.graph.evaluate(table[at : at + _ROWS]) for at in range(0, max(len(table), 1), _ROWS)]
        return np.concatenate(parts).astype(np.float64, copy=False)

    def __call__(self, x: npt.ArrayLike) -> FloatArray:
        """Probabilities (n, k), or the numbers of a regression; a single sigmoid gives ``[1 - p, p]``."""
        return self.probabilities(self.logits(x))

    @np.errstate(all="ignore")
    def probabilities(self, logits: FloatArray) -> FloatArray:
        """The head applied to raw outputs (n, classes)."""
        if self.head == "softmax":
            odds = np.exp(logits - logits.max(1, keepdims=True))
            return np.asarray(odds / odds.sum(1, keepdims=True))
        if self.head == "sigmoid":
            return sigmoid(np.hstack([-logits, logits]) if self.classes == 1 else logits)
        return logits

    @cached_property
    def margins(self) -> Graph:
        """The simplified graph whose outputs decide, with the last layer merged into them.

        Softmax of two classes: the row ``z_1 - z_0``. Of k > 2 classes: ``z_j - z_c`` for each class c, for
        each j != c, in this order. Sigmoid and regression: the raw outputs themselves.
        """
        if self.head != "softmax":
            return simplify(self.graph)
        k = self.classes
        pairs = [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]
        difference = np.zeros((len(pairs), k))
        for row, (c, j) in enumerate(pairs):
            difference[row, j], difference[row, c] = 1.0, -1.0
        # One subtraction per row; the factors of plus and minus one are exact.
        return simplify(self.graph.appended(Affine.of(difference, roundings=1), "margins"))

    def adapted(self, adapter: Affine) -> Network:
        """The network that reads ``adapter(x)`` instead of ``x``."""
        if adapter.width_out != self.input_width:
            raise NetworkError(
                f"The adapter gives {adapter.width_out} numbers but '{self.name}' reads {self.input_width}."
            )
        return replace(self, graph=self.graph.preceded(adapter, adapter.width_in))

    def hash(self) -> str:
        """SHA-256 of the graph and the head: the same for the same function, however it is named."""
        return hashlib.sha256(f"{self.head} {self.graph.hash()}".encode()).hexdigest()

    def __repr__(self) -> str:
        kinds = [type(node.op).__name__ for node in self.graph.nodes]
        count = f"{kinds.count('Affine')} affine, {kinds.count('Activation')} activation nodes"
        head = f"{self.head} (assumed)" if self.assumed_head else self.head
        return f"Network('{self.name}', {self.input_width} -> {self.classes} {head}, {count})"
