"""An option is declared once: what is accepted, the command line and its help follow from the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from isonomy.errors import ParameterError
from isonomy.options import SIZE, Given, Panel, check_options, options_of, select, whole, with_options

BAKING = Panel("Baking")


@dataclass(frozen=True)
class Oven:
    heat: float = BAKING(180.0, "In degrees.", SIZE)
    rack: Literal["top", "middle"] = BAKING("middle", "Where.")
    trays: int = BAKING(0, "How many.", whole(0))
    fan: bool = BAKING(False, "Moving air, see isonomy[fan].")
    names: tuple[str, ...] = BAKING((), "Of cakes; may be repeated.")
    note: str | None = BAKING(None, "For people.", env="OVEN_NOTE")
    own: int = 3

    def __post_init__(self) -> None:
        check_options(self)


def ask(*words: str, env: dict[str, str] | None = None, **defaults: Any) -> tuple[Any, Any]:
    """What the command line makes of some words: what was given, and how it ended."""
    seen: list[tuple[str, Given]] = []
    app = typer.Typer()

    @app.command()
    @with_options(given=select(Oven, **defaults))
    def bake(cake: str, given: Given, times: int = 1) -> None:
        """Bake."""
        seen.append((cake, given | {"times": times}))

    found = CliRunner().invoke(app, list(words), env=env or {"COLUMNS": "160"})
    return seen[0] if seen else None, found


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("heat", -1.0, "'heat' must be a finite number >= 0. Got -1.0."),
        ("heat", float("nan"), "'heat' must be"),
        ("heat", True, "'heat' must be"),
        ("trays", False, "'trays' must be a whole number >= 0. Got False."),  # equal to the default, but no number
        ("trays", 1.0, "'trays' must be"),
        ("rack", "bottom", "'rack' must be one of top, middle. Got 'bottom'."),
        ("fan", 1, "'fan' must be true or false"),
        ("names", ("a", ""), "'names' must be a list of texts"),
        ("names", "a", "'names' must be a list of texts"),
        ("note", "", "'note' must be a text"),
    ],
)
def test_values_are_checked_by_their_rule_or_their_type(name: str, value: Any, words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Oven(**{name: value})
    assert words in str(caught.value)


def test_defaults_and_good_values_are_taken() -> None:
    assert Oven() == Oven(heat=180, trays=0, names=(), note=None)
    assert Oven(heat=0, rack="top", fan=True, names=("a", "b"), note="x").names == ("a", "b")
    assert list(options_of(Oven)) == ["heat", "rack", "trays", "fan", "names", "note"]


def test_a_command_is_given_what_was_said_and_no_more() -> None:
    assert ask("cake")[0] == ("cake", {"times": 1})
    words = ["cake", "--heat", "200", "--rack", "top", "--fan", "--names", "a", "--names", "b", "--times", "2"]
    expected = {"heat": 200.0, "rack": "top", "fan": True, "names": ("a", "b"), "times": 2}
    assert ask(*words)[0] == ("cake", expected)
    assert ask("cake", "--no-fan", env={"OVEN_NOTE": "hot"})[0] == ("cake", {"fan": False, "note": "hot", "times": 1})
    assert ask("cake", heat=90.0)[0] == ("cake", {"heat": 90.0, "times": 1}), "the default of this command"
    seen, found = ask("cake", "--rack", "bottom")
    assert seen is None and isinstance(found.exception, ParameterError)
    assert str(found.exception) == "'--rack' must be one of top, middle. Got 'bottom'."


def test_help_has_words_defaults_choices_and_panels() -> None:
    _, found = ask("--help")
    lines = {line.split()[1]: line for line in found.output.splitlines() if line[1:].lstrip().startswith("--")}
    assert "In degrees. Default: 180." in lines["--heat"] and "Baking" in found.output
    assert "<top|middle>" in lines["--rack"] and "Where. Default: middle." in lines["--rack"]
    assert "Default: 0." in lines["--trays"] and "--no-fan" in lines["--fan"]
    assert "see isonomy[fan]." in lines["--fan"], "brackets are no markup"
    assert "Default" not in lines["--note"] and "OVEN_NOTE" in lines["--note"]
    assert "Default: 90." in ask("--help", heat=90.0)[1].output
