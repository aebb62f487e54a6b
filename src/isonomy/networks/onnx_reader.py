"""Read an ONNX file: the operators of dense networks, by their definition in the opset that the file names.

The graph is interpreted from the input to one output. A tensor is either a constant, which the reference
implementation of ONNX computes, or a node with the shape of its features. Shape arithmetic is constant as
soon as the number of individuals is, so a small nominal table settles the reshapes of a dynamic batch.

**Soundness.** Only operators in the table of :mod:`isonomy.networks.onnx_rules` touch what depends on the
individual, each checked against the opset first; an attribute that its rule does not look at is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.inliner
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.networks.builder import BATCH, ReadModel, Value
from isonomy.networks.graph import Constant, HeadChoice
from isonomy.networks.inputs import ReaderContext, feed, in_class_order
from isonomy.networks.limits import FILE, NODES, reading
from isonomy.networks.onnx_rules import CELLS, CLASSICAL, RULES, Moved, OnnxCall, class_names, layout, plain, reference
from isonomy.networks.preprocessing import Table, cell_of
from isonomy.networks.unread import TREES

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_NOT_CONSTANT = ("Bernoulli", "Multinomial", "If", "Loop", "Scan", "SequenceMap", "StringConcat", "StringSplit")
_HARMLESS = ("broadcast", "consumed_inputs", "is_test", "momentum", "ratio", "round_mode", "saturate", "seed")
_DOMAINS = ("ai.onnx", "ai.onnx.ml")
_FIRST = ("Gemm", "MatMul", "BatchNormalization", "Sub", "Mul", "Div")


def read_onnx(path: Path, given: ReaderContext, head: HeadChoice, output: str | None) -> ReadModel:
    """Return the graph of an ONNX file up to its raw outputs, and its head; ``output`` names one of several.

    With a schema the graph reads the schema's coordinates: inputs called like columns read these columns, a single
    input reads what ``[model.inputs]`` says, or raw columns or coordinates, by their number or by ``reads``.
    """
    with np.errstate(all="ignore"):  # what is not finite is refused where it becomes a weight
        model, external = _load(path)
        given.allowance.left += external
        reader = _Reader(model, output, given)
        read = reader.read(head)
        if any(node.op_type in ("Shape", "Size") for node in reader.needed):
            other = _Reader(model, output, given, rows=16).read(head)
            if other.graph.hash() != read.graph.hash():
                raise NetworkError("what it computes for an individual depends on the number of individuals.")
        return read


def _load(path: Path) -> tuple[onnx.ModelProto, int]:
    """Return the parsed file, with weights stored beside it and its own functions written out, and the bytes of these
    weights."""
    model = onnx.load_model_from_string(path.read_bytes())
    if not model.graph.node or not model.graph.output:
        raise FileError(f"'{path}' is damaged or not an ONNX network: it holds no graph.")
    external = _check_size(model, path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        raise FileError(f"'{path}' keeps weights in another file, which cannot be read: {error}.") from error
    if model.functions:
        _complete_calls(model)
        model = onnx.inliner.inline_local_functions(model)
    return model, external


def _complete_calls(model: onnx.ModelProto) -> None:
    """Write attributes that calls of functions leave out, which inlining would forget, into the calls."""
    functions = {(each.domain, each.name): each for each in model.functions}
    hiding = next((each.name for each in model.functions if each.domain in ("", *_DOMAINS)), None)
    if hiding is not None or len(functions) < len(model.functions):
        raise UnsupportedOperationError(f"its function '{hiding or 'of two variants'}' hides an operator or function.")

    for node in _every_node(node for part in (model.graph, *model.functions) for node in part.node):
        called = functions.get((node.domain, node.op_type))
        given = {each.name for each in node.attribute}
        node.attribute.extend(each for each in (called.attribute_proto if called else ()) if each.name not in given)


def _every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of the graphs that their attributes hold, also of attributes that are added meanwhile."""
    for node in nodes:
        yield node
        for each in node.attribute:
            for graph in (each.g, *each.graphs):
                yield from _every_node(graph.node)


def _check_size(model: onnx.ModelProto, path: Path) -> int:
    """Return the bytes of weights beside the file; refuse too many, and too many nodes with functions written out."""
    functions = {(each.domain, each.name): each for each in model.functions}
    known: dict[tuple[str, str], int | None] = {}

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in _every_node(nodes):
            total += 1 + written_out((node.domain, node.op_type))
            if total > NODES:
                raise NetworkError(f"it has more than {NODES:,} nodes once its functions are written out.")
        return total

    def written_out(name: tuple[str, str]) -> int:
        if name in functions and name not in known:
            known[name] = None
            known[name] = count(functions[name].node)
        size = known.get(name, 0)
        if size is None:
            raise NetworkError(f"its function '{name[1]}' calls itself.")
        return size

    count(model.graph.node)
    external = 0
    for tensor in external_data_helper._get_all_tensors(model):
        if external_data_helper.uses_external_data(tensor):
            info = external_data_helper.ExternalDataInfo(tensor)
            file = path.parent / info.location
            external += info.length or (file.stat().st_size if file.is_file() else 0)
    if external > FILE:
        raise FileError(f"'{path}' keeps more than {FILE >> 30} GiB of weights in other files.")
    return external


class _Reader:
    """One pass over the nodes that the chosen output needs."""

    def __init__(self, model: onnx.ModelProto, output: str | None, given: ReaderContext, rows: int = BATCH) -> None:
        self.graph, self.schema = model.graph, given.schema
        self.classes: tuple[str, ...] = ()
        self.opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
        classical = next((each.version for each in model.opset_import if each.domain == "ai.onnx.ml"), 1)
        self.rules = onnx.checker.C.CheckerContext()
        self.rules.ir_version = max(model.ir_version, 3)
        self.rules.opset_imports = {"": self.opset, "ai.onnx.ml": classical}
        self.known: dict[str, Value | Table | Moved | Constant | None] = {
            each.name: numpy_helper.to_array(each) for each in self.graph.initializer
        }
        self.output = _chosen_output(self.graph.output, output)
        self.needed = _ancestors(self.graph.node, self.output)
        read = {name for node in self.needed for name in node.input}
        sources = [each for each in self.graph.input if each.name in read and each.name not in self.known]
        if not sources:
            raise NetworkError(f"the output '{self.output}' does not depend on the input.")
        # Raw cells count the rounding of their reading themselves.
        self.kind = TensorProto.FLOAT if self.schema else sources[0].type.tensor_type.elem_type
        sizes = {each.name: [max(dim.dim_value, 0) for dim in each.type.tensor_type.shape.dim] for each in sources}
        shapes = {name: tuple(size or 1 for size in axes[1:]) for name, axes in sizes.items()}
        if len(sources) == 1:
            name, cells = sources[0].name, self.schema is not None
            shapes = {name: self._input_shape(sources[0], sizes[name], cells=cells)}
        batch = next((axes[0] for axes in sizes.values() if axes and 0 < axes[0] <= 4096), rows)
        self.builder, fed = feed(shapes, given, batch)
        self.known |= fed

    def read(self, head: HeadChoice) -> ReadModel:
        for node in self.needed:
            name = node.name or next(filter(None, node.output), node.op_type)
            self.builder.at = name
            with reading(f"node '{name}' ({node.op_type})"):
                results = self._evaluate(node)
            self.known |= {key: value for key, value in zip(node.output, results, strict=False) if key}
        result = self.known.get(self.output)
        if isinstance(result, Moved):
            raise NetworkError(result.reason)
        result = self.builder.numeric(result)
        if not isinstance(result, Value):
            raise NetworkError(f"the output '{self.output}' does not depend on the input.")
        if head == "auto" and result.width == 1 and self.needed[-1].op_type == "LinearRegressor":
            head = "regression"
        read = self.builder.finish(result, head)
        if read.assumed_head and "prob" in self.output.lower():
            raise NetworkError(
                f"its output '{self.output}' ends in no softmax or sigmoid that is known: say head='softmax' if it "
                "holds raw scores, head='regression' to certify its numbers."
            )
        return in_class_order(read, self.schema, self.classes or self._labels())

    def _labels(self) -> tuple[str, ...]:
        """Return the classes of a label beside the chosen output, looked up by the place of the largest number."""
        places = {each.output[0] for each in self.graph.node if each.op_type == "ArgMax" and self.output in each.input}
        for node in self.graph.node:
            looked_up = node.op_type in ("ArrayFeatureExtractor", "Gather") and node.input[1] in places
            if looked_up and isinstance(labels := self.known.get(node.input[0]), np.ndarray):
                return tuple(str(cell_of(each)) for each in plain(labels.ravel().tolist()))
        return ()

    def _evaluate(self, node: onnx.NodeProto) -> tuple[Any, ...]:
        """Return the outputs of one node."""
        for name in filter(None, node.input):
            if name not in self.known:
                raise NetworkError(f"it reads '{name}', which nothing before it gives.")
        operands = [self.known[name] if name else None for name in node.input]
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        constant = not any(isinstance(each, Value | Table | Moved) for each in operands)
        standard, classical = node.domain in ("", "ai.onnx"), node.domain == "ai.onnx.ml"
        rule = CLASSICAL.get(node.op_type) if classical else RULES.get(node.op_type) if standard else None
        foldable = standard and "Random" not in node.op_type and node.op_type not in _NOT_CONSTANT
        if classical and constant:
            raise UnsupportedOperationError(f"{node.op_type} is supported only on what depends on the individual.")
        if rule is None and not (constant and foldable):
            label = node.op_type if standard else f"{node.domain}.{node.op_type}"
            why = "it is neither an affine map nor an elementwise activation"
            if "Tree" in node.op_type:
                why = TREES
            raise UnsupportedOperationError(f"{label} is not supported: {why}.")
        onnx.checker.check_node(node, self.rules)  # an attribute that the opset does not know, say
        if constant or rule is None:
            return reference(node, self.opset, operands, self.builder.allowance)
        misplaced = next((each for each in operands if isinstance(each, Moved)), None)
        if misplaced and rule is not layout:
            raise NetworkError(misplaced.reason)
        if not classical and node.op_type not in CELLS:
            operands = [self.builder.numeric(each) for each in operands]
        self.classes = class_names(attributes) if classical and class_names(attributes) else self.classes
        usual = _defaults(node.op_type, self.opset) if standard else {}
        call = OnnxCall(self.builder, usual | attributes, node=node, opset=self.opset, input_kind=self.kind)
        result = rule(call, *operands)
        if standard:
            call.refuse_unread(usual, _HARMLESS)
        return result if isinstance(result, tuple) else (result,)

    def _input_shape(self, source: onnx.ValueInfoProto, sizes: list[int], *, cells: bool) -> tuple[int, ...]:
        """Return the shape of the features of one individual; ``cells``: raw ones, whose number may stay open."""
        tensor = source.type.tensor_type
        sizes = sizes if tensor.HasField("shape") else [0, 0]
        if cells and all(sizes[1:]):
            return tuple(sizes[1:])
        if tensor.elem_type not in _FLOATS and not cells:
            readers = [node for node in self.needed if source.name in node.input]
            if any(node.op_type != "Cast" for node in readers):
                raise NetworkError(
                    f"the input '{source.name}' must hold floating-point numbers, or a schema must describe its cells."
                )
        if len(sizes) < 2:
            raise NetworkError(f"the input '{source.name}' must have two axes, individuals and features.")
        if len(sizes) == 2 and sizes[1] < 1:
            sizes[1] = self._first_width(source.name)
        if min(sizes[1:]) < 1 and not cells:
            raise NetworkError(f"the input '{source.name}' does not say how many features it has.")
        return tuple(sizes[1:])

    def _first_width(self, source: str) -> int:
        """Return the number of features by the first layer; 0 where it does not show it."""
        same = {source}
        for node in self.needed:
            if node.input and node.input[0] in same:
                weight = self.known.get(node.input[1]) if len(node.input) > 1 else None
                if isinstance(weight, np.ndarray) and weight.ndim and node.op_type in _FIRST:
                    flipped = any(each.name == "transB" and each.i for each in node.attribute)
                    return int(weight.shape[-1 if flipped or node.op_type in ("Sub", "Mul", "Div") else 0])
                if node.op_type in ("Cast", "Identity", "Flatten", "Dropout"):
                    same.update(node.output)
        return 0


def _defaults(kind: str, opset: int) -> dict[str, Any]:
    """Return the values that the attributes of an operator have in an opset where a node leaves them out."""
    known = onnx.defs.get_schema(kind, opset, "").attributes
    if kind == "Clip":  # those of float32, which limit nothing
        return {}
    written = {name: each.default_value for name, each in known.items() if each.default_value.type}
    return {name: helper.get_attribute_value(each) for name, each in written.items()}


def _chosen_output(outputs: Iterable[onnx.ValueInfoProto], wanted: str | None) -> str:
    """Return the output that holds probabilities, logits or numbers."""
    kinds = {each.name: each.type.tensor_type.elem_type for each in outputs}
    listed = ", ".join(f"'{name}'" for name in kinds)
    if wanted is not None:
        if wanted not in kinds:
            raise NetworkError(f"there is no output '{wanted}'; there are: {listed}.")
        return wanted
    names = list(kinds)
    for preferred in (
        [name for name in names if kinds[name] in _FLOATS],
        [name for name in names if "prob" in name.lower()],
        [name for name in names if "logit" in name.lower()],
    ):
        names = [name for name in names if name in preferred] or names
    if len(names) != 1:
        raise NetworkError(f"there are several outputs; say output= one of {listed}.")
    return names[0]


def _ancestors(nodes: Iterable[onnx.NodeProto], output: str) -> list[onnx.NodeProto]:
    """Return the nodes that an output depends on, in order."""
    wanted, ancestors = {output}, []
    for node in reversed(list(nodes)):
        if not wanted.isdisjoint(node.output):
            wanted.update(filter(None, node.input))
            ancestors.append(node)
    return ancestors[::-1]
