"""The shifts that records know, by their kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isonomy.certificates.part import Part
from isonomy.certificates.protocol import Shift
from isonomy.certificates.transport import Transport
from isonomy.similarity.metric import Metric
from isonomy_verify.text import need, number

KINDS: dict[str, type[Shift]] = {kind.kind: kind for kind in (Transport, Part)}


def shift_of(section: Mapping[str, Any], ground: Metric | None) -> Shift:
    """Return the shift that the section of a record means, with its ground cost where individuals move."""
    need(section["kind"] in KINDS, "a shift of no known kind")
    numbers = {name: number(value) for name, value in section.items() if name != "kind"}
    return KINDS[section["kind"]].read(numbers, ground)
