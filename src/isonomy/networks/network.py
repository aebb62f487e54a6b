"""A network: a graph of operations up to its raw outputs, and the head that turns these into decisions."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import AssumedHeadWarning, NetworkError, ParameterError, needed, template
from isonomy.escapes import visible
from isonomy.given import choice, numbers
from isonomy.model import Arrays, HeadName, Model
from isonomy.networks.arrays import graph_arrays, graph_of, kinds_of
from isonomy.networks.builder import ReadModel
from isonomy.networks.graph import Activation, Graph, HeadChoice, Node, affine, numbers_of, selection
from isonomy.networks.graph import Head as Head
from isonomy.networks.graph import activation as elementwise
from isonomy.networks.influence import read_coordinates
from isonomy.networks.inputs import ReaderContext, Reads, adapter
from isonomy.population.encoding import text_of
from isonomy.population.population import Population
from isonomy.population.schema import Schema
from isonomy_verify.activations import sigmoid

if TYPE_CHECKING:
    import torch

_REAL = "an array of real numbers"
_ROWS = 16_384  # rows evaluated at once, so that memory does not grow with hidden width times n


@dataclass(frozen=True, eq=False)
class Network(Model):
    """What is judged: maps an individual to class probabilities, or to numbers.

    ``graph`` ends before the head, in *raw outputs*. The head ``"softmax"`` makes them the probabilities of
    two or more classes; ``"sigmoid"`` makes a single one the probability of class 1 of two, and several of
    them independent probabilities; ``"regression"`` leaves them as numbers, ``"probability"`` as probabilities.
    """

    kind: ClassVar[str] = "network"
    noun: ClassVar[str] = "network"
    graph: Graph
    head: Head
    name: str = "network"
    assumed_head: bool = False  # several raw outputs were taken as a softmax, as is custom; nothing said so
    opened: Mapping[str, Any] | None = field(default=None, repr=False)  # with which options a file was read
    named: tuple[str, ...] = field(default=(), repr=False)  # what a file calls the classes of the outputs, if it does

    def __post_init__(self) -> None:
        choice("head", self.head, Head)
        if self.head == "softmax" and self.classes < 2:
            raise NetworkError(
                f"'{self.name}' ends in one raw number, whose softmax is always 1: say head='sigmoid' or "
                "head='regression'."
            )

    @classmethod
    def of(cls, read: ReadModel, name: str, opened: Mapping[str, Any] | None = None) -> Network:
        """Return the network called ``name`` that a reader ``read``, from a file with the options ``opened``."""
        return cls(read.graph, read.head, name, read.assumed_head, opened, read.named)

    @classmethod
    def from_torch(
        cls,
        module: torch.nn.Module,
        schema: Schema | None = None,
        *,
        width: int | None = None,
        head: HeadChoice = "auto",
        reads: Reads = "auto",
        name: str | None = None,
    ) -> Network:
        """Read a ``module`` of ``torch.nn`` in evaluation mode under a ``name``; it is itself left as it is.

        With a ``schema``, which embeddings of categories need, it reads the schema's coordinates, as ``reads`` or
        ``[model.inputs]`` says; several inputs read the columns whose names they have.
        ``width`` is the number of features, needed only when the first layer does not show it. ``head`` is read from
        the end of the module; several raw outputs are taken as a softmax with a warning, unless it is given.
        """
        needed("torch", "torch", "A live torch module")
        from isonomy.networks.torch_reader import read_torch

        given = ReaderContext(schema, reads)
        read = read_torch(module, width=width, head=head, given=given)
        network = cls.of(read, type(module).__name__ if name is None else name)
        if schema is not None and not read.on_schema:
            network = network.adapted(adapter(given, network.input_width))
        if network.assumed_head:
            warnings.warn(network.remark, AssumedHeadWarning, stacklevel=2)
        return network

    @classmethod
    def from_sklearn(
        cls,
        estimator: Any,
        schema: Schema | None = None,
        *,
        head: HeadChoice = "auto",
        reads: Reads = "auto",
        name: str | None = None,
    ) -> Network:
        """Read a fitted ``estimator`` or pipeline of scikit-learn; with a ``schema`` it reads the schema's coordinates.

        The adapter is taken from the pipeline: raw columns by the names of its training table, so that the network
        answers for raw rows. An estimator without names reads ``"raw"`` columns or ``"coordinates"``; ``reads`` says
        which when their number does not. Outputs follow the order of the schema's classes. Without a schema a bare
        estimator reads its own features. ``head`` and ``name`` are its own unless given.
        """
        from isonomy.networks.sklearn_reader import read_sklearn

        read = read_sklearn(estimator, ReaderContext(schema, reads), head)
        return cls.of(read, type(estimator).__name__ if name is None else name)

    @classmethod
    def from_layers(
        cls,
        weights: Sequence[npt.ArrayLike],
        biases: Sequence[npt.ArrayLike],
        activation: str | Activation = "relu",
        head: Head = "softmax",
        name: str = "network",
    ) -> Network:
        """Build a perceptron of ``weights`` (out, in), ``biases`` (out,), ``activation`` between, ``head``,
        ``name``."""
        for parameter, given in (("weights", weights), ("biases", biases)):
            if not hasattr(given, "__len__") or isinstance(given, str) or not len(given):
                raise ParameterError(template(parameter, "a list with an array for each layer", given))
        if len(weights) != len(biases):
            raise ParameterError(template("biases", f"{len(weights)} vectors, one for each layer", len(biases)))
        own = activation if isinstance(activation, Activation) else elementwise(activation)
        nodes, names = list[Node](), ["input"]
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            if layer:
                nodes.append(Node("activation", activation=own))
                names.append(f"{own.kind}{layer}")
            nodes.append(affine(numbers(f"weights[{layer}]", weight, _REAL), numbers(f"biases[{layer}]", bias, _REAL)))
            names.append(f"layer{layer + 1}")
        return cls(Graph.chain(nodes, tuple(names)), head, name)

    @property
    def remark(self) -> str:
        """Return in one sentence what was assumed when the network was read; empty if nothing was."""
        if not self.assumed_head:
            return ""
        return (
            f"'{visible(self.name)}' ends in {self.classes} raw numbers, which were taken for a softmax of as many "
            "classes: say head='softmax' if that is right, head='sigmoid' or head='regression' if not."
        )

    @property
    def input_width(self) -> int:
        """Return the number of features that the network reads."""
        return self.graph.widths[0]

    @property
    def classes(self) -> int:
        """Return the number of raw outputs: k for softmax, 1 for a single sigmoid or number."""
        return self.graph.widths[-1]

    def logits(self, x: npt.ArrayLike) -> FloatArray:
        """Return the raw outputs (n, classes) at individuals (n, m), in float64."""
        table = np.atleast_1d(numbers("x", x, _REAL))
        parts = [self.graph.evaluate(table[at : at + _ROWS]) for at in range(0, max(len(table), 1), _ROWS)]
        return np.concatenate(parts).astype(np.float64, copy=False)

    def __call__(self, x: npt.ArrayLike) -> FloatArray:
        """Return probabilities (n, k), or the numbers of a regression; a single sigmoid gives ``[1 - p, p]``."""
        return self.probabilities(self.logits(x))

    @np.errstate(all="ignore")
    def probabilities(self, logits: FloatArray) -> FloatArray:
        """Apply the head to raw outputs (n, classes)."""
        if self.head == "softmax":
            odds = np.exp(logits - logits.max(1, keepdims=True))
            return np.asarray(odds / odds.sum(1, keepdims=True))
        if self.head == "sigmoid":
            return sigmoid(np.hstack([-logits, logits]) if self.classes == 1 else logits)
        if self.head == "probability":
            return np.clip(np.hstack([1.0 - logits, logits]) if self.classes == 1 else logits, 0.0, 1.0)
        return logits

    def adapted(self, adapter: Node) -> Network:
        """Return the network that reads ``adapter(x)``, an affine node, instead of ``x``."""
        gives, reads = numbers_of(adapter).weight.shape
        if gives != self.input_width:
            raise NetworkError(f"The adapter gives {gives} numbers but '{self.name}' reads {self.input_width}.")
        return replace(self, graph=self.graph.preceded(adapter, reads))

    def hash(self) -> str:
        """Return the SHA-256 of the graph and the head: the same for the same function, however it is named."""
        return hashlib.sha256(f"{self.head} {self.graph.hash()}".encode()).hexdigest()

    def section(self) -> dict[str, Any]:
        """Return kinds and names of the nodes."""
        return {"kinds": kinds_of(self.graph), "names": list(self.graph.names)}

    def arrays(self) -> Arrays:
        """Return the numbers of the nodes."""
        return graph_arrays(self.graph)

    @classmethod
    def read(
        cls, section: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], head: HeadName, name: str
    ) -> Network:
        """Return the network of a ``section`` and ``arrays`` of a record, with its ``head`` and ``name``."""
        return cls(graph_of(section["kinds"], section["names"], arrays), head, name)

    def read_features(self, schema: Schema) -> tuple[str, ...]:
        """Return the features from which a path of non-zero weights leads to an output."""
        marked = read_coordinates(self.graph)
        return tuple(name for name, place in schema.slices.items() if marked[place].any())

    def on_coordinates(self, seen: npt.NDArray[np.int64], schema: Schema) -> Network:
        """Return the network behind a selection of the ``seen`` coordinates of the ``schema``."""
        return self.adapted(selection(seen.tolist(), schema.width))

    def __repr__(self) -> str:
        kinds = [node.kind for node in self.graph.nodes]
        count = f"{kinds.count('affine')} affine, {kinds.count('activation')} activation nodes"
        head = f"{self.head} (assumed)" if self.assumed_head else self.head
        return f"Network('{self.name}', {self.input_width} -> {self.classes} {head}, {count})"


@dataclass(frozen=True)
class Agreement:
    """How many rows were compared, and the largest difference (0 when labels were compared)."""

    rows: int
    largest: float


def check_predictions(
    model: Network,
    individuals: Any,
    reference: Any,
    *,
    schema: Schema | None = None,
    tolerance: float = 1e-6,
) -> Agreement:
    """Compare ``model`` with reference predictions, row by row; the first row that differs is an error.

    A wrong column order or scale makes a perfectly valid network that is another one. Predictions for a few rows, made
    with the original framework, find that out before anything is certified.

    ``individuals`` is a population, a raw table beside its ``schema``, or an array of coordinates. ``reference``
    holds the probabilities of all classes ``(n, k)``, of class 1 alone ``(n,)``, the numbers of a regression, or
    class names. Numbers may be apart by ``tolerance``, those of a regression by as much of their size.
    """
    if not (isinstance(tolerance, int | float) and 0 <= tolerance < np.inf):
        raise ParameterError(template("tolerance", "a finite number >= 0", tolerance))
    x, names, schema = _coordinates(individuals, schema)
    expected = np.asarray(reference)
    if expected.shape[:1] != (len(x),):
        raise ParameterError(template("reference", f"{len(x)} predictions, one for each row", expected.shape))
    given = model(x)
    if expected.dtype.kind in "OUSb" and model.head != "regression":
        return _labels(model, given, expected, names, schema)
    try:
        wanted = expected.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(template("reference", "probabilities, numbers or class labels", expected.dtype)) from None
    if wanted.ndim == 1:
        given = given[:, 1:] if given.shape[1] == 2 and model.head != "regression" else given
        wanted = wanted[:, None]
    if wanted.shape != given.shape:
        shape = " or ".join(map(str, {given.shape, (len(x),)}))
        raise ParameterError(template("reference", f"an array of shape {shape}", expected.shape))
    difference = np.abs(given - wanted)
    scale = np.maximum(1.0, np.abs(wanted)) if model.head == "regression" else 1.0
    bad = ~(difference <= tolerance * scale)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise NetworkError(
            f"'{model.name}' differs from the reference in row {names[row]}: it gives {given[row, column]:.9g} where "
            f"{wanted[row, column]:.9g} is expected ({int(bad.any(axis=1).sum())} of {len(x)} rows differ by more than "
            f"{tolerance:g}); check the order, scaling and encoding of its inputs."
        )
    return Agreement(len(x), float(difference.max(initial=0.0)))


def _coordinates(individuals: Any, schema: Schema | None) -> tuple[FloatArray, list[Any], Schema | None]:
    """Return coordinates, the names of the rows, and the schema if there is one."""
    if isinstance(individuals, Population):
        individuals.schema.refuse_other(schema)
        return individuals.x, individuals.rows.tolist(), individuals.schema
    if schema is not None:
        x = schema.encode(individuals).x
        return x, list(range(len(x))), schema
    if isinstance(individuals, np.ndarray) and individuals.ndim == 2 and individuals.dtype.kind in "fiu":
        return individuals.astype(np.float64), list(range(len(individuals))), None
    raise ParameterError(template("schema", "given beside a raw table", None))


def _labels(network: Network, given: FloatArray, expected: Any, names: list[Any], schema: Schema | None) -> Agreement:
    classes = schema.label.classes if schema is not None and schema.label is not None else ()
    if expected.ndim != 1 or (not classes and expected.dtype.kind != "b"):
        raise ParameterError(template("reference", "one label per row, of the classes in the schema", expected.shape))
    chosen = given.argmax(axis=1)
    known = {name: place for place, name in enumerate(classes or ("False", "True"))}
    for row, label in enumerate(expected.tolist()):
        place = known.get(text_of(label))
        if place is None:
            raise ParameterError(template("reference", f"labels among {', '.join(map(repr, known))}", label))
        best, own = given[row].max(), given[row, place] if place < given.shape[1] else -np.inf
        if place != chosen[row] and best > own:
            raise NetworkError(
                f"'{network.name}' differs from the reference in row {names[row]}: it prefers class {chosen[row]} with "
                f"{best:.6g}, the reference says {label!r}; check the order, scaling and encoding of its inputs."
            )
    return Agreement(len(expected), 0.0)
