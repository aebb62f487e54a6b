"""Isonomy: does this neural network treat similar people similarly?

Names are imported when they are first used, so that ``import isonomy`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "AssumedHeadWarning": "isonomy.errors",
    "Certificate": "isonomy.certificates",
    "Counterparts": "isonomy.similarity",
    "Distance": "isonomy.shift",
    "Domain": "isonomy.population",
    "AttackBudget": "isonomy.attacks",
    "Audit": "isonomy.auditing",
    "Explore": "isonomy.similarity",
    "FairClassifier": "isonomy.training",
    "FairRegressor": "isonomy.training",
    "GlobalCertificate": "isonomy.certificates",
    "GroupFairness": "isonomy.fairness",
    "IsonomyError": "isonomy.errors",
    "LocalCertificate": "isonomy.certificates",
    "Mahalanobis": "isonomy.similarity",
    "Metric": "isonomy.similarity",
    "Network": "isonomy.networks",
    "Population": "isonomy.population",
    "Schema": "isonomy.population",
    "SensitiveSubspace": "isonomy.similarity",
    "SoundnessError": "isonomy.errors",
    "Transport": "isonomy.certificates",
    "WeightedLp": "isonomy.similarity",
    "audit": "isonomy.auditing",
    "certify": "isonomy.certificates",
    "certify_everywhere": "isonomy.certificates",
    "certify_local": "isonomy.certificates",
    "check_predictions": "isonomy.networks",
    "frontier": "isonomy.training",
    "group_fairness": "isonomy.fairness",
    "load_metric": "isonomy.similarity",
    "load_model": "isonomy.networks",
    "load_network": "isonomy.networks",
    "load_population": "isonomy.datasets",
    "repair": "isonomy.training",
    "schema_adapter": "isonomy.networks",
    "wasserstein": "isonomy.shift",
}

_OLD = {"DistributionalCertificate": "Certificate", "Effort": "AttackBudget", "LargeCertificate": "Certificate"}
"""Names of version 0.1, until 0.3."""

__all__ = [
    "AssumedHeadWarning",
    "AttackBudget",
    "Audit",
    "Certificate",
    "Counterparts",
    "Distance",
    "Domain",
    "Explore",
    "FairClassifier",
    "FairRegressor",
    "GlobalCertificate",
    "GroupFairness",
    "IsonomyError",
    "LocalCertificate",
    "Mahalanobis",
    "Metric",
    "Network",
    "Population",
    "Schema",
    "SensitiveSubspace",
    "SoundnessError",
    "Transport",
    "WeightedLp",
    "__version__",
    "audit",
    "certify",
    "certify_everywhere",
    "certify_local",
    "check_predictions",
    "frontier",
    "group_fairness",
    "load_metric",
    "load_model",
    "load_network",
    "load_population",
    "repair",
    "schema_adapter",
    "wasserstein",
]

if TYPE_CHECKING:
    from isonomy.attacks import AttackBudget
    from isonomy.auditing import Audit, audit
    from isonomy.certificates import (
        Certificate,
        GlobalCertificate,
        LocalCertificate,
        Transport,
        certify,
        certify_everywhere,
        certify_local,
    )
    from isonomy.datasets import load_population
    from isonomy.errors import AssumedHeadWarning, IsonomyError, SoundnessError
    from isonomy.fairness import GroupFairness, group_fairness
    from isonomy.networks import Network, check_predictions, load_model, load_network, schema_adapter
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
    from isonomy.training import FairClassifier, FairRegressor, frontier, repair


def __getattr__(name: str) -> Any:
    where = _OLD.get(name, name)
    if where in _WHERE:
        globals()[name] = found = getattr(import_module(_WHERE[where]), where)
        return found
    raise AttributeError(f"module 'isonomy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
