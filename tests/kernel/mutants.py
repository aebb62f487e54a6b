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

Results are kept in a file of JSON lines, so that a run of hours can be stopped and taken up again; a module that has
changed since is asked again. Places where nothing needs to be right (searches, slopes, other hints) are left out, and
so are messages of errors and what reads the files of a certificate, which the forgers of ``tests/verify`` attack.
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

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "isonomy_verify"
MODULES = (
    "arithmetic", "activations", "network", "regions", "majorant", "prepared", "lines", "runs", "sweep", "tiers",
    "branching", "heads", "joint", "differences", "dual", "domain", "forms", "branches", "similar", "sets", "reach",
    "local", "decisions",
)  # fmt: skip

HINTS = {
    "maximiser", "steer", "chord", "tangents", "_search", "_column_weights", "__call__", "both", "taken",
    "tighten", "_check", "check", "check_width", "checked", "__getitem__",
}  # fmt: skip
"""Functions that prove nothing, or that only refuse."""

PAIRS = {"maximum": "minimum", "fmax": "fmin", "max": "min", "low": "high", "first": "last"}
SWAPS = PAIRS | {b: a for a, b in PAIRS.items()}
LOOK = 2.0
"""Seconds of cases that a mutant is shown at first, the cheap half of those that reach it."""

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
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.ClassDef) and node.name in ("Buffers", "_Single", "Region")
    ):
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


def traced(number: int) -> tuple[dict[str, list[float]], Lines, float]:
    """The answers to a case, the lines of the kernel that they ran through, and the seconds that they take."""
    lines: Lines = defaultdict(set)

    def inside(frame: FrameType, event: str, _: object) -> Any:
        lines[Path(frame.f_code.co_filename).stem].add(frame.f_lineno)
        return inside

    def entered(frame: FrameType, event: str, _: object) -> Any:
        return inside if frame.f_code.co_filename.startswith(str(PACKAGE)) else None

    began = time.process_time()
    kept = questions().answers(number)
    seconds = time.process_time() - began
    sys.settrace(entered)
    again = questions().answers(number)
    sys.settrace(None)
    assert kept == again, f"case {number} has other answers the second time"
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


def some(reached: dict[int, Any]) -> dict[int, Any]:
    """Cases of ``LOOK`` seconds in all, evenly from the cheap half."""
    cheap = list(reached.items())[: len(reached) // 2 + 1]
    step = -(-sum(seconds for _, (_, _, seconds) in cheap) // LOOK)
    return dict(cheap[:: max(1, int(step))])


def asked(mutant: Mutant, cases: dict[int, Any], known: dict[tuple[str, str], list[FunctionType]]) -> str:
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


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="so many by chance; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one module")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mutants.jsonl", help="kept results")
    parser.add_argument("--whole", action="store_true", help=f"ask all cases that run through a place, not {LOOK} s")
    parser.add_argument("--again", default="", help="ask those again that ended so: rounding, same")
    parser.add_argument("--table", action="store_true", help="print what is known and run nothing")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    chosen = [
        mutant
        for module in MODULES
        if given.only in ("", module)
        for mutant in mutants(module, (PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    ]
    chosen.sort(key=lambda mutant: roundings(mutant.before))  # first what is more than roundings
    print(f"{len(chosen)} mutants")
    if given.sample:
        chosen = random.Random(given.seed).sample(chosen, min(given.sample, len(chosen)))
    results: dict[str, str] = {}
    if given.results.exists():
        for line in given.results.read_text(encoding="utf-8").splitlines():
            kept = json.loads(line)
            results[kept["key"]] = kept["result"]
    cases, known = {}, functions()
    if not given.table:
        cases = {number: in_a_process(partial(traced, number)) for number in questions().CASES}
        assert None not in cases.values(), "a case does not end without any defect"
        cases = dict(sorted(cases.items(), key=lambda item: item[1][2]))
        print(f"{len(cases)} cases in {sum(seconds for _, _, seconds in cases.values()):.0f} s", flush=True)
    counts = defaultdict[str, Counter[str]](Counter)
    for mutant in chosen:
        if mutant.key not in results or results[mutant.key] == given.again:
            if given.table:
                continue
            lines = set(range(mutant.line, mutant.last + 1))
            outside = _innermost(compile(mutant.source, mutant.module, "exec"), mutant.line) is None
            reached = {n: one for n, one in cases.items() if outside or lines & one[1].get(mutant.module, set())}
            result = "unreached"
            if reached:
                reached = reached if given.whole else some(reached)
                result = in_a_process(partial(asked, mutant, reached, known)) or "caught: does not end"
            record = {"key": mutant.key, "result": result, **asdict(mutant)}
            del record["source"]
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            results[mutant.key] = result
        result = results[mutant.key]
        kind = result.split(" ")[0].rstrip(":")
        counts[mutant.module][kind] += 1
        where = f"{mutant.module}.py:{mutant.line}"
        print(f"{kind:10} {where:20} {mutant.kind:18} {mutant.before}  ->  {mutant.after}  [{result}]", flush=True)
    counts["all"] = sum(counts.values(), Counter())
    kinds = ("caught", "rounding", "same", "unreached")
    print(f"| module | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for module, count in counts.items():
        print(f"| {module} | {' | '.join(str(count[kind]) for kind in kinds)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
