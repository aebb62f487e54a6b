"""Where a network is worst: proposals by gradients, corners, segments and chance, ranked in float64.

What is found here is only proposed. Members of sets, and values, are judged exactly elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .networks import Array, Net

STEPS = 4
GOALS = 6

Outermost = Callable[[Array], Array]
Pairs = tuple[Array, Array]


def moves(net: Net, base: Array, inside: Array, outermost: Outermost, rng: np.random.Generator) -> Array:
    """Moves from ``base`` at which margins are large or small, (k, m), the most promising of many."""
    goals = _goals(net, base, rng)
    k, m = len(goals), len(base)
    first = outermost(net.gradient(np.tile(base, (k, 1)), goals))
    tried = [inside[None], first, outermost(rng.normal(size=(6, m)))]
    best = np.where(
        rng.random((k, 1)) < 0.5, first, inside + rng.random((k, 1)) * (outermost(rng.normal(size=(k, m))) - inside)
    )
    value = _rated(net, base + best, goals)
    for _ in range(STEPS):
        aim = outermost(net.gradient(base + best, goals))
        for share in (1.0, 0.5, 0.1):
            proposal = best + share * (aim - best)
            better = (rated := _rated(net, base + proposal, goals)) > value
            best, value = np.where(better[:, None], proposal, best), np.where(better, rated, value)
        tried.append(best)
    known = np.concatenate(tried)
    some = known[rng.integers(0, len(known), 12)]
    known = np.concatenate([known, some * rng.random((12, 1)) + known[rng.integers(0, len(known), 12)] * 0.5])
    margins = np.nan_to_num(net.margins(base + known))
    chosen = [*margins.argmax(0).tolist(), *margins.argmin(0).tolist()]
    # At tiny radii float64 cannot rank: the ends of the gradient at the centre are looked at in any case.
    return known[list(dict.fromkeys([*_few(chosen, rng), *range(min(3, len(known))), len(known) - 1]))]


def pairs(
    net: Net, base: Array, near: tuple[Array, Outermost], between: tuple[Array, Outermost], rng: np.random.Generator
) -> Pairs:
    """Moves of a near person, and differences to a far one, at which the difference of margins is large or small."""
    goals = _goals(net, base, rng)
    k, m = len(goals), len(base)
    (still, outer), (_, apart) = near, between
    slope = net.gradient(np.tile(base, (k, 1)), goals)
    v, d = np.where(rng.random((k, 1)) < 0.5, still, outer(rng.normal(size=(k, m)))), apart(slope)
    tried = [(np.tile(still, (k, 1)), d), (outer(slope), d), (outer(-slope), d), (v, apart(rng.normal(size=(k, m))))]

    def rated(one: Array, step: Array) -> Array:
        return _rated(net, base + one + step, goals) - _rated(net, base + one, goals)

    value = rated(v, d)
    for _ in range(STEPS):
        there, here = net.gradient(base + v + d, goals), net.gradient(base + v, goals)
        for one, other in ((outer(there - here), apart(there)), (v, apart(there)), (outer(rng.normal(size=(k, m))), d)):
            for share in (1.0, 0.5, 0.1):
                first, second = v + share * (one - v), d + share * (other - d)
                better = (now := rated(first, second)) > value
                v, d = np.where(better[:, None], first, v), np.where(better[:, None], second, d)
                value = np.where(better, now, value)
        tried.append((v, d))
    v, d = (np.concatenate(part) for part in zip(*tried, strict=True))
    here, there = (np.nan_to_num(net.margins(base + x)) for x in (v, v + d))
    chosen = [*(there - here).argmax(0), *(there - here).argmin(0), *there.argmax(0), *there.argmin(0), *here.argmax(0)]
    kept = list(dict.fromkeys([*_few(chosen, rng), 0, k, len(v) - 1]))
    return v[kept], d[kept]


def _goals(net: Net, base: Array, rng: np.random.Generator) -> Array:
    width = net.margins(base[None]).shape[1]
    eye = np.eye(width)
    goals = np.concatenate([eye, -eye])
    return goals if len(goals) <= GOALS else goals[rng.permutation(len(goals))[:GOALS]]


def _rated(net: Net, x: Array, goals: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.nan_to_num((net.margins(x) * goals).sum(axis=1), nan=-1e300)


def _few(chosen: list[int], rng: np.random.Generator) -> list[int]:
    unique = list(dict.fromkeys(int(i) for i in chosen))
    return unique if len(unique) <= 6 else [unique[i] for i in rng.permutation(len(unique))[:6]]
