"""Read a ``torch.nn.Module``, or a ``torch.export`` archive (``.pt2``) without torch's own loader: both are programs of
ATen operations.

A live module is copied in evaluation mode and exported on a small table of individuals. ``torch.export.load`` would
unpickle parts of an archive, which can run a program hidden there; its graph, however, is stored as JSON and plain
parameters as raw bytes. Only these are read, and an archive that needs a pickle is refused.

**Soundness.** Only operations in the tables below are accepted, by their name in ATen, each exactly the function that
torch computes; an argument that its rule does not look at is refused. A tensor that was changed in place through
another name is not read any more. What depends on the parameters of a live module alone is computed by torch itself,
and in the end the graph is compared with a run of the module: a disagreement is an error.
"""

from __future__ import annotations

import copy
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from isonomy.arithmetic import FloatArray
from isonomy.errors import FileError, NetworkError, ParameterError, UnsupportedOperationError, template
from isonomy.networks import operations
from isonomy.networks.builder import BATCH, Builder, ReadModel, Value
from isonomy.networks.graph import Graph, HeadChoice, numbers, numbers_of
from isonomy.networks.inputs import ReaderContext, feed
from isonomy.networks.limits import MATRIX, one_line, open_archive, read_member, reading
from isonomy.networks.operations import Call, Rule, elementwise, identity, rule
from isonomy.networks.preprocessing import Choice, Table, affine_of, numbered, required_values, whole
from isonomy.population.toml import read_json

_ADVICE = "export the model to ONNX instead"
_LARGEST = 2**30  # bytes of one member of an archive
_KINDS = {6: torch.float16, 7: torch.float32, 8: torch.float64, 5: torch.int64, 4: torch.int32, 13: torch.bfloat16}


def read_torch(
    module: nn.Module, *, width: int | None = None, head: HeadChoice = "auto", given: ReaderContext | None = None
) -> ReadModel:
    """Return the graph of a module up to its raw outputs, and its head.

    One that looks up embeddings reads raw cells, which only a schema, ``given``, describes: then the graph reads the
    schema's coordinates.
    """
    if not isinstance(module, nn.Module):
        raise ParameterError(template("module", "a torch.nn.Module", type(module).__name__))
    if width is not None and (not isinstance(width, int) or width < 1):
        raise ParameterError(template("width", "the number of features the module reads", width))
    label = type(module).__name__
    for name, part in module.named_modules():
        if part._forward_hooks or part._forward_pre_hooks:
            raise NetworkError(f"Module '{name or label}' has a hook, which can make other numbers; {_ADVICE}.")
    with torch.no_grad(), reading(label):
        frozen = copy.deepcopy(module).cpu().eval()
        if any(isinstance(part, nn.Embedding) for part in frozen.modules()):
            people = _looked_up(frozen, given)
        else:
            columns = _seen_width(frozen) if width is None else width
            people = _Drawn(frozen, Builder((columns,)))
        _run(frozen, *people.draw(BATCH))
        try:
            exported = torch.export.export(frozen, people.draw(BATCH), strict=False)
        except Exception as error:  # exporting runs the user's code, which can fail in any way
            reason = one_line(f"{type(error).__name__}: {error}")[:300]
            raise NetworkError(f"it cannot be exported, as its forward must not branch on data ({reason}).") from error
        program = _Program(people.builder)
        fed = iter(people.fed)
        stored = {**exported.state_dict, **exported.constants}
        for spec in exported.graph_signature.input_specs:
            if isinstance(spec.arg, TensorArgument):
                if spec.kind == InputKind.USER_INPUT:
                    program.known[spec.arg.name] = next(fed)
                else:
                    program.store(spec.arg.name, stored[str(spec.target)])
        for node in exported.graph.nodes:
            if node.op == "call_function":
                _live_step(program, node)
            elif node.op == "output":
                read = program.finish([program.get(str(each)) for each in node.args[0]], head)
        for rows in _CONFIRMED:
            _confirm(frozen, read.graph, _ENDINGS[program.builder.ending], people, rows)
    return replace(read, on_schema=people.tables is not None)


def read_pt2(path: Path, given: ReaderContext, head: HeadChoice) -> ReadModel:
    """Return the graph of an exported program up to its raw outputs, and its head."""
    with open_archive(path, given.allowance) as archive:
        members = {name.partition("/")[2]: name for name in archive.namelist()}
        if "models/model.json" not in members:
            raise FileError(f"'{path}' is not an archive of a recent torch.export with one model; {_ADVICE}.")

        def content(name: str) -> bytes:
            return read_member(archive, members.get(name, name), _LARGEST)

        stored = read_json(content("models/model.json"), "Its graph")["graph_module"]
        tensors: dict[str, Tensor] = {}
        for part in ("weights", "constants"):
            if f"data/{part}/model_{part}_config.json" in members:
                listed = read_json(content(f"data/{part}/model_{part}_config.json"), f"Its list of {part}")["config"]
                tensors |= {name: _tensor(name, entry, content, part) for name, entry in listed.items()}
    graph = stored["graph"]
    inputs: list[str] = []
    known: dict[str, Any] = {}
    for spec in stored["signature"]["input_specs"]:
        ((kind, entry),) = spec.items()
        name = entry["arg"].get("as_tensor", entry["arg"])["name"]
        if kind == "user_input":
            inputs.append(name)
        else:
            source = entry.get("parameter_name") or entry.get("buffer_name") or entry.get("tensor_constant_name")
            if source not in tensors:
                raise NetworkError(f"its parameter '{source}' is not stored.")
            known[name] = tensors[source]
    axes = {name: [_size(each) for each in graph["tensor_values"][name]["sizes"]] for name in inputs}
    embeds = any("embedding" in str(node["target"]) for node in graph["nodes"])
    if embeds and given.schema is None:
        raise NetworkError(_EMBEDS)
    if not embeds and len(inputs) != 1:
        raise NetworkError(f"one input, a table of individuals, is expected; there are {len(inputs)}.")
    if not inputs or any(len(sizes) < 2 - embeds or min(sizes[1:], default=1) < 1 for sizes in axes.values()):
        raise NetworkError("its input must have two axes, individuals and features.")
    batch = next((sizes[0] for sizes in axes.values() if sizes[0] > 1), BATCH)
    if embeds:
        raw = (
            given
            if given.reads != "auto" or given.schema is None or given.schema.inputs
            else replace(given, reads="raw")
        )
        builder, fed = feed({name: tuple(sizes[1:]) for name, sizes in axes.items()}, raw, batch)
    else:
        builder = Builder(axes[inputs[0]][1:], batch, inputs[0], given.allowance)
        fed = {inputs[0]: builder.input}
    program = _Program(builder, trusted=False)
    program.known |= fed
    for name, tensor in known.items():
        program.store(name, tensor)
    for node in graph["nodes"]:
        operands: list[str] = []
        counted = any(kind.startswith("as_sym") for each in node["inputs"] for kind in each["arg"])
        if counted and str(node["target"]).removeprefix("torch.ops.aten.").partition(".")[0] not in _LAYOUTS:
            raise NetworkError(f"node '{_names(node['outputs'])[0]}' computes with the number of individuals.")
        arguments = {each["name"]: _argument(each["arg"], program, operands) for each in node["inputs"]}
        stack = str(node.get("metadata", {}).get("nn_module_stack", "")).split(";")[-1].split(",")
        layer = (stack[1], stack[2]) if len(stack) == 3 else ("", "")
        program.step(str(node["target"]), arguments, _names(node["outputs"]), operands, layer)
    read = program.finish([_argument(each, program, []) for each in graph["outputs"]], head)
    return replace(read, on_schema=embeds)


_EMBEDS = "it looks up an embedding of raw cells: give the schema that describes them."


class _Program:
    """The tensors known so far by name; each is a :class:`Value` or a constant.

    ``storage`` tells which names may share memory. After an operation in place (``relu_``) only its result may be read.
    """

    def __init__(self, builder: Builder, *, trusted: bool = True) -> None:
        self.builder, self.trusted = builder, trusted
        self.known: dict[str, Any] = {}
        self.storage: dict[str, str] = {}
        self.stale: set[str] = set()
        self.parameters: set[int] = set()  # where parameters and buffers lie in memory

    def get(self, name: str) -> Any:
        """Return the tensor or value of a name."""
        if name in self.stale:
            raise NetworkError(f"'{name}' is read after a part of it was changed in place; {_ADVICE}.")
        return self.known[name]

    def storage_of(self, name: str) -> str:
        """Return the name of the memory that a tensor is kept in."""
        return self.storage.setdefault(name, name)

    def store(self, name: str, tensor: Any) -> None:
        """Store a parameter or buffer, which stays from one run to the next."""
        self.known[name] = tensor
        self.parameters |= {tensor.untyped_storage().data_ptr()} if isinstance(tensor, Tensor) else set()

    def refuse_parameter_change(self, changed: Any) -> None:
        """Refuse an operation that changes a parameter or buffer: it makes the next run another function."""
        if isinstance(changed, Tensor) and changed.untyped_storage().data_ptr() in self.parameters:
            raise NetworkError("it changes a parameter or buffer, so that the next run is another function.")

    def step(
        self,
        target: str,
        arguments: dict[str, Any],
        outputs: Sequence[str],
        operands: Sequence[str],
        layer: tuple[str, str],
    ) -> None:
        """Read one operation, of a layer ``(path, class)``; ``operands`` are the names of its inputs."""
        written, _, overload = target.removeprefix("torch.ops.aten.").partition(".")
        in_place = written.endswith("_") and not written.startswith("_")
        name = written.rstrip("_") if in_place else written
        self.builder.at = next(iter(outputs), written)
        label = written
        if layer[0] and layer[1].startswith("torch.nn.modules."):
            self.builder.at, label = layer[0], layer[1].rpartition(".")[2]
        where, move = f"node '{self.builder.at}' ({label})", name in _LAYOUTS
        if not target.startswith("torch.ops.aten.") or not (name in _RULES or move):
            raise UnsupportedOperationError(
                f"{where} is not supported; supported are: Linear, BatchNorm1d, Dropout, Flatten, Softmax at the end, "
                "activations such as ReLU, and sums, fixed multiples, selections and reshapes of their results."
            )
        with reading(where):
            if in_place:
                self.refuse_parameter_change(arguments.get("self"))
            packet = getattr(torch.ops.aten, name)
            if overload not in packet.overloads():
                raise UnsupportedOperationError(f"there is no variant '{overload}' of it.")
            apply = self._move if move else self._compute
            result = apply(name, getattr(packet, overload), arguments)
        results = result if isinstance(result, tuple) else (result,)
        self.known |= dict(zip(outputs, results if len(outputs) > 1 else [result], strict=False))
        if operands and (in_place or move or name in _SAME):
            shared = self.storage_of(operands[0])
            if in_place:
                self.stale |= {each for each in self.known if self.storage_of(each) == shared} - set(outputs)
            self.storage |= dict.fromkeys(outputs, shared)

    def _compute(self, name: str, operation: Any, arguments: dict[str, Any]) -> Any:
        if name not in _CELLS:
            arguments = pytree.tree_map_only(Table, self.builder.numeric, arguments)
        operands = [arguments[each] for each in _OPERANDS if each in arguments]
        given = [*operands, arguments.get("indices")]
        if name not in _ANYTHING and not any(isinstance(each, Value | Table) for each in pytree.tree_leaves(given)):
            raise UnsupportedOperationError("an operation on constants alone is not supported.")
        call = Call(self.builder, arguments)
        if name == "embedding":
            operands = [arguments["weight"], arguments["indices"]]
        result = _RULES[name](call, *operands)
        if name != "_assert_tensor_metadata":
            usual = {each.name: each.default_value for each in operation._schema.arguments if each.has_default_value()}
            plain = call.options.get("dtype") in (torch.float32, torch.float64)
            call.refuse_unread(usual, {*_HARMLESS, "dtype"} if plain else _HARMLESS)
        return result

    def _move(self, name: str, operation: Any, arguments: dict[str, Any]) -> Any:
        """Let torch itself move an array of positions."""
        value = arguments["self"]
        others = pytree.tree_leaves([each for key, each in arguments.items() if key != "self"])
        if not isinstance(value, Value | Table | Tensor) or any(isinstance(each, Value | Table) for each in others):
            raise NetworkError("only its data may depend on the individual.")
        if any(isinstance(each, torch.dtype) for each in others):
            raise UnsupportedOperationError("reading the bits of numbers as another type is not supported.")
        moved = value if isinstance(value, Tensor) else torch.from_numpy(self.builder.positions(value))
        arguments = arguments | {"self": moved}
        if not self.trusted:  # a damaged file may ask for anything
            plan = operation(**pytree.tree_map_only(Tensor, lambda each: each.to("meta"), arguments))
            if any(each.numel() > MATRIX for each in pytree.tree_leaves(plan)):
                raise NetworkError("the tensor that it asks for is larger than the supported size.")
        result = operation(**arguments)
        if isinstance(value, Tensor):
            return result
        if isinstance(result, Tensor):
            return self.builder.placed(value, result.numpy())
        return tuple(self.builder.placed(value, each.numpy()) for each in result)

    def finish(self, outputs: Sequence[Any], head: HeadChoice) -> ReadModel:
        """Return the graph up to the raw outputs, and its head."""
        outputs = [self.builder.numeric(each) for each in outputs]
        if len(outputs) != 1 or not isinstance(outputs[0], Value):
            raise NetworkError("one output that depends on the input is expected.")
        return self.builder.finish(outputs[0], head)


def _linear(call: Call, x: Value) -> Value:
    weight, bias = call("weight"), call("bias")
    if not isinstance(x, Value) or isinstance(weight, Value) or isinstance(bias, Value):
        raise UnsupportedOperationError("a layer whose weights depend on the individual is not supported.")
    return call.builder.matmul(x, numbers(weight).T, None if bias is None else numbers(bias))


def _batch_norm(call: Call, x: Value) -> Value:
    mean, variance = call("running_mean"), call("running_var")
    if call("training") or mean is None or variance is None:
        raise NetworkError("the normalisation has no stored statistics, so individuals influence each other.")
    return call.builder.normalise(x, mean, variance, call("weight"), call("bias"), epsilon=call("eps", 1e-5))


def _prelu(call: Call, x: Value) -> Value:
    slopes = numbers(call("weight"))  # one, or one for each channel
    return operations.prelu(call.builder, x, slopes.reshape(-1, *[1] * max(len(x.shape) - 1, 0)))


def _embedding(call: Call, weight: Any, indices: Any) -> Table:
    call.options_read.update(("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse"))  # the last: training
    if not isinstance(indices, Table) or isinstance(weight, Value | Table):
        raise UnsupportedOperationError("only a lookup of a raw column in a constant matrix is supported.")
    return indices.looked_up(numbers(weight))


def _convert(call: Call, x: Value | Table, other: Any = None) -> Value | Table:
    wanted = call("dtype", other.dtype if isinstance(other, Tensor) else None)
    if isinstance(x, Table) and wanted in (torch.int64, torch.int32):
        return whole(x)
    if wanted not in (None, torch.float32, torch.float64):
        raise UnsupportedOperationError(f"a conversion to {wanted} is not supported.")
    return x


def _dropout(call: Call, x: Value) -> Value:
    return operations.dropout(x, call("train") and call("p") > 0)


# The arguments that are operands; all others are options.
_OPERANDS = ("self", "input", "tensors", "mat1", "mat2", "other", "exponent")
# Options that change no number, or only how numbers are kept or rounded; and of a dropout that is off, how much.
_HARMLESS = {
    *_OPERANDS,
    *("memory_format", "layout", "device", "pin_memory", "non_blocking", "copy", "half_to_float"),
    *("momentum", "cudnn_enabled", "p"),
}

# Operations whose result is their first operand, and may share its memory.
_SAME: dict[str, Rule] = {
    **dict.fromkeys(("contiguous", "alias", "detach", "lift_fresh_copy"), identity),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _convert),
    **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"), _dropout),
}
_CELLS = {*_SAME, "clone", "_assert_tensor_metadata", "cat", "concat", "embedding"}  # which take raw cells as they are
_ANYTHING = {*_SAME, "clone", "_assert_tensor_metadata", "cat", "concat", "stack"}  # also of constants alone

_RULES: dict[str, Rule] = _SAME | {
    "clone": identity,
    "_assert_tensor_metadata": lambda call, *_: None,
    "embedding": _embedding,
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm"), rule(operations.matmul)),
    "addmm": lambda call, bias, x, weight: operations.gemm(
        call.builder, x, weight, bias, call("alpha", 1), call("beta", 1)
    ),
    "add": lambda call, x, y: call.builder.add_scaled(x, y, call("alpha", 1)),
    "sub": lambda call, x, y: call.builder.add_scaled(x, y, -call("alpha", 1)),
    "rsub": lambda call, x, y: call.builder.add_scaled(call.builder.multiply(x, -call("alpha", 1)), y, 1.0),
    "mul": rule(operations.multiply),
    **dict.fromkeys(("div", "true_divide"), rule(Builder.divide)),
    "reciprocal": lambda call, x: call.builder.divide(1.0, x),
    "neg": lambda call, x: call.builder.multiply(x, -1.0),
    "pow": rule(operations.power),
    "square": lambda call, x: operations.power(call.builder, x, 2),
    **operations.ACTIVATIONS,
    **{"special_expit": elementwise("sigmoid"), "special_erf": elementwise("erf")},
    "softplus": rule(operations.softplus, beta=("beta", 1.0), threshold=("threshold", 20.0)),
    "leaky_relu": elementwise("leaky_relu", negative_slope=0.01),
    "prelu": _prelu,
    **dict.fromkeys(("clamp", "clip"), rule(operations.clip, low=("min",), high=("max",))),
    "clamp_min": rule(operations.clip, low=("min",)),
    "clamp_max": rule(operations.clip, high=("max",)),
    "hardtanh": rule(operations.clip, low=("min_val", -1), high=("max_val", 1)),
    **dict.fromkeys(("softmax", "_softmax"), rule(operations.softmax, axis=("dim",))),
    **dict.fromkeys(("log_softmax", "_log_softmax"), rule(operations.log_softmax, axis=("dim",))),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("cat", "concat"), rule(Builder.concat, axis=("dim", 0))),
    "stack": rule(operations.stack, axis=("dim", 0)),
    "sym_size": lambda call, x: (call.builder.batch, *x.shape)[call("dim")],
}

# Run by torch itself on an array of positions; they only move or repeat entries.
_LAYOUTS = (
    *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "t", "swapaxes", "movedim", "squeeze"),
    *("unsqueeze", "expand", "slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "flip"),
    *("index", "index_select"),
)


# -- live modules


def _live_step(program: _Program, node: fx.Node) -> None:
    """Read one node of an exported module, with its arguments by name."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: program.get(each.name))
    constant = not any(isinstance(each, Value | Table) for each in pytree.tree_leaves((args, kwargs)))
    operands = [each.name for each in node.all_input_nodes]
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema else [str(i) for i in range(len(args))]
    arguments = dict(zip(names, args, strict=False)) | kwargs
    if node.target is operator.getitem or constant:  # by torch itself
        with reading(f"node '{node.name}'"):
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and arguments.get("train", True):
                raise NetworkError("it draws random numbers, so that no run is like another.")
            for each in schema.arguments if schema else ():
                if each.alias_info is not None and each.alias_info.is_write:
                    program.refuse_parameter_change(arguments.get(each.name))
            program.known[node.name] = node.target(*args, **kwargs)  # type: ignore[operator]
        program.storage[node.name] = program.storage_of((*operands, node.name)[0])
        return
    layer = (("", ""), *(node.meta.get("nn_module_stack") or {}).values())[-1]
    program.step(f"torch.ops.{node.target}", arguments, [node.name], operands, layer)


def _table(module: nn.Module, width: int, rows: int = BATCH) -> Tensor:
    """Draw random individuals in the precision of the module."""
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(kind)


class _LastOperation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers which operation was asked for last."""

    last = "forward"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.last = str(func).split(".")[1]
        return func(*args, **(kwargs or {}))


def _run(module: nn.Module, *tables: Tensor) -> Tensor:
    """Return the outputs of the module itself."""
    recorder = _LastOperation()  # type: ignore[no-untyped-call]
    try:
        with recorder:
            result = module(*tables)
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}")[:300].rstrip(".")
        count = sum(table[0].numel() for table in tables)
        raise NetworkError(
            f"it does not run on {count} features: '{recorder.last}' fails ({reason}); its features and "
            "weights must agree in width."
        ) from error
    if not isinstance(result, Tensor):
        raise NetworkError(f"it must return one tensor. Got {type(result).__name__}.")
    return result


def _seen_width(module: nn.Module) -> int:
    """Return the one width of a layer that the module runs on."""
    sizes = [getattr(part, name, None) for part in module.modules() for name in ("in_features", "num_features")]
    fitting = []
    for size in dict.fromkeys(size for size in sizes if isinstance(size, int)):
        with suppress(NetworkError):
            _run(module, _table(module, size))
            fitting.append(size)
    if len(fitting) != 1:
        raise NetworkError("the number of features cannot be seen from its layers: say width=...")
    return fitting[0]


_ENDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "raw": lambda z: z,
    "softmax": lambda z: torch.softmax(z, 1),
    "log_softmax": lambda z: torch.log_softmax(z, 1),
    "sigmoid": torch.sigmoid,
    "both": lambda z: torch.sigmoid(torch.cat([-z, z], 1)),
}


_CONFIRMED = (1, 8, 129)  # rows of tables; a forward can depend on their number


class _Drawn:
    """Random individuals for the runs of a module, and the builder and operands of its graph.

    Without ``tables`` the module reads the numbers themselves; with them each of its inputs reads a table of cells of
    random coordinates, ``given`` with a schema.
    """

    def __init__(self, module: nn.Module, builder: Builder, tables: Sequence[Table] | None = None, given: Any = None):
        self.module, self.builder, self.tables, self.given = module, builder, tables, given
        self.fed: Sequence[Value | Table] = [builder.input] if tables is None else tables
        self.coordinates = np.zeros((0, 0))

    def draw(self, rows: int, kind: torch.dtype | None = None, far: bool = False) -> tuple[Tensor, ...]:
        """Return the inputs of the module for individuals whose ``coordinates`` are kept."""
        table = _table(self.module, self.builder.input.width, rows)
        if self.tables is None:
            if far:
                table[8:] *= 30
            table = table if kind is None else table.to(kind)
            self.coordinates = table.double().numpy()
            return (table,)
        domain = self.given.schema.domain("realizable")
        x = np.abs(table.double().numpy())  # of a block the largest becomes the category
        for start, stop in domain.blocks:
            x[:, start:stop] = x[:, start:stop] == x[:, start:stop].max(1, keepdims=True)
        low, high = np.maximum(domain.low, -1e3), np.minimum(domain.high, 1e3)
        numeric = domain.numeric
        x[:, numeric] = (low + (high - low) * np.minimum(x / 3, 1.0))[:, numeric]
        self.coordinates = domain.snap(x)
        return tuple(self._cells(each, kind or table.dtype) for each in self.tables)

    def _cells(self, table: Table, kind: torch.dtype) -> Tensor:
        """Return the cells of a table as a module sees them: numbers, and of categories the rows of an embedding."""
        read = [numbered(column) for column in table.columns]
        values = numbers_of(affine_of(required_values(read), self.builder.input.width, self.builder.allowance))
        cells = self.coordinates @ values.weight.T + values.bias
        chosen = [j for j, column in enumerate(table.columns) if isinstance(column, Choice)]
        cells[:, chosen] = np.rint(cells[:, chosen])
        made = torch.from_numpy(cells).reshape(-1, *table.shape)
        return made.long() if len(chosen) == len(read) and len(self.tables or ()) > 1 else made.to(kind)


def _looked_up(module: nn.Module, given: ReaderContext | None) -> _Drawn:
    """Return individuals for a module that looks up embeddings: of one table, or with an input for each column."""
    if given is None or given.schema is None:
        raise NetworkError(_EMBEDS)
    parameters = inspect.signature(module.forward).parameters.values()
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    raw = given if given.reads != "auto" or given.schema.inputs else replace(given, reads="raw")
    shapes: list[dict[str, tuple[int, ...]]] = [{"individuals": (0,)}]
    if len(names) > 1:
        shapes = [dict.fromkeys(names, ()), dict.fromkeys(names, (1,))]
    problem: NetworkError | None = None
    for each in shapes:
        builder, fed = feed(each, raw)
        tables = [table for table in fed.values() if isinstance(table, Table)]
        people = _Drawn(module, builder, tables, given)
        try:
            _run(module, *people.draw(BATCH))
        except NetworkError as error:
            problem = error
            continue
        return people
    assert problem is not None
    raise problem


def _confirm(module: nn.Module, graph: Graph, ending: Callable[[Tensor], Tensor], people: _Drawn, rows: int) -> None:
    """Compare the graph with a run of the module on random individuals, the later ones larger.

    Half precision is too coarse to tell functions apart, and single precision can be; a run in double decides.
    """
    kind = _table(module, 1).dtype
    tables = people.draw(rows, far=True)
    if kind not in (torch.float16, torch.bfloat16) and _agrees(module, graph, ending, people.coordinates, tables):
        return
    tables = tuple(each.double() if each.is_floating_point() else each for each in tables)
    exact = copy.deepcopy(module).double()
    if kind == torch.float64 or not _agrees(exact, graph, ending, people.coordinates, tables):
        raise NetworkError(
            "it gives other numbers than its trace: its forward is random, or depends on the data or the number of "
            f"rows in a way that cannot be seen; {_ADVICE}."
        )


def _agrees(
    module: nn.Module, graph: Graph, ending: Callable[[Tensor], Tensor], x: FloatArray, tables: Sequence[Tensor]
) -> bool:
    run = _run(module, *tables)
    own, step = run.reshape(len(x), -1).double(), torch.finfo(run.dtype).eps
    ours = ending(torch.from_numpy(graph.evaluate(x)))
    tolerance = max(1e-5, 1e4 * step) * (1.0 + own.abs().amax(1, keepdim=True))
    return own.shape == ours.shape and bool(((own - ours).abs() <= tolerance).all())


# -- archives


def _argument(entry: Any, program: _Program, operands: list[str]) -> Any:
    """Return the value of an argument, written as ``{"as_int": 3}`` or the like; add tensors' names to ``operands``."""
    if "name" in entry:
        entry = {"as_name": entry["name"]}
    ((kind, value),) = entry.items()
    match kind:
        case "as_none":
            return None
        case "as_name":
            operands.append(str(value))
            return program.get(str(value))
        case "as_tensor" | "as_optional_tensor" | "as_sym_int" | "as_sym_bool":
            return _argument(value, program, operands)
        case "as_tensors" | "as_optional_tensors" | "as_sym_ints":
            return [_argument(each, program, operands) for each in value]
        case "as_float" | "as_floats":
            return [float(each) for each in value] if isinstance(value, list) else float(value)
        case "as_scalar_type":
            return _KINDS.get(value, f"type {value}")
    return value  # plain numbers and texts; and layouts and devices, which no rule reads


def _names(outputs: Any) -> list[str]:
    names = []
    for entry in outputs:
        (value,) = entry.values()
        parts = value if isinstance(value, list) else [value]
        names += [str(each.get("name", each.get("as_name"))) for each in parts if isinstance(each, Mapping)]
    return names


def _size(entry: Mapping[str, Any]) -> int:
    return int(entry["as_int"]) if "as_int" in entry else 0


def _tensor(name: str, entry: Mapping[str, Any], content: Callable[[str], bytes], part: str) -> Tensor:
    """Return a tensor from its raw bytes."""
    meta = entry.get("tensor_meta")
    if entry.get("use_pickle", True) or not meta or meta["dtype"] not in _KINDS:
        raise FileError(
            f"Its parameter '{name}' is stored as a pickle or in an unknown type, which is not read; {_ADVICE}."
        )
    data = bytearray(content(f"data/{part}/{entry['path_name']}"))
    shape, strides = ([_size(each) for each in meta[key]] for key in ("sizes", "strides"))
    offset, kind = _size(meta["storage_offset"]), _KINDS[meta["dtype"]]
    flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if shape else offset
    if math.prod(shape) > MATRIX:
        raise NetworkError(f"its parameter '{name}' is larger than the supported size.")
    if min([*shape, *strides, offset], default=0) < 0 or (all(shape) and last >= len(flat)):
        raise FileError(f"Its parameter '{name}' is cut short.")
    return torch.as_strided(flat, shape, strides, offset)
