"""Compare attained and proved values, always, before anything is returned or written.

Two parts of the program that share little code bound the same number: a search shows that a change happens, a bound
that none is larger. If they contradict each other, one of them is wrong, and no number of the run can be trusted: a
:class:`SoundnessError` names the row and both numbers, and a file holds everything that is needed to reproduce it.

**Soundness.** ``upper`` bounds the truth in real arithmetic and ``lower`` is at most the truth, so there is no
tolerance: any ``lower > upper`` is a contradiction, and so is a number that is none. A witness with another decision
went through the same judge as the others: its change is at most ``lower``.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.assembled import Assembled
from isonomy.certificates.forms import domain_arrays
from isonomy.certificates.models import model_of
from isonomy.errors import SoundnessError
from isonomy.files import atomic
from isonomy.population import Domain
from isonomy.similarity.files import metric_from_text, metric_to_text

if TYPE_CHECKING:
    from isonomy.model import Model
    from isonomy.problem import Problem
    from isonomy.similarity.metric import Metric
    from isonomy_verify.claims import Profiles

FORMAT = "isonomy contradiction 2"

PEOPLE = 2**18
"""The most numbers of individuals' rows that are written where a mean is concerned, not one row."""

ROWS = 16_384
"""Individuals whose points are compared at a time."""

Evidence = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Counterexamples:
    """Where contradictions are saved (None: nowhere), and by which numbers the caller knows the rows."""

    folder: Path | None = Path()
    rows: NDArray[np.int64] | None = None

    def row(self, row: int) -> int:
        """Return the caller's number of a row."""
        return row if self.rows is None else int(self.rows[row])

    def save(self, evidence: Evidence) -> Path | None:
        """Write a file atomically, readable by its owner only, since it holds a person; return its path."""
        if self.folder is None:
            return None
        versions = {name: version(name) for name in ("isonomy", "numpy")}
        versions |= {"python": platform.python_version(), "machine": platform.machine()}
        text = json.dumps({"format": FORMAT, "versions": versions} | evidence)
        name = f"isonomy-soundness-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        target = self.folder / f"{name}.json"
        with atomic(target) as partial:
            partial.touch(0o600)
            partial.write_text(text, encoding="utf-8")
        return target.resolve()


HERE = Counterexamples()
"""Saved in the current folder, rows counted from 0."""


def compare(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    words: Callable[[int], str],
    evidence: Callable[[int], Evidence],
    saved: Counterexamples = HERE,
) -> None:
    """Raise a :class:`SoundnessError` at the first place at which ``lower <= upper`` does not hold."""
    crossed = ~np.less_equal(lower, upper)
    if crossed.any():
        low, high = np.broadcast_arrays(np.atleast_1d(lower), np.atleast_1d(upper))
        at = int(np.flatnonzero(crossed)[0])
        numbers = {"lower": float(low[at]), "upper": float(high[at])}
        message = f"{words(at)} changes by {numbers['lower']!r}, and {numbers['upper']!r} was proved to be the most"
        refuse(message, lambda: numbers | evidence(at), saved)


def compare_people(
    problem: Problem,
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    certified: NDArray[np.bool_],
    flips: NDArray[np.bool_],
    counterparts: tuple[FloatArray | Assembled, FloatArray | Assembled] | None,
    saved: Counterexamples = HERE,
    **parameters: Any,
) -> None:
    """Check that each witness is below its bound, and that no certified decision flips.

    ``counterparts`` attain ``lower``, and have another decision.
    """

    def evidence(row: int) -> Evidence:
        pair: Evidence = {"row": saved.row(row), "individual": x[row].tolist()}
        if counterparts is not None:
            pair |= {"counterpart": counterparts[0][row].tolist(), "flip_counterpart": counterparts[1][row].tolist()}
        return describe(problem) | parameters | pair

    compare(lower, upper, lambda row: f"Row {saved.row(row)}: the output for a similar individual", evidence, saved)
    both = certified & flips
    if both.any():
        row = int(both.argmax())
        message = (
            f"Row {saved.row(row)}: a similar individual has another decision, and none was proved to have one "
            f"(change {float(lower[row])!r}, at most {float(upper[row])!r})"
        )
        refuse(message, lambda: {"lower": float(lower[row]), "upper": float(upper[row])} | evidence(row), saved)


def compare_points(
    owner: NDArray[np.int64],
    cost: FloatArray,
    value: FloatArray,
    profiles: Profiles,
    evidence: Callable[[int], Evidence],
    saved: Counterexamples = HERE,
) -> None:
    """Check that each point's value is below the profile of its owner at its cost.

    ``owner`` ascends. Costs are rounded up, so a point is within every radius that is at least its cost.
    """

    def words(at: int) -> str:
        away = f"somebody at a cost of {float(cost[at])!r}"
        return f"Row {saved.row(int(owner[at]))}: the output between {away} and somebody similar to them"

    proved = np.empty(len(owner))
    for begin in range(0, len(profiles), ROWS):
        some = slice(*np.searchsorted(owner, (begin, begin + ROWS)))
        proved[some] = _profile_values(owner[some], cost[some], profiles, begin)
    compare(
        value, proved, words,
        lambda at: {"row": saved.row(int(owner[at])), "cost": float(cost[at])} | evidence(at), saved,
    )  # fmt: skip


def _profile_values(owner: NDArray[np.int64], cost: FloatArray, profiles: Profiles, begin: int) -> FloatArray:
    """Return the profiles' bounds (k,) at a cost from each owner, for the individuals from ``begin`` on."""
    start = profiles.start[begin : begin + ROWS + 1]
    radius, value = profiles.radius[start[0] : start[-1]], profiles.value[start[0] : start[-1]]
    levels, rank = np.unique(np.append(radius, cost), return_inverse=True)
    whose = np.repeat(np.arange(begin, begin + len(start) - 1), np.diff(start))
    # By individual and radius: the next bound is the one for the smallest radius that is not below the cost.
    place = np.searchsorted(whose * len(levels) + rank[: len(radius)], owner * len(levels) + rank[len(radius) :])
    return np.where(np.append(whose, -1)[place] == owner, np.append(value, 0.0)[place], profiles.largest)


def compare_means(
    what: str,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    problem: Problem | None = None,
    people: tuple[FloatArray, FloatArray] | None = None,
    saved: Counterexamples = HERE,
    **parameters: Any,
) -> None:
    """Check that an attained mean, or largest violation, is below the proved one; ``people`` are coordinates (n, m) and
    weights (n,)."""

    def evidence(_: int) -> Evidence:
        if problem is None:
            return parameters
        rows = {}
        if people is not None and people[0].size <= PEOPLE:
            rows = {"individuals": people[0].tolist(), "weights": people[1].tolist()}
        return describe(problem) | parameters | rows

    compare(lower, upper, lambda _: what, evidence, saved)


def refuse(message: str, evidence: Callable[[], Evidence], saved: Counterexamples = HERE) -> None:
    """Save what is needed to reproduce the contradiction, if that is possible, and raise."""
    try:
        file = saved.save(evidence())
        where = "no file was to be written" if file is None else f"what is needed to reproduce it is in {file}"
    except Exception as error:  # whatever is wrong with the file, the contradiction must be raised
        file, where = None, f"the file to reproduce it cannot be written ({' '.join(str(error).split())})"
    raise SoundnessError(f"{message}: one of the two is wrong and nothing is certified", where, file)


def describe(problem: Problem) -> Evidence:
    """Return model, metric, domain and distance of a problem in the form that :func:`load` reads."""
    return {
        "model": {"kind": problem.model.kind, "head": problem.model.head, **problem.model.section()},
        "arrays": {name: array.tolist() for name, array in problem.model.arrays().items()},
        "metric": metric_to_text(problem.metric),
        "delta": problem.delta,
        "domain": {name: array.tolist() for name, array in domain_arrays(problem.domain).items()},
        "names": list(problem.domain.names),
        "max_branches": problem.max_branches,
    }


def load(path: Path | str) -> tuple[Evidence, Model, Metric, Domain]:
    """Read the file that an error named: its content, and the model, metric and domain that it describes."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    arrays = {name: np.array(part) for name, part in document["arrays"].items()}
    model = model_of(document["model"], arrays, document["model"]["head"], document["model"]["kind"])
    domain = Domain.of({name: np.array(part) for name, part in document["domain"].items()}, tuple(document["names"]))
    return document, model, metric_from_text(document["metric"]), domain
