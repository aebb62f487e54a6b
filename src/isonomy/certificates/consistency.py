"""What was attained lies below what was proved: compared always, before anything is returned or written.

Two parts of the program that share little speak about the same number: a search shows that a change happens, a bound
says that none is larger. Should they ever contradict each other, one of them is wrong, and no number of the run can be
trusted: a :class:`SoundnessError` says who and by how much, and everything that is needed to see it again is in a file.

**Soundness.** ``upper`` bounds the truth in real arithmetic and ``lower`` is at most the truth, so there is no
tolerance: any ``lower > upper`` is a contradiction, and so is a number that is none. A witness with another decision
went through the same judge as the others: its change is at most ``lower``.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.forms import domain_arrays, network_arrays, network_of
from isonomy.errors import SoundnessError
from isonomy.files import atomic
from isonomy.population import Domain
from isonomy.similarity.files import metric_from_text, metric_to_text

if TYPE_CHECKING:
    from isonomy.certificates.profiles import Profiles
    from isonomy.certificates.question import Question
    from isonomy.networks.network import Network
    from isonomy.similarity.metric import Metric

FORMAT = "isonomy contradiction 1"

PEOPLE = 2**18
"""The most numbers of people's rows that are written where nobody in particular is concerned."""

ROWS = 16_384
"""Individuals whose points are compared at a time."""

Evidence = dict[str, Any]


@dataclass(frozen=True)
class _Place:
    folder: Path | None = Path()  # None: nothing is to be written
    rows: NDArray[np.int64] | None = None  # what the rows are called by whoever asked


_USUAL = _Place()
_PLACE: ContextVar[_Place] = ContextVar("place", default=_USUAL)


@contextmanager
def told(folder: Path | str | None = "", rows: npt.ArrayLike | None = None) -> Iterator[None]:
    """Inside, contradictions are written into ``folder`` (None: nowhere) and rows are called by these numbers.

    What is not given stays as it is outside, where the folder is the current one; nowhere stays nowhere.
    """
    place = _PLACE.get()
    if folder != "" and place.folder is not None:
        place = replace(place, folder=None if folder is None else Path(folder))
    if rows is not None:
        place = replace(place, rows=np.asarray(rows, dtype=np.int64))
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def evidence_folder(usual: Path) -> Path | None:
    """Where contradictions are written: the folder that a caller told, nowhere (None), or else the usual one.

    Other threads and processes know nothing of what was told here: whoever sends work there gives them this.
    """
    place = _PLACE.get().folder
    return usual if place is _USUAL.folder else place


def compare(
    lower: npt.ArrayLike, upper: npt.ArrayLike, words: Callable[[int], str], evidence: Callable[[int], Evidence]
) -> None:
    """Refuse the first place at which something attained is not at most what was proved."""
    crossed = ~np.less_equal(lower, upper)
    if crossed.any():
        low, high = np.broadcast_arrays(np.atleast_1d(lower), np.atleast_1d(upper))
        at = int(np.flatnonzero(crossed)[0])
        numbers = {"lower": float(low[at]), "upper": float(high[at])}
        said = f"{words(at)} changes by {numbers['lower']!r}, and {numbers['upper']!r} was proved to be the most"
        refuse(said, lambda: numbers | evidence(at))


def compare_people(
    question: Question,
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    certified: NDArray[np.bool_],
    flips: NDArray[np.bool_],
    counterparts: tuple[FloatArray, FloatArray] | None,
    **asked: Any,
) -> None:
    """Everybody's witness below their bound, and no other decision where none was proved to be possible.

    ``counterparts`` are those who attain ``lower``, and those who have another decision.
    """

    def evidence(row: int) -> Evidence:
        pair: Evidence = {"row": called(row), "individual": x[row].tolist()}
        if counterparts is not None:
            pair |= {"counterpart": counterparts[0][row].tolist(), "flip_counterpart": counterparts[1][row].tolist()}
        return described(question) | asked | pair

    compare(lower, upper, lambda row: f"Row {called(row)}: the output for a similar individual", evidence)
    both = certified & flips
    if both.any():
        row = int(both.argmax())
        said = (
            f"Row {called(row)}: a similar individual has another decision, and none was proved to have one (change "
            f"{float(lower[row])!r}, at most {float(upper[row])!r})"
        )
        refuse(said, lambda: {"lower": float(lower[row]), "upper": float(upper[row])} | evidence(row))


def compare_points(
    owner: NDArray[np.int64],
    cost: FloatArray,
    value: FloatArray,
    profiles: Profiles,
    evidence: Callable[[int], Evidence],
) -> None:
    """Everybody who was found at a cost below the profile of the individual they come from.

    ``owner`` ascends. Costs are rounded up, so whoever has one is within every radius that is at least as large.
    """

    def words(at: int) -> str:
        away = f"somebody at a cost of {float(cost[at])!r}"
        return f"Row {called(int(owner[at]))}: the output between {away} and somebody similar to them"

    proved = np.empty(len(owner))
    for begin in range(0, len(profiles), ROWS):
        some = slice(*np.searchsorted(owner, (begin, begin + ROWS)))
        proved[some] = _known(owner[some], cost[some], profiles, begin)
    compare(value, proved, words, lambda at: {"row": called(int(owner[at])), "cost": float(cost[at])} | evidence(at))


def _known(owner: NDArray[np.int64], cost: FloatArray, profiles: Profiles, begin: int) -> FloatArray:
    """What the profiles of some individuals, from ``begin`` on, say of people at a cost from their owner."""
    start = profiles.start[begin : begin + ROWS + 1]
    radius, value = profiles.radius[start[0] : start[-1]], profiles.value[start[0] : start[-1]]
    levels, rank = np.unique(np.append(radius, cost), return_inverse=True)
    whose = np.repeat(np.arange(begin, begin + len(start) - 1), np.diff(start))
    # By individual and radius: the next bound is the one for the smallest radius that is not below the cost.
    place = np.searchsorted(whose * len(levels) + rank[: len(radius)], owner * len(levels) + rank[len(radius) :])
    return np.where(np.append(whose, -1)[place] == owner, np.append(value, 0.0)[place], profiles.largest)


def compare_means(
    what: str, lower: npt.ArrayLike, upper: npt.ArrayLike, question: Question | None = None, **asked: Any
) -> None:
    """A mean, or a largest violation, that was attained below the one that was proved."""

    def evidence(_: int) -> Evidence:
        if question is None:
            return asked
        few = question.x.size <= PEOPLE
        rows = {"individuals": question.x.tolist(), "weights": question.weights.tolist()} if few else {}
        return described(question) | asked | rows

    compare(lower, upper, lambda _: what, evidence)


def refuse(said: str, evidence: Callable[[], Evidence]) -> None:
    """Write what is needed to see it again, if it can be written, and raise."""
    try:
        file = _written(evidence())
        where = "no file was to be written" if file is None else f"what is needed to reproduce it is in {file}"
    except Exception as error:  # whatever is wrong with the file, the contradiction must be told
        file, where = None, f"the file to reproduce it cannot be written ({' '.join(str(error).split())})"
    raise SoundnessError(f"{said}: one of the two is wrong and nothing is certified", where, file)


def described(asked: Any) -> Evidence:
    """Network, metric, domain and distance of a question or a job, such that :func:`load` gives them again."""
    return {
        "network": {name: array.tolist() for name, array in network_arrays(asked.network).items()},
        "metric": metric_to_text(asked.metric),
        "delta": asked.delta,
        "domain": {name: array.tolist() for name, array in domain_arrays(asked.domain).items()},
        "names": list(asked.domain.names),
        "max_branches": asked.max_branches,
    }


def load(path: Path | str) -> tuple[Evidence, Network, Metric, Domain]:
    """A file that an error named: all that is in it, and the network, metric and domain that it describes."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    network = network_of({name: np.array(part) for name, part in document["network"].items()}, "network")
    domain = Domain.of({name: np.array(part) for name, part in document["domain"].items()}, tuple(document["names"]))
    return document, network, metric_from_text(document["metric"]), domain


def called(row: int) -> int:
    """The number by which whoever asked knows a row."""
    rows = _PLACE.get().rows
    return row if rows is None else int(rows[row])


def _written(evidence: Evidence) -> Path | None:
    """The file, readable by its owner only (it holds a person), there whole or not at all."""
    folder = _PLACE.get().folder
    if folder is None:
        return None
    versions = {name: version(name) for name in ("isonomy", "numpy")}
    versions |= {"python": platform.python_version(), "machine": platform.machine()}
    text = json.dumps({"format": FORMAT, "versions": versions} | evidence)
    name = f"isonomy-soundness-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    target = folder / f"{name}.json"
    with atomic(target) as partial:
        partial.touch(0o600)
        partial.write_text(text, encoding="utf-8")
    return target.resolve()
