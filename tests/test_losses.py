"""Losses against loops over samples, targets and hypotheses, and the rules that all of them keep."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import brute
from cases import losses, problem
from torchmcl.assignment import relaxed, top_n, winner_takes_all
from torchmcl.distances import euclidean, great_circle, squared_euclidean
from torchmcl.energy import energy_loss
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import cell_loss, mcl_loss, pit_loss, rmcl_loss, scoring_loss, transport_loss
from torchmcl.transport import oracle_error

RULES = {
    "winner": (winner_takes_all, ("winner", 0.0)),
    "top": (partial(top_n, n=2), ("top", 2.0)),
    "relaxed": (partial(relaxed, epsilon=0.3), ("relaxed", 0.3)),
}
DISTANCES = {
    "euclidean": (euclidean, brute.straight),
    "squared": (squared_euclidean, brute.straight_squared),
    "great_circle": (great_circle, brute.along_the_sphere),
}


def agree(ours: Tensor, theirs: Tensor, inputs: list[Tensor]) -> None:
    """Value and gradients are the same to 1e-6."""
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    for a, b in zip(
        torch.autograd.grad(ours, inputs, allow_unused=True, retain_graph=True, materialize_grads=True),
        torch.autograd.grad(theirs, inputs, allow_unused=True, retain_graph=True, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


sizes = st.tuples(
    st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**31)
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("best_target_only", [False, True])
@settings(max_examples=25)
@given(sizes=sizes)
def test_mcl_equals_loops(rule, best_target_only, sizes):
    points, _, targets, active = problem(*sizes)
    if rule == "top" and points.shape[1] < 2:
        return
    assign, plain = RULES[rule]
    ours = mcl_loss(Hypotheses(points), targets, active, assign=assign, best_target_only=best_target_only)
    theirs = brute.mcl(points, targets, active, brute.straight, plain, best_target_only)
    agree(ours, theirs, [points])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
@settings(max_examples=12)
@given(sizes=sizes)
def test_rmcl_equals_loops(distance, rule, link, sizes):
    batch, targets, hypotheses, dim, seed = sizes
    dim = 2 if distance == "great_circle" else dim
    points, logits, where, active = problem(batch, targets, max(hypotheses, 2), dim, seed)
    assign, plain = RULES[rule]
    measure, plain_measure = DISTANCES[distance]
    ours = rmcl_loss(
        Hypotheses(points, logits, link), where, active, distance=measure, assign=assign, beta=0.7
    )
    won = brute.winners(points, where, active, plain_measure, plain)
    scoring = brute.binary_scoring(logits, won) if link == "sigmoid" else brute.cell_scoring(logits, won)
    theirs = brute.mcl(points, where, active, plain_measure, plain) + 0.7 * scoring
    agree(ours, theirs, [points, logits])


@settings(max_examples=40)
@given(batch=st.integers(1, 3), slots=st.integers(1, 5), dim=st.integers(1, 3), seed=st.integers(0, 2**31))
def test_pit_equals_loops_over_permutations(batch, slots, dim, seed):
    points, logits, targets, active = problem(batch, slots, slots, dim, seed)
    ours = pit_loss(points, logits, targets, active)
    agree(ours, brute.pit(points, logits, targets, active, brute.straight), [points, logits])


@pytest.mark.parametrize("slots", [3, 6])
def test_pit_forgives_any_order_and_only_that(slots):
    points = torch.randn(8, slots, 2)
    active = torch.rand(8, slots) < 0.5
    logits = torch.where(active, 30.0, -30.0)
    order = torch.randperm(slots)
    assert pit_loss(points, logits, points[:, order], active[:, order]) < 1e-5
    assert pit_loss(points, -logits, points[:, order], active[:, order]) > 1


def test_pit_takes_both_terms_under_one_permutation():
    points = torch.tensor([[[0.0], [1.0]]])
    logits = torch.tensor([[-5.0, 5.0]])
    active = torch.tensor([[True, False]])
    targets = torch.tensor([[[0.2], [0.0]]])
    # The nearer slot 0 says "absent": taking it for the distance would cost 10 for the activities.
    assert pit_loss(points, logits, targets, active).item() == pytest.approx(0.8 + 0.00672, abs=1e-4)


@pytest.mark.parametrize("loss", ["mcl", "rmcl", "softmax", "transport"])
def test_time_is_one_more_batch_axis(loss):
    points, logits, targets, active = problem(12, 3, 5, 2, seed=1)
    call = losses()[loss]
    flat = call(points, logits, targets, active)
    deep = call(
        points.unflatten(0, (2, 3, 2)), logits.unflatten(0, (2, 3, 2)),
        targets.unflatten(0, (2, 3, 2)), active.unflatten(0, (2, 3, 2)),
    )  # fmt: skip
    torch.testing.assert_close(flat, deep)


@pytest.mark.parametrize("loss", losses())
def test_inactive_targets_never_matter(loss):
    points, logits, targets, active = problem(6, 3, 5, 2, seed=2)
    results = []
    for junk in (torch.nan, torch.inf, -1e30, 0.0):
        torch.manual_seed(5)
        value = losses()[loss](points, logits, targets.masked_fill(~active[..., None], junk), active)
        results.append(
            (value, *torch.autograd.grad(value, [points, logits], materialize_grads=True, allow_unused=True))
        )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.isfinite(a).all()
            assert torch.equal(a, b)


@pytest.mark.parametrize("loss", losses())
def test_no_active_target_at_all_is_no_nan(loss):
    points, logits, targets, active = problem(4, 3, 5, 2, seed=3, keep=0.0)
    value = losses()[loss](points, logits, targets, active)
    value.backward()
    assert torch.isfinite(value)
    assert (points.grad == 0).all()
    if loss in ("mcl", "best", "softmax", "transport") or "energy" in loss or loss == "likelihood":
        assert value == 0


@pytest.mark.parametrize("loss", losses())
@pytest.mark.parametrize("where", ["target", "hypothesis"])
def test_nan_that_counts_makes_the_loss_nan(loss, where):
    points, logits, targets, active = problem(4, 3, 5, 2, seed=4)
    active[0, 0] = True
    targets = targets.masked_fill(~active[..., None], 0.0)
    if where == "target":
        targets[0, 0, 1] = torch.nan
    points = points.detach().clone()
    if where == "hypothesis":
        points[0, 1, 0] = torch.nan
    assert losses()[loss](points, logits, targets, active).isnan()


@pytest.mark.parametrize("loss", losses())
def test_inputs_are_left_as_they_were(loss):
    inputs = problem(4, 3, 5, 2, seed=5)
    copies = [value.detach().clone() for value in inputs]
    losses()[loss](*inputs).backward()
    for value, copy in zip(inputs, copies, strict=True):
        assert torch.equal(value.detach().nan_to_num(), copy.nan_to_num())


@pytest.mark.parametrize(
    "loss", [name for name in losses() if name not in ("sampled", "drawn energy", "pit")]
)
def test_order_of_hypotheses_and_targets_changes_nothing(loss):
    points, logits, targets, active = problem(6, 3, 5, 2, seed=6)
    k, m = torch.randperm(5), torch.randperm(3)
    torch.testing.assert_close(
        losses()[loss](points, logits, targets, active),
        losses()[loss](points[:, k], logits[:, k], targets[:, m], active[:, m]),
    )


# The shares of annealed assignment are constants for the gradient, but not for finite differences.
@pytest.mark.parametrize("loss", [name for name in losses() if name != "annealed"])
def test_gradcheck(loss):
    points, logits, targets, active = problem(3, 3, 4, 2, seed=7)

    def value(points: Tensor, logits: Tensor) -> Tensor:
        torch.manual_seed(0)
        return losses()[loss](points, logits, targets, active)

    assert torch.autograd.gradcheck(value, (points, logits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("loss", losses())
def test_dtypes(loss, dtype):
    points, logits, targets, active = problem(6, 3, 5, 2, seed=8)
    exact = losses()["rmcl" if loss == "sampled" else loss](points, logits, targets, active)
    torch.manual_seed(0)
    value = losses()[loss](points.to(dtype), logits.to(dtype), targets.to(dtype), active)
    assert value.dtype == dtype
    if loss not in ("sampled", "drawn energy"):
        torch.testing.assert_close(
            value.double(), exact, rtol=0.05 if dtype == torch.bfloat16 else 1e-4, atol=1e-3
        )


@pytest.mark.parametrize("distance", [euclidean, squared_euclidean, great_circle])
def test_gradients_are_finite_on_the_spot_and_opposite(distance):
    points = torch.tensor([[[0.4, 0.2], [0.4 - torch.pi, -0.2]]], dtype=torch.float64, requires_grad=True)
    targets = points.detach()[:, :1]
    for assign in (winner_takes_all, partial(top_n, n=2)):
        loss = mcl_loss(Hypotheses(points), targets, distance=distance, assign=assign)
        assert torch.isfinite(torch.autograd.grad(loss, points)[0]).all()


def test_of_equals_the_first_wins():
    logits = torch.zeros(1, 3, requires_grad=True)
    hypotheses = Hypotheses(torch.tensor([[[1.0], [-1.0], [1.0]]]), logits)
    rmcl_loss(hypotheses, torch.zeros(1, 1, 1)).backward()
    assert logits.grad.sign().tolist() == [[-1.0, 1.0, 1.0]]


class TestNegatives:
    def test_expected_loss_and_gradient_are_those_of_all_negatives(self):
        logits = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
        positive = torch.rand(3, 6) < 0.3
        exact = scoring_loss(logits, positive)
        many = 20_000
        drawn = scoring_loss(logits.expand(many, 3, 6), positive.expand(many, 3, 6), negatives=2)
        torch.testing.assert_close(drawn, exact, rtol=0.01, atol=0)
        torch.testing.assert_close(
            torch.autograd.grad(drawn, logits)[0], torch.autograd.grad(exact, logits)[0], rtol=0.05, atol=2e-3
        )

    def test_each_draw_is_distinct_uniform_and_never_a_winner(self):
        logits = torch.zeros(30_000, 5, dtype=torch.float64, requires_grad=True)
        positive = torch.zeros(30_000, 5, dtype=torch.bool)
        positive[:, 1] = True
        scoring_loss(logits, positive, negatives=2, reweight=False).backward()
        taking_part = logits.grad != 0
        assert (taking_part.sum(-1) == 3).all()
        assert taking_part[:, 1].all()
        frequency = taking_part.double().mean(0)[[0, 2, 3, 4]]
        torch.testing.assert_close(frequency, torch.full_like(frequency, 0.5), atol=0.015, rtol=0)

    def test_fewer_where_fewer_exist(self):
        logits = torch.randn(2, 4)
        positive = torch.tensor([[True, True, True, False], [False, False, False, False]])
        for reweight in (True, False):
            many = scoring_loss(logits, positive, negatives=9, reweight=reweight)
            torch.testing.assert_close(many, scoring_loss(logits, positive))

    def test_without_reweighting_it_is_the_mean_over_heads_that_take_part(self):
        logits = torch.tensor([[0.0, 2.0]])
        only_negative = scoring_loss(logits, torch.tensor([[True, False]]), negatives=1, reweight=False)
        torch.testing.assert_close(only_negative, scoring_loss(logits, torch.tensor([[True, False]])))
        everything_won = scoring_loss(logits, torch.tensor([[True, True]]), negatives=1)
        torch.testing.assert_close(everything_won, scoring_loss(logits, torch.tensor([[True, True]])))


def test_cell_loss_is_least_at_the_true_shares():
    mass = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    logits = mass.log().requires_grad_()
    loss = cell_loss(logits, mass)
    torch.testing.assert_close(loss, -(mass * mass.log()).sum())
    assert torch.autograd.grad(loss, logits)[0].abs().max() < 1e-12


@pytest.mark.usefixtures("unchecked")
class TestMistakes:
    points, logits = torch.zeros(2, 5, 2), torch.zeros(2, 5)
    targets, active = torch.zeros(2, 3, 2), torch.ones(2, 3, dtype=torch.bool)

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"targets": torch.zeros(2, 3, 3)}, ValueError, "targets has 3 coordinates, hypotheses have 2"),
            (
                {"targets": torch.zeros(4, 3, 2)},
                ValueError,
                r"targets has batch axes \(4,\), hypotheses have \(2,\)",
            ),
            (
                {"targets": torch.zeros(2)},
                ValueError,
                r"targets must be \(\*batch, targets, dim\), got \(2,\)",
            ),
            (
                {"targets": torch.zeros(2, 3, 2).long()},
                TypeError,
                "targets must be floating point, got torch.int64",
            ),
            ({"active": torch.ones(2, 3)}, TypeError, "active must be a boolean mask, got torch.float32"),
            ({"active": torch.ones(2, 2).bool()}, ValueError, r"active must be \(2, 3\), got \(2, 2\)"),
            ({"beta": -1.0}, ValueError, r"beta must be at least 0, got -1.0"),
            ({"negatives": 0}, ValueError, "negatives must be at least 1, got 0"),
            (
                {"assign": partial(top_n, n=6)},
                ValueError,
                "n must be between 1 and the number of hypotheses 5, got 6",
            ),
            (
                {"assign": partial(relaxed, epsilon=2.0)},
                ValueError,
                "epsilon must be between 0 and 1, got 2.0",
            ),
            ({"link": "softmax", "negatives": 1}, ValueError, "negatives must be None with link 'softmax'"),
            ({"link": "other"}, ValueError, "link must be 'sigmoid' or 'softmax', got 'other'"),
            ({"logits": None}, ValueError, "hypotheses have no scores"),
            (
                {"logits": torch.zeros(2, 4)},
                ValueError,
                r"logits must be \(2, 5\) for these points, got \(2, 4\)",
            ),
            ({"epsilon": 0.5}, TypeError, "epsilon"),
        ],
    )
    def test_rmcl(self, change, error, message):
        given = {
            "points": self.points,
            "logits": self.logits,
            "targets": self.targets,
            "active": self.active,
            **change,
        }

        def call():
            made = Hypotheses(given.pop("points"), given.pop("logits"), given.pop("link", "sigmoid"))
            rmcl_loss(made, given.pop("targets"), given.pop("active"), **given)

        with pytest.raises(error, match=message):
            call()

    def test_pit(self):
        with pytest.raises(
            ValueError, match=r"targets must be \(2, 5, 2\), one for each slot, got \(2, 3, 2\)"
        ):
            pit_loss(self.points, self.logits, self.targets, self.active)
        with pytest.raises(
            ValueError, match=r"activity_logits must be \(2, 5\) for these points, got \(2, 4\)"
        ):
            pit_loss(self.points, self.logits[:, :4], self.points, torch.ones(2, 5).bool())

    def test_scoring(self):
        with pytest.raises(ValueError, match=r"positive must be \(2, 5\) like logits, got \(2, 4\)"):
            scoring_loss(self.logits, torch.zeros(2, 4).bool())
        with pytest.raises(TypeError, match=r"positive must be a boolean mask, got torch.float32"):
            scoring_loss(self.logits, self.logits)
        with pytest.raises(ValueError, match=r"mass must be \(2, 5\) like logits, got \(2, 4\)"):
            cell_loss(self.logits, torch.zeros(2, 4))
        with pytest.raises(ValueError, match=r"mass must not be negative, got -1\.0"):
            cell_loss(self.logits, -torch.ones(2, 5))
        with pytest.raises(TypeError, match="mass must be floating point"):
            cell_loss(self.logits, torch.ones(2, 5, dtype=torch.long))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"beta": float("nan")}, "beta must be at least 0, got nan"),
            ({"beta": float("inf")}, "beta must be finite, got inf"),
            ({"beta": "1"}, "beta must be a number, got '1'"),
            ({"beta": 1e39}, "beta must be at most 3.40282e.38 in this dtype, got 1e.39"),
            ({"beta": 10**400}, "beta must be finite, got 1000"),
            ({"assign": lambda cost: cost.argmin(-1)}, "assign must return Assignment"),
            (
                {"assign": lambda cost: (cost[..., :1], cost[..., :1] > 0)},
                r"weights of assign must be \(.*\) like the cost",
            ),
            ({"assign": lambda cost: (cost, cost)}, "winners of assign must be a boolean mask"),
            ({"negatives": 1.5}, r"negatives must be an integer, got 1\.5"),
            ({"assign": None}, "assign must be a rule such as winner_takes_all, got None"),
            ({"distance": None}, "distance must be a function of two tensors of points, got None"),
            ({"targets": [[0.0]]}, "targets must be a tensor, got list"),
            ({"active": torch.ones(2, 3)}, "active must be a boolean mask"),
            ({"hypotheses": torch.zeros(2, 5, 2)}, "hypotheses must be Hypotheses, got Tensor"),
            ({"hypotheses": None}, "hypotheses must be Hypotheses, got NoneType"),
        ],
    )
    def test_arguments_are_named(self, change, message):
        made = Hypotheses(self.points, self.logits)
        given = {"hypotheses": made, "targets": self.targets, "active": self.active, **change}
        with pytest.raises((TypeError, ValueError), match=message):
            rmcl_loss(**given)


@pytest.mark.parametrize("loss", [name for name in losses() if name != "pit"])
@pytest.mark.parametrize("masked", [True, False])
def test_without_an_axis_of_targets_the_loss_is_finite_with_a_graph(loss, masked):
    points, logits, targets, active = problem(4, 0, 5, 2, seed=3)
    value = losses()[loss](points, logits, targets, active if masked else None)
    value.backward()
    assert torch.isfinite(value)
    assert (points.grad == 0).all()


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_pruned_hypotheses_without_targets_leave_the_loss_finite(link):
    hypotheses = Hypotheses(torch.tensor([[0.0], [9.0]]), torch.tensor([2.0, -9.0]), link).prune(0.1)
    logits = hypotheses.logits.requires_grad_()
    loss = rmcl_loss(Hypotheses(hypotheses.points, logits, link), torch.zeros(3, 1))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_short_numbers_count_many_targets():
    points = torch.tensor([[0.0], [9.0]], dtype=torch.bfloat16)
    targets = torch.cat([torch.zeros(3000, 1), torch.full((1000, 1), 9.0)]).bfloat16()
    logits = torch.tensor([0.0, 4.0])
    value = rmcl_loss(Hypotheses(points, logits, "softmax"), targets)
    torch.testing.assert_close(value, cell_loss(logits, torch.tensor([0.75, 0.25])))


LARGE_BATCH = {
    "mcl": mcl_loss,
    "rmcl": rmcl_loss,
    "rmcl, drawn": partial(rmcl_loss, negatives=1),
    "transport": transport_loss,
    "energy": energy_loss,
    "pit": lambda h, y, active: pit_loss(h.points, h.logits, y, active),
    "oracle": lambda h, y, active: oracle_error(Hypotheses(h.points[0]), y.flatten(0, 1), active.flatten()),
}


@pytest.mark.parametrize("name", LARGE_BATCH)
def test_half_precision_averages_a_large_batch(name):
    h = Hypotheses(torch.zeros(100_000, 1, 2, dtype=torch.half), torch.ones(100_000, 1, dtype=torch.half))
    targets, active = torch.full((100_000, 1, 2), 9.0, dtype=torch.half), torch.ones(100_000, 1) > 0
    loss = LARGE_BATCH[name]
    torch.testing.assert_close(loss(h, targets, active), loss(h[:5], targets[:5], active[:5]))


@pytest.mark.parametrize("loss", [scoring_loss, cell_loss])
def test_a_single_score_has_no_axis_of_hypotheses(loss, unchecked):
    right = torch.tensor(True) if loss is scoring_loss else torch.tensor(1.0)
    with pytest.raises(ValueError, match=r"logits must be \(\*batch, hypotheses\), got \(\)"):
        loss(torch.tensor(0.0), right)


@pytest.mark.parametrize("slots", [0, 3, 6])
def test_pit_of_an_empty_batch_is_zero_with_a_graph(slots):
    points, logits = torch.zeros(0, slots, 2, requires_grad=True), torch.zeros(0, slots, requires_grad=True)
    loss = pit_loss(points, logits, torch.zeros(0, slots, 2), torch.zeros(0, slots).bool())
    assert loss.item() == 0
    loss.backward()


@pytest.mark.parametrize("loss", ["mcl", "rmcl", "sampled", "softmax"])
def test_memory_grows_with_targets_times_hypotheses_and_no_faster(loss):
    """No tensor of forward or backward is larger than the differences of all pairs of points."""
    batch, targets, hypotheses, dim = 4, 3, 200, 2
    points, logits, where, active = problem(batch, targets, hypotheses, dim, seed=0)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            for value in result if isinstance(result, tuple | list) else (result,):
                if isinstance(value, Tensor):
                    largest = max(largest, value.numel())
            return result

    with Watch():
        losses()[loss](points, logits, where, active).backward()
    assert batch * targets * hypotheses <= largest <= batch * targets * hypotheses * dim
