"""The network that is judged, in one normal form.

A file gives a graph of six operations: input, affine, activation, add, concat, select. Between activations everything
is affine, so each graph is a sequence of *layers*

    z_k = b_k + Σ_s W_ks h_s,        h_0 = x,  h_k = f_k(z_k),

where ``s`` runs over the sources that the layer reads: the input and the activations before it. The last layer has no
activation: its rows are the outputs. Residual connections, concatenations, an input that is read twice, an activation
behind an activation (``W`` is the identity) and an affine map behind an affine map are all of this form, and no rule
further on needs to know which one it was.

**Soundness.** Where several affine operations become one matrix, the product is rounded. Each block therefore carries
``size``, the sum over all paths of the products of absolute values, enlarged so that

    |W_exact − W| ≤ γ size,   |W_exact| ≤ size,   and a run of the original operations is off by at most γ (Σ size |h|
    + |b|),

with the layer's own ``γ``. One number per layer thus pays for the rounding of merging, of running and of every backward
step through the layer; how far biases may be off by what a file says is apart from that, ``slack``. A matrix that was
not merged has ``size = |W|``, though at least 2^-102 wherever it is not 0: a float32 run has no smaller numbers to
multiply with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import LARGEST32, LEAST32, SMALL, TINY, U32, Array, U, finite, gamma, norm_up

MERGED_NUMBERS = 2**28
"""Numbers in one merged matrix (2 GiB): a graph that asks for more is refused."""


class Node(NamedTuple):
    """One operation of a graph; ``inputs`` are the numbers of earlier nodes.

    ``kind`` is input (``width``), affine (``weight``, ``bias`` and how far each may be from the exact ones),
    activation, add, concat, or select (``columns``).
    """

    kind: str
    inputs: tuple[int, ...] = ()
    width: int = 0
    weight: Array | None = None
    bias: Array | None = None
    weight_error: Array | None = None  # (out, in), or (out,) for the sum over a row
    bias_error: Array | None = None
    activation: Activation | None = None
    columns: tuple[int, ...] = ()
    size: Array | None = None  # (out, in): where the weight stands for several operations, the sum over their paths
    bias_size: Array | None = None
    roundings: int | None = None  # of a run of these operations, on the longest path; None: one product, one sum each


class Block(NamedTuple):
    """What a layer reads of one source: weight (out, in) and the sum over paths of absolute products."""

    source: int
    weight: Array
    size: Array


class Layer:
    """``z = bias + Σ weight h`` over the blocks, and what bounds its rounding.

    ``slack`` (width,): how far ``z`` may be off besides, not by the same in all runs: a file's function may be another
    one than the activation that stands for it. ``touched`` (in,), for each block: the numbers that a run multiplies at
    all, be it by 0, which infinity times is no number.

    For sizes ``|h| ≤ top`` of everything that the layer reads, ``size top + |bias| ≤ rho · eta(top)`` row by row, by
    Cauchy and Schwarz with columns scaled to norm 1: a vector for each layer, a number for each individual.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        bias: Array,
        bias_size: Array,
        slack: Array,
        activation: Activation | None,
        roundings: int,
        run_roundings: int,
        lost: Array,
        peak: float,
        touched: Sequence[NDArray[np.bool_]],
    ) -> None:
        self.blocks, self.bias, self.activation, self.touched = tuple(blocks), bias, activation, touched
        self.width = len(bias)
        widest = max([self.width, *(block.weight.shape[1] for block in blocks)])
        self.unit = gamma(3 * sum(block.weight.shape[1] for block in blocks) + 3 * widest + roundings + 64)
        self.unit32 = gamma(run_roundings + 8, U32)  # the input is rounded, too
        self.lost32, self.peak, self.slack = lost * (LEAST32 * 1.01), peak, slack
        scales = [_column_scale(block.size) for block in self.blocks]
        self.scale_squared = [scale * scale for scale in scales]
        inverse = [np.divide(1.0, s, out=np.zeros_like(s), where=s > 0) for s in scales]
        self.bias_norm = max(float(norm_up(bias_size)), 1e-100)
        parts = [block.size * inv for block, inv in zip(self.blocks, inverse, strict=True)]
        self.rho = norm_up(np.concatenate([*parts, bias_size[:, None] / self.bias_norm], axis=1)) * (1 + 16 * U)
        self.lost = SMALL * (1 + sum(float(norm_up(scale)) for scale in scales) + self.bias_norm)
        self.transposed = [np.ascontiguousarray(block.weight.T) for block in self.blocks]
        self.absolute = [np.ascontiguousarray(np.abs(block.weight).T) for block in self.blocks]
        self.reads_input_only = [block.source for block in self.blocks] == [0] and activation is not None

    def overflows(self, tops: Sequence[Array]) -> NDArray[np.bool_]:
        """Where (n,) a float32 run may overflow, for sizes of the layer's sources."""
        most = np.max([top.max(1, initial=0.0) for top in tops], 0) if len(tops) else np.zeros(1)
        return np.asarray(~(self.peak * (1 + most) < LARGEST32))

    def eta(self, tops: Sequence[Array], bias: bool = True) -> Array:
        """``eta`` (n,) for sizes (n, width) of the layer's sources, of any sign, in the order of its blocks; from
        above.

        Without ``bias`` for what the weights alone make of differences.
        """
        total: Array | float = self.bias_norm * self.bias_norm if bias else 0.0
        for top, squares in zip(tops, self.scale_squared, strict=True):
            total = total + (top * top) @ squares
        # What is infinite says nothing of the layer, also where it meets a column of zeros.
        return np.asarray(np.sqrt(np.fmin(total, np.inf)) * (1 + 4 * self.unit) + self.lost)


class Network(NamedTuple):
    """Layers in order; the last one has no activation and gives ``outputs``. Source 0 is the input, source k layer k
    - 1's activation."""

    width: int
    layers: tuple[Layer, ...]

    @property
    def outputs(self) -> Layer:
        """The last layer."""
        return self.layers[-1]

    @property
    def depth(self) -> int:
        """How many layers have an activation."""
        return len(self.layers) - 1

    @property
    def widest(self) -> int:
        """The most numbers that a layer or the input has."""
        return max(self.width, *(layer.width for layer in self.layers))

    def run(self, x: Array) -> list[Array]:
        """The pre-activations of a float64 run at points ``x`` (n, m), layer by layer; the last are the outputs."""
        sources, found = [x], []
        for layer in self.layers:
            z: Array = layer.bias[None]
            for block, weight in zip(layer.blocks, layer.transposed, strict=True):
                z = sources[block.source] @ weight + z
            found.append(np.broadcast_to(z, (len(x), layer.width)))
            if layer.activation is not None:
                sources.append(layer.activation.shape.value(found[-1]))
        return found

    @property
    def reads(self) -> Array:
        """How strongly each number of the input (m,) moves what reads it; 0 only where nothing does."""
        first = [block.size.sum(0) for layer in self.layers for block in layer.blocks if block.source == 0]
        return np.asarray(np.sum(first, axis=0)) if first else np.zeros(self.width)


@np.errstate(all="ignore")  # what overflows ends as an infinite bound
def normal_form(nodes: Sequence[Node], rows: Array | None = None) -> Network:
    """The layers of a graph whose node 0 is the input and whose last node gives the outputs.

    ``rows`` (r, outputs) are linear functions of the outputs, entries 0, 1 and -1 (margins): they become the outputs.
    """
    if rows is not None:
        rows = finite(rows, "rows")
        nodes = [*nodes, Node("affine", (len(nodes) - 1,), weight=rows, bias=np.zeros(len(rows)))]
    node_widths(nodes)
    expressions: list[_Expression] = []
    layers: list[Layer] = []
    known: dict[tuple[int, Activation], int] = {}
    for i, node in enumerate(nodes):
        read = [expressions[j] for j in node.inputs]
        match node.kind:
            case "input":
                expressions.append(_Expression.source(0, node.width))
            case "affine":
                expressions.append(read[0].mapped(node))
            case "activation":
                assert node.activation is not None
                key = (node.inputs[0], node.activation)
                if key not in known:
                    layers.append(read[0].layer(node.activation))
                    known[key] = len(layers)
                expressions.append(_Expression.source(known[key], read[0].width))
            case "add":
                expressions.append(_Expression.sum(read))
            case "concat":
                expressions.append(_Expression.concatenated(read))
            case "select":
                chosen = np.zeros((len(node.columns), read[0].width))
                chosen[np.arange(len(node.columns)), list(node.columns)] = 1.0
                expressions.append(
                    read[0].mapped(Node("affine", (), weight=chosen, bias=np.zeros(len(chosen))), exact=True)
                )
            case kind:
                raise ValueError(f"Node {i} is of an unknown kind, '{kind}'.")
    return Network(nodes[0].width, (*layers, expressions[-1].layer(None)))


class _Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of an expression gain ``weight @ source``; None: the source itself, exactly."""

    start: int
    stop: int
    source: int
    weight: Array | None
    size: Array | None
    error: Array | None  # beyond rounding: what the file says of its weights
    touched: NDArray[np.bool_]  # (in,): what of the source a run multiplies, be it by 0


class _Expression(NamedTuple):
    """An affine function of the sources: the sum of its pieces and a bias."""

    width: int
    pieces: tuple[_Piece, ...]
    bias: Array
    bias_size: Array
    bias_error: Array
    roundings: int  # on the longest path, of merging and of running the original operations
    run: int  # of running them alone
    lost: Array  # (width,): what underflow of a float32 run can take, in units of LEAST32
    peak: float  # no number on the way is larger than this times 1 + the largest number of a source

    @classmethod
    def source(cls, number: int, width: int) -> _Expression:
        none = np.zeros(width)
        whole = _Piece(0, width, number, None, None, None, np.ones(width, dtype=bool))
        return cls(width, (whole,), none, none, none, 0, 0, np.ones(width), 1.0)

    @classmethod
    def sum(cls, parts: Sequence[_Expression]) -> _Expression:
        pieces = tuple(piece for part in parts for piece in part.pieces)
        more = len(parts)
        return cls(
            parts[0].width, pieces, np.sum([p.bias for p in parts], 0),
            _grown(np.sum([p.bias_size for p in parts], 0), more),
            _grown(np.sum([p.bias_error for p in parts], 0), more), max(p.roundings for p in parts) + more,
            max(p.run for p in parts) + more, _grown(np.sum([p.lost for p in parts], 0) + more, more),
            sum(p.peak for p in parts) * 1.01,
        )  # fmt: skip

    @classmethod
    def concatenated(cls, parts: Sequence[_Expression]) -> _Expression:
        pieces, start = [], 0
        for part in parts:
            pieces += [piece._replace(start=piece.start + start, stop=piece.stop + start) for piece in part.pieces]
            start += part.width
        bias, size, error, lost = (np.concatenate([p[i] for p in parts]) for i in (2, 3, 4, 7))
        return cls(
            start, tuple(pieces), bias, size, error, max(p.roundings for p in parts), max(p.run for p in parts), lost,
            max(p.peak for p in parts),
        )  # fmt: skip

    def mapped(self, node: Node, exact: bool = False) -> _Expression:
        """Behind one more affine operation; ``exact``: its rows hold a single 1, so nothing is rounded."""
        weight, bias = node.weight, node.bias
        assert weight is not None and bias is not None
        size = np.abs(weight) if node.size is None else np.maximum(np.abs(weight), node.size)
        own_bias = np.abs(bias) if node.bias_size is None else np.maximum(np.abs(bias), node.bias_size)
        error = _error(node)
        if error is not None:
            size = _grown(size + error, 2)
        # Weights that float32 has no number for, not even a small one: their unit of size is then LEAST32 at least.
        size = np.where(size > 0, np.maximum(size, LEAST32 / U32), 0.0)
        own_bias = np.where(own_bias > 0, np.maximum(own_bias, LEAST32 / U32), 0.0)
        if node.bias_error is not None:
            own_bias = own_bias + node.bias_error
        n, whole, pieces = self.width, self.roundings, []
        # A float32 run besides rounds each weight, once in every operation that the node stands for.
        own = n + 1 if node.roundings is None else node.roundings
        own = 3 * own // 2 + 4
        # Nothing is merged into an operation that reads sources themselves: its weights are those of the layer.
        # A file says of every layer how large it is, also where that is nothing but its weights.
        single = node.size is None or np.array_equal(node.size, np.abs(weight))
        unmerged = all(piece.weight is None for piece in self.pieces) and not self.bias_size.any() and single
        for piece in self.pieces:
            part, part_size = weight[:, piece.start : piece.stop], size[:, piece.start : piece.stop]
            part_error = None if error is None else error[:, piece.start : piece.stop]
            touched = piece.touched
            if exact or node.roundings == 0:  # which moves numbers, and leaves alone what it does not move
                touched = touched & (part_size.any(0) if piece.weight is None else part_size.any())
            if piece.weight is not None:
                assert piece.size is not None
                if len(part) * piece.weight.shape[1] > MERGED_NUMBERS:
                    raise ValueError(
                        f"Merging affine operations needs a matrix of {len(part)} x {piece.weight.shape[1]} numbers."
                    )
                errors = [] if part_error is None else [_product(part_error, piece.size)]
                errors += [] if piece.error is None else [_product(part_size, piece.error)]
                part_error = _grown(np.sum(errors, 0), 2) if errors else None
                part, part_size = part @ piece.weight, _product(part_size, piece.size)
            pieces.append(_Piece(0, len(weight), piece.source, part, part_size, part_error, touched))
        bias_size = _product(size, self.bias_size[:, None])[:, 0] + own_bias
        bias_error = _product(size, self.bias_error[:, None])[:, 0]
        if error is not None:
            bias_error = bias_error + _product(error, self.bias_size[:, None])[:, 0]
        if node.bias_error is not None:
            bias_error = bias_error + node.bias_error
        return _Expression(
            len(weight), tuple(pieces), weight @ self.bias + bias, _grown(bias_size, 4), _grown(bias_error, 4),
            whole + (0 if exact or unmerged else n + 4 + own), self.run + (0 if exact else own),
            _grown((size @ self.lost) + (0 if exact else 2 * n + 8), n + 4),
            max(self.peak, float((size.sum(1) * self.peak + own_bias).max()) * 1.01),
        )  # fmt: skip

    def layer(self, activation: Activation | None) -> Layer:
        """The expression as a layer: one block for each source."""
        roundings = self.roundings + len(self.pieces)
        unit, blocks, touched = gamma(roundings + 64), [], []
        for source in sorted({piece.source for piece in self.pieces}):
            mine = [piece for piece in self.pieces if piece.source == source]
            if len(mine) == 1 and mine[0].weight is not None and (mine[0].start, mine[0].stop) == (0, self.width):
                weight, size, error = mine[0].weight, mine[0].size, mine[0].error
            else:
                columns = next((p.weight.shape[1] for p in mine if p.weight is not None), mine[0].stop - mine[0].start)
                weight, size, error = np.zeros((self.width, columns)), np.zeros((self.width, columns)), None
                for piece in mine:
                    rows = slice(piece.start, piece.stop)
                    whole = np.eye(columns) if piece.weight is None else piece.weight
                    weight[rows] += whole
                    size[rows] += whole if piece.size is None else piece.size
                    if piece.error is not None:
                        error = np.zeros_like(size) if error is None else error
                        error[rows] += piece.error
                size = _grown(size, len(mine) + 2)
            assert size is not None
            if error is not None:
                size = _grown(size + error / unit, len(mine) + 4)
            blocks.append(Block(source, np.ascontiguousarray(weight), size))
            touched.append(np.any([piece.touched for piece in mine], axis=0))
        bias_size = _grown(self.bias_size, 4)
        run = self.run + len(self.pieces)
        lost = self.lost + len(self.pieces)
        peak = self.peak if activation is None else self.peak * activation.run_growth
        return Layer(blocks, self.bias, bias_size, self.bias_error, activation, roundings, run, lost, peak, touched)


def _grown(a: Array, roundings: int) -> Array:
    """Sums of this many non-negative numbers, from above; 0 only where all of them are 0."""
    return np.asarray(a * (1 + 2 * gamma(roundings)))


def _product(a: Array, b: Array) -> Array:
    """``a @ b`` for non-negative matrices, from above; 0 only where it is exactly 0, not where it underflows."""
    some = (a != 0).astype(np.float32) @ (b != 0).astype(np.float32) > 0
    return np.asarray(np.where(some, (a @ b) * (1 + 2 * gamma(a.shape[1] + 4)) + TINY, 0.0))


def _column_scale(size: Array) -> Array:
    """The norms of the columns; any positive number is valid, and 0 only where the whole column is 0."""
    used = (size != 0).any(0)
    return np.asarray(np.where(used, np.maximum(norm_up(size, axis=0), 1e-100), 0.0))


def _error(node: Node) -> Array | None:
    """``|W_exact − W|`` (out, in); a bound of the row's sum is a bound of each entry."""
    if node.weight_error is None or not node.weight_error.any():
        return None
    assert node.weight is not None
    error = node.weight_error if node.weight_error.ndim == 2 else node.weight_error[:, None]
    return np.asarray(np.broadcast_to(error, node.weight.shape))


def node_widths(nodes: Sequence[Node], names: Sequence[str] = ()) -> list[int]:
    """The numbers that each node holds, once every one reads earlier ones, of the widths that it needs, and all numbers
    are finite float64; ``names`` of the nodes are for errors."""
    if not nodes or nodes[0].kind != "input" or nodes[0].width < 1:
        raise ValueError("A graph must begin with its input node.")
    widths: list[int] = []
    for i, node in enumerate(nodes):
        called = f"Node {i} '{names[i]}'" if i < len(names) and names[i] else f"Node {i}"
        if any(not 0 <= j < i for j in node.inputs) or (node.kind == "input") != (i == 0):
            raise ValueError(f"{called} must read earlier nodes only, and only node 0 may be an input.")
        read = [widths[j] for j in node.inputs]
        single = node.kind in ("affine", "activation", "select")
        fits = len(read) == 1 if single else len(read) >= (0 if i == 0 else 1)
        if node.kind == "affine":
            weight, bias = node.weight, node.bias
            column = (len(bias),) if bias is not None and bias.ndim == 1 else (0,)
            table = (*column, *read)
            fits = fits and column[0] > 0 and weight is not None and weight.shape == table
            for part in (weight, bias, node.weight_error, node.bias_error, node.size, node.bias_size):
                if part is not None:
                    finite(part, f"The numbers of node {i}")
            wanted: list[tuple[Array | None, tuple[tuple[int, ...], ...]]] = [(node.weight_error, (table, column))]
            wanted += [(node.bias_error, (column,)), (node.size, (table,)), (node.bias_size, (column,))]
            for part, shapes in wanted:
                fits = fits and (part is None or (part.shape in shapes and bool((part >= 0).all())))
            fits = fits and (node.roundings is None or node.roundings >= 0)
        elif node.kind == "activation":
            fits = fits and node.activation is not None
            if fits and node.activation is not None:
                node.activation.check_width(read[0])
        elif node.kind == "add":
            fits = fits and len(set(read)) == 1
        elif node.kind == "select":
            fits = fits and bool(node.columns) and all(0 <= j < read[0] for j in node.columns)
        if not fits:
            raise ValueError(f"{called} ({node.kind}) does not fit what it reads, {read} numbers.")
        wide = {"input": node.width, "select": len(node.columns), "concat": sum(read)}
        own = node.bias if node.kind == "affine" else None
        widths.append(wide.get(node.kind, read[0] if read else 0) if own is None else len(own))
        if widths[-1] > MERGED_NUMBERS:
            raise ValueError(f"{called} would hold {widths[-1]} numbers.")
    return widths
