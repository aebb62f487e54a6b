"""Engines: where chunks are worked on, in this process or on a Dask cluster that the caller brings.

The same function sees the same chunks either way, with one thread of arithmetic each, so the results are the same bit
for bit on the same kind of processor.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

from isonomy.errors import IsonomyError, ParameterError, needed, template
from isonomy.given import choice
from isonomy.parallel import in_parallel

PATIENCE = 30.0
"""Seconds in which a scheduler must answer."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc

EngineName = Literal["local", "dask"]

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs work on every item. A task may run twice, so it must have the same result every time; what it raises is
    raised again in the caller; ``shared`` is sent to each worker once."""

    def map(self, work: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]) -> Iterator[Result]:
        """Yield ``work(shared, item)`` for every item, results in any order."""


@contextmanager
def open_engine(engine: EngineName, scheduler: str | None) -> Iterator[Engine]:
    """Open an engine; ``scheduler`` is an address, or None for the current Dask client, else a local cluster."""
    check_engine(engine, scheduler)
    if engine == "local":
        yield LocalEngine()
        return
    with ExitStack() as stack:
        yield DaskEngine(_client(scheduler, stack))


def check_engine(engine: str, scheduler: str | None) -> None:
    """Refuse an engine that is not there before any work is done."""
    choice("engine", engine, EngineName)
    if engine == "dask":
        _dask()
    elif scheduler is not None:
        raise ParameterError(template("scheduler", "None unless engine='dask'", scheduler))


class LocalEngine:
    """This process, as many chunks at a time as there are workers."""

    def map(self, work: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]) -> Iterator[Result]:
        """Yield results in order."""
        yield from in_parallel(lambda item: work(shared, item), items)


class DaskEngine:
    """The workers of a Dask cluster, which see the data and the work folder under the same paths."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(self, work: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]) -> Iterator[Result]:
        """Yield results as they arrive. Tasks of a worker that died are given to another one."""
        dask = _dask()
        # A task of its own, so that a worker that lost it can make it again.
        held = self.client.submit(_identity, shared, pure=False)
        futures = [self.client.submit(_work_on, work, held, item, pure=False) for item in items]
        try:
            # One by one: a batch would have what a task raised among its results, and raise nothing.
            for future, result in dask.as_completed(futures, with_results=True):
                yield result
                future.release()
        except dask.KilledWorker as error:
            raise IsonomyError(
                f"A chunk has ended several Dask workers, most likely for lack of memory ({error}): give workers more "
                "of it or 'chunk' fewer rows. What is finished is kept."
            ) from None
        finally:
            self.client.cancel(futures)


def _identity(shared: Shared) -> Shared:
    return shared


def _work_on(work: Callable[[Shared, Item], Result], shared: Shared, item: Item) -> Result:
    """Work on one item with one thread."""
    _keep_memory()
    (result,) = in_parallel(lambda some: work(shared, some), [item])
    return result


@cache
def _keep_memory() -> None:
    """Let the C library keep the memory of large matrices for the next ones.

    Dask tells its workers to give all memory back at once (MALLOC_TRIM_THRESHOLD_), so that every matrix would pay for
    its pages anew: several times the arithmetic on it.
    """
    try:
        allocator = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library, with other habits
    allocator(_MMAP_THRESHOLD, 2**25)
    allocator(_TRIM_THRESHOLD, 2**28)


def _client(scheduler: str | None, stack: ExitStack) -> Any:
    dask = _dask()
    if scheduler is not None:
        try:
            return stack.enter_context(dask.Client(scheduler, timeout=PATIENCE))
        except (OSError, ValueError) as error:
            raise ParameterError(
                template("scheduler", f"the address of a Dask scheduler that answers ({error})", scheduler)
            ) from None
    try:
        return dask.Client.current()
    except ValueError:
        return stack.enter_context(_own_cluster(dask))


@contextmanager
def _own_cluster(dask: Any) -> Iterator[Any]:
    """Open a cluster of this machine's processes, and close it without a message.

    On a busy machine workers take longer to leave than Dask waits; it says that it kills them. Then nothing is lost:
    parts are written whole or not at all. While there is work, warnings are shown.
    """
    logger = logging.getLogger("distributed.nanny")
    level = logger.level
    try:
        # Any free port on this machine alone: without an address Dask takes 8787 and warns where that is in use.
        address = "localhost:0"
        with (
            dask.LocalCluster(threads_per_worker=1, dashboard_address=address) as cluster,
            dask.Client(cluster) as client,
        ):
            try:
                yield client
            finally:
                logger.setLevel(logging.ERROR)
    finally:
        logger.setLevel(level)


def _dask() -> Any:
    return needed("distributed", "dask", "engine='dask'")
