"""The networks of the studies: each is trained once and kept as a file.

A network is known by everything that it depends on (people, method, parameters, seed), so that a study that is run
again, or another study, goes on with the very same weights. What is used is always what the file holds, also right
after the training.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from isonomy.fairness import scores
from isonomy.networks import Network, load_network
from isonomy.population import Population
from isonomy.similarity import SensitiveSubspace
from isonomy.training import FairClassifier
from studies import Setting, paper
from studies.methods import RIDGE, WAYS, Way
from studies.page import write_whole
from studies.steps import Step
from studies.tables import Dataset


@dataclass(frozen=True)
class Size:
    """How much of everything: training rows, epochs and other places (None: all), hidden layers, people certified."""

    rows: int | None = None
    epochs: int | None = None
    hidden: tuple[int, ...] = (256, 256)
    people: int = paper.PEOPLE
    others: int | None = None
    ways: tuple[Way, ...] = WAYS

    @property
    def shape(self) -> str:
        """Hidden layers, as they are written: 2x256."""
        return f"{len(self.hidden)}x{self.hidden[0]}"

    @classmethod
    def of(cls, setting: Setting) -> Size:
        """The whole experiment, or its quick form."""
        return cls(1000, 10, (32, 32), 24, 2) if setting.quick else cls()


@dataclass(frozen=True)
class Trained:
    """A network, and what its training has left behind: CPU seconds, accuracy, classes given."""

    network: Network
    facts: dict[str, Any]


class Case:
    """The people of a dataset and the networks trained on them; people are only read when something is computed."""

    def __init__(self, dataset: Dataset, size: Size, networks: Path) -> None:
        self.dataset, self.size, self.networks = dataset, size, networks

    @cached_property
    def whole(self) -> Population:
        """Everybody."""
        return self.dataset.people()

    @cached_property
    def split(self) -> tuple[Population, Population]:
        """Who is learned from, and who judges."""
        return self.whole.train, self.whole.test

    @cached_property
    def train(self) -> Population:
        """The training split, or some of it."""
        train = self.split[0]
        return train if self.size.rows is None else train.sample(self.size.rows)

    @cached_property
    def some(self) -> Population:
        """The test individuals that are certified."""
        return self.split[1].sample(self.size.people)

    @cached_property
    def metric(self) -> SensitiveSubspace:
        """Who counts as similar, learned from the training split."""
        return SensitiveSubspace.fit(self.train, ridge=RIDGE)

    @cached_property
    def others(self) -> dict[str, Population]:
        """Some people of every other state or year."""
        places = list(self.dataset.others())[: self.size.others]
        return {place: people().sample(self.size.people) for place, people in places}

    @property
    def epochs(self) -> int | None:
        """How long networks are trained; None leaves it to the estimator."""
        return self.size.epochs or self.dataset.epochs

    def tuned(self, **parameters: Any) -> Self:
        """The same people, trained on with other parameters."""
        other = copy(self)
        other.dataset = replace(self.dataset, **parameters)
        return other

    def same_as(self, way: Way) -> Way:
        """FTU is SGD where no network sees the protected attribute."""
        return Way("sgd") if self.dataset.blind and way.method == "ftu" else way

    def key(self, way: Way, seed: int) -> dict[str, Any]:
        """Everything that the weights of a network depend on."""
        way, dataset = self.same_as(way), self.dataset
        return {
            "dataset": dataset.name,
            "load": dict(dataset.load),
            "rows": self.size.rows,
            "method": way.method,
            "box": way.box,
            "alpha": dataset.alpha(way),
            "delta": dataset.delta,
            "gamma": dataset.gamma,
            "epochs": self.epochs,
            "learning_rate": dataset.learning_rate,
            "hidden": list(self.size.hidden),
            "seed": seed,
        } | ({"weighted": True} if dataset.weighted else {})

    def step(self, what: str, way: Way, seed: int, compute: Callable[[], Mapping[str, Any]], **more: Any) -> Step:
        """Something to compute about a network, known by everything that it depends on."""
        key = {"what": what, **self.key(way, seed), "people": self.size.people, **more}
        return Step(self.dataset.title, key, compute)

    def network(self, way: Way, seed: int) -> Trained:
        """Train, or read what was trained earlier."""
        key = self.key(way, seed)
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        form = "-box" if key["box"] else ""
        file = self.networks / f"{key['dataset']}-{key['method']}{form}-{seed}-{digest}.onnx"
        facts = file.with_suffix(".json")
        if not facts.exists():  # written last, so that the network is there when this is
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(facts, json.dumps(key | self._train(key, file)).encode())
        return Trained(load_network(file), json.loads(facts.read_bytes()))

    def _train(self, key: Mapping[str, Any], file: Path) -> dict[str, Any]:
        model = FairClassifier(
            key["method"], delta=key["delta"], gamma=key["gamma"], alpha=key["alpha"] or 0.0, hidden=self.size.hidden,
            metric=self.metric, domain="unbounded", bound="paper" if key["box"] else "relational",
            epochs=key["epochs"], learning_rate=key["learning_rate"], random_state=key["seed"], validation=0.0,
            progress=None,
        )  # fmt: skip
        people = self.train
        started, clock = time.process_time(), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that decides nothing is told of in the table
            model.fit(people)
        seconds = {"cpu_seconds": time.process_time() - started, "seconds": time.perf_counter() - clock}
        model.to_onnx(file)
        return seconds | scores(load_network(file), self.split[1])


def cases(datasets: Sequence[Dataset], size: Size, setting: Setting, kind: type[Case] = Case) -> list[Case]:
    """The people of several datasets; networks are kept beside the work directories, for all experiments."""
    return [kind(dataset, size, setting.work.parent / "networks") for dataset in datasets]
