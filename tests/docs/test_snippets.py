"""What the pages tell a reader to do works, in the order of the page."""

from __future__ import annotations

import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from isonomy.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\s*(?:- run: |run: )?(isonomy .*)$", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [
        "tutorials/quickstart",
        "tutorials/python",
        pytest.param("how-to/dossier", marks=pytest.mark.slow),
        "reference/schema",
        "explanation/quoting",
        "how-to/auditor",
        "how-to/coming-from",
        pytest.param("explanation/meaning", marks=pytest.mark.slow),
        pytest.param("how-to/choosing", marks=pytest.mark.slow),
        pytest.param("how-to/recipes", marks=pytest.mark.slow),
        pytest.param("how-to/trees", marks=pytest.mark.slow),
        pytest.param("how-to/ci", marks=pytest.mark.slow),
    ],
)
def test_the_page_works(
    page: str, reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python runs in one namespace, tests in it too, commands in one folder; TOML that begins with a file's name is
    edited into it. What needs MLflow is left out where it is not installed.

    Of output that is shown the words must be right; numbers may differ a little elsewhere.
    """
    folder = shutil.copytree(reader, tmp_path / "reader")
    monkeypatch.chdir(folder)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert len(re.findall("```python", text)) == sum(found[1] == "python" for found in BLOCK.finditer(text))
    namespace: dict[str, Any] = {"__name__": page}
    printed = ""
    for found in BLOCK.finditer(text):
        language, block = found.groups()
        line = text[: found.start()].count("\n") + 1
        if language == "python":
            if "import mlflow" in block and find_spec("mlflow") is None:
                continue
            exec(compile("\n" * line + block, str(DOCS / f"{page}.md"), "exec"), namespace)
            for name in [each for each in namespace if each.startswith("test_")]:
                namespace.pop(name)()
        elif language in ("sh", "yaml"):
            for command in COMMAND.findall(block):
                words = shlex.split(command, comments=True)[1:]
                assert main(words) in allowed(words), f"{page}.md:{line}: {command}"
        elif language == "toml" and block.startswith("# "):
            name, body = block[2:].split("\n", 1)
            edit(folder / name.strip(), body)
        elif language == "text":
            printed += capsys.readouterr().out
            for shown in block.splitlines():
                assert words_of(shown) in words_of(printed), f"{page}.md:{line}: {shown}"
    if page == "tutorials/quickstart":
        written = {path.name for path in (folder / "audit").iterdir()}
        promised = {"report.html", "certificate.json", "evidence", "individuals.parquet", "summary.md", "junit.xml"}
        assert written == promised
        assert "tolerance = 1000" in (folder / "schema.toml").read_text(encoding="utf-8")


def words_of(output: str) -> str:
    return " ".join(re.sub(r"[0-9.]+", "", output).split())


def allowed(words: list[str]) -> tuple[int, ...]:
    """Exit statuses of a command that did its work: a verdict is whatever it is."""
    return (0, 1, 3) if "--epsilon" in words else (0,)


@pytest.mark.slow
def test_the_certificate_of_the_quickstart_is_accepted(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(reader, tmp_path / "reader")
    monkeypatch.chdir(folder)
    for command in ("init people.csv model.onnx --label approved --protected sex", "audit audit.toml --out audit"):
        if main(command.split()) != 0:
            raise RuntimeError(command)
    assert main(["verify", "audit/certificate.json"]) == 0


def edit(path: Path, sections: str) -> None:
    """Put each [section] in the place of the one that the file has, or at its end."""
    text = path.read_text(encoding="utf-8")
    for section in re.split(r"^(?=\[)", sections, flags=re.MULTILINE):
        if not section.strip():
            continue
        old = re.compile(rf"^{re.escape(section.splitlines()[0])}\n.*?(?=^\[|\Z)", re.DOTALL | re.MULTILINE)
        text = old.sub("", text) + "\n" + section
    path.write_text(text, encoding="utf-8")
