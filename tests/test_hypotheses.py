"""Hypotheses as a distribution."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate

from torchmcl.distances import great_circle
from torchmcl.heads import HypothesisHead
from torchmcl.hypotheses import Hypotheses
from torchmcl.transport import emd


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


def wide(*batch: int, link: str = "softmax") -> Hypotheses:
    return Hypotheses(torch.randn(*batch, 5, 2), torch.randn(*batch, 5), link, torch.rand(*batch, 5) + 0.1)


def test_widths_are_carried_by_everything():
    whole = wide(4, 3)
    assert torch.equal(whole.prune(0.2).widths, whole.widths)
    assert torch.equal(whole[1:, 2].widths, whole.widths[1:, 2])
    assert torch.equal(Hypotheses.cat([whole[:1], whole[1:]]).widths, whole.widths)
    assert torch.equal(Hypotheses.stack(list(whole)).widths, whole.widths)
    assert whole.to(torch.float64).widths.dtype == torch.float64
    learned = Hypotheses(whole.points, widths=whole.widths.requires_grad_())
    assert not learned.detach().widths.requires_grad
    assert torch.equal(whole.cpu().widths, whole.widths)


def test_moments_are_those_of_draws():
    hypotheses = wide(3)
    index = torch.multinomial(hypotheses.probs, 200_000, replacement=True)
    centers = hypotheses.points.take_along_dim(index[..., None], -2)
    draws = centers + hypotheses.widths.take_along_dim(index, -1)[..., None] * torch.randn_like(centers)
    torch.testing.assert_close(hypotheses.variance, draws.var(-2), rtol=0.02, atol=0.01)
    torch.testing.assert_close(hypotheses.std, hypotheses.variance.sqrt())
    plain = Hypotheses(hypotheses.points, hypotheses.logits, "softmax")
    torch.testing.assert_close(plain.variance, centers.var(-2), rtol=0.02, atol=0.01)


def test_std_of_one_point_is_zero_with_a_finite_gradient():
    points = torch.zeros(1, 2, requires_grad=True)
    std = Hypotheses(points).std
    assert torch.equal(std, torch.zeros(2))
    assert torch.autograd.grad(std.sum(), points)[0].isfinite().all()


def test_single_answers_are_those_of_loops():
    hypotheses = scored(4, 3)
    for b in range(4):
        for c in range(3):
            points, probs = hypotheses.points[b, c], hypotheses.probs[b, c]
            assert torch.equal(hypotheses.mode[b, c], points[probs.argmax()])
            risks = [sum(p * (x - y).norm() for p, y in zip(probs, points, strict=True)) for x in points]
            assert torch.equal(hypotheses.medoid[b, c], points[int(torch.stack(risks).argmin())])
    assert torch.equal(hypotheses[1, 2].mode, hypotheses.mode[1, 2])
    assert torch.equal(hypotheses[1, 2].medoid, hypotheses.medoid[1, 2])


def test_a_pruned_hypothesis_is_no_answer():
    between = Hypotheses(torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([0.0, -1.0, 0.1]), "softmax")
    assert between.medoid.item() == 0
    assert between.prune(0.2).medoid.item() == 1


def test_length_and_iteration_go_along_the_first_batch_axis():
    hypotheses = wide(4, 3)
    assert len(hypotheses) == 4
    items = list(hypotheses)
    assert len(items) == 4
    assert torch.equal(items[2].points, hypotheses.points[2])
    for use in (len, iter):
        with pytest.raises(TypeError, match="there is no batch axis"):
            use(hypotheses[0, 0])


def test_arrays():
    hypotheses = wide(3)
    arrays = Hypotheses(
        hypotheses.points.requires_grad_(), hypotheses.logits, widths=hypotheses.widths
    ).numpy()
    assert {name: array.shape for name, array in arrays.items()} == {
        "points": (3, 5, 2), "scores": (3, 5), "probs": (3, 5), "widths": (3, 5),
    }  # fmt: skip
    assert set(Hypotheses(torch.zeros(2, 1, dtype=torch.bfloat16)).numpy()) == {"points", "scores", "probs"}


def test_representation_shows_shapes_and_no_numbers():
    shown = repr(wide(3))
    assert shown == (
        "Hypotheses(points=(3, 5, 2), logits=(3, 5), link='softmax', widths=(3, 5), "
        "dtype=torch.float32, device='cpu')"
    )
    assert (
        repr(Hypotheses(torch.zeros(2, 1))) == "Hypotheses(points=(2, 1), dtype=torch.float32, device='cpu')"
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
class TestEcosystem:
    def test_default_collate_and_loader(self, link):
        items = list(wide(6, link=link))
        batch = default_collate([(item, 1.0) for item in items])[0]
        assert batch.link == link
        assert torch.equal(batch.widths, torch.stack([item.widths for item in items]))
        loaded = list(DataLoader(items, batch_size=4))
        assert [len(part) for part in loaded] == [4, 2]
        assert torch.equal(Hypotheses.cat(loaded).points, batch.points)

    def test_vmap_returns_it(self, link):
        head, features = HypothesisHead(3, 5, 2, scores=link, widths=True), torch.randn(4, 3)
        mapped = torch.vmap(head)(features)
        assert mapped.link == link
        torch.testing.assert_close(mapped.widths, head(features).widths)
        means = torch.vmap(lambda h: h.mean)(mapped)
        torch.testing.assert_close(means, mapped.mean)

    def test_lightning_moves_it(self, link):
        moved = move_data_to_device({"a": [wide(2, link=link)]}, torch.device("meta"))["a"][0]
        assert moved.link == link
        assert {part.device.type for part in (moved.points, moved.logits, moved.widths)} == {"meta"}

    def test_data_parallel_with_cat_as_its_gather(self, link):
        class Parallel(nn.DataParallel):
            def gather(self, outputs, output_device):
                return Hypotheses.cat([part.to(output_device) for part in outputs])

        whole = wide(5, link=link)
        gathered = Parallel(nn.Identity()).gather([whole[:3], whole[3:]], torch.device("cpu"))
        assert torch.equal(gathered.logits, whole.logits)
        assert gathered.link == link

    def test_copies(self, link):
        whole = wide(2, link=link)
        for copied in (copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
            assert copied.link == link
            assert torch.equal(copied.widths, whole.widths)
        moved = dataclasses.replace(whole, points=whole.points + 1)
        assert moved.link == link
        assert torch.equal(moved.points, whole.points + 1)


@pytest.mark.usefixtures("unchecked")
class TestMistakes:
    @pytest.mark.parametrize(
        ("points", "logits", "link", "message"),
        [
            (torch.zeros(3), None, "sigmoid", r"points must be \(\*batch, hypotheses, dim\), got \(3,\)"),
            (torch.zeros(0, 2), None, "sigmoid", "points holds no hypothesis"),
            (
                torch.zeros(3, 2),
                torch.zeros(2),
                "sigmoid",
                r"logits must be \(3,\) for these points, got \(2,\)",
            ),
            (torch.zeros(3, 2), None, "tanh", "link must be 'sigmoid' or 'softmax', got 'tanh'"),
        ],
    )
    def test_made_wrongly(self, points, logits, link, message):
        with pytest.raises(ValueError, match=message):
            Hypotheses(points, logits, link)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"points": [[0.0, 1.0]]}, "points must be a tensor, got list"),
            ({"points": None}, "points must be a tensor, got None"),
            ({"points": np.zeros((3, 2))}, "points must be a tensor, got ndarray"),
            (
                {"points": torch.zeros(3, 2, dtype=torch.long)},
                r"points must be floating point, got torch.int64",
            ),
            ({"logits": [0.0, 0.0, 0.0]}, "logits must be a tensor, got list"),
            ({"logits": torch.zeros(3, dtype=torch.long)}, "logits must be floating point"),
            ({"widths": torch.ones(3, 1)}, r"widths must be \(3,\) for these points, got \(3, 1\)"),
            ({"widths": torch.tensor([1.0, 0.0, 1.0])}, "widths must be positive, got 0.0"),
            ({"widths": torch.tensor([1.0, -2.0, 1.0])}, "widths must be positive, got -2.0"),
            ({"widths": torch.tensor([1.0, torch.nan, 1.0])}, "widths must be positive, got nan"),
            ({"link": None}, "link must be 'sigmoid' or 'softmax', got None"),
        ],
    )
    def test_arguments_are_named(self, change, message):
        with pytest.raises((TypeError, ValueError), match=message):
            Hypotheses(**{"points": torch.zeros(3, 2), **change})

    def test_parts_with_and_without_widths(self):
        whole = wide(2)
        with pytest.raises(ValueError, match="parts must all have widths, or none of them"):
            Hypotheses.cat([whole, Hypotheses(whole.points, whole.logits, "softmax")])
        with pytest.raises(ValueError, match="parts is empty"):
            Hypotheses.cat([])

    def test_parts_of_different_kinds(self):
        for other in (scored(1, link="softmax"), Hypotheses(scored(1).points)):
            with pytest.raises(ValueError, match="parts must all be scored by the same link"):
                Hypotheses.cat([scored(1), other])

    def test_used_wrongly(self):
        with pytest.raises(ValueError, match="threshold must be between 0 and 1, got 2"):
            scored(1).prune(2)
        with pytest.raises(ValueError, match="threshold must be between 0 and 1, got nan"):
            scored(1).prune(float("nan"))
        with pytest.raises(TypeError, match="y must be a tensor, got list"):
            scored(1).cells([0.0, 0.0])
        with pytest.raises(ValueError, match="y has 3 coordinates, hypotheses have 2"):
            scored(1).cells(torch.zeros(3))


NOTHING_KNOWN = [
    Hypotheses(torch.tensor([[[0.0], [1.0]], [[0.0], [torch.nan]]]), torch.zeros(2, 2), "softmax"),
    Hypotheses(torch.rand(2, 2, 1), torch.tensor([[0.0, 1.0], [0.0, torch.nan]]), "softmax"),
    Hypotheses(torch.rand(2, 2, 1), torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]), widths=torch.ones(2, 2)),
    Hypotheses(torch.rand(2, 2, 1), torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]]), "softmax"),
]


@pytest.mark.parametrize("hypotheses", NOTHING_KNOWN)
@pytest.mark.parametrize("what", ["mean", "mode", "medoid", "median", "std"])
def test_what_is_not_known_is_nan_and_no_number(hypotheses, what):
    value = getattr(hypotheses, what)
    assert value[0].isfinite().all()
    assert value[1].isnan().all()


@pytest.mark.parametrize("hypotheses", NOTHING_KNOWN[1:])
def test_nothing_is_drawn_of_what_is_not_known(hypotheses):
    drawn = hypotheses.sample((3,))
    assert drawn[:, 0].isfinite().all()
    assert drawn[:, 1].isnan().all()
    with pytest.raises(ValueError, match="hypotheses must have finite points and probabilities"):
        hypotheses.reduce(1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_medoid_of_short_numbers(dtype):
    hypotheses = Hypotheses(torch.tensor([[0.0], [1.0], [4.0]], dtype=dtype))
    assert torch.equal(hypotheses.medoid, torch.ones(1, dtype=dtype))


def test_points_without_coordinates_and_distances_with_some_are_refused():
    with pytest.raises(ValueError, match="distance must reduce the last axis"):
        Hypotheses(torch.zeros(4, 3, 2)).cells(torch.zeros(4, 2), lambda x, y: x - y)
    with pytest.raises(ValueError, match="points holds no coordinate"):
        Hypotheses(torch.zeros(4, 3, 0))


@pytest.mark.parametrize(
    "change",
    [
        Tensor.to_sparse,
        Tensor.to_mkldnn,
        lambda each: torch.nested.nested_tensor([*each], layout=torch.jagged),
    ],
)
def test_tensors_that_are_not_dense_are_named(change, unchecked):
    points, logits = torch.ones(4, 3, 2), torch.ones(4, 3)
    with pytest.raises(TypeError, match="points must be a dense tensor, got a"):
        Hypotheses(change(points))
    for name in ("logits", "widths"):
        with pytest.raises(TypeError, match=f"{name} must be a dense tensor, got a"):
            Hypotheses(points, **{name: change(logits)})
    with pytest.raises(TypeError, match="targets must be a dense tensor, got a"):
        emd(Hypotheses(points), change(points))


def test_parts_that_do_not_fit_together_are_named():
    one, other = Hypotheses(torch.zeros(2, 3, 1)), Hypotheses(torch.zeros(2, 4, 1))
    for join in (Hypotheses.cat, Hypotheses.stack):
        with pytest.raises(
            ValueError, match=r"parts must have points of equal shapes, got \[\(2, 3, 1\), \(2, 4, 1\)\]"
        ):
            join([one, other])
    with pytest.raises(ValueError, match="parts must have a batch axis: stack joins single items"):
        Hypotheses.cat([one[0], one[1]])
    assert torch.equal(Hypotheses.stack([one[0], one[1]]).points, one.points)
