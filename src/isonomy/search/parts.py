"""Parts of regions as the exact tier keeps them: one row of numbers each, so that thousands can wait their turn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from isonomy.arithmetic import UNIT
from isonomy.attacks import find_anchors
from isonomy.bounds.kernel import region_of
from isonomy.population import Domain
from isonomy.search.frame import Frame, State
from isonomy.similarity.regions import Regions


@dataclass(order=True)
class Part:
    """A region (``goal`` −1: not yet looked at) or a part of it; ``priority`` is its bound, negated for the heap."""

    priority: float
    number: int
    pool: Pool = field(compare=False)
    row: int = field(compare=False)
    goal: int = field(compare=False, default=-1)
    since: int = field(compare=False, default=0)  # the activation that was cut last, −1 for the box
    cut: bool = field(compare=False, default=False)  # is the box smaller than the region's?
    numbers: Tensor = field(compare=False, default_factory=lambda: torch.zeros(0))


class Pool:
    """Regions of one shape, and what is known of each."""

    def __init__(self, regions: Regions, folds: bool) -> None:
        self.regions, self.folds = regions, folds
        self.anchors, inside = find_anchors(region_of(regions.sets), len(regions))
        self.inside = torch.from_numpy(inside)
        self.base: dict[int, Tensor] = {}
        self.base_widths: dict[str, int] = {}
        self.widths: dict[str, int] = {}


def filled(regions: Regions, domain: Domain) -> Regions:
    """Whoever has no value for a feature has its fill: where a region says so, its box is a point there."""
    if domain.kind != "realizable" or not domain.fills:
        return regions
    sets, centre = regions.sets, regions.centre
    low, high = (side.expand(centre.shape).clone() for side in (sets.low, sets.high))
    for flag, value, fill in domain.fills:
        missing = (centre[:, flag] == 1.0) & (low[:, flag] == 0.0) & (high[:, flag] == 0.0)
        move = fill - centre[:, value]
        room = (4 * UNIT) * (abs(fill) + centre[:, value].abs())
        low[:, value] = torch.where(missing, torch.maximum(low[:, value], move - room), low[:, value])
        high[:, value] = torch.where(missing, torch.minimum(high[:, value], move + room), high[:, value])
    alive = (low <= high).all(1).numpy()
    return replace(regions, sets=replace(sets, low=low, high=high, _memo={}))[alive]


def furthest(frame: Frame, some: Tensor) -> Tensor:
    """Moves at which the linear functions that were bounded last are largest, about."""
    sets, last = frame.sets, frame.shape.last
    assert last is not None
    weight = last[some]
    low, high, radius, offset = (
        side if len(side) == 1 else side[some] for side in (sets.low, sets.high, sets.radius, sets.offset)
    )
    if not len(sets.root):
        corner = torch.where(weight > 0, high, low)
        return torch.where(torch.isfinite(corner), corner, 0.0)
    pulled = weight if frame.shape.folds else weight @ sets.inverse
    if sets.order == 1:
        top = torch.nn.functional.one_hot(pulled.abs().argmax(1), pulled.shape[1]).double() * pulled.sign()
    else:
        top = pulled / pulled.norm(dim=1, keepdim=True).clamp(min=1e-300)
    move = (radius[:, None] * top - offset) @ sets.inverse.T
    return torch.minimum(torch.maximum(move, low), high)


def widths(state: State) -> dict[str, int]:
    """How many numbers each name stands for."""
    return {name: value.shape[1] for name, value in state.items()}


def pack(state: State) -> list[Tensor]:
    """One row of numbers per part."""
    return [row.clone() for row in torch.cat(list(state.values()), 1)]


def unpack(rows: Tensor, widths: dict[str, int]) -> State:
    """Rows of numbers by their names."""
    return dict(zip(widths, torch.split(rows, list(widths.values()), 1), strict=True))


def changed(numbers: Tensor, widths: dict[str, int], changes: dict[str, Tensor]) -> Tensor:
    """A copy of a row of numbers with some of them changed."""
    row, start = numbers.clone(), 0
    for name, width in widths.items():
        if name in changes:
            row[start : start + width] = changes[name]
        start += width
    return row
