"""Two moons: the smallest population on which everything can be drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isonomy.errors import ParameterError, template
from isonomy.population import DomainKind, Feature, Label, Population, Schema

_SCHEMA = Schema(
    name="moons",
    description="Two interleaved half circles; the vertical coordinate is protected.",
    features=(
        Feature("horizontal", low=-2.0, high=3.0, origin=0.0, unit=1.0, tolerance=0.1),
        Feature("vertical", low=-1.5, high=2.0, origin=0.0, unit=1.0, protected=True),
    ),
    label=Label("moon", classes=("upper", "lower")),
)


def make_moons(n: int = 1000, *, noise: float = 0.1, seed: int = 0, domain: DomainKind = "realizable") -> Population:
    """``n`` individuals on two interleaved half circles, with Gaussian noise, within the schema's range."""
    if n < 2:
        raise ParameterError(template("n", "a whole number >= 2", n))
    if not 0 <= noise < np.inf:
        raise ParameterError(template("noise", "a finite number >= 0", noise))
    generator = np.random.default_rng(seed)
    lower = np.arange(n) % 2 == 1
    angle = generator.uniform(0.0, np.pi, n)
    horizontal = np.where(lower, 1.0 - np.cos(angle), np.cos(angle))
    vertical = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    frame = pd.DataFrame({"moon": np.where(lower, "lower", "upper")})
    for feature, exact in zip(_SCHEMA.features, (horizontal, vertical), strict=True):
        frame[feature.name] = np.clip(exact + generator.normal(0.0, noise, n), feature.low, feature.high)
    return Population.from_frame(frame, _SCHEMA, domain=domain)
