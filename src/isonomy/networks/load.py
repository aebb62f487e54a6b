"""Open a network file by its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from isonomy.errors import FileError
from isonomy.networks.graph import Graph, Head
from isonomy.networks.network import Network


def load_network(
    path: str | Path,
    *,
    head: Head | Literal["auto"] = "auto",
    output: str | None = None,
    name: str | None = None,
) -> Network:
    """Read a network from a file; the ending of its name tells the format.

    ``head`` is found at the end of the network unless it ends in one raw number; ``output`` chooses among
    several outputs; ``name`` defaults to the name of the file.
    """
    file = Path(path)
    kinds = ", ".join(sorted(_READERS))
    if file.suffix.lower() not in _READERS:
        raise FileError(f"'{file}' is not a kind of network file that can be read; these are: {kinds}.")
    if not file.is_file():
        raise FileError(f"There is no file '{file}'.")
    try:
        graph, found = _READERS[file.suffix.lower()](file, head, output)
    except OSError as error:
        raise FileError(f"'{file}' cannot be read: {error.strerror or error}.") from error
    return Network(graph, found, file.stem if name is None else name)


def _onnx(path: Path, head: Head | Literal["auto"], output: str | None) -> tuple[Graph, Head]:
    from isonomy.networks.onnx_reader import read_onnx

    return read_onnx(path, head=head, output=output)


_READERS: dict[str, Callable[[Path, Head | Literal["auto"], str | None], tuple[Graph, Head]]] = {".onnx": _onnx}
