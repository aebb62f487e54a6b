"""The sentences of the page: the verdict, what it rests on, and what was not proved."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isonomy.certificates.certificate import Certificate
from isonomy.population import Selection
from isonomy.report.findings import Findings
from isonomy.report.numbers import Numbers, decimals_of, parameter
from isonomy.report.outputs import changing, is_regression, unit
from isonomy.report.similar import Similar, listed
from isonomy.shift import Distance
from isonomy.similarity.lp import WeightedLp

MARKS = {"certified": "Certified", "violated": "Violated", "undecided": "Undecided", "none": "Bounds only"}


@dataclass(frozen=True)
class VerdictWords:
    """The verdict as a mark, a sentence, and what ε has to do with it."""

    kind: str  # "certified", "violated", "undecided", or "none" without an ε
    mark: str
    sentence: str
    threshold: str


def verdict(findings: Findings, numbers: Numbers) -> VerdictWords:
    """The whole page in a sentence."""
    certificate = findings.certificate
    kind = "none" if certificate.epsilon is None else certificate.verdict
    upper, lower = numbers.upper(certificate.upper), numbers.lower(certificate.lower)
    upper += f" ({unit(findings)})" if is_regression(findings) else ""
    if certificate.gamma == 0:
        sentence = f"The average unfairness over {these(findings)} is at most {upper}"
        reached = f"; the counterparts that were found reach {lower}."
    else:
        within = f"within {parameter(certificate.gamma)} of {these(findings)}"
        sentence = f"No population {within} can see an average unfairness above {upper}"
        reached = f"; an explicit population reaches {lower}."
    if certificate.lower <= 0:
        reached = "; no explicit unfairness was found, or none was searched for."
    return VerdictWords(kind, MARKS[kind], sentence + reached, _threshold(certificate, kind))


def these(findings: Findings) -> str:
    """``these 1,000 people``."""
    n = len(findings.people)
    return "this one person" if n == 1 else f"these {n:,} people"


def meaning(findings: Findings) -> str:
    """What unfairness is here."""
    return (
        f"A person’s unfairness is the largest change of {changing(findings)} when nothing happens but that the person "
        "is replaced by somebody similar."
    )


def assumptions(findings: Findings, numbers: Numbers) -> list[tuple[str, str]]:
    """What the proof rests on: name and statement."""
    certificate, people = findings.certificate, findings.people
    weighted = " Averages use their sampling weights." if people.schema.weight else ""
    fitted = f", fitted on {certificate.question.metric.fitted_on}" if certificate.question.metric.fitted_on else ""
    return [
        ("People", f"{people.selection.words(people.schema.name)}.{weighted}"),
        ("Network", f"“{findings.network.name}”, {findings.network.input_width} inputs, {_outputs(findings)}."),
        ("Arithmetic", _arithmetic(certificate.arithmetic)),
        ("Similar people", f"Distance at most δ = {parameter(certificate.delta)} by this metric: "
         f"{certificate.question.metric.describe()}{fitted}."),
        ("Possible people", _domain(certificate)),
        ("Nearby populations", _nearby(certificate)),
        ("Method", f"Bounds of the tier “{certificate.tier}”, and duality over all nearby populations at once; a "
         "failed search proves nothing and is not used as if it did."),
        ("People behind the sample", _behind(findings, numbers)),
    ]  # fmt: skip


def not_proved(findings: Findings, similar: Similar, numbers: Numbers) -> list[tuple[str, str]]:
    """What a reader might take for proved and is not."""
    certificate = findings.certificate
    still = f" People who differ in {listed(list(similar.still))} are never compared." if similar.still else ""
    outside = [shift.name for shift in findings.shifts if shift.distance.lower > certificate.gamma]
    beyond = f" Already outside: {listed(outside)}." if outside else ""
    accuracy = (
        "" if findings.accuracy is None else f" Its accuracy on these people, {findings.accuracy:.3f}, was observed."
    )
    said = [
        ("Only these similar people", f"Nothing is said about pairs that the metric does not call similar.{still}"),
        ("The metric is a choice", "Who counts as similar was decided by people, in the schema and the metric. "
         "Another choice gives other numbers, and no proof can say that this one is right."),
        ("Only shifts within γ", "Populations further away than γ, in the ground cost above, may be treated worse."
         f"{beyond}" if certificate.gamma > 0 else "Only these very people were judged, no other population."),
        ("An average, not everybody", "The verdict bounds a mean. Single people can be treated much more unequally; "
         "their own bounds are given below."),
        ("The gap", "Between what was proved and what was found the truth is unknown."),
        ("Not accuracy", f"A network can be fair in this sense and wrong, or useless.{accuracy}"),
        ("Group fairness is observed", "Rates of groups, and their intervals, are estimates from these people."),
        ("Only this network", "What happens before (collecting, cleaning, encoding data) and after (people who "
         "overrule or ignore the network) was not looked at."),
        ("Features that drive it", "What a feature contributes is measured on the pairs that were found. It explains "
         "them; it is not a statement about causes."),
    ]  # fmt: skip
    if certificate.refusal:
        said.insert(3, ("Not everybody they stand for", _behind(findings, numbers)))
    return [*other_rows(findings.people.selection), *said]


def other_rows(who: Selection) -> list[tuple[str, str]]:
    """That rows of the table were not audited, where it is so."""
    if who.how == "all" and who.part == "all" and not who.excluded:
        return []
    looked = "Nobody in the other rows was looked at: of them only what is said of nearby populations as a whole holds."
    return [("Only these rows of the table", f"Audited were {who.words()}. {looked}")]


def cost_name(certificate: Certificate) -> str:
    """The ground cost in words."""
    ground = certificate.ground
    if isinstance(ground, WeightedLp) and bool((ground.weights == 1).all()):
        return f"the ℓ{parameter(ground.order)} distance in the schema’s coordinates"
    return ground.describe()


def distance_words(distance: Distance) -> str:
    """What stands behind a measured distance."""
    sizes = f"{distance.individuals[0]:,} and {distance.individuals[1]:,} people compared"
    return f"{sizes}, {'approximately (sliced)' if distance.approximate else 'exactly'}"


def _threshold(certificate: Certificate, kind: str) -> str:
    if certificate.epsilon is None:
        return "No threshold ε was given, so there is no verdict: only what was proved and what was found."
    epsilon = parameter(certificate.epsilon)
    text = {
        "certified": f"This is within the accepted ε = {epsilon}, with proof.",
        "violated": f"This is beyond the accepted ε = {epsilon}: the population that shows it is described below.",
        "undecided": f"Whether the accepted ε = {epsilon} is kept is open: the proof allows more, and nothing beyond "
        "it was found.",
    }[kind]
    largest = certificate.largest_gamma(certificate.epsilon)
    if largest is None:
        return f"{text} Already for these people themselves no proof of at most ε was found."
    if certificate.gamma > 0 and largest >= 1e-6:
        reach = f"up to a shift of {Numbers(decimals_of(largest)).lower(largest)}"
        text += f" The proof keeps ε {'for every shift' if math.isinf(largest) else reach}."
    return text


def _outputs(findings: Findings) -> str:
    if is_regression(findings):
        return "giving numbers (a regression)"
    count = max(2, findings.network.classes)
    apart = "independent " if findings.network.head == "sigmoid" and findings.network.classes > 1 else ""
    assumed = ": a softmax of its raw outputs, which was assumed, as nothing in the file says it"
    return f"giving {apart}probabilities of {count} classes{assumed if findings.network.assumed_head else ''}"


def _arithmetic(arithmetic: str) -> str:
    exact = "The bounds hold in exact arithmetic; the rounding errors of computing them in float64 are added to them."
    return f"{exact} They also cover runs of the deployed network in float32." if arithmetic == "float32" else exact


def _domain(certificate: Certificate) -> str:
    return {
        "realizable": "Every comparison is with somebody who could exist: whole categories, whole numbers where the "
        "schema says so, values in their ranges.",
        "relaxed": "Comparisons include mixtures of categories that nobody has (relaxed domain), so the bounds also "
        "cover people who cannot exist.",
        "unbounded": "Comparisons include values outside every range and mixtures of categories (unbounded domain), "
        "so the bounds also cover people who cannot exist.",
    }[certificate.question.domain.kind]


def _nearby(certificate: Certificate) -> str:
    gamma, order = parameter(certificate.gamma), parameter(certificate.order)
    if certificate.gamma == 0:
        return "None: γ = 0, only these very people."
    how = (
        "everybody may change by at most γ"
        if math.isinf(certificate.order)
        else "on average people change by at most γ, some far and some not at all"
        if certificate.order == 1
        else f"the mean of the changes to the power {order} is at most γ to the power {order}"
    )
    return (
        f"Every population within γ = {gamma} in the Wasserstein distance of order {order}: {how}, where a change is "
        f"measured by {cost_name(certificate)}."
    )


def _behind(findings: Findings, numbers: Numbers) -> str:
    certificate = findings.certificate
    if certificate.refusal:
        return f"Nothing is said about the population that these people were drawn from. {certificate.refusal}"
    bound = certificate.population
    return (
        f"With confidence {parameter(bound.confidence)} no population within γ of the one that these people were drawn "
        f"from has an average unfairness above {numbers.upper(bound.upper)}, provided that they are independent draws "
        "on which neither network nor metric nor schema was fitted."
    )
