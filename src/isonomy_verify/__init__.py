"""An independent checker of Isonomy certificates: numpy only, and nothing of ``isonomy``."""

from isonomy_verify.check import BadInput, Verification, verify  # noqa: F401
