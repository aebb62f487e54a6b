"""Chunks in parallel, one thread of arithmetic each.

Small steps between large products gain nothing from a second thread; whole chunks do. The results do not depend on how
many threads there are, since every chunk is computed by one.

torch keeps how many threads an operation may use twice: each thread has its own number, and a thread that has none yet
takes the process's, which every ``set_num_threads`` changes as well. So chunks are computed by threads of our own, set
to one when they begin, once; callers, also several at the same time, keep the number that they have.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_turn = threading.RLock()
_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def workers() -> int:
    """How many chunks run at the same time."""
    return torch.get_num_threads()


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """``work`` on every item, results in order, on as many threads as torch was given in this one.

    Several callers share the threads, so work must not wait for what another one does.
    """
    with _turn:  # while a pool begins, a thread that has no number yet would take that of the pool
        workers = torch.get_num_threads()
    if workers == 1:
        yield from map(work, items)
        return
    pool = _pool(workers)
    futures = [pool.submit(work, item) for item in items]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads with one thread of arithmetic each; what other threads have or begin with stays as it is."""
    with _turn:
        if workers not in _pools:
            pool, all_set = ThreadPoolExecutor(workers, "isonomy"), threading.Barrier(workers + 1)

            def begin() -> None:
                torch.get_num_threads()  # else the first operation would put the process's number over our own
                torch.set_num_threads(1)
                all_set.wait()

            with _kept_elsewhere():
                for _ in range(workers):
                    pool.submit(begin)
                all_set.wait()
            _pools[workers] = pool
        return _pools[workers]


def _in_a_new_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@contextmanager
def _kept_elsewhere() -> Iterator[None]:
    """Threads that begin later have as many threads of arithmetic as before, whatever is set here for a single one."""
    everywhere: list[int] = []
    _in_a_new_thread(lambda: everywhere.append(torch.get_num_threads()))
    try:
        yield
    finally:
        _in_a_new_thread(lambda: torch.set_num_threads(everywhere[0]))


class _Blas:
    """One thread for numpy's products while anybody asks for it: how a product is split can change its last bit."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.limits: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limits = import_module("threadpoolctl").threadpool_limits(1, user_api="blas")
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0:
                    self.limits.restore_original_limits()


one_thread_in_blas = _Blas()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch and numpy: a sequential search whose last bits do not depend on the machine's cores."""
    with _turn, _kept_elsewhere():
        workers = torch.get_num_threads()
        torch.set_num_threads(1)
    try:
        with one_thread_in_blas():
            yield
    finally:
        with _turn, _kept_elsewhere():
            torch.set_num_threads(workers)
