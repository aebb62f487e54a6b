"""The power of these tests: defects put into the kernel, one at a time, and whether the kept numbers see them.

``python -m tests.kernel.mutants`` walks the syntax tree of every module of the kernel that proves something, changes
one place (a sum into a difference, a term dropped, ``maximum`` for ``minimum``, ``low`` for ``high``, a sign), asks the
questions of :mod:`tests.kernel.numbers` that run through that place again, and prints a table. A mutant is

- *caught* where a bound changes by more than rounding, where the kernel raises or does not end: ``test_numbers.py``
  fails;
- *rounding* where bits change but no bound by more than :data:`tests.kernel.numbers.SAME`: most of these are terms that
  charge roundings, which the tests against exact arithmetic are about;
- *same* where no bit of any answer changes: another way to say the same, a hint, or a place that no question needs;
- *unreached* where no question runs through it.

With ``--tests tests/kernel tests/similarity --again same`` those that ended so are asked once more, by the fast tests
in these folders that run through them: one that a test sees is *caught*, too. Tests keep the constants that modules had
when they were collected, so that those stay as they ended.

Results are kept in a file of JSON lines, each with its mutant (the text of the changed module) and the code that was
asked (a digest of the kernel and of the questions), so that a run of hours can be stopped at any moment and taken up
again by the same command: what is in the file is not asked again, and a line that was not written to its end is. A
module that has changed since is asked again, and with ``--fresh`` so is everything that other code was asked. The lines
that each question runs through are kept beside, as long as the code stays the same. Places where nothing needs to be
right (searches, slopes, other hints) are left out, and so are messages of errors and what reads the files of a
certificate, which the forgers of ``tests/verify`` attack.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "isonomy_verify"
MODULES = (
    "arithmetic", "activations", "network", "regions", "lines", "enclosure", "tiers",
    "branching", "cutting", "heads", "joint", "differences", "dual", "domain", "forms", "branches", "similar", "sets",
    "reach", "local", "decisions", "shifts",
)  # fmt: skip

HINTS = {
    "maximiser", "chord", "tangents", "_choices", "touching", "moves", "_scale", "taken",
    "tighten", "_check", "check", "check_width", "checked", "__getitem__",
}  # fmt: skip
"""Functions that prove nothing, or that only refuse."""

PAIRS = {"maximum": "minimum", "fmax": "fmin", "max": "min", "low": "high", "first": "last"}
SWAPS = PAIRS | {b: a for a, b in PAIRS.items()}
LOOK = 2.0
"""Seconds of cases that a mutant is shown at first, the cheap half of those that reach it."""

LOOK_TESTS = 6.0
"""The same, of tests."""

RAN = (ROOT / "src" / "isonomy_verify", ROOT / "src" / "isonomy", ROOT / "tests" / "fuzz", HERE / "numbers.py")
"""What runs where questions are asked."""

TIMEOUT = 120
"""Seconds until a mutant counts as one that does not end."""


@dataclass(frozen=True)
class Mutant:
    """One change: where, what stood there and what stands there now."""

    module: str
    line: int
    last: int
    kind: str
    before: str
    after: str
    source: str

    @property
    def key(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()[:20]


def digest_of(*places: Path) -> str:
    """A digest of the Python files in these places."""
    files = sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:20]


def kept_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; one that was not written to its end says nothing, and is ended here."""
    found, text = [], file.read_text(encoding="utf-8") if file.exists() else ""
    for line in text.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    if text and not text.endswith("\n"):
        with file.open("a", encoding="utf-8") as end:
            end.write("\n")
    return found


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """Every change of a module that is tried."""
    raw = text.encode()
    starts = [0, *itertools.accumulate(len(line) for line in raw.splitlines(keepends=True))]
    for node in _places(ast.parse(text)):
        for kind, new in _changes(node):
            before, after = ast.unparse(node), ast.unparse(new)
            if before == after:
                continue
            assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno and node.end_col_offset is not None
            first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            put = after if isinstance(new, ast.stmt) else f"({after})"
            source = (raw[:first] + put.encode() + raw[last:]).decode()
            yield Mutant(module, node.lineno, node.end_lineno, kind, before, after, source)


def _places(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that count: no annotations, messages, docstrings or hints."""
    if isinstance(node, ast.FunctionDef) and node.name in HINTS:
        return
    if isinstance(node, ast.Raise) or (isinstance(node, ast.ClassDef) and node.name in ("Region", "Ranges")):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "slice"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _places(part)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a place can be changed into."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            yield "+ to -", ast.BinOp(left, ast.Sub(), right)
            yield "term dropped", left
            yield "term dropped", right
        case ast.BinOp(left, ast.Sub(), right):
            yield "- to +", ast.BinOp(left, ast.Add(), right)
            yield "term dropped", left
        case ast.AugAssign(target, ast.Add(), value):
            yield "+= to -=", ast.AugAssign(target, ast.Sub(), value)
            yield "term dropped", ast.Pass()
        case ast.AugAssign(_, ast.Sub() | ast.Mult(), _):
            yield "step dropped", ast.Pass()
        case ast.UnaryOp(ast.USub(), operand):
            yield "sign dropped", operand
        case ast.Attribute(value, name, ast.Load()) if name in SWAPS:
            yield f"{name} to {SWAPS[name]}", ast.Attribute(value, SWAPS[name], ast.Load())
        case ast.Name(name, ast.Load()) if name in SWAPS:
            yield f"{name} to {SWAPS[name]}", ast.Name(SWAPS[name], ast.Load())


def roundings(text: str) -> bool:
    """Is it a sum with a number or with a unit of rounding, as factors near 1 and counts of roundings are?"""
    node = ast.parse(text).body[0]
    parts = (
        (node.value.left, node.value.right) if isinstance(node, ast.Expr) and isinstance(node.value, ast.BinOp) else ()
    )
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return any(isinstance(part, ast.Constant) for part in parts) or (bool(parts) and bool(names & {"TINY", "SMALL"}))


# -- runs ---------------------------------------------------------------------------------------------------------

Lines = dict[str, set[int]]
"""By file, the lines that ran."""


def questions() -> Any:
    """The module of questions, imported here since a process may have forgotten it."""
    return importlib.import_module("tests.kernel.numbers")


def in_a_process(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a fork of this process, or None where it raises, crashes or does not end: this process
    itself asks nothing, so that nothing is remembered from one mutant to the next."""
    with tempfile.NamedTemporaryFile() as file:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                signal.alarm(TIMEOUT)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                Path(file.name).write_bytes(pickle.dumps(work()))
            os._exit(0)
        os.waitpid(child, 0)
        written = Path(file.name).read_bytes()
    return pickle.loads(written) if written else None


def traced(work: Callable[[], Any]) -> tuple[Any, Lines, float]:
    """What some work gives, the lines of the kernel that it runs through, and the seconds that it takes."""
    lines: Lines = defaultdict(set)

    def inside(frame: FrameType, event: str, _: object) -> Any:
        lines[Path(frame.f_code.co_filename).stem].add(frame.f_lineno)
        return inside

    def entered(frame: FrameType, event: str, _: object) -> Any:
        return inside if frame.f_code.co_filename.startswith(str(PACKAGE)) else None

    began = time.process_time()
    kept = work()
    seconds = time.process_time() - began
    sys.settrace(entered)
    again = work()
    sys.settrace(None)
    assert kept == again, "other answers the second time"
    return kept, dict(lines), seconds


def functions() -> dict[tuple[str, str], list[FunctionType]]:
    """The functions of the kernel by module and qualified name, also those behind properties and caches."""
    found = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(str(PACKAGE)):
            found[Path(one.__code__.co_filename).stem, one.__code__.co_qualname].append(one)
    return found


def put(mutant: Mutant, known: dict[tuple[str, str], list[FunctionType]]) -> None:
    """Change this process into one with the defect: the code of one function, or the whole kernel imported again."""
    file = str(PACKAGE / f"{mutant.module}.py")
    new = _innermost(compile(mutant.source, file, "exec"), mutant.line)
    if new is not None and "<" not in new.co_qualname and (mutant.module, new.co_qualname) in known:
        for function in known[mutant.module, new.co_qualname]:
            function.__code__ = new
        return
    folder = tempfile.mkdtemp()
    shutil.copytree(PACKAGE, Path(folder) / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (Path(folder) / PACKAGE.name / f"{mutant.module}.py").write_text(mutant.source, encoding="utf-8")
    sys.path.insert(0, folder)
    for name in list(sys.modules):
        if name.split(".")[0] in ("isonomy", "isonomy_verify") or name.startswith(("tests.fuzz", "tests.kernel")):
            del sys.modules[name]


def _innermost(code: CodeType, line: int) -> CodeType | None:
    """The function or method that a line belongs to, with whatever is defined inside it."""
    for part in (one for one in code.co_consts if isinstance(one, CodeType)):
        lines = {found for _, _, found in part.co_lines() if found} | {
            found for inner in _all(part) for _, _, found in inner.co_lines() if found
        }
        if lines and part.co_firstlineno <= line <= max(lines):
            return part if part.co_flags & 2 else _innermost(part, line)  # 2: has locals of its own, so no class
    return None


def _all(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _all(part)


Cases = dict[Any, tuple[Any, Lines, float]]
"""By number or by test: the answers, the lines that they ran through, the seconds; the quickest first."""


def some(reached: Cases, look: float) -> Cases:
    """Cases of ``look`` seconds in all, evenly from the cheap half."""
    cheap = list(reached.items())[: len(reached) // 2 + 1]
    step = -(-sum(seconds for _, (_, _, seconds) in cheap) // look)
    return dict(cheap[:: max(1, int(step))])


def answered(mutant: Mutant, cases: Cases, known: dict[tuple[str, str], list[FunctionType]]) -> str:
    """``caught by`` a case, ``rounding`` or ``same``: what the cases say, the cheapest first."""
    put(mutant, known)
    same, bits = questions().same, False
    for number, (kept, _, _) in cases.items():
        try:
            found = questions().answers(number)
        except Exception:
            return f"caught by case {number}"
        if found.keys() != kept.keys() or not all(same(kept[name], found[name]) for name in kept):
            return f"caught by case {number}"
        bits = bits or repr(found) != repr(kept)
    return "rounding" if bits else "same"


def passes(item: pytest.Item) -> bool:
    """Does a test pass, or is it skipped?"""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def tested(mutant: Mutant, cases: Cases, known: dict[tuple[str, str], list[FunctionType]]) -> str | None:
    """``caught by`` a test, or nothing new."""
    put(mutant, known)
    return next((f"caught by {item.nodeid}" for item in cases if not passes(item)), "")


class Tests:
    """A plugin with which pytest collects tests, and what is done with them instead of running each once."""

    def __init__(self, work: Callable[[list[pytest.Item]], None]) -> None:
        self.work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.work(session.items)
        return True


class Campaign:
    """Mutants, and what is known of them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.results = given, dict[str, str]()
        texts = {module: (PACKAGE / f"{module}.py").read_text(encoding="utf-8") for module in MODULES}
        self.chosen = [m for name, text in texts.items() if given.only in ("", name) for m in mutants(name, text)]
        self.chosen.sort(key=lambda mutant: roundings(mutant.before))  # first what is more than roundings
        print(f"{len(self.chosen)} mutants")
        if given.sample:
            self.chosen = random.Random(given.seed).sample(self.chosen, min(given.sample, len(self.chosen)))
        given.results.parent.mkdir(parents=True, exist_ok=True)
        self.code, self.asked = digest_of(*RAN), 0
        kept = [line for line in kept_lines(given.results) if not given.fresh or line.get("code") == self.code]
        self.results = {line["key"]: line["result"] for line in kept}
        self.others = len({line["key"] for line in kept if line.get("code") != self.code})

    def run(
        self, works: dict[Any, Callable[[], Any]], ask: Callable[[Mutant, Cases, Any], str | None], look: float
    ) -> None:
        """Ask each mutant that is open the cases that run through it."""
        known = functions()
        every = self._traced(works)
        broken = [case for case, one in every.items() if one is None]
        print(f"{len(every)} cases, of which {len(broken)} do not end twice alike without any defect: {broken[:5]}")
        ended = {case: one for case, one in every.items() if one is not None}
        cases: Cases = dict(sorted(ended.items(), key=lambda item: item[1][2]))
        print(f"They take {sum(seconds for _, _, seconds in cases.values()):.0f} s.", flush=True)
        for mutant in self.chosen:
            before = self.results.get(mutant.key)
            if before is not None and before not in self.given.again.split(","):
                continue
            if self.given.most and self.asked == self.given.most:
                break
            self.asked += 1
            lines = set(range(mutant.line, mutant.last + 1))
            outside = _innermost(compile(mutant.source, mutant.module, "exec"), mutant.line) is None
            reached = {n: one for n, one in cases.items() if outside or lines & one[1].get(mutant.module, set())}
            result = before or "unreached"
            if reached:
                reached = reached if self.given.whole else some(reached, look)
                answer = in_a_process(partial(ask, mutant, reached, known))
                result = "caught: does not end" if answer is None else answer or result
            record = {"key": mutant.key, "code": self.code, "result": result, **asdict(mutant)}
            del record["source"]
            with self.given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            self.results[mutant.key] = result
            print(self._line(mutant), flush=True)

    def _traced(self, works: dict[Any, Callable[[], Any]]) -> dict[Any, Any]:
        """What each case gives and runs through; of questions, which have a number, kept while the code is the same."""
        file = self.given.results.with_suffix(f".{self.code}.pickle")
        every: dict[Any, Any] = pickle.loads(file.read_bytes()) if file.exists() else {}
        plain = all(isinstance(case, int) for case in works)
        if not plain or every.keys() != works.keys():
            every = {case: in_a_process(partial(traced, work)) for case, work in works.items()}
        if plain:
            for old in file.parent.glob(f"{self.given.results.stem}.*.pickle"):
                old.unlink()
            part = file.with_suffix(".part")
            part.write_bytes(pickle.dumps(every))
            part.replace(file)  # whole, or not at all
        return every

    def _line(self, mutant: Mutant) -> str:
        result, where = self.results[mutant.key], f"{mutant.module}.py:{mutant.line}"
        return f"{_kind(result):10} {where:20} {mutant.kind:18} {mutant.before}  ->  {mutant.after}  [{result}]"

    def table(self) -> None:
        """Print each mutant of which something is known, and how many ended how."""
        counts = defaultdict[str, Counter[str]](Counter)
        for mutant in self.chosen:
            if mutant.key in self.results:
                counts[mutant.module][_kind(self.results[mutant.key])] += 1
                print(self._line(mutant))
        counts["all"] = sum(counts.values(), Counter())
        print(f"{self.others} of {len(self.results)} results are those of other code.")
        kinds = ("caught", "rounding", "same", "unreached")
        print(f"| module | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
        for module, count in counts.items():
            print(f"| {module} | {' | '.join(str(count[kind]) for kind in kinds)} |")


def _kind(result: str) -> str:
    return result.split(" ")[0].rstrip(":")


def main() -> None:
    """Ask, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="so many by chance; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one module")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mutants.jsonl", help="kept results")
    parser.add_argument("--whole", action="store_true", help="ask all cases that run through a place, not some")
    parser.add_argument("--fresh", action="store_true", help="ask those again that other code was asked")
    parser.add_argument("--most", type=int, default=0, help="stop after so many mutants; 0: none is too many")
    parser.add_argument("--again", default="", help="ask those again that ended so, as in: rounding,same,unreached")
    parser.add_argument("--tests", nargs="*", default=[], help="by the fast tests of these folders")
    parser.add_argument("--table", action="store_true", help="print what is known and run nothing")
    given = parser.parse_args()
    campaign = Campaign(given)
    if given.tests:
        os.environ["CI"] = "true"  # the same examples each time
        options = ["-qs", "-m", "not slow and not long", "-p", "no:cacheprovider", "-p", "no:xdist"]
        work = Tests(lambda items: campaign.run({item: partial(passes, item) for item in items}, tested, LOOK_TESTS))
        pytest.main([*given.tests, *options], plugins=[work])
    elif not given.table:
        campaign.run({n: partial(questions().answers, n) for n in questions().CASES}, answered, LOOK)
    campaign.table()


if __name__ == "__main__":
    main()
