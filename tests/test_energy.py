"""The energy score against loops, scoringrules and what a proper score must do."""

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brute
from cases import problem
from torchmcl import energy
from torchmcl.distances import chordal, euclidean, great_circle, pairwise, squared_euclidean
from torchmcl.energy import energy_loss, energy_score
from torchmcl.hypotheses import Hypotheses

DISTANCES = {
    "euclidean": (euclidean, brute.straight),
    "squared": (squared_euclidean, brute.straight_squared),
    "great_circle": (great_circle, brute.along_the_sphere),
    "chordal": (chordal, brute.through_the_sphere),
}
sizes = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**31)
)


@pytest.mark.parametrize("distance", DISTANCES)
@settings(max_examples=15)
@given(sizes=sizes)
def test_it_equals_loops(distance, sizes):
    batch, targets, hypotheses, dim, seed = sizes
    dim = 2 if distance in ("great_circle", "chordal") else dim
    points, logits, where, active = problem(batch, targets, hypotheses, dim, seed)
    ours, plain = DISTANCES[distance]
    answer = Hypotheses(points, logits)
    each = brute.energy(points, answer.probs, where, active, plain)
    count = sum(map(len, each))
    theirs = points.sum() * 0 + sum(sum(item) for item in each) / max(count, 1)
    value = energy_loss(answer, where, active, distance=ours)
    torch.testing.assert_close(value, theirs, rtol=1e-6, atol=1e-6)
    for a, b in zip(
        torch.autograd.grad(
            value, [points, logits], materialize_grads=True, allow_unused=True, retain_graph=True
        ),
        torch.autograd.grad(
            theirs, [points, logits], materialize_grads=True, allow_unused=True, retain_graph=True
        ),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    scores = energy_score(answer, where, active, distance=ours)
    for score, item in zip(scores, each, strict=True):
        if item:
            torch.testing.assert_close(score, sum(item) / len(item))
        else:
            assert score.isnan()


def test_in_one_dimension_it_is_the_crps():
    points, logits, targets, _ = problem(50, 1, 7, 1, seed=0, keep=1.1)
    answer = Hypotheses(points.detach(), logits.detach())
    theirs = scoringrules.crps_ensemble(
        targets.numpy()[:, 0, 0], answer.points.numpy()[..., 0], ens_w=answer.probs.numpy()
    )
    np.testing.assert_allclose(energy_score(answer, targets).numpy(), theirs, rtol=1e-9)


def test_in_the_plane_it_is_the_energy_score():
    points, _, targets, _ = problem(50, 1, 7, 2, seed=0, keep=1.1)
    answer = Hypotheses(points.detach())
    theirs = scoringrules.es_ensemble(targets.numpy()[:, 0], answer.points.numpy())
    np.testing.assert_allclose(energy_score(answer, targets).numpy(), theirs, rtol=1e-9)


@pytest.mark.parametrize("dim", [1, 2])
def test_coincident_points_ties_and_no_probability(dim):
    points = torch.zeros(2, 4, dim, dtype=torch.float64)
    points[1, 2:] = 1
    points.requires_grad_()
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, -torch.inf, 0.0, -torch.inf]], dtype=torch.float64)
    logits.requires_grad_()
    targets = torch.zeros(2, 2, dim, dtype=torch.float64)
    answer = Hypotheses(points, logits, "softmax")
    score = energy_score(answer, targets)
    torch.testing.assert_close(score.detach(), torch.tensor([0.0, dim**0.5 / 4]).double())
    for gradient in torch.autograd.grad(score.sum(), [points, logits]):
        assert gradient.isfinite().all()


def test_the_line_equals_the_plane_and_a_shift_changes_nothing():
    points, logits, targets, active = problem(20, 3, 30, 1, seed=3)
    line = energy_loss(Hypotheses(points, logits), targets, active)
    flat = (torch.cat([each, torch.zeros_like(each)], -1) for each in (points, targets))
    plane = energy_loss(Hypotheses(next(flat), logits), next(flat), active)
    torch.testing.assert_close(line, plane)
    for a, b in zip(
        torch.autograd.grad(line, [points, logits]), torch.autograd.grad(plane, [points, logits]), strict=True
    ):
        torch.testing.assert_close(a, b)
    far = energy_loss(Hypotheses(points + 1e6, logits), targets + 1e6, active)
    torch.testing.assert_close(far, line, rtol=1e-8, atol=0)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradients_in_the_targets(dim):
    points, logits, targets, _ = problem(3, 2, 5, dim, seed=5, keep=1.1)
    inputs = (points, logits, targets.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, z, y: energy_score(Hypotheses(x, z), y), inputs)


def test_blocks_change_nothing(monkeypatch):
    points, logits, targets, active = problem(11, 2, 6, 3, seed=4)
    whole = energy_loss(Hypotheses(points, logits), targets, active)
    monkeypatch.setattr(energy, "BLOCK", 250)
    torch.testing.assert_close(energy_loss(Hypotheses(points, logits), targets, active), whole)


@pytest.mark.parametrize("mapped", ["both", "points", "logits"])
def test_vmap_equals_a_batch(mapped):
    points, logits, targets, _ = problem(5, 2, 6, 3, seed=4, keep=1.1)
    points, logits = points.detach(), logits.detach()
    points = points[:1].expand_as(points) if mapped == "logits" else points
    logits = logits[:1].expand_as(logits) if mapped == "points" else logits

    def gradient(points, logits, targets):
        def loss(points, logits):
            return energy_loss(Hypotheses(points, logits), targets)

        return torch.func.grad(loss, argnums=(0, 1))(points, logits)

    axes = (None if mapped == "logits" else 0, None if mapped == "points" else 0, 0)
    given = (
        points[0] if mapped == "logits" else points,
        logits[0] if mapped == "points" else logits,
        targets,
    )
    mapped_over = torch.vmap(gradient, in_dims=axes)(*given)
    for index in range(5):
        for one, all_of_them in zip(
            gradient(points[index], logits[index], targets[index]), mapped_over, strict=True
        ):
            torch.testing.assert_close(one, all_of_them[index])


@pytest.mark.parametrize(("dim", "seed"), [(1, 0), (1, 1), (2, 0), (2, 1)])
def test_it_is_least_at_the_distribution_of_the_targets(dim, seed):
    """From a random start K points with scores reach the distribution that the targets are drawn from."""
    random = torch.Generator().manual_seed(seed)
    truth = Hypotheses(
        torch.rand(4, dim, generator=random) * 4 - 2, torch.tensor([0.4, 0.3, 0.2, 0.1]).log(), "softmax"
    )
    samples = truth.points.repeat_interleave(torch.tensor([400, 300, 200, 100]), 0)
    points = (torch.rand(8, dim, generator=random) * 4 - 2).requires_grad_()
    logits = torch.zeros(8, requires_grad=True)
    least = energy_loss(truth, samples)
    optimizer = torch.optim.Adam([points, logits], lr=0.05)
    for step in range(400):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 400)
        optimizer.zero_grad()
        loss = energy_loss(Hypotheses(points, logits, "softmax"), samples)
        loss.backward()
        assert loss >= least - 1e-6
        optimizer.step()
    # Half the energy distance between prediction and truth.
    assert loss - least < 2e-3
    cell = pairwise(truth.points, points.detach(), euclidean).argmin(-1)
    mass = torch.zeros(4).index_add(0, cell, logits.detach().softmax(-1))
    torch.testing.assert_close(mass, truth.probs, atol=0.05, rtol=0)


def test_great_circle_is_blind_to_antipodal_pairs_and_chordal_is_not():
    east = torch.tensor([[0.0, 0.0], [torch.pi, 0.0]], dtype=torch.float64)
    north = torch.tensor([[torch.pi / 2, 0.0], [-torch.pi / 2, 0.0]], dtype=torch.float64)
    right, wrong = Hypotheses(east), Hypotheses(north)
    torch.testing.assert_close(
        energy_loss(right, east, distance=great_circle), energy_loss(wrong, east, distance=great_circle)
    )
    assert energy_loss(right, east, distance=chordal) < energy_loss(wrong, east, distance=chordal) - 0.2
