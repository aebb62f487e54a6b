"""The facts of an audit: every number, rounded to the side on which it stays true, and every sentence, once.

:func:`facts_of` makes them of an audit, :mod:`isonomy.report.counterpart` of one person and
:mod:`~isonomy.report.comparison` of two audits. Renderers (:mod:`isonomy.report.html`, :mod:`~isonomy.report.terminal`,
:mod:`~isonomy.report.text`) choose a form, never a number or a word, so that page, terminal, Markdown, JSON and JUnit
cannot contradict each other. What redaction hides is not in the facts, so that no renderer can show it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.arithmetic import reached
from isonomy.certificates.certificate import Verdict
from isonomy.fairness import SCORES
from isonomy.report import words
from isonomy.report.directions import directions
from isonomy.report.findings import Findings
from isonomy.report.groups import find_groupings, groups
from isonomy.report.numbers import date_of, either, listed, round_up, spoken
from isonomy.report.people import drawn, everyone
from isonomy.report.privacy import hidden_groups
from isonomy.report.sections import Cell, Fact, Facts, FactTable, Rounded, Section, exact, rewritten, round_down, table
from isonomy.report.similar import sampled_people, similar
from isonomy.report.tomorrow import tomorrow
from isonomy.report.turns import KINDS, Turns

MOST_LINES = 400
"""People who have a line each in a figure."""

_MADE: WeakKeyDictionary[Findings, Facts] = WeakKeyDictionary()
"""The facts of the findings that are in memory, which every rendering asks for."""


def facts_of(audit: Findings) -> Facts:
    """Return the facts of an audit, made once; of a redacted one nothing that holds for one person only."""
    if audit not in _MADE:
        sheet = Sheet(audit)
        sections = (
            sheet.summary(), sheet.finding(), sheet.who(), sheet.much(), sheet.tomorrow,
            groups(audit, sheet.groupings, sheet.hidden, sheet.round), everyone(audit, sheet.turns, sheet.round),
            sheet.asked(), sheet.check(),
        )  # fmt: skip
        _MADE[audit] = Facts(
            sheet.headline, audit.verdict, tuple(_with_noun(each, audit.noun) for each in sections), audit.redacted,
            sheet.marks,
        )  # fmt: skip
    return _MADE[audit]


_PEOPLE = re.compile(r"“[^”]*”|\b([Tt]hese|[Tt]hese very|\d[\d,]*|\d[\d,]* more) people\b")
"""People of the table in a sentence; names of the table are quoted."""


_OWN = ("populations-table", "behind", "histogram-table")
"""Tables whose cells are sentences of ours."""


def _with_noun(section: Section, noun: str) -> Section:
    """Return a section whose own sentences call the people of the table by a noun; names, values and commands stay."""
    if noun == "people":
        return section

    def renamed(text: str) -> str:
        return _PEOPLE.sub(lambda match: f"{match[1]} {noun}" if match[1] else match[0], text)

    facts = tuple(
        each if each.code in ("title", "command", "favourable") else
        replace(each, words=renamed(each.words), printed=renamed(each.printed)) for each in section.facts
    )  # fmt: skip
    tables = tuple(
        replace(
            each, title=renamed(each.title), notes=rewritten(each.notes, renamed),
            rows=rewritten(each.rows, renamed) if each.code in _OWN else each.rows,
        )
        for each in section.tables
    )  # fmt: skip
    sentences, notes = rewritten((section.sentences, section.notes), renamed)
    drawn = rewritten(section.drawn, renamed) if section.code == "finding" else section.drawn
    return replace(section, facts=facts, tables=tables, sentences=sentences, notes=notes, drawn=drawn)


def further_verdicts(audit: Findings) -> list[tuple[Verdict, str]]:
    """Return the verdicts on the shifts besides the first that were asked about, each with a sentence; none without
    epsilon."""
    facts, still = facts_of(audit), audit.certificate.shift.ground_cost is None
    if facts.verdict is None or not audit.shifts_asked:
        return []
    verdicts = facts["tomorrow"].facts[1 + still :]  # behind the list for machines, and the verdict on the first shift
    return [(fact.value, f"{fact.words}, against the same ε.") for fact in verdicts]


class Sheet:
    """The sections of an audit, one method each."""

    def __init__(self, audit: Findings) -> None:
        certificate = audit.certificate
        self.audit, self.certificate, self.redacted = audit, certificate, audit.redacted
        lower, upper = audit.claimed
        points = not audit.regression
        self.round = Rounded.of(lower, upper, certificate.epsilon, audit.regression, certificate.searched, points)
        self.similar, self.turns = similar(audit), Turns(audit)
        self.upper = self.round.proved("upper", f"{certificate.shift.mean_words}, proved", upper)
        self.lower = self.round.attained("lower", f"{certificate.shift.mean_words}, shown", lower)
        self.parameters = (
            exact("delta", "How far similar people may differ, δ", certificate.delta),
            *(exact(*term) for term in certificate.shift.terms()),
            exact("metric", "Metric", certificate.problem.metric.describe()),
            exact("domain", "Domain", certificate.problem.domain.kind),
            exact("tier", "Method", certificate.tier, words.METHODS.get(certificate.tier)),
            exact("epsilon", "ε, accepted", certificate.epsilon),
        )
        least = reached(self.round.lower(lower)) if certificate.lower > 0 else ""
        finding = words.finding(audit, self.turns, self.similar)
        self.size = audit.model.conditional(words.size(audit, str(self.upper), least, self.round))
        self.direction = words.direction(audit, self.turns)
        self.headline = audit.model.conditional(
            " ".join(filter(None, (words.unread_attributes(audit, self.similar), finding)))
        )
        kind, mark = words.outcome(audit, self.turns)
        self.marks = tuple(
            (each, f"{text}{audit.model.behind}")
            for each, text in ((kind, mark), (audit.verdict or "none", words.MARKS[audit.verdict]))
        )
        self.sized = certificate.shift.ground_cost is not None  # a larger shift has more populations
        largest = audit.largest_gamma if self.sized else None
        printed = "any" if largest == math.inf else "" if largest is None else round_down(largest)
        self.largest = Fact("largest_gamma", certificate.shift.largest_words, largest, "down", True, printed)
        confidence = f"The population behind the sample, with confidence {certificate.confidence}"
        self.population = (
            exact("population.refusal", "The population behind the sample", certificate.refusal, "nothing is proved")
            if certificate.refusal
            else self.round.proved("population.upper", confidence, self._behind())
        )
        self.population_statement = words.population_statement(certificate, f"{self.population}{self.round.unit}")
        self.groupings, self.grouping_notes = find_groupings(audit.people)
        self.hidden = hidden_groups(self.groupings) if self.redacted else frozenset()
        self.open_groups = {
            (grouping.title, name) for grouping in self.groupings for name in grouping.names
            if not self.redacted or (grouping.title, name) not in self.hidden
        }  # fmt: skip
        self.tomorrow = tomorrow(audit, self.round, self.population, self.open_groups)

    def _behind(self) -> float:
        """Return the bound for the population behind the sample, as the claims have it where these have one."""
        still = self.certificate.shift.ground_cost is None
        own = self.certificate.shift_claims[0].get("behind") if still else None
        return self.certificate.population_upper if own is None else float(own["upper"])

    def summary(self) -> Section:
        """Return the facts with stable codes, in the order of the document, and the sentences of the verdict."""
        audit, certificate, people = self.audit, self.certificate, self.audit.people
        local, epsilon = certificate.local, certificate.epsilon
        decided = local.decision_counts.items()
        verdicts = () if epsilon is None else sorted(Counter(local.verdict(epsilon).tolist()).items())
        group = None if audit.group is None else audit.group.four_fifths
        judged = "; ".join(f"{name}: {kind}" for name, kind in (group or {}).items())
        rule = f"Four-fifths rule for {audit.favourable}" if audit.favourable else "Four-fifths rule"
        limit = words.shift_limit(self.largest.value, str(self.largest), certificate.shift.up_to) if self.sized else ""
        measured = {shift.name: shift.distance for shift in audit.shifts}
        distances = [{"name": name, "estimate": each.estimate, "floor": each.floor, "lower": each.lower}
                     for name, each in measured.items()]  # fmt: skip
        far = (f"{name}: estimate {each.estimate:.4g} (floor {each.floor:.4g}), at least {round_down(each.lower)}"
               for name, each in measured.items())  # fmt: skip
        confidence = [exact("population.confidence", "Its confidence", certificate.confidence)]
        counted, behind = f" of {len(people):,}", audit.model.behind
        listing = (
            exact("remarks", "Notes", [audit.model.remark] if audit.model.remark else [], audit.model.remark),
            exact("title", "Audit", audit.title),
            exact("sentence", "In a sentence", self.headline),
            exact("individuals", "People", len(people)),
            exact("excluded", "Rows that do not fit the schema", people.excluded),
            exact("split", "Part of the table", people.split),
            exact("selection", "Audited", people.selection.as_dict(), people.selection.words()),
            *self.parameters,
            exact("verdict", "Verdict", audit.verdict, f"{audit.verdict}{behind}" if audit.verdict else None),
            *([exact("condition", "All of this holds", audit.model.condition)] if audit.model.condition else []),
            self.upper,
            self.lower,
            self.round.proved("local.mean_upper", "Average of these people, proved", local.mean_upper),
            self.round.attained("local.mean_lower", "Average of these people, shown", local.mean_lower),
            *(exact(f"changed.{kind}", f"{words.CHANGED[kind]}{behind}", n, f"{n:,}{counted}")
              for kind, n in (self.turns.counts().items() if audit.alone else ())),
            *(exact(f"decisions.{kind}", f"{words.DECIDED[kind]}{behind}", n, f"{n:,}{counted}")
              for kind, n in decided if kind in words.DECIDED),
            *self._direction_facts(),
            self.population,
            *([] if certificate.refusal else confidence),
            *(_score(code, name, audit.scores.get(code)) for code, name in SCORES.items()),
            *([exact("everywhere", "All possible people", [each.claim() for each in audit.gaps], "")]
              if audit.gaps else []),
            exact("favourable", "Favourable outcome", list(certificate.favourable), audit.favourable),
            exact("threshold", "Cut-off", certificate.threshold),
            exact("four_fifths", rule, group, judged or audit.group_refusal),
            exact("shifts", "Distances", distances, "; ".join(far)),
            self.tomorrow.facts[0],
            exact("sources", "SHA-256", dict(audit.sources), ""),
            exact("command", "The same audit again", audit.command),
            exact("created", "Made", audit.created, date_of(audit.created)),
            exact("redacted", "Redacted", audit.redacted, "no person’s row is shown" if audit.redacted else ""),
            *(exact(f"verdicts.{kind}", f"People for themselves {kind}{behind}", n) for kind, n in verdicts),
            *([] if epsilon is None or not self.sized else [self.largest]),
        )  # fmt: skip
        sentences = words.threshold(audit, limit), words.meaning(audit), self.population_statement
        return Section("summary", listing, sentences, notes=(*_order_note(audit), *self.similar.warnings))

    def _direction_facts(self) -> list[Fact]:
        """Return how many people have, would gain and would lose the favourable outcome, where one is named."""
        if self.turns.direction is None:
            return []
        names = ("today", "Given the favourable outcome today"), ("gain", "Would gain it"), ("lose", "Would lose it")
        sums = (int(each.sum()) for each in self.turns.direction)
        return [exact(f"direction.{code}", what, n) for (code, what), n in zip(names, sums, strict=True)]

    def finding(self) -> Section:
        """Return who changes and who does not, in three or four numbers, and the figure of everybody."""
        counts, only = self.turns.counts(), "" if self.turns.unproved else "only "
        labels = {
            "alone": "would be decided otherwise with other protected attributes alone",
            "together": f"{only}if other things differ" if self.audit.joint is not None
            else "would be decided otherwise with the differences asked about",
            "never": "proved: nothing that was asked about changes them",
            "open": "neither shown nor proved",
        }  # fmt: skip
        facts = tuple(
            exact(f"split.{kind}", labels[kind], counts[kind]) for kind in KINDS
            if counts and (counts[kind] or (kind == "alone" and self.audit.joint is not None) or kind == "never")
        )  # fmt: skip
        sentences = (self.direction, self.size)
        data = drawn(self.audit, self.turns, self.round, MOST_LINES)
        bins = [(*map(self.round.plain, each[:2]), each[-1].partition(": ")[2]) for each in data["bins"]]
        steps = table("histogram-table", "How many people have how large a change", "From#", "To#", "People", rows=bins)
        axis = words.unit(self.audit) if self.audit.regression else "points of the score, 0 to 100"
        return Section(
            "finding",
            facts,
            sentences,
            (steps,),
            drawn=data
            | {
                "axis": axis,
                "score": words.score(self.audit),
                "points": self.round.points,
                "split": [(fact.code.removeprefix("split."), fact.value) for fact in facts],
            },
        )

    def who(self) -> Section:
        """Return who gains and who loses."""
        return directions(self.audit, self.turns, self.round, self.direction, self.open_groups)

    def much(self) -> Section:
        """Return bounds of the largest change: of the whole question, of the protected attributes, of all but these, of
        each alone."""
        audit, rows = self.audit, []
        asked = [("Everything that was asked about", either(self._others()), audit.certificate.local)]
        for each in audit.questions:
            name = either(each.features)
            first = "Protected attributes only" if len(each.features) > 1 else f"{name[0].upper()}{name[1:]} alone"
            note = name if len(each.features) > 1 else ""
            if each.held:
                first, others = "Other differences only", [x for x in self._others() if x not in each.features]
                note = f"{either(others)}; {listed([*map(spoken, each.features)])} as they are"
            asked.append((first, note, each.certificate))
        end = round_up(max((each.mean_upper for *_, each in asked if math.isfinite(each.mean_upper)), default=1.0))
        heads = ["May differ@wide", f"0 to {self.round.plain(end)}@drawn"]
        heads += ["Average shown, at least#", "Proved, at most#"]
        heads += [] if self.redacted else ["For one person proved, at most#"]
        decides = self.turns.decides
        heads += ["Decisions shown to change#", "Proved to stay#"] if decides else []
        for name, note, local in asked:
            kinds = Counter(local.decision_counts)
            rows.append([
                Cell(name, note=note),
                Cell(drawn=("between", local.mean_lower, local.mean_upper, end)),
                self.round.attained("alone.lower", "Average shown", local.mean_lower),
                self.round.proved("alone.upper", "Average proved", local.mean_upper),
                *([] if self.redacted else [self.round.proved("alone.most", "Largest", float(local.upper.max()))]),
                *([exact("alone.flips", "Shown to change", kinds["flippable"]),
                   exact("alone.kept", "Proved to stay", kinds["certified"])] if decides else []),
            ])  # fmt: skip
        shown = table("alone", "The same question, one attribute at a time: everything else equal", *heads, rows=rows,
                      notes=words.tolerances(audit, self.similar))  # fmt: skip
        return Section("much", (), (self.size,), (shown, *([self._everywhere()] if audit.gaps else [])))

    def _everywhere(self) -> FactTable:
        """Return what protected attributes alone change for any possible person, as the certificate claims it."""
        rows, round_, decides = [], replace(self.round, searched=True), self.audit.gaps[0].decision is not None
        for each in self.audit.gaps:
            claim = each.claim()
            turned = words.CHANGES.get(claim["decision"])
            rows.append([
                either(each.features),
                *([exact("everywhere.decision", "Another decision", claim["decision"], turned)]
                  if decides else []),
                round_.attained("everywhere.lower", "Shown", claim["lower"]),
                round_.proved("everywhere.upper", "Proved", claim["upper"]),
            ])  # fmt: skip
        asked = "does it alone change the decision, and by how much at most" if decides else "how much it alone changes"
        heads = (
            "Alone@wide",
            *(["Another decision"] if decides else []),
            "Change shown, at least#",
            "Proved, at most#",
        )
        return table("everywhere", f"For anybody at all: {asked}", *heads, rows=rows, notes=(words.EVERYWHERE,))

    def _others(self) -> list[str]:
        return [move.feature for move in self.similar.moves if move.read]

    def asked(self) -> Section:
        """Return in what similar people may differ, what the proof rests on, and what was not proved."""
        rows: list[Any] = [
            (Cell(spoken(move.feature), move.role if move.read else f"{move.role} not read by the model".strip()),
             move.reach, "" if move.who == "everybody" else f"for {move.who}")
            for move in self.similar.moves
        ]  # fmt: skip
        fixed = self.similar.fixed
        if fixed:
            rest = spoken(fixed[0]) if len(fixed) == 1 else f"All {len(fixed)} others"
            rows.append((rest if rows else "Everything", "equal", ""))
        note = f"Seen on {sampled_people(len(self.audit.people))}."
        equal = f"Not seen to differ, by more than a billionth of a unit: {', '.join(map(spoken, fixed))}."
        moves = table("moves", "How far similar people may differ", "Attribute@wide", "How far@wide", "", rows=rows,
                      notes=(note, equal) if fixed else (note,))  # fmt: skip
        terms = [exact("proved", *term) for term in words.asked(self.audit, self.population_statement)]
        limits = words.not_proved(self.audit, self.similar, self.population_statement, self._unseen())
        facts = (*terms, *(exact("not_proved", *term) for term in limits))
        return Section("asked", facts, (words.meaning(self.audit),), (moves,), tuple(self.grouping_notes))

    def _unseen(self) -> str:
        """Return which categories of features that may differ no one here has; not of a redacted audit."""
        people, empty = self.audit.people, []
        for feature in people.schema.features if not self.redacted else ():
            if feature.kind == "categorical" and (feature.protected or feature.proxy):
                block = np.asarray(people.x[:, people.schema.slices[feature.name]])
                absent = np.flatnonzero(~block.any(axis=0)).tolist()
                empty += [
                    f"“{feature.labels.get(feature.levels[i], feature.levels[i])}” of {spoken(feature.name)}"
                    for i in absent
                ]
        if not empty:
            return ""
        names = ", ".join(empty[:6]) + (f" and {len(empty) - 6} more" if len(empty) > 6 else "")
        return f"None of these people has {names}: the model may never have seen one."

    def check(self) -> Section:
        """Return the hashes of all files and the parameters, from which a check begins."""
        audit, certificate = self.audit, self.certificate
        own = {f"{audit.model.noun}, canonical form": audit.model.hash(), "schema": audit.people.schema.hash()}
        hashes = table("hashes", "SHA-256 of everything that went in", "Source", "SHA-256@hash",
                        rows=(dict(audit.sources) | own).items())  # fmt: skip
        rows = [(fact.words, str(fact) or "none") for fact in self.parameters]
        rows += [("upper, in full", str(certificate.upper)), ("lower, in full", str(certificate.lower))]
        rows += [("version", f"isonomy {version('isonomy')}")]
        parameters = table("parameters", "Parameters", "Name", "Value@hash", rows=rows)
        about = exact("description", "About the table", audit.people.schema.description)
        model = exact("model", "Model", audit.model.name)
        people = exact("table", "Table", audit.people.schema.name)
        named = (exact(f"identity.{name}", name, value) for name, value in audit.identity.items() if value)
        return Section("check", (about, model, people, *named), tables=(hashes, parameters))


def _order_note(audit: Findings) -> tuple[str, ...]:
    """Return a note on the order of classes under which the model agrees better with the labels, if any."""
    if audit.other_reading is None:
        return ()
    sentence = str(audit.other_reading)
    return (f"{sentence[0].upper()}{sentence[1:]}. It was audited as it is read, as was asked for (--as-read).",)


def _score(code: str, name: str, value: float | None) -> Fact:
    printed = "" if value is None else f"{value:.3f}"
    return exact(code, f"{name[0].upper()}{name[1:]}, observed", value, printed)
