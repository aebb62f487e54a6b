"""Some of the people of an audit larger than memory, kept so that later ones can be compared with them.

Every individual that counts (a positive weight) is as likely to be among them as any other, whatever its weight, which
is kept beside it: the sample is to the monitor what the table of a smaller audit would be. Which ones they are follows
from their number alone, so that the same audit has the same sample wherever and however often it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.audit.large import LargeFindings
from isonomy.certificates.forms import Arrays
from isonomy.errors import FileError
from isonomy.population import open_people

SAMPLE = 4096
"""People kept, at most; a look of the monitor compares some hundred at a time."""


def sample(findings: LargeFindings, counted: Sequence[int]) -> Arrays:
    """Coordinates, weights and rows of the chosen; ``counted`` says how many of each part count.

    Only the chunks that somebody was chosen from are read again, one at a time.
    """
    asked, chunk = findings.asked, findings.chunk
    options: dict[str, Any] = {"unknown": findings.unknown, "split": asked.split, "labels": False}
    source = open_people(findings.data, asked.schema, work=findings.work, **options)
    if source.files != findings.certificate.sources:
        raise FileError(f"Table {findings.data} was changed during the run: start it again.")
    found: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = []
    for key, places in zip(source.keys(chunk), chosen(counted), strict=True):
        if len(places):
            people = source.read(key)
            some = np.flatnonzero(people.weights > 0)[places]
            found.append((people.x[some], people.weights[some], people.rows[some]))
    x, weights, rows = (np.concatenate(column) for column in zip(*found, strict=True))
    return {"x": x, "weights": weights, "rows": rows}


def chosen(counted: Sequence[int]) -> list[NDArray[np.int64]]:
    """For each part the places, among those who count, of the individuals in the sample."""
    ends = np.cumsum(counted)
    total = int(ends[-1])
    # Memory is that of the sample: numpy draws so few of so many without listing them all.
    drawn = np.sort(np.random.default_rng(0).choice(total, min(total, SAMPLE), replace=False))
    cuts = np.searchsorted(drawn, ends)
    return [part - start for part, start in zip(np.split(drawn, cuts[:-1]), ends - counted, strict=True)]
