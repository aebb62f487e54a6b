"""The files of a certificate, read as a stranger's: nothing in them is believed before it was looked at.

``certificate.json`` is an in-toto statement: its subjects name files by SHA-256, its predicate has the question, the
claims and the shapes of arrays. Every array is a file ``evidence/NAME.bin`` of little-endian numbers in row order and
nothing else; its type follows from its name (:func:`dtype_of`), its shape from the predicate, and the length of the
file must be that of the shape before a byte of it is read. ``certificate.dsse.json``, if there is one, is a DSSE
envelope with Ed25519 signatures of the very bytes of ``certificate.json``.

**Soundness.** Sizes are limited before anything is read; a key that occurs twice, a number that is none, a name with a
path in it, a length that does not fit: each is an error, never a guess.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.layout import BESIDE, check_document
from isonomy_verify.text import BadInput as BadInput
from isonomy_verify.text import quoted

Arrays = dict[str, NDArray[Any]]

FORMAT, READ = 8, (7, 8)
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", f"urn:isonomy:certificate:{FORMAT}"
PAYLOAD = "application/vnd.in-toto+json"
DOCUMENT, ENVELOPE, EVIDENCE = "certificate.json", "certificate.dsse.json", "evidence"
SCHEMA, METRIC, GROUND = "schema.toml", "metric.toml", "ground.toml"

DOCUMENT_BYTES = 2**24
"""The longest document; one of ten million people has about 20 kB."""

TEXT_BYTES = 2**24
"""The longest text beside it."""

LARGEST_ARRAY = 2**40
"""Bytes of the largest array."""

JSON_DEPTH = 32
"""Brackets within brackets."""

_NAME = re.compile(r"[a-z_0-9]+(\.[a-z_0-9]+)*", re.ASCII)
_KINDS = {
    "<i8": "rows count inputs index roundings width coordinate category missing left right roots output owner"
    " cuts columns trees first h goals halves eighths",
    "<u4": "pass",
    "|u1": "decision kind masks",
}
_DTYPES = {name: np.dtype(kind) for kind, names in _KINDS.items() for name in names.split()}


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of the array of a name: 64-bit floats, but for what counts, marks or chooses."""
    return _DTYPES.get(name.rpartition(".")[2], np.dtype("<f8"))


@dataclass(frozen=True)
class Record:
    """A certificate's document and where its files are; arrays are read, and compared with their hash, when asked for.

    ``elsewhere`` is a folder in which withheld arrays are looked for.
    """

    folder: Path
    content: bytes
    hashes: Mapping[str, str]
    predicate: Mapping[str, Any]
    elsewhere: Path | None = None
    name: str = DOCUMENT
    _read: Arrays = field(default_factory=dict, repr=False)
    _texts: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def read(cls, path: str | Path, elsewhere: str | Path | None = None) -> Record:
        """The document of a file, or of a directory; errors name what is wrong."""
        path = Path(path) / DOCUMENT if Path(path).is_dir() else Path(path)
        content = limited(path, DOCUMENT_BYTES)
        document = strict_json(content, path.name)
        if not isinstance(document, dict) or document.get("_type") != STATEMENT:
            raise BadInput(f"{path} is not an isonomy certificate.")
        other = re.fullmatch(r"urn:isonomy:certificate:([1-9]\d{0,3})", str(document.get("predicateType")), re.ASCII)
        if other is None or int(other[1]) not in READ:
            of = f"format {other[1]}" if other else "another version"
            raise BadInput(
                f"{path} is a certificate of {of}, and this program checks format {FORMAT}: audit again to have one."
            )
        check_document(document)
        predicate = document["predicate"]
        shapes, withheld = predicate["arrays"], predicate["withheld"]
        hashes = {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
        for name, shape in shapes.items():
            whole = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**48 for n in shape)
            if not _NAME.fullmatch(name) or not whole or len(shape) > 2:
                raise BadInput(f"{path}: the array {quoted(name)} has no shape that an array can have.")
            if f"{EVIDENCE}/{name}.bin" not in hashes:
                raise BadInput(f"{path} has no SHA-256 of the array {quoted(name)}.")
        if not set(withheld) <= set(shapes):
            raise BadInput(f"{path} withholds arrays that it does not have.")
        folder = None if elsewhere is None else Path(elsewhere)
        return cls(path.parent, content, hashes, predicate, folder, path.name)

    def names(self, group: str) -> list[str]:
        """The arrays of a group, by the rest of their names."""
        return [name[len(group) + 1 :] for name in self.predicate["arrays"] if name.startswith(f"{group}.")]

    def has(self, name: str) -> bool:
        """Whether an array is there to be read; one that is neither there nor withheld is an error when it is."""
        known, withheld = self.predicate["arrays"], self.predicate["withheld"]
        return name in known and (name not in withheld or self._file(name).is_file())

    def array(self, name: str) -> NDArray[Any]:
        """An array, mapped into memory, of the shape that the document says and the SHA-256 that it names."""
        if name not in self._read:
            self._read[name] = self._array(name)
        return self._read[name]

    @property
    def seen(self) -> set[str]:
        """The files that were read."""
        return {f"{EVIDENCE}/{name}.bin" for name in self._read} | self._texts

    def group(self, group: str) -> Arrays:
        """All arrays of a group."""
        return {name: self.array(f"{group}.{name}") for name in self.names(group)}

    def text(self, name: str, most: int = TEXT_BYTES) -> str:
        """A text of the evidence, of the SHA-256 that the document names and at most this many bytes."""
        content = limited(self.folder / EVIDENCE / name, most)
        if hashlib.sha256(content).hexdigest() != self.hashes.get(f"{EVIDENCE}/{name}"):
            raise BadInput(f"{EVIDENCE}/{name} is not the file that the certificate names (another SHA-256).")
        self._texts.add(f"{EVIDENCE}/{name}")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{EVIDENCE}/{name} is not UTF-8 text.") from None

    def check_beside(self) -> list[str]:
        """The files beside the certificate and in its evidence that it does not name; a file that it does name must be
        the one that it names, or is an error."""
        for name, digest in self.hashes.items():
            file = self.folder / name
            if BESIDE.fullmatch(name) and file.exists():
                with _regular(file).open("rb") as content:
                    if hashlib.file_digest(content, "sha256").hexdigest() != digest:
                        raise BadInput(f"{file} is not the file that the certificate names (another SHA-256).")
        known, evidence = {*self.hashes, self.name, ENVELOPE, EVIDENCE}, self.folder / EVIDENCE
        there = [each.name for each in self.folder.iterdir()]
        there += [f"{EVIDENCE}/{each.name}" for each in (evidence.iterdir() if evidence.is_dir() else ())]
        return sorted(name for name in there if name not in known)

    def _file(self, name: str) -> Path:
        here = self.folder / EVIDENCE / f"{name}.bin"
        if name in self.predicate["withheld"] and self.elsewhere is not None and not here.is_file():
            return self.elsewhere / f"{name}.bin"
        return here

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.predicate["arrays"]:
            raise BadInput(f"The certificate has no array {quoted(name)}.")
        shape, dtype, file = self.predicate["arrays"][name], dtype_of(name), self._file(name)
        size = math.prod(shape) * dtype.itemsize
        try:
            length = _regular(file).stat().st_size
            if length != size or size > LARGEST_ARRAY:
                raise BadInput(f"{file.name} has {length} bytes, and an array of shape {shape} has {size}.")
            with file.open("rb") as content:  # and no other of that name, which may have taken its place meanwhile
                digest = hashlib.file_digest(content, "sha256").hexdigest()
                array = np.memmap(content, dtype, "r", shape=tuple(shape)) if size else np.zeros(shape, dtype)
            if digest != self.hashes[f"{EVIDENCE}/{name}.bin"]:
                raise BadInput(f"{file.name} is not the file that the certificate names (another SHA-256).")
        except OSError as error:
            raise BadInput(f"{file} cannot be read: {error.strerror}.") from None
        flat = array.reshape(-1)
        for start in range(0, flat.size, 2**20):
            piece = flat[start : start + 2**20]
            if dtype.kind == "f" and np.isnan(piece).any():
                raise BadInput(f"{file.name} has entries that are no numbers.")
        return array


def limited(path: Path, most: int) -> bytes:
    """The bytes of a file that is not longer than that."""
    try:
        with _regular(path).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise BadInput(f"{path} is longer than the {most} bytes that are read of it.")
        return content
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None


def _regular(path: Path) -> Path:
    """A path that is no pipe or device, of which reading would not end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadInput(f"{path} cannot be read: it is not a file.")
    return path


def strict_json(content: bytes, name: str) -> Any:
    """JSON in which no key occurs twice, every number is finite and of plain digits, and brackets are not deep."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise BadInput(f"{name} has a key twice.")
        return found

    def refused(text: str) -> Any:
        raise BadInput(f"{name} has {quoted(text)}, which is no number.")

    def finite(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refused(text)

    unquoted, depth, most = re.sub(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', b"", content, flags=re.DOTALL), 0, 0
    if not unquoted.isascii():
        raise BadInput(f"{name} is no JSON: outside texts it has letters or digits of its own.")
    for byte in re.sub(rb"[^][}{]", b"", unquoted):
        depth += 1 if byte in b"[{" else -1
        most = max(most, depth)
    if most > JSON_DEPTH:
        raise BadInput(f"{name} has brackets {most} deep.")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=once, parse_constant=refused, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is damaged: {quoted(error)}.") from None


def encoded(payload: bytes) -> bytes:
    """What a DSSE signature is of: the pre-authentication encoding of the payload."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def signers(record: Record) -> list[str] | None:
    """The public keys (in hexadecimal) whose signatures of this very document are right; None: there is no envelope.

    One signature that is wrong, stale or garbage makes the whole envelope an error.
    """
    path = record.folder / ENVELOPE
    if not path.exists():
        return None
    envelope = strict_json(limited(path, 2 * DOCUMENT_BYTES), path.name)
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
        named = [(str(each["keyid"]), base64.b64decode(each["sig"], validate=True)) for each in envelope["signatures"]]
        right = envelope["payloadType"] == PAYLOAD
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise BadInput(f"{path.name} is not a DSSE envelope.") from None
    if not right or payload != record.content or not named:
        raise BadInput(f"{path.name} is not about this {DOCUMENT}: it signs other bytes.")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise BadInput(f"{path.name} can be checked with 'pip install cryptography' only.") from None
    for key, signature in named:
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, encoded(payload))
        except (InvalidSignature, ValueError):
            raise BadInput(f"{path.name} has a signature that is not that of the key {quoted(key, 16)}.") from None
    return [bytes.fromhex(key).hex() for key, _ in named]  # which skips blanks, and those could write on the terminal
