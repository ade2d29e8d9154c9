"""The one way to train: `fit` a network with a loss."""

from torchmcl.training.batches import TensorBatches
from torchmcl.training.callbacks import KeepBest, WatchWinners, collapse
from torchmcl.training.distributed import together
from torchmcl.training.fit import quiet
from torchmcl.training.learner import Learner, Loss
from torchmcl.training.schedules import Schedule, constant, cosine, flat_cosine

__all__ = [
    "KeepBest",
    "Learner",
    "Loss",
    "Schedule",
    "TensorBatches",
    "WatchWinners",
    "collapse",
    "constant",
    "cosine",
    "flat_cosine",
    "quiet",
    "together",
]
