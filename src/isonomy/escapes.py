"""Words of others in what is shown: names of columns, categories, classes, models and files can hold anything.

:func:`visible` is for terminals, pages and XML, whose own markup is escaped by those who write it; :func:`for_markdown`
is for Markdown, :func:`for_spreadsheet` for CSV; :func:`in_json` is for JSON and TOML, whose texts have escapes of
their own. All of them are for pieces of text that stand in one line.
"""

from __future__ import annotations

import json
import re

_MARKUP = re.compile(r"[\\`*\[\]<>&|~$]|(?<!\w)_|_(?!\w)")
"""Signs that Markdown, or what hosts add to it, gives a meaning anywhere in a line."""

_LINKED = re.compile(r"(?<=@)|(?<=#)(?=\w)|(?=://)|(?i:(?<=www))(?=\.)")
"""Places in what hosts make links of, and notes to people, though it is plain words: @team, #17, http://…, www.…"""

_FORMULA = (*"=+-@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Signs that make a spreadsheet take a cell for a formula, full-width ones too."""

_ZERO_WIDTH_SPACE = "&#8203;"  # a space without width, which stays where hosts look through the page that was made


def visible(text: str) -> str:
    r"""Return the text in one line, in which nothing can steer a terminal or hide: what is no printable character of
    any script (controls, line ends, marks that turn the direction of writing) is shown as an escape such as ``\x1b``.

    What is left is also what XML can hold.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def for_markdown(text: str) -> str:
    """Return the text in one line of Markdown that renders as these very words: no markup, link, image or mention."""
    return _LINKED.sub(_ZERO_WIDTH_SPACE, _MARKUP.sub(r"\\\g<0>", visible(text)))


def for_spreadsheet(text: str) -> str:
    """Return the text for a cell of a spreadsheet, in which it is no formula, in signs of any width."""
    text = visible(text)
    return f"'{text}" if text[:1] in _FORMULA else text


def in_json(document: str) -> str:
    r"""Return a JSON text, indented or not, whose characters that cannot be seen are escapes such as ``\u202e``."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)
