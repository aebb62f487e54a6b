"""What every model must keep: a test class inherits `ModelContract` and gives ``model()`` and ``people()``."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import numpy as np

from isonomy.model import HeadName, Model


class ModelContract:
    """Answers that depend on nothing but the individual, and a hash that depends on the function alone."""

    @staticmethod
    def model() -> Any:
        raise NotImplementedError

    @staticmethod
    def people() -> np.ndarray:
        """A few individuals (n, input_width)."""
        raise NotImplementedError

    def test_it_is_a_model(self) -> None:
        model = self.model()
        assert isinstance(model, Model) and model.kind and model.name
        assert model.head in get_args(HeadName) and model.input_width == self.people().shape[1]

    def test_answers_are_probabilities_or_numbers_of_each_individual(self) -> None:
        model, x = self.model(), self.people()
        before, found = x.copy(), model(x)
        assert found.dtype == np.float64 and len(found) == len(x) and np.isfinite(found).all()
        assert (x == before).all()
        if model.head != "regression":
            assert ((found >= 0) & (found <= 1)).all()
        if model.head == "softmax" or (model.head == "sigmoid" and model.classes == 1):
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
        alone = np.concatenate([model(x[i : i + 1]) for i in range(len(x))])
        np.testing.assert_allclose(alone, found, rtol=1e-12, atol=1e-15)

    def test_another_process_asks_the_same_function(self) -> None:
        model, x = self.model(), self.people()
        copy = pickle.loads(pickle.dumps(model))
        assert copy.hash() == model.hash() == self.model().hash() and len(model.hash()) == 64
        assert (copy(x) == model(x)).all()
