"""The certificate as files: ``certificate.json`` and the evidence it names by hash."""

from isonomy.records.reading import Record, read
from isonomy.records.writing import new_key, write

__all__ = ["Record", "new_key", "read", "write"]
