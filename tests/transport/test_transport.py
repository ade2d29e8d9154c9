"""Optimal transport against POT, SciPy's linear programming and finite differences."""

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor
from torch.func import grad, vmap

from torchmcl.distances import cost_matrix, euclidean, great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.transport import emd, mixture_cost, oracle_error, transport_cost

DISTANCES = pytest.mark.parametrize("distance", [euclidean, great_circle], ids=["euclidean", "great_circle"])


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def pairwise(x: np.ndarray, y: np.ndarray, sphere: bool) -> np.ndarray:
    """An independent cost matrix."""
    if not sphere:
        return np.linalg.norm(x[:, None] - y[None], axis=-1)
    u, v = (np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], -1) for a, e in (x.T, y.T))
    cross = np.linalg.norm(np.cross(u[:, None], v[None]), axis=-1)
    return np.arctan2(cross, u @ v.T)


def linear_program(cost: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    m, k = cost.shape
    sums = np.concatenate([np.kron(np.eye(m), np.ones(k)), np.kron(np.ones(m), np.eye(k))])
    return linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([rows, columns])).fun


def mixtures(batch: int, targets: int, n_hypotheses: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points, logits, targets and their weights: a third with absent mass, a third with coincident points."""
    points, where, weights = (
        rand(batch, n_hypotheses, 2) * 3 - 1.5,
        rand(batch, targets, 2) * 3 - 1.5,
        rand(batch, targets),
    )
    logits = torch.randn(batch, n_hypotheses, dtype=torch.float64)
    logits[::3, 1:] = logits[::3, 1:].masked_fill(torch.rand(logits[::3, 1:].shape) < 0.4, -torch.inf)
    weights[::3, 1:] *= torch.rand(weights[::3, 1:].shape) < 0.5
    points[1::3, : n_hypotheses // 2 + 1] = where[1::3, :1]
    where[1::6, 1:] = where[1::6, :1]
    return points, logits, where, weights


@DISTANCES
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_emd_is_that_of_pot(targets: int, distance) -> None:
    for n_hypotheses in range(1, 21):
        points, logits, where, weights = mixtures(18, targets, n_hypotheses)
        hypotheses = Hypotheses(points, logits)
        ours = emd(hypotheses, where, distance=distance, target_weights=weights)
        probs = hypotheses.probs / hypotheses.probs.sum(-1, keepdim=True)
        shares = weights / weights.sum(-1, keepdim=True)
        items = zip(where.numpy(), points.numpy(), shares.numpy(), probs.numpy(), strict=True)
        theirs = [ot.emd2(w, p, pairwise(x, y, distance is great_circle)) for x, y, w, p in items]
        torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64), rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize(
    ("targets", "n_hypotheses"), [(1, 6), (2, 6), (3, 7), (4, 2), (6, 3), (4, 5), (6, 9)]
)
def test_any_size_equals_a_linear_program(targets: int, n_hypotheses: int) -> None:
    cost, rows, columns = rand(6, targets, n_hypotheses), rand(6, targets), rand(6, n_hypotheses)
    rows[0, 1:2] = columns[0, -1] = 0
    rows, columns = rows / rows.sum(-1, keepdim=True), columns / columns.sum(-1, keepdim=True)
    theirs = [linear_program(*item) for item in zip(cost.numpy(), rows.numpy(), columns.numpy(), strict=True)]
    torch.testing.assert_close(
        transport_cost(cost, rows, columns), torch.tensor(theirs, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )


@settings(max_examples=150, deadline=None)
@given(data=st.data(), targets=st.integers(1, 4), n_hypotheses=st.integers(1, 6))
def test_ties_and_absent_mass(data: st.DataObject, targets: int, n_hypotheses: int) -> None:
    def draw(*shape: int) -> Tensor:
        size = int(np.prod(shape))
        numbers = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
        return torch.tensor(numbers, dtype=torch.float64).reshape(shape)

    cost, rows, columns = draw(targets, n_hypotheses), draw(targets), draw(n_hypotheses)
    rows[0], columns[0] = rows[0] + 1, columns[0] + 1
    theirs = ot.emd2((rows / rows.sum()).numpy(), (columns / columns.sum()).numpy(), cost.numpy())
    assert transport_cost(cost, rows, columns).item() == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("targets", [2, 3, 4])
def test_value_scales_with_the_cost(scale: float, targets: int) -> None:
    cost, rows, columns = rand(50, targets, 8), rand(50, targets), rand(50, 8)
    once = transport_cost(cost, rows, columns)
    torch.testing.assert_close(transport_cost(cost * scale, rows, columns) / scale, once, rtol=1e-10, atol=0)


def test_metric_axioms() -> None:
    a, b, c = rand(40, 3, 2), rand(40, 7, 2), rand(40, 3, 2)
    mass = [rand(*points.shape[:-1]) for points in (a, b, c)]

    def between(x: int, y: int) -> Tensor:
        points = (a, b, c)
        return transport_cost(torch.cdist(points[x], points[y]), mass[x], mass[y])

    assert between(0, 0).abs().max() < 1e-9
    assert between(0, 2).min() > 1e-3
    torch.testing.assert_close(between(0, 1), between(1, 0))
    assert (between(0, 2) <= between(0, 1) + between(1, 2) + 1e-12).all()


@DISTANCES
def test_one_target_is_the_mean_distance(distance) -> None:
    hypotheses, target = Hypotheses(rand(9, 5, 2), torch.randn(9, 5, dtype=torch.float64)), rand(9, 1, 2)
    mean = (hypotheses.probs * distance(hypotheses.points, target)).sum(-1)
    torch.testing.assert_close(emd(hypotheses, target, distance=distance), mean)


@pytest.mark.parametrize("targets", [1, 2, 3, 4])
@pytest.mark.parametrize("n_hypotheses", [2, 3, 5, 8])
def test_gradients_are_finite_differences(targets: int, n_hypotheses: int) -> None:
    points, logits = rand(3, n_hypotheses, 2), torch.randn(3, n_hypotheses, dtype=torch.float64)
    where, weights = rand(3, targets, 2), rand(3, targets)

    def value(points: Tensor, logits: Tensor, weights: Tensor) -> Tensor:
        return emd(Hypotheses(points, logits), where, target_weights=weights)

    inputs = [value.requires_grad_() for value in (points, logits, weights)]
    assert torch.autograd.gradcheck(value, inputs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("targets", "n_hypotheses"), [(2, 5), (3, 5), (5, 5), (5, 2)])
def test_gradient_in_an_absent_weight_is_one_sided(targets: int, n_hypotheses: int) -> None:
    cost, rows, columns = rand(targets, n_hypotheses), rand(targets), rand(n_hypotheses)
    rows[0] = columns[0] = 0
    rows.requires_grad_(), columns.requires_grad_()
    slopes = torch.autograd.grad(transport_cost(cost, rows, columns), [rows, columns])
    step, now = 1e-7, transport_cost(cost, rows, columns)
    row, column = step * torch.eye(targets)[0].double(), step * torch.eye(n_hypotheses)[0].double()
    by_row, by_column = (
        transport_cost(cost, rows + row, columns),
        transport_cost(cost, rows, columns + column),
    )
    assert (by_row - now).item() / step == pytest.approx(slopes[0][0].item(), abs=1e-5)
    assert (by_column - now).item() / step == pytest.approx(slopes[1][0].item(), abs=1e-5)


@pytest.mark.parametrize("targets", [1, 2, 3, 4])
def test_a_step_down_the_gradient_lowers_the_emd(targets: int) -> None:
    points, logits, where = rand(20, 6, 2).requires_grad_(), torch.zeros(20, 6).double(), rand(20, targets, 2)
    logits.requires_grad_()
    before = emd(Hypotheses(points, logits), where)
    slopes = torch.autograd.grad(before.sum(), [points, logits])
    after = emd(Hypotheses(points - 1e-4 * slopes[0], logits - 1e-4 * slopes[1]), where)
    assert (after < before).all()


def test_gradients_under_torch_func() -> None:
    problem = rand(4, 6, 3, 5), rand(4, 6, 3), rand(4, 6, 5)
    inputs = [value.clone().requires_grad_() for value in problem]
    expected = torch.autograd.grad(transport_cost(*inputs).sum(), inputs)
    inner = vmap(grad(lambda *values: transport_cost(*values).sum(), (0, 1, 2)))(*problem)
    outer = grad(lambda *values: vmap(transport_cost, (0, 0, 0))(*values).sum(), (0, 1, 2))(*problem)
    for gradients in (inner, outer):
        for ours, theirs in zip(gradients, expected, strict=True):
            torch.testing.assert_close(ours, theirs)
    shared = vmap(transport_cost, (0, None, 2))(problem[0], problem[1][0], problem[2].movedim(0, 2))
    torch.testing.assert_close(shared[1], transport_cost(problem[0][1], problem[1][0], problem[2][1]))


def test_batch_axes_order_and_inputs() -> None:
    points, logits, where = rand(2, 3, 6, 2), torch.randn(2, 3, 6).double(), rand(2, 3, 3, 2)
    active = torch.rand(2, 3, 3) < 0.6
    copies = [value.clone() for value in (points, logits, where, active)]
    value = emd(Hypotheses(points, logits), where, active)
    assert value.shape == (2, 3)
    one = emd(Hypotheses(points[1, 2], logits[1, 2]), where[1, 2], active[1, 2])
    torch.testing.assert_close(value[1, 2], one, equal_nan=True)
    k, m = torch.randperm(6), torch.randperm(3)
    permuted = emd(Hypotheses(points[:, :, k], logits[..., k]), where[:, :, m], active[..., m])
    torch.testing.assert_close(permuted, value, equal_nan=True)
    for value, copy in zip((points, logits, where, active), copies, strict=True):
        assert torch.equal(value, copy)


def test_inactive_targets_never_matter() -> None:
    hypotheses, where = Hypotheses(rand(4, 5, 2)), rand(4, 5, 2)
    active = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]]).bool()
    hidden = where.masked_fill(~active[..., None], torch.nan)
    for function in (emd, oracle_error):
        value = function(hypotheses, hidden, active)
        assert value.isnan().tolist() == [False, True, False, False]
        torch.testing.assert_close(value[0], function(hypotheses[0], where[0, [0, 2]]))
        torch.testing.assert_close(value[3], function(hypotheses[3], where[3, 1:2]))


def test_no_target_gives_zero_with_zero_gradient() -> None:
    points = rand(2, 4, 2).requires_grad_()
    logits = torch.zeros(2, 4).double().requires_grad_()
    value, valid = mixture_cost(
        Hypotheses(points, logits), torch.full((2, 3, 2), torch.nan).double(), torch.zeros(2, 3).bool()
    )
    assert value.tolist() == [0, 0]
    assert not valid.any()
    value.sum().backward()
    assert points.grad.eq(0).all()
    assert logits.grad.eq(0).all()
    empty, valid = mixture_cost(Hypotheses(points, logits), rand(2, 0, 2))
    assert empty.tolist() == [0, 0]
    assert not valid.any()


@pytest.mark.parametrize("targets", [1, 2, 3, 5])
def test_nan_is_never_hidden(targets: int) -> None:
    points, where = rand(3, 6, 2), rand(3, targets, 2)
    points[0, 2] = torch.nan
    where[1, -1] = torch.nan
    for function in (emd, oracle_error):
        assert function(Hypotheses(points), where).isnan().tolist() == [True, True, False]
    logits = torch.zeros(3, 6).double()
    logits[2, 0] = torch.nan
    assert emd(Hypotheses(points, logits), where).isnan().all()
    assert transport_cost(rand(2, targets, 4), torch.zeros(2, targets).double(), rand(2, 4)).isnan().all()
    assert transport_cost(rand(2, targets, 4), rand(2, targets), torch.zeros(2, 4).double()).isnan().all()


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_other_types(dtype: torch.dtype, rtol: float) -> None:
    cost, rows, columns = (value.to(dtype) for value in (rand(30, 3, 6), rand(30, 3), rand(30, 6)))
    value = transport_cost(cost.requires_grad_(), rows, columns)
    assert value.dtype == dtype
    torch.testing.assert_close(
        value.double(), transport_cost(cost.double(), rows.double(), columns.double()), rtol=rtol, atol=0
    )
    assert torch.autograd.grad(value.sum(), cost)[0].dtype == dtype


def test_no_items() -> None:
    assert transport_cost(rand(0, 3, 5), rand(0, 3), rand(0, 5)).shape == (0,)
    assert emd(Hypotheses(rand(2, 0, 4, 2)), rand(2, 0, 3, 2)).shape == (2, 0)


def test_oracle_error_is_the_mean_distance_to_the_nearest() -> None:
    hypotheses, where = Hypotheses(rand(5, 4, 3)), rand(5, 2, 3)
    nearest = [
        [min(torch.dist(y, x).item() for x in xs) for y in ys]
        for xs, ys in zip(hypotheses.points, where, strict=True)
    ]
    torch.testing.assert_close(
        oracle_error(hypotheses, where), torch.tensor(nearest).double().mean(-1), rtol=1e-6, atol=0
    )


def test_wrong_weights_are_named(unchecked) -> None:
    cost = rand(3, 5)
    with pytest.raises(ValueError, match=r"target_weights must not be negative, got -1\.0"):
        transport_cost(cost, torch.tensor([-1.0, -1.0, -1.0]), rand(5))
    with pytest.raises(ValueError, match="weights must not be negative"):
        transport_cost(cost, rand(3), rand(5) - 2)
    with pytest.raises(ValueError, match=r"target_weights must be \(3,\) for this cost, got \(2,\)"):
        transport_cost(cost, rand(2), rand(5))
    with pytest.raises(ValueError, match=r"target_weights must be \(3,\), got \(4,\)"):
        emd(Hypotheses(rand(5, 2)), rand(3, 2), target_weights=rand(4))


def test_cost_matrix_feeds_transport() -> None:
    points, where = rand(4, 5, 2), rand(4, 3, 2)
    cost, active = cost_matrix(points, where)
    torch.testing.assert_close(
        emd(Hypotheses(points), where), transport_cost(cost, active.double(), torch.ones(4, 5).double())
    )


@pytest.mark.parametrize("targets", [1, 2, 3])
def test_single_precision_without_a_plan_is_as_good_as_its_inputs(targets):
    random = torch.Generator().manual_seed(targets)
    cost = torch.rand(500, targets, 6, generator=random)
    rows, columns = torch.rand(500, targets, generator=random), torch.rand(500, 6, generator=random)
    expected = transport_cost(cost.double().requires_grad_(), rows.double(), columns.double())
    torch.testing.assert_close(
        transport_cost(cost, rows, columns).double(), expected.detach(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": torch.ones(2, 2, dtype=torch.long)}, "cost must be floating point, got torch.int64"),
        ({"cost": [[0.0, 1.0], [1.0, 0.0]]}, "cost must be a tensor, got list"),
        ({"cost": torch.ones(2)}, r"cost must be \(\*batch, targets, hypotheses\), got \(2,\)"),
        ({"weights": torch.ones(2, dtype=torch.long)}, "weights must be floating point"),
        ({"weights": None}, "weights must be a tensor, got None"),
        ({"target_weights": torch.ones(3)}, r"target_weights must be \(2,\) for this cost, got \(3,\)"),
    ],
)
def test_arguments_are_named(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        transport_cost(
            **{"cost": torch.ones(2, 2), "target_weights": torch.ones(2), "weights": torch.ones(2), **change}
        )


@pytest.mark.usefixtures("unchecked")
def test_hypotheses_are_needed():
    for measure in (emd, oracle_error):
        with pytest.raises(TypeError, match="hypotheses must be Hypotheses, got Tensor"):
            measure(torch.zeros(2, 1), torch.zeros(2, 1))
