"""Boosted trees and forests as their users meet them: from a file and a table on the command line, and from Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from starlette.testclient import TestClient

import isonomy
from isonomy import records
from isonomy.cli import main
from isonomy.population import Feature, Label
from isonomy.service import Settings, create_app
from isonomy.service.served import Served
from isonomy_verify import verify

TEXTS = ["sex", "town"]


def people() -> pd.DataFrame:
    """A table with numbers, whole numbers, texts, booleans, and gaps in some of them."""
    rng, n = np.random.default_rng(0), 160
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 75, n), "sex": rng.choice(["female", "male"], n),
            "income": np.round(rng.gamma(4, 9000, n), 1), "town": rng.choice(["Ulm", "Bonn", "Aachen"], n),
            "member": rng.random(n) < 0.4,
        }
    )  # fmt: skip
    score = frame["age"] / 20 + frame["income"] / 20000 + 0.9 * (frame["sex"] == "male") + 0.5 * frame["member"]
    frame["approved"] = np.where(score + rng.normal(0, 0.4, n) > 4.4, "yes", "no")
    frame.loc[rng.random(n) < 0.06, "income"] = np.nan
    frame.loc[rng.random(n) < 0.06, "town"] = None
    return frame


def fitted(kind: str, frame: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
    """A model of a library, and the table as it reads it."""
    x, y = frame.drop(columns="approved"), (frame["approved"] == "yes").astype(int)
    if kind == "forest":  # takes no gaps
        x = x.assign(income=x["income"].fillna(3e4), town=x["town"].fillna("Bonn"))
        columns = make_column_transformer((OneHotEncoder(), TEXTS), remainder="passthrough")
        return make_pipeline(columns, RandomForestClassifier(8, max_depth=4, random_state=0)).fit(
            x, frame["approved"]
        ), x
    if kind == "catboost":
        library = pytest.importorskip("catboost")
        x = x.assign(town=x["town"].fillna("Bonn"))
        model = library.CatBoostClassifier(
            iterations=10, depth=3, one_hot_max_size=255, cat_features=TEXTS, verbose=0, thread_count=1,
            allow_writing_files=False,
        )  # fmt: skip
        return model.fit(x, y), x
    coded = x.astype(dict.fromkeys(TEXTS, "category"))
    if kind == "xgboost":
        library = pytest.importorskip("xgboost")
        return library.XGBClassifier(n_estimators=10, max_depth=3, enable_categorical=True, n_jobs=1).fit(coded, y), x
    library = pytest.importorskip("lightgbm")
    return library.LGBMClassifier(n_estimators=10, num_leaves=6, verbose=-1, n_jobs=1).fit(coded, y), x


def saved(kind: str, model: Any, folder: Path) -> Path:
    if kind == "forest":
        import skops.io

        skops.io.dump(model, folder / "model.skops")
        return folder / "model.skops"
    path = folder / ("model.txt" if kind == "lightgbm" else "model.json")
    if kind == "lightgbm":
        model.booster_.save_model(path)
    else:
        model.save_model(str(path), **({"format": "json"} if kind == "catboost" else {}))
    return path


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*words: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return status, out + err

    return call


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost", "forest"])
def test_from_a_file_and_a_table(kind: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = fitted(kind, people())
    table.assign(approved=people()["approved"]).to_csv("people.csv", index=False)
    path = saved(kind, model, tmp_path)
    roles = "--label", "approved", "--favourable", "yes", "--protected", "sex"
    status, text = run("init", "people.csv", path, *roles)
    assert status == 0 and "accuracy" in text and "cannot be read" not in text, text
    status, text = run("audit", "audit.toml", "--out", "out", "--limit", "12", "--gamma", "0.02")
    assert status == 0, text
    status, text = run("verify", "out", "--model", path, "--data", "people.csv")
    assert status == 0 and "gives the certified tree ensemble" in text, text
    status, text = run("explain", "out")
    assert status == 0 and "sex" in text, text
    status, text = run("compare", "out", "out")
    assert status == 0, text
    record = records.read(tmp_path / "out")
    given = record.problem.model(record.people.x) if record.people is not None else None
    assert given is not None
    original = model.predict_proba(_as_fitted(kind, table).iloc[record.rows])
    np.testing.assert_allclose(given, original, atol=2e-6)
    row = json.loads(table.iloc[:1].to_json(orient="records"))[0]
    monkeypatch.setattr("isonomy.service.app.LOOPBACK", ("testserver",))
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}")
    with TestClient(create_app(Served.from_directory(tmp_path / "out"), settings)) as client:
        answer = client.post("/v1/predictions", json={"individuals": [row]})
    assert answer.status_code == 200, answer.text
    served, original = answer.json()["predictions"][0]["outputs"], model.predict_proba(_as_fitted(kind, table))[0]
    np.testing.assert_allclose(served, original, atol=2e-6)


def _as_fitted(kind: str, table: pd.DataFrame) -> pd.DataFrame:
    return table.astype(dict.fromkeys(TEXTS, "category")) if kind in ("xgboost", "lightgbm") else table


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost", "forest"])
def test_from_a_live_object(kind: str, tmp_path: Path) -> None:
    model, table = fitted(kind, people())
    table = table.assign(approved=people()["approved"])
    schema = isonomy.Schema.infer(table, label="approved", protected=["sex"])
    some = isonomy.Population.from_frame(table, schema).sample(12)
    judged = isonomy.load_model(model, schema)
    original = model.predict_proba(_as_fitted(kind, table.drop(columns="approved")).iloc[some.rows])
    np.testing.assert_allclose(judged(some.x), original, atol=2e-6)
    found = isonomy.certify(judged, some, isonomy.Counterparts.of(schema), gamma=0.01, progress=None, rounds=0)
    assert 0 <= found.lower <= found.upper <= 1
    records.write(tmp_path, found)
    assert verify(tmp_path).accepted


def stopped(folder: Path) -> tuple[Path, Any]:
    """A model that holds more rounds than its best one, and the library's model."""
    library = pytest.importorskip("xgboost")
    frame = people()
    x, y = frame[["age", "income"]], (frame["approved"] == "yes").astype(int)
    rng = np.random.default_rng(1)
    noise = np.where(rng.random(len(y)) < 0.3, 1 - y, y)
    model = library.XGBClassifier(n_estimators=40, max_depth=5, early_stopping_rounds=4, n_jobs=1)
    model.fit(x[:80], noise[:80], eval_set=[(x[80:], noise[80:])], verbose=False)
    model.save_model(str(folder / "model.json"))
    return folder / "model.json", model


def test_early_stopping_is_asked_for_recorded_and_followed(run: Run, tmp_path: Path) -> None:
    path, model = stopped(tmp_path)
    people()[["age", "income", "approved"]].to_csv("people.csv", index=False)
    assert run("init", "people.csv", path, "--label", "approved", "--favourable", "yes", "--protected", "age")[0] == 0
    assert 'trees = "best"' in Path("audit.toml").read_text()
    plan = "audit", "--data", "people.csv", "--schema", "schema.toml", "--model", path, "--limit", "8", "--gamma", "0"
    status, text = run(*plan, "--out", "asked")
    assert status != 0 and "stopped early" in text
    for trees in ("all", "best", "2"):
        status, text = run(*plan, "--as-read", "--trees", trees, "--out", trees)
        assert status == 0, text
        reading = json.loads(Path(trees, "certificate.json").read_text())["predicate"]["reading"]["model"]
        assert reading["trees"] == (2 if trees == "2" else trees)
        status, text = run("verify", trees, "--model", path)
        assert status == 0 and "boosting rounds" in text, text
    record, best = records.read(tmp_path / "best"), (0, model.best_iteration + 1)
    table = pd.read_csv("people.csv")[["age", "income"]].iloc[record.rows]
    given = model.predict_proba(table, iteration_range=best)
    np.testing.assert_allclose(record.problem.model(record.people.x), given, atol=2e-6)
    status, text = run(*plan, "--trees", "several", "--out", "none")
    assert status != 0 and "all, best, or a number of rounds" in text


def test_rounds_of_a_network_are_refused(tmp_path: Path) -> None:
    from isonomy.loading import open_model

    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(isonomy.errors.ParameterError, match="'trees' must be left out"):
        open_model(tmp_path / "model.onnx", None, trees="best")


def test_a_lowered_error_of_the_run_is_not_the_model_of_the_file(run: Run, tmp_path: Path) -> None:
    """What a library's own sums are off by is in the record; the model file shows it again."""
    import hashlib

    model, table = fitted("xgboost", people())
    table.assign(approved=people()["approved"]).to_csv("people.csv", index=False)
    path = saved("xgboost", model, tmp_path)
    assert run("init", "people.csv", path, "--label", "approved", "--protected", "sex")[0] == 0
    assert run("audit", "audit.toml", "--out", "out", "--limit", "6", "--gamma", "0")[0] == 0
    file, document = Path("out/evidence/model.run_error.bin"), json.loads(Path("out/certificate.json").read_text())
    file.write_bytes((np.fromfile(file) / 2).tobytes())
    for each in document["subject"]:
        if each["name"] == "evidence/model.run_error.bin":
            each["digest"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    Path("out/certificate.json").write_text(json.dumps(document))
    status, text = run("verify", "out", "--model", path)
    assert status != 0 and "gives another tree ensemble than the certified one" in text, text


@pytest.mark.parametrize("engine", [(), ("--engine", "local")])
def test_numbers_next_to_a_threshold_are_refused(engine: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    """Where the coordinate of a number is that of a number on the other side of a threshold."""
    library = pytest.importorskip("lightgbm")
    frame = pd.DataFrame({"income": np.repeat([1.0, 1.0 + 2e-12], 60), "age": np.arange(120) % 40 + 20})
    frame["approved"] = np.where(frame["income"] > 1.0, "yes", "no")
    model = library.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1, min_data_in_bin=1)
    path = saved("lightgbm", model.fit(frame[["income", "age"]], frame["approved"] == "yes"), tmp_path)
    frame.to_csv("people.csv", index=False, float_format="%.17g")
    features = (
        Feature("income", "numeric", low=0.0, high=1e9, origin=1e8, unit=1.0),
        Feature("age", "integer", low=18, high=90, protected=True),
    )
    isonomy.Schema("close", features, label=Label("approved", ("no", "yes"))).save("schema.toml")
    plan = "audit", "--data", "people.csv", "--schema", "schema.toml", "--model", path, "--gamma", "0"
    status, text = run(*plan, *engine, "--out", "out")
    assert status != 0 and "so close to the threshold" in text.replace("\n", " "), text
