"""The action of GitHub, the hook of pre-commit and the workflow: the files are what their readers expect, and the
action's own lines of shell audit a model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.docs.conftest import reader  # noqa: F401

yaml = pytest.importorskip("yaml", reason="PyYAML reads the action")

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}


def test_every_input_is_used_and_none_is_put_into_the_shell() -> None:
    """A value reaches the shell as a variable only: none can become a command."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert ACTION["runs"]["using"] == "composite"
    for name in ACTION["inputs"]:
        assert f"${{{{ inputs.{name} }}}}" in text, name
    for step in STEPS.values():
        assert "${{" not in step.get("run", "") and ("run" not in step or step["shell"] == "bash")


def run_audit(folder: Path, **inputs: str) -> tuple[int, str, str, str]:
    """Run the step of the audit as GitHub does; return its status, its output, the outputs and the summary."""
    given = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | inputs
    step = STEPS["Audit"]
    variables = {name: value.replace("${{ inputs.", "").replace(" }}", "") for name, value in step["env"].items()}
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {name: given[key] for name, key in variables.items()} | {"PATH": path}
    env |= {name: str(file) for name, file in files.items()}
    command = [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, *(file.read_text() for file in files.values())


QUESTION = {"data": "people.csv", "model": "model.onnx", "options": "--label approved --protected sex --limit 10"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are written for bash")
def test_the_exit_status_is_that_of_the_audit(reader: Path, tmp_path: Path) -> None:  # noqa: F811
    """Within, beyond and open; bad input; and an open verdict that may pass."""
    folder = shutil.copytree(reader, tmp_path / "reader")
    status, _, outputs, summary = run_audit(folder, **QUESTION, epsilon="0.9")
    assert (status, outputs) == (0, "status=0\n") and summary.startswith("# Audit: people")
    suite = ElementTree.parse(folder / "audit" / "junit.xml").getroot()
    assert suite.get("failures") == "0" and not (folder / "audit" / "evidence" / "people.npz").exists()
    assert run_audit(folder, **QUESTION, epsilon="0.0001")[0] == 1
    without = QUESTION | {"options": f"{QUESTION['options']} --no-search", "epsilon": "0.0001"}
    assert run_audit(folder, **without)[0] == 3
    status, shown, outputs, _ = run_audit(folder, **without, undecided="pass")
    assert (status, outputs) == (0, "status=3\n") and "::warning::undecided" in shown
    assert run_audit(folder, **QUESTION | {"data": "nothing.csv"})[::3] == (2, "")
    assert run_audit(folder, **QUESTION | {"options": "$(touch made) --limit *"})[0] == 2
    assert not (folder / "made").exists()


def test_the_hook_is_one_of_pre_commit() -> None:
    client = pytest.importorskip("pre_commit.clientlib", reason="pre-commit reads its own files")
    (hook,) = client.load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert hook["id"] == "isonomy-audit" and hook["entry"] == "isonomy audit" and not hook["pass_filenames"]


def test_the_workflow_runs_every_version_that_is_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    job = workflow["jobs"]["tests"]
    tried = job["strategy"]["matrix"]["python"]
    assert tried[: len(named)] == named and project["requires-python"] == f">={named[0]}"
    assert set(tried) - set(named) == {"3.14"} and "3.14" in job["continue-on-error"]
    assert "make test PYTHON=python" in [step.get("run") for step in job["steps"]]
