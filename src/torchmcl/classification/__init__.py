"""Classification by Multiple Choice Learning: a hypothesis is a vector of class logits, a target is a label."""

from torchmcl.classification.labels import class_targets
from torchmcl.classification.losses import cmcl_loss
from torchmcl.classification.predictions import (
    class_entropy,
    class_error,
    class_log_probs,
    class_owners,
    class_probs,
    class_winners,
    entropy_histogram,
    oracle_class_error,
)
from torchmcl.classification.sharing import FeatureSharing

__all__ = [
    "FeatureSharing",
    "class_entropy",
    "class_error",
    "class_log_probs",
    "class_owners",
    "class_probs",
    "class_targets",
    "class_winners",
    "cmcl_loss",
    "entropy_histogram",
    "oracle_class_error",
]
