"""Chunks in parallel, one thread of arithmetic each.

Small steps between large products gain nothing from a second thread; whole chunks do. The results do not depend on how
many threads there are, since every chunk is computed by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

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
