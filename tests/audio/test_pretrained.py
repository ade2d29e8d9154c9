"""Saved networks: what is written is read back, and its size is known before it is built."""

from dataclasses import asdict, replace

import pytest
import torch

from torchmcl.audio.pretrained import NetworkDescription, load_pretrained, save_pretrained
from torchmcl.errors import UserError

SMALL = NetworkDescription(
    "rmcl", 16000, hypotheses=3, nfft=640, stride=8, bins=32, content="band_intensity", filters=4, pools=(4, 2),
    units=6, layers=2,
)  # fmt: skip


@pytest.mark.parametrize(
    "description",
    [
        SMALL,
        replace(SMALL, members=3, scores=None),
        replace(SMALL, output="angles", scores="softmax", layers=1, content="magnitude_phase"),
        NetworkDescription("rmcl", 44100, 5, bins=1024),
    ],
    ids=str,
)
def test_parameters_are_counted_without_building(description):
    network = description.build()
    assert description.parameters == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("description", [SMALL, replace(SMALL, members=2, scores=None)], ids=str)
def test_what_is_saved_is_loaded(description, tmp_path):
    network = description.build(spread=True).eval()
    save_pretrained(tmp_path, description, network)
    found, loaded = load_pretrained(tmp_path)
    assert found == description
    sound = torch.randn(2, 4, 8000)
    torch.testing.assert_close(loaded(sound).points, network(sound).points, rtol=0, atol=0)


def test_a_network_that_would_fill_the_memory_is_refused_before_it_is_built():
    with pytest.raises(UserError, match="parameters, must be at most 200,000,000: take fewer filters"):
        replace(SMALL, members=1000, units=2048, layers=32).build()


def test_json_says_which_key_is_wrong():
    plain = asdict(SMALL)
    assert NetworkDescription.from_json(plain | {"pools": [4, 2]}) == SMALL
    del plain["hypotheses"]
    with pytest.raises(
        UserError, match="hypotheses is missing; the keys of a network are method, sample_rate"
    ):
        NetworkDescription.from_json(plain)


def test_a_program_in_double_precision_reads_the_same_network(tmp_path):
    save_pretrained(tmp_path, SMALL, SMALL.build())
    sound = torch.randn(1, 4, 8000)
    expected = load_pretrained(tmp_path)[1](sound).points
    torch.set_default_dtype(torch.float64)
    try:
        found = load_pretrained(tmp_path)[1](sound).points
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found, expected, check_dtype=False)
