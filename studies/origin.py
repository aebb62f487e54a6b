"""Where a number comes from: the packages, the machine and the day it was computed with, on and on.

A page may be written long after its numbers were computed, and elsewhere; so this is kept with every number.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("isonomy", "torch", "numpy", "scipy", "pandas", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Origin:
    """Packages with their versions, processor and memory, and from which day to which."""

    packages: str
    machine: str
    first: str
    last: str

    @classmethod
    def here(cls) -> Origin:
        """What is computed now."""
        today = datetime.now(UTC).date().isoformat()
        return cls(_packages(), _machine(), today, today)

    def plain(self) -> dict[str, str]:
        """As it is kept."""
        return asdict(self)

    def words(self) -> str:
        """A paragraph at the end of a page."""
        days = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"Computed with {self.packages}.\n{self.machine}.\n{days}."


def together(origins: Iterable[Origin]) -> list[Origin]:
    """One for each machine and set of packages, over all its days."""
    found: dict[tuple[str, str], Origin] = {}
    for each in origins:
        known = found.setdefault((each.packages, each.machine), each)
        span = replace(known, first=min(known.first, each.first), last=max(known.last, each.last))
        found[each.packages, each.machine] = span
    return list(found.values())


@cache
def _packages() -> str:
    """The packages that a result depends on."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


@cache
def _machine() -> str:
    """Processor, cores and memory."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    cores = os.cpu_count() or 1
    found = f"{model or platform.machine()}, {cores} core{'s' if cores > 1 else ''}"
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return found
    return f"{found}, {memory / 2**30:.0f} GB of memory"
