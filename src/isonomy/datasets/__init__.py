"""Tables to start with: German credit and Adult, bundled with their schemas, and the generated moons."""

from isonomy.datasets.load import available, load_population
from isonomy.datasets.moons import make_moons

__all__ = ["available", "load_population", "make_moons"]
