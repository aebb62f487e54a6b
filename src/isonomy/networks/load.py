"""Open a network file by its kind: the ending of its name chooses the reader.

**Safety.** No reader executes anything that a file holds. Pickles (``.pkl``, ``.joblib``, whole torch modules) are
programs, so they are refused, whatever their name; parameters are read by formats that can hold nothing but numbers
and names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from isonomy.errors import AssumedHeadWarning, FileError, IsonomyError, NetworkError, ParameterError, needed, template
from isonomy.given import instance
from isonomy.networks.adapter import Reads, schema_adapter
from isonomy.networks.graph import Head, Read
from isonomy.networks.network import Network
from isonomy.population.schema import Schema

_LARGEST = 2**31  # bytes; a network that can be certified is far smaller


@dataclass(frozen=True)
class Options:
    """What a user can say about a file."""

    schema: Schema | None = None
    head: Head | Literal["auto"] = "auto"
    output: str | None = None
    activation: str | None = None
    reads: Reads = "auto"


def load_network(
    path: str | Path,
    schema: Schema | None = None,
    *,
    head: Head | Literal["auto"] = "auto",
    output: str | None = None,
    activation: str | None = None,
    reads: Reads = "auto",
    name: str | None = None,
) -> Network:
    """Read a network from a file; with a schema the network reads the schema's coordinates.

    ``head`` is found at the end of the network. One raw number may be a probability or an amount, so the head has to be
    said; several are taken as a softmax with an :class:`~isonomy.AssumedHeadWarning`, unless it is. ``output`` chooses
    among several outputs; ``activation`` is what a plain state dict does not say; ``reads`` tells raw columns from
    coordinates where neither names nor ``[model.inputs]`` do; ``name`` defaults to the name of the file.
    """
    network = open_network(path, schema, head=head, output=output, activation=activation, reads=reads, name=name)
    if network.assumed_head:
        warnings.warn(network.remark, AssumedHeadWarning, stacklevel=2)
    return network


def open_network(
    path: str | Path,
    schema: Schema | None = None,
    *,
    head: Head | Literal["auto"] = "auto",
    output: str | None = None,
    activation: str | None = None,
    reads: Reads = "auto",
    name: str | None = None,
) -> Network:
    """As :func:`load_network`, for callers who pass the network's ``remark`` on themselves."""
    instance("path", path, str | Path, "the path of a network file")
    instance("schema", schema, Schema | None, "None or a Schema")
    for parameter, value in (("output", output), ("activation", activation), ("name", name)):
        instance(parameter, value, str | None, "None or a text")
    if head not in ("auto", *get_args(Head)):
        raise ParameterError(template("head", f"auto or one of {', '.join(get_args(Head))}", head))
    if reads not in get_args(Reads):
        raise ParameterError(template("reads", f"one of {', '.join(get_args(Reads))}", reads))
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix in _REFUSED:
        raise FileError(f"'{file}' is not read: {_REFUSED[suffix]}")
    if suffix not in _READERS:
        kinds = ", ".join(sorted(_READERS))
        raise FileError(f"'{file}' is not a kind of network file that can be read; these are: {kinds}.")
    if not file.is_file():
        raise FileError(f"There is no file '{file}'.")
    try:
        if file.stat().st_size > _LARGEST:
            raise FileError(f"'{file}' is larger than {_LARGEST >> 30} GiB, more than a network that can be certified.")
        read, adapted = _READERS[suffix](file, Options(schema, head, output, activation, reads))
    except OSError as error:
        raise FileError(f"'{file}' cannot be read: {error.strerror or error}.") from error
    network = Network(read.graph, read.head, file.stem if name is None else name, read.assumed)
    if schema is None or adapted:
        return network
    try:
        return network.adapted(schema_adapter(schema, network.input_width, reads=reads))
    except NetworkError as error:
        raise type(error)(f"{file.name}: {error}") from None


def guarded(path: Path, kind: str, read: Callable[[], Read]) -> Read:
    """Run a reader; whatever a damaged file breaks becomes one sentence."""
    try:
        return read()
    except (NetworkError, FileError) as error:
        named = path.name in str(error)
        raise type(error)(one_line(str(error) if named else f"{path.name}: {error}")) from error.__cause__
    except IsonomyError:
        raise
    except Exception as error:  # a damaged file can break a parser anywhere
        reason = one_line(f"{type(error).__name__}: {error}")
        raise FileError(f"'{path}' is damaged or not {kind} ({reason}).") from error


def one_line(message: str) -> str:
    """A message whose parts come from a file, in one printable line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return text if len(text) <= 2000 else f"{text[:2000]}..."


_Result = tuple[Read, bool]  # and whether the graph reads the schema's coordinates already


def _onnx(path: Path, options: Options) -> _Result:
    from isonomy.networks.onnx_reader import read_onnx

    read = read_onnx(path, schema=options.schema, head=options.head, output=options.output, reads=options.reads)
    return read, options.schema is not None


def _keras(path: Path, options: Options) -> _Result:
    from isonomy.networks.keras_reader import read_keras

    def read() -> Read:
        schema, head, output, reads = options.schema, options.head, options.output, options.reads
        return read_keras(path, schema=schema, head=head, output=output, reads=reads)

    return guarded(path, "a Keras network", read), options.schema is not None


def _nnet(path: Path, options: Options) -> _Result:
    from isonomy.networks.nnet_reader import read_nnet

    return guarded(path, "a .nnet network", lambda: read_nnet(path, options.head)), False


def _state(path: Path, options: Options) -> _Result:
    needed("torch", "torch", f"Reading '{path}' safely")
    from isonomy.networks.state_reader import read_state

    return guarded(path, "a torch state dict", lambda: read_state(path, options.activation, options.head)), False


def _pt2(path: Path, options: Options) -> _Result:
    needed("torch", "torch", f"Reading '{path}'")
    from isonomy.networks.pt2_reader import read_pt2

    return guarded(path, "a torch.export archive", lambda: read_pt2(path, options.head)), False


def _skops(path: Path, options: Options) -> _Result:
    from isonomy.networks.sklearn_reader import read_sklearn
    from isonomy.networks.skops_reader import open_skops

    def read() -> Read:
        return read_sklearn(open_skops(path), options.schema, head=options.head, reads=options.reads)

    return guarded(path, "a skops file", read), options.schema is not None


_READERS: dict[str, Callable[[Path, Options], _Result]] = {
    ".onnx": _onnx,
    ".h5": _keras,
    ".hdf5": _keras,
    ".keras": _keras,
    ".nnet": _nnet,
    ".pt": _state,
    ".pth": _state,
    ".pt2": _pt2,
    ".skops": _skops,
}

_PICKLE = (
    "a pickle is a program, and opening it would run it; save a scikit-learn model with skops (skops.io.dump) or "
    "skl2onnx, a torch model as ONNX or as its state dict, or pass the model itself to Network.from_sklearn or "
    "Network.from_torch."
)
_TREES = "boosted trees are not supported; networks and linear models are."
_REFUSED: dict[str, str] = {
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".p", ".sav"), _PICKLE),
    **dict.fromkeys((".xgb", ".ubj", ".cbm", ".lgb"), _TREES),
    **dict.fromkeys((".pb", ".tflite"), "export it to ONNX with tf2onnx, or save it as .keras or .h5."),
    ".safetensors": "it holds weights without their order; save the state dict with torch.save, or export to ONNX.",
}
