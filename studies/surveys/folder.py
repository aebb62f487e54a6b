"""Where tables lie on this machine, and how they get there.

A table is looked for in the folder named by the caller or by the environment variable ``ISONOMY_DATA``, then among
files downloaded earlier. Only when it is in neither is it downloaded, which needs pooch.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from isonomy.errors import FileError, first_line

Folder = str | os.PathLike[str] | None
ENVIRONMENT = "ISONOMY_DATA"
_TIMEOUT = 60.0  # seconds without an answer


@dataclass(frozen=True)
class DataFolder:
    """A folder that the caller named, or None; whether files may be downloaded, and from where if not the publisher."""

    given: Folder = None
    download: bool = True
    url: str | None = None

    @property
    def named(self) -> Folder:
        """By the caller, or by the environment; None where neither names one."""
        return self.given if self.given is not None else os.environ.get(ENVIRONMENT) or None

    @property
    def places(self) -> tuple[Path, ...]:
        """The folders to look in, in order; a folder that was named must exist."""
        places: list[Path] = []
        if self.named is not None:
            path = Path(self.named).expanduser()
            if not path.is_dir():
                who = "'folder'" if self.given is not None else f"The environment variable {ENVIRONMENT}"
                raise FileError(f"{who} names {path}, which is not a folder on this machine.")
            places.append(path)
        if find_spec("pooch") is not None:
            cache = Path(import_module("pooch").os_cache("isonomy"))
            places += [cache] if cache.is_dir() else []
        return tuple(places)

    def fetch(self, what: str, place: str, publisher: str, variable: str) -> Path:
        """Download ``place``, a path below the publisher's address and below the data folder: a complete zip archive.

        ``variable`` of the environment may name another address. ``what`` opens the message when the download is not
        possible: it says which file to put where by hand.
        """
        url = f"{(self.url or os.environ.get(variable) or publisher).rstrip('/')}/{place}"
        below = Path(place).parent
        base = f"the folder named by {ENVIRONMENT}" if self.named is None else str(self.named)
        by_hand = f"put {Path(place).name} ({url}) into {base if below == Path() else f'{base}{os.sep}{below}'}"
        if not self.download:
            raise FileError(f"{what} is not on this machine: {by_hand}, or allow the download.")
        if find_spec("pooch") is None:
            raise FileError(f"{what} is not on this machine: {by_hand}, or install pooch to have it downloaded.")
        pooch = import_module("pooch")
        writable = self.named is not None and os.access(self.named, os.W_OK)
        target = Path(self.named if writable and self.named is not None else pooch.os_cache("isonomy")) / place
        try:
            got = pooch.retrieve(
                url,
                known_hash=None,  # the Bureau and UCI publish no checksums
                fname=target.name,
                path=target.parent,
                downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
            )
        except Exception as error:  # pooch passes on whatever its transport raises
            raise FileError(f"{what} could not be downloaded ({first_line(error)}): {by_hand}.") from error
        if not zipfile.is_zipfile(got):
            Path(got).unlink()
            raise FileError(f"{what} could not be downloaded (what {url} sends is not a zip archive): {by_hand}.")
        return Path(got)
