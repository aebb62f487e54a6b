"""The kinds of shift that a certificate can be about: what bounds their populations, and which population is one.

Individuals move by :class:`Transport`, within a Wasserstein radius, or by a :class:`Drift` of declared numbers; in all
others (:mod:`isonomy_verify.reweighting`, :mod:`isonomy_verify.marginals`) no individual moves. One of these and a
movement can be composed (:mod:`isonomy_verify.composed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from isonomy_verify.composed import Composed
from isonomy_verify.drift import Drift, drift_of
from isonomy_verify.marginals import marginals_of
from isonomy_verify.reweighting import Composable, Reweighting, reweighting_of
from isonomy_verify.text import need, number
from isonomy_verify.transport import Transport as Transport

Movement = Transport | Drift
Shift = Movement | Composed | Reweighting


def shift_of(section: Mapping[str, Any]) -> Shift:
    """The shift that the section of a certificate means; its layout was checked (:mod:`isonomy_verify.layout`)."""
    if section["kind"] == "composed":
        first = reweighting_of(section["first"])
        need(first is not None, "the question is no question")
        return Composed(cast(Composable, first), movement_of(section["then"]))
    other = marginals_of(section) if section["kind"] == "marginals" else reweighting_of(section)
    return movement_of(section) if other is None else other


def movement_of(section: Mapping[str, Any]) -> Movement:
    """The same of a shift in which individuals move."""
    if section["kind"] == "drift":
        return drift_of(section)
    gamma, order = number(section["gamma"]), number(section["order"])
    need(section["kind"] == "transport" and gamma >= 0 and order >= 1, "the question is no question")
    return Transport(order, gamma)


def own_bounds() -> Transport:
    """The shift of the individuals as they are: heights are their own bounds, and their mean is the bound."""
    return Transport(1.0, 0.0)
