"""Isonomy: does this neural network treat similar people similarly?

Names are imported when they are first used, so that ``import isonomy`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "Counterparts": "isonomy.similarity",
    "Distance": "isonomy.shift",
    "DistributionalCertificate": "isonomy.certify",
    "Domain": "isonomy.population",
    "Effort": "isonomy.attacks",
    "Explore": "isonomy.similarity",
    "GroupFairness": "isonomy.fairness",
    "IsonomyError": "isonomy.errors",
    "LocalCertificate": "isonomy.certify",
    "Mahalanobis": "isonomy.similarity",
    "Metric": "isonomy.similarity",
    "Network": "isonomy.networks",
    "Population": "isonomy.population",
    "Schema": "isonomy.population",
    "SensitiveSubspace": "isonomy.similarity",
    "WeightedLp": "isonomy.similarity",
    "certify": "isonomy.certify",
    "certify_local": "isonomy.certify",
    "check_predictions": "isonomy.networks",
    "group_fairness": "isonomy.fairness",
    "load_metric": "isonomy.similarity",
    "load_network": "isonomy.networks",
    "load_population": "isonomy.datasets",
    "schema_adapter": "isonomy.networks",
    "wasserstein": "isonomy.shift",
}

__all__ = [
    "Counterparts",
    "Distance",
    "DistributionalCertificate",
    "Domain",
    "Effort",
    "Explore",
    "GroupFairness",
    "IsonomyError",
    "LocalCertificate",
    "Mahalanobis",
    "Metric",
    "Network",
    "Population",
    "Schema",
    "SensitiveSubspace",
    "WeightedLp",
    "__version__",
    "certify",
    "certify_local",
    "check_predictions",
    "group_fairness",
    "load_metric",
    "load_network",
    "load_population",
    "schema_adapter",
    "wasserstein",
]

if TYPE_CHECKING:
    from isonomy.attacks import Effort
    from isonomy.certify import DistributionalCertificate, LocalCertificate, certify, certify_local
    from isonomy.datasets import load_population
    from isonomy.errors import IsonomyError
    from isonomy.fairness import GroupFairness, group_fairness
    from isonomy.networks import Network, check_predictions, load_network, schema_adapter
    from isonomy.population import Domain, Population, Schema
    from isonomy.shift import Distance, wasserstein
    from isonomy.similarity import (
        Counterparts,
        Explore,
        Mahalanobis,
        Metric,
        SensitiveSubspace,
        WeightedLp,
        load_metric,
    )


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'isonomy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
