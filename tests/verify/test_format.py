"""What a certificate is about: said in the first lines, in the checker's own words, and nowhere contradicted."""

from __future__ import annotations

import io
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import isonomy
from isonomy import records
from isonomy.cli import certificates as certificates_cli
from isonomy.cli.app import main
from isonomy.errors import DataError
from isonomy.networks import Network
from isonomy.population import Feature, Population, Schema
from isonomy_verify import BadInput, verify
from isonomy_verify.asked import every_change, weights
from isonomy_verify.check import _Check
from isonomy_verify.claims import Profiles
from isonomy_verify.definitions import domain_of
from isonomy_verify.layout import BEHIND, CLAIM, PARTS, PREDICATE, SHIFTS
from isonomy_verify.similar import Similarity
from isonomy_verify.text import QUOTED_LENGTH, listed, quoted

from . import honest
from .conftest import SMALL, Forger, drawing, refused, statuses
from .test_verify import run

HOSTILE = (
    "accepted",
    "x\naccepted\n",
    "\x1b[2J\x1b[31mproved again  individuals",
    "\u202edetpecca\u2066",
    "a" * 10_000,
    'end" accepted "',
    "\u2028accepted\x85\r\x00",
)


def claims_of(path: Path, **options: Any) -> dict[str, tuple[str, str]]:
    return {name: (status, detail) for name, status, detail in verify(path, **options).claims}


def written(mark: str) -> dict[str, Any]:
    """A CSV file in which everything that may be any text is this one."""
    marks = {"separator": ",", "quote": mark, "encoding": mark, "decimal": "."}
    return {"kind": "csv", "unknown": "error", "missing": [mark]} | marks


# -- lower and upper, range and outputs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def amounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression that gives from 0 to 1, of which that range is declared; witnesses reach far."""
    schema = Schema(
        "people",
        (
            Feature("age", low=0.0, high=10.0, unit=10.0, tolerance=1.0),
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
        ),
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 10, 5), "sex": rng.choice(["f", "m"], 5)})
    network = Network.from_layers([np.array([[0.3, 0.0, 0.4]])], [np.array([0.1])], head="regression")
    asked: dict[str, Any] = {"output_range": (0.0, 1.0), "attack": SMALL, "progress": None, "rounds": 0}
    people = Population.from_frame(frame, schema)
    found = isonomy.certify(network, people, isonomy.Counterparts.of(schema), 1.0, 0.05, epsilon=0.9, **asked)
    directory = tmp_path_factory.mktemp("amounts")
    records.write(directory, found)
    with pytest.raises(DataError, match="output_range"):
        isonomy.certify(
            network, people, isonomy.Counterparts.of(schema), 1.0, 0.05, **asked | {"output_range": (5.0, 9.0)}
        )
    return directory


def test_a_declared_range_holds_the_outputs_that_are_computed(amounts: Path, tmp_path: Path) -> None:
    """A range far from all outputs bounded everything by its width, and certified it."""
    assert verify(amounts).accepted and claims_of(amounts)["output range"][0] == "trusted"
    for low, high in ((0.0, 0.01), (5.0, 6.0), (-1.0, 0.05), (0.7, 1.0)):
        forger = Forger(amounts, tmp_path / str(low))
        forger.question["output_range"] = [low, high]
        found = claims_of(forger.done())
        assert found["output range"][0] == "rejected" and "outside" in found["output range"][1]


def test_a_narrow_range_does_not_certify_what_witnesses_refute(amounts: Path, tmp_path: Path) -> None:
    """The forger claims everything that the range implies, and takes the witnesses away one kind at a time."""
    for kind in ("all", "no points", "no witnesses"):
        forger = Forger(amounts, tmp_path / kind.replace(" ", ""))
        forger.question["output_range"] = [0.3, 0.31]
        forger.put("profiles.largest", np.array([0.0100001]))
        forger.change("profiles.value", lambda value: np.minimum(value, 0.01))
        forger.change("local.upper", lambda value: np.minimum(value, 0.01))
        if kind != "all":
            forger.put("points.value", 0 * forger.array("points.value"))
            forger.claims["lower"] = 0.0
        if kind == "no witnesses":
            forger.put("local.lower", 0 * forger.array("local.lower"))
            forger.put("local.counterpart", forger.array("local.counterpart")[:0])
        forger.follow()
        found = statuses(verify(forger.done()))
        assert found["output range"] == "rejected"
        assert (found["both sides"] == "rejected") == (kind != "no witnesses")
        assert (found["lower"] == "rejected") == (kind == "all")


def test_every_lower_bound_is_below_its_upper_one(audit: Path, tmp_path: Path) -> None:
    forger = Forger(audit, tmp_path / "means")
    forger.claims |= {"lower": 0.5, "upper": 0.4}
    assert claims_of(forger.done())["both sides"][0] == "rejected"
    forger = Forger(audit, tmp_path / "one")
    low = forger.array("local.lower")
    assert low[1] > 0
    forger.change("local.upper", lambda upper: np.where(np.arange(4) == 1, 0.5 * low, upper))
    assert claims_of(forger.done())["both sides"] == ("rejected", "1 of 4 have a lower bound above their upper one")
    forger = Forger(audit, tmp_path / "points")  # the violations that points are said to have
    forger.change("points.value", lambda value: value + 0.01)
    assert claims_of(forger.done())["lower"][0] == "rejected"


def test_what_profiles_and_populations_are_said_to_keep_to_is_above_every_witness(audit: Path, tmp_path: Path) -> None:
    """Bounds at radius 0 on which no claim about this shift rests, without the atoms that refute them; and a bound of
    the population behind the sample below what people here attain."""
    forger = Forger(audit, tmp_path / "profiles")
    radius = forger.array("profiles.radius")
    forger.change("profiles.value", lambda value: np.where(radius == 0, 0.5 * value, value))
    forger.put("points.value", 0 * forger.array("points.value"))
    forger.claims["lower"] = 0.0
    found = claims_of(forger.done())
    assert found["both sides"][0] == "rejected" and not found["both sides"][1].startswith("0 ")
    forger = Forger(audit, tmp_path / "population")
    forger.claims["population"]["upper"] = 0.9 * forger.claims["lower"]
    assert claims_of(forger.done())["both sides"][0] == "rejected"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 3))
def test_bounds_within_a_distance_are_all_that_hold_there(values: list[float], cost: float) -> None:
    k = len(values)
    profiles = Profiles(np.array([0, 1, 1 + k]), np.r_[0.0, np.arange(k) / 2.0], np.r_[0.5, values], 0.9)
    reach = [value for place, value in enumerate(values) if place / 2.0 >= cost]
    expected = min([*reach, 0.9])
    found = profiles.within(np.array([1, 0, 1]), np.array([cost, 0.1, math.inf]))
    assert found.tolist() == [expected, 0.9, 0.9]


# -- what the first lines say ---------------------------------------------------------------------------------------


def test_the_first_ten_lines_say_what_it_is_about(
    audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forger = Forger(audit, tmp_path)
    forger.question |= {"classes": ["bad", "good"], "favourable": ["good"], "threshold": 0.5}
    label = {"classes": ["bad", "good"], "labels": {}, "favourable": ["good"], "threshold": 0.5}
    forger.table("schema.toml", lambda table: table["label"].update(label))
    weight = np.r_[97.0, 1.0, 1.0, 1.0]
    forger.put("people.weights", weight)
    path = forger.done()
    alone = run(str(path)).stdout.splitlines()[:10]
    main(["verify", str(path)])
    library = capsys.readouterr().out.splitlines()
    shown = " ".join(
        " ".join(line.strip("│ ").split())
        for line in library[: library.index(next(x for x in library if "claim" in x))]
    )
    for said in (" ".join(" ".join(alone).split()), shown.replace(" │ ", " ")):
        for words in (
            "one probability (sigmoid)", "declared by the issuer", 'classes "bad", "good"', 'favourable "good"',
            "threshold 0.5", '"age"', "confidence 0.8", "the heaviest one (1 of 4) hold 97 % of the weight",
        ):  # fmt: skip
            assert words in said, (words, said)
    forger.question["classes"] = ["good", "bad"]
    with pytest.raises(BadInput, match="classes"):
        verify(forger.done())


def test_the_first_ten_lines_of_a_terminal_have_it(audit: Path) -> None:
    """80 letters wide, with the frame around it."""
    lines = io.StringIO()
    terminal = Console(file=lines, width=80)
    for part in certificates_cli._show(verify(audit)):
        terminal.print(part)
    shown = " ".join(" ".join(line.strip("│ ").split()) for line in lines.getvalue().splitlines()[:10])
    for words in (
        "one probability (sigmoid)",
        "classes",
        "favourable",
        "threshold",
        '"age"',
        "confidence 0.8",
        "equal",
    ):
        assert words in shown, (words, shown)


@pytest.mark.parametrize("how", ["tolerance", "immutable"])
def test_a_protected_feature_that_stays_is_named(how: str, audit: Path, tmp_path: Path) -> None:
    """A model may decide by age alone, and be certified for people of the same age: that is said beside the word."""
    assert verify(audit).question["protected"].endswith("each may change alone, to any value")
    forger = Forger(audit, tmp_path)
    names = tomllib.loads((audit / "evidence" / "metric.toml").read_text())["names"]
    free = [name != "age" and name.split("=")[0] in ("personal_status", "foreign_worker") for name in names]
    if how == "tolerance":
        forger.table("metric.toml", lambda t: t.update(free=free))
    else:
        forger.table("schema.toml", lambda t: t["features"]["age"].update(immutable=True))
    said = verify(forger.done()).question["protected"]
    assert said.endswith('not every change of "age" alone counts as similar')


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_every_change_of_a_feature_counts_where_that_is_said(seed: int) -> None:
    """Two people who differ in one feature alone, at random, under metrics and domains of every kind."""
    rng = np.random.default_rng(seed)
    of = honest.schema(rng)
    kind = ("counterparts", "lp", "mahalanobis", "sensitive")[seed % 4]
    domain = ("realizable", "relaxed")[seed // 4 % 2]
    some = honest.people(rng, of, 30, domain)
    metric, delta = honest.metric(rng, kind, some), float(rng.choice([0.0, 0.5, 3.0, 50.0]))
    space = domain_of(of.to_toml(), domain)
    similarity = Similarity(metric.form, delta, space, 100)
    for name, place in of.slices.items():
        one, other = np.array(some.x), np.array(some.x)
        other[:, place] = some.x[rng.permutation(len(one)), place]
        if every_change(similarity, place):
            assert space.allows(one, other).all() and (metric.form.distance_upper(one, other) <= delta).all(), name


def test_weights_are_told() -> None:
    assert weights(np.full(5, 3.0)) == "equal"
    heavy = np.ones(1000)
    heavy[:10] = 58.2
    assert weights(heavy) == "unequal: the heaviest 1 % (10 of 1,000) hold 38 % of the weight"
    assert weights(np.array([1.0, 0.0])) == "unequal: the heaviest one (1 of 2) hold 100 % of the weight, 1 none"
    assert "50 %" in weights(np.array([2.0**500, 2.0**499, 2.0**499]))


# -- selection, seeds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["all", "random", "chosen", "unknown"])
def test_rows_ascend_and_occur_once_however_people_were_selected(how: str, forger: Forger) -> None:
    forger.predicate["selection"] |= {"how": how, "pool": None, "rows": None, "seed": None}
    rows = forger.array("people.rows")
    for wrong in (rows[::-1], np.r_[rows[:1], rows[:-1]], rows * 0, -1 - rows[::-1]):
        forger.put("people.rows", wrong)
        assert claims_of(forger.done())["selection"][0] == "rejected"
    forger.put("people.rows", rows)
    assert verify(forger.done()).accepted


def test_a_record_has_every_row_once_and_in_order(tmp_path: Path) -> None:
    schema = Schema("p", (Feature("sex", "categorical", categories=("f", "m"), protected=True),))
    people = Population.from_frame(pd.DataFrame({"sex": ["f", "m", "f"]}), schema)
    network = Network.from_layers([np.array([[1.0, 0.0]])], [np.zeros(1)], head="sigmoid")
    for rows in ([1, 0], [0, 0]):
        found = isonomy.certify(
            network, people[rows], isonomy.Counterparts.of(schema), 1.0, attack=False, progress=None
        )
        with pytest.raises(DataError, match="order of their table"):
            records.write(tmp_path / "out", found)


def test_a_seed_that_the_issuer_could_know_proves_nothing(large: Path, decided: Path, tmp_path: Path) -> None:
    """Open decisions of people whom the seed does not draw are said to be certified: that is not seen, nor accepted."""
    forger, seen = Forger(decided, tmp_path), set[int]()
    look = _Check._look
    with drawing(10, 0.5), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Check, "_look", lambda self, rows, x: (seen.update(rows.tolist()), look(self, rows, x))[1])
        assert verify(decided, seed=5).result == "looked at"
    unseen = ~np.isin(np.arange(24), list(seen))
    forger.change("local.decision", lambda said: np.where(unseen & (said == 3), 1, said))
    path = forger.done()
    with drawing(10, 0.5):
        found = verify(path, seed=5)
        assert found.result == "looked at" and not found.accepted
        assert statuses(found)["individuals"] == statuses(found)["decisions"] == "looked at"
        assert "proves nothing" in str(found.claims)
    assert claims_of(path)["decisions"][0] == "rejected"
    command = ["--seed", "5", "--json", str(large)]
    whole = run(*command)  # a small table is derived whole, and no seed is needed
    assert whole.returncode == 0 and json.loads(whole.stdout)["result"] == "accepted"
    with drawing():
        assert main(["verify", str(large), "--seed", "5"]) == 3
        assert main(["verify", str(large)]) == 0
        bad = Forger(large, tmp_path / "bad")
        bad.claims["upper"] *= 0.5
        assert main(["verify", str(bad.done()), "--seed", "5"]) == 1


# -- keys, names, files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "subject", "digest", "predicate", *PARTS])
def test_keys_that_are_not_known_are_refused_at_every_level(place: str, forger: Forger) -> None:
    forger.predicate["reading"]["table"] = written("x")
    forger.predicate["reading"]["model"] = {"head": "auto", "output": None, "activation": None, "reads": "auto"}
    path = forger.done()
    assert verify(path).accepted
    document = forger.document
    levels: dict[str, Any] = {"": document, "subject": document["subject"][0], "predicate": forger.predicate}
    levels["digest"] = document["subject"][0]["digest"]
    part = levels.get(place)
    if part is None:
        part = forger.predicate
        for key in place.split("."):
            part = part[key]
    part["beside\x1b"] = {"upper": 0.0}
    (path / "certificate.json").write_text(json.dumps(document))
    with pytest.raises(BadInput, match="and nothing else"):
        verify(path)


def test_the_json_schema_has_the_same_keys() -> None:
    """What is published of the format, and what the checker demands."""
    text = (Path(isonomy.__file__).parent / "records" / "certificate.schema.json").read_text()
    predicate = json.loads(text)["properties"]["predicate"]
    for place, part in {"": PREDICATE, **PARTS}.items():
        table = predicate
        for key in place.split(".") if place else ():
            table = table["properties"][key]
            table = table["anyOf"][1] if "anyOf" in table else table
        assert set(table["required"]) == set(part.must) and set(table["properties"]) == {*part.must, *part.may}, place
        assert table["additionalProperties"] is False
    kinds = {each["properties"]["kind"]["const"]: each for each in shifts_of(json.loads(text))}
    mean = json.loads(text)["$defs"]["mean"]
    assert set(mean["required"]) == set(mean["properties"]) - {"behind"} == set(CLAIM)
    behind = json.loads(text)["$defs"]["behind"]
    assert set(behind["required"]) == set(behind["properties"]) - {"lower"} == set(BEHIND)
    assert set(kinds) == set(SHIFTS)
    for kind, part in SHIFTS.items():
        assert set(kinds[kind]["required"]) == set(part.must), kind
        assert set(kinds[kind]["properties"]) == {*part.must, *part.may}, kind
        assert kinds[kind]["additionalProperties"] is False


def shifts_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables that the question's shift may be."""
    asked = schema["properties"]["predicate"]["properties"]["question"]["properties"]
    moved, composed, still = asked["shift"]["oneOf"]
    assert moved == {"$ref": "#/$defs/movement"} and still == asked["shifts"]["items"] == {
        "$ref": "#/$defs/reweighting"
    }
    return [composed, *schema["$defs"]["movement"]["oneOf"], *schema["$defs"]["reweighting"]["oneOf"]]


@pytest.mark.parametrize(
    "name", ["people.secret", "model.0.weight", "model.2.weight", "model.99.inputs", "claims.upper"]
)
def test_arrays_that_are_not_known_are_refused(name: str, forger: Forger) -> None:
    forger.put(name, np.zeros(3))
    with pytest.raises(BadInput, match="no array that a certificate has"):
        verify(forger.done())


@pytest.mark.parametrize("name", ["evidence/extra.toml", "../x", "a/b", ".hidden", "evidence/../x", "a b"])
def test_files_that_are_not_known_are_refused(name: str, forger: Forger) -> None:
    forger.document["subject"].append({"name": name, "digest": {"sha256": "0" * 64}})
    with pytest.raises(BadInput, match="no file of its evidence"):
        verify(forger.done())


@pytest.mark.parametrize(
    "edit",
    [
        lambda t: t.update(note="fair"), lambda t: t["label"].update(weight=2), lambda t: t.update(split={"by": "x"}),
        lambda t: t.update(model={"head": "sigmoid"}), lambda t: t["features"]["age"].update(note=1),
        lambda t: t.update(id=7), lambda t: t["features"]["age"].update(protected="yes"),
        lambda t: t["features"]["age"].update(proxy=1), lambda t: t["features"]["age"].update(description=3),
        lambda t: t["features"]["age"].update(labels={"x": "y"}), lambda t: t["label"].update(labels={"x": "y"}),
        lambda t: t["features"]["age"].update(missing_values="?"), lambda t: t["label"].update(classes="ab"),
        lambda t: t.update(model={"inputs": {"nobody": {"scale": "none"}}}), lambda t: t.update(max_weight="1"),
        lambda t: t.update(model={"inputs": {"age": {"note": "fair"}}}),
        lambda t: t.update(model={"inputs": {"age": 3}}),
        lambda t: t.update(model={"inputs": 3}), lambda t: t.update(features={}), lambda t: t["label"].pop("column"),
        lambda t: t.update(split={"column": "x", "train": 1, "test": 2}),
    ],
)  # fmt: skip
def test_keys_of_the_schema_that_are_not_known_are_refused(edit: Any, forger: Forger) -> None:
    forger.table("schema.toml", edit)
    with pytest.raises(BadInput, match=r"schema\.toml"):
        verify(forger.done())


@pytest.mark.parametrize(
    "edit",
    [
        lambda f: f.change("people.y", lambda y: y[:-1]), lambda f: f.change("people.y", lambda y: y + 0.5),
        lambda f: f.change("people.y", lambda y: y + 2), lambda f: f.change("people.y", lambda y: y * 0 - 1),
        lambda f: f.change("local.decision", lambda said: said * 0), lambda f: f.claims.update(lower=-1.0),
        lambda f: f.change("local.decision", lambda said: said * (np.arange(4) > 0)),
        lambda f: f.predicate["model"].update(names=["x"]),
        lambda f: f.table("schema.toml", lambda t: t["label"].update(favourable=["x"])),
        lambda f: f.table("schema.toml", lambda t: t["features"]["duration"].update(tolerance=-1.0)),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(edit: Any, forger: Forger) -> None:
    """Labels of other people or of no class, no decision where there is one, a node without a name: accepted before."""
    edit(forger)
    with pytest.raises(BadInput, match="The certificate is damaged"):
        verify(forger.done())


@pytest.mark.parametrize("lie", [{"part": "all"}, {"part": "all", "excluded": 3}])
def test_a_pool_that_is_the_table_has_as_many_people(lie: dict[str, Any], forger: Forger) -> None:
    """282 of the 1,000 rows of a table were "the table as given"."""
    forger.predicate["selection"] |= lie
    assert claims_of(forger.done())["selection"] == ("rejected", "282 people are not the table of 1,000 rows")


def test_a_schema_may_name_a_column_of_ids(forger: Forger) -> None:
    forger.table("schema.toml", lambda table: table.update(id="number"))
    assert verify(forger.done()).accepted


@pytest.mark.parametrize("name", ["metric", "ground"])
def test_names_of_a_metric_are_the_schemas(name: str, audit: Path, tmp_path: Path) -> None:
    def names(change: Any) -> Path:
        forger = Forger(audit, tmp_path / str(len(list(tmp_path.iterdir()))))
        forger.table(f"{name}.toml", change)
        return forger.done()

    for wrong in (
        lambda t: t["names"].reverse(),
        lambda t: t.update(names=["sex"] * 58),
        lambda t: t.update(names="x"),
    ):
        with pytest.raises(BadInput, match="names of the schema's coordinates"):
            verify(names(wrong))
    assert verify(names(lambda t: t.pop("names"))).accepted
    assert refused(names(lambda t: t.update(fitted_on=3)))


def test_origin_and_unit_of_a_metric_are_the_schemas(audit: Path, tmp_path: Path) -> None:
    """Elsewhere a ratio of raw values would be another one than the reader of the schema thinks."""
    plain = Forger(audit, tmp_path / "plain")
    plain.table("metric.toml", lambda t: t.update(origin=[0.0] * 58, unit=[1.0] * 58))
    with pytest.raises(BadInput, match="another origin or unit"):
        verify(plain.done())
    for part in ("origin", "unit"):
        forger = Forger(audit, tmp_path / part)
        forger.table("metric.toml", lambda t, part=part: t.update({part: [v + 1e-3 for v in t[part]]}))
        with pytest.raises(BadInput, match="another origin or unit"):
            verify(forger.done())


def test_reports_that_are_not_named_are_reported(
    audit: Path, forger: Forger, capsys: pytest.CaptureFixture[str]
) -> None:
    path = forger.done()
    assert "other files" not in claims_of(path)
    (path / "report.html").write_text("<h1>certified at 0.0001</h1>")
    status, detail = claims_of(path)["other files"]
    assert status == "not checked" and '"report.html"' in detail and "may say anything" in detail
    assert main(["verify", str(path)]) == 0 and "report.html" in capsys.readouterr().out
    (path / "Report.PDF").touch()
    (path / "evidence" / "README.md").touch()
    assert claims_of(path)["other files"][1].startswith('"Report.PDF", "evidence/README.md", "report.html": not named')
    (path / "Report.PDF").unlink()
    (path / "evidence" / "README.md").unlink()
    digest = {"sha256": "0" * 64}
    forger.document["subject"].append({"name": "report.html", "digest": digest})
    (path / "certificate.json").write_text(json.dumps(forger.document))
    with pytest.raises(BadInput, match=r"report\.html is not the file that the certificate names"):
        verify(path)


def test_older_formats_are_refused_in_one_sentence(forger: Forger) -> None:
    path = forger.done() / "certificate.json"
    path.write_text(path.read_text().replace("certificate:8", "certificate:6"))
    with pytest.raises(BadInput, match=r"of format 6, and this program checks format 8: audit again to have one\.$"):
        verify(path)


def test_the_format_before_is_read_as_before(forger: Forger) -> None:
    """Records of version 0.1 lack arrays that were added since, and nothing of theirs changed."""
    path = forger.done() / "certificate.json"
    path.write_text(path.read_text().replace("certificate:8", "certificate:7"))
    document = json.loads(path.read_text())
    assert document["predicateType"].endswith(":7") and verify(path).accepted
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert records.read(path.parent).upper == document["predicate"]["claims"]["upper"]


# -- strangers' text ---------------------------------------------------------------------------------------------------


@given(st.text(max_size=200))
def test_quoted_text_is_one_word_between_marks(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable() and shown[0] == shown[-1] == '"' and len(shown) <= QUOTED_LENGTH + 2
    assert not re.search(r'(?<!\\)(?:\\\\)*"', shown[1:-1])


def test_of_many_names_some_are_listed() -> None:
    assert listed(["a"] * 6) == '"a", "a", "a", "a" and 2 more' and listed([]) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_can_be_imitated(text: str, audit: Path, forger: Forger, capsys: pytest.CaptureFixture[str]) -> None:
    """Names, remarks and classes of a forger: the lines are as many as without them, and begin as they did."""
    before = run(str(audit)).stdout.splitlines()
    forger.predicate["remarks"] |= dict.fromkeys(
        ("software", "created", "model", "schema", "metric", "ground", "refusal"), text
    )
    forger.predicate["remarks"]["sources"] = {text: text}
    forger.question |= {"classes": [text, "b"], "favourable": [text], "threshold": None}
    forger.predicate["model"]["names"] = [text] * 6
    forger.predicate["reading"]["table"] = written(text)

    def rename(table: dict[str, Any]) -> None:
        features = table["features"]
        table["features"] = {(text if name == "age" else name): feature for name, feature in features.items()}
        table |= {"name": text, "description": text}
        table["label"] |= {"classes": [text, "b"], "labels": {}, "favourable": [text]}

    forger.table("schema.toml", rename)
    for name in ("metric", "ground"):
        forger.table(f"{name}.toml", lambda t: (t.pop("names"), t.update(fitted_on=text)))
    path = forger.done()
    after = run(str(path))
    lines = after.stdout.splitlines()
    assert after.returncode == 0 and len(lines) == len(before) and lines[-1] == "accepted"
    assert [line[:26] for line in lines[:-1]] == [line[:26] for line in before[:-1]]
    assert all(line.isprintable() and len(line) < 700 for line in lines)
    assert sum("…" in line for line in lines) or len(text) < 60
    assert main(["verify", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "Accepted." and all(line[0] in "┏┃┡│└┌├╇━" for line in shown[:-1])
    assert all(line.isprintable() for line in shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_refusals_say_little_of_a_strangers_text(text: str, audit: Path, tmp_path: Path) -> None:
    edits: tuple[Any, ...] = (
        lambda f: f.question.update({text: 1}),
        lambda f: f.question["shift"].update(gamma=text),
        lambda f: f.question.update(head=text),
        lambda f: f.predicate["selection"].update(how=text),
        lambda f: f.predicate["model"]["kinds"].__setitem__(2, text),
        lambda f: f.predicate["arrays"].update({text: [1]}),
        lambda f: f.predicate["withheld"].append(text),
        lambda f: f.document["subject"].append({"name": text + "/", "digest": {"sha256": "0" * 64}}),
        lambda f: f.document.update(predicateType=text),
        lambda f: f.table("schema.toml", lambda t: t.update({text: 1})),
        lambda f: f.table("schema.toml", lambda t: t["features"].update({text: {"low": 3}})),
        lambda f: f.table("schema.toml", lambda t: t["features"]["age"].update({text: 3})),
        lambda f: f.table("metric.toml", lambda t: t.update(kind=text)),
        lambda f: f.text("schema.toml", text),
    )
    for number, edit in enumerate(edits):
        forger = Forger(audit, tmp_path / str(number))
        edit(forger)
        with pytest.raises(BadInput) as caught:
            verify(forger.done())
        said = str(caught.value).replace(str(tmp_path), "")
        assert said.isprintable() and len(said) < 400, (number, said)
        with pytest.raises(isonomy.errors.FileError) as caught:
            records.read(forger.directory)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 1200, number
