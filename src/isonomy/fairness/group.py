"""Group fairness: rates of the groups of a protected attribute, or of several crossed, and the gaps between them.

For groups ``g`` with favourable decision ``S`` and favourable outcome ``Y`` (shares of sampling weight):

- **demographic parity**: ``P(S | g)``, the selection rate; its smallest over its largest is the selection-rate ratio
  that the four-fifths rule compares with 0.8;
- **equal opportunity**: ``P(S | Y, g)``, the true positive rate;
- **equalised odds**: the worse of true positive rate and false positive rate ``P(S | not Y, g)``;
- **IF parity**: the mean local violation ``E[I(x, δ) | g]`` of individual fairness. Wicker, Piratla and Weller (2023),
  appendix, take the difference between two groups, men and women; here it is the largest difference of any two groups.

A difference is largest minus smallest over the groups, a ratio smallest over largest.

**Soundness.** Violations are only known to lie between a certificate's bounds, so IF parity is given as two numbers
between which it lies for the people at hand, rounded outward. Everything else here is an estimate: the intervals are
bootstrap intervals (see :mod:`isonomy.fairness.rates`), not certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most
from isonomy.certificates import LocalCertificate
from isonomy.errors import DataError, ParameterError, template
from isonomy.fairness.decisions import decide
from isonomy.fairness.groups import Bins, make_groupings
from isonomy.fairness.rates import Kinds, group_rows, measure, summary_rows
from isonomy.given import instance, number, whole
from isonomy.model import Model
from isonomy.population import Population

ROWS = 8_192
"""Individuals compared at a time."""


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn: ``resamples`` of the people, by ``seed``, for intervals of this ``confidence``."""

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        number("confidence", self.confidence, "a number strictly between 0 and 1", 0.0, 1.0, strict=True)
        whole("resamples", self.resamples, 1)
        whole("seed", self.seed)
        if self.resamples * (1 - self.confidence) < 10:
            right = f"at least {int(np.ceil(10 / (1 - self.confidence)))} for a confidence of {self.confidence}"
            raise ParameterError(template("resamples", right, self.resamples))


@dataclass(frozen=True, eq=False)
class GroupFairness:
    """Rates of groups, and the gaps between them.

    ``groups``: a row for each group of each attribute set: people, share of weight, rates with the ends ``_low`` and
    ``_high`` of their own intervals, ``small``, and a note that says why a rate is NaN. ``summary``: a row for each
    attribute set and metric: value, interval, the groups with the lowest and the highest rate, the four-fifths verdict
    (on the row ``demographic_parity_ratio``), and a note. IF parity has no single value: ``value`` is NaN, and it
    lies between ``bound_low`` and ``bound_high`` for the people at hand; for the other metrics both are the value.
    An individual is selected that is given one of the classes ``favourable``, from ``threshold`` on where there is one.
    """

    groups: pd.DataFrame
    summary: pd.DataFrame
    confidence: float
    resamples: int
    smallest: int
    notes: tuple[str, ...] = ()
    favourable: tuple[str, ...] = ()
    threshold: float | None = None

    @property
    def rates(self) -> dict[str, str]:
        """Return the rates of ``groups`` by their columns, in words that name the class."""
        named = " or ".join(map(repr, self.favourable))
        names = ("selection_rate", "true_positive_rate", "false_positive_rate")
        return {name: f"{name.replace('_', ' ')} of {named}" for name in names} | {"accuracy": f"accuracy on {named}"}

    @property
    def four_fifths(self) -> dict[str, str]:
        """Return ``pass``, ``fail`` or ``undecided`` for each attribute set.

        Pass or fail when the interval of the selection-rate ratio lies on one side of 0.8. Groups that are too small
        never make a fail, and turn a pass into undecided.
        """
        rows = self.summary[self.summary["metric"] == "demographic_parity_ratio"]
        return dict(zip(rows["attributes"], rows["four_fifths"], strict=True))

    def __str__(self) -> str:
        intro = (
            f"Group fairness, {100 * self.confidence:.6g}% intervals from {self.resamples} resamples; "
            f"small: fewer than {self.smallest} people (effective)."
        )
        cut = "" if self.threshold is None else f", with the cut-off {self.threshold:g}"
        lines = [intro, f"Selected is who is given {' or '.join(map(repr, self.favourable))}{cut}.", *self.notes]
        for attributes, rows in self.groups.groupby("attributes", sort=False):
            lines += ["", f"{attributes}: four-fifths rule: {self.four_fifths[str(attributes)]}"]
            lines += [_shown_groups(rows, self.rates)]
            lines += ["", _shown_summary(self.summary[self.summary["attributes"] == attributes])]
        return "\n".join(lines)


def group_fairness(
    model: Model | npt.ArrayLike,
    people: Population,
    *,
    threshold: float | None = None,
    favourable: str | Sequence[str] | None = None,
    by: Sequence[str | Sequence[str]] | None = None,
    bins: Bins | None = None,
    certificate: LocalCertificate | None = None,
    outcomes: bool = True,
    smallest: int = 30,
    bootstrap: Bootstrap | None = None,
) -> GroupFairness:
    """Compare groups of ``people`` by how ``model``, a network or predictions made elsewhere, decides about them.

    * Predictions are probabilities ``(n, k)``, those of the second of two classes ``(n,)`` with a ``threshold``,
      classes (names, or places among the schema's classes; numbers that could be both and differ are refused), true
      and false, or numbers of a regression.
    * An individual is selected that is given a ``favourable`` class, or ``"high"`` or ``"low"`` numbers of a
      regression, by the rule of :mod:`isonomy.population.outcome` with its ``threshold``; by default those of the
      schema's label. Without a favourable class there is nothing to compare, which is refused. True means selected.
      Accuracy is the share of people who are given a favourable class just where their outcome is one.
    * ``by``: features, and tuples of features for intersections; default: every protected one, and every pair.
    * ``bins``: edges for numbers, ``{"age": [25, 40, 60]}``; default: four equal parts of the schema's range.
    * ``certificate``: local violations of the same people, for IF parity.
    * ``outcomes=False`` compares selection rates only, for people without labels.
    * ``smallest``: groups of fewer people (by Kish's effective number, ``(Σw)² / Σw²``) are marked small.
    * ``bootstrap``: a :class:`isonomy.fairness.Bootstrap`, how the intervals are drawn.

    Groups without a rate (no favourable outcome, say) are left out of the comparison, which the note says.
    """
    instance("bootstrap", bootstrap, Bootstrap | None, "None or a Bootstrap, such as Bootstrap(resamples=1000)")
    bootstrap, _ = bootstrap or Bootstrap(), whole("smallest", smallest, 1)
    instance("people", people, Population, "a Population")
    instance("certificate", certificate, LocalCertificate | None, "None or what certify_local gives")
    if outcomes and people.y is None:
        raise DataError(
            f"The table of {people.schema.name!r} has no label column: error rates need outcomes; "
            "outcomes=False compares selection rates only."
        )
    if not people.weights.sum() > 0:
        raise DataError("All sampling weights are zero; at least one must be positive.")
    selected, actual, decides = decide(model, people, threshold, favourable)
    groupings, notes = make_groupings(people, by, bins)
    outcome = selected + (2 * actual.astype(np.int64) if outcomes and actual is not None else np.int64(0))
    rng = np.random.default_rng(bootstrap.seed)
    kinds = Kinds(groupings, outcome, people.weights, *_violations(certificate, people))
    drawn = kinds.resampled(bootstrap.resamples, rng)
    # A stream of its own for each attribute set, so that one does not depend on how many groups another has.
    measured = [
        measure(kinds, drawn, grouping, outcomes, stream)
        for grouping, stream in zip(groupings, rng.spawn(len(groupings)), strict=True)
    ]

    def table(rows: Any) -> pd.DataFrame:
        return pd.DataFrame([row for one in measured for row in rows(one, bootstrap.confidence, smallest)])

    how = (bootstrap.confidence, bootstrap.resamples, smallest, tuple(notes), decides.favourable, decides.threshold)
    return GroupFairness(table(group_rows), table(summary_rows), *how)


def _violations(
    certificate: LocalCertificate | None, people: Population
) -> tuple[tuple[FloatArray, FloatArray] | None, float]:
    """Return lower and upper violations (n,) each, and the largest possible one: of a regression the largest bound."""
    if certificate is None:
        return None, 0.0
    x, same = certificate.x, certificate.x.shape == people.x.shape
    if not (same and all(np.array_equal(x[at : at + ROWS], people.x[at : at + ROWS]) for at in range(0, len(x), ROWS))):
        raise ParameterError("'certificate' must be about the same individuals, in the same order, as 'people'.")
    if not np.isfinite(certificate.upper).all():
        row = int(np.flatnonzero(~np.isfinite(certificate.upper))[0])
        raise ParameterError(f"'certificate' must have finite upper bounds. Got {certificate.upper[row]} in row {row}.")
    largest = float(certificate.upper.max()) if certificate.problem.model.head == "regression" else 1.0
    return (certificate.lower, certificate.upper), largest


def _shown_groups(rows: pd.DataFrame, names: dict[str, str]) -> str:
    table = rows[["group", "people", "share"]].copy()
    table["share"] = table["share"].map("{:.3f}".format)
    for column in rows:
        if f"{column}_low" in rows and f"{column}_high" in rows:
            table[names.get(str(column), str(column).replace("_", " "))] = [
                "undefined" if np.isnan(value) else f"{value:.3f} {_interval(low, high)}"
                for value, low, high in zip(rows[column], rows[f"{column}_low"], rows[f"{column}_high"], strict=True)
            ]
    table["note"] = rows["note"]
    return str(table.to_string(index=False))


def _shown_summary(rows: pd.DataFrame) -> str:
    table = rows[["metric", "lowest", "highest", "note"]].copy()
    table["metric"] = table["metric"].str.replace("_", " ")
    spans = zip(rows["bound_low"], rows["bound_high"], strict=True)
    values = [f"{at_least(a, 3)} to {at_most(b, 3)}" if a < b else f"{a:.3f}" for a, b in spans]
    ends = zip(rows["low"], rows["high"], strict=True)
    table.insert(1, "value", ["undefined" if value == "nan" else value for value in values])
    table.insert(2, "interval", ["" if np.isnan(low) else _interval(low, high) for low, high in ends])
    return str(table.to_string(index=False))


def _interval(low: float, high: float) -> str:
    """Return an interval as text, rounded outward."""
    return f"[{at_least(low, 3)}, {at_most(high, 3)}]"
