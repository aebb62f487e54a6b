"""One exception tree: what went wrong, in one sentence, with a stable code.

Every error that a user can cause is an :class:`IsonomyError`. Its message names the column, row, layer or
file and says what would be right; the command line prints it and leaves with ``exit_status``, the service
answers with ``http_status``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from isonomy.escapes import visible


class IsonomyError(Exception):
    """Something that the caller can put right; what its message repeats of files and tables is made visible."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 2
    http_status: ClassVar[int] = 422

    def __str__(self) -> str:
        return visible(super().__str__())


class ParameterError(IsonomyError, ValueError):
    """An argument has a value that cannot be used."""

    code = "parameter"


class SchemaError(IsonomyError, ValueError):
    """A schema does not describe a usable set of features."""

    code = "schema"


class DataError(IsonomyError, ValueError):
    """A table does not fit its schema, or holds values that no individual can have."""

    code = "data"


class MetricError(IsonomyError, ValueError):
    """A metric cannot be built, read or used in the chosen domain."""

    code = "metric"


class NetworkError(IsonomyError, ValueError):
    """A network cannot be used as it is."""

    code = "network"


class UnsupportedOperationError(NetworkError):
    """A network holds an operation for which no sound rule exists here."""

    code = "unsupported-operation"


class FileError(IsonomyError):
    """A file is missing, unreadable, or not of the kind that its name says."""

    code = "file"


class MissingPackageError(IsonomyError, ModuleNotFoundError):
    """Something was asked for that needs a package beyond the base installation."""

    code = "missing-package"


class AssumedHeadWarning(UserWarning):
    """A network ends in several raw numbers, which were taken as a softmax although nothing says so."""


class NotANumberError(IsonomyError, ArithmeticError):
    """A computation produced a NaN; nothing is certified from it."""

    code = "nan"
    http_status = 500


class SoundnessError(IsonomyError):
    """Something that was attained contradicts something that was proved: no number of this run can be trusted.

    No caller can cause it and none can put it right; it is a fault of the program (or of the machine), and never a
    verdict. ``contradiction`` says what contradicts what, ``file`` holds what is needed to see it again, or is None.
    """

    code = "soundness"
    exit_status = 4
    http_status = 500

    def __init__(self, contradiction: str, where: str = "", file: Path | None = None) -> None:
        super().__init__(f"{contradiction}; {where}." if where else f"{contradiction}.")
        self.contradiction, self.where, self.file = contradiction, where, file

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.contradiction, self.where, self.file)


def needed(package: str, extra: str, what: str) -> Any:
    """Import a package of an extra, or raise one sentence where it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != package.split(".")[0]:
            raise
        raise MissingPackageError(f"{what} needs the package {package}: pip install 'isonomy[{extra}]'.") from error


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, or the name of its type where it has none."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def template(parameter: str, expected: str, got: Any) -> str:
    """Return the one form in which a bad argument is reported: ``'delta' must be …. Got …``, in one line."""
    shown = " ".join(repr(got).split())
    return f"'{parameter}' must be {expected}. Got {shown if len(shown) <= 200 else f'{shown[:200]}…'}."
