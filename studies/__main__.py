"""``python -m studies NAME``: studies by name, pages in a directory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from isonomy import cli
from isonomy.errors import IsonomyError, ParameterError, SoundnessError, template
from isonomy.progress import shown
from studies import Result, Setting, Store, write

PAPER = ("training", "uci", "group", "convergence", "scalability", "gamma", "states", "years", "moons", "orthotope")
STUDIES = (*PAPER, "targets", "notions", "frontiers")
SEEDS = 3
QUICK = "*The quick form: it shows that everything runs. Its numbers say nothing about the methods.*"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(no_args_is_help=True)
def study(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"{', '.join(STUDIES)}, or all.")],
    quick: Annotated[bool, typer.Option(help="A few minutes: fewer people, epochs, sizes; into OUT/quick.")] = False,
    out: Annotated[Path, typer.Option(help="Where pages, numbers and pictures are written.")] = Path("results"),
    seeds: Annotated[int | None, typer.Option(help="Trainings of each network: 3, with --quick 1.")] = None,
    full: Annotated[bool, typer.Option(help="Of 'frontiers': more rows, people and methods; a night's work.")] = False,
    pages: Annotated[bool, typer.Option(help="Compute nothing: write the pages of what was found so far.")] = False,
) -> None:
    """Repeat the experiments of "Certification of Distributional Individual Fairness", the printed figures beside.

    Each writes NAME.md, NAME.csv and NAME.png. What was found is kept in NAME.work: the same command goes on where it
    was stopped. Remove that directory to begin anew. 'targets' is not the paper's: certified training on six tables,
    with every choice made on people set aside; nor is 'notions': real shifts, and
    what each notion of shift proves of them; nor 'frontiers': what a certified level costs each method.
    """
    for name in names:
        if name not in STUDIES and name != "all":
            raise ParameterError(template("name", f"one of {', '.join(STUDIES)}, or all", name))
    if seeds is not None and seeds < 1:
        raise ParameterError(template("seeds", "a whole number >= 1", seeds))
    if find_spec("matplotlib") is None:
        raise ParameterError("The pictures need a package that is not installed: pip install matplotlib.")
    chosen = list(dict.fromkeys(STUDIES if "all" in names else names))
    failed = False
    for name in chosen:
        try:
            run(name, out / "quick" if quick else out, quick=quick, seeds=seeds, pages=pages, full=full)
        except IsonomyError as error:
            if len(chosen) == 1 or isinstance(error, SoundnessError):
                raise
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    if failed:
        raise typer.Exit(2)


def run(
    name: str, out: Path, *, quick: bool = False, seeds: int | None = None, pages: bool = False, full: bool = False
) -> list[Path]:
    """One study; what was written. Stopped by Ctrl-C it still leaves a page of what was found."""
    if seeds is None:
        seeds = 1 if quick else SEEDS
    words = f"python -m studies {name}" + (" --quick" if quick else "")
    words += f" --seeds {seeds}" if seeds != (1 if quick else SEEDS) else ""
    words += " --full" if full else ""
    work = out / f"{name}.work"
    lines = work / "lines.jsonl"
    module = import_module(f"studies.{name}")

    def result(store: Store, setting: Setting) -> list[Path]:
        found: Result = module.run(setting, store)
        if quick:
            found = replace(found, story=(QUICK, *found.story))
        written = write(found, out, words, store.origins())
        print("\n".join(map(str, written)))
        return written

    if pages:
        return result(Store(lines, only_known=True), Setting(quick, work, None, seeds, full))
    try:
        with shown(f"Study {name}", "auto") as tick:
            return result(Store(lines), Setting(quick, work, tick, seeds, full))
    except KeyboardInterrupt:
        if lines.exists():
            result(Store(lines, only_known=True), Setting(quick, work, None, seeds, full))
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status, as those of ``isonomy`` do."""
    return cli.main(arguments, app)


if __name__ == "__main__":
    sys.exit(main())
