"""Certificates as files: written whole or not at all, read back as they were, checked on the way."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import isonomy
from isonomy import records
from isonomy.audit.bundled import train_small
from isonomy.certificates import Certificate
from isonomy.certificates.finite_sample import Clusters
from isonomy.certificates.forms import metric_arrays, network_arrays, network_of
from isonomy.datasets import load_population
from isonomy.errors import DataError, FileError
from isonomy.networks import Network
from isonomy.networks.affine import Affine
from isonomy.networks.graph import Activation, Add, Concat, Graph, Input, Node, Select
from isonomy.population import Population
from isonomy.records import signature, writing

Made = tuple[Certificate, Network, Population]


@pytest.fixture(scope="module")
def made() -> Made:
    people = load_population("german")
    network, some = train_small(people.train, hidden=(6,)), people.test.sample(5)
    metric = isonomy.Counterparts.of(people.schema)
    found = isonomy.certify(network, some, metric, 1.0, 0.1, epsilon=0.3, rounds=0, confidence=0.9, progress=None)
    return found, network, some


def test_what_is_written_is_read(made: Made, tmp_path: Path) -> None:
    certificate, network, people = made
    path = records.write(
        tmp_path / "new" / "place", certificate, network, people, sources={"a.csv": "00"}, created="now"
    )
    assert path.name == "certificate.json"
    for place in (path, path.parent):
        record = records.read(place)
        assert (record.delta, record.gamma, record.order, record.epsilon, record.confidence) == (
            1.0,
            0.1,
            1.0,
            0.3,
            0.9,
        )
        assert (record.upper, record.lower, record.verdict) == (
            certificate.upper,
            certificate.lower,
            certificate.verdict,
        )
        assert record.network.hash() == certificate.question.network.hash() and record.network.name == network.name
        assert record.schema == people.schema
        assert record.people is not None and record.people.split == "test" and record.signer == ""
        assert np.array_equal(record.people.x, people.x) and np.array_equal(record.people.rows, people.rows)
        assert np.array_equal(
            record.metric.distance(people.x[:1], people.x), certificate.question.metric.distance(people.x[:1], people.x)
        )
        gammas = [0.0, 0.05, 0.1, 0.3]
        assert record.curve(gammas).equals(certificate.curve(gammas))
        assert record.domain.contains(people.x).all() and record.domain.names == people.domain.names
    claims = record.document["claims"]
    assert claims["population"] == {
        "upper": certificate.population_upper,
        "multiplier": certificate.population.multiplier,
    }


def test_a_statement_by_clusters_is_left_out_since_nobody_could_check_it(made: Made, tmp_path: Path) -> None:
    certificate, network, people = made
    clustered = replace(certificate, clusters=Clusters(np.array([0, 0, 1, 1, 2]), 2))
    assert clustered.population_upper >= clustered.upper
    document = json.loads(records.write(tmp_path, clustered, network, people).read_text())
    assert document["claims"]["population"] is None and "belongs together" in document["remarks"]["refusal"]


def test_the_same_certificate_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    one, other = (records.write(tmp_path / name, *made) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_the_document_keeps_to_the_shipped_schema(made: Made, tmp_path: Path) -> None:
    schema = json.loads(resources.files("isonomy.records").joinpath("certificate.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    key = tmp_path / "key"
    records.new_key(key)
    for options in ({}, {"redact": True}, {"key": key}):
        document = json.loads(records.write(tmp_path / "out", *made, **options).read_text())
        jsonschema.validate(document, schema)
    for section in ("question", "claims", "evidence"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | {section: {}}, schema)


def test_masses_are_those_of_the_worst_case(made: Made, tmp_path: Path) -> None:
    certificate = made[0]
    path = records.write(tmp_path, *made)
    points = np.load(path.parent / "evidence" / "witnesses.npz")
    assert math.isclose(points["mass"] @ points["value"] / certificate.question.weights.sum(), certificate.lower)
    assert np.allclose(np.bincount(points["owner"], points["mass"]), certificate.question.weights, rtol=0, atol=0)


def test_a_redacted_record_has_nobodys_row(made: Made, tmp_path: Path) -> None:
    whole, bare = records.write(tmp_path / "whole", *made), records.write(tmp_path / "bare", *made, redact=True)
    files = {file.name for file in (bare.parent / "evidence").iterdir()}
    assert "people.npz" not in files and "witnesses.npz" not in files
    for name in files - {"network.npz"}:
        if name.endswith(".npz"):
            shapes = {key: array.shape for key, array in np.load(bare.parent / "evidence" / name).items()}
            assert (5, made[2].x.shape[1]) not in shapes.values()
    hashes = [json.loads(path.read_text())["evidence"]["people"]["sha256"] for path in (whole, bare)]
    assert hashes[0] == hashes[1]
    record = records.read(bare)
    assert record.people is None and record.points is None
    assert record.curve([0.1])["upper"].tolist() == [record.upper] and record.curve([0.1])["lower"].isna().all()
    with pytest.raises(FileError, match="redacted"):
        _ = record.question


def test_an_older_record_is_replaced_and_nothing_else_is_left(made: Made, tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "stale.npz").write_text("old")
    (tmp_path / "certificate.json").write_text("old")
    records.write(tmp_path, *made)
    assert {path.name for path in tmp_path.iterdir()} == {"certificate.json", "evidence"}
    assert not (tmp_path / "evidence" / "stale.npz").exists()


def test_a_failure_leaves_no_half_written_certificate(made: Made, tmp_path: Path, monkeypatch: Any) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(FileError, match="No space left"):
        records.write(tmp_path, *made)
    assert not (tmp_path / "certificate.json").exists()
    assert not list(tmp_path.glob(".*"))


def test_other_people_are_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="people"):
        records.write(tmp_path, made[0], made[1], made[2][:3])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: (d / "certificate.json").unlink(), "cannot be read"),
        (lambda d: (d / "certificate.json").write_text("{"), "damaged"),
        (lambda d: (d / "certificate.json").write_text("{}"), "not an isonomy certificate"),
        (lambda d: _document(d, lambda c: c.update(version=7)), "version"),
        (lambda d: _document(d, lambda c: c.pop("evidence")), "damaged"),
        (lambda d: (d / "evidence" / "profiles.npz").unlink(), "cannot be read"),
        (lambda d: (d / "evidence" / "profiles.npz").write_bytes(b"x"), "SHA-256"),
        (lambda d: _document(d, lambda c: c["evidence"]["people"].update(file="../x.npz")), "not in 'evidence'"),
    ],
)
def test_what_is_broken_gets_one_sentence(break_it: Any, message: str, made: Made, tmp_path: Path) -> None:
    records.write(tmp_path, *made)
    break_it(tmp_path)
    with pytest.raises(FileError, match=message) as caught:
        records.read(tmp_path)
    assert "\n" not in str(caught.value)


def _document(directory: Path, edit: Any) -> None:
    document = json.loads((directory / "certificate.json").read_text())
    edit(document)
    (directory / "certificate.json").write_text(json.dumps(document))


def test_the_two_forms_of_a_metric_must_agree(made: Made, tmp_path: Path) -> None:
    records.write(tmp_path, *made)
    text = tmp_path / "evidence" / "metric.toml"
    text.write_text(text.read_text().replace("0.05", "0.06"))
    _document(
        tmp_path,
        lambda c: c["evidence"]["metric_text"].update(sha256=writing.hashlib.sha256(text.read_bytes()).hexdigest()),
    )
    with pytest.raises(FileError, match="not the same metric"):
        records.read(tmp_path)


def test_signatures_follow_the_standard() -> None:
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
    for seed, public, message, expected in vectors:
        assert signature.public_key(bytes.fromhex(seed)).hex() == public
        assert signature.sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == expected
        assert signature.verify(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(expected))
        assert not signature.verify(bytes.fromhex(public), bytes.fromhex(message) + b"!", bytes.fromhex(expected))
        assert not signature.verify(bytes(32), bytes.fromhex(message), bytes.fromhex(expected))


def test_a_signed_record(made: Made, tmp_path: Path) -> None:
    public = records.new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    records.write(tmp_path / "out", *made, key=tmp_path / "key")
    assert records.read(tmp_path / "out").signer == public
    _document(tmp_path / "out", lambda c: c["remarks"].update(created="yesterday"))
    with pytest.raises(FileError, match="signature"):
        records.read(tmp_path / "out")
    with pytest.raises(FileError, match="cannot be written"):
        records.new_key(tmp_path / "key")
    (tmp_path / "short").write_text("abc")
    with pytest.raises(FileError, match="64 hexadecimal digits"):
        records.write(tmp_path / "other", *made, key=tmp_path / "short")
    assert not (tmp_path / "other").exists()


def test_networks_of_every_kind_come_back() -> None:
    rng = np.random.default_rng(0)
    affine = Affine.of(rng.normal(size=(3, 4)), rng.normal(size=3))
    nodes = (
        Node(Input(4)), Node(affine, (0,), "one"), Node(Activation("leaky_relu", (0.1,)), (1,)), Node(Add(), (1, 2)),
        Node(Concat(), (2, 3)), Node(Select((5, 0)), (4,)), Node(Activation("gelu"), (5,)),
    )  # fmt: skip
    network = Network(Graph(nodes), "softmax", "odd")
    again = network_of(network_arrays(network), "odd")
    assert again.hash() == network.hash()
    assert [node.name for node in again.graph.nodes] == [node.name for node in nodes]


def test_metrics_in_their_common_form() -> None:
    people = load_population("german").train
    weighted = isonomy.WeightedLp.fit(people)
    x, y = people.x[:40], people.x[40:80]
    for metric in (weighted, isonomy.WeightedLp(weighted.weights, 1.0), isonomy.SensitiveSubspace.fit(people)):
        form = metric_arrays(metric)
        assert form["free"].all()
        assert np.allclose(
            np.linalg.norm((x - y) @ form["root"].T, float(form["order"]), axis=1), metric.distance(x, y)
        )
    widest = isonomy.WeightedLp(weighted.weights, math.inf)
    form = metric_arrays(widest)
    counts = ~form["free"]
    assert np.allclose((np.abs(x - y)[:, counts] / form["tolerance"][counts]).max(1), widest.distance(x, y))
