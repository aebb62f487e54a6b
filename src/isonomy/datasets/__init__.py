"""Tables to start with: German credit and Adult are bundled with their schemas, the moons are generated."""

from isonomy.datasets.catalogue import Description, describe, load_population, make_moons

__all__ = ["Description", "describe", "load_population", "make_moons"]
