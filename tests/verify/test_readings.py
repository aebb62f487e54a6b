"""Two edits that agree with each other: what a certificate says of files, columns and classes is said to be its word,
or held against the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.networks.onnx_files import build, node

import isonomy
from isonomy import Network, records
from isonomy.auditing.originals import check_data, check_model
from isonomy.cli.app import main
from isonomy.errors import FileError
from isonomy.networks.load import open_network
from isonomy.population import Feature, Label, Population, Schema, Split
from isonomy.population.tables import USUAL, Dialect, described
from isonomy_verify import BadInput, verify
from isonomy_verify.text import quoted

from .conftest import Forger, statuses

FEATURES = (
    Feature("income", low=0.0, high=1e4, unit=1e3, tolerance=1.0),
    Feature("sex", "categorical", categories=("f", "m"), protected=True),
)


def schema(label: Label | None = None, **more: Any) -> Schema:
    return Schema("people", FEATURES, label, **more)


def frame(n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {"income": rng.integers(1000, 9999, n), "sex": rng.choice(["f", "m"], n)}
    return pd.DataFrame(columns | {"region": rng.choice(["rich", "poor"], n), "size": rng.integers(1, 9, n)})


def audited(place: Path, people: Population, network: Network | None = None, **options: Any) -> Path:
    rng = np.random.default_rng(1)
    if network is None:
        layers = [rng.normal(size=(2, people.schema.width))]
        network = Network.from_layers(layers, [np.zeros(2)], head="softmax")
    table = options.pop("table", None)
    metric = isonomy.Counterparts.of(people.schema)
    found = isonomy.certify(network, people, metric, 1.0, attack=False, progress=None, **options)
    records.write(place, found, table=table)
    return place


def told(claims: list[tuple[str, str, str]]) -> dict[str, str]:
    return {name: status for name, status, _ in claims}


# -- classes


def estimator(path: Path, classes: list[Any]) -> Path:
    skio = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression

    x = Population.from_frame(frame(), schema()).x
    skio.dump(LogisticRegression().fit(x, (classes * 12)[: len(x)]), path)
    return path


@pytest.mark.parametrize(
    ("own", "label", "favourable", "status"),
    [
        ([1, 2], "numbers", "1", "rejected"),  # what is called "1" by its place is the file's "2"
        ([1, 2, 3], "numbers", "1", "rejected"),
        ([1, 2], None, "1", "recomputed"),
        ([1, 2, 3], None, "3", "recomputed"),
        ([1, 2], ("2", "1"), "1", "recomputed"),
        (["bad", "good"], ("good", "bad"), "good", "recomputed"),
        (["bad", "good"], "numbers", "1", "trusted"),
        (["bad", "good"], None, "good", "recomputed"),
        ([0, 1], ("good", "bad"), "good", "trusted"),
        ([False, True], ("good", "bad"), "good", "trusted"),
        ([0, 1], None, "1", "recomputed"),
    ],
)
def test_a_file_that_names_its_classes_is_believed(
    own: list[Any], label: Any, favourable: str, status: str, tmp_path: Path
) -> None:
    """Without a label classes have the file's own names; a forger who numbers them may use the name of another."""
    path, of = estimator(tmp_path / "m.skops", own), schema(Label("y", label) if isinstance(label, tuple) else None)
    network = open_network(path, of, reads="coordinates")
    network = replace(network, named=()) if label == "numbers" else network
    out = audited(tmp_path / "out", Population.from_frame(frame(), of), network, favourable=favourable)
    found = check_model(records.read(out), path)
    assert told(found)["classes"] == status and told(found)["model file"] == "recomputed"
    assert main(["verify", str(out), "--model", str(path)]) == (status == "rejected")


def test_places_of_outputs_are_not_names_of_classes_in_onnx(tmp_path: Path) -> None:
    """The file says that its first output is class 1: a certificate of classes "0", "1" by place turns them around."""
    rng, width = np.random.default_rng(2), schema().width
    weight = rng.normal(size=(width, 2))
    nodes = [
        node("MatMul", "x", "W", out="z"), node("Softmax", "z", out="p"),
        node("ArgMax", "p", out="i", axis=1, keepdims=0), node("Gather", "names", "i", out="label"),
    ]  # fmt: skip
    constants = {"W": weight, "names": np.array([1, 0])}
    path = tmp_path / "m.onnx"
    path.write_bytes(build(nodes, constants, shape=("n", width), outputs=("p",)).SerializeToString())
    network = open_network(path, schema(), reads="coordinates")
    assert network.named == ("1", "0")
    network = replace(network, named=())
    out = audited(tmp_path / "out", Population.from_frame(frame(), schema()), network, favourable="1")
    assert told(check_model(records.read(out), path))["classes"] == "rejected"


# -- how files are read


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_an_activation_that_no_file_says_is_the_issuers_word(activation: str, tmp_path: Path) -> None:
    width = schema().width
    layers = torch.nn.Sequential(torch.nn.Linear(width, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    torch.save(layers.state_dict(), tmp_path / "m.pt")
    network = open_network(tmp_path / "m.pt", schema(), head="softmax", activation=activation)
    out = audited(tmp_path / "out", Population.from_frame(frame(), schema()), network)
    found = check_model(records.read(out), tmp_path / "m.pt")
    assert told(found)["model reading"] == "trusted" and f'activation "{activation}"' in str(found)


def test_a_thousand_that_is_read_as_one_is_told(tmp_path: Path) -> None:
    """With commas as decimal marks "8,654" is 8.654: the table has these people only if that is what it means."""
    table, comma = tmp_path / "people.csv", Dialect(",", "utf-8", ",")
    frame().assign(income=[f"{each:,}" for each in frame()["income"]]).to_csv(table, index=False)
    people = Population.from_file(table, schema(), dialect=comma)
    assert people.frame["income"].max() < 10
    out = audited(tmp_path / "out", people, table=described(table, comma) | {"unknown": "error"})
    found = {name: (status, detail) for name, status, detail in check_data(records.read(out), table)}
    assert found["data file"][0] == "recomputed"
    assert found["data reading"][0] == "trusted" and "1,000 is 1" in found["data reading"][1]
    assert main(["verify", str(out), "--data", str(table)]) == 0


def test_values_that_are_called_missing_are_told(tmp_path: Path) -> None:
    table, first = tmp_path / "people.csv", str(frame()["income"][0])
    frame().to_csv(table, index=False)
    gone = Feature("income", low=0.0, high=1e4, unit=1e3, tolerance=1.0, fill=0.0, missing_values=(first,))
    people = Population.from_file(table, Schema("people", (gone, FEATURES[1])))
    out = audited(tmp_path / "out", people, table=described(table) | {"unknown": "error"})
    ((_, _, detail),) = (each for each in check_data(records.read(out), table) if each[0] == "data reading")
    assert f'"income" "{first}"' in detail


@pytest.mark.parametrize("marks", [{"decimal": "x"}, {"decimal": ""}, {"separator": ""}, {"separator": ";;"}])
def test_marks_that_no_reader_knows_are_refused(marks: dict[str, str], tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    frame().to_csv(table, index=False)
    people = Population.from_file(table, schema(), dialect=USUAL)
    out = audited(tmp_path / "out", people, table=described(table) | {"unknown": "error"} | marks)
    with pytest.raises(FileError, match=r"reading\.table"):
        records.read(out)
    with pytest.raises(BadInput, match=r"reading\.table"):
        verify(out)


@pytest.mark.parametrize("encoding", ["punycode", "idna", "undefined", "rot13", "zlib", "utf-16", "cp037"])
def test_encodings_that_do_not_fit_are_refused(encoding: str, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    frame().to_csv(table, index=False)
    people = Population.from_file(table, schema())
    said = described(table) | {"unknown": "error", "encoding": encoding}
    assert told(check_data(records.read(audited(tmp_path / "out", people, table=said)), table)) == {
        "data file": "rejected"
    }


# -- columns that are called something


@pytest.mark.parametrize("names", [("poor", "rich"), ("train", "test")])
def test_a_part_of_a_table_is_told_by_its_column(names: tuple[str, str], tmp_path: Path) -> None:
    """Those of the rich region were "the test part of the table"; a schema's file leaves the usual names out."""
    table, of = tmp_path / "people.csv", schema(split=Split("region", *names))
    frame().replace({"region": dict(zip(("poor", "rich"), names, strict=True))}).to_csv(table, index=False)
    people = Population.from_file(table, of).test
    out = audited(tmp_path / "out", people, table=described(table) | {"unknown": "error"})
    says = f'the test part is where the column "region" says "{names[1]}"'
    assert says in verify(out).question["people"]
    assert says in str(check_data(records.read(out), table))


def test_a_column_of_weights_is_told(tmp_path: Path) -> None:
    people = Population.from_frame(frame(), schema(weight="size"))
    found = verify(audited(tmp_path / "out", people))
    assert found.question["weights"].endswith('by the column "size"')


# -- files beside


def test_a_folder_of_tables_is_one_with_a_stray_array_in_it(tmp_path: Path) -> None:
    """With it the table was not looked at, and the certificate of other people accepted."""
    folder = tmp_path / "table"
    folder.mkdir()
    frame().assign(income=frame()["income"] + 1).to_parquet(folder / "a.parquet")
    (folder / "stray.bin").touch()
    said = described(folder) | {"unknown": "error"}
    out = audited(tmp_path / "out", Population.from_frame(frame(), schema()), table=said)
    assert main(["verify", str(out), "--data", str(folder)]) == 1


def test_a_table_of_individuals_that_is_not_named_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Put beside a certificate by a stranger, also a signed one, it said who is treated more equally than before."""
    people = Population.from_frame(frame(), schema(id="size"))
    places = [audited(tmp_path / name, people) for name in ("old", "new")]
    for place, low, high in zip(places, (0.5, 0.0), (0.6, 0.1), strict=True):
        stray = pd.DataFrame({"row": people.rows, "size": "nine", "upper": high, "lower": low, "decision": "certified"})
        stray.to_parquet(place / "individuals.parquet")
    capsys.readouterr()
    assert main(["compare", *map(str, places)]) == 0
    said = capsys.readouterr().out
    assert "more equally" not in said and "Nothing was proved again here" in said
    assert main(["explain", str(places[0]), "--row", "0"]) == 0
    assert "nine" not in capsys.readouterr().out


# -- numbers and letters


@pytest.mark.parametrize("confidence", [5, -1, 0, 1, True, "0.99", "nan", "inf", "١", [], 10**400])
def test_a_confidence_is_one_also_where_nothing_is_claimed(confidence: Any, forger: Forger) -> None:
    forger.question["confidence"], forger.claims["population"] = confidence, None
    with pytest.raises(BadInput):
        verify(forger.done())


def test_a_confidence_of_which_nothing_is_claimed_is_told(forger: Forger) -> None:
    forger.question["confidence"], forger.claims["population"] = 0.999, None
    found = verify(forger.done())
    assert ("population", "recomputed", "nothing is claimed") in found.claims and statuses(found)["remarks"]


@pytest.mark.parametrize("part", ["delta", "gamma", "order", "epsilon", "confidence"])
def test_numbers_of_any_length_are_refused_in_one_sentence(part: str, forger: Forger) -> None:
    asked = forger.question["shift"] if part in forger.question["shift"] else forger.question
    asked[part] = 10**400
    with pytest.raises(FileError, match="damaged"):
        records.read(forger.done())


ALIKE = [
    ("good", "good\ufe0f"), ("good", "good\u034f"), ("good", "good\u3164"), ("good", "good\u2800"), ("1", "\uff11"),
    ("good", "good\U000e0101"), ("é", "e\u0301"), ("fi", "ﬁ"),
]  # fmt: skip


@pytest.mark.parametrize("pair", ALIKE)
def test_texts_that_look_alike_are_shown_differently(pair: tuple[str, str]) -> None:
    assert quoted(pair[0]) == f'"{pair[0]}"' and quoted(pair[1])[1:-1].isascii()


@pytest.mark.parametrize("mark", "ʺ˝ˮ״“”„‟″‶＂〃〝〞〟❝❞")
def test_nothing_looks_like_the_mark_at_the_end(mark: str) -> None:
    assert quoted(f"a{mark}; favourable {mark}b").isascii()


@pytest.mark.parametrize("text", ["âge", "métier", "пол", "年齢", "जाति", "العمر", "गाँव", "größe", "x…"])
def test_letters_of_any_script_are_shown(text: str) -> None:
    assert quoted(text) == f'"{text}"'
