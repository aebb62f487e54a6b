"""Campaigns: ``python -m tests.fuzz.run --cases 10000 --start 0 --processes 2``."""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from . import engine
from .cases import case, shrunk
from .exact import Truth


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``held``, ``refused``, ``failed`` or ``crashed``; and what there is to say."""

    number: int
    question: str
    ended: str
    said: str = ""
    points: int = 0
    """Exact evaluations of the network that were compared with bounds."""


def outcome(number: int) -> Outcome:
    """Run one case."""
    question, before = "?", Truth.made
    try:
        one = case(number)
        question = type(one).__name__
        found = one.check()
    except engine.RefusedError as error:
        return Outcome(number, question, "refused", str(error))
    except Exception:
        return Outcome(number, question, "crashed", traceback.format_exc())
    points = Truth.made - before
    if found is None:
        return Outcome(number, question, "held", points=points)
    return Outcome(number, question, "failed", str(found), points)


def explained(bad: Outcome, seconds: float = 60.0) -> str:
    """A failing case in full: its number, what is wrong, and a small case that fails as well."""
    text = f"case {bad.number} ({bad.question}) {bad.ended}: {bad.said}\n"
    if bad.ended == "failed":
        small = shrunk(case(bad.number), seconds)
        text += f"smaller, with the same search: {small.check()}\n{small}\n"
    return text + f"again: python -m tests.fuzz.run --start {bad.number} --cases 1"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="stop at the first case that fails")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to make a failing case small")
    given = parser.parse_args()
    numbers = range(given.start, given.start + given.cases)
    began, ended, bad, points = time.monotonic(), collections.Counter[str](), [], 0
    with contextlib.ExitStack() as stack:
        results: Iterator[Outcome] = map(outcome, numbers)
        if given.processes > 1:
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(given.processes))
            results = pool.imap(outcome, numbers, chunksize=8)
        for done, one in enumerate(results, start=1):
            ended[f"{one.question} {one.ended}"] += 1
            points += one.points
            if one.ended in ("failed", "crashed"):
                bad.append(one)
                print(f"case {one.number} ({one.question}) {one.ended}: {one.said}", flush=True)
                if given.first:
                    break
            if done % 1000 == 0:
                print(f"{done} cases, {points} points, {len(bad)} bad, {time.monotonic() - began:.0f} s", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(ended.items())) + f"; {points} points")
    for one in bad[:5] if given.shrink else []:
        print(explained(one, given.shrink))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
