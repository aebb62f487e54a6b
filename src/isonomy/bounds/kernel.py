"""Heads as the kernel (:mod:`isonomy_verify`) takes them, and what it prepared for each network.

What is the same for all individuals is prepared once for a network and a ball, and kept as long as the network lives.
"""

from __future__ import annotations

import math
import threading
from weakref import WeakKeyDictionary

import numpy as np

from isonomy.errors import ParameterError, template
from isonomy.networks.network import Network
from isonomy_verify.enclosure import Prepared
from isonomy_verify.heads import Head
from isonomy_verify.network import normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.sets import ConvexSets, region_of

__all__ = ["head_of", "preparations", "prepared_for", "region_of"]

_ready: WeakKeyDictionary[Network, dict[bool, Preparations]] = WeakKeyDictionary()
_lock = threading.Lock()


def head_of(
    given: Network, threshold: float | None = None, float32_run: bool = False, favourable: tuple[int, ...] = ()
) -> Head:
    """Return the kernel's head of a network; ``threshold`` is the cut-off of its decisions, if there is one, and of two
    classes the probability of the ``favourable`` one, by default of class 1."""
    one = favourable[0] if len(favourable) == 1 and favourable[0] in (0, 1) else 1  # of several classes no matter
    return Head(given.head, given.classes, _cut_off(given, threshold), float32_run, one)


def preparations(given: Network, scores: bool = False) -> Preparations:
    """Return the network's margins in normal form, with everything prepared for them; made once.

    ``scores``: with several classes, instead of margins the numbers whose sigmoids are the probabilities.
    """
    head = head_of(given)
    scores = scores and head.kind == "softmax" and head.outputs > 2
    with _lock:
        ready = _ready.setdefault(given, {})
        if scores not in ready:
            nodes = given.graph.nodes
            more, rows = (head.scores(len(nodes) - 1), None) if scores else ([], head.rows)
            ready[scores] = Preparations(normal_form([*nodes, *more], rows))
        return ready[scores]


def prepared_for(
    given: Network, sets: ConvexSets | None = None, float32_run: bool = False, scores: bool = False
) -> Prepared:
    """Prepare the network for ``sets`` if they are one ball for all individuals, else for any sets."""
    return preparations(given, scores).single(sets, float32_run)


def _cut_off(given: Network, threshold: float | None) -> float | None:
    if threshold is None:
        return None
    several = given.classes > 2 or (given.head != "softmax" and given.classes > 1)
    if several:
        raise ParameterError(f"'threshold' needs two classes or one number; this network has {given.classes} outputs.")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.integer | np.floating):
        raise ParameterError(template("threshold", "a number", threshold))
    if not math.isfinite(threshold) or (given.head != "regression" and not 0 < threshold < 1):
        expected = "a finite number" if given.head == "regression" else "a probability strictly between 0 and 1"
        raise ParameterError(template("threshold", expected, threshold))
    return float(threshold)
