"""What all tests share: how many examples Hypothesis draws, and one thread of arithmetic per process.

Hypothesis draws the same examples on every run where changes are judged, and new ones everywhere else. Nothing that it
does depends on the clock. The fast tests draw a share of the examples that a test asks for, and of the parameter sets
of a test that is marked ``some(n)`` they run ``n``; ``--all-examples``, which is what ``make test-all`` gives, takes
them all.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before torch is imported; processes run side by side instead of threads

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

SHARE = 8
"""The fast tests draw every so many-th example, though at least ``FEWEST``."""

FEWEST = 2

_clockless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("clockless", _clockless)
settings.register_profile("judged", _clockless, derandomize=True, print_blob=True)
settings.load_profile("judged" if os.environ.get("CI") else "clockless")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-examples", action="store_true", help="draw all examples that a property test asks for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all-examples"):
        return
    _thin(config, items)
    seen = set()
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        slow = item.get_closest_marker("slow") or item.get_closest_marker("long")
        if slow or id(test) in seen or not getattr(test, "is_hypothesis_test", False):
            continue
        seen.add(id(test))
        asked = test._hypothesis_internal_use_settings or settings.default
        fewer = min(asked.max_examples, max(FEWEST, asked.max_examples // SHARE))
        test._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)


def _thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the parameter sets of each test that is marked ``some(n)`` keep ``n``, evenly spaced: the first, and so on."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        slow = item.get_closest_marker("slow") or item.get_closest_marker("long")
        if not slow and item.get_closest_marker("some"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    left = set()
    for sets in groups.values():
        marker = sets[0].get_closest_marker("some")
        assert marker is not None
        kept = {i * len(sets) // marker.args[0] for i in range(marker.args[0])}
        left.update(item.nodeid for i, item in enumerate(sets) if i not in kept)
    dropped = [item for item in items if item.nodeid in left]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item.nodeid not in left]
