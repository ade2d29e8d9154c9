"""The picture of a task: how certain hypotheses are, and which classes they own."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from torchmcl.images.methods import METHODS

__all__ = ["picture"]

OWNED, OTHER = "#1f6fb4", "#e0803a"


def picture(methods: dict[str, Any], classes: int) -> Figure:
    """Above, the entropy of each hypothesis on the classes that it owns and on the others; below, who wins a class.

    Args:
        methods: The summary of a task.
        classes: C.

    Returns:
        A figure with a column for each method.
    """
    figure = Figure(figsize=(2.5 * len(methods), 5.2), layout="constrained")
    axes = figure.subplots(2, len(methods), squeeze=False)
    for column, (method, values) in enumerate(methods.items()):
        axes[0, column].set_title(METHODS[method].name, fontsize=10)
        _entropies(axes[0, column], np.asarray(values["histogram"]), np.log(classes))
        shown = _winners(axes[1, column], np.asarray(values["winners"]))
    for row in axes:
        for other in row[1:]:
            other.tick_params(labelleft=False)
    axes[0, 0].set_ylabel("share of predictions")
    axes[1, 0].set_ylabel("class")
    axes[0, 0].legend(fontsize=8, loc="upper center", frameon=False)
    figure.colorbar(shown, ax=axes[1, :].tolist(), label="share of the class won", fraction=0.02, pad=0.01)
    return figure


def _entropies(axes: Axes, counts: np.ndarray, top: float) -> None:
    edges = np.linspace(0, top, counts.shape[1] + 1)
    for row, color, label in ((0, OWNED, "owned classes"), (1, OTHER, "other classes")):
        share = counts[row] / max(counts[row].sum(), 1)
        axes.stairs(share, edges, fill=True, alpha=0.55, color=color, label=label)
    axes.set_xlabel("entropy (nats)")
    axes.set_xlim(0, top)
    axes.set_ylim(0, 1.05)
    axes.spines[["top", "right"]].set_visible(False)


def _winners(axes: Axes, counts: np.ndarray) -> Any:
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    shown = axes.imshow(share, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("hypothesis")
    axes.set_xticks(range(counts.shape[1]))
    if len(counts) <= 12:
        axes.set_yticks(range(len(counts)))
    return shown
