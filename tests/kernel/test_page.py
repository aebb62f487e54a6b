"""The page of the kernel (``docs/kernel.md``) and the kernel say the same.

``python -m tests.kernel.test_page`` prints the signatures as the page has them.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import isonomy_verify

KERNEL = Path(isonomy_verify.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "kernel.md"
PARTS = ("Premises", "Arguments", "Conclusion", "Side condition", "Because", "In")
BESIDE = {
    "alone", "asked", "behind", "check", "claims", "definitions", "evidence", "gaps", "individuals", "kinds",
    "layout",
    "record", "selection", "text",
}  # fmt: skip
"""Modules that read files, compare claims or say results in words; all others prove."""

PROVING = sorted(path.stem for path in KERNEL.glob("[a-z]*.py") if path.stem not in BESIDE)
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def parameters(arguments: ast.arguments, bound: bool = False) -> str:
    """Parameters without their types."""
    plain = ast.parse(ast.unparse(arguments).join(("def f(", "): ..."))).body[0]
    assert isinstance(plain, ast.FunctionDef)
    every = [*plain.args.posonlyargs, *plain.args.args, *plain.args.kwonlyargs]
    for each in (*every, *filter(None, (plain.args.vararg, plain.args.kwarg))):
        each.annotation = None
    if bound:
        plain.args.args = plain.args.args[1:]
    return ast.unparse(plain.args)


def constructor(node: ast.ClassDef) -> str:
    """Parameters that make an object: of ``__init__``, else the fields."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return parameters(each.args, bound=True)
    fields = [
        ast.unparse(each.target) + (f"={ast.unparse(each.value)}" if each.value is not None else "")
        for each in node.body if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation)
    ]  # fmt: skip
    return ", ".join(fields)


def signatures(module: str) -> list[str]:
    """One line for each public class and function of a module."""
    lines = []
    for node in ast.parse((KERNEL / f"{module}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            lines.append(f"{node.name}({constructor(node)})")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines.append(f"{node.name}({parameters(node.args)})")
    return lines


def blocks(text: str) -> dict[str, list[str]]:
    """The signatures on the page, module by module."""
    section = text.split("## Signature\n")[1].split("\n## ")[0]
    listed: dict[str, list[str]] = {}
    for block in re.findall(r"^```text\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line and not line.startswith(" "):
                lines = listed.setdefault(line, [])
            elif line:
                lines.append(line.strip())
    return listed


def rules(text: str) -> dict[str, str]:
    """The rules on the page, by their names."""
    section = text.split("## Rules\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", section + "\n", re.DOTALL | re.MULTILINE))


def exists(name: str) -> bool:
    """Whether a dotted name is one of the kernel's: of a module, of something in it, or of a class there."""
    module, *rest = name.split(".")
    try:
        thing = importlib.import_module(f"isonomy_verify.{module}")
        for part in rest:
            if part not in getattr(thing, "__annotations__", {}) and not hasattr(thing, part):
                return False
            thing = getattr(thing, part, None)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("module", PROVING)
def test_the_signature_is_that_of_the_code(module: str) -> None:
    assert blocks(TEXT).get(module, []) == signatures(module)


def test_no_other_module_is_on_the_page() -> None:
    assert set(blocks(TEXT)) <= set(PROVING)
    assert {path.stem for path in KERNEL.glob("[a-z]*.py")} >= BESIDE


@pytest.mark.parametrize("rule", sorted(rules(TEXT)))
def test_every_rule_has_one_form_and_names_what_implements_it(rule: str) -> None:
    body = rules(TEXT)[rule]
    assert re.findall(r"^- \*\*(.+?)\.\*\* ", body, re.MULTILINE) == list(PARTS), rule
    named = re.findall(r"`([a-z_]+\.[A-Za-z_.]+)`", body.split("**In.**")[1])
    assert named, rule
    assert [name for name in named if not exists(name)] == []


def test_every_proving_module_has_a_rule() -> None:
    named = {name.split(".")[0] for body in rules(TEXT).values() for name in re.findall(r"`([a-z_]+)\.", body)}
    assert set(PROVING) <= named | {"models", "shifts"}  # an interface, and a table of kinds


def test_names_that_are_none_are_seen() -> None:
    assert exists("enclosure.Enclosure.side") and exists("branching.Hints.slopes")
    assert not exists("enclosure.Enclosure.aside") and not exists("inclosure.Run") and not exists("lines.Curved")


def test_what_proves_takes_nothing_but_hints_from_what_searches() -> None:
    """Nothing that proves imports the search: the checker names it, and it imports nothing of isonomy either."""
    seen = set()
    for path in sorted(KERNEL.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) isonomy[. ]", text, re.MULTILINE), path.name
        if path.parent == KERNEL and "isonomy_verify.hints" in re.sub(r'""".*?"""', "", text, flags=re.DOTALL):
            seen.add(path.stem)
    assert seen == {"kinds"} <= BESIDE


def constants(path: Path) -> set[str]:
    """The numbers that a module gives a name in capitals."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Dict | ast.Set | ast.Call):
            named = [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            found |= {each.id for each in named if each.id.isupper() and not each.id.startswith("_")}
    return found


def test_a_constant_has_one_name_and_a_name_one_value() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(KERNEL.rglob("*.py")):
        if path.stem not in BESIDE:
            for name in constants(path):
                places.setdefault(name, []).append(path.stem)
    assert {"BLOCK", "TINY", "FEW_MOVING"} <= set(places)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def inherited(text: str) -> list[str]:
    """Classes of a module that inherit from something of the kernel, errors but not."""
    tree, names = ast.parse(text), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "isonomy_verify":
            names |= {alias.asname or alias.name for alias in node.names if not alias.name.endswith("Error")}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if names & {ast.unparse(base).split(".")[0] for base in node.bases}]


def test_classes_of_the_kernel_are_final() -> None:
    """The library holds them and inherits from none, so that what is proved can be read in the kernel alone."""
    library = sorted((KERNEL.parent / "isonomy").rglob("*.py"))
    assert {path.name: seen for path in library if (seen := inherited(path.read_text(encoding="utf-8")))} == {}
    assert inherited("from isonomy_verify.regions import Ball\nclass Mine(Ball): ...") == ["Mine"]


if __name__ == "__main__":
    for stem in PROVING:
        print(stem, *(f"  {line}" for line in signatures(stem)), sep="\n")
