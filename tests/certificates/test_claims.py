"""The claims of a record: derived in the pipeline, once; a record is written without deriving anything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
import isonomy_verify
from isonomy.errors import UnsupportedOperationError
from isonomy.population import Feature
from isonomy_verify.individuals import DECISIONS

KERNEL = Path(isonomy_verify.__file__).parent
PROVING = {"enclosure", "tiers", "branching", "decisions", "joint", "enumeration", "local", "reach"}


def called(run: Callable[[], Any]) -> set[str]:
    """The modules of the kernel whose public functions run."""
    seen = set[str]()

    def note(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.parent == KERNEL and frame.f_code.co_name[0] not in "<_":
            seen.add(path.stem)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return seen


def test_writing_proves_nothing(tmp_path: Path) -> None:
    found = isonomy.audit({"chunk": 100}, progress=None)
    certificate, made = found.certificate, list[isonomy.LocalCertificate]()
    assert {"tiers", "local"} <= called(lambda: made.append(_again(certificate)))  # the check sees what proves
    assert not PROVING & called(lambda: found.save(tmp_path / "out"))
    # What is claimed is never more than what is proved, and here it is all of it.
    alone, local = certificate.individuals, certificate.local
    assert (alone.lower <= local.lower).all() and (alone.lower >= local.lower * (1 - 1e-9)).all()
    assert (np.array(DECISIONS)[alone.decision] == local.decision).all()


def _again(certificate: Any) -> isonomy.LocalCertificate:
    return isonomy.certify_local(certificate.problem, certificate.x[:20], attack=False, progress=None)


def test_a_kind_that_the_checker_does_not_know_has_no_claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from isonomy.certificates.network_tier import Bounds
    from isonomy.certificates.protocol import Tier

    monkeypatch.setattr(Bounds, "kernel_bounds", Tier.kernel_bounds)
    schema = isonomy.Schema("s", (Feature("age", low=0.0, high=10.0), Feature("pay", low=0.0, high=9.0)))
    people = isonomy.Population.from_frame(pd.DataFrame({"age": [1.0, 2.0, 3.0], "pay": [1.0, 2.0, 3.0]}), schema)
    network = isonomy.Network.from_layers([np.array([[0.3, 0.4]])], [np.array([0.1])], head="sigmoid")
    found = isonomy.certify(network, people, isonomy.WeightedLp([1.0, 1.0], 2), 0.1, 0.1, attack=False, progress=None)
    assert 0 < found.upper < 1 and found.alone is None
    with pytest.raises(UnsupportedOperationError, match="does not know it"):
        _ = found.individuals


def test_claims_of_a_model_that_is_asked_part_by_part(tmp_path: Path) -> None:
    """Each part rests on its own answers; a run that goes on with another object claims the same."""
    sizes = {"age": (0.0, 9.0), "pay": (0.0, 40.0)}
    features = (Feature("sex", "categorical", categories=("f", "m"), protected=True),)
    features += tuple(
        Feature(name, "integer", low=low, high=high, tolerance=1.0) for name, (low, high) in sizes.items()
    )
    schema, rng = isonomy.Schema("s", features), np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], 120), **{k: rng.integers(0, v[1], 120) for k, v in sizes.items()}}
    )

    def ask(**options: Any) -> isonomy.Certificate:
        model = isonomy.Enumeration(_points, schema, name="points")
        people = isonomy.Population.from_frame(frame, schema)
        metric = isonomy.Counterparts.of(schema)
        return isonomy.certify(model, people, metric, 1.0, isonomy.Part(0.5), progress=None, attack=False, **options)

    whole, parts = ask(), ask(chunk=30, work=tmp_path)
    (folder,) = (tmp_path / "parts",)
    sorted(folder.iterdir())[-1].unlink()
    for other in (parts, ask(chunk=30, work=tmp_path)):
        for name in ("upper", "lower", "decision"):
            assert np.array_equal(getattr(other.individuals, name), getattr(whole.individuals, name))


def _points(rows: pd.DataFrame) -> np.ndarray:
    """A probability that hangs on everything."""
    score = 0.2 * rows["age"] - 0.07 * rows["pay"] + 0.5 * (rows["sex"] == "m")
    return np.asarray(1 / (1 + np.exp(-score)), dtype=float)
