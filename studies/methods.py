"""The ways to train: methods, each with our bound in its loss or with the paper's box form of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isonomy.training.config import Method

RIDGE = 1.0
"""The published code adds the identity to the metric of the sensitive subspace."""
ALPHA = 0.5
"""The weight of the bound where no choice was made on people set aside (:mod:`studies.targets`)."""


@dataclass(frozen=True)
class Way:
    """A way to train: a method, with our bound in the loss or the paper's box form of it."""

    method: Method
    box: bool = False

    @property
    def name(self) -> str:
        """As it is called in tables."""
        written = "SenSR" if self.method == "sensr" else self.method.upper()
        return f"{written}{', box form' if self.box else ''}"

    @property
    def bounded(self) -> bool:
        """Whether a bound is part of the loss."""
        return self.method in ("f-ibp", "l-dif", "u-dif")


PLAIN = (Way("sgd"), Way("ftu"), Way("sensr"))
BOUNDED = (Way("f-ibp"), Way("l-dif"), Way("u-dif"))
WAYS = (*PLAIN, *BOUNDED, *(replace(way, box=True) for way in BOUNDED))
