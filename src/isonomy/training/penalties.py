"""What each method adds to the loss.

``loss = cross-entropy + alpha · penalty`` for three certified methods, all on the bounds of
:mod:`isonomy.training.gaps` (or on the paper's box form, ``bound="paper"``):

* ``f-ibp``: the mean local violation, ``mean g(0)``;
* ``u-dif``: the dual ``λ γ^p + mean max_k [g(r_k) − λ r_k^p]`` over a few radii, with the best ``λ`` of each batch;
* ``l-dif``: shifts that ascend the local violation under the true budget ``mean c(x, x + φ)^p ≤ γ^p``, then the local
  violation there: bounded, or with ``bound="attacked"`` what a search reaches, as the paper writes it.

``residual`` has the penalty of ``u-dif``. ``sensei`` (Yurochkin and Sun 2021) adds half the squared distance between
the outputs of individuals and of adversarial ones; ``sensr`` (Yurochkin, Bower, Sun 2020) replaces individuals by
adversarial ones; ``sgd`` and ``ftu`` add nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isonomy.arithmetic import FloatArray, power
from isonomy.errors import ParameterError, template
from isonomy.population import Domain
from isonomy.similarity.ground import ground_metric, ground_root
from isonomy.similarity.metric import Metric
from isonomy.training import gaps
from isonomy.training.config import FURTHEST, ResolvedConfig
from isonomy.training.gaps import DifferenceBounds, Head, IntArray, Layers, as_float32, attacked_gap, paper_gap, run

_HALVINGS = 16
_LARGEST_COST = 1e30  # what a power of a radius is at most, so that it fits float32
_TOLERANCE_ROWS = 2048  # individuals around whom tolerances of single coordinates are measured


class Penalty:
    """What a method adds to the loss of a batch: bounds of the violation, prepared for the first layer that is trained.

    The tensors hold the moves to similar individuals (``moves``), the cost of shifts, and the range of individuals.
    """

    def __init__(
        self, config: ResolvedConfig, metric: Metric, domain: Domain, head: Head, reads: IntArray, x: FloatArray
    ) -> None:
        """Prepare a first layer that reads some coordinates; ``x`` are individuals to measure tolerances around."""
        exact = gaps.similar_reach(metric, domain, reads, x[:_TOLERANCE_ROWS], config.delta)
        root, self.ground_order = ground_root(ground_metric(config.ground, domain.width))
        self.config, self.head = config, head
        self.moves = gaps.boxed(exact) if config.bound == "paper" else exact
        self.shifts = gaps.shift_reach(config.ground, domain, reads)
        self.unlimited = exact.unlimited()  # (read, k) directions in which nothing but the domain limits who is similar
        self.ground = as_float32(root[:, reads])  # (r, read) root of the ground cost
        self.low, self.high = as_float32(domain.low[reads]), as_float32(domain.high[reads])  # (read,)
        self.adversary = Adversary(config, metric, domain, reads) if config.method == "sensei" else None

    def __call__(
        self,
        layers: Layers,
        x: Tensor,
        values: Sequence[Tensor],
        weight: Tensor,
        delta: float,
        gamma: float,
        generator: torch.Generator,
    ) -> Tensor:
        """Return the penalty of a batch with these pre-activations, before alpha."""
        config = self.config
        if self.adversary is not None:
            return (self.adversary.distances(layers, x, values[-1]) * weight).mean()
        if config.method in ("u-dif", "residual") and gamma > 0:
            radii = [radius * (gamma / config.gamma) for radius in config.radii]
            return dual(self.profile(layers, x, values, delta, radii), radii, gamma, config.order, weight)
        if config.method == "l-dif" and gamma > 0:
            x = self.ascend(layers, x, delta, gamma, generator)
            values = run(layers, x)
        return (self.profile(layers, x, values, delta, (0.0,))[0] * weight).mean()

    def profile(
        self, layers: Layers, x: Tensor, values: Sequence[Tensor], delta: float, radii: Sequence[float]
    ) -> list[Tensor]:
        """Return the bounds for centres within each radius; the paper's form adds it to delta, in the same metric."""
        if self.config.bound == "attacked":
            return [attacked_gap(layers, x, self.head, self.moves, delta)]
        if self.config.bound == "paper":
            return [paper_gap(layers, x, self.head, self.moves, delta + radius) for radius in radii]
        bounds = DifferenceBounds(layers, values, self.head, self.moves, self.shifts, one_of_several=len(radii) > 1)
        return [bounds.at(delta, radius) for radius in radii]

    def cost(self, shift: Tensor) -> Tensor:
        """Return the cost (n,) of shifts (n, read)."""
        cost: Tensor = torch.linalg.vector_norm(shift @ self.ground.T, self.ground_order, dim=1)
        return cost

    def ascend(self, layers: Layers, x: Tensor, delta: float, gamma: float, generator: torch.Generator) -> Tensor:
        """Move individuals to where the local violation is larger, within the budget of the batch and the domain.

        From a small random start, each step goes along the slope, the further the steeper it is, but at most
        ``FURTHEST`` gamma: what a slope says holds nearby only.
        """
        steps = self.config.ascent_steps
        shift = torch.randn(x.shape, generator=generator)
        shift = shift * (0.1 * gamma / self.cost(shift).clamp(min=1e-12))[:, None]
        frozen = [(weight.detach(), bias.detach()) for weight, bias in layers]
        for _ in range(steps):
            at = (x + shift).requires_grad_()
            violation = self.profile(frozen, at, run(frozen, at), delta, (0.0,))[0].sum()
            (slope,) = torch.autograd.grad(violation, at)
            steep = self.cost(slope)
            length = gamma / steps * (steep / steep.mean().clamp(min=1e-12)).clamp(max=FURTHEST)
            shift = self.scale_to_budget(shift + slope * (length / steep.clamp(min=1e-12))[:, None], gamma)
        return (x + shift).clamp(self.low, self.high)

    def scale_to_budget(self, shift: Tensor, gamma: float) -> Tensor:
        """Scale shifts so that ``mean cost^p ≤ γ^p``: for order 1 by the projection on a simplex, which leaves few."""
        cost, order = self.cost(shift), self.config.order
        if order == math.inf:
            allowed = cost.clamp(max=gamma)
        elif order == 1:
            budget = gamma * len(cost)
            ranked = cost.sort(descending=True).values
            excess = (ranked.cumsum(0) - budget) / torch.arange(1, len(cost) + 1)
            allowed = (cost - excess.max().clamp(min=0.0)).relu()
        else:
            spent = cost.pow(order).mean().pow(1 / order)
            allowed = cost * (gamma / spent.clamp(min=1e-12)).clamp(max=1.0)
        return shift * (allowed / cost.clamp(min=1e-12))[:, None]


def dual(profile: Sequence[Tensor], radii: Sequence[float], gamma: float, order: float, weight: Tensor) -> Tensor:
    """Return ``min over λ of λ γ^p + Σ π_i max_k [g_i(r_k) − λ r_k^p]``; order ∞ is the mean at the radius γ itself.

    At the best multiplier the slope of the whole is that with the multiplier held still (envelope theorem), so it is
    computed without gradients.
    """
    bounds = torch.stack(tuple(profile))
    if order == math.inf or gamma == 0:
        return (bounds[-1] * weight).mean()
    *prices, budget = (min(power(radius, order), _LARGEST_COST) for radius in (*radii, gamma))
    costs = torch.tensor(prices, dtype=bounds.dtype)
    price = best_multiplier(bounds.detach(), costs, budget, weight)
    highest = (bounds - price * costs[:, None]).amax(0)
    bound: Tensor = price * budget + (highest * weight).mean()
    return bound


def best_multiplier(bounds: Tensor, costs: Tensor, budget: float, weight: Tensor) -> float:
    """Return the multiplier at which the preferred costs spend the budget, by halving; ``bounds`` are (radii, n)."""
    # Numpy, since on so few numbers torch spends its time on calls.
    values, prices, share = bounds.numpy(), costs.numpy(), weight.numpy() / len(weight)
    steps = np.diff(prices)
    dearest = max(steps[steps > 0].min(initial=np.inf), steps.dtype.type(budget))  # no price exceeds all gains
    low, high = 0.0, max(0.0, float((values[-1] - values[0]).max() / dearest)) + 1e-9 / max(1.0, budget)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        spent = prices[(values - middle * prices[:, None]).argmax(axis=0)] @ share
        low, high = (middle, high) if spent > budget else (low, middle)
    return high


class Adversary:
    """The inner maximisation of SenSR: ``max over x' of loss(x') − λ d(x, x')²``, and its multiplier ``λ``; of SenSeI
    with the distance of outputs in place of the loss.

    First an ascent within the sensitive subspace, which the metric does not see; then one in all directions, with the
    distance penalised. Afterwards ``λ ← max(0, λ − step (budget − mean d²))``, as the authors update it.
    """

    def __init__(self, config: ResolvedConfig, metric: Metric, domain: Domain, reads: IntArray) -> None:
        """Take the directions that a metric resists least as its sensitive subspace."""
        root = metric.gauge()[0]
        if metric.boxed:
            right = f"one with a root, such as SensitiveSubspace, for {config.method!r}"
            raise ParameterError(template("metric", right, metric.kind))
        _, values, right_vectors = np.linalg.svd(root, full_matrices=True)
        values = np.concatenate([values, np.zeros(len(right_vectors) - len(values))])
        limit = (1 - 1e-6 if metric.kind == "sensitive-subspace" else 1e-9) * values.max()
        subspace = right_vectors[(values < limit) | (values == 0)][:, reads]
        _, sizes, rows = np.linalg.svd(subspace, full_matrices=False)
        self.subspace = as_float32(rows[sizes > 1e-9])  # (k, read) orthonormal sensitive directions
        self.root = as_float32(root[:, reads])  # (r, read) of the metric
        self.low, self.high = as_float32(domain.low[reads]), as_float32(domain.high[reads])
        self.budget = max(config.delta, config.gamma) ** 2
        self.steps, self.rate, self.multiplier = config.ascent_steps, 0.1, 2.0

    def __call__(self, layers: Layers, x: Tensor, y: Tensor, head: Head) -> Tensor:
        """Return the adversarial individuals of a batch."""
        frozen = [(weight.detach(), bias.detach()) for weight, bias in layers]

        return self.moved(lambda at: errors(run(frozen, at)[-1], y, head).sum(), x)

    def distances(self, layers: Layers, x: Tensor, outputs: Tensor) -> Tensor:
        """Return half the squared distance (n,) between outputs of individuals and of those that differ most."""
        frozen, held = [(weight.detach(), bias.detach()) for weight, bias in layers], outputs.detach()
        start = x + 0.01 * self.rate * torch.sin(
            torch.arange(x.numel()).reshape(x.shape)
        )  # at x itself it has no slope
        moved = self.moved(lambda at: 0.5 * (run(frozen, at)[-1] - held).square().sum(), start)
        return 0.5 * (run(layers, moved)[-1] - outputs).square().sum(1)

    def moved(self, loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return individuals moved to where a ``loss`` is larger, and update the multiplier."""

        def penalised(at: Tensor) -> Tensor:
            return loss(at) - self.multiplier * ((at - x) @ self.root.T).square().sum()

        within = torch.zeros(len(x), len(self.subspace))
        for _ in range(self.steps if len(self.subspace) else 0):
            within = self._climb(within, lambda part: loss(x + part @ self.subspace))
        moved = (x + within @ self.subspace).clamp(self.low, self.high)
        for _ in range(self.steps):
            moved = self._climb(moved, penalised).clamp(self.low, self.high)
        spent = float(((moved - x) @ self.root.T).square().sum(1).mean())
        self.multiplier = max(0.0, self.multiplier - (self.budget - spent))
        return moved

    def _climb(self, part: Tensor, gain: Callable[[Tensor], Tensor]) -> Tensor:
        """Take one step of a fixed length along the slope of a gain."""
        part = part.detach().requires_grad_()
        (slope,) = torch.autograd.grad(gain(part), part)
        length = torch.linalg.vector_norm(slope, dim=1, keepdim=True).clamp(min=1e-12)
        climbed: Tensor = part.detach() + self.rate * slope / length
        return climbed


def errors(outputs: Tensor, y: Tensor, head: Head) -> Tensor:
    """Return the cross-entropy, or the squared error of a regression, of each individual."""
    if head.classes:
        return functional.cross_entropy(outputs, y, reduction="none")
    return (outputs[:, 0] - y).square()
