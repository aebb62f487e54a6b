"""A noun is a quantity, a verb an operation: names and docstrings of library and kernel use plain words.

Of the kernel the words are judged, and not yet the first line of every docstring. Texts for readers (reports, errors,
help) may speak of people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import isonomy

SOURCE = Path(isonomy.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
KERNEL = SOURCE.parent / "isonomy_verify"

FORBIDDEN = re.compile(
    r"\b(whoever|whomever|somebody|nobody|anybody|told|room|so many|of whom|what is asked)\b", re.IGNORECASE
)
NAMES = {"told", "said", "found", "room", "whoever", "somebody", "nobody", "anybody", "news", "came", "worth"}

IMPERATIVE = re.compile(r"[A-Z][a-z]+\b")
NOT_IMPERATIVE = {
    "The", "A", "An", "Is", "Are", "Was", "Does", "Do", "Did", "Has", "Have", "Had", "What", "Who", "Whom", "Whose",
    "Which", "Where", "When", "How", "Why", "Whether", "All", "Every", "Everybody", "Those", "These", "This", "That",
    "It", "Made", "Same", "About", "At", "By", "For", "From", "In", "Of", "On", "Up", "With", "Without", "Not", "No",
    "None", "One", "Two", "Three", "Some", "Such", "If", "As", "And", "Or", "But", "Nothing", "Rows", "Only",
}  # fmt: skip
"""First words that begin no order."""

EXCEPTIONS = {"cli/explain.py": {"somebody"}, "cli/init.py": {"anybody"}}
"""Words that a module may use: its docstrings are the help that users read."""


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every docstring, with what it belongs to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, text


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that a module gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the docstring is the help of a command, or a property or protocol of another library."""
    marks = ("option", "command", "callback")
    return any(word in ast.unparse(each) for each in node.decorator_list for word in marks)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_words_are_plain(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = EXCEPTIONS.get(path.relative_to(SOURCE).as_posix(), set())
    wrong = [f"{line}: the name {name!r}" for line, name in names(tree) if name.strip("_") in NAMES - allowed]
    for node, text in docstrings(tree):
        line = getattr(node, "lineno", 1)
        wrong += [f"{line}: {word!r}" for word in FORBIDDEN.findall(text) if word.lower() not in allowed]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_command(node):
            first = IMPERATIVE.match(text)
            if first is None or first[0] in NOT_IMPERATIVE:
                wrong.append(f"{line}: {text.splitlines()[0]!r} is no order")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", sorted(KERNEL.rglob("*.py")), ids=lambda path: path.relative_to(KERNEL).as_posix())
def test_words_of_the_kernel_are_plain(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    riddles = NAMES - {"said", "found", "worth"}
    wrong = [f"{line}: the name {name!r}" for line, name in names(tree) if name.strip("_") in riddles]
    for node, text in docstrings(tree):
        wrong += [f"{getattr(node, 'lineno', 1)}: {word!r}" for word in FORBIDDEN.findall(text)]
    assert not wrong, "\n".join(wrong)
