"""The facts of an audit: every number, rounded to the side on which it stays true, and every sentence, once.

:func:`facts_of` makes them of an audit, :mod:`isonomy.report.counterpart` of one person and
:mod:`~isonomy.report.comparison` of two audits. Renderers (:mod:`isonomy.report.html`, :mod:`~isonomy.report.terminal`,
:mod:`~isonomy.report.text`) choose a form, never a number or a word, so that page, terminal, Markdown, JSON and JUnit
cannot contradict each other. What redaction hides is not in the facts, so that no renderer can show it.
"""

from __future__ import annotations

import math
from collections import Counter
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.fairness import SCORES
from isonomy.report import words
from isonomy.report.counterpart import facts_of_row
from isonomy.report.drivers import drivers
from isonomy.report.findings import Findings
from isonomy.report.groups import groups
from isonomy.report.numbers import parameter, percent
from isonomy.report.people import DECISIONS, Group, all_people, find_groupings, group_tables, histogram, shares_of
from isonomy.report.privacy import SMALLEST, hidden_groups
from isonomy.report.sections import Cell, Fact, Facts, FactTable, Rounded, Section, exact, percentage, round_down, table
from isonomy.report.shifted import shift, worst_population
from isonomy.report.similar import sampled_people, similar

_MADE: WeakKeyDictionary[Findings, Facts] = WeakKeyDictionary()
"""The facts of the findings that are in memory, which every rendering asks for."""


def facts_of(audit: Findings) -> Facts:
    """Return the facts of an audit, made once; of a redacted one nothing that holds for one person only."""
    if audit not in _MADE:
        sheet = Sheet(audit)
        sections = (
            sheet.summary(), sheet.proved(), sheet.not_proved(), shift(audit, sheet.round), sheet.people(),
            sheet.decisions(), sheet.pairs(), drivers(audit, sheet.round), worst_population(audit, str(sheet.lower)),
            groups(audit, sheet.hidden, sheet.round), sheet.check(),
        )  # fmt: skip
        _MADE[audit] = Facts(sheet.headline, audit.verdict, sections, audit.redacted, sheet.marks)
    return _MADE[audit]


class Sheet:
    """The sections of an audit, one method each."""

    def __init__(self, audit: Findings) -> None:
        certificate = audit.certificate
        self.audit, self.certificate, self.redacted = audit, certificate, audit.redacted
        lower, upper = audit.claimed
        self.round = Rounded.of(lower, upper, certificate.epsilon, audit.regression, certificate.searched)
        self.similar = similar(audit)
        self.parameters = (
            exact("delta", "δ, similar", certificate.delta),
            *(exact(*term) for term in certificate.shift.terms()),
            exact("metric", "Metric", certificate.problem.metric.describe()),
            exact("domain", "Domain", certificate.problem.domain.kind),
            exact("tier", "Tier", certificate.tier),
            exact("epsilon", "ε, accepted", certificate.epsilon),
        )
        self.upper = self.round.proved("upper", f"{certificate.shift.mean_words}, proved", upper)
        self.lower = self.round.attained("lower", f"{certificate.shift.mean_words}, found", lower)
        unit = words.unit(audit) if audit.regression else ""
        # Claims have six decimals.
        reached = str(self.lower) if lower > 0 else "0.00000" if certificate.lower > 0 else None
        kind, mark, flips = words.decision_outcome(audit)
        bounds = certificate.headline(str(self.upper), reached, unit)
        self.headline = " ".join(filter(None, (words.unread_attributes(audit, self.similar), bounds, flips)))
        self.marks = ((audit.verdict or "none", words.MARKS[audit.verdict]), (kind, mark))
        self.sized = certificate.shift.ground_cost is not None  # a larger shift has more populations
        largest = audit.largest_gamma if self.sized else None
        printed = "any" if largest == math.inf else "" if largest is None else round_down(largest)
        self.largest = Fact("largest_gamma", "Proved within ε for shifts up to", largest, "down", True, printed)
        confidence = f"The population behind the sample, with confidence {certificate.confidence}"
        self.population = (
            exact("population.refusal", "The population behind the sample", certificate.refusal, "nothing is proved")
            if certificate.refusal
            else self.round.proved("population.upper", confidence, certificate.population_upper)
        )
        self.population_statement = words.population_statement(certificate, str(self.population))
        self.groupings, self.grouping_notes = find_groupings(audit.people)
        self.hidden = hidden_groups(self.groupings) if self.redacted else frozenset()
        self.total = all_people(audit)
        self.by_group = group_tables(audit, self.groupings, self.hidden)
        self.weighted = " Shares are of the sampling weights." if audit.people.schema.weight else ""

    def summary(self) -> Section:
        """Return the facts with stable codes, in the order of the document, and the sentences of the verdict."""
        audit, certificate, people = self.audit, self.certificate, self.audit.people
        local, epsilon = certificate.local, certificate.epsilon
        decided = sorted(Counter(local.decision.tolist()).items())
        verdicts = () if epsilon is None else sorted(Counter(local.verdict(epsilon).tolist()).items())
        group = None if audit.group is None else audit.group.four_fifths
        judged = "; ".join(f"{name}: {kind}" for name, kind in (group or {}).items())
        rule = f"Four-fifths rule for {audit.favourable}" if audit.favourable else "Four-fifths rule"
        limit = words.shift_limit(self.largest.value, str(self.largest)) if self.sized else ""
        measured = {shift.name: shift.distance for shift in audit.shifts}
        distances = [{"name": name, "estimate": each.estimate, "floor": each.floor, "lower": each.lower}
                     for name, each in measured.items()]  # fmt: skip
        far = (f"{name}: estimate {each.estimate:.4g} (floor {each.floor:.4g}), at least {round_down(each.lower)}"
               for name, each in measured.items())  # fmt: skip
        confidence = [exact("population.confidence", "Its confidence", certificate.confidence)]
        listing = (
            exact("remarks", "Notes", [audit.network.remark] if audit.network.remark else [], audit.network.remark),
            exact("title", "Audit", audit.title),
            exact("sentence", "In a sentence", self.headline),
            exact("individuals", "Individuals", len(people)),
            exact("excluded", "Rows that do not fit the schema", people.excluded),
            exact("split", "Part of the table", people.split),
            exact("selection", "Audited", people.selection.as_dict(), people.selection.words()),
            *self.parameters,
            exact("verdict", "Verdict", audit.verdict),
            self.upper,
            self.lower,
            self.round.proved("local.mean_upper", "Mean violation of these people, proved", local.mean_upper),
            self.round.attained("local.mean_lower", "Mean violation of these people, found", local.mean_lower),
            *(
                exact(f"decisions.{kind}", words.DECIDED[kind], n, f"{n:,} of {len(people):,}")
                for kind, n in decided
                if kind in words.DECIDED
            ),
            self.population,
            *([] if certificate.refusal else confidence),
            *(_score(code, name, audit.scores.get(code)) for code, name in SCORES.items()),
            exact("favourable", "Favourable outcome", list(certificate.favourable), audit.favourable),
            exact("threshold", "Cut-off", certificate.threshold),
            exact("four_fifths", rule, group, judged or audit.group_refusal),
            exact("shifts", "Distances", distances, "; ".join(far)),
            exact("sources", "SHA-256", dict(audit.sources), ""),
            exact("command", "The same audit again", audit.command),
            exact("created", "Made", audit.created),
            exact("redacted", "Redacted", audit.redacted, "no person’s row is shown" if audit.redacted else ""),
            *(exact(f"verdicts.{kind}", f"People for themselves {kind}", n) for kind, n in verdicts),
            *([] if epsilon is None or not self.sized else [self.largest]),
        )
        sentences = words.threshold(audit, limit), words.meaning(audit), self.population_statement
        return Section("summary", listing, sentences, notes=(*_order_note(audit), *self.similar.warnings))

    def proved(self) -> Section:
        """Return what the proof rests on, and the features in which δ lets similar people differ."""
        terms = [exact("proved", *term) for term in words.assumptions(self.audit, self.population_statement)]
        rows = [
            (Cell(move.feature, move.role if move.read else f"{move.role} not read by the network".strip()),
             move.who, move.reach, "–" if math.isnan(move.correlation) else f"{move.correlation:.2f}")
            for move in self.similar.moves
        ]  # fmt: skip
        note = f"Seen on {sampled_people(len(self.audit.people))}. "
        fixed = f"Not seen to differ, by more than a billionth of a unit: {', '.join(self.similar.fixed)}."
        notes = (fixed,) if self.similar.fixed else ()
        moves = table(
            "moves", "Features in which similar people can differ", "Feature", "Can differ for",
            "How far, in raw units", "Correlation with a protected attribute#", rows=rows,
            notes=(f"{note}Correlations are the largest in size, over all categories.",),
        )  # fmt: skip
        return Section("proved", tuple(terms), (words.unit(self.audit),), (moves,), notes)

    def not_proved(self) -> Section:
        """Return what a reader might take for proved and is not."""
        terms = words.not_proved(self.audit, self.similar, self.population_statement)
        return Section("not-proved", tuple(exact("not_proved", *term) for term in terms))

    def people(self) -> Section:
        """Return the distribution of violations over people and groups."""
        epsilon, bins, sentences = self.certificate.epsilon, histogram(self.audit), []
        end = bins[-1][1]
        if epsilon is not None:
            kinds = ("certified", "violated", "undecided")
            shares = shares_of(self.certificate.local.verdict(epsilon), self.audit.people.weights, kinds)
            listing = ", ".join(f"{percent(share)} {kind}" for kind, share in zip(kinds, shares, strict=True))
            sentences = [f"Each person for themselves against ε = {parameter(epsilon)}: {listing}.{self.weighted}"]
        counts = [
            (*map(self.round.plain, (low, high)), *(self._masked_count(count)[0] for count in (lower, upper)))
            for low, high, upper, lower in bins
        ]  # fmt: skip
        steps = table("histogram-table", "How many people have which unfairness", "From#", "To#",
                       "People by lower bound#", "People by upper bound#", rows=counts)  # fmt: skip
        heads = ["Group", "People#", "Spread@drawn", "Mean found, at least#", "Mean proved, at most#",
                 "Median, at most#", *([] if self.redacted else ["95% of people, at most#"])]  # fmt: skip
        averages = " Averages and boxes use the sampling weights." if self.weighted else ""
        tables = self._by_group("spread", "Unfairness by ", heads, lambda group: self._spread(group, end))
        bars = [
            (*some[:2], *(self._masked_count(count)[1] for count in some[2:]),
             f"unfairness {low} to {high}: {upper} people by upper bound, {lower} by lower bound")
            for some, (low, high, lower, upper) in zip(bins, counts, strict=True)
        ]  # fmt: skip
        sentences.append(f"on a scale from 0 to {end:.6g}.{averages}")
        return Section("people", self._extremes(), tuple(sentences), (steps, *tables), tuple(self.grouping_notes),
                       {"bars": bars})  # fmt: skip

    def _masked_count(self, count: int) -> tuple[str, float]:
        """Return a number of people as text and as the height of a bar; if redacted, small numbers are masked."""
        masked = self.redacted and 0 < count < SMALLEST
        return (f"1 to {SMALLEST - 1}", SMALLEST / 2) if masked else (f"{count:,}", float(count))

    def _spread(self, group: Group, end: float) -> list[Any]:
        upper = [group.mean[1], group.upper[2], *([] if self.redacted else [group.upper[4]])]
        return [
            group.name, exact("group.people", "People", group.people),
            Cell(drawn=("box", group, end, not self.redacted)),
            self.round.attained("group.mean", "Mean found", group.mean[0]),
            *(self.round.proved("group.upper", "At most", value) for value in upper),
        ]  # fmt: skip

    def _extremes(self) -> tuple[Fact, ...]:
        """Return median, 95 % quantile and largest violation; of a redacted audit the median alone."""
        names, local = ("median", "95% of people", "largest")[: 1 if self.redacted else 3], self.certificate.local
        listing: list[Fact] = []
        sides = ((self.round.proved, "spread.upper", self.total.upper, local.upper),
                 (self.round.attained, "spread.lower", self.total.lower, local.lower))  # fmt: skip
        for fact, code, own, each in sides:
            listing += [fact(code, *pair) for pair in zip(names, (own[2], own[4], float(each.max())), strict=False)]
        return tuple(listing)

    def decisions(self) -> Section:
        """Return the shares of decisions that are certified, flippable and undecided, by group."""
        if not (self.certificate.local.decision != "none").any():
            none = "The network gives numbers and no cut-off was stated, so there are no decisions that could change."
            return Section("decisions", (), (none,))
        certified, flippable, undecided = self.total.decisions
        share = f"between {percent(flippable)} and {percent(1 - certified)}" if undecided > 0 else percent(flippable)
        matter = f"differences that are not supposed to matter.{self.weighted}"
        hangs = f"So for {share} of people the decision hangs on {matter}"
        heads = ["Group", "People#", "Decisions@drawn", "Certified#", "Flippable#", "Undecided#"]
        return Section("decisions", (), (hangs,), self._by_group("decisions", "Decisions by ", heads, _decisions))

    def _by_group(self, code: str, title: str, heads: list[str], row: Any) -> tuple[FactTable, ...]:
        """Return one table for each attribute set, the total above the groups."""
        return tuple(
            table(f"{code}-{number}", f"{title}{each}", *heads, rows=map(row, some),
                   total=row(self.total), notes=notes)
            for number, (each, some, notes) in enumerate(self.by_group, 1)
        ) or (table(f"{code}-all", f"{title}everybody", *heads, rows=[row(self.total)]),)  # fmt: skip

    def pairs(self) -> Section:
        """Return the ten people with the largest lower bounds, with their worst counterparts."""
        if self.redacted:
            return Section("pairs", (), ("Left out: this report is redacted, and nobody’s row is on it.",))
        local, rows, names = self.certificate.local, self.audit.people.rows, self.audit.people.ids
        worst = [place for place in np.argsort(-local.lower, kind="stable")[:10].tolist() if local.lower[place] > 0]
        some = [
            facts_of_row(local, place, int(rows[place]), self.round, None if names is None else names[place])
            for place in worst
        ]
        searched = self.certificate.searched
        why = "a search found no similar person" if searched else "no search was made for similar people"
        none = () if some else (f"Nobody is shown: {why} with another answer.",)
        return Section("pairs", (), none, drawn={"pairs": some})

    def check(self) -> Section:
        """Return the hashes of all files and the parameters, from which a check begins."""
        audit, certificate = self.audit, self.certificate
        own = {"network, canonical form": audit.network.hash(), "schema": audit.people.schema.hash()}
        hashes = table("hashes", "SHA-256 of everything that went in", "Source", "SHA-256@hash",
                        rows=(dict(audit.sources) | own).items())  # fmt: skip
        rows = [(fact.words, str(fact) or "none") for fact in self.parameters]
        rows += [("upper, in full", str(certificate.upper)), ("lower, in full", str(certificate.lower))]
        rows += [("version", f"isonomy {version('isonomy')}")]
        parameters = table("parameters", "Parameters", "Name", "Value", rows=rows)
        about = exact("description", "About the table", audit.people.schema.description)
        return Section("check", (about,), tables=(hashes, parameters))


def _decisions(group: Group) -> list[Any]:
    shares = (percentage(f"group.{kind}", kind, share) for kind, share in zip(DECISIONS, group.decisions, strict=True))
    people = exact("group.people", "People", group.people)
    return [group.name, people, Cell(drawn=("stacked", group.decisions)), *shares]


def _order_note(audit: Findings) -> tuple[str, ...]:
    """Return a note on the order of classes under which the model agrees better with the labels, if any."""
    if audit.other_reading is None:
        return ()
    sentence = str(audit.other_reading)
    return (f"{sentence[0].upper()}{sentence[1:]}. It was audited as it is read, as was asked for (--as-read).",)


def _score(code: str, name: str, value: float | None) -> Fact:
    printed = "" if value is None else f"{value:.3f}"
    return exact(code, f"{name[0].upper()}{name[1:]}, observed", value, printed)
