"""Every parameter of a training: its default, its rule, and the ramp along which it grows."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

from isonomy.errors import ParameterError, template
from isonomy.given import FINITE, choice, instance, number, whole
from isonomy.population import Domain, DomainKind
from isonomy.problem import own_delta
from isonomy.progress import Progress
from isonomy.similarity import Metric
from isonomy.similarity.ground import Ground

Method = Literal["scorecard", "sgd", "ftu", "sensr", "sensei", "f-ibp", "l-dif", "u-dif", "residual"]
Form = Literal["relational", "paper", "attacked"]

FURTHEST = 3.0
"""How many times gamma one individual may be moved when others stay."""

_STEPS = 600
"""Steps that a training has at least, unless the caller says how many epochs."""

_DELTA = 0.05
"""The radius of similarity in a metric that has none of its own."""

_VALIDATION_SHARE, _FEWEST_ROWS = 0.2, 20
"""The share of the rows that is set aside unless the caller says otherwise, and the fewest that tell anything."""

ALPHAS = (0.05, 0.1, 0.3, 1.0, 3.0)
"""The weights of the bound that are tried where none is given."""

_OPTIONAL = ("delta", "alpha", "epsilon", "epochs", "ascent_steps", "patience")
_UNHASHED = ("metric", "domain", "ground", "checkpoint", "random_state", "progress", "epsilon", "judged")


@dataclass(eq=False)
class TrainingConfig:
    """How a training goes, as the caller gives it: the estimators inherit it, :class:`FairClassifier` describes it."""

    method: Method = "scorecard"
    delta: float | None = None
    gamma: float = 0.1
    alpha: float | None = 1.0
    hidden: tuple[int, ...] = (256, 256)
    _: KW_ONLY
    blind: bool | None = None
    epsilon: float | None = None
    judged: int = 100
    metric: Metric | None = None
    domain: Domain | DomainKind | None = None
    ground: Ground = "l2"
    order: float = 1.0
    radii: tuple[float, ...] | None = None
    bound: Form = "relational"
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float | Literal["search"] = 1e-3
    ascent_steps: int | None = None
    alpha_ramp: tuple[float, float] = (0.0, 0.3)
    validation: float | None = None
    patience: int | None = 20
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    progress: Progress | Literal["auto"] | None = "auto"

    @property
    def reads_nothing_protected(self) -> bool:
        """Say whether the model reads no protected coordinate."""
        return self.method in ("ftu", "scorecard", "residual") if self.blind is None else self.blind

    def _check_parameters(self) -> None:
        """Refuse what no training can go by."""
        choice("method", self.method, Method)
        choice("bound", self.bound, Form)
        if self.bound == "attacked" and self.method != "l-dif":
            raise ParameterError(template("bound", "'relational' or 'paper' for all methods but 'l-dif'", self.bound))
        given = {name: value for name, value in vars(self).items() if value is not None or name not in _OPTIONAL}
        for name in given.keys() & {"delta", "gamma", "alpha", "epsilon"}:
            number(name, given[name], "a finite number >= 0", high=FINITE)
        instance("blind", self.blind, bool | None, "None, True or False")
        for name in given.keys() & {"epochs", "batch_size", "ascent_steps", "patience", "judged"}:
            whole(name, given[name], 1)
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise ParameterError(template("hidden", "a tuple of widths, such as (256, 256)", self.hidden))
        for width in self.hidden:
            whole("hidden", width, 1)
        if self.learning_rate != "search":
            right = "a number above 0, or 'search'"
            number("learning_rate", self.learning_rate, right, high=math.inf, strict=True)
        if self.validation is not None:
            number("validation", self.validation, "a share 0 <= share < 1", high=math.nextafter(1.0, 0.0))
        number("order", self.order, "a number >= 1, or infinity", 1.0)
        ends, name, right = self.alpha_ramp, "alpha_ramp", "two shares of the training from 0 to 1, the earlier first"
        shares = [number(name, share, right, high=1.0) for share in ends] if isinstance(ends, tuple | list) else []
        if len(shares) != 2 or shares[0] > shares[1]:
            raise ParameterError(template(name, right, ends))
        if self.radii is not None:
            if not isinstance(self.radii, tuple | list) or not self.radii:
                raise ParameterError(template("radii", "None or some numbers >= 0", self.radii))
            for radius in self.radii:
                number("radii", radius, "None or some numbers >= 0", high=FINITE)
        instance("metric", self.metric, Metric | None, "None or a metric, such as isonomy.WeightedLp(weights)")


@dataclass(eq=False)
class ResolvedConfig(TrainingConfig):
    """What a trainer goes by: the same for one table, with the defaults that depend on it filled in."""

    delta: float = 0.0
    alpha: float = 0.0
    radii: tuple[float, ...] = ()
    epochs: int = 1
    ascent_steps: int = 1
    validation: float = 0.0

    @classmethod
    def of(cls, given: TrainingConfig, metric: Metric, rows: int, seed: int) -> ResolvedConfig:
        """Resolve the defaults for a metric and the rows of a table. A learning rate that is to be searched stays so.

        The radii of the dual: stay, or move three times as far as all can; order ∞ moves everybody by gamma. Further
        radii cost time and, measured on ACS Income, gain nothing.
        """
        values = {field.name: getattr(given, field.name) for field in fields(TrainingConfig)}
        values |= {"delta": delta_of(metric, given.delta), "validation": validation_share(rows, given.validation)}
        values |= {name: float(values[name] or 0.0) for name in ("gamma", "alpha")}
        moves_all = given.order == math.inf
        if given.radii is None:
            values["radii"] = (values["gamma"],) if moves_all else (0.0, FURTHEST * values["gamma"])
        else:  # where a budget is spent, some individuals stay
            values["radii"] = tuple(sorted({*map(float, given.radii), *([] if moves_all else [0.0])}))
        values["epochs"] = default_epochs(rows, given.batch_size) if given.epochs is None else given.epochs
        values["ascent_steps"] = given.ascent_steps or (5 if given.method in ("sensr", "sensei") else 1)
        return cls(**values | {"hidden": tuple(given.hidden), "random_state": seed})

    @property
    def penalised(self) -> bool:
        """Say whether a bound is part of the loss."""
        return self.method in ("f-ibp", "l-dif", "u-dif", "residual", "sensei")

    def alpha_at(self, epoch: float) -> float:
        """Return alpha at a fractional epoch."""
        start, stop = self.alpha_ramp
        return self.alpha * ramp(epoch, start * self.epochs, stop * self.epochs)

    @property
    def ramps_end(self) -> float:
        """Return the epoch at which alpha's ramp ends; the first where no bound is part of the loss."""
        return self.alpha_ramp[1] * self.epochs if self.penalised else 0.0

    def words(self) -> str:
        """Return all parameters that decide the training of a network but for those known by tensors made from them."""
        return str({name: value for name, value in vars(self).items() if name not in _UNHASHED})


def ramp(epoch: float, start: float, stop: float) -> float:
    """Return the share of its full value that a number has: 0 until ``start``, then linear, 1 from ``stop`` on."""
    return 1.0 if epoch >= stop else max(0.0, (epoch - start) / (stop - start))


def delta_of(metric: Metric, delta: float | None) -> float:
    """Return δ as given, else the metric's: 1 for counterparts, whose tolerances mean it, 0.05 for others."""
    own = own_delta(metric, delta)
    return _DELTA if own is None else float(own)


def validation_share(rows: int, share: float | None) -> float:
    """Return the share of the rows that is not learned from: a fifth unless given, none of very few rows."""
    if share is None:
        return _VALIDATION_SHARE if _VALIDATION_SHARE * rows >= _FEWEST_ROWS else 0.0
    return float(share)


def default_epochs(rows: int, batch_size: int) -> int:
    """Return ten epochs, more on a small table, where ten are too few steps to learn more than the larger class."""
    return max(10, math.ceil(_STEPS / math.ceil(rows / batch_size)))
