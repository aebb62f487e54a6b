"""Drifts: declared numbers of the individuals move, everything else of them stays.

A feature ``j`` has an amount ``a_j`` in raw units, or a share ``p_j`` of the raw value that the individual has. With
``c_j = |v_j' − v_j| / a_j``, or ``|v_j' − v_j| / (p_j |v_j|)``, of the raw values ``v`` before and ``v'`` after,

* for everybody: the populations into which each individual moves by ``c_j ≤ t`` for every ``j``. Within ``t`` of
  ``max c_j`` is exactly that;
* on average: those of a plan with ``E c_j ≤ t`` for every ``j``. Let ``A`` be the features with amounts, and the ``G``
  groups ``A`` (if there is any) and each feature with a share. Then with

      c  =  max( Σ_A c_j / |A|,  c_j of shares ) / G     is     E c  ≤  (1/G) Σ_groups E (mean of c_j)  ≤  t,

  so that the populations within ``t`` of ``c`` hold them all; and those within ``t`` of ``max c_j``, which is at least
  ``c``, are all of them. For one feature the two costs are the same.

So ``times`` = ``t`` is the radius of transport of order 1, or infinity, in two costs: *bounds* hold for ``c`` from
below, *points* pay ``max c_j`` from above.

**Soundness.** Numbers of the first cost are rounded so that it is not above ``c``, those of the second so that it is
not below ``max c_j``. No individual moves further than ``furthest``: beyond it cells are worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from isonomy_verify import dual
from isonomy_verify.arithmetic import Array, down, rounded_down, rounded_up, up
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.text import listed, need, number, written
from isonomy_verify.transport import Transport


@dataclass(frozen=True)
class Drift:
    """The populations into which ``features`` move by ``times`` the ``amounts``, which are raw units or (``shares``)
    shares of the own value; on ``average``, or else for everybody."""

    features: tuple[str, ...]
    amounts: tuple[float, ...]
    shares: tuple[bool, ...]
    average: bool = True
    times: float = 1.0
    furthest: float = field(default=math.inf, compare=False, repr=False)
    moves: ClassVar[bool] = True
    reweighting: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) < len(self.features):
            raise ValueError(f"'features' must be names of features, each once. Got {self.features}.")
        usable = all(0 < amount < math.inf for amount in self.amounts)
        if not usable or not len(self.features) == len(self.amounts) == len(self.shares):
            raise ValueError("'amounts' must be finite numbers above 0, one for each feature.")
        dual.check(self.order, self.times, None if self.plain else 0.0)

    @property
    def order(self) -> float:
        """1 on average, infinity for everybody."""
        return 1.0 if self.average else math.inf

    @property
    def transport(self) -> Transport:
        """The radius ``t`` in either cost."""
        return Transport(self.order, self.times)

    @property
    def movement(self) -> Drift:
        """The shift itself."""
        return self

    @property
    def radius(self) -> float:
        """Within which everybody may move."""
        return self.times

    @property
    def plain(self) -> bool:
        """Whether no multiplier is needed."""
        return dual.plain(self.order, self.times)

    def costs(
        self, ground: Form | None, places: Mapping[str, slice], space: Domain, bounded: bool
    ) -> tuple[Drift, Form, Form]:
        """The drift in a domain with these ``places`` of features and possible values ``space``, which are the only
        ones where the domain is ``bounded``; and the costs that bounds and that points keep to."""
        for name in self.features:
            fits = name in places and places[name].stop - places[name].start <= 2
            need(fits and space.numeric[places[name].start], f"a drift of what is no number, {listed([name])}")
        columns = [places[name].start for name in self.features]
        bounds, points = self._form(space, columns, self.average), self._form(space, columns, False, low=True)
        return replace(self, furthest=_furthest(bounds, space) if bounded else math.inf), bounds, points

    def _form(self, space: Domain, columns: list[int], average: bool, low: bool = False) -> Form:
        """``c`` on ``average``, else ``max c_j``; its tolerances rounded up, or down where ``low``."""
        m, rounded = space.width, rounded_down if low else rounded_up
        tolerance, share, free = np.zeros(m), np.zeros(m), np.zeros(m, dtype=bool)
        plain = [j for j, of_own in enumerate(self.shares) if not of_own]
        groups = len(self.features) - len(plain) + bool(plain) if average else 1
        summed = average and len(plain) > 1
        root = np.zeros((len(plain) if summed else 0, m))
        for j, (column, amount) in enumerate(zip(columns, self.amounts, strict=True)):
            unit = Fraction(float(space.unit[column]))
            if self.shares[j]:
                share[column] = rounded(Fraction(amount) * groups)
            elif summed:
                row, free[column] = plain.index(j), True
                root[row, column] = rounded_down(unit / (Fraction(amount) * len(plain) * groups))
            else:
                tolerance[column] = rounded(Fraction(amount) * groups / unit)
        return Form(root, 1.0, free, tolerance, np.zeros(m), space.origin, space.unit, share)

    def check(self, multiplier: float | None) -> None:
        """Refuse what is no multiplier, and none where one is needed."""
        self.transport.check(multiplier)

    def heights(self, cells: dual.Cells, multiplier: float | None) -> Array:
        """The kernel's heights (n,), of cells where an individual can be."""
        return self.transport.heights(dual.confined(cells, self.furthest), multiplier)

    def bound(self, multiplier: float | None, mean: float) -> float:
        """At least ``λ t`` plus the mean of the heights."""
        return self.transport.bound(multiplier, mean)

    def keeps(self, mass: Array, cost: Array, weight: int) -> bool:
        """Whether masses (k,) moved at a ``cost`` (k,) of points keep to the drift, ``weight`` the sum of weights."""
        return self.transport.keeps(mass, cost, weight)

    def tries(self, largest: float, multiplier: float | None) -> int:
        """How many multipliers, fixed in advance, a statement about the population may have tried."""
        return self.transport.tries(largest, multiplier)

    def words(self, cost: str) -> str:
        """Which populations these are."""
        each = [
            f"{listed([name])} by {written(amount)}{' of the own value' if of_own else ''}"
            for name, amount, of_own in zip(self.features, self.amounts, self.shares, strict=True)
        ]
        how = "each by no more than that on average" if self.average else "of no individual by more"
        times = "" if self.times == 1 else f", all that times {written(self.times)}"
        return f"these individuals after a drift of {', '.join(each)}{times}, {how}; nothing else of them changes"


def drift_of(section: Mapping[str, Any]) -> Drift:
    """The drift that the section of a certificate means; its layout was checked."""
    given = section["amounts"]
    need(isinstance(given, list) and isinstance(section["shares"], list), "a drift of no amounts")
    need(all(type(share) is bool for share in section["shares"]), "a drift of no amounts")
    try:
        amounts, shares = tuple(map(number, given)), tuple(section["shares"])
        return Drift(tuple(section["features"]), amounts, shares, section["average"], number(section["times"]))
    except (ValueError, TypeError, OverflowError):
        need(False, "the question is no question")
        raise


def _furthest(form: Form, space: Domain) -> float:
    """At least the cost of every move within the ranges; infinity where a share may be one of nothing."""
    low, high = np.array(space.low), np.array(space.high)
    with np.errstate(all="ignore"):
        across = np.where(high > low, up(high - low), 0.0)
        total = up((up(across * np.abs(form.root)) * (1 + 1e-9)).sum())
        _, within, _ = form.parts
        own = form.of_own
        ends = down(down(low * form.unit) + form.origin), up(up(high * form.unit) + form.origin)
        least = np.maximum(0.0, np.maximum(ends[0], -ends[1]))[own]
        steps = up(across[within] / form.tolerance[within])
        ratios = up(up(across[own] * form.unit[own]) / down(form.share[own] * least))
        ratios = np.where(least > 0, ratios, math.inf)
    values = [total, *steps.tolist(), *ratios.tolist()]
    return math.inf if not all(value >= 0 for value in values) else float(max(values))
