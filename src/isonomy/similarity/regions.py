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

__all__ = ["MAX_BRANCHES", "Regions", "Similarity", "kept", "refused"]


class Similarity(similar.Similarity):
    """A metric, a δ and a domain, made ready to give the regions of any individuals."""

    domain: Domain

    def __init__(
        self, metric: Metric, delta: float, domain: Domain, max_branches: int = MAX_BRANCHES, keep: bool = False
    ) -> None:
        """``keep``: the ball is kept with the metric, for whoever asks the same again."""
        self.metric = metric
        with refused():
            super().__init__(metric.form, checked_delta(delta), domain, max_branches, keep)

    def regions(self, x: FloatArray, wander: Wander | None = None) -> list[Regions]:
        """The pieces of the similar sets of the rows of ``x``; see :class:`isonomy_verify.similar.Similarity`."""
        with refused():
            return super().regions(x, wander)


def kept(metric: Metric, delta: float, domain: Domain, max_branches: int) -> Similarity:
    """Made once for whoever asks the same again: forms and domains never change, and are known by their identity."""
    place = _place(metric.form, delta, domain, max_branches)
    if id(metric) not in place:
        place[id(metric)] = Similarity(metric, delta, domain, max_branches, keep=True)
    return place[id(metric)]


@lru_cache(similar.KEPT)
def _place(form: Form, delta: float, domain: Domain, max_branches: int) -> dict[int, Similarity]:
    return {}


@contextmanager
def refused() -> Iterator[None]:
    """What the kernel refuses to derive, as errors of the library."""
    try:
        yield
    except branches.MetricError as error:
        raise MetricError(str(error)) from None
    except similar.DeltaError as error:
        raise ParameterError(str(error)) from None
