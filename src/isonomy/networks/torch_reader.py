"""Read a ``torch.nn.Module``: a copy in evaluation mode is exported on a small table of individuals.

**Soundness.** What depends on individuals is read by the rules of :mod:`isonomy.networks.aten`, what depends on
parameters alone is computed by torch itself, and in the end the graph is compared with a run of the module: a
disagreement is an error.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from isonomy.errors import NetworkError, ParameterError, template
from isonomy.networks.aten import ADVICE, Program
from isonomy.networks.builder import BATCH, Builder, Value
from isonomy.networks.graph import Graph, Head, Read
from isonomy.networks.reading import one_line, reading


def read_torch(module: nn.Module, *, width: int | None = None, head: Head | Literal["auto"] = "auto") -> Read:
    """The graph of a module up to its raw outputs, and its head."""
    if not isinstance(module, nn.Module):
        raise ParameterError(template("module", "a torch.nn.Module", type(module).__name__))
    if width is not None and (not isinstance(width, int) or width < 1):
        raise ParameterError(template("width", "the number of features the module reads", width))
    label = type(module).__name__
    for name, part in module.named_modules():
        if part._forward_hooks or part._forward_pre_hooks:
            raise NetworkError(f"Module '{name or label}' has a hook, which can make other numbers; {ADVICE}.")
    with torch.no_grad(), reading(label):
        frozen = copy.deepcopy(module).cpu().eval()
        columns = _seen_width(frozen) if width is None else width
        _run(frozen, _table(frozen, columns))
        try:
            exported = torch.export.export(frozen, (_table(frozen, columns),), strict=False)
        except Exception as error:  # exporting runs the user's code, which can fail in any way
            reason = one_line(f"{type(error).__name__}: {error}")[:300]
            raise NetworkError(f"it cannot be exported, as its forward must not branch on data ({reason}).") from error
        program = Program(Builder((columns,)))
        stored = {**exported.state_dict, **exported.constants}
        for spec in exported.graph_signature.input_specs:
            if isinstance(spec.arg, TensorArgument):
                program.known[spec.arg.name] = (
                    program.builder.input if spec.kind == InputKind.USER_INPUT else stored[str(spec.target)]
                )
        for node in exported.graph.nodes:
            if node.op == "call_function":
                _live_step(program, node)
            elif node.op == "output":
                read = program.finish([program.get(str(each)) for each in node.args[0]], head)
        _confirm(frozen, read.graph, _ENDINGS[program.builder.ending])
    return read


def _live_step(program: Program, node: fx.Node) -> None:
    """One node of an exported module, with its arguments by name."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: program.get(each.name))
    constant = not any(isinstance(each, Value) for each in pytree.tree_leaves((args, kwargs)))
    if node.target is operator.getitem or constant:  # by torch itself
        with reading(f"node '{node.name}'"):
            program.known[node.name] = node.target(*args, **kwargs)  # type: ignore[operator]
        program.storage[node.name] = program.storage_of(next(map(str, node.all_input_nodes), node.name))
        return
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema else [str(i) for i in range(len(args))]
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    layer = stack[-1] if stack else ("", "")
    operands = [each.name for each in node.all_input_nodes]
    program.step(
        f"torch.ops.{node.target}", dict(zip(names, args, strict=False)) | kwargs, [node.name], operands, layer
    )


def _table(module: nn.Module, width: int, rows: int = BATCH) -> Tensor:
    """Random individuals in the precision of the module."""
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(kind)


class _Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers which operation was asked for last."""

    last = "forward"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.last = str(func).split(".")[1]
        return func(*args, **(kwargs or {}))


def _run(module: nn.Module, table: Tensor) -> Tensor:
    """The outputs of the module itself."""
    watched = _Watched()  # type: ignore[no-untyped-call]
    try:
        with watched:
            result = module(table)
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}")[:300].rstrip(".")
        raise NetworkError(
            f"it does not run on {table.shape[1]} features: '{watched.last}' fails ({reason}); its features and "
            "weights must agree in width."
        ) from error
    if not isinstance(result, Tensor):
        raise NetworkError(f"it must return one tensor. Got {type(result).__name__}.")
    return result


def _seen_width(module: nn.Module) -> int:
    """The one width of a layer that the module runs on."""
    sizes = [getattr(part, name, None) for part in module.modules() for name in ("in_features", "num_features")]
    fitting = []
    for size in dict.fromkeys(size for size in sizes if isinstance(size, int)):
        try:
            _run(module, _table(module, size))
            fitting.append(size)
        except NetworkError:
            pass
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


def _confirm(module: nn.Module, graph: Graph, ending: Callable[[Tensor], Tensor]) -> None:
    """Compare the graph with a run of the module on a few random individuals."""
    x = _table(module, graph.input_width, 8)
    if x.dtype in (torch.float16, torch.bfloat16):  # too coarse to tell one function from another
        module, x = copy.deepcopy(module).double(), x.double()
    own = _run(module, x).reshape(len(x), -1).double()
    ours = ending(torch.from_numpy(graph.evaluate(x.double().numpy())))
    tolerance = max(1e-5, 1e4 * torch.finfo(x.dtype).eps) * (1.0 + float(own.abs().max()))
    if own.shape != ours.shape or not float((own - ours).abs().max()) <= tolerance:
        raise NetworkError(
            "it gives other numbers than its trace: its forward is random, or depends on the data in a way that cannot "
            f"be seen; {ADVICE}."
        )
