"""Names that want to be more than names, through every output: none steers, breaks or links anything."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from starlette.testclient import TestClient

from isonomy.cli import main
from isonomy.errors import DataError, IsonomyError
from isonomy.escapes import for_markdown, in_json, visible
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.population.toml import write_value
from isonomy.service import Settings, create_app
from isonomy.service.served import Served
from isonomy.service.web import Lines
from isonomy.training.collapse import collapse

LINE = "CERTIFIED. A line of nobody"
WORDS = (
    f"\x1b[2J\x00\r\n{LINE}\u2028{LINE}\x85\u202e\x9b31m]]>--><script>alert(1)</script><img src=x>&lt;"
    "[x](http://evil.example)![](x)https://evil.example www.evil.example a@evil.example @team #17 |`a`| \n# H1\n- x\n"
    "```\n$x$ *b* _c_ ~~d~~ \"'\\ \U000e0041 &#64;team {{ 1 }}"
)
"""What a name can be."""
FILE = f"\x1b[2J\r\n{LINE}\u202e```<b>[x](y)@team|'#17 ]]>"
"""What the name of a file can be."""
CLASSES = f"no {WORDS}", f"yes {WORDS}"


def schema() -> Schema:
    return Schema(
        f"title {WORDS}",
        (
            Feature(f"sex {WORDS}", "categorical", categories=(f"f {WORDS}", f"m {WORDS}"), protected=True),
            Feature(f"age {WORDS}", low=0.0, high=100.0, description=WORDS),
            Feature(f"town {WORDS}", "categorical", categories=(f"x {WORDS}", "y", "z"), proxy=True),
        ),
        label=Label(f"label {WORDS}", classes=CLASSES),
        description=WORDS,
    )


def frame(seed: int = 0, n: int = 80) -> pd.DataFrame:
    rng, (sex, age, town) = np.random.default_rng(seed), schema().features
    years, man = rng.integers(1, 99, n), rng.integers(0, 2, n)
    columns = {sex.name: np.array(sex.categories)[man], age.name: years.astype(float)}
    columns[town.name] = rng.choice(town.categories, n)
    return pd.DataFrame(columns | {f"label {WORDS}": np.array(CLASSES)[(years + 20 * man > 60).astype(int)]})


def call(*words: str | Path) -> tuple[int, str, str]:
    """Run the command line: status, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        status = main([str(word) for word in words])
    return status, out.getvalue(), err.getvalue()


def check_inert(text: str) -> None:
    """Nothing but printable characters, line ends and the console's own colours; no line is one of a name."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert plain.replace("\n", "").isprintable(), [c for c in plain if not c.isprintable() and c != "\n"]
    assert not any(line.strip().startswith(LINE) for line in plain.splitlines())
    assert not any(f"\x1b[{code}" in text for code in ("2J", "H"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tables, a schema and a model under hostile names, and an audit of them."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, seed in (("a", 0), ("b", 1)):
            frame(seed).to_parquet(f"{name}{FILE}.parquet", index=False)
        Path(f"{FILE}.toml").write_text(schema().to_toml(), encoding="utf-8")
        trained = call("train", *TABLE, "--out", f"{FILE}.onnx", *LEARN, *QUICK, "--delta", "1")
        assert trained[0] in (0, 3), trained
        Path("train.txt").write_text(trained[1] + trained[2], encoding="utf-8")
        patch.setenv("FORCE_COLOR", "1")
        audited = call("audit", *ASKED, "--out", f"out{FILE}", "--against", f"b{FILE}.parquet")
        assert audited[0] in (0, 1, 3), audited
        Path("audit.txt").write_text(audited[1] + audited[2], encoding="utf-8")
        patch.delenv("FORCE_COLOR")
        yield folder


TABLE = ("--data", f"a{FILE}.parquet", "--schema", f"{FILE}.toml")
ALONG = ("--methods", "f-ibp", "--alphas", "0,1")
LEARN = ("--method", "sgd", "--epochs", "2", "--hidden", "4")
QUICK = ("--gamma", "0", "--tier", "interval", "--limit", "12")
MODEL = ("--model", f"{FILE}.onnx", "--reads", "coordinates")
ASKED = (*TABLE, *MODEL, "--split", "all", "--limit", "8", "--epsilon", "0.01", "--gamma", "0.01", "--tier", "interval")
COMMANDS: dict[str, tuple[str, ...]] = {
    "audit": ("audit", *ASKED, "--estimate"),
    "explain the audit": ("explain", f"out{FILE}"),
    "explain": ("explain", *TABLE, *MODEL, "--row", "3"),
    "compare": ("compare", f"out{FILE}", f"out{FILE}"),
    "shift": ("shift", f"a{FILE}.parquet", f"b{FILE}.parquet", "--schema", f"{FILE}.toml"),
    "init": ("init", f"a{FILE}.parquet", f"{FILE}.onnx", "--label", f"label {WORDS}", "--force", "--out", f"i{FILE}"),
    "frontier": ("frontier", *TABLE, *ALONG, *LEARN[2:], *QUICK, "--out", f"frontier{FILE}"),
    "repair": ("repair", *TABLE, *MODEL, *QUICK, "--epsilon", "0.2", "--trials", "1", "--out", f"r{FILE}.onnx"),
    "verify": ("verify", f"out{FILE}/certificate.json"),
}
REFUSED: dict[str, tuple[str, ...]] = {
    "no such table": ("audit", "--data", f"none{FILE}.parquet", "--schema", f"{FILE}.toml", *MODEL),
    "no such plan": ("audit", f"{FILE}.none.toml"),
    "another schema": ("audit", "--data", f"a{FILE}.parquet", "--schema", "other.toml", *MODEL),
    "no schema": ("audit", "--data", f"a{FILE}.parquet", "--schema", "bad.toml", *MODEL),
    "no option": ("audit", f"--{WORDS}"),
    "no command": (WORDS,),
    "no choice": ("audit", "--tier", WORDS),
    "no table of the catalogue": ("datasets", "show", WORDS),
    "no certificate": ("serve", "--certificate", FILE),
    "no log": ("log", "verify", FILE),
    "no column": ("init", f"a{FILE}.parquet", f"{FILE}.onnx", "--label", f"none {WORDS}"),
    "no folder": ("audit", *ASKED, "--out", f"{FILE}.onnx"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_commands_print(place: Path, name: str) -> None:
    status, out, err = call(*COMMANDS[name])
    assert status in (0, 1, 3), err
    check_inert(out + err)
    if name != "init":
        status, out, err = call(*COMMANDS[name], "--json")
        check_inert(out + err)
        json.loads(out)


@pytest.mark.parametrize("name", ["train", "audit"])
def test_what_was_printed_on_a_terminal(place: Path, name: str) -> None:
    printed = (place / f"{name}.txt").read_text(encoding="utf-8")
    assert name == "train" or "\x1b[1m" in printed, "it has styles"
    check_inert(printed)


@pytest.mark.parametrize("name", REFUSED)
def test_what_refusals_print(place: Path, name: str) -> None:
    other = Schema("other", (Feature(f"other {WORDS}", low=0.0, high=1.0),))
    (place / "other.toml").write_text(other.to_toml(), encoding="utf-8")
    (place / "bad.toml").write_text(f"{write_value(WORDS)} = 1\n", encoding="utf-8")
    status, out, err = call(*REFUSED[name])
    assert status == 2 and err.startswith("Error: ") and err.count("\n") == 1 and not out
    check_inert(err)
    check_inert(call(*REFUSED[name], "--json")[1])


def test_the_files_of_init_are_read_as_they_were_meant(place: Path) -> None:
    assert call(*COMMANDS["init"])[0] == 0
    folder = place / f"i{FILE}"
    for file in ("schema.toml", "audit.toml"):
        check_inert((folder / file).read_text(encoding="utf-8"))
    assert [each.name for each in Schema.from_toml(folder / "schema.toml").features] == [
        each.name for each in schema().features
    ]


def test_junit_is_xml(place: Path) -> None:
    suite = ElementTree.fromstring((place / f"out{FILE}" / "junit.xml").read_text(encoding="utf-8"))
    first = next(suite.iter("testcase"))
    assert [each.tag for each in first] in ([kind, "system-out"] for kind in ("failure", "error"))
    assert {each.tag for each in suite.iter()} <= {
        "testsuite", "testcase", "failure", "error", "skipped", "system-out"
    }  # fmt: skip
    assert suite.attrib["name"] == f"isonomy audit: {visible(f'title {WORDS}')}"


def check_markdown(text: str) -> str:
    """The words of Markdown that has headings, tables, bold and one fence, and nothing else."""
    check_inert(text)
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inside = [each for token in tokens for each in token.children or ()]
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in (*tokens, *inside)}
    assert all(each.content == "isonomy verify certificate.json" for each in inside if each.type == "code_inline")
    grid, page = "table thead tbody tr th td", "heading paragraph inline text strong softbreak fence code_inline"
    assert kinds <= {*grid.split(), *page.split()}
    words = " ".join(each.content for each in inside)
    for sign in ("@team", "@evil", "#17", "p://", "s://", "www."):  # of which hosts make links and mentions afterwards
        assert sign not in words
    return words.replace("\u200b", "")


def test_the_summary_is_markdown_without_a_link(place: Path) -> None:
    text = (place / f"out{FILE}" / "summary.md").read_text(encoding="utf-8")
    words = check_markdown(text)
    assert visible(f"title {WORDS}") in words
    (fence,) = (each for each in MarkdownIt().parse(text) if each.type == "fence")
    assert fence.content == text.split(fence.markup)[1].lstrip("\n") and "isonomy audit" in fence.content
    check_markdown(call(*COMMANDS["compare"])[1])


@given(st.text(), st.text())
def test_markdown_shows_the_very_words(one: str, other: str) -> None:
    """Whatever the words are, beside each other and in a cell."""
    both = f"x{one} {other}x"
    for page in (f"A {for_markdown(both)}.", f"| | |\n|---|---|\n| a {for_markdown(both)} | b |\n"):
        words = check_markdown(page)
        assert re.sub(" +", " ", visible(both)).replace("\u200b", "") in re.sub(" +", " ", words)


@given(st.text())
def test_names_come_back_from_json_and_toml(name: str) -> None:
    import tomllib

    assert visible(name).isprintable()
    assert json.loads(in_json(json.dumps({name: [name]}, indent=1, ensure_ascii=False))) == {name: [name]}
    if not any("\ud800" <= c <= "\udfff" for c in name):
        written = f"name = {write_value(name)}"
        assert tomllib.loads(written) == {"name": name} and written.isprintable()
    ElementTree.fromstring(ElementTree.tostring(ElementTree.Element("a", name=visible(name)), encoding="unicode"))


class Page(HTMLParser):
    """The tags and the words of a page, and what its attributes load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words, self.reaches = "", []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.reaches += [
            value for name, value in attrs if name.startswith("on") or (name in ("src", "href") and value[:1] != "#")
        ]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_report_has_the_names_as_words(place: Path) -> None:
    text = (place / f"out{FILE}" / "report.html").read_text(encoding="utf-8")
    check_inert(text.replace("\u00a0", " "))
    page = Page(text)
    assert text.count("<script") == 1 and not page.tags & {"img", "iframe", "object", "h4"} and not page.reaches
    for name in (f"title {WORDS}", f"sex {WORDS}", f"age {WORDS}", f"f {WORDS}", CLASSES[1]):
        # Names of columns are spoken: without underscores, and capitalised in a title.
        assert visible(name[1:]).replace("_", " ") in page.words.replace("_", " ")


def test_the_service_answers_in_ascii(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.service.app.LOOPBACK", ("testserver",))
    told = io.StringIO()
    handler, logger = logging.StreamHandler(told), logging.getLogger("isonomy.service")
    handler.setFormatter(Lines())
    logger.addHandler(handler)
    logger.setLevel("INFO")
    person = {each.name: frame()[each.name].tolist()[0] for each in schema().features}
    try:
        app = create_app(Served.from_directory(place / f"out{FILE}"), Settings(log=str(place / "log")))
        with TestClient(app, raise_server_exceptions=False) as client:
            asked = [
                client.get("/openapi.json"), client.get("/v1/certificate"), client.get(f"/{quote(FILE)}"),
                client.post("/v1/predictions", json={"individual": person, "counterpart": True}),
                client.post("/v1/predictions", json={"individual": person | {f"age {WORDS}": WORDS}}),
                client.post("/v1/predictions", json={"individual": {WORDS: WORDS}}),
            ]  # fmt: skip
    finally:
        logger.removeHandler(handler)
    assert [each.status_code for each in asked] == [200, 200, 404, 200, 422, 422]
    for each in asked:
        assert each.content.isascii() and each.text.replace("\n", "").isprintable()
        assert each.headers["content-type"].startswith("application/json")
    for line in told.getvalue().splitlines():
        json.loads(line)
        check_inert(line)


def test_errors_and_warnings_of_the_library() -> None:
    with pytest.raises(IsonomyError) as raised:
        Population.from_frame(frame().drop(columns=f"sex {WORDS}"), schema())
    check_inert(str(raised.value))
    check_inert(str(DataError(WORDS)))
    network = Network.from_layers([np.zeros((2, 1))], [np.array([0.0, 1.0])], name=WORDS)
    check_inert(replace(network, assumed_head=True).remark)
    check_inert(collapse(network, np.ones((4, 1)), np.arange(4) % 2, np.ones(4), CLASSES))
