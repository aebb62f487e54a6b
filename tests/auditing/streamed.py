"""The small dataset of the tests of chunks as files, and the words of a command that audits it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import torch
from tests.certificates.people import METRIC, SCHEMA, network, table

from isonomy.auditing import Plan

FILES, ROWS, CHUNK = 2, 30, 20  # a chunk has rows of one file only: two in each


def write_files(folder: Path) -> Path:
    """``data/`` with several Parquet files, ``schema.toml``, ``metric.toml`` and ``model.pt``."""
    (folder / "data").mkdir(parents=True)
    for number in range(FILES):
        table(ROWS, seed=number).to_parquet(folder / "data" / f"{number}.parquet")
    (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    METRIC.save(folder / "metric.toml")
    layers = [node for node in network().graph.nodes if node.kind == "affine"]
    parts = [(i, name, getattr(layer, name)) for i, layer in enumerate(layers) for name in ("weight", "bias")]
    state = {f"{2 * i}.{name}": torch.from_numpy(array) for i, name, array in parts}
    torch.save(state, folder / "model.pt")
    return folder


def plan(folder: Path, **options: object) -> Plan:
    """The audit of these files; options replace the usual ones."""
    usual: dict[str, object] = {
        "data": str(folder / "data"), "schema": str(folder / "schema.toml"), "model": str(folder / "model.pt"),
        "metric": str(folder / "metric.toml"), "activation": "relu", "head": "softmax", "delta": 0.1, "gamma": 0.05,
        "epsilon": 0.4, "tier": "interval", "domain": "unbounded", "split": "all", "engine": "local", "chunk": CHUNK,
        "no_search": True, "out": str(folder / "out"),
    }  # fmt: skip
    return Plan(**(usual | options))  # type: ignore[arg-type]


def audited(asked: Plan) -> tuple[Path, dict[str, Any]]:
    """The directory of the audit that the command does, and what it answers."""
    from isonomy.cli.audit import _run

    return Path(str(asked.out)), dict(_run(asked).document)


def words(asked: Plan) -> list[str]:
    """The command line of a plan."""
    return [*shlex.split(asked.command())[1:], "--out", str(asked.out)]


def same(text: str) -> str:
    """A certificate without the time, which is all in which two may differ."""
    return re.sub(r"\"created\": \S+", "", text)
