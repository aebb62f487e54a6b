"""A real cluster of two worker processes: the same bits as in one process, also when a worker is killed."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isonomy import engine
from isonomy.errors import DataError, MissingPackageError, ParameterError
from isonomy.population import open_people

from .people import SCHEMA, ask, numbers, stamps, table

if importlib.util.find_spec("distributed") is None:
    pytest.skip("Dask distributed is not installed: pip install 'isonomy[dask]'", allow_module_level=True)

N, PARTS = 150, 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
        yield workers


@pytest.fixture
def source(tmp_path: Path) -> Path:
    table(N).to_parquet(tmp_path / "t.parquet", row_group_size=64)
    return tmp_path / "t.parquet"


def pids(cluster: Any, workers: int) -> list[int]:
    from distributed import Client

    with Client(cluster) as client:
        client.wait_for_workers(workers)
        return sorted(client.run(os.getpid).values())


@pytest.mark.slow
def test_the_same_bits_as_in_one_process_though_a_worker_is_killed(cluster: Any, source: Path, tmp_path: Path) -> None:
    alone = ask(source, tmp_path / "alone")
    cluster.scale(2)
    doomed, killed = pids(cluster, 2), []

    def progress(done: int, total: int) -> None:
        if done and not killed:  # the first part is there, the others are being worked on
            killed.append(doomed[0])
            os.kill(doomed[0], signal.SIGKILL)

    options = {"engine": "dask", "scheduler": cluster.scheduler_address}
    spread = ask(source, tmp_path / "spread", progress=progress, **options)
    assert killed and numbers(spread) == numbers(alone) and spread.computed <= PARTS
    one, other = (sorted((tmp_path / name).glob("parts/*")) for name in ("spread", "alone"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other] and len(one) == PARTS
    before = stamps(tmp_path / "spread")
    again = ask(source, tmp_path / "spread", **options)
    assert again.computed == 0 and stamps(tmp_path / "spread") == before and numbers(again) == numbers(alone)
    # Afterwards nobody needs the cluster: questions are answered from the parts.
    assert again.curve([0.05, 0.2]).equals(alone.curve([0.05, 0.2]))


@pytest.mark.slow
def test_parts_of_one_engine_are_parts_of_the_other(cluster: Any, source: Path, tmp_path: Path) -> None:
    first = ask(source, tmp_path)
    said = numbers(first)
    for path in sorted(tmp_path.glob("parts/*"))[1:3]:
        path.unlink()
    second = ask(source, tmp_path, engine="dask", scheduler=cluster.scheduler_address)
    assert second.computed == 2 and numbers(second) == said


@pytest.mark.slow
def test_columns_travel_back_where_no_folder_keeps_them(cluster: Any, source: Path) -> None:
    spread = ask(source, None, engine="dask", scheduler=cluster.scheduler_address)
    assert spread.computed == PARTS and numbers(spread) == numbers(ask(source, None))


@pytest.mark.slow
def test_errors_of_workers_reach_the_caller(cluster: Any, tmp_path: Path) -> None:
    frame = table(N)
    frame.loc[137, "debt"] = 9.0  # in a chunk of which nobody is in the pilot group
    frame.to_parquet(tmp_path / "t.parquet")
    options = {"chunk": 5, "order": math.inf, "engine": "dask", "scheduler": cluster.scheduler_address}
    with pytest.raises(DataError, match=r"File t\.parquet: Column 'debt', row 137"):
        ask(tmp_path / "t.parquet", tmp_path / "work", **options)
    assert (tmp_path / "work" / "schedule.json").exists()


@pytest.mark.slow
def test_the_current_client_is_used(cluster: Any, source: Path, tmp_path: Path) -> None:
    from distributed import Client

    with Client(cluster) as client:
        options = {"attack": True, "order": math.inf, "tier": "tight"}
        found = ask(source, tmp_path / "spread", engine="dask", **options)
        assert found.computed == PARTS and client.status == "running"
    assert numbers(found) == numbers(ask(source, tmp_path / "alone", **options)) and found.lower > 0


def test_a_dask_frame_gives_the_bits_of_its_partitions_as_files(cluster: Any, tmp_path: Path) -> None:
    frames, people = pytest.importorskip("dask.dataframe"), table(90)
    (tmp_path / "data").mkdir()
    for i in range(3):
        people[30 * i : 30 * i + 30].to_parquet(tmp_path / "data" / f"{i}.parquet")
    expected = ask(tmp_path / "data", tmp_path / "files", chunk=20)
    collection = frames.from_pandas(people, npartitions=3, sort=False)
    options = {"engine": "dask", "scheduler": cluster.scheduler_address}
    for found in (
        ask(collection, tmp_path / "here", chunk=20),
        ask(open_people(collection, SCHEMA), tmp_path / "there", chunk=20, **options),
    ):
        assert numbers(found) == numbers(expected)


def test_no_dask(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'isonomy\[dask\]'"):
        ask(source, tmp_path, engine="dask")


def test_a_scheduler_that_does_not_answer(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 0.2)
    with pytest.raises(ParameterError, match="'scheduler' must be the address of a Dask scheduler that answers"):
        ask(source, tmp_path, engine="dask", scheduler="tcp://127.0.0.1:9")


def test_a_cluster_of_our_own_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Dask says that it kills workers which take their time to leave: nobody has lost anything."""
    nanny = logging.getLogger("distributed.nanny")

    class Client:
        def __init__(self, cluster: object) -> None:
            self.cluster = cluster

        @classmethod
        def current(cls) -> None:
            raise ValueError("there is none")

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    @contextmanager
    def local_cluster(**_: object) -> Iterator[str]:
        try:
            yield "cluster"
        finally:
            nanny.warning("Worker process still alive, killing")

    monkeypatch.setattr(engine, "_dask", lambda: SimpleNamespace(Client=Client, LocalCluster=local_cluster))
    monkeypatch.setattr(nanny, "propagate", True)
    before = nanny.level
    for trouble in (None, KeyboardInterrupt):
        caplog.clear()
        try:
            with caplog.at_level(logging.WARNING), engine.open_engine("dask", None):
                nanny.warning("Worker exceeded its memory")
                if trouble is not None:
                    raise trouble
        except KeyboardInterrupt:
            pass
        assert [record.message for record in caplog.records] == ["Worker exceeded its memory"]
        assert nanny.level == before
