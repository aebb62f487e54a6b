"""The kernel: every bound of Isonomy is derived by these lines, and a stranger checks a certificate with them.

It needs numpy and imports nothing of ``isonomy``. ``python -m isonomy_verify certificate.json``, or :func:`verify`.
Names are imported when they are first used: the library takes what it needs from the modules themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isonomy_verify.check import Verification, verify
    from isonomy_verify.record import BadInput

__all__ = ["BadInput", "Verification", "verify"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"isonomy_verify.{'record' if name == 'BadInput' else 'check'}"), name)
    raise AttributeError(f"module 'isonomy_verify' has no attribute {name!r}")
