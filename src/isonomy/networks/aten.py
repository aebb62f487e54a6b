"""Programs of ATen operations, which live torch modules and ``torch.export`` archives both are.

**Soundness.** Only operations in the tables below are accepted, by their name in ATen, each exactly the function that
torch computes. A tensor that was changed in place through another name is not read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import operations
from isonomy.networks.builder import Builder, Value, numbers
from isonomy.networks.graph import Head, Read
from isonomy.networks.limits import MATRIX
from isonomy.networks.reading import reading

ADVICE = "export the model to ONNX instead"


class Program:
    """The tensors known so far by name; each is a :class:`Value` or a constant.

    ``storage`` tells which names may share memory. After an operation in place (``relu_``) only its result may be read.
    """

    def __init__(self, builder: Builder, *, trusted: bool = True) -> None:
        self.builder, self.trusted = builder, trusted
        self.known: dict[str, Any] = {}
        self.storage: dict[str, str] = {}
        self.stale: set[str] = set()

    def get(self, name: str) -> Any:
        """What a name stands for."""
        if name in self.stale:
            raise NetworkError(f"'{name}' is read after a part of it was changed in place; {ADVICE}.")
        return self.known[name]

    def storage_of(self, name: str) -> str:
        """The name of the memory that a tensor is kept in."""
        return self.storage.setdefault(name, name)

    def step(
        self,
        target: str,
        arguments: dict[str, Any],
        outputs: Sequence[str],
        operands: Sequence[str],
        layer: tuple[str, str],
    ) -> None:
        """One operation, of a layer ``(path, class)``; ``operands`` are the names of what it reads."""
        written, _, overload = target.removeprefix("torch.ops.aten.").partition(".")
        in_place = written.endswith("_") and not written.startswith("_")
        name = written.rstrip("_") if in_place else written
        self.builder.at = next(iter(outputs), written)
        label = written
        if layer[0] and layer[1].startswith("torch.nn.modules."):
            self.builder.at, label = layer[0], layer[1].rpartition(".")[2]
        where = f"node '{self.builder.at}' ({label})"
        if not target.startswith("torch.ops.aten.") or not (name in _RULES or name in _LAYOUTS):
            listed = ", ".join(sorted({*_RULES, *_LAYOUTS}))
            raise UnsupportedOperationError(
                f"{where} is not supported; supported are: Linear, BatchNorm1d, Dropout, Flatten, Softmax at the end, "
                f"activations, and of the operations of ATen {listed}."
            )
        with reading(where):
            move = name in _LAYOUTS
            result = self._moved(name, overload, arguments) if move else _RULES[name](self.builder, **arguments)
        results = result if isinstance(result, tuple) else (result,)
        self.known |= dict(zip(outputs, results if len(outputs) > 1 else [result], strict=False))
        if operands and (in_place or move or name in _SAME):
            shared = self.storage_of(operands[0])
            if in_place:
                self.stale |= {each for each in self.known if self.storage_of(each) == shared} - set(outputs)
            self.storage |= dict.fromkeys(outputs, shared)

    def _moved(self, name: str, overload: str, arguments: dict[str, Any]) -> Any:
        """Let torch itself move an array of positions."""
        value = arguments["self"]
        others = pytree.tree_leaves([each for key, each in arguments.items() if key != "self"])
        if not isinstance(value, Value | Tensor) or any(isinstance(each, Value) for each in others):
            raise NetworkError("only its data may depend on the individual.")
        packet = getattr(torch.ops.aten, name)
        if overload not in packet.overloads():
            raise UnsupportedOperationError(f"there is no variant '{overload}' of it.")
        call = getattr(packet, overload)
        moved = torch.from_numpy(self.builder.positions(value)) if isinstance(value, Value) else value
        arguments = arguments | {"self": moved}
        if not self.trusted:  # a damaged file may ask for anything
            plan = call(**pytree.tree_map_only(Tensor, lambda each: each.to("meta"), arguments))
            if any(each.numel() > MATRIX for each in pytree.tree_leaves(plan)):
                raise NetworkError("the tensor that it asks for is larger than the supported size.")
        result = call(**arguments)
        if not isinstance(value, Value):
            return result
        if isinstance(result, Tensor):
            return self.builder.placed(value, result.numpy())
        return tuple(self.builder.placed(value, each.numpy()) for each in result)

    def finish(self, outputs: Sequence[Any], head: Head | Literal["auto"]) -> Read:
        """The graph up to the raw outputs, and its head."""
        if len(outputs) != 1 or not isinstance(outputs[0], Value):
            raise NetworkError("one output that depends on the input is expected.")
        return self.builder.finish(outputs[0], head)


def _activation(kind: str) -> Callable[..., Value]:
    return lambda builder, self, **_: builder.activation(self, kind)


def _linear(builder: Builder, input: Any, weight: Any, bias: Any = None) -> Value:
    if not isinstance(input, Value) or isinstance(weight, Value) or isinstance(bias, Value):
        raise UnsupportedOperationError("a layer whose weights depend on the individual is not supported.")
    return builder.matmul(input, numbers(weight).T, None if bias is None else numbers(bias))


def _two(method: str) -> Callable[..., Value]:
    """A rule of two operands."""

    def rule(builder: Builder, self: Any, other: Any, *, alpha: float = 1, rounding_mode: None = None) -> Value:
        if rounding_mode is not None:
            raise UnsupportedOperationError("a division that rounds is not supported.")
        if not isinstance(self, Value) and not isinstance(other, Value):
            raise UnsupportedOperationError("an operation on constants alone is not supported.")
        if method == "add_scaled":
            return builder.add_scaled(self, other, alpha)
        return getattr(builder, method)(self, other)  # type: ignore[no-any-return]

    return rule


def _batch_norm(builder: Builder, input: Value, training: bool = False, **arguments: Any) -> Value:
    mean, variance, scale, bias = (arguments.get(key) for key in ("running_mean", "running_var", "weight", "bias"))
    if training or mean is None or variance is None:
        raise NetworkError("the normalisation has no stored statistics, so individuals influence each other.")
    return builder.normalise(input, mean, variance, scale, bias, epsilon=arguments.get("eps", 1e-5))


def _prelu(builder: Builder, self: Value, weight: Any) -> Value:
    slopes = numbers(weight)  # one, or one for each channel
    return operations.prelu(builder, self, slopes.reshape(-1, *[1] * max(len(self.shape) - 1, 0)))


def _softmax(kind: str) -> Callable[..., Value]:
    return lambda builder, self, dim, **_: builder.softmax(self, dim, kind)


def _converted(builder: Builder, self: Value, dtype: Any = None, other: Any = None, **_: Any) -> Value:
    wanted = other.dtype if isinstance(other, Tensor) and dtype is None else dtype
    if wanted not in (None, torch.float32, torch.float64):
        raise UnsupportedOperationError(f"a conversion to {wanted} is not supported.")
    return self


def _same(builder: Builder, self: Value, **_: Any) -> Value:
    return self


def _dropout(builder: Builder, input: Value, p: float, train: bool) -> Value:
    return operations.dropout(input, train and p > 0)


# Operations whose result is their first operand, and may share its memory.
_SAME: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("contiguous", "alias", "detach", "lift_fresh_copy"), _same),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _converted),
    **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"), _dropout),
}

_RULES: dict[str, Callable[..., Any]] = _SAME | {
    "clone": _same,
    "_assert_tensor_metadata": lambda builder, **_: None,
    "linear": _linear,
    "matmul": lambda builder, self, other: operations.matmul(builder, self, other),
    "mm": lambda builder, self, mat2: operations.matmul(builder, self, mat2),
    "addmm": lambda builder, self, mat1, mat2, **scales: operations.gemm(builder, mat1, mat2, self, **scales),
    "add": _two("add_scaled"),
    "sub": lambda builder, self, other, alpha=1: _two("add_scaled")(builder, self, other, alpha=-alpha),
    "rsub": lambda builder, self, other, alpha=1: builder.add_scaled(builder.scaled(self, -alpha), other, 1.0),
    "mul": _two("multiply"),
    **dict.fromkeys(("div", "true_divide"), _two("divide")),
    "reciprocal": lambda builder, self: builder.divide(1.0, self),
    "neg": lambda builder, self: builder.scaled(self, -1.0),
    "pow": lambda builder, self, exponent: operations.power(builder, self, exponent),
    "square": lambda builder, self: operations.power(builder, self, 2),
    **{kind: _activation(kind) for kind in ("relu", "sigmoid", "tanh", "erf", "silu", "hardswish")},
    **{"special_expit": _activation("sigmoid"), "special_erf": _activation("erf")},
    "gelu": lambda builder, self, approximate="none": operations.gelu(builder, self, approximate),
    "selu": lambda builder, self: operations.selu(builder, self),
    "softplus": lambda builder, self, beta=1.0, threshold=20.0: operations.softplus(builder, self, beta, threshold),
    "leaky_relu": lambda builder, self, negative_slope=0.01: builder.activation(self, "leaky_relu", negative_slope),
    "elu": lambda builder, self, alpha=1.0: builder.activation(self, "elu", alpha),
    "prelu": _prelu,
    **dict.fromkeys(
        ("clamp", "clip"), lambda builder, self, min=None, max=None: operations.clip(builder, self, min, max)
    ),
    "clamp_min": lambda builder, self, min: operations.clip(builder, self, low=min),
    "clamp_max": lambda builder, self, max: operations.clip(builder, self, high=max),
    "hardtanh": lambda builder, self, min_val=-1, max_val=1: operations.clip(builder, self, min_val, max_val),
    "relu6": lambda builder, self: operations.clip(builder, self, 0.0, 6.0),
    **dict.fromkeys(("softmax", "_softmax"), _softmax("softmax")),
    **dict.fromkeys(("log_softmax", "_log_softmax"), _softmax("log_softmax")),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("cat", "concat"), lambda builder, tensors, dim=0: builder.concat(tensors, dim)),
    "stack": lambda builder, tensors, dim=0: operations.stack(builder, tensors, dim),
    "sym_size": lambda builder, self, dim: (builder.batch, *self.shape)[dim],
}

# Run by torch itself on an array of positions; they only move or repeat entries.
_LAYOUTS = (
    *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "t", "swapaxes", "movedim", "squeeze"),
    *("unsqueeze", "expand", "slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "flip"),
    *("index", "index_select"),
)
