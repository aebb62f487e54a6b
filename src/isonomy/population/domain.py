"""Which vectors stand for a possible individual: the kernel's :class:`Domain`, and the types of arrays."""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import ParameterError, template
from isonomy_verify.domain import Domain, repeated
from isonomy_verify.domain import Kind as DomainKind

__all__ = ["BoolArray", "Domain", "DomainKind", "FloatArray", "check_kind", "repeated"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def check_kind(kind: str) -> None:
    """Refuse a kind of domain that does not exist."""
    if kind not in get_args(DomainKind):
        raise ParameterError(template("domain", "'unbounded', 'relaxed' or 'realizable'", kind))
