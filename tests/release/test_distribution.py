"""What is released: one version everywhere, and a wheel that works in an environment without the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

import isonomy

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NO_TORCH = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"


def test_one_version() -> None:
    version = PROJECT["version"]
    checker = tomllib.loads((ROOT / "packaging" / "isonomy-verify" / "pyproject.toml").read_text("utf-8"))["project"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation is not None
    assert isonomy.__version__ == version == checker["version"] == citation[1]


def test_the_citation_is_one() -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(cited)
    assert cited["license"] == PROJECT["license"] and cited["references"][0]["authors"][0]["family-names"] == "Wicker"


@pytest.mark.slow
def test_the_wheel_runs_the_first_command_elsewhere(tmp_path: Path) -> None:
    """In a fresh environment with the wheel, the base dependencies and no torch: the bundled audit, accepted by the
    checker; the entry points; the files that are data."""
    pytest.importorskip("hatchling", reason="builds the wheel")

    def run(*command: str | Path, cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            [str(each) for each in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=600,
            env={"PATH": f"{scripts}", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    scripts = tmp_path / "env" / "bin"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=ROOT)
    (wheel,) = (tmp_path / "dist").glob(f"isonomy-{PROJECT['version']}-*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = scripts / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # no editable install comes with it
    (site / "torch.py").write_text(NO_TORCH)
    where = run(python, "-c", "import isonomy, isonomy_verify; print(isonomy.__file__, isonomy_verify.__file__)")
    assert all(Path(each).is_relative_to(site) for each in where.split())
    shown = run(scripts / "isonomy", "audit", "--gamma", "0.1", "--limit", "5", "--out", "audit")
    assert "Written to audit" in shown
    assert {path.name for path in (tmp_path / "audit").iterdir()} >= {"report.html", "certificate.json", "junit.xml"}
    assert "isonomy 0" not in (tmp_path / "audit" / "report.html").read_text("utf-8").replace(
        f"isonomy {PROJECT['version']}", ""
    )
    run(scripts / "isonomy-verify", "audit/certificate.json")
    code = "import json; from importlib.metadata import distribution as d; e = d('isonomy').entry_points; "
    code += "print(json.dumps({x.name: x.value for x in e if x.group == 'mlflow.model_evaluator'}))"
    assert json.loads(run(python, "-c", code)) == {"isonomy": "isonomy.evaluator:MlflowEvaluator"}


def test_the_image_is_given_what_it_copies_and_no_root() -> None:
    """The Dockerfile copies only what the context has, which exists; the entry point is a command; nothing runs as
    root."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    context = {
        each[1:] for each in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if each[:1] == "!"
    }
    assert set(copied) == context and all((ROOT / each).exists() for each in copied)
    (extras,) = re.findall(r"/source\[([a-z,]+)\]", "\n".join(lines))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    users = [line for line in lines if line.startswith("USER ")]
    start = next(place for place, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    assert users == ["USER isonomy"] and lines.index(users[0]) < start
    entry = json.loads(lines[start].removeprefix("ENTRYPOINT "))
    assert entry[0] in PROJECT["scripts"] and entry[1] == "serve"
