"""The loss of tables in one pass is what the losses of the core are."""

import pytest
import torch

from torchmcl import Hypotheses, likelihood_loss, mixture_energy_loss
from torchmcl.tabular import mixture_loss
from torchmcl.tabular.mixture_loss import gaussian_mixture_loss


def _leaves(seed: int, targets: int):
    random = torch.Generator().manual_seed(seed)
    points, logits, widths = (
        torch.randn(2, 7, 4, dtype=torch.double, generator=random).mul(3).requires_grad_() for _ in range(3)
    )
    y = torch.randn(2, 7, targets, 1, dtype=torch.double, generator=random)
    return (points, logits, widths), y, torch.rand(2, 7, targets, generator=random) < 0.7


def _hypotheses(points, logits, widths):
    return Hypotheses(points[..., None], logits, "softmax", widths.exp())


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("block", [1, 2**16])
def test_value_and_gradients_are_those_of_the_core(monkeypatch, targets, block):
    monkeypatch.setattr(mixture_loss, "BLOCK", block)
    leaves, y, active = _leaves(0, targets)
    hypotheses = _hypotheses(*leaves)
    expected = mixture_energy_loss(hypotheses, y, active) + 0.5 * likelihood_loss(hypotheses, y, active)
    found = gaussian_mixture_loss(_hypotheses(*leaves), y, active.double(), 0.5)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_weight_of_two_is_a_target_twice():
    leaves, y, _ = _leaves(1, 1)
    weights = torch.ones(2, 7, 1, dtype=torch.double)
    weights[0, 3] = 2
    once = gaussian_mixture_loss(_hypotheses(*leaves), y, weights, 0.5)
    rows = torch.tensor([0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
    twice = gaussian_mixture_loss(
        _hypotheses(*(each.flatten(0, 1)[rows] for each in leaves)),
        y.flatten(0, 1)[rows],
        torch.ones(15, 1, dtype=torch.double),
        0.5,
    )
    torch.testing.assert_close(once, twice)


def test_nothing_active_is_a_loss_of_zero_with_a_graph():
    leaves, y, active = _leaves(2, 2)
    loss = gaussian_mixture_loss(_hypotheses(*leaves), y, torch.zeros_like(active).double(), 0.5)
    loss.backward()
    assert loss == 0
    assert all((leaf.grad == 0).all() for leaf in leaves)
