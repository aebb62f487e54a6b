"""Options of ``certify`` and ``certify_local``, declared once: how hard to search, and where to run.

Each field may be given by itself, as a keyword, or in one of the two classes for several calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar

import numpy.typing as npt

from isonomy.attacks import AttackBudget
from isonomy.engine import EngineName
from isonomy.population import Domain, DomainKind, Schema
from isonomy.population.schema import Unknown
from isonomy.population.selection import SplitName
from isonomy.progress import Progress
from isonomy.similarity.ground import Ground

Tier = Literal["interval", "quick", "tight", "exact", "paper"]
Arithmetic = Literal["float64", "float32"]
ShownProgress = Progress | Literal["auto"] | None

CHUNK = 4096
"""The most rows of a chunk; those that cost much have fewer."""


@dataclass(frozen=True)
class SearchOptions:
    """How hard bounds are tightened and counterparts are searched.

    ``tier="interval"`` is the fastest, ``"quick"`` adds one backward pass for each output, ``"tight"`` bounds hidden
    neurons by majorants or backward passes too. ``"paper"`` goes through the box of the paper's Theorem 5.1 on the
    unbounded domain, for comparison. ``"exact"`` goes on from ``"tight"`` by branch and bound, for all individuals
    together, until each has ``upper - lower <= gap`` or its verdict, or ``time_limit`` seconds are over or
    ``max_nodes`` parts were bounded (None: no limit); without a time limit the same problem has the same answer, bit
    for bit. A population takes ``"interval"`` or ``"tight"``.

    ``attack=False`` makes no search and leaves ``lower`` at 0; an :class:`AttackBudget` says how hard to search, True
    draws by ``seed``, on which ``upper`` does not depend. ``decide`` settles by branch and bound, limited by the number
    of parts alone, whose decision can change; the exact tier always does. ``arithmetic="float32"`` covers float32 runs
    of the model too. ``rounds`` is how often profiles of a population are improved where it matters. ``output_range``
    is the range that the values of a regression are declared to keep within; on the unbounded domain it needs one.
    """

    tier: Tier = "tight"
    attack: bool | AttackBudget = True
    decide: bool = False
    arithmetic: Arithmetic = "float64"
    rounds: int = 4
    seed: int = 0
    output_range: tuple[float, float] | None = None
    time_limit: float | None = 60.0
    gap: float = 1e-6
    max_nodes: int | None = None


@dataclass(frozen=True)
class RunOptions:
    """How people are read, and where chunks of them are worked on.

    Of a table ``split`` takes one part, and ``unknown="exclude"`` leaves out rows that do not fit. ``work`` is a folder
    that keeps finished chunks; without one everything is in memory. Chunks have at most ``chunk`` rows, and fewer where
    these would be more than some twenty seconds of counted work. ``engine="dask"`` works on the cluster at
    ``scheduler``, on the current Dask client, or on a local cluster; its workers must see files and ``work`` under the
    same paths. ``progress`` is called with the rows done and in all, now and then. ``counterexamples`` is the folder
    where a contradiction would be saved, with the individual; True: ``work`` or the current folder, False: nowhere.
    """

    unknown: Unknown = "error"
    split: SplitName = "all"
    engine: EngineName = "local"
    scheduler: str | None = None
    work: str | PathLike[str] | None = None
    chunk: int = CHUNK
    progress: ShownProgress = "auto"
    counterexamples: str | PathLike[str] | bool = True


SEARCH, RUN = SearchOptions(), RunOptions()
"""The usual options."""


class ProblemParts(TypedDict, total=False):
    """Parts of a problem: see :meth:`isonomy.Problem.of`."""

    schema: Schema | None
    domain: Domain | DomainKind | None
    favourable: str | Sequence[str] | None
    threshold: float | None
    max_branches: int


class LocalKeywords(ProblemParts, total=False):
    """Keywords of :func:`isonomy.certify_local`."""

    tier: Tier
    attack: bool | AttackBudget
    decide: bool
    arithmetic: Arithmetic
    time_limit: float | None
    gap: float
    max_nodes: int | None


class CertifyKeywords(ProblemParts, total=False):
    """Keywords of :func:`isonomy.certify`."""

    order: float
    ground: Ground
    cluster: str | npt.ArrayLike | None
    max_cluster: int | None
    tier: Literal["interval", "tight"]
    attack: bool | AttackBudget
    decide: bool
    arithmetic: Arithmetic
    rounds: int
    seed: int
    output_range: tuple[float, float] | None
    unknown: Unknown
    split: SplitName
    engine: EngineName
    scheduler: str | None
    work: str | PathLike[str] | None
    chunk: int
    progress: ShownProgress
    counterexamples: str | PathLike[str] | bool


Options = TypeVar("Options", SearchOptions, RunOptions)


def check_keywords(function: str, keywords: Mapping[str, Any], known: type) -> None:
    """Refuse a keyword that a function does not have, as Python does."""
    unknown = next((name for name in keywords if name not in known.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"{function}() got an unexpected keyword argument '{unknown}'")


def options_of(given: Options, keywords: Mapping[str, Any]) -> Options:
    """Return the given options, but for those that are keywords."""
    return replace(given, **{each.name: keywords[each.name] for each in fields(given) if each.name in keywords})
