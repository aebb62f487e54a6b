"""What is judged: a small graph of operations, the affine adapter in front of it, one reader per format."""

from isonomy.networks.inputs import schema_adapter
from isonomy.networks.load import load_model, load_network
from isonomy.networks.network import Agreement, Network, check_predictions

__all__ = ["Agreement", "Network", "check_predictions", "load_model", "load_network", "schema_adapter"]
