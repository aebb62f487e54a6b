"""Train the plain 2x256 network on Adult that the benchmarks certify, and write it as ONNX.

    python benchmarks/train_adult.py [--quick]

Plain means plain: cross-entropy and Adam, nothing that prepares it for certification. Deterministic by seed on one
machine; the committed file is the reference. ``--quick`` learns from 500 people and writes to a folder that goes away.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import isonomy

TARGET = Path(__file__).parent / "networks" / "adult_2x256.onnx"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / TARGET.name if quick else TARGET, 500 if quick else None)


def write(target: Path, limit: int | None) -> None:
    """Train on the training part, or some of it, and write the network."""
    people = isonomy.load_population("adult")
    learned = people.train if limit is None else people.train.sample(limit)
    torch.manual_seed(0)
    width = people.schema.width
    module = torch.nn.Sequential(
        torch.nn.Linear(width, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 2),
    )
    x, y = torch.tensor(learned.x, dtype=torch.float32), torch.tensor(learned.y)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _epoch in range(6):
        for batch in torch.randperm(len(x)).split(256):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    module.eval()
    partial = target.with_suffix(".partial")
    target.parent.mkdir(exist_ok=True)
    example = (torch.zeros(1, width),)
    torch.onnx.export(module, example, str(partial), dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    partial.rename(target)
    network = isonomy.load_network(target)
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    print(f"{target.name}: test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
