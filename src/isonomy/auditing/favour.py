"""The favourable class of an outcome, guessed from the words of the classes.

Bare codes and answers (0 and 1, yes and no, true and false) say nothing: a default is coded 1 as often as a loan.
"""

from __future__ import annotations

import re

from isonomy.population import Label


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAVOURABLE = _word_set(
    "accept accepted acceptable admit admitted admission approve approved approval award awarded cleared eligible "
    "employed enrolled excellent favorable favourable funded good graduate graduated grant granted healthy hire hired "
    "insured invite invited issued offer offered paid pass passed promote promoted qualified recommend recommended "
    "released repaid repay selected solvent succeed succeeded success successful survived trusted win won"
)
UNFAVOURABLE = _word_set(
    "arrested bad bankrupt charged convicted decline declined default defaulted defaulter delinquent denied deny died "
    "dismissed dropout excluded expelled fail failed failure fired fraud fraudulent guilty ineligible insolvent late "
    "overdue poor recidivist refuse refused reject rejected rejection terminated unapproved unemployed "
    "unfavorable unfavourable unfit uninsured unpaid unqualified unsuccessful"
)
_NOT = frozenset(("no", "non", "not", "never", "without", "isnt", "didnt"))
_RISK = {"low": 1, "small": 1, "minimal": 1, "high": -1, "great": -1, "elevated": -1}
_INCOME = re.compile(r"^([<>]=?|≤|≥)\s*(?:[$€£]\s*\d[\d.,]*\s*k?|\d[\d.,]*\s*(?:k|[$€£]))$", re.IGNORECASE)


def favour_of(text: str) -> int | None:
    """Return 1 where a class is favourable by its words, −1 where not, 0 without such words; None: ambiguous."""
    income = _INCOME.match(text.strip())
    if income:
        return 1 if income[1][0] in ">≥" else -1
    words = re.findall(r"[a-z]+", text.casefold().replace("'", "").replace("’", ""))
    if "risk" in words or "risky" in words:
        signs = {_RISK.get(word, -1 if word == "risky" else 0) for word in words} - {0}
    else:
        signs = {1 if word in FAVOURABLE else -1 for word in words if word in FAVOURABLE or word in UNFAVOURABLE}
    if len(signs) != 1:
        return 0
    negations = [place for place, word in enumerate(words) if word in _NOT]
    if not negations:
        return signs.pop()
    # "Not approved" and "default: no" deny their word; in "denied, no income" another one is denied.
    after = words[negations[0] + 1 : negations[0] + 2]
    negated = len(negations) == 1 and set(after) <= FAVOURABLE | UNFAVOURABLE | set(_RISK)
    return -signs.pop() if negated else None


def guess_favourable(label: Label) -> tuple[str, ...]:
    """Return the favourable classes by their words; none where the words do not decide it.

    Of two classes it is enough that one of them is known to be favourable, or not to be.
    """
    signs = {name: favour_of(label.labels.get(name, name)) for name in label.classes}
    if None in signs.values():
        return ()
    favourable = tuple(name for name, sign in signs.items() if sign == 1)
    if not favourable and len(signs) == 2 and -1 in signs.values():
        favourable = tuple(name for name, sign in signs.items() if sign == 0)
    return favourable if 0 < len(favourable) < len(signs) else ()
