"""Read an HDF5 file without trusting it: the HDF5 library runs in a process of its own, with a time limit."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import FileError
from isonomy.networks.builder import Constant
from isonomy.networks.limits import unpacked
from isonomy.population.toml import TEXT

_SECONDS = 60


@dataclass(frozen=True)
class Stored:
    """The arrays of a file by their path, and the texts attached to groups."""

    arrays: Mapping[str, Constant]
    attributes: Mapping[str, Mapping[str, Any]]
    strangers: tuple[str, ...]

    def __contains__(self, path: str) -> bool:
        return path in self.attributes

    def array(self, path: str) -> Constant:
        """An array of numbers that the file itself holds."""
        if any(path == each or path.startswith(f"{each}/") for each in self.strangers):
            raise FileError(f"Its '{path}' is a link, kept elsewhere, or no numbers, and is not read.")
        if path not in self.arrays:
            raise FileError(f"Its array '{path}' is missing.")
        return self.arrays[path]

    def text(self, path: str, name: str) -> Any:
        """A text, or list of texts, attached to a group; None when there is none."""
        return self.attributes.get(path, {}).get(name)


def read_hdf5(source: Path | bytes) -> Stored:
    """The contents of a file, or of a file in memory."""
    if importlib.util.find_spec("h5py") is None:
        raise FileError("It needs the package h5py: pip install isonomy[keras].")
    script = str(Path(__file__).with_name("hdf5_dump.py"))
    name = "-" if isinstance(source, bytes) else str(source.resolve())
    # -P: the folder of the script, whose files have common names, is not searched for modules.
    command = [sys.executable, "-P", script, name, str(unpacked()), str(TEXT)]
    try:
        done = subprocess.run(
            command,
            input=source if isinstance(source, bytes) else b"",
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # threads' stacks would count as memory
        )
    except subprocess.TimeoutExpired:
        raise FileError(f"It is damaged: the HDF5 library did not finish within {_SECONDS} seconds.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        if lines and lines[-1].endswith("than the supported size"):
            raise FileError("Its arrays or texts are larger than the supported size.")
        raise FileError(f"It is damaged or not an HDF5 file ({lines[-1] if lines else 'the library crashed'}).")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as content:
        texts = {key: json.loads(str(content[f":{key}"])) for key in ("names", "attributes", "strangers")}
        arrays = {path: content[f"a{i}"] for i, path in enumerate(texts["names"])}
    return Stored(arrays, texts["attributes"], tuple(texts["strangers"]))
