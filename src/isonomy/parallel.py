"""Chunks in parallel, one thread of arithmetic each.

Small steps between large products gain nothing from a second thread; whole chunks do. The results do not depend on how
many chunks run at the same time, since every chunk is computed by one thread: how a product is split over threads can
change its last bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from isonomy.given import whole

Item = TypeVar("Item")
Result = TypeVar("Result")

_pool_lock = threading.RLock()
_pools: dict[int, ThreadPoolExecutor] = {}
_chosen_workers: list[int] = []
_thread_state = threading.local()
os.register_at_fork(before=_pool_lock.acquire, after_in_parent=_pool_lock.release, after_in_child=_pool_lock.release)
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def workers() -> int:
    """Return the number of chunks that run at the same time.

    That of :func:`set_workers`; else the environment's ``OMP_NUM_THREADS``; else the processors that this process may
    use. Within a chunk it is one.
    """
    if getattr(_thread_state, "in_chunk", False):
        return 1
    if _chosen_workers:
        return _chosen_workers[-1]
    environment = os.environ.get("OMP_NUM_THREADS", "")
    return int(environment) if environment.isdecimal() and int(environment) else len(os.sched_getaffinity(0))


def set_workers(count: int | None) -> None:
    """Set the number of chunks that run at the same time in this process; None: the default of :func:`workers`."""
    _chosen_workers[:] = [] if count is None else [whole("count", count, 1)]


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the results of ``work`` on every item, in order, by :func:`workers` threads.

    Several callers share the threads, so work must not wait for what another one does.
    """
    count = workers()
    with one_thread_in_blas():
        if count == 1 or len(items) == 1:
            yield from map(work, items)
            return
        futures = [_pool(count).submit(work, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
            wait(futures)


def _pool(count: int) -> ThreadPoolExecutor:
    def begin() -> None:
        _thread_state.in_chunk = True

    with _pool_lock:
        if count not in _pools:
            _pools[count] = ThreadPoolExecutor(max(count, 1), "isonomy", begin)
        return _pools[count]


class _Blas:
    """One thread for numpy's products while a block needs it.

    A limit belongs to the thread that sets it, and others cannot lift it. The first block may end before the last, so
    a thread of its own sets and lifts it for all. A limit that was set elsewhere holds.
    """

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.lift: Callable[[], None] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            self.users += 1
            if self.users == 1 and any(library.num_threads > 1 for library in _libraries().lib_controllers):
                self.lift = _pool(0).submit(_limit).result()
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0 and self.lift is not None:
                    _pool(0).submit(self.lift).result()
                    self.lift = None


def _limit() -> Callable[[], None]:
    """Set the limit, and return the function that lifts it."""
    limits = ExitStack()
    limits.enter_context(_libraries().limit(limits=1, user_api="blas"))
    return limits.close


@cache
def _libraries() -> Any:
    """Return the BLAS libraries behind numpy's products; looking for them takes longer than a small product."""
    import_module("numpy")
    return import_module("threadpoolctl").ThreadpoolController().select(user_api="blas")


one_thread_in_blas = _Blas()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block with one thread, so that its last bits do not depend on the machine's processors."""
    before = getattr(_thread_state, "in_chunk", False)
    _thread_state.in_chunk = True
    try:
        with one_thread_in_blas():
            yield
    finally:
        _thread_state.in_chunk = before
