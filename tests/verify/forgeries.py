"""Forgeries by kind: what is edited, of which certificates. Each makes some claim false, or the files no certificate.

``SHIFT`` is a small audit with a shift, ``STILL`` one without, ``LARGE`` a table of which some are drawn, ``DECIDED``
one with decisions of every kind, ``TREES`` one of a tree ensemble. All hashes, shapes and counts are made to fit after
each edit; ``follows`` besides claims what the forged profiles and weights give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .edits import (
    Edit,
    all_as,
    array,
    as_root,
    ask,
    at,
    bad,
    bad_list,
    both,
    claim,
    decisions,
    dropped,
    dropped_tree,
    exchanged,
    exchanged_witnesses,
    extra_network,
    feature,
    follow,
    heavier,
    hidden_budget,
    in_profiles,
    kinds,
    largest_leaf,
    linked,
    local,
    named_like_a_hash,
    node,
    nothing,
    passes,
    plus,
    population,
    said,
    selection,
    shaped,
    sources,
    spoiled,
    stale,
    text,
    times,
    toml,
    unnamed,
    used,
    weight_on,
    withheld,
    without_array,
    wrong_hash,
)

SHIFT, STILL, LARGE, DECIDED, TREES = "audit", "still", "large", "decided", "trees"
ALL, SMALL, MOVED = (SHIFT, STILL, LARGE), (SHIFT, STILL), (SHIFT, LARGE)


class Forgery(NamedTuple):
    kind: str
    base: str
    number: int
    edit: Edit
    after: Edit  # once all hashes fit: what cannot be said in JSON

    def __str__(self) -> str:
        return f"{self.kind}, {self.base}, {self.number}"


BOMBS = (
    f"a = {'[' * 5000}{']' * 5000}",
    f"{'a.' * 200_000}a = 1",
    f"[{'a.' * 200_000}a]",
    f"a = {'{a=' * 5000}1{'}' * 5000}",
    f"a = {'9' * 10_000}",
    "x" * (2**22 + 1),
    "[features.a]\ncategories = [" + ",".join(f'"{i}"' for i in range(20_000)) + "]",
)
"""Texts that take long to read, or become much more than they are."""

ALONE = ("counterpart", "flip_counterpart")

NUMBERS = ["nan", "1", True, None, [1], {}, -1.0, "-inf"]

KINDS: dict[str, tuple[tuple[str, ...], list[Edit]]] = {
    # claims
    "upper lowered": (ALL, [claim("upper", lambda u, f=f: u * f) for f in (0.0, 0.5, 0.9, 0.99, 0.9999)]),
    "upper lowered a little": (ALL, [claim("upper", lambda u: round(u - 2e-6, 6))]),
    "upper is no number": (ALL, [claim("upper", value) for value in NUMBERS if value != -1.0]),
    "upper negative": (ALL, [claim("upper", -1.0), claim("upper", -1e300)]),
    "lower raised": (SMALL, [claim("lower", lambda v, f=f: v * f) for f in (1.01, 1.1, 5.0)]),
    "lower raised a little": (SMALL, [claim("lower", lambda v: round(v + 2e-6, 6))]),
    "lower without witnesses": ((LARGE,), [claim("lower", value) for value in (1e-6, 0.05, 0.2)]),
    "lower is no number": (ALL, [claim("lower", value) for value in NUMBERS if value != -1.0]),
    "hidden lowered": (ALL, [claim("hidden", lambda v, f=f: v * f) for f in (0.0, 0.5, 0.99)]),
    "hidden is no number": (ALL, [claim("hidden", value) for value in ("nan", None, -1.0)]),
    "another verdict": (ALL, [claim("verdict", value) for value in ("violated", "undecided", None, "fair", 1)]),
    "epsilon below upper, certified": (ALL, [ask("epsilon", value) for value in (0.0, 0.05, 0.1)]),
    "epsilon is no number": (ALL, [ask("epsilon", value) for value in ("0.4", "nan", -0.1, [], "inf", True)]),
    "no epsilon, a verdict": (ALL, [ask("epsilon", None)]),
    "multiplier of another slope": (MOVED, [claim("multiplier", lambda v, f=f: v * f) for f in (0.0, 0.1, 0.5, 2, 50)]),
    "multiplier hostile": (
        MOVED,
        [claim("multiplier", value) for value in (-1.0, 1e300, "inf", "nan", None, True, [])],
    ),
    "claims that nobody knows": (
        ALL,
        [said("claims", everybody=0.0), said("question", alpha=0.1), said("predicate", x=1)],
    ),
    "claims missing": (ALL, [dropped("claims", key) for key in ("hidden", "population", "multiplier", "lower")]),
    "parts missing": (ALL, [dropped("predicate", key) for key in ("withheld", "remarks", "model", "reading")]),
    "questions missing": (ALL, [dropped("question", key) for key in ("delta", "tier", "output_range", "max_branches")]),
    "population lowered": (
        SMALL,
        [population(), population(upper=0.0), population(upper=0.125), population(upper="nan")],
    ),
    "population of everybody drawn": ((LARGE,), [population(), population(upper=0.2)]),
    "population with another multiplier": (
        (SHIFT,),
        [population(upper=0.3, multiplier=m) for m in (-1.0, 0.0, 0.3, 1e9)],
    ),
    "population surer": ((STILL,), [ask("confidence", c) for c in (0.95, 0.9999, 1.0, 0.0, 2.0, None, "0.8")]),
    "population of other weights": ((STILL,), [array("people.weights", at(0, 1.5))]),
    "population says more": (SMALL, [population(upper=1.0, everywhere=True)]),
    # everybody alone
    "undecided, said to be certified": ((DECIDED,), [decisions("undecided", "certified")]),
    "flippable, said to be certified": ((DECIDED,), [decisions("flippable", "certified")]),
    "one of them said to be certified": ((DECIDED,), [decisions("flippable", "certified", True)]),
    "flippable without a witness": (
        (DECIDED,),
        [decisions("undecided", "flippable"), decisions("certified", "flippable", True)],
    ),
    "counts of decisions": (
        (*SMALL, DECIDED),
        [
            local(decisions_certified=lambda n: n + 1),
            local(decisions_flippable=lambda n: n + 1),
            local(decisions_certified=lambda n: n - 1),
            local(decisions=lambda of: {}),
            local(decisions=lambda of: None),
        ],
    ),
    "counts of epsilon": (
        (*SMALL, DECIDED),
        [
            local(verdicts_certified=lambda n: n + 1),
            local(verdicts_violated=lambda n: n + 1),
            local(verdicts=lambda of: None),
        ],
    ),
    "means of everybody alone": (
        ALL,
        [local(upper=lambda v: v * 0.9), local(lower=lambda v: v + 1e-6), local(hidden=lambda v: 0.0)],
    ),
    "own upper bounds lowered": (
        (*ALL, DECIDED),
        [array("local.upper", times(f)) for f in (0.0, 0.5, 0.99)],
    ),
    "one upper bound lowered": ((*SMALL, DECIDED), [array("local.upper", at(0, lambda v: v * 0.99))]),
    "own lower bounds raised": (
        (*SMALL, DECIDED),
        [array("local.lower", times(1.01)), array("local.lower", at(-1, lambda v: v + 1e-6))],
    ),
    "lower bounds without witnesses": ((LARGE,), [array("local.lower", plus(1e-6)), array("local.lower", at(0, 0.1))]),
    "exchanged witnesses": ((DECIDED,), [exchanged_witnesses(name) for name in ALONE]),
    "own witnesses too far": (
        (DECIDED,),
        [array(f"local.{name}", lambda rows: 1.0 - rows) for name in ALONE]
        + [array(f"local.{name}", at((0, 0), 9.0)) for name in ALONE],
    ),
    "witnesses left out": ((*SMALL, DECIDED), [array("local.counterpart", lambda rows: rows[1:])]),
    "decisions hostile": (
        (*SMALL, DECIDED),
        [
            array("local.decision", at(0, 7)),
            array("local.decision", lambda of: of[1:]),
            array("local.decision", lambda of: of[:, None]),
        ],
    ),
    "own bounds hostile": ((*SMALL, DECIDED), [*bad("local.upper"), *bad("local.lower")]),
    # the question
    "delta raised": (ALL, [ask("delta", value) for value in (2.0, 5.0, 50.0)]),
    "delta is no number": (ALL, [ask("delta", value) for value in ("1", -1.0, "inf", None, True)]),
    "gamma raised": (MOVED, [ask("gamma", lambda g, f=f: g * f) for f in (1.1, 2.0, 100.0)]),
    "gamma where there was none": ((STILL,), [ask("gamma", value) for value in (1e-9, 0.1, "inf")]),
    "gamma infinite": (MOVED, [ask("gamma", "inf")]),
    "gamma is no number": (ALL, [ask("gamma", value) for value in (-0.1, "0.1", None, True)]),
    "order": (MOVED, [ask("order", value) for value in (0.5, 0, -1, "1", None, True)]),
    "everybody moves at once": (MOVED, [both(ask("order", "inf"), ask("gamma", 10.0))]),
    "tier": ((SHIFT,), [ask("tier", value) for value in ("interval", "exact", "paper", "", None)]),
    "tier unknown": ((STILL, LARGE), [ask("tier", value) for value in ("exact", "paper", "quick", 1)]),
    "arithmetic": (SMALL, [ask("arithmetic", value) for value in ("float32", "float16", "exact", None)]),
    "max_branches": (ALL, [ask("max_branches", value) for value in (-1, 2**40, "9", 1.5, True, None)]),
    "head": (ALL, [ask("head", value) for value in ("regression", "magic", None, "Softmax")]),
    "output range of probabilities": (ALL, [ask("output_range", value) for value in ([0, 0.1], [0, 0], "x", [1])]),
    "output range and regression": (ALL, [both(ask("head", "regression"), ask("output_range", [1.0, 0.0]))]),
    "domain of another kind": (ALL, [ask("domain", value) for value in ("unbounded", "everybody", None)]),
    # profiles
    "profiles lowered, claims follow": (ALL, [array("profiles.value", times(f), True) for f in (0.0, 0.5, 0.9, 0.99)]),
    "profiles lowered, claims stay": (ALL, [array("profiles.value", times(f)) for f in (0.0, 0.9, 0.999)]),
    "profiles lowered a little": (
        SMALL,
        [array("profiles.value", plus(-1e-3), True), array("profiles.value", plus(-1e-4), True)],
    ),
    "own bounds lowered": ((STILL,), [in_profiles("own", times(f)) for f in (0.0, 0.9, 0.999)]),
    "far bounds lowered": (MOVED, [in_profiles("far", times(f)) for f in (0.0, 0.5, 0.9)]),
    "first individual's bounds lowered": (SMALL, [in_profiles("first", times(f)) for f in (0.0, 0.9, 0.999)]),
    "half of the bounds lowered": (ALL, [in_profiles("even", times(f)) for f in (0.0, 0.7)]),
    "profiles exchanged": (SMALL, [exchanged]),
    "profiles hostile": (
        ALL,
        [
            *bad("profiles.value"),
            array("profiles.value", plus(1e300)),
            array("profiles.value", lambda v: -v),
        ],
    ),
    "radii further than proved": (MOVED, [array("profiles.radius", times(f), True) for f in (1.5, 4.0, 1e6)]),
    "radii hostile": (
        ALL,
        [*bad("profiles.radius"), array("profiles.radius", plus(1.0)), array("profiles.radius", lambda r: r[::-1] - 1)],
    ),
    "largest lowered": (ALL, [array("profiles.largest", times(f), True) for f in (0.5, 0.9, 0.999)]),
    "largest hostile": (ALL, [*bad("profiles.largest"), array("profiles.largest", times(0.0))]),
    "counts": (
        ALL,
        [
            array("profiles.count", at(0, lambda c: c + 1)),
            array("profiles.count", at(0, 0)),
            array("profiles.count", lambda c: -c),
            array("profiles.count", lambda c: c[:-1]),
            array("profiles.count", lambda c: c + 2**62),
        ],
    ),
    "sources hostile": (ALL, [sources(value) for value in (np.nan, np.inf, -1.0, 1e-300, 1e300, 1e6)]),
    "passes that are not there": (
        ALL,
        [passes(lambda p: p + 2**20), passes(lambda p: p - 1), passes(lambda p: p[:-1])],
    ),
    "other passes": (MOVED, [passes(lambda p: p[::-1]), passes(lambda p: p * 0)]),
    "sources of other passes": (MOVED, [sources(times(f)) for f in (0.5, 2.0, 0.0)]),
    # people
    "weights on the worst": (ALL, [weight_on(True)]),
    "weights hostile": (
        ALL,
        [*bad("people.weights"), array("people.weights", times(0.0)), array("people.weights", times(2.0**600))],
    ),
    "lower profiles with other weights": (ALL, [both(array("profiles.value", times(0.8)), weight_on(False), follow)]),
    "people replaced": (ALL, [all_as("all")]),
    "people swapped": (SMALL, [all_as("reversed")]),
    "people outside the domain": (
        ALL,
        [
            array("people.x", at((0, 0), plus(0.5))),
            array("people.x", at((1, slice(28, 33)), 1.0)),
            array("people.x", plus(1e9)),
            array("people.x", at((0, slice(0, 4)), 0.0)),
            array("people.x", at((2, 4), 1e300)),
        ],
    ),
    "people hostile": (
        ALL,
        [*bad("people.x"), array("people.x", lambda x: x.T), array("people.x", lambda x: np.r_[x, x])],
    ),
    "people of other rows": (
        ALL,
        [
            array("people.rows", lambda r: r * 0),
            array("people.rows", plus(10**6)),
            array("people.rows", lambda r: r[:-1]),
        ],
    ),
    "selection": (
        ALL,
        [
            selection(people=9),
            selection(words="everybody"),
            selection(pool=2),
            selection(rows=3),
            selection(people="4"),
            selection(how="all"),
            selection(how="fair"),
            selection(excluded=10**6),
            selection(held_out="yes"),
        ],
    ),
    # witnesses
    "witnesses not similar": (
        SMALL,
        [
            array("points.counterpart", lambda y: y[::-1]),
            array("points.counterpart", at((slice(None), slice(0, 4)), plus(1.0))),
        ],
    ),
    "witnesses outside the domain": (
        SMALL,
        [used("counterpart", plus(0.25)), used("person", plus(0.25)), used("counterpart", lambda y: 1 - y)],
    ),
    "witnesses are nobody's counterpart": (SMALL, [lambda f: f.put("points.counterpart", f.array("points.person"))]),
    "witnesses too far": ((SHIFT,), [used("cost", times(0.0)), hidden_budget, ask("gamma", lambda g: 0.01 * g)]),
    "costs hostile": (SMALL, [*bad("points.cost"), array("points.cost", plus(-1.0))]),
    "masses above weights": (SMALL, [heavier, both(array("points.mass", times(2.0)), claim("lower", times(1.5)))]),
    "masses hostile": (
        SMALL,
        [*bad("points.mass"), array("points.mass", times(-1.0)), array("points.mass", plus(np.inf))],
    ),
    "masses taken away": (SMALL, [array("points.mass", times(0.5)), array("points.mass", times(0.0))]),
    "values raised": (SMALL, [both(array("points.value", times(2.0)), claim("lower", times(1.2)))]),
    "counts of witnesses": (
        SMALL,
        [
            array("points.count", at(0, lambda c: c + 1)),
            array("points.count", lambda c: -c),
            array("points.count", lambda c: c + 2**62),
            array("points.count", lambda c: np.r_[c.sum(), 0 * c[1:]]),
        ],
    ),
    # metric, ground, domain
    "metrics of another kind": (
        ALL,
        [toml(n, kind=v) for n in ("metric", "ground") for v in ("euclid", 1, ["counterparts"], "mahalanobis")],
    ),
    "ground's order": (ALL, [toml("ground", order=v) for v in (3, 1.5, 0, -1, math.nan, "2", True, [2])]),
    "more is free": (
        ALL,
        [toml("metric", free=lambda f: [True] * len(f)), toml("metric", free=lambda f: [True] * 4 + f[4:])],
    ),
    "tolerances": (
        ALL,
        [
            toml("metric", tolerance=lambda t: [20 * v for v in t]),
            *bad_list("metric", "tolerance"),
            toml("metric", tolerance=lambda t: [-1.0, *t[1:]]),
        ],
    ),
    "ratios": (ALL, [toml("metric", relative=lambda t: [v + 5 for v in t]), *bad_list("metric", "relative")]),
    "metric's units": (
        ALL,
        [toml("metric", unit=lambda t, f=f: [f * v for v in t]) for f in (0.0, -1.0)] + bad_list("metric", "unit"),
    ),
    "a metric without parts": (ALL, [toml("metric", **{part: None}) for part in ("free", "unit", "width", "kind")]),
    "a metric with more parts": (ALL, [toml("metric", root=[[1.0]]), toml("ground", free=[]), toml("ground", alpha=1)]),
    "a metric of other coordinates": (ALL, [toml("metric", width=v) for v in (57, 0, -1, 2**40, "58", True, 58.5)]),
    "roots": (
        ALL,
        [
            as_root("ground", lambda n: [[math.nan] * n] * n),
            as_root("ground", lambda n: np.eye(n - 1).tolist()),
            as_root("metric", lambda n: [[math.inf] * n]),
            as_root("metric", lambda n: [[1.0] * (n - 1), [1.0] * n]),
            as_root("metric", lambda n: [1.0] * n),
            as_root("metric", lambda n: "root"),
            as_root("metric", lambda n: [[]]),
        ],
    ),
    "everybody is alike": (ALL, [as_root("metric", lambda n: []), as_root("metric", lambda n: [[1e-9] * n])]),
    "moves cost less": (MOVED, [toml("ground", weights=lambda w, f=f: [f * v for v in w]) for f in (0.25, 0.81)]),
    "moves are free": ((SHIFT,), [toml("ground", weights=lambda w, f=f: [f * v for v in w]) for f in (0.0, 0.01)]),
    "weights of the ground cost": (ALL, bad_list("ground", "weights")),
    "ranges": (
        ALL,
        [
            feature("duration", low=20),
            feature("credit_amount", high=1e7),
            feature("credit_amount", low=3e4),
            feature("duration", high=0),
            feature("duration", low=math.nan),
            feature("duration", high="72"),
            feature("duration", low=True),
            feature("duration", low=None),
        ],
    ),
    "categories": (
        ALL,
        [
            feature("purpose", categories=lambda c: c[:-1]),
            feature("purpose", categories=lambda c: [*c, "A49"]),
            feature("purpose", categories=lambda c: [*c, "A99"]),
            feature("purpose", categories=[1, 2]),
            feature("purpose", categories=[]),
            feature("purpose", categories="A40"),
            feature("purpose", missing="category"),
        ],
    ),
    "features": (
        ALL,
        [
            lambda f: f.table("schema.toml", lambda t: t["features"].pop("job")),
            lambda f: f.table("schema.toml", lambda t: t.pop("features")),
            lambda f: f.table("schema.toml", lambda t: t.update(features={})),
            lambda f: f.table("schema.toml", lambda t: t.update(features=dict(reversed(t["features"].items())))),
            feature("purpose", kind="numeric"),
            feature("duration", kind="categorical"),
            feature("duration", kind="number"),
            feature("duration", width=2),
            feature("age", immutable="yes"),
            feature("age", immutable=1),
        ],
    ),
    "fills": (
        ALL,
        [feature("duration", fill=v) for v in (4, math.nan, "A", 1e6, True)]
        + [feature("purpose", kind="ordinal", fill=3)],
    ),
    "lattices": (
        ALL,
        [feature("duration", unit=v) for v in (0, -68, 93.1, math.inf, None)] + [feature("duration", origin=math.nan)],
    ),
    "texts that are no TOML": (
        ALL,
        [
            lambda f, n=n, v=v: f.text(n, v)
            for n in ("schema.toml", "metric.toml", "ground.toml")
            for v in ("", "=", "\0", "[", "a = 1\na = 2", "\ud7ff = 1")
        ],
    ),
    "texts that are bombs": (
        ALL,
        [lambda f, n=n, v=v: f.text(n, v) for n in ("schema.toml", "metric.toml") for v in BOMBS],
    ),
    # network
    "weights of the network": (
        ALL,
        [array(f"model.{node(n)}.weight", times(f)) for n in ("first", "second", "last") for f in (1.5, 4.0)],
    ),
    "weights hostile to the reader": (
        ALL,
        [
            array("model.1.weight", at((0, 0), np.inf)),
            array("model.1.weight", at((0, 0), np.nan)),
            array("model.1.weight", lambda w: w.T),
            array("model.3.bias", lambda b: b[:-1]),
            array("model.5.bias", at(0, np.inf)),
        ],
    ),
    "slacks": (
        ALL,
        [
            array("model.1.weight_slack", plus(-1e-9)),
            array("model.3.bias_slack", plus(-1.0)),
            array("model.1.weight_slack", plus(0.5)),
            array("model.5.bias_slack", plus(0.5)),
            array("model.5.bias_slack", lambda s: s[:-1]),
        ],
    ),
    "sizes": (
        ALL,
        [
            extra_network("1.magnitude", lambda f: -np.abs(f.array("model.1.weight"))),
            extra_network("1.magnitude", lambda f: np.zeros(3)),
            extra_network("3.magnitude_bias", lambda f: np.full(len(f.array("model.3.bias")), np.nan)),
            extra_network("3.magnitude", lambda f: 1e12 + np.abs(f.array("model.3.weight"))),
        ],
    ),
    "roundings": (ALL, [lambda f, v=v: f.put("model.1.roundings", np.array(v)) for v in (-1, 2**60)]),
    "kinds": (
        ALL,
        [
            kinds("relu", "magic"),
            kinds("relu", "input"),
            kinds("relu", "affine"),
            kinds("affine", "relu"),
            kinds("relu", "softplus"),
        ],
    ),
    "inputs of nodes": (
        ALL,
        [
            array("model.1.inputs", plus(1)),
            array("model.2.inputs", plus(-5)),
            array("model.3.inputs", lambda i: i[:0]),
            array("model.3.inputs", lambda i: np.r_[i, i]),
            array("model.5.inputs", lambda i: i * 0),
        ],
    ),
    "width": (ALL, [lambda f, v=v: f.put("model.0.width", np.array(v)) for v in (0, 57, -58, 2**40)]),
    # trees
    "leaves of trees": (
        (TREES,),
        [array("model.values", times(f)) for f in (1.5, 4.0, -1.0)]
        + [array("model.values", largest_leaf(f)) for f in (2.0, -2.0)],
    ),
    "thresholds of trees": (
        (TREES,),
        [array("model.threshold", change) for change in (plus(0.2), plus(-0.2), lambda t: t[::-1])],
    ),
    "sets of categories": (
        (TREES,),
        [
            array("model.masks", change)
            for change in (lambda m: ~m, lambda m: np.roll(m, 1, axis=1), lambda m: m[:, :2])
        ],
    ),
    "trees dropped": ((TREES,), [dropped_tree(hidden=hidden) for hidden in (False, True)]),
    "trees that are none": (
        (TREES,),
        [
            array("model.left", at(0, 2**40)),
            array("model.left", at(0, -5)),
            array("model.left", at(0, 0)),
            array("model.right", lambda r: np.where(r >= 0, 0, r)),
            array("model.roots", at(0, 1)),
            array("model.coordinate", at(0, 10**6)),
            array("model.category", lambda c: np.where(c >= 0, 10**6, c)),
            array("model.missing", at(0, 7)),
            array("model.output", plus(1)),
            array("model.left", lambda rows: rows[:-1]),
            *bad("model.base"),
            array("model.values", at((-1, 0), np.nan)),
            array("model.threshold", at(0, np.nan)),
            array("model.error", plus(-1.0)),
        ],
    ),
    "errors of trees": ((TREES,), [array("model.error", plus(e)) for e in (0.5, np.inf, np.nan)]),
    "run of another library": ((TREES,), [array("model.run_error", plus(e)) for e in (0.5, -1.0, np.inf, np.nan)]),
    "run of several libraries": ((TREES,), [array("model.run_error", lambda e: np.r_[e, e])]),
    "head of trees": ((TREES,), [ask("head", head) for head in ("softmax", "probability", "regression")]),
    "width of trees": ((TREES,), [said("model", width=width) for width in (57, 0, -1, 59, "58", 2**40)]),
    "another kind of model": ((TREES,), [said("model", kind=kind) for kind in ("network", "forest", None)]),
    "arrays of trees missing": ((TREES,), [without_array(f"model.{name}") for name in ("masks", "error", "run_error")]),
    # files
    "withheld": (
        ALL,
        [
            withheld("people.x"),
            withheld("profiles.value"),
            withheld("model.1.weight"),
            withheld("people.weights"),
            withheld("nobody.x", gone=False),
        ],
    ),
    "witnesses withheld": (SMALL, [withheld("points.person"), withheld("points.counterpart"), withheld("points.mass")]),
    "lengths": (
        ALL,
        [
            spoiled("people.x", lambda b: b + b"\0"),
            spoiled("people.x", lambda b: b[:-1]),
            spoiled("profiles.value", lambda b: b""),
            spoiled("model.1.weight", lambda b: b + b),
        ],
    ),
    "bytes of another type": (
        ALL,
        [
            spoiled("people.x", lambda b: np.frombuffer(b).byteswap().tobytes()),
            spoiled("profiles.count", lambda b: np.frombuffer(b, "<i8").astype("<f8").tobytes()),
            spoiled("profiles.value", lambda b: np.frombuffer(b).astype("<f4").astype("<f8").byteswap().tobytes()),
            spoiled("local.decision", lambda b: bytes([255]) * len(b)),
        ],
    ),
    "shapes": (
        ALL,
        [
            shaped("people.x", lambda s: s[::-1]),
            shaped("people.weights", lambda s: [*s, 1]),
            shaped("profiles.value", lambda s: [1, *s]),
            shaped("profiles.largest", lambda s: []),
            shaped("people.x", lambda s: [s[0] * s[1]]),
            shaped("people.x", lambda s: [s[0], -s[1]]),
        ],
    ),
    "links to other people": ((LARGE, SHIFT), [linked]),
}

LATER: dict[str, tuple[tuple[str, ...], list[Edit]]] = {
    "a hash of another file": (
        ALL,
        [wrong_hash(n) for n in ("people.x", "profiles.value", "model.1.weight", "people.weights")],
    ),
    "files without a hash": (ALL, [unnamed(name) for name in ("people.x", "local.upper", "profiles.pass")]),
    "a file named like a hash": (ALL, [named_like_a_hash]),
    "stale signatures": (ALL, [stale(True), stale(False)]),
    "keys twice": (
        ALL,
        [
            text('"upper"', '"upper": 0.0, "upper"'),
            text('"delta"', '"delta": 9, "delta"'),
            text('"_type"', '"_type": 1, "_type"'),
        ],
    ),
    "numbers that JSON has not": (
        ALL,
        [
            text('"hidden": ', '"hidden": Infinity, "x": '),
            text('"delta": 1', '"delta": NaN'),
            text('"delta": 1', '"delta": 1e999'),
        ],
    ),
    "digits of other scripts": (ALL, [text('"delta": 1', '"delta": \u0661'), text('"delta": 1', '"delta": \uff11')]),
    "brackets": (ALL, [text('"created": ', f'"created": {"[" * 99}{"]" * 99}, "c": ')]),
    "another version": (
        ALL,
        [
            text("certificate:8", "certificate:6"),
            text("certificate:8", "certificate:88"),
            text("Statement/v1", "Statement/v0"),
        ],
    ),
}


def forgeries() -> Iterator[Forgery]:
    """All of them."""
    for later, table in ((False, KINDS), (True, LATER)):
        for kind, (bases, edits) in table.items():
            for base in bases:
                for number, edit in enumerate(edits):
                    yield Forgery(kind, base, number, nothing if later else edit, edit if later else nothing)
