"""The figure of the study."""

import math
from typing import Any

from matplotlib.figure import Figure

from torchmcl.runs.figures import caption
from torchmcl.tabular.peers import OURS, PEERS

__all__ = ["study_figure"]


def study_figure(found: dict[str, Any]) -> Figure:
    """CRPS of each method on each set relative to ours, and coverage against its level.

    Args:
        found: Of `summary`.
    """
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    sets = [name for name, own in found["sets"].items() if OURS in own]
    methods = list(found["coverage"])
    for index, method in enumerate(methods):
        own = [found["sets"][name] for name in sets]
        ratios = [
            each[method]["crps"][0] / each[OURS]["crps"][0] if method in each else math.nan for each in own
        ]
        left.plot(ratios, range(len(sets)), "o", color=f"C{index}", label=PEERS[method].title)
        levels = found["coverage"][method]["mean_over_sets"]
        right.plot(
            [float(level) for level in levels], list(levels.values()), "o-", color=f"C{index}", markersize=4
        )
    left.set_yticks(range(len(sets)), [caption(name) for name in sets])
    left.set(xlabel="CRPS relative to ours (lower is better)", title="Distributions")
    left.axvline(1, color="0.6", linewidth=0.8)
    left.legend(fontsize=7)
    right.plot([0.4, 1], [0.4, 1], color="0.6", linewidth=0.8)
    right.set(xlabel="stated coverage", ylabel="coverage of test rows", title="Intervals, mean over the sets")
    return figure
