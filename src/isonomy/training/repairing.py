"""Repair: the least change of a trained network that makes it certified at epsilon.

First the network is made blind by one reference person: protected columns have that person's values for all, so that
what they change alone is exactly 0. Only if that is not enough it is fine-tuned: the loss is the divergence from the
original predictions plus ``alpha`` times the bound of the violation, each trial from the blind network, and the least
alpha whose network is certified is taken, by halving on its logarithm. The cut-off of two classes is moved so that as
many people as before receive each. Scores are scaled on request only: that shrinks all differences alike, changes no
ranking, and is no success.

**Soundness.** The trainer's bound only steers. What is promised, ``certificate.upper <= epsilon``, is what
:func:`isonomy.certify` proved of the network that is returned, its cut-off moved.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from isonomy.arithmetic import FloatArray, at_most
from isonomy.certificates import Certificate, Transport, certify
from isonomy.certificates.certify import DistributionalTier
from isonomy.errors import NetworkError
from isonomy.fairness import SCORES, blind_scores, scores
from isonomy.fairness.decisions import accuracies
from isonomy.given import FINITE, instance, number, whole
from isonomy.networks import Network
from isonomy.population import Label, Population
from isonomy.population.outcome import decided
from isonomy.progress import Progress, shown
from isonomy.similarity import Counterparts, Metric
from isonomy.training.collapse import CollapsedModelWarning, answers, class_names, collapse
from isonomy.training.config import ResolvedConfig, TrainingConfig
from isonomy.training.gaps import Head, IntArray, as_float32
from isonomy.training.penalties import Penalty
from isonomy.training.perceptron import Perceptron
from isonomy.training.trainer import Trainer, TrainingSet

_ROWS = 10_000
"""Individuals to learn from, at least: with fewer, a network is made fair at these and not between them."""

REFERENCES = 12
"""The reference persons, at most, of whom the one that keeps most decisions is taken."""


FALL = 0.1
"""The share of itself by which a relative violation falls at least, to count as lower than the original's."""


@dataclass(frozen=True, eq=False)
class Repair:
    """The repaired network, its certificate on the rows it was judged on, and what changed.

    ``way`` says how: ``"as it is"``, ``"blind"`` (protected columns are those of one reference person, ``reference``),
    ``"fine-tuned"`` with the weight ``alpha`` on the bound, or ``"scaled"``, which is always refused; ``shift`` is what
    was added to the raw output of the second class so that as many people as before receive it. ``agreement`` is the
    share of these rows that keep their decision, ``balanced_agreement`` the mean of that share over the original's
    decisions, ``change`` the mean largest change of what they receive. ``before`` and ``after`` are the
    :func:`isonomy.fairness.scores` of the original, with the certificate ``original``, and of this network where these
    rows have labels, and ``blind`` those of a regression, fitted on the training rows, that reads nothing protected.
    ``relative`` are the relative violations before and after: the bound over the standard deviation of the scores,
    which scaling does not change.

    ``reached`` says whether the certificate is at most epsilon, the network still decides, and nothing is ``refused``:
    that fewer classes are given than before, that the balanced agreement is below the floor, or that the relative
    violation did not fall. Otherwise this is the fairest network that decides, and ``reason`` says what was missed. A
    network that has collapsed (:func:`isonomy.training.collapse.collapse`) is fair because it decides nothing:
    ``collapse`` says how this one has, which happens only to one that decided nothing to begin with, and ``lost`` how
    those have that were certified at epsilon. ``repair`` warns of both.
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
    original: Certificate | None = None
    way: str = "as it is"
    reference: Mapping[str, float] = field(default_factory=dict)
    shift: float = 0.0
    balanced_agreement: float = 1.0
    relative: tuple[float, float] = (math.nan, math.nan)
    refused: str = ""

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
        """Say whether the certified mean violation is at most epsilon, of a network that decides and is not refused."""
        return self.certified and not self.collapsed and not self.refused

    @property
    def reason(self) -> str:
        """Return why epsilon was not reached, in a sentence."""
        if self.reached:
            return ""
        if self.collapsed:
            return f"The network {self.collapse}: it is fair because it decides nothing."
        if self.certified:
            return f"The network is refused: {self.refused}."
        if self.lost:
            return f"Each network found with a certificate of at most epsilon {self.lost}."
        return "No network was found with a certificate of at most epsilon."

    def frame(self) -> pd.DataFrame:
        """Return scores, bounds and relative violation, before and after, and the decisions kept, a row for each."""
        rows: dict[str, tuple[float, float]] = {}
        for name, title in SCORES.items():
            if name in self.before and name in self.after:
                rows[title] = self.before[name], self.after[name]
        if self.original is not None:
            both = self.original, self.certificate
            rows["proved of these people"] = both[0].local.mean_upper, both[1].local.mean_upper
            rows["proved within γ"] = both[0].upper, both[1].upper
            rows["relative violation"] = self.relative
        rows["decisions kept"] = 1.0, self.agreement
        rows["decisions kept, balanced"] = 1.0, self.balanced_agreement
        return pd.DataFrame(rows, index=["before", "after"]).T

    def __str__(self) -> str:
        words = f"reached, {self.way}" if self.reached else f"not reached. {self.reason}"
        table = self.frame()
        shown = table.map("{:.4f}".format)
        bounds = [name for name in table.index if str(name).startswith(("proved", "relative"))]
        shown.loc[bounds] = table.loc[bounds].map(lambda value: at_most(value, 4))
        return f"Repair at epsilon {self.epsilon:g}: {words}\n{shown.to_string()}"


@dataclass(frozen=True)
class FineTuning:
    """How a repair trains where blindness is not enough: ``trials`` trainings of ``epochs``, each from the blind
    network, by halving on the logarithm of the weight on the bound, at most ``alpha``; with ``learning_rate``,
    ``batch_size``, ``random_state``. ``floor`` is the least balanced agreement with the original. With ``scale`` scores
    are scaled where nothing else is certified, as little as ``trials`` halvings find; a repair by it is never reached.

    Change ``floor`` where more or fewer decisions may differ, ``trials`` where a smaller change is worth the time,
    ``alpha`` and ``epochs`` where no trial is certified, ``learning_rate`` where outputs differ more than they have to,
    ``batch_size`` for speed, ``scale`` to see what scaling alone would show.
    """

    trials: int = 6
    epochs: int = 6
    alpha: float = 30.0
    learning_rate: float = 5e-4
    batch_size: int = 256
    random_state: int = 0
    floor: float = 0.75
    scale: bool = False

    def __post_init__(self) -> None:
        for name in ("alpha", "learning_rate"):
            number(name, getattr(self, name), "a finite number >= 0", high=FINITE)
        for name in ("trials", "epochs", "batch_size"):
            whole(name, getattr(self, name), 1)
        whole("random_state", self.random_state)
        number("floor", self.floor, "a share from 0 to 1", high=1.0)
        instance("scale", self.scale, bool, "True or False")


_RANGE = 1000.0
"""How many times smaller than the largest weight on the bound, or scale of scores, the smallest one is."""

SCALED = "its scores are only scaled, which shrinks all differences alike and changes no ranking"
"""Why scaling is refused."""


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
    """Change ``model`` (affine layers and ReLU) as little as possible until its certificate is at most ``epsilon``.

    First it is made blind: protected columns are those of one reference person, the one of the training rows' that
    keeps most decisions. Then, if that is not enough, it is fine-tuned towards its own predictions, with the least
    weight on the bound that is certified. Each time its cut-off is moved so that as many people as before receive each
    class (of two classes).

    No labels are needed: the original predictions are what is kept. The certificate is that of :func:`isonomy.certify`
    for the populations of a ``shift``, by default :class:`isonomy.Transport` of 0.1, from ``judged_on``, by the
    ``tier``; judged on is by default the test split (the people themselves when they are a training split). A small
    table is filled up with people between two others, who need no label either. Similar is who is within ``delta`` in
    the ``metric``, by default counterparts of the schema; ``delta`` is by default their 1, and 0.05 in another metric.
    ``tuning`` is a :class:`isonomy.training.FineTuning`. ``progress`` is called with the trials done and in all.
    """
    instance("model", model, Network, "an isonomy.Network, as load_network(path) gives")
    instance("people", people, Population, "a Population")
    instance("metric", metric, Metric | None, "None or a metric, such as isonomy.WeightedLp(weights)")
    instance("shift", shift, Transport | None, "None or a shift by transport, such as isonomy.Transport(0.1)")
    instance("tuning", tuning, FineTuning | None, "None or a FineTuning, such as FineTuning(trials=4)")
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
    judge = _Judge(network, judged, train.sample(_ROWS), epsilon, similarity, tuned.config.delta, shift, tier, tuning)
    with shown("Repairing", progress) as tick:
        best = _repaired(judge, tuned, tick)
    best = replace(
        best, before=scores(network, judged), after=scores(best.network, judged), blind=blind_scores(train, judged)
    )
    if not best.reached and (best.collapsed or best.lost or best.refused):
        advice = "Allow a larger 'epsilon'."
        nothing = best.collapsed or "decides nothing" in best.lost
        kind = CollapsedModelWarning if nothing else UserWarning
        warnings.warn(f"{best.reason} {advice}", kind, stacklevel=2)
    return best


def _repaired(judge: _Judge, tuned: _Tuned, tick: Progress) -> Repair:
    """Return the least change that is certified: none, blindness, or the least weight on the bound."""
    best = judge.repair(judge.original, "as it is")
    if best.certified:
        return best
    blind = tuned.blinded()
    if blind is not None:
        best = judge.better(best, blind, "blind", shift=tuned.moved)
    low, high = math.log(max(tuned.how.alpha / _RANGE, 1e-12)), math.log(max(tuned.how.alpha, 1e-12))
    best = replace(best, reference=tuned.reference)
    reached: Repair | None = best if best.reached else None
    for trial in range(0 if reached is not None or tuned.how.alpha == 0 else tuned.how.trials):
        middle = (low + high) / 2
        best = judge.better(best, tuned.trained(math.exp(middle)), "fine-tuned", math.exp(middle), tuned.moved)
        now = judge.last
        if now.reached and (reached is None or now.agreement >= reached.agreement):
            reached = now
        low, high = (low, middle) if now.certified or now.collapsed else (middle, high)
        tick(trial + 1, tuned.how.trials)
    if reached is None and tuned.how.scale:
        best = _scaled(best, judge, tuned)
    return replace(best if reached is None else reached, reference=tuned.reference)


def _scaled(best: Repair, judge: _Judge, tuned: _Tuned) -> Repair:
    """Return the least scaling of scores that is certified, by halving on its logarithm; else the best so far."""
    low, high = -math.log(_RANGE), 0.0
    for _ in range(tuned.how.trials):
        middle = (low + high) / 2
        now = judge.repair(tuned.scaled(math.exp(middle)), "scaled", shift=tuned.moved)
        best = now if now.certified else best
        low, high = (middle, high) if now.certified else (low, middle)
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
        given = TrainingConfig(
            "u-dif" if shift.gamma else "f-ibp", delta, shift.gamma, how.alpha, order=shift.order, ground=shift.ground,
            epochs=how.epochs, batch_size=how.batch_size, learning_rate=how.learning_rate,
            alpha_ramp=(0.0, 0.0),
        )  # fmt: skip
        self.network, self.config = network, ResolvedConfig.of(given, metric, len(train), how.random_state)
        head = Head(0 if network.head == "regression" else max(2, network.classes))
        self.perceptron, self.original = Perceptron.from_network(network), Perceptron.from_network(network)
        self.penalty = Penalty(self.config, metric, train.domain, head, self.perceptron.reads, train.x)
        rows, weights = _with_mixtures(train, how.random_state)
        x = as_float32(rows[:, self.perceptron.reads])
        labels = torch.zeros(len(x), dtype=torch.int64 if head.classes else torch.float32)  # not read
        self.table = TrainingSet(x, labels, as_float32(weights / weights.mean()))
        self.train, self.how, self.moved = train, how, 0.0
        self.reference: dict[str, float] = {}
        self.blind = self.perceptron.copy_state()

    def blinded(self) -> Network | None:
        """Return the original with the protected columns of one reference person, and without other directions that
        the metric leaves free; None where it reads neither. What is trained later starts there."""
        protected, reads = self.train.schema.protected_coordinates, self.perceptron.reads
        mine = np.flatnonzero(protected[reads])
        if len(mine):
            self._refer(mine, self.train.x[:, reads[mine]])
        rest = self.penalty.unlimited.clone()
        rest[mine] = 0.0
        free = bool((rest.abs() > 1e-6).any())
        if free:
            basis, sizes, _ = torch.linalg.svd(rest, full_matrices=False)
            self.perceptron.remove_directions(basis[:, sizes > 1e-4], self.table.x.mean(0))
        if not len(mine) and not free:
            return None
        self.blind = self.perceptron.copy_state()
        return self._present()

    def _refer(self, columns: IntArray, values: FloatArray) -> None:
        """Give everybody the protected columns of the reference person that keeps most decisions, and read them no
        more."""
        weight, bias = self.perceptron.layers[0]
        kept = weight.detach().clone(), bias.detach().clone()
        persons, counts = np.unique(values, axis=0, return_counts=True)
        best = -1.0
        for person in persons[np.argsort(-counts, kind="stable")[:REFERENCES]]:
            with torch.no_grad():
                weight.copy_(kept[0])
                bias.copy_(kept[1] + kept[0][:, columns] @ as_float32(person))
                weight[:, columns] = 0.0
            own = self._balanced()
            if own > best:
                best, chosen = own, (weight.detach().clone(), bias.detach().clone(), person)
        with torch.no_grad():
            weight.copy_(chosen[0])
            bias.copy_(chosen[1])
        names = self.train.schema.coordinate_names
        places = self.perceptron.reads[columns]
        self.reference = {names[place]: float(value) for place, value in zip(places, chosen[2], strict=True)}

    def _balanced(self) -> float:
        """Return how well the present network keeps the original's decisions, of numbers its outputs."""
        x = self.table.x[: len(self.train)]
        with torch.no_grad():
            old, new = self.original(x), self.perceptron(x)
        if not self.penalty.head.classes:
            return -float((old - new).square().mean())
        first, kept = old.argmax(1), old.argmax(1) == new.argmax(1)
        shares = [float(kept[first == c].float().mean()) for c in range(old.shape[1]) if bool((first == c).any())]
        return float(np.mean(shares))

    def trained(self, alpha: float) -> Network:
        """Return the blind network trained with this weight on the bound; what it does not read it does not learn."""
        self.perceptron.load_state(self.blind)
        config = replace(self.config, alpha=alpha)
        generator = torch.Generator().manual_seed(self.how.random_state)
        self.perceptron = replace(self.perceptron, trained=self.masks())
        Trainer(self.perceptron, config, self.penalty, generator, objective=self._drift).fit(self.table)
        return self._present()

    def scaled(self, factor: float) -> Network:
        """Return the blind network with raw outputs ``factor`` times as far from 0, of a regression from the mean."""
        self.perceptron.load_state(self.blind)
        with torch.no_grad():
            centre = 0.0 if self.penalty.head.classes else self.perceptron(self.table.x).mean(0)
            weight, bias = self.perceptron.layers[-1]
            weight.mul_(factor)
            bias.copy_(centre + factor * (bias - centre))
        return self._present()

    def masks(self) -> tuple[Tensor, ...]:
        """Return what is trained: all but the weights of protected columns."""
        masks = [torch.ones_like(parameter) for parameter in self.perceptron.parameters]
        masks[0][:, torch.from_numpy(self.train.schema.protected_coordinates[self.perceptron.reads])] = 0.0
        return tuple(masks)

    def _present(self) -> Network:
        """Return the network with its cut-off moved so that as many people as before receive the second class."""
        name, head = f"{self.network.name}, repaired", self.network.head
        network, self.moved = self.perceptron.network(head, name), 0.0
        label = self.train.schema.label
        if self.penalty.head.classes != 2:
            return network
        old, weights = answers(self.network, self.train.x, label), self.train.weights / self.train.weights.sum()
        wanted, given = float(weights @ (old == 1)), network(self.train.x)
        margin = _margin(given)

        def share(move: float) -> float:
            return float(weights @ (_decided(margin + move, label) == 1))

        if share(0.0) == wanted:
            return network
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if share(middle) < wanted else (low, middle)
        if abs(share(high) - wanted) >= abs(share(0.0) - wanted):
            return network
        self.moved = high
        held = self.perceptron.copy_state()
        with torch.no_grad():
            self.perceptron.layers[-1][1][1] += high
        network = self.perceptron.network(head, name)
        self.perceptron.load_state(held)
        return network

    def _drift(self, rows: Tensor, outputs: Tensor) -> Tensor:
        """Return the distance of outputs from the original ones."""
        with torch.no_grad():
            target = self.original(rows)
        if not self.penalty.head.classes:
            return (outputs - target).square().mean()
        return functional.kl_div(outputs.log_softmax(1), target.log_softmax(1), log_target=True, reduction="batchmean")


@dataclass(eq=False)
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
    tuning: FineTuning

    def __post_init__(self) -> None:
        self.before = self.certificate(self.original)
        self.last: Repair

    def certificate(self, candidate: Network, rounds: int = 4) -> Certificate:
        """Certify a candidate on the people judged."""
        arguments = candidate, self.judged, self.metric, self.delta, self.shift
        return certify(*arguments, tier=self.tier, attack=False, rounds=rounds, progress=None)

    def repair(self, candidate: Network, way: str, alpha: float = 0.0, shift: float = 0.0) -> Repair:
        """Return a candidate as a repair of the original."""
        untouched = candidate is self.original
        certificate = self.before if untouched else self.certificate(candidate)
        agreement, balanced, change = _changes(self.original, candidate, self.judged)
        lost = _collapse(self.original, candidate, self.learned)
        relative = (
            self.before.upper / _spread(self.original, self.judged), certificate.upper / _spread(candidate, self.judged)
        )  # fmt: skip
        refused = "" if untouched else SCALED if way == "scaled" else self.refusal(candidate, relative)
        return Repair(
            candidate, certificate, self.epsilon, agreement, change, alpha, lost, original=self.before, way=way,
            shift=shift, balanced_agreement=balanced, relative=relative, refused=refused,
        )  # fmt: skip

    def refusal(self, candidate: Network, relative: tuple[float, float]) -> str:
        """Return why a candidate may not take the original's place, by the training rows; empty where it may."""
        label, balanced = self.learned.schema.label, _changes(self.original, candidate, self.learned)[1]
        if candidate.head != "regression":
            old, new = (len(np.unique(answers(each, self.learned.x, label))) for each in (self.original, candidate))
            if new < old:
                return f"it gives {new} of the {old} classes that the original gives"
        if balanced < self.tuning.floor:
            return f"its balanced agreement with the original is {balanced:.3f}, below the floor {self.tuning.floor:g}"
        if not relative[1] < (1 - FALL) * relative[0]:
            return f"its relative violation is {relative[1]:.3g} and did not fall, the original's is {relative[0]:.3g}"
        return ""

    def better(self, best: Repair, candidate: Network, way: str, alpha: float = 0.0, shift: float = 0.0) -> Repair:
        """Return the repair by a candidate that is fairer and decides, else the best so far."""
        self.last = now = self.repair(candidate, way, alpha, shift)
        if now.collapsed and not best.collapsed:
            return replace(best, lost=f"{now.collapse}: it decides nothing" if now.certified else best.lost)
        fairer = now.certificate.upper < best.certificate.upper
        return replace(now, lost=best.lost) if fairer or (best.collapsed and not now.collapsed) else best


def _spread(network: Network, judged: Population) -> float:
    """Return the largest weighted standard deviation of what people receive."""
    given, weights = network(judged.x), judged.weights / judged.weights.sum()
    return float(np.sqrt((weights @ (given - weights @ given) ** 2).max())) or math.nan


def _margin(given: FloatArray) -> FloatArray:
    """Return log-odds (n,) of the second class from probabilities, of one column or two."""
    one = given[:, -1]
    zero = given[:, 0] if given.shape[1] == 2 else 1 - one
    return np.asarray(np.log(np.maximum(one, 1e-300)) - np.log(np.maximum(zero, 1e-300)))


def _decided(margin: FloatArray, label: Label | None) -> NDArray[np.int64]:
    """Return the classes that log-odds of the second of two decide."""
    one = 1 / (1 + np.exp(-np.clip(margin, -700, 700)))
    fits = label if label is not None and len(label.classes) == 2 else None
    return decided(np.stack([1 - one, one], axis=1), fits)


def _changes(before: Network, after: Network, judged: Population) -> tuple[float, float, float]:
    """Return the share of people who keep their decision, its mean over the original's decisions, and the mean largest
    change of what they receive."""
    old, new = before(judged.x), after(judged.x)
    label, numbers = judged.schema.label, before.head == "regression"
    label = label if label is not None and len(label.classes) == (0 if numbers else old.shape[1]) else None
    first = decided(old, label, regression=numbers)
    same = first == decided(new, label, regression=numbers)
    change = np.average(np.abs(old - new).max(axis=1), weights=judged.weights)
    return *accuracies(same, first, judged.weights), float(change)


def _collapse(before: Network, after: Network, learned: Population) -> str:
    """Say how a network has collapsed from the original's answers, or from the labels where those are constant."""
    label = learned.schema.label
    names, old = class_names(label), answers(before, learned.x, label)
    if reason := collapse(after, learned.x, old, learned.weights, names, label):
        return reason
    if learned.y is None or len(np.unique(old)) > 1:
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
