"""A table and a model that the project has never seen become a report, a certificate and answers."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.auditing import Plan
from isonomy.auditing.output import locked, open_work, replace_directory
from isonomy.networks import load_network
from isonomy.population import Population, Schema
from isonomy_verify.local import LocalBounds

QUICK = ("--limit", "12", "--gamma", "0")


@pytest.mark.parametrize("model", ["pipeline.onnx", "pipeline.skops"])
def test_a_whole_pipeline(
    files: Path, run: Callable[..., Any], answered: Callable[..., Any], table: pd.DataFrame, pipeline: Any, model: str
) -> None:
    status, out, _ = run("init", files / "people.csv", files / model, "--label", "approved", "--protected", "sex")
    assert status == 0 and "isonomy audit audit.toml" in out
    assert "guess" in Path("schema.toml").read_text() and "guess" not in Path("audit.toml").read_text()
    plan = Plan(data=os.path.relpath(files / "people.csv"), schema="schema.toml", model=os.path.relpath(files / model))
    assert Plan.of({}, "audit.toml") == replace(plan, name="people"), "every other option is written with its default"
    schema = Schema.from_toml(Path("schema.toml"))
    people = Population.from_file(files / "people.csv", schema)
    given = load_network(files / model, schema)(people.x)
    expected = pipeline.predict_proba(table.drop(columns="approved"))
    assert np.abs(given - expected).max() < 1e-6, "what is audited is the original model"
    status, facts = answered("audit", "audit.toml", *QUICK)
    assert status == 0 and facts["individuals"] == 12 and facts["split"] == "all"
    assert {each.name for each in Path(facts["out"]).iterdir()} >= {"report.html", "certificate.json", "summary.md"}
    assert not list(Path().glob("*.partial"))
    assert facts["lower"] <= facts["upper"]


def test_encoded_columns_are_found_by_their_predictions(
    files: Path, run: Callable[..., Any], table: pd.DataFrame, perceptron: tuple[Any, Any]
) -> None:
    """The model says nothing of its columns; the reading under which it predicts best is the true one."""
    import torch

    run("init", files / "people.csv", files / "encoded.onnx", "--label", "approved", "--protected", "sex")
    assert 'head = "sigmoid"  # guess' in Path("audit.toml").read_text()
    schema = Schema.from_toml(Path("schema.toml"))
    people = Population.from_file(files / "people.csv", schema)
    given = load_network(files / "encoded.onnx", schema, head="sigmoid")(people.x)[:, 1]
    model, x = perceptron
    with torch.no_grad():
        expected = torch.sigmoid(model(torch.from_numpy(x)))[:, 0].numpy()
    assert np.abs(given - expected).max() < 1e-5


def test_a_table_of_other_customs(files: Path, answered: Callable[..., Any], run: Callable[..., Any]) -> None:
    words = ("--label", "approved", "--protected", "sex", "--ignore", "number")
    status, facts = answered("init", files / "european.csv", files / "encoded.onnx", *words)
    assert status == 0 and facts["ready"] and any("'note'" in note for note in facts["notes"])
    text = Path("audit.toml").read_text()
    assert 'separator = ";"' in text and 'encoding = "latin-1"' in text and 'decimal = ","' in text
    _, european = answered("audit", "audit.toml", *QUICK)
    run("init", files / "people.csv", files / "encoded.onnx", *words[:4], "--out", "plain")
    _, plain = answered("audit", Path("plain") / "audit.toml", *QUICK, "--out", "other")
    assert european["upper"] == plain["upper"] and european["lower"] == plain["lower"]


def test_files_that_are_there_are_kept(files: Path, run: Callable[..., Any]) -> None:
    words = ("init", files / "people.csv", files / "pipeline.onnx", "--label", "approved")
    assert run(*words)[0] == 0
    Path("schema.toml").write_text("mine")
    status, _, err = run(*words)
    assert status == 2 and "is there already" in err and Path("schema.toml").read_text() == "mine"
    assert run(*words, "--force")[0] == 0


@pytest.fixture
def plan(files: Path, run: Callable[..., Any]) -> str:
    run("init", files / "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "sex")
    return "audit.toml"


def test_the_verdict_is_the_exit_status(plan: str, answered: Callable[..., Any]) -> None:
    _, free = answered("audit", plan, *QUICK)
    for epsilon, status, verdict in ((1.0, 0, "certified"), (free["lower"] / 2, 1, "violated")):
        found, facts = answered("audit", plan, *QUICK, "--epsilon", str(epsilon))
        assert (found, facts["verdict"]) == (status, verdict)


def test_a_contradiction_is_four(plan: str, answered: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LocalBounds._violation
    monkeypatch.setattr(LocalBounds, "_violation", lambda *given: honest(*given) / 1e3)
    before = set(Path().iterdir())
    status, told = answered("audit", plan, *QUICK, "--epsilon", "1", "--redact")
    assert (
        status == 4 and told["error"]["code"] == "soundness" and "no file was to be written" in told["error"]["message"]
    )
    assert set(Path().iterdir()) == before
    status, told = answered("audit", plan, *QUICK, "--epsilon", "1")
    (file,) = Path().glob("isonomy-soundness-*.json")
    assert status == 4 and str(file.resolve()) in told["error"]["message"]
    assert not Path("audit-people").exists()


def test_undecided_is_three(plan: str, answered: Callable[..., Any]) -> None:
    words = ("audit", plan, "--limit", "12", "--gamma", "0.05", "--tier", "interval")
    _, free = answered(*words)
    middle = (free["lower"] + free["upper"]) / 2
    assert free["lower"] < middle < free["upper"]
    status, facts = answered(*words, "--epsilon", str(middle))
    assert (status, facts["verdict"]) == (3, "undecided")
    status, found = answered("compare", "audit-people", "audit-people")
    assert status == 0 and found["comparable"] and found["certainly"] is None


def test_verify_knows_its_files(plan: str, files: Path, answered: Callable[..., Any], run: Callable[..., Any]) -> None:
    _, facts = answered("audit", plan, *QUICK)
    certificate = Path(facts["out"]) / "certificate.json"
    original = ("--model", files / "pipeline.onnx", "--data", files / "people.csv")
    status, found = answered("verify", certificate, *original)
    claims = {claim["claim"]: claim["status"] for claim in found["claims"]}
    assert status == 0 and found["accepted"]
    assert claims["model file"] == claims["data file"] == "recomputed"
    status, found = answered("verify", certificate, "--model", files / "encoded.onnx")
    assert status == 1 and not found["accepted"]
    text = certificate.read_text()
    certificate.write_text(text.replace('"gamma": 0.0', '"gamma": 0.5'))
    assert text != certificate.read_text()
    assert run("verify", certificate)[0] in (1, 2), "the claims are those of no shift"


def test_explain_shows_the_counterpart_of_the_audit(
    plan: str, answered: Callable[..., Any], run: Callable[..., Any], table: pd.DataFrame, pipeline: Any
) -> None:
    _, facts = answered("explain", plan, "--row", "17")
    person, other = facts["individual"], facts["counterpart"]
    raw = table.drop(columns="approved")
    assert person == {name: raw[name].iloc[17] for name in raw.columns}
    assert facts["differs"] == [name for name in person if person[name] != other[name]] == ["sex"]
    one, two = (pipeline.predict_proba(pd.DataFrame([each])[list(raw.columns)])[0, 1] for each in (person, other))
    assert facts["prediction"]["yes"] == pytest.approx(one, abs=1e-6)
    assert abs(one - two) == pytest.approx(facts["lower"], abs=1e-6)
    assert facts["lower"] <= facts["upper"]
    _, page, _ = run("explain", plan, "--row", "17")
    assert "differs" in page and "female" in page and "male" in page and "chosen with --row" in page
    _, page, _ = run("explain", plan)
    assert page.startswith("Row 0: ") and "the first one, as no --row was given" in page and "chosen" not in page
    run("audit", plan, "--limit", "3", "--gamma", "0", "--out", "out")
    assert "One of 3 audited people" in run("explain", "out")[1]
    rows = pd.read_parquet("out/individuals.parquet")["row"]
    status, _, error = run("explain", "out", "--row", str(next(row for row in range(9) if row not in set(rows))))
    assert status == 2 and f"one of the 3 rows that were audited, such as {rows.min()} or {rows.max()}" in error
    status, _, error = run("explain", "out", "--delta", "0.5")
    assert status == 2 and "'delta' must be left out with the folder of an audit" in error


def test_compare_says_what_changed(
    plan: str, files: Path, run: Callable[..., Any], answered: Callable[..., Any]
) -> None:
    answered("audit", plan, *QUICK, "--out", "one")
    answered("audit", plan, *QUICK, "--delta", "0.5", "--epsilon", "0.4", "--out", "two")
    status, page, _ = run("compare", "one", Path("two") / "certificate.json")
    assert status == 0 and page.startswith("## Isonomy") and "| delta | 1.0 | 0.5 |" in page
    assert "different questions" in page and "| epsilon | none | 0.4 |" in page
    answered("audit", plan, *QUICK, "--favourable", "yes", "--out", "hoped")
    assert "| favourable | none | “yes” |" in run("compare", "one", "hoped")[1]
    pd.read_csv(files / "people.csv")[::-1].to_csv("turned.csv", index=False)
    answered("audit", plan, *QUICK, "--data", "turned.csv", "--out", "three")
    assert answered("compare", "one", "one")[1]["individuals"]["both"] == 12
    assert answered("compare", "one", "three")[1]["individuals"]["both"] == 0, "the same rows hold other people"
    with Path("one/report.html").open("a") as report:
        report.write("<p>Certified.</p>")
    for words in (("verify", "one"), ("compare", "one", "two")):
        status, _, error = run(*words)
        assert status == 2 and "report.html is not the file that the certificate" in error


def test_the_commands_that_an_audit_prints_can_be_pasted(plan: str, run: Callable[..., Any]) -> None:
    """Also those of a folder whose name has a space."""
    status, said, _ = run("audit", plan, *QUICK, "--out", "my audit")
    assert status == 0
    commands = [line.partition(": ")[2] for line in said.splitlines() if ": isonomy " in line]
    assert [command.split()[1] for command in commands] == ["verify"]
    for command in commands:
        assert run(*shlex.split(command)[1:])[0] == 0, command


def test_compare_says_names_and_not_lists(plan: str, run: Callable[..., Any], answered: Callable[..., Any]) -> None:
    """And that verdicts about different epsilons are no change of a network."""
    answered("audit", plan, *QUICK, "--epsilon", "0.9", "--out", "one")
    answered("audit", plan, *QUICK, "--epsilon", "0.0", "--out", "two")
    assert "different ε: that they differ says nothing" in run("compare", "one", "two")[1]
    answered("audit", plan, *QUICK, "--epsilon", "0.9", "--favourable", "yes", "--out", "three")
    page = run("compare", "one", "three")[1]
    assert "| favourable | none | “yes” |" in page and "different ε" not in page


def test_redacted_audits_keep_no_chunks(plan: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import isonomy.auditing as package

    seen: list[list[str]] = []
    real = package.write

    def watched(*words: Any, **options: Any) -> Path:
        seen.append([each.name for each in Path().iterdir()])
        return real(*words, **options)

    monkeypatch.setattr(package, "write", watched)
    status, page, _ = run("audit", plan, *QUICK, "--redact")
    assert status == 0 and seen and not [name for name in seen[0] if "work" in name]
    assert "pair found" not in page and "the evidence of the same audit without --redact" in page
    assert not (Path("audit-people") / "evidence" / "people.x.bin").exists()


def test_the_page_for_people(plan: str, run: Callable[..., Any]) -> None:
    status, page, err = run("audit", plan, *QUICK, "--epsilon", "1")
    assert status == 0 and err == ""
    for words in ("within the limit", "at most", "at least", "sex", "isonomy verify"):
        assert words in page
    assert "\x1b" not in page, "no colours where nobody looks"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind")
def test_a_second_audit_with_the_same_out_is_refused(plan: str, run: Callable[..., Any]) -> None:
    with locked(open_work(Path("same"))) as work:
        status, out, err = run("audit", plan, *QUICK, "--out", "same")
        assert status == 2 and out == "" and err.count("\n") == 1
        assert "Another audit works in same.work" in err and work.is_dir() and not Path("same").exists()
    assert not work.exists(), "an empty one is of no use"
    assert run("audit", plan, *QUICK, "--out", "same")[0] == 0


def test_what_a_killed_audit_left_is_no_obstacle_and_goes(plan: str, run: Callable[..., Any]) -> None:
    new, old = (Path(f".out.{number}.part") for number in (os.getpid(), 7))
    for each in (new, old):
        (each / "evidence").mkdir(parents=True)
    os.utime(old, (0, 0))
    assert run("audit", plan, *QUICK, "--no-search", "--out", "out")[0] == 0
    assert new.exists() and not old.exists()
    (Path(f".out.{os.getpid()}.old") / "evidence").mkdir(parents=True)
    replace_directory(new, Path("out"))
    assert [each.name for each in Path("out").iterdir()] == ["evidence"]


def test_estimate_only_says_the_cost(plan: str, run: Callable[..., Any], answered: Callable[..., Any]) -> None:
    status, out, _ = run("audit", plan, *QUICK, "--estimate")
    assert status == 0 and "12 individuals of 7 coordinates" in out and not Path("audit-people").exists()
    status, facts = answered("audit", plan, *QUICK, "--estimate")
    assert facts["individuals"] == 12 and facts["seconds"] > 0 and facts["megabytes"] > 0


def test_a_stopped_run_goes_on(
    plan: str, run: Callable[..., Any], answered: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["isonomy.certificates.certify"]

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_certificate", stopped)
        status, out, err = run("audit", plan, *QUICK)
    assert status == 130 and out == "" and "1 finished part kept in audit-people.work" in err
    status, facts = answered("audit", plan, *QUICK)
    assert status == 0 and facts["computed"] == 0 and not Path("audit-people.work").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_goes_on(plan: str, tmp_path: Path) -> None:
    """A real process, a real signal; the second run says what it took up and removes the work directory."""
    code = (
        "import os, signal, sys\n"
        "import isonomy.certificates\n"
        "from isonomy.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "module = sys.modules['isonomy.certificates.certify']\n"
        "real = module._certificate\n"
        "def certificate(*given):\n"
        "    if os.environ.get('STOP'):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(*given)\n"
        "module._certificate = certificate\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", code, "audit", plan, *QUICK, "--json"]
    quiet = os.environ | {"OMP_NUM_THREADS": "1"}
    first = subprocess.run(words, env=quiet | {"STOP": "1"}, capture_output=True, text=True, check=False)
    assert first.returncode == 128 + signal.SIGINT, first.stderr
    assert first.stdout == "" and "1 finished part kept in audit-people.work" in first.stderr
    assert "same command" in first.stderr and not Path("audit-people").exists()
    second = subprocess.run(words, env=quiet, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["computed"] == 0 and not Path("audit-people.work").exists()


def test_shift_reaches_what_it_measured(files: Path, answered: Callable[..., Any], table: pd.DataFrame) -> None:
    """One column of numbers: the distance of order 1 is the mean difference of the sorted values."""
    Path("schema.toml").write_text('name = "one"\n[features.age]\nlow = 0\nhigh = 100\norigin = 0\nunit = 10\n')
    moved = table[["age"]].assign(age=table["age"] + 5)
    table[["age"]].to_csv("a.csv", index=False)
    moved.to_csv("b.csv", index=False)
    status, facts = answered("shift", "a.csv", "b.csv", "--schema", "schema.toml")
    assert status == 0 and facts["estimate"] == pytest.approx(0.5)
    assert facts["reaching_gamma"] == pytest.approx(0.5) and facts["lower"] <= 0.5 and facts["reaches"]
    assert facts["suggested_gamma"] in (None, facts["reaching_gamma"])


def test_shift_of_samples_promises_nothing_of_the_tables(run: Callable[..., Any], table: pd.DataFrame) -> None:
    """Whoever is far away was not drawn: the samples are closer than the tables."""
    Path("schema.toml").write_text('name = "one"\n[features.age]\nlow = 0\nhigh = 1000\norigin = 0\nunit = 10\n')
    table[["age"]].to_csv("a.csv", index=False)
    table[["age"]].assign(age=table["age"].where(table.index != 3, 1000)).to_csv("b.csv", index=False)
    words = ("shift", "a.csv", "b.csv", "--schema", "schema.toml")
    few, everybody = run(*words, "--sample", "10")[1], run(*words)[1]
    n = len(table)
    assert f"samples of 10 of {n} and 10 of {n} are apart" in few and f"--sample {n} would tell" in few
    assert "as it is" not in few and "which reaches the second table as it is" in everybody


SHIFTED = """name = "two"
[features.age]
low = 0
high = 200
origin = 0
unit = 10
[features.sex]
categories = ["f", "m"]
"""


@pytest.mark.parametrize("order", ["1", "2", "inf"])
@pytest.mark.parametrize("seed", range(3))
def test_two_halves_of_one_table_show_no_shift(
    run: Callable[..., Any], answered: Callable[..., Any], seed: int, order: str
) -> None:
    """Nothing is suggested, and the floor is named for what it is; the same in JSON."""
    rng = np.random.default_rng(seed)
    both = pd.DataFrame({"age": rng.integers(18, 90, 400), "sex": rng.choice(["f", "m"], 400)})
    both.iloc[:200].to_csv("a.csv", index=False)
    both.iloc[200:].to_csv("b.csv", index=False)
    Path("schema.toml").write_text(SHIFTED)
    words = ("shift", "a.csv", "b.csv", "--schema", "schema.toml", "--order", order)
    status, facts = answered(*words)
    said = run(*words)[1]
    assert status == 0 and facts["lower"] == 0 and facts["suggested_gamma"] is None and not facts["shown"]
    assert facts["floor_gamma"] >= facts["floor"] > 0 and facts["reaching_gamma"] >= facts["estimate"]
    assert "No shift is shown" in said and "No gamma is suggested" in said and "uggested gamma:" not in said
    assert "at least 0.0000" not in said and "is not shown with confidence 0.95" in said
    assert f"gamma = {facts['floor_gamma']:g} would speak of every population in which people" in said
    assert said.splitlines()[1:] == facts["sentences"]


@pytest.mark.parametrize("seed", range(3))
def test_a_shift_that_is_shown_has_a_gamma_at_or_above_its_bound(
    run: Callable[..., Any], answered: Callable[..., Any], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for name, moved in (("a.csv", 0), ("b.csv", 60)):
        ages = rng.integers(18, 90, 300) + moved
        pd.DataFrame({"age": ages, "sex": rng.choice(["f", "m"], 300)}).to_csv(name, index=False)
    Path("schema.toml").write_text(SHIFTED)
    words = ("shift", "a.csv", "b.csv", "--schema", "schema.toml")
    for more in ((), ("--sample", "50")):
        facts, said = answered(*words, *more)[1], run(*words, *more)[1]
        assert facts["shown"] and facts["suggested_gamma"] >= facts["lower"] > 1
        assert f"Suggested gamma: {facts['suggested_gamma']:g}" in said and "No shift" not in said


def test_a_reading_that_nothing_speaks_for_is_not_called_ready(files: Path, answered: Callable[..., Any]) -> None:
    words = ("--ignore", "approved", "--protected", "sex")
    status, facts = answered("init", files / "people.csv", files / "encoded.onnx", *words)
    assert status == 0 and not facts["ready"]
    assert any("nothing tells which" in note for note in facts["notes"])


def test_a_regression(run: Callable[..., Any], answered: Callable[..., Any], table: pd.DataFrame) -> None:
    """Of a linear model the violation is known: the step between the two sexes."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    people = table.drop(columns="approved").assign(wage=table["age"] * 1.5 + 7.0 * (table["sex"] == "male"))
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), ("passthrough", ["age"]))
    model = make_pipeline(columns, Ridge()).fit(people[["age", "sex"]], people["wage"])
    people.to_csv("wages.csv", index=False)
    skops.io.dump(model, "wages.skops")
    assert run("init", "wages.csv", "wages.skops", "--label", "wage", "--protected", "sex")[0] == 0
    status, facts = answered("audit", "audit.toml", *QUICK, "--epsilon", "100")
    one, other = model.predict(pd.DataFrame({"age": [40, 40], "sex": ["female", "male"]}))
    assert status == 0 and facts["verdict"] == "certified" and facts["accuracy"] is None
    assert run("explain", "audit.toml", "--row", "3")[1].startswith("Row 3: wage ")
    step = float(abs(one - other))
    assert facts["lower"] <= step + 1e-9 and step - 1e-9 <= facts["upper"] <= step * (1 + 2e-6) + 2e-6  # as claimed


def test_explain_takes_people_drawn_before_they_were_split(run: Callable[..., Any]) -> None:
    """How many there were to draw from is then not known."""
    import isonomy
    from isonomy.records import write

    people = isonomy.load_population("moons")
    some = people.sample(20).test
    network = isonomy.Network.from_layers([np.ones((2, some.x.shape[1]))], [np.zeros(2)])
    metric = isonomy.WeightedLp.fit(people.train)
    write(Path("out"), isonomy.certify(network, some, metric, 0.05, gamma=0.0, progress=None))
    assert f"One of {len(some)} audited people" in run("explain", "out")[1]


def test_a_dossier_is_written_beside_the_audit(
    plan: str, tmp_path: Path, run: Callable[..., Any], answered: Callable[..., Any]
) -> None:
    kept = tmp_path / "kept"
    status, answer = answered("audit", plan, *QUICK, "--out", tmp_path / "out", "--dossier", kept)
    assert status == 0 and answer["dossier"] == str(kept)
    certificate = (tmp_path / "out" / "certificate.json").read_bytes()
    assert (kept / "audit" / "certificate.json").read_bytes() == certificate
    assert hashlib.sha256(certificate).hexdigest() in (kept / "flips.csv").read_text(encoding="utf-8")
    assert run("verify", kept / "audit" / "certificate.json")[0] == 0
    status, _, err = run("audit", plan, *QUICK, "--out", tmp_path / "out", "--dossier", tmp_path / "out" / "kept")
    assert status == 2 and "beside that of the audit" in err
    status, _, err = run("audit", plan, *QUICK, "--laws", kept / "laws.toml")
    assert status == 2 and "without --dossier" in err


@pytest.mark.parametrize("redact", [False, True])
def test_an_interrupted_dossier_does_not_hide_its_audit(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any], redact: bool
) -> None:
    """Ctrl-C after the audit was written: that it was is said."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isonomy.auditing.dossier.write_dossier", interrupted)
    out, kept = tmp_path / "out", tmp_path / "kept"
    given = ["--out", str(out), "--dossier", str(kept), *(["--redact"] if redact else [])]
    _, _, err = run("audit", plan, *QUICK, *given)
    assert (out / "certificate.json").is_file() and not kept.exists()
    assert f"the audit was written to {out}" in err.replace("\n", "") and "nothing was written" not in err
