"""What the checker is made of, what it says, and how it leaves."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy
import isonomy_verify
import isonomy_verify.__main__
from isonomy import records
from isonomy.audit.bundled import train_small
from isonomy.datasets import load_population
from isonomy_verify import BadInput, verify

SOURCE = Path(isonomy_verify.__file__).parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isonomy_verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_small_and_stands_alone() -> None:
    files = sorted(SOURCE.glob("**/*.py"))
    checker = [SOURCE / name for name in ("__init__.py", "__main__.py", "check.py", "bounds.py", "people.py")]
    assert sum(len(file.read_text().splitlines()) for file in checker) < 620
    allowed = {"numpy", "isonomy_verify", *sys.stdlib_module_names}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, file


def test_every_command_of_the_package_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, place in project["scripts"].items():
        module, function = place.split(":")
        main = getattr(import_module(module), function)
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        with pytest.raises(SystemExit) as left:
            sys.exit(main())
        assert not left.value.code, name
        assert name in capsys.readouterr().out
    shown = run("--help")
    assert shown.returncode == 0 and "certificate" in shown.stdout


def test_the_command_gives_the_same_exit_status(audit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for certificate, status in ((audit, 0), (tmp_path, 2)):
        monkeypatch.setattr(sys, "argv", ["isonomy-verify", str(certificate)])
        with pytest.raises(SystemExit) as left:
            sys.exit(isonomy_verify.__main__.main())
        assert left.value.code == status


def test_it_runs_where_isonomy_is_not(audit: Path) -> None:
    block = "import sys; sys.modules['isonomy'] = sys.modules['torch'] = None; import isonomy_verify as v; "
    code = block + f"sys.exit(0 if v.verify({str(audit)!r}).accepted else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_exit_status_and_words(audit: Path, forger: Any, tmp_path: Path) -> None:
    good = run(str(audit / "certificate.json"))
    assert good.returncode == 0 and good.stdout.endswith("\naccepted\n")
    assert "proved again  upper" in good.stdout and "claimed" in good.stdout
    forger.document["claims"]["upper"] *= 0.5
    bad = run(str(forger.done()), "--json")
    found = json.loads(bad.stdout)
    assert bad.returncode == 1 and found["accepted"] is False
    assert ["upper", "rejected"] in [claim[:2] for claim in found["claims"]]
    for broken in (tmp_path / "nothing.json", tmp_path):
        none = run(str(broken))
        assert none.returncode == 2 and none.stderr.count("\n") == 1 and none.stdout == ""


@pytest.mark.some(2)
@pytest.mark.parametrize("order", [1.0, 100.0])
@pytest.mark.parametrize("gamma", [5e-324, 1e308, np.inf])
def test_any_gamma_is_checked(gamma: float, order: float, tmp_path: Path) -> None:
    people = load_population("german")
    network, metric = train_small(people.train, hidden=(2,)), isonomy.Counterparts.of(people.schema)
    some = people.test[:2]
    options: dict[str, Any] = {"order": order, "rounds": 0, "tier": "interval", "progress": None, "attack": False}
    records.write(tmp_path, isonomy.certify(network, some, metric, 1.0, gamma, **options), network, some)
    found = verify(tmp_path)
    assert found.accepted, found.claims


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": "isonomy certificate", "version": 2}', "\udcff"])
def test_a_broken_document_is_bad_input(text: str, tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=r"^[^\n]*\.$"):
        verify(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x80\x04K\x01."])
def test_broken_evidence_is_bad_input(content: bytes, forger: Any) -> None:
    (forger.directory / "evidence" / "people.npz").write_bytes(content)
    with pytest.raises(BadInput):
        verify(forger.done())


def test_nothing_is_unpickled(forger: Any) -> None:
    arrays = forger.arrays("people")
    forger.put("people", arrays | {"x": np.array([[object()]], dtype=object)})
    with pytest.raises(BadInput, match="allow_pickle"):
        verify(forger.done())


def test_not_a_number_is_bad_input(forger: Any) -> None:
    forger.change("metric", "tolerance", lambda t: t + np.nan)
    with pytest.raises(BadInput, match="not a number"):
        verify(forger.done())


@pytest.mark.parametrize("file", ["../people.npz", "/etc/passwd", "evidence/../../x.npz", "people.npz"])
def test_evidence_is_nowhere_else(file: str, forger: Any) -> None:
    forger.document["evidence"]["people"]["file"] = file
    with pytest.raises(BadInput):
        verify(forger.done())


def certified(options: dict[str, Any], metric: str, directory: Path, count: int = 6) -> Any:
    people = load_population("german")
    kinds = {
        "counterparts": lambda: isonomy.Counterparts.of(people.schema),
        "sensitive": lambda: isonomy.SensitiveSubspace.fit(people.train),
        "l1": lambda: isonomy.WeightedLp.fit(people.train, order=1.0),
        "linf": lambda: isonomy.WeightedLp.fit(people.train, order=np.inf),
    }
    delta = 1.0 if metric == "counterparts" else 0.1
    network, some = train_small(people.train, hidden=(8,)), people.test.sample(count)
    found = isonomy.certify(network, some, kinds[metric](), delta, 0.05, rounds=0, progress=None, **options)
    records.write(directory, found, network, some)
    return verify(directory)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("counterparts", {"order": np.inf}),
        pytest.param("counterparts", {"order": 2.0, "ground": "l1"}, marks=pytest.mark.slow),
        ("l1", {"ground": "linf", "order": np.inf}),
        pytest.param("linf", {}, marks=pytest.mark.slow),
    ],
)
def test_other_questions_are_accepted_too(metric: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = certified(options, metric, tmp_path, 4)
    assert found.accepted, found.claims


def test_a_metric_that_mixes_coordinates_is_bounded_less_tightly(tmp_path: Path) -> None:
    """Whole numbers are narrowed by a ball only where it looks at coordinates one by one: sound, a few percent off."""
    found = certified({"order": np.inf}, "sensitive", tmp_path, 4)
    lower = json.loads((tmp_path / "certificate.json").read_text())["claims"]["lower"]
    assert lower <= found.proved_upper <= 1.1 * found.claimed_upper


@pytest.mark.parametrize("order", [pytest.param(1.0, marks=pytest.mark.slow), np.inf])
def test_the_statement_about_the_population_is_computed_again(order: float, tmp_path: Path) -> None:
    options = {"order": order, "confidence": 0.8, "tier": "interval", "attack": False}
    assert certified(options, "counterparts", tmp_path, 80).accepted
    path = tmp_path / "certificate.json"
    original = json.loads(path.read_text())
    said = original["claims"]["population"]
    assert said["upper"] < 0.9
    forged = [(said | {"upper": 0.98 * said["upper"]}, 0.8), (said, 0.9)]
    if order == 1.0:
        forged.append((said | {"multiplier": 1.1 * said["multiplier"]}, 0.8))
    for population, confidence in forged:
        claims = original["claims"] | {"population": population}
        question = original["question"] | {"confidence": confidence}
        path.write_text(json.dumps(original | {"claims": claims, "question": question}))
        found = verify(path)
        assert ("population", "rejected") in [claim[:2] for claim in found.claims]


def test_what_cannot_be_derived_is_said(forger: Any) -> None:
    forger.change("network", "kinds", lambda kinds: np.where(kinds == "relu", "gelu", kinds))
    found = verify(forger.done())
    assert not found.accepted
    assert any(status == "trusted" and "gelu" in detail for _, status, detail in found.claims)


@pytest.mark.slow
def test_the_default_audit_is_proved_again(tmp_path: Path) -> None:
    people = load_population("german")
    network = train_small(people.train)
    metric = isonomy.Counterparts.of(people.schema)
    certificate = isonomy.certify(network, people.test, metric, 1.0, 0.1, progress=None)
    records.write(tmp_path, certificate, network, people.test)
    found = verify(tmp_path)
    assert found.accepted
    assert found.share_proved >= 0.95
    assert found.proved_upper <= certificate.upper
    trusted = {name for name, status, _ in found.claims if status == "trusted"}
    assert trusted == {"network", "people", "metric", "ground", "domain", "remarks", "selection"}


def test_who_was_audited_is_shown_and_must_fit_the_individuals(forger: Any) -> None:
    """How people were selected is the issuer's word, and nothing in it can write on the terminal."""
    claims = {name: (status, detail) for name, status, detail in verify(forger.directory).claims}
    assert claims["selection"][0] == "trusted" and "4 of 282 people of the test part" in claims["selection"][1]
    said = forger.document["remarks"]["selection"]
    for key, value in (("people", 5), ("words", "282 people, the whole table"), ("pool", 3), ("rows", 2)):
        forger.document["remarks"]["selection"] = said | {key: value}
        assert ("selection", "rejected") in [claim[:2] for claim in verify(forger.done()).claims]
    forger.document["remarks"]["selection"] = said | {"words": "4 people\n\x1b[31maccepted"}
    (detail,) = [detail for name, _, detail in verify(forger.done()).claims if name == "selection"]
    assert detail.isprintable()
    del forger.document["remarks"]["selection"]
    found = verify(forger.done())
    assert found.accepted and "not said" in str(found.claims)
