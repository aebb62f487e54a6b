"""From individuals and a request to a trained perceptron: what both estimators, the frontier and the repair share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.errors import NotANumberError, ParameterError, template
from isonomy.population import Domain
from isonomy.progress import Progress
from isonomy.similarity.ground import Ground, ground_metric, ground_root
from isonomy.similarity.metric import Metric
from isonomy.training.gaps import Head
from isonomy.training.penalties import FURTHEST, Adversary, Form, Setting
from isonomy.training.perceptron import Perceptron
from isonomy.training.reach import IntArray, boxed, shift_reach, similar_reach
from isonomy.training.trainer import OnEpoch, Plan, Record, Table, Trainer

_LOOKED_AT = 2048
"""Individuals around whom tolerances of single coordinates are measured."""

_STEPS = 600
"""Steps that a training has at least, unless the caller says how many epochs."""

RATES = tuple(np.linspace(5e-4, 1e-2, 20).tolist())
"""The grid of the learning-rate search: 20 evenly spaced values, as the paper has it."""


@dataclass(frozen=True)
class Similar:
    """Who counts as alike, what a shift costs, and which vectors are somebody."""

    metric: Metric
    domain: Domain
    ground: Ground
    order: float
    form: Form

    def setting(self, head: Head, reads: IntArray, x: FloatArray, delta: float) -> Setting:
        """Everything prepared for a first layer that reads some coordinates."""
        looked = x[:_LOOKED_AT]
        exact = similar_reach(self.metric, self.domain, reads, looked, delta)
        root, root_order = ground_root(ground_metric(self.ground, self.domain.width))
        return Setting(
            head=head,
            moves=boxed(exact) if self.form == "paper" else exact,
            shifts=shift_reach(self.ground, self.domain, reads),
            unlimited=exact.unlimited(),
            form=self.form,
            order=self.order,
            ground=_single(root[:, reads]),
            ground_order=root_order,
            low=_single(self.domain.low[reads]),
            high=_single(self.domain.high[reads]),
        )

    def adversary(self, reads: IntArray, delta: float, gamma: float, steps: int) -> Adversary:
        """SenSR's own: the directions that the metric resists least are its sensitive subspace."""
        root = self.metric.gauge()[0]
        if self.metric.boxed:
            raise ParameterError(
                template("metric", "one with a root, such as SensitiveSubspace, for 'sensr'", self.metric.kind)
            )
        _, values, right = np.linalg.svd(root, full_matrices=True)
        values = np.concatenate([values, np.zeros(len(right) - len(values))])
        limit = (1 - 1e-6 if self.metric.kind == "sensitive-subspace" else 1e-9) * values.max()
        subspace = right[(values < limit) | (values == 0)][:, reads]
        _, sizes, rows = np.linalg.svd(subspace, full_matrices=False)
        return Adversary(
            subspace=_single(rows[sizes > 1e-9]),
            root=_single(root[:, reads]),
            low=_single(self.domain.low[reads]),
            high=_single(self.domain.high[reads]),
            budget=max(delta, gamma) ** 2,
            steps=steps,
        )


@dataclass(frozen=True)
class Request:
    """One training: data, similarity, plan, and what happens on the way."""

    x: FloatArray
    y: NDArray[Any]
    weight: FloatArray
    head: Head
    similar: Similar
    plan: Plan
    reads: IntArray
    hidden: tuple[int, ...]
    seed: int
    validation: float = 0.0
    checkpoint: Path | None = None

    def table(self) -> Table:
        """The resident table."""
        weight = self.weight / self.weight.mean()
        kind = torch.int64 if self.head.classes else torch.float32
        return Table(_single(self.x[:, self.reads]), torch.from_numpy(np.array(self.y)).to(kind), _single(weight))


def fitted(
    request: Request, tick: Progress | None = None, on_epoch: OnEpoch | None = None, search: bool = False
) -> tuple[Perceptron, list[Record], float]:
    """Train; the learning rate is the plan's, or with ``search`` the best of a grid on held-out rows."""
    rate = request.plan.learning_rate
    if search:
        share = request.validation or 0.1
        scores = []
        for index, candidate in enumerate(RATES):
            plan = replace(request.plan, learning_rate=candidate, patience=None)
            trial = replace(request, plan=plan, validation=share, checkpoint=None)
            scores.append(_score(trial))
            if tick is not None:
                tick(index, len(RATES) + 1)
        rate = RATES[int(np.argmax(scores))]
    perceptron, history = _trained(replace(request, plan=replace(request.plan, learning_rate=rate)), tick, on_epoch)
    return perceptron, history, rate


def _score(trial: Request) -> float:
    """Held-out accuracy, or minus the squared error; a training that breaks off scores worst."""
    try:
        last = _trained(trial)[1][-1]
    except NotANumberError:
        return -math.inf
    return last.get("validation_accuracy", -last.get("validation_error", math.inf))


def _trained(
    request: Request, tick: Progress | None = None, on_epoch: OnEpoch | None = None
) -> tuple[Perceptron, list[Record]]:
    generator = torch.Generator().manual_seed(request.seed)
    table, held_out = split(request.table(), request.validation, request.head, generator)
    outputs = request.head.classes or 1
    perceptron = Perceptron.fresh(request.reads, request.x.shape[1], request.hidden, outputs, generator)
    plan, similar = request.plan, request.similar
    setting = similar.setting(request.head, request.reads, request.x, plan.delta)
    adversary = None
    if plan.certified:
        # A network that starts out reading what similar people differ in freely has a bound near 1, which is flat.
        perceptron.blinded(setting.unlimited)
    if plan.method == "sensr":
        adversary = similar.adversary(request.reads, plan.delta, plan.gamma, plan.steps)
    trainer = Trainer(perceptron, plan, setting, generator, adversary)
    history = trainer.fit(table, held_out, request.checkpoint, tick, on_epoch)
    return perceptron, history


def split(table: Table, share: float, head: Head, generator: torch.Generator) -> tuple[Table, Table | None]:
    """Hold out a share of the rows at random, of each class alike; none when there are too few."""
    if share <= 0:
        return table, None
    order = torch.randperm(len(table), generator=generator)
    groups = [order[table.y[order] == c] for c in range(head.classes)] if head.classes else [order]
    cut = [math.floor(share * len(group)) for group in groups]
    away = torch.cat([group[:n] for group, n in zip(groups, cut, strict=True)])
    kept = torch.cat([group[n:] for group, n in zip(groups, cut, strict=True)])
    if not len(away):
        return table, None
    return table.taken(kept.sort().values), table.taken(away.sort().values)


def default_radii(gamma: float, order: float) -> tuple[float, ...]:
    """The radii of the dual in training: stay, or move three times as far as all can. Order ∞ moves everybody by gamma.

    Further radii cost time and, measured on ACS Income, gain nothing.
    """
    return (gamma,) if order == math.inf else (0.0, FURTHEST * gamma)


def default_epochs(rows: int, batch_size: int) -> int:
    """Ten, and more on a small table, where ten are too few steps to learn anything but the larger class."""
    return max(10, math.ceil(_STEPS / math.ceil(rows / batch_size)))


def _single(array: FloatArray) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))
