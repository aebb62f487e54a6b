"""The file that a compliance officer keeps: an audit in the order in which supervisors ask.

Nothing is proved here. What is proved or shown comes from the facts of the audit and bears the hash of its certificate;
proxies and impact ratios are counted on the audited people, and say so. What redaction hides is hidden here, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from isonomy.certificates.alone import ChangeAlone
from isonomy.errors import IsonomyError
from isonomy.escapes import for_markdown, for_spreadsheet, visible
from isonomy.fairness.impact import ALONE, SMALL, UNKNOWN, impact_ratios, rates_of_scores
from isonomy.fairness.proxies import proxies
from isonomy.report import words
from isonomy.report.facts import facts_of, further_verdicts
from isonomy.report.findings import Findings, role_of
from isonomy.report.groups import find_groupings
from isonomy.report.laws import Chapter, Item, Laws
from isonomy.report.numbers import either, percent, spoken
from isonomy.report.privacy import SMALLEST, Hidden, hidden_groups
from isonomy.report.sections import Fact, rewritten
from isonomy.report.similar import sampled_people, similar

KINDS = {
    "numeric": "number", "integer": "whole number", "ordinal": "ordered category", "categorical": "category",
}  # fmt: skip

TO_FILL_IN = "**To be filled in by the provider.**"

NO_ATTRIBUTE = "The schema names no protected attribute."

NO_DECISION = "the model decides nothing, it gives a number"

ASSUMED = " (taken for the better side, as no favourable outcome is named)"

MOST_PROXIES = 15
"""Proxies that the page lists, the strongest ones; the table has all."""

CERTIFICATE = "certificate_sha256"


class Dossier:
    """The pages and tables of a dossier; ``certificate`` is the hash of the certificate behind every number."""

    def __init__(self, findings: Findings, laws: Laws, certificate: str) -> None:
        self.findings, self.laws, self.certificate = findings, laws, certificate
        self.facts = facts_of(findings)
        self.shown = rewritten(self.facts, for_markdown)
        groupings, self.notes = find_groupings(findings.people)
        hidden: Hidden = hidden_groups(groupings) if findings.redacted else frozenset()
        self.groupings = groupings
        self.inputs = self._inputs()
        self.flips = self._flips()
        self.proxies = self._proxies(hidden)
        self.impact, self.rate = self._impact(hidden)

    def files(self) -> dict[str, str]:
        """Return the files by name."""
        tables = {
            "inputs.csv": self.inputs, "flips.csv": self.flips, "proxies.csv": self.proxies,
            "impact-ratios.csv": self.impact,
        }  # fmt: skip
        pages = {"dossier.md": self.page(), "annex-iv.md": self.annex(), "laws.toml": self.laws.text}
        return pages | {name: self._csv(table) for name, table in tables.items()}

    def _csv(self, table: pd.DataFrame) -> str:
        safe = table.map(lambda value: for_spreadsheet(value) if isinstance(value, str) else value)
        return safe.assign(**{CERTIFICATE: self.certificate}).to_csv(index=False, lineterminator="\n")

    def _inputs(self) -> pd.DataFrame:
        """Return a row for each input: what it is, whether it is read, and how far similar people may differ."""
        moves = {
            move.feature: move.reach if move.who == "everybody" else f"{move.reach}, for {move.who}"
            for move in similar(self.findings).moves
        }
        rows = []
        for feature in self.findings.people.schema.features:
            own = {"input": feature.name, "kind": KINDS[feature.kind], "role": role_of(feature) or "other"}
            own["read_by_the_model"] = "yes" if feature.name in self.findings.read else "no"
            rows.append(own | {"similar_people_may_differ": moves.get(feature.name, "equal")})
        return pd.DataFrame(rows)

    def _flips(self) -> pd.DataFrame:
        """Return a row for each question about attributes alone: flips that were shown, and proved impossible."""
        n, alone = len(self.findings.people), self.findings.alone
        rows: list[dict[str, Any]] = []
        for each, row in zip(self.findings.questions, self.facts["much"].tables[0].rows[1:], strict=True):
            if each.held:
                continue
            name = str(row[0].text)
            cells = {cell.text.code: cell.text for cell in row if isinstance(cell.text, Fact)}
            flips, kept = (
                cells[f"alone.{end}"].value if f"alone.{end}" in cells else None for end in ("flips", "kept")
            )
            rows.append({
                "changed": name, "attributes": either(each.features), "people": n, "flips_shown": flips,
                "proved_impossible": kept, "open": None if flips is None or kept is None else n - flips - kept,
                "average_change_shown_at_least": str(cells["alone.lower"]),
                "average_change_proved_at_most": str(cells["alone.upper"]),
                "unit": words.unit(self.findings) if self.findings.regression else "points of the score, 0 to 100",
                "in_the_certificate": _recorded(each),
                "note": self.findings.model.condition or "",
            })  # fmt: skip
        asked = {name for each in alone for name in each.features}
        for feature in self.findings.people.schema.features:
            if feature.protected and feature.name not in asked:
                why = "not asked" if feature.name in self.findings.read else "the model does not read it"
                rows.append({"changed": f"{spoken(feature.name)} alone", "attributes": spoken(feature.name),
                             "people": n, "in_the_certificate": "no", "note": why})  # fmt: skip
        columns = ["changed", "attributes", "people", "flips_shown", "proved_impossible", "open",
                   "average_change_shown_at_least", "average_change_proved_at_most", "unit", "in_the_certificate",
                   "note"]  # fmt: skip
        table = pd.DataFrame(rows, columns=columns)
        counts = ["flips_shown", "proved_impossible", "open"]
        return table.astype(dict.fromkeys(counts, "Int64"))

    def _proxies(self, hidden: Hidden) -> pd.DataFrame:
        """Return how well each input that is read predicts each group of each protected attribute, alone; without the
        groups that redaction hides, and the others that are set against them."""
        single = [each for each in self.groupings if len(each.attributes) == 1]
        table = proxies(self.findings.people, self.findings.read, single).round({"auc": 3, "low": 3, "high": 3})
        names = [zip(table["attribute"], table[side], strict=True) for side in ("group", "against")]
        shown = np.array([not {*pair} & hidden for pair in zip(*names, strict=True)], dtype=bool)
        return table[shown].reset_index(drop=True)

    def _impact(self, hidden: Hidden) -> tuple[pd.DataFrame, str]:
        """Return impact ratios, and what the rates are; no rows, and why, where there are none."""
        findings = self.findings
        group, rate = findings.group, f"share given {findings.favourable}"
        if not self.groupings:
            return pd.DataFrame(), " ".join(self.notes) or NO_ATTRIBUTE
        try:
            if group is None:
                group, rate, median = rates_of_scores(findings.model, findings.people)
                rate += "" if findings.redacted else f", {median:.6g}"
                label = findings.people.schema.label
                rate += "" if label is not None and label.favourable else ASSUMED
        except IsonomyError as error:
            return pd.DataFrame(), str(error)
        table = impact_ratios(group, findings.people, self.groupings, self.laws.least_share, hidden)
        return table.round(dict.fromkeys(("share", "rate", "low", "high", "ratio"), 4)), rate

    def page(self) -> str:
        """Return the page: six parts, each with the certificate's hash."""
        known = {fact.code: fact for fact in self.shown["summary"].facts}
        lines = [f"# Dossier: {known['title']}", "", for_markdown(self.laws.notice.strip()), ""]
        lines += ["| | |", "|---|---|"]
        lines += [_row(fact.words, fact) for fact in self.shown["check"].facts if fact.printed]
        lines += [_row("Audited", known["selection"]), _row("Date", known["created"]),
                  _row("Certificate", f"`audit/certificate.json`, SHA-256 `{self.certificate}`")]  # fmt: skip
        lines += ["", f"**{self.shown.headline}**", "", *self._verdict()]
        lines += [line for note in self.shown["summary"].notes for line in (f"Read this first: {note}", "")]
        lines += self._part_inputs() + self._part_flips() + self._part_proxies() + self._part_impact()
        lines += ["## 5. Technical documentation", ""]
        lines += ["`annex-iv.md` has the order of Annex IV of the AI Act: filled in is what this audit knows, the rest "
                  "is marked as to be filled in by the provider.", ""]  # fmt: skip
        lines += self._part_limits()
        return "\n".join(lines)

    def _verdict(self) -> list[str]:
        """Return the lines of what is held against ε, of all populations; none without ε."""
        if self.facts.verdict is None:
            return []
        others = (for_markdown(f"{sentence[:-1]}: {kind}.") for kind, sentence in further_verdicts(self.findings))
        return [line for text in (self.shown["summary"].sentences[0], *others) for line in (text, "")]

    def _part_inputs(self) -> list[str]:
        roles = self.inputs["role"].value_counts()
        read = int((self.inputs["read_by_the_model"] == "yes").sum())
        seen = "What the model does not read was seen in the model itself."
        if self.findings.model.condition:
            seen = "The model itself was not read: inputs that it is given count as read, whatever it does with them."
        counts = (
            f"The table has {len(self.inputs)} inputs, of which the model reads {read}. Protected: "
            f"{roles.get('protected', 0)}; declared proxies: {roles.get('proxy', 0)}. {seen} How far similar people "
            f"may differ was seen on {sampled_people(len(self.findings.people))}."
        )
        return ["## 1. Inputs of the model", "", counts, "", *_table(self.inputs), "", self._behind("inputs.csv"), ""]

    def _part_flips(self) -> list[str]:
        lines, behind = ["## 2. Only the protected attribute changed", ""], for_markdown(self.findings.model.behind)
        for row in self.flips.to_dict("records"):
            what = for_markdown(str(row["changed"]))
            if pd.isna(row["flips_shown"]):
                asked = pd.notna(row["unit"])
                lines += [f"- {what}: {NO_DECISION if asked else for_markdown(row['note'])}."]
                continue
            rest = f", {row['open']:,} open" if row["open"] else ""
            stands = {"yes": "", "no": " (shown only: not in the certificate)"}.get(
                row["in_the_certificate"], " (the certificate claims fewer of them)"
            )
            lines += [
                f"- {what}: {row['flips_shown']:,} flip{'s' * (row['flips_shown'] != 1)} of the decision shown, "
                f"{row['proved_impossible']:,} proved "
                f"impossible{rest}, of {row['people']:,} people{behind}{stands}."
            ]
        if not len(self.flips):
            lines += [NO_ATTRIBUTE]
        return [*lines, "", *_table(self.flips), "", self._behind("flips.csv"), ""]

    def _part_proxies(self) -> list[str]:
        strongest = self.proxies.dropna(subset="auc").sort_values("auc", ascending=False, kind="stable")
        text = (
            "How well one input alone tells a group from the others: the chance (AUC) that it puts a person of the "
            "group before one of the others, 0.5 or less for nothing, 1 for always. Counted on these people, with 95 % "
            "intervals; not proved, and not part of the certificate. Several inputs together may tell more."
        )
        shown = strongest.head(MOST_PROXIES).drop(columns="note")
        lines = _table(shown) if len(shown) else ["No input that the model reads could be set against a group."]
        return ["## 3. Proxies", "", text, "", *lines, "", self._behind("proxies.csv"), ""]

    def _part_impact(self) -> list[str]:
        people, least = self.findings.people, percent(self.laws.least_share)
        if not len(self.impact):
            why = "No group may be shown." if self.rate.startswith("share") else self.rate
            return ["## 4. Impact ratios", "", f"There are none. {for_markdown(why)}", "", ""]
        text = (
            f"The rate is the {for_markdown(self.rate)}; the ratio sets it against the highest rate among the groups "
            f"that are compared. Groups below {least} of the people ({SMALL}) and those of which a value is not known "
            f"({UNKNOWN}) are counted and not compared, nor is the only one that is left ({ALONE}). "
            f"{people.excluded:,} rows of the table did not fit the schema and are not counted. Counted on these "
            "people, with 95 % intervals; not proved."
        )
        hidden = (
            f" Groups of fewer than {SMALLEST} people are not shown, nor others that tell of them by subtraction: "
            "no ratio is to a group that is not shown."
        ) if self.findings.redacted else ""  # fmt: skip
        lines = ["## 4. Impact ratios", "", f"{text}{hidden}", ""]
        for title, rows in self.impact.groupby("attributes", sort=False):
            if "×" not in str(title):
                lines += [*_table(rows), ""]
        notes = [line for note in self.notes for line in (for_markdown(note), "")]
        return [*lines, "Intersections are in the table.", "", *notes, self._behind("impact-ratios.csv"), ""]

    def _part_limits(self) -> list[str]:
        lines = ["## 6. Limits", "", "What is not proved:", ""]
        lines += [f"- *{fact.words}.* {fact}" for fact in self.shown["asked"].facts if fact.code == "not_proved"]
        lines += ["", f"Laws, as they were looked up on {self.laws.looked_up.isoformat()} (`laws.toml`):", ""]
        lines += [f"- {for_markdown(law.name)}: {for_markdown(law.about)}. <{_link(law.link)}>" if law.link
                  else f"- {for_markdown(law.name)}: {for_markdown(law.about)}." for law in self.laws.laws]  # fmt: skip
        withheld = " --data FOLDER" if self.findings.redacted else ""
        check = f"isonomy verify audit/certificate.json{withheld}"
        return [*lines, "", f"Anybody can derive the claims again: `{check}`", "", self._behind("audit"), ""]

    def _behind(self, name: str) -> str:
        return f"*`{name}` · certificate `{self.certificate}`*"

    def annex(self) -> str:
        """Return the skeleton of the technical documentation, what is known filled in."""
        title = for_markdown(self.findings.title)
        lines = [f"# Technical documentation: {title}", "", for_markdown(self.laws.notice.strip()), ""]
        lines += [f"In the order of Annex IV as it was looked up on {self.laws.looked_up.isoformat()}. Numbers come "
                  f"from the audit behind certificate `{self.certificate}`.", ""]  # fmt: skip
        for chapter in self.laws.chapters:
            lines += _chapter(chapter, self._known())
        return "\n".join(lines)

    def _known(self) -> dict[str, list[str]]:
        """Return what the audit knows, as lines of Markdown, by the names of :data:`isonomy.report.laws.FILLS`."""
        facts, summary = self.shown, {fact.code: fact for fact in self.shown["summary"].facts}
        check = {fact.code: fact for fact in facts["check"].facts}
        hashes = {str(row[0].text): str(row[1].text) for row in facts["check"].tables[0].rows}
        proved = [f"{fact.words}: {fact}" for fact in facts["asked"].facts if fact.code == "proved"]
        scores = [f"{summary[code].words}: {summary[code]}" for code in summary if _is_score(code, summary[code])]
        identity = {name: check.get(f"identity.{name}") for name in ("Version", "Owner", "Purpose")}
        software = next(str(row[1].text) for row in facts["check"].tables[1].rows if str(row[0].text) == "version")
        model = [f"{check['model'].words}: {check['model']}"] if check["model"].printed else []
        read = self.inputs[self.inputs["read_by_the_model"] == "yes"]
        return {
            "purpose": _named("Purpose", identity["Purpose"]),
            "provider": _named("Named as owner", identity["Owner"]),
            "version": _named("Version", identity["Version"]),
            "software": [f"Audited with {software}.",
                         *(f"SHA-256 of {name}: `{each}`" for name, each in hashes.items())],
            "people": [f"Audited: {summary['selection']}."],
            "model": [*model, *(line for line in proved if line.startswith(_noun(self.findings)))],
            "similar": [f"Similar people may differ in {row['input']}: {row['similar_people_may_differ']}"
                        for row in _escaped(self.inputs) if row["similar_people_may_differ"] != "equal"],
            "data": [f"Table: {check['table']}. {check['description']}".strip(), f"Audited: {summary['selection']}."],
            "tests": [*scores, facts.headline, *filter(None, facts["finding"].sentences),
                      f"Certificate: SHA-256 `{self.certificate}`, to be derived again by `isonomy verify`."],
            "flips": [line.removeprefix("- ") for line in self._part_flips() if line.startswith("- ")],
            "groups": [f"Impact ratios: `impact-ratios.csv`. The rate is the {for_markdown(self.rate)}."]
            if len(self.impact) else [],
            "proxies": ["How well single inputs predict protected attributes: `proxies.csv`."],
            "inputs": [f"{len(read)} inputs are read: `inputs.csv`. The schema, with ranges and categories, is among "
                       "the evidence of the certificate."],
            "measures": [facts["summary"].sentences[1]],
            "limits": [f"Not proved. {fact.words}: {fact}" for fact in facts["asked"].facts
                       if fact.code == "not_proved"],
            "after": ["Whether the certificate still covers new people can be watched: `isonomy serve` (the monitor)."],
        }  # fmt: skip


def _recorded(alone: ChangeAlone) -> str:
    """Return whether a record claims all decisions of an answer, ``in part``, or none."""
    if alone.claimed is None:
        return "no"
    return "yes" if np.array_equal(alone.claimed.decision, alone.certificate.decided) else "in part"


def _noun(findings: Findings) -> str:
    """Return the name under which the facts say what the model is."""
    return for_markdown(findings.model.noun.capitalize())


def _is_score(code: str, fact: Fact) -> bool:
    return fact.words.endswith(", observed") and bool(fact.printed) and not code.startswith("direction")


def _named(what: str, fact: Fact | None) -> list[str]:
    return [] if fact is None or not fact.printed else [f"{what}: {fact}"]


def _chapter(chapter: Chapter, known: dict[str, list[str]]) -> list[str]:
    """Return a chapter as lines: its questions, what is known, and what the provider fills in."""
    lines = [f"## {for_markdown(chapter.number)}. {for_markdown(chapter.title)}", ""]
    for item in chapter.items:
        lines += [f"### {_numbered(item)}{for_markdown(item.asks)}", ""]
        filled = [line for name in item.fills for line in known[name]]
        lines += [*(f"- {line}" for line in filled), *([""] if filled else [])]
        lines += [f"{TO_FILL_IN} {'Check what stands above, and add what is missing.' if filled else ''}".strip(), ""]
    return lines


def _numbered(item: Item) -> str:
    if not item.number:
        return ""
    return f"({item.number}) " if len(item.number) == 1 else f"{for_markdown(item.number).capitalize()}: "


def _table(table: pd.DataFrame) -> list[str]:
    """Return a table in Markdown, without columns that are empty."""
    if not len(table):
        return []
    some = table[[name for name in table.columns if not (table[name].isna() | (table[name] == "")).all()]]
    heads = [name.replace("_", " ") for name in some.columns]
    rows = [_row(*row.values()) for row in _escaped(some)]
    return [_row(*heads), _row(*("---" for _ in heads)), *rows]


def _escaped(table: pd.DataFrame) -> list[dict[str, str]]:
    return [{str(name): _shown(value) for name, value in row.items()} for row in table.to_dict("records")]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return for_markdown(value)
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def _link(text: str) -> str:
    return "".join(c for c in visible(text) if c not in "<> ")
