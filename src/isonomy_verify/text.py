"""Strangers' text on the terminal: quoted, escaped and cut, so that no line of a program can be imitated by it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from typing import Any

QUOTED_LENGTH = 60
"""Characters that are shown of one text."""

UNSEEN = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800}.union(
    *map(range, (0x180B, 0xFE00, 0xE0100), (0x1810, 0xFE10, 0xE01F0))
)
"""Characters that count as printable and show nothing; others of the kind are variants of these."""

MARKS = {*"ʺ˝ˮ˵˶״ײ‟“”„″‶❝❞〃〝〞〟🙶🙷🙸", "\u030e", "\u1cd3"}
"""Characters that look like the quotation mark."""


class BadInput(Exception):  # noqa: N818
    """A file that is missing or not what it should be, in one sentence, which cannot write on the terminal."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def printable(text: str) -> str:
    """A text in which nothing can write on the terminal: letters of any script, the rest as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quoted(text: object, most: int = QUOTED_LENGTH) -> str:
    """A stranger's text as one word of a sentence: in quotation marks, at most ``most`` characters between them.

    Whatever is not a printable letter (line breaks, escapes of terminals, marks that turn the direction of writing) is
    written as an escape, and so are quotation marks and backslashes: what stands between the marks is the stranger's.
    So is what looks like a quotation mark, like nothing or like another letter (fullwidth digits, accents apart from
    their letter): texts that differ are shown differently, but for letters that scripts have alike.
    """
    shown, length = list[str](), 0
    whole = str(text)
    apart = not unicodedata.is_normalized("NFC", whole[: most + 1])
    for i, c in enumerate(whole):
        piece = f"\\{c}" if c in '"\\' else ascii(c)[1:-1] if disguised(c, apart) else printable(c)
        rest = len(whole) - i - 1
        if length + len(piece) > most - (1 if rest else 0):
            return f'"{"".join(shown)}…"'
        shown.append(piece)
        length += len(piece)
    return f'"{"".join(shown)}"'


def disguised(c: str, apart: bool) -> bool:
    """Whether a character can be taken for another, or for none; accents where they stand ``apart`` from letters."""
    if c.isascii() or c == "…":
        return False
    variant = unicodedata.normalize("NFKC", c) != c
    return variant or ord(c) in UNSEEN or c in MARKS or (apart and unicodedata.combining(c) > 0)


def listed(names: Iterable[object], most: int = 4) -> str:
    """Some strangers' names, each quoted; of many the first, and how many more there are."""
    every = list(names)
    said = ", ".join(quoted(name) for name in every[:most])
    return f"{said} and {len(every) - most:,} more" if len(every) > most else said


def number(value: Any) -> float:
    """A number, or "inf", which JSON has no word for."""
    if value == "inf":
        return math.inf
    need(type(value) in (int, float), f"{quoted(value)} is no number")
    return float(value)


def written(value: float) -> str:
    """A number of the question, every digit of it: within 1 there may be people who are not within 0.9999999."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def need(holds: Any, what: str) -> None:
    """Refuse what does not hold, in one sentence."""
    if not holds:
        raise BadInput(f"The certificate is damaged: {what}.")
