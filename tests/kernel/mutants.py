"""The power of these tests: defects put into a copy of the kernel, one at a time, and which tests see them.

``python -m tests.kernel.mutants --sample 60`` walks the syntax tree of every module of the kernel, changes one place
(a sum into a difference, a term dropped, ``maximum`` for ``minimum``, ``low`` for ``high``, a sign), runs fast tests
against a copy of the package with that change, and prints a table. Results are kept in a file of JSON lines, so that a
run of hours can be stopped and taken up again; a module that has changed since is asked again. Places where nothing
needs to be right (searches, slopes, other hints) are left out, and so are messages of errors.

A survivor is called ``equivalent-looking`` where it only changes how many roundings are counted, or a factor near 1:
most of these are slack that was put in for safety, and no test can tell whether one rounding more was needed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "isonomy_verify"
MODULES = (
    "arithmetic", "activations", "network", "regions", "majorant", "prepared", "lines", "runs", "sweep",
    "tiers", "branching", "heads", "joint", "differences", "dual", "domain", "forms", "branches", "similar", "sets",
    "reach", "local", "claims", "check",
)  # fmt: skip
PAIRWISE = ("joint", "differences")
"""Of which only tests about two runs know anything."""

SIMILAR = ("domain", "forms", "branches", "similar", "sets", "reach", "local")
"""Who is similar or in reach: known to the tests of metrics and of moving centres."""

CHECKER = ("claims", "check")
"""What a stranger runs: known to the tests of forgers and of honest certificates."""

NUMBERS = MODULES[: MODULES.index("differences") + 1]
"""Of which the bounds of the fuzzer's cases about runs know something."""

HINTS = {
    "maximiser", "steer", "chord", "tangents", "_search", "_column_weights", "__call__", "both", "taken",
    "tighten", "_check", "check", "check_width", "checked", "__getitem__",
}  # fmt: skip
"""Functions that prove nothing, or that only refuse."""

PAIRS = {"maximum": "minimum", "fmax": "fmin", "max": "min", "low": "high", "first": "last"}
SWAPS = PAIRS | {b: a for a, b in PAIRS.items()}
TIMEOUT = 600


@dataclass(frozen=True)
class Mutant:
    """One change: where, what stood there and what stands there now."""

    module: str
    line: int
    kind: str
    before: str
    after: str
    small: bool
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
            yield Mutant(module, node.lineno, kind, before, after, _small(node, kind), source)


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


def _small(node: ast.AST, kind: str) -> bool:
    """Does the change only count roundings otherwise, or touch a factor near 1?"""
    if kind not in ("+ to -", "- to +", "term dropped"):
        return False
    if isinstance(node, ast.BinOp):
        for part in (node.left, node.right):
            if isinstance(part, ast.Constant) and isinstance(part.value, int | float):
                return True
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return bool(names & {"TINY", "SMALL"})
    return False


# -- runs ---------------------------------------------------------------------------------------------------------


def order(module: str) -> list[str]:
    """Test files: bounds as they were, the module's own, and the fuzzer's last."""
    if module in SIMILAR:
        names = ("similarity/test_regions.py", "similarity/test_forms.py", "certificates/test_derivation.py",
                 "certificates/test_moving.py", "certificates/test_local.py")  # fmt: skip
        return [f"tests/{name}" for name in names]
    if module in CHECKER:
        return ["tests/verify"]
    named = ["test_differences.py"] if module in PAIRWISE else [f"test_{module}.py"]
    usual = ["tiers", "sweep", "regions", "network", "heads", "majorant", "rounding"]
    more = [] if module in (*PAIRWISE, "dual") else [f"test_{name}.py" for name in usual]
    files = [f"tests/kernel/{name}" for name in ("test_numbers.py", *named, *more) if (HERE / name).exists()]
    files += ["tests/bounds/test_head.py"] if module == "heads" else []
    return [*dict.fromkeys(files), *([] if module == "dual" else ["tests/fuzz/test_fuzz.py"])]


def looked_at(mutant: Mutant) -> str:
    """``caught`` where one of the numbers of :mod:`tests.kernel.numbers` is another one, in a process of its own that
    has everything but the kernel imported; else ``survived``, as far as this can tell."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "isonomy_verify"
        shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / f"{mutant.module}.py").write_text(mutant.source, encoding="utf-8")
        child = os.fork()
        if child == 0:
            result = 1
            with contextlib.suppress(BaseException):
                signal.alarm(TIMEOUT)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                sys.path.insert(0, folder)
                for name in [name for name in sys.modules if name.split(".")[0] in ("isonomy", "isonomy_verify")]:
                    del sys.modules[name]
                for name in [name for name in sys.modules if name.startswith(("tests.fuzz", "tests.kernel.numbers"))]:
                    del sys.modules[name]
                result = 0 if importlib.import_module("tests.kernel.numbers").first_change() is None else 1
            os._exit(result)
        status = os.waitpid(child, 0)[1]
    return "survived" if status == 0 else "caught by numbers"


def tried(mutant: Mutant) -> str:
    """``caught by`` a test, ``caught: does not run``, or ``survived``."""
    if mutant.module in NUMBERS and looked_at(mutant) != "survived":
        return "caught by numbers"
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "isonomy_verify"
        shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / f"{mutant.module}.py").write_text(mutant.source, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        command += ["-m", "not slow and not long", *order(mutant.module)]
        path = os.pathsep.join([folder, *os.environ.get("PYTHONPATH", str(ROOT / "src")).split(os.pathsep)])
        environment = os.environ | {"PYTHONPATH": path, "CI": "1", "OMP_NUM_THREADS": "1"}
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return "caught: does not end"
    if run.returncode == 0:
        return "survived"
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "caught by " + failed[0].split(" ")[1].split("/")[-1] if failed else "caught: does not run"


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="so many by chance; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one module")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results" / "mutants.jsonl", help="kept results, JSON lines"
    )
    parser.add_argument("--table", action="store_true", help="print what is known and run nothing")
    parser.add_argument("--numbers", action="store_true", help="only look at the numbers that are kept: seconds each")
    parser.add_argument("--large", action="store_true", help="only changes of more than roundings")
    parser.add_argument("--again", action="store_true", help="ask again those that survived")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    chosen = [
        mutant
        for module in MODULES
        if given.only in ("", module)
        for mutant in mutants(module, (PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
        if not (given.large and mutant.small) and not (given.numbers and module not in NUMBERS)
    ]
    importlib.import_module("tests.kernel.numbers")
    print(f"{len(chosen)} mutants")
    if given.sample:
        chosen = random.Random(given.seed).sample(chosen, min(given.sample, len(chosen)))
    known: dict[str, str] = {}
    if given.results.exists():
        for line in given.results.read_text(encoding="utf-8").splitlines():
            kept = json.loads(line)
            known[kept["key"]] = kept["result"]
    counts = Counter[str]()
    for mutant in chosen:
        result = known.get(mutant.key)
        if given.again:
            if result != "survived":
                continue
            result = None
        if result is None and given.table:
            continue
        if result is None:
            result = (looked_at if given.numbers else tried)(mutant)
            record = {"key": mutant.key, "result": result, **asdict(mutant)}
            del record["source"]
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        kind = result.split(" ")[0].rstrip(":")
        kind = "equivalent-looking" if kind == "survived" and mutant.small else kind
        counts[kind] += 1
        where = f"{mutant.module}.py:{mutant.line}"
        print(f"{kind:18} {where:20} {mutant.kind:18} {mutant.before}  ->  {mutant.after}  [{result}]", flush=True)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
