"""How an experiment is run: whole or small, where it keeps what it found, who is told of its progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isonomy.progress import Progress


@dataclass(frozen=True)
class Setting:
    """What every experiment is given.

    ``quick`` goes through the same code with few individuals, epochs and widths. ``work`` is a directory for what can
    be used again (the lines found, trained networks); it is never removed by an experiment. ``seeds`` are counted from
    0.
    """

    quick: bool
    work: Path
    progress: Progress | None = None
    seeds: int = 3
