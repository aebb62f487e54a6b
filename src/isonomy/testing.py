"""Tests of a model in a project's own suite: :func:`assert_fair` audits it and fails as a test does.

Nothing here imports a test framework, and ``import isonomy`` does not import this module.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, Unpack

import numpy as np

from isonomy.arithmetic import at_least
from isonomy.auditing.call import AuditKeywords, Names, Similar, audit
from isonomy.auditing.plan import Plan
from isonomy.auditing.result import Audit
from isonomy.certificates.certificate import Verdict
from isonomy.errors import ParameterError, template
from isonomy.escapes import visible
from isonomy.given import choice, number
from isonomy.report.facts import facts_of, further_verdicts
from isonomy.report.numbers import percent

NAMED = 3
"""People with the largest changes that a failure names."""


class UnfairError(AssertionError):
    """A limit that was not kept, or not proved to be kept; ``audit`` has the report and the certificate."""

    def __init__(self, message: str, audit: Audit) -> None:
        super().__init__(message)
        self.audit = audit


class UndecidedWarning(UserWarning):
    """A limit that was neither proved to be kept nor shown not to be."""


def assert_fair(
    model: Any = None,
    frame: Any = None,
    *,
    label: str | None = None,
    protected: Names = (),
    similar: Similar | None = None,
    favourable: Names = (),
    threshold: float | None = None,
    plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None,
    flips: float | None = None,
    undecided: Literal["fail", "warn"] = "fail",
    **keywords: Unpack[AuditKeywords],
) -> Audit:
    """Audit a model and return the audit; raise an AssertionError where a limit is not kept, or not proved to be.

    The question is that of :func:`isonomy.audit`: ``model``, ``frame``, ``label``, ``protected``, ``similar``,
    ``favourable``, ``threshold``, ``plan`` and its further keywords. Of the limits at least one is given: ``epsilon``,
    how much the output may change for similar people on average, of these people or of each of the populations that
    ``shift``, ``gamma`` or ``part`` ask about; ``flips``, the share of the rows, 0 to 1, of which a similar person may
    get another decision.

    ``undecided`` says what happens where a limit is neither proved to be kept nor shown to be broken: ``"fail"``, or
    ``"warn"`` with an :class:`UndecidedWarning`. What is raised is an :class:`UnfairError`, whose ``audit`` can be
    saved.

    **Soundness.** The test passes only with proof of each limit (unless ``undecided="warn"`` was given), and is said to
    be violated only where people of the certificate show it.
    """
    choice("undecided", undecided, Literal["fail", "warn"])
    if flips is not None:
        flips = number("flips", flips, "a share of the people from 0 to 1", 0, 1)
    elif frame is not None and plan is None and keywords.get("epsilon") is None:
        raise _no_limit()
    done = audit(
        model, frame, label=label, protected=protected, similar=similar, favourable=favourable, threshold=threshold,
        plan=plan, **({"quiet": True, "progress": None} | keywords),
    )  # fmt: skip
    judged = [*_judged_epsilon(done), *([] if flips is None else [_judged_flips(done, flips)])]
    if not judged:
        raise _no_limit()
    kinds = {kind for kind, _ in judged}
    if kinds != {"certified"}:
        text = _message(done, judged)
        if "violated" in kinds or undecided == "fail":
            raise UnfairError(text, done)
        warnings.warn(UndecidedWarning(text), stacklevel=2)
    return done


def _no_limit() -> ParameterError:
    """Return the error of a test that could not fail."""
    return ParameterError(template("epsilon", "given, or 'flips', as a limit to hold the model to", None))


def _judged_epsilon(done: Audit) -> list[tuple[Verdict, str]]:
    """Return the verdict on epsilon, and those of further shifts that were asked about, each with a sentence; none
    without epsilon."""
    facts = facts_of(done.findings)
    if facts.verdict is None:
        return []
    return [(facts.verdict, facts["summary"].sentences[0]), *further_verdicts(done.findings)]


def _judged_flips(done: Audit, most: float) -> tuple[Verdict, str]:
    """Return the verdict on the share of decisions that flip, with a sentence."""
    local, n = done.certificate.local, len(done.findings.people)
    kinds = Counter(local.decision.tolist())
    if "none" in kinds:
        right = "left out for a model that decides nothing, or given with a cut-off (threshold=)"
        raise ParameterError(template("flips", right, most))
    shown, kept = kinds["flippable"], kinds["certified"]
    verdict: Verdict = "violated" if shown / n > most else "certified" if (n - kept) / n <= most else "undecided"
    sentence = f"Of {n:,} decisions {shown:,} are shown to flip, {kept:,} proved not to; accepted are {percent(most)}."
    return verdict, done.findings.model.conditional(sentence)


def _message(done: Audit, judged: list[tuple[Verdict, str]]) -> str:
    """Return the limits that are not kept first, then what was found, and the people with the largest changes."""
    order: list[Verdict] = ["violated", "undecided", "certified"]
    worst = min((kind for kind, _ in judged), key=order.index)
    lines = [f"{done.findings.title} is {'not fair' if worst == 'violated' else 'not proved to be fair'}: {worst}."]
    lines += [f"  {kind}: {text}" for kind, text in sorted(judged, key=lambda each: order.index(each[0]))]
    lines += [f"  {line}" for line in repr(done).splitlines()[:2]]
    if not done.findings.redacted:
        lines += [f"  {line}" for line in _largest(done)]
    if worst == "undecided":
        lines.append('  undecided="warn" lets this pass with a warning.')
    lines.append('  See it: except AssertionError as error: error.audit.report("audit/")')
    return "\n".join(map(visible, lines))


def _largest(done: Audit) -> list[str]:
    """Return a line for each of the people with the largest changes that were shown."""
    local, people, lines = done.certificate.local, done.findings.people, []
    for place in np.argsort(-local.lower, kind="stable")[:NAMED].tolist():
        both = (local.x[[place]], local.witnesses.counterpart[[place]])
        own, other = (done.certificate.problem.raw(each).astype(str).iloc[0] for each in both)
        moves = ", ".join(f"{name} {own[name]} → {other[name]}" for name in own.index if own[name] != other[name])
        name = f"row {people.rows[place]}" if people.ids is None else str(people.ids[place])
        lines.append(f"{name}: the output changes by {at_least(float(local.lower[place]), 4)} with {moves}")
    return [line for line, change in zip(lines, -np.sort(-local.lower), strict=False) if change > 0]
