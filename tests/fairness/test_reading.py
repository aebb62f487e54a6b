"""A model that is read the wrong way round is noticed, and one that is only poor is not."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.fairness.reading import LEVEL, better_reading
from isonomy.population import Label

TWO = Label("outcome", ("approved", "rejected"))


def drawn(n: int, share: float, strength: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which ``share`` are of class 1, and probabilities of class 1 that follow them."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(np.int64)
    p = 1 / (1 + np.exp(-(strength * (2 * y - 1) + rng.normal(size=n) + np.log(share / (1 - share)))))
    return y, np.stack([1 - p, p], axis=1)


def test_a_sigmoid_of_the_other_class_is_noticed() -> None:
    y, p = drawn(600, 0.25, 1.0)
    assert better_reading(p, y, TWO) is None
    found = better_reading(p[:, ::-1], y, TWO)
    assert found is not None and found.classes == ("rejected", "approved")
    assert found.accuracy == pytest.approx(1 - found.other_accuracy) and found.accuracy < 0.3
    assert found.balanced_accuracy == pytest.approx(1 - found.other_balanced_accuracy)


def test_a_rare_class_that_is_never_predicted_is_noticed_too() -> None:
    """Read rightly nobody gets the rare class, read wrongly everybody: the ranking tells them apart."""
    y, p = drawn(2000, 0.04, 0.6)
    p = np.stack([1 - 0.4 * p[:, 1], 0.4 * p[:, 1]], axis=1)
    assert better_reading(p, y, TWO) is None
    assert better_reading(p[:, ::-1], y, TWO) is not None


def test_a_model_that_gives_nearly_everybody_the_wrong_class_is_poor_and_not_reversed() -> None:
    """Accuracy .05 with a ranking that is right: the opposite would be right more often, and is not the reading."""
    y, p = drawn(2000, 0.05, 0.5)
    high = np.stack([0.4 * p[:, 0], 1 - 0.4 * p[:, 0]], axis=1)  # all above one half
    assert (high.argmax(axis=1) == y).mean() < 0.1
    assert better_reading(high, y, TWO) is None


def test_a_balanced_model_that_is_right_less_often_is_noticed_when_reversed() -> None:
    """A rare class, flagged generously: read wrongly it is right more often, and its ranking is reversed."""
    rng = np.random.default_rng(1)
    y = (rng.random(3000) < 0.05).astype(np.int64)
    score = 1 / (1 + np.exp(-(2.0 * y + rng.normal(size=3000) + 0.3)))
    p = np.stack([1 - score, score], axis=1)
    assert (p.argmax(axis=1) == y).mean() < 0.5 and better_reading(p, y, TWO) is None
    found = better_reading(p[:, ::-1], y, TWO)
    assert found is not None and found.other_balanced_accuracy > found.balanced_accuracy


def test_few_people_show_nothing() -> None:
    y, p = np.array([0, 1, 0, 1]), np.array([[0.1, 0.9], [0.9, 0.1]] * 2)
    assert better_reading(p, y, TWO) is None


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_chance_is_hardly_ever_called_reversed(classes: int) -> None:
    label = Label("outcome", tuple("abcdef"[:classes]))
    rng, called = np.random.default_rng(5), 0
    for _ in range(200):
        y = rng.choice(classes, 80, p=np.r_[0.6, np.full(classes - 1, 0.4 / (classes - 1))])
        called += better_reading(rng.dirichlet(np.ones(classes), 80), y, label) is not None
    assert called <= 200 * LEVEL + 1


@pytest.mark.parametrize("order", [(1, 2, 0), (0, 2, 1), (2, 1, 0)])
def test_the_right_order_of_three_classes_is_named(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    label = Label("outcome", ("low", "middle", "high"))
    y = rng.choice(3, 500, p=[0.2, 0.5, 0.3])
    p = rng.dirichlet(np.ones(3), 500) + 1.0 * np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    assert better_reading(p, y, label) is None
    found = better_reading(p[:, order], y, label)  # output j is really the one of class order[j]
    assert found is not None and found.classes == tuple(label.classes[place] for place in order)
    assert found.other_accuracy == pytest.approx((p.argmax(axis=1) == y).mean())


def test_of_many_classes_the_reverse_order_is_tried() -> None:
    rng = np.random.default_rng(3)
    label = Label("grade", tuple("abcdef"))
    y = rng.integers(0, 6, 600)
    p = rng.dirichlet(np.ones(6), 600) + 0.5 * np.eye(6)[y]
    found = better_reading(p[:, ::-1] / 1.5, y, label)
    assert found is not None and found.classes == tuple("fedcba")


def test_a_rare_class_and_few_scores_do_not_call_chance_reversed() -> None:
    """One person of a class that nearly everybody is given, scores of two values: a normal law of ranks is far off."""
    rng, called = np.random.default_rng(0), 0
    y = np.zeros(2000, dtype=np.int64)
    y[0] = 1
    for _ in range(300):
        score = np.where(rng.random(2000) < 0.05, 0.6, 0.7)  # chance alone
        called += better_reading(np.stack([1 - score, score], axis=1), y, TWO) is not None
    assert called <= 300 * LEVEL + 1


def test_a_model_that_is_right_about_most_of_the_weight_is_not_called_reversed() -> None:
    """Nine in ten rows are wrong, and weigh a tenth of the others: stopping would name a worse order as the better."""
    y, p = drawn(3000, 0.5, 1.0)
    few = np.arange(3000) % 10 > 0
    p[few] = p[few][:, ::-1]
    assert better_reading(p, y, TWO) is not None
    assert better_reading(p, y, TWO, np.where(few, 0.01, 1.0)) is None
    found = better_reading(p, y, TWO, np.where(few, 1.0, 0.01))
    assert found is not None and found.other_accuracy > found.accuracy


def test_people_of_weight_zero_are_nobody_and_huge_weights_are_finite() -> None:
    y, p = drawn(400, 0.5, 1.0)
    both = np.concatenate([p, p[:, ::-1], p[:, ::-1]]), np.tile(y, 3)
    assert better_reading(*both, TWO, np.repeat([1.0, 0.0, 0.0], 400)) is None
    found = better_reading(p[:, ::-1], y, TWO, np.full(400, 1e308))
    assert found is not None and 0 < found.accuracy < found.other_accuracy < 1
