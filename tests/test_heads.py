"""Heads: one projection, K hypotheses."""

import pytest
import torch
from torch import nn

from torchmcl.heads import HypothesisHead, multi_hypothesis
from torchmcl.voronoi.supports import Box, Sphere


@pytest.mark.parametrize(("scores", "outputs"), [("sigmoid", 15), ("softmax", 15), (None, 10)])
def test_one_projection_for_all(scores, outputs):
    head = HypothesisHead(8, hypotheses=5, dim=2, scores=scores)
    assert [tuple(p.shape) for p in head.parameters()] == [(outputs, 8), (outputs,)]
    hypotheses = head(torch.randn(3, 4, 8))
    assert hypotheses.points.shape == (3, 4, 5, 2)
    assert (hypotheses.logits is None) == (scores is None)
    if scores:
        assert hypotheses.link == scores


def test_each_output_has_its_own_weights():
    head = HypothesisHead(4, hypotheses=3, dim=2)
    with torch.no_grad():
        head.projection.weight.zero_()
        head.projection.bias.copy_(torch.arange(9.0))
    hypotheses = head(torch.randn(4))
    assert hypotheses.points.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert hypotheses.logits.tolist() == [6, 7, 8]


@pytest.mark.parametrize(("scores", "outputs"), [("sigmoid", 20), (None, 15)])
def test_widths_are_a_third_output_and_positive(scores, outputs):
    head = HypothesisHead(8, hypotheses=5, dim=2, scores=scores, widths=True)
    assert head.projection.out_features == outputs
    with torch.no_grad():
        head.projection.bias[-5:] = torch.tensor([-1000.0, -1.0, 0.0, 1.0, 1000.0])
        head.projection.weight.zero_()
    hypotheses = head(torch.zeros(3, 8))
    assert (hypotheses.logits is None) == (scores is None)
    expected = torch.tensor([0, 0.31326, 0.69315, 1.31326, 1000]) + head.least_width
    torch.testing.assert_close(hypotheses.widths, expected.expand(3, 5), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("support", [Box([-3.0, 10.0], [-1.0, 30.0]), Sphere()])
def test_spread_starts_all_over_the_support(support):
    head = HypothesisHead(4, hypotheses=200, dim=2, spread=support)
    points = head(torch.zeros(4)).points
    assert support.contains(points).all()
    assert points.std(0).min() > 0.4


def test_multi_hypothesis_replaces_the_last_layer_of_a_copy():
    model = nn.Sequential(
        nn.Linear(3, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    ).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    multiple = multi_hypothesis(model, 5, scores="softmax")
    inputs = torch.randn(7, 3, dtype=torch.float64)
    hypotheses = multiple(inputs)
    assert hypotheses.points.shape == (7, 5, 2)
    assert hypotheses.points.dtype == torch.float64
    assert hypotheses.link == "softmax"
    assert model(inputs).shape == (7, 2)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(multiple[0].weight, model[0].weight)
    with torch.no_grad():
        multiple[0].weight.zero_()
    assert not torch.equal(multiple[0].weight, model[0].weight)


def test_multi_hypothesis_of_a_bare_layer_and_of_none():
    assert multi_hypothesis(nn.Linear(3, 2), 4)(torch.zeros(3)).points.shape == (4, 2)
    with pytest.raises(
        ValueError, match=r"model must contain a torch.nn.Linear as its output layer, ReLU has none"
    ):
        multi_hypothesis(nn.ReLU(), 4)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": 0}, "features must be at least 1, got 0"),
        ({"hypotheses": 0}, "hypotheses must be at least 1, got 0"),
        ({"dim": -1}, "dim must be at least 1, got -1"),
        ({"features": None}, "features must be an integer, got None"),
        ({"hypotheses": 2.5}, "hypotheses must be an integer, got 2.5"),
        ({"widths": "yes"}, "widths must be True or False, got 'yes'"),
        ({"spread": 3}, "spread must be a Box, a Sphere or None, got int"),
        ({"scores": "tanh"}, "scores must be 'sigmoid', 'softmax' or None, got 'tanh'"),
        ({"spread": Box([0.0], [1.0])}, "spread has 1 coordinates, the head has dim 2"),
    ],
)
def test_mistakes(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        HypothesisHead(**{"features": 4, "hypotheses": 3, "dim": 2, **change})
