"""What tests of files share: stored files, individuals, a network and a schema."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

FILES = Path(__file__).parent / "files"
X = 2 * np.random.default_rng(3).standard_normal((30, 5))

EMBEDDED = """
[features.age]
kind = "integer"
low = 18
high = 90
[features.sex]
categories = ["female", "male"]
[features.job]
categories = ["clerk", "cook", "judge", "nurse"]
[model.inputs.job]
encode = "index"
categories = ["nurse", "cook", "clerk", "judge"]
"""


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()
