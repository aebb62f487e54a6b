from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.truth import exact as fractions

from isonomy.errors import NetworkError
from isonomy.networks.graph import affine, sizes
from isonomy.networks.preprocessing import exact
from isonomy_verify.arithmetic import U32, gamma


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6))
def test_single_precision_runs_are_covered(seed: int, read: int, gives: int) -> None:
    random = np.random.default_rng(seed)
    x = (10 * random.standard_normal(read)).astype(np.float32)
    weight = (random.standard_normal((gives, read)) * 10.0 ** random.integers(-2, 3)).astype(np.float32)
    bias = random.standard_normal(gives).astype(np.float32)
    run = (weight @ x + bias).astype(np.float32)
    layer = affine(weight, bias)
    exact = fractions(layer.weight) @ fractions(x) + fractions(layer.bias)
    magnitude, offset = sizes(layer)
    reach = gamma(layer.roundings, U32) * (magnitude @ np.abs(x.astype(np.float64)) + offset)
    for got, true, bound in zip(run, exact, reach.tolist(), strict=True):
        assert abs(Fraction(float(got)) - true) <= Fraction(bound)


def test_wrong_shapes_and_numbers() -> None:
    with pytest.raises(NetworkError, match=r"bias must be of shape \(2,\)"):
        affine(np.eye(2), np.zeros(3))
    with pytest.raises(NetworkError, match="weight holds a NaN"):
        affine(np.array([[np.inf]]))
    with pytest.raises(NetworkError, match="must be a matrix"):
        affine(np.zeros(3))


def test_arrays_of_the_caller_are_not_shared() -> None:
    weight = np.eye(2)
    layer = affine(weight)
    weight[0, 0] = 7.0
    assert layer.weight[0, 0] == 1.0


def test_numbers_are_taken_as_they_are_stored() -> None:
    assert exact(2**53 + 1, "") == exact(np.int64(2**53 + 1), "") == 2**53 + 1
    assert exact("0.5", "") == exact(np.float32(0.5), "") == Fraction(1, 2)
    for strange in ("1_0", "ten", math.inf, None):
        with pytest.raises(NetworkError, match="it must be a finite number"):
            exact(strange, "it")
