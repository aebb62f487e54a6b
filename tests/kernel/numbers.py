"""Bounds of many small questions as they were once: whatever changes one of them by more than rounding is seen.

Tests of soundness do not see a bound that has become loose, nor one that has become too tight where nothing was found
above it. So what the kernel gave for the fuzzer's cases stands in ``numbers.json``. After a change that is
meant to change bounds, ``python -m tests.kernel.numbers`` writes the file again, and its difference says what changed.
Numbers that depend on the order in which a BLAS library adds are left out: those that differ between the kernels that
OpenBLAS has for this processor. A processor with AVX-512 has one more of them, so the file should be written on such a
one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__
from tests.fuzz import engine, regions
from tests.fuzz.cases import Compare, Enclose, Everywhere, Local, Shifted, about_runs, case

FILE = Path(__file__).with_name("numbers.json")
CASES = (*filter(about_runs, range(240)), *(number for number in range(640) if not about_runs(number)))
"""Of the rarer questions to the public interface, more."""

KERNELS = ("Nehalem", "Sandybridge", "Haswell", "Zen", *(["SkylakeX"] if __cpu_features__.get("AVX512_SKX") else []))
SAME = 1e-7


def answers(number: int) -> dict[str, list[float]]:
    """What the kernel says to one case: bounds of margins and violations, and whose decision is certain."""
    one = case(number)
    try:
        match one:
            case Enclose():
                sides = {
                    tier: engine.enclose(one.net, one.centre, one.region, tier, float32=one.float32, raw=True)
                    for tier in one.tiers
                }
                return {f"{number} {tier}": _flat(*some.over, some.violation) for tier, some in sides.items()}
            case Compare():
                parts = tuple(regions.smaller(one.near, share) for share in one.shares)
                gaps = engine.compare(
                    one.net, one.centre, one.near, one.between, limits=one.limits, within=parts, float32=one.float32,
                    raw=True, tight=one.tight,
                )  # fmt: skip
                return {
                    f"{number} part {part}": _flat(*gap.near, *gap.far, *gap.difference, gap.violation)
                    for part, gap in enumerate(gaps)
                }
            case Local():
                local = engine.certify_local(
                    one.net, one.people, one.tier, float32=one.float32, threshold=one.threshold
                )  # fmt: skip
                return {f"{number} {one.tier}": _flat(local.upper, local.certain)}
            case Shifted():
                upper, _ = engine.certify(one.net, one.people, one.gamma, one.order, one.ground, attack=False)
                return {f"{number} shifted": [upper]}
            case Everywhere():
                return {f"{number} everywhere": [engine.certify_everywhere(one.net, one.people)[0]]}
    except engine.RefusedError:
        pass
    return {f"{number} refused": []}


def numbers() -> dict[str, list[float]]:
    """All answers."""
    return {name: values for number in CASES for name, values in answers(number).items()}


def differences(one: dict[str, list[float]], other: dict[str, list[float]]) -> list[str]:
    """The questions whose numbers are not the same."""
    return sorted(
        name
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not same(one[name], other[name])
    )


def same(one: list[float], other: list[float]) -> bool:
    """Are all numbers equal up to rounding?"""
    a, b = np.array(one), np.array(other)
    if a.shape != b.shape:
        return False
    finite = np.isfinite(a) & np.isfinite(b)
    near = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0)) <= SAME * (1 + np.abs(np.where(finite, a, 0.0)))
    return bool((near & (finite | (a == b))).all())


def _flat(*arrays: np.ndarray) -> list[float]:
    return [float(value) for array in arrays for value in np.ravel(array)]


def main() -> None:
    """Write the file, or with ``--print`` the numbers of this process."""
    if "--print" in sys.argv:
        print(json.dumps(numbers()))
        return
    runs = []
    for kernel in KERNELS:
        environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.kernel.numbers", "--print"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    left_out = {name for run in runs[1:] for name in differences(runs[0], run)}
    kept = {name: values for name, values in runs[0].items() if name not in left_out}
    lines = [f"{json.dumps(name)}: {json.dumps([float(f'{v:.12g}') for v in values])}" for name, values in kept.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(kept)} questions, {sum(map(len, kept.values()))} numbers; left out: {len(left_out)}")


if __name__ == "__main__":
    main()
