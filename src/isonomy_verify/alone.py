"""Some features alone: what a certificate claims of everybody when only these may change, everything else equal.

Each question is one of similarity: similar are possible people, of the realizable domain whatever the certificate's,
who agree in all coordinates but those of the features named, which take any value; or, where the features are *held*,
those of the certificate's own metric and δ who agree in the features named. Its claims are those of everybody alone
(:mod:`isonomy_verify.individuals`), in arrays ``alone.0.upper`` and so on, with witnesses of their own.

**Soundness.** The demand is a form, with coordinates that are free or equal or as in the certificate's own, so the
bounds of the model's own kind cover all similar people. Witnesses are all evaluated. Bounds and decisions are derived
of everybody or, in a large table, of those who are drawn: each with a probability proportional to what the claim could
hide below the largest violation that a probability can have, and each with the same probability; numbers without a
largest one are all derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.evidence import individuals_of, need
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE, Individuals, deflated, witnessed
from isonomy_verify.models import Bounds, Model
from isonomy_verify.record import Record
from isonomy_verify.similar import Similarity

ROWS = 1024
"""Individuals derived at a time."""


def free_form(places: Mapping[str, slice], features: Sequence[str], width: int) -> Form:
    """The form that lets these features take any value, and nothing else change."""
    free = np.zeros(width, dtype=bool)
    for name in features:
        need(name in places, "a question about a feature that the schema lacks")
        free[places[name]] = True
    zeros = np.zeros(width)
    return Form(np.zeros((0, width)), math.inf, free, zeros, zeros, zeros, np.ones(width))


def held_form(form: Form, places: Mapping[str, slice], features: Sequence[str]) -> Form:
    """The form that asks what ``form`` does, and that these features are equal."""
    others = ~free_form(places, features, form.width).free
    tolerance, relative, share = (np.where(others, each, 0.0) for each in (form.tolerance, form.relative, form.share))
    return replace(form, free=form.free & others, tolerance=tolerance, relative=relative, share=share)


def largest_of(head: Head, upper: Array) -> float:
    """The largest violation that there can be; of numbers, which have none, the largest that is claimed."""
    return head.largest if math.isfinite(head.largest) else float(upper.max())


@dataclass(frozen=True)
class Alone:
    """One question of a record: its features, whether these alone change or are held, its claims, and the bounds that
    derive them."""

    features: tuple[str, ...]
    held: bool
    said: Individuals
    bounds: Bounds

    @classmethod
    def of(
        cls, record: Record, number: int, model: Model, head: Head, similarity: Similarity, places: Mapping[str, slice]
    ) -> Alone:
        """Read a question; ``similarity`` is the certificate's own, on the realizable domain."""
        about = record.predicate["claims"]["alone"][number]
        features, held = tuple(about["features"]), bool(about.get("held", False))
        need(len(set(features)) == len(features) > 0, "a question about features that are named twice, or none")
        form, delta = free_form(places, features, similarity.domain.width), 1.0
        if held:
            form, delta = held_form(similarity.form, places, features), similarity.delta
        asked, question = record.predicate["question"], f"alone.{number}"
        own = Similarity(form, delta, similarity.domain, similarity.max_branches, keep=True)
        bounds = model.bounds(head, own, str(asked["tier"]), asked["arithmetic"] == "float32")
        upper = record.array(f"{question}.upper")
        need(upper.ndim == 1 and len(upper) > 0 and np.isfinite(upper).all(), "bounds of individuals")
        n = len(record.array("people.weights"))
        said = individuals_of(record, n, largest_of(head, upper), question)
        need(((said.decision > 0) == head.decides).all(), "decisions where there are none, or none where there are")
        return cls(features, held, said, bounds)

    def crossed(self) -> int:
        """How many have a lower bound above their upper one."""
        return int((deflated(self.said.lower) > self.said.highs(slice(None))).sum())

    def derived(self, x: Array, rows: NDArray[np.intp]) -> tuple[int, int]:
        """Of these individuals, how many bounds are above their claim, and how many certified decisions do not
        stand."""
        above = turned = 0
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            block = np.ascontiguousarray(x[some])
            known, stays = self.bounds.chunk(block), self.said.decision[some] == CERTIFIED
            high = np.minimum(known.upper, self.bounds.head.largest)
            above += int((~(high <= self.said.highs(some))).sum())
            turned += int((stays & ~self.bounds.proved_decisions(block, known, stays)).sum())
        return above, turned


def witnesses(
    record: Record, group: str, bounds: Bounds, said: Individuals, x: Array, seen: Callable[[Array], None] | None = None
) -> tuple[bool, list[int]] | None:
    """Do all witnesses of a group do what is said of them, and how many are of violations and of other decisions; None
    where they are withheld. ``seen`` is called with the counterparts."""
    good, counts = True, []
    for name, of in (("counterpart", said.lower > 0), ("flip_counterpart", said.decision == FLIPPABLE)):
        if not record.has(f"{group}.{name}"):
            return None
        owner, other = np.flatnonzero(of), record.array(f"{group}.{name}")
        need(other.shape == (len(owner), x.shape[1]), f"witnesses of another shape: {group}.{name}")
        for start in range(0, len(owner), ROWS):
            some = owner[start : start + ROWS]
            mine, theirs = (np.ascontiguousarray(rows) for rows in (x[some], other[start : start + ROWS]))
            good &= bool(witnessed(bounds, said, some, mine, theirs, name == "flip_counterpart").all())
            if seen is not None:
                seen(theirs)
        counts.append(len(owner))
    return good, counts


def claims(features: Sequence[str], held: bool, said: Individuals, weights: Array) -> dict[str, Any]:
    """What a certificate says of a question: its features, whether they are held, means and counts."""
    return {"features": list(features), **({"held": True} if held else {}), **said.claims(weights, None)}
