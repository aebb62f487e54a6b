"""An issuer's signature: Ed25519 (RFC 8032), in plain integers, so that nothing needs to be installed.

A key file holds the 32 bytes of a private key as 64 hexadecimal digits. Signing takes a few milliseconds and is not
hardened against somebody who measures its time on the same machine; verification has nothing to hide.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isonomy.errors import FileError

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, PRIME) % PRIME
_I = pow(2, (PRIME - 1) // 4, PRIME)  # a root of -1

Point = tuple[int, int, int, int]  # X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner only, and return the public key in hexadecimal."""
    seed = secrets.token_bytes(32)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(seed.hex() + "\n")
    except OSError as error:
        raise FileError(f"The key file {path} cannot be written: {error.strerror}.") from None
    return public_key(seed).hex()


def read_key(path: Path) -> bytes:
    """The private key in a file."""
    try:
        seed = bytes.fromhex(Path(path).read_text(encoding="ascii").strip())
    except OSError as error:
        raise FileError(f"The key file {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise FileError(f"The key file {path} must hold 64 hexadecimal digits.")
    return seed


def signed(document: Mapping[str, Any], seed: bytes) -> dict[str, Any]:
    """A document with a signature of everything else in it."""
    bare = {key: value for key, value in document.items() if key != "signature"}
    value = sign(seed, canonical(bare)).hex()
    return bare | {"signature": {"algorithm": "ed25519", "public": public_key(seed).hex(), "value": value}}


def holds(document: Mapping[str, Any]) -> bool:
    """Is the signature of a document that of its content by the public key it names?"""
    part = document["signature"]
    bare = {key: value for key, value in document.items() if key != "signature"}
    try:
        public, value = bytes.fromhex(part["public"]), bytes.fromhex(part["value"])
    except ValueError:
        return False
    return bool(part["algorithm"] == "ed25519") and verify(public, canonical(bare), value)


def canonical(document: Mapping[str, Any]) -> bytes:
    """One way of writing a document: sorted keys, no spaces, shortest numbers."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def public_key(seed: bytes) -> bytes:
    """The public key of a private one."""
    return _encode(_times(_scalars(seed)[0], _BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    """The signature of a message."""
    scalar, prefix = _scalars(seed)
    public = _encode(_times(scalar, _BASE))
    nonce = _number(prefix + message)
    point = _encode(_times(nonce, _BASE))
    response = (nonce + _number(point + public + message) * scalar) % ORDER
    return point + response.to_bytes(32, "little")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Was the message signed by the owner of the public key?"""
    if len(public) != 32 or len(signature) != 64:
        return False
    owner, point = _decode(public), _decode(signature[:32])
    response = int.from_bytes(signature[32:], "little")
    if owner is None or point is None or response >= ORDER:
        return False
    right = _plus(point, _times(_number(signature[:32] + public + message), owner))
    left = _times(response, _BASE)
    return all((left[k] * right[2] - right[k] * left[2]) % PRIME == 0 for k in (0, 1))


def _scalars(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | (1 << 254), digest[32:]


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha512(data).digest(), "little") % ORDER


def _plus(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % PRIME
    b = (one[1] + one[0]) * (other[1] + other[0]) % PRIME
    c, d = 2 * one[3] * other[3] * _D % PRIME, 2 * one[2] * other[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _plus(total, point)
        point, scalar = _plus(point, point), scalar >> 1
    return total


def _encode(point: Point) -> bytes:
    inverse = pow(point[2], -1, PRIME)
    x, y = point[0] * inverse % PRIME, point[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decode(data: bytes) -> Point | None:
    number = int.from_bytes(data, "little")
    y, odd = number & ((1 << 255) - 1), number >> 255
    if y >= PRIME:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * _I % PRIME
    if (x * x - square) % PRIME or (x == 0 and odd):
        return None
    x = PRIME - x if x & 1 != odd else x
    return x, y, 1, x * y % PRIME


_start = _decode((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))
assert _start is not None
_BASE: Point = _start
