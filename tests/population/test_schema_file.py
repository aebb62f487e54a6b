from __future__ import annotations

from pathlib import Path

import pytest

from isonomy.errors import FileError, SchemaError
from isonomy.population import Feature, Label, Schema, Split

TEXT = """
name = "loans"
weight = "w"
[label]
column = "repaid"
classes = [0, 1]
[split]
column = "part"
train = 1
test = 2
[features.age]
kind = "integer"
low = 18
high = 98
protected = true
tolerance = 2
[features."annual income"]
low = 0
fill = 0
missing_values = ["?", -1]
[features.sex]
categories = ["female", "male"]
[model.inputs]
columns = ["age", "sex=male"]
scale = { age = { mean = 40.5, scale = 10.0 } }
"""


def test_defaults_are_filled_in() -> None:
    schema = Schema.from_toml(TEXT)
    assert schema == Schema(
        "loans",
        (
            Feature("age", "integer", low=18, high=98, origin=18, unit=80, protected=True, tolerance=2),
            Feature("annual income", "numeric", low=0, origin=0, unit=1, fill=0, missing_values=("?", "-1")),
            Feature("sex", "categorical", categories=("female", "male")),
        ),
        label=Label("repaid", ("0", "1")),
        weight="w",
        split=Split("part", "1", "2"),
        inputs={"columns": ["age", "sex=male"], "scale": {"age": {"mean": 40.5, "scale": 10.0}}},
    )
    assert Schema.from_toml(schema.to_toml()) == schema


def test_files_are_written_and_read(tmp_path: Path) -> None:
    schema = Schema.from_toml(TEXT)
    schema.save(tmp_path / "loans.toml")
    assert Schema.from_toml(tmp_path / "loans.toml") == schema
    assert Schema.from_toml(str(tmp_path / "loans.toml")) == schema
    assert [path.name for path in tmp_path.iterdir()] == ["loans.toml"]
    with pytest.raises(FileError, match=r"other\.toml cannot be read: No such file"):
        Schema.from_toml(tmp_path / "other.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="not UTF-8"):
        Schema.from_toml(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[features.age]\nlowest = 3", "[features.age] has an unknown key 'lowest'; did you mean 'low'?"),
        ("[feature.age]\nlow = 3", "unknown key 'feature'; did you mean 'features'?"),
        ("[features.age]\nlow = 'x'", "[features.age] key 'low' must be a number. Got 'x'."),
        ("[features.age]\nprotected = 1", "key 'protected' must be true or false. Got 1."),
        ("[features.age]\ncategories = 'x'", "key 'categories' must be a list"),
        ("[features.age]\ncategories = [['x']]", "key 'categories' must hold names"),
        ("[features.age]\nlabels = {a = 1}", "key 'labels' must be a text in quotes. Got 1."),
        ("[features.age]\ndescription = 1", "must be a text in quotes"),
        ("[features]\nage = 3", "[features.age] must be a table. Got 3."),
        ("[features.a]\n[label]\nclasses = ['x', 'y']", "[label] needs a key 'column'."),
        ("name = 'x'", "has no features"),
        ("name = ", "The text is not valid TOML"),
        ("[features.a]\n[model]\ninput = 1", "[model] has an unknown key 'input'; did you mean 'inputs'?"),
        ("[features.a]\n[zzz]\n", "unknown key 'zzz'; known keys are 'name'"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text)
    assert words in str(caught.value)
