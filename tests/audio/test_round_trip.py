"""What `torchmcl simulate` writes, the readers read."""

import csv
from decimal import Decimal
from math import radians

import numpy as np
import pytest

from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.datasets import DCASE19, TUT, read_dataset
from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate
from torchmcl.audio.targets import frame_targets, overlap_shares


@pytest.fixture(scope="module", params=["tut", "dcase19"])
def scenes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "scenes"
    simulate(
        folder, SceneSettings.for_layout(request.param, recordings=2, duration=6.0, sample_rate=16000, seed=3)
    )
    return request.param, folder


def frames_of(path, frames):
    """The frame rule, read aloud from the file in exact arithmetic."""
    with path.open() as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: Decimal(row["start_time"]))
    found = []
    for frame in range(frames):
        begin, end = Decimal(frame) / 50, Decimal(frame + 1) / 50
        sounding = [r for r in rows if Decimal(r["start_time"]) < end and Decimal(r["end_time"]) > begin]
        found.append([(radians(float(r["azi"])), radians(float(r["ele"]))) for r in sounding])
    return found


def test_frame_targets_are_those_of_a_loop_over_the_file(scenes):
    layout, folder = scenes
    catalogue = read_dataset(folder)
    assert catalogue.layout is {"tut": TUT, "dcase19": DCASE19}[layout]
    for recording in catalogue.recordings:
        expected = frames_of(recording.description, 300)
        targets, active = frame_targets(recording.events, 300)
        assert active.sum(dim=1).tolist() == [len(frame) for frame in expected]
        flat = np.array([direction for frame in expected for direction in frame])
        np.testing.assert_allclose(targets[active].numpy(), flat, atol=1e-6)


def test_never_more_events_than_announced_and_often_as_many(scenes):
    _, folder = scenes
    recordings = read_dataset(folder).recordings
    for recording in recordings:
        edges = [e.start for e in recording.events]
        sounding = [sum(e.start <= t < e.end for e in recording.events) for t in edges]
        assert max(sounding) <= recording.overlap
    for overlap, shares in overlap_shares(recordings).items():
        assert shares.sum() == pytest.approx(1, abs=1e-6)
        assert shares[overlap:].sum() > 0.1, f"ov{overlap}: {shares.tolist()}"


def test_every_part_has_batches(scenes):
    _, folder = scenes
    data = AudioDataModule(folder, batch_size=16)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.test_dataloader()):
        batch = next(iter(loader))
        assert batch.waveform.shape[1:] == (4, 8000)
        assert batch.waveform.any()
        assert batch.targets.shape[1:] == (25, data.slots, 2)
        assert batch.active.any()
