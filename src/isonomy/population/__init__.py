"""Who is judged: the schema, fair coordinates, the domain, and the population.

A :class:`Schema` says which columns make an individual and fixes the coordinates in which individuals are
compared; a :class:`Domain` which vectors stand for a possible individual; a :class:`Population` holds a
table's individuals; :func:`open_people` cuts tables of any kind and size into chunks of them, and :func:`stream` reads
a file that is larger than memory as a sequence of populations.
"""

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
