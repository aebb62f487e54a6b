"""What an audit larger than memory will cost: its first rows are audited and timed, the rest is a straight line."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.audit.cost import spoken
from isonomy.audit.large import read_asked, run_large
from isonomy.audit.plan import Plan
from isonomy.errors import FileError, ParameterError

SAMPLES = (128, 512)
"""Rows timed; two sizes tell what is spent once from what is spent on each."""


@dataclass(frozen=True)
class LargeCost:
    """An estimate for one process; workers of a cluster share it."""

    rows: int
    seconds: float
    disk_megabytes: float  # of the parts
    sampled: int
    sampled_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows: about {spoken(self.seconds)} of one process, shared by the workers of a cluster, and "
            f"{self.disk_megabytes:,.0f} MB of disk for the parts, judged by the first {self.sampled} rows, which took "
            f"{spoken(self.sampled_seconds)}."
        )


def estimate_large(plan: Plan) -> LargeCost:
    """Audit the first rows of a Parquet dataset, in this process and in a folder that is thrown away."""
    asked, (rows, head) = read_asked(plan), _head(Path(plan.data))
    times, bytes_, sizes = [], 0.0, sorted({min(head.num_rows, size) for size in SAMPLES})
    with tempfile.TemporaryDirectory(prefix="isonomy-") as name:
        for size in sizes:
            folder = Path(name) / str(size)
            folder.mkdir()
            pq.write_table(head.slice(0, size), folder / "head.parquet")
            some = replace(plan, data=str(folder / "head.parquet"), engine="local", scheduler=None)
            began = time.perf_counter()
            found = run_large(some, folder / "out", None, asked=asked).certificate
            times.append(time.perf_counter() - began)
            bytes_ = sum(path.stat().st_size for path in found.parts) / size
    each = times[-1] / sizes[-1]
    if len(sizes) == 2:
        each = max((times[1] - times[0]) / (sizes[1] - sizes[0]), 0.2 * each)
    return LargeCost(rows, times[-1] + each * (rows - sizes[-1]), bytes_ * rows / 2**20, sizes[-1], times[-1])


def _head(path: Path) -> tuple[int, pa.Table]:
    """How many rows there are, and the first of them."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in (".parquet", ".pq"))
    if not files:
        raise FileError(f"Table {path} cannot be read: there is no such file, or no Parquet file in it.")
    if files[0].suffix.lower() not in (".parquet", ".pq"):
        raise ParameterError(f"'data' must be Parquet for an estimate when 'engine' is given. Got {path}.")
    try:
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        batch = next(pq.ParquetFile(files[0]).iter_batches(max(SAMPLES)), None)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"Table {path} cannot be read as Parquet: {str(error).splitlines()[0].rstrip('.')}.") from None
    if batch is None:
        raise FileError(f"Table {files[0]} is empty: it has no row.")
    return rows, pa.Table.from_batches([batch])
