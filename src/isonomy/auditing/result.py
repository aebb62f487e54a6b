"""The result of an audit: what it says in three lines, its people as a frame, its files."""

from __future__ import annotations

import html
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most, decimals_of_bound
from isonomy.auditing import changes
from isonomy.auditing.asking import to_kind
from isonomy.auditing.dossier import write_dossier
from isonomy.auditing.output import individuals, output_directory, write
from isonomy.auditing.plan import Plan
from isonomy.certificates.certificate import Certificate
from isonomy.errors import FileError, ParameterError, needed, template
from isonomy.escapes import visible
from isonomy.files import atomic
from isonomy.population.encoding import text_of
from isonomy.report.comparison import facts_of_change
from isonomy.report.counterpart import facts_of_row
from isonomy.report.facts import facts_of
from isonomy.report.findings import Findings
from isonomy.report.html import to_html
from isonomy.report.laws import Laws
from isonomy.report.privacy import protected_cells
from isonomy.report.sections import Facts
from isonomy.report.terminal import row_to_terminal
from isonomy.report.text import change_to_markdown, to_json, to_model_card

SCREEN = 640
"""Height of the report in a notebook: its first screen."""

NOTHING = 0.95
"""A bound of the mean change of a probability from which on nothing is said to be proved."""

MOST_CHANGES = 2
"""Changes of a protected feature that the summary names."""


@dataclass(frozen=True, eq=False, repr=False)
class Shown:
    """Facts about one person, or about two audits, as text; ``facts`` and :meth:`to_dict` have the numbers."""

    facts: Facts
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the values under their codes, in full."""
        return to_json(self.facts)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit: ``plan`` is what was asked, ``findings`` everything that follows.

    Shown it is three lines: whose decisions flip, who gains, what is proved; in a notebook the report. ``notes`` are
    what was guessed, ``kind`` the kind of frame that was given.
    """

    plan: Plan
    findings: Findings = field(repr=False)
    notes: tuple[str, ...] = ()
    kind: str = "pandas"

    @property
    def certificate(self) -> Certificate:
        """Return the bounds of the people and of the populations close to them."""
        return self.findings.certificate

    @cached_property
    def people(self) -> Any:
        """Return one row for each person, as a frame of the kind that was given: id, prediction, decision, bounds,
        worst counterpart."""
        return to_kind(individuals(self.findings), self.kind)

    def flips(self, by: str | Sequence[str] | None = None) -> Any:
        """Return whose decisions flip, from category to category of the features ``by``, the protected ones unless
        given, with counts, the mean change and its direction; each person counted has a similar one who shows it."""
        return to_kind(changes.flips(self.findings, by), self.kind)

    def report(self, path: str | PathLike[str] | None = None) -> str | Path:
        """Return the report, one self-contained HTML page; with a ``path``, a file or a folder, write it there and
        return where it is."""
        page = to_html(facts_of(self.findings))
        if path is None:
            return page
        target = Path(path)
        target = target if target.suffix.lower() in (".html", ".htm") else target / "report.html"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic(target) as partial:
                partial.write_text(page, encoding="utf-8")
        except OSError as error:
            raise FileError(f"'path' cannot be written: {target}: {error.strerror or error}.") from error
        return target

    def model_card(self) -> str:
        """Return the section "Fairness" of a model card, in Markdown."""
        return to_model_card(facts_of(self.findings))

    def save(self, directory: str | PathLike[str] | None = None) -> Path:
        """Write report, certificate with its evidence, individuals and summaries into a ``directory``, by default
        ``audit-NAME``; signed where the plan has a key."""
        return write(
            self.findings,
            Path(directory or output_directory(self.plan.out, self.plan.name or self.findings.people.schema.name)),
            key=self.plan.key,
        )

    def dossier(self, path: str | PathLike[str] = "dossier", *, laws: str | PathLike[str] | None = None) -> Path:
        """Write the file that a compliance officer keeps into the folder ``path``: inputs, flips, proxies, impact
        ratios, a skeleton of technical documentation, limits, and the audit behind them.

        ``laws`` is a TOML file in the place of the one that names the laws, and the day they were looked up.
        """
        known = Laws.read(None if laws is None else Path(laws))
        return write_dossier(self.findings, path, laws=known, key=self.plan.key)

    def verify(self) -> Any:
        """Derive every claim again by the checker, which needs numpy and nothing of the library; return its report:
        ``accepted``, ``answer`` in words, ``claims``."""
        with tempfile.TemporaryDirectory() as folder:
            written = write(self.findings, Path(folder) / "audit")
            return import_module("isonomy_verify").verify(written / "certificate.json")

    def explain(self, who: str | int) -> Shown:
        """Return one person beside the worst counterpart; ``who`` is an id, or a row of the table."""
        people, local = self.findings.people, self.certificate.local
        if self.findings.redacted:
            raise ParameterError("'who' cannot be shown: the audit is redacted.")
        place = self._place(who)
        name = None if people.ids is None else people.ids[place]
        facts = facts_of_row(local, place, int(people.rows[place]), name=name)
        return Shown(facts, _text(row_to_terminal(facts, f"One of {len(people):,} people")))

    def _place(self, who: Any) -> int:
        """Return the place of the one person with an id, or in a row."""
        people = self.findings.people
        by_id = np.array([], dtype=int) if people.ids is None else np.flatnonzero(people.ids == text_of(who).strip())
        whole = isinstance(who, int | np.integer) and not isinstance(who, bool)
        places = by_id if len(by_id) or not whole else np.flatnonzero(people.rows == who)
        if len(places) != 1:
            column = "" if people.ids is None else f"an id of {people.schema.id!r}, or "
            several = f"; {len(places)} people have it" if len(places) else ""
            some = f"such as {people.ids[0]!r}" if people.ids is not None else f"such as {people.rows[0]}"
            raise ParameterError(
                template("who", f"{column}a row of the {len(people):,} that were audited, {some}{several}", who)
            )
        return int(places[0])

    def compare(self, other: Audit | str | PathLike[str]) -> Shown:
        """Return what changed from this audit to the ``other``, an audit or the directory of one."""
        from isonomy.records import read

        with tempfile.TemporaryDirectory() as folder:
            sides, tables = [], list[pd.DataFrame | None]()
            for place, each in enumerate((self, other)):
                audited = each if isinstance(each, Audit) else None
                where = Path(each) if audited is None else audited.save(Path(folder) / str(place))  # type: ignore[arg-type]
                sides.append(read(where))
                beside = where / "individuals.parquet" if where.is_dir() else where.with_name("individuals.parquet")
                tables.append(pd.read_parquet(beside) if beside.is_file() else None)
            facts = facts_of_change(sides[0], sides[1], tables)
        return Shown(facts, change_to_markdown(facts))

    def plot(self, by: str | None = None) -> Any:
        """Draw, for each group of a protected feature ``by``, how many decisions flip, are proved not to, and are open;
        return the figure of matplotlib."""
        pyplot = needed("matplotlib.pyplot", "plot", "A plot")
        people, local = self.findings.people, self.certificate.local
        name = by or next(iter(people.schema.protected), None)
        if name is not None and name not in people.schema.slices:
            raise ParameterError(template("by", f"one of the features {', '.join(people.schema.slices)}", by))
        groups = pd.Series("all", range(len(people))) if name is None else self.certificate.problem.raw(people.x)[name]
        decides = not (local.decision == "none").all()
        if self.findings.redacted and not decides:
            raise ParameterError("A plot of numbers shows single people, and the audit is redacted.")
        kinds = {"flippable": "flips (shown)", "certified": "cannot flip (proved)", "undecided": "open"}
        figure, axes = pyplot.subplots(figsize=(7, 1.5 + 0.4 * groups.nunique()), layout="constrained")
        if decides:
            counts = pd.crosstab(groups.astype(str).to_numpy(), local.decision).reindex(
                columns=list(kinds), fill_value=0
            )
            counts = counts[~(self.findings.redacted & protected_cells(counts.sum(axis=1).to_numpy(np.int64)))]
            left = np.zeros(len(counts))
            for kind, colour in zip(kinds, ("#b3261e", "#2e7d5b", "#b8b8b8"), strict=True):
                axes.barh(counts.index, counts[kind], left=left, label=kinds[kind], color=colour)
                left += counts[kind].to_numpy()
            axes.set_xlabel("people")
            axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
        else:
            names = sorted(groups.astype(str).unique())
            axes.boxplot(
                [local.lower[groups.astype(str) == each] for each in names], orientation="horizontal", tick_labels=names
            )
            axes.set_xlabel("change for a similar person (shown)")
        axes.set_ylabel(name or "")
        return figure

    def __repr__(self) -> str:
        return "\n".join(map(visible, (self._decisions(), self._gains(), self._proved())))

    def _repr_html_(self) -> str:
        """Return the report in a frame as high as a screen, which runs no script."""
        page = html.escape(to_html(facts_of(self.findings)), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:{SCREEN}px;border:0"></iframe>'

    def _decisions(self) -> str:
        """Return in a sentence whose decisions flip, and whose cannot."""
        findings = self.findings
        local, n = findings.certificate.local, f"{len(findings.people):,} {findings.noun}"
        kinds = findings.certificate.individuals.claims(findings.people.weights, None)["decisions"]
        if "none" in kinds:
            some = int((local.lower > 0).sum())
            return (
                f"{findings.title}: for {some:,} of {n} somebody similar gets another number; the number has no "
                "cut-off, so nothing is decided (threshold=)."
            )
        flips, proved = kinds.get("flippable", 0), kinds.get("certified", 0)
        rest = f"; {kinds['undecided']:,} are open" if kinds.get("undecided") else ""
        return findings.model.conditional(
            f"{findings.title}: for {flips:,} of {n} somebody similar gets another decision; for {proved:,} it "
            f"is proved that nobody similar does{rest}."
        )

    def _gains(self) -> str:
        """Return in a sentence who gains by being like a similar person."""
        findings = self.findings
        table = changes.flips(findings)
        if not len(table) and not findings.redacted:
            return "Nobody was shown who gains or loses."
        outcome, parts = findings.certificate.problem.outcome, []
        if outcome.favourable and outcome.classes:
            gain, lose = changes.counts(findings)
            parts = [f"{gain:,} would gain {findings.favourable} and {lose:,} would lose it"]
        elif not outcome.favourable:
            parts = ["no favourable outcome is named (favourable=)"]
        moved = table[table["from"] != table["to"]]
        for row in moved.head(MOST_CHANGES).to_dict("records"):
            ends = f": {row['decision']} → {row['becomes']}" if row["decision"] else ""
            mean = f"mean {row['mean_change']:+.3f}{ends}"
            parts.append(f"{row['attribute']} {row['from']} → {row['to']} for {row['people']:,} ({mean})")
        return f"Shown, by somebody similar: {'; '.join(parts) or 'changes of so few people that none is named'}."

    def _proved(self) -> str:
        """Return in a sentence what is proved, and how to check it."""
        findings, local = self.findings, self.certificate.local
        claims = findings.certificate.individuals.claims(findings.people.weights, None)
        upper, lower, furthest = claims["upper"], claims["lower"], float(local.lower.max())

        def shown(value: float, decimals: int) -> str:
            return at_least(value, decimals) if value > 0 else "none"

        places = decimals_of_bound(upper, findings.regression)
        highest = float(findings.certificate.individuals.highs(slice(None)).max())
        most = decimals_of_bound(highest, findings.regression)
        hidden = findings.redacted  # the largest change is that of one person
        if findings.model.head != "regression" and upper >= NOTHING:
            one = "" if hidden else f", and for one person of {shown(furthest, 4)}"
            return findings.model.conditional(
                "Nothing was proved of how much the output differs from that of anybody similar; shown is a difference "
                f"of {shown(lower, 4)} on average{one}."
            )
        one = f", for one person by at most {at_most(highest, most)} (shown: {shown(furthest, most)})"
        return findings.model.conditional(
            f"Proved: the output differs from that of anybody similar by at most {at_most(upper, places)} on average "
            f"(shown: {shown(lower, places)}){'' if hidden else one}. "
            'Check it: .verify(); see it: .report("audit/").'
        )


def _text(parts: Any) -> str:
    """Return what a terminal shows as plain text."""
    from rich.console import Console

    page = io.StringIO()
    console = Console(file=page, width=110, highlight=False, markup=False, emoji=False)
    for each in parts:
        console.print(each)
    return page.getvalue().rstrip()
