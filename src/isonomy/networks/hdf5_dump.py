"""Write the contents of an HDF5 file to standard output as plain arrays:
``python hdf5_dump.py <file or -> <bytes of arrays> <bytes of texts>``.

A damaged file can make the HDF5 library loop for ever or crash, so :mod:`isonomy.networks.keras_reader` runs this page
in a process of its own, which can be stopped. It imports nothing but h5py and numpy.

**Safety.** Only what is in the file itself is read: links, external and virtual arrays are listed as outside.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

_MEMBERS = 20_000  # groups and arrays of one file


def dump(source: Any, limit: int, texts_limit: int) -> bytes:
    """Return an npz archive: the datasets, and one JSON text of their names, the attributes and outside links."""
    arrays: dict[str, Any] = {}
    attributes: dict[str, dict[str, Any]] = {}
    outside: list[str] = []
    waiting = [("", source)]
    while waiting:
        path, part = waiting.pop()
        if len(attributes) > _MEMBERS:
            raise ValueError("too many members")
        attributes[path] = {name: _text(part.attrs[name]) for name in part.attrs}
        if isinstance(part, h5py.Dataset):
            limit -= part.nbytes
            if part.external or part.is_virtual or part.dtype.kind not in "fiub":
                outside.append(path)
            elif limit < 0:
                raise ValueError("larger than the supported size")
            else:
                arrays[path] = part[()]
        elif isinstance(part, h5py.Group):
            for name in part:
                inner = f"{path}/{name}"
                if isinstance(part.get(name, getlink=True), h5py.HardLink):
                    waiting.append((inner, part[name]))
                else:
                    outside.append(inner)
    texts = json.dumps({"names": list(arrays), "attributes": attributes, "outside": outside})
    if len(texts) > texts_limit:
        raise ValueError("texts larger than the supported size")
    buffer = io.BytesIO()
    np.savez(buffer, *arrays.values(), texts=texts)
    return buffer.getvalue()


def _text(value: Any) -> Any:
    """Return texts and lists of texts; other attributes are of no interest."""
    if isinstance(value, bytes | str | np.bytes_):
        return value.decode() if isinstance(value, bytes) else str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "SOU" and value.ndim == 1:
        return [_text(each) for each in value.tolist()]
    return None


if __name__ == "__main__":
    # What the library would allocate beyond what arrays may need fails: an attribute can repeat one text for ever.
    with suppress(ImportError, ValueError, OSError):  # not on Windows, where a process cannot limit itself
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (3 * int(sys.argv[2]) + 2**26,) * 2)
    place: Any = io.BytesIO(sys.stdin.buffer.read()) if sys.argv[1] == "-" else sys.argv[1]
    with h5py.File(place, "r") as file:
        sys.stdout.buffer.write(dump(file, *map(int, sys.argv[2:])))
