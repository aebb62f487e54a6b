"""Decide who may ask: keys that are read again when their file changes, roles, expiry, and a rate for each key.

The file is read at most once in ``CHECKED`` seconds, when a request comes, and taken apart only where its bytes are
other ones than before; no time of the file is trusted. One that cannot be used, or that does not end with the end of
a line and so may be half written, changes nothing and is reported: the keys before stay in use.

**Clocks.** What has expired stays expired when the clock is set back, until the file changes. Rates use a clock that
is never set. Both are arguments.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import HTTPException
from fastapi.security import HTTPBearer, SecurityScopes
from starlette.requests import Request

from isonomy.errors import FileError
from isonomy.service.keys import Key, Role, is_valid, match_key, parse_keys, read_text
from isonomy.service.web import LOGGER, Metrics

CHECKED = 1.0
"""Seconds in which a file of keys is read once, at most."""

BEARER = {"WWW-Authenticate": "Bearer"}


class DeniedError(HTTPException):
    """A request that is not allowed; ``reason`` is a word for the metrics."""

    def __init__(
        self, reason: str, status: int, detail: str, headers: dict[str, str] | None = None, caller: str = ""
    ) -> None:
        super().__init__(status, detail, headers)
        self.reason, self.caller = reason, caller


class Keyring:
    """The keys in use and what is left of their rates. Safe to use from several threads."""

    def __init__(
        self,
        keys: tuple[Key, ...] | Path,
        noted: Callable[[bool], None] = lambda trouble: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Take keys, or the file that has them; ``noted`` is called with whether the file as it is now is not in use,
        each time that it is read."""
        self._path = keys if isinstance(keys, Path) else None
        self._noted, self._clock, self._wall, self._lock = noted, clock, wall, Lock()
        self._seen = "" if self._path is None else read_text(self._path)
        self._fault: str | None = None  # of what was seen
        self._keys = keys if isinstance(keys, tuple) else parse_keys(self._seen, keys)
        self._latest, self._due = wall(), clock() + CHECKED
        self._left: dict[str, tuple[float, float]] = {}  # by name: requests that are left, and when that was
        self.trouble: str | None = None
        """Why the file as it is now is not in use, or None."""

    def admit(self, secret: str, role: Role) -> Key:
        """Return the key of a secret that may do something now, and take a request of its rate; or raise the refusal.

        Only a known, valid key with this role takes anything: nothing is kept of others.
        """
        with self._lock:
            if self._clock() >= self._due:
                self._read()
            key = match_key(secret, self._keys)
            if key is None:
                raise DeniedError("unknown", 401, "A valid API key is needed.", BEARER)
            if not is_valid(key, self._now()):
                raise DeniedError("expired", 401, "This API key has expired: ask for a new one.", BEARER, key.name)
            if role not in key.roles:
                raise DeniedError("role", 403, f"This API key has not the role '{role}'.", caller=key.name)
            if (wait := self._take(key)) > 0:
                after = max(1, math.ceil(wait))
                detail = f"This API key may ask {key.rate}: try again in {after} s."
                raise DeniedError("rate", 429, detail, {"Retry-After": str(after)}, key.name)
            return key

    def read_again(self) -> None:
        """Read the file now, whether it is time or not."""
        with self._lock:
            self._read()

    def shown(self) -> dict[str, Any]:
        """Return the keys in use without their hashes, and why the file as it is now is not in use."""
        with self._lock:
            now = self._now()
            keys = [{**key.terms(), "valid": is_valid(key, now)} for key in self._keys]
        return {"keys": keys, "trouble": self.trouble}

    def _now(self) -> datetime:
        self._latest = max(self._latest, self._wall())
        return datetime.fromtimestamp(self._latest, UTC)

    def _take(self, key: Key) -> float:
        """Take one request of the bucket of a key's name, and return 0, or the seconds until there is one."""
        if key.rate is None:
            return 0.0
        now, most = self._clock(), float(key.rate.requests)
        left, since = self._left.get(key.name, (most, now))
        left = min(most, left + (now - since) * key.rate.per_second)
        enough = left > 1 - 1e-9
        self._left[key.name] = left - enough, now
        return 0.0 if enough else (1 - left) / key.rate.per_second

    def _read(self) -> None:
        self._due = self._clock() + CHECKED
        if self._path is None:
            return
        try:
            if not self._path.is_file():  # to read a pipe could take for ever
                raise FileError(f"The keys in '{self._path}' cannot be read: there is no such file now.")
            text = read_text(self._path)
            if text != self._seen:
                self._seen, self._fault = text, self._use(text, self._path)
            trouble = self._fault
        except FileError as error:
            trouble = str(error)
        if trouble is not None and trouble != self.trouble:
            LOGGER.error("keys: those before stay in use", extra={"facts": {"error": trouble}})
        self.trouble = trouble
        self._noted(trouble is not None)

    def _use(self, text: str, path: Path) -> str | None:
        """Use the keys of a text from now on, or return why they cannot be used."""
        if not text.endswith("\n"):
            return f"'{path}' does not end with the end of a line: it may be half written."
        try:
            self._keys = parse_keys(text, path)
        except FileError as error:
            return str(error)
        self._latest = self._wall()
        names = {key.name for key in self._keys}
        self._left = {name: left for name, left in self._left.items() if name in names}
        LOGGER.info("keys", extra={"facts": {"keys": len(self._keys)}})
        return None


class KeyBearer(HTTPBearer):
    """Authenticates a caller by a key with the role of the route; the state of the request has its name as
    ``caller``."""

    def __init__(self, keyring: Keyring, metrics: Metrics) -> None:
        super().__init__(scheme_name="bearer", description="an API key", auto_error=False)
        self.keyring, self._metrics = keyring, metrics

    async def __call__(self, request: Request, security_scopes: SecurityScopes) -> None:  # type: ignore[override]
        """Note the name of the key that was given, or raise the refusal."""
        (role,) = security_scopes.scopes
        try:
            if len(request.headers.getlist("authorization")) > 1:  # a proxy may judge by the other one
                raise DeniedError("unknown", 401, "Give one Authorization header.", BEARER)
            given = await super().__call__(request)
            key = self.keyring.admit("" if given is None else given.credentials, role)  # type: ignore[arg-type]
        except DeniedError as error:
            self._metrics.denied.labels(error.reason).inc()
            if error.caller:
                request.state.facts = {"caller": error.caller}
            raise
        request.state.caller, request.state.facts = key.name, {"caller": key.name}
