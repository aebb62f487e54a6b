"""Isonomy: does this model treat similar people similarly?

Names are imported when they are first used, so that ``import isonomy`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_NAMES = {
    "attacks": "AttackBudget",
    "auditing": "Audit audit",
    "certificates": "Certificate Drift GlobalCertificate LocalCertificate Marginals Mix Part RunOptions SearchOptions "
    "Stability Transport certify certify_everywhere certify_features certify_local feature_share",
    "datasets": "load_population",
    "enumeration": "Enumeration",
    "errors": "AssumedHeadWarning IsonomyError SoundnessError",
    "fairness": "GroupFairness group_fairness",
    "loading": "load_model",
    "networks": "Network check_predictions load_network schema_adapter",
    "population": "Domain Population Schema",
    "problem": "Problem",
    "shift": "Distance wasserstein",
    "similarity": "Counterparts Explore Mahalanobis Metric SensitiveSubspace WeightedLp load_metric",
    "repairing": "repair",
    "training": "FairClassifier FairRegressor frontier",
}
"""What each part has for everybody."""

_WHERE = {name: f"isonomy.{part}" for part, names in _NAMES.items() for name in names.split()}


__all__ = sorted({*_WHERE, "__version__"})

if TYPE_CHECKING:  # the same, for whoever checks types
    from isonomy.attacks import AttackBudget as AttackBudget
    from isonomy.auditing import Audit as Audit
    from isonomy.auditing import audit as audit
    from isonomy.certificates import Certificate as Certificate
    from isonomy.certificates import Drift as Drift
    from isonomy.certificates import GlobalCertificate as GlobalCertificate
    from isonomy.certificates import LocalCertificate as LocalCertificate
    from isonomy.certificates import Marginals as Marginals
    from isonomy.certificates import Mix as Mix
    from isonomy.certificates import Part as Part
    from isonomy.certificates import RunOptions as RunOptions
    from isonomy.certificates import SearchOptions as SearchOptions
    from isonomy.certificates import Stability as Stability
    from isonomy.certificates import Transport as Transport
    from isonomy.certificates import certify as certify
    from isonomy.certificates import certify_everywhere as certify_everywhere
    from isonomy.certificates import certify_features as certify_features
    from isonomy.certificates import certify_local as certify_local
    from isonomy.certificates import feature_share as feature_share
    from isonomy.datasets import load_population as load_population
    from isonomy.enumeration import Enumeration as Enumeration
    from isonomy.errors import AssumedHeadWarning as AssumedHeadWarning
    from isonomy.errors import IsonomyError as IsonomyError
    from isonomy.errors import SoundnessError as SoundnessError
    from isonomy.fairness import GroupFairness as GroupFairness
    from isonomy.fairness import group_fairness as group_fairness
    from isonomy.loading import load_model as load_model
    from isonomy.networks import Network as Network
    from isonomy.networks import check_predictions as check_predictions
    from isonomy.networks import load_network as load_network
    from isonomy.networks import schema_adapter as schema_adapter
    from isonomy.population import Domain as Domain
    from isonomy.population import Population as Population
    from isonomy.population import Schema as Schema
    from isonomy.problem import Problem as Problem
    from isonomy.repairing import repair as repair
    from isonomy.shift import Distance as Distance
    from isonomy.shift import wasserstein as wasserstein
    from isonomy.similarity import Counterparts as Counterparts
    from isonomy.similarity import Explore as Explore
    from isonomy.similarity import Mahalanobis as Mahalanobis
    from isonomy.similarity import Metric as Metric
    from isonomy.similarity import SensitiveSubspace as SensitiveSubspace
    from isonomy.similarity import WeightedLp as WeightedLp
    from isonomy.similarity import load_metric as load_metric
    from isonomy.training import FairClassifier as FairClassifier
    from isonomy.training import FairRegressor as FairRegressor
    from isonomy.training import frontier as frontier


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        globals()[name] = value = getattr(import_module(_WHERE[name]), name)
        return value
    raise AttributeError(f"module 'isonomy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
