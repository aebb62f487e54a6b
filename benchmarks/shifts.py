"""Tightness of the shifts in which no individual moves, in a default audit, and their share of time.

    python benchmarks/shifts.py [--table adult] [--people 5000] [--quick]

Printed are lower and upper bound of the mean violation and of the share of decisions that can change, their ratios
(1.03 is wanted of the mean), and the processor time of all answers over that of the local bounds. The table
is German credit, or Adult with a network that the audit trains.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import argparse  # noqa: E402
import time  # noqa: E402

from isonomy.auditing.inputs import read_inputs  # noqa: E402
from isonomy.auditing.pipeline import run  # noqa: E402
from isonomy.auditing.plan import Plan  # noqa: E402
from isonomy.certificates.local import certify_local  # noqa: E402


def main() -> None:
    """Print the bounds of every shift, and the ratio of times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", choices=["german", "adult"], default="german")
    parser.add_argument("--people", type=int)
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    given = parser.parse_args()
    plan = Plan(data=given.table, limit=10 if given.quick else given.people)
    inputs = read_inputs(plan)
    found = run(plan, None, inputs=inputs).certificate
    print("shift | lower | upper | upper / lower | decisions, lower | upper")
    for shift in (found.shift, *found.shifts):
        answer = found.under(shift)
        changes = "none" if answer.changes is None else f"{answer.changes.lower:.4f} | {answer.changes.upper:.4f}"
        ratio = answer.upper / answer.lower
        print(f"{shift.words('these people')} | {answer.lower:.5f} | {answer.upper:.5f} | {ratio:.5f} | {changes}")
    began = time.process_time()
    certify_local(found.problem, found.people, progress=None, attack=False, decide=False)
    local = time.process_time() - began
    began = time.process_time()
    for shift in (found.shift, *found.shifts):
        groups = shift.groups(found.x, found.problem.schema)  # type: ignore[attr-defined]
        shift.answer(found.local.upper, found.local.lower, found.weights, groups, 1.0)  # type: ignore[attr-defined]
    print(f"answers over local bounds, processor time: {(time.process_time() - began) / local:.3f}")


if __name__ == "__main__":
    main()
