"""The kernel as an engine of the fuzzer (``tests.fuzz``): its networks, regions and exact truth, the kernel's bounds.

``python -m tests.kernel.engine START COUNT`` asks the cases of these numbers that are about one run of a network, or
about the difference of two.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from dataclasses import replace
from unittest import mock

import numpy as np
from tests.fuzz import cases
from tests.fuzz import engine as other
from tests.fuzz.networks import Net
from tests.fuzz.regions import Region as Drawn

from isonomy_verify import differences, sweep
from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.differences import Pairs, compare
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.sweep import Prepared
from isonomy_verify.tiers import enclose

TIERS = ("interval", "quick", "tight", "rows")
"""``rows`` is the tight tier with a backward pass of its own for every open neuron."""


def nodes_of(net: Net) -> list[Node]:
    """The steps of a drawn network as the kernel's nodes."""
    found = []
    for step in net.steps:
        match step.op:
            case "input":
                found.append(Node("input", width=step.width))
            case "affine":
                found.append(Node("affine", step.inputs, weight=step.weight, bias=step.bias))
            case "activation":
                found.append(Node("activation", step.inputs, activation=Activation(step.kind, step.parameters)))
            case "select":
                found.append(Node("select", step.inputs, columns=step.index))
            case op:
                found.append(Node(op, step.inputs))
    return found


def region_of(drawn: Drawn) -> Ball | BallBox:
    """A drawn region; one ball where all rows share it."""
    inverse = np.ascontiguousarray(drawn.inverse)
    if drawn.shared and len(drawn.root):
        return Ball(drawn.root, drawn.order, float(drawn.radius[0]), inverse)
    return BallBox(drawn.low, drawn.high, drawn.root, drawn.order, drawn.radius, drawn.offset, inverse)


def kernel(
    net: Net, centre: Array, region: Drawn, tier: str, *, float32: bool = False, raw: bool = False
) -> other.Enclosed:
    """The kernel's bounds of one run; ``raw`` is the same to it."""
    try:
        with np.errstate(all="ignore"):
            head = Head(net.head, net.outputs, None, float32)
            own = region_of(region)
            shared = own if isinstance(own, Ball) else None
            with mock.patch.object(sweep, "NARROW", 0):  # majorants for small networks, too
                prepared = Prepared(normal_form(nodes_of(net), head.rows), shared, float32)
            one, rows = ("tight", 0.0) if tier == "rows" else (tier, None)
            at, over = enclose(prepared, centre, one, None if shared else own, rows)  # type: ignore[arg-type]
            return other.Enclosed(other.ordered(head, at), other.ordered(head, over), head.violation(at, over))
    except ValueError as error:
        raise other.RefusedError(str(error)) from None


def pairs(
    net: Net,
    centre: Array,
    near: Drawn,
    between: Drawn,
    *,
    limits: Drawn | None = None,
    within: tuple[Drawn, ...] = (),
    float32: bool = False,
    raw: bool = False,
    nested: bool = False,
    tight: bool = True,
) -> list[other.Compared]:
    """The kernel's bounds of two runs; ``raw`` and ``nested`` are the same to it."""
    try:
        with np.errstate(all="ignore"):
            head = Head(net.head, net.outputs, None, float32)
            network = normal_form(nodes_of(net), head.rows)
            drawn = [near, between, *within]
            sets = [region_of(each) for each in drawn]
            shared = limits is None and all(isinstance(each, Ball) for each in sets)
            if not shared:
                sets = [boxed(each) for each in drawn]
            balls = sets[:2] if shared else (None, None)
            room = None if limits is None else boxed(limits)
            # Neurons one by one as well as all together, whatever the network.
            with mock.patch.object(differences, "CROWDED", -1.0 if len(centre) % 2 else 1.0):
                gaps = compare(Pairs(network, float32, *balls), centre, sets[0], sets[1], room, sets[2:], tight)  # type: ignore[arg-type]
            found = []
            for gap in gaps:
                near_, far, move = (other.ordered(head, side) for side in gap)
                found.append(other.Compared(near_, far, move, head.gap(*gap)))
            return found
    except ValueError as error:
        raise other.RefusedError(str(error)) from None


def boxed(drawn: Drawn) -> BallBox:
    """A drawn region as sets of each row's own."""
    inverse = np.ascontiguousarray(drawn.inverse)
    return BallBox(drawn.low, drawn.high, drawn.root, drawn.order, drawn.radius, drawn.offset, inverse)


def outcome(number: int) -> str:
    """``held``, ``refused``, ``other`` where the case asks something else, or what is wrong."""
    question = cases.CYCLE[number % len(cases.CYCLE)]
    if not question.startswith(("enclose", "compare")):
        return "other"
    case = cases.case(number)
    if isinstance(case, cases.Enclose):
        case = replace(case, tiers=TIERS)
    with mock.patch.object(other, "enclose", kernel), mock.patch.object(other, "compare", pairs):
        try:
            failure = case.check()
        except other.RefusedError:
            return "refused"
        except Exception:
            return f"case {number} crashed: {traceback.format_exc()}"
    return "held" if failure is None else f"case {number}: {failure}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("start", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", action="store_true", help="stop at the first case that fails")
    given = parser.parse_args()
    ended, bad = Counter[str](), 0
    for number in range(given.start, given.start + given.count):
        said = outcome(number)
        ended[said.split(" ")[0]] += 1
        if said.startswith("case"):
            bad += 1
            print(said, flush=True)
            if given.first:
                break
    print(dict(ended))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
