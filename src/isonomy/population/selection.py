"""Which people of a table are spoken of, and how they came to be those: what every sentence about them has to say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

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
        """Whether independent draws are still independent draws: nobody chose among them by what they are."""
        return self.how in ("all", "random") or self.held_out

    def drawn(self, people: int, seed: int) -> Selection:
        """So many of these, drawn at random without replacement."""
        if people == self.people:
            return self
        if self.how in ("chosen", "unknown"):
            return replace(self, people=people)
        return replace(self, people=people, how="random", seed=seed if self.how == "all" else None)

    def picked(self, people: int) -> Selection:
        """So many of these, whoever the caller likes: what was promised of all does not hold for them."""
        return replace(self, people=people, how="chosen", seed=None, held_out=False)

    def split(self, part: SplitName, people: int) -> Selection:
        """Those on one side of the split.

        Of a random draw they are, given how many they are, a random draw from that side, whose size is not known.
        """
        return replace(
            self, people=people, pool=people if self.how == "all" else None, part=part,
            held_out=self.held_out and part != "train",
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the fields, and the words."""
        return asdict(self) | {"words": self.words()}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> Selection:
        """What :meth:`as_dict` gave."""
        selection = cls(**{item.name: entries[item.name] for item in fields(cls)})
        if selection.part not in get_args(SplitName) or selection.how not in get_args(How):
            raise ValueError(f"a selection of '{selection.part}' people, '{selection.how}', is not known")
        return selection

    def words(self, name: str = "") -> str:
        """``300 of 2,164 people, drawn at random (seed 0) from the test part of the table (7,214 rows)``."""
        table = f"table “{name}”" if name else "table"
        side = {"all": "", "train": "the training part of ", "test": "the test part of "}[self.part]
        among = f"{side}the {table}"
        part = among if side else f"the {table} as given"
        people = f"{self.people:,} {'person' if self.people == 1 else 'people'}"
        drawn = people if self.pool is None else f"{self.people:,} of {self.pool:,} people"
        text = {
            "all": f"{people}, {part}",
            "random": f"{drawn}, drawn at random{'' if self.seed is None else f' (seed {self.seed})'} from {part}",
            "chosen": f"{drawn} of {among}, chosen by hand and not drawn at random",
            "unknown": f"{people} of {among}; how they were selected is not known",
        }[self.how]
        if self.excluded:
            of = "rows" if self.rows is None else f"of its {self.rows:,} rows"
            text += f"; {self.excluded:,} {of} do not fit the schema and were left out"
        elif self.rows not in (None, self.pool, self.people):
            text += f" ({self.rows:,} rows)"
        return text + ("; said to be held out: nothing was fitted on them" if self.held_out else "")
