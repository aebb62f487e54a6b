"""Domains as plain arrays, a form that any program can read."""

from __future__ import annotations

import numpy as np

from isonomy.model import Arrays as Arrays
from isonomy_verify import domain as kernel


def domain_arrays(domain: kernel.Domain) -> Arrays:
    """Return a domain, without the names of its coordinates, as arrays."""
    arrays: Arrays = {
        "kind": np.array(domain.kind),
        "blocks": np.array(domain.blocks, dtype=np.int64).reshape(-1, 2),
        "fills": np.array(domain.fills, dtype=np.float64).reshape(-1, 3),
    }
    parts = ("low", "high", "integer", "origin", "unit", "immutable")
    return arrays | {part: np.array(getattr(domain, part)) for part in parts}
