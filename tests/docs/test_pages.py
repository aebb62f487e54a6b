"""The pages hang together: all are reached, links lead somewhere, every public name is described, Sphinx is content."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import isonomy
from isonomy.population import Feature, Label, Schema, Split

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "studies" / "results"
PAGES = sorted([*(page for page in DOCS.rglob("*.md") if "_build" not in page.parts), *RESULTS.glob("*.md")])


def anchors(path: Path) -> set[str]:
    """The anchors that Markdown headings get: lower case, spaces to hyphens, punctuation dropped."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_is_in_the_contents() -> None:
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for tree in trees for line in tree.split("\n\n")[1].split()]
    listed = [path for line in lines for path in DOCS.glob(f"{line}.md")]
    listed += [RESULTS / name for name in re.findall(r"\((\w+\.md)\)", (RESULTS / "index.md").read_text("utf-8"))]
    assert sorted(listed) == [page for page in PAGES if page.name != "index.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        aim = page if not name else page.parent / name
        assert aim.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(aim), f"{page.name} links to {target}"


def test_every_public_name_is_described() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    described = re.findall(r"^\.\. auto(?:class|function|exception):: isonomy\.(\w+)$", page, re.MULTILINE)
    assert sorted(described) == sorted(set(isonomy.__all__) - {"__version__"})


def test_every_key_of_a_schema_is_described() -> None:
    page = (DOCS / "reference" / "schema.md").read_text(encoding="utf-8")
    top = {*Schema.__dataclass_fields__} - {"features", "label", "split", "inputs"}
    keys = top | {*Label.__dataclass_fields__} | {*Split.__dataclass_fields__} | {*Feature.__dataclass_fields__}
    missing = sorted(key for key in keys if f"`{key}`" not in page)
    assert not missing, missing


@pytest.mark.slow
def test_sphinx_has_nothing_to_say(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "certify_local" in (tmp_path / "reference" / "api.html").read_text(encoding="utf-8")
