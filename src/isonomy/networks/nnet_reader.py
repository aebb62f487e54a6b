"""Read the ``.nnet`` text format: a ReLU network with the normalisation of its inputs and outputs.

After comment lines (``//``) come the number of layers, the layer sizes, an unused flag, then the lowest and highest
value of each input, means and ranges (each with one more entry, for the output), and the weights and biases, row by
row.

**Soundness.** The network *is* what the format's own evaluator computes: an input outside its lowest and highest
value is clipped to it first, then ``(x - mean) / range``; outputs are ``y * range + mean``. A limit at or beyond 1e30
is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from isonomy.errors import FileError, NetworkError
from isonomy.networks.builder import Builder, Value
from isonomy.networks.graph import HeadChoice
from isonomy.networks.limits import MATRIX
from isonomy.networks.network import Network
from isonomy.networks.preprocessing import ExactAffine, affine_of, exact
from isonomy.population.toml import TEXT

_NONE = 1e30


def read_nnet(path: Path, head: HeadChoice) -> Network:
    """The graph of a ``.nnet`` file up to its outputs, and its head."""
    rows = _rows(path)
    layers, width, outputs, *_ = _whole(next(rows))
    sizes = _whole(next(rows))
    if len(sizes) != layers + 1 or sizes[0] != width or sizes[-1] != outputs or min(sizes) < 1:
        raise FileError(f"'{path}' is damaged: its header does not agree with its layer sizes {sizes}.")
    if max(sizes) > MATRIX or any(a * b > MATRIX for a, b in pairwise(sizes)):
        raise NetworkError("a layer is larger than the supported size.")
    next(rows)
    low, high = (_take(next(rows), width, "limits") for _ in range(2))
    mean, span = (_take(next(rows), width + 1, "normalisation") for _ in range(2))
    builder = Builder((width,))
    value = _normalised(builder, low, high, mean, span)
    for layer, (before, after) in enumerate(pairwise(sizes)):
        builder.at = f"layer{layer + 1}"
        weight = np.array([_take(next(rows), before, "weights") for _ in range(after)])
        bias = np.array([_take(next(rows), 1, "biases")[0] for _ in range(after)])
        value = builder.matmul(value, weight.T, bias)
        if layer + 1 < layers:
            value = builder.activation(value, "relu")
    if span[-1] != 1 or mean[-1] != 0:
        back = [ExactAffine.coordinate(i).times(Fraction(span[-1])).plus(Fraction(mean[-1])) for i in range(outputs)]
        value = builder.affine(value, affine_of(back, outputs))
    return builder.finish(value, head)


def _normalised(builder: Builder, low: list[float], high: list[float], mean: list[float], span: list[float]) -> Value:
    """Clipped and scaled inputs. One clip serves all: each input is first moved so that its limits are 0 and 1."""
    value, width = builder.input, len(low)
    ends = [(max(a, -_NONE), min(b, _NONE)) for a, b in zip(low, high, strict=True)]
    limited = [i for i, (a, b) in enumerate(ends) if (a, b) != (-_NONE, _NONE)]
    if any(a >= b for a, b in ends) or any(math.isnan(v) for v in (*low, *high)):
        raise NetworkError("the lowest value of an input must lie below its highest.")
    back = [ExactAffine.coordinate(i) for i in range(width)]
    if limited and any(abs(v) == _NONE for i in limited for v in ends[i]):
        raise NetworkError("an input with a limit on one side only is not supported.")
    if limited:
        inside = [ExactAffine.coordinate(i) for i in range(width)]
        for i in limited:
            start, length = Fraction(ends[i][0]), Fraction(ends[i][1]) - Fraction(ends[i][0])
            inside[i], back[i] = inside[i].plus(-start).times(1 / length), back[i].times(length).plus(start)
        moved = builder.affine(value, affine_of([inside[i] for i in limited], width), (len(limited),))
        clipped = builder.activation(moved, "clip", 0.0, 1.0)
        free = [i for i in range(width) if i not in limited]
        parts = [clipped, builder.place(value, lambda p: p[:, free])] if free else [clipped]
        order = np.argsort([*limited, *free])
        value = builder.place(builder.concat(parts, 1), lambda p: p[:, order])
    for i in range(width):
        if not span[i]:
            raise NetworkError(f"the range of input {i} is zero.")
        back[i] = back[i].plus(-Fraction(mean[i])).times(1 / Fraction(span[i]))
    return builder.affine(value, affine_of(back, width))


def _rows(path: Path) -> Iterator[list[float]]:
    """The lines of numbers."""
    try:
        text = path.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise FileError(f"'{path}' is not a .nnet network: it is not plain text.") from None
    for place, line in enumerate(text.splitlines(), 1):
        if len(line) > TEXT:
            raise FileError(f"'{path}' is not read: line {place} is longer than {TEXT >> 20} MiB.")
        if line.strip() and not line.lstrip().startswith("//"):
            try:
                yield [float(cell) for cell in line.split(",") if cell.strip()]
            except ValueError:
                raise FileError(f"'{path}' is damaged: line {place} holds something that is not a number.") from None
    raise FileError(f"'{path}' is damaged: it ends before its last layer.")


def _take(row: list[float], count: int, what: str) -> list[float]:
    if len(row) < count:
        raise NetworkError(f"a row of {what} holds {len(row)} numbers where {count} are expected.")
    if what != "limits":
        for number in row[:count]:
            exact(number, f"one of the {what}")
    return row[:count]


def _whole(row: list[float]) -> list[int]:
    if not row or any(number != round(number) or abs(number) > MATRIX for number in row if math.isfinite(number)):
        raise NetworkError("its header must hold whole numbers of a reasonable size.")
    return [int(number) for number in row]
