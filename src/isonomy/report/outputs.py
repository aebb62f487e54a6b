"""What the network gives, in words: probabilities of named classes, or numbers in the label's unit."""

from __future__ import annotations

from isonomy.report.findings import Findings


def is_regression(findings: Findings) -> bool:
    """Whether the network gives numbers instead of probabilities."""
    return findings.network.head == "regression"


def output_names(findings: Findings) -> tuple[str, ...]:
    """A name for each number that ``network(x)`` gives."""
    network, label = findings.network, findings.people.schema.label
    count = 2 if network.head == "sigmoid" and network.classes == 1 else network.classes
    if label is not None and len(label.classes) == count:
        return tuple(label.labels.get(name, name) for name in label.classes)
    if is_regression(findings):
        return (label.column,) if label is not None and count == 1 else tuple(f"output {i + 1}" for i in range(count))
    return tuple(f"class {i}" for i in range(count))


def changing(findings: Findings) -> str:
    """What a violation is a change of: the end of 'the largest change of …'."""
    names = output_names(findings)
    if is_regression(findings):
        return f"the predicted {names[0]}" if len(names) == 1 else "any predicted number"
    if len(names) == 2 and not (findings.network.head == "sigmoid" and findings.network.classes == 2):
        return f"the predicted probability of “{names[1]}”"
    return f"the predicted probability of any of the {len(names)} classes"


def unit(findings: Findings) -> str:
    """The unit of a violation, as an aside."""
    if not is_regression(findings):
        return "as a probability, 0 to 1"
    names = output_names(findings)
    return f"in the unit of {names[0]}" if len(names) == 1 else "in the unit of the outputs"
