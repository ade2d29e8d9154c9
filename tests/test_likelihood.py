"""The likelihood of kernel mixtures against SciPy, and what it teaches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import likelihood_loss, log_likelihood


def scipy_log_density(answer: Hypotheses, y: np.ndarray, item: int, kernel: str) -> float:
    total = 0.0
    for k in range(answer.n_hypotheses):
        point, width = answer.points[item, k].numpy(), answer.widths[item, k].item()
        if kernel == "gaussian":
            density = np.prod(stats.norm.pdf(y, point, width))
        else:
            density = stats.multivariate_t.pdf(y, point, width**2 * np.eye(len(y)), df=4)
        total += answer.probs[item, k].item() * density
    return np.log(total)


def random_answer(batch, hypotheses, dim, seed):
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(batch, hypotheses, dim, generator=random, dtype=torch.float64)
    logits = torch.randn(batch, hypotheses, generator=random, dtype=torch.float64)
    widths = torch.rand(batch, hypotheses, generator=random, dtype=torch.float64) + 0.3
    return Hypotheses(points, logits, "softmax", widths)


@pytest.mark.parametrize("kernel", ["gaussian", "student"])
@settings(max_examples=10)
@given(
    batch=st.integers(1, 3), targets=st.integers(1, 3), hypotheses=st.integers(1, 4), dim=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)  # fmt: skip
def test_it_equals_scipy(kernel, batch, targets, hypotheses, dim, seed):
    answer = random_answer(batch, hypotheses, dim, seed)
    random = torch.Generator().manual_seed(seed)
    y = torch.randn(batch, targets, dim, generator=random, dtype=torch.float64)
    active = torch.rand(batch, targets, generator=random) < 0.7
    y = y.masked_fill(~active[..., None], torch.nan)
    each = [
        [scipy_log_density(answer, y[s, m].numpy(), s, kernel) for m in range(targets) if active[s, m]]
        for s in range(batch)
    ]
    for ours, theirs in zip(log_likelihood(answer, y, active, kernel=kernel), each, strict=True):
        assert ours.item() == pytest.approx(np.mean(theirs) if theirs else np.nan, rel=1e-9, nan_ok=True)
    flat = [value for item in each for value in item]
    assert likelihood_loss(answer, y, active, kernel=kernel).item() == pytest.approx(
        -sum(flat) / max(len(flat), 1), abs=1e-9
    )


def test_detached_it_teaches_the_widths_only():
    answer = random_answer(4, 3, 2, 0)
    inputs = [each.requires_grad_() for each in (answer.points, answer.logits, answer.widths)]
    y = torch.randn(4, 2, 2, dtype=torch.float64)
    whole = torch.autograd.grad(likelihood_loss(answer, y), inputs)
    alone = torch.autograd.grad(
        likelihood_loss(answer, y, detach=True), inputs, allow_unused=True, materialize_grads=True
    )
    assert all((each != 0).any() for each in whole)
    assert (alone[0] == 0).all()
    assert (alone[1] == 0).all()
    torch.testing.assert_close(alone[2], whole[2])


@pytest.mark.parametrize("width", [1e-6, 1.0, 1e6])
def test_far_targets_and_extreme_widths_stay_finite(width):
    answer = Hypotheses(torch.zeros(1, 3, 2), widths=torch.full((1, 3), width).requires_grad_())
    loss = likelihood_loss(answer, torch.full((1, 1, 2), 1e6))
    loss.backward()
    assert loss.isfinite()
    assert answer.widths.grad.isfinite().all()


def test_wrong_arguments_are_named(unchecked):
    y = torch.zeros(2, 1, 1)
    with pytest.raises(ValueError, match="hypotheses have no widths"):
        likelihood_loss(Hypotheses(torch.zeros(2, 3, 1)), y)
    with pytest.raises(ValueError, match="kernel must be"):
        log_likelihood(Hypotheses(torch.zeros(2, 3, 1), widths=torch.ones(2, 3)), y, kernel="box")
