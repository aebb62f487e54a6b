"""The dossier says what the facts say, bears the certificate's hash, hides what redaction hides, marks what is open."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isonomy.auditing.dossier import DOSSIER_FILES, check_dossier, write_dossier
from isonomy.auditing.output import write
from isonomy.errors import FileError, ParameterError
from isonomy.escapes import for_markdown
from isonomy.files import file_hash
from isonomy.networks import Network
from isonomy.report.dossier import ASSUMED, CERTIFICATE, TO_FILL_IN, Dossier
from isonomy.report.facts import facts_of
from isonomy.report.findings import Findings
from isonomy.report.laws import Laws
from isonomy.report.sections import NOTHING, Fact
from isonomy.report.text import to_model_card

from .audits import audit

HASH = "c" * 64


def tables(findings: Findings) -> dict[str, pd.DataFrame]:
    files = Dossier(findings, Laws.read(), HASH).files()
    return {name: pd.read_csv(io.StringIO(text)) for name, text in files.items() if name.endswith(".csv")}


@pytest.mark.parametrize("head", ["softmax", "three", "regression"])
def test_flips_are_those_of_the_facts(head: str) -> None:
    findings = audit(head)
    table = tables(findings)["flips.csv"]
    shown = facts_of(findings)["much"].tables[0].rows[1:]
    assert len(table) == len(shown) == 3
    for row, told in zip(table.to_dict("records"), shown, strict=True):
        cells = {cell.text.code: cell.text for cell in told if isinstance(cell.text, Fact)}
        assert str(row["average_change_proved_at_most"]).replace(",", "") in (
            str(cells["alone.upper"]).replace(",", ""), f"{float(str(cells['alone.upper']).replace(',', ''))}"
        )  # fmt: skip
        if head == "regression":
            assert pd.isna(row["flips_shown"])
        else:
            assert row["flips_shown"] == cells["alone.flips"].value
            assert row["proved_impossible"] == cells["alone.kept"].value
            assert row["flips_shown"] + row["proved_impossible"] + row["open"] == row["people"]


def test_every_table_and_page_bears_the_hash() -> None:
    files = Dossier(audit(), Laws.read(), HASH).files()
    assert set(files) == DOSSIER_FILES - {"audit", "SHA256SUMS"}
    for name, text in files.items():
        if name.endswith(".csv"):
            assert (pd.read_csv(io.StringIO(text))[CERTIFICATE] == HASH).all(), name
    parts = files["dossier.md"].split("\n## ")[1:]
    assert len(parts) == 6 and all(HASH in part for part in parts if not part.startswith("5."))
    assert HASH in files["annex-iv.md"]


def test_claims_that_are_not_in_the_certificate_are_marked() -> None:
    findings = audit()
    first, *others = findings.alone
    unclaimed = Dossier(replace(findings, alone=(replace(first, claimed=None), *others)), Laws.read(), HASH)
    assert unclaimed.flips["in_the_certificate"].tolist() == ["no", "yes", "yes"]
    assert unclaimed.page().count("(shown only: not in the certificate)") == 1


def test_groups_that_are_hidden_are_in_no_table() -> None:
    whole, redacted = tables(audit()), tables(audit(redacted=True))
    for name in ("proxies.csv", "impact-ratios.csv"):
        assert whole[name]["group"].str.contains("other").any()
        assert not redacted[name]["group"].str.contains("other").any()
        assert not redacted[name].astype(str).eq("other").any(axis=None)
    assert whole["impact-ratios.csv"]["people"].min() < 5 <= redacted["impact-ratios.csv"]["people"].min()


def test_the_skeleton_has_the_order_of_the_law_and_marks_what_is_open() -> None:
    laws = Laws.read()
    annex = Dossier(audit(identity={"Purpose": "Loans"}), laws, HASH).annex()
    assert re.findall(r"^## (\d)\.", annex, re.MULTILINE) == [str(n) for n in range(1, 10)]
    assert annex.count(TO_FILL_IN) == sum(len(chapter.items) for chapter in laws.chapters)
    assert "- Purpose: Loans" in annex and laws.looked_up.isoformat() in annex
    page = Dossier(audit(), laws, HASH).page()
    assert "no legal advice" in page and all(law.name in page for law in laws.laws)


def test_words_of_others_are_neither_markup_nor_formulas() -> None:
    files = Dossier(audit(nasty=True), Laws.read(), HASH).files()
    assert "<script" not in files["dossier.md"].replace("\\<", "") and "](" not in files["annex-iv.md"]
    dossier = Dossier(audit(), Laws.read(), HASH)
    dossier.inputs = dossier.inputs.replace("income", "=1+1")
    text = dossier.files()["inputs.csv"]
    assert "\n'=1+1," in text and "\n=1+1," not in text


def test_a_written_dossier_holds_its_audit_and_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    for _ in range(2):
        write_dossier(audit(), target)
    assert {each.name for each in target.iterdir()} == DOSSIER_FILES
    behind = file_hash(target / "audit" / "certificate.json")
    assert behind in (target / "dossier.md").read_text(encoding="utf-8")
    for line in (target / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((target / name).read_bytes()).hexdigest() == digest
    (target / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileError, match=r"'dossier' must be a new directory .* 'notes\.txt'"):
        write_dossier(audit(), target)


def test_a_question_that_is_edited_stays_as_it_was_asked(tmp_path: Path) -> None:
    asked, kept = tmp_path / "out" / "question" / "audit.toml", tmp_path / "kept" / "audit" / "question" / "audit.toml"
    out = write(replace(audit(), question={"audit.toml": "epsilon = 0.1\n"}), tmp_path / "out")
    write_dossier(audit(), tmp_path / "kept", audit=out)
    before = kept.read_bytes()
    with asked.open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    assert kept.read_bytes() == before != asked.read_bytes()


def test_a_dossier_is_not_written_into_the_audit(tmp_path: Path) -> None:
    for folder, other in ((tmp_path / "a" / "b", tmp_path / "a"), (tmp_path, tmp_path / "a")):
        with pytest.raises(ParameterError, match="beside that of the audit"):
            check_dossier(folder, other)


LAWS = 'looked_up = 2030-01-02\nnotice = "Ask."\nleast_share = 0.5\n[[law]]\nname = "Our own"\n'


def test_other_laws_take_the_place(tmp_path: Path) -> None:
    file = tmp_path / "laws.toml"
    file.write_text(LAWS, encoding="utf-8")
    dossier = Dossier(audit(), Laws.read(file), HASH)
    assert "- Our own" in dossier.page() and "2030-01-02" in dossier.page() and "1607" not in dossier.page()
    assert (dossier.impact[dossier.impact["share"] < 0.5]["why"] == "small").all()
    assert dossier.files()["laws.toml"] == LAWS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("looked_up = 2030-01-02", 'looked_up = "soon"'), "'looked_up' must be a date"),
        (("least_share = 0.5", "least_share = 2"), "'least_share' must be a number"),
        (("name =", "nam ="), "unknown key 'nam'"),
        (('name = "Our own"', "name = 3"), "'name' must be a text"),
        (("[[law]]", '[[annex]]\nnumber = "1"\ntitle = "x"\nitems = [{number="", asks="", fills=["luck"]}]\n[[law]]'),
         "unknown key 'luck'"),
    ],
    ids=["date", "share", "key", "text", "fills"],
)  # fmt: skip
def test_a_wrong_file_of_laws_is_refused_by_its_place(tmp_path: Path, change: Any, words: str) -> None:
    file = tmp_path / "laws.toml"
    file.write_text(LAWS.replace(*change), encoding="utf-8")
    with pytest.raises(FileError, match=words):
        Laws.read(file)


def test_without_protected_attributes_it_says_so() -> None:
    findings = audit()
    schema = replace(
        findings.people.schema,
        features=tuple(replace(each, protected=False) for each in findings.people.schema.features),
    )
    bare = replace(findings, people=replace(findings.people, schema=schema), group=None, alone=())
    files = Dossier(bare, Laws.read(), HASH).files()
    assert files["dossier.md"].count("The schema names no protected attribute.") == 2
    assert "No input that the model reads could be set against a group." in files["dossier.md"]


def test_what_is_proved_under_a_condition_says_so() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "condition", "given these predictions", raising=False)
        page = Dossier(audit(title="asked"), Laws.read(), HASH).page()
    assert "people, given these predictions." in page
    assert "seen in the model itself" not in page and "The model itself was not read" in page


def test_numbers_that_are_conditional_decide_nothing() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "condition", "given these predictions", raising=False)
        page = Dossier(audit("regression", title="asked"), Laws.read(), HASH).page()
    assert page.count("alone: the model decides nothing, it gives a number.") == 2


def test_the_page_has_the_verdict_on_epsilon() -> None:
    findings = audit()
    assert findings.verdict is not None
    assert for_markdown(facts_of(findings)["summary"].sentences[0]) in Dossier(findings, Laws.read(), HASH).page()


def test_a_better_side_that_is_assumed_is_said_to_be() -> None:
    """High numbers may be risks."""
    named = audit(group=None)
    label = named.people.schema.label
    assert label is not None
    schema = replace(named.people.schema, label=replace(label, favourable=()))
    unnamed = replace(named, people=replace(named.people, schema=schema))
    assert ASSUMED not in Dossier(named, Laws.read(), HASH).rate
    assert Dossier(unnamed, Laws.read(), HASH).rate.endswith(ASSUMED)


def test_columns_that_read_alike_keep_their_own_moves() -> None:
    """``a_b`` and ``a b`` are the same words in a sentence, and two rows of the table."""
    findings = audit()
    alike = {"income": "a_b", "rank": "a b"}
    features = tuple(replace(each, name=alike.get(each.name, each.name)) for each in findings.people.schema.features)
    schema = replace(findings.people.schema, features=features)
    problem = replace(findings.certificate.problem, schema=schema)
    local = object.__new__(type(findings.certificate.local))
    local.__dict__.update(findings.certificate.local.__dict__ | {"problem": problem})
    certificate = object.__new__(type(findings.certificate))
    certificate.__dict__.update(findings.certificate.__dict__ | {"local": local})
    inputs = Dossier(
        replace(findings, people=replace(findings.people, schema=schema), certificate=certificate), Laws.read(), HASH
    ).inputs.set_index("input")["similar_people_may_differ"]
    assert inputs["a_b"].startswith("by up to 5%") and inputs["a b"] == "by up to 1 level more or less"


def test_a_card_claims_no_more_than_the_certificate() -> None:
    """Of a model of which only predictions are known it says so, and that nothing was proved is no bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "condition", "given these predictions", raising=False)
        card = to_model_card(facts_of(audit(title="asked again")))
    assert "| All of this holds | given these predictions |" in card and "Proved by" not in card
    assert Fact("upper", "Mean", 1.0, "up", True, NOTHING).bounded == NOTHING
    assert "certificate.json --data FOLDER" in to_model_card(facts_of(audit(redacted=True)))


@pytest.mark.parametrize("redacted", [False, True])
def test_the_median_is_somebodys_score(redacted: bool) -> None:
    dossier = Dossier(audit(redacted=redacted, group=None), Laws.read(), HASH)
    assert "above the median of all" in dossier.rate and any(map(str.isdigit, dossier.rate)) != redacted
