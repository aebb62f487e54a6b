"""What each method adds to the loss.

``loss = cross-entropy + alpha · penalty`` for three certified methods, all on the bounds of
:mod:`isonomy.training.gaps` (or on the paper's box form, ``bound="paper"``):

* ``f-ibp``: the mean local violation, ``mean g(0)``;
* ``u-dif``: the dual ``λ γ^p + mean max_k [g(r_k) − λ r_k^p]`` over a few radii, with the best ``λ`` of each batch;
* ``l-dif``: shifts that ascend the local violation under the true budget ``mean c(x, x + φ)^p ≤ γ^p``, then the local
  violation there.

``sensr`` (Yurochkin, Bower, Sun 2020) instead replaces individuals by adversarial ones; ``sgd`` and ``ftu`` add
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isonomy.training.gaps import Gaps, Head, Layers, paper_gap, run
from isonomy.training.reach import Reach

Method = Literal["sgd", "ftu", "sensr", "f-ibp", "l-dif", "u-dif"]
Form = Literal["relational", "paper"]

_HALVINGS = 16

FURTHEST = 3.0
"""How many times gamma one individual may be moved when others stay."""


@dataclass(frozen=True)
class Setting:
    """Who counts as similar and what shifts cost, prepared for the first layer that is trained."""

    head: Head
    moves: Reach
    shifts: Reach
    unlimited: Tensor  # (read, k) directions in which nothing but the domain limits who is similar
    form: Form
    order: float  # p of the Wasserstein distance
    ground: Tensor  # (r, read) root of the ground cost, and its order
    ground_order: float
    low: Tensor  # (read,) the domain's ranges
    high: Tensor

    def local(self, layers: Layers, x: Tensor, values: Sequence[Tensor] | None, delta: float) -> Tensor:
        """The bound of the local violation (n,)."""
        if self.form == "paper":
            return paper_gap(layers, x, self.head, self.moves, delta)
        return Gaps(layers, run(layers, x) if values is None else values, self.head, self.moves, self.shifts).at(delta)

    def profile(
        self, layers: Layers, x: Tensor, values: Sequence[Tensor], delta: float, radii: Sequence[float]
    ) -> list[Tensor]:
        """The bounds for centres within each radius. The paper's form adds the radius to delta, in the same metric."""
        if self.form == "paper":
            return [paper_gap(layers, x, self.head, self.moves, delta + radius) for radius in radii]
        gaps = Gaps(layers, values, self.head, self.moves, self.shifts, one_of_several=len(radii) > 1)
        return [gaps.at(delta, radius) for radius in radii]

    def cost(self, shift: Tensor) -> Tensor:
        """What each shift (n, read) costs."""
        cost: Tensor = torch.linalg.vector_norm(shift @ self.ground.T, self.ground_order, dim=1)
        return cost


def dual(profile: Sequence[Tensor], radii: Sequence[float], gamma: float, order: float, weight: Tensor) -> Tensor:
    """``min over λ of λ γ^p + Σ π_i max_k [g_i(r_k) − λ r_k^p]``; order ∞ is the mean at the radius γ itself.

    At the best multiplier the slope of the whole is that with the multiplier held still (envelope theorem), so it is
    found without gradients.
    """
    bounds = torch.stack(tuple(profile))
    if order == math.inf or gamma == 0:
        return (bounds[-1] * weight).mean()
    costs = torch.tensor([radius**order for radius in radii], dtype=bounds.dtype)
    price = best_multiplier(bounds.detach(), costs, gamma**order, weight)
    highest = (bounds - price * costs[:, None]).amax(0)
    bound: Tensor = price * gamma**order + (highest * weight).mean()
    return bound


def best_multiplier(bounds: Tensor, costs: Tensor, budget: float, weight: Tensor) -> float:
    """The multiplier at which the preferred costs spend the budget, by halving; ``bounds`` are (radii, n)."""
    # Numpy, since on so few numbers torch spends its time on calls.
    values, prices, share = bounds.numpy(), costs.numpy(), weight.numpy() / len(weight)
    low, high = 0.0, max(0.0, float((values[-1] - values[0]).max() / np.diff(prices).min())) + 1e-9
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        spent = prices[(values - middle * prices[:, None]).argmax(axis=0)] @ share
        low, high = (middle, high) if spent > budget else (low, middle)
    return high


def ascended(
    layers: Layers, x: Tensor, delta: float, gamma: float, setting: Setting, steps: int, generator: torch.Generator
) -> Tensor:
    """Individuals moved to where the local violation is larger, within the budget of the batch and the domain.

    From a small random start, each step goes along the slope, the further the steeper it is, but at most ``FURTHEST``
    gamma: what a slope says holds nearby only.
    """
    shift = torch.randn(x.shape, generator=generator)
    shift = shift * (0.1 * gamma / setting.cost(shift).clamp(min=1e-12))[:, None]
    frozen = [(weight.detach(), bias.detach()) for weight, bias in layers]
    for _ in range(steps):
        at = (x + shift).requires_grad_()
        (slope,) = torch.autograd.grad(setting.local(frozen, at, None, delta).sum(), at)
        steep = setting.cost(slope)
        length = gamma / steps * (steep / steep.mean().clamp(min=1e-12)).clamp(max=FURTHEST)
        shift = _within_budget(shift + slope * (length / steep.clamp(min=1e-12))[:, None], gamma, setting)
    return torch.minimum(torch.maximum(x + shift, setting.low), setting.high)


def _within_budget(shift: Tensor, gamma: float, setting: Setting) -> Tensor:
    """Scale shifts so that ``mean cost^p ≤ γ^p``: for order 1 by the projection on a simplex, which leaves few."""
    cost = setting.cost(shift)
    if setting.order == math.inf:
        allowed = cost.clamp(max=gamma)
    elif setting.order == 1:
        budget = gamma * len(cost)
        ranked = cost.sort(descending=True).values
        excess = (ranked.cumsum(0) - budget) / torch.arange(1, len(cost) + 1)
        allowed = (cost - excess.max().clamp(min=0.0)).relu()
    else:
        spent = cost.pow(setting.order).mean().pow(1 / setting.order)
        allowed = cost * (gamma / spent.clamp(min=1e-12)).clamp(max=1.0)
    return shift * (allowed / cost.clamp(min=1e-12))[:, None]


@dataclass
class Adversary:
    """The inner maximisation of SenSR: ``max over x' of loss(x') − λ d(x, x')²``, and its multiplier ``λ``.

    First an ascent within the sensitive subspace, which the metric does not see; then one in all directions, with the
    distance penalised. Afterwards ``λ ← max(0, λ − step (budget − mean d²))``, as the authors update it.
    """

    subspace: Tensor  # (k, read) orthonormal sensitive directions
    root: Tensor  # (r, read) of the metric
    low: Tensor
    high: Tensor
    budget: float
    steps: int = 5
    rate: float = 0.1
    multiplier: float = 2.0

    def __call__(self, layers: Layers, x: Tensor, y: Tensor, head: Head) -> Tensor:
        """Adversarial individuals for a batch."""
        frozen = [(weight.detach(), bias.detach()) for weight, bias in layers]
        within = torch.zeros(len(x), len(self.subspace))
        for _ in range(self.steps if len(self.subspace) else 0):
            within = self._climbed(within, lambda part: x + part @ self.subspace, frozen, y, head, None)
        start = self._inside(x + within @ self.subspace)
        moved = start
        for _ in range(self.steps):
            moved = self._inside(self._climbed(moved, lambda part: part, frozen, y, head, x))
        spent = float(((moved - x) @ self.root.T).square().sum(1).mean())
        self.multiplier = max(0.0, self.multiplier - (self.budget - spent))
        return moved

    def _climbed(
        self,
        part: Tensor,
        placed: Callable[[Tensor], Tensor],
        frozen: Layers,
        y: Tensor,
        head: Head,
        anchor: Tensor | None,
    ) -> Tensor:
        part = part.detach().requires_grad_()
        at = placed(part)
        gain = errors(run(frozen, at)[-1], y, head).sum()
        if anchor is not None:
            gain = gain - self.multiplier * ((at - anchor) @ self.root.T).square().sum()
        (slope,) = torch.autograd.grad(gain, part)
        length = torch.linalg.vector_norm(slope, dim=1, keepdim=True).clamp(min=1e-12)
        climbed: Tensor = part.detach() + self.rate * slope / length
        return climbed

    def _inside(self, x: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x, self.low), self.high)


def errors(outputs: Tensor, y: Tensor, head: Head) -> Tensor:
    """Cross-entropy, or the squared error of a regression, for each individual."""
    if head.classes:
        return functional.cross_entropy(outputs, y, reduction="none")
    return (outputs[:, 0] - y).square()
