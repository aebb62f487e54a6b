from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.errors import NetworkError
from isonomy.networks.affine import Affine, compose, rows, stack, total
from isonomy_verify.arithmetic import U32, gamma

from .exact import Matrix, Vector, apply, encloses, matrix, product, vector
from .strategies import affines


def disturbed(affine: Affine, data: st.DataObject) -> tuple[Matrix, Vector]:
    """An exact map within the slacks of a stored one."""
    weight, bias = matrix(affine.weight), vector(affine.bias)
    for i, (slack, offset) in enumerate(zip(vector(affine.weight_slack), vector(affine.bias_slack), strict=True)):
        at = data.draw(st.integers(0, affine.width_in - 1))
        weight[i][at] += data.draw(st.sampled_from([1, -1, 0])) * slack
        bias[i] += data.draw(st.sampled_from([1, -1, 0])) * offset
    return weight, bias


def composed(second: tuple[Matrix, Vector], first: tuple[Matrix, Vector]) -> tuple[Matrix, Vector]:
    return product(second[0], first[0]), apply(second[0], second[1], first[1])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans())
def test_slacks_of_compositions_are_rigorous(data: st.DataObject, slack: bool) -> None:
    a, b, c, d = (data.draw(st.integers(1, 4)) for _ in range(4))
    first, second, third = (data.draw(affines(*shape, slack)) for shape in ((b, a), (c, b), (d, c)))
    exact = [disturbed(each, data) for each in (first, second, third)]
    once = compose(second, first)
    assert encloses(once, *composed(exact[1], exact[0]))
    assert encloses(compose(third, once), *composed(exact[2], composed(exact[1], exact[0])))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans())
def test_slacks_of_sums_and_stacks_are_rigorous(data: st.DataObject, slack: bool) -> None:
    shape = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    maps = [data.draw(affines(*shape, slack)) for _ in range(data.draw(st.integers(1, 4)))]
    exact = [disturbed(each, data) for each in maps]
    weight = [[sum(cell) for cell in zip(*row, strict=True)] for row in zip(*(w for w, _ in exact), strict=True)]
    assert encloses(total(maps), weight, [sum(cell) for cell in zip(*(b for _, b in exact), strict=True)])
    whole = stack(maps)
    everything = [row for w, _ in exact for row in w], [cell for _, b in exact for cell in b]
    assert encloses(whole, *everything)
    index = data.draw(st.lists(st.integers(0, whole.width_out - 1), min_size=1, max_size=5))
    assert encloses(rows(whole, index), *([part[i] for i in index] for part in everything))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_single_precision_runs_are_covered(seed: int, widths: list[int]) -> None:
    random = np.random.default_rng(seed)
    x = (10 * random.standard_normal(widths[0])).astype(np.float32)
    run, exact, merged = x, [Fraction(float(v)) for v in x], None
    for read, given_ in pairwise(widths):
        weight = (random.standard_normal((given_, read)) * 10.0 ** random.integers(-2, 3)).astype(np.float32)
        bias = random.standard_normal(given_).astype(np.float32)
        run = (weight @ run + bias).astype(np.float32)
        layer = Affine.of(weight, bias)
        exact = apply(matrix(layer.weight), vector(layer.bias), exact)
        merged = layer if merged is None else compose(layer, merged)
    assert merged is not None
    magnitude, offset = merged.magnitudes()
    reach = gamma(merged.roundings, U32) * (magnitude @ np.abs(x.astype(np.float64)) + offset)
    for got, true, bound in zip(run, exact, reach.tolist(), strict=True):
        assert abs(Fraction(float(got)) - true) <= Fraction(bound)


def test_what_is_exact_stays_exact() -> None:
    layer = Affine.of(*(np.random.default_rng(0).normal(size=size) for size in ((3, 4), 3)))
    picked = compose(Affine.selection([2, 0, 2], 3), layer)
    assert np.array_equal(picked.weight, layer.weight[[2, 0, 2]])
    before = compose(layer, Affine.selection([1, 0, 3, 2], 4))
    for each in (picked, before):
        assert not each.weight_slack.any()
        assert not each.bias_slack.any()
        assert each.roundings == layer.roundings
    difference = compose(Affine.of(np.array([[-1.0, 1.0, 0.0]]), roundings=1), layer)
    assert 0 < float(difference.weight_slack[0]) < 1e-14


def test_wrong_shapes_and_numbers() -> None:
    with pytest.raises(NetworkError, match="2 inputs cannot follow one of 3"):
        compose(Affine.identity(2), Affine.identity(3))
    with pytest.raises(NetworkError, match=r"bias must be float64 of shape \(2,\)"):
        Affine.of(np.eye(2), np.zeros(3))
    with pytest.raises(NetworkError, match="weight holds a NaN"):
        Affine.of(np.array([[np.inf]]))
    with pytest.raises(NetworkError, match="must be a matrix"):
        Affine.of(np.zeros(3))
    with pytest.raises(NetworkError, match="holds a NaN or an infinite"):
        compose(Affine.of(np.array([[1e200]])), Affine.of(1e200 * np.eye(1)))


def test_arrays_of_the_caller_are_not_shared() -> None:
    weight = np.eye(2)
    layer = Affine.of(weight)
    weight[0, 0] = 7.0
    assert layer.weight[0, 0] == 1.0
