"""Nothing of a finished chunk stays in memory, at a width at which it would matter."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isonomy.networks.network import Network
from isonomy.parallel import set_workers
from isonomy.population import Feature, Schema
from isonomy.similarity import WeightedLp

from .people import QUICK, ask

WIDTH, HIDDEN = 58, 256


@pytest.fixture
def by_hand() -> Iterator[None]:
    """One thread, so that no other chunk is on its way, and no garbage collector that would hide a cycle."""
    set_workers(1)
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()
        set_workers(None)


def held() -> int:
    """Bytes of all arrays."""
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


def wide() -> tuple[Schema, Network]:
    numbers = [Feature(f"f{i}", low=-3, high=3) for i in range(WIDTH - 2)]
    schema = Schema("wide", (*numbers, Feature("sex", "categorical", categories=("f", "m"), protected=True)))
    rng, sizes = np.random.default_rng(0), [WIDTH, HIDDEN, HIDDEN, 2]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    return schema, Network.from_layers(weights, [rng.normal(size=b) * 0.1 for b in sizes[1:]])


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("tier", "domain", "attack", "chunk"),
    [
        ("interval", "unbounded", False, 256),
        ("tight", "unbounded", False, 16),
        pytest.param("tight", "relaxed", True, 2, marks=pytest.mark.slow),
    ],
)
def test_a_chunk_leaves_nothing_behind(
    by_hand: None, tmp_path: Path, tier: str, domain: str, attack: bool, chunk: int
) -> None:
    rng, (schema, network) = np.random.default_rng(1), wide()
    columns = {feature.name: rng.uniform(-2, 2, 3 * chunk) for feature in schema.features[:-1]}
    pd.DataFrame({**columns, "sex": rng.choice(["f", "m"], 3 * chunk)}).to_parquet(tmp_path / "t.parquet")
    after: list[int] = []
    ask(
        tmp_path / "t.parquet", tmp_path / "work", schema=schema, model=network, metric=WeightedLp(np.ones(WIDTH), 2),
        tier=tier, domain=domain, attack=attack and QUICK, chunk=chunk,
        progress=lambda done, _: (not done or done % chunk) or after.append(held()),
    )  # fmt: skip
    # What was prepared for a few balls stays, for whichever chunk asks next; nothing is added from chunk to chunk.
    assert len(after) == 3 and 0 < max(after[1:]) <= 1.01 * after[0]
