"""What is judged: a small graph of operations, the affine adapter in front of it, one reader per format."""

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Head, Input, Node, Select, compose
from isonomy.networks.load import load_network
from isonomy.networks.network import Network
from isonomy.networks.simplify import simplify

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "Concat",
    "Graph",
    "Head",
    "Input",
    "Network",
    "Node",
    "Select",
    "compose",
    "load_network",
    "simplify",
]
