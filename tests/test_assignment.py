"""Rules of assignment: shares that sum to one, winners, ties, limits."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.assignment import annealed, assigned, relaxed, top_n, winner_takes_all

RULES = [
    winner_takes_all,
    partial(top_n, n=1),
    partial(top_n, n=3),
    partial(relaxed, epsilon=0.25),
    partial(annealed, temperature=0.1),
]


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 2**31), coarse=st.booleans())
def test_shares_sum_to_one_and_the_best_has_the_most(rule, seed, coarse):
    random = torch.Generator().manual_seed(seed)
    cost = torch.rand(3, 2, 5, generator=random)
    cost = (cost * 3).floor() if coarse else cost
    weights, winners = rule(cost)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2))
    assert (weights >= 0).all()
    first = cost.numpy().argmin(-1)
    assert (winners.take_along_dim(torch.from_numpy(first)[..., None], -1)).all()
    assert torch.equal(
        weights.amax(-1), weights.take_along_dim(torch.from_numpy(first)[..., None], -1)[..., 0]
    )


def test_ties_go_to_the_lowest_index():
    cost = torch.tensor([[2.0, 1.0, 1.0, 1.0, 2.0]])
    assert winner_takes_all(cost).winners.tolist() == [[False, True, False, False, False]]
    assert top_n(cost, 2).winners.tolist() == [[False, True, True, False, False]]
    assert top_n(cost, 4).winners.tolist() == [[True, True, True, True, False]]
    assert relaxed(cost, 0.4).weights[0].tolist() == pytest.approx([0.1, 0.6, 0.1, 0.1, 0.1])


def test_limits_are_winner_takes_all():
    cost = torch.rand(4, 3, 6)
    for rule in (partial(top_n, n=1), partial(relaxed, epsilon=0.0), partial(annealed, temperature=0.0)):
        for ours, theirs in zip(rule(cost), winner_takes_all(cost), strict=True):
            assert torch.equal(ours, theirs)
    one = torch.rand(4, 3, 1)
    assert torch.equal(relaxed(one, 0.5).weights, torch.ones(4, 3, 1))


def test_annealed_is_a_softmin_between_equal_shares_and_the_winner():
    cost = torch.rand(4, 3, 6, dtype=torch.float64, requires_grad=True)
    weights, winners = annealed(cost, 0.3)
    torch.testing.assert_close(weights, torch.softmax(-cost / 0.3, -1).detach())
    assert not weights.requires_grad
    assert (winners.sum(-1) == 1).all()
    torch.testing.assert_close(annealed(cost, 1e9).weights, torch.full((4, 3, 6), 1 / 6).double())
    cold = annealed(1e6 * cost, 1e-6).weights
    torch.testing.assert_close(cold, winner_takes_all(cost).weights)
    with pytest.raises(ValueError, match="temperature must be at least 0"):
        annealed(cost, -1.0)


def test_relaxed_has_one_winner_and_top_n_has_n():
    cost = torch.rand(4, 3, 6)
    assert (relaxed(cost, 0.5).winners.sum(-1) == 1).all()
    assert (top_n(cost, 3).winners.sum(-1) == 3).all()


@pytest.mark.parametrize("n", [0, 4, -1])
def test_n_beyond_the_hypotheses(n):
    with pytest.raises(
        ValueError, match=f"n must be (at least 1|between 1 and the number of hypotheses 3), got {n}"
    ):
        top_n(torch.rand(1, 3), n)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, float("nan")])
def test_epsilon_beyond_its_range(epsilon):
    with pytest.raises(ValueError, match=f"epsilon must be between 0 and 1, got {epsilon}"):
        relaxed(torch.rand(1, 3), epsilon)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda: winner_takes_all([[1.0]]), "cost must be a tensor, got list"),
        (lambda: winner_takes_all(torch.ones(1, 2, dtype=torch.long)), "cost must be floating point"),
        (lambda: top_n(torch.ones(1, 2), n=1.5), r"n must be an integer, got 1\.5"),
        (lambda: relaxed(torch.ones(1, 2), epsilon=float("nan")), "epsilon must be between 0 and 1, got nan"),
        (
            lambda: assigned(lambda cost: (cost[:1], cost[:1] > 0), torch.ones(2, 3)),
            r"weights of assign must be \(2, 3\) like the cost, got \(1, 3\)",
        ),
        (lambda: relaxed(None, epsilon=0.5), "cost must be a tensor, got None"),
    ],
)
def test_arguments_are_named(rule, message):
    with pytest.raises((TypeError, ValueError), match=message):
        rule()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_temperature_below_all_numbers_of_the_dtype_is_a_cold_one(dtype):
    cost = torch.tensor([[3.0, 1.0, 2.0]], dtype=dtype)
    assert torch.equal(annealed(cost, 1e-320).weights, winner_takes_all(cost).weights)
