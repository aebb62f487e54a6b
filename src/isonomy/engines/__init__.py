"""Audits of tables larger than memory, here or on a Dask cluster, that survive being killed."""

from isonomy.engines.certify import certify
from isonomy.engines.dataset import LargeCertificate, certify_dataset

__all__ = ["LargeCertificate", "certify", "certify_dataset"]
