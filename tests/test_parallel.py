"""Chunks in parallel: callers at the same time leave torch's threads as they were, for themselves and for others."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from isonomy.parallel import in_parallel

THREADS = 3


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


def in_a_new_thread(work: Callable[[], int]) -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_order_and_are_computed_by_one_thread_each(count: int) -> None:
    found = list(in_parallel(lambda item: (item, torch.get_num_threads()), range(count)))
    assert found == [(item, 1) for item in range(count)]
    assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == THREADS


def test_within_a_chunk_there_is_one_thread() -> None:
    def outer(item: int) -> list[int]:
        return list(in_parallel(lambda _: torch.get_num_threads(), range(item + 1)))

    assert list(in_parallel(outer, range(3))) == [[1], [1, 1], [1, 1, 1]]


@pytest.mark.parametrize("sizes", list(itertools.product([2, 5], repeat=2)))
def test_two_callers_that_interleave(sizes: tuple[int, int]) -> None:
    """The second begins while the first works, and ends after it: nobody is left with the other's single thread."""
    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()
    seen: dict[str, int] = {}

    def threads_of_work(count: int, began: threading.Event, then: threading.Event) -> set[int]:
        found = in_parallel(lambda _: torch.get_num_threads(), range(count))
        some = {next(found)}
        began.set()
        assert then.wait(60)
        return some | set(found)

    def first() -> None:
        assert threads_of_work(sizes[0], first_began, second_began) == {1}
        seen["first"] = torch.get_num_threads()
        first_ended.set()

    def second() -> None:
        assert first_began.wait(60)
        assert threads_of_work(sizes[1], second_began, first_ended) == {1}
        seen["second"] = torch.get_num_threads()

    callers = [threading.Thread(target=caller) for caller in (first, second)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == {"first": THREADS, "second": THREADS}
    assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == THREADS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert list(in_parallel(abs, [-1, -2])) == [1, 2]
    code = (
        "import os, torch; from isonomy.parallel import in_parallel; torch.set_num_threads(2); "
        "assert list(in_parallel(abs, [-1, -2])) == [1, 2]; child = os.fork(); "
        "assert list(in_parallel(abs, [-3, -4])) == [3, 4]; "
        "os._exit(0) if child == 0 else exit(os.waitpid(child, 0)[1])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_chunk_that_fails_leaves_the_threads_as_they_were() -> None:
    for count in (1, 4):
        with pytest.raises(ZeroDivisionError):
            list(in_parallel(lambda item: 1 // item, range(count)))
        assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == THREADS


def test_results_left_unread_change_nothing() -> None:
    some = in_parallel(lambda item: item, range(5))
    assert next(some) == 0
    assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == THREADS
    some.close()  # type: ignore[attr-defined]
