"""Tables to start with.

German credit and Adult are bundled with their schemas, the moons are generated; the American Community Survey tasks of
Folktables and credit card clients are read from a folder or downloaded.
"""

from isonomy.datasets.catalogue import Description
from isonomy.datasets.load import available, describe, load_population, make_moons

__all__ = ["Description", "available", "describe", "load_population", "make_moons"]
