"""What a record claims of everybody alone, with a margin for other machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.moving import MARGIN
from isonomy.errors import DataError
from isonomy.files import Arrays
from isonomy_verify.claims import inflated
from isonomy_verify.heads import Head
from isonomy_verify.individuals import CERTIFIED, DECISIONS, FLIPPABLE
from isonomy_verify.models import PARTS
from isonomy_verify.tiers import Enclosure

if TYPE_CHECKING:
    from isonomy.certificates.local import LocalCertificate
    from isonomy.certificates.protocol import Tier
    from isonomy.certificates.worst_case import Points
    from isonomy.similarity.metric import Metric

ROWS = 1024
"""Individuals looked at at a time."""


def individual_claims(tier: Tier, local: LocalCertificate, output_range: tuple[float, float] | None) -> Arrays:
    """Return the claims (n,) on each individual as columns, ``claimed_lower`` and ``claimed_decision``.

    **Soundness.** They are derived by the lines that check them. Another machine's numbers differ in the last bits: a
    decision is claimed where it holds by more than that, and where half the parts that a checker may use prove it.
    Other decisions are undecided in the record.
    """
    bounds = tier.kernel_bounds()  # of a model that was asked: with all answers that the bounds rest on
    exact, bounds.head = Head(bounds.head.kind, bounds.head.outputs), replace(bounds.head, margin=MARGIN)
    clear, pairs = replace(bounds.head, run_unit=False), local.witnesses
    decision = np.array(local.decided)
    lower = np.array(local.lower)
    for some in (np.arange(start, min(start + ROWS, len(local))) for start in range(0, len(local), ROWS)):
        x, at = (own := np.ascontiguousarray(local.x[some])), bounds.enclose(own)
        other, turned = (
            bounds.enclose(np.ascontiguousarray(y[some])) for y in (pairs.counterpart, pairs.flip_counterpart)
        )
        if output_range is not None:
            _check_range(output_range, exact.received(at), local.counterexamples.row, some)
        lower[some] = np.minimum(lower[some], exact.attained(at, other))
        mine, theirs = clear.decision(at), clear.decision(turned)
        flips = (decision[some] == FLIPPABLE) & (mine >= 0) & (theirs >= 0) & (mine != theirs)
        stands = (decision[some] == CERTIFIED) & bounds.keeps(x, inflated(local.upper[some]))
        failed = np.flatnonzero((decision[some] == CERTIFIED) & ~stands)
        if len(failed):
            known = bounds.chunk(x[failed])
            stands[failed] = bounds.proved_decisions(x[failed], known, np.ones(len(failed), dtype=bool), PARTS // 2)
        decision[some[(decision[some] > 0) & ~flips & ~stands]] = DECISIONS.index("undecided")
    return {"claimed_lower": lower, "claimed_decision": decision}


def turned_claims(tier: Tier, x: FloatArray, turned: Points, paid: Metric) -> Points:
    """Return the points at which a decision is turned for certain, the cheapest of each individual of ``x`` (n, m).

    **Soundness.** They are looked at by the lines that check them, and runs are apart by more than machines differ.
    """
    bounds, similarity = tier.kernel_bounds(), tier.problem.similarity.kernel
    head, sure = replace(bounds.head, margin=MARGIN, run_unit=False), np.zeros(len(turned.owner), dtype=bool)
    for some in (slice(start, start + ROWS) for start in range(0, len(sure), ROWS)):
        z, y = (np.ascontiguousarray(rows[some]) for rows in (turned.person, turned.counterpart))
        one, other = (head.decision(bounds.enclose(rows)) for rows in (z, y))
        near = similarity.domain.allows(z, y) & (similarity.form.distance_upper(z, y) <= similarity.delta)
        pays = paid.distance_upper(np.ascontiguousarray(x[turned.owner[some]]), z) <= turned.cost[some]
        sure[some] = (one >= 0) & (other >= 0) & (one != other) & near & similarity.domain.contains(z) & pays
    return turned[sure].best()


def _check_range(
    output_range: tuple[float, float], given: Enclosure, row: Callable[[int], int], rows: NDArray[np.intp]
) -> None:
    """Refuse a declared range of outputs that individuals themselves leave."""
    low, high = output_range
    outside = np.flatnonzero(((given.low > high) | (given.high < low)).any(axis=1))
    if len(outside):
        i, out = row(int(rows[outside[0]])), float(given.low[outside[0]][0])
        raise DataError(
            f"'output_range' must hold all outputs. Got {low:g} to {high:g}, but individual {i} gets {out:g}."
        )
