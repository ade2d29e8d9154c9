"""The one way to train: `fit` a network with a loss."""

from torchmcl.training.batches import Batches, TensorBatches
from torchmcl.training.callbacks import AverageWeights, CollapseWarning, History, KeepBest, collapse
from torchmcl.training.distributed import gather_batch
from torchmcl.training.fit import Fitted, fit, quiet
from torchmcl.training.learner import Learner, Loss
from torchmcl.training.schedules import (
    Schedule,
    Scheduled,
    constant,
    cosine,
    flat_cosine,
    geometric,
    linear,
    scheduled_rule,
)
from torchmcl.training.settings import Hardware, Optimization

__all__ = [
    "AverageWeights",
    "Batches",
    "CollapseWarning",
    "Fitted",
    "Hardware",
    "History",
    "KeepBest",
    "Learner",
    "Loss",
    "Optimization",
    "Schedule",
    "Scheduled",
    "TensorBatches",
    "collapse",
    "constant",
    "cosine",
    "fit",
    "flat_cosine",
    "gather_batch",
    "geometric",
    "linear",
    "quiet",
    "scheduled_rule",
]
