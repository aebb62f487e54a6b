"""How far some features alone can move the score and the output of any possible person: the answer, and its record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.brief import brief
from isonomy.certificates.protocol import tier_for
from isonomy.errors import ParameterError, template
from isonomy.files import Arrays
from isonomy.given import FINITE, number, whole
from isonomy.problem import Problem
from isonomy.search.trees import CROSSINGS
from isonomy_verify.claims import downward, outward
from isonomy_verify.gaps import arrays_of
from isonomy_verify.tree_crossing import Halving
from isonomy_verify.tree_global import Hint

Answer = Literal["impossible", "shown", "open"]


@dataclass(frozen=True, eq=False)
class Across:
    """Whether features alone take anyone's score across a margin: proved to be impossible, shown by a ``pair`` (2, m),
    the higher score first, or open."""

    answer: Answer
    pair: FloatArray | None

    __repr__ = brief


@dataclass(frozen=True, eq=False)
class FeatureGap:
    """Bounds, proved and attained, of how far some features alone can move the raw score of a person of the domain.

    ``score_upper`` and ``score_lower`` are of the raw score (log odds of two classes), ``upper`` bounds the change of
    the output. ``pair`` (2, m) attains ``score_lower``, the higher score first, and changes the output by ``lower``.
    The two of ``flip`` (2, m), which differ in these features only, are decided differently; ``cover`` shows that none
    are. Of runs in single precision, too, with ``float32_run``.
    """

    features: tuple[str, ...]
    score_upper: float
    score_lower: float
    upper: float
    lower: float
    parts: int
    pair: FloatArray | None
    flip: FloatArray | None
    cover: Halving | None = field(repr=False)
    hint: Hint = field(repr=False)
    problem: Problem = field(repr=False)
    float32_run: bool = False

    __repr__ = brief

    @property
    def exact(self) -> bool:
        """Return whether both sides of the score meet, but for roundings."""
        return self.score_upper - self.score_lower <= 1e-9 * (1 + abs(self.score_upper))

    @property
    def decision(self) -> Answer | None:
        """Return whether these features alone change a decision; None without decisions."""
        if self.problem.model.head == "regression" and self.problem.outcome.threshold is None:
            return None
        impossible = self.score_upper == 0 or self.cover is not None
        return "shown" if self.flip is not None else "impossible" if impossible else "open"

    def claim(self) -> dict[str, Any]:
        """Return what a record claims, rounded outward."""
        bounds = {"score_lower": downward(self.score_lower), "score_upper": outward(self.score_upper),
                  "lower": downward(self.lower), "upper": outward(self.upper)}  # fmt: skip
        return {"features": list(self.features), **bounds, "decision": self.decision}

    def arrays(self) -> Arrays:
        """Return the evidence of a record: the hint, and the pairs."""
        none = np.zeros((0, self.problem.domain.width))
        pairs = {"pair": none if self.pair is None else self.pair, "flip": none if self.flip is None else self.flip}
        cover = {} if self.cover is None else {"halves": self.cover.cuts, "eighths": self.cover.weights}
        return arrays_of(self.hint) | pairs | cover

    def frame(self) -> pd.DataFrame:
        """Return the pair side by side in raw units; empty where the features change nothing."""
        if self.pair is None:
            return pd.DataFrame()
        table = self.problem.raw(self.pair)
        table.index = pd.Index(["higher", "lower"])
        return table.T

    def across(self, below: float, above: float, parts: int = CROSSINGS) -> Across:
        """Return whether these features alone take anyone's raw score from ``below`` or less to ``above`` or more."""
        below, above = number("below", below, "a number", -FINITE), number("above", above, "a number", -FINITE)
        if below > above:
            raise ParameterError(template("below", "a number up to 'above'", below))
        if self.score_upper < float(np.nextafter(above - below, -np.inf)):
            return Across("impossible", None)
        return tier_for(self.problem, float32=self.float32_run).across(below, above, whole("parts", parts))

    def __str__(self) -> str:
        if self.score_upper == 0:
            return f"{' and '.join(self.features)}: nobody's output depends on it."
        return (
            f"{' and '.join(self.features)}: the raw score of nobody in the domain moves by more than "
            f"{at_most(self.score_upper, 4)}, that of somebody by {at_least(self.score_lower, 4)}; an output by at "
            f"most {at_most(self.upper, 4)}, found {at_least(self.lower, 4)}."
        )
