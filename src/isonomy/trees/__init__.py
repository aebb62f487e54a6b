"""Tree ensembles: one flat form over raw columns, one reader per library, and the model on a schema's coordinates."""

from isonomy.trees.forest import Column, Forest
from isonomy.trees.load import read_trees
from isonomy.trees.model import TreeModel

__all__ = ["Column", "Forest", "TreeModel", "read_trees"]
