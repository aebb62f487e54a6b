"""The blind regression: it reads nothing protected, and is what scikit-learn's is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import isonomy
from isonomy.fairness import blind_scores
from isonomy.fairness.blind import blind_regression


@pytest.fixture(scope="module")
def german() -> isonomy.Population:
    return isonomy.load_population("german")


def test_it_does_not_see_what_is_protected(german: isonomy.Population) -> None:
    network = blind_regression(german.train)
    assert network is not None
    changed = german.test.x.copy()
    changed[:, german.schema.protected_coordinates] += 0.7
    np.testing.assert_array_equal(network(changed), network(german.test.x))


def test_it_is_the_regression_of_the_other_coordinates(german: isonomy.Population) -> None:
    train, test = german.train, german.test
    reads = german.schema.seen_coordinates & ~german.schema.protected_coordinates
    scaler = StandardScaler().fit(train.x[:, reads])
    known = LogisticRegression(max_iter=1000).fit(scaler.transform(train.x[:, reads]), train.y)
    network = blind_regression(train)
    assert network is not None
    np.testing.assert_allclose(network(test.x), known.predict_proba(scaler.transform(test.x[:, reads])), atol=1e-3)
    found = blind_scores(train, test)
    assert found["accuracy"] == pytest.approx(known.score(scaler.transform(test.x[:, reads]), test.y), abs=0.02)
    assert 0.4 < found["log_loss"] < 0.6 < found["auc"]


def test_people_without_labels_have_none(german: isonomy.Population) -> None:
    from dataclasses import replace

    assert blind_scores(replace(german.train, y=None), german.test) == {}
    one = german.train[np.flatnonzero(np.asarray(german.train.y) == 1)]
    assert blind_scores(one, german.test) == {}
