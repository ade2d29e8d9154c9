"""Masses and means of cells against counting samples."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmcl.toy.data import sample
from torchmcl.toy.truth import cell_truth


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_masses_and_means_are_those_of_many_samples(t):
    points = torch.rand(8, 2, generator=torch.Generator().manual_seed(1)) * 3 - 1.5
    truth = cell_truth(points, torch.tensor(t))
    y = sample(torch.tensor(t), (100_000,), torch.Generator().manual_seed(2))
    cell = torch.cdist(y, points).argmin(-1)
    hits = torch.bincount(cell, minlength=8)
    torch.testing.assert_close(truth.mass, hits / len(y), atol=0.006, rtol=0)
    means = torch.zeros(8, 2).index_add(0, cell, y) / hits[:, None]
    much = hits > 2000
    torch.testing.assert_close(truth.mean[much], means[much], atol=0.03, rtol=0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), t=st.floats(0, 1))
def test_masses_sum_to_one_and_means_to_zero(seed, t):
    points = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    truth = cell_truth(points, torch.full((3,), t, dtype=torch.float64))
    torch.testing.assert_close(truth.mass.sum(-1), torch.ones(3, dtype=torch.float64))
    mean = (truth.mass[..., None] * truth.mean).nansum(-2)
    # The distribution is symmetric about the origin at all times.
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-9, rtol=0)


def test_a_cell_without_mass_has_no_mean():
    truth = cell_truth(torch.tensor([[0.0, 0.0], [9.0, 9.0]]), torch.tensor(0.4))
    assert truth.mass.tolist() == [1, 0]
    assert truth.mean[1].isnan().all()
