"""Sentences about an audit: what is proved, its assumptions, and what is not proved.

In sentences for people a violation is also called unfairness, and an individual a person; nowhere else.
"""

from __future__ import annotations

import math

from isonomy.certificates.certificate import Certificate
from isonomy.report.findings import Findings
from isonomy.report.numbers import listed, parameter
from isonomy.report.similar import Similar, caveat

MARKS = {
    "certified": "Mean certified", "violated": "Mean violated", "undecided": "Mean undecided", None: "Bounds only",
}  # fmt: skip

DECISIONS = {
    "certified": "No similar person can get another decision.",
    "flippable": "A similar person with another decision was found.",
    "undecided": "Whether a similar person can get another decision is not decided.",
    "none": "The network decides nothing, it gives a number.",
}

DECIDED = {
    "certified": "Decisions that no similar person can change",
    "flippable": "Decisions that a similar person was found to change",
    "undecided": "Decisions that are open",
}

DOMAINS = {
    "realizable": "Every comparison is with somebody whom the schema allows: whole categories, whole numbers where it "
    "says so, values in their ranges. Whether such a person exists was not asked.",
    "relaxed": "Comparisons include mixtures of categories that nobody has (relaxed domain), so the bounds also cover "
    "people who cannot exist.",
    "unbounded": "Comparisons include values outside every range and mixtures of categories (unbounded domain), so the "
    "bounds also cover people who cannot exist.",
}

EXACT = "The bounds hold in exact arithmetic; the rounding errors of computing them in float64 are added to them."
FLOAT32 = " They also cover runs of the deployed network in float32."

Terms = list[tuple[str, str]]
"""Names and statements."""


def meaning(findings: Findings) -> str:
    """Return what a violation is in this audit."""
    names, network = findings.outputs, findings.network
    if findings.regression:
        changing = f"the predicted {names[0]}" if len(names) == 1 else "any predicted number"
    elif len(names) == 2 and not (network.head == "sigmoid" and network.classes == 2):
        changing = f"the predicted probability of {findings.favourable or f'“{names[1]}”'}"
    else:
        changing = f"the predicted probability of any of the {len(names)} classes"
    return (
        f"A person’s violation, their unfairness, is the largest change of {changing} when nothing happens but that "
        "the person is replaced by somebody similar."
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
    others = [f"{move.feature} ({move.role or 'tolerance'})" for move in similar.moves if move.read]
    if not others:
        return f"{sentence} It reads nothing else in which similar people may differ, {caveat(len(findings.people))}."
    return f"{sentence} What is bounded is the effect of {listed(others)}, in which similar people may differ too."


def flip_counts(decision: list[str]) -> tuple[str, ...]:
    """Return the phrase for the numbers of decisions that flip and that are open; none without decisions."""
    if "none" in decision:
        return ()
    flips, open_ = decision.count("flippable"), decision.count("undecided")
    return (f"{flips:,} of {len(decision):,} flip{f', {open_:,} open' if open_ else ''}",)


def decision_outcome(findings: Findings) -> tuple[str, str, str]:
    """Return whether decisions flip: a kind as of verdicts, a few words, and a sentence."""
    decision, searched = findings.certificate.local.decision.tolist(), findings.certificate.searched
    flips, certified, n = decision.count("flippable"), decision.count("certified"), len(decision)
    if "none" in decision:
        cut = "the model gives numbers, and no cut-off was named: --threshold, or threshold in [label] of the schema"
        return "undecided", "no decisions judged", f"No decisions were judged: {cut}."
    open_ = n - flips - certified
    undecided = f"{open_:,} {'is' if open_ == 1 else 'are'} open{'' if searched else ', as no search was made'}"
    proved = f"{certified:,} {'is' if certified == 1 else 'are'} proved to stay"
    if flips:
        rest = [part for part, count in ((proved, certified), (undecided, open_)) if count]
        phrase = f"{flips:,} of {n:,} decisions {'flips' if flips == 1 else 'flip'}"
        sentence = f"{phrase} when the person is replaced by somebody similar, who was found{'; ' if rest else ''}"
        return "violated", phrase, f"{sentence}{', '.join(rest)}."
    if open_:
        sentence = f"Of {n:,} decisions {proved} when the person is replaced by anybody similar, {undecided}."
        return "undecided", f"{open_:,} of {n:,} decisions open", sentence
    sentence = f"None of the {n:,} decisions flips when the person is replaced by anybody similar: that is proved."
    return "certified", "no decision flips", sentence


def unit(findings: Findings) -> str:
    """Return the phrase for the unit of a violation."""
    if not findings.regression:
        return "as a probability, 0 to 1"
    return f"in the unit of {findings.outputs[0]}" if len(findings.outputs) == 1 else "in the unit of the outputs"


def shift_limit(largest: float | None, printed: str) -> str:
    """Return the phrase for the largest shift for which ε is proved."""
    if largest is None:
        return "not even for these individuals"
    if not printed.strip("0."):
        return "for these individuals, without a shift"
    return "whatever the shift" if math.isinf(largest) else f"up to a shift of {printed}"


def threshold(findings: Findings, limit: str) -> str:
    """Return the verdict against ε; ``limit`` is the phrase of :func:`shift_limit`, "" where the shift has none."""
    if findings.verdict is None or findings.certificate.epsilon is None:
        return "No ε was given, so there is no verdict: only what was proved and what was found."
    epsilon = parameter(findings.certificate.epsilon)
    beyond = "nothing beyond it was found" if findings.certificate.searched else "no search was made for a violation"
    text = {
        "certified": f"The mean is within the accepted ε = {epsilon}, with proof.",
        "violated": f"The mean is beyond the accepted ε = {epsilon}: a {findings.certificate.shift.noun} shows it.",
        "undecided": f"Whether the mean keeps the accepted ε = {epsilon} is open: the proof allows more, and {beyond}.",
    }[findings.verdict]
    return f"{text} Proved to stay within ε: {limit}." if limit else text


def assumptions(findings: Findings, behind: str) -> Terms:
    """Return what the proof rests on: names and statements."""
    certificate, people = findings.certificate, findings.people
    weighted = " Averages use their sampling weights." if people.schema.weight else ""
    fitted = f", fitted on {certificate.problem.metric.fitted_on}" if certificate.problem.metric.fitted_on else ""
    return [
        ("People", f"{people.selection.words(people.schema.name)}.{weighted}"),
        ("Network", f"“{findings.network.name}”, {findings.network.input_width} inputs, {_outputs(findings)}."),
        ("Arithmetic", f"{EXACT}{FLOAT32 if certificate.arithmetic == 'float32' else ''}"),
        ("Similar people", f"Distance at most δ = {parameter(certificate.delta)} by this metric: "
         f"{certificate.problem.metric.describe()}{fitted}."),
        ("Possible people", DOMAINS[certificate.problem.domain.kind]),
        certificate.shift.assumption(),
        ("Method", f"Bounds of the tier “{certificate.tier}”, and duality over all {certificate.shift.covered} at "
         "once; a failed search proves nothing and is not used as if it did."),
        ("People behind the sample", behind),
    ]  # fmt: skip


def not_proved(findings: Findings, similar: Similar, behind: str) -> Terms:
    """Return what a reader might take for proved and is not: names and statements."""
    certificate = findings.certificate
    fixed = f" People who differ in {listed(list(similar.fixed))} are never compared." if similar.fixed else ""
    outside = [shift.name for shift in findings.shifts if shift.distance.lower > certificate.gamma]
    beyond = f" Already outside: {listed(outside)}." if outside else ""
    score = findings.scores.get("accuracy")
    accuracy = "" if score is None else f" Its accuracy on these people, {score:.3f}, was observed."
    terms = [
        ("Only these similar people", f"Nothing is said about pairs that the metric does not call similar.{fixed}"),
        ("The metric is a choice", "Who counts as similar was decided by people, in the schema and the metric. "
         "Another choice gives other numbers, and no proof can say that this one is right."),
        certificate.shift.limit(beyond),
        ("An average, not everybody", "ε is compared with a mean. Single people can be treated much more unequally; "
         "their own bounds are given below."),
        ("The gap", "Between what was proved and what was found the truth is unknown."),
        ("Not accuracy", f"A network can be fair in this sense and wrong, or useless.{accuracy}"),
        ("Group fairness is observed", "Rates of groups, and their intervals, are estimates from these people."),
        ("Only this network", "What happens before (collecting, cleaning, encoding data) and after (people who "
         "overrule or ignore the network) was not looked at."),
        ("Features that drive it", "What goes away with a feature is measured on the pairs that were found; what one "
         "changes by itself is bounded over all its values. Neither is a statement about causes."),
    ]  # fmt: skip
    if certificate.refusal:
        terms.insert(3, ("Not everybody they stand for", behind))
    who = findings.people.selection
    if who.how != "all" or who.part != "all" or who.excluded:
        looked = f"Nobody in the other rows was looked at: {certificate.shift.elsewhere}"
        terms.insert(0, ("Only these rows of the table", f"Audited were {who.words()}. {looked}."))
    return terms


def _outputs(findings: Findings) -> str:
    if findings.regression:
        return "giving numbers (a regression)"
    count = max(2, findings.network.classes)
    independent = "independent " if findings.network.head == "sigmoid" and findings.network.classes > 1 else ""
    assumed = ": a softmax of its raw outputs, which was assumed, as nothing in the file says it"
    return f"giving {independent}probabilities of {count} classes{assumed if findings.network.assumed_head else ''}"


def population_statement(certificate: Certificate, upper: str) -> str:
    """Return the statement on the population behind the sample, ``upper`` already rounded, or why there is none."""
    if certificate.refusal:
        return f"Nothing is said of the population behind these individuals. {certificate.refusal}"
    return (
        f"With confidence {parameter(certificate.population.confidence)} no population within γ of the one behind "
        f"these individuals has a mean violation above {upper}, provided that they are independent draws on which "
        "neither network nor metric nor schema was fitted."
    )
