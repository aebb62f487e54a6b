"""The interfaces of the pipeline: the model, the tier that bounds it, and the shift, a set of populations.

``certify`` uses a :class:`Model` for its outputs only, a :class:`Tier` for bounds, a :class:`Shift` for the dual of its
set of populations. A member without an operation raises an error that names it. ``tests/contracts`` has a suite for
each interface, which a new member inherits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, these
from isonomy.errors import ParameterError, UnsupportedOperationError
from isonomy_verify.dual import Cells
from isonomy_verify.heads import Head
from isonomy_verify.local import Known

if TYPE_CHECKING:
    from isonomy.attacks import AttackBudget, Finds
    from isonomy.population import Domain
    from isonomy.problem import Problem
    from isonomy.progress import Progress
    from isonomy.search import Limits
    from isonomy.similarity.metric import Metric
    from isonomy.similarity.regions import Similarity

Nearby = Callable[[NDArray[np.int64], "Similarity", "AttackBudget"], FloatArray]
"""Return one candidate (k, m) for an attack within a ball around each of some rows, or the row itself; not trusted."""

Items = tuple[NDArray[np.intp], FloatArray, FloatArray]
"""Owner, cost and value (k,) of every choice that the individuals have."""


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

    def bound(self, x: FloatArray, radii: Sequence[float], tight: bool, size: int) -> FloatArray:
        """Return upper bounds (n, radii) of the violation within each of the ascending ``radii`` of the rows of
        ``x``."""
        ...

    def everywhere(self, x: FloatArray) -> tuple[float, float]:
        """Return an upper bound of every violation in the domain, and the radius around the rows of ``x`` up to which
        it holds."""
        ...


class Tier(ABC):
    """Bounds of one kind of model for the individuals of a problem; each holds independently of the others."""

    problem: Problem
    head: Head
    size: int  # individuals bounded at a time
    moving_size: int = 1024  # the same where the centre moves
    price: float = 0.0  # multiplications of the bound of one region, about

    @abstractmethod
    def chunk(self, x: FloatArray) -> Known:
        """Return upper bounds (n,) for the rows of ``x``, which lie in the domain, and whose decision cannot
        change."""

    def reach(self, ground: Metric) -> ReachBounds:
        """Return the bounds over balls of a ground cost."""
        raise self.unsupported("bounds for people who move: ask for a shift without transport")

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Search for counterparts of the rows of ``x``: certainly similar, their change rounded down."""
        raise self.unsupported("search for witnesses: say attack=False, which leaves 'lower' at 0")

    def nearby(self, x: FloatArray) -> Nearby:
        """Return the search for people around the rows of ``x`` from whom an attack may start; here these rows."""
        return lambda rows, ball, budget: np.array(x[rows])

    def close_gaps(
        self, x: FloatArray, upper: FloatArray, finds: Finds, limits: Limits, began: float, tick: Progress
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return upper bounds (n,), reduced until they meet ``finds.lower``, and whose decision cannot change."""
        raise self.unsupported("exact tier: take another one")

    def decide(self, x: FloatArray, certified: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Decide in ``certified`` and ``finds`` whose decision can change."""
        raise self.unsupported("way to settle decisions: say decide=False")

    def unsupported(self, what: str) -> UnsupportedOperationError:
        """Return the error for an operation that this kind of model does not have."""
        model = self.problem.model
        return UnsupportedOperationError(f"'{model.name}', a model of kind '{model.kind}', has no {what}.")


MakeTier = Callable[["Problem", str, bool], Tier]
"""Make a tier from a problem, its name, and whether float32 runs are covered."""

_TIERS: dict[str, MakeTier] = {}


def register(kind: str, make: MakeTier) -> None:
    """Register the tiers of a kind of model."""
    _TIERS[kind] = make


def tier_for(problem: Problem, tier: str = "tight", float32: bool = False) -> Tier:
    """Make the tier of this name for the problem's kind of model."""
    kind = problem.model.kind
    if kind not in _TIERS:
        known = ", ".join(sorted(_TIERS))
        raise UnsupportedOperationError(
            f"Nothing is known to prove bounds of '{problem.model.name}', a model of kind '{kind}' (known: {known})."
        )
    return _TIERS[kind](problem, tier, float32)


class Shift(ABC):
    """A set of populations around the individuals, given by the dual of its worst case.

    **Soundness.** For EVERY multiplier no population has a mean violation above ``price_up(multiplier)`` plus the
    weighted mean of ``heights_up(cells, multiplier)``. ``budget`` and ``items`` only steer the multiplier:
    ``multiplier budget + mean of max (value - multiplier cost)`` is about that bound.
    """

    kind: ClassVar[str]

    @property
    def size(self) -> float | None:
        """Return its size, where that is one number, which :meth:`resized` changes."""
        return None

    @property
    def free(self) -> bool:
        """Return whether no multiplier is needed."""
        return False

    @property
    @abstractmethod
    def budget(self) -> float:
        """Return about the cost of a multiplier of 1."""

    @abstractmethod
    def price_up(self, multiplier: float) -> float:
        """Return an upper bound of the cost of a multiplier."""

    @abstractmethod
    def heights_up(self, cells: Cells, multiplier: float | None) -> FloatArray:
        """Return upper bounds of the heights (n,) at a multiplier, from cells that cover the domain."""

    @abstractmethod
    def items(self, cells: Cells) -> Items:
        """Return about the choices of every individual, one of cost 0 among them: the heights are the best of
        these."""

    @abstractmethod
    def attainable(self, owner: NDArray[np.int64], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """Return the choices of checked points (``cost`` rounded up, ``value`` down), costs rounded up and values down,
        and the budget for their mean cost, rounded down; one choice of every individual costs nothing."""

    def resized(self, size: float) -> Self:
        """Return the same notion with another size."""
        raise self.unsupported("no size that could be another one")

    def on(self, domain: Domain) -> Self:
        """Return the shift on the coordinates of a domain."""
        return self

    def fingerprint(self) -> str:
        """Return a text of everything that bounds depend on."""
        return f"{self.kind} {self!r}"

    def words(self, n: int) -> str:
        """Return the populations in words, for ``n`` individuals."""
        return f"in the shift {self!r} of {these(n)}"

    def unsupported(self, what: str) -> ParameterError:
        """Return the error for an operation that this notion does not have."""
        return ParameterError(f"A shift of kind '{self.kind}' has {what}.")
