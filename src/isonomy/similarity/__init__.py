"""Who counts as alike: fair metrics, one per file, and the sets of similar individuals they give."""

from isonomy.similarity.counterparts import Counterparts
from isonomy.similarity.explore import Explore
from isonomy.similarity.files import load_metric
from isonomy.similarity.lp import WeightedLp
from isonomy.similarity.mahalanobis import Mahalanobis
from isonomy.similarity.metric import Metric
from isonomy.similarity.sensitive import SensitiveSubspace

__all__ = [
    "Counterparts",
    "Explore",
    "Mahalanobis",
    "Metric",
    "SensitiveSubspace",
    "WeightedLp",
    "load_metric",
]
