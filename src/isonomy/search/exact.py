"""The exact tier: branch and bound until bounds and finds meet, or time or parts are used up.

Problem: for each individual the largest violation over its similar set. The regions of the set, times the goals (each
output up and down), are the first *parts*. A part is bounded by backward passes with free variables
(:mod:`isonomy.search.frame`, :mod:`isonomy.search.descent`). If its bound is not yet close to what was found, it is
split: by the sign of the neuron whose relaxation costs most, or, where no sign is open or few coordinates move, by
cutting its box in two. When no neuron of a part is open the network is affine there and a linear program answers
(:mod:`isonomy.search.leaves`). Individuals take turns, so that all of them have something when the search
stops. A search that is stopped by the number of its parts gives the same bits whenever it is run again: nothing in it
depends on the clock, on the number of threads or on the order of sets.

**Soundness.** The two parts of a split cover the whole. A part is given up only when its bound is within the gap of a
value attained (or at most ε), and its bound still counts; so the result is an upper bound whenever the search stops.
Points that are met on the way only ever become finds through the judge of :mod:`isonomy.attacks`.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Judge, as_individuals, led_back
from isonomy.bounds.ends import Ends, margins_at
from isonomy.bounds.interval import Interval
from isonomy.bounds.kernel import region_of
from isonomy.bounds.linear import Sweep
from isonomy.parallel import one_thread
from isonomy.search.cuts import SMALLEST, cut_box, halves, reading
from isonomy.search.descent import descend
from isonomy.search.frame import Frame, Ready
from isonomy.search.goals import Goals
from isonomy.search.leaves import settle
from isonomy.search.limits import Limits
from isonomy.search.parts import Part, Pool, changed, filled, furthest, pack, unpack, widths
from isonomy.search.steered import Steered

NUMBERS = 2**16
"""Activations of the widest layer in one batch of parts."""

FEW = 3
"""Up to this many coordinates that move, boxes are cut before signs are fixed."""

MEMORY = 2**26
"""Numbers kept for parts that are still open (8 bytes each)."""


def improve(
    interval: Interval,
    ends: Ends,
    judge: Judge,
    upper: FloatArray,
    limits: Limits,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> FloatArray:
    """Upper bounds of the violations of the judge's individuals, never above ``upper``; the judge gets the finds."""
    with one_thread():
        search = _Search(interval, ends, judge, upper, limits)
        while search.open and search.left > 0 and time.monotonic() < search.deadline:
            search.round()
            tick(len(upper) - len(search.open), len(upper))
        return search.result()


class _Search:
    def __init__(self, interval: Interval, ends: Ends, judge: Judge, upper: FloatArray, limits: Limits) -> None:
        self.deadline, self.left = time.monotonic() + limits.seconds, limits.nodes
        similarity = judge.similarity
        self.similarity, self.judge, self.limits, self.upper = similarity, judge, limits, upper
        self.ready = Ready.of(interval, Goals(ends, interval.graph.output_width))
        # Not the judge's own enclosures: these are also to hold for float32 runs, where they are asked for.
        self.at_x = ends.values(*margins_at(interval.enclose(torch.from_numpy(judge.x), None)))
        self.closed = np.zeros(len(upper))
        self.heaps: list[list[Part]] = [[] for _ in upper]
        self.count = itertools.count()
        self.size = max(16, min(2048, NUMBERS // max(interval.graph.widths)))
        self.influence = reading(interval.graph)
        for regions in similarity.regions(judge.x):
            pool = Pool(filled(regions, similarity.domain), similarity.domain.kind == "unbounded")
            for row, owner in enumerate(pool.regions.owner.tolist()):
                self.heaps[owner].append(Part(-upper[owner], next(self.count), pool, row))
        self.kept = 0
        self.open = deque(owner for owner in range(len(upper)) if not self._done(owner))

    def result(self) -> FloatArray:
        """The largest bound of any part, closed or still open."""
        still = [max((-part.priority for part in heap), default=0.0) for heap in self.heaps]
        return np.minimum(np.maximum(self.closed, still), self.upper)

    def _enough(self, owner: int) -> float:
        return max(float(self.judge.lower[owner]) + self.limits.gap, self.limits.epsilon or 0.0)

    def _all_enough(self, owner: NDArray[np.int64]) -> Tensor:
        return torch.tensor([self._enough(one) for one in owner.tolist()], dtype=torch.float64)

    def _done(self, owner: int) -> bool:
        """Is there nothing left to prove, or nothing that more parts could change?"""
        heap, epsilon = self.heaps[owner], self.limits.epsilon
        if not heap or (epsilon is not None and self.judge.lower[owner] > epsilon):
            return True
        top = -heap[0].priority
        return top <= self._enough(owner) or self.closed[owner] >= top

    # -- rounds ----------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Take the most promising parts of everybody in turn, bound them, close or split them."""
        batches: dict[tuple[int, bool], list[Part]] = {}
        taken: list[int] = []
        for _ in range(int(min(self.size, self.left))):
            while self.open and self._done(self.open[0]):
                self.open.popleft()
            if not self.open:
                break
            owner = self.open.popleft()
            part = heapq.heappop(self.heaps[owner])
            batches.setdefault((id(part.pool), part.goal < 0), []).append(part)
            taken.append(owner)
            if self.heaps[owner]:
                self.open.append(owner)
        self.left -= len(taken)
        for (_, fresh), parts in batches.items():
            if fresh:
                self._begin(parts)
            else:
                self._advance(parts)
        here = set(self.open)
        self.open.extend(owner for owner in dict.fromkeys(taken) if owner not in here and self.heaps[owner])
        if self.kept > MEMORY:
            self.open.clear()

    def _begin(self, parts: list[Part]) -> None:
        """Sweep regions that nobody has looked at, and make a part of each for every goal that matters."""
        pool, goals = parts[0].pool, self.ready.goals
        rows = torch.tensor([part.row for part in parts])
        some = pool.regions[rows.numpy()]
        sweep = Sweep(self.ready.interval, some.centre, Steered(some.sets, pool.folds))
        base, state = self.ready.base(sweep), self.ready.start(sweep, some.sets)
        pool.base_widths, pool.widths = widths(base), widths(state)
        for row, numbers in zip(rows.tolist(), pack(base), strict=True):
            pool.base[row] = numbers
        for goal in range(goals.count):
            aim = torch.full((len(parts),), goal)
            frame = Frame(self.ready, aim, some.centre, some.sets, pool.folds, base, state)
            value = self._violation(aim, some.owner, frame.by_ranges())
            if goals.mixed:
                state = state | {"lean": base["end"].gather(1, goals.columns(aim))}
            for j, (part, numbers) in enumerate(zip(parts, pack(state), strict=True)):
                bound = min(float(value[j]), -part.priority)
                self._keep_or_close(
                    Part(-bound, next(self.count), pool, part.row, goal, self.ready.last, False, numbers)
                )

    def _advance(self, parts: list[Part]) -> None:
        """Bound parts, look for people in them, and go on with those that still matter."""
        pool = parts[0].pool
        self.kept -= sum(len(part.numbers) for part in parts)
        frame, owner = self._frame(pool, parts), pool.regions.owner[[part.row for part in parts]]
        since = torch.tensor([part.since for part in parts])
        with torch.no_grad():
            frame.tighten(since)
        known = torch.tensor([-part.priority for part in parts], dtype=torch.float64)
        fresh = all(part.since == self.ready.last for part in parts)
        steps = self.limits.first_steps if fresh else self.limits.steps
        target = self.ready.goals.target(frame.goal, self._at(owner), self._all_enough(owner))
        bound, met = descend(frame, target, steps)
        value = torch.minimum(known, self._violation(frame.goal, owner, bound))
        value = torch.where(frame.empty, 0.0, value)
        self._look(pool, parts, frame, value)
        scores = self._scores(frame, met)
        numbers = pack(frame.state)
        for j, part in enumerate(parts):
            self._split_or_close(part, frame, j, float(value[j]), scores, numbers[j])

    def _frame(self, pool: Pool, parts: list[Part]) -> Frame:
        rows = np.array([part.row for part in parts])
        base = unpack(torch.stack([pool.base[row] for row in rows.tolist()]), pool.base_widths)
        state = unpack(torch.stack([part.numbers for part in parts]), pool.widths)
        some = pool.regions[rows]
        folds = pool.folds and not any(part.cut for part in parts)
        sets = some.sets if folds else replace(some.sets, low=state["box low"], high=state["box high"], _memo={})
        return Frame(self.ready, torch.tensor([part.goal for part in parts]), some.centre, sets, folds, base, state)

    def _split_or_close(
        self, part: Part, frame: Frame, j: int, value: float, scores: dict[int, Tensor], numbers: Tensor
    ) -> None:
        pool, owner = part.pool, int(part.pool.regions.owner[part.row])
        if value <= self._enough(owner):
            self.closed[owner] = max(self.closed[owner], value)
            return
        choice = _choice(scores, j)
        domain, low, high = self.similarity.domain, frame.state["box low"][j], frame.state["box high"][j]
        children: list[tuple[int, bool, dict[str, Tensor]]] = []
        cut = None
        if choice is None:
            straight = not any(bool(frame.loose(k)[j].any()) for k in self.ready.activations)
            if straight and time.monotonic() < self.deadline:
                value = min(value, self._by_program(part, frame, j, owner))
            whole_only = straight and not self.ready.goals.mixed
            if value > self._enough(owner):
                cut = cut_box(domain, frame.centre[j], low, high, self.influence, whole_only)
        elif self._few(frame, j):
            cut = cut_box(domain, frame.centre[j], low, high, self.influence, whole_only=False)
        if cut is not None:
            for box_low, box_high in halves(cut, low, high):
                children.append((-1, True, {"box low": box_low, "box high": box_high}))
        elif choice is not None:
            k, column = choice
            for sign in (1.0, -1.0):
                turned = frame.state[f"phase {k}"][j].clone()
                turned[column] = sign
                children.append((k, part.cut, {f"phase {k}": turned}))
        else:
            self.closed[owner] = max(self.closed[owner], value)
        for since, is_cut, changes in children:
            child = changed(numbers, pool.widths, changes)
            self._keep_or_close(Part(-value, next(self.count), pool, part.row, part.goal, since, is_cut, child))

    def _few(self, frame: Frame, j: int) -> bool:
        """With few coordinates and many open neurons, halving the box settles more signs than fixing one."""
        width = (frame.state["box high"] - frame.state["box low"])[j]
        moving = int(((width > SMALLEST) & (self.influence > 0)).sum())
        return moving <= FEW and sum(int(frame.loose(k)[j].sum()) for k in self.ready.kinks) > 4 * moving

    def _keep_or_close(self, part: Part) -> None:
        owner = int(part.pool.regions.owner[part.row])
        if -part.priority <= self._enough(owner):
            self.closed[owner] = max(self.closed[owner], -part.priority)
            return
        self.kept += len(part.numbers)
        heapq.heappush(self.heaps[owner], part)

    def _by_program(self, part: Part, frame: Frame, j: int, owner: int) -> float:
        bound, move = settle(frame, j)
        if move is not None:
            self._consider(part.pool, torch.tensor([part.row]), move[None])
        found = torch.tensor([bound], dtype=torch.float64)
        return float(self._violation(frame.goal[j : j + 1], np.array([owner]), found)[0])

    def _look(self, pool: Pool, parts: list[Part], frame: Frame, value: Tensor) -> None:
        """Show the judge the places where the linear functions of open parts are largest."""
        rows = torch.tensor([part.row for part in parts])
        some = (value > self._all_enough(pool.regions.owner[rows.numpy()])).nonzero()[:, 0]
        if not len(some) or frame.shape.last is None:
            return
        self._consider(pool, rows[some], furthest(frame, some))

    def _consider(self, pool: Pool, rows: Tensor, moves: Tensor) -> None:
        keep = pool.inside[rows]
        rows, moves = rows[keep], moves[keep]
        if not len(rows):
            return
        regions, anchors = pool.regions[rows.numpy()], pool.anchors[rows.numpy()]
        found = led_back(region_of(regions.sets), anchors, moves.detach().numpy())
        for y in as_individuals(self.similarity, regions, anchors, found):
            self.judge.consider(regions.owner, self.similarity.domain.filled(y))

    # -- helpers ---------------------------------------------------------------------------------------------

    def _at(self, owner: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        return self.at_x[0][owner], self.at_x[1][owner]

    def _violation(self, goal: Tensor, owner: NDArray[np.int64], bound: Tensor) -> Tensor:
        return self.ready.goals.change(goal, self._at(owner), bound)

    def _scores(self, frame: Frame, met: dict[int, Tensor]) -> dict[int, Tensor]:
        """How much each open neuron's relaxation costs."""
        scores = {}
        for k in self.ready.kinks:
            point = frame.base[f"point {k}"]
            first, last = point + frame.state[f"low {k}"], point + frame.state[f"high {k}"]
            gap = -first * last / (last - first).clamp(min=1e-300)
            weight = met[k].abs() if k in met else torch.zeros_like(gap)
            scores[k] = torch.where(frame.loose(k), weight * gap + 1e-300, -1.0)
        return scores


def _choice(scores: dict[int, Tensor], j: int) -> tuple[int, int] | None:
    """The open neuron with the largest score; ``None`` when there is none."""
    best: tuple[float, int, int] | None = None
    for k, score in scores.items():
        top, column = score[j].max(0)
        if float(top) > 0 and (best is None or float(top) > best[0]):
            best = float(top), k, int(column)
    return None if best is None else best[1:]
