"""What ``isonomy reproduce`` calls: experiments by name, pages in a directory."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from isonomy.errors import IsonomyError, ParameterError, SoundnessError, template
from isonomy.progress import shown
from isonomy.reproduce.page import Result, write
from isonomy.reproduce.setting import Setting
from isonomy.reproduce.store import Store

EXPERIMENTS = {
    name: f"isonomy.reproduce.{name}"
    for name in (
        "training",
        "uci",
        "group",
        "convergence",
        "scalability",
        "gamma",
        "states",
        "years",
        "moons",
        "orthotope",
    )
}
SEEDS = 3
QUICK = "*The quick form: it shows that everything runs. Its numbers say nothing about the methods.*"


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"{', '.join(EXPERIMENTS)}, or all.")],
    quick: Annotated[bool, typer.Option(help="A few minutes: fewer people, epochs, sizes; into OUT/quick.")] = False,
    out: Annotated[Path, typer.Option(help="Where pages, numbers and pictures are written.")] = Path("results"),
    seeds: Annotated[int | None, typer.Option(help="Trainings of each network: 3, with --quick 1.")] = None,
    pages: Annotated[bool, typer.Option(help="Compute nothing: write the pages of what was found so far.")] = False,
) -> None:
    """Repeat the experiments of "Certification of Distributional Individual Fairness", the printed figures beside.

    Each writes NAME.md, NAME.csv and NAME.png. What was found is kept in NAME.work: the same command goes on where it
    was stopped. Remove that directory to begin anew.
    """
    for name in names:
        if name not in EXPERIMENTS and name != "all":
            raise ParameterError(template("name", f"one of {', '.join(EXPERIMENTS)}, or all", name))
    if seeds is not None and seeds < 1:
        raise ParameterError(template("seeds", "a whole number >= 1", seeds))
    if find_spec("matplotlib") is None:
        raise ParameterError("The pictures need a part that is not installed: pip install isonomy[reproduce].")
    chosen = list(dict.fromkeys(EXPERIMENTS if "all" in names else names))
    failed = False
    for name in chosen:
        try:
            run(name, out / "quick" if quick else out, quick=quick, seeds=seeds, pages=pages)
        except IsonomyError as error:
            if len(chosen) == 1 or isinstance(error, SoundnessError):
                raise
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    if failed:
        raise typer.Exit(2)


def run(name: str, out: Path, *, quick: bool = False, seeds: int | None = None, pages: bool = False) -> list[Path]:
    """One experiment; what was written. Stopped by Ctrl-C it still leaves a page of what was found."""
    if seeds is None:
        seeds = 1 if quick else SEEDS
    words = f"isonomy reproduce {name}" + (" --quick" if quick else "")
    words += f" --seeds {seeds}" if seeds != (1 if quick else SEEDS) else ""
    work = out / f"{name}.work"
    lines = work / "lines.jsonl"
    module = import_module(EXPERIMENTS[name])

    def result(store: Store, setting: Setting) -> list[Path]:
        found: Result = module.run(setting, store)
        if quick:
            found = replace(found, story=(QUICK, *found.story))
        written = write(found, out, words, store.origins())
        print("\n".join(map(str, written)))
        return written

    if pages:
        return result(Store(lines, only_known=True), Setting(quick, work, None, seeds))
    try:
        with shown(f"Reproducing {name}", "auto") as tick:
            return result(Store(lines), Setting(quick, work, tick, seeds))
    except KeyboardInterrupt:
        if lines.exists():
            result(Store(lines, only_known=True), Setting(quick, work, None, seeds))
        raise
