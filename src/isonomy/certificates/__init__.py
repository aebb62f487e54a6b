"""What is certified: violations of given individuals, of populations near them, and of everybody in a domain."""

from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import certify
from isonomy.certificates.everywhere import GlobalCertificate, certify_everywhere
from isonomy.certificates.local import LocalCertificate, certify_local

__all__ = [
    "Certificate",
    "GlobalCertificate",
    "LocalCertificate",
    "certify",
    "certify_everywhere",
    "certify_local",
]
