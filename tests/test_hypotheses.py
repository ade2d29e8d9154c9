"""Hypotheses as a distribution."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.distances import great_circle
from torchmcl.hypotheses import Hypotheses


def scored(*batch: int, link: str = "sigmoid") -> Hypotheses:
    return Hypotheses(torch.randn(*batch, 5, 2), torch.randn(*batch, 5), link)


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_probs_are_normalised_scores(link):
    hypotheses = scored(3, 4, link=link)
    scores = hypotheses.scores
    torch.testing.assert_close(hypotheses.probs, scores / scores.sum(-1, keepdim=True))
    torch.testing.assert_close(hypotheses.probs.sum(-1), torch.ones(3, 4))
    if link == "softmax":
        torch.testing.assert_close(scores, hypotheses.probs)


@given(st.floats(-2000, 2000), st.floats(-2000, 2000))
def test_probs_survive_extreme_logits(a, b):
    hypotheses = Hypotheses(torch.zeros(2, 1), torch.tensor([a, b]))
    assert torch.isfinite(hypotheses.probs).all()
    assert hypotheses.probs.sum().item() == pytest.approx(1)


def test_unscored_are_uniform():
    hypotheses = Hypotheses(torch.randn(3, 4, 2))
    assert torch.equal(hypotheses.scores, torch.ones(3, 4))
    torch.testing.assert_close(hypotheses.probs, torch.full((3, 4), 0.25))
    torch.testing.assert_close(hypotheses.mean, hypotheses.points.mean(-2))


def test_mean_is_the_law_of_total_expectation():
    hypotheses = scored(3)
    expected = sum(hypotheses.probs[:, k, None] * hypotheses.points[:, k] for k in range(5))
    torch.testing.assert_close(hypotheses.mean, expected)


def test_count_is_the_sum_of_scores_and_known_to_sigmoid_alone():
    hypotheses = scored(3)
    torch.testing.assert_close(hypotheses.count, hypotheses.scores.sum(-1))
    with pytest.raises(ValueError, match="count needs scores with link 'sigmoid'; link 'softmax' cannot"):
        _ = scored(3, link="softmax").count
    with pytest.raises(
        ValueError, match="count needs scores with link 'sigmoid'; unscored hypotheses cannot"
    ):
        _ = Hypotheses(torch.zeros(2, 1)).count


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
@given(st.floats(0, 1), st.integers(0, 1000))
def test_prune_zeroes_exactly_what_is_below(link, threshold, seed):
    torch.manual_seed(seed)
    before = scored(4, link=link)
    after = before.prune(threshold)
    gone = (before.probs < threshold) & (before.probs < before.probs.amax(-1, keepdim=True))
    assert torch.equal(after.probs == 0, gone)
    torch.testing.assert_close(after.probs.sum(-1), torch.ones(4))
    kept = before.probs * ~gone
    torch.testing.assert_close(after.probs, kept / kept.sum(-1, keepdim=True))
    assert torch.equal(after.points, before.points)


def test_prune_leaves_unscored_alone():
    hypotheses = Hypotheses(torch.randn(4, 5, 2))
    torch.testing.assert_close(hypotheses.prune(0.9).probs, hypotheses.probs)


def test_cells_are_the_nearest_and_ties_go_first():
    hypotheses = Hypotheses(torch.tensor([[0.0], [2.0], [2.0]]))
    y = torch.tensor([[-1.0], [0.9], [1.0], [1.1], [5.0]])
    assert hypotheses.cells(y).tolist() == [0, 0, 0, 1, 1]


def test_cells_broadcast_over_samples_and_batch():
    hypotheses = scored(3)
    y = torch.randn(7, 3, 2)
    cells = hypotheses.cells(y)
    for s in range(7):
        for b in range(3):
            assert cells[s, b] == (hypotheses.points[b] - y[s, b]).norm(dim=-1).argmin()
    assert hypotheses.cells(y, distance=great_circle).shape == (7, 3)


def test_samples_have_the_frequencies_of_probs():
    hypotheses = scored(2, 3)
    drawn = hypotheses.sample((4000,))
    assert drawn.shape == (4000, 2, 3, 2)
    same = (drawn[..., None, :] == hypotheses.points).all(-1)
    assert (same.sum(-1) == 1).all()
    torch.testing.assert_close(same.float().mean(0), hypotheses.probs, atol=0.04, rtol=0)
    assert hypotheses.sample().shape == (2, 3, 2)
    assert hypotheses.sample((0, 2)).shape == (0, 2, 2, 3, 2)


def test_sampling_is_reproducible_with_a_generator():
    hypotheses = scored(3)
    first, second = (hypotheses.sample((9,), torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)


def test_indexing_selects_batch_axes_only():
    hypotheses = scored(4, 3)
    assert hypotheses[1].batch_shape == (3,)
    assert torch.equal(hypotheses[1, 2].points, hypotheses.points[1, 2])
    assert torch.equal(hypotheses[..., 0].points, hypotheses.points[:, 0])
    assert torch.equal(hypotheses[..., 0].logits, hypotheses.logits[:, 0])
    mask = torch.rand(4, 3) < 0.5
    assert torch.equal(hypotheses[mask].logits, hypotheses.logits[mask])
    assert hypotheses[:, None].batch_shape == (4, 1, 3)
    with pytest.raises(IndexError):
        hypotheses[0, 0, 0]


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_cat_undoes_a_split(link):
    whole = scored(7, 3, link=link)
    joined = Hypotheses.cat([whole[:2], whole[2:3], whole[3:]])
    assert torch.equal(joined.points, whole.points)
    assert torch.equal(joined.logits, whole.logits)
    assert joined.link == link
    assert Hypotheses.cat([Hypotheses(whole.points)]).logits is None


def test_to_moves_everything_and_keeps_the_link():
    moved = scored(2, link="softmax").to(torch.float64)
    assert moved.points.dtype == moved.logits.dtype == torch.float64
    assert moved.link == "softmax"
    assert Hypotheses(torch.zeros(2, 1)).to(torch.float64).logits is None


def test_detach_leaves_the_graph():
    points, logits = torch.zeros(2, 1, requires_grad=True), torch.zeros(2, requires_grad=True)
    detached = Hypotheses(points, logits).detach()
    assert not detached.points.requires_grad
    assert not detached.logits.requires_grad


@pytest.mark.usefixtures("unchecked")
class TestMistakes:
    @pytest.mark.parametrize(
        ("points", "logits", "link", "message"),
        [
            (torch.zeros(3), None, "sigmoid", r"points must be \(\*batch, hypotheses, dim\), got \(3,\)"),
            (torch.zeros(0, 2), None, "sigmoid", "points holds no hypothesis"),
            (torch.zeros(3, 2), torch.zeros(2), "sigmoid", r"logits must be \(3,\), got \(2,\)"),
            (torch.zeros(3, 2), None, "tanh", "link must be 'sigmoid' or 'softmax', got 'tanh'"),
        ],
    )
    def test_made_wrongly(self, points, logits, link, message):
        with pytest.raises(ValueError, match=message):
            Hypotheses(points, logits, link)

    def test_parts_of_different_kinds(self):
        for other in (scored(1, link="softmax"), Hypotheses(scored(1).points)):
            with pytest.raises(ValueError, match="parts must all be scored by the same link"):
                Hypotheses.cat([scored(1), other])

    def test_used_wrongly(self):
        with pytest.raises(ValueError, match="threshold must be between 0 and 1, got 2"):
            scored(1).prune(2)
        with pytest.raises(ValueError, match="y has 3 coordinates, hypotheses have 2"):
            scored(1).cells(torch.zeros(3))
