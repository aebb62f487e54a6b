"""The 280 configurations in which a reader must route every row as the original library does.

library x objective x depth x missing x categories x dtype, all in one list; ``tests/trees/originals.py`` trains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Configuration:
    library: str
    objective: str
    depth: int | None
    missing: str = "none"
    categories: str = "none"
    dtype: str = "float64"
    model: str = ""

    def __str__(self) -> str:
        parts = (
            self.library,
            self.model,
            self.objective,
            f"depth{self.depth}",
            self.missing,
            self.categories,
            self.dtype,
        )
        return "-".join(part for part in parts if part)


def _grid(library: str, **axes: tuple[object, ...]) -> list[Configuration]:
    names = list(axes)
    return [
        Configuration(library, **dict(zip(names, values, strict=True)))  # type: ignore[arg-type]
        for values in product(*axes.values())
    ]


CONFIGURATIONS = [
    *_grid(
        "xgboost",
        objective=("binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"),
        depth=(3, 7),
        missing=("none", "nan"),
        categories=("none", "one-hot", "partition"),
        dtype=("float64", "float32"),
    ),
    *_grid(
        "lightgbm",
        objective=("binary", "multiclass", "multiclassova", "regression"),
        depth=(3, 8),
        missing=("none", "nan", "zero_as_missing", "use_missing=false"),
        categories=("none", "pandas"),
    ),
    *_grid(
        "catboost",
        objective=("Logloss", "MultiClass", "RMSE"),
        depth=(4,),
        missing=("none", "Min", "Max"),
        categories=("none", "one-hot"),
        model=("SymmetricTree", "Depthwise", "Lossguide"),
    ),
    *_grid(
        "sklearn",
        model=("DecisionTree", "RandomForest", "ExtraTrees"),
        objective=("two classes", "three classes", "number"),
        depth=(4, None),
        missing=("none", "nan"),
    ),
    *_grid("sklearn", model=("GradientBoosting",), objective=("two classes", "three classes", "number"), depth=(3, 6)),
    *_grid(
        "sklearn",
        model=("HistGradientBoosting",),
        objective=("two classes", "three classes", "number", "poisson"),
        depth=(6,),
        missing=("none", "nan"),
        categories=("none", "columns"),
    ),
    *_grid("onnx", model=("RandomForest", "GradientBoosting"), objective=("two classes", "number"), depth=(4,)),
    *_grid("onnx", model=("modes", "doubles"), objective=("number",), depth=(5,), missing=("none", "nan")),
]
