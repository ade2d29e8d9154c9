"""The bundled model localizes sounds that are not in its training data."""

import json

import torch

from torchmcl import great_circle
from torchmcl.audio.datasets import read_dataset
from torchmcl.audio.localizer import BUNDLED_MODEL, Localizer
from torchmcl.audio.pretrained import NetworkDescription
from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate
from torchmcl.audio.targets import frame_targets


def test_it_is_small_and_says_what_it_is():
    files = {path.name: path for path in BUNDLED_MODEL.iterdir()}
    assert set(files) == {"README.md", "config.json", "model.safetensors"}
    assert sum(path.stat().st_size for path in files.values()) <= 4_000_000
    card = files["README.md"].read_text()
    for word in ("## Data", "## Training", "## Numbers", "## Limits"):
        assert word in card
    assert NetworkDescription.from_json(json.loads(files["config.json"].read_text())).scores == "sigmoid"


def test_a_single_source_is_found_within_six_degrees(tmp_path):
    settings = SceneSettings(recordings=2, duration=10.0, sample_rate=16000, seed=4321)
    simulate(tmp_path, settings)
    localizer = Localizer.from_pretrained()
    errors = []
    for recording in read_dataset(tmp_path).recordings:
        if recording.overlap > 1:
            continue
        (block,) = localizer.blocks(recording.audio)
        best = torch.from_numpy(block.scores).argmax(-1)
        found = torch.from_numpy(block.directions)[torch.arange(len(best)), best]
        targets, active = frame_targets(recording.events, len(best), 1)
        errors.append(great_circle(found, targets[:, 0])[active[:, 0]])
    assert torch.cat(errors).rad2deg().median() < 6
