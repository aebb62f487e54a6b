"""What an audit will cost: a small sample is audited and timed, the rest is a straight line."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

from isonomy.auditing.inputs import Inputs
from isonomy.auditing.plan import Plan
from isonomy.certificates.certify import CHUNK, certify
from isonomy.certificates.question import on_all_coordinates
from isonomy.errors import DataError

SAMPLES = (24, 64)
"""Individuals timed; two sizes tell what is spent once from what is spent on each."""


@dataclass(frozen=True)
class CostEstimate:
    """An estimate, and what it rests on."""

    individuals: int
    coordinates: int
    seconds: float
    megabytes: float
    sampled: int
    sampled_seconds: float

    def __str__(self) -> str:
        cost = f"about {spoken(self.seconds)} and {self.megabytes:,.0f} MB of memory"
        judged = f"judged by {self.sampled} individuals that took {spoken(self.sampled_seconds)}"
        return f"{self.individuals:,} individuals of {self.coordinates} coordinates: {cost}, {judged}."


def estimate(plan: Plan, inputs: Inputs) -> CostEstimate:
    """Audit two small samples and extend their times to everybody."""
    if inputs.people is None:
        source = inputs.opened(plan, None)
        keys = source.keys(SAMPLES[-1])
        n, x = sum(map(len, keys)), next((chunk.x for key in keys if len(chunk := source.read(key))), np.zeros((0, 0)))
    else:
        n, x = len(inputs.people), inputs.people.sample(SAMPLES[-1], plan.seed).x
    if not len(x):
        raise DataError("There are no individuals: no row of the table is left.")
    network, domain = on_all_coordinates(inputs.network, inputs.schema), inputs.schema.domain(plan.domain)
    sizes, times = sorted({min(len(x), size) for size in SAMPLES}), []
    for size in sizes:
        began = time.perf_counter()
        found = certify(
            network, x[:size], inputs.metric, plan.delta, plan.gamma, order=plan.order, ground=inputs.ground,
            domain=domain, tier=plan.tier, attack=not plan.no_search, decide=not plan.no_search, progress=None,
        )  # fmt: skip
        times.append(time.perf_counter() - began)
    slope = times[-1] / sizes[-1]
    if len(sizes) == 2:
        slope = max((times[1] - times[0]) / (sizes[1] - sizes[0]), 0.2 * slope)
    seconds = max(times[-1] + slope * (n - sizes[-1]), 0.0)
    width, held = x.shape[1], n if inputs.people is not None else min(n, plan.chunk or CHUNK)
    per_person = 8 * (2 * found.points.person.size / sizes[-1] + 2 * len(found.profiles.value) / sizes[-1] + 6 * width)
    return CostEstimate(n, width, seconds, _peak() + held * per_person / 2**20, sizes[-1], times[-1])


def spoken(seconds: float) -> str:
    """A duration for people."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _peak() -> float:
    """The memory used so far, in megabytes; kilobytes are counted on Linux, bytes on macOS, nothing on Windows."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
