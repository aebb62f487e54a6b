"""Some features alone, over the whole domain: how far they move the score and the output of any possible person.

A claim is about all pairs of possible people, of the realizable domain, who agree in everything but the features named:
no row of a table enters it. Its evidence, in arrays ``gaps.0.cuts`` and so on, is the hint from which
:meth:`isonomy_verify.models.Bounds.gap` derives the bounds, a ``pair`` that attains the lower ones, the higher score
first, one that is decided differently (``flip``), or how boxes are cut to show that there is none (``halves``, and of
each box its weight in ``eighths``: :mod:`isonomy_verify.tree_crossing`).

**Soundness.** Upper bounds are derived from the model's arrays; the hint may be any one. Pairs are evaluated by
enclosures, and are possible people who agree in all other coordinates. ``decision`` is *shown* by a pair whose
decisions are certain and differ, *impossible* where the kernel derives it, else *open*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isonomy_verify.alone import free_form
from isonomy_verify.arithmetic import Array, down
from isonomy_verify.evidence import need, number
from isonomy_verify.heads import Head
from isonomy_verify.models import Bounds, Model
from isonomy_verify.record import Record
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Enclosure
from isonomy_verify.tree_crossing import Halving
from isonomy_verify.tree_global import Hint


@dataclass(frozen=True)
class GapClaim:
    """One claim of a record: its features, what is said of them, the bounds that derive it, and the evidence."""

    features: tuple[str, ...]
    said: Mapping[str, Any]
    bounds: Bounds
    hint: Hint
    cover: Halving
    pair: Array
    flip: Array

    @classmethod
    def of(
        cls, record: Record, place: int, model: Model, head: Head, similarity: Similarity, places: Mapping[str, slice]
    ) -> GapClaim:
        """Read a claim; ``similarity`` is the certificate's own, on the realizable domain."""
        said = record.predicate["claims"]["gaps"][place]
        features, asked = tuple(said["features"]), record.predicate["question"]
        need(len(set(features)) == len(features) > 0, "a gap of features that are named twice, or none")
        form = free_form(places, features, similarity.domain.width)
        own = Similarity(form, 1.0, similarity.domain, similarity.max_branches)
        bounds = model.bounds(head, own, str(asked["tier"]), asked["arithmetic"] == "float32")
        need((said["decision"] is not None) == head.decides, "decisions where there are none, or none where there are")
        arrays = {name: np.array(array) for name, array in record.group(f"gaps.{place}").items()}
        none = np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64)
        cover = Halving(arrays.get("halves", none[0]), arrays.get("eighths", none[1]))
        return cls(
            features, said, bounds, hint_of(arrays), cover, *(_pair(arrays, each, len(form.free)) for each in PAIRS)
        )

    def upper(self) -> tuple[float, float]:
        """Derive how far the score, and the output, moves at most."""
        return self.bounds.gap(self.bounds.similarity.form.free, self.hint)

    def holds(self, score: float, output: float) -> bool:
        """Do the claims hold, where the score and the output move by no more than this?"""
        names = ("score_lower", "score_upper", "lower", "upper")
        least, most, shown, proved = (number(self.said[name]) for name in names)
        below = 0 <= least <= score and 0 <= shown <= output
        if not (below and score <= most and output <= proved):
            return False
        free = self.bounds.similarity.form.free
        return self.said["decision"] != "impossible" or score == 0 or self.bounds.undivided(free, self.cover)

    def attained(self) -> bool:
        """Do the pairs do what is said of them?"""
        score, output = number(self.said["score_lower"]), number(self.said["lower"])
        if score > 0 or output > 0:
            reached = moves_of(self.bounds, self.pair)
            if reached is None or reached[0] < score or reached[1] < output:
                return False
        return self.said["decision"] != "shown" or turns(self.bounds, self.flip)


PAIRS = ("pair", "flip")


def moves_of(bounds: Bounds, pair: Array) -> tuple[float, float] | None:
    """How far the score, and the output, certainly moves from the second to the first of a pair (2, m); None where they
    are not possible people who agree in all that must."""
    if not fits(bounds, pair):
        return None
    at = bounds.enclose(pair)
    one, other = (Enclosure(at.low[i : i + 1], at.high[i : i + 1]) for i in (0, 1))
    change = replace(bounds.head, run_unit=False).attained(one, other)
    return max(0.0, float(down(at.low[0, 0] - at.high[1, 0]))), float(change[0])


def turns(bounds: Bounds, pair: Array) -> bool:
    """Is one of a pair (2, m) certainly decided otherwise than the other?"""
    if not fits(bounds, pair):
        return False
    mine, theirs = replace(bounds.head, run_unit=False).decision(bounds.enclose(pair)).tolist()
    return bool(mine >= 0 and theirs >= 0 and mine != theirs)


def fits(bounds: Bounds, pair: Array) -> bool:
    """Are they two possible people who agree in all but the free coordinates?"""
    similarity = bounds.similarity
    if len(pair) != 2 or not similarity.domain.contains(pair).all():
        return False
    return bool((pair[0] == pair[1])[~similarity.form.free].all())


def _pair(arrays: Mapping[str, Array], name: str, width: int) -> Array:
    """The pair of this name, or none."""
    pair = arrays.get(name, np.zeros((0, width)))
    need(pair.shape in ((0, width), (2, width)), f"a pair of another shape: {name}")
    return pair


def hint_of(arrays: Mapping[str, Any]) -> Hint:
    """The hint of a record: ``columns`` (k, 3) says of each column of ``h`` which it is, how many trees and how many
    cells it has; these, and the numbers of ``h``, follow one another in arrays of their own."""
    columns, goals, h, at = arrays["columns"], arrays["goals"], {}, [0, 0, 0]
    need(columns.ndim == 2 and columns.shape[1] == 3 and (columns >= 0).all() and goals.shape == (2,), "a hint")
    for column, *counts in columns.tolist():
        sizes, parts = (*counts, counts[0] * counts[1]), []
        for k, (name, size) in enumerate(zip(("trees", "first", "h"), sizes, strict=True)):
            parts.append(arrays[name][at[k] : at[k] + size])
            at[k] += size
        need(parts[2].shape == (sizes[2],) and column not in h, "a hint without all its numbers")
        h[column] = parts[0], parts[1], parts[2].reshape(counts)
    need(all(arrays[name].shape == (end,) for name, end in zip(("trees", "first", "h"), at, strict=True)), "a hint")
    return Hint(arrays["cuts"], h, (int(goals[0]), int(goals[1])))


def arrays_of(hint: Hint) -> dict[str, Any]:
    """The arrays of a record from which :func:`hint_of` makes the hint again."""
    parts: Sequence[Any] = list(hint.h.values())
    columns = [(column, len(trees), len(first)) for column, (trees, first, _) in hint.h.items()]
    joined = {
        name: np.concatenate([each[k].ravel() for each in parts]) if parts else np.zeros(0, dtype=np.int64)
        for k, name in enumerate(("trees", "first", "h"))
    }
    whole = np.array(columns, dtype=np.int64).reshape(-1, 3)
    return {"cuts": hint.cuts, "columns": whole, "goals": np.array(hint.goals, dtype=np.int64), **joined}
