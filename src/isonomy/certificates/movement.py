"""Movement by feature: whether and how far the similar sets of a δ can move it.

With a small δ most metrics let only protected attributes and proxies move. That has to be visible before a bound is
believed to mean much.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.problem import Problem
from isonomy_verify.sets import region_of

ROWS = 1024
"""The most individuals sampled: enough to see what moves, cheap for any table."""

_SIDES = ((np.min, np.inf), (np.max, -np.inf))

NEGLIGIBLE = 1e-9
"""Moves below this are rounding, not moves."""


def sampled_rows(people: int) -> slice:
    """Return the rows sampled of a table of ``people`` rows: evenly spaced, as a table may be sorted."""
    return slice(None, None, -(-people // ROWS))


def movement(problem: Problem, x: FloatArray) -> pd.DataFrame:
    """Return a row per feature: ``moves`` (share of individuals), ``least`` and ``most`` change, ``categories``.

    Changes of numbers are in raw units, the largest over the sampled individuals, and may be over-estimated just as
    the regions are. ``categories`` is the mean number of other categories that some similar individual has.
    """
    x = np.array(x[sampled_rows(len(x))])
    low, high = _extremes(problem, x)
    rows = []
    for name, where, unit, block in _features(problem):
        down, up = low[:, where], high[:, where]
        moves = (up > NEGLIGIBLE) | (down < -NEGLIGIBLE)
        if block:
            # In a block of several categories the one that an individual has does not count as another.
            others = moves & (x[:, where] < 1) if where.stop - where.start > 1 else moves
            count = others.sum(axis=1)
            rows.append((name, float((count > 0).mean()), np.nan, np.nan, float(count.mean())))
        else:
            span = float(down.min() * unit), float(up.max() * unit)
            rows.append((name, float(moves.any(axis=1).mean()), *span, np.nan))
    table = pd.DataFrame(rows, columns=["feature", "moves", "least", "most", "categories"]).set_index("feature")
    if problem.schema is not None:
        kinds = ["protected" if f.protected else "proxy" if f.proxy else "" for f in problem.schema.features]
        table.insert(0, "role", kinds)
    return table


@np.errstate(over="ignore")
def _extremes(problem: Problem, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest moves (n, m) of every coordinate over each individual's regions.

    **Soundness.** The range of an identity layer is that of the coordinates' moves, and the kernel rounds it outward;
    the centres of numbers do not move. A product has its box, and in each coordinate the states that are allowed.
    """
    low, high = np.full(x.shape, np.inf), np.full(x.shape, -np.inf)
    product = problem.similarity.product(x)
    if product is not None:
        there = ~product.empty
        low[there], high[there] = product.low[there], product.high[there]
        for column, states in zip(product.columns, product.states.T, strict=True):
            ends = [side(np.where(product.allowed, states, far), axis=1) for side, far in _SIDES]
            low[there, column], high[there, column] = (end[there] - x[there, column] for end in ends)
        return low, high
    eye = np.eye(x.shape[1])
    for regions in problem.similarity.each(x):
        for piece in regions.pieces(ROWS):
            start, moves = piece.centre - x[piece.owner], region_of(piece.sets).linear_image(eye, eye)
            np.maximum.at(high, piece.owner, start + moves.high)
            np.minimum.at(low, piece.owner, start + moves.low)
    return low, high


def _features(problem: Problem) -> list[tuple[str, slice, float, bool]]:
    """List name, coordinates, unit and whether they are a block, for each feature or coordinate."""
    domain, schema = problem.domain, problem.schema
    if schema is None:
        return [(name, slice(i, i + 1), float(domain.unit[i]), False) for i, name in enumerate(domain.names)]
    unit = schema.domain("realizable").unit
    features = []
    for feature in schema.features:
        where = schema.slices[feature.name]
        features.append((feature.name, where, float(unit[where.start]), feature.kind == "categorical"))
    return features
