"""What is judged: a small graph of operations, the affine adapter in front of it, one reader per format."""

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Head, Input, Node, Select
from isonomy.networks.inputs import schema_adapter
from isonomy.networks.load import load_model, load_network
from isonomy.networks.network import Agreement, Network, check_predictions

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "Agreement",
    "Concat",
    "Graph",
    "Head",
    "Input",
    "Network",
    "Node",
    "Select",
    "check_predictions",
    "load_model",
    "load_network",
    "schema_adapter",
]
