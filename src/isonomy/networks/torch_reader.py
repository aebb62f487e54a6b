"""Read a ``torch.nn.Module`` by symbolic tracing (torch.fx).

A copy of the module in evaluation mode is traced; the trace is then interpreted with a small table of
individuals in mind. Whatever depends on parameters alone is computed by torch itself.

**Soundness.** Only operations in the tables of :mod:`isonomy.networks.torch_rules` are accepted, by their
exact type. At the end the graph is compared with a run of the module: a disagreement is an error.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError, template
from isonomy.networks.build import Builder, Value
from isonomy.networks.graph import Graph, Head, Read
from isonomy.networks.torch_rules import FUNCTIONS, LAYOUTS, MODULES

_BATCH = 3  # individuals in the table that is kept in mind; more than one, so that mixing them is noticed


def read_torch(module: nn.Module, *, width: int | None = None, head: Head | Literal["auto"] = "auto") -> Read:
    """The graph of a module up to its raw outputs, and its head."""
    if not isinstance(module, nn.Module):
        raise ParameterError(template("module", "a torch.nn.Module", type(module).__name__))
    try:
        frozen = copy.deepcopy(module).cpu().eval()
        # A single layer is traced inside a container, else the tracer would look into torch's own code.
        target = nn.Sequential(frozen) if fx.Tracer().is_leaf_module(frozen, "") else frozen
        trace = fx.Tracer().trace(target, concrete_args=_defaults(target))
    except Exception as error:  # tracing runs the user's code, which can fail in any way
        raise NetworkError(
            f"{type(module).__name__} cannot be traced ({_first_line(error)}): its forward must not branch "
            "on the data; export it to ONNX instead."
        ) from error
    modules = dict(target.named_modules())
    columns = _first_width(trace, modules) if width is None else width
    if not isinstance(columns, int) or columns < 1:
        raise ParameterError(template("width", "the number of features the module reads", width))
    builder = Builder((columns,), _BATCH)
    with torch.no_grad():
        output = _interpret(builder, trace, target, modules)
        if not isinstance(output, Value):
            got = type(output).__name__
            raise NetworkError(f"{type(module).__name__} must return one tensor of its input. Got {got}.")
        read = builder.finish(output, head)
        _confirm(frozen, read.graph, _ENDINGS[builder.ending])
    return read


def _interpret(builder: Builder, trace: fx.Graph, root: nn.Module, modules: dict[str, nn.Module]) -> Any:
    """Walk through the trace; each node becomes a :class:`Value` or a constant."""
    known: dict[fx.Node, Any] = {}
    fed = False
    for node in trace.nodes:
        builder.at = node.name
        args = fx.node.map_arg(node.args, known.__getitem__)
        kwargs = fx.node.map_arg(node.kwargs, known.__getitem__)
        if node.op == "output":
            return args[0]
        if node.op == "get_attr":
            known[node] = operator.attrgetter(str(node.target))(root)
        elif node.op == "placeholder":
            if fed and not args:
                raise NetworkError(f"The module needs a second input '{node.name}'; one table is expected.")
            known[node] = args[0] if fed else builder.input
            fed = True
        else:
            known[node] = _call(builder, node, modules, args, kwargs)
    raise NetworkError("The module returns nothing.")


def _call(
    builder: Builder,
    node: fx.Node,
    modules: dict[str, nn.Module],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """One operation, by its rule in the tables, or by torch itself when it depends on constants alone."""
    module = modules[str(node.target)] if node.op == "call_module" else None
    if module is not None:
        kind: Any = type(module).__mro__[1] if parametrize.is_parametrized(module) else type(module)
        label, rule = kind.__name__, MODULES.get(kind)
        if module._forward_hooks or module._forward_pre_hooks:
            raise NetworkError(f"Module '{node.target}' has a forward hook; remove it, or export to ONNX.")
        args = (*args, module)
    else:
        label, rule = getattr(node.target, "__name__", str(node.target)), FUNCTIONS.get(node.target)
        if node.op == "call_method":
            method = operator.methodcaller(str(node.target), *args[1:], **kwargs)
    name = str(node.target) if module is not None else node.name
    try:
        if not _values((args, kwargs)):
            if module is not None:
                return module(*args[:-1], **kwargs)
            return method(args[0]) if node.op == "call_method" else node.target(*args, **kwargs)  # type: ignore[operator]
        if rule is not None:
            return rule(builder, *args, **kwargs)
        if module is None and node.target in LAYOUTS:
            return _layout(builder, node, args, kwargs)
    except NetworkError as error:
        raise type(error)(f"Node '{name}' ({label}): {error}") from None
    except Exception as error:
        raise NetworkError(f"Node '{name}' ({label}) cannot be read: {_first_line(error)}.") from error
    listed = {kind.__name__ for kind in MODULES}
    listed |= {_label(key) for key in (*FUNCTIONS, *LAYOUTS) if not _label(key).endswith("_")}
    raise UnsupportedOperationError(
        f"Node '{name}' ({label}) is not supported; supported are: {', '.join(sorted(listed))}."
    )


def _layout(builder: Builder, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let torch itself move an array of positions."""
    value, *others = _values((args, kwargs))
    if others:
        raise NetworkError("a layout operation must read one tensor.")
    positions = torch.from_numpy(builder.positions(value))
    moved_args, moved_kwargs = (
        fx.node.map_aggregate(each, lambda leaf: positions if isinstance(leaf, Value) else leaf)
        for each in (args, kwargs)
    )
    if node.op == "call_method":
        result = getattr(moved_args[0], str(node.target))(*moved_args[1:], **moved_kwargs)  # type: ignore
    else:
        result = node.target(*moved_args, **moved_kwargs)  # type: ignore
    if isinstance(result, Tensor):
        return builder.placed(value, result.numpy())
    return tuple(builder.placed(value, each.numpy()) for each in result)


# -- helpers


def _values(tree: Any) -> list[Value]:
    """The tensors of the individual among arguments."""
    found: list[Value] = []
    fx.node.map_aggregate(tree, lambda leaf: found.append(leaf) if isinstance(leaf, Value) else None)
    return found


def _defaults(module: nn.Module) -> dict[str, Any]:
    """Optional arguments of ``forward`` keep their default values."""
    parameters = list(inspect.signature(module.forward).parameters.values())[1:]
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def _first_width(trace: fx.Graph, modules: dict[str, nn.Module]) -> int:
    """How many features the first layer reads, as long as nothing before it changes their number."""
    passing = {torch.flatten, "flatten", "float", "double", "to", "contiguous"}
    passing |= {operator.add, operator.sub, operator.mul, operator.truediv, torch.add, torch.sub, torch.mul}
    same: set[fx.Node] = set()
    for node in trace.nodes:
        if node.op == "placeholder":
            same.add(node)
        elif node.all_input_nodes and node.all_input_nodes[0] in same:
            module = modules[str(node.target)] if node.op == "call_module" else None
            for attribute in ("in_features", "num_features"):
                if isinstance(module, nn.Linear | nn.BatchNorm1d) and hasattr(module, attribute):
                    return int(getattr(module, attribute))
            if (type(module) in MODULES and not isinstance(module, nn.Unflatten)) or node.target in passing:
                same.add(node)
    raise NetworkError("The number of features cannot be seen from the first layer: say width=...")


_ENDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "raw": lambda z: z,
    "softmax": lambda z: torch.softmax(z, 1),
    "log_softmax": lambda z: torch.log_softmax(z, 1),
    "sigmoid": torch.sigmoid,
    "both": lambda z: torch.sigmoid(torch.cat([-z, z], 1)),
}


def _confirm(module: nn.Module, graph: Graph, ending: Callable[[Tensor], Tensor]) -> None:
    """Compare the graph with a run of the module on a few random individuals."""
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64)
    if kind in (torch.float16, torch.bfloat16):  # too coarse to tell one function from another
        module, kind = copy.deepcopy(module).double(), torch.float64
    x = torch.randn(8, graph.input_width, generator=torch.Generator().manual_seed(0)).to(kind)
    try:
        own = module(x).reshape(len(x), -1).to(torch.float64)
    except Exception as error:
        raise NetworkError(f"{type(module).__name__} does not run: {_first_line(error)}.") from error
    ours = ending(torch.from_numpy(graph.evaluate(x.numpy())))
    scale = 1.0 + float(own.abs().max())
    tolerance = max(1e-5, 1e4 * torch.finfo(kind).eps) * scale
    if own.shape != ours.shape or not float((own - ours).abs().max()) <= tolerance:
        raise NetworkError(
            f"{type(module).__name__} gives other numbers than its trace: its forward is random, depends on "
            "the data in a way that cannot be seen, or changes a tensor in place. Export it to ONNX instead."
        )


def _label(key: Any) -> str:
    return key if isinstance(key, str) else str(getattr(key, "__name__", key))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}".rstrip(".: ")
