"""What to audit: defaults, files, options, and what is refused."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from isonomy.auditing import Plan
from isonomy.cli.app import app
from isonomy.cli.console import Answer
from isonomy.errors import FileError, IsonomyError, ParameterError
from isonomy.options import options_of


def test_nothing_is_the_bundled_audit() -> None:
    plan = Plan.of({})
    assert (plan.data, plan.model, plan.delta, plan.command()) == ("german", None, 1.0, "isonomy audit")


def test_paths_of_a_file_are_relative_to_it_and_options_win(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('data = "people.csv"\nschema = "s.toml"\nmodel = "../m.onnx"\ngamma = 0.2\nagainst = ["b.csv"]\n')
    plan = Plan.of({"gamma": 0.3, "epsilon": None}, file)
    assert plan.data == str(tmp_path / "people.csv")
    assert plan.model == str(tmp_path.parent / "m.onnx")
    assert plan.against == (str(tmp_path / "b.csv"),)
    assert (plan.gamma, plan.epsilon) == (0.3, None)


def test_names_of_the_catalogue_and_of_ground_costs_are_no_paths(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('data = "german"\nground = "linf"\n')
    plan = Plan.of({}, file)
    assert (plan.data, plan.ground) == ("german", "linf")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gama = 1", "unknown key 'gama'; did you mean 'gamma'?"),
        ("gamma = -1", "'gamma' must be a finite number >= 0. Got -1."),
        ("gamma = true", "'gamma' must be"),
        ("gamma = nan", "'gamma' must be"),
        ("order = 0.5", "'order' must be a number from 1 to infinity"),
        ("limit = 0", "'limit' must be a whole number >= 1"),
        ('split = "half"', "'split' must be one of auto, test, train, all"),
        ('against = "b.csv"', "'against' must be a list"),
        ("redact = 1", "'redact' must be true or false"),
        ("gamma = ", "is not valid TOML"),
        ('schema = "s.toml"', "'data' must be given"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "audit.toml"
    file.write_text(text)
    with pytest.raises(IsonomyError) as caught:
        Plan.of({}, file)
    assert words in str(caught.value) and str(file) in str(caught.value)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(FileError, match=r"nowhere\.toml cannot be read"):
        Plan.of({}, "nowhere.toml")


def test_held_out_training_rows_are_refused() -> None:
    with pytest.raises(ParameterError, match="held_out"):
        Plan(split="train", held_out=True)


def test_the_command_gives_the_plan_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the real command line: what is printed is parsed to an equal plan."""
    import isonomy.cli.audit as command

    plan = Plan(
        name="two words", data="a b.csv", schema="s.toml", model="m.onnx", gamma=1 / 3, order=2.0, epsilon=0.1,
        tier="interval", split="test", held_out=True, limit=7, against=("x.csv", "y.csv"), separator=";", redact=True,
    )  # fmt: skip
    seen: list[Plan] = []
    monkeypatch.setattr(command, "_run", lambda plan, *_: seen.append(plan) or Answer({}, ()))
    app(shlex.split(plan.command())[1:], standalone_mode=False)
    assert seen == [plan]


def test_every_key_is_an_option_and_the_other_way_round() -> None:
    import typer

    command = typer.main.get_command(app).commands["audit"]  # type: ignore[attr-defined]
    options = {each.name for each in command.params} - {"file", "estimate", "json"}
    assert {item.name for item in fields(Plan)} <= options


def test_choices_are_those_of_the_library() -> None:
    """A plan names them itself, so that help imports nothing heavy."""
    from isonomy.certificates.certify import DistributionalTier
    from isonomy.cli.training import Training
    from isonomy.engine import EngineName
    from isonomy.networks.graph import Head
    from isonomy.networks.inputs import Reads
    from isonomy.population import DomainKind
    from isonomy.population.schema import Unknown
    from isonomy.population.selection import SplitName
    from isonomy.training.config import Method

    known = {
        "tier": DistributionalTier, "engine": EngineName, "reads": Reads, "domain": DomainKind, "unknown": Unknown,
    }  # fmt: skip
    for name, kind in known.items():
        assert set(options_of(Plan)[name].choices) == set(get_args(kind)), name
    for name, kind in {"head": Head, "split": SplitName}.items():
        assert set(options_of(Plan)[name].choices) == {"auto", *get_args(kind)} - {"probability"}, (
            name
        )  # read, not said
    assert set(options_of(Training)["method"].choices) == set(get_args(Method))


def test_a_switch_of_a_file_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import isonomy.cli.audit as command

    file = tmp_path / "audit.toml"
    file.write_text("redact = true\nheld_out = true\n")
    seen: list[Plan] = []
    monkeypatch.setattr(command, "_run", lambda plan, *_: seen.append(plan) or Answer({}, ()))
    app(["audit", str(file), "--no-redact"], standalone_mode=False)
    assert (seen[0].redact, seen[0].held_out) == (False, True)
