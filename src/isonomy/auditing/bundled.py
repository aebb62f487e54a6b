"""The network of the bundled audit: small, trained here and now on the training part."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from isonomy.errors import DataError
from isonomy.networks.network import Network
from isonomy.parallel import one_thread
from isonomy.population import Population

EPOCHS = 20


def train_small(people: Population, hidden: tuple[int, ...] = (32, 16), seed: int = 0) -> Network:
    """A plain classifier: cross-entropy, Adam, weight decay; deterministic by seed."""
    if people.y is None:
        raise DataError(f"The table of {people.schema.name!r} has no label column to learn from.")
    model = MLPClassifier(
        hidden,
        alpha=0.64,
        batch_size=min(64, len(people.x)),
        learning_rate_init=3e-3,
        max_iter=EPOCHS,
        random_state=seed,
    )
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many epochs and no more
        model.fit(people.x, np.asarray(people.y))
    return Network.from_sklearn(model, name="small classifier")
