"""Which people of a table a statement is about, and how they were selected: part of every sentence about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from isonomy_verify.selection import selected

SplitName = Literal["all", "train", "test"]
How = Literal["all", "random", "chosen", "unknown"]


@dataclass(frozen=True)
class Selection:
    """``people`` of the ``pool`` that is a ``part`` of a table.

    ``rows`` counts the table, with the ``excluded`` rows that do not fit the schema; None where it was not counted, as
    in a piece of a file. ``how`` is ``"all"`` of the pool, ``"random"`` (without replacement, by ``seed``; None after
    several draws), ``"chosen"`` by the caller, or ``"unknown"``. ``held_out`` is the caller's word that they are
    independent draws on which nothing was fitted.
    """

    people: int
    pool: int | None = None
    rows: int | None = None
    excluded: int = 0
    part: SplitName = "all"
    how: How = "all"
    seed: int | None = None
    held_out: bool = False

    @property
    def independent(self) -> bool:
        """Say whether independent draws remain independent draws: none was chosen by its own values."""
        return self.how in ("all", "random") or self.held_out

    def drawn(self, people: int, seed: int) -> Selection:
        """Return the selection of ``people`` of these, drawn at random without replacement."""
        if people == self.people:
            return self
        if self.how in ("chosen", "unknown"):
            return replace(self, people=people)
        return replace(self, people=people, how="random", seed=seed if self.how == "all" else None)

    def picked(self, people: int) -> Selection:
        """Return the selection of ``people`` of these that the caller chose: no promise about all holds."""
        return replace(self, people=people, how="chosen", seed=None, held_out=False)

    def split(self, part: SplitName, people: int) -> Selection:
        """Return the selection of the people on one side of the split.

        Of a random draw they are, given how many they are, a random draw from that side, whose size is not known.
        """
        return replace(
            self, people=people, pool=people if self.how == "all" else None, part=part,
            held_out=self.held_out and part != "train",
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, and the words, for JSON."""
        return asdict(self) | {"words": self.words()}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> Selection:
        """Return the selection that :meth:`as_dict` wrote."""
        selection = cls(**{item.name: entries[item.name] for item in fields(cls)})
        if selection.part not in get_args(SplitName) or selection.how not in get_args(How):
            raise ValueError(f"a selection of '{selection.part}' people, '{selection.how}', is not known")
        return selection

    def words(self, name: str = "") -> str:
        """Return ``300 of 2,164 people, drawn at random (seed 0) from the test part of the table (7,214 rows)``."""
        return selected(asdict(self), name)
