"""The power of the fuzzer: defects put into a copy of the engine, and after how many cases each is found.

``python -m tests.fuzz.mutants`` copies ``src`` once for every defect, changes one place, and runs the short fuzz
against the copy until a case fails. It prints a table. Places are found by their text, so a change of the engine that
moves one is reported and not passed over.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path

from .test_fuzz import SHORT

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One defect: a text in a file of ``src/isonomy`` and what stands in its place."""

    name: str
    path: str
    before: str
    after: str


MUTANTS = (
    Mutant(
        "chained slopes: only the last one counts in the joint bound",
        "bounds/joint.py",
        "pending = slope if below.slope is None else slope * below.slope",
        "pending = slope",
    ),
    Mutant(
        "joint bound: what activations before left open is dropped",
        "bounds/joint.py",
        "together = middle + (spread + rest) * share",
        "together = middle + spread * share",
    ),
    Mutant(
        "joint bound: a ball of order infinity taken for one of order 2",
        "bounds/joint.py",
        "(1.0 if sets.order <= 2 else len(root) ** 0.5)",
        "1.0",
    ),
    Mutant(
        "crowd: the far person starts from the centre, not from the near person",
        "bounds/crowd.py",
        "torch.maximum(far[0], low + middle - half), torch.minimum(far[1], high + middle + half)",
        "torch.maximum(far[0], middle - half), torch.minimum(far[1], middle + half)",
    ),
    Mutant(
        "interval: a sum forgets the moves of its residual branch",
        "bounds/interval.py",
        "spread = _total(term.spread for term in terms) +",
        "spread = terms[0].spread +",
    ),
    Mutant(
        "interval: the rounding of the run in a first layer is not counted",
        "bounds/interval.py",
        "spread = spread + layer.rounding * far + layer.constant",
        "spread = spread + layer.constant",
    ),
    Mutant(
        "interval: the rounding of the run in later layers is not counted",
        "bounds/interval.py",
        "extra = torch.stack([rounding + op.weight_slack, constant], dim=1)",
        "extra = torch.stack([op.weight_slack, constant], dim=1)",
    ),
    Mutant(
        "interval: the error of the run at the centre is lost behind a layer",
        "bounds/interval.py",
        "found = (lost if error is None else layer.norm * error + lost) + layer.constant_norm",
        "found = (layer.norm * 0.0 + layer.constant_norm).expand(len(read))",
    ),
    Mutant(
        "interval: float32 runs of later layers are taken for exact ones",
        "bounds/interval.py",
        "spread = spread + self.run_error(i, op, reach).to(self.working) * (1 + STEPS * self.unit)",
        "pass",
    ),
    Mutant(
        "interval: the bias of a first layer is dropped",
        "bounds/interval.py",
        "torch.addmm(op.bias, centre, op.weight.T, out=point)",
        "torch.mm(centre, op.weight.T, out=point)",
    ),
    Mutant(
        "activations: lowest points inside an interval are missed",
        "bounds/activations.py",
        "if known.turn is not None:",
        "if False:",
    ),
    Mutant(
        "activations: the wrong branch of a leaky slope",
        "bounds/activations.py",
        "torch.where(low >= 0, one, slope)",
        "torch.where(low >= 0, slope, one)",
    ),
    Mutant(
        "activations: elementary functions are taken for exact ones",
        "bounds/activations.py",
        "return (4 * ELEMENTARY * unit) * (scale + x.abs() + value.abs())",
        "return torch.zeros_like(value)",
    ),
    Mutant(
        "lines: the upper line of a ReLU goes through the origin",
        "bounds/relaxations.py",
        "above = torch.where(unstable, middle - slope * first + error, middle)",
        "above = torch.where(unstable, middle + error, middle)",
    ),
    Mutant(
        "lines: curvature between the points looked at is not counted",
        "bounds/relaxations.py",
        "curvature(op) * cell.square() / 8",
        "0.0 * cell",
    ),
    Mutant(
        "backward: lines above and below are taken for each other",
        "bounds/backward.py",
        "above = c > 0",
        "above = c < 0",
    ),
    Mutant(
        "backward: a selection with repeats keeps one of them",
        "bounds/backward.py",
        "gathered.index_add_(1, torch.tensor(index), c)",
        "gathered.index_copy_(1, torch.tensor(index), c)",
    ),
    Mutant(
        "linear: the rounding of runs is not counted in a backward pass",
        "bounds/linear.py",
        "cost = layer.rounding_norm * size + layer.constant_norm + layer.slack_norm * (size + reach)",
        "cost = layer.slack_norm * (size + reach)",
    ),
    Mutant(
        "ends: margins are not rounded outward",
        "bounds/ends.py",
        "return low - (4 * UNIT) * (size + low.abs()), high + (4 * UNIT) * (size + high.abs())",
        "return low, high",
    ),
    Mutant(
        "sets: the norm of a ball in place of its dual",
        "sets/convex.py",
        "ball = self._ball(norm_upper(split, dual_order(self.order)),",
        "ball = self._ball(norm_upper(split, self.order),",
    ),
    Mutant(
        "sets: the offset of a ball with the wrong sign",
        "sets/convex.py",
        "(slack - along).T",
        "(slack + along).T",
    ),
)


def tried(mutant: Mutant, cases: int, start: int, python: str) -> str:
    """Found by which case, after how many; or not."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "isonomy" / mutant.path
        text = path.read_text(encoding="utf-8")
        if mutant.before not in text:
            return "the place is gone: write the defect again"
        path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        command = [python, "-m", "tests.fuzz.run", "--first", "--shrink", "0", f"--cases={cases}", f"--start={start}"]
        environment = os.environ | {"PYTHONPATH": str(source)}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"case (\d+) \((\w+)\) (failed|crashed): (.*)", run.stdout)
    if found is None:
        return "not found" if run.returncode == 0 else f"the run broke off: {run.stderr[-200:]}"
    number, question, ended, what = found.groups()
    return f"after {int(number) - start + 1:3d} cases: {question} {ended}, {what.split(': claimed')[0]}"


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=SHORT)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="defects whose name has this in it")
    given = parser.parse_args()
    missed, chosen = 0, [mutant for mutant in MUTANTS if given.only in mutant.name]
    with ThreadPool(given.processes) as pool:
        answers = pool.imap(lambda mutant: tried(mutant, given.cases, given.start, sys.executable), chosen)
        for mutant, answer in zip(chosen, answers, strict=True):
            missed += not answer.startswith("after")
            print(f"{mutant.name} ({mutant.path}): {answer}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
