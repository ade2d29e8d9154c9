"""An hour is localized in at most 700 MB, whatever the file holds."""

import os
import subprocess
import sys

import numpy as np
import soundfile

RATE = 8000

PROGRAM = """
import gc
import sys
from pathlib import Path
import torch
from torchmcl.audio.predictions import write_predictions
from torchmcl.audio.localizer import Localizer
from torchmcl.hypotheses import Hypotheses

class Network(torch.nn.Module):
    def forward(self, waveform):
        shape = (len(waveform), 25, 2)
        return Hypotheses(torch.zeros(*shape, 2) + waveform.mean(), torch.full(shape, 3.0))

gc.set_threshold(700, 10, 10)  # Python's own, which tests raise
torch.set_num_threads(1)
for path in sys.argv[1:]:
    write_predictions(Localizer(Network(), 8000).blocks(path), Path(path).with_suffix(""), "hour", {})
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def recording(folder, minutes):
    path = folder / f"{minutes}.wav"
    noise = np.random.default_rng(0).normal(0, 1000, (60 * RATE, 4)).astype(np.int16)
    with soundfile.SoundFile(path, "w", RATE, 4, "PCM_16") as stream:
        for _ in range(minutes):
            stream.write(noise)
    return path


def test_an_hour_takes_at_most_700_megabytes(tmp_path):
    """Memory grows with the tracks alone, in proportion to time: a few minutes tell what an hour takes.

    A fixed threshold of the allocator makes its peaks repeatable."""
    words = [sys.executable, "-c", PROGRAM, recording(tmp_path, 3), recording(tmp_path, 7)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    ended = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    short, long = (int(line) * 1024 for line in ended.stdout.split())
    # Two hypotheses of one or two windows in each frame.
    with (tmp_path / "7" / "hour-hypotheses.csv").open() as lines:
        assert 420 * 50 * 2 <= sum(1 for _ in lines) - 1 <= 420 * 50 * 4
    assert long + (long - short) / 4 * 53 <= 700e6
