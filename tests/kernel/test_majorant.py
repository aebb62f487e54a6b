"""Majorants: the inequality between matrices, decided without rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from isonomy_verify import majorant as module
from isonomy_verify.arithmetic import Array
from isonomy_verify.majorant import Majorant, majorant

from .truth import exact, semidefinite


def valid(found: Majorant, matrix: Array) -> bool:
    """``F Fᵀ + diag(d) − G Gᵀ ⪰ 0``, exactly."""
    f, g = exact(found.directions), exact(matrix)
    gap = f @ f.T - g @ g.T
    for i, d in enumerate(found.diagonal.tolist()):
        gap[i, i] += Fraction(d)
    return semidefinite(gap)


def hostile(rng: np.random.Generator) -> dict[str, Array]:
    plain = rng.normal(size=(6, 4))
    return {
        "plain": plain,
        "wide": rng.normal(size=(4, 9)),
        "equal rows": np.tile(rng.normal(size=4), (6, 1)),
        "nearly equal rows": np.tile(rng.normal(size=4), (6, 1)) * (1 + 1e-15 * rng.normal(size=(6, 1))),
        "rank 1": np.outer(rng.normal(size=6), rng.normal(size=3)),
        "rank 2": rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5)),
        "one row": rng.normal(size=(1, 5)),
        "one column": rng.normal(size=(5, 1)),
        "a row of zeros": np.vstack([plain, np.zeros((1, 4))]),
        "orthogonal": np.linalg.qr(rng.normal(size=(6, 6)))[0],
        "scales of rows": plain * 10.0 ** rng.integers(-12, 12, (6, 1)),
        "scales of columns": plain * 10.0 ** rng.integers(-12, 12, (1, 4)),
        "tiny": plain * 1e-130,
        "huge": plain * 1e130,
        "spread": plain * 10.0 ** rng.integers(-150, 120, (6, 4)),
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(hostile(np.random.default_rng(0))))
def test_the_difference_is_positive_semidefinite(name: str, seed: int) -> None:
    matrix = hostile(np.random.default_rng([seed, 40]))[name]
    for columns in (1, 2):
        found = majorant(matrix, columns, steps=8)
        assert found is not None and valid(found, matrix)


def test_a_majorant_is_not_much_more_than_the_matrix() -> None:
    """Two columns hold a matrix of rank 2 nearly alone; a diagonal matrix is its own."""
    rng = np.random.default_rng(41)
    two = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5))
    found = majorant(two)
    assert found is not None and found.diagonal.sum() <= 1e-6 * (two * two).sum()
    found = majorant(np.eye(5))
    assert found is not None
    assert found.diagonal.sum() + (found.directions**2).sum() <= 5.01


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e200, np.nan, np.inf])
def test_there_is_none_of_what_is_out_of_range(scale: float) -> None:
    with np.errstate(all="ignore"):
        assert majorant(np.ones((3, 3)) * scale) is None


Search = Callable[..., tuple[Array, Array, Array, Array]]


def garbage(rng: np.random.Generator, right: Search) -> dict[str, Search]:
    """Searches that return anything at all."""

    def changed(**how: Callable[[Array], Array]) -> Search:
        def search(*given: object) -> tuple[Array, Array, Array, Array]:
            found = dict(zip(("directions", "diagonal", "factor", "size"), right(*given), strict=True))
            return tuple(how.get(name, lambda a: a)(part) for name, part in found.items())  # type: ignore[return-value]

        return search

    def noise(scale: float) -> Callable[[Array], Array]:
        return lambda a: a + scale * rng.normal(size=a.shape)

    def fails(*_: object) -> tuple[Array, Array, Array, Array]:
        raise np.linalg.LinAlgError("no")

    return {
        "noise in all": changed(directions=noise(1e-3), diagonal=noise(1e-3), factor=noise(1e-3), size=lambda a: a * 3),
        "no factor": changed(factor=np.zeros_like),
        "factor of something else": changed(factor=noise(10.0)),
        "no directions": changed(directions=np.zeros_like),
        "negative diagonal": changed(diagonal=lambda a: -a),
        "diagonal too small": changed(diagonal=lambda a: a * 0.5),
        "negative sizes": changed(size=lambda a: -a),
        "sizes of both signs": changed(factor=noise(1.0), size=lambda a: a * rng.choice([-1.0, 1.0], len(a))),
        "one negative size": changed(factor=noise(1.0), size=lambda a: np.where(np.arange(len(a)) == 0, -a, a)),
        "no sizes": changed(size=np.zeros_like),
        "one size 0": changed(size=lambda a: np.where(np.arange(len(a)) == 0, 0.0, a)),
        "sizes of all scales": changed(size=lambda a: a * 10.0 ** rng.integers(-150, 150, len(a))),
        "not a number": changed(diagonal=lambda a: a * np.nan),
        "sizes not a number": changed(size=lambda a: a * np.nan),
        "infinite sizes": changed(size=lambda a: a * np.inf),
        "infinite": changed(directions=lambda a: a * np.inf),
        "many columns": changed(factor=lambda a: np.tile(a, (1, 40)) / np.sqrt(40)),
        "huge": changed(directions=lambda a: a * 1e200),
        "no search": fails,
    }


@pytest.mark.parametrize("name", list(garbage(np.random.default_rng(0), lambda *_: ())))  # type: ignore[arg-type,return-value]
def test_whatever_the_search_returns_the_inequality_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(42)
    monkeypatch.setattr(module, "_search", garbage(rng, module._search)[name])
    for matrix in hostile(rng).values():
        with np.errstate(all="ignore"):
            found = majorant(matrix, steps=3)
        if found is not None and np.isfinite(found.diagonal).all():  # an infinite diagonal says nothing
            assert np.isfinite(found.directions).all()
            assert valid(found, matrix)


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)])
def test_sizes_of_both_signs_prove_nothing(signs: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """``(E x)_i / x_i`` bounds a matrix for ``x > 0`` alone: here it would take away what it should add."""
    matrix, none = np.ones((2, 1)), np.zeros((2, 1))
    monkeypatch.setattr(module, "_search", lambda *_: (none, np.full(2, 0.9), none, np.array(signs)))
    found = majorant(matrix)
    assert found is None or valid(found, matrix)


def test_more_columns_than_were_asked_for_round_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roundings are counted on what was returned: a factor of many columns, the difference all rounding."""
    rng = np.random.default_rng(43)
    for _ in range(20):
        matrix, none = rng.normal(size=(2, 1)), np.zeros((2, 1))
        factor = rng.normal(size=(2, 3000)) * 1e3
        diagonal = (matrix @ matrix.T + factor @ factor.T).diagonal().copy()
        parts = (none, diagonal, factor, np.ones(2))
        monkeypatch.setattr(module, "_search", lambda *_, parts=parts: parts)
        found = majorant(matrix)
        assert found is None or valid(found, matrix)
