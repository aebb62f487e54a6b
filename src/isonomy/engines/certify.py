"""One call for people in memory and for datasets of any size."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy.typing as npt

from isonomy.certificates.distributional import DistributionalCertificate
from isonomy.certificates.distributional import certify as certify_in_memory
from isonomy.engines.dataset import LargeCertificate, SourceLike, certify_dataset
from isonomy.errors import ParameterError, template
from isonomy.networks.network import Network
from isonomy.population import Population, Schema
from isonomy.similarity.metric import Metric

Engine = Literal["local", "dask"]


@overload
def certify(
    network: Network, people: SourceLike, metric: Metric, delta: float, gamma: float, **options: Any
) -> LargeCertificate: ...


@overload
def certify(
    network: Network, people: Population | npt.ArrayLike, metric: Metric, delta: float, gamma: float, **options: Any
) -> DistributionalCertificate: ...


def certify(
    network: Network,
    people: Population | npt.ArrayLike | SourceLike,
    metric: Metric,
    delta: float,
    gamma: float,
    *,
    engine: Engine | None = None,
    scheduler: str | None = None,
    schema: Schema | None = None,
    work: str | PathLike[str] | None = None,
    **options: Any,
) -> DistributionalCertificate | LargeCertificate:
    """Bound the mean violation of every population within Wasserstein distance ``gamma`` of the individuals.

    ``people`` in memory: the ``options`` of :func:`isonomy.certificates.distributional.certify`. The path of a dataset
    (Parquet, CSV), a Dask data frame or a source of people: those of :func:`isonomy.engines.certify_dataset`, with its
    ``schema``, a folder ``work`` that keeps finished parts, and an ``engine``, ``"local"`` or ``"dask"`` (at the
    address of a ``scheduler``, if given).
    """
    if isinstance(people, SourceLike):
        if schema is None or work is None:
            raise ParameterError("A dataset needs its 'schema', and 'work', a folder that keeps finished parts.")
        where: dict[str, Any] = {"engine": engine or "local", "scheduler": scheduler, "work": Path(work)}
        return certify_dataset(people, schema, network, metric, delta, gamma, **where, **options)
    if engine is not None:
        raise ParameterError(template("people", "the path of a dataset when 'engine' is given", type(people).__name__))
    return certify_in_memory(network, people, metric, delta, gamma, **options)
