"""Two distributions hold the same kernel: the files of isonomy-verify are those of isonomy, byte for byte."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALONE = ROOT / "packaging" / "isonomy-verify"


def test_versions_and_dependencies_agree() -> None:
    whole, alone = (tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, ALONE))
    assert whole["version"] == alone["version"] and whole["requires-python"] == alone["requires-python"]
    (numpy,) = alone["dependencies"]
    assert numpy.startswith("numpy") and numpy in whole["dependencies"]
    assert not any("isonomy-verify" in name for name in whole["dependencies"])
    assert whole["scripts"]["isonomy-verify"] == alone["scripts"]["isonomy-verify"]


@pytest.mark.slow
def test_the_wheels_hold_the_same_files(tmp_path: Path) -> None:
    contents = []
    for folder in (ROOT, ALONE):
        out = tmp_path / folder.name
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, folder]
        subprocess.run([str(part) for part in command], check=True)
        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            contents.append({n: archive.read(n) for n in archive.namelist() if n.startswith("isonomy_verify/")})
    whole, alone = contents
    assert {name: alone[name] for name in whole} == whole and len(whole) > 10
    assert {name for name in alone if name not in whole} == {"isonomy_verify/LICENSE", "isonomy_verify/NOTICE"}
