"""What the checker is made of, what it says, and how it leaves."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy
import isonomy_verify
import isonomy_verify.__main__
from isonomy import records
from isonomy.auditing.inputs import train_small
from isonomy.datasets import load_population
from isonomy_verify import BadInput, check, verify
from isonomy_verify.definitions import domain_of
from isonomy_verify.record import DOCUMENT_BYTES, Record, encoded, strict_json

from .conftest import SMALL, Forger, drawing, refused, statuses

SOURCE = Path(isonomy_verify.__file__).parent
INPUTS = {"model", "people", "metric", "ground", "domain", "selection", "remarks"}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isonomy_verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)


def trusted(found: Any) -> set[str]:
    return {name for name, status in statuses(found).items() if status == "trusted"}


# -- what it is ---------------------------------------------------------------------------------------------------


def test_it_is_small_and_stands_alone() -> None:
    checker = [SOURCE / f"{name}.py" for name in ("__init__", "__main__", "check", "claims", "record")]
    assert sum(len(file.read_text().splitlines()) for file in checker) < 1300
    words = [SOURCE / f"{name}.py" for name in ("asked", "layout", "selection", "text")]
    assert sum(len(file.read_text().splitlines()) for file in words) < 730
    beside = [SOURCE / f"{name}.py" for name in ("evidence", "individuals", "decisions", "shifts", "reweighting")]
    assert sum(len(file.read_text().splitlines()) for file in beside) < 1100
    allowed = {"numpy", "isonomy_verify", *sys.stdlib_module_names}
    for file in sorted(SOURCE.glob("**/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found = {name.split(".")[0] for name in names} - allowed
            assert found <= ({"cryptography"} if file.name == "record.py" else set()), file


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


def test_it_runs_where_isonomy_is_not(audit: Path) -> None:
    """Nor where nothing but numpy is: only an envelope needs ``cryptography``."""
    block = "import sys\nfor name in ('isonomy', 'torch', 'cryptography', 'scipy'): sys.modules[name] = None\n"
    code = f"{block}import isonomy_verify as v\nsys.exit(0 if v.verify({str(audit)!r}).accepted else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- honest certificates ------------------------------------------------------------------------------------------


def test_the_honest_certificate_is_accepted(audit: Path, still: Path) -> None:
    for path in (audit, still, audit / "certificate.json"):
        found = verify(path)
        assert found.accepted, found.claims
        assert trusted(found) == INPUTS
        assert 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper
        assert found.derived == found.individuals == 4 and found.seed is None
        assert found.claimed_upper <= 1.00011 * found.proved_upper + 2e-6
    assert "files" not in statuses(found)  # all were read


def test_of_a_large_table_some_are_drawn(large: Path) -> None:
    whole = verify(large)
    with drawing():
        found, again, everybody = verify(large), verify(large, seed=5), verify(large, everybody=True)
        same = verify(large, seed=5)
    assert whole.accepted and found.accepted and everybody.accepted
    assert not again.accepted and again.result == "looked at"
    assert whole.seed is everybody.seed is None and everybody.derived == 150
    assert found.seed is not None and again.seed == 5 and same.claims == again.claims
    assert 20 < found.derived < 60 and "with probability at most 0.05" in str(found.claims)
    hidden = json.loads((large / "certificate.json").read_text())["predicate"]["claims"]["hidden"]
    assert found.claimed_upper < found.proved_upper <= found.claimed_upper + 0.05 * hidden


def test_a_statement_about_the_population_needs_everybody(still: Path) -> None:
    with drawing(everybody=2):
        found = verify(still)
    assert found.accepted and found.derived == 4


def test_people_without_weight_are_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are whole blocks of them."""
    people = load_population("german")
    network, metric = train_small(people.train, hidden=(2,)), isonomy.Counterparts.of(people.schema)
    some = people.test.sample(12)
    weights = np.zeros(12)
    weights[[0, 9]] = 1.0, 3.0
    some = replace(some, weights=weights)
    found = isonomy.certify(network, some, metric, 1.0, 0.1, rounds=0, progress=None, attack=False, tier="interval")
    records.write(tmp_path, found)
    monkeypatch.setattr(check, "ROWS", 4)
    assert verify(tmp_path).accepted
    with drawing(everybody=5):
        assert verify(tmp_path).accepted


@pytest.mark.some(2)
@pytest.mark.parametrize("order", [1.0, 100.0])
@pytest.mark.parametrize("gamma", [5e-324, 1e308, np.inf])
def test_any_gamma_is_checked(gamma: float, order: float, tmp_path: Path) -> None:
    people = load_population("german")
    network, metric = train_small(people.train, hidden=(2,)), isonomy.Counterparts.of(people.schema)
    options: dict[str, Any] = {"order": order, "rounds": 0, "tier": "interval", "progress": None, "attack": False}
    records.write(tmp_path, isonomy.certify(network, people.test[:2], metric, 1.0, gamma, **options))
    found = verify(tmp_path)
    assert found.accepted, found.claims


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
    options = {"rounds": 0, "progress": None, "attack": SMALL} | options
    records.write(directory, isonomy.certify(network, some, kinds[metric](), delta, 0.05, **options))
    return verify(directory)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("counterparts", {"order": np.inf}),
        ("sensitive", {"order": np.inf}),
        pytest.param("counterparts", {"order": 2.0, "ground": "l1"}, marks=pytest.mark.slow),
        ("l1", {"ground": "linf", "order": np.inf}),
        pytest.param("linf", {}, marks=pytest.mark.slow),
    ],
)
def test_other_questions_are_accepted_too(metric: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = certified(options, metric, tmp_path, 4)
    assert found.accepted, found.claims
    assert found.proved_lower <= found.proved_upper <= found.claimed_upper


@pytest.mark.parametrize("order", [pytest.param(1.0, marks=pytest.mark.slow), np.inf])
def test_the_statement_about_the_population_is_computed_again(order: float, tmp_path: Path) -> None:
    options = {"order": order, "confidence": 0.8, "tier": "interval", "attack": False}
    assert certified(options, "counterparts", tmp_path / "honest", 80).accepted
    forger = Forger(tmp_path / "honest", tmp_path)
    said = forger.claims["population"]
    assert said["upper"] < 0.9
    forged = [(said | {"upper": 0.98 * said["upper"]}, 0.8), (said, 0.9)]
    if order == 1.0:
        forged.append((said | {"multiplier": 1.1 * said["multiplier"]}, 0.8))
        forged.append((said | {"multiplier": said["multiplier"] * 2.0**20}, 0.8))
    for population, confidence in forged:
        forger.claims["population"], forger.question["confidence"] = population, confidence
        assert statuses(verify(forger.done()))["population"] == "rejected"


def test_the_range_of_bets_is_not_the_issuers_choice(still: Path, tmp_path: Path) -> None:
    """Nor, by it, are the multipliers: what is chosen after the people were seen is no bet."""
    forger = Forger(still, tmp_path)
    for factor, status in ((1.0, "recomputed"), (1.2, "rejected")):
        forger.put("profiles.largest", factor * forger.array("profiles.largest"))
        forger.follow()
        forger.claims["population"] = {"upper": 0.3, "multiplier": None}
        found = statuses(verify(forger.done()))
        assert found["population"] == status and found["anybody"] == "proved again"


@pytest.mark.slow
def test_the_default_audit_is_proved_again(tmp_path: Path) -> None:
    people = load_population("german")
    network = train_small(people.train)
    metric = isonomy.Counterparts.of(people.schema)
    certificate = isonomy.certify(network, people.test, metric, 1.0, 0.1, progress=None)
    records.write(tmp_path, certificate)
    found = verify(tmp_path)
    assert found.accepted and trusted(found) == INPUTS
    assert found.claimed_upper <= certificate.upper + 1.1e-4


# -- what is withheld ---------------------------------------------------------------------------------------------


def test_a_redacted_certificate_says_what_cannot_be_checked(audit: Path, tmp_path: Path) -> None:
    from isonomy.records.writing import WITHHELD

    forger = Forger(audit, tmp_path)
    (tmp_path / "kept").mkdir()
    forger.predicate["withheld"] = [name for name in forger.predicate["arrays"] if name in WITHHELD]
    for name in forger.predicate["withheld"]:
        forger.file(name).rename(tmp_path / "kept" / f"{name}.bin")
    bare = forger.done()
    found = verify(bare)
    assert not found.accepted and trusted(found) == INPUTS | {"individuals", "lower", "own bounds"}
    assert statuses(found)["mean"] == "recomputed" and "--data" in str(found.claims)
    whole = verify(bare, data=tmp_path / "kept")
    assert whole.accepted and whole.proved_upper == verify(audit).proved_upper
    assert not verify(bare, data=tmp_path).accepted
    other = np.fromfile(tmp_path / "kept" / "people.x.bin")
    other[4] = 0.5
    other.tofile(tmp_path / "kept" / "people.x.bin")
    with pytest.raises(BadInput, match="SHA-256"):
        verify(bare, data=tmp_path / "kept")


# -- signatures ---------------------------------------------------------------------------------------------------


@pytest.fixture
def signed(audit: Path, tmp_path: Path) -> tuple[Path, str]:
    """The audit, signed by a key of its own."""
    import base64

    from isonomy.records.writing import _signed, read_key

    shutil.copytree(audit, tmp_path / "signed")
    public = records.new_key(tmp_path / "key")
    content = (tmp_path / "signed" / "certificate.json").read_bytes()
    envelope = _signed(content, read_key(tmp_path / "key"))
    assert base64.b64decode(json.loads(envelope)["payload"]) == content and encoded(b"x").endswith(b" 1 x")
    (tmp_path / "signed" / "certificate.dsse.json").write_bytes(envelope)
    return tmp_path / "signed", public


def test_a_signature_is_asked_for(audit: Path, signed: tuple[Path, str]) -> None:
    path, public = signed
    for key in (None, public, f" {public.upper()}\n"):
        found = verify(path, signer=key)
        assert found.accepted and statuses(found)["signature"] == "recomputed"
    for place, key in ((path, "0" * 64), (path, public[:-1]), (path, ""), (audit, public)):
        found = verify(place, signer=key)
        assert not found.accepted and statuses(found)["signature"] == "rejected"


def test_keys_are_told_in_one_way_however_an_envelope_spells_them(signed: tuple[Path, str]) -> None:
    """Blanks between the digits are none of the key, and would write on the terminal."""
    path, public = signed
    envelope = json.loads((path / "certificate.dsse.json").read_text())
    for spelled in (public.upper(), "\n\r\v" + " ".join(public[i : i + 2] for i in range(0, 64, 2))):
        envelope["signatures"][0]["keyid"] = spelled
        (path / "certificate.dsse.json").write_text(json.dumps(envelope))
        assert verify(path, signer=public).accepted
        assert f"by {public[:16]}…: whose key is that?" in [detail for _, _, detail in verify(path).claims]


def test_stale_and_garbage_signatures_are_refused_without_being_asked(signed: tuple[Path, str]) -> None:
    path, _ = signed
    file, original = path / "certificate.dsse.json", json.loads((path / "certificate.dsse.json").read_text())
    one = original["signatures"][0]
    for edit, message in (
        ({"payload": ""}, "other bytes"),
        ({"payload": "####"}, "not a DSSE envelope"),
        ({"payloadType": "text/plain"}, "other bytes"),
        ({"signatures": []}, "other bytes"),
        ({"signatures": None}, "not a DSSE envelope"),
        ({"signatures": [one | {"sig": one["sig"][4:]}]}, "not that of the key"),
        ({"signatures": [one | {"keyid": "0" * 64}]}, "not that of the key"),
        ({"signatures": [one | {"keyid": "\x1b[31mme"}]}, "not that of the key"),
        ({"signatures": [one, one | {"keyid": "ab" * 32}]}, "not that of the key"),
    ):
        file.write_text(json.dumps(original | edit))
        with pytest.raises(BadInput, match=message) as caught:
            verify(path)
        assert str(caught.value).isprintable()
    file.write_text("garbage")
    assert refused(path)
    file.write_text(json.dumps(original))
    document = (path / "certificate.json").read_text()
    (path / "certificate.json").write_text(document.replace("2026-01-01", "2027-01-01"))
    with pytest.raises(BadInput, match="other bytes"):
        verify(path)


# -- documents and files that are not what they should be ----------------------------------------------------------


OTHER = '{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:isonomy:certificate:2"}'


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"format": "isonomy certificate"}', "\udcff", OTHER, "1e999"]
)
def test_a_broken_document_is_bad_input(text: str, tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=r"^[^\n]*\.$") as caught:
        verify(tmp_path)
    assert text != OTHER or "of format 2, and this program checks format 8: audit again" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"gamma": 0.1', '"gamma": 0.1, "gamma": 0.0', "twice"),
        ('"gamma": 0.1', '"gamma": NaN', "no number"),
        ('"gamma": 0.1', '"gamma": -Infinity', "no number"),
        ('"gamma": 0.1', '"gamma": 1e400', "no number"),
        ('"gamma": 0.1', '"gamma": 0.\u0661', "of its own"),
        ('"gamma": 0.1', f'"gamma": {"[" * 3000}{"]" * 3000}', "deep"),
        ('"gamma": 0.1', f'"gamma": {"[" * 40}0.1{"]" * 40}', "deep"),
        ('"gamma": 0.1', f'"gamma": {"1" * 5000}', "damaged"),
        ('"gamma": 0.1', '"gamma": "0.1"', "no number"),
        ('"gamma": 0.1', '"gamma": true', "no number"),
        ('"gamma": 0.1', '"gamma": null', "no number"),
        ('"gamma": 0.1', '"gamma": 0.1, "width": 7', "nothing else"),
    ],
)
def test_json_is_read_strictly(old: str, new: str, message: str, forger: Forger) -> None:
    path = forger.done() / "certificate.json"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=message) as caught:
        verify(path)
    assert str(caught.value).isprintable()


def test_brackets_and_quotes_in_strings_are_letters() -> None:
    said = {"a": '[[[[{"\\', "b" * 40: ["[" * 100, "\\", '"', "\u0661"]}
    assert strict_json(json.dumps(said, ensure_ascii=False).encode(), "x") == said


def test_sizes_are_limited_before_reading(forger: Forger, tmp_path: Path) -> None:
    path = forger.done()
    with (tmp_path / "long").open("wb") as file:
        file.truncate(DOCUMENT_BYTES + 1)
    with pytest.raises(BadInput, match="longer than"):
        verify(tmp_path / "long")
    with forger.file("people.x").open("r+b") as file:  # sparse: a terabyte that is never read
        file.truncate(2**40)
    with pytest.raises(BadInput, match="bytes, and an array of shape"):
        verify(path)
    forger.predicate["arrays"]["people.x"] = [2**40, 2**40]
    (path / "certificate.json").write_text(json.dumps(forger.document))
    with pytest.raises(BadInput, match="bytes, and an array of shape"):
        verify(path)


def test_pipes_and_devices_are_not_read(forger: Forger) -> None:
    """Neither waits for ever nor reads for ever, whether or not something of that length is expected."""
    path = forger.done()
    for name in ("certificate.json", "evidence/model.0.inputs.bin", "evidence/schema.toml", "certificate.dsse.json"):
        kept = (path / name).read_bytes() if (path / name).exists() else None
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
        with pytest.raises(BadInput, match="not a file"):
            verify(path / "certificate.json")
        (path / name).unlink()
        (path / name).symlink_to("/dev/zero")
        with pytest.raises(BadInput, match="not a file"):
            verify(path / "certificate.json")
        (path / name).unlink()
        if kept is not None:
            (path / name).write_bytes(kept)
    assert verify(path).accepted


@pytest.mark.parametrize(
    "name", ["../people.x", "/etc/passwd", "people/x", "People.x", "people..x", "", "people.\u0661"]
)
def test_arrays_are_nowhere_else(name: str, forger: Forger) -> None:
    arrays = forger.predicate["arrays"]
    arrays[name] = [1]
    with pytest.raises(BadInput, match="is no array that a certificate has"):
        verify(forger.done())


@pytest.mark.parametrize(
    "shape", [4, [4, -58], [2, 2, 58], ["4", 58], [4.0, 58], [True, 58], None, [2**60, 0], [4, 57]]
)
def test_shapes_are_those_of_arrays(shape: Any, forger: Forger) -> None:
    forger.predicate["arrays"]["people.x"] = shape
    assert refused(forger.done())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(value: float, forger: Forger) -> None:
    for name in ("people.x", "people.weights", "model.1.weight", "profiles.value", "points.mass"):
        kept = forger.array(name)
        forger.change(name, lambda array: np.r_[array.ravel()[:-1], value].reshape(array.shape))
        assert refused(forger.done())
        forger.put(name, kept)
    forger.table("metric.toml", lambda table: table.update(tolerance=[value, *table["tolerance"][1:]]))
    assert refused(forger.done()) or value == np.inf


def test_flags_are_true_or_false(forger: Forger) -> None:
    forger.table("metric.toml", lambda table: table.update(free=[2] * 58))
    with pytest.raises(BadInput, match="no numbers"):
        verify(forger.done())


def test_what_was_hashed_is_what_is_read(forger: Forger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although another file of the same name takes their place in between."""
    path, hashed = forger.done(), hashlib.file_digest

    def digest(file: Any, kind: str) -> Any:
        found, place = hashed(file, kind), Path(file.name)
        if place.name == "people.x.bin":
            place.with_suffix(".new").write_bytes(b"\0" * place.stat().st_size)
            place.with_suffix(".new").replace(place)
        return found

    kept = forger.array("people.x")
    monkeypatch.setattr(hashlib, "file_digest", digest)
    assert np.array_equal(Record.read(path).array("people.x"), kept) and not forger.array("people.x").any()


def test_small_files_cannot_ask_for_much(forger: Forger) -> None:
    """Concatenations and sums that double what they read."""
    for kind in ("concat", "add"):
        kinds = ["input"] + [kind] * 60
        forger.predicate["arrays"] = {
            n: s for n, s in forger.predicate["arrays"].items() if "model.0" in n or not n.startswith("model.")
        }
        kept = {f"evidence/{name}.bin" for name in forger.predicate["arrays"]}
        forger.document["subject"] = [
            each for each in forger.document["subject"] if each["name"] in kept or not each["name"].endswith(".bin")
        ]
        forger.predicate["model"] = {"kind": "network", "kinds": kinds, "names": [""] * 61}
        for i in range(1, 61):
            name = f"model.{i}.inputs"
            forger.put(name, [i - 1, i - 1])
        with pytest.raises(BadInput, match="too large"):
            verify(forger.done())


# -- what it says -------------------------------------------------------------------------------------------------


def test_the_command_gives_the_same_exit_status(audit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for certificate, status in ((audit, 0), (tmp_path, 2)):
        monkeypatch.setattr(sys, "argv", ["isonomy-verify", str(certificate)])
        with pytest.raises(SystemExit) as left:
            sys.exit(isonomy_verify.__main__.main())
        assert left.value.code == status


def test_exit_status_and_words(audit: Path, forger: Forger, tmp_path: Path) -> None:
    good = run(str(audit / "certificate.json"))
    assert good.returncode == 0 and good.stdout.endswith("\naccepted\n")
    assert "proved again  individuals" in good.stdout and "claimed" in good.stdout
    assert "4 of 282 people" in "".join(good.stdout.splitlines()[:10])
    assert "at most 1 apart" in good.stdout and "within 0.1" in good.stdout
    forger.claims["upper"] *= 0.5
    bad = run(str(forger.done()), "--json")
    found = json.loads(bad.stdout)
    assert bad.returncode == 1 and found["accepted"] is False
    assert ["mean", "rejected"] in [claim[:2] for claim in found["claims"]]
    for broken in (tmp_path / "nothing.json", tmp_path):
        none = run(str(broken))
        assert none.returncode == 2 and none.stderr.count("\n") == 1 and none.stdout == ""


def test_who_was_audited_is_shown_and_must_fit_the_individuals(forger: Forger) -> None:
    """How people were selected is the issuer's word, in words that the checker makes from numbers."""
    found = verify(forger.done())
    claims = {name: (status, detail) for name, status, detail in found.claims}
    assert claims["selection"][0] == "trusted" and "4 of 282 people" in claims["selection"][1]
    assert "4 of 282 people" in found.question["people"]
    said = dict(forger.predicate["selection"])
    wrong = {"people": 5, "pool": 3, "rows": 2, "how": "all", "excluded": 999}
    for key, value in wrong.items():
        forger.predicate["selection"] = said | {key: value}
        assert statuses(verify(forger.done()))["selection"] == "rejected", key
    for broken in (said | {"words": "282 people, the whole table"}, said | {"how": "fair"}, said | {"people": "4"}, {}):
        forger.predicate["selection"] = broken
        with pytest.raises(BadInput, match="'selection'"):
            verify(forger.done())


@pytest.mark.parametrize("name", ["people.x", "points.person", "points.mass", "local.counterpart", "people.weights"])
def test_a_missing_file_is_bad_input_as_a_changed_one_is(name: str, forger: Forger) -> None:
    """Only arrays that are said to be withheld may be absent; then nothing can tell."""
    path = forger.done()
    forger.file(name).unlink()
    with pytest.raises(BadInput, match=f"{name}.bin cannot be read"):
        verify(path)


def test_the_question_is_told_with_all_its_digits(forger: Forger) -> None:
    """Whole numbers that are at most 1 apart need not be at most 0.9999999 apart."""
    forger.question["delta"] = 0.9999999
    forger.question["shift"] |= {"gamma": 0.09999999999, "order": 1.0000001}
    question = "; ".join(verify(forger.done()).question.values())
    assert "at most 0.9999999 apart" in question and "within 0.09999999999 in" in question
    assert "of order 1.0000001, where" in question


def test_remarks_are_said_to_be_trusted(forger: Forger) -> None:
    forger.predicate["remarks"] |= {"created": "1970-01-01", "metric": "everybody is equal\x1b[2J"}
    found = verify(forger.done())
    assert found.accepted and statuses(found)["remarks"] == "trusted"
    assert "everybody is equal" not in str(vars(found))  # who counts as similar is said by the checker


def test_what_has_no_rule_is_refused_by_name(forger: Forger) -> None:
    forger.predicate["model"]["kinds"][2] = "magic\x1b[31m"
    with pytest.raises(BadInput, match="magic") as caught:
        verify(forger.done())
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "feature",
    [
        'kind = "ordinal"\ncategories = ["a", "b"]\norigin = 0\nunit = 1\nmissing = "category"',
        'kind = "numeric"\nlow = 0\nhigh = 1\norigin = 0\nunit = 1\nmissing = "category"',
        'categories = ["a", "b"]\nfill = "a"',
        'categories = ["a", "b"]\nmissing = "Category"',
    ],
)
def test_what_the_library_reads_otherwise_is_refused(feature: str) -> None:
    """A flag that one reader has and another has not would make two domains of one text."""
    with pytest.raises(BadInput, match="missing"):
        domain_of(f"[features.one]\n{feature}\n", "realizable")
