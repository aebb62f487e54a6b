"""``isonomy audit --engine``: a real cluster of two worker processes, one process, and one that is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.auditing.streamed import plan, same, words, write_files
from tests.written import change, predicate_of

from isonomy.parallel import set_workers
from isonomy_verify.local import LocalBounds

from .conftest import Run

Answered = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def alone(folder: Path) -> Path:
    """The audit by one process, never disturbed."""
    from isonomy.cli import main

    asked = plan(folder, out=str(folder / "alone"), chunk=5)
    assert main(words(asked)) == 0
    return folder / "alone"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask distributed is not installed: pip install 'isonomy[dask]'")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
        yield workers


def contents(out: Path) -> dict[str, Any]:
    """All files of an audit but for those that name the command and the time."""
    told = ("certificate.json", "report.html", "summary.md", "junit.xml")
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    bare = {name: (out / name).read_bytes() for name in names if name not in told}
    return {**bare, "certificate.json": same(json.dumps(predicate_of(out)))}


KILLED = """
import os, pathlib, signal, sys
from isonomy.cli import main
replace, parts = pathlib.Path.replace, []

def counted(self, target):
    found = replace(self, target)
    parts.extend([target] * (pathlib.Path(target).parent.name == "parts"))
    if len(parts) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

pathlib.Path.replace = counted
main(sys.argv[1:])
"""
"""The command line, killed when its third part is finished."""


@pytest.mark.slow
def test_two_workers_give_the_same_audit_though_one_is_killed(
    answered: Answered, cluster: Any, folder: Path, alone: Path, tmp_path: Path
) -> None:
    from distributed import Client

    with Client(cluster) as client:
        doomed = min(client.run(os.getpid).values())
    out = tmp_path / "spread"

    def kill() -> None:
        while not any(tmp_path.glob("spread.work/parts/*.arrays")) and not out.exists():
            time.sleep(0.01)  # until a part is finished
        os.kill(doomed, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    asked = plan(folder, out=str(out), chunk=5, engine="dask", scheduler=cluster.scheduler_address)
    status, facts = answered(*words(asked))
    killer.join()
    assert status == 0 and 0 < facts["computed"] <= 12 and facts["out"] == str(out)
    with pytest.raises(ProcessLookupError):
        while True:
            os.kill(doomed, 0)
            time.sleep(0.01)
    assert contents(out) == contents(alone) and not (tmp_path / "spread.work").exists()


@pytest.mark.slow
def test_killed_and_started_again(answered: Answered, folder: Path, alone: Path, tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "out.work"
    command = words(plan(folder, out=str(out), chunk=5))
    run = subprocess.run([sys.executable, "-c", KILLED, *command], check=False)
    assert run.returncode == -signal.SIGKILL and not out.exists()
    kept = len(list(work.glob("parts/*.arrays")))
    status, facts = answered(*command)
    assert status == 0 and 0 < kept < 12 and facts["computed"] == 12 - kept
    assert contents(out) == contents(alone)


def test_what_stands_on_the_terminal_and_the_status(run: Run, folder: Path, tmp_path: Path) -> None:
    """The parts of an earlier audit answer other epsilons at once."""
    for epsilon, status, word in ((0.4, 0, "within the accepted"), (0.001, 3, "is open")):
        found, text, _ = run(*words(plan(folder, out=str(tmp_path / "out"), epsilon=epsilon)))
        assert found == status and word in text and "individuals.parquet" in text
        assert "60 people" in text and f"isonomy verify {tmp_path / 'out'}" in text


@pytest.fixture(scope="module")
def searched(folder: Path) -> Path:
    """An audit with witnesses."""
    from isonomy.cli import main

    assert main(words(plan(folder, out=str(folder / "searched"), no_search=False))) == 0
    return folder / "searched"


def test_it_is_verified(answered: Answered, searched: Path, tmp_path: Path) -> None:
    status, found = answered("verify", searched)
    assert status == 0 and found["accepted"], found
    shutil.copytree(searched, tmp_path / "forged")
    change(tmp_path / "forged", lambda said: said["claims"].update(upper=0.9 * said["claims"]["upper"]))
    status, found = answered("verify", tmp_path / "forged")
    assert status != 0 and not found["accepted"]


def test_explain_reads_the_audit(run: Run, answered: Answered, searched: Path, folder: Path) -> None:
    """Row 33 is in the second file: rows are counted through the files of the dataset."""
    everybody = pd.read_parquet(searched / "individuals.parquet").set_index("row")
    for place in (searched, searched / "certificate.json"):
        status, found = answered("explain", place, "--row", "33")
        assert status == 0 and found["row"] == 33
        assert found["individual"]["pay"] == pytest.approx(everybody.loc[33, "pay"])
        assert found["individual"]["sex"] == everybody.loc[33, "sex"]
        assert found["lower"] <= everybody.loc[33, "upper"] and everybody.loc[33, "lower"] <= found["upper"]
    status, page, _ = run("explain", searched, "--row", "33")
    assert status == 0 and page.startswith("Row 33:") and "differs" in page
    for arguments, says in (
        ([searched, "--row", "60"], "'row' must be a row of the table, 0 to 59"),
        (["--data", folder / "data", "--schema", folder / "schema.toml", "--row", "3"], "is a folder: give the direct"),
    ):
        status, out, err = run("explain", *arguments)
        assert status == 2 and says in err and err.count("\n") == 1 and not out


def test_a_redacted_audit_has_nobody_to_explain(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run(*words(plan(folder, out=str(tmp_path / "out"), redact=True)))[0] == 0
    status, out, err = run("explain", tmp_path / "out", "--row", "3")
    assert status == 2 and "is redacted: it has no individuals to explain" in err and not out
    found = json.loads(run("verify", tmp_path / "out", "--json")[1])
    assert not found["accepted"] and not [each for each in found["claims"] if each["status"] == "rejected"]
    assert any("their rows are withheld: give --data" in each["detail"] for each in found["claims"])


def test_compare_reads_streamed_audits(run: Run, answered: Answered, alone: Path, folder: Path, tmp_path: Path) -> None:
    status, found = answered("compare", alone, alone / "certificate.json")
    assert status == 0 and found["comparable"] and not any(found["changed"].values()) and not found["question"]
    assert found["individuals"]["both"] == 60
    run(*words(plan(folder, out=str(tmp_path / "out"), data=str(folder / "data" / "0.parquet"), epsilon=0.3)))
    status, found = answered("compare", alone, tmp_path / "out")
    assert status == 0 and found["changed"] == {"model": False, "people": True, "metric": False, "schema": False}
    assert found["question"] == {"epsilon": [0.4, 0.3], "individuals": [60, 30]} and found["comparable"]
    assert found["upper"][0] == predicate_of(alone)["claims"]["upper"]
    assert "Changed: people." in run("compare", alone, tmp_path / "out")[1]


def test_compare_of_one_in_memory_and_one_streamed(run: Run, folder: Path, tmp_path: Path) -> None:
    """The same people are known to be the same."""
    data = str(folder / "data" / "0.parquet")
    for name, options in (("memory", {"engine": None, "chunk": None}), ("streamed", {})):
        assert run(*words(plan(folder, data=data, out=str(tmp_path / name), **options)))[0] == 0
    status, page, _ = run("compare", tmp_path / "memory", tmp_path / "streamed")
    assert status == 0 and "Model, people, metric and schema are the same." in page
    assert "Of 30 people in both" in page


def test_ctrl_c_says_how_to_go_on(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    # All parts are there, the certificate is not.
    monkeypatch.setattr(sys.modules["isonomy.certificates.certify"], "_certificate", stopped)
    asked = words(plan(folder, out=str(tmp_path / "out")))
    status, _, err = run(*asked)
    assert status == 130 and f"4 finished parts kept in {tmp_path / 'out.work'}" in err
    assert "The same command goes on from there." in err and not (tmp_path / "out").exists()


def test_one_sentence_and_status_2(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, says in (
        ({"data": str(tmp_path / "nowhere")}, "there is no such file or folder"),
        ({"data": str(folder / "model.pt")}, "model.pt"),
        ({"unknown": "exclude", "tier": "tight", "chunk": 10**9}, "'chunk' must be a whole number from 1 to"),
    ):
        status, out, err = run(*words(plan(folder, **{"out": str(tmp_path / "out"), **options})))
        assert status == 2 and says in err and err.count("\n") == 1 and not out
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, out, err = run(*words(plan(folder, out=str(tmp_path / "out"), engine="dask")), "--json")
    assert status == 2 and "pip install 'isonomy[dask]'" in json.loads(out)["error"]["message"]
    assert not list(tmp_path.iterdir())


def test_an_audit_file_names_the_engine(answered: Answered, folder: Path, tmp_path: Path) -> None:
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in vars(plan(folder, data="data", schema="schema.toml", model="model.pt", out="toml")).items()
        if value not in (None, "", ()) and key not in ("metric", "confidence")
    ]
    (folder / "audit.toml").write_text("\n".join([*lines, 'metric = "metric.toml"']), encoding="utf-8")
    status, facts = answered("audit", folder / "audit.toml")
    assert status == 0 and facts["computed"] == 4 and facts["individuals"] == 60


@pytest.mark.slow
def test_a_cluster_of_our_own_leaves_the_terminal_clean(folder: Path, alone: Path, tmp_path: Path) -> None:
    """In a process of its own, since workers import the main module again and Dask writes to the real terminal."""
    pytest.importorskip("distributed")
    command = words(plan(folder, out=str(tmp_path / "out"), chunk=5, engine="dask"))
    done = subprocess.run([sys.executable, "-m", "isonomy", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "it is proved" in done.stdout
    assert "distributed" not in done.stderr and "killing" not in done.stderr
    assert contents(tmp_path / "out") == contents(alone)


@pytest.mark.slow
@pytest.mark.some(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_contradiction_is_written_beside_the_result_and_never_redacted(
    folder: Path, tmp_path: Path, answered: Answered, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Work is done by other threads, which have to be told as well; and the next run is not in the file's way."""
    honest = LocalBounds._violation
    for redact in (True, False):
        asked = plan(folder, out=str(tmp_path / "out"), no_search=False, redact=redact)
        with monkeypatch.context() as lie:
            lie.setattr(LocalBounds, "_violation", lambda *given: honest(*given) / 1e3)
            set_workers(threads)
            try:
                status, said = answered(*words(asked))
            finally:
                set_workers(None)
        assert status == 4 and said["error"]["code"] == "soundness"
        files = list(tmp_path.rglob("isonomy-soundness-*"))
        assert bool(files) != redact and {file.parent for file in files} <= {tmp_path}
    status, _ = answered(*words(plan(folder, out=str(tmp_path / "out"), no_search=False)))
    assert status in (0, 1, 3) and (tmp_path / "out" / "certificate.json").exists()
