"""Finished stages of an audit, kept so that a run that was broken off goes on where it stopped.

The work directory stands beside the result and belongs to one question: a fingerprint of all inputs and options is
written into it, and stages of another fingerprint are thrown away. Each stage is one file that is there whole or not at
all. When the audit is written the work directory is removed.

**Soundness.** A stage holds plain arrays, exactly those that the computation gave, so that the certificate is the same
bit for bit; a damaged file is computed again.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from isonomy.certificates.chunks import Arrays
from isonomy.errors import FileError

Announce = Callable[[str, bool], None]
"""Told the name of each stage as it begins, and whether it was kept from an earlier run."""


@dataclass
class Stages:
    """Where stages are kept; without a directory nothing is."""

    directory: Path | None = None
    announce: Announce = lambda name, kept: None
    found: list[str] = field(default_factory=list)  # stages taken from an earlier run
    written: list[str] = field(default_factory=list)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def open(self, fingerprint: str) -> None:
        """Take the work directory into use for a question; what is there of another one is removed."""
        if self.directory is None:
            return
        owner = self.directory / "question"
        try:
            known = owner.read_text(encoding="utf-8").split() if owner.is_file() else []
            if known[:1] == [fingerprint] and len(known) == 2:
                self.started = known[1]
                return
            if self.directory.exists():
                self._require_own()
                shutil.rmtree(self.directory)
            self.directory.mkdir(parents=True)
            _put(owner, f"{fingerprint} {self.started}\n".encode())
        except OSError as error:
            raise FileError(f"The work directory {self.directory} cannot be written: {error.strerror}.") from error

    def keep(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """What a stage computes, from its file where there is one."""
        file = None if self.directory is None else self.directory / f"{name}.npz"
        arrays = None if file is None else _read(file)
        self.announce(name, arrays is not None)
        if arrays is not None:
            self.found.append(name)
            return arrays
        arrays = compute()
        if file is not None:
            partial = file.with_name(f".{file.name}.{os.getpid()}.part")
            try:
                with partial.open("wb") as target:
                    np.savez(target, **arrays)  # type: ignore[arg-type]
                partial.replace(file)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise FileError(f"The work directory {self.directory} cannot be written: {error.strerror}.") from error
            self.written.append(name)
        return arrays

    def close(self) -> None:
        """Remove the work directory: the audit is written."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _require_own(self) -> None:
        assert self.directory is not None
        strange = [each.name for each in self.directory.iterdir() if each.suffix not in (".npz", ".part")]
        if set(strange) - {"question"}:
            raise FileError(
                f"The work directory {self.directory} holds {sorted(strange)[0]!r}, which no audit writes: remove it, "
                "or name another 'out'."
            )


def _read(file: Path) -> Arrays | None:
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _put(file: Path, content: bytes) -> None:
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(file)
