"""One call from a model and a frame to a finding; the same question on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import isonomy
from isonomy.auditing import asking
from isonomy.cli import main
from isonomy.errors import IsonomyError
from isonomy.loading import open_source
from isonomy.report.facts import facts_of
from isonomy.report.terminal import to_terminal
from isonomy.report.text import to_json, to_markdown
from isonomy_verify import verify

xgboost = pytest.importorskip("xgboost")

ASKED: dict[str, Any] = {"label": "approved", "protected": ["sex"], "similar": {"age": 2, "income": "5%"}}
QUIET: dict[str, Any] = {"progress": None, "quiet": True}
COLUMNS = ["age", "sex", "income", "town"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 90
    table = pd.DataFrame(
        {
            "applicant_id": [f"A-{i}" for i in range(n)],
            "age": rng.integers(18, 75, n),
            "sex": rng.choice(["female", "male"], n),
            "income": np.round(rng.gamma(4, 9000, n), 2),
            "town": rng.choice(["Hull", "Leeds", "York"], n),
        }
    )
    score = (table["age"] - 40) / 20 + (table["income"] - 36000) / 20000 + 0.7 * (table["sex"] == "male")
    return table.assign(approved=np.where(score + rng.normal(0, 0.5, n) > 0.3, "yes", "no"))


@pytest.fixture(scope="module")
def boosted(people: pd.DataFrame) -> Any:
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True)
    return model.fit(typed(people[COLUMNS]), people["approved"] == "yes")


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(("sex", "town"), "category"))


def as_kind(frame: pd.DataFrame, kind: str) -> Any:
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    return pa.Table.from_pandas(frame) if kind == "pyarrow" else frame


def pandas_of(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_live_model_and_a_frame(
    kind: str, people: pd.DataFrame, boosted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding first; a frame of the kind that was given; each flip is one by the library's own prediction."""
    given = as_kind(people, kind)
    audit = isonomy.audit(boosted, given, **ASKED, favourable="approved", progress=None)
    assert "isonomy: people are named by column 'applicant_id'" in capsys.readouterr().out and audit.notes
    shown = repr(audit).splitlines()
    assert len(shown) == 3 and f"of {len(people)} people somebody similar gets another decision" in shown[0]
    table = audit.people
    assert type(table) is type(given)
    rows = pandas_of(table)
    assert rows["applicant_id"].tolist() == people["applicant_id"].tolist()
    flips = pandas_of(audit.flips(by="sex"))
    assert flips["people"].sum() == (rows["decision"] == "flippable").sum() > 0
    assert f"for {flips['people'].sum():,} of" in shown[0] and set(flips["direction"]) <= {"gain", "loss"}
    assert (flips["becomes"].eq("yes") == flips["direction"].eq("gain")).all()
    local = audit.certificate.local
    own, other = (audit.certificate.problem.raw(each) for each in (local.x, local.witnesses.flip_counterpart))
    levels = {name: pd.CategoricalDtype(sorted(people[name].unique())) for name in ("sex", "town")}
    own, other = own.astype(levels), other.astype(levels)
    gets = [boosted.predict_proba(each[COLUMNS])[:, 1] for each in (own, other)]
    marked = local.witnesses.flips
    assert ((gets[0] >= 0.5) != (gets[1] >= 0.5))[marked].all()
    assert (np.abs(own["age"] - other["age"]) <= 2).all() and (own["town"] == other["town"]).all()
    for row in flips.to_dict("records"):
        same = marked & (own["sex"].astype(str) == row["from"]) & (other["sex"].astype(str) == row["to"])
        same &= (gets[1] >= 0.5) == (row["becomes"] == "yes")
        assert same.sum() == row["people"]
        assert np.mean((gets[1] - gets[0])[same]) == pytest.approx(row["mean_change"], abs=1e-6)
    some = rows["applicant_id"][marked.argmax()]
    assert some in repr(audit.explain(some)) and audit.explain(some).to_dict()["id"] == some
    with pytest.raises(IsonomyError, match="'who' must be an id"):
        audit.explain("A-nobody")
    assert "<iframe" in audit._repr_html_() and audit.report().startswith("<!DOCTYPE html>")  # type: ignore[union-attr]
    assert Path(audit.report(tmp_path / "page")) == tmp_path / "page" / "report.html"


def test_what_is_saved_asks_again(people: pd.DataFrame, boosted: Any, tmp_path: Path) -> None:
    """Files of the question, the checker, a comparison, a picture."""
    audit = isonomy.audit(boosted, people, **ASKED, epsilon=0.5, limit=30, noun="loan applicants", **QUIET)
    assert "of 30 loan applicants somebody similar" in repr(audit) and "of 30 loan applicants (" in str(audit.report())
    folder = audit.save(tmp_path / "audit")
    again = isonomy.audit(boosted, people, plan=folder / "question" / "audit.toml", **QUIET)
    assert len(again.certificate) == 30 and again.plan.epsilon == 0.5
    assert again.plan.noun == "loan applicants" and "of 30 loan applicants" in repr(again)
    assert again.certificate.problem.model.hash() == audit.certificate.problem.model.hash()
    for name in ("upper", "lower", "decision"):
        assert (getattr(again.certificate.local, name) == getattr(audit.certificate.local, name)).all()
    assert audit.verify().accepted
    wider = isonomy.audit(boosted, people, **ASKED | {"similar": {"age": 9, "income": "20%"}}, limit=30, **QUIET)
    text = repr(audit.compare(wider))
    assert "different questions" in text and repr(wider.compare(folder)).startswith("#")
    pytest.importorskip("matplotlib").use("agg")
    assert audit.plot().axes[0].get_xlabel() == "people" and audit.plot(by="town")
    with pytest.raises(IsonomyError, match="'by' must be"):
        audit.flips(by="height")


class Anything:
    """A model of which nothing is known but that it predicts, on columns of whole numbers."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def predict_proba(self, frame: Any) -> Any:
        assert isinstance(frame, self.kind)
        member, years = np.asarray(frame["member"]), np.asarray(frame["years"])
        assert member.dtype.kind == "i"
        yes = 1 / (1 + np.exp(-(years - 4 + 2.0 * member)))
        return np.column_stack([1 - yes, yes])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_anything_that_predicts_is_asked_in_the_types_of_the_table(kind: str) -> None:
    """Codes of a protected column arrive as the numbers that they were, in a frame of the kind that was given."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({name: rng.integers(0, most, 40) for name, most in (("member", 2), ("years", 9), ("won", 2))})
    asked: dict[str, Any] = {"label": "won", "protected": "member", "similar": {"years": 1}, **QUIET}
    given = as_kind(table, kind)
    model = Anything(type(given))
    audit = isonomy.audit(model, given, **asked)
    local = audit.certificate.local
    assert (local.upper - local.lower < 1e-9).all() and any("asked for its predictions" in note for note in audit.notes)
    for place in range(40):
        years = table["years"][place] + np.arange(-1, 2)
        inside = years[(years >= 0) & (years <= audit.findings.people.schema.features[1].high)]
        others = pd.DataFrame([(m, y) for m in (0, 1) for y in inside], columns=["member", "years"])
        gives = Anything(pd.DataFrame).predict_proba(others)[:, 1]
        own = Anything(pd.DataFrame).predict_proba(table.iloc[[place]])[0, 1]
        assert local.lower[place] == pytest.approx(np.abs(gives - own).max(), abs=1e-9)
    assert repr(audit).startswith("Given these predictions: ")
    function = isonomy.audit(lambda frame: model.predict_proba(frame)[:, 1], given, **asked)
    assert (function.certificate.local.lower == local.lower).all()


def test_trees_that_no_reader_knows_are_asked(people: pd.DataFrame) -> None:
    """CatBoost with statistics of categories, its default."""
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(
        iterations=3, depth=2, verbose=0, cat_features=["sex", "town"], one_hot_max_size=1, allow_writing_files=False
    ).fit(people[COLUMNS], people["approved"])
    audit = isonomy.audit(model, people, label="approved", protected="sex", similar={"age": 1}, limit=20, **QUIET)
    assert audit.certificate.problem.model.kind == "enumeration" and any("OnlineCtr" in note for note in audit.notes)


def test_networks_and_pipelines_and_torch(people: pd.DataFrame) -> None:
    torch = pytest.importorskip("torch")
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["sex", "town"]))
    model = make_pipeline(columns, LogisticRegression()).fit(people[COLUMNS], people["approved"])
    audit = isonomy.audit(model, people, **ASKED, limit=20, no_search=True, tier="interval", **QUIET)
    assert audit.findings.scores["accuracy"] > 0.7 and audit.certificate.problem.model.kind == "network"
    encoded = columns.transform(people[COLUMNS])
    linear = torch.nn.Linear(encoded.shape[1], 1)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(model[-1].coef_))
        linear.bias.copy_(torch.tensor(model[-1].intercept_))
    module = torch.nn.Sequential(linear, torch.nn.Sigmoid())
    live = isonomy.audit(module, people, **ASKED, limit=20, no_search=True, tier="interval", **QUIET)
    assert np.abs(live.certificate.local.upper - audit.certificate.local.upper).max() < 1e-4


def test_a_model_that_is_read_otherwise_than_it_predicts_is_refused(
    people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a reader does: the model's own predictions on rows of the table have the last word."""
    model, other = (LogisticRegression(C=each).fit(people[["age"]], people["approved"]) for each in (1.0, 1e-4))
    monkeypatch.setattr(asking, "open_source", lambda source, schema, **options: open_source(other, schema, **options))
    with pytest.raises(IsonomyError, match="as it is read: a column has another meaning"):
        isonomy.audit(model, people[["age", "sex", "approved"]], label="approved", protected="sex", **QUIET)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"similar": {"height": 2}}, "'similar' must be NAME=2"),
        ({"similar": {"town": 2}}, "any: it is a category"),
        ({"similar": {"age": "much"}}, "a number >= 0, a share such as 5%"),
        ({"label": "outcome"}, "no column 'outcome'"),
        ({"favourable": "maybe"}, "'favourable' must be"),
        ({"epsilon": -1}, "'epsilon' must be"),
        ({"plan": 5}, "'plan' must be"),
    ],
)
def test_refusals(change: dict[str, Any], words: str, people: pd.DataFrame, boosted: Any) -> None:
    with pytest.raises(IsonomyError) as caught:
        isonomy.audit(boosted, people, **{**ASKED, **change}, **QUIET)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_missing_is_said(boosted: Any, people: pd.DataFrame) -> None:
    near = KNeighborsRegressor().fit(people[["income"]], people["age"])
    numbers = ASKED | {"label": "age", "similar": {"income": "5%"}}
    for call, words in (
        (lambda: isonomy.audit(boosted), "'frame' must be given"),
        (lambda: isonomy.audit(frame=people), "'model' must be given"),
        (lambda: isonomy.audit(near, people, **numbers, **QUIET), "gives numbers of which no largest change is known"),
        (lambda: isonomy.audit({"data": "german"}, plan={"data": "german"}), "'plan' is given twice"),
        (lambda: isonomy.audit(boosted, people, model=boosted), "'model' is given twice"),
    ):
        with pytest.raises(IsonomyError, match=words):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'heigth'"):
        isonomy.audit(boosted, people, heigth=2)  # type: ignore[call-arg]


def test_the_command_asks_the_same(
    people: pd.DataFrame,
    boosted: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without init, from the two files; the question is written, asks the same again, and is kept once it is edited."""
    monkeypatch.chdir(tmp_path)
    people.to_csv("people.csv", index=False)
    boosted.save_model("model.json")
    words = ["audit", "people.csv", "model.json", "--label", "approved", "--protected", "sex", "--similar", "age=2"]
    words += ["--similar", "income=5%", "--out", "out"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    live = isonomy.audit(boosted, people, **ASKED, **QUIET)
    assert document["upper"] == live.findings.claimed[1] and Path("out/question/schema.toml").is_file()
    assert "isonomy audit people.csv model.json --label approved" in document["command"]
    assert main(["audit", "out/question/audit.toml", "--out", "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["upper"] == document["upper"]
    assert main(["verify", "out/certificate.json", "--model", "model.json", "--data", "people.csv"]) == 0
    assert main(words) == 0  # the question is as it was asked, and may be replaced
    schema = Path("out/question/schema.toml")
    schema.write_text(schema.read_text().replace("tolerance = 2", "tolerance = 3"))
    capsys.readouterr()
    assert main(words) == 2 and "was edited" in capsys.readouterr().err
    assert main(["audit", "out/question/audit.toml", "--out", "out"]) == 0 and "tolerance = 3" in schema.read_text()
    assert main(["audit", "--label", "approved"]) == 2 and main(["audit", "people.csv", "model.json", "extra"]) == 2


def test_anybody_at_all_is_judged_on_request(
    people: pd.DataFrame, boosted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row on the page, the terminal, in Markdown and JSON, of what the certificate claims and a stranger derives."""
    table = typed(people[COLUMNS]).assign(approved=people["approved"])
    audit = isonomy.audit(boosted, table, everywhere=True, **ASKED, **QUIET)
    (gap,) = audit.findings.gaps
    assert gap.features == ("sex",) and gap.decision == "shown" and gap.upper >= gap.lower > 0
    path = audit.save(tmp_path / "one")
    facts = facts_of(audit.findings)
    assert verify(path).accepted and to_json(facts)["everywhere"] == [gap.claim()]
    shown = to_markdown(facts), "\n".join(map(str, to_terminal(facts))), (tmp_path / "one" / "report.html").read_text()
    assert all("For anybody at all" in text for text in shown)
    assert any("another one, also of the table, may change by more" in " ".join(text.split()) for text in shown)
    assert "everywhere" not in to_json(facts_of(isonomy.audit(boosted, table, **ASKED, **QUIET).findings))
    columns = make_column_transformer((OneHotEncoder(), ["sex", "town"]), (StandardScaler(), ["age", "income"]))
    network = make_pipeline(columns, LogisticRegression()).fit(people[COLUMNS], people["approved"])
    with pytest.raises(IsonomyError, match="gap"):
        isonomy.audit(network, people[[*COLUMNS, "approved"]], everywhere=True, **ASKED, **QUIET)
    people.to_csv(tmp_path / "people.csv", index=False)
    boosted.get_booster().save_model(tmp_path / "model.json")
    asked = [
        "--label",
        "approved",
        "--protected",
        "sex",
        "--out",
        str(tmp_path / "two"),
        "--everywhere",
        "--ignore",
        "applicant_id",
    ]
    main(["audit", str(tmp_path / "people.csv"), str(tmp_path / "model.json"), *asked])
    assert "For anybody at all" in capsys.readouterr().out
