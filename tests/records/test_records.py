"""Certificates as files: written whole or not at all, read back as they were, checked on the way."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import isonomy
import isonomy_verify
from isonomy import records
from isonomy.auditing.inputs import train_small
from isonomy.certificates import Certificate
from isonomy.certificates.finite_sample import Clusters
from isonomy.datasets import load_population
from isonomy.errors import DataError, FileError
from isonomy.networks import Network
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy.population import Population
from isonomy.records.writing import WITHHELD, read_key
from isonomy_verify.claims import inward
from isonomy_verify.record import dtype_of

Made = tuple[Certificate, Network, Population]


@pytest.fixture(scope="module")
def made() -> Made:
    people = load_population("german")
    network, some = train_small(people.train, hidden=(6,)), people.test.sample(5)
    metric = isonomy.Counterparts.of(people.schema)
    found = isonomy.certify(network, some, metric, 1.0, 0.1, epsilon=0.3, rounds=0, confidence=0.9, progress=None)
    return found, network, some


def _array(path: Path, name: str) -> Any:
    shape = json.loads(path.read_text())["predicate"]["arrays"][name]
    return np.fromfile(path.parent / "evidence" / f"{name}.bin", dtype_of(name)).reshape(shape)


def test_what_is_written_is_read(made: Made, tmp_path: Path) -> None:
    certificate, network, people = made
    path = records.write(tmp_path / "new" / "place", certificate, sources={"a.csv": "00"}, created="now")
    assert path.name == "certificate.json"
    for place in (path, path.parent):
        record = records.read(place)
        asked = (record.problem.delta, record.gamma, record.order, record.epsilon, record.confidence)
        assert asked == (1.0, 0.1, 1.0, 0.3, 0.9)
        claimed = (record.upper, record.lower, record.verdict)
        assert claimed == (round(record.upper, 6), inward(certificate.lower), certificate.verdict)
        assert certificate.upper < record.upper <= 1.0005 * certificate.upper + 2e-6
        assert (
            record.problem.model.hash() == certificate.problem.model.hash()
            and record.problem.model.name == network.name
        )
        assert record.schema == people.schema
        assert record.people is not None and record.people.split == "test" and record.signer == ""
        assert np.array_equal(record.people.x, people.x) and np.array_equal(record.people.rows, people.rows)
        assert np.array_equal(
            record.problem.metric.distance(people.x[:1], people.x),
            certificate.problem.metric.distance(people.x[:1], people.x),
        )
        gammas = [0.0, 0.05, 0.1, 0.3]
        read, kept = record.curve(gammas), certificate.curve(gammas)
        assert read["gamma"].equals(kept["gamma"]) and (read["lower"] <= kept["lower"] + 1e-15).all()
        assert np.allclose(read["lower"][[0, 2]], kept["lower"][[0, 2]], rtol=1e-12)  # γ 0, and the certificate's own
        assert np.allclose(read["upper"], kept["upper"], rtol=1e-15, atol=0)  # other multipliers were tried first
        assert record.problem.domain.contains(people.x).all() and record.problem.domain.names == people.domain.names
    said = record.document["claims"]["population"]
    assert said["multiplier"] == certificate.population.multiplier
    assert certificate.population_upper < said["upper"] <= certificate.population_upper + 5e-4
    assert "beside" not in record.document and record.document["question"]["head_from"] == "declared"
    assert record.document["selection"] == asdict(people.selection)


def test_a_statement_by_clusters_is_left_out_since_nobody_could_check_it(made: Made, tmp_path: Path) -> None:
    clustered = replace(made[0], clusters=Clusters(np.array([0, 0, 1, 1, 2]), 2))
    assert clustered.population_upper >= clustered.upper
    said = json.loads(records.write(tmp_path, clustered).read_text())["predicate"]
    assert said["claims"]["population"] is None and "belongs together" in said["remarks"]["refusal"]


def test_the_same_certificate_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    one, other = (records.write(tmp_path / name, made[0]) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_arrays_are_plain_numbers_and_named_by_their_hash(made: Made, tmp_path: Path) -> None:
    path = records.write(tmp_path, made[0])
    document = json.loads(path.read_text())
    named = {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file != path]
    assert {str(file.relative_to(tmp_path)) for file in files} == set(named)
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == named[str(file.relative_to(tmp_path))]
    assert document["predicate"]["withheld"] == [] and {file.suffix for file in files} == {".bin", ".toml"}
    assert np.array_equal(_array(path, "people.x"), made[2].x)
    assert np.array_equal(_array(path, "people.rows"), made[2].rows)
    assert _array(path, "profiles.count").sum() == len(_array(path, "profiles.value"))


def test_files_beside_the_certificate_are_bound_by_their_hash(made: Made, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<p>fair</p>")
    path = records.write(tmp_path, made[0], beside=["report.html"])
    named = {each["name"]: each["digest"]["sha256"] for each in json.loads(path.read_text())["subject"]}
    assert named["report.html"] == hashlib.sha256(b"<p>fair</p>").hexdigest()


def test_the_document_keeps_to_the_shipped_schema(made: Made, tmp_path: Path) -> None:
    schema = json.loads(resources.files("isonomy.records").joinpath("certificate.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    key = tmp_path / "key"
    records.new_key(key)
    for options in ({}, {"redact": True}, {"key": key}):
        document = json.loads(records.write(tmp_path / "out", made[0], **options).read_text())
        jsonschema.validate(document, schema)
    shift = replace(made[0].shift, gamma=math.inf, order=math.inf)
    widest = replace(made[0], shift=shift, epsilon=None, confidence=None, refusal="x")
    widest = replace(widest, output_range=(0.0, 2.0))
    jsonschema.validate(json.loads(records.write(tmp_path / "wide", widest).read_text()), schema)
    for section in ("question", "claims", "selection", "reading", "model", "remarks"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | {"predicate": document["predicate"] | {section: {}}}, schema)


def test_masses_are_those_of_the_worst_case(made: Made, tmp_path: Path) -> None:
    certificate = made[0]
    path = records.write(tmp_path, certificate)
    mass, value, count = (_array(path, f"points.{name}") for name in ("mass", "value", "count"))
    assert math.isclose(mass @ value / certificate.weights.sum(), certificate.lower)
    held = np.bincount(np.repeat(np.arange(len(count)), count), mass)
    assert np.allclose(held, certificate.weights, rtol=0, atol=0)


def test_a_redacted_record_has_nobodys_row(made: Made, tmp_path: Path) -> None:
    whole, bare = records.write(tmp_path / "whole", made[0]), records.write(tmp_path / "bare", made[0], redact=True)
    files = {file.name for file in (bare.parent / "evidence").iterdir()}
    shapes = json.loads(bare.read_text())["predicate"]["arrays"]
    width = made[2].x.shape[1]
    groups = ("people", "local", "profiles", "points", "turned")
    rows = {name for name in shapes if name.startswith(groups) and width in shapes[name]}
    assert rows == set(WITHHELD) - {"model.people"} - {"people.y"}  # whatever has a row of somebody is withheld
    assert not files & {f"{name}.bin" for name in WITHHELD} and json.loads(bare.read_text())["predicate"]["withheld"]
    hashes = [json.loads(path.read_text())["subject"] for path in (whole, bare)]
    assert hashes[0] == hashes[1]
    record = records.read(bare)
    assert record.people is None and record.points is None
    assert record.curve([0.1])["upper"].tolist() == [made[0].upper] and record.curve([0.1])["lower"].isna().all()


def test_an_older_record_is_replaced_and_nothing_else_is_left(made: Made, tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "stale.bin").write_text("old")
    (tmp_path / "certificate.json").write_text("old")
    records.write(tmp_path, made[0])
    assert {path.name for path in tmp_path.iterdir()} == {"certificate.json", "evidence"}
    assert not (tmp_path / "evidence" / "stale.bin").exists()


def test_a_failure_leaves_no_half_written_certificate(made: Made, tmp_path: Path, monkeypatch: Any) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(FileError, match="No space left"):
        records.write(tmp_path, made[0])
    assert not (tmp_path / "certificate.json").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("step", range(6))
def test_whenever_writing_stops_no_certificate_stands_on_other_evidence(
    step: int, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over an older one, with a signature; every step of taking its place fails once."""
    records.new_key(tmp_path / "key")
    place = tmp_path / "out"
    records.write(place, made[0], created="first", key=tmp_path / "key")
    calls = 0

    def counted(method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step + 1:
                raise OSError(28, "No space left on device")
            return method(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for name in ("replace", "rename", "write_bytes"):
            patched.setattr(Path, name, counted(getattr(Path, name)))
        try:
            records.write(place, replace(made[0], epsilon=0.5), created="second", key=tmp_path / "key")
        except FileError:
            assert calls == step + 1
    assert not [path for path in place.iterdir() if path.name.startswith(".")]
    if (place / "certificate.json").exists():
        assert records.read(place).document["remarks"]["created"] in ("first", "second")


def test_people_without_a_schema_have_no_record(made: Made, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Population"):
        records.write(tmp_path / "out", replace(made[0], people=None))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: (d / "certificate.json").unlink(), "cannot be read"),
        (lambda d: (d / "certificate.json").write_text("{"), "damaged"),
        (lambda d: (d / "certificate.json").write_text("{}"), "not an isonomy certificate"),
        (
            lambda d: _document(d, lambda c: c.update(predicateType="urn:isonomy:certificate:9")),
            "of format 9, and this",
        ),
        (lambda d: _document(d, lambda c: c.pop("predicate")), "damaged"),
        (lambda d: _document(d, lambda c: c["predicate"].pop("claims")), "damaged"),
        (lambda d: _document(d, lambda c: c["predicate"]["question"]["shift"].update(gamma="nan")), "no number"),
        (lambda d: _document(d, lambda c: c["predicate"]["claims"].update(upper=True)), "no number"),
        (lambda d: _document(d, lambda c: c["subject"].append(c["subject"][0])), "twice"),
        (lambda d: _document(d, lambda c: c["predicate"]["arrays"].update({"../x": [1]})), "no array that"),
        (lambda d: (d / "evidence" / "profiles.value.bin").unlink(), "cannot be read"),
        (lambda d: (d / "evidence" / "profiles.value.bin").write_bytes(b"x"), "bytes, and an array of shape"),
        (lambda d: (d / "evidence" / "profiles.largest.bin").write_bytes(b"8" * 8), "SHA-256"),
        (lambda d: (d / "evidence" / "schema.toml").write_bytes(b"x"), "SHA-256"),
        (lambda d: (d / "certificate.dsse.json").write_bytes(b"{}"), "not a DSSE envelope"),
    ],
)
def test_what_is_broken_gets_one_sentence(break_it: Any, message: str, made: Made, tmp_path: Path) -> None:
    records.write(tmp_path, made[0])
    break_it(tmp_path)
    with pytest.raises(FileError, match=message) as caught:
        records.read(tmp_path)
    assert "\n" not in str(caught.value)


def _document(directory: Path, edit: Any) -> None:
    document = json.loads((directory / "certificate.json").read_text())
    edit(document)
    (directory / "certificate.json").write_text(json.dumps(document))


def test_the_text_of_a_metric_is_the_metric(made: Made, tmp_path: Path) -> None:
    """There is no second form of it that could be another one: what the text says is what is checked."""
    records.write(tmp_path, made[0])
    before = isonomy_verify.verify(tmp_path)
    text = tmp_path / "evidence" / "metric.toml"
    text.write_text(text.read_text().replace("0.05", "0.5"))
    digest = hashlib.sha256(text.read_bytes()).hexdigest()

    def rename(document: dict[str, Any]) -> None:
        (named,) = [each for each in document["subject"] if each["name"] == "evidence/metric.toml"]
        named["digest"]["sha256"] = digest

    _document(tmp_path, rename)
    assert records.read(tmp_path).problem.metric.form.relative.max() > 0.49
    found = isonomy_verify.verify(tmp_path)
    assert before.accepted and not found.accepted and found.proved_upper > before.proved_upper


def test_signatures_follow_the_standard(tmp_path: Path) -> None:
    """The first three test vectors of RFC 8032, section 7.1."""
    vectors = [
        ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        ("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
        ("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
         "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
    ]  # fmt: skip
    from cryptography.exceptions import InvalidSignature

    for seed, public, message, expected in vectors:
        (tmp_path / "key").write_text(seed)
        private = read_key(tmp_path / "key")
        assert private.public_key().public_bytes_raw().hex() == public
        assert private.sign(bytes.fromhex(message)).hex() == expected
        with pytest.raises(InvalidSignature):
            private.public_key().verify(bytes.fromhex(expected), bytes.fromhex(message) + b"!")


def test_a_signed_record(made: Made, tmp_path: Path) -> None:
    public = records.new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    path = records.write(tmp_path / "out", made[0], key=tmp_path / "key")
    assert records.read(tmp_path / "out").signer == public
    envelope = json.loads((tmp_path / "out" / "certificate.dsse.json").read_text())
    assert base64.b64decode(envelope["payload"]) == path.read_bytes()  # these very bytes
    _document(tmp_path / "out", lambda c: c["predicate"]["remarks"].update(created="yesterday"))
    with pytest.raises(FileError, match="signs other bytes"):
        records.read(tmp_path / "out")
    with pytest.raises(FileError, match="cannot be written"):
        records.new_key(tmp_path / "key")
    (tmp_path / "short").write_text("abc")
    with pytest.raises(FileError, match="64 hexadecimal digits"):
        records.write(tmp_path / "other", made[0], key=tmp_path / "short")
    assert not (tmp_path / "other").exists()
    records.write(tmp_path / "out", made[0])
    assert records.read(tmp_path / "out").signer == "" and not (tmp_path / "out" / "certificate.dsse.json").exists()


def test_networks_of_every_kind_come_back() -> None:
    rng = np.random.default_rng(0)
    nodes = (
        Node("input", width=4), affine(rng.normal(size=(3, 4)), rng.normal(size=3))._replace(inputs=(0,)),
        Node("activation", (1,), activation=Activation("leaky_relu", (0.1,))), Node("add", (1, 2)),
        Node("concat", (2, 3)), Node("select", (4,), columns=(5, 0)),
        Node("activation", (5,), activation=Activation("gelu")),
    )  # fmt: skip
    network = Network(Graph(nodes, ("", "one", *[""] * 5)), "softmax", "odd")
    again = Network.read(network.section(), network.arrays(), network.head, "odd")
    assert again.hash() == network.hash()
    assert again.graph.names == network.graph.names


def test_metrics_in_their_common_form() -> None:
    people = load_population("german").train
    weighted = isonomy.WeightedLp.fit(people)
    x, y = people.x[:40], people.x[40:80]
    for metric in (weighted, isonomy.WeightedLp(weighted.weights, 1.0), isonomy.SensitiveSubspace.fit(people)):
        form = vars(metric.form)
        assert form["free"].all()
        assert np.allclose(
            np.linalg.norm((x - y) @ form["root"].T, float(form["order"]), axis=1), metric.distance(x, y)
        )
    widest = isonomy.WeightedLp(weighted.weights, math.inf)
    form = vars(widest.form)
    counts = ~form["free"]
    assert np.allclose((np.abs(x - y)[:, counts] / form["tolerance"][counts]).max(1), widest.distance(x, y))
