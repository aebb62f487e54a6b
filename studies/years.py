"""Real shifts in time: the same state some years earlier. The code is that of :mod:`studies.states`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from studies import Result, Setting, Store, paper
from studies.methods import Way
from studies.models import Size
from studies.shifted import Places, measured, sized, ways_of
from studies.states import draw, story, tables
from studies.tables import COVERAGE, EMPLOY, INCOME, Dataset

HAWAII = tuple(
    replace(dataset, load={**dataset.load, "states": ["HI"]}, words="Hawaii 2018")
    for dataset in (EMPLOY, INCOME, COVERAGE)
)
"""The only state whose whole survey of another year is at hand."""
GAMMAS = (
    f"those for states, {paper.GAMMAS['employ']} for Employ, {paper.GAMMAS['coverage']} for Coverage and "
    f"{paper.GAMMA} for Income, since the paper prints none for years"
)
SAMPLES = 5
"""Samples of each year: there are few years."""


def run(
    setting: Setting,
    store: Store,
    *,
    datasets: Sequence[Dataset] = (EMPLOY, *HAWAII),
    size: Size | None = None,
    ways: Sequence[Way] | None = None,
) -> Result:
    """Employ in Massachusetts from 2015 on; all three tables in Hawaii, 2015."""
    size = size or sized(setting)
    places = Places(years=True, samples=2 if setting.quick else SAMPLES)
    found = measured(setting, store, datasets, size, places, ways or ways_of(setting))
    return Result(
        name="years",
        title="Other years: real shifts, and shifts within gamma by construction",
        story=(
            *story(found, size, "years", "one year of a state", GAMMAS),
            "Years at hand are 2015 to 2018 for Employ in Massachusetts and 2015 for Hawaii (the paper: California, "
            "2015 to 2021), so each year is sampled several times.",
        ),
        tables=tables(found),
        data=found.data(),
        draw=lambda drawn: draw(drawn, found),
        size=(9.0, 2.7 * max(1, len(found.datasets))),
        alt="For each table: distances of other years' samples, hardly above the floor of one population, and for each "
        "way of training a box plot of the mean violations in other years, below the triangles of our upper bounds.",
    )
