"""The public tables against the figures that their providers and a second reading of the raw files give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.datasets.data_folder import FOLDER, needs_data

from isonomy.errors import DataError, ParameterError
from isonomy.population import Population, Schema
from isonomy.population.population import in_train
from isonomy.similarity import Counterparts
from studies.paper import PARAMETERS
from studies.surveys import available, describe, load_population
from studies.surveys.acs import INCOME
from studies.surveys.codes import BIRTH_AREAS, OCCUPATIONS, birth_areas, occupation_groups, relationships
from studies.surveys.extracts import EXTRACTS, STUDY_FILES
from studies.surveys.load import schema_of

SMALL = {"DE": 9123, "HI": 14400, "ID": 16711, "ME": 13275, "MT": 10336, "ND": 7876, "NE": 19451, "NH": 13780}
SMALL |= {"NM": 19247, "RI": 10489, "SD": 8986, "VT": 6436, "WV": 18066, "WY": 5740}
TASKS = ("acs-income", "acs-employment", "acs-coverage")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))


def load(name: str, *states: str, **options: object) -> Population:
    return load_population(name, states=list(states), download=False, **options)  # type: ignore[arg-type]


@needs_data
def test_everything_is_there_and_described() -> None:
    assert available() == ("acs-coverage", "acs-employment", "acs-income", "adult", "credit", "german", "moons")
    income = describe("acs-income")
    schema = schema_of("acs-income")
    assert schema.protected == ("SEX", "RAC1P") and schema.proxies == ("MAR", "RELP")
    assert len(income.here) == 52 and "HI 2015" in income.here and "CA 2018" in income.here
    assert {piece for piece in describe("acs-employment").here if piece[:2] == "MA"} == {
        f"MA {year}" for year in (2015, 2016, 2017, 2018)
    }
    credit = describe("credit")
    assert credit.licence == "CC BY 4.0" and "30,000" in credit.size and "undocumented" in credit.caveats[0]
    assert PARAMETERS["credit"].learning_rate == 0.01


@needs_data
@pytest.mark.parametrize(
    ("state", "rows", "positive"),
    [("CA", 78266, 0.4104), ("FL", 39570, None), ("NY", 41208, None), ("TX", 54370, None), ("PR", 3628, None)],
)
def test_income_samples_have_the_published_sizes(state: str, rows: int, positive: float | None) -> None:
    people = load("acs-income", state, encoding="paper")
    assert len(people) == rows and (people.weights == 1).all()
    assert positive is None or round(float(people.y.mean()), 4) == positive  # type: ignore[union-attr]
    assert "40 % random sample" in people.schema.description


@needs_data
@pytest.mark.slow
def test_income_of_all_states() -> None:
    people = load_population("acs-income", encoding="paper")
    assert len(people) == 1_121_894 + 217_042
    assert set(people.weights[people.frame["STATE"] == "CA"]) == {2.5} and set(people.weights) == {1.0, 2.5}
    assert people.domain.contains(people.x).all()


@pytest.mark.slow
@needs_data
def test_coverage_and_employment_have_the_published_figures() -> None:
    coverage = load("acs-coverage", "CA")
    assert len(coverage) == 55421 and round(float(coverage.y.mean()), 4) == 0.3685  # type: ignore[union-attr]
    assert "inferred" in coverage.schema.description
    rates = {2015: (68785, 0.496), 2016: (69126, 0.501), 2017: (69635, 0.503), 2018: (70131, 0.505)}
    for year, (rows, rate) in rates.items():
        people = load("acs-employment", "MA", years=[year], encoding="paper")
        assert len(people) == rows and round(float(people.y.mean()), 3) == rate  # type: ignore[union-attr]
    for state, rows in SMALL.items():
        assert len(load("acs-employment", state)) == rows
    assert len(load("acs-employment", "HI", years=[2015])) == 14124


@needs_data
def test_filters_agree_with_an_independent_reading_of_the_raw_file() -> None:
    raw = pq.read_table(FOLDER / "acs_pums_raw_small_states/pums_person_14states_2018_HI_2015.parquet").to_pandas()
    full = pd.read_parquet(FOLDER / "acs_income_2018/income_2018_46states_full.parquet")
    people = load("acs-income", *SMALL)
    for state in SMALL:
        persons = raw[(raw["STATE"] == state) & (raw["YEAR"] == 2018)]
        persons = persons.query("AGEP > 16 and PINCP > 100 and WKHP > 0 and PWGTP >= 1")
        ours, theirs = people.frame[people.frame["STATE"] == state], full[full["STATE"] == state]
        assert np.array_equal(ours[list(INCOME.features)], theirs[list(INCOME.features)])
        assert np.array_equal(ours["PINCP_GT50000"], theirs["PINCP_GT50K"])
        assert np.array_equal(ours["PINCP_GT50000"], (persons["PINCP"] > 50000).astype(int))
        assert np.array_equal(ours["PWGTP"], persons["PWGTP"])
    low = load("acs-coverage", "WV")
    persons = raw[(raw["STATE"] == "WV") & (raw["AGEP"] < 65) & (raw["PINCP"] <= 30000)]
    assert len(low) == len(persons) and low.weights.sum() == persons["PWGTP"].sum()
    assert np.array_equal(low.frame["PINCP"], persons["PINCP"])
    assert np.array_equal(low.y, (persons["PUBCOV"] == 1).to_numpy())


@needs_data
def test_a_threshold_needs_dollars_and_counts_them() -> None:
    above = {limit: load("acs-income", "VT", threshold=limit) for limit in (25_000, 50_000, 70_000)}
    rates = [float(people.y.mean()) for people in above.values()]  # type: ignore[union-attr]
    assert rates[0] > rates[1] > rates[2]
    assert above[25_000].schema.label.labels["1"] == "above 25,000 dollars"  # type: ignore[union-attr]
    assert above[25_000].schema.hash() != above[50_000].schema.hash()
    assert np.array_equal(above[25_000].x, above[50_000].x)
    with pytest.raises(Exception, match="The survey of 2018 for CA with incomes in dollars is not on this machine"):
        load("acs-income", "CA", threshold=25_000)


@needs_data
def test_a_person_is_on_the_same_side_whatever_is_loaded() -> None:
    many, one = load("acs-income", "WY", "DE", "NJ"), load("acs-income", "DE")
    assert many.frame["STATE"].unique().tolist() == ["WY", "DE", "NJ"]
    assert many.frame.loc[many.frame["STATE"] == "DE", "SPLIT"].tolist() == one.frame["SPLIT"].tolist()
    assert len(one.train) + len(one.test) == len(one) and 0.68 < len(one.train) / len(one) < 0.72
    both = load("acs-employment", "MA", years=[2015, 2018])
    last = load("acs-employment", "MA", years=[2018])
    assert both.frame.loc[both.frame["YEAR"] == 2018, "SPLIT"].tolist() == last.frame["SPLIT"].tolist()


@needs_data
def test_a_sample_and_the_complete_file_agree_on_the_split(tmp_path: Path) -> None:
    """Build a sample of Delaware like that of California and read it in place of the complete file."""
    whole = load("acs-income", "DE").frame
    rows = np.flatnonzero(np.random.default_rng(0).random(len(whole)) < 0.4)
    (tmp_path / "acs_income_2018").mkdir()
    extract = EXTRACTS[INCOME.name][1]
    table = whole.iloc[rows][list(INCOME.features)].assign(STATE="CA", PINCP_GT50K=0, ROW_INDEX=rows + 73_020)
    table.to_parquet(tmp_path / extract.file)
    found = STUDY_FILES.find(INCOME, [tmp_path])
    sample = STUDY_FILES.read(INCOME, [("CA", 2018)], found, 50_000).frame
    as_if = load("acs-income", "DE").frame.assign(STATE="CA")
    numbers = (2018 * 100 + 6) * 10**7 + np.arange(len(as_if))
    assert (sample["SPLIT"] == "train").tolist() == in_train(numbers)[rows].tolist()


@pytest.mark.some(3)
@needs_data
@pytest.mark.parametrize("name", [*TASKS, "credit"])
@pytest.mark.parametrize("encoding", ["default", "paper"])
def test_members_and_round_trips(name: str, encoding: str) -> None:
    people = load_population(name, encoding=encoding, **({} if name == "credit" else {"states": ["VT"]}))  # type: ignore[arg-type]
    assert people.domain.contains(people.x).all() and people.excluded == 0
    assert Schema.from_toml(people.schema.to_toml()) == people.schema
    decoded = people.schema.decode(people.x)
    for feature in people.schema.features:
        raw = people.frame[feature.name]
        same = (
            np.isclose(raw, decoded[feature.name])
            if feature.kind == "numeric"
            else (raw.astype(str).to_numpy() == decoded[feature.name].astype(str).to_numpy())
        )
        assert same.all(), feature.name
    Counterparts.of(people.schema)


@needs_data
@pytest.mark.parametrize(
    ("name", "state", "year", "width"),
    [("acs-income", "CA", 2018, 42), ("acs-employment", "MA", 2018, 42), ("acs-coverage", "CA", 2018, 43)],
)
def test_the_papers_columns_are_standardised(name: str, state: str, year: int, width: int) -> None:
    people = load(name, state, years=[year], encoding="paper")
    seen = people.schema.seen_coordinates
    assert seen.sum() == width and people.schema.protected == ("SEX",) and not people.schema["SEX"].seen
    numeric = people.domain.numeric
    assert np.allclose(people.x[:, numeric].mean(axis=0), 0, atol=1e-10)
    assert np.allclose(people.x[:, numeric].std(axis=0), 1, atol=1e-10)


@needs_data
def test_credit() -> None:
    people = load_population("credit")
    assert len(people) == 30000 and round(float(people.y.mean()), 4) == 0.2212  # type: ignore[union-attr]
    sexes = people.x[:, people.schema.slices["SEX"]].sum(axis=0)
    assert sexes.tolist() == [11888, 18112] and people.schema.protected == ("SEX", "AGE")
    paper = load_population("credit", encoding="paper")
    assert (
        not paper.schema.seen_coordinates[paper.schema.slices["SEX"]].any()
        and paper.x.min() >= 0
        and paper.x.max() <= 1
    )
    assert (paper.x != 0).any(axis=0).all()


@pytest.mark.some(3)
@needs_data
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.parquet")), ids=lambda file: file.stem)
def test_schemas_can_be_inferred_from_every_table(file: Path) -> None:
    table = pq.read_table(file)
    frame = table.slice(0, 50_000)
    protected = [name for name in ("SEX", "sex", "RAC1P", "race", "foreign_worker") if name in table.column_names]
    label = [n for n in table.column_names if n.endswith(("_GT50K", "_EQ1")) or n in ("income", "class", "PUBCOV")]
    label += [n for n in table.column_names if n.startswith("default payment")]
    schema = Schema.infer(frame, label=label[0], protected=protected, max_categories=60)
    people = Population.from_frame(frame, schema)
    assert people.excluded == 0 and people.domain.contains(people.x).all()
    assert set(schema.protected) == set(protected)


def test_groups_follow_the_code_lists() -> None:
    codes = {10: "MGR", 440: "MGR", 500: "BUS", 950: "FIN", 1005: "CMM", 1965: "SCI", 2550: "EDU", 3550: "MED"}
    codes |= {3601: "HLS", 3955: "PRT", 4160: "EAT", 4340: "PRS", 5940: "OFF", 6130: "FFF", 6765: "CON", 6800: "EXT"}
    codes |= {7000: "RPR", 8990: "PRD", 9000: "TRN", 9760: "TRN", 9830: "MIL"}
    assert occupation_groups(pd.Series(list(codes), name="OCCP")).tolist() == list(codes.values())
    places = {6: "US state", 60: "Oceania and at sea", 72: "Puerto Rico and US islands", 158: "Asia", 160: "Europe"}
    places |= {
        161: "Asia",
        163: "Europe",
        207: "Asia",
        301: "Northern America",
        303: "Latin America",
        374: "Latin America",
    }
    places |= {300: "Northern America", 440: "Africa", 501: "Oceania and at sea", 554: "Oceania and at sea"}
    assert birth_areas(pd.Series(list(places), name="POBP")).tolist() == list(places.values())
    covered = sorted(code for ranges in BIRTH_AREAS.values() for low, high in ranges for code in range(low, high + 1))
    assert covered == list(range(1, 555))
    assert list(OCCUPATIONS.values()) == sorted(OCCUPATIONS.values())
    assert relationships(pd.Series([20, 22, 38])).tolist() == [0, 13, 17]
    with pytest.raises(DataError, match=r"Column 'OCCP', row 1: 9920 is not a census occupation code"):
        occupation_groups(pd.Series([10, 9920], name="OCCP"))


@needs_data
def test_questions_that_cannot_be_answered() -> None:
    for options, message in [
        ({"states": "CA"}, r"'states' must be a list such as"),
        ({"states": ["Kalifornia"]}, r"'states' must be postal codes such as 'CA'.*Got 'Kalifornia'"),
        ({"states": ["CC"]}, r"did you mean"),
        ({"years": 2018}, r"'years' must be a list"),
        ({"years": ["2018"]}, r"'years' must be survey years"),
        ({"threshold": -1}, r"'threshold' must be an income in dollars"),
        ({"encoding": "fancy"}, r"'encoding' must be 'default' or 'paper' for 'acs-income'"),
    ]:
        with pytest.raises(ParameterError, match=message):
            load_population("acs-income", **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'threshold' has no meaning for 'acs-coverage'"):
        load_population("acs-coverage", threshold=3)
    with pytest.raises(ParameterError, match="'states' has no meaning for 'credit'"):
        load_population("credit", states=["CA"])


def test_extracts_that_are_damaged_are_named(tmp_path: Path) -> None:
    (tmp_path / "acs_income_2018").mkdir()
    (tmp_path / EXTRACTS[INCOME.name][0].file).write_bytes(b"PAR1 and then nothing")
    with pytest.raises(Exception, match=r"income_2018_46states_full\.parquet cannot be read as Parquet: "):
        load_population("acs-income", folder=tmp_path)
