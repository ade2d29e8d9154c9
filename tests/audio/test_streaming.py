"""Reading, resampling and blending piece by piece gives what the whole would give."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample_poly

from torchmcl.audio.streaming import Blender, read_array, resampled, windows


@pytest.mark.parametrize(
    ("source", "target"), [(44100, 16000), (8000, 16000), (192000, 16000), (11025, 16000), (16000, 16000)]
)
@pytest.mark.parametrize("block", [0.05, 0.31, 100.0])
def test_blocks_join_to_one_resampling(source, target, block):
    sound = np.random.default_rng(0).standard_normal((4, source + 37)).astype(np.float32)
    ratio = Fraction(target, source)
    whole = resample_poly(sound, ratio.numerator, ratio.denominator, axis=-1)
    joined = np.concatenate(
        list(resampled(read_array(sound), sound.shape[1], source, target, block=block)), axis=1
    )
    np.testing.assert_allclose(joined, whole, atol=2e-6)


@settings(max_examples=30)
@given(
    st.integers(1, 200), st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 20), st.data()
)
def test_windows_cover_everything(size, lengths, hop, data):
    hop = data.draw(st.integers(1, size))
    total = sum(lengths)
    sound = np.arange(1.0, total + 1, dtype=np.float32) * np.ones((4, 1), np.float32)
    pieces = np.split(sound, np.cumsum(lengths)[:-1], axis=1)
    cut = np.concatenate(list(windows(iter(pieces), size, hop)))
    covered = set(cut[:, 0].reshape(-1).astype(int).tolist()) - {0}
    assert covered == set(range(1, total + 1))
    for index, window in enumerate(cut):
        expected = np.zeros(size)
        there = sound[0, index * hop : index * hop + size]
        expected[: len(there)] = there
        np.testing.assert_array_equal(window[0], expected)


@settings(max_examples=30)
@given(st.integers(2, 9), st.data())
def test_weights_add_up_and_answers_are_of_their_frame(frames, data):
    hop = data.draw(st.integers(-(-frames // 2), frames))
    count = data.draw(st.integers(1, 6))
    times = np.arange(count)[:, None] * hop + np.arange(frames)
    cut = data.draw(st.integers(1, count))
    blender = Blender(frames, hop)
    parts = [blender.push(times[:cut])]
    if cut < count:
        parts.append(blender.push(times[cut:]))
    parts.append(blender.finish())
    weights = np.concatenate([weight for weight, _ in parts])
    answers = np.concatenate([answer[0] for _, answer in parts])
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    expected = np.arange(len(answers))
    assert len(answers) == (count - 1) * hop + frames
    assert (np.where(weights > 0, answers, expected[:, None]) == expected[:, None]).all()


def test_a_hop_of_less_than_half_a_window_is_refused():
    with pytest.raises(ValueError, match="hop is 12, must be 13 to 25"):
        Blender(25, 12)
