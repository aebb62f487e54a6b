"""What every metric must keep: a test class inherits `MetricContract` and gives two methods.

`metrics` is a Hypothesis strategy of metrics; `exact` the metric's definition in multiple precision, written
down independently of the code under test.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from isonomy.errors import DataError, MetricError, ParameterError
from isonomy.similarity import Metric, load_metric

mpmath.mp.prec = 4500  # the difference of any two float64 numbers is exact
mpf = mpmath.mpf

ordinary = st.one_of(st.floats(-10, 10), st.integers(-4, 4).map(float))
tiny = st.floats(-1e-300, 1e-300)
extreme = st.one_of(ordinary, tiny, st.floats(allow_nan=False, allow_infinity=False))
deltas = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 0.05, 1.0]), st.floats(0, 1e300))

steady = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
)


def rows(width: int, count: int, numbers: st.SearchStrategy[float] = ordinary) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(numbers, min_size=width, max_size=width)
    return st.lists(row, min_size=count, max_size=count).map(lambda values: np.array(values, dtype=float))


def pair(data: st.DataObject, width: int, numbers: st.SearchStrategy[float]) -> tuple[np.ndarray, np.ndarray]:
    """Two individuals that agree on some coordinates, and may be close to each other on others."""
    x, y, close = data.draw(rows(width, 3, numbers))
    how = np.array(data.draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=width, max_size=width)))
    near = x + np.ldexp(np.clip(close, -10, 10), -data.draw(st.integers(0, 60)))
    return x, np.where(how == 0, x, np.where(how == 1, near, y))


def exact_norm(values: list[Any], order: float) -> Any:
    if order == np.inf or not values:
        return max((abs(v) for v in values), default=mpf(0))
    return sum(abs(v) for v in values) if order == 1 else mpmath.sqrt(sum(v * v for v in values))


def exact_gauge(metric: Metric, x: np.ndarray, y: np.ndarray) -> Any:
    root, order = metric.gauge()
    difference = [mpf(a) - mpf(b) for a, b in zip(x, y, strict=True)]
    products = [sum(mpf(r) * d for r, d in zip(row, difference, strict=True)) for row in root]
    return exact_norm(products, order)


def at_most(small: Any, large: float) -> bool:
    """`small <= large` for a multiple precision number that itself is rounded in its last bits."""
    return bool(mpf(small) * (1 - mpf(2) ** -3000) <= mpf(float(large)))


class MetricContract:
    @staticmethod
    def metrics() -> st.SearchStrategy[Any]:
        raise NotImplementedError

    @staticmethod
    def exact(metric: Any, x: np.ndarray, y: np.ndarray) -> Any:
        raise NotImplementedError

    @staticmethod
    def exact_box(metric: Any, x: np.ndarray, y: np.ndarray) -> Any:
        """The box part alone; 0 for a metric without one."""
        return mpf(0)

    @steady
    @given(data=st.data())
    def test_symmetric_and_zero_on_the_diagonal(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, extreme)
        assert metric.distance(x, y) == metric.distance(y, x) >= 0
        assert metric.distance_upper(x, y) == metric.distance_upper(y, x)
        assert metric.distance(x, x) == metric.distance_upper(x, x) == 0

    @steady
    @given(data=st.data())
    def test_triangle_inequality(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, ordinary)
        z = data.draw(rows(metric.width, 1))[0]
        way = metric.distance_upper(x, y) + metric.distance_upper(y, z)
        assert at_most(self.exact(metric, x, z), np.nextafter(way, np.inf))
        assert metric.distance(x, z) <= way * (1 + 1e-12) + slack(metric, x, z)

    @steady
    @given(data=st.data())
    def test_who_is_said_to_be_similar_is(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, data.draw(st.sampled_from([ordinary, extreme])))
        upper = float(metric.distance_upper(x, y))
        for delta in (0.0, upper, np.nextafter(upper, 0.0), upper * (1 - 1e-13), upper * (1 + 1e-9)):
            said = metric.similar(x[None], y[None], float(min(delta, np.finfo(float).max)))[0]
            assert said or delta < upper or np.isinf(upper)
            assert not said or at_most(self.exact(metric, x, y), delta)

    @steady
    @given(data=st.data())
    def test_upper_is_an_upper_bound_in_real_arithmetic(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, extreme)
        upper = metric.distance_upper(x, y)
        assert at_most(self.exact(metric, x, y), upper)
        assert not metric.distance(x, y) > upper

    @settings(steady, max_examples=20)
    @given(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def test_upper_on_random_pairs(self, data: st.DataObject, seed: int) -> None:
        """Full mantissas, which Hypothesis likes to avoid."""
        metric = data.draw(self.metrics())
        x, y = np.random.default_rng(seed).normal(size=(2, 60, metric.width))
        with mpmath.workprec(400):
            for own, other, upper in zip(x, y, metric.distance_upper(x, y), strict=True):
                assert self.exact(metric, own, other) <= mpf(upper)

    @steady
    @given(data=st.data())
    def test_distance_and_upper_are_close_to_the_definition(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, ordinary)
        true = float(self.exact(metric, x, y))
        tolerance = 1e-12 * true + slack(metric, x, y) + 1e-300  # underflow is covered, not measured
        assert metric.distance(x, y) == pytest.approx(true, rel=1e-12, abs=tolerance)
        assert metric.distance_upper(x, y) == pytest.approx(true, rel=1e-12, abs=tolerance)

    @steady
    @given(data=st.data())
    def test_gauge_and_box_are_the_metric(self, data: st.DataObject) -> None:
        """The gauge may only be below the definition, and by rounding only."""
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, extreme)
        parts = max(exact_gauge(metric, x, y), self.exact_box(metric, x, y))
        true = self.exact(metric, x, y)
        assert parts <= true * (1 + mpf(2) ** -3000)
        assert true == mpmath.inf == parts or true <= parts * (1 + mpf(2) ** -50)

    @steady
    @given(data=st.data(), delta=deltas)
    def test_box_holds_every_similar_individual_and_little_else(self, data: st.DataObject, delta: float) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, ordinary)
        low, high = metric.box(x, delta)
        assert (low <= 0).all() and (high >= 0).all()
        unlimited = np.isinf(high) & np.isinf(low)
        offset = np.where(unlimited, y - x, 0.0)
        share = data.draw(rows(metric.width, 1, st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 1.0]))))[0]
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.where(share > 0, high, -low)
            step = np.where(unlimited, offset, np.where(np.isinf(reach), 0.0, share * reach))
            inside = x + step
        assume(np.isfinite(inside).all())
        candidates = [y, inside, np.nextafter(inside, np.inf), np.nextafter(inside, -np.inf), x + 2 * step]
        for other in candidates:
            if np.isfinite(other).all() and self.exact_box(metric, x, other) <= delta:
                move = [Fraction(b) - Fraction(a) for a, b in zip(x, other, strict=True)]
                assert all(m >= Fraction(v) for m, v in zip(move, low, strict=True) if np.isfinite(v))
                assert all(m <= Fraction(v) for m, v in zip(move, high, strict=True) if np.isfinite(v))
        retreat = x + np.where(unlimited, offset, step * (1 - 1e-9))
        rounded = 1e-15 * (1 + np.abs(x)) <= 1e-12 * np.where(step == 0, np.inf, np.abs(step))
        if delta > 0 and rounded.all():
            assert self.exact_box(metric, x, retreat) <= delta

    @steady
    @given(data=st.data())
    def test_free_coordinates_do_not_count(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, ordinary)
        moved = np.where(metric.free, y, x)
        assert metric.distance(x, moved) == metric.distance_upper(x, moved) == 0
        low, high = metric.box(x, 0.0)
        assert np.isinf(low[metric.free]).all() and np.isinf(high[metric.free]).all()
        assert not metric.gauge()[0][:, metric.free].any()

    @steady
    @given(data=st.data())
    def test_rows_broadcast_and_inputs_stay_untouched(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = data.draw(rows(metric.width, 3)), data.draw(rows(metric.width, 1))[0]
        before = x.copy(), y.copy()
        for function in (metric.distance, metric.distance_upper):
            together = function(x, y)
            assert together.shape == (3,)
            alone = [float(function(row, y)) for row in x]
            assert together == pytest.approx(alone, rel=1e-9, abs=1e-9)
        assert all(
            (a == b).all() for a, b in zip(metric.box(x[0], 0.5), (v[0] for v in metric.box(x, 0.5)), strict=True)
        )
        assert (x == before[0]).all() and (y == before[1]).all()

    @settings(steady, max_examples=25)
    @given(data=st.data())
    def test_file_restores_the_metric_bit_for_bit(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        x, y = pair(data, metric.width, ordinary)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "metric.toml"
            metric.save(path)
            assert [file.name for file in Path(folder).iterdir()] == ["metric.toml"]
            again = load_metric(path)
            assert type(again) is type(metric)
            again.save(Path(folder) / "again.toml")
            assert path.read_text() == (Path(folder) / "again.toml").read_text()
        assert again.gauge()[0].tobytes() == metric.gauge()[0].tobytes()
        assert again.gauge()[1] == metric.gauge()[1]
        assert (again.free == metric.free).all()
        assert (again.fitted_on, again.names, again.width) == (metric.fitted_on, metric.names, metric.width)
        assert all((a == b).all() for a, b in zip(metric.box(x, 0.7), again.box(x, 0.7), strict=True))
        assert again.distance_upper(x, y) == metric.distance_upper(x, y)

    @settings(steady, max_examples=5)
    @given(data=st.data())
    def test_bad_arguments_are_named(self, data: st.DataObject) -> None:
        metric = data.draw(self.metrics())
        good = np.zeros((3, metric.width))
        bad = good.copy()
        bad[2, metric.width - 1] = np.nan
        with pytest.raises(DataError, match=f"row 2, coordinate {metric.width - 1}.*nan"):
            metric.distance(good, bad)
        with pytest.raises(ParameterError, match="'x' must be rows of"):
            metric.distance(np.zeros(metric.width + 1), good)
        with pytest.raises(ParameterError, match="as many rows"):
            metric.distance(good, good[:2])
        for delta in (-0.1, np.nan, np.inf, True, "1"):
            with pytest.raises(ParameterError, match="'delta' must be a finite number >= 0"):
                metric.box(good, delta)
        with pytest.raises(ValueError, match="read-only"):
            metric.gauge()[0][...] = 1.0


def slack(metric: Metric, x: np.ndarray, y: np.ndarray) -> float:
    """What cancellation inside `R (x − y)` can cost."""
    return float(1e-12 * (np.abs(metric.gauge()[0]) @ np.abs(x - y)).sum())


__all__ = ["MetricContract", "MetricError", "exact_norm", "mpf", "ordinary"]
