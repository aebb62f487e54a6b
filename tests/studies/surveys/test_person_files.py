"""The Census Bureau's zip archives, from a folder and over the network (a server on this machine)."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import DataError, FileError
from studies.surveys.codes import STATES
from studies.surveys.load import available, describe, load_population

needs_pooch = pytest.mark.skipif(find_spec("pooch") is None, reason="pooch is not installed")


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ISONOMY_DATA", "ISONOMY_CENSUS_URL", "ISONOMY_UCI_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def persons(n: int, state: str, year: int, seed: int = 0) -> pd.DataFrame:
    """People with all codes in range; children have blanks."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    adult = age > 16

    def blank(values: np.ndarray, where: np.ndarray) -> pd.Series:  # type: ignore[type-arg]
        return pd.Series(values).astype("Int64").mask(where)

    frame = pd.DataFrame(
        {
            "RT": "P",
            "SERIALNO": [f"{year}{i:09d}" for i in range(n)],
            "ST": STATES[state],
            "PWGTP": rng.integers(0, 300, n),
            "AGEP": age,
            "COW": blank(rng.integers(1, 9, n), ~adult),
            "SCHL": blank(rng.integers(1, 25, n), age < 3),
            "MAR": rng.integers(1, 6, n),
            "OCCP": blank(rng.choice([10, 1021, 4760, 9830], n), ~adult),
            "POBP": rng.choice([6, 72, 163, 303, 554], n),
            "WKHP": blank(rng.integers(1, 100, n), ~adult | (rng.random(n) < 0.3)),
            "SEX": rng.integers(1, 3, n),
            "RAC1P": rng.integers(1, 10, n),
            "PINCP": blank(rng.integers(-5000, 120_000, n), age < 15),
            "ESR": blank(rng.integers(1, 7, n), age < 16),
            "PUBCOV": rng.integers(1, 3, n),
            "FER": blank(rng.integers(1, 3, n), age < 15),
            "NAICSP": "722Z  ",
        }
    )
    for name, low, high in (("DIS", 1, 2), ("CIT", 1, 5), ("MIG", 1, 3), ("ANC", 1, 4), ("NATIVITY", 1, 2)):
        frame[name] = rng.integers(low, high + 1, n)
    for name, high, under in (("ESP", 8, 1), ("MIL", 4, 17), ("DREM", 2, 5)):
        frame[name] = blank(rng.integers(1, high + 1, n), age < under)
    frame["DEAR"], frame["DEYE"] = rng.integers(1, 3, n), rng.integers(1, 3, n)
    frame["RELSHIPP" if year >= 2019 else "RELP"] = rng.integers(20, 39, n) if year >= 2019 else rng.integers(0, 18, n)
    return frame


def write_zip(folder: Path, state: str, year: int, frame: pd.DataFrame, *, flat: bool = False) -> Path:
    place = folder if flat else folder / str(year) / "1-Year"
    place.mkdir(parents=True, exist_ok=True)
    old = year < 2017
    member = f"ss{year % 100}p{state.lower()}.csv" if old else f"psam_p{STATES[state]:02d}.csv"
    file = place / f"csv_p{state.lower()}.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, frame.to_csv(index=False))
        archive.writestr("ACS_PUMS_README.pdf", b"%PDF-1.4")
    return file


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("year", [2015, 2018, 2021])
def test_the_tasks_from_person_files(tmp_path: Path, flat: bool, year: int) -> None:
    everybody = persons(3000, "NY", year)
    write_zip(tmp_path, "NY", year, everybody, flat=flat)
    assert describe("acs-income", folder=tmp_path).here == (f"NY {year}",)
    assert {"acs-coverage", "acs-employment", "acs-income"} < set(available(folder=tmp_path))
    options = {"states": ["ny"], "years": [year], "folder": tmp_path, "download": False}
    income = load_population("acs-income", threshold=30_000, **options)  # type: ignore[arg-type]
    kept = everybody.query("AGEP > 16 and PINCP > 100 and WKHP > 0 and PWGTP >= 1")
    assert len(income) == len(kept) and income.weights.tolist() == kept["PWGTP"].tolist()
    assert np.array_equal(income.y, (kept["PINCP"] > 30_000).to_numpy(dtype=int))
    assert income.frame["AGEP"].tolist() == kept["AGEP"].tolist()
    coverage = load_population("acs-coverage", **options)  # type: ignore[arg-type]
    assert len(coverage) == len(everybody.query("AGEP < 65 and PINCP <= 30000"))
    employment = load_population("acs-employment", encoding="paper", **options)  # type: ignore[arg-type]
    assert len(employment) == 3000
    assert np.array_equal(employment.y, (everybody["ESR"] == 1).fillna(False).to_numpy(dtype=int))
    blank = everybody["SCHL"].isna().to_numpy()
    assert np.array_equal(employment.x[:, employment.schema.coordinate_names.index("SCHL=0")] == 1, blank)


def test_states_and_years_share_coordinates_and_keep_their_order(tmp_path: Path) -> None:
    for state, year in (("NY", 2018), ("CA", 2018), ("NY", 2015), ("CA", 2015)):
        write_zip(tmp_path, state, year, persons(500, state, year, seed=year + STATES[state]))
    both = load_population("acs-income", states=["NY", "CA"], years=[2018, 2015], folder=tmp_path)
    pairs = list(dict.fromkeys(zip(both.frame["STATE"], both.frame["YEAR"], strict=True)))
    assert pairs == [("NY", 2018), ("NY", 2015), ("CA", 2018), ("CA", 2015)]
    alone = load_population("acs-income", states=["CA"], years=[2015], folder=tmp_path)
    part = both[(both.frame["STATE"] == "CA").to_numpy() & (both.frame["YEAR"] == 2015).to_numpy()]
    assert np.array_equal(part.x, alone.x) and part.frame["SPLIT"].tolist() == alone.frame["SPLIT"].tolist()
    assert part.schema.hash() == alone.schema.hash() and "list of 2010" in both.schema.description


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    file = write_zip(tmp_path, "NY", 2018, persons(100, "NY", 2018))
    ask = partial(load_population, "acs-income", states=["NY"], folder=tmp_path, download=False)
    whole = file.read_bytes()
    cuts = np.random.default_rng(0).integers(40, len(whole) - 400, 20)  # inside the compressed CSV
    damaged = [whole[:cut] + b"\0\xff" * 20 + whole[cut + 40 :] for cut in cuts]
    for content in (whole[: len(whole) // 2], b"<html>", b"", *damaged):
        file.write_bytes(content)
        with pytest.raises((FileError, DataError), match=r"csv_pny\.zip") as caught:
            ask()
        assert "\n" not in str(caught.value)
    write_zip(tmp_path, "NY", 2018, persons(100, "NY", 2018).drop(columns="WKHP"))
    with pytest.raises(DataError, match=r"csv_pny\.zip has no column 'WKHP'"):
        ask()
    write_zip(tmp_path, "NY", 2018, persons(100, "CA", 2018))
    with pytest.raises(DataError, match=r"holds state 6, not NY \(36\)"):
        ask()
    write_zip(tmp_path, "NY", 2018, persons(100, "NY", 2017))
    with pytest.raises(DataError, match="holds the survey of 2017, not of 2018"):
        ask()
    write_zip(tmp_path, "NY", 2018, persons(100, "NY", 2018).assign(AGEP="old"))
    with pytest.raises(FileError, match=r"cannot be read: .*old"):
        ask()
    write_zip(tmp_path, "NY", 2018, persons(100, "NY", 2018).assign(SEX=3))
    with pytest.raises(DataError, match=r"Column 'SEX', row 0: 3 is not one of the categories '1', '2'"):
        ask()


def test_what_is_missing_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = r"The survey of 2018 for CA is not on this machine: put csv_pca\.zip \(https://www2\.census\.gov/.*"
    with pytest.raises(FileError, match=right + r"ISONOMY_DATA/2018/1-Year, or allow the download"):
        load_population("acs-income", states=["CA"], download=False)
    monkeypatch.setenv("ISONOMY_DATA", str(tmp_path))
    with pytest.raises(FileError, match=r"put csv_pca\.zip .* into .*2018/1-Year"):
        load_population("acs-employment", states=["CA"], download=False)
    with pytest.raises(FileError, match=r"The table of credit card clients is not on this machine"):
        load_population("credit", download=False)
    with pytest.raises(FileError, match=r"No table of 'acs-income' for these years is on this machine"):
        load_population("acs-income")
    monkeypatch.setenv("ISONOMY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileError, match=r"ISONOMY_DATA names .*nowhere, which is not a folder"):
        load_population("credit")


def test_without_pooch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.surveys.folder.find_spec", lambda name: None)
    with pytest.raises(FileError, match=r"install pooch to have it downloaded"):
        load_population("acs-income", states=["CA"], folder=tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    root = tmp_path / "remote"
    root.mkdir()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", root
    http.shutdown()
    thread.join()


@needs_pooch
def test_downloads_are_kept(server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, root = server
    write_zip(root, "NY", 2018, persons(400, "NY", 2018))
    mine = tmp_path / "mine"
    mine.mkdir()
    first = load_population("acs-income", states=["NY"], folder=mine, url=url)
    assert (mine / "2018/1-Year/csv_pny.zip").is_file()
    again = load_population("acs-income", states=["NY"], folder=mine, download=False)
    assert np.array_equal(first.x, again.x)
    monkeypatch.setenv("ISONOMY_CENSUS_URL", url + "/")
    cached = load_population("acs-coverage", states=["NY"])  # no folder: into the cache of this user
    assert (tmp_path / "cache").is_dir() and len(cached) == len(load_population("acs-coverage", download=False))


@needs_pooch
def test_downloads_that_fail_say_what_to_do(server: tuple[str, Path], tmp_path: Path) -> None:
    url, root = server
    with pytest.raises(FileError, match=r"could not be downloaded \(404 .*put csv_pny\.zip") as caught:
        load_population("acs-income", states=["NY"], folder=tmp_path, url=url)
    assert "\n" not in str(caught.value)
    (root / "2018/1-Year").mkdir(parents=True)
    (root / "2018/1-Year/csv_pny.zip").write_bytes(b"<html>Please log in</html>")
    with pytest.raises(FileError, match="is not a zip archive"):
        load_population("acs-income", states=["NY"], folder=tmp_path, url=url)
    assert not list(tmp_path.glob("2018/**/*.zip"))
    with pytest.raises(FileError, match=r"could not be downloaded \(.*refused.*\): put csv_pny\.zip"):
        load_population("acs-income", states=["NY"], folder=tmp_path, url="http://127.0.0.1:9")


def credit_table(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"ID": np.arange(1, n + 1), "LIMIT_BAL": rng.integers(1, 100, n) * 10_000})
    frame["SEX"], frame["EDUCATION"] = rng.integers(1, 3, n), rng.integers(0, 7, n)
    frame["MARRIAGE"], frame["AGE"] = rng.integers(0, 4, n), rng.integers(21, 76, n)
    for i in (0, 2, 3, 4, 5, 6):
        frame[f"PAY_{i}"] = rng.choice([-2, -1, 0, 2], n)
    for i in range(1, 7):
        frame[f"BILL_AMT{i}"] = rng.integers(-1000, 10**5, n)
    for i in range(1, 7):
        frame[f"PAY_AMT{i}"] = rng.integers(0, 10**5, n)
    return frame.assign(**{"default payment next month": rng.integers(0, 2, n)})


@pytest.mark.parametrize("headline", [False, True])
def test_credit_from_an_archive(tmp_path: Path, headline: bool) -> None:
    frame = credit_table()
    text = frame.to_csv(index=False)
    file = tmp_path / "default+of+credit+card+clients.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "clients.csv", ",".join(f"X{i}" for i in range(frame.shape[1])) + "\n" + text if headline else text
        )
    people = load_population("credit", folder=tmp_path)
    assert len(people) == 200 and people.y is not None
    assert people.y.tolist() == frame["default payment next month"].tolist()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(FileError, match=r"clients\.zip cannot be read: "):
        load_population("credit", folder=tmp_path)


@needs_pooch
def test_credit_is_downloaded(server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, root = server
    with zipfile.ZipFile(root / "default+of+credit+card+clients.zip", "w") as archive:
        archive.writestr("clients.csv", credit_table().to_csv(index=False))
    monkeypatch.setenv("ISONOMY_UCI_URL", url)
    assert len(load_population("credit", folder=tmp_path)) == 200
