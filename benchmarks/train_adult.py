"""Train the plain 2x256 network on Adult that the benchmarks certify, and write it as ONNX.

    python benchmarks/train_adult.py

Plain means plain: cross-entropy and Adam, nothing that prepares it for certification. Deterministic by seed on one
machine; the committed file is the reference.
"""

from __future__ import annotations

from pathlib import Path

import torch

import isonomy

TARGET = Path(__file__).parent / "networks" / "adult_2x256.onnx"


def main() -> None:
    people = isonomy.load_population("adult")
    torch.manual_seed(0)
    width = people.schema.width
    module = torch.nn.Sequential(
        torch.nn.Linear(width, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 2),
    )
    x, y = torch.tensor(people.train.x, dtype=torch.float32), torch.tensor(people.train.y)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _epoch in range(6):
        for batch in torch.randperm(len(x)).split(256):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    module.eval()
    partial = TARGET.with_suffix(".partial")
    TARGET.parent.mkdir(exist_ok=True)
    example = (torch.zeros(1, width),)
    torch.onnx.export(module, example, str(partial), dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    partial.rename(TARGET)
    network = isonomy.load_network(TARGET)
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    print(f"{TARGET.name}: test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
