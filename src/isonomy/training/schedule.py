"""Numbers that grow during training: nothing at first, then a straight ramp to the full value."""

from __future__ import annotations

from dataclasses import dataclass

from isonomy.errors import ParameterError, template


@dataclass(frozen=True)
class Ramp:
    """0 until ``start``, then linear, 1 from ``stop`` on; both in epochs."""

    start: float
    stop: float

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ParameterError(template("ramp", "two epochs 0 <= start <= stop", (self.start, self.stop)))

    def __call__(self, epoch: float) -> float:
        """The share of the full value at a fractional epoch."""
        if epoch >= self.stop:
            return 1.0
        return max(0.0, (epoch - self.start) / (self.stop - self.start))


def cooled(progress: float) -> float:
    """The factor of the learning rate: full for the first half of the training, then falling to a fiftieth."""
    return 1.0 if progress < 0.5 else max(0.02, 2 * (1 - progress))
