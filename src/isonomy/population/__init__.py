"""Who is judged: the schema, fair coordinates, who is possible, the population and where it is read."""

from isonomy.population.domain import BoolArray, Domain, DomainKind, FloatArray
from isonomy.population.feature import Feature, FeatureKind, Label, Split
from isonomy.population.population import Population, stream
from isonomy.population.schema import Encoded, Schema
from isonomy.population.selection import Selection
from isonomy.population.sources import Chunk, ChunkKey, PeopleSource, open_people
from isonomy.population.tables import Dialect

__all__ = [
    "BoolArray",
    "Chunk",
    "ChunkKey",
    "Dialect",
    "Domain",
    "DomainKind",
    "Encoded",
    "Feature",
    "FeatureKind",
    "FloatArray",
    "Label",
    "PeopleSource",
    "Population",
    "Schema",
    "Selection",
    "Split",
    "open_people",
    "stream",
]
