"""Who is similar, for the metrics and domains of the library: the kernel's regions, with errors for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError, ParameterError
from isonomy.population.domain import Domain
from isonomy.similarity.metric import Metric, checked_delta
from isonomy_verify import branches, similar
from isonomy_verify.forms import Form
from isonomy_verify.sets import Regions
from isonomy_verify.similar import MAX_BRANCHES, Wander

__all__ = ["MAX_BRANCHES", "Regions", "Similarity", "cached_similarity", "refused"]


class Similarity(similar.Similarity):
    """A metric, a δ and a domain, made ready to give the regions of any individuals."""

    domain: Domain

    def __init__(
        self, metric: Metric, delta: float, domain: Domain, max_branches: int = MAX_BRANCHES, keep: bool = False
    ) -> None:
        """Keep the ball with the metric if ``keep``, for the same metric and delta again."""
        self.metric = metric
        with refused():
            super().__init__(metric.form, checked_delta(delta), domain, max_branches, keep)

    def regions(self, x: FloatArray, wander: Wander | None = None) -> list[Regions]:
        """Return the pieces of the similar sets of the rows (n, m) of ``x``; see the kernel's class."""
        with refused():
            return super().regions(x, wander)


def cached_similarity(metric: Metric, delta: float, domain: Domain, max_branches: int) -> Similarity:
    """Return a similarity that is made once: forms and domains never change, and are known by their identity."""
    place = _place(metric.form, delta, domain, max_branches)
    if id(metric) not in place:
        place[id(metric)] = Similarity(metric, delta, domain, max_branches, keep=True)
    return place[id(metric)]


@lru_cache(similar.KEPT)
def _place(form: Form, delta: float, domain: Domain, max_branches: int) -> dict[int, Similarity]:
    return {}


@contextmanager
def refused() -> Iterator[None]:
    """Raise what the kernel refuses to derive as errors of the library."""
    try:
        yield
    except branches.MetricError as error:
        raise MetricError(str(error)) from None
    except similar.DeltaError as error:
        raise ParameterError(str(error)) from None
