"""Embeddings of categories in live torch modules and exported programs: an affine map of the one-hot block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.certificates import certify_local
from isonomy.errors import NetworkError
from isonomy.networks import Network, load_network
from isonomy.population.schema import Schema
from isonomy.problem import Problem
from isonomy.similarity import Counterparts

torch = pytest.importorskip("torch")
nn = torch.nn

JOBS = ("clerk", "cook", "judge", "nurse")
TEXT = """
name = "people"
[label]
column = "good"
classes = ["no", "yes"]
[features.job]
categories = ["clerk", "cook", "judge", "nurse"]
protected = true
[features.age]
kind = "integer"
low = 18
high = 80
tolerance = 2
[features.share]
low = 0
high = 1
tolerance = 0.1
"""


class Looked(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.job = nn.Embedding(len(JOBS), 3, padding_idx=0)
        self.register_buffer("scale", torch.tensor([0.02, 1.0]))
        self.body = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def read(self, job: Any, numbers: Any) -> Any:
        return self.body(torch.cat([self.job(job), numbers * self.scale], 1))


class Table(Looked):
    """One table, the category's place in front."""

    def forward(self, x: Any) -> Any:
        return self.read(x[:, 0].long(), x[:, 1:])


class Columns(Looked):
    """An input for each column, as vectors."""

    def forward(self, job: Any, age: Any, share: Any) -> Any:
        return self.read(job, torch.stack([age, share], 1))


class Wide(Looked):
    """An input for each column, as tables of one column, in another order."""

    def forward(self, share: Any, job: Any, age: Any) -> Any:
        return self.read(job.squeeze(1), torch.cat([age, share], 1))


def rows(n: int = 300, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {"job": draw.choice(JOBS, n), "age": draw.integers(18, 81, n), "share": np.round(draw.random(n), 3)}
    )


def inputs(module: Any, frame: pd.DataFrame) -> tuple[Any, ...]:
    place = torch.tensor(frame["job"].map({job: i for i, job in enumerate(JOBS)}).to_numpy())
    age, share = (torch.tensor(frame[name].to_numpy(), dtype=torch.float32) for name in ("age", "share"))
    if isinstance(module, Table):
        return (torch.stack([place.float(), age, share], 1),)
    return (place, age, share) if isinstance(module, Columns) else (share[:, None], place[:, None], age[:, None])


def predicted(module: Any, frame: pd.DataFrame) -> Any:
    with torch.no_grad():
        return module(*inputs(module, frame))[:, 0].double().numpy()


@pytest.mark.parametrize("kind", [Table, Columns, Wide])
def test_a_module_and_its_file_are_read(kind: Any, tmp_path: Path) -> None:
    module, schema, frame = kind().eval(), Schema.from_toml(TEXT), rows()
    x = schema.encode(frame).x
    network = Network.from_torch(module, schema)
    assert network.head == "sigmoid" and network.input_width == schema.width
    assert np.abs(network(x)[:, 1] - predicted(module, frame)).max() < 2e-6  # a run in single precision
    batch = torch.export.Dim("rows", min=2, max=1000)
    given = inputs(module, rows(5))
    program = torch.export.export(module, given, dynamic_shapes=tuple({0: batch} for _ in given))
    torch.export.save(program, tmp_path / "model.pt2")
    again = load_network(tmp_path / "model.pt2", schema)
    assert np.array_equal(again(x), network(x))
    with pytest.raises(NetworkError, match="looks up an embedding of raw cells: give the schema"):
        load_network(tmp_path / "model.pt2")
    with pytest.raises(NetworkError, match="looks up an embedding of raw cells: give the schema"):
        Network.from_torch(module)


def test_the_model_has_an_order_of_its_own() -> None:
    """``[model.inputs]`` says which row of the embedding a category has, and how numbers are scaled."""
    module = Table().eval()
    order = ("nurse", "judge", "cook", "clerk")
    text = f'{TEXT}[model.inputs.job]\nencode = "index"\ncategories = {list(order)}\n[model.inputs.age]\n'
    schema = Schema.from_toml(f'{text}scale = "standard"\nmean = 40\nstd = 10\n'.replace("'", '"'))
    frame = rows()
    turned = frame.assign(job=frame["job"].map(dict(zip(order, JOBS, strict=True))), age=(frame["age"] - 40) / 10)
    given = Network.from_torch(module, schema)(schema.encode(frame).x)[:, 1]
    assert np.abs(given - predicted(module, turned)).max() < 2e-6


def test_nobody_similar_exceeds_the_bounds() -> None:
    module, schema, frame = Table().eval(), Schema.from_toml(TEXT), rows(12, seed=1)
    x = schema.encode(frame).x
    problem = Problem.of(
        Network.from_torch(module, schema), Counterparts.of(schema), 1.0, schema.domain("realizable"), schema
    )
    local = certify_local(problem, x, progress=None)
    draw, most, own = np.random.default_rng(2), np.zeros(len(frame)), predicted(module, frame)
    for _ in range(300):
        near = frame.assign(job=draw.choice(JOBS, len(frame)))
        near["age"] = np.clip(near["age"] + draw.integers(-2, 3, len(frame)), 18, 80)
        near["share"] = np.clip(near["share"] + draw.uniform(-0.1, 0.1, len(frame)), 0, 1)
        most = np.maximum(most, np.abs(predicted(module, near) - own))
    assert (most <= local.upper + 1e-6).all() and most.max() > 0.02
    assert (local.upper - local.lower).max() < 0.01


def test_what_a_lookup_may_not_read() -> None:
    class Cut(Looked):
        def forward(self, x: Any) -> Any:
            return self.read(x[:, 2].long(), x[:, 1:])

    class Summed(Looked):
        def forward(self, x: Any) -> Any:
            return self.read((x[:, 0] + 0).long(), x[:, 1:])

    schema = Schema.from_toml(TEXT)
    with pytest.raises(NetworkError, match="'share': a conversion that cuts a number"):
        Network.from_torch(Cut().eval(), schema)
    with pytest.raises(NetworkError):
        Network.from_torch(Summed().eval(), schema)
    with pytest.raises(NetworkError, match=r"index 3 is outside|does not run"):
        module = Table()
        module.job = nn.Embedding(3, 3)
        Network.from_torch(module.eval(), schema)


def test_an_audit_of_a_live_module() -> None:
    frame = rows(40, seed=3)
    table = frame.assign(good=np.where(predicted(Table().eval(), frame) > 0.5, "yes", "no"))
    if table["good"].nunique() < 2:
        table.loc[0, "good"] = {"yes": "no", "no": "yes"}[table["good"][0]]
    asked: dict[str, Any] = {"label": "good", "protected": "job", "similar": {"age": 2}, "quiet": True}
    audit = isonomy.audit(Table().eval(), table, progress=None, as_read=True, **asked)
    local = audit.certificate.local
    assert audit.certificate.problem.model.kind == "network" and (local.upper - local.lower).max() < 1e-6
