"""The models that records know, by their kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from isonomy.enumeration import Enumeration, FoundOnly
from isonomy.model import HeadName, Model
from isonomy.networks.network import Network
from isonomy.trees.model import TreeModel
from isonomy_verify.text import need

KINDS: dict[str, type[Model]] = {kind.kind: kind for kind in (Network, TreeModel, Enumeration, FoundOnly)}


def model_of(section: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], head: HeadName, name: str) -> Model:
    """Return the model that the section of a record means."""
    need(section["kind"] in KINDS, "a model of no known kind")
    return KINDS[section["kind"]].read(section, arrays, head, name)
