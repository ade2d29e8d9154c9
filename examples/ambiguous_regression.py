"""Ambiguous regression with scikit-learn's interface.

How far was a spring pushed, when all that is known is where its end is? Near the middle
three answers fit the same measurement. `MCLRegressor` finds all of them, and says how
likely each is.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from torchmcl import MCLRegressor

rng = np.random.default_rng(0)
y = rng.uniform(size=3000)
x = y + 0.3 * np.sin(2 * np.pi * y) + rng.uniform(-0.05, 0.05, size=3000)

model = MCLRegressor(n_hypotheses=8, max_epochs=30, random_state=0, progress=False).fit(
    x[:, None], y
)

grid = np.linspace(0, 1, 200)
answer = model.predict_hypotheses(
    grid[:, None]
)  # K points with probabilities for each of 200 inputs
middle = model.predict_hypotheses([[0.5]])[0]

figure = Figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=[1.6, 1])
left.scatter(x, y, s=3, color="0.85", label="data")
left.scatter(
    np.repeat(grid, answer.n_hypotheses),
    answer.points.flatten(),
    s=40 * answer.probs.flatten(),
    linewidths=0,
    color="tab:blue",
    label="hypotheses, the larger the likelier",
)
left.plot(
    grid,
    answer.mean[:, 0],
    "--",
    color="tab:red",
    label="their mean: often where no data is",
)
left.axvline(0.5, color="0.5", linewidth=0.8)
left.set(
    xlabel="x", ylabel="y", title="Several right answers for one x", ylim=(-0.1, 1.4)
)
left.legend(loc="upper left", fontsize=8)
near = y[abs(x - 0.5) < 0.03]
right.hist(
    near,
    bins=20,
    range=(0, 1),
    weights=np.ones_like(near) / len(near),
    color="0.8",
    label="data near x = 0.5",
)
right.stem(middle.points[:, 0], middle.probs, basefmt=" ", label="hypotheses")
right.set(xlabel="y", ylabel="share", title="The answer at x = 0.5", ylim=(0, 0.32))
right.legend(loc="upper center", fontsize=8)
figure.savefig(
    sys.argv[1] if len(sys.argv) > 1 else "ambiguous_regression.png", dpi=110
)
