"""What was found so far, line by line, so that a run that was broken off goes on where it was.

The file has one JSON object on each line: a key, what was computed for it, with what and where. A line is written at
once and forced to the disk. If the machine stops in the middle of a line, the torn end is dropped when the file is
read again, and computed anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isonomy.errors import FileError
from studies.origin import Origin, together


class Store:
    """The lines of one experiment, in a file that is only appended to.

    ``only_known`` computes nothing: what is missing is an empty line, so that a page can be made of what is there.
    """

    def __init__(self, path: Path, *, only_known: bool = False) -> None:
        self.path, self.only_known = path, only_known
        self.known: dict[str, dict[str, Any]] = {}
        self._origins: dict[str, Origin] = {}
        self._asked: dict[str, None] = {}
        self.computed = 0
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.decode().splitlines(), 1):
            try:
                entry = json.loads(line)
                name = _name(entry["key"])
                self.known[name] = entry["found"]
                if "origin" in entry:
                    self._origins[name] = Origin(**entry["origin"])
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(f"{path}: line {number} is not a result; remove the line or the file.") from error
        if len(whole) < len(text) and not only_known:
            with path.open("r+b") as file:
                file.truncate(len(whole))

    def once(self, key: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The key and what was computed for it, now or earlier."""
        name = _name(key)
        self._asked[name] = None
        if name not in self.known and not self.only_known:
            # Through JSON at once: a first run and a resumed one go on with the very same values.
            found, origin = dict(compute()), Origin.here()
            line = json.dumps({"key": dict(key), "found": found, "origin": origin.plain()}, default=_plain)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self.known[name], self._origins[name] = json.loads(line)["found"], origin
            self.computed += 1
        return dict(key) | self.known.get(name, {})

    def origins(self) -> list[Origin]:
        """Of everything that was asked for and is known."""
        return together(self._origins[name] for name in self._asked if name in self._origins)


def _name(key: Mapping[str, Any]) -> str:
    return json.dumps(dict(key), sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as those of JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"A result must be made of numbers, texts, lists and mappings. Got {type(value).__name__}.")
