"""An hour is localized in at most 700 MB, whatever the file holds."""

import subprocess
import sys

import numpy as np
import soundfile

RATE = 8000

PROGRAM = """
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

torch.set_num_threads(1)
write_predictions(Localizer(Network(), 8000).blocks(sys.argv[1]), Path(sys.argv[2]), "hour", {})
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def localized(folder, minutes):
    """The greatest memory of a process that localizes so many minutes, in bytes, and the rows of its hypotheses."""
    path = folder / f"{minutes}.wav"
    noise = np.random.default_rng(0).normal(0, 1000, (60 * RATE, 4)).astype(np.int16)
    with soundfile.SoundFile(path, "w", RATE, 4, "PCM_16") as stream:
        for _ in range(minutes):
            stream.write(noise)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, folder / str(minutes)],
        capture_output=True,
        text=True,
        check=True,
    )
    with (folder / str(minutes) / "hour-hypotheses.csv").open() as lines:
        return int(ended.stdout.split()[-1]) * 1024, sum(1 for _ in lines) - 1


def test_an_hour_takes_at_most_700_megabytes(tmp_path):
    """Memory grows with the tracks alone, in proportion to time: a few minutes tell what an hour takes."""
    short, _ = localized(tmp_path, 2)
    long, rows = localized(tmp_path, 8)
    # Two hypotheses of one or two windows in each frame.
    assert 480 * 50 * 2 <= rows <= 480 * 50 * 4
    assert long + max(long - short, 0) / 6 * 52 <= 700e6
