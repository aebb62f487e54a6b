"""Small files of a work folder, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from isonomy.errors import FileError


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Put a file in its place at once. Floats are written with all their digits."""
    partial = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise FileError(f"The file {path} cannot be written: {error.strerror}.") from None


def read_json(path: Path) -> dict[str, Any] | None:
    """The content, or None where there is no such file or no such thing in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def sweep(folder: Path) -> None:
    """Remove what killed runs left half written."""
    for partial in (*folder.glob("*.partial"), *folder.glob("parts/*.partial")):
        partial.unlink(missing_ok=True)
