"""The settings under which the toy models are trained."""

from dataclasses import dataclass
from typing import Literal

from torchmcl.errors import UserError
from torchmcl.training import Schedule, constant, cosine, flat_cosine

__all__ = ["PAPER", "PRESETS", "SCHEDULES", "TUNED", "Settings", "preset"]

SCHEDULES: dict[str, Schedule] = {"constant": constant, "cosine": cosine, "flat_cosine": flat_cosine}


@dataclass(frozen=True)
class Settings:
    """Everything, next to the seed, that a trained model depends on; the defaults are the paper's.

    `scores` is the form of the scores of rMCL; rMCL*, which draws negatives, always has binary ones. `beta` and
    `star_beta` weigh the scores in the losses of the two. `fresh` draws the samples of each epoch anew in place
    of one set for all. `spread` starts the hypotheses spread over the square, `kinks` the first layer with the
    kinks of its units spread over the times. `reweight` lets the one drawn negative of rMCL* stand for all of
    them. `keep` says which weights are kept, those with the lowest validation loss or the last.

    The ensembles are twenty times the work of another model, and have much less to learn. They have epochs of their
    own, `ensemble_epochs` for the paper's and `mean_epochs` for that of true means, and a learning rate of their own,
    `ensemble_rate`, which falls to 0 along a cosine.
    """

    name: str
    training_samples: int = 100_000
    validation_samples: int = 25_000
    batch_size: int = 1024
    epochs: int = 20
    units: int = 256
    hypotheses: int = 20
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "flat_cosine"] = "constant"
    scores: Literal["sigmoid", "softmax"] = "sigmoid"
    beta: float = 1.0
    star_beta: float = 1.0
    reweight: bool = True
    fresh: bool = False
    spread: bool = False
    kinks: bool = False
    keep: Literal["best", "last"] = "best"
    ensemble_epochs: int = 2
    mean_epochs: int = 1
    ensemble_rate: float = 5e-3
    outliers: float = 0.0


PAPER = Settings("paper")
"""Section 3.4 and its appendix: a fixed set of 100,000 samples, seen 20 times, Adam at a constant rate of 1e-3.

The ensembles reach the same in 2 epochs with a higher rate that falls to 0.

The paper does not say how the one drawn negative of rMCL* is weighed. Here it stands for all of them; without,
winners and drawn negatives count alike, and the scores become worse.
"""
TUNED = Settings(
    "tuned",
    learning_rate=3e-3,
    weight_decay=0.03,
    schedule="flat_cosine",
    scores="softmax",
    star_beta=5.0,
    fresh=True,
    spread=True,
    kinks=True,
    keep="last",
)
"""What we recommend, within the same 20 epochs of 100,000 samples: scores that are one distribution over the
cells, hypotheses and kinks that start spread out, a higher rate that falls to 0 in the second half, and samples
that are drawn anew for each epoch, which costs nothing here. A user with a fixed set of data sets `fresh=False`.

The last weights are kept, because the validation loss is no judge between epochs: the more even the cells
become, which is what the hypotheses are to learn, the higher is the entropy that the scores cannot go below.
"""

PRESETS = {settings.name: settings for settings in (PAPER, TUNED)}


def preset(name: str) -> Settings:
    """The settings of that name.

    Args:
        name: `paper` or `tuned`.

    Returns:
        The settings; an unknown name is a `UserError`.
    """
    if name not in PRESETS:
        raise UserError(f"--preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
