"""Certificates: violations of given individuals, of populations near them, and of all individuals of a domain."""

from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import certify
from isonomy.certificates.everywhere import GlobalCertificate, certify_everywhere
from isonomy.certificates.local import LocalCertificate, certify_local
from isonomy.certificates.options import RunOptions, SearchOptions
from isonomy.certificates.part import Part
from isonomy.certificates.transport import Transport

__all__ = [
    "Certificate",
    "GlobalCertificate",
    "LocalCertificate",
    "Part",
    "RunOptions",
    "SearchOptions",
    "Transport",
    "certify",
    "certify_everywhere",
    "certify_local",
]
