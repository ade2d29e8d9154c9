"""A rotated or reflected scene equals the same sounds encoded from the moved directions."""

import math

import numpy as np
import pytest
import torch

from torchmcl.audio.augmentation import augment
from torchmcl.audio.foa import encode


@pytest.mark.parametrize("integer", [False, True])
def test_directions_and_sound_move_together(integer):
    rng = np.random.default_rng(0)
    directions = np.stack([rng.uniform(-math.pi, math.pi, 40), rng.uniform(-1.4, 1.4, 40)], -1)
    signal = rng.uniform(-0.4, 0.4, (40, 100))
    field = torch.from_numpy(encode(signal, *directions.T))
    targets = torch.from_numpy(directions)[:, None, None]
    waveform = (field * 32768).round().short() if integer else field
    before = waveform.clone(), targets.clone()
    sound, there = augment(waveform, targets, torch.Generator().manual_seed(0))
    expected = encode(signal, *there[:, 0, 0].numpy().T)
    np.testing.assert_allclose(sound.numpy(), expected, atol=1e-4 if integer else 1e-12)
    assert torch.equal(waveform, before[0])
    assert torch.equal(targets, before[1])
    assert there[..., 0].abs().max() <= math.pi
    moved = (there - targets)[:, 0, 0]
    assert moved[:, 0].unique().numel() == 40
    assert 5 < (moved[:, 1].abs() > 1e-9).sum() < 35


def test_the_same_generator_augments_alike():
    waveform, targets = torch.randn(5, 4, 10), torch.rand(5, 2, 3, 2)
    first, second = (augment(waveform, targets, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
