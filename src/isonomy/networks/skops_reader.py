"""Open a scikit-learn estimator that was saved by skops, a format without pickles.

**Safety.** skops lists the types that a file asks for before it makes any of them; only its own trusted ones, and three
parts of fitted networks, are accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isonomy.errors import FileError, needed
from isonomy.networks.graph import Read
from isonomy.networks.sklearn_reader import read_sklearn

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
    strange = [name for name in files.get_untrusted_types(file=path) if name not in _PARTS]
    if strange:
        raise FileError(f"'{path}' is not read: it asks for {', '.join(sorted(strange))}, which are not trusted types.")
    return read_sklearn(files.load(path, trusted=list(_PARTS)), **options)
