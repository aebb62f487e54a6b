"""The kernel of Isonomy: proves bounds of networks, and checks certificates. Numpy only, nothing of ``isonomy``."""

from isonomy_verify.check import BadInput, Verification, verify  # noqa: F401
