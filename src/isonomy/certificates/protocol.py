"""The seams of the pipeline: what is judged, what proves bounds of it, and which populations are meant.

``certify`` asks a :class:`Model` for nothing but its answers, a :class:`Tier` for what is proved of them, a
:class:`Shift` for the dual of its set of populations. A member that lacks something refuses it in one sentence by name.
``tests/contracts`` has a suite for each that a new member inherits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, these
from isonomy.errors import ParameterError, UnsupportedOperationError
from isonomy.networks.graph import Head as HeadName
from isonomy_verify.dual import Cells
from isonomy_verify.heads import Head
from isonomy_verify.local import Known

if TYPE_CHECKING:
    from isonomy.attacks import AttackBudget, Finds
    from isonomy.certificates.question import Question
    from isonomy.population import Domain
    from isonomy.progress import Progress
    from isonomy.search import Limits
    from isonomy.similarity.metric import Metric
    from isonomy.similarity.regions import Similarity

Items = tuple[NDArray[np.intp], FloatArray, FloatArray]
"""Whose, what it costs and what it is worth, of everything that the individuals can choose from."""


@runtime_checkable
class Model(Protocol):
    """What is judged: any function that can be evaluated. What can be proved of it is a :class:`Tier` of its kind."""

    @property
    def kind(self) -> str:
        """Which tiers know it; ``"network"`` for :class:`isonomy.Network`."""
        ...

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        ...

    @property
    def head(self) -> HeadName:
        """How outputs are read: ``"softmax"``, ``"sigmoid"`` or ``"regression"``."""
        ...

    @property
    def input_width(self) -> int:
        """How many coordinates of an individual it reads."""
        ...

    @property
    def classes(self) -> int:
        """How many raw outputs there are: k for softmax, 1 for a single sigmoid or number."""
        ...

    @property
    def named(self) -> tuple[str, ...]:
        """What it calls the classes itself; nothing where it has no names."""
        ...

    def __call__(self, x: Any, /) -> FloatArray:
        """Probabilities (n, k), or the numbers of a regression, of individuals (n, input_width)."""
        ...

    def hash(self) -> str:
        """SHA-256 of the function: what was computed for a model is used again for no other."""
        ...


class ReachBounds(Protocol):
    """What is proved of anybody within reach of an individual, for one ground cost."""

    @property
    def separates(self) -> bool:
        """Does every move cost something? Otherwise nobody stands still, not even at radius 0."""
        ...

    @property
    def together(self) -> bool:
        """Does a pass at a radius say nothing of smaller ones? Then each is worth a pass of its own."""
        ...

    def bound(self, x: FloatArray, radii: Sequence[float], tight: bool, size: int) -> FloatArray:
        """At least the violation (n, radii) of anybody within each of the ascending ``radii`` of the rows of ``x``."""
        ...

    def everywhere(self, x: FloatArray) -> tuple[float, float]:
        """At least the violation of anybody at all, and up to which radius around the rows of ``x`` that holds."""
        ...


class Tier(ABC):
    """Bounds of one kind of model for the individuals of a question; every answer holds whatever the others are."""

    question: Question
    head: Head
    size: int  # individuals bounded at a time
    moving_size: int = 1024  # the same where people move
    price: float = 0.0  # multiplications of the bound of one region, about

    @abstractmethod
    def chunk(self, x: FloatArray) -> Known:
        """At least the violation of the rows of ``x``, who lie in the domain, and whose decision cannot change."""

    def reach(self, ground: Metric) -> ReachBounds:
        """Bounds for anybody within reach, in a ground cost."""
        raise self.lacks("bounds for people who move: ask for a shift without transport")

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Similar people who are treated differently: similar for sure, their change rounded down."""
        raise self.lacks("search for witnesses: say attack=False, which leaves 'lower' at 0")

    def nearby(self, rows: NDArray[np.int64], ball: Similarity, budget: AttackBudget) -> FloatArray:
        """People within a ball of the ground cost around individuals, worth an attack; the individuals where there are
        none. Nothing is believed of them."""
        return np.array(self.question.x[rows])

    def close_gaps(
        self, upper: FloatArray, finds: Finds, limits: Limits, began: float, tick: Progress
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Smaller upper bounds until they meet what was found, and whose decision they settle."""
        raise self.lacks("exact tier: take another one")

    def decide(self, kept: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Settle in ``kept`` and ``finds`` whose decision can change."""
        raise self.lacks("way to settle decisions: say decide=False")

    def lacks(self, what: str) -> UnsupportedOperationError:
        """The error for what this kind of model has not."""
        model = self.question.model
        return UnsupportedOperationError(f"'{model.name}', a model of kind '{model.kind}', has no {what}.")


MakeTier = Callable[["Question", str, bool], Tier]
"""From a question, the name of a tier, and whether float32 runs are meant."""

_TIERS: dict[str, MakeTier] = {}


def register(kind: str, make: MakeTier) -> None:
    """Say what proves bounds of a kind of model."""
    _TIERS[kind] = make


def tier_for(question: Question, tier: str = "tight", float32: bool = False) -> Tier:
    """The tier by name for the question's kind of model."""
    kind = question.model.kind
    if kind not in _TIERS:
        known = ", ".join(sorted(_TIERS))
        raise UnsupportedOperationError(
            f"Nothing is known to prove bounds of '{question.model.name}', a model of kind '{kind}' (known: {known})."
        )
    return _TIERS[kind](question, tier, float32)


class Shift(ABC):
    """A set of populations around the individuals, by the dual of its worst case.

    **Soundness.** For EVERY multiplier no population has a mean violation above ``price_up(multiplier)`` plus the
    weighted mean of ``heights_up(cells, multiplier)``. ``budget`` and ``items`` only steer the multiplier:
    ``multiplier budget + mean of max (value - multiplier cost)`` is about that bound.
    """

    kind: ClassVar[str]

    @property
    def size(self) -> float | None:
        """How far it reaches, where that is one number, which :meth:`resized` changes."""
        return None

    @property
    def free(self) -> bool:
        """Is no multiplier needed?"""
        return False

    @property
    @abstractmethod
    def budget(self) -> float:
        """What a multiplier of 1 costs, about."""

    @abstractmethod
    def price_up(self, multiplier: float) -> float:
        """At least what a multiplier costs."""

    @abstractmethod
    def heights_up(self, cells: Cells, multiplier: float | None) -> FloatArray:
        """At least everybody's height (n,) at a multiplier, from a cover of all possible people by cells."""

    @abstractmethod
    def items(self, cells: Cells) -> Items:
        """What everybody can choose from, a choice of cost 0 among it, about: the heights are the best of these."""

    @abstractmethod
    def attainable(self, owner: NDArray[np.int64], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """The same of people that were found (``cost`` rounded up, ``value`` down), costs rounded up and values down,
        and the budget for their mean cost, rounded down; one choice of everybody costs nothing."""

    def resized(self, size: float) -> Self:
        """The same notion with another size."""
        raise self.lacks("no size that could be another one")

    def on(self, domain: Domain) -> Self:
        """Ready for the coordinates of a domain."""
        return self

    def fingerprint(self) -> str:
        """All that bounds depend on."""
        return f"{self.kind} {self!r}"

    def words(self, n: int) -> str:
        """Which populations are meant, of so many individuals."""
        return f"in the shift {self!r} of {these(n)}"

    def lacks(self, what: str) -> ParameterError:
        """The error for what this notion has not."""
        return ParameterError(f"A shift of kind '{self.kind}' has {what}.")
