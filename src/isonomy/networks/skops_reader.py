"""Open a scikit-learn estimator that was saved by skops, a format without pickles.

**Safety.** skops lists the types that a file asks for before it makes any of them; only its own trusted ones, and three
parts of fitted networks, are accepted. How much the file unpacks to is added up before that: every mention of an array
is read anew, and an array is made in the shape that its own first bytes say.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import FileError, needed
from isonomy.networks.graph import Read
from isonomy.networks.limits import check_archive, read_json, unpacked
from isonomy.networks.reading import member
from isonomy.networks.sklearn_reader import read_sklearn
from isonomy.population.toml import TEXT

# Parts of a fitted MLPClassifier or MLPRegressor that skops does not list itself: plain holders of numbers.
_PARTS = (
    "numpy.dtype",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.preprocessing._label.LabelBinarizer",
)


def read_skops(path: Path, **options: Any) -> Read:
    """The graph of the estimator in a skops file; an unknown type is refused before anything is made."""
    files = needed("skops.io", "sklearn", f"Reading '{path}'")
    _check_size(path)
    strange = [name for name in files.get_untrusted_types(file=path) if name not in _PARTS]
    if strange:
        raise FileError(f"'{path}' is not read: it asks for {', '.join(sorted(strange))}, which are not trusted types.")
    return read_sklearn(files.load(path, trusted=list(_PARTS)), **options)


def _check_size(path: Path) -> None:
    """Refuse what is larger than the file could honestly hold."""
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        waiting, size = [read_json(member(archive, "schema.json", TEXT), "description")], 0
        while waiting:
            part = waiting.pop()
            waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            if not isinstance(part, dict) or "file" not in part:
                continue
            if part.get("__loader__") == "SparseMatrixNode":  # an archive of its own
                raise FileError(f"'{path}' is not read: it holds a sparse matrix.")
            name = str(part["file"])
            size += _array_bytes(archive, name) if part.get("__loader__") == "NdArrayNode" else 0
            size += archive.getinfo(name).file_size
            if size > unpacked():
                raise FileError(f"'{path}' unpacks to more than the supported size.")


def _array_bytes(archive: zipfile.ZipFile, name: str) -> int:
    """What an array takes, as it says at its beginning."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(file)
    return math.prod(shape) * kind.itemsize
