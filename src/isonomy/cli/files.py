"""A file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isonomy.errors import FileError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Another name to write to, which becomes ``path`` when the block ends well."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        if partial.exists():
            partial.unlink()
