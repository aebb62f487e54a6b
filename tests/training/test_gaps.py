"""The bounds that training uses hold for sampled pairs of people, and are below the paper's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import isonomy
from isonomy.population import Domain
from isonomy.training.gaps import (
    DifferenceBounds,
    Head,
    _ReluBound,
    _SparseProduct,
    boxed,
    paper_gap,
    run,
    shift_reach,
    similar_reach,
)
from isonomy.training.perceptron import Perceptron

WIDTH = 6
NOISE = 1e-4


def layers_of(rng: np.random.Generator, sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    made = []
    for inputs, units in pairwise(sizes):
        weight = torch.tensor(rng.normal(size=(units, inputs)) / np.sqrt(inputs) * 1.5, dtype=torch.float32)
        made.append((weight.requires_grad_(), torch.tensor(rng.normal(size=units) * 0.3, dtype=torch.float32)))
    return made


def received(layers: list[tuple[torch.Tensor, torch.Tensor]], x: np.ndarray, classes: int) -> np.ndarray:
    """An MLP in plain numpy."""
    for index, (weight, bias) in enumerate(layers):
        x = (np.maximum(x, 0) if index else x) @ weight.detach().double().numpy().T + bias.double().numpy()
    if classes == 0:
        return x
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def metrics(rng: np.random.Generator) -> list[isonomy.Metric]:
    spread = rng.normal(size=(WIDTH, WIDTH))
    return [
        isonomy.Mahalanobis(spread @ spread.T + 0.2 * np.eye(WIDTH)),
        isonomy.WeightedLp(rng.uniform(0.5, 2, WIDTH), 1),
        isonomy.WeightedLp(rng.uniform(0.5, 2, WIDTH), 2),
        isonomy.WeightedLp(rng.uniform(0.5, 2, WIDTH), np.inf),
    ]


@pytest.mark.parametrize("hidden", [[], [16], [12, 10]])
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("which", range(4))
def test_no_sampled_pair_exceeds_the_bound(hidden: list[int], classes: int, which: int) -> None:
    rng = np.random.default_rng(7 * len(hidden) + classes)
    metric, domain, reads = metrics(rng)[which], Domain.unbounded(WIDTH), np.arange(WIDTH)
    layers = layers_of(rng, [WIDTH, *hidden, classes or 1])
    head, delta = Head(classes), 0.3
    x = rng.normal(size=(20, WIDTH))
    moves, shifts = similar_reach(metric, domain, reads, x, delta), shift_reach("l2", domain, reads)
    table = torch.tensor(x, dtype=torch.float32)
    gaps = DifferenceBounds(layers, run(layers, table), head, moves, shifts)
    previous = np.zeros(len(x))
    for radius in (0.0, 0.2, 1.0):
        bound = gaps.at(delta, radius).detach().numpy()
        assert (bound >= previous - NOISE).all()  # a larger ball holds a smaller one
        previous = bound
        ball = rng.normal(size=(400, len(x), WIDTH))
        z = x + radius * ball / np.linalg.norm(ball, axis=-1, keepdims=True)
        step = rng.normal(size=z.shape) * (rng.uniform(size=z.shape) < 0.6)  # also moves along few coordinates
        step /= np.maximum(metric.distance(step.reshape(-1, WIDTH), np.zeros(WIDTH)), 1e-9).reshape(400, len(x), 1)
        change = np.abs(received(layers, z + delta * step, classes) - received(layers, z, classes)).max(axis=(0, 2))
        assert (change <= bound + NOISE).all()
        assert change.max() > 0.02 * bound.max()  # the samples do reach somewhere


def test_without_hidden_layers_the_bound_is_attained() -> None:
    """A regression without hidden layers changes by exactly the dual norm of its weights."""
    metric = isonomy.Mahalanobis(np.diag([4.0, 1.0]))
    layers = [(torch.tensor([[2.0, 1.0]]), torch.tensor([0.5]))]
    reads, domain, x = np.arange(2), Domain.unbounded(2), torch.zeros(1, 2)
    moves, shifts = similar_reach(metric, domain, reads, x.numpy(), 0.1), shift_reach("l2", domain, reads)
    bound = DifferenceBounds(layers, run(layers, x), Head(0), moves, shifts).at(0.1, 3.0)
    assert bound.item() == pytest.approx(0.1 * np.sqrt(1.0 + 1.0), rel=1e-5)


def test_one_hidden_neuron_by_hand() -> None:
    """relu(x) at x = -0.2, similar within 0.1, centre within r: the change is 0 until the ball reaches the kink."""
    layers = [(torch.tensor([[1.0]]), torch.tensor([0.0])), (torch.tensor([[1.0]]), torch.tensor([0.0]))]
    reads, domain, x = np.arange(1), Domain.unbounded(1), torch.tensor([[-0.2]])
    moves = similar_reach(isonomy.WeightedLp(np.ones(1), 2), domain, reads, x.numpy(), 0.1)
    gaps = DifferenceBounds(layers, run(layers, x), Head(0), moves, shift_reach("l2", domain, reads))
    found = [gaps.at(0.1, radius).item() for radius in (0.0, 0.1, 0.15, 0.3)]
    assert found == pytest.approx([0.0, 0.0, 0.05, 0.1], abs=1e-6)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_exact_first_layer_is_never_above_the_box(classes: int) -> None:
    rng = np.random.default_rng(classes)
    metric, domain, reads = metrics(rng)[0], Domain.unbounded(WIDTH), np.arange(WIDTH)
    x = torch.tensor(rng.normal(size=(50, WIDTH)), dtype=torch.float32)
    layers, head = layers_of(rng, [WIDTH, 16, 16, classes or 1]), Head(classes)
    moves, shifts = similar_reach(metric, domain, reads, x.numpy(), 0.1), shift_reach("l2", domain, reads)
    ours = DifferenceBounds(layers, run(layers, x), head, moves, shifts).at(0.1)
    paper = paper_gap(layers, x, head, boxed(moves), 0.1)
    assert bool((ours <= paper + NOISE).all())
    assert ours.mean() < 0.8 * paper.mean()


@pytest.mark.parametrize("kind", ["relaxed", "realizable"])
def test_free_directions_are_bounded_by_the_domain(kind: isonomy.population.DomainKind) -> None:
    """Sampled individuals of the domain that a singular metric calls similar."""
    people = isonomy.load_population("german", domain=kind)
    metric, x = isonomy.SensitiveSubspace.fit(people), people.x
    reads = np.flatnonzero(people.schema.seen_coordinates)
    rng = np.random.default_rng(0)
    layers, delta = layers_of(rng, [len(reads), 16, 2]), 0.2
    moves, shifts = similar_reach(metric, people.domain, reads, x, delta), shift_reach("l2", people.domain, reads)
    some = x[:200]
    table = torch.tensor(some[:, reads], dtype=torch.float32)
    bound = DifferenceBounds(layers, run(layers, table), Head(2), moves, shifts).at(delta).detach().numpy()
    paper = paper_gap(layers, table, Head(2), boxed(moves), delta).detach().numpy()
    protected = people.schema.protected_coordinates
    for _ in range(50):
        other = some.copy()
        other[:, protected] = x[rng.permutation(len(x))[:200]][:, protected]  # free: whatever somebody else has
        assert (metric.distance(some, other) <= 1e-9).all()
        change = np.abs(received(layers, other[:, reads], 2) - received(layers, some[:, reads], 2)).max(axis=1)
        assert (change <= np.minimum(bound, paper) + NOISE).all()
    assert bound.mean() < 0.9


def test_counterparts_move_within_their_tolerances() -> None:
    people = isonomy.load_population("german")
    metric = isonomy.Counterparts.of(people.schema)
    reads, rng = np.arange(people.schema.width), np.random.default_rng(0)
    layers, x = layers_of(rng, [len(reads), 16, 2]), people.x[:100]
    moves, shifts = similar_reach(metric, people.domain, reads, x, 1.0), shift_reach("l2", people.domain, reads)
    table = torch.tensor(x, dtype=torch.float32)
    bound = DifferenceBounds(layers, run(layers, table), Head(2), moves, shifts).at(1.0).detach().numpy()
    low, high = (np.where(np.isfinite(side), side, 0.0) for side in metric.box(x, 1.0))
    for _ in range(30):
        other = x + np.where(rng.uniform(size=x.shape) < 0.5, low, high)
        change = np.abs(received(layers, other, 2) - received(layers, x, 2)).max(axis=1)
        assert (change <= bound + NOISE).all()


def test_a_free_direction_without_a_domain_is_refused() -> None:
    metric, x = isonomy.SensitiveSubspace(np.eye(3)[:1]), np.zeros((1, 3))
    with pytest.raises(isonomy.errors.MetricError, match="bounded domain"):
        similar_reach(metric, Domain.unbounded(3), np.arange(3), x, 0.1)
    assert not similar_reach(metric, Domain.unbounded(3), np.array([1, 2]), x, 0.1).free.any()  # not read


def test_gradients_are_those_of_finite_differences() -> None:
    rng = torch.Generator().manual_seed(0)
    value, reach, most = (torch.rand(4, 3, generator=rng, dtype=torch.float64) for _ in range(3))
    inputs = (value - 0.5, reach, most * 0.7)
    assert torch.autograd.gradcheck(_ReluBound.apply, tuple(each.requires_grad_() for each in inputs))
    shared = (value.detach() - 0.5, reach[0].detach(), most[0].detach() * 0.7)
    assert torch.autograd.gradcheck(_ReluBound.apply, tuple(each.requires_grad_() for each in shared))


@pytest.mark.parametrize("counted", [0, 3, 9, 10])
def test_the_product_differentiates_as_a_product_does(counted: int) -> None:
    """Rows without a gradient are left out, whether there are many or few of them."""
    rng = torch.Generator().manual_seed(0)
    a, b = (torch.randn(*shape, generator=rng, dtype=torch.float64) for shape in ((10, 4), (4, 3)))
    weight = torch.randn(10, 3, generator=rng, dtype=torch.float64)
    weight[torch.randperm(10, generator=rng)[counted:]] = 0.0
    found = []
    for multiply in (_SparseProduct.apply, torch.matmul):
        inputs = a.clone().requires_grad_(), b.clone().requires_grad_()
        (multiply(*inputs) * weight).sum().backward()
        found.append([each.grad for each in inputs])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["relaxed", "realizable"])
def test_a_blind_network_has_nothing_that_is_free(kind: isonomy.population.DomainKind) -> None:
    people = isonomy.load_population("german", domain=kind)
    reads = np.flatnonzero(people.schema.seen_coordinates)
    moves = similar_reach(isonomy.SensitiveSubspace.fit(people), people.domain, reads, people.x, 0.05)
    directions = moves.unlimited()
    torch.testing.assert_close(directions.T @ directions, torch.eye(directions.shape[1]), atol=1e-5, rtol=0)
    assert 1 <= directions.shape[1] < len(reads)
    perceptron = Perceptron.random(reads, people.schema.width, (8,), 2, torch.Generator().manual_seed(0))
    x = torch.tensor(people.x[:50, reads], dtype=torch.float32)
    average = x.mean(0)
    expected = perceptron(x - (x - average) @ directions @ directions.T)
    assert moves.fixed(perceptron.layers[0][0]).max().item() > 0.1
    perceptron.remove_directions(directions, average)
    assert moves.fixed(perceptron.layers[0][0]).max().item() < 1e-5
    torch.testing.assert_close(perceptron(x), expected, atol=1e-5, rtol=1e-5)


def test_nothing_is_free_where_the_metric_sees_everything() -> None:
    moves = similar_reach(isonomy.WeightedLp(np.ones(3), 2), Domain.unbounded(3), np.arange(3), np.zeros((1, 3)), 0.1)
    assert moves.unlimited().shape == (3, 0)


def test_gradients_reach_every_layer() -> None:
    rng = np.random.default_rng(0)
    layers, x = layers_of(rng, [WIDTH, 16, 16, 2]), torch.tensor(rng.normal(size=(50, WIDTH)), dtype=torch.float32)
    domain, reads = Domain.unbounded(WIDTH), np.arange(WIDTH)
    moves = similar_reach(metrics(rng)[0], domain, reads, x.numpy(), 0.1)
    DifferenceBounds(layers, run(layers, x), Head(2), moves, shift_reach("l2", domain, reads)).at(
        0.1, 0.2
    ).sum().backward()
    assert all(weight.grad is not None and bool((weight.grad != 0).any()) for weight, _ in layers)
