"""What an audit has to say: every number, rounded to the side on which it stays true, and every sentence, once.

:func:`facts_of` says it of an audit, :mod:`isonomy.report.pairs` of one person, and of two audits. Renderers
(:mod:`isonomy.report.html`, :mod:`~isonomy.report.terminal`, :mod:`~isonomy.report.text`) choose a form, never a number
or a word, so that page, terminal, Markdown, JSON and JUnit cannot contradict each other. What redaction hides is not in
the facts, so that no renderer can show it.
"""

from __future__ import annotations

import math
from collections import Counter
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.report import words
from isonomy.report.drivers import drivers
from isonomy.report.findings import Findings
from isonomy.report.groups import groups
from isonomy.report.model import Cell, Fact, Facts, FactTable, Rounded, Section, down, exact, part, table
from isonomy.report.numbers import parameter, percent
from isonomy.report.pairs import facts_of_row
from isonomy.report.people import DECISIONS, Group, everybody, find_groupings, group_tables, histogram, shares_of
from isonomy.report.privacy import SMALLEST, hidden_groups
from isonomy.report.shifted import shift, worst_population
from isonomy.report.similar import similar, whom

OBSERVED = {
    "accuracy": "Accuracy, observed", "balanced_accuracy": "Balanced accuracy, observed", "auc": "AUC, observed",
    "log_loss": "Log-loss, observed", "mean_absolute_error": "Mean absolute error, observed", "r2": "R², observed",
}  # fmt: skip
"""How well predictions agree with the outcomes of these people, beside the verdict; :func:`isonomy.fairness.scores`."""


_MADE: WeakKeyDictionary[Findings, Facts] = WeakKeyDictionary()
"""The facts of the findings that are in memory, which every rendering asks for."""


def facts_of(audit: Findings) -> Facts:
    """Return the facts of an audit, made once; of a redacted one nothing that holds for one person only."""
    if audit not in _MADE:
        _MADE[audit] = _facts(audit)
    return _MADE[audit]


def _facts(audit: Findings) -> Facts:
    sheet = Sheet(audit)
    sections = (
        sheet.summary(), sheet.proved(), sheet.not_proved(), shift(audit, sheet.round), sheet.people(),
        sheet.decisions(), sheet.pairs(), drivers(audit, sheet.round), worst_population(audit, str(sheet.lower)),
        groups(audit, sheet.hidden, sheet.round), sheet.check(),
    )  # fmt: skip
    return Facts(sheet.headline, audit.verdict, sections, audit.redacted, sheet.marks)


class Sheet:
    """The sections of an audit, one method each."""

    def __init__(self, audit: Findings) -> None:
        found = audit.certificate
        self.audit, self.found, self.redacted = audit, found, audit.redacted
        lower, upper = audit.claimed
        self.round = Rounded.of(lower, upper, found.epsilon, audit.regression, found.searched)
        self.similar = similar(audit)
        self.asked = (
            exact("delta", "δ, similar", found.delta),
            exact("gamma", "γ, shift", found.gamma),
            exact("order", "Order of the Wasserstein distance", found.order),
            exact("ground", "Ground cost", found.ground.describe(), words.cost_name(found)),
            exact("metric", "Metric", found.question.metric.describe()),
            exact("domain", "Domain", found.question.domain.kind),
            exact("tier", "Tier", found.tier),
            exact("epsilon", "ε, accepted", found.epsilon),
        )
        self.upper = self.round.proved("upper", "Mean violation within γ, proved", upper)
        self.lower = self.round.found("lower", "Mean violation within γ, found", lower)
        unit = words.unit(audit) if audit.regression else ""
        reached = str(self.lower) if lower > 0 else "0.00000" if found.lower > 0 else None  # claims have six decimals
        kind, mark, flips = words.turned(audit)
        said = (words.unread(audit, self.similar), found.headline(str(self.upper), reached, unit), flips)
        self.headline = " ".join(filter(None, said))
        self.marks = ((audit.verdict or "none", words.MARKS[audit.verdict]), (kind, mark))
        largest = audit.largest_gamma
        printed = "any" if largest == math.inf else "" if largest is None else down(largest)
        self.largest = Fact("largest_gamma", "Proved within ε for shifts up to", largest, "down", True, printed)
        confidence = f"The population behind the sample, with confidence {found.confidence}"
        self.population = (
            exact("population.refusal", "The population behind the sample", found.refusal, "nothing is proved")
            if found.refusal
            else self.round.proved("population.upper", confidence, found.population_upper)
        )
        self.behind = words.behind(found, str(self.population))
        self.groupings, self.grouping_notes = find_groupings(audit.people)
        self.hidden = hidden_groups(self.groupings) if self.redacted else frozenset()
        self.whole = everybody(audit)
        self.split = group_tables(audit, self.groupings, self.hidden)
        self.weighted = " Shares are of the sampling weights." if audit.people.schema.weight else ""

    def summary(self) -> Section:
        """The facts with stable codes, in the order in which machines read them, and the sentences of the verdict."""
        audit, found, people = self.audit, self.found, self.audit.people
        decided = sorted(Counter(found.local.decision.tolist()).items())
        verdicts = () if found.epsilon is None else sorted(Counter(found.local.verdict(found.epsilon).tolist()).items())
        group = None if audit.group is None else audit.group.four_fifths
        judged = "; ".join(f"{name}: {kind}" for name, kind in (group or {}).items())
        rule = f"Four-fifths rule for {audit.favourable}" if audit.favourable else "Four-fifths rule"
        kept = words.reach(self.largest.value, str(self.largest))
        measured = {shift.name: shift.distance for shift in audit.shifts}
        distances = [{"name": name, "estimate": each.estimate, "floor": each.floor, "lower": each.lower}
                     for name, each in measured.items()]  # fmt: skip
        far = (f"{name}: estimate {each.estimate:.4g} (floor {each.floor:.4g}), at least {down(each.lower)}"
               for name, each in measured.items())  # fmt: skip
        listing = (
            exact("remarks", "Notes", [audit.network.remark] if audit.network.remark else [], audit.network.remark),
            exact("title", "Audit", audit.title),
            exact("sentence", "In a sentence", self.headline),
            exact("individuals", "Individuals", len(people)),
            exact("excluded", "Rows that do not fit the schema", people.excluded),
            exact("split", "Part of the table", people.split),
            exact("selection", "Audited", people.selection.as_dict(), people.selection.words()),
            *self.asked,
            exact("verdict", "Verdict", audit.verdict),
            self.upper,
            self.lower,
            self.round.proved("local.mean_upper", "Mean violation of these people, proved", found.local.mean_upper),
            self.round.found("local.mean_lower", "Mean violation of these people, found", found.local.mean_lower),
            *(
                exact(f"decisions.{kind}", words.DECIDED[kind], n, f"{n:,} of {len(people):,}")
                for kind, n in decided
                if kind in words.DECIDED
            ),
            self.population,
            *([] if found.refusal else [exact("population.confidence", "Its confidence", found.confidence)]),
            *(exact(code, what, getattr(audit, code), _three(getattr(audit, code))) for code, what in OBSERVED.items()),
            exact("favourable", "Favourable outcome", list(found.favourable), audit.favourable),
            exact("threshold", "Cut-off", found.threshold),
            exact("four_fifths", rule, group, judged or audit.group_refusal),
            exact("shifts", "Distances", distances, "; ".join(far)),
            exact("sources", "SHA-256", dict(audit.sources), ""),
            exact("command", "The same audit again", audit.command),
            exact("created", "Made", audit.created),
            exact("redacted", "Redacted", audit.redacted, "no person’s row is shown" if audit.redacted else ""),
            *(exact(f"verdicts.{kind}", f"People for themselves {kind}", n) for kind, n in verdicts),
            *([] if found.epsilon is None else [self.largest]),
        )
        return Section("summary", listing, (words.threshold(audit, kept), words.meaning(audit), self.behind),
                       notes=(*_other(audit), *self.similar.warnings))  # fmt: skip

    def proved(self) -> Section:
        """What the proof rests on, and what δ allows."""
        terms = [exact("proved", *term) for term in words.assumptions(self.audit, self.behind)]
        rows = [
            (Cell(move.feature, move.role if move.read else f"{move.role} not read by the network".strip()),
             move.who, move.reach, "–" if math.isnan(move.correlation) else f"{move.correlation:.2f}")
            for move in self.similar.moves
        ]  # fmt: skip
        note = f"Seen on {whom(len(self.audit.people))}. "
        none = f"Not seen to differ, by more than a billionth of a unit: {', '.join(self.similar.still)}."
        still = (none,) if self.similar.still else ()
        moves = table(
            "moves", "Features in which similar people can differ", "Feature", "Can differ for",
            "How far, in raw units", "Correlation with a protected attribute#", rows=rows,
            notes=(f"{note}Correlations are the largest in size, over all categories.",),
        )  # fmt: skip
        return Section("proved", tuple(terms), (words.unit(self.audit),), (moves,), still)

    def not_proved(self) -> Section:
        """What a reader might take for proved and is not."""
        terms = words.not_proved(self.audit, self.similar, self.behind)
        return Section("not-proved", tuple(exact("not_proved", *term) for term in terms))

    def people(self) -> Section:
        """How violations are spread over people and groups."""
        epsilon, bins, said = self.found.epsilon, histogram(self.audit), []
        end = bins[-1][1]
        if epsilon is not None:
            kinds = ("certified", "violated", "undecided")
            shares = shares_of(self.found.local.verdict(epsilon), self.audit.people.weights, kinds)
            listing = ", ".join(f"{percent(share)} {kind}" for kind, share in zip(kinds, shares, strict=True))
            said = [f"Each person for themselves against ε = {parameter(epsilon)}: {listing}.{self.weighted}"]
        counts = [
            (*map(self.round.plain, (low, high)), *(self._few(count)[0] for count in (lower, upper)))
            for low, high, upper, lower in bins
        ]  # fmt: skip
        steps = table("histogram-table", "How many people have which unfairness", "From#", "To#",
                       "People by lower bound#", "People by upper bound#", rows=counts)  # fmt: skip
        heads = ["Group", "People#", "Spread@drawn", "Mean found, at least#", "Mean proved, at most#",
                 "Median, at most#", *([] if self.redacted else ["95% of people, at most#"])]  # fmt: skip
        averages = " Averages and boxes use the sampling weights." if self.weighted else ""
        tables = self._by_group("spread", "Unfairness by ", heads, lambda group: self._spread(group, end))
        bars = [
            (*some[:2], *(self._few(count)[1] for count in some[2:]),
             f"unfairness {low} to {high}: {upper} people by upper bound, {lower} by lower bound")
            for some, (low, high, lower, upper) in zip(bins, counts, strict=True)
        ]  # fmt: skip
        said.append(f"on a scale from 0 to {end:.6g}.{averages}")
        return Section("people", self._extremes(), tuple(said), (steps, *tables), tuple(self.grouping_notes),
                       {"bars": bars})  # fmt: skip

    def _few(self, count: int) -> tuple[str, float]:
        """A number of people, and the height of its bar; a few are not told apart where they must not be."""
        few = self.redacted and 0 < count < SMALLEST
        return (f"1 to {SMALLEST - 1}", SMALLEST / 2) if few else (f"{count:,}", float(count))

    def _spread(self, group: Group, end: float) -> list[Any]:
        upper = [group.mean[1], group.upper[2], *([] if self.redacted else [group.upper[4]])]
        return [
            group.name, exact("group.people", "People", group.people),
            Cell(drawn=("box", group, end, not self.redacted)),
            self.round.found("group.mean", "Mean found", group.mean[0]),
            *(self.round.proved("group.upper", "At most", value) for value in upper),
        ]  # fmt: skip

    def _extremes(self) -> tuple[Fact, ...]:
        """Median, 95 % and largest violation; of a redacted audit the median alone."""
        names, local = ("median", "95% of people", "largest")[: 1 if self.redacted else 3], self.found.local
        listing: list[Fact] = []
        for fact, code, own, each in ((self.round.proved, "spread.upper", self.whole.upper, local.upper),
                                      (self.round.found, "spread.lower", self.whole.lower, local.lower)):  # fmt: skip
            listing += [fact(code, *pair) for pair in zip(names, (own[2], own[4], float(each.max())), strict=False)]
        return tuple(listing)

    def decisions(self) -> Section:
        """Who can get another decision."""
        if not (self.found.local.decision != "none").any():
            none = "The network gives numbers and no cut-off was stated, so there are no decisions that could change."
            return Section("decisions", (), (none,))
        certified, flippable, undecided = self.whole.decisions
        share = f"between {percent(flippable)} and {percent(1 - certified)}" if undecided > 0 else percent(flippable)
        matter = f"differences that are not supposed to matter.{self.weighted}"
        hangs = f"So for {share} of people the decision hangs on {matter}"
        heads = ["Group", "People#", "Decisions@drawn", "Certified#", "Flippable#", "Undecided#"]
        return Section("decisions", (), (hangs,), self._by_group("decisions", "Decisions by ", heads, _decisions))

    def _by_group(self, code: str, title: str, heads: list[str], row: Any) -> tuple[FactTable, ...]:
        """One table for each attribute set, everybody above the groups."""
        return tuple(
            table(f"{code}-{number}", f"{title}{each}", *heads, rows=map(row, some),
                   total=row(self.whole), notes=notes)
            for number, (each, some, notes) in enumerate(self.split, 1)
        ) or (table(f"{code}-all", f"{title}everybody", *heads, rows=[row(self.whole)]),)  # fmt: skip

    def pairs(self) -> Section:
        """The most unfairly treated people, with those who are similar to them."""
        if self.redacted:
            return Section("pairs", (), ("Left out: this report is redacted, and nobody’s row is on it.",))
        local, rows, names = self.found.local, self.audit.people.rows, self.audit.people.ids
        worst = [place for place in np.argsort(-local.lower, kind="stable")[:10].tolist() if local.lower[place] > 0]
        some = [
            facts_of_row(local, place, int(rows[place]), self.round, None if names is None else names[place])
            for place in worst
        ]
        why = "a search found no similar person" if self.found.searched else "no search was made for similar people"
        none = () if some else (f"Nobody is shown: {why} with another answer.",)
        return Section("pairs", (), none, drawn={"pairs": some})

    def check(self) -> Section:
        """From which files, with which parameters: what a check begins with."""
        audit, found = self.audit, self.found
        own = {"network, canonical form": audit.network.hash(), "schema": audit.people.schema.hash()}
        hashes = table("hashes", "SHA-256 of everything that went in", "Source", "SHA-256@hash",
                        rows=(dict(audit.sources) | own).items())  # fmt: skip
        rows = [(fact.words, str(fact) or "none") for fact in self.asked]
        rows += [("upper, in full", str(found.upper)), ("lower, in full", str(found.lower))]
        rows += [("version", f"isonomy {version('isonomy')}")]
        parameters = table("parameters", "Parameters", "Name", "Value", rows=rows)
        about = exact("description", "About the table", audit.people.schema.description)
        return Section("check", (about,), tables=(hashes, parameters))


def _decisions(group: Group) -> list[Any]:
    shares = (part(f"group.{kind}", kind, share) for kind, share in zip(DECISIONS, group.decisions, strict=True))
    people = exact("group.people", "People", group.people)
    return [group.name, people, Cell(drawn=("stacked", group.decisions)), *shares]


def _other(audit: Findings) -> tuple[str, ...]:
    """The other order of the classes, under which the model agrees better with the labels."""
    if audit.other_reading is None:
        return ()
    said = str(audit.other_reading)
    return (f"{said[0].upper()}{said[1:]}. It was audited as it is read, as was asked for (--as-read).",)


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
