"""What is certified: violations of given individuals (local)."""

from isonomy.certify.local import LocalCertificate, certify_local

__all__ = ["LocalCertificate", "certify_local"]
