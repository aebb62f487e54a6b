"""The training loop: a resident table, permuted once per epoch, and slices of it as batches.

Deterministic: weights, permutations and ascents draw from one generator, whose state is in every checkpoint, so that a
training that was killed resumes to the very weights of one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isonomy.errors import NotANumberError
from isonomy.progress import Progress
from isonomy.training.checkpoint import fingerprint_of, load_state, save_state
from isonomy.training.gaps import Head, run
from isonomy.training.penalties import Adversary, Method, Setting, ascended, dual, errors
from isonomy.training.perceptron import Perceptron
from isonomy.training.schedule import Ramp, cooled

Record = dict[str, float]
"""What is remembered of one epoch.

``epoch`` (from 1) of ``epochs``, ``error`` and ``accuracy`` of the training rows while they are learned from,
``classes`` (how many are given at all), ``penalty`` (the bound on the violation that is trained on, for ``f-ibp``,
``l-dif`` and ``u-dif``) and the share of alpha ``withheld`` from it, ``alpha``, ``delta``, ``gamma`` at the end of the
epoch, ``seconds``; with held-out rows ``validation_error``, ``_accuracy``, ``_penalty`` and ``_objective``.
"""

OnEpoch = Callable[[Record], None]
"""Called with the record of each epoch when it is over."""


_NOTHING = 1e-12


@dataclass(frozen=True)
class Plan:
    """How one training goes; ``radii`` are those of the dual, ``steps`` those of an ascent.

    ``keep`` is the explained share of the error below which alpha falls, so that no network ends as a constant.
    """

    method: Method
    delta: float
    gamma: float
    alpha: float
    radii: tuple[float, ...]
    keep: float
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    steps: int
    alpha_ramp: Ramp
    delta_ramp: Ramp
    gamma_ramp: Ramp
    patience: int | None
    error_weight: float = 1.0  # 0 leaves labels out, when something else says what to learn

    @property
    def certified(self) -> bool:
        """Whether a bound is part of the loss."""
        return self.method in ("f-ibp", "l-dif", "u-dif")

    def reached(self, epoch: float) -> tuple[float, float, float]:
        """alpha, delta and gamma at a fractional epoch."""
        return (
            self.alpha * self.alpha_ramp(epoch),
            self.delta * self.delta_ramp(epoch),
            self.gamma * self.gamma_ramp(epoch),
        )


@dataclass(frozen=True)
class Table:
    """Individuals (n, read) in float32, their outcomes, and weights of mean 1."""

    x: Tensor
    y: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def taken(self, order: Tensor) -> Table:
        """The rows in another order."""
        return Table(self.x[order], self.y[order], self.weight[order])


def constant_error(table: Table, head: Head) -> float:
    """The error of the best constant: the entropy of the classes, or the variance of the outcomes."""
    if not head.classes:
        mean = (table.weight * table.y).sum() / table.weight.sum()
        return max(float((table.weight * (table.y - mean).square()).mean()), _NOTHING)
    shares = torch.zeros(head.classes).index_add_(0, table.y, table.weight) / table.weight.sum()
    return max(float(torch.special.entr(shares).sum()), _NOTHING)


Extra = Callable[[Tensor, Tensor], Tensor]
"""A further term of the loss, from a batch's rows (n, read) and raw outputs."""


class Trainer:
    """One training, epoch by epoch."""

    def __init__(
        self,
        perceptron: Perceptron,
        plan: Plan,
        setting: Setting,
        generator: torch.Generator,
        adversary: Adversary | None = None,
        extra: Extra | None = None,
    ) -> None:
        self.perceptron, self.plan, self.setting, self.generator = perceptron, plan, setting, generator
        self.adversary, self.extra = adversary, extra
        self.optimiser = torch.optim.Adam(
            perceptron.parameters, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
        )
        self.history: list[Record] = []
        self.best: tuple[float, list[Tensor]] | None = None

    def fit(
        self,
        table: Table,
        held_out: Table | None = None,
        checkpoint: Path | None = None,
        tick: Progress | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[Record]:
        """Train to the end, or until the validation objective has not improved for ``patience`` epochs.

        The objective is the loss of the held-out rows with alpha, delta and gamma at their full values. The weights
        with the best one are kept at the end.
        """
        plan = self.plan
        decisive = (table.x, table.y, table.weight, self.setting.moves.ball, self.setting.ground)
        words = f"{plan} {self.setting.form} {self.setting.order}"
        fingerprint = fingerprint_of(words, *decisive, self.generator.get_state(), *self.perceptron.parameters)
        if checkpoint is not None and (state := load_state(checkpoint, fingerprint)) is not None:
            self._restore(state)
        constant = constant_error(table, self.setting.head)
        while len(self.history) < plan.epochs and not self._stale():
            record = self._epoch(table, constant)
            if held_out is not None:
                record.update(self._judged(held_out))
            self.history.append(record)
            if held_out is not None and plan.patience is not None and len(self.history) >= self._settled():
                score = record["validation_objective"]
                if self.best is None or score < self.best[0]:
                    self.best = score, self.perceptron.copy_state()
            if checkpoint is not None:
                save_state(checkpoint, fingerprint, self._state())
            if tick is not None:
                tick(len(self.history), plan.epochs)
            if on_epoch is not None:
                on_epoch(dict(record))
        if self.best is not None:
            self.perceptron.load_state(self.best[1])
        return self.history

    def penalty(self, x: Tensor, values: list[Tensor], weight: Tensor, delta: float, gamma: float) -> Tensor:
        """What the method adds to the loss of a batch, before alpha."""
        layers, plan, setting = self.perceptron.layers, self.plan, self.setting
        if plan.method == "u-dif" and gamma > 0:
            scale = gamma / plan.gamma
            radii = [radius * scale for radius in plan.radii]
            profile = setting.profile(layers, x, values, delta, radii)
            return dual(profile, radii, gamma, setting.order, weight)
        if plan.method == "l-dif" and gamma > 0:
            moved = ascended(layers, x, delta, gamma, setting, plan.steps, self.generator)
            return (setting.local(layers, moved, None, delta) * weight).mean()
        return (setting.local(layers, x, values, delta) * weight).mean()

    def _epoch(self, table: Table, constant: float) -> Record:
        plan, layers, started = self.plan, self.perceptron.layers, time.perf_counter()
        table = table.taken(torch.randperm(len(table), generator=self.generator))
        done, count = len(self.history), math.ceil(len(table) / plan.batch_size)
        seen = torch.zeros(count, 5)  # rows, error, penalty, hits, share of alpha withheld
        given = torch.zeros(self.setting.head.classes, dtype=torch.bool)
        for batch in range(count):
            epoch = done + batch / count
            self.optimiser.param_groups[0]["lr"] = plan.learning_rate * cooled(epoch / plan.epochs)
            alpha, delta, gamma = plan.reached(epoch)
            rows = slice(batch * plan.batch_size, (batch + 1) * plan.batch_size)
            x, y, weight = table.x[rows], table.y[rows], table.weight[rows]
            if self.adversary is not None:
                x = self.adversary(layers, x, y, self.setting.head)
            values = run(layers, x)
            error = (errors(values[-1], y, self.setting.head) * weight).mean()
            loss = plan.error_weight * error
            if plan.certified and alpha > 0:
                penalty = self.penalty(x, values, weight, delta, gamma)
                share = 1.0 if plan.keep == 0 else min(1.0, max(0.0, 1 - error.item() / constant) / plan.keep)
                loss = loss + alpha * share * penalty
                seen[batch, 2], seen[batch, 4] = penalty.detach(), 1 - share
            if self.extra is not None:
                loss = loss + self.extra(x, values[-1])
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            seen[batch, 0], seen[batch, 1] = len(x), error.detach()
            if self.setting.head.classes:
                decided = values[-1].argmax(1)
                seen[batch, 3] = (decided == y).sum()
                given[decided] = True
        self._refuse_nan(seen, done + 1)
        part = seen[:, 0] / seen[:, 0].sum()
        alpha, delta, gamma = plan.reached(done + 1)
        record: Record = {
            "epoch": done + 1,
            "epochs": plan.epochs,
            "error": float(part @ seen[:, 1]),
            "alpha": alpha,
            "delta": delta,
            "gamma": gamma,
            "seconds": time.perf_counter() - started,
        }
        if plan.certified:
            record["penalty"], record["withheld"] = float(part @ seen[:, 2]), float(part @ seen[:, 4])
        if self.setting.head.classes:
            record["classes"] = int(given.sum())
            record["accuracy"] = float(seen[:, 3].sum() / seen[:, 0].sum())
        return record

    def _judged(self, held_out: Table) -> Record:
        """Error, accuracy, penalty and objective of the held-out rows, with the schedules at their ends."""
        plan, head, totals = self.plan, self.setting.head, torch.zeros(3)
        place = self.generator.get_state()
        for start in range(0, len(held_out), 4096):
            rows = slice(start, start + 4096)
            x, y, weight = held_out.x[rows], held_out.y[rows], held_out.weight[rows]
            with torch.no_grad():
                values = run(self.perceptron.layers, x)
                error = (errors(values[-1], y, head) * weight).mean()
                hits = (values[-1].argmax(1) == y).float().mean() if head.classes else torch.tensor(math.nan)
            penalty = torch.zeros(())
            if plan.alpha > 0 and plan.certified:
                penalty = self.penalty(x, values, weight, plan.delta, plan.gamma).detach()
            totals += torch.stack([error, penalty, hits]) * len(x) / len(held_out)
        self.generator.set_state(place)  # looking draws nothing
        error, penalty, hits = totals.tolist()
        record = {"validation_error": error, "validation_penalty": penalty}
        if head.classes:
            record["validation_accuracy"] = hits
        return record | {"validation_objective": error + plan.alpha * penalty}

    def _settled(self) -> float:
        """The epoch after which the schedules stand still."""
        return max(ramp.stop for ramp in (self.plan.alpha_ramp, self.plan.delta_ramp, self.plan.gamma_ramp))

    def _stale(self) -> bool:
        """Whether the best epoch is further back than patience allows."""
        if self.plan.patience is None or self.best is None:
            return False
        scores = [record.get("validation_objective", math.inf) for record in self.history]
        at = max(i for i, score in enumerate(scores) if score == self.best[0])
        return len(scores) - 1 - at >= self.plan.patience

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

    def _state(self) -> dict[str, Any]:
        return {
            "parameters": self.perceptron.copy_state(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "history": self.history,
            "best": None if self.best is None else list(self.best),
            "adversary": None if self.adversary is None else self.adversary.multiplier,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.perceptron.load_state(state["parameters"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.history = list(state["history"])
        self.best = None if state["best"] is None else (state["best"][0], state["best"][1])
        if self.adversary is not None:
            self.adversary.multiplier = state["adversary"]
