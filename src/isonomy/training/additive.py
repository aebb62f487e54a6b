"""Additive models: a sum of a piecewise linear function of each coordinate, fitted by convex problems.

The score of an individual is ``intercept + Σ_j f_j(x_j)``, and ``f_j`` has a slope for each of the segments between its
knots. With ``v_js`` weights of the segments that sum to 1 for each coordinate, what is minimised is

    C · Σ_i loss(score_i, y_i)  +  ½ Σ_j Σ_s v_js slope_js²,

so that a straight line costs what a regression charges for it. Equal weights penalise the mean of the squared slopes.
Weights that are moved, step by step, to the steepest segments penalise the square of the largest slope:
``max_s slope_s² = max over v of Σ_s v_s slope_s²``. A regression has one segment for each coordinate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from isonomy.arithmetic import FloatArray
from isonomy.networks import Network
from isonomy.population import Domain

IntArray = NDArray[np.int64]

Family = Literal["regression", "additive", "capped"]
"""One slope for each coordinate; several; several with their largest one penalised."""

PIECES = 6
"""The most linear pieces of a numeric coordinate."""

GAP = 0.04
"""How far knots are apart at least, as a share of the coordinate's range."""

NEVER = -50.0
"""The score of a class that does not occur in the training data."""

_TURNS, _SLOPE = 4, 0.05
"""How often weights are moved to the steepest segments, and the slope that every segment is taken to have besides."""

_BEYOND = 4.0
"""How many ranges beyond the people of the training the scores of an unbounded domain stay linear."""


@dataclass(frozen=True, eq=False)
class Segments:
    """The pieces of all coordinates that are read: ``column`` (p,) says which coordinate each is of, ``start`` and
    ``stop`` (p,) where it is, in ranges from the lowest value. The first piece of a coordinate goes on below, the last
    one above. ``low`` and ``unit`` (m,) are lowest values and ranges."""

    width: int
    low: FloatArray
    unit: FloatArray
    column: IntArray
    start: FloatArray
    stop: FloatArray

    @classmethod
    def of(cls, x: FloatArray, reads: IntArray, numeric: NDArray[np.bool_], pieces: int) -> Segments:
        """Place knots at quantiles of the ``numeric`` coordinates among those that are read."""
        low, unit = x.min(0), np.ptp(x, axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        column, start, stop = [], list[float](), list[float]()
        for j in reads:
            knots = _knots((x[:, j] - low[j]) / unit[j], pieces) if numeric[j] else []
            column += [int(j)] * (len(knots) + 1)
            start += [0.0, *knots]
            stop += [*knots, np.inf]
        return cls(x.shape[1], low, unit, np.array(column, dtype=np.int64), np.array(start), np.array(stop))

    @property
    def first(self) -> NDArray[np.bool_]:
        """Return which pieces are the first ones of their coordinates."""
        return np.asarray(np.r_[True, self.column[1:] != self.column[:-1]])

    @property
    def even(self) -> FloatArray:
        """Return equal weights of the pieces of each coordinate."""
        return 1 / np.bincount(self.column)[self.column]

    def design(self, x: FloatArray) -> FloatArray:
        """Return how far each individual is along each piece (n, p)."""
        u = (x[:, self.column] - self.low[self.column]) / self.unit[self.column]
        return np.minimum(np.where(self.first, u, np.maximum(u - self.start, 0.0)), self.stop - self.start)

    def normalised(self, weights: FloatArray) -> FloatArray:
        """Return weights of pieces as shares of their coordinate's sum."""
        return weights / np.bincount(self.column, weights, self.width)[self.column]


def _knots(u: FloatArray, pieces: int) -> list[float]:
    """Return knots at quantiles; where most have the lowest value, that one and quantiles of the others."""
    lowest, highest = u.min(), u.max()
    if (u == lowest).mean() > 0.5:
        others = u[u > lowest]
        wanted = np.quantile(others, np.linspace(0, 1, pieces + 1)[1:-1]) if len(others) else []
    else:
        wanted = np.quantile(u, np.linspace(0, 1, pieces + 1)[1:-1])
    knots: list[float] = []
    for knot in np.unique(wanted):
        if knot - (knots[-1] if knots else lowest) >= GAP and knot < highest:
            knots.append(float(knot))
    return knots


@dataclass(frozen=True, eq=False)
class Additive:
    """A fitted model: ``slopes`` (outputs, p) and ``intercept`` (outputs,), of one score of two classes, else of one
    for each; ``present`` are the classes that occurred among ``classes`` (0: a regression)."""

    segments: Segments
    slopes: FloatArray
    intercept: FloatArray
    classes: int
    present: IntArray

    def scores(self, design: FloatArray) -> FloatArray:
        """Return raw outputs (n, classes, or 1) for rows of the design."""
        return self._spread(design @ self.slopes.T + self.intercept)

    def probabilities(self, design: FloatArray) -> FloatArray:
        """Return what individuals receive: probabilities (n, classes), or a number (n, 1)."""
        raw = self.scores(design)
        if not self.classes:
            return raw
        powers = np.exp(raw - raw.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True))

    def scaled(self, origin: float, unit: float) -> Additive:
        """Return the model that gives ``origin + unit`` times as much."""
        return replace(self, slopes=unit * self.slopes, intercept=origin + unit * self.intercept)

    def network(self, domain: Domain, name: str) -> Network:
        """Return the model as a network with one hidden layer.

        A hidden ReLU for each knot; what is linear goes through one more for each output, lifted so far that it is
        never cut off: within the domain, on an unbounded one within some ranges of the training's people.
        """
        segments, (column, unit) = self.segments, (self.segments.column, self.segments.unit)
        first, rows = segments.first, len(self.slopes)
        straight = np.zeros((rows, segments.width))
        straight[:, column[first]] = self.slopes[:, first] / unit[column[first]]
        offset = self.intercept - straight @ segments.low
        bends = np.flatnonzero(~first)
        change = (self.slopes[:, bends] - self.slopes[:, bends - 1]) / unit[column[bends]]
        kept = (change != 0).any(0)
        bends, change = bends[kept], change[:, kept]
        head: Any = "softmax" if self.classes else "regression"
        hinges = np.zeros((len(bends), segments.width))
        hinges[np.arange(len(bends)), column[bends]] = 1.0
        knots = segments.low[column[bends]] + segments.start[bends] * unit[column[bends]]
        low = np.where(np.isfinite(domain.low), domain.low, segments.low - _BEYOND * unit)
        high = np.where(np.isfinite(domain.high), domain.high, segments.low + (_BEYOND + 1) * unit)
        lift = 1.0 - np.minimum(straight * low, straight * high).sum(1)
        last, bias = self._outputs(np.hstack([change, np.eye(rows)]), offset - lift)
        weights = [np.vstack([hinges, straight]), last]
        return Network.from_layers(weights, [np.r_[-knots, lift], bias], head=head, name=name)

    def _outputs(self, weight: FloatArray, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the layer that gives all outputs."""
        return self._spread(weight.T, 0.0).T, self._spread(bias[None])[0]

    def _spread(self, raw: FloatArray, never: float = NEVER) -> FloatArray:
        """Return an output for each class from one for each that occurred, of two for the second."""
        if not self.classes:
            return raw
        every = np.full((len(raw), self.classes), never)
        every[:, self.present] = np.hstack([0 * raw, raw]) if len(self.present) == 2 else raw
        return every


class Fits:
    """Models of one family on the same rows, from a strong penalty to a weak one: each starts at the one before."""

    def __init__(
        self, family: Family, segments: Segments, design: FloatArray, y: NDArray[Any], weight: FloatArray, classes: int
    ) -> None:
        """Take rows with ``y``, classes as numbers or standardised outcomes; ``weight`` is 1 for a usual row."""
        self.family, self.segments, self.design, self.y, self.weight = family, segments, design, y, weight
        self.classes, self.shares = classes, segments.even
        self.present = np.unique(y) if classes else np.zeros(0, dtype=np.int64)
        self.slopes, self.intercept = np.zeros((0, 0)), np.zeros(0)

    def at(self, c: float) -> Additive:
        """Fit at the weight ``c`` of the loss."""
        for turn in range(_TURNS if self.family == "capped" else 1):
            if turn:
                steepest = np.abs(self.slopes).max(0)
                self.shares = self.segments.normalised(self.shares * (steepest + _SLOPE))
            self._solve(c, np.sqrt(np.maximum(self.shares, 1e-3)))
        return Additive(self.segments, self.slopes, self.intercept, self.classes, self.present)

    def _solve(self, c: float, root: FloatArray) -> None:
        scaled = self.design / root
        if self.classes and len(self.present) == 1:  # no more than one class to learn from
            self.slopes, self.intercept = np.zeros((1, len(root))), np.zeros(1)
            return
        if not self.classes:
            ridge = Ridge(alpha=1 / c).fit(scaled, self.y, sample_weight=self.weight)
            self.slopes, self.intercept = ridge.coef_[None] / root, np.array([ridge.intercept_])
            return
        solver = "newton-cholesky" if len(self.present) == 2 else "lbfgs"
        model = LogisticRegression(C=c, solver=solver, tol=1e-5, max_iter=1000, warm_start=True)
        if self.slopes.size:
            model.coef_, model.intercept_, model.classes_ = self.slopes * root, self.intercept, self.present
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(scaled, self.y, sample_weight=self.weight)
        self.slopes, self.intercept = model.coef_ / root, np.array(model.intercept_)
