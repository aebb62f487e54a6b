"""Sentences about an audit: what is proved, its assumptions, and what is not proved.

In sentences for people a violation is also called unfairness, and an individual a person; nowhere else.
"""

from __future__ import annotations

import math

from isonomy.certificates.certificate import Certificate
from isonomy.report.findings import Findings
from isonomy.report.numbers import either, listed, parameter, percent, spoken, whole_percent
from isonomy.report.sections import NOTHING, Rounded
from isonomy.report.similar import Similar, caveat
from isonomy.report.turns import KINDS, Turns
from isonomy.similarity import Counterparts

MARKS = {
    "certified": "Average within the limit", "violated": "Average beyond the limit",
    "undecided": "Average open against the limit", None: "No limit was set",
}  # fmt: skip

DECISIONS = {
    "certified": "No similar person can get another decision.",
    "flippable": "A similar person with another decision was found.",
    "undecided": "Whether a similar person can get another decision is not decided.",
    "none": "The model decides nothing, it gives a number.",
}

DECIDED = {
    "certified": "Decisions proved to stay",
    "flippable": "Decisions shown to change",
    "undecided": "Decisions that are open",
}

CHANGED = {
    "alone": "Decisions shown to change by protected attributes alone",
    "together": "Decisions shown to change where other things differ",
    "never": "Decisions proved to change by neither",
    "open": "Decisions of which neither is shown nor proved",
}

CHANGES = {"shown": "yes, a pair shows it", "impossible": "no, proved", "open": "not known"}

EVERYWHERE = (
    "Of any two people whom the schema allows, in the table or not, who are equal in everything else; whether such "
    "people exist was not asked. The change shown is that of one pair, sought by the raw score: another one, also "
    "of the table, may change by more."
)

DOMAINS = {
    "realizable": "Every comparison is with somebody whom the schema allows: whole categories, whole numbers where it "
    "says so, values in their ranges. Whether such a person exists was not asked.",
    "relaxed": "Comparisons include mixtures of categories that nobody has (relaxed domain), so the bounds also cover "
    "people who cannot exist.",
    "unbounded": "Comparisons include values outside every range and mixtures of categories (unbounded domain), so the "
    "bounds also cover people who cannot exist.",
}

EXACT = "The bounds hold in exact arithmetic; the rounding errors of computing them in float64 are added to them."
FLOAT32 = " They also cover runs of the deployed model in float32."

METHODS = {"interval": "bounds that are quick", "tight": "bounds that are close"}
"""What the ways to bound are called, where their own name says little."""

Terms = list[tuple[str, str]]
"""Names and statements."""


def meaning(findings: Findings) -> str:
    """Return what a violation is in this audit."""
    names, model = findings.outputs, findings.model
    if findings.regression:
        changing = f"the predicted {names[0]}" if len(names) == 1 else "any predicted number"
    elif len(names) == 2 and model.exclusive:
        changing = f"the predicted probability of {findings.favourable or f'“{names[1]}”'}"
    else:
        changing = f"the predicted probability of any of the {len(names)} classes"
    return (
        f"Bounded is, for each person, the largest change of {changing} when nothing happens but that the person is "
        "replaced by somebody similar; the certificate calls it a violation."
    )


def unread_attributes(findings: Findings, similar: Similar) -> str:
    """Return which protected attributes are not read, and what is bounded instead; "" where all are read.

    **Soundness.** An attribute counts as read unless no path of non-zero weights leads from it to an output. The other
    features in which similar people may differ are those of the people sampled.
    """
    protected = list(findings.people.schema.protected)
    without = [name for name in protected if name not in findings.read]
    if not without:
        return ""
    if len(without) < len(protected):
        reads = listed([name for name in protected if name in findings.read])
        names, it = listed(without), "it" if len(without) == 1 else "them"
        return f"The model reads {reads}, but not {names}: changing {it} alone changes nothing."
    *some, last = protected
    sentence = f"The model reads neither {', '.join(some)} nor {last}: changing them alone changes nothing."
    if not some:
        sentence = f"The model does not read {last}: changing it alone changes nothing."
    others = [spoken(move.feature) for move in similar.moves if move.read]
    if not others:
        return f"{sentence} It reads nothing else in which similar people may differ, {caveat(len(findings.people))}."
    return f"{sentence} What is bounded is the effect of {listed(others)}, in which similar people may differ too."


def outcome(findings: Findings, turns: Turns) -> tuple[str, str]:
    """Return whether decisions can change: a kind as of verdicts, and a few words."""
    n, counts = len(findings.people), turns.counts()
    if not counts:
        return "undecided", "no decisions judged"
    changed = counts["alone"] + counts["together"]
    if changed:
        return "violated", f"{changed:,} of {n:,} decisions can change"
    if counts["open"]:
        return "undecided", f"{counts['open']:,} of {n:,} decisions open"
    return "certified", "no decision can change"


def finding(findings: Findings, turns: Turns, similar: Similar) -> str:
    """Return the result in one sentence: for how many people the protected attributes alone would change the decision,
    for how many only together with other differences, and of how many it is proved that neither can.

    **Soundness.** "Would" is said of those for whom a checked witness shows it, "proved" of certified decisions.
    """
    counts, n, protected = turns.counts(), len(findings.people), findings.together
    others = [move.feature for move in similar.moves if move.read and move.feature not in protected]
    small = any(move.role for move in similar.moves if move.feature in others)
    with_others = f"{'a' if small else 'a small'} difference of {either(others)}"
    if not counts:
        cut = "the model gives numbers, and no cut-off was named: --threshold, or threshold in [label] of the schema"
        return f"No decisions were judged: {cut}."
    alone, together, never, left = (counts[kind] for kind in KINDS)
    what = f"another {either(protected)} alone" if protected else with_others if others else "nothing that was asked of"
    both = bool(protected and others)
    if never == n:
        also = f", alone or together with {with_others}" if both else ""
        thing = f"another {either(protected)}" if protected else with_others
        thing = thing if protected or others else "anything that was asked of"
        return f"For none of {n:,} {findings.noun} can {thing}{also} change the decision: that is proved."

    def some(count: int) -> str:
        return f"{count:,} of {n:,} {findings.noun} ({whole_percent(count, n)})"

    if not findings.certificate.searched and not alone + together:
        thing = f"another {either(protected)}" if protected else with_others
        also = f", alone or together with {with_others}," if both else ""
        proof = f"For {some(never)} it is proved that {thing}{also} cannot change the decision"
        return f"{proof}; for {left:,} it is open, as no search was made."
    clauses = []

    if protected:
        clauses.append(f"For {some(alone)} {what} would change the decision")
        clauses += _others(findings, turns, with_others)
    else:
        clauses.append(f"For {some(together)} {what} would change the decision")
    if never:
        nothing = "neither can" if both else "it cannot"
        clauses.append(f"; for {never:,} it is proved that {nothing}")
    if left:
        why = "" if findings.certificate.searched else ", as no search was made"
        clauses.append(f"; for {left:,} neither is shown nor proved{why}")
    return f"{''.join(clauses)}."


def _others(findings: Findings, turns: Turns, with_others: str) -> list[str]:
    """Return clauses on those whose decision the protected attributes alone were not shown to change.

    **Soundness.** "Only" is said where it is proved that the attributes alone change nothing, and of both together
    where that is proved of the other differences alone, too.
    """
    both, others = int(turns.both.sum()), int(turns.others.sum())
    only = "" if turns.unsure else "only "
    if findings.held is None:
        left = f" (for {turns.unsure:,} of them whether it alone would is open)" if turns.unsure else ""
        return [f", for {both:,} {only}where {with_others} is allowed, too{left}"] if both else []
    left = f" (for {turns.unsure:,} of them whether one of the two alone would is open)" if turns.unsure else ""
    what = "such a difference" if both else with_others
    return [
        *([f", for {both:,} {only}together with {with_others}{left}"] if both else []),
        *([f", for {others:,} {'others ' if both else ''}{what} alone would"] if others else []),
    ]


def tolerances(findings: Findings, similar: Similar) -> tuple[str, ...]:
    """Return what is known of the other differences with the protected attributes as they are, where these were not
    asked about apart; nothing where there are none of either.

    **Soundness.** Who differs in these only is among those of the whole question, whose upper bounds hold for them.
    """
    others = [move.feature for move in similar.moves if move.read and move.feature not in findings.together]
    if findings.held is not None or not findings.together or not others:
        return ()
    what = f"How much {either(others)} would change with the protected attributes as they are was not asked by itself"
    return (f"{what}: what is proved in the first row holds for that, too.",)


def direction(findings: Findings, turns: Turns) -> str:
    """Return how many people would gain and lose the favourable outcome; "" where none is named or decided."""
    named = findings.favourable
    if turns.direction is None:
        return ""
    good, gain, lose = turns.direction
    has, lacks = int(good.sum()), int((~good).sum())
    return (
        f"{int(gain.sum()):,} of the {lacks:,} {findings.noun} not given {named} would be given it as somebody like "
        f"them, and {int(lose.sum()):,} of the {has:,} given it would not be (shown, each by an example)."
    )


def size(findings: Findings, upper: str, lower: str, rounded: Rounded) -> str:
    """Return how large the changes are on average, ``upper`` and ``lower`` already rounded."""
    shift = findings.certificate.shift
    who = "" if shift.alone else f"in any {shift.words('these people')} "
    what, unit_ = score(findings), rounded.unit or f" ({unit(findings)})"
    one = "" if shift.alone else f", in one {shift.noun}"  # and not in each
    shown = f"by at least {lower} (shown{one})" if lower else "a search found no change"
    shown = shown if findings.certificate.searched else "no search was made"
    most = f"by at most {upper}{unit_} on average (proved)" if upper != NOTHING else f"on average: {NOTHING}"
    text = f"{who}{what} can change {most}; {shown}."
    return text[0].upper() + text[1:]


def score(findings: Findings) -> str:
    """Return what changes, in a few words."""
    names = findings.outputs
    if findings.regression:
        return f"the predicted {spoken(names[0])}" if len(names) == 1 else "any predicted number"
    if len(names) == 2 and findings.model.exclusive:
        return f"the score (the probability of {findings.favourable or f'“{names[1]}”'}, 0 to 100)"
    return f"the score (the probability of any of {len(names)} classes, 0 to 100)"


def unit(findings: Findings) -> str:
    """Return the phrase for the unit of a violation."""
    if not findings.regression:
        return "as a probability, 0 to 1"
    return f"in the unit of {findings.outputs[0]}" if len(findings.outputs) == 1 else "in the unit of the outputs"


def shift_limit(largest: float | None, printed: str, up_to: str) -> str:
    """Return the phrase for the largest shift for which ε is proved."""
    if largest is None:
        return "not even for these people"
    if not printed.strip("0."):
        return "for these people, without a shift"
    return "whatever the shift" if math.isinf(largest) else f"{up_to} {printed}"


def threshold(findings: Findings, limit: str) -> str:
    """Return the verdict against ε; ``limit`` is the phrase of :func:`shift_limit`, "" where the shift has none."""
    if findings.verdict is None or findings.certificate.epsilon is None:
        return "This is a finding and no verdict: no ε was given to hold it against."
    epsilon = parameter(findings.certificate.epsilon)
    beyond = "nothing beyond it was found" if findings.certificate.searched else "no search was made"
    shift = findings.certificate.shift
    shown = "these people show it" if shift.alone else f"a {shift.noun} shows it"
    text = {
        "certified": f"The average is within the accepted ε = {epsilon}, with proof.",
        "violated": f"The average is beyond the accepted ε = {epsilon}: {shown}.",
        "undecided": f"Whether the average keeps the accepted ε = {epsilon} is open: more is allowed, and {beyond}.",
    }[findings.verdict]
    return findings.model.conditional(f"{text} Proved to stay within ε: {limit}." if limit else text)


def asked(findings: Findings, behind: str) -> Terms:
    """Return what the proof rests on: names and statements."""
    certificate, people = findings.certificate, findings.people
    weighted = " Averages use their sampling weights." if people.schema.weight else ""
    fitted = f", fitted on {certificate.problem.metric.fitted_on}" if certificate.problem.metric.fitted_on else ""
    own = certificate.problem.metric
    terms = [
        ("People", f"{people.selection.words(people.schema.name)}.{weighted}"),
        (findings.model.noun.capitalize(), findings.model.words),
        ("Arithmetic", f"{EXACT}{FLOAT32 if certificate.arithmetic == 'float32' else ''}"),
        ("Possible people", DOMAINS[certificate.problem.domain.kind]),
        certificate.shift.assumption(),
        ("People behind the sample", behind),
    ]
    if not isinstance(own, Counterparts) or certificate.delta != 1:
        how = f"Distance at most δ = {parameter(certificate.delta)} by this metric: {own.describe()}{fitted}."
        terms.insert(3, ("Similar people", how))
    return terms


def not_proved(findings: Findings, similar: Similar, behind: str, unseen: str) -> Terms:
    """Return what a reader might take for proved and is not: names and statements; ``unseen`` names categories that
    none of the people has."""
    certificate = findings.certificate
    moved = certificate.shift.distance_cost is not None
    outside = [each.name for each in findings.shifts if moved and each.distance.lower > certificate.gamma]
    beyond = f" Already outside: {listed(outside)}." if outside else ""
    accuracy = findings.scores.get("accuracy")
    right = "" if accuracy is None else f" It was right for {percent(accuracy)} of these people, which was observed."
    terms = [
        ("That this is the right comparison", "The metric is a choice: who counts as similar was decided by people, in "
         "the schema and the metric, and another choice gives other numbers."),
        certificate.shift.limit(beyond),
        *(each.limit("") for each in certificate.shifts),
        ("Between shown and proved", "In the gap between what was shown and what was proved the truth is unknown."),
        ("That the model is right", f"Not accuracy: a model can be fair in this sense and wrong.{right}"),
        ("What is observed", "Shares of groups, their intervals and what everybody would get with another category are "
         "counted on these people, by running the model."),
        ("Why", "What changes a decision here is not a statement about causes."),
        ("What happens around the model", "How data are collected, and who overrules the model."),
    ]  # fmt: skip
    if certificate.refusal:
        terms.insert(2, ("Everybody they stand for", behind))
    if unseen:
        terms.insert(-1, ("That the table means what it says", unseen))
    who = findings.people.selection
    if who.how != "all" or who.part != "all" or who.excluded:
        terms.insert(0, ("The other rows of the table", f"Audited were {who.words()}; {certificate.shift.elsewhere}."))
    return list(dict.fromkeys(terms))


def population_statement(certificate: Certificate, upper: str) -> str:
    """Return the statement on the population behind the sample, ``upper`` already rounded, or why there is none."""
    if certificate.refusal:
        return f"Nothing is said of the population behind these people. {certificate.refusal}"
    who = "the population behind these people"
    whose = certificate.shift.behind_words or f"no {certificate.shift.words(who)}"
    what = f"{whose} has an average largest change above {upper}"
    if certificate.shift.ground_cost is None and certificate.shift.alone:
        what = f"{who} has an average largest change of at most {upper}"
    return (
        f"With confidence {parameter(certificate.population.confidence)} {what}, provided that they are "
        "independent draws on which neither model nor metric nor schema was fitted."
    )
