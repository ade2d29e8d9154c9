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
path = Path(sys.argv[1])
write_predictions(Localizer(Network(), 8000).blocks(path), path.with_suffix(""), "hour", {})
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


def peak(path):
    """Bytes of a process of its own; a fixed threshold of the allocator makes them repeatable."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    words = [sys.executable, "-c", PROGRAM, path]
    return (
        int(subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout) * 1024
    )


def test_an_hour_takes_at_most_700_megabytes(tmp_path):
    """Memory grows with the tracks alone, in proportion to time: a few minutes tell what an hour takes."""
    short, long = (peak(recording(tmp_path, minutes)) for minutes in (1, 5))
    # Two hypotheses of one or two windows in each frame.
    with (tmp_path / "5" / "hour-hypotheses.csv").open() as lines:
        assert 300 * 50 * 2 <= sum(1 for _ in lines) - 1 <= 300 * 50 * 4
    # 700 MB are promised for the bundled network, which takes some 20 MB more than this one.
    assert long + (long - short) / 4 * 55 <= 670e6
