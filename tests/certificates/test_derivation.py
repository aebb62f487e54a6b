"""The kernel alone, given texts, arrays and nothing of the library, has the bounds that the library has, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.similarity.test_wander import KINDS, SCHEMA, WIDTH, members, metric_of, singular_there

from isonomy.certificates.local import Bounds
from isonomy.certificates.moving import Moving
from isonomy.problem import Problem
from isonomy.similarity import Mahalanobis
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import ground_metric
from isonomy_verify.definitions import domain_of, form_of
from isonomy_verify.heads import Head
from isonomy_verify.local import LocalBounds
from isonomy_verify.network import normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import Reach
from isonomy_verify.similar import Similarity

from .neighbours import mlp

RADII = [0.0, 0.1, 0.6]


def same(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", ["realizable", "relaxed", "unbounded"])
def test_bounds_from_texts_are_those_of_the_library(kind: str, space: Any) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    metric, domain = metric_of(rng, kind), SCHEMA.domain(space)
    if singular_there(metric, domain) or (space == "unbounded" and metric.free.any()):
        metric = Mahalanobis.from_root(np.eye(WIDTH) + rng.normal(size=(WIDTH, WIDTH)) / 3)
    x, network, float32 = members(rng, domain, 5), mlp(rng, WIDTH), bool(rng.random() < 0.5)
    ground = ground_metric(["l1", "l2", "linf"][KINDS.index(kind) % 3], WIDTH)
    problem = Problem.of(network, metric, 0.3, domain)

    head = Head(network.head, network.classes, None, float32)
    ready = Preparations(normal_form(network.graph.nodes, head.rows))
    space_of = replace(domain_of(SCHEMA.to_toml(), space), names=domain.names)
    similarity = Similarity(form_of(metric_to_text(metric), "metric.toml"), 0.3, space_of, keep=True)
    for tier in ("interval", "quick", "tight", "paper"):
        if tier == "paper" and space != "unbounded":
            continue
        own = Bounds(problem, tier, float32).kernel
        stranger = LocalBounds(ready, head, similarity, own.tier, float32, tier == "paper", own.size)
        mine, theirs = own.chunk(x), stranger.chunk(x)
        assert same(mine.upper, theirs.upper) and same(mine.kept, theirs.kept), tier
        assert same(own.keeps(x, mine.upper), stranger.keeps(x, theirs.upper))
    moving = Moving(problem, x, np.ones(len(x)), ground, float32)
    reach = Reach(ready, head, similarity, form_of(metric_to_text(ground), "ground.toml"), float32)
    for tight in (True, False):
        bound = moving.bound(np.arange(len(x)), RADII, tight)
        assert same(bound, reach.bound(x, RADII, tight)) and bound.max() > 0
    assert same(moving.everywhere(), reach.everywhere(x))
    assert (moving.kernel.is_norm, moving.kernel.single_radius) == (reach.is_norm, reach.single_radius)
