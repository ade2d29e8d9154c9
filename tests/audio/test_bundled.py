"""The bundled model localizes sounds that are not in its training data."""

import json
import math

import numpy as np
import pytest

from torchmcl.audio.clips import synthesized_clips
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.judgement import judge
from torchmcl.audio.localizer import BUNDLED_MODEL, Listening, Localizer
from torchmcl.audio.pretrained import NetworkDescription
from torchmcl.audio.room_scenes import SceneLaw, room_scenes

RATE = 16000


@pytest.fixture(scope="module")
def localizer():
    return Localizer.from_pretrained()


@pytest.fixture(scope="module")
def scenes():
    clips = [clip for clip in synthesized_clips(4321) if clip.label in ("speech", "keys")]
    return list(room_scenes(clips, [1, 1, 1, 2, 2, 3], SceneLaw(seconds=4.0), seed=5))


def test_it_is_small_and_says_what_it_is():
    files = {path.name: path for path in BUNDLED_MODEL.iterdir()}
    assert set(files) == {"README.md", "calibration.json", "config.json", "model.safetensors"}
    assert sum(path.stat().st_size for path in files.values()) <= 4_000_000
    card = files["README.md"].read_text()
    for word in ("## Data", "## Training", "## Numbers", "## Limits"):
        assert word in card
    description = NetworkDescription.from_json(json.loads(files["config.json"].read_text()))
    assert (description.scores, description.architecture) == ("sigmoid", "RoomNet")


def test_sources_in_rooms_are_found_and_counted(localizer, scenes):
    found, _ = judge(localizer, scenes)
    assert found[1].median < 6
    assert found[1].recall > 0.9
    assert found[1].covered > 0.7
    assert found[2].recall > 0.6


@pytest.mark.parametrize("prefer", ["recall", "precision"])
def test_the_gain_does_not_matter(prefer, localizer, scenes):
    listening = Listening(prefer)
    sound = scenes[3].sound
    reference = localizer(sound, RATE, listening=listening)
    assert any(reference.sources)
    for gain in (-60, 20):
        found = localizer(sound * np.float32(10 ** (gain / 20)), RATE, listening=listening)
        np.testing.assert_allclose(found.counts, reference.counts, atol=1e-3)
        for one, two in zip(found.sources, reference.sources, strict=True):
            assert [s.track for s in one] == [s.track for s in two]
            for x, y in zip(one, two, strict=True):
                rays = unit_vectors(np.array([(x.azimuth, x.elevation), (y.azimuth, y.elevation)]))
                assert math.degrees(np.linalg.norm(rays[0] - rays[1])) < 0.01


def test_silence_has_no_source(localizer):
    found = localizer(np.zeros((4, 2 * RATE), np.float32), RATE)
    assert not any(found.sources)
    assert (found.counts.argmax(1) == 0).all()


def test_precision_tells_less_than_recall(localizer, scenes):
    told = {
        prefer: sum(
            len(each)
            for s in scenes
            for each in localizer(s.sound, RATE, listening=Listening(prefer)).sources
        )
        for prefer in ("recall", "precision")
    }
    assert told["precision"] < told["recall"]
