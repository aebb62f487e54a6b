"""What is judged, as the checker reaches it: a model gives the bounds of its own kind, and nothing else asks for it.

A record says the kind of its model (:data:`isonomy_verify.layout.MODELS`), by which
:data:`isonomy_verify.kinds.KINDS` reads it. A :class:`Model` makes :class:`Bounds` for a head and for who is similar.

**Soundness.** Each member states what its bounds rest on; ``condition`` is what no file can show of it, and stands
beside everything that is said of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Mask
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.similar import Similarity
from isonomy_verify.text import BadInput
from isonomy_verify.tiers import Enclosure

if TYPE_CHECKING:
    from isonomy_verify.tree_crossing import Halving
    from isonomy_verify.tree_global import Hint

PARTS = 1024
"""Parts that one decision may take."""


class Known(NamedTuple):
    """What bounds say of individuals: ``upper`` bounds of their violations, whose decision is ``kept``, the margins
    ``at`` them, and which way (n, coordinates of a ball that all share) the first margin is thought to grow."""

    upper: Array
    kept: Mask
    at: Enclosure | None = None
    direction: Array | None = None


class ReachBounds(Protocol):
    """Bounds over balls of one ground cost around individuals."""

    @property
    def is_norm(self) -> bool:
        """Return whether the ground cost is a norm; with a seminorm a ball of radius 0 is more than a point."""
        ...

    @property
    def single_radius(self) -> bool:
        """Return whether a pass at a radius says nothing of smaller ones, so that each needs a pass of its own."""
        ...

    @property
    def own_passes(self) -> bool:
        """Return whether every radius costs passes of its own, also where several are asked for together."""
        ...

    def bound(self, x: Array, radii: Sequence[float], tight: bool = True, size: int = 1024) -> Array:
        """Return upper bounds (n, radii) of the violation within each of the ascending ``radii`` of the rows of
        ``x``."""
        ...

    def everywhere(self, x: Array) -> tuple[float, float]:
        """Return an upper bound of every violation in the domain, and the radius around the rows of ``x`` up to which
        it holds."""
        ...

    def stands(self, x: Array, radius: float, margin: float = 0.0, size: int = 1024) -> Mask:
        """Return whether (n,) no individual within the radius of the rows of ``x`` has a decision that a similar
        individual has otherwise, by more than a ``margin`` of outputs."""
        ...


class Bounds(ABC):
    """A model with a head, and who is similar: ready to derive bounds of individuals, ``size`` of them at a time."""

    head: Head
    similarity: Similarity
    size: int

    @abstractmethod
    def enclose(self, x: Array) -> Enclosure:
        """The margins of individuals ``x`` (n, m) themselves, in real arithmetic."""

    @abstractmethod
    def chunk(self, x: Array) -> Known:
        """What is known of individuals ``x`` (n, m), who lie in the domain."""

    def enclose_run(self, x: Array) -> Enclosure:
        """The same of every run that the bounds cover."""
        return self.enclose(x)

    def keeps(self, x: Array, upper: Array) -> Mask:
        """Whose decision cannot change because no similar individual is treated so differently as ``upper`` (n,)
        says."""
        at = self.enclose_run(x)
        same = self.head.settled(at, upper)
        return np.asarray((same >= 0) & (same == self.head.decision(at)))

    @abstractmethod
    def proved_decisions(self, x: Array, known: Known, wanted: Mask, parts: int = PARTS) -> Mask:
        """Which of the ``wanted`` (n,) decisions stand, each by at most this many ``parts`` of work."""

    def gap(self, free: Mask, hint: Hint) -> tuple[float, float]:
        """How far the score, and the output, of possible people moves at most by the ``free`` coordinates (m,), as a
        hint shows; refused where a kind of model has no such bound."""
        raise BadInput("The certificate cannot be checked: gaps over the whole domain are derived of trees only.")

    def undivided(self, free: Mask, cover: Halving) -> bool:
        """Whether no two possible people who differ in the ``free`` coordinates only are decided differently, as a
        cover shows."""
        return False

    @abstractmethod
    def reach(self, ground: Form) -> ReachBounds:
        """Bounds over balls of a ground cost; refused by name where a kind of model has none."""


class Model(ABC):
    """A model of a record: coordinates that it reads, outputs that it gives."""

    width: int
    outputs: int
    condition: ClassVar[str] = ""
    """What everything said of the model rests on and no file can show, such as "given these predictions"."""

    says: ClassVar[str] = ""
    """What its arrays say of themselves, beside the function: said where their digest is."""

    @abstractmethod
    def bounds(self, head: Head, similarity: Similarity, tier: str, float32_run: bool) -> Bounds:
        """The bounds of a tier."""

    def refused(self, what: str) -> BadInput:
        """The error for a claim that no bound of this kind of model can derive."""
        return BadInput(f"The certificate cannot be checked: {what}.")
