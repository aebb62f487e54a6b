"""Certificates of models of which only predictions are known: derived again, under that condition, and not forged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import isonomy
from isonomy import Counterparts, Enumeration, Part, Population, Schema, Transport, records
from isonomy.auditing.originals import check_model
from isonomy.cli import app
from isonomy.errors import DataError, ParameterError
from isonomy.population import Feature, Label
from isonomy_verify import BadInput, verify

from .conftest import Forger, refused, statuses
from .edits import Edit, array, claim

CONDITION = "given these predictions"
FEATURES = (
    Feature("sex", "categorical", categories=("f", "m"), protected=True),
    Feature("race", "categorical", categories=("a", "b", "c"), protected=True, missing="category"),
    Feature("age", "integer", low=20, high=60, tolerance=2.0),
    Feature("income", "numeric", low=0.0, high=100.0),
)
SCHEMA = Schema("people", FEATURES, Label("y", ("no", "yes")))


def people(count: int = 8) -> Population:
    rng = np.random.default_rng(5)
    columns = {
        "sex": rng.choice(["f", "m"], count), "race": rng.choice(["a", "b", "c", None], count),
        "age": rng.integers(20, 61, count), "income": rng.uniform(0, 100, count).round(2),
        "y": rng.choice(["no", "yes"], count),
    }  # fmt: skip
    return Population.from_frame(pd.DataFrame(columns), SCHEMA)


def score(frame: pd.DataFrame) -> np.ndarray:
    race = frame["race"].map({"a": 0.0, "b": 0.1, "c": 0.05}).fillna(0.15).to_numpy(dtype=float)
    return (frame["sex"] == "m") * 0.2 + race + (frame["age"] % 7) / 50 + frame["income"] / 300


def write(place: Path, shift: Any, model: Enumeration | None = None, **options: Any) -> Path:
    model = Enumeration(score, SCHEMA) if model is None else model
    found = isonomy.certify(
        model, people(), Counterparts.of(SCHEMA), shift=shift, epsilon=0.5, decide=True, progress=None
    )
    records.write(place, found, **options)
    return place


@pytest.fixture(scope="session")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("enumerated"), Part(0.5))


def test_it_is_accepted_given_these_predictions(part: Path) -> None:
    found = verify(part)
    assert found.accepted and found.condition == CONDITION and found.answer == f"accepted, {CONDITION}"
    assert 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper <= found.proved_lower + 3e-6
    assert (
        "undecided"
        not in json.loads((part / "certificate.json").read_text())["predicate"]["claims"]["local"]["decisions"]
    )
    told = statuses(found)
    assert told["individuals"] == told["lower"] == told["witnesses"] == "proved again" and told["model"] == "trusted"
    for name, status, detail in found.claims:
        if "certified" in detail or status in ("proved again", "recomputed"):
            assert CONDITION in detail or name == "other shifts", name
    document = json.loads((part / "certificate.json").read_text())
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))


@pytest.mark.parametrize("shift", [0.0, Part(1.0)])
def test_other_shifts_are_accepted_too(shift: Any, tmp_path: Path) -> None:
    assert verify(write(tmp_path, shift)).accepted


def test_people_who_move_are_listed_too(tmp_path: Path) -> None:
    """Where all are whole; a number that may be any is refused by its name."""
    with pytest.raises(ParameterError, match="infinitely many values of 'income'"):
        write(tmp_path, Transport(0.02))
    features = (FEATURES[0], Feature("age", "integer", low=20, high=24, tolerance=1.0, origin=0, unit=1))
    schema, rng = Schema("few", features), np.random.default_rng(2)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 6), "age": rng.integers(20, 25, 6)})
    model = Enumeration(lambda frame: (frame["sex"] == "m") * 0.4 + (frame["age"] - 20) ** 2 / 50, schema, name="few")
    some = Population.from_frame(table, schema)
    found = isonomy.certify(model, some, Counterparts.of(schema), shift=Transport(0.5, ground="l1"), progress=None)
    records.write(tmp_path, found)
    assert 0 < found.lower <= found.upper < 1 and verify(tmp_path).accepted


@pytest.mark.parametrize("outputs", [0, 3])
def test_several_classes_and_numbers(outputs: int, tmp_path: Path) -> None:
    def gives(frame: pd.DataFrame) -> np.ndarray:
        p = np.asarray(score(frame))
        return np.stack([p, (1 - p) / 3, 2 * (1 - p) / 3], axis=1) if outputs else 100 * p

    label = Label("z", ("a", "b", "c") if outputs else ())
    model = Enumeration(gives, Schema("people", FEATURES, label), head="probability" if outputs else "regression")
    some = people().frame.assign(z="a" if outputs else 1.0)
    table = Population.from_frame(some, Schema("people", FEATURES, label))
    found = isonomy.certify(model, table, Counterparts.of(SCHEMA), shift=Part(0.5), progress=None,
                            output_range=None if outputs else (0.0, 100.0))  # fmt: skip
    records.write(tmp_path, found)
    assert verify(tmp_path).accepted and found.lower == pytest.approx(found.upper)


def test_commands_say_the_condition_wherever_they_say_certified(part: Path) -> None:
    run = CliRunner()
    for command in (["verify", str(part)], ["compare", str(part), str(part)], ["explain", str(part), "--row", "0"]):
        done = run.invoke(app, command, env={"COLUMNS": "400"})
        assert done.exit_code == 0 and CONDITION in done.output.lower(), done.output
        for line in done.output.splitlines():
            if any(word in line.lower() for word in ("accepted", "certified")):
                assert CONDITION in line.lower(), line


def test_a_model_file_is_not_read(part: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"no pickle is opened")
    ((name, status, detail),) = check_model(records.read(part), tmp_path / "model.pkl")
    assert (name, status) == ("model file", "not checked") and "no prediction was computed again" in detail


def test_a_record_knows_its_people_alone(part: Path) -> None:
    record = records.read(part)
    model, own = record.problem.model, people()
    assert model(own.x)[:, 1] == pytest.approx(np.asarray(score(own.frame)), abs=1e-12)
    other = own.x.copy()
    other[:, SCHEMA.slices["income"]] += 1e-3
    with pytest.raises(DataError, match=r"this person is not among them: predictions of others need the model"):
        model(other)


def test_a_redacted_one_withholds_the_people(tmp_path: Path, part: Path) -> None:
    write(tmp_path, Part(0.5), redact=True)
    assert not (tmp_path / "evidence" / "model.people.bin").exists()
    found = verify(tmp_path)
    assert not found.accepted and statuses(found)["individuals"] == "trusted"
    assert verify(tmp_path, data=part / "evidence").accepted
    assert records.read(tmp_path).people is None


def less(forger: Forger, keep: Any) -> None:
    """Some people of the table are not in it."""
    rows = np.flatnonzero(keep)
    for name in ("people", "outputs"):
        forger.put(f"model.{name}", forger.array(f"model.{name}")[rows])


def without_one(forger: Forger) -> None:
    """Somebody similar, and not asked about in person, is left out."""
    table, own = forger.array("model.people"), forger.array("people.x")
    others = np.flatnonzero(~(table[:, None] == own).all(axis=2).any(axis=1))
    less(forger, np.arange(len(table)) != others[len(others) // 2])


def without_the_worst(forger: Forger) -> None:
    table, worst = forger.array("model.people"), forger.array("local.counterpart")[0]
    less(forger, ~(table == worst).all(axis=1))


def twice(value: float | None) -> Edit:
    def edit(forger: Forger) -> None:
        table, values = forger.array("model.people"), forger.array("model.outputs")
        forger.put("model.people", np.concatenate([table, table[:1]]))
        forger.put("model.outputs", np.concatenate([values, values[:1] if value is None else [[value]]]))

    return edit


def flattened(forger: Forger) -> None:
    """Everybody is predicted the same, and nothing else is changed."""
    forger.change("model.outputs", lambda values: np.full_like(values, values.mean()))


FORGERIES: dict[str, list[Edit]] = {
    "somebody is missing": [without_one, without_the_worst, lambda f: less(f, np.zeros(len(f.array("model.people"))))],
    "another prediction": [
        flattened, array("model.outputs", lambda v: v + np.linspace(0, 0.01, len(v))[:, None]),
        array("model.outputs", lambda v: v * 1.001),
    ],
    "two of one person": [twice(None), twice(0.5)],
    "no probabilities": [array("model.outputs", lambda v, w=w: np.r_[[[w]], v[1:]]) for w in (1.5, -0.1, np.inf)],
    "other shapes": [
        array("model.outputs", lambda v: v[:-1]), array("model.people", lambda x: x[:, :-1]),
        array("model.outputs", lambda v: np.hstack([v, v])), array("model.outputs", lambda v: v[:, 0]),
    ],
    "another kind": [
        lambda f: f.predicate["model"].update(kind="network"), lambda f: f.predicate["model"].update(kind="table"),
        lambda f: f.predicate["model"].update(kinds=["input"]), lambda f: f.predicate.update(model=None),
    ],
    "another head": [lambda f, h=h: f.question.update(head=h) for h in ("softmax", "sigmoid", "regression")],
    "upper lowered": [claim("upper", lambda upper: 0.99 * upper)],
    "lower raised": [claim("lower", lambda lower: lower + 1e-4)],
    "an array more": [lambda f: f.put("model.keys", np.zeros(3))],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, part: Path, tmp_path: Path) -> None:
    for number, edit in enumerate(FORGERIES[name]):
        forger = Forger(part, tmp_path / str(number))
        edit(forger)
        assert refused(forger.done()), number


def test_a_wider_question_than_was_asked_lacks_people(part: Path, tmp_path: Path) -> None:
    forger = Forger(part, tmp_path)
    forger.question["delta"] = 2.0
    with pytest.raises(BadInput, match="lacks"):
        verify(forger.done())


def test_a_report_says_the_condition_with_every_verdict(tmp_path: Path) -> None:
    """From an audit of Python: page, summary, JUnit and the facts of machines."""
    table, schema = tmp_path / "people.csv", tmp_path / "schema.toml"
    people().frame.to_csv(table, index=False)
    SCHEMA.save(schema)
    plan = {"data": str(table), "schema": str(schema), "part": 0.5, "epsilon": 0.9}
    made = isonomy.audit(plan, model=Enumeration(score, SCHEMA), progress=None)
    made.save(tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    for name in ("summary.md", "junit.xml"):
        text = (tmp_path / "out" / name).read_text()
        said = [line for line in text.splitlines() if "within the" in line.lower() or "epsilon 0.9" in line]
        assert said and all(CONDITION in line.lower() for line in said if "isonomy audit" not in line)
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"Average within the limit, {CONDITION}" in page and "within the limit." not in page
    with pytest.raises(ParameterError, match="given twice"):
        isonomy.audit(plan | {"model": "model.onnx"}, model=Enumeration(score, SCHEMA), progress=None)
