"""Open a network file by its kind: the ending of its name chooses the reader.

**Safety.** No reader executes anything that a file holds. Pickles (``.pkl``, ``.joblib``, whole torch modules) are
programs, so they are refused, whatever their name; parameters are read by formats that can hold nothing but numbers
and names.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from isonomy.errors import AssumedHeadWarning, FileError, NetworkError, ParameterError, needed, template
from isonomy.given import choice, instance
from isonomy.networks.graph import HeadChoice
from isonomy.networks.inputs import ReaderContext, Reads, adapter
from isonomy.networks.limits import FILE, reading_file
from isonomy.networks.network import Network
from isonomy.networks.preprocessing import Noted
from isonomy.networks.unread import TREES, model_in
from isonomy.population.schema import Schema

OPTIONS = ("head", "output", "activation", "reads")
"""How a file is read: with the same options it gives the same network again."""


def load_model(source: Any, schema: Schema | None = None, *, head: HeadChoice = "auto") -> Network:
    """Return the network of a ``source``: a path, a torch module, a fitted scikit-learn estimator or pipeline, or a
    network as it is.

    With a ``schema`` it reads the schema's coordinates. ``head`` is as for :func:`load_network`, which has more options
    for files; so have :meth:`Network.from_torch` and :meth:`Network.from_sklearn` for live objects.
    """
    if isinstance(source, Network):
        if head not in ("auto", source.head):
            raise NetworkError(f"'{source.name}' has the head '{source.head}', so head='{head}' cannot be.")
        return source
    if isinstance(source, str | Path):
        return load_network(source, schema, head=head)
    if callable(getattr(source, "state_dict", None)):
        return Network.from_torch(source, schema, head=head)
    if callable(getattr(source, "predict", None)):
        return Network.from_sklearn(source, schema, head=head)
    expected = "a path, a torch module, a fitted scikit-learn estimator or a Network"
    raise ParameterError(template("source", expected, type(source).__name__))


def load_network(
    path: str | Path,
    schema: Schema | None = None,
    *,
    head: HeadChoice = "auto",
    output: str | None = None,
    activation: str | None = None,
    reads: Reads = "auto",
    name: str | None = None,
) -> Network:
    """Read a network from the file at ``path``; with a ``schema`` it reads the schema's coordinates.

    ``head`` is read from the end of the network. One raw number may be a probability or an amount, so the head has to
    be given; several are taken as a softmax with an :class:`~isonomy.AssumedHeadWarning`, unless it is. ``output``
    chooses among several outputs; ``activation`` is what a plain state dict does not say; ``reads`` tells raw columns
    from coordinates where neither names nor ``[model.inputs]`` do; ``name`` defaults to the name of the file.
    """
    options: dict[str, Any] = {"head": head, "output": output, "activation": activation, "reads": reads}
    network = open_network(path, schema, name=name, **options)
    if network.assumed_head:
        warnings.warn(network.remark, AssumedHeadWarning, stacklevel=2)
    return network


def open_network(
    path: str | Path,
    schema: Schema | None = None,
    *,
    name: str | None = None,
    noted: Noted | None = None,
    **options: Any,
) -> Network:
    """Read a network as :func:`load_network` does, for callers who pass its ``remark`` on themselves; with ``noted``
    only for the categories that it knows."""
    instance("path", path, str | Path, "the path of a network file")
    given = {"head": "auto", "output": None, "activation": None, "reads": "auto"} | options
    instance("schema", schema, Schema | None, "None or a Schema")
    for parameter, value in (("output", given["output"]), ("activation", given["activation"]), ("name", name)):
        instance(parameter, value, str | None, "None or a text")
    choice("head", given["head"], HeadChoice)
    choice("reads", given["reads"], Reads)
    file = Path(path)
    suffix = file.suffix.lower()
    if file.is_file() and (other := model_in(file)):
        raise FileError(f"'{file}' is {other}.")
    if suffix in _REFUSED:
        raise FileError(f"'{file}' is not read: {_REFUSED[suffix]}")
    if suffix not in FORMATS:
        if _begins_as_pickle(file):
            raise FileError(f"'{file}' is not read: {_PICKLE}")
        kinds = f"{', '.join(sorted(FORMATS))}; trees: .json or .ubj of XGBoost, .txt of LightGBM, .json of CatBoost"
        raise FileError(f"'{file}' is not a kind of network file that can be read; these are: {kinds}.")
    if not file.is_file():
        raise FileError(f"There is no file '{file}'.")
    kind, reader, used = FORMATS[suffix]
    if "torch" in kind:
        needed("torch", "torch", f"Reading '{file}'")
    with reading_file(file, kind) as allowance:
        if file.stat().st_size > FILE:
            raise FileError(f"'{file}' is larger than {FILE >> 30} GiB, more than a network that can be certified.")
        module, _, function = reader.partition(".")
        asked = ReaderContext(schema, given["reads"], allowance, noted)
        options = {option: given[option] for option in used if option != "reads"}
        read = getattr(import_module(f"isonomy.networks.{module}"), function)(file, asked, **options)
        opened = {option: given[option] for option in OPTIONS}
        network = Network.of(read, file.stem if name is None else name, opened)
        if schema is None or "reads" in used or read.on_schema:  # the graph reads the schema's coordinates already
            return network
        return network.adapted(adapter(asked, network.input_width))


def _begins_as_pickle(file: Path) -> bool:
    """Return whether a file begins as a pickle does, whatever its name."""
    try:
        with file.open("rb") as opened:
            return opened.read(1) == b"\x80"
    except OSError:
        return False


# ending -> what it is, its reader (module and function), and what the reader wants to know
_KERAS = ("a Keras network", "keras_reader.read_keras", ("head", "output", "reads"))
_STATE = ("a torch state dict", "state_reader.read_state", ("activation", "head"))
FORMATS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    ".onnx": ("an ONNX network", "onnx_reader.read_onnx", ("head", "output", "reads")),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), _KERAS),
    **dict.fromkeys((".pt", ".pth"), _STATE),
    ".pt2": ("a torch.export archive", "torch_reader.read_pt2", ("head",)),
    ".skops": ("a skops file", "sklearn_reader.read_skops", ("head", "reads")),
}

_PICKLE = (
    "a pickle is a program, and opening it would run it; save a scikit-learn model with skops (skops.io.dump) or "
    "skl2onnx, a torch model as ONNX or as its state dict; or, where you trust the file, load it yourself and pass the "
    "model: isonomy.audit(joblib.load(path), frame)."
)
_REFUSED: dict[str, str] = {
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".p", ".sav"), _PICKLE),
    **dict.fromkeys((".xgb", ".ubj", ".cbm", ".lgb"), f"its name says boosted trees, and {TREES}."),
    **dict.fromkeys((".pb", ".tflite"), "export it to ONNX with tf2onnx, or save it as .keras or .h5."),
    ".safetensors": "it holds weights without their order; save the state dict with torch.save, or export to ONNX.",
}
