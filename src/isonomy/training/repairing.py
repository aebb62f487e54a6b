"""Repair: fine-tune a trained network until it is certified at epsilon, changing its predictions as little as possible.

First the network is made blind, step by step, to whatever similar people may differ in freely: everybody is taken for
an average person there, since from a network that reads it the bound is near 1 and flat. Then the loss is the
divergence from the original predictions plus ``alpha`` times the bound of the local violation. Rounds with a growing
alpha go on from the last weights; the first round whose network is certified ends the repair.

**Soundness.** The trainer's bound only steers. What is promised, ``certificate.upper <= epsilon``, is what
:func:`isonomy.certify` proved of the network that is returned.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isonomy.arithmetic import FloatArray
from isonomy.certificates import Certificate, Transport, certify
from isonomy.certificates.certify import DistributionalTier
from isonomy.errors import NetworkError
from isonomy.fairness import blind_scores, scores
from isonomy.given import FINITE, instance, number, whole
from isonomy.networks import Network
from isonomy.population import Population
from isonomy.population.outcome import decided
from isonomy.progress import Progress, shown
from isonomy.similarity import Counterparts, Metric
from isonomy.training.collapse import CollapsedModelWarning, answers, class_names, collapse
from isonomy.training.config import ResolvedConfig, TrainingConfig
from isonomy.training.gaps import Head, as_float32
from isonomy.training.penalties import Penalty
from isonomy.training.perceptron import Perceptron
from isonomy.training.trainer import Trainer, TrainingSet

_SHARES = (0.25, 0.5, 0.75, 1.0)
"""How blind a network is made, one after the other until it is certified."""
_ROWS = 10_000
"""Individuals to learn from, at least: with fewer, a network is made fair at these and not between them."""


@dataclass(frozen=True, eq=False)
class Repair:
    """The repaired network, its certificate on the rows it was judged on, and what changed.

    ``agreement`` is the share of these rows that keep their decision, ``change`` the mean largest change of what they
    receive. ``before`` and ``after`` are the :func:`isonomy.fairness.scores` of the original and of this network where
    these rows have labels, and ``blind`` those of a regression, fitted on the training rows, that reads nothing
    protected. ``reached`` says whether the certificate is at most epsilon and the network still decides; otherwise this
    is the fairest such network, and ``reason`` says what was missed. A network that tells nothing of the
    original decisions any more has collapsed (:func:`isonomy.training.collapse.collapse`): ``collapse`` says how this
    one has, which happens only to one that decided nothing to begin with, and ``lost`` how those have that were
    certified at epsilon. ``repair`` warns of both.
    """

    network: Network
    certificate: Certificate
    epsilon: float
    agreement: float
    change: float
    alpha: float
    collapse: str = ""
    lost: str = ""
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    blind: Mapping[str, float] = field(default_factory=dict)

    @property
    def certified(self) -> bool:
        """Say whether no population within gamma has a mean violation above epsilon, whatever the network."""
        return self.certificate.upper <= self.epsilon

    @property
    def collapsed(self) -> bool:
        """Say whether this network decides nothing."""
        return bool(self.collapse)

    @property
    def reached(self) -> bool:
        """Say whether the certified mean violation is at most epsilon, of a network that decides."""
        return self.certified and not self.collapsed

    @property
    def reason(self) -> str:
        """Return why epsilon was not reached, in a sentence."""
        if self.reached:
            return ""
        if self.collapsed:
            return f"The network {self.collapse}: it is fair because it decides nothing."
        if self.lost:
            return f"Each network found with a certificate of at most epsilon {self.lost}: it decides nothing."
        return "No network was found with a certificate of at most epsilon."


@dataclass(frozen=True)
class FineTuning:
    """How a repair trains: at most ``rounds`` times ``epochs``, with the weight ``alpha`` on the bound in the first
    round and twice as much in each further one; with ``learning_rate``, ``batch_size``, ``random_state``.
    """

    rounds: int = 8
    epochs: int = 3
    alpha: float = 0.3
    learning_rate: float = 5e-4
    batch_size: int = 256
    random_state: int = 0

    def __post_init__(self) -> None:
        for name in ("alpha", "learning_rate"):
            number(name, getattr(self, name), "a finite number >= 0", high=FINITE)
        for name in ("rounds", "epochs", "batch_size"):
            whole(name, getattr(self, name), 1)
        whole("random_state", self.random_state)


def repair(
    model: Network,
    people: Population,
    epsilon: float,
    *,
    metric: Metric | None = None,
    delta: float | None = None,
    shift: Transport | None = None,
    tier: DistributionalTier = "tight",
    judged_on: Population | None = None,
    tuning: FineTuning | None = None,
    progress: Progress | Literal["auto"] | None = "auto",
) -> Repair:
    """Fine-tune ``model`` (affine layers and ReLU) on the training split of ``people`` until its certificate is at
    most ``epsilon``.

    No labels are needed: the original predictions are what is kept. The certificate is that of :func:`isonomy.certify`
    for the populations of a ``shift``, by default :class:`isonomy.Transport` of 0.1, from ``judged_on``, by the
    ``tier``; judged on is by default the test split (the people themselves when they are a training split). A small
    table is filled up with people between two others, who need no label either. Similar is who is within ``delta`` in
    the ``metric``, by default counterparts of the schema; ``delta`` is by default their 1, and 0.05 in another metric.
    ``tuning`` is a :class:`isonomy.training.FineTuning`. ``progress`` is called with the rounds done and in all.
    """
    instance("model", model, Network, "an isonomy.Network, as load_network(path) gives")
    instance("people", people, Population, "a Population")
    instance("metric", metric, Metric | None, "None or a metric, such as isonomy.WeightedLp(weights)")
    instance("shift", shift, Transport | None, "None or a shift by transport, such as isonomy.Transport(0.1)")
    instance("tuning", tuning, FineTuning | None, "None or a FineTuning, such as FineTuning(rounds=4)")
    epsilon = number("epsilon", epsilon, "a finite number > 0", high=math.inf, strict=True)
    shift, tuning = shift or Transport(0.1), tuning or FineTuning()
    number("shift", shift.gamma, "within a finite distance >= 0", high=FINITE)
    if delta is not None:
        number("delta", delta, "a finite number >= 0", high=FINITE)
    train = people.train if people.split == "all" else people
    judged = judged_on if judged_on is not None else people.test if people.split == "all" else people
    similarity = Counterparts.of(people.schema) if metric is None else metric
    network = _repairable(model, people)
    tuned = _Tuned(network, train, similarity, delta, shift, tuning)
    judge = _Judge(network, judged, train.sample(_ROWS), epsilon, similarity, tuned.config.delta, shift, tier)
    best = judge.repair(network, 0.0)
    with shown("Repairing", progress) as tick:
        for share in _SHARES if tuned.penalty.unlimited.shape[1] else ():
            if not best.reached:
                best = judge.better(best, tuned.blinded(share), 0.0)
        blind, best = best.lost, replace(best, lost="")
        for step in range(tuning.rounds):
            if best.certified or best.lost:  # alpha only grows: a network that has collapsed does not come back
                break
            strength = tuning.alpha * 2.0**step
            best = judge.better(best, tuned.trained(strength), strength)
            tick(step + 1, tuning.rounds)
    best = replace(
        best, lost=best.lost or blind,
        certificate=best.certificate if best.certified else judge.certificate(best.network),
        before=scores(network, judged), after=scores(best.network, judged), blind=blind_scores(train, judged),
    )  # fmt: skip
    if not best.reached and (best.collapsed or best.lost):
        advice = "Allow a larger 'epsilon', or give a smaller 'alpha' and more 'rounds'."
        warnings.warn(f"{best.reason} {advice}", CollapsedModelWarning, stacklevel=2)
    return best


def _repairable(model: Network, people: Population) -> Network:
    """Return the network on all coordinates; refuse one of other inputs or with several sigmoids."""
    network = model.on(people.schema)
    if network.head == "sigmoid" and network.classes > 1:
        raise NetworkError(
            f"'{network.name}' ends in {network.classes} sigmoids; repair takes one of them, or a softmax."
        )
    return network


class _Tuned:
    """A copy of a network that is trained on, to keep its predictions and lower the bound of the violation."""

    def __init__(
        self,
        network: Network,
        train: Population,
        metric: Metric,
        delta: float | None,
        shift: Transport,
        how: FineTuning,
    ) -> None:
        no_ramp = (0.0, 0.0)
        given = TrainingConfig(
            "u-dif" if shift.gamma else "f-ibp", delta, shift.gamma, how.alpha, order=shift.order, ground=shift.ground,
            epochs=how.epochs, batch_size=how.batch_size, learning_rate=how.learning_rate,
            alpha_ramp=no_ramp, delta_ramp=no_ramp, gamma_ramp=no_ramp,
        )  # fmt: skip
        self.network, self.config = network, ResolvedConfig.of(given, metric, len(train), how.random_state)
        head = Head(0 if network.head == "regression" else max(2, network.classes))
        self.perceptron, self.original = Perceptron.from_network(network), Perceptron.from_network(network)
        self.penalty = Penalty(self.config, metric, train.domain, head, self.perceptron.reads, train.x)
        rows, weights = _with_mixtures(train, how.random_state)
        x = as_float32(rows[:, self.perceptron.reads])
        labels = torch.zeros(len(x), dtype=torch.int64 if head.classes else torch.float32)  # not read
        self.table = TrainingSet(x, labels, as_float32(weights / weights.mean()))
        self.generator = torch.Generator().manual_seed(how.random_state)

    def blinded(self, share: float) -> Network:
        """Return the original with a share of the directions without limits taken out of its first layer."""
        self.perceptron.load_state(self.original.copy_state())
        self.perceptron.remove_directions(self.penalty.unlimited, self.table.x.mean(0), share)
        return self._present()

    def trained(self, alpha: float) -> Network:
        """Return the network after one more round, with this weight on the bound."""
        config = replace(self.config, alpha=alpha)
        Trainer(self.perceptron, config, self.penalty, self.generator, objective=self._drift).fit(self.table)
        return self._present()

    def _present(self) -> Network:
        return self.perceptron.network(self.network.head, f"{self.network.name}, repaired")

    def _drift(self, rows: Tensor, outputs: Tensor) -> Tensor:
        """Return the distance of outputs from the original ones."""
        with torch.no_grad():
            target = self.original(rows)
        if not self.penalty.head.classes:
            return (outputs - target).square().mean()
        return functional.kl_div(outputs.log_softmax(1), target.log_softmax(1), log_target=True, reduction="batchmean")


@dataclass(frozen=True, eq=False)
class _Judge:
    """What a repair is judged by: the original, the people, and the certificate that is wanted."""

    original: Network
    judged: Population
    learned: Population
    epsilon: float
    metric: Metric
    delta: float
    shift: Transport
    tier: DistributionalTier

    def certificate(self, candidate: Network, rounds: int = 4) -> Certificate:
        """Certify a candidate on the people judged."""
        arguments = candidate, self.judged, self.metric, self.delta, self.shift
        return certify(*arguments, tier=self.tier, attack=False, rounds=rounds, progress=None)

    def repair(self, candidate: Network, alpha: float) -> Repair:
        """Return a candidate as a repair of the original."""
        certificate = self.certificate(candidate, 1)
        if certificate.local.mean_upper <= self.epsilon:  # else no more work can settle it
            certificate = self.certificate(candidate)
        changes = _changes(self.original, candidate, self.judged)
        lost = _collapse(self.original, candidate, self.judged, self.learned)
        return Repair(candidate, certificate, self.epsilon, *changes, alpha, lost)

    def better(self, best: Repair, candidate: Network, alpha: float) -> Repair:
        """Return the repair by a candidate that is fairer and decides, else the best so far."""
        now = self.repair(candidate, alpha)
        if now.collapsed and not best.collapsed:
            return replace(best, lost=now.collapse if now.certified else best.lost)
        fairer = now.certificate.upper < best.certificate.upper
        return replace(now, lost=best.lost) if fairer or (best.collapsed and not now.collapsed) else best


def _changes(before: Network, after: Network, judged: Population) -> tuple[float, float]:
    """Return the share of people who keep their decision, and the mean largest change of what they receive."""
    old, new = before(judged.x), after(judged.x)
    label, numbers = judged.schema.label, before.head == "regression"
    label = label if label is not None and len(label.classes) == (0 if numbers else old.shape[1]) else None
    same = decided(old, label, regression=numbers) == decided(new, label, regression=numbers)
    change = np.average(np.abs(old - new).max(axis=1), weights=judged.weights)
    return float(np.average(same, weights=judged.weights)), float(change)


def _collapse(before: Network, after: Network, judged: Population, learned: Population) -> str:
    """Say how a network has collapsed from the original's answers, or from the labels where those are constant."""
    label = judged.schema.label
    names = class_names(label)
    for people in (judged, learned):
        if reason := collapse(after, people.x, answers(before, people.x, label), people.weights, names, label):
            return reason
    if learned.y is None or len(np.unique(answers(before, learned.x, label))) > 1:
        return ""
    return collapse(after, learned.x, learned.y, learned.weights, names, label)


def _with_mixtures(train: Population, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return individuals and weights; a small table is filled up with mixtures of two people, drawn by weight."""
    missing = max(0, _ROWS - len(train))
    rng = np.random.default_rng(seed)
    one, other = rng.choice(len(train), size=(2, missing), p=train.weights / train.weights.sum())
    share = rng.uniform(size=(missing, 1))
    between = share * train.x[one] + (1 - share) * train.x[other]
    weights = np.concatenate([train.weights, np.full(missing, train.weights.mean())])
    return np.concatenate([train.x, between]), weights
