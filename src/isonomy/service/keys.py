"""API keys and the file that holds them: only hashes, with what each key may do, how often, and until when.

A key is 32 random bytes, so that one round of SHA-256 is enough: it cannot be guessed. Keys chosen by a person are not
supported, since those would need a slow hash. A line of the file is ``name sha256``, and after it any of
``roles=predict,read``, ``rate=10/s`` and ``expires=2027-01-31``. Errors name the line and repeat nothing of it, since
a key may have been put there by mistake.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from isonomy.errors import FileError, ParameterError, template
from isonomy.files import atomic

PREFIX = "iso_"
LARGEST = 2**20
"""Bytes of a file of keys, at most."""

Role = Literal["predict", "read", "admin"]
"""predict: ask for predictions; read: the log, the monitor, the certificate, the metrics; admin: the keys in use."""
ROLES: tuple[Role, ...] = get_args(Role)
USUAL: tuple[Role, ...] = ("predict", "read")
"""The roles of a key whose line names none."""

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_RATE = "a whole number from 1 to 1000000 and a time, as 10/s, 600/min, 5000/h or 100000/d"
_ROLES = f"some of {', '.join(ROLES)}, with commas"
_EXPIRES = "a day that is still included, as 2027-01-31, or a moment as 2027-01-31T12:00:00Z, both in UTC"
_EXTRA = "after name and SHA-256 there may be expires=…, roles=… and rate=…, each once"


class Rate(NamedTuple):
    """How many requests a key has in a time, and at once: a bucket of ``requests`` that fills in one ``unit``."""

    requests: int
    unit: str

    @property
    def per_second(self) -> float:
        """Return the requests that come back in a second."""
        return self.requests / _UNITS[self.unit]

    def __str__(self) -> str:
        return f"{self.requests}/{self.unit}"


@dataclass(frozen=True)
class Key:
    """A name, which log entries carry, the SHA-256 of the key itself, and its terms.

    ``expires`` is the moment (UTC) from which on it is refused; None: never. ``rate`` None: as often as wanted.
    """

    name: str
    digest: str
    expires: datetime | None = None
    roles: tuple[Role, ...] = USUAL
    rate: Rate | None = None

    def __post_init__(self) -> None:
        right = "1 to 64 letters, digits, dots, dashes or underscores"
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise ParameterError(template("name", right, self.name))
        if re.fullmatch(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", self.name):
            raise ParameterError("'name' must be the name of a key, and not the key itself.")
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise ParameterError("'digest' must be 64 hexadecimal digits, a SHA-256.")
        if self.expires is not None and self.expires.tzinfo is None:
            raise ParameterError("'expires' must be a moment with its time zone.")

    def line(self) -> str:
        """Return the line of a file of keys."""
        words = [self.name, self.digest]
        words += [] if self.expires is None else [f"expires={written(self.expires)}"]
        words += [] if self.roles == USUAL else [f"roles={','.join(self.roles)}"]
        words += [] if self.rate is None else [f"rate={self.rate}"]
        return " ".join(words)

    def terms(self) -> dict[str, object]:
        """Return what may be shown: everything but the hash."""
        return {
            "name": self.name, "roles": list(self.roles), "rate": None if self.rate is None else str(self.rate),
            "expires": None if self.expires is None else written(self.expires),
        }  # fmt: skip


def new_key(
    name: str, expires: datetime | None = None, roles: tuple[Role, ...] = USUAL, rate: Rate | None = None
) -> tuple[str, Key]:
    """Return a new key, to be shown once, and its name with its hash and terms."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Key(name, digest_of(secret), expires, roles, rate)


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read a file with a line for each key; empty lines and lines that begin with # are left out."""
    return parse_keys(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a file of keys; only of a file of reasonable size."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise FileError(f"The keys in '{path}' cannot be read: a file of keys has at most {LARGEST} bytes.")
        return content.decode("utf-8")
    except OSError as error:
        raise FileError(f"The keys in '{path}' cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"The keys in '{path}' cannot be read: a file of keys is a text in UTF-8.") from None


def parse_keys(text: str, path: Path) -> tuple[Key, ...]:
    """Return the keys of a text, or raise an error that names the line of ``path``."""
    keys = tuple(key for key in _parsed(text.split("\n"), path) if key is not None)
    if not keys:
        raise FileError(f"'{path}' holds no key: make one with 'isonomy key new NAME --keys {path}'.")
    return keys


def _parsed(lines: Sequence[str], path: Path) -> list[Key | None]:
    """Return the key of each line, None where it has none; no key may stand twice."""
    places: dict[str, int] = {}
    keys: list[Key | None] = []
    for number, line in enumerate(lines, start=1):
        try:
            key = parse_line(line)
        except ParameterError as error:
            raise FileError(f"'{path}', line {number}: {error}") from None
        if key is not None and places.setdefault(key.digest, number) != number:
            raise FileError(f"'{path}', line {number}: this key stands in line {places[key.digest]} already.")
        keys.append(key)
    return keys


def parse_line(line: str) -> Key | None:
    """Return the key of a line; None for an empty line or a comment."""
    words = re.findall(r"[^ \t\r]+", line)  # no other letter parts words
    if not words or words[0].startswith("#"):
        return None
    if len(words) < 2:
        raise ParameterError("a key is written as its name and its SHA-256.")
    terms: dict[str, str] = {}
    for word in words[2:]:
        name, equals, value = word.partition("=")
        if not equals or name not in ("expires", "roles", "rate") or name in terms:
            raise ParameterError(f"{_EXTRA}.")
        terms[name] = value
    try:
        key = Key(words[0], words[1])
    except ParameterError as error:
        raise ParameterError(str(error).partition(" Got ")[0]) from None
    return replace(
        key,
        expires=parsed_moment(terms["expires"]) if "expires" in terms else None,
        roles=parsed_roles(terms["roles"]) if "roles" in terms else USUAL,
        rate=parsed_rate(terms["rate"]) if "rate" in terms else None,
    )


def parsed_moment(text: str) -> datetime:
    """Return the first moment at which a key with these words is refused."""
    match = re.fullmatch(r"([2-9][0-9]{3}-[0-9]{2}-[0-9]{2})(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?", text)
    if match is not None:
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC) + timedelta(days=match[2] is None)
    raise ParameterError(f"'expires' must be {_EXPIRES}.")


def written(moment: datetime) -> str:
    """Write a moment, a whole second, as :func:`parsed_moment` reads it: as a day where it is the end of one."""
    moment = moment.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    midnight = moment.time() == time.min
    return (moment - timedelta(days=1)).date().isoformat() if midnight else f"{moment.isoformat()}Z"


def parsed_roles(text: str) -> tuple[Role, ...]:
    """Return the roles that are named, in their order, each once."""
    given = text.split(",")
    if not set(given) <= set(ROLES) or len(set(given)) != len(given):
        raise ParameterError(f"'roles' must be {_ROLES}, each once.")
    return tuple(role for role in ROLES if role in given)


def parsed_rate(text: str) -> Rate:
    """Return the rate that is named."""
    match = re.fullmatch(r"([1-9][0-9]{0,6})/(s|min|h|d)", text)
    if match is None or int(match[1]) > 1_000_000:
        raise ParameterError(f"'rate' must be {_RATE}.")
    return Rate(int(match[1]), match[2])


def is_valid(key: Key, now: datetime) -> bool:
    """Say whether a key has not expired."""
    return key.expires is None or now < key.expires


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a key as the file has it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def match_key(secret: str, keys: Collection[Key]) -> Key | None:
    """Return the key of a secret, or None if it is unknown; every key is compared, in constant time."""
    digest, match = digest_of(secret), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            match = key
    return match


def valid_keys(known: Iterable[Key | None], name: str, now: datetime, path: Path) -> list[Key]:
    """Return the valid keys of a name in ``path``, or refuse a name without one."""
    valid = [key for key in known if key is not None and key.name == name and is_valid(key, now)]
    if not valid:
        raise ParameterError(f"'{path}' has no valid key named '{name}': 'isonomy key list' shows all.")
    return valid


def end_keys(lines: list[str], known: Sequence[Key | None], name: str, now: datetime, ends: datetime) -> datetime:
    """Let the valid keys of a name expire at a moment, if they do not earlier; return when the last of them does."""
    last = now
    for place, key in enumerate(known):
        if key is not None and key.name == name and is_valid(key, now):
            key = replace(key, expires=ends if key.expires is None else min(key.expires, ends))
            lines[place], last = key.line(), max(last, key.expires or last)
    return last


@contextmanager
def edited_keys(path: Path) -> Iterator[tuple[list[str], list[Key | None]]]:
    """Give the lines of a file of keys and the key of each, to be changed; write the lines when all went well.

    The file is locked meanwhile, replaced at once, and keeps its rights; a new one is its owner's alone.
    """
    path = path.resolve()  # a link stays a link
    with _locked(path.parent):
        lines = read_text(path).removesuffix("\n").split("\n") if path.exists() else []
        yield lines, _parsed(lines, path)
        text = "\n".join(lines) + "\n"
        parse_keys(text, path)
        with atomic(path, "file of keys", folders=False) as partial:
            partial.touch(mode=0o600)
            partial.write_text(text, encoding="utf-8", newline="\n")
            if path.exists():
                rights = path.stat()
                with suppress(OSError):  # only root may give a file away
                    os.chown(partial, rights.st_uid, rights.st_gid)
                partial.chmod(rights.st_mode & 0o777)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with ExitStack() as held:
        if sys.platform != "win32" and folder.is_dir():
            import fcntl

            opened = os.open(folder, os.O_RDONLY)
            held.callback(os.close, opened)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(opened, fcntl.LOCK_EX)
        yield
