"""What features alone decide, against all people of a small domain and against the library's own predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.trees.test_journeys import fitted, people
from tests.trees.test_repair import put

import isonomy
from isonomy.errors import IsonomyError


def everything(kind: str, features: list[str]) -> tuple[isonomy.Population, object, np.ndarray, np.ndarray]:
    """People, their model, and the library's least and greatest probability of each over the features."""
    model, x = fitted(kind, people())
    who = put(x, ["sex"])
    values = x[features].drop_duplicates()
    read = isonomy.load_model(model, who.schema)
    frame = who.frame.drop(columns="approved")
    every = []
    for _, row in values.iterrows():
        other = frame.assign(**row)
        every.append(
            read(isonomy.Population.from_frame(other.assign(approved=who.frame["approved"]), who.schema).x)[:, 1]
        )
    return who, read, np.min(every, axis=0), np.max(every, axis=0)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost", "forest"])
def test_a_gap_holds_for_everybody_and_is_attained(kind: str) -> None:
    who, model, low, high = everything(kind, ["sex"])
    gap = isonomy.certify_features(model, who.schema, "sex")  # type: ignore[arg-type]
    assert gap.exact and gap.score_lower <= gap.score_upper and gap.lower <= gap.upper
    assert (high - low).max() <= gap.upper + 1e-12
    raw = (lambda p: p) if kind == "forest" else lambda p: np.log(p / (1 - p))
    assert (raw(high) - raw(low)).max() <= gap.score_upper + 1e-9
    assert gap.pair is not None
    scores = model(gap.pair)[:, 1]  # type: ignore[operator]
    assert raw(scores[0]) - raw(scores[1]) == pytest.approx(gap.score_lower, abs=1e-6)
    assert scores[0] - scores[1] == pytest.approx(gap.lower, abs=1e-9)
    differs = gap.frame()["higher"].map(str) != gap.frame()["lower"].map(str)
    assert list(gap.frame().index[differs]) == ["sex"] and "sex" in str(gap)
    assert gap.across(0, gap.score_upper * 1.001).answer == "impossible"
    shown = gap.across(float(raw(scores[1])) + 1e-6, float(raw(scores[0])) - 1e-6)
    assert shown.answer == "shown" and (model(shown.pair)[:, 1] - scores)[0] > -1e-5  # type: ignore[operator]
    flips = ((low < 0.5) & (high >= 0.5)).any()
    assert gap.decision == "shown" or not flips
    few = isonomy.certify_features(model, who.schema, ["sex", "age"], parts=0)  # type: ignore[arg-type]
    assert few.score_upper >= gap.score_lower and few.features == ("sex", "age")


@pytest.mark.parametrize("kind", ["lightgbm", "forest"])
def test_a_share_counts_those_for_whom_features_decide(kind: str) -> None:
    """Of the draws so many decide as among the people who were drawn, by the library's own outputs."""
    who, model, low, high = everything(kind, ["sex"])
    draws, rng = 500, np.random.default_rng(3)
    rows = rng.choice(len(who), draws, p=who.weights / who.weights.sum())
    for below, above in ((None, None), (0.45, 0.55)):
        share = isonomy.feature_share(model, who, "sex", below=below, above=above, draws=draws, seed=3)  # type: ignore[arg-type]
        least, most = below or 0.5, above or 0.5
        assert share.open == 0 and share.decided == ((low < least) & (high >= most))[rows].sum()
        assert share.lower <= share.decided / draws <= share.upper and "confidence 0.999" in str(share)
    other = isonomy.feature_share(model, who, "sex", draws=300, law="independent", confidence=0.9)  # type: ignore[arg-type]
    assert other.upper < 1 and "each feature drawn by itself" in str(other)
    if other.witness is not None:
        assert who.domain.contains(other.witness[None]).all()


def test_a_cut_off_of_the_first_class_is_that_of_its_complement() -> None:
    """Whether the favourable class comes first or second, the same people are decided."""
    model, x = fitted("lightgbm", people())
    table = x.assign(approved=people()["approved"])
    shares = []
    for good, cut in (("yes", 0.7), ("no", 0.3)):
        schema = isonomy.Schema.infer(table, label="approved", protected=["sex"])
        assert schema.label is not None
        schema = replace(schema, label=replace(schema.label, favourable=(good,), threshold=cut))
        who = isonomy.Population.from_frame(table, schema)
        shares.append(isonomy.feature_share(isonomy.load_model(model, schema), who, draws=400))
    assert shares[0].decided == shares[1].decided > 0


def test_what_has_no_gap_is_refused() -> None:
    model, x = fitted("forest", people())
    who = put(x, ["sex"])
    read = isonomy.load_model(model, who.schema)
    for call, word in (
        (lambda: isonomy.certify_features(read, who.schema, "height"), "features"),
        (lambda: isonomy.feature_share(read, who, below=0.6, above=0.4), "below"),
        (lambda: isonomy.feature_share(read, who, law="uniform"), "law"),  # type: ignore[arg-type]
        (
            lambda: isonomy.certify_features(
                isonomy.Network.from_layers([np.ones((1, who.schema.width))], [[0.0]], head="sigmoid"), who.schema
            ),
            "gap",
        ),
    ):
        with pytest.raises(IsonomyError, match=word):
            call()


@pytest.mark.parametrize("kind", ["xgboost", "forest"])
def test_everywhere_answers_by_the_gap(kind: str) -> None:
    """One entry for networks and trees: the same words, bounds that hold for all, and refusals that say what to ask."""
    who, model, low, high = everything(kind, ["sex"])
    free = np.zeros(who.schema.width, dtype=bool)
    free[who.schema.slices["sex"]] = True
    sex = isonomy.Counterparts(np.zeros(len(free)), free)
    certificate = isonomy.certify_everywhere(model, sex, 1.0, who.schema, epsilon=1.0, progress=None)  # type: ignore[arg-type]
    gap = isonomy.certify_features(model, who.schema, "sex")  # type: ignore[arg-type]
    assert (high - low).max() <= certificate.upper + 1e-12 and certificate.upper == pytest.approx(gap.upper)
    assert certificate.lower == gap.lower and certificate.verdict == "certified" and certificate.decided == 1
    x, y = certificate.witness.individual, certificate.witness.counterpart
    assert abs(model(x) - model(y)).max() == pytest.approx(certificate.lower) and "between" in str(certificate)  # type: ignore[operator]
    none = isonomy.certify_everywhere(model, sex, 1.0, who, time_limit=0, progress=None)  # type: ignore[arg-type]
    assert none.upper >= certificate.lower and none.verdict == "none"
    with pytest.raises(IsonomyError, match="without tolerances"):
        isonomy.certify_everywhere(model, isonomy.WeightedLp(np.ones(len(free))), 0.1, who.schema)  # type: ignore[arg-type]
