"""How far populations are apart: Wasserstein distances, to choose gamma and to know when a certificate has expired."""

from isonomy.shift.distance import Distance, wasserstein

__all__ = ["Distance", "wasserstein"]
