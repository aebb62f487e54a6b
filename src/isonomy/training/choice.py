"""The choice of a scorecard: the lowest cross-validated loss among additive models that are certified.

Candidates are the regression, the additive model and the one whose largest slopes are penalised, each at every ``C``.
Their losses are those of people who were left out of the fit, in five parts; their bounds are certificates of the
model of all training people on some of these. A candidate whose bound is too large of these people as they are is not
proved of populations around them, and one whose bound by one round is far too large by no more. Where none is
certified, the same models without the features that similar people may differ in at will are tried. The comparison with
the plain regression, chosen by the same rule, is by the differences of the losses of each individual.

**Soundness.** The bounds of the table are proved for the training people they were proved on. Nothing follows from
them for others: that is what a certificate of others is for, and why the choice leaves a margin below epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, at_most
from isonomy.certificates.options import SEARCH
from isonomy.fairness.decisions import accuracies, auc
from isonomy.networks import Network
from isonomy.population import Domain
from isonomy.progress import Progress
from isonomy.training.additive import PIECES, Additive, Family, Fits, IntArray, Segments

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""The weights C of the loss that are tried."""

MARGIN = 0.85
"""The share of epsilon that the bound of training people may reach, since other people's may be larger."""

FOLDS = 5

ROUGH, HOPELESS = 1, 1.25
"""The rounds of a first bound, and how many times the limit it is where more rounds are not worth their time."""

SURE = 1.96
"""Standard errors by which the loss of one model must be lower than that of another to say that it is."""

_NAMES = {"regression": "plain regression", "additive": "additive", "capped": "additive, capped slopes"}


class Proof(NamedTuple):
    """What was proved of a model on some training people: the mean violation of every population within gamma, and of
    these people; the share of them whose decision may differ from a similar person's; NaN where nothing was."""

    upper: float
    local: float
    open: float


class Data(NamedTuple):
    """What is learned: rows, their classes as numbers or standardised outcomes, weights of mean 1, the number of
    classes (0: a regression), and the coordinates that may be read."""

    x: FloatArray
    y: NDArray[Any]
    weight: FloatArray
    classes: int
    reads: IntArray


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, and the loss of each individual when it was left out, with the scores of all."""

    family: Family
    c: float
    model: Additive
    losses: FloatArray
    scored: dict[str, float]  # loss, its standard error ``se``, other scores, and the standard deviation ``spread``
    without: str = ""  # features left out, those that similar people may differ in at will

    def network(self, domain: Domain) -> Network:
        """Return the model as a network."""
        return self.model.network(domain, _title(self.family, self.c, self.without))


@dataclass(frozen=True, eq=False)
class Selected:
    """What was chosen, and beside it the plain regression that the same rule chooses.

    ``table`` has a row for each candidate: ``family``, the features left out (``without``), ``C``, the cross-validated
    ``loss`` (log-loss; of a regression the squared error in units of the variance) and its standard error ``se``,
    ``auc`` and ``balanced_accuracy`` or ``r2``, the certified ``local_upper`` and ``upper`` of training people,
    ``relative``, which is ``upper`` over the standard deviation of the scores, and ``open``, the share of decisions
    that may change. Bounds are NaN where the choice did not need them. ``chosen`` and ``regression`` are rows of it.
    ``difference`` is the mean difference of both losses, negative where the chosen one is better, and ``error`` its
    standard error. ``reached`` says whether the bound is at most the margin's share of epsilon.
    """

    table: pd.DataFrame
    chosen: int
    regression: int
    difference: float
    error: float
    reached: bool
    losses: FloatArray = field(repr=False)
    weight: FloatArray = field(repr=False)

    def at(self, epsilon: float | None) -> Selected:
        """Choose again, at another epsilon, among the candidates that are certified already."""
        rows = [row for row, upper in enumerate(self.table["upper"]) if not math.isnan(upper)]
        limit = math.inf if epsilon is None else MARGIN * epsilon
        return _selected(self.table, rows or range(len(self.table)), limit, self.losses, self.weight)

    @property
    def beats(self) -> bool:
        """Say whether the chosen model's loss is lower than the regression's by more than chance gives."""
        return self.difference < -SURE * self.error

    @property
    def sentence(self) -> str:
        """Return in one sentence whether the chosen model beats the regression."""
        plain = "linear" if "r2" in self.table else "logistic"
        if self.table["family"][self.chosen] == "regression":
            return f"It does not beat {plain} regression: it is the {plain} regression.{self._limits()}"
        by = f"the cross-validated loss differs by {self.difference:+.4f} ± {self.error:.4f}"
        return f"It {'beats' if self.beats else 'does not beat'} {plain} regression: {by}.{self._limits()}"

    def _limits(self) -> str:
        """Return what had to be given up for epsilon, or that it was not reached; empty where neither is so."""
        without, at = self.table["without"][self.chosen], f"at {MARGIN:g} epsilon on training people"
        if not self.reached:
            return f" None is certified {at}, down to C {self.table['C'].min():g}: this one has the lowest bound."
        return f" It does not read {without}: no candidate that does is certified {at}." if without else ""

    def rows(self) -> list[tuple[str, dict[str, str]]]:
        """Return the chosen model and the regression, each with its numbers in words."""
        return [(title, _words(self.table.loc[row])) for title, row in
                (("chosen", self.chosen), ("plain regression", self.regression))]  # fmt: skip

    def __str__(self) -> str:
        return f"{pd.DataFrame(dict(self.rows())).to_string()}\n{self.sentence}"


def _title(family: str, c: float, without: str) -> str:
    return f"{_NAMES[family]}{f' without {without}' if without else ''}, C {c:g}"


def _words(row: Any) -> dict[str, str]:
    number = {name: "–" if not np.isfinite(row[name]) else f"{row[name]:.4f}" for name in row.index[2:]}
    for name in ("local_upper", "upper", "relative", "open"):  # bounds, and what is made of them
        number[name] = at_most(float(row[name]), 4) if np.isfinite(row[name]) else "–"
    words = {"model": _title(row["family"], row["C"], row["without"])}
    words["loss, cross-validated"] = f"{number['loss']} ± {row['se']:.4f}"
    for name, title in (("auc", "AUC"), ("balanced_accuracy", "balanced accuracy"), ("r2", "R²")):
        words |= {title: number[name]} if name in number else {}
    words |= {"proved of training people": number["local_upper"], "proved within γ": number["upper"]}
    return words | {"relative violation": number["relative"], "decisions that may change": number["open"]}


def candidates(data: Data, numeric: NDArray[np.bool_], seed: int, tick: Progress, without: str = "") -> list[Candidate]:
    """Fit every family at every strength, on all rows and with each part left out; ``without`` names features that
    ``data`` does not read."""
    folds = _folds(data, np.random.default_rng(seed))
    fitted: list[Candidate] = []
    families: Sequence[Family] = get_args(Family)
    bends = bool(numeric[data.reads].any())
    for family in families if bends else families[:1]:
        segments = Segments.of(data.x, data.reads, numeric, 1 if family == "regression" else PIECES)
        design = segments.design(data.x)

        outputs = np.zeros((len(STRENGTHS), len(data.x), data.classes or 1))
        for fold in range(folds.max() + 1 if folds.max() else 0):
            left_out = folds == fold
            learned = _fits(family, segments, design, data, ~left_out)
            for i, c in enumerate(STRENGTHS):
                outputs[i, left_out] = learned.at(c).probabilities(design[left_out])
        whole = _fits(family, segments, design, data, np.ones(len(data.x), dtype=bool))
        for i, c in enumerate(STRENGTHS):
            model = whole.at(c)
            given = outputs[i] if folds.max() else model.probabilities(design)
            losses = _losses(data, given)
            fitted.append(Candidate(family, c, model, losses, _scored(data, given, losses), without))
            tick(len(fitted), len(STRENGTHS) * len(families))
    return fitted


def _fits(family: Family, segments: Segments, design: FloatArray, data: Data, rows: NDArray[np.bool_]) -> Fits:
    return Fits(family, segments, design[rows], data.y[rows], data.weight[rows], data.classes)


def choose(
    fitted: Sequence[Candidate],
    data: Data,
    domain: Domain,
    epsilon: float | None,
    prove: Callable[[Network, int | None], Proof],
    more: Callable[[], list[Candidate]],
) -> tuple[list[Candidate], Selected]:
    """Return the candidates, and the choice of the lowest loss among those certified at the margin's share of epsilon.

    Where there is none, ``more`` candidates are tried, and at last the one of the lowest bound is taken. ``prove``
    certifies a network on training people as they are (None), or on populations around them by some rounds, each only
    where the one before leaves it open. Without epsilon all candidates are certified.
    """
    every, proofs, limit = list(fitted), dict[int, Proof](), math.inf if epsilon is None else MARGIN * epsilon

    @cache
    def proved(row: int, rounds: int | None) -> Proof:
        return prove(every[row].network(domain), rounds)

    def proof(row: int) -> Proof:
        if epsilon is None:
            return proved(row, SEARCH.rounds)
        known = proved(row, None)
        if math.isnan(known.upper) and known.local <= limit:
            known = proved(row, ROUGH)
            if limit < known.upper <= HOPELESS * limit:
                known = proved(row, SEARCH.rounds)
        return known

    def certified(rows: Sequence[int]) -> bool:
        """Prove candidates by their loss, up to the first that is certified."""
        for row in sorted(rows, key=lambda row: every[row].scored["loss"]):
            if row not in proofs:
                proofs[row] = proof(row)
            if epsilon is not None and proofs[row].upper <= limit:
                return True
        return epsilon is None

    def selected() -> Selected:
        nothing = Proof(math.nan, math.nan, math.nan)
        table = pd.DataFrame([_row(each, proofs.get(row, nothing)) for row, each in enumerate(every)])
        return _selected(table, sorted(proofs), limit, np.stack([each.losses for each in every]), data.weight)

    if not certified(range(len(every))):
        every += more()
        certified(range(len(fitted), len(every)))
    certified([row for row, each in enumerate(every) if each.family == "regression"])
    shown = selected()
    if epsilon is not None:  # what is shown is proved as others do it
        proofs |= {row: proved(row, SEARCH.rounds) for row in (shown.chosen, shown.regression)}
    return every, selected()


def lowest_loss(table: pd.DataFrame, epsilon: float | None) -> int:
    """Return the row of the lowest loss among those certified at the margin's share of epsilon that have not
    collapsed; where there is none the row of the lowest bound, and where all have collapsed of all rows."""
    alive = table[~table["collapsed"]] if not table["collapsed"].all() else table
    limit = math.inf if epsilon is None else MARGIN * epsilon
    below = alive[alive["upper"].fillna(-math.inf) <= limit]
    column = below["loss"] if len(below) else alive["upper"].fillna(math.inf)
    return int(column.index[int(np.argmin(column.to_numpy()))])


def _selected(
    table: pd.DataFrame, rows: Sequence[int], limit: float, losses: FloatArray, weight: FloatArray
) -> Selected:
    """Choose among the rows that are certified: the lowest loss below the limit, else the lowest bound."""
    upper, loss, local = table["upper"].fillna(math.inf), table["loss"], table["local_upper"]

    def lowest(rows: Sequence[int]) -> int:
        below = [row for row in rows if upper[row] <= limit]
        return min(below, key=lambda row: loss[row]) if below else min(rows, key=lambda row: (upper[row], local[row]))

    chosen = lowest(rows)
    regression = lowest([row for row in rows if table["family"][row] == "regression"])
    mean, error = _mean(losses[chosen] - losses[regression], weight)
    return Selected(table, chosen, regression, mean, error, bool(upper[chosen] <= limit), losses, weight)


def _row(each: Candidate, proof: Proof) -> dict[str, Any]:
    row: dict[str, Any] = {"family": each.family, "without": each.without, "C": each.c} | each.scored
    spread = row.pop("spread")
    row |= {"local_upper": proof.local, "upper": proof.upper}
    return row | {"relative": proof.upper / spread if spread > 0 else math.nan, "open": proof.open}


def _scored(data: Data, given: FloatArray, losses: FloatArray) -> dict[str, float]:
    loss, error = _mean(losses, data.weight)
    row, weight = {"loss": loss, "se": error}, data.weight
    if not data.classes:
        spread = np.average((data.y - np.average(data.y, weights=weight)) ** 2, weights=weight)
        row["r2"] = 1 - loss / spread if spread > 0 else math.nan
    else:
        if data.classes == 2 and len(np.unique(data.y)) == 2:
            row["auc"] = auc(given[:, 1], data.y == 1, weight)
        row["balanced_accuracy"] = accuracies(given.argmax(1) == data.y, data.y, weight)[1]
    scores = given[:, 1:] if data.classes == 2 else given
    squares = [_mean((s - np.average(s, weights=weight)) ** 2, weight)[0] for s in scores.T]
    return row | {"spread": math.sqrt(max(squares))}


def _mean(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and its standard error."""
    share = weight / weight.sum()
    mean = float(share @ values)
    return mean, float(np.sqrt(share**2 @ (values - mean) ** 2))


def _losses(data: Data, given: FloatArray) -> FloatArray:
    """Return −log of the probability of each individual's class, or the squared error."""
    if not data.classes:
        return np.asarray((given[:, 0] - data.y) ** 2)
    own = given[np.arange(len(given)), data.y.astype(np.int64)]
    return np.asarray(-np.log(np.clip(own, 1e-15, 1.0)))


def _folds(data: Data, generator: np.random.Generator) -> IntArray:
    """Return the part (n,) that each row is left out with, each class spread alike; all 0 of too few rows."""
    parts, order = np.zeros(len(data.x), dtype=np.int64), generator.permutation(len(data.x))
    if len(data.x) < 2 * FOLDS:
        return parts
    if data.classes:
        order = order[np.argsort(data.y[order], kind="stable")]
    parts[order] = np.arange(len(data.x)) % FOLDS
    return parts
