"""From individuals and a configuration to a trained perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import NotANumberError
from isonomy.population import Domain
from isonomy.progress import Progress
from isonomy.similarity.metric import Metric
from isonomy.training.config import ResolvedConfig
from isonomy.training.gaps import Head
from isonomy.training.penalties import Adversary, Penalty
from isonomy.training.perceptron import Perceptron
from isonomy.training.reach import IntArray, single
from isonomy.training.trainer import OnEpoch, Record, Trainer, TrainingSet

RATES = tuple(np.linspace(5e-4, 1e-2, 20).tolist())
"""The grid of the learning-rate search: 20 evenly spaced values, as the paper has it."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Who is learned from and what about them, who is similar, and the coordinates that the network reads."""

    x: FloatArray
    y: NDArray[Any]
    weight: FloatArray
    head: Head
    metric: Metric
    domain: Domain
    reads: IntArray

    def table(self) -> TrainingSet:
        """The resident table."""
        y = torch.from_numpy(np.array(self.y)).to(torch.int64 if self.head.classes else torch.float32)
        return TrainingSet(single(self.x[:, self.reads]), y, single(self.weight / self.weight.mean()))


def fitted(
    config: ResolvedConfig, task: TrainingData, tick: Progress | None = None, on_epoch: OnEpoch | None = None
) -> tuple[Perceptron, list[Record], float]:
    """Train; a learning rate to be searched is the best of a grid on held-out rows."""
    if config.learning_rate == "search":
        scores = []
        for index, rate in enumerate(RATES):
            validation = config.validation or 0.1
            trial = replace(config, learning_rate=rate, patience=None, validation=validation, checkpoint=None)
            scores.append(_score(trial, task))
            if tick is not None:
                tick(index, len(RATES) + 1)
        config = replace(config, learning_rate=RATES[int(np.argmax(scores))])
    return *_trained(config, task, tick, on_epoch), float(config.learning_rate)


def _score(trial: ResolvedConfig, task: TrainingData) -> float:
    """Held-out accuracy, or minus the squared error; a training that breaks off scores worst."""
    try:
        last = _trained(trial, task)[1][-1]
    except NotANumberError:
        return -math.inf
    return last.get("validation_accuracy", -last.get("validation_error", math.inf))


def _trained(
    config: ResolvedConfig, task: TrainingData, tick: Progress | None = None, on_epoch: OnEpoch | None = None
) -> tuple[Perceptron, list[Record]]:
    generator = torch.Generator().manual_seed(config.random_state)
    table, held_out = split(task.table(), config.validation, task.head, generator)
    perceptron = Perceptron.fresh(task.reads, task.x.shape[1], config.hidden, task.head.classes or 1, generator)
    penalty = Penalty.prepared(config, task.metric, task.domain, task.head, task.reads, task.x)
    adversary = None
    if config.penalised:
        # A network that starts out reading what similar people differ in freely has a bound near 1, which is flat.
        perceptron.blinded(penalty.unlimited)
    if config.method == "sensr":
        adversary = Adversary.prepared(config, task.metric, task.domain, task.reads)
    return perceptron, Trainer(perceptron, config, penalty, generator, adversary).fit(table, held_out, tick, on_epoch)


def split(
    table: TrainingSet, share: float, head: Head, generator: torch.Generator
) -> tuple[TrainingSet, TrainingSet | None]:
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
