"""Every benchmark runs, in its quick form: numbers are for people to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
NEEDS = {
    "bounds": ["torch"], "distributional": ["torch"], "scale": ["torch", "distributed"], "service": ["uvicorn"],
    "train_adult": ["torch", "onnx"], "training": ["torch"], "trees": ["catboost", "lightgbm", "xgboost"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    for each in NEEDS.get(name, []):
        pytest.importorskip(each)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--quick"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout
    assert not list(tmp_path.iterdir())  # nothing is left
