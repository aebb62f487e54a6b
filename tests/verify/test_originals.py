"""Model and table in the hands of the reader: what the certificate mentions of them proves nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.networks.onnx_files import build, node
from tests.networks.stored import EMBEDDED, FILES

import isonomy
from isonomy import records
from isonomy.auditing.originals import check_data, check_model
from isonomy.cli.app import main
from isonomy.errors import FileError
from isonomy.networks.load import open_network
from isonomy.population import Feature, Population, Schema
from isonomy.population.encoding import MISSING_WORDS
from isonomy.population.tables import Dialect

from .conftest import Forger

SCHEMA = Schema(
    "people",
    (
        Feature("age", low=0.0, high=10.0, unit=5.0, tolerance=1.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    ),
)
TABLE = {
    "kind": "csv", "separator": ";", "quote": '"', "encoding": "utf-8", "decimal": ",", "missing": list(MISSING_WORDS),
    "unknown": "error",
}  # fmt: skip


def model(path: Path, seed: int, outputs: int = 2, scale: float = 1.0) -> Path:
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(SCHEMA.width, 4), torch.nn.Tanh(), torch.nn.Linear(4, outputs))
    with torch.no_grad():
        network[2].bias += scale - 1.0
    torch.save(network.state_dict(), path)
    return path


def table(path: Path, seed: int, n: int = 6, **options: Any) -> Path:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(0, 10, n), "sex": rng.choice(["f", "m"], n)})
    frame.to_csv(path, index=False, **({"sep": ";", "decimal": ","} | options))
    return path


def write(place: Path, network: Any, people: Population, **options: Any) -> Path:
    """An audit of these, whose remarks mention every file there is."""
    asked = {"attack": False, "progress": None} | options
    found = isonomy.certify(network, people, isonomy.Counterparts.of(SCHEMA), 1.0, **asked)
    sources = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in place.iterdir() if f.is_file()}
    records.write(place / "audit", found, sources=sources, table=TABLE)
    return place


def read(path: Path, **options: Any) -> Population:
    return Population.from_file(path, SCHEMA, dialect=Dialect(";", "utf-8", ","), **options)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    model(tmp_path / "other.pt", 1)
    table(tmp_path / "others.csv", 1)
    (tmp_path / "garbage.bin").write_bytes(b"garbage")
    return write(tmp_path, network, read(table(tmp_path / "people.csv", 0)))


def told(claims: list[tuple[str, str, str]]) -> dict[str, str]:
    """What became of the claims; ``test_readings`` has those about how files are read and what classes are called."""
    others = ("classes", "model reading", "data reading")
    return {name: status for name, status, _ in claims if name not in others}


def test_the_model_is_read_anew(place: Path) -> None:
    record = records.read(place / "audit")
    assert told(check_model(record, place / "model.pt")) == {"model file": "recomputed", "head": "trusted"}
    assert "declared by the issuer, the file does not say it" in str(check_model(record, place / "model.pt"))
    for name in ("other.pt", "garbage.bin"):  # although their hashes are mentioned
        assert told(check_model(record, place / name)) == {"model file": "rejected"}


def test_the_table_is_read_anew(place: Path) -> None:
    record = records.read(place / "audit")
    right = {"data file": "recomputed", "data rows": "recomputed"}
    assert told(check_data(record, place / "people.csv")) == right
    for name in ("others.csv", "garbage.bin"):
        assert told(check_data(record, place / name)) == {"data file": "rejected"}
    shutil.copy(place / "people.csv", place / "again.csv")
    assert told(check_data(record, place / "again.csv")) == right


def test_files_are_read_as_is_said_and_in_no_other_way(place: Path, tmp_path: Path) -> None:
    """The same people in another dialect, and the same network by another activation, are other files."""
    record = records.read(place / "audit")
    ((_, status, detail),) = check_data(record, table(tmp_path / "commas.csv", 0, sep=",", decimal="."))
    assert status == "rejected" and "cannot be read as the certificate says" in detail
    for part, other in (
        ("table", {"separator": ","}),
        ("table", {"encoding": "zip\n"}),
        ("model", {"activation": "relu"}),
    ):
        forger = Forger(place / "audit", tmp_path / f"{part}{len(str(other))}")
        forger.predicate["reading"][part] |= other
        forged = records.read(forger.done())
        found = check_data(forged, place / "people.csv") if part == "table" else check_model(forged, place / "model.pt")
        assert [status for _, status, _ in found] == ["rejected"] and found[0][2].isprintable(), found
    forger = Forger(place / "audit", tmp_path / "unsaid")
    forger.predicate["reading"] = {"table": None, "model": None}
    forged = records.read(forger.done())
    assert told(check_data(forged, place / "people.csv")) == {"data file": "rejected"}
    assert told(check_model(forged, place / "model.pt")) == {"model file": "rejected"}


def test_other_weights_are_those_of_another_population(place: Path, tmp_path: Path) -> None:
    """The same people, of whom those who are treated well count more."""
    forger = Forger(place / "audit", tmp_path)
    forger.put("people.weights", np.r_[100.0, np.ones(5)])
    assert told(check_data(records.read(forger.done()), place / "people.csv")) == {"data file": "rejected"}


def test_a_redacted_certificate_is_held_against_its_table_too(place: Path, tmp_path: Path) -> None:
    forger = Forger(place / "audit", tmp_path)
    forger.predicate["withheld"] = ["people.x"]
    forger.file("people.x").unlink()
    record = records.read(forger.done())
    assert record.people is None
    assert told(check_data(record, place / "people.csv"))["data file"] == "recomputed"
    assert told(check_data(record, place / "others.csv")) == {"data file": "rejected"}


def test_the_whole_table_has_as_many_rows_as_the_table(tmp_path: Path) -> None:
    """Four well-treated people of eighty were "the whole table": nothing but the table can tell."""
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    some = table(tmp_path / "people.csv", 0, n=80)
    people = read(some)
    write(tmp_path, network, people[:4])
    forger = Forger(tmp_path / "audit", tmp_path)
    assert told(check_data(records.read(tmp_path / "audit"), some))["data rows"] == "recomputed"  # chosen by hand
    wrong = {"people": 4, "pool": 4, "rows": 4, "how": "all"}
    for more in (wrong, wrong | {"rows": None, "pool": None}, wrong | {"part": "test", "rows": 80}):
        forger.predicate["selection"] |= more
        forged = forger.done()
        assert main(["verify", str(forged)]) == 0  # without the table it is the issuer's word, and said to be
        assert told(check_data(records.read(forged), some))["data rows"] == "rejected", more
        assert main(["verify", str(forged), "--data", str(some)]) == 1


@pytest.mark.parametrize("draw", ["seed", "part", "excluded"])
def test_a_draw_is_drawn_again(draw: str, tmp_path: Path) -> None:
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    some = table(tmp_path / "people.csv", 0, n=80)
    write(tmp_path, network, read(some).test.sample(5, 3))
    assert told(check_data(records.read(tmp_path / "audit"), some))["data rows"] == "recomputed"
    forger = Forger(tmp_path / "audit", tmp_path)
    lies = {"seed": {"seed": 4}, "part": {"part": "all", "pool": 80}, "excluded": {"excluded": 1}}
    forger.predicate["selection"] |= lies[draw]
    assert told(check_data(records.read(forger.done()), some))["data rows"] == "rejected"


def test_a_credit_limit_is_no_probability(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number far from 0, read through a sigmoid, changes nothing: 1e-6 was certified of it. Where a file says what
    its numbers are, nothing else is taken; where it does not, the issuer's declaration is named as one."""
    path = model(tmp_path / "limit.pt", 0, outputs=1, scale=40.0)
    people = read(table(tmp_path / "people.csv", 0))
    network = open_network(path, SCHEMA, head="sigmoid", activation="tanh")
    write(tmp_path, network, people, epsilon=1e-6)
    status = main(["verify", str(tmp_path / "audit"), "--model", str(path)])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert status == 0 and "sigmoid: declared by the issuer, the file does not say it" in shown
    assert "one probability (sigmoid), declared by the issuer" in shown
    forger = Forger(tmp_path / "audit", tmp_path)
    forger.question["head_from"] = "file"
    assert told(check_model(records.read(forger.done()), path))["head"] == "rejected"
    forger.predicate["reading"]["model"]["head"] = "auto"
    assert told(check_model(records.read(forger.done()), path)) == {"model file": "rejected"}


def test_a_file_that_says_what_its_numbers_are_is_believed(tmp_path: Path) -> None:
    skio = pytest.importorskip("skops.io")
    from sklearn.linear_model import LinearRegression, LogisticRegression

    people = read(table(tmp_path / "people.csv", 0))
    for name, of, head in (("limit", LinearRegression(), "regression"), ("grade", LogisticRegression(), "sigmoid")):
        skio.dump(of.fit(people.x, np.arange(6) % 2), tmp_path / f"{name}.skops")
        network = open_network(tmp_path / f"{name}.skops", SCHEMA, reads="coordinates")
        assert network.head == head
        write(tmp_path, network, people)
        record = records.read(tmp_path / "audit")
        assert record.document["question"]["head_from"] == "file"
        assert told(check_model(record, tmp_path / f"{name}.skops")) == {
            "model file": "recomputed",
            "head": "recomputed",
        }
        shutil.rmtree(tmp_path / "audit")
        if name == "limit":  # the certificate of a forger, who has a network of his own making
            forged = replace(network, head="sigmoid")
            write(tmp_path, forged, people)
            forger = Forger(tmp_path / "audit", tmp_path)
            forger.predicate["reading"]["model"]["head"] = "sigmoid"
            found = told(check_model(records.read(forger.done()), tmp_path / "limit.skops"))
            assert "rejected" in found.values()
            shutil.rmtree(tmp_path / "audit")


def test_an_audit_says_how_it_read_its_files(tmp_path: Path) -> None:
    path, some = model(tmp_path / "model.pt", 0), table(tmp_path / "people.csv", 0)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    (tmp_path / "audit.toml").write_text(
        'data = "people.csv"\nschema = "schema.toml"\nmodel = "model.pt"\nseparator = ";"\ndecimal = ","\n'
        'head = "softmax"\nactivation = "tanh"\nno_search = true\n'
    )
    assert main(["audit", str(tmp_path / "audit.toml"), "--out", str(tmp_path / "out")]) == 0
    said = json.loads((tmp_path / "out" / "certificate.json").read_text())["predicate"]["reading"]
    assert said["table"] == TABLE
    assert said["model"] == {"head": "softmax", "output": None, "activation": "tanh", "reads": "auto"}
    assert main(["verify", str(tmp_path / "out"), "--model", str(path), "--data", str(some)]) == 0


FRENCH = Schema(
    "gens",
    (
        Feature("âge", low=0.0, high=10.0, unit=5.0, tolerance=1.0, fill=5.0, missing_values=("?",)),
        Feature("sexe", "categorical", categories=("féminin", "masculin"), protected=True),
        Feature("métier", "categorical", categories=("a;x", 'b"y'), missing="category", missing_values=("?",)),
    ),
)
DIALECTS: dict[str, dict[str, Any]] = {
    "fr.csv": {"separator": ";", "encoding": "latin-1", "decimal": ","},
    "fr.csv.gz": {"separator": ";", "encoding": "latin-1", "decimal": ","},
    "fr.tsv": {"decimal": ","},
    "fr.txt": {"separator": "|", "encoding": "utf-16"},
    "fr.parquet": {},
    "parts": {"engine": "local"},
}


def french(folder: Path) -> None:
    """The same people in files of every kind, some cells missing in the words of each."""
    rng = np.random.default_rng(0)
    age, n = rng.uniform(0, 10, 30).round(3), 30
    frame = pd.DataFrame({"âge": age, "sexe": rng.choice(["féminin", "masculin"], n)})
    frame["métier"] = rng.choice(["a;x", 'b"y', "?"], n)
    frame.loc[::7, "âge"] = np.nan
    for name, mark, options in (
        ("fr.csv", ",", {"sep": ";", "encoding": "latin-1"}), ("fr.csv.gz", ",", {"sep": ";", "encoding": "latin-1"}),
        ("fr.tsv", ",", {"sep": "\t"}), ("fr.txt", ".", {"sep": "|", "encoding": "utf-16"}),
    ):  # fmt: skip
        frame.to_csv(folder / name, index=False, decimal=mark, na_rep="?" if name < "fr.t" else "NA", **options)
    frame.to_parquet(folder / "fr.parquet")
    (folder / "parts").mkdir()
    frame[:20].to_parquet(folder / "parts" / "a.parquet")
    frame[20:].to_parquet(folder / "parts" / "b.parquet")


@pytest.mark.parametrize("name", DIALECTS)
def test_tables_of_every_kind_are_read_as_they_were(name: str, tmp_path: Path) -> None:
    """Semicolons, decimal commas, latin-1, "?" and NA for what is missing, packed, Parquet, a folder that is streamed:
    the certificate says it, and the file of another kind is another one although it holds the same people."""
    french(tmp_path)
    FRENCH.save(tmp_path / "schema.toml")
    rng, width = np.random.default_rng(1), FRENCH.width
    state = {"0.weight": rng.normal(size=(2, width)), "0.bias": rng.normal(size=2)}
    torch.save({key: torch.tensor(value) for key, value in state.items()}, tmp_path / "model.pt")
    files = {key: str(tmp_path / of) for key, of in (("data", name), ("schema", "schema.toml"), ("model", "model.pt"))}
    plan = files | {"head": "softmax", "no_search": True} | DIALECTS[name]
    out = isonomy.audit(plan, progress=None).save(tmp_path / "out")
    assert main(["verify", str(out), "--data", files["data"], "--model", files["model"]]) == 0
    record, right = records.read(out), {"data file": "recomputed", "data rows": "recomputed"}
    kind = "parquet" if name in ("fr.parquet", "parts") else "csv"
    assert record.document["reading"]["table"]["kind"] == kind
    assert record.document["reading"]["table"]["separator"] == {"fr.tsv": "\t"}.get(
        name, DIALECTS[name].get("separator")
    )
    same = {"fr.csv": "fr.csv.gz", "fr.csv.gz": "fr.csv", "fr.parquet": "parts", "parts": "fr.parquet"}
    for other in DIALECTS:
        found = told(check_data(record, tmp_path / other))
        assert found == (right if other in (name, same.get(name)) else {"data file": "rejected"}), other


@pytest.mark.parametrize(
    "edit", [{"quote": "'"}, {"missing": ["?"]}, {"missing": []}, {"decimal": "."}, {"encoding": "latin-1"}]
)
def test_every_mark_of_a_table_is_followed(edit: dict[str, Any], place: Path, tmp_path: Path) -> None:
    """Also one that would give the same people: what the certificate says of the reading is what was done."""
    forger = Forger(place / "audit", tmp_path / "other")
    forger.predicate["reading"]["table"] |= edit
    found = told(check_data(records.read(forger.done()), place / "people.csv"))
    assert found == {"data file": "rejected"} or "encoding" in edit  # ASCII letters are those of latin-1


def test_marks_of_a_table_are_said_all_or_of_parquet_none(place: Path, tmp_path: Path) -> None:
    for number, edit in enumerate(({"quote": None}, {"missing": None}, {"kind": "parquet"}, {"kind": "xlsx"})):
        forger = Forger(place / "audit", tmp_path / str(number))
        forger.predicate["reading"]["table"] |= edit
        with pytest.raises(FileError, match=r"reading\.table"):
            records.read(forger.done())


def test_a_folder_that_is_neither_table_nor_arrays_is_no_answer(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was passed over in silence, and the certificate accepted."""
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(place / "audit"), "--data", str(tmp_path / "empty")]) == 1
    assert main(["verify", str(place / "audit"), "--data", str(tmp_path / "nowhere")]) == 2
    capsys.readouterr()
    assert main(["verify", str(place / "audit"), "--data", str(place / "audit" / "evidence")]) == 0
    assert "withholds nothing" in capsys.readouterr().out


@pytest.mark.parametrize("lie", [{"excluded": 0, "rows": None}, {"rows": 80}, {"pool": 70, "rows": None}])
def test_rows_that_were_left_out_are_counted(lie: dict[str, Any], tmp_path: Path) -> None:
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    some = table(tmp_path / "people.csv", 0, n=80)
    some.write_text(some.read_text() + "11,5;f\n1,5;x\n")
    people = read(some, unknown="exclude")
    assert people.excluded == 2
    asked: dict[str, Any] = {"attack": False, "progress": None}
    found = isonomy.certify(network, people.sample(5, 3), isonomy.Counterparts.of(SCHEMA), 1.0, **asked)
    records.write(tmp_path / "audit", found, table=TABLE | {"unknown": "exclude"})
    assert told(check_data(records.read(tmp_path / "audit"), some))["data rows"] == "recomputed"
    forger = Forger(tmp_path / "audit", tmp_path)
    forger.predicate["selection"] |= lie
    assert told(check_data(records.read(forger.done()), some))["data rows"] == "rejected"


def test_what_no_table_can_show_of_a_draw_is_the_issuers_word(tmp_path: Path) -> None:
    """A seed can be tried until it pleases, and a choice be called chance: neither is said to be counted."""
    network = open_network(model(tmp_path / "model.pt", 0), SCHEMA, head="softmax", activation="tanh")
    some = table(tmp_path / "people.csv", 0, n=80)
    write(tmp_path, network, read(some).sample(5, 3))
    assert "that no other seed was tried before is the issuer" in str(
        check_data(records.read(tmp_path / "audit"), some)
    )
    forger = Forger(tmp_path / "audit", tmp_path)
    forger.predicate["selection"]["seed"] = None
    assert "that chance drew them is the issuer" in str(check_data(records.read(forger.done()), some))


def two_outputs(path: Path) -> Path:
    """An ONNX file of raw or of encoded columns, which gives a softmax "p" and a raw "z" of two others."""
    rng, width = np.random.default_rng(2), SCHEMA.width
    constants = {name: rng.normal(size=(width, 2)) for name in "VW"}
    nodes = [node("MatMul", "x", "V", out="v"), node("Softmax", "v", out="p"), node("MatMul", "x", "W", out="z")]
    path.write_bytes(build(nodes, constants, shape=("n", width), outputs=("p", "z")).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("options", "head", "other"),
    [
        ({"output": "p"}, "recomputed", {"output": "z"}),
        ({"output": "z", "head": "softmax"}, "trusted", {"output": "p"}),
        ({"output": "z", "head": "softmax"}, "trusted", {"head": "auto", "output": None}),
        ({"output": "p", "reads": "coordinates"}, "recomputed", {"reads": "raw"}),
        ({"output": "z", "head": "regression"}, "trusted", {"output": "nothing"}),
    ],
)
def test_models_are_read_with_the_options_of_the_certificate(
    options: dict[str, Any], head: str, other: dict[str, Any], tmp_path: Path
) -> None:
    path, people = two_outputs(tmp_path / "model.onnx"), read(table(tmp_path / "people.csv", 0))
    write(tmp_path, open_network(path, SCHEMA, **options), people)
    record = records.read(tmp_path / "audit")
    assert {key: record.document["reading"]["model"][key] for key in options} == options
    assert told(check_model(record, path)) == {"model file": "recomputed", "head": head}
    forger = Forger(tmp_path / "audit", tmp_path)
    forger.predicate["reading"]["model"] |= other
    assert "rejected" in told(check_model(records.read(forger.done()), path)).values()


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_a_model_of_raw_columns_is_read_by_the_schema(ending: str, tmp_path: Path) -> None:
    """Its embeddings have an order of categories that ``[model.inputs]`` says: in another it is another model."""
    pytest.importorskip("h5py")
    schema = Schema.from_toml("name = 'p'\n" + EMBEDDED)
    schema = replace(schema, features=tuple(replace(f, protected=f.name == "sex") for f in schema.features))
    frame = pd.DataFrame({"age": [20, 40], "sex": ["female", "male"], "job": ["cook", "judge"]})
    path, people = FILES / f"embedded.{ending}", Population.from_frame(frame, schema)
    asked: dict[str, Any] = {"attack": False, "progress": None}
    found = isonomy.certify(open_network(path, schema), people, isonomy.Counterparts.of(schema), 1.0, **asked)
    records.write(tmp_path / "audit", found)
    record = records.read(tmp_path / "audit")
    assert told(check_model(record, path)) == {"model file": "recomputed", "head": "recomputed"}
    forger = Forger(tmp_path / "audit", tmp_path)
    forger.table("schema.toml", lambda t: t["model"]["inputs"]["job"]["categories"].reverse())
    assert told(check_model(records.read(forger.done()), path)) == {"model file": "rejected"}
