"""Fewer, larger steps: merge what is affine, so that bounds lose nothing between the merged parts.

The idea: read the graph once and keep, for every node, a *pending* affine map of an earlier node that is
already part of the result. A pending map is written out only when something that is not affine reads it.

**Soundness.** Values change by rounding only, and the algebra of :mod:`isonomy.networks.affine` puts that
into the slacks.
"""

from __future__ import annotations

from dataclasses import dataclass

from isonomy.networks.affine import Affine, compose, rows, stack, total
from isonomy.networks.graph import Activation, Add, Concat, Graph, Input, Node, Select, ancestors


def simplify(graph: Graph) -> Graph:
    """An equal graph with affine parts merged and dead nodes dropped.

    Every node that is an affine function of the input becomes a single :class:`Affine` on node 0. Elsewhere
    an affine node is merged into the affine node that reads it when nothing else does, sums and
    concatenations of affine functions of one node become one affine node, and selections move into affine
    nodes beside them.
    """
    reduced = _pass(graph)
    while len(reduced.nodes) < len(graph.nodes):  # what was shared may have one reader left
        graph, reduced = reduced, _pass(reduced)
    return reduced


def _pass(graph: Graph) -> Graph:
    """One reading of the graph."""
    live = ancestors([node.inputs for node in graph.nodes], len(graph.nodes) - 1)
    build = _Build(graph.nodes[0].name, graph.input_width)
    pending: dict[int, _Pending] = {0: _Pending(0)}
    for i in live:
        node = graph.nodes[i]
        if isinstance(node.op, Input):
            continue
        read = [pending[j] for j in node.inputs]
        result = _step(build, node, read)
        # Several readers share one written node, unless it is affine in the input: there each merges its own.
        shared = len(set(graph.consumers[i]).intersection(live)) > 1
        if shared and result.base and result.map is not None:
            result = _Pending(build.write(result, node.name))
        pending[i] = result
    output = build.write(pending[live[-1]], graph.nodes[-1].name)
    kept = ancestors([node.inputs for node in build.nodes], output)
    place = {old: new for new, old in enumerate(kept)}
    return Graph(tuple(Node(n.op, tuple(place[j] for j in n.inputs), n.name) for n in (build.nodes[i] for i in kept)))


@dataclass(frozen=True, eq=False)
class _Pending:
    """A map, still to be written, of node ``base`` of the result; no map is the node itself."""

    base: int
    map: Affine | Select | None = None


class _Build:
    """The nodes of the result so far, their widths, and which pending values are written already."""

    def __init__(self, name: str, width: int) -> None:
        self.nodes = [Node(Input(width), (), name)]
        self.widths = [width]
        self.written: dict[_Pending, int] = {}

    def add(self, node: Node, width: int) -> int:
        self.nodes.append(node)
        self.widths.append(width)
        return len(self.nodes) - 1

    def write(self, pending: _Pending, name: str) -> int:
        """The node that holds a pending value."""
        if pending.map is None:
            return pending.base
        if pending not in self.written:
            # Bounds begin with an exact affine layer: a selection of the input is one too.
            op = self.affine(pending) if pending.base == 0 else pending.map
            width = op.width_out if isinstance(op, Affine) else len(op.index)
            self.written[pending] = self.add(Node(op, (pending.base,), name), width)
        return self.written[pending]

    def affine(self, pending: _Pending) -> Affine:
        """The pending map as a matrix."""
        if isinstance(pending.map, Affine):
            return pending.map
        width = self.widths[pending.base]
        return Affine.selection(range(width) if pending.map is None else pending.map.index, width)


def _step(build: _Build, node: Node, read: list[_Pending]) -> _Pending:
    """One node of the original, given what it reads."""
    first = read[0]
    match node.op:
        case Affine():
            merged = node.op if first.map is None else compose(node.op, build.affine(first))
            return _Pending(first.base, merged)
        case Select(index=index):
            if isinstance(first.map, Affine):
                return _Pending(first.base, rows(first.map, index))
            if first.map is not None:
                index = tuple(first.map.index[i] for i in index)
            same = index == tuple(range(build.widths[first.base]))
            return _Pending(first.base, None if same else Select(index))
        case Activation(kind=kind):
            width = build.widths[first.base]
            permuted = isinstance(first.map, Select) and sorted(first.map.index) == list(range(width))
            if permuted and kind != "prelu":
                # An elementwise function commutes with a permutation, which can then join the next layer.
                return _Pending(build.add(Node(node.op, (first.base,), node.name), width), first.map)
            at = build.write(first, f"{node.name}.input")
            return _Pending(build.add(Node(node.op, (at,), node.name), build.widths[at]))
        case Concat():
            if len({each.base for each in read}) == 1:
                if all(not isinstance(each.map, Affine) for each in read):
                    everything = tuple(range(build.widths[first.base]))
                    parts = [each.map.index if isinstance(each.map, Select) else everything for each in read]
                    return _step(build, Node(Select(sum(parts, ()))), [_Pending(first.base)])
                return _Pending(first.base, stack([build.affine(each) for each in read]))
        case Add():
            together: dict[int, list[_Pending]] = {}
            for each in read:
                together.setdefault(each.base, []).append(each)
            read = [
                group[0] if len(group) == 1 else _Pending(base, total([build.affine(each) for each in group]))
                for base, group in together.items()
            ]
            if len(read) == 1:
                return read[0]
    written = tuple(build.write(each, f"{node.name}.{part}") for part, each in enumerate(read))
    widths = [build.widths[i] for i in written]
    width = sum(widths) if isinstance(node.op, Concat) else widths[0]
    return _Pending(build.add(Node(node.op, written, node.name), width))
