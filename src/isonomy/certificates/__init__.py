"""Certificates: violations of given individuals, of populations near them, and of all individuals of a domain."""

from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import certify
from isonomy.certificates.composed import Composed as Composed  # what & of two shifts means
from isonomy.certificates.drift import Drift
from isonomy.certificates.everywhere import GlobalCertificate, certify_everywhere
from isonomy.certificates.features import FeatureShare, certify_features, feature_share
from isonomy.certificates.gaps import Across, FeatureGap
from isonomy.certificates.local import LocalCertificate, certify_local
from isonomy.certificates.marginals import Marginals
from isonomy.certificates.mix import Mix
from isonomy.certificates.options import RunOptions, SearchOptions
from isonomy.certificates.part import Part
from isonomy.certificates.stability import Stability
from isonomy.certificates.transport import Transport

__all__ = [
    "Across",
    "Certificate",
    "Drift",
    "FeatureGap",
    "FeatureShare",
    "GlobalCertificate",
    "LocalCertificate",
    "Marginals",
    "Mix",
    "Part",
    "RunOptions",
    "SearchOptions",
    "Stability",
    "Transport",
    "certify",
    "certify_everywhere",
    "certify_features",
    "certify_local",
    "feature_share",
]
