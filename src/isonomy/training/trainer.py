"""From individuals and a configuration to a trained perceptron: a resident table, permuted once per epoch, and slices
of it as batches.

Deterministic: weights, permutations and ascents draw from one generator, whose state is in every checkpoint, so that a
training that was killed resumes to the very weights of one that was not.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.errors import FileError, NotANumberError, ParameterError
from isonomy.files import atomic
from isonomy.networks import Network
from isonomy.population import Domain
from isonomy.progress import Progress
from isonomy.similarity.metric import Metric
from isonomy.training.additive import Fits, Segments
from isonomy.training.config import ResolvedConfig
from isonomy.training.gaps import Head, IntArray, as_float32, run
from isonomy.training.penalties import Adversary, Penalty, errors
from isonomy.training.perceptron import Perceptron

Record = dict[str, float]
"""What is remembered of one epoch.

``epoch`` (from 1) of ``epochs``, ``error`` and ``accuracy`` of the training rows while they are learned from,
``classes`` (how many are given at all), ``penalty`` (the bound on the violation that is trained on, for ``f-ibp``,
``l-dif`` and ``u-dif``) and the share of alpha ``withheld`` from it, ``alpha``, ``delta``, ``gamma`` at the end of the
epoch, ``seconds``; with held-out rows ``validation_error``, ``_accuracy``, ``_penalty`` and ``_objective``.
"""

OnEpoch = Callable[[Record], None]
"""Called with the record of each epoch when it is over."""

RATES = tuple(np.linspace(5e-4, 1e-2, 20).tolist())
"""The grid of the learning-rate search: 20 evenly spaced values, as the paper has it."""

KEPT = 0.1
"""The share of the outcome that a batch is to explain: with less of it, alpha falls in proportion."""

_FORMAT = "isonomy training 2"
_SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class TrainingSet:
    """Individuals (n, read) in float32, their outcomes, and weights of mean 1."""

    x: Tensor
    y: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def reordered(self, order: Tensor) -> TrainingSet:
        """Return the rows in another order."""
        return TrainingSet(self.x[order], self.y[order], self.weight[order])


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


def train(
    config: ResolvedConfig, task: TrainingData, tick: Progress, on_epoch: OnEpoch | None = None
) -> tuple[Perceptron, list[Record], float]:
    """Train a perceptron; a learning rate to be searched is the best of a grid on held-out rows."""
    if config.learning_rate == "search":
        scores = np.full(len(RATES), -math.inf)  # held-out accuracy, or minus the squared error
        for index, rate in enumerate(RATES):
            validation = config.validation or 0.1
            trial = replace(config, learning_rate=rate, patience=None, validation=validation, checkpoint=None)
            with suppress(NotANumberError):  # a training that breaks off scores worst
                last = _train_once(trial, task)[1][-1]
                scores[index] = last.get("validation_accuracy", -last.get("validation_error", math.inf))
            tick(index, len(RATES) + 1)
        config = replace(config, learning_rate=RATES[int(np.argmax(scores))])
    return *_train_once(config, task, tick, on_epoch), float(config.learning_rate)


def _train_once(
    config: ResolvedConfig, task: TrainingData, tick: Progress | None = None, on_epoch: OnEpoch | None = None
) -> tuple[Perceptron, list[Record]]:
    generator = torch.Generator().manual_seed(config.random_state)
    y = torch.from_numpy(np.array(task.y)).to(torch.int64 if task.head.classes else torch.float32)
    rows = TrainingSet(as_float32(task.x[:, task.reads]), y, as_float32(task.weight / task.weight.mean()))
    table, held_out = split(rows, config.validation, task.head, generator)
    if config.method == "residual":
        start = _regression(table, task)
        perceptron = Perceptron.beside(start, task.reads, config.hidden, table.x, generator)
    else:
        perceptron = Perceptron.random(task.reads, task.x.shape[1], config.hidden, task.head.classes or 1, generator)
    penalty = Penalty(config, task.metric, task.domain, task.head, task.reads, task.x)
    adversary = None
    if config.penalised:
        # A network that starts out reading what similar people differ in freely has a bound near 1, which is flat.
        perceptron.remove_directions(penalty.unlimited)
    if config.method == "sensr":
        adversary = Adversary(config, task.metric, task.domain, task.reads)
    return perceptron, Trainer(perceptron, config, penalty, generator, adversary).fit(table, held_out, tick, on_epoch)


def _regression(table: TrainingSet, task: TrainingData) -> Network:
    """Return the plain regression of the rows that are learned from, with a hidden layer that is never cut off."""
    x = np.zeros((len(table), task.x.shape[1]))
    x[:, task.reads] = table.x.numpy()
    segments = Segments.of(x, task.reads, np.zeros(x.shape[1], dtype=bool), 1)
    y, weight = table.y.numpy(), table.weight.numpy().astype(np.float64)
    counts = weight > 0
    model = Fits("regression", segments, segments.design(x)[counts], y[counts], weight[counts], task.head.classes)
    return model.at(1.0).network(task.domain, "regression")


def split(
    table: TrainingSet, share: float, head: Head, generator: torch.Generator
) -> tuple[TrainingSet, TrainingSet | None]:
    """Hold out a share of the rows at random, of each class alike; none when there are too few that count."""
    if share <= 0:
        return table, None
    order = torch.randperm(len(table), generator=generator)
    groups = [order[table.y[order] == c] for c in range(head.classes)] if head.classes else [order]
    away = torch.cat([group[: math.floor(share * len(group))] for group in groups])
    learned_rows = torch.cat([group[math.floor(share * len(group)) :] for group in groups])
    parts = [table.reordered(rows.sort().values) for rows in (learned_rows, away)]
    if not all(float(part.weight.sum()) > 0 for part in parts):
        return table, None
    learned, aside = (TrainingSet(part.x, part.y, part.weight / part.weight.mean()) for part in parts)
    return learned, aside


def best_record(history: Sequence[Record]) -> Record:
    """Return the record of the epoch whose weights are kept: the first best one of those set aside, else the last."""
    if "validation_objective" not in history[-1]:
        return history[-1]
    return min(history, key=lambda record: record["validation_objective"])


def constant_error(table: TrainingSet, head: Head) -> float:
    """Return the error of the best constant: the entropy of the classes, or the variance of the outcomes."""
    if not head.classes:
        mean = (table.weight * table.y).sum() / table.weight.sum()
        return max(float((table.weight * (table.y - mean).square()).mean()), _SMALLEST_ERROR)
    shares = torch.zeros(head.classes).index_add_(0, table.y, table.weight) / table.weight.sum()
    return max(float(torch.special.entr(shares).sum()), _SMALLEST_ERROR)


def rate_factor(progress: float) -> float:
    """Return the factor of the learning rate: full for the first half of the training, then falling to a fiftieth."""
    return 1.0 if progress < 0.5 else max(0.02, 2 * (1 - progress))


Objective = Callable[[Tensor, Tensor], Tensor]
"""What is learned in place of labels: a loss of a batch's rows (n, read) and raw outputs."""


class Trainer:
    """One training, epoch by epoch."""

    def __init__(
        self,
        perceptron: Perceptron,
        config: ResolvedConfig,
        penalty: Penalty,
        generator: torch.Generator,
        adversary: Adversary | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.perceptron, self.config, self.penalty, self.generator = perceptron, config, penalty, generator
        self.adversary, self.objective, self.head = adversary, objective, penalty.head
        self.ascending = adversary or penalty.adversary  # whose multiplier is part of the state
        self.epochs, self.rate = config.epochs, float(config.learning_rate)
        self.optimiser = torch.optim.Adam(perceptron.parameters, lr=self.rate, fused=True)
        self.history: list[Record] = []
        self.best: tuple[float, list[Tensor]] | None = None

    def fit(
        self,
        table: TrainingSet,
        held_out: TrainingSet | None = None,
        tick: Progress | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[Record]:
        """Train to the end, or until the validation objective has not improved for ``patience`` epochs.

        The objective is the loss of the held-out rows (log-loss, of a regression the squared error, plus alpha times
        the bound) with alpha, delta and gamma at their *full* values, so that every epoch from the first on is judged
        by the same measure, also while the ramps still grow. The weights with the best one are kept at the end.
        Patience is counted from the end of the ramps at the earliest: before, training follows another objective and
        may get worse by this one for a while.
        """
        checkpoint = None if self.config.checkpoint is None else Path(self.config.checkpoint)
        fingerprint = self._fingerprint(table, held_out)
        if checkpoint is not None and (state := load_state(checkpoint, fingerprint)) is not None:
            self._restore(state)
        constant = constant_error(table, self.head)
        while len(self.history) < self.epochs and not self._out_of_patience():
            record = self._epoch(table, constant)
            self.history.append(record)
            if held_out is not None:
                record.update(self._validation_record(held_out))
                score = record["validation_objective"]
                if self.best is None or score < self.best[0]:
                    self.best = score, self.perceptron.copy_state()
            if checkpoint is not None:
                save_state(checkpoint, fingerprint, self._state())
            if tick is not None:
                tick(len(self.history), self.epochs)
            if on_epoch is not None:
                on_epoch(dict(record))
        if self.best is not None:
            self.perceptron.load_state(self.best[1])
        return self.history

    def _epoch(self, table: TrainingSet, constant: float) -> Record:
        config, layers, started = self.config, self.perceptron.layers, time.perf_counter()
        table = table.reordered(torch.randperm(len(table), generator=self.generator))
        done, count = len(self.history), math.ceil(len(table) / config.batch_size)
        seen = torch.zeros(count, 5)  # rows, error, penalty, hits, share of alpha withheld
        given = torch.zeros(self.head.classes, dtype=torch.bool)
        for batch in range(count):
            epoch = done + batch / count
            self.optimiser.param_groups[0]["lr"] = self.rate * rate_factor(epoch / self.epochs)
            alpha, delta, gamma = config.alpha_at(epoch), config.delta, config.gamma
            rows = slice(batch * config.batch_size, (batch + 1) * config.batch_size)
            x, y, weight = table.x[rows], table.y[rows], table.weight[rows]
            if self.adversary is not None:
                x = self.adversary(layers, x, y, self.head)
            values = run(layers, x)
            error = (errors(values[-1], y, self.head) * weight).mean()
            loss = error if self.objective is None else self.objective(x, values[-1])
            if config.penalised and alpha > 0:
                penalty = self.penalty(layers, x, values, weight, delta, gamma, self.generator)
                share = min(1.0, max(0.0, 1 - error.item() / constant) / KEPT) if self.objective is None else 1.0
                loss = loss + alpha * share * penalty
                seen[batch, 2], seen[batch, 4] = penalty.detach(), 1 - share
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.perceptron.hold()
            self.optimiser.step()
            seen[batch, 0], seen[batch, 1] = len(x), error.detach()
            if self.head.classes:
                decided = values[-1].argmax(1)
                seen[batch, 3] = (decided == y).sum()
                given[decided] = True
        self._refuse_nan(seen, done + 1)
        part = seen[:, 0] / seen[:, 0].sum()
        record: Record = {
            "epoch": done + 1,
            "epochs": self.epochs,
            "error": float(part @ seen[:, 1]),
            "alpha": config.alpha_at(done + 1),
            "delta": config.delta,
            "gamma": config.gamma,
            "seconds": time.perf_counter() - started,
        }
        if config.penalised:
            record["penalty"], record["withheld"] = float(part @ seen[:, 2]), float(part @ seen[:, 4])
        if self.head.classes:
            record["classes"] = int(given.sum())
            record["accuracy"] = float(seen[:, 3].sum() / seen[:, 0].sum())
        return record

    def _validation_record(self, held_out: TrainingSet) -> Record:
        """Return error, accuracy, penalty and objective of the held-out rows, with the schedules at their ends."""
        config, head, layers, totals = self.config, self.head, self.perceptron.layers, torch.zeros(3)
        place, multiplier = self.generator.get_state(), 0.0 if self.ascending is None else self.ascending.multiplier
        for start in range(0, len(held_out), 4096):
            rows = slice(start, start + 4096)
            x, y, weight = held_out.x[rows], held_out.y[rows], held_out.weight[rows]
            with torch.no_grad():
                values = run(layers, x)
                error = (errors(values[-1], y, head) * weight).mean()
                hits = (values[-1].argmax(1) == y).float().mean() if head.classes else torch.tensor(math.nan)
            penalty = torch.zeros(())
            if config.alpha > 0 and config.penalised:
                penalty = self.penalty(layers, x, values, weight, config.delta, config.gamma, self.generator).detach()
            totals += torch.stack([error, penalty, hits]) * len(x) / len(held_out)
        self.generator.set_state(place)  # looking draws nothing
        if self.ascending is not None:
            self.ascending.multiplier = multiplier
        error, penalty, hits = totals.tolist()
        record = {"validation_error": error, "validation_penalty": penalty}
        if head.classes:
            record["validation_accuracy"] = hits
        return record | {"validation_objective": error + config.alpha * penalty}

    def _out_of_patience(self) -> bool:
        """Say whether the best epoch, or the end of the ramps, is further back than patience allows."""
        if self.config.patience is None or self.best is None:
            return False
        scores = [record.get("validation_objective", math.inf) for record in self.history]
        at = max(i for i, score in enumerate(scores) if score == self.best[0])
        return len(scores) - max(at + 1, math.ceil(self.config.ramps_end)) >= self.config.patience

    def _refuse_nan(self, seen: Tensor, epoch: int) -> None:
        bad = ~torch.isfinite(seen).all(1)
        if bool(bad.any()):
            batch = int(bad.nonzero()[0])
            _, error, penalty, *_ = seen[batch].tolist()
            raise NotANumberError(
                f"Epoch {epoch}, batch {batch + 1} of {len(seen)}: the error is {error:g} and the penalty {penalty:g}; "
                "training stopped. A lower learning rate, or inputs of a smaller scale, may help."
            )
        for layer, tensors in enumerate(self.perceptron.layers, 1):
            if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
                raise NotANumberError(f"Epoch {epoch}, last batch: layer {layer} has weights that are not finite.")

    def _fingerprint(self, *tables: TrainingSet | None) -> str:
        """Return the SHA-256 of everything that decides how the training goes."""
        digest = hashlib.sha256(self.config.words().encode())
        places = [*tables, self.penalty, self.penalty.moves, self.penalty.shifts, self.adversary]
        held = [value for place in places if place is not None for value in vars(place).values()]
        tensors = [value for value in held if isinstance(value, Tensor)]
        for tensor in [*tensors, self.generator.get_state(), *self.perceptron.parameters]:
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _state(self) -> dict[str, Any]:
        return {
            "parameters": self.perceptron.copy_state(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "history": self.history,
            "best": self.best,
            "adversary": None if self.ascending is None else self.ascending.multiplier,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.perceptron.load_state(state["parameters"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.history, self.best = state["history"], state["best"]
        if self.ascending is not None:
            self.ascending.multiplier = state["adversary"]


def save_state(path: Path, fingerprint: str, state: dict[str, Any]) -> None:
    """Write a state so that a kill at any moment leaves the old or the new one."""
    with atomic(path, "checkpoint") as file:
        torch.save({"format": _FORMAT, "fingerprint": fingerprint, "state": state}, file)


def load_state(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the state of the same training, or None when there is no file; another training's file is refused."""
    if not path.exists():
        return None
    try:
        content = torch.load(path, weights_only=True)
        kind, fingerprint_saved, state = content["format"], content["fingerprint"], content["state"]
    except Exception as error:  # torch raises many kinds for a file that is not its own
        raise FileError(f"The file {path} is not a checkpoint of a training: {type(error).__name__}.") from error
    if kind != _FORMAT or fingerprint_saved != fingerprint:
        raise ParameterError(
            f"The checkpoint {path} belongs to a training with other data or parameters: remove it, or name another."
        )
    return dict(state)
