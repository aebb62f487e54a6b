"""The kinds of model that a record can have, each read by the module that has its bounds.

A new kind is a line here, its keys in :data:`isonomy_verify.layout.MODELS`, and the types of its arrays in
:mod:`isonomy_verify.record`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.enumeration import samples_of, table_of
from isonomy_verify.evidence import nodes_of
from isonomy_verify.heads import Head
from isonomy_verify.hints.ascent import improve
from isonomy_verify.layout import TREES
from isonomy_verify.local import LocalBounds
from isonomy_verify.models import Model
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.record import Record
from isonomy_verify.similar import Similarity
from isonomy_verify.text import need
from isonomy_verify.tree_bounds import TreeBounds
from isonomy_verify.trees import Trees, margin_errors


class Layers(Model):
    """A network: its operations, as a record has them."""

    says = ", what it says of its own roundings included"

    def __init__(self, nodes: list[Node], outputs: int, width: int) -> None:
        self.nodes, self.outputs, self.width = nodes, outputs, width

    def bounds(self, head: Head, similarity: Similarity, tier: str, float32_run: bool) -> LocalBounds:
        """The bounds of a tier."""
        network = Preparations(normal_form(self.nodes, head.rows))
        return LocalBounds(network, head, similarity, tier, float32_run, improve=improve)  # type: ignore[arg-type]


def layers_of(record: Record) -> Layers:
    """The network of a record."""
    return Layers(*nodes_of(record))


class Ensemble(Model):
    """Trees: tests and leaves, as a record has them, and how far a run of the library that made them may be off."""

    says = ", what it says of its library's own sums included"

    def __init__(self, trees: Trees, run_error: Array, width: int) -> None:
        self.trees, self.run_error, self.outputs, self.width = trees, run_error, trees.outputs, width

    def bounds(self, head: Head, similarity: Similarity, tier: str, float32_run: bool) -> TreeBounds:
        """The bounds, the same of every tier."""
        return TreeBounds(self.trees, head, similarity, margin_errors(head, self.run_error) if float32_run else 0.0)


def ensemble_of(record: Record) -> Ensemble:
    """The trees of a record."""
    arrays = record.group("model")
    need(set(arrays) == set(TREES), "trees without some of their arrays")
    error = np.asarray(arrays["run_error"])
    trees = Trees.from_arrays({name: array for name, array in arrays.items() if name != "run_error"})
    need(error.shape == (trees.outputs,) and ((error >= 0) & (error < np.inf)).all(), "the error of a run")
    return Ensemble(trees, error, record.predicate["model"]["width"])


KINDS: dict[str, Callable[[Record], Model]] = {
    "network": layers_of, "trees": ensemble_of, "enumeration": table_of, "shown": samples_of,
}  # fmt: skip


def model_of(record: Record) -> Model:
    """The model of a record, by its kind."""
    kind = record.predicate["model"]["kind"]
    need(kind in KINDS, "a model of no known kind")
    return KINDS[kind](record)
