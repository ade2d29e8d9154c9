"""The energy score of hypotheses with widths against integrals, scoringrules, draws and finite differences."""

import resource
from itertools import pairwise

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from torchmcl import crps
from torchmcl.crps import mixture_crps, mixture_energy_loss
from torchmcl.directions import to_vectors
from torchmcl.energy import energy_score
from torchmcl.hypotheses import Hypotheses

CDF = {"gaussian": stats.norm.cdf, "laplace": stats.laplace.cdf}


def mixture(batch, hypotheses, targets, seed, low=-1.0, high=1.0, dim=1):
    """Hypotheses with widths from `10^low` to `10^high`, and targets, in float64 with gradients."""
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(batch, hypotheses, dim, generator=random, dtype=torch.float64).requires_grad_()
    logits = torch.randn(batch, hypotheses, generator=random, dtype=torch.float64).requires_grad_()
    exponent = torch.rand(batch, hypotheses, generator=random, dtype=torch.float64) * (high - low) + low
    y = 2 * torch.randn(batch, targets, dim, generator=random, dtype=torch.float64)
    return points, logits, (10**exponent).requires_grad_(), y


def integral(points, probs, widths, y, cdf):
    """`∫ (F(t) - 1[t >= y])^2 dt` by quadrature between the places where something happens."""
    places = np.unique(
        np.concatenate([[y], *(points + step * widths for step in (-40, -8, -2, 0, 2, 8, 40))])
    )

    def error(t):
        return ((probs * cdf((t - points) / widths)).sum() - (t >= y)) ** 2

    parts = (integrate.quad(error, a, b, epsabs=1e-10, limit=200)[0] for a, b in pairwise(places))
    return sum(parts)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@settings(max_examples=6)
@given(hypotheses=st.integers(1, 4), seed=st.integers(0, 2**31))
def test_it_is_the_integral_of_the_squared_error_of_the_distribution_function(kernel, hypotheses, seed):
    points, logits, widths, y = mixture(1, hypotheses, 1, seed)
    answer = Hypotheses(points, logits, "softmax", widths).detach()
    parts = (answer.points[0, :, 0], answer.probs[0], answer.widths[0], y[0, 0, 0])
    theirs = integral(*(part.numpy() for part in parts), CDF[kernel])
    assert mixture_crps(answer, y, kernel=kernel).item() == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("hypotheses", [1, 200])
def test_scoringrules_agrees_over_twelve_orders_of_width(hypotheses):
    points, logits, widths, y = mixture(20, hypotheses, 1, 0, low=-6, high=6)
    answer = Hypotheses(points, logits, "softmax", widths).detach()
    theirs = scoringrules.crps_mixnorm(
        y[:, 0, 0].numpy(), answer.points[..., 0].numpy(), answer.widths.numpy(), answer.probs.numpy()
    )
    np.testing.assert_allclose(mixture_crps(answer, y).numpy(), theirs, rtol=1e-9)
    single = mixture_crps(answer.to(torch.float32), y.float())
    np.testing.assert_allclose(single.numpy(), theirs, rtol=1e-4)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("hypotheses", [1, 5])
def test_gradients_equal_finite_differences(kernel, hypotheses):
    points, logits, widths, y = mixture(3, hypotheses, 2, 1)
    equal = torch.full_like(widths, 0.7).requires_grad_()

    def loss(points, logits, widths, y):
        return mixture_energy_loss(Hypotheses(points, logits, "softmax", widths), y, kernel=kernel)

    for each in (widths, equal):
        assert torch.autograd.gradcheck(loss, (points, logits, each, y.requires_grad_()))


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_widths_have_finite_gradients(kernel, dtype):
    points, logits, widths, y = mixture(50, 200 if kernel == "gaussian" else 20, 1, 2, low=-6, high=6)
    with torch.no_grad():
        points[0] = y[0]
        widths[1] = 1e-6
        widths[2] = 1e6
    inputs = [each.detach().to(dtype).requires_grad_() for each in (points, logits, widths)]
    value = mixture_energy_loss(Hypotheses(*inputs[:2], "softmax", inputs[2]), y.to(dtype), kernel=kernel)
    for gradient in torch.autograd.grad(value, inputs):
        assert gradient.isfinite().all()


def test_widths_that_vanish_leave_the_score_of_the_points():
    points, logits, _, y = mixture(10, 6, 2, 3)
    for kernel in ("gaussian", "laplace"):
        answer = Hypotheses(points, logits, widths=torch.full_like(logits, 1e-9))
        torch.testing.assert_close(
            mixture_crps(answer, y, kernel=kernel), energy_score(answer, y), rtol=1e-7, atol=1e-7
        )


def test_function_and_plain_operations_agree_in_value_and_gradient():
    points, logits, widths, y = mixture(7, 5, 3, 4)
    x, inputs = points[..., 0], [points, logits, widths]
    weight = torch.randn(7, 3, dtype=torch.float64)
    fast = crps._GaussianCRPS.apply(x, widths, logits.softmax(-1), y[..., 0])[0]
    plain = crps._gaussian_scores(x, widths, logits.softmax(-1), y[..., 0])
    torch.testing.assert_close(fast, plain)
    for a, b in zip(*(torch.autograd.grad(each, inputs, weight) for each in (fast, plain)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_vmap_equals_a_batch(kernel):
    points, logits, widths, y = (each.detach() for each in mixture(4, 5, 2, 5))

    def loss(points, logits, widths, y):
        return mixture_energy_loss(Hypotheses(points, logits, widths=widths), y, kernel=kernel)

    each = torch.vmap(torch.func.grad(loss), in_dims=(0, 0, None, 0))(points, logits, widths[0], y)
    alone = torch.func.grad(loss)(points[2], logits[2], widths[0], y[2])
    torch.testing.assert_close(each[2], alone)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_a_large_batch_takes_bounded_memory(kernel, monkeypatch):
    """In parts it is what it is at once; all pairs at once would take more than 2 GB."""
    points, logits, widths, y = mixture(11, 6, 2, 6)
    inputs = [points, logits, widths]
    whole = mixture_energy_loss(Hypotheses(points, logits, widths=widths), y, kernel=kernel)
    with monkeypatch.context() as patched:
        patched.setattr("torchmcl.energy.BLOCK", 100)
        patched.setattr(crps, "LARGE", 100)
        parts = mixture_energy_loss(Hypotheses(points, logits, widths=widths), y, kernel=kernel)
    torch.testing.assert_close(parts, whole)
    for a, b in zip(torch.autograd.grad(parts, inputs), torch.autograd.grad(whole, inputs), strict=True):
        torch.testing.assert_close(a, b)
    hypotheses = 40 if kernel == "gaussian" else 20
    points = torch.randn(65_536, hypotheses, 1, requires_grad=True)
    widths = torch.rand(65_536, hypotheses) + 0.1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mixture_energy_loss(
        Hypotheses(points, widths=widths), torch.randn(65_536, 1, 1), kernel=kernel
    ).backward()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000


@pytest.mark.parametrize(("draws", "kernel"), [(2, "gaussian"), (3, "laplace"), (5, "student"), (2, "vmf")])
def test_draws_are_unbiased(draws, kernel):
    """Many estimates of one score, against as many plain draws of two points from the mixture."""
    points, logits, widths, y = (each.detach() for each in mixture(1, 3, 1, 7, dim=2))
    copies = 20_000
    answer = Hypotheses(points, logits, "softmax", widths)[torch.zeros(copies, dtype=torch.long)]
    ours = torch.stack(
        [mixture_energy_loss(part, y, draws=draws, kernel=kernel) for part in answer[:600, None]]
    )
    first, second = answer.mixture(kernel).sample((2,))
    if kernel == "vmf":
        first, second, y = map(to_vectors, (first, second, y))
    plain = (
        torch.linalg.vector_norm(first - y[0], dim=-1) - torch.linalg.vector_norm(first - second, dim=-1) / 2
    )
    error = (ours.var() / len(ours) + plain.var() / copies).sqrt()
    assert abs(ours.mean() - plain.mean()) < 4 * error
    assert ours.var() < plain.var()


def test_wrong_arguments_are_named(unchecked):
    plain, y = Hypotheses(torch.zeros(2, 3, 1)), torch.zeros(2, 1, 1)
    wide = Hypotheses(torch.zeros(2, 3, 1), widths=torch.ones(2, 3))
    with pytest.raises(ValueError, match="hypotheses have no widths: a mixture needs them"):
        mixture_energy_loss(plain, y)
    with pytest.raises(ValueError, match=r"kernel must be .*gaussian.*, got 'box'"):
        mixture_crps(wide, y, kernel="box")
    flat = Hypotheses(torch.zeros(2, 3, 2), widths=torch.ones(2, 3))
    with pytest.raises(ValueError, match="hypotheses have 2 coordinates, the CRPS is for 1"):
        mixture_crps(flat, torch.zeros(2, 1, 2))
    with pytest.raises(ValueError, match="draws must be at least 2, got 1"):
        mixture_energy_loss(flat, torch.zeros(2, 1, 2), draws=1)
