"""Who is similar, for the metrics and domains of the library: the kernel's regions, with errors for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import lru_cache

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError, ParameterError
from isonomy.population.domain import Domain
from isonomy.similarity.metric import Metric, checked_delta
from isonomy_verify import branches, similar
from isonomy_verify.combinations import Product, product_of
from isonomy_verify.sets import Regions
from isonomy_verify.similar import MAX_BRANCHES, SAMPLE, CentreBox

__all__ = ["MAX_BRANCHES", "Regions", "Similarity", "cached_similarity", "refused"]


FEW, MANY = 4, 64
"""Combinations of a product that are bounded by passes of their own, and those that together cost as much as one."""


class Similarity:
    """A metric, a δ and a domain; ``kernel`` gives the regions of any individuals, whose errors are the library's here.

    With ``keep`` the ball is cached with the metric.
    """

    def __init__(
        self, metric: Metric, delta: float, domain: Domain, max_branches: int = MAX_BRANCHES, keep: bool = False
    ) -> None:
        self.metric, self.domain, self.max_branches = metric, domain, max_branches
        with refused():
            self.kernel = similar.Similarity(metric.form, checked_delta(delta), domain, max_branches, keep)

    @property
    def delta(self) -> float:
        """Return the largest distance of similar people."""
        return self.kernel.delta

    def regions(self, x: FloatArray, centre_box: CentreBox | None = None) -> list[Regions]:
        """Return the pieces of the similar sets of the rows of ``x`` (n, m)."""
        with refused():
            return self.kernel.regions(x, centre_box)

    def each(self, x: FloatArray) -> Iterator[Regions]:
        """Yield the pieces of some rows of ``x`` at a time, so that few are held in memory."""
        with refused():
            yield from self.kernel.each(x)

    def at_once(self, x: FloatArray, centre_box: CentreBox | None = None) -> int:
        """Return the number of rows of ``x`` whose regions may be held in memory together."""
        with refused():
            return self.kernel.at_once(x, centre_box)

    def count(self, x: FloatArray, centre_box: CentreBox | None = None) -> float:
        """Return the regions of a row of ``x``, on average over a few; at least 1."""
        with refused():
            return self.kernel.count(x, centre_box)

    def product(self, x: FloatArray) -> Product | None:
        """Return the similar sets of the rows of ``x`` as products of a box and combinations; None if they are none."""
        with refused():
            return product_of(self.kernel, x)

    def passes(self, x: FloatArray) -> float:
        """Return about the regions of a row of ``x`` that are bounded by passes: of a product only its worst are."""
        product = self.product(x[:SAMPLE])
        return self.count(x) if product is None else min(product.size, FEW + product.size / MANY)

    def resized(self, delta: float) -> Similarity:
        """Return the same with another δ."""
        other = copy(self)
        with refused():
            other.kernel = self.kernel.resized(delta)
        return other


@lru_cache(similar.BALLS_KEPT)
def cached_similarity(metric: Metric, delta: float, domain: Domain, max_branches: int) -> Similarity:
    """Return the similarity, made once: metrics and domains never change, and are known by their identity."""
    return Similarity(metric, delta, domain, max_branches, keep=True)


@contextmanager
def refused() -> Iterator[None]:
    """Raise errors of the kernel as errors of the library."""
    try:
        yield
    except branches.MetricError as error:
        raise MetricError(str(error)) from None
    except similar.DeltaError as error:
        raise ParameterError(str(error)) from None
