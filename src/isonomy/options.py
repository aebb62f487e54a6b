"""Options, each declared once: a field of a dataclass with its default, its words, its rule and its panel.

.. code-block:: python

    SIMILAR = Panel("Similar people")

    @dataclass(frozen=True)
    class Plan:
        gamma: float = SIMILAR(0.1, "How far the population may shift.", SIZE)

What the dataclass accepts (:func:`check_options`), what a file of options may say, and the options of a command with
their help (:func:`with_options`) all follow from that line. Nothing heavy is imported here: help has to be immediate.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from isonomy.errors import ParameterError, template

T = TypeVar("T")
Given = dict[str, Any]
"""The options that were given on a command line, by name; the others are not in it."""


@dataclass(frozen=True)
class Rule:
    """Whether a value will do, and what would be right."""

    fits: Callable[[Any], bool]
    right: str


def number(fits: Callable[[float], bool], right: str) -> Rule:
    """Return the rule of a number, not NaN, that fits."""

    def check(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value) and fits(value)

    return Rule(check, right)


def whole(least: int) -> Rule:
    """Return the rule of a whole number that is at least ``least``."""
    return number(lambda value: isinstance(value, int) and value >= least, f"a whole number >= {least}")


TEXT = Rule(lambda value: isinstance(value, str) and value != "", "a text in quotes")
SIZE = number(lambda value: 0 <= value < math.inf, "a finite number >= 0")
SHARE = number(lambda value: 0 < value < 1, "a number between 0 and 1")
_NUMBER = number(lambda value: True, "a number")
_SWITCH = Rule(lambda value: isinstance(value, bool), "true or false")
_TEXTS = Rule(lambda value: isinstance(value, tuple) and all(map(TEXT.fits, value)), "a list of texts in quotes")


@dataclass(frozen=True)
class Option:
    """One option, as its declaration says it; ``given`` is what a command takes by default."""

    name: str
    kind: Any
    default: Any
    words: str
    rule: Rule
    panel: str
    path: bool = False
    example: Any = None
    env: str | None = None
    given: Any = None

    @property
    def help(self) -> str:
        """Return the option's words, with the default unless they name it."""
        if self.default is None or self.default is False or self.default in ("", ()) or "Default:" in self.words:
            return self.words
        shown = f"{self.default:g}" if isinstance(self.default, float) else self.default
        return f"{self.words} Default: {shown}."

    @property
    def flag(self) -> str:
        """Return the option's name on a command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words to choose from, where it is a choice."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def parameter(self) -> inspect.Parameter:
        """Return the parameter that typer makes an option of; a switch can also be switched off."""
        import typer

        switch = self.kind is bool and not self.name.startswith("no_")
        option = typer.Option(
            f"{self.flag}/--no-{self.flag[2:]}" if switch else self.flag,
            help=self.help.replace("[", r"\["),  # no markup of rich
            metavar=f"<{'|'.join(self.choices)}>" if self.choices else None,
            rich_help_panel=self.panel, envvar=self.env, show_default=False,
        )  # fmt: skip
        kind: Any = str if self.choices else list[str] if get_origin(self.kind) is tuple else self.kind
        if kind is float:
            option.parser, option.metavar = number_of, "<float>"
        annotation: Any = Annotated[kind | None, option]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=self.given, annotation=annotation)

    def converted(self, value: Any) -> Any:
        """Return a value of the command line as the dataclass has it, or refuse it by its flag."""
        if self.choices and value is not None and value not in self.choices:
            raise ParameterError(template(self.flag, self.rule.right, value))
        return tuple(value) or None if isinstance(value, list) else value


def number_of(text: str) -> float:
    """Return the number that a word of the command line writes."""
    import typer

    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number such as 0.1 (10 % is 0.1).") from None


class Panel(str):
    """What help puts under one heading; called, it makes an option of a field."""

    def __call__(
        self, default: T, words: str, rule: Rule | None = None, *, path: bool = False, example: Any = None,
        env: str | None = None,
    ) -> T:  # fmt: skip
        """Declare an option by its words, and by a rule where its type alone (a choice, a text, a switch, a list of
        texts, any number) is not enough.

        ``path``: it may name a file. ``example``: a value to show where the default is none. ``env``: a variable of the
        environment that a command reads it from.
        """
        known = {"words": words, "rule": rule, "panel": str(self), "path": path, "example": example, "env": env}
        return field(default=default, metadata=known)


@cache
def options_of(cls: Any) -> dict[str, Option]:
    """Return the options of a dataclass, in the order in which they are declared."""
    hints, options = get_type_hints(cls), {}
    for item in fields(cls):
        if item.metadata:
            kind = _without_none(hints[item.name])
            known = dict(item.metadata)
            known["rule"] = known["rule"] or _rule_of(kind)
            options[item.name] = Option(item.name, kind, item.default, **known)
    return options


def check_options(options: Any) -> None:
    """Refuse values that break their rule, in one sentence; what is left at its default is right."""
    for name, each in options_of(options.__class__).items():
        value = getattr(options, name)
        same = type(value) is type(each.default) and value == each.default
        if not same and not each.rule.fits(value):
            raise ParameterError(template(name, each.rule.right, value))


def select(cls: Any, *names: str, **defaults: Any) -> list[Option]:
    """Return the options of a dataclass, or those of some names; a command may have other ``defaults``."""
    every = options_of(cls)
    chosen = [every[name] for name in names or every]
    return [
        replace(each, default=defaults[each.name], given=defaults[each.name]) if each.name in defaults else each
        for each in chosen
    ]


def with_options(**groups: Iterable[Option]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Replace parameters of a command by the options of a group each; the command gets those that were given."""

    def decorate(run: Callable[..., T]) -> Callable[..., T]:
        @wraps(run)
        def command(**values: Any) -> T:
            for name, group in groups.items():
                chosen = {each.name: each.converted(values.pop(each.name)) for each in group}
                values[name] = {key: value for key, value in chosen.items() if value is not None}
            return run(**values)

        parameters: list[inspect.Parameter] = []
        for name, own in inspect.signature(run, eval_str=True).parameters.items():
            parameters += [each.parameter() for each in groups[name]] if name in groups else [own]
        return signed(command, parameters)

    return decorate


def signed(command: Callable[..., T], parameters: Iterable[inspect.Parameter]) -> Callable[..., T]:
    """Return the same function with these parameters, by keyword, in its signature."""
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if get_origin(hint) in (Union, UnionType) and len(kinds) == 1 else hint


def _rule_of(kind: Any) -> Rule:
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return Rule(lambda value: value in choices, f"one of {', '.join(choices)}")
    if get_origin(kind) is tuple:
        return _TEXTS
    return {bool: _SWITCH, int: whole(0), float: _NUMBER}.get(kind, TEXT)
