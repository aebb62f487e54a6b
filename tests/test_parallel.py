"""Chunks in parallel: in order, one thread of arithmetic each, and callers at the same time leave nothing changed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from threadpoolctl import ThreadpoolController

from isonomy.errors import ParameterError
from isonomy.parallel import in_parallel, one_thread, set_workers, workers

THREADS = 3


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    set_workers(THREADS)
    libraries = ThreadpoolController()
    before = max(each["num_threads"] for each in libraries.info() if each["user_api"] == "blas")
    # A limit belongs to the thread that sets it, and to nobody once that has ended.
    in_a_new_thread(lambda: libraries.limit(limits=2, user_api="blas"))
    yield
    in_a_new_thread(lambda: libraries.limit(limits=before, user_api="blas"))
    set_workers(None)


def threads(_: object = None) -> tuple[int, set[int]]:
    """How many chunks may run, and the threads of numpy's products (other packages have their own BLAS)."""
    libraries = [each for each in ThreadpoolController().info() if "numpy" in each["filepath"]]
    return workers(), {each["num_threads"] for each in libraries if each["user_api"] == "blas"}


def in_a_new_thread(work: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def unchanged() -> bool:
    return threads() == in_a_new_thread(threads) == (THREADS, {2})


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_order_and_are_computed_by_one_thread_each(count: int) -> None:
    found = list(in_parallel(lambda item: (item, threads()[1]), range(count)))
    assert found == [(item, {1}) for item in range(count)]
    assert unchanged()


def test_several_run_at_the_same_time() -> None:
    meeting = threading.Barrier(THREADS)
    assert len(list(in_parallel(lambda _: meeting.wait(60), range(THREADS)))) == THREADS


def test_within_a_chunk_there_is_one_worker() -> None:
    def outer(item: int) -> list[tuple[int, set[int]]]:
        return list(in_parallel(threads, range(item + 1)))

    assert list(in_parallel(outer, range(3))) == [[(1, {1})] * (item + 1) for item in range(3)]


def test_one_thread_for_a_sequential_search() -> None:
    with one_thread():
        assert threads() == (1, {1})
        with one_thread():
            assert threads() == (1, {1})
        assert threads() == (1, {1})
    assert unchanged()


@pytest.mark.parametrize("sizes", list(itertools.product([2, 5], repeat=2)))
def test_two_callers_that_interleave(sizes: tuple[int, int]) -> None:
    """The second begins while the first works, and ends after it: nobody is left with the other's single thread."""
    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def threads_of_work(count: int, began: threading.Event, then: threading.Event) -> None:
        found = in_parallel(threads, range(count))
        some = [next(found)]
        began.set()
        assert then.wait(60)
        assert [*some, *found] == [(1, {1})] * count

    def first() -> None:
        threads_of_work(sizes[0], first_began, second_began)
        first_ended.set()

    def second() -> None:
        assert first_began.wait(60)
        threads_of_work(sizes[1], second_began, first_ended)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
            raise

    callers = [threading.Thread(target=guarded, args=(caller,)) for caller in (first, second)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failed and unchanged()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert list(in_parallel(abs, [-1, -2])) == [1, 2]
    code = (
        "import os; from isonomy.parallel import in_parallel, set_workers; set_workers(2); "
        "assert list(in_parallel(abs, [-1, -2])) == [1, 2]; child = os.fork(); "
        "assert list(in_parallel(abs, [-3, -4])) == [3, 4]; "
        "os._exit(0) if child == 0 else exit(os.waitpid(child, 0)[1])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_chunk_that_fails_leaves_the_threads_as_they_were() -> None:
    for count in (1, 4):
        with pytest.raises(ZeroDivisionError):
            list(in_parallel(lambda item: 1 // item, range(count)))
        assert unchanged()


def test_results_left_unread_change_nothing() -> None:
    some = in_parallel(lambda item: item, range(5))
    assert next(some) == 0
    some.close()  # type: ignore[attr-defined]
    assert unchanged()


@pytest.mark.parametrize(("asked", "expected"), [("5", 5), ("0", None), ("many", None), ("", None), ("2,1", None)])
def test_the_environment_says_how_many(asked: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    set_workers(None)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert workers() == (expected or len(os.sched_getaffinity(0)))


def test_nobody_is_refused() -> None:
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(ParameterError, match="count"):
            set_workers(wrong)  # type: ignore[arg-type]


def test_afterwards_others_can_set_a_limit() -> None:
    """A limit that is lifted but still owned would keep everybody else from setting one."""
    assert list(in_parallel(abs, [-1, -2])) == [1, 2]
    in_a_new_thread(lambda: ThreadpoolController().limit(limits=1, user_api="blas"))
    assert threads() == (THREADS, {1})
