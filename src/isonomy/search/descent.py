"""Gradient steps on the free variables of a batch of parts.

**Soundness.** Every step is a bound of its own, evaluated with all its rounding terms; the smallest one counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isonomy.search.frame import Frame, State

RATE = 0.15
"""Step size, relative to the natural size of each variable; it falls to a fifth over the steps."""


def descend(frame: Frame, enough: Tensor, steps: int) -> tuple[Tensor, dict[int, Tensor]]:
    """The smallest bounds met, and the coefficients at the activations there.

    Parts whose bound reaches ``enough`` take no further steps. The frame's state keeps the best variables.
    """
    met: dict[int, Tensor] = {}
    with torch.no_grad():
        first = frame.bound(_variables(frame), met)
        if frame.shape.steers and frame.shape.keep is None and frame.shape.last is not None:
            frame.shape.choose(frame.shape.last)
            first = torch.minimum(first, frame.bound(_variables(frame), met))
    best = _clean(first)
    best = torch.minimum(best, _clean(frame.by_ranges())) if frame.ready.goals.mixed else best
    best = torch.where(frame.empty, -torch.inf, best)
    going = (best > enough).nonzero()[:, 0]
    if not len(going) or steps == 0:
        return best, met
    names, scales = _scales(frame, met)
    if not names:
        return best, met
    widths = [frame.state[name].shape[1] for name in names]
    scale = torch.cat(scales, 1)
    theta = torch.cat([frame.state[name] for name in names], 1) / scale
    floor, roof = _limits(names, widths)
    found = theta.clone()
    part = frame[going]
    now, first_moment = theta[going], torch.zeros(len(going), theta.shape[1], dtype=torch.float64)
    second_moment = torch.zeros_like(first_moment)
    for step in range(1, steps + 1):
        now.requires_grad_(True)
        upper = part.bound(_unpack(part, names, widths, now * scale[going]))
        (gradient,) = torch.autograd.grad(torch.where(torch.isfinite(upper), upper, 0.0).sum(), now)
        now = now.detach()
        value = _clean(upper.detach())
        better = value < best[going]
        best[going[better]], found[going[better]] = value[better], now[better]
        if step == steps:
            break
        gradient = gradient.nan_to_num_(0.0, 0.0, 0.0)
        open_ = best[going] > enough[going]
        if int(open_.sum()) < 0.7 * len(going):
            if not bool(open_.any()):
                break
            going, part, now, gradient = going[open_], part[open_.nonzero()[:, 0]], now[open_], gradient[open_]
            first_moment, second_moment = first_moment[open_], second_moment[open_]
        first_moment = 0.8 * first_moment + 0.2 * gradient
        second_moment = 0.95 * second_moment + 0.05 * gradient.square()
        direction = first_moment / (1 - 0.8**step) / ((second_moment / (1 - 0.95**step)).sqrt() + 1e-12)
        rate = RATE * 0.2 ** (step / steps)
        now = torch.minimum(torch.maximum(now - rate * direction, floor), roof)
    frame.state = frame.state | dict(zip(names, torch.split(found * scale, widths, 1), strict=True))
    with torch.no_grad():
        last = _clean(frame.bound(_variables(frame), met))
    return torch.where(frame.empty, best, torch.minimum(best, last)), met


def _clean(upper: Tensor) -> Tensor:
    return torch.where(upper.isnan(), torch.inf, upper)


def _variables(frame: Frame) -> State:
    """The present variables: slopes always, multipliers where there are signs."""
    names = [f"slope {k}" for k in frame.ready.relus] + [f"beta {k}" for k in _signed(frame)] + ["lean"]
    free = {name: frame.state[name] for name in names}
    if frame.shape.keep is not None:
        free["turn"] = frame.state["turn"]
    return free


def _signed(frame: Frame) -> list[int]:
    return [k for k in frame.ready.kinks if bool(frame.state[f"phase {k}"].any())]


def _scales(frame: Frame, met: dict[int, Tensor]) -> tuple[list[str], list[Tensor]]:
    """The variables to move, and their natural sizes."""
    names, scales = [], []
    for k in frame.ready.relus:
        names.append(f"slope {k}")
        scales.append(torch.ones_like(frame.state[f"slope {k}"]))
    for k in _signed(frame):
        names.append(f"beta {k}")
        size = met[k].abs().amax(1, keepdim=True) if k in met else torch.ones(frame.rows, 1, dtype=torch.float64)
        scales.append((size + 1e-12).expand_as(frame.state[f"beta {k}"]))
    if frame.shape.keep is not None and frame.shape.last is not None:
        names.append("turn")
        size = (frame.shape.last @ frame.sets.inverse).abs().amax(1, keepdim=True)
        scales.append((size + 1e-12).expand_as(frame.state["turn"]))
    if frame.ready.goals.mixed:
        names.append("lean")
        scales.append(torch.ones_like(frame.state["lean"]))
    return names, scales


def _limits(names: list[str], widths: list[int]) -> tuple[Tensor, Tensor]:
    """Slopes lie in [0, 1], multipliers are not negative, the rest is free."""
    floors = [0.0 if name.startswith(("slope", "beta")) else -torch.inf for name in names]
    roofs = [1.0 if name.startswith("slope") else torch.inf for name in names]
    counts = torch.tensor(widths)
    floor, roof = (torch.tensor(ends, dtype=torch.float64).repeat_interleave(counts) for ends in (floors, roofs))
    return floor, roof


def _unpack(frame: Frame, names: list[str], widths: list[int], values: Tensor) -> State:
    free = dict(zip(names, torch.split(values, widths, 1), strict=True))
    return {"lean": frame.state["lean"]} | free
