"""Chunks in parallel, one thread of arithmetic each.

Small steps between large products gain nothing from a second thread; whole chunks do. The results do not depend on how
many threads there are, since every chunk is computed by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """``work`` on every item, results in order, on as many threads as torch was given."""
    with _one_thread_each() as workers:
        if workers == 1 or len(items) == 1:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[int]:
    """torch's own threads are set aside, and given back."""
    workers = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield workers
    finally:
        torch.set_num_threads(workers)


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
    with _one_thread_each(), one_thread_in_blas():
        yield
