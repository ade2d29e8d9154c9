"""The appendix on outliers: a share of the training targets comes from a bivariate Cauchy distribution."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from rich.console import Console
from torch import Tensor

import torchmcl
from torchmcl.hypotheses import Hypotheses
from torchmcl.runs import RunFolder, write_json
from torchmcl.runs.figures import save_figure
from torchmcl.runs.progress import bar
from torchmcl.runs.tables import Column, Row, Table
from torchmcl.toy import drawing, figures
from torchmcl.toy.data import draw
from torchmcl.toy.evaluate import exact_emd, predict
from torchmcl.toy.experiment import check_seeds
from torchmcl.toy.floor import TIMES, floor
from torchmcl.toy.models import Method
from torchmcl.toy.outcomes import GRID_SIZE, Outcome, run_model, work
from torchmcl.toy.presets import Settings
from torchmcl.toy.train import samples

__all__ = ["RHO", "THRESHOLD", "figure", "toy_outliers"]

RHO = 0.02
"""The share of outliers among the training targets."""

THRESHOLD = 0.005
"""Hypotheses less probable than this are pruned: above the scores of outliers, below those of true cells."""

LEGEND = ("rMCL", "sMCL", "samples of p(y | t)")
SHOWN = 2000
"""Samples drawn in the plane, outliers included."""

FAR = 1.5
"""A hypothesis with a coordinate beyond this serves outliers: all other targets lie within 1."""

Case = Literal["rmcl", "rmcl_clean", "smcl"]
CASES: dict[Case, tuple[Method, str]] = {
    "rmcl": ("rmcl", "rMCL, outliers"),
    "rmcl_clean": ("rmcl", "rMCL, no outliers"),
    "smcl": ("smcl", "sMCL, outliers"),
}


@dataclass(frozen=True)
class Numbers:
    """EMD as it is and after pruning, noise-free, and the hypotheses lost to outliers at t = 0.6."""

    emd_mean: float
    emd_mean_pruned: float
    far_hypotheses: int
    highest_far_score: float
    lowest_near_score: float


def toy_outliers(
    settings: Settings, *, seed: int, out: Path, console: Console, size: int = GRID_SIZE
) -> dict[str, Any]:
    """Train what `out` does not hold, write results and figure, print the table.

    Args:
        settings: Of the training.
        seed: Of the training.
        out: The folder; other processes are locked out meanwhile.
        console: Where progress and table are shown.
        size: Cells a side of the grid of the evaluation.

    Returns:
        What `results.json` holds.
    """
    check_seeds(seed)
    with RunFolder.open(out, {"command": "toy-outliers"}):
        outcomes = _outcomes(settings, seed, out, console, size)
        numbers = {case: _numbers(outcome, size) for case, outcome in outcomes.items()}
        results = {
            "preset": settings.name,
            "seed": seed,
            "torchmcl": torchmcl.__version__,
            "torch": torch.__version__,
            "outliers": RHO,
            "threshold": THRESHOLD,
            "floor_mean": floor().mean().item(),
            "models": {case: asdict(each) for case, each in numbers.items()},
        }
        save_figure(figure(outcomes), out / "outliers")
        write_json(out / "results.json", results)
    console.print(_table(settings, seed, numbers).terminal())
    console.print(f"{out}: results.json, outliers.png, outliers.pdf, models", soft_wrap=True, highlight=False)
    return results


def _outcomes(settings: Settings, seed: int, out: Path, console: Console, size: int) -> dict[Case, Outcome]:
    outcomes: dict[Case, Outcome] = {}
    clean, corrupted = settings, replace(settings, outliers=RHO)
    data = {each: samples(each, seed) for each in (clean, corrupted)}
    with bar(work(settings, tuple(method for method, _ in CASES.values())), console) as progress:
        for case, (method, _) in CASES.items():
            own = clean if case == "rmcl_clean" else corrupted
            folder = out / "models" / settings.name / f"seed{seed}" / case
            outcomes[case] = run_model(method, own, seed, data[own], folder, progress, size=size)
    return outcomes


def figure(outcomes: dict[Case, Outcome]) -> Figure:
    """Sorted scores at t = 0.6; at three times, predictions in the square and cells in the plane.

    Args:
        outcomes: The models by case.

    Returns:
        The figure.
    """
    with rc_context(figures.LOOK):
        made = Figure(figsize=(12.2, 5.6))
        halves = made.add_gridspec(
            1, 2, width_ratios=[1.0, 1.95], left=0.055, right=0.925, bottom=0.12, top=0.93, wspace=0.17
        )
        rmcl, smcl = (outcomes[case].trained.network for case in ("rmcl", "smcl"))
        times = torch.tensor(figures.SHOWN_TIMES)
        _sorted_scores(made.add_subplot(halves[0]), predict(rmcl, torch.tensor(0.6)))
        axes: Any = halves[1].subgridspec(2, 3, hspace=0.24, wspace=0.24).subplots()
        found, other = predict(rmcl, times), predict(smcl, times)
        colors = drawing.scale(float(found.probs.max()))
        for index, t in enumerate(figures.SHOWN_TIMES):
            _zoomed(axes[0, index], t, found[index], other[index], colors)
            _whole_plane(axes[1, index], t, found[index], colors)
        axes[0, 0].set_ylabel("predictions in the square")
        axes[1, 0].set_ylabel("cells in the plane")
        low, high = axes[1, 2].get_position().y0, axes[0, 2].get_position().y1
        scale = made.colorbar(colors, cax=made.add_axes((0.94, low, 0.012, high - low)))
        scale.set_label("normalized score of rMCL")
        made.legend(
            handles=[entry for entry in figures.legend_of(("rmcl", "smcl")) if entry.get_label() in LEGEND],
            loc="lower right",
            bbox_to_anchor=(0.925, 0.0),
            ncols=3,
            frameon=False,
            handletextpad=0.3,
        )
    return made


def _numbers(outcome: Outcome, size: int) -> Numbers:
    network = outcome.trained.network
    pruned = exact_emd(predict(network, TIMES).prune(THRESHOLD), TIMES, size=size).mean().item()
    at = predict(network, torch.tensor(0.6))
    far = _far(at.points)
    scores = at.scores
    highest = scores[far].max().item() if far.any() else 0.0
    lowest = scores[~far].min().item() if (~far).any() else 0.0
    return Numbers(outcome.evaluation.emd_mean, pruned, int(far.sum()), highest, lowest)


def _far(points: Tensor) -> Tensor:
    return points.abs().amax(-1) > FAR


def _sorted_scores(axis: Axes, hypotheses: Hypotheses) -> None:
    scores, order = hypotheses.scores.sort()
    far = _far(hypotheses.points)[order]
    rank = torch.arange(1, len(scores) + 1)
    for chosen, color, label in ((~far, "#1f5fbf", "in the square"), (far, "#d62728", "far away")):
        if chosen.any():
            axis.scatter(rank[chosen], scores[chosen], s=34, c=color, label=label, zorder=3)
    axis.vlines(rank, 0, scores, color="#c3ccd8", linewidth=1.5, zorder=2)
    axis.set(title="scores at t = 0.6, sorted", xlabel="hypothesis", ylabel="score", ylim=(0, None))
    axis.set_xticks(range(0, len(scores) + 1, 5))
    axis.grid(color="#e5e5e5", linewidth=0.6)
    axis.legend(loc="upper left", frameon=False)


def _zoomed(axis: Axes, t: float, rmcl: Hypotheses, smcl: Hypotheses, colors: ScalarMappable) -> None:
    drawing.frame(axis, title=f"t = {t}")
    drawing.samples(axis, t, 1000)
    drawing.marks(axis, smcl, "smcl")
    drawing.marks(axis, rmcl, "rmcl", colors)


def _whole_plane(axis: Axes, t: float, rmcl: Hypotheses, colors: ScalarMappable) -> None:
    reach = max(2.0, 1.2 * rmcl.points.abs().max().item())
    drawing.frame(axis, -reach, reach)
    ticks = [-round(reach / 1.5), 0, round(reach / 1.5)]
    axis.set_xticks(ticks)
    axis.set_yticks(ticks)
    drawing.cells(axis, rmcl, colors, -reach, reach)
    drawing.samples(axis, t, round((1 - RHO) * SHOWN), size=3.0)
    strays = draw(round(RHO * SHOWN), seed=0, outliers=1.0).targets[:, 0]
    axis.scatter(strays[:, 0], strays[:, 1], s=5, c=drawing.SAMPLES, linewidths=0, zorder=2)
    drawing.marks(axis, rmcl, "rmcl", colors)


def _table(settings: Settings, seed: int, numbers: dict[Case, Numbers]) -> Table:
    columns = [
        Column("EMD", 4),
        Column(f"EMD, pruned at {THRESHOLD}", 4),
        Column("far hypotheses"),
        Column("their highest score", 4),
    ]
    rows = []
    for case, each in numbers.items():
        pruned = each.emd_mean_pruned if case != "smcl" else "no scores"
        score = each.highest_far_score if each.far_hypotheses and case != "smcl" else None
        rows.append(Row(CASES[case][1], [each.emd_mean, pruned, each.far_hypotheses, score]))
    rows.append(Row("best 20 points", [floor().mean().item(), None, None, None]))
    return Table(f"Preset {settings.name}, seed {seed}: {RHO:.0%} outliers", columns, rows, "model")
