"""A small TOML writer (``tomllib`` only reads): floats come back bit for bit, tables stay readable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def write_table(header: str, entries: Mapping[str, Any]) -> str:
    """``[header]`` and one ``key = value`` line per entry; entries that are None are left out."""
    lines = [f"{write_key(key)} = {write_value(value)}" for key, value in entries.items() if value is not None]
    return "\n".join([f"[{header}]", *lines] if header else lines) + "\n"


def write_key(key: str) -> str:
    """A bare key where TOML allows it, else a quoted one."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else write_value(key)


def write_value(value: Any) -> str:
    """One value; nested tables are written inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0"
        return str(int(value)) if whole else repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{write_key(str(k))} = {write_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return repr(value)
