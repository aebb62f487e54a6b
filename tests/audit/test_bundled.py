"""The bundled audit as ``make audit`` runs it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from isonomy.audit import BundledAudit, run_bundled_audit, terminal
from isonomy.errors import DataError


@pytest.fixture(scope="module")
def audit() -> BundledAudit:
    return run_bundled_audit()


def test_it_proves_and_finds(audit: BundledAudit) -> None:
    found = audit.certificate
    assert len(found) == len(audit.people.test)
    assert (found.lower <= found.upper).all()
    assert audit.accuracy > 0.7  # the larger class alone has 0.7
    assert set(found.decision) <= {"certified", "flippable", "undecided"}
    assert (found.lower > 0.01).any(), "protected attributes do matter to this network"


def test_it_is_the_same_twice(audit: BundledAudit) -> None:
    again = run_bundled_audit()
    assert np.array_equal(again.certificate.upper, audit.certificate.upper)
    assert np.array_equal(again.certificate.lower, audit.certificate.lower)


def test_the_page_names_what_moves_and_the_worst_pair(audit: BundledAudit) -> None:
    console = Console(file=io.StringIO(), width=120)
    terminal.show(audit, console)
    page = console.file.getvalue()
    assert f"{audit.certificate.mean_upper:.3f}" in page and f"{audit.certificate.mean_lower:.3f}" in page
    for word in ("certified", "flippable", "undecided", "personal_status", "foreign_worker", "counterpart"):
        assert word in page


def test_an_error_is_one_sentence_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise DataError("Row 3, column 'age' is 17: it must lie between 18 and 80.")

    monkeypatch.setattr(terminal, "run_bundled_audit", fail)
    assert terminal.main() == 2
    assert "Row 3, column 'age'" in capsys.readouterr().out
