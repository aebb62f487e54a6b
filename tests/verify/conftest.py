"""Three small audits, written once, and a forger who recomputes every hash and shape."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import isonomy
from isonomy import records
from isonomy.attacks import AttackBudget
from isonomy.auditing.inputs import train_small
from isonomy.certificates.features import whole_domain_gaps
from isonomy.certificates.shifts import shift_of as library_shift
from isonomy.datasets import load_population
from isonomy.population.toml import write_key, write_table
from isonomy_verify import BadInput, Verification, check, claims, verify
from isonomy_verify.claims import Profiles, claimed_upper, outward, verdict
from isonomy_verify.individuals import Individuals
from isonomy_verify.layout import MOVED
from isonomy_verify.record import dtype_of
from isonomy_verify.shifts import shift_of

from . import honest

SMALL = AttackBudget(2, 4)


def make(directory: Path, count: int, gamma: float, **options: Any) -> Path:
    """A certificate of some people of German credit, for a network of six and four neurons."""
    people = load_population("german")
    network = train_small(people.train, hidden=(6, 4))
    table = people.test if count <= len(people.test) else people.train
    options = {"epsilon": 0.4, "rounds": 0, "progress": None, "attack": SMALL} | options
    metric = isonomy.Counterparts.of(people.schema)
    found = isonomy.certify(network, table.sample(count), metric, 1.0, gamma, **options)
    whole, rungs = found.profiles, (0.0, 0.1, 0.2)  # fewer passes are quicker to check
    kept = np.isin(whole.source, rungs) | (not isinstance(gamma, float))
    owner = np.repeat(np.arange(count), np.diff(whole.start))
    start = np.append(0, np.cumsum(np.bincount(owner[kept], minlength=count)))
    found = replace(
        found, profiles=Profiles(start, whole.radius[kept], whole.value[kept], whole.largest, whole.source[kept])
    )
    records.write(directory, found, created="2026-01-01", sources={"german.csv": "00"})
    return directory


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small audit with a shift, and a statement about the population."""
    return make(tmp_path_factory.mktemp("audit"), 4, 0.1, confidence=0.8)


@pytest.fixture(scope="session")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No shift."""
    return make(tmp_path_factory.mktemp("still"), 4, 0.0, confidence=0.8)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which some are drawn (see :func:`drawing`)."""
    return make(tmp_path_factory.mktemp("large"), 150, 0.05, tier="interval", attack=False)


@pytest.fixture(scope="session")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No shift, and a network under which some decisions stand, some only by branch and bound, and some do not."""
    directory, people = tmp_path_factory.mktemp("decided"), load_population("german")
    rng = np.random.default_rng(7)
    network = honest.network(rng, "wide", people.schema.width, 2, "softmax")
    metric, options = isonomy.Counterparts.of(people.schema), {"rounds": 0, "progress": None, "attack": SMALL}
    some = people.test.with_domain("relaxed").sample(24)
    found = isonomy.certify(network, some, metric, 1.0, 0.0, epsilon=0.4, decide=True, **options)
    records.write(directory, found)
    return directory


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No shift, and an ensemble of trees, of whose float32 runs it is, too."""
    directory, people = tmp_path_factory.mktemp("trees"), load_population("german")
    rng = np.random.default_rng(7)
    model = honest.trees(rng, people.schema, 1, "sigmoid", count=12)
    metric, options = isonomy.Counterparts.of(people.schema), {"arithmetic": "float32", "progress": None}
    found = isonomy.certify(model, people.test.sample(24), metric, 1.0, 0.0, epsilon=0.9, decide=True, **options)
    records.write(directory, found, gaps=whole_domain_gaps(found.problem, True))
    return directory


@contextmanager
def drawing(everybody: int = 60, theta: float = 0.05, secret: int | None = None) -> Iterator[None]:
    """Tables of more people than that are large ones; the checker's own seed may be one that tests know."""
    before, drawn = (check.EVERYBODY, check.THETA, check.ALPHA), check.secrets
    check.EVERYBODY, check.THETA, check.ALPHA = everybody, theta, theta
    if secret is not None:
        check.secrets = SimpleNamespace(randbits=lambda bits: secret)
    try:
        yield
    finally:
        (check.EVERYBODY, check.THETA, check.ALPHA), check.secrets = before, drawn


class Forger:
    """Edits a copy of a certificate and makes all hashes and shapes fit again."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.directory = directory / "forged"
        shutil.copytree(source, self.directory)
        self.document = json.loads((self.directory / "certificate.json").read_text())
        self.predicate = self.document["predicate"]
        self.claims, self.question = self.predicate["claims"], self.predicate["question"]
        self.honest = json.dumps(self.claims["local"])

    def file(self, name: str) -> Path:
        return self.directory / "evidence" / f"{name}.bin"

    def array(self, name: str) -> Any:
        return np.fromfile(self.file(name), dtype_of(name)).reshape(self.predicate["arrays"][name])

    def put(self, name: str, array: Any) -> None:
        array = np.asarray(array)
        self.predicate["arrays"][name] = list(array.shape)
        array.astype(dtype_of(name)).tofile(self.file(name))

    def change(self, name: str, edit: Callable[[Any], Any]) -> None:
        before = self.array(name)
        after = np.asarray(edit(before.copy()))
        assert not np.array_equal(before, after), f"{name} was not changed"
        self.put(name, after)

    def text(self, name: str, content: str) -> None:
        """Another text of the evidence."""
        file = self.directory / "evidence" / name
        assert file.read_text() != content, f"{name} was not changed"
        file.write_text(content)

    def table(self, name: str, edit: Callable[[dict[str, Any]], Any]) -> None:
        """What a TOML file says is another thing."""
        found = tomllib.loads((self.directory / "evidence" / name).read_text())
        edit(found)
        features = found.pop("features", {})
        tables = {key: found.pop(key) for key in list(found) if isinstance(found[key], dict)}
        tables |= {f"features.{write_key(key)}": feature for key, feature in features.items()}
        self.text(name, "\n".join([write_table("", found), *(write_table(*each) for each in tables.items())]))

    def profiles(self) -> claims.Profiles:
        count, radius, value, largest = (
            self.array(f"profiles.{name}") for name in ("count", "radius", "value", "largest")
        )
        return claims.Profiles(np.append(0, np.cumsum(count)), radius, value, float(largest[0]))

    def follow(self) -> None:
        """Claim what the forged profiles and weights give, with the multiplier that is claimed."""
        weights, multiplier = self.array("people.weights"), self.claims["multiplier"]
        shift = shift_of(self.question["shift"])
        if shift.moves:
            upper, hidden = claimed_upper(self.profiles(), weights, shift, multiplier)
            self.claims |= {"upper": outward(upper), "hidden": outward(hidden), "population": None}
        self.claims.pop("changes", None)
        self.reweigh()
        self.judge()

    def reweigh(self) -> None:
        """Claim of the shifts without moves what everybody's own forged bounds give, with hints as tight as can be."""
        sections = [self.question["shift"], *self.question.get("shifts", [])]
        shifts: list[Any] = [library_shift(one, None) for one in sections if one["kind"] not in MOVED]
        weights, x = self.array("people.weights"), self.array("people.x")
        schema = isonomy.Schema.from_toml((self.directory / "evidence" / "schema.toml").read_text())
        self.claims["shifts"] = [each.claim(self.individuals(), weights, each.groups(x, schema)) for each in shifts]
        if sections[0]["kind"] not in MOVED:
            self.claims |= {name: self.claims["shifts"][0][name] for name in ("upper", "lower", "hidden")}

    def judge(self) -> None:
        """The verdict that the claims give."""
        self.claims["verdict"] = verdict(self.claims["lower"], self.claims["upper"], self.question["epsilon"])

    def individuals(self) -> Individuals:
        arrays = (self.array(f"local.{name}") for name in ("upper", "lower", "decision"))
        return Individuals(*arrays, float(self.array("profiles.largest")[0]))

    def count(self) -> None:
        """Means and counts of everybody alone follow from their arrays, unless a forger wrote others."""
        if json.dumps(self.claims.get("local")) == self.honest:
            with suppress(Exception):  # some are no numbers
                self.claims["local"] = self.individuals().claims(self.array("people.weights"), self.question["epsilon"])

    def done(self) -> Path:
        self.count()
        names = {f"evidence/{name}.bin" for name in self.predicate["arrays"]}
        known = {each["name"]: each["digest"]["sha256"] for each in self.document["subject"]}
        for name in names | set(known):
            with suppress(OSError, ValueError):  # of a name that no file can have
                known[name] = hashlib.sha256((self.directory / name).read_bytes()).hexdigest()
        self.document["subject"] = [{"name": name, "digest": {"sha256": known[name]}} for name in known]
        (self.directory / "certificate.json").write_text(json.dumps(self.document))
        return self.directory


@pytest.fixture
def forger(audit: Path, tmp_path: Path) -> Forger:
    return Forger(audit, tmp_path)


def statuses(found: Verification) -> dict[str, str]:
    return {name: status for name, status, _ in found.claims}


def refused(path: Path, **options: Any) -> bool:
    """Not accepted, or one printable sentence says what is wrong with the file."""
    try:
        return not verify(path, **options).accepted
    except BadInput as error:
        assert str(error).isprintable() and str(error).endswith("."), error
        return True
