"""A model whose similar people cannot be listed: flips are shown, nothing is proved, and every page says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
)

import isonomy
from isonomy.certificates import certify_local
from isonomy.errors import IsonomyError
from isonomy.report.facts import facts_of
from isonomy.report.text import to_markdown

LOGISTIC = LogisticRegression()
FOREST = RandomForestClassifier(3, max_depth=3, random_state=0)
VOTERS = [("a", LOGISTIC), ("b", GaussianNB())]


def columns(numbers: Any) -> Any:
    return make_column_transformer((numbers, ["age", "income"]), (OneHotEncoder(sparse_output=False), ["sex"]))


MODELS = {
    "calibrated": make_pipeline(columns(MinMaxScaler()), CalibratedClassifierCV(GaussianNB(), cv=3)),
    "isotonic": make_pipeline(columns(MinMaxScaler()), CalibratedClassifierCV(FOREST, method="isotonic", cv=3)),
    "roots": make_pipeline(columns(FunctionTransformer(np.sqrt)), LOGISTIC),
    "bins": make_pipeline(columns(KBinsDiscretizer(4, quantile_method="linear")), MLPClassifier((5,), max_iter=50)),
    "powers": make_pipeline(columns(PowerTransformer()), LOGISTIC),
    "quantiles": make_pipeline(columns(QuantileTransformer(n_quantiles=9)), LOGISTIC),
    "splines": make_pipeline(columns(SplineTransformer(3)), LOGISTIC),
    "products": make_pipeline(columns(MinMaxScaler()), PolynomialFeatures(2), LOGISTIC),
    "voting": make_pipeline(columns(MinMaxScaler()), VotingClassifier(VOTERS, voting="soft")),
    "hard voting": make_pipeline(columns(MinMaxScaler()), VotingClassifier([*VOTERS, ("c", FOREST)])),
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 60
    table = pd.DataFrame(
        {"age": rng.integers(18, 75, n), "sex": rng.choice(["f", "m"], n), "income": np.round(rng.gamma(4, 9.0, n), 2)}
    )
    score = (table["age"] - 40) / 20 + (table["income"] - 36) / 20 + 0.7 * (table["sex"] == "m")
    return table.assign(good=np.where(score + rng.normal(0, 0.5, n) > 0.3, "yes", "no"))


def shares(model: Any, frame: pd.DataFrame) -> Any:
    """The probability of the second class; of a hard vote 1 or 0."""
    alone = not hasattr(model, "predict_proba")
    return (model.predict(frame) == "yes").astype(float) if alone else model.predict_proba(frame)[:, 1]


@pytest.mark.parametrize(
    "name", ["roots", *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS if name != "roots")]
)
def test_every_model_is_audited(name: str, people: pd.DataFrame, tmp_path: Path) -> None:
    """By its predictions: exactly where similar people can be listed, else by what is found, which the checker sees."""
    model = MODELS[name].fit(people[["age", "sex", "income"]], people["good"])
    asked: dict[str, Any] = {"label": "good", "protected": "sex", "progress": None, "quiet": True}
    finite = isonomy.audit(model, people, similar={"age": 2}, **asked)
    audit = isonomy.audit(model, people, similar={"age": 2, "income": "5%"}, **asked)
    assert finite.certificate.problem.model.kind == "enumeration"
    assert any("the model is asked for its predictions, as it cannot be read" in note for note in finite.notes)
    assert (finite.certificate.local.upper - finite.certificate.local.lower < 1e-9).all()
    local, problem = audit.certificate.local, audit.certificate.problem
    assert problem.model.kind == "shown" and (local.upper == 1).all() and "certified" not in local.decision
    own, other = (problem.raw(each) for each in (local.x, local.witnesses.counterpart))
    gives, gets = (shares(model, each[["age", "sex", "income"]]) for each in (own, other))
    assert np.abs(np.abs(gets - gives) - local.lower).max() < 1e-9 and local.lower.max() > 0.05
    assert (np.abs(own["age"] - other["age"]) <= 2).all()
    apart = np.abs(own["income"] - other["income"])
    assert (apart <= 0.05 * np.maximum(own["income"], other["income"]) * (1 + 1e-9)).all()
    assert (local.lower >= finite.certificate.local.lower - 0.02).mean() > 0.9  # more may differ: the search sees it
    words = "ound only, and nothing is proved"
    assert "nothing was proved of how much" in repr(audit)
    summary = to_markdown(facts_of(audit.findings))
    assert all(words in page for page in (repr(audit).splitlines()[0], repr(audit).splitlines()[2], summary))
    assert words in str(audit.report()) and any("found only: flips are shown" in note for note in audit.notes)
    if name == "roots":
        report = audit.verify()
        assert report.accepted and words in report.answer
        written = audit.save(tmp_path / "audit")
        plan = written / "question" / "audit.toml"
        again = isonomy.audit(model, people, plan=plan, quiet=True, progress=None)
        assert again.findings.claimed == audit.findings.claimed
        with pytest.raises(IsonomyError, match="people who move"):
            isonomy.audit(model, people, similar={"income": 1}, gamma=0.1, **asked)


def test_a_forged_bound_is_rejected(people: pd.DataFrame, tmp_path: Path) -> None:
    """Nothing below the largest violation can be claimed of such a model."""
    from isonomy_verify.enumeration import SampleBounds, Samples
    from isonomy_verify.heads import Head

    model = MODELS["roots"].fit(people[["age", "sex", "income"]], people["good"])
    asked: dict[str, Any] = {"label": "good", "protected": "sex", "similar": {"income": 1}}
    audit = isonomy.audit(model, people, **asked, progress=None, quiet=True)
    problem = audit.certificate.problem
    local = certify_local(problem, audit.findings.people, attack=False, progress=None)
    assert (local.upper == 1).all() and not local.lower.any()
    kept = problem.model.kept_for(local.x).table  # type: ignore[attr-defined]
    bounds = SampleBounds(Samples(kept.people, kept.at(kept.people)), Head("probability", 1), problem.similarity.kernel)
    known = bounds.chunk(local.x)
    assert (known.upper == 1).all() and not known.kept.any()
    assert not bounds.keeps(local.x, np.zeros(len(local.x))).any()
    assert not bounds.proved_decisions(local.x, known, np.ones(len(local.x), dtype=bool)).any()
