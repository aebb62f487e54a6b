from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isonomy.errors import FileError, MetricError
from isonomy.similarity import SensitiveSubspace, WeightedLp, load_metric
from isonomy.similarity.files import metric_from_text, metric_to_text


def test_files_written_by_hand() -> None:
    metric = metric_from_text('kind = "weighted-lp"\norder = inf\nweights = [0, 1.5, 3]\nnames = ["a", "b", "c"]')
    assert metric.distance([0, 0, 0], [9, 2, 0.5]) == 3.0
    assert metric.names == ("a", "b", "c")
    metric = metric_from_text('kind = "mahalanobis"\nprecision = [[4, 0], [0, 0]]')
    assert metric.distance([0, 0], [1, 7]) == 2.0
    metric = metric_from_text('kind = "sensitive-subspace"\ndirections = [[0, 1], [0, 2]]')
    assert metric.distance([0, 0], [1, 7]) == 1.0
    metric = metric_from_text('kind = "counterparts"\ntolerance = [2, 0]\nfree = [false, true]')
    assert metric.distance([0, 0], [1, 7]) == 0.5


def test_a_metric_that_ignores_everything_survives() -> None:
    metric = SensitiveSubspace(np.eye(3))
    again = metric_from_text(metric_to_text(metric))
    assert again.gauge()[0].shape == (0, 3)
    assert again.free.all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'kind' must be one of 'counterparts', 'explore'"),
        ('kind = "euclid"', "Got 'euclid'"),
        ('kind = "weighted-lp"', "needs exactly one of weights"),
        ('kind = "mahalanobis"\nroot = [[1]]\nprecision = [[1]]', "exactly one of precision, root"),
        ('kind = "weighted-lp"\nweigths = [1]', "no 'weigths': did you mean 'weights'"),
        ('kind = "weighted-lp"\nweights = [1, "b"]', "'weights' must be"),
        ('kind = "weighted-lp"\nweights = [1]\norder = 3', "'order' must be 1, 2 or infinity"),
        ('kind = "weighted-lp"\nweights = [1]\norder = "two"', "'order' must be 1, 2 or infinity"),
        ('kind = "weighted-lp"\nweights = [1]\nwidth = 2', "'width' is 2, but the arrays have 1"),
        ('kind = "weighted-lp"\nweights = [1]\nnames = 5', "'names'"),
        ('kind = "explore"\nroot = [[1, 2], [3]]', "equally long"),
        ('kind = "explore"\nroot = []', "'root'"),
        ('kind = "explore"\nroot = []\nwidth = "wide"', "'width'"),
        ('kind = "sensitive-subspace"\nroot = [[1]]\nridge = "much"', "'ridge'"),
        ('kind = "counterparts"\ntolerance = [1]\norigin = ["a"]', "'origin'"),
        ('kind = "counterparts"\ntolerance = [1]\nfree = ["yes"]', "'free' must be a list of true and false"),
        ('kind = "counterparts"\ntolerance = [1]\nfree = [true, true]', "'free' must be a list of 1 entries"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "metric.toml"
    path.write_text(text)
    with pytest.raises(MetricError, match=message) as caught:
        load_metric(path)
    assert str(path) in str(caught.value)


def test_unusable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no metric file .*absent\.toml"):
        load_metric(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("kind = ")
    with pytest.raises(FileError, match="not valid TOML"):
        load_metric(tmp_path / "broken.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="cannot be read"):
        load_metric(tmp_path / "binary.toml")
    with pytest.raises(FileError, match="cannot be written"):
        WeightedLp([1]).save(tmp_path / "no" / "folder" / "metric.toml")
