"""The tables of the studies: tasks of the American Community Survey, and credit card clients."""

from studies.surveys.extracts import available, describe, load_population

__all__ = ["available", "describe", "load_population"]
