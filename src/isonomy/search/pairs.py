"""Parts of the set of pairs, which the kernel narrows, bounds and cuts (:mod:`isonomy_verify.cutting`), and
individuals in them."""

from __future__ import annotations

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.bounds.kernel import head_of, preparations
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity.regions import Similarity
from isonomy_verify.cutting import Cutting, Parts


def cutting_of(similarity: Similarity, network: Network, influence: FloatArray, float32_run: bool = False) -> Cutting:
    """Return the kernel's cuts of pairs; ``influence`` (m,) says which coordinates matter."""
    head = head_of(network, None, float32_run)
    return Cutting(similarity.kernel, preparations(network), head, influence, float32_run)


def people_in(domain: Domain, parts: Parts, rng: np.random.Generator) -> FloatArray:
    """Return a possible individual from the box of ``x`` of each part, where one is easily constructed."""
    x = parts.x_low / 2 + parts.x_high / 2
    if domain.kind == "realizable":
        for start, stop in domain.blocks:
            x[:, start:stop] = _pick(parts.x_low[:, start:stop], parts.x_high[:, start:stop], rng)
    else:
        for start, stop in domain.simplices:
            x[:, start:stop] /= np.maximum(x[:, start:stop].sum(1, keepdims=True), 1e-300)
    return snapped_members(domain, x)


def snapped_members(domain: Domain, x: FloatArray) -> FloatArray:
    """Round rows to whole numbers and fills; return those in the domain."""
    x = domain.filled(domain.snap(np.clip(x, domain.low, domain.high)))
    return np.asarray(x[domain.contains(x)], dtype=np.float64)


def _pick(low: FloatArray, high: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw a possible category of each row; a flag is 0 or 1."""
    if low.shape[1] == 1:
        return np.where(low == high, low, (rng.random(low.shape) < 0.5).astype(np.float64))
    open_ = np.where((low == 1).any(1, keepdims=True), low == 1, high == 1)
    chosen = np.where(open_, rng.random(low.shape), -1.0).argmax(1)
    return np.asarray(np.eye(low.shape[1])[chosen], dtype=np.float64)
