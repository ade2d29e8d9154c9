"""The picture of the table: a predicted distribution that changes with one column."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from torchmcl.demo.data import TARGET
from torchmcl.plots import plot_density
from torchmcl.runs.files import atomic
from torchmcl.tabular.regressor import MCLRegressor

__all__ = ["draw_table"]


def draw_table(data: Path, model: Path, path: Path) -> None:
    """Draw the predicted density over the body mass index, all other columns at their medians.

    Args:
        data: The table.
        model: The folder of the trained model.
        path: The picture to write.
    """
    frame = pd.read_csv(data)
    index = np.linspace(frame["bmi"].min(), frame["bmi"].max(), 120)
    columns = frame.drop(columns=TARGET)
    rows = pd.DataFrame({name: np.full(len(index), column.median()) for name, column in columns.items()})
    rows["bmi"] = index
    hypotheses = MCLRegressor.load(model).predict_hypotheses(rows)
    figure = Figure(figsize=(8, 4.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    y = frame[TARGET]
    plot_density(axes, torch.from_numpy(index), hypotheses, y_range=(0.0, 1.1 * float(y.max())))
    axes.scatter(frame["bmi"], y, s=6, c="#1d2430", alpha=0.4, linewidths=0)
    axes.legend(frameon=False)
    axes.set(xlabel="body mass index", ylabel="progression of diabetes after a year")
    with atomic(path) as temporary:
        figure.savefig(temporary)
