"""The interfaces of the pipeline: the tier that bounds a kind of model, and the shift, a set of populations.

``certify`` uses a :class:`isonomy.model.Model` for its outputs only, a :class:`Tier` for bounds, a :class:`Shift` for a
set of populations; records, reports and the service ask model and shift too. A member without an operation raises an
error that names it. ``tests/contracts`` has a suite for each interface, which a new member inherits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, UnsupportedOperationError
from isonomy_verify import shifts as kernel
from isonomy_verify.claims import Profiles, claimed_heights
from isonomy_verify.dual import Cells
from isonomy_verify.heads import Head
from isonomy_verify.models import Bounds, Known
from isonomy_verify.models import ReachBounds as ReachBounds
from isonomy_verify.reweighting import Hints

if TYPE_CHECKING:
    from isonomy.attacks import AttackBudget, Finds
    from isonomy.certificates.certificate import Certificate
    from isonomy.certificates.dual import Bound
    from isonomy.certificates.gaps import Across, FeatureGap
    from isonomy.certificates.indices import DriftColumn, Gauge
    from isonomy.certificates.local import LocalCertificate
    from isonomy.certificates.moving import Moving
    from isonomy.certificates.profiles import Schedule
    from isonomy.certificates.worst_case import Points
    from isonomy.model import Model
    from isonomy.population import Domain, Population, Schema
    from isonomy.problem import Problem
    from isonomy.progress import Progress
    from isonomy.search import Limits
    from isonomy.similarity.metric import Metric
    from isonomy.similarity.regions import Similarity
    from isonomy_verify.cutting import Cutting

Nearby = Callable[[NDArray[np.int64], "Similarity", "AttackBudget"], FloatArray]
"""Return a candidate (k, m), or several (k, several, m), for an attack within a ball around each of some rows, or the
row itself; not trusted."""

Derived = Callable[[Profiles, NDArray[np.intp], kernel.Movement, float | None], FloatArray]
"""Heights of some rows with a multiplier, as the checker derives them."""

Items = tuple[NDArray[np.intp], FloatArray, FloatArray]
"""Owner, cost and value (k,) of every choice that the individuals have."""


class Tier(ABC):
    """Bounds of one kind of model for the individuals of a problem; each holds independently of the others."""

    problem: Problem
    head: Head
    size: int  # individuals bounded at a time
    moving_size: int = 1024  # the same where the centre moves
    pair_size: int = 256  # the same of pairs of people
    nested: bool = False  # whether a pass, or a search, at a radius says as much of smaller ones as one of their own
    fine: int = 2  # radii from one to twice as far at which a pass with a moving centre is read
    bounds_everybody: bool = True  # whether there is a finite bound of every violation in a bounded domain
    moves_freely: bool = True  # whether individuals are moved for the curve also where none has to
    price: float = 0.0  # multiplications of the bound of one region, about

    @abstractmethod
    def chunk(self, x: FloatArray) -> Known:
        """Return upper bounds (n,) for the rows of ``x``, which lie in the domain, and whose decision cannot
        change."""

    def kernel_bounds(self) -> Bounds:
        """Return the bounds as the checker derives them, from which the claims of a record come."""
        raise self.unsupported("record: the checker does not know it")

    @property
    def checked(self) -> bool:
        """Return whether the checker knows this kind of model."""
        return type(self).kernel_bounds is not Tier.kernel_bounds

    def recorded(self, certificate: Certificate, others: Sequence[LocalCertificate] = ()) -> Model:
        """Return the model as a record of the certificate, and of answers to ``others``, has it."""
        return self.problem.model

    def reach(self, ground: Metric) -> ReachBounds:
        """Return the bounds over balls of a ground cost."""
        raise self.unsupported("bounds for people who move: ask for a shift without transport")

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Search for counterparts of the rows of ``x``: certainly similar, their change rounded down."""
        raise self.unsupported("search for witnesses: say attack=False, which leaves 'lower' at 0")

    def nearby(self, x: FloatArray) -> Nearby:
        """Return the search for people around the rows of ``x`` from whom an attack may start; here these rows."""
        return lambda rows, ball, budget: np.array(x[rows])

    def turning(self, x: FloatArray) -> Nearby | None:
        """Return the search for the nearest people around the rows of ``x`` whose decision a similar one has otherwise;
        None where those of :meth:`nearby` are all there are."""
        return None

    def pairs(self) -> Cutting:
        """Return bounds over parts of all pairs of similar people."""
        raise self.unsupported(
            "bounds over all pairs of people: certify_everywhere knows networks and tree ensembles only"
        )

    def gap(self, parts: int = 2000, deadline: float = math.inf) -> FeatureGap:
        """Return bounds over all possible people of what the free coordinates alone change, all others equal."""
        raise self.unsupported("gap of features over the whole domain: tree ensembles have")

    def across(self, below: float, above: float, parts: int) -> Across:
        """Return whether the free coordinates alone take any possible person's score across a margin."""
        raise self.unsupported("scores that are followed across a margin: tree ensembles have")

    @property
    def has_gap(self) -> bool:
        """Return whether bounds over all pairs of people are its :meth:`gap`, and not from :meth:`pairs`."""
        return type(self).gap is not Tier.gap

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
        return self.problem.model.unsupported(what)


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


class MassPlan(Protocol):
    """A population on attained points, and its mean."""

    @property
    def value(self) -> float:
        """Return its mean, rounded down."""
        ...

    def masses(self, weights: FloatArray, points: int) -> FloatArray:
        """Return the mass on each point, in units of the weights (n,)."""
        ...


class ShiftDual(Protocol):
    """The bounds of a shift in which individuals move, over profiles, and the best populations of points."""

    def bound(self, size: float | None) -> Bound:
        """Return the best bound for a size."""
        ...

    def curve(self, sizes: Iterable[float]) -> Sequence[Bound]:
        """Return the bounds for several sizes."""
        ...

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return the largest size whose bound is at most ε; None where that of size 0 is above it."""
        ...

    def grid_error(self, size: float | None) -> float:
        """Return how much the grid of radii may have cost."""
        ...

    def attained(self, points: Points, weights: FloatArray, size: float | None) -> MassPlan:
        """Return the best population of points for a size."""
        ...

    def claims(
        self, points: Points, weights: FloatArray, size: float | None, derive: Derived = claimed_heights
    ) -> MovedClaims:
        """Return what a record claims, from heights as the checker derives them."""
        ...


class MovedClaims(NamedTuple):
    """What a record claims of a shift in which individuals move: the bound and how much all claims about individuals
    could hide, the population and its mean, and the hints that show both, where there are any."""

    upper: float
    hidden: float
    plan: MassPlan
    hints: Hints | None = None


_COMPOSE: list[Callable[[Shift, Shift], Shift]] = []


def register_composition(compose: Callable[[Shift, Shift], Shift]) -> None:
    """Register what ``&`` of two shifts means."""
    _COMPOSE[:] = [compose]


class Shift(ABC):
    """A set of populations around the individuals: its bound, its search, its section of the record, its words.

    A member in which individuals move has a :attr:`ground_cost` and defines its bound (:attr:`budget`,
    :meth:`bound_up`, :meth:`heights_up`, :meth:`items`, :meth:`attainable`) and its search (:meth:`schedule`,
    :meth:`passes`, :meth:`profiles`, :meth:`search`). In others a profile is the individual's own bound, and they are
    answered from these (:class:`isonomy.certificates.reweighting.Reweighting`). One with a record has a :attr:`kernel`
    and a :meth:`section`, and is listed in :mod:`isonomy.certificates.shifts`.

    **Soundness.** For EVERY multiplier no population has a mean violation above ``bound_up(multiplier, mean)``,
    ``mean`` at least the weighted mean of ``heights_up(cells, multiplier)``; heights at a multiplier are the same for
    every size. ``budget`` and ``items`` only steer the multiplier: ``multiplier budget + mean of max (value -
    multiplier cost)`` is about that bound.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "population"
    """One of its populations, in a word."""

    covered: ClassVar[str] = "populations of the shift"
    """All of its populations, in a few words."""

    size_name: ClassVar[str] = "size"
    """The name of :attr:`size`: a column of curves."""

    curve_words: ClassVar[tuple[str, str, str]] = (
        "Other sizes of the shift",
        "Size",
        "The certificate is about this shift; no distance to other people is measured.",
    )
    """A report's heading over the curve, the head of its sizes, and what the curve is about."""

    infers: ClassVar[bool] = True
    """Whether there is a bound of the populations made of the one behind independent draws."""

    up_to: ClassVar[str] = "up to a shift of"
    """A report's words in front of that size, in a sentence."""

    largest_words: ClassVar[str] = "Proved within ε for shifts up to"
    """A report's name of the largest size that keeps to ε."""

    # -- its bound

    @property
    def size(self) -> float | None:
        """Return its size, where that is one number, which :meth:`resized` changes."""
        return None

    @property
    def free(self) -> bool:
        """Return whether no multiplier is needed."""
        return False

    @property
    def budget(self) -> float:
        """Return about the cost of a multiplier of 1."""
        raise self.unsupported("no individuals who move")

    def bound_up(self, multiplier: float | None, mean: float) -> float:
        """Return an upper bound of every mean violation, from the mean of the heights at the multiplier."""
        raise self.unsupported("no individuals who move")

    def heights_up(self, cells: Cells, multiplier: float | None) -> FloatArray:
        """Return upper bounds of the heights (n,) at a multiplier, from cells that cover the domain."""
        raise self.unsupported("no individuals who move")

    def items(self, cells: Cells) -> Items:
        """Return about the choices of every individual, one of cost 0 among them: the heights are the best of
        these."""
        raise self.unsupported("no individuals who move")

    def attainable(self, owner: NDArray[np.int64], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """Return the choices of checked points (``cost`` rounded up, ``value`` down), costs rounded up and values down,
        the points themselves first; and the budget for their mean cost, rounded down. One choice of every individual
        costs nothing."""
        raise self.unsupported("no individuals who move")

    def resized(self, size: float) -> Self:
        """Return the same notion with another size."""
        raise self.unsupported("no size that could be another one")

    def sizes(self) -> list[float]:
        """Return sizes for a curve around its own."""
        return []

    def on(self, domain: Domain, schema: Schema | None = None) -> Self:
        """Return the shift on the coordinates of a domain, whose features a schema names."""
        return self

    def resolved(self, x: FloatArray, schema: Schema | None, weights: FloatArray) -> Self:
        """Return the shift of these individuals with weights (n,); those that name features need a schema."""
        return self

    # -- its search, where individuals move

    @property
    def ground_cost(self) -> Metric | None:
        """Return what moving an individual costs, after :meth:`on`; None where no individual moves."""
        return None

    @property
    def point_cost(self) -> Metric | None:
        """Return what a checked point pays, never less than :attr:`ground_cost`."""
        return self.ground_cost

    @property
    def distance_cost(self) -> Metric | None:
        """Return the ground cost by which distances between populations are compared with :attr:`size`, which stands in
        a file of its own; None where there is none."""
        return None

    def gauges(self, people: Population) -> list[Gauge]:
        """Return the distances from audited people that a population of the shift keeps to."""
        return []

    def columns(self, people: Population, x: FloatArray) -> list[DriftColumn]:
        """Return the columns of audited and new people ``x`` (n, m) of which every single one keeps to limits."""
        return []

    @property
    def reweighted(self) -> tuple[float, float]:
        """Return how many times as much an individual counts, at most, before it moves, and the share of strangers."""
        return 1.0, 0.0

    never: ClassVar[str] = ""
    """Why it is never shown of new people, in a sentence; "" where it can be."""

    @property
    def ground_file(self) -> Metric | None:
        """Return the ground cost that stands in a file of its own beside a record."""
        return self.distance_cost

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """Return the features that tell groups apart."""
        return ()

    def groups(self, x: FloatArray, schema: Schema | None) -> NDArray[np.intp] | None:
        """Return the groups (n,) of the individuals, where the shift tells them apart."""
        return None

    def dual(self, profiles: Profiles, weights: FloatArray, groups: NDArray[np.intp] | None = None) -> ShiftDual:
        """Return the dual over the profiles, of individuals with weights (n,) in ``groups`` (n,)."""
        raise self.unsupported("no individuals who move")

    def schedule(
        self, moving: Moving, upper: FloatArray, largest: float, tight: bool, tick: Callable[[int], None]
    ) -> Schedule:
        """Return which radii are worth a pass, from a pilot group with own bounds ``upper`` (n,)."""
        raise self.unsupported("no individuals who move")

    def passes(self, moving: Moving, tight: bool, rounds: int, schedule: Schedule) -> int:
        """Return the most passes with a moving centre that an individual has."""
        raise self.unsupported("no individuals who move")

    def profiles(
        self,
        moving: Moving,
        upper: FloatArray,
        largest: float,
        tight: bool,
        rounds: int,
        schedule: Schedule,
        tick: Callable[[int], None],
    ) -> Profiles:
        """Return profiles of all individuals, with own bounds ``upper`` (n,)."""
        raise self.unsupported("no individuals who move")

    def search(
        self, moving: Moving, points: Points, profiles: Profiles, budget: AttackBudget, tick: Callable[[int], None]
    ) -> tuple[Points, Points]:
        """Return attained points, those around the individuals added, and those, of value 1, at which a decision is
        turned."""
        raise self.unsupported("no individuals who move")

    def steady(self, moving: Moving, certified: NDArray[np.bool_]) -> FloatArray:
        """Return radii (n,) within which no one has a decision that can change, of individuals whose own is
        ``certified`` (n,); 0 where nothing more is proved."""
        return np.zeros(len(certified))

    # -- its section of the record

    @property
    def kernel(self) -> kernel.Shift:
        """Return the shift as the checker knows it."""
        raise UnsupportedOperationError(f"A shift of kind '{self.kind}' has no record: the checker does not know it.")

    def section(self) -> dict[str, Any]:
        """Return its numbers by name, as they stand in a record beside its kind."""
        raise UnsupportedOperationError(f"A shift of kind '{self.kind}' has no record: the checker does not know it.")

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section, with the ground cost of a record where individuals move."""
        raise UnsupportedOperationError(f"A shift of kind '{cls.kind}' has no record: the checker does not know it.")

    def number(self, name: str) -> float:
        """Return one of its numbers; a name that it does not have is refused."""
        value = getattr(self, name, None)
        if not isinstance(value, float):
            raise UnsupportedOperationError(f"A shift of kind '{self.kind}' has no '{name}': {self!r}.")
        return value

    def __and__(self, other: Shift) -> Shift:
        """Return the populations that are reweighted first and then moved, whatever the order written."""
        return _COMPOSE[0](self, other)

    def fingerprint(self) -> str:
        """Return a text of everything that bounds depend on."""
        return f"{self.kind} {self!r}"

    def evidence(self) -> dict[str, Any]:
        """Return what reproduces a contradiction."""
        return {"shift": self.fingerprint()}

    # -- its words

    @property
    def alone(self) -> bool:
        """Return whether these very individuals are its only population."""
        return False

    def words(self, who: str) -> str:
        """Return one of its populations in words, ``who`` the individuals: what follows "no"."""
        return f"{self.noun} in the shift {self!r} of {who}"

    @property
    def place(self) -> str:
        """Return the words in front of the mean of one of its populations."""
        return "In the shift of the individuals a population's"

    @property
    def behind_words(self) -> str:
        """Return "no population of the shift of the one behind these individuals"; "" where that is itself the only
        one."""
        return ""

    @property
    def mean_words(self) -> str:
        """Return the name of the mean that is bounded."""
        return f"Average largest change, shift '{self.kind}'"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return its parameters for readers: code, name, value, and the text where that is not the value's."""
        return [("shift", "Shift", repr(self), None)]

    def assumption(self) -> tuple[str, str]:
        """Return which populations the proof covers: a name and a statement."""
        return "Populations", f"Those in the shift {self!r}."

    @property
    def elsewhere(self) -> str:
        """Return what is said of rows of the table that were not audited."""
        return "of them nothing is said"

    def limit(self, outside: str) -> tuple[str, str]:
        """Return what is not proved of other populations; ``outside`` names those that are known not to be covered."""
        return "Only this shift", f"Nothing is said of populations outside the shift {self!r}.{outside}"

    def unsupported(self, what: str) -> ParameterError:
        """Return the error for an operation that this notion does not have."""
        return ParameterError(f"A shift of kind '{self.kind}' has {what}.")
