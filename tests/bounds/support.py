"""What the kernel says of sets: their support functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.sets import ConvexSets, ball_of, region_of

Array = NDArray[np.float64]


@np.errstate(over="ignore")
def support(sets: ConvexSets, weight: Array) -> Array:
    """Upper bounds (rows, k) of ``max over v of weight_k · v``, weight by weight and row by row; of a ball as of any
    other set, and as of a ball."""
    found = []
    for region in (region_of(sets), ball_of(sets)):
        if region is not None:
            linear_image = region.linear_image(weight, np.abs(weight))
            owner = np.repeat(np.arange(region.rows), len(weight))
            bound = region.support(np.tile(linear_image.matrix, (region.rows, 1)), owner).reshape(region.rows, -1)
            found.append(np.nextafter(bound + linear_image.loss, np.inf))
    return np.min(found, axis=0)


@np.errstate(over="ignore")
def ranges(sets: ConvexSets, weight: Array) -> tuple[Array, Array]:
    """The same for all weights of a layer at once, and the lower ends."""
    linear_image = region_of(sets).linear_image(weight, np.abs(weight))
    return linear_image.high, linear_image.low
