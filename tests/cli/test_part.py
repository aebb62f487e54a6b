"""``--part``: from the command to report, check, comparison and explanation, without a word of a shift by transport."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from isonomy.auditing.plan import Plan
from isonomy.cli import main
from isonomy.errors import ParameterError

FOREIGN = ("γ", "Wasserstein", "round cost", "nearby population", "Observed shifts", "population shifts")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("part") / "out"
    assert main(["audit", "--part", "0.2", "--limit", "25", "--epsilon", "0.9", "--out", str(out)]) == 0
    return out


def page(path: Path) -> str:
    """The words of a page, without its style and script."""
    text = re.sub(r"<(style|script).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_everything_that_is_written_speaks_of_parts(audit: Path) -> None:
    said = [page(audit / "report.html"), *((audit / name).read_text() for name in ("summary.md", "junit.xml"))]
    for text in said:
        assert "n any part of these people that holds at least 20 % of them" in text.replace("\N{NO-BREAK SPACE}", " ")
        assert not any(word in text for word in FOREIGN), [word for word in FOREIGN if word in text]
    assert "isonomy audit --part 0.2 --epsilon 0.9 --limit 25" in said[1]


def test_of_several_shifts_the_worst_verdict_is_the_exit_status(
    audit: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """These people keep the limit, and a tenth of them does not; the audit's own verdict is on the first shift."""
    asked = ["audit", "--limit", "25", "--shift", "part:100%", "--shift", "part:10%"]
    assert main([*asked, "--json", "--out", str(tmp_path / "a")]) == 0
    populations = json.loads(capsys.readouterr().out)["populations"]
    assert main(["compare", str(audit), str(tmp_path / "a")]) == 0
    compared = capsys.readouterr().out
    assert "“part of these people that holds at least 10 % of them”" in compared and "kind" not in compared
    limit = (populations[0]["upper"] + populations[1]["lower"]) / 2
    assert populations[0]["upper"] < limit < populations[1]["lower"]
    assert main([*asked, "--epsilon", str(limit), "--out", str(tmp_path / "b")]) == 1
    assert "violated: Any part of these people that holds at least 10 % of them, against the same ε." in " ".join(
        capsys.readouterr().out.split()
    )


def test_the_terminal_and_the_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["audit", "--part", "0.2", "--limit", "12", "--out", str(tmp_path / "a")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "part of these people that holds at least 20 % of them" in shown and not any(
        word in shown for word in FOREIGN
    )
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["at_least"] == 0.2 and not {"gamma", "order", "ground", "largest_gamma"} & set(document)
    assert document["upper"] < document["population"]["upper"] == document["populations"][0]["behind"]["upper"]


def test_it_is_verified_compared_and_explained(audit: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["verify", str(audit)]) == 0
    assert "hold at least the share 0.2 of them" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert main(["compare", str(audit), str(audit)]) == 0
    assert "The bounds overlap" in capsys.readouterr().out
    others = {"half": ["--part", "0.5"], "still": ["--gamma", "0"]}
    for name, words in others.items():
        assert main(["audit", *words, "--limit", "25", "--out", str(tmp_path / name)]) == 0
        capsys.readouterr()
        assert main(["compare", str(audit), str(tmp_path / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert not found["comparable"] and found["question"]["at_least"] == [0.2, 0.5 if name == "half" else None]
        assert ("shift" in found["question"]) == (name == "still")
    assert main(["explain", str(audit)]) == 0
    explained = capsys.readouterr().out
    assert "One of 25 audited people" in explained and not any(word in explained for word in FOREIGN)


def test_a_redacted_report_shows_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--part", "0.2", "--limit", "25", "--redact", "--out", str(tmp_path / "a")]) == 0
    shown = page(tmp_path / "a" / "report.html")
    assert "at least 20 % of them" in shown.replace("\N{NO-BREAK SPACE}", " ") and "nobody’s row is on it" in shown
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--part", "0.1", "--gamma", "0.1"), "'gamma' must be left out where 'part' is given"),
        (("--part", "0.1", "--order", "1"), "'order' must be left out where 'part' is given"),
        (("--part", "0.1", "--ground", "l2"), "'ground' must be left out where 'part' is given"),
        (("--part", "0.1", "--against", "german"), "'against' must be left out where 'part' is given"),
        (("--part", "0"), "'part' must be a number above 0, at most 1"),
        (("--part", "1.5"), "'part' must be a number above 0, at most 1"),
    ],
)
def test_two_kinds_of_shift_are_refused(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *words]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1


def test_a_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text("part = 0.3\n")
    assert Plan.of({}, file).part == 0.3
    moved = Plan.of({"gamma": 0.2}, file)
    assert moved.part is None and moved.gamma == 0.2
    file.write_text('gamma = 0.3\nground = "l1"\n')
    part = Plan.of({"part": 0.1}, file)
    assert part.part == 0.1 and (part.gamma, part.ground) == (None, "l2")
    file.write_text("gamma = 0.1\npart = 0.1\n")
    with pytest.raises(ParameterError, match="'gamma' must be left out"):
        Plan.of({}, file)
    with pytest.raises(ParameterError, match="'order' must be left out"):
        Plan(part=0.1, order=2.0)


@pytest.mark.parametrize("command", ["train", "repair", "frontier"])
def test_networks_are_trained_for_transport(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('part = 0.3\ndata = "german"\nmodel = "none.onnx"\nepsilon = 0.1\n')
    assert main([command, str(file)]) == 2
    assert "'part' must be left out" in capsys.readouterr().err
