"""The numbers of a model against models whose numbers are known."""

import math

import pytest
import torch
from torch import nn

from torchmcl.hypotheses import Hypotheses
from torchmcl.toy.data import draw, grid
from torchmcl.toy.evaluate import evaluate, exact_emd, sampled_emd, winner_entropy
from torchmcl.toy.floor import TIMES, floor, stored
from torchmcl.toy.truth import cell_truth
from torchmcl.transport import emd


@pytest.fixture(scope="module")
def best() -> tuple[torch.Tensor, Hypotheses]:
    """The best points at three times with their exact masses."""
    chosen = [0, 10, 24]
    known = list(stored().values())
    t = TIMES[chosen]
    points = torch.tensor([known[index] for index in chosen], dtype=torch.float64)
    return t, Hypotheses(points, cell_truth(points, t).mass.clamp(min=1e-12).log(), "softmax")


def test_the_best_points_reach_the_floor(best):
    t, hypotheses = best
    found = evaluate(hypotheses, t, 0.0)
    exact = torch.tensor([value for _, value in found.emd], dtype=torch.float64)
    torch.testing.assert_close(exact, floor()[[0, 10, 24]], atol=3e-4, rtol=0)
    assert found.emd_mean == pytest.approx(exact.mean().item())
    assert found.oracle_mean == pytest.approx(exact.mean().item(), abs=3e-4)
    assert found.score_error < 1e-6
    assert 0 < found.centroid_error < 0.01
    # Samples are further away than the density that they come from.
    assert 0.001 < found.emd_mean_sampled - found.emd_mean < 0.02


def test_scores_and_places_that_are_off_show(best):
    t, hypotheses = best
    wrong = Hypotheses(hypotheses.points + 0.1, torch.zeros_like(hypotheses.logits), "softmax")
    good, bad = (evaluate(each, t, 0.0, size=20) for each in (hypotheses, wrong))
    assert bad.emd_mean > good.emd_mean + 0.01
    assert bad.score_error > 0.005
    assert bad.centroid_error > good.centroid_error + 0.02


def test_the_exact_emd_is_that_of_the_core():
    t = torch.tensor([0.0, 0.4], dtype=torch.float64)
    hypotheses = Hypotheses(torch.randn(2, 6, 2).double(), torch.randn(2, 6).double())
    places, mass = grid(t, 20)
    theirs = emd(hypotheses, places.expand(2, -1, -1), target_weights=mass)
    torch.testing.assert_close(exact_emd(hypotheses, t, size=20), theirs, atol=3e-4, rtol=0)


def test_pruned_hypotheses_can_be_evaluated(best):
    t, hypotheses = best
    pruned = hypotheses.prune(0.03)
    assert (pruned.probs == 0).any()
    assert exact_emd(pruned, t, size=20).isfinite().all()


def test_sampled_emd_is_the_same_for_the_same_seed(best):
    t, hypotheses = best
    a, b = (sampled_emd(hypotheses, t, samples=50, seed=1) for _ in range(2))
    assert torch.equal(a, b)


class Fixed(nn.Module):
    """The same points at all times."""

    def __init__(self, points: torch.Tensor) -> None:
        super().__init__()
        self.points = points

    def forward(self, t: torch.Tensor) -> Hypotheses:
        return Hypotheses(self.points.expand(len(t), -1, -1))


def test_winner_entropy_of_even_cells_and_of_a_collapse():
    data = draw(20_000, seed=0)
    corners = torch.tensor([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]])
    assert winner_entropy(Fixed(corners), data) == pytest.approx(math.log(4), abs=1e-3)
    collapsed = torch.cat([torch.zeros(1, 2), torch.full((3, 2), 9.0)])
    assert winner_entropy(Fixed(collapsed), data) == 0
