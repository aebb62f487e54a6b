"""The results of an audit as plain numbers and words; how they are kept, and when new ones are no worse than old ones.

Groups, each a set of named lists:

* ``upper``: proved bounds, smaller is better. The mean may not grow, nobody's may grow by more than 2 %;
* ``lower``: what was attained, larger is better. The mean may fall by a thousandth: another search finds other people;
* ``reach``: proved, larger is better (the largest shift up to which everybody is fair); rules as for ``upper``;
* ``words``: decisions and verdicts. They may become more decided;
* ``same``: what was asked. If predictions, individuals or distances differ, so does the question, and nothing compares.

Bounds, old and new, enclose one truth. An upper bound below what was attained before, or a decision that has turned
into its opposite, is an error in one of the two engines, never a loss of quality: a *contradiction*.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
GROUPS = ("same", "upper", "lower", "reach", "words")
EQUAL, PROVED, EACH, FOUND = 1e-9, 1e-9, 1.02, 1e-3
ROUNDING = 1e-12
OPEN = "undecided"


@dataclass(frozen=True, eq=False)
class Results:
    """What one audit gave. ``gap`` is what the question itself leaves open: bounds so near to each other are as good.

    ``check`` looks at the witnesses behind ``lower`` afresh and names those that are none. It is not kept.
    """

    same: Mapping[str, list[float]]
    upper: Mapping[str, list[float]]
    lower: Mapping[str, list[float]]
    reach: Mapping[str, list[float]] = field(default_factory=dict)
    words: Mapping[str, list[str]] = field(default_factory=dict)
    gap: float = 0.0
    check: Callable[[], list[str]] = list

    def write(self, name: str) -> Path:
        """One line for each quantity; numbers as their shortest text that is read as the same bits."""
        lines = [f'"gap": {self.gap!r}']
        for group in GROUPS:
            kept = getattr(self, group)
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(values)}" for key, values in kept.items())
            lines.append(f'"{group}": {{\n{rows}\n }}' if rows else f'"{group}": {{}}')
        path = FOLDER / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, name: str) -> Results:
        """What is kept."""
        return cls(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))

    def equals(self, other: Results) -> bool:
        """Bit for bit."""
        return all(dict(getattr(self, group)) == dict(getattr(other, group)) for group in (*GROUPS,))


@dataclass(frozen=True)
class Loss:
    """A quantity that has become worse (or contradicts what was known): what it was, and what it is."""

    audit: str
    quantity: str
    old: float | str
    new: float | str
    contradiction: bool = False

    @property
    def ratio(self) -> str:
        """The new number over the old one."""
        if isinstance(self.old, str) or isinstance(self.new, str) or not self.old:
            return "-"
        return f"{self.new / self.old:.9f}"


def compare(audit: str, old: Results, new: Results) -> list[Loss]:
    """Everything that is worse than it was."""
    for group in GROUPS:
        before, now = getattr(old, group), getattr(new, group)
        lengths = {key: len(values) for key, values in before.items()}
        if lengths != {key: len(values) for key, values in now.items()}:
            return [Loss(audit, group, str(lengths), str({key: len(values) for key, values in now.items()}), True)]
    others = [Loss(audit, f"same {key}", *pair, True) for key, pair in _other_questions(old.same, new.same)]
    if others:
        return others
    return [*_uppers(audit, old, new), *_lowers(audit, old, new), *_reaches(audit, old, new), *_words(audit, old, new)]


def as_table(losses: list[Loss]) -> str:
    """For people: audit, quantity, old, new, ratio."""
    rows = [("audit", "quantity", "old", "new", "ratio")]
    for loss in losses:
        quantity = loss.quantity + " CONTRADICTS" * loss.contradiction
        rows.append((loss.audit, quantity, *(_text(value) for value in (loss.old, loss.new)), loss.ratio))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _other_questions(
    old: Mapping[str, list[float]], new: Mapping[str, list[float]]
) -> Iterator[tuple[str, tuple[float, float]]]:
    for key, before in old.items():
        for i, (a, b) in enumerate(zip(before, new[key], strict=True)):
            if not math.isclose(a, b, rel_tol=EQUAL, abs_tol=EQUAL):
                yield f"{key} {i}", (a, b)
                break


def _uppers(audit: str, old: Results, new: Results) -> Iterator[Loss]:
    for key, before in old.upper.items():
        now = new.upper[key]
        (a, b) = _means(before, now)
        if not b <= a * (1 + PROVED) + ROUNDING + old.gap:
            yield Loss(audit, f"upper {key}, mean", a, b)
        for i, (a, b) in enumerate(zip(before, now, strict=True)):
            if not b <= EACH * a + 1e-9 + old.gap:
                yield Loss(audit, f"upper {key} {i}", a, b)
        for i, (a, b) in enumerate(zip(old.lower.get(key, ()), now, strict=False)):
            if b < a - ROUNDING:
                yield Loss(audit, f"upper {key} {i} below attained", a, b, True)


def _lowers(audit: str, old: Results, new: Results) -> Iterator[Loss]:
    for key, before in old.lower.items():
        now = new.lower[key]
        (a, b) = _means(before, now)
        if not b >= a * (1 - FOUND) - ROUNDING - old.gap:
            yield Loss(audit, f"lower {key}, mean", a, b)
        for i, (a, b) in enumerate(zip(old.upper.get(key, ()), now, strict=False)):
            if b > a + ROUNDING:
                yield Loss(audit, f"lower {key} {i} above proved", a, b, True)


def _reaches(audit: str, old: Results, new: Results) -> Iterator[Loss]:
    """A negative reach stands for none at all."""
    for key, before in old.reach.items():
        now = new.reach[key]
        (a, b) = _means(before, now)
        if not b >= a - PROVED * abs(a) - ROUNDING:
            yield Loss(audit, f"reach {key}, mean", a, b)
        for i, (a, b) in enumerate(zip(before, now, strict=True)):
            if not b >= min(a, a / EACH) - 1e-9:
                yield Loss(audit, f"reach {key} {i}", a, b)


def _words(audit: str, old: Results, new: Results) -> Iterator[Loss]:
    for key, before in old.words.items():
        for i, (a, b) in enumerate(zip(before, new.words[key], strict=True)):
            if a != b and a != OPEN:
                yield Loss(audit, f"{key} {i}", a, b, contradiction=b != OPEN)


def _means(old: list[float], new: list[float]) -> tuple[float, float]:
    return math.fsum(old) / max(len(old), 1), math.fsum(new) / max(len(new), 1)
