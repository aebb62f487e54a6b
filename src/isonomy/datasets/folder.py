"""Where tables lie on this machine, and how they get there.

A table is looked for in the folder named by the caller or by the environment variable ``ISONOMY_DATA``, then among
files downloaded earlier. Only when it is in neither is it downloaded, which needs the extra ``isonomy[data]`` (pooch).
"""

from __future__ import annotations

import os
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from isonomy.errors import FileError

Folder = str | os.PathLike[str] | None
ENVIRONMENT = "ISONOMY_DATA"
_TIMEOUT = 60.0  # seconds without an answer


def find_folders(folder: Folder) -> tuple[Path, ...]:
    """The folders to look in, in order; a folder that was named must exist."""
    named = _named(folder)
    found: list[Path] = []
    if named is not None:
        path = Path(named).expanduser()
        if not path.is_dir():
            who = "'folder'" if folder is not None else f"The environment variable {ENVIRONMENT}"
            raise FileError(f"{who} names {path}, which is not a folder on this machine.")
        found.append(path)
    if find_spec("pooch") is not None:
        cache = Path(import_module("pooch").os_cache("isonomy"))
        found += [cache] if cache.is_dir() else []
    return tuple(found)


def download_zip(what: str, url: str, place: str, folder: Folder, *, allowed: bool = True) -> Path:
    """Fetch ``url`` to ``place`` (a path below the data folder) and return the file, a complete zip archive.

    ``what`` opens the message when that is not possible: it says which file to put where by hand.
    """
    by_hand = f"put {url.rsplit('/', 1)[-1]} ({url}) into {_by_hand(folder, place)}"
    if not allowed:
        raise FileError(f"{what} is not on this machine: {by_hand}, or allow the download.")
    if find_spec("pooch") is None:
        raise FileError(f"{what} is not on this machine: {by_hand}, or install isonomy[data] to have it downloaded.")
    pooch = import_module("pooch")
    target = _writable(folder, Path(pooch.os_cache("isonomy"))) / place
    try:
        got = pooch.retrieve(
            url,
            known_hash=None,  # the Bureau and UCI publish no checksums
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
        )
    except Exception as error:  # pooch passes on whatever its transport raises
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"{what} could not be downloaded ({reason}): {by_hand}.") from error
    if not zipfile.is_zipfile(got):
        Path(got).unlink()
        raise FileError(f"{what} could not be downloaded (what {url} sends is not a zip archive): {by_hand}.")
    return Path(got)


def _named(folder: Folder) -> Folder:
    return folder if folder is not None else os.environ.get(ENVIRONMENT) or None


def _by_hand(folder: Folder, place: str) -> str:
    named = _named(folder)
    base = f"the folder named by {ENVIRONMENT}" if named is None else str(named)
    below = str(Path(place).parent)
    return base if below == "." else f"{base}{os.sep}{below}"


def _writable(folder: Folder, cache: Path) -> Path:
    """The data folder if files may be added to it, else the cache."""
    named = _named(folder)
    return Path(named) if named is not None and os.access(named, os.W_OK) else cache
