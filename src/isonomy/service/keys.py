"""Authenticate callers by API keys, of which only hashes are stored.

A key is 32 random bytes, so that one round of SHA-256 is enough: it cannot be guessed. Keys chosen by a person are not
supported, since those would need a slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fastapi import HTTPException
from fastapi.security import HTTPBearer
from starlette.requests import Request

from isonomy.errors import FileError, ParameterError, template

PREFIX = "iso_"


@dataclass(frozen=True)
class Key:
    """A name, which log entries carry, and the SHA-256 of the key itself."""

    name: str
    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise ParameterError(template("name", "1 to 64 letters, digits, dots, dashes or underscores", self.name))
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise ParameterError(template("digest", "64 hexadecimal digits, a SHA-256", self.digest))

    def line(self) -> str:
        """Return the line of a file of keys."""
        return f"{self.name} {self.digest}"


def new_key(name: str) -> tuple[str, Key]:
    """Return a new key, to be shown once, and its name with its hash."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Key(name, _digest(secret))


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read a file with a line ``name sha256`` for each key; empty lines and lines that begin with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"The keys in '{path}' cannot be read: {error}.") from None
    keys = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise FileError(f"'{path}', line {number}: a key is written as its name and its SHA-256.")
        try:
            keys.append(Key(*words))
        except ParameterError as error:
            raise FileError(f"'{path}', line {number}: {error}") from None
    if not keys:
        raise FileError(f"'{path}' holds no key: make one with 'isonomy.service.keys.new_key'.")
    return tuple(keys)


def name_of(secret: str, keys: Collection[Key]) -> str | None:
    """Return the name of a key, or None if it is unknown; every key is compared, in constant time."""
    digest, name = _digest(secret), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            name = key.name
    return name


class KeyBearer(HTTPBearer):
    """Authenticates a caller by the name of a key, which the state of the request has as ``caller``."""

    def __init__(self, keys: Collection[Key]) -> None:
        super().__init__(scheme_name="bearer", description="an API key", auto_error=False)
        self._keys = keys

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Note the name of the key that was given, or raise 401."""
        given = await super().__call__(request)
        name = None if given is None else name_of(given.credentials, self._keys)
        if name is None:
            raise HTTPException(401, "A valid API key is needed.", {"WWW-Authenticate": "Bearer"})
        request.state.caller = name


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
