"""The state of a training between two epochs, in one file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isonomy.errors import FileError, ParameterError

_FORMAT = "isonomy training 1"


def save_state(path: Path, fingerprint: str, state: dict[str, Any]) -> None:
    """Write under another name, then rename: a kill at any moment leaves the old or the new state."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            torch.save({"format": _FORMAT, "fingerprint": fingerprint, "state": state}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise FileError(f"The checkpoint {path} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)


def load_state(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """The state of the same training, or None when there is no file; another training's file is refused."""
    if not path.exists():
        return None
    try:
        content = torch.load(path, weights_only=True)
        kind, found, state = content["format"], content["fingerprint"], content["state"]
    except Exception as error:  # torch raises many kinds for a file that is not its own
        raise FileError(f"The file {path} is not a checkpoint of a training: {type(error).__name__}.") from error
    if kind != _FORMAT or found != fingerprint:
        raise ParameterError(
            f"The checkpoint {path} belongs to a training with other data or parameters: remove it, or name another."
        )
    return dict(state)


def fingerprint_of(words: str, *tensors: Tensor) -> str:
    """SHA-256 of everything that decides how a training goes."""
    digest = hashlib.sha256(words.encode())
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
