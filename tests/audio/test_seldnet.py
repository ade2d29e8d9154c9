"""SELDNet: the size of the paper's network, plain layers as a reference, and directions without a seam."""

import math

import pytest
import torch
from torch import nn

from torchmcl.audio.features import StftFeatures
from torchmcl.audio.seldnet import DirectionHead, SELDNet

SMALL = StftFeatures(16000, nfft=640, stride=4, bins=64)


def small(**settings) -> SELDNet:
    return SELDNet(SMALL, 5, filters=8, pools=(4, 4, 2), units=8, layers=1, **settings)


def test_the_papers_network_has_its_number_of_parameters():
    network = SELDNet(StftFeatures(), 5, output="angles")
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_490_767


def test_convolutions_equal_the_same_layers_written_plainly():
    """Rectifying before the pooling or after it is the same, in whatever order the memory is."""
    network = small().eval()
    maps = torch.randn(3, 8, 25, 64)
    expected = maps
    for block, pool in zip(network.convolutions, (4, 4, 2), strict=True):
        convolution, norm = block[0], block[1]
        plain = nn.functional.conv2d(expected, convolution.weight.contiguous(), convolution.bias, padding=1)
        expected = nn.functional.max_pool2d(nn.functional.relu(norm(plain)), (1, pool))
    torch.testing.assert_close(network.convolutions(maps), expected)


def test_a_frame_hears_its_past_and_its_future():
    torch.manual_seed(0)
    network = small().eval()
    waveform = torch.randn(1, 4, 8000, requires_grad=True)
    network(waveform).points[0, 12].sum().backward()
    heard = waveform.grad.abs().sum(1)[0].reshape(25, 320).sum(-1)
    assert (heard > 0).all()


def test_vectors_have_no_seam_and_angles_have():
    """A small turn of the vector across azimuth 180° is a small turn of the direction."""
    head = DirectionHead(1, 1, output="sphere", spread=False)
    with torch.no_grad():
        head.head.projection.weight.zero_()
        head.head.projection.weight[1] = 1
        head.head.projection.bias[:3] = torch.tensor([-1.0, 0.0, 0.0])
    left, right = head(torch.tensor([[0.001], [-0.001]])).points[:, 0, 0]
    assert left.item() == pytest.approx(math.pi - 0.001)
    assert right.item() == pytest.approx(-math.pi + 0.001)


@pytest.mark.parametrize("output", ["angles", "sphere"])
def test_spread_hypotheses_start_apart(output):
    torch.manual_seed(0)
    together, apart = (
        DirectionHead(4, 20, output=output, spread=spread)(torch.zeros(1, 4)).points[0]
        for spread in (False, True)
    )
    assert apart[:, 0].std() > 1
    if output == "angles":
        assert together[:, 0].std() < 0.5


def test_directions_have_finite_gradients_everywhere():
    head = DirectionHead(3, 1, output="sphere", spread=False)
    with torch.no_grad():
        head.head.projection.weight[:3] = torch.eye(3)
        head.head.projection.bias.zero_()
    vectors = torch.tensor(
        [[0.0, 0, 0], [0, 0, 1], [0, 0, -1], [1e-20, 0, 1], [-1, 0, 0]], requires_grad=True
    )
    points = head(vectors).points
    points.sum().backward()
    assert points.isfinite().all()
    assert vectors.grad.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output": "cube", "pools": (4, 4, 2)}, "output must be 'angles' or 'sphere', got 'cube'"),
        ({"pools": (7,)}, "cannot be pooled by 7"),
    ],
)
def test_wrong_settings_are_named(settings, message, unchecked):
    with pytest.raises(ValueError, match=message):
        SELDNet(SMALL, 5, **settings)


def test_other_lengths_than_a_chunk_are_refused():
    with pytest.raises(ValueError, match="waveform has 12 frames, the network takes chunks of 25"):
        small()(torch.zeros(1, 4, 3840))
