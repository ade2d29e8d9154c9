"""Train as `torchmcl train` does and die without warning.

A moment is `step:N` (before step N), `checkpoint:N` (while the N-th checkpoint is half written), `saving` (while the
weights are), `evaluating` (after the weights, before the metrics) or `never`.
"""

import os
import signal
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from torchmcl.experiments import train as run
from torchmcl.experiments.compose import compose_config
from torchmcl.runs.checkpoint import CHECKPOINT
from torchmcl.training import Learner


def die(*args: object, **kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_while_writing(count: int, suffix: str) -> None:
    write, written = Path.write_bytes, []

    def half(self: Path, data: bytes) -> int:
        if self.suffix == suffix:
            written.append(self)
            if len(written) == count:
                write(self, bytes(data)[: len(data) // 2])
                die()
        return write(self, data)

    Path.write_bytes = half  # type: ignore[method-assign,assignment]


def arrange(moment: str) -> None:
    what, _, number = moment.partition(":")
    if what == "step":
        step, done = Learner.training_step, []

        def counted(self: Learner, batch: object, batch_idx: int) -> object:
            if len(done) == int(number):
                die()
            done.append(batch_idx)
            return step(self, batch, batch_idx)

        Learner.training_step = counted  # type: ignore[method-assign,assignment]
    elif what == "checkpoint":
        die_while_writing(int(number), Path(CHECKPOINT).suffix)
    elif what == "saving":
        die_while_writing(1, ".safetensors")
    elif what == "evaluating":
        run.evaluate = die  # type: ignore[assignment]


def main(moment: str, words: Sequence[str]) -> None:
    """What the process that is to die does."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    arrange(moment)
    run.train(compose_config(words), progress=False)
