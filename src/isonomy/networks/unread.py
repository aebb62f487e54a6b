"""Models that are no networks, by what they are: a refusal names the kind of model and says what would be right."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = 2**20  # bytes of a file that are looked at
_CAN = "networks and linear models can (docs/reference/formats.md names them)"
TREES = "trees are no network: isonomy.load_model(source, schema) reads them"
_BOOSTED = "a gradient-boosted tree ensemble"

# what a file of boosted trees begins with (a pattern of bytes), and what it is then
_FILES = (
    (rb'\{\s*"learner"\s*:', f"{_BOOSTED} (XGBoost JSON)"),
    (rb"\{[\x00-\xff]{1,9}learner", f"{_BOOSTED} (XGBoost UBJ)"),  # before a key stands its length
    (rb"(bs64|binf)", f"{_BOOSTED} (XGBoost's old binary format)"),
    (rb"tree\r?\nversion=", f"{_BOOSTED} (LightGBM text)"),
    (rb'\{\s*"name"\s*:\s*"tree"', f"{_BOOSTED} (LightGBM JSON)"),
    (rb"CBM1", f"{_BOOSTED} (CatBoost binary)"),
    (rb'\{(?=[^\0]*"(features_info|model_info)")[^\0]*"(oblivious_trees|trees)"\s*:', f"{_BOOSTED} (CatBoost JSON)"),
)

# the beginning of a type's full name, and why such a model cannot be read
_TYPES = {
    r"sklearn\.(tree|ensemble\._(forest|gb|hist_gradient_boosting|iforest))\b": f"it is made of trees, and {TREES}",
    r"(xgboost|lightgbm|catboost)\b": f"it is a gradient-boosted model, and {TREES}",
    r"sklearn\.calibration\b": "of its calibration a file does not say enough; pass the model itself, "
    "isonomy.audit(model, frame), which is read where it can be, and asked otherwise",
    r"sklearn\.ensemble\b": f"an ensemble votes or averages; give one of its members, {_CAN}",
}


def model_in(path: Path) -> str:
    """Name the kind of model in a file that is no network, judged by its first bytes; "" where it is none of these."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:  # the file's own reader says what is wrong
        return ""
    kind = next((kind for pattern, kind in _FILES if re.match(pattern, head)), "")
    if "XGBoost" in kind and b"gblinear" in head:  # lists only as long as the features
        return f"a linear booster (XGBoost, gblinear), which has no reader yet; {_CAN}"
    return f"{kind}: {TREES}" if kind else ""


def why_unread(*type_names: str) -> str:
    """Say why a model of a type cannot be read, by its full name and those of its bases; "" where nothing is known."""
    return next((why for name in type_names for pattern, why in _TYPES.items() if re.match(pattern, name)), "")
