"""What `torchmcl fit` tells about a model: measures on held-out rows, and a page that shows them."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

import torchmcl
from torchmcl.runs.tables import Column, Row, Table
from torchmcl.tabular import drawing
from torchmcl.tabular.judge import COVERAGES
from torchmcl.tabular.peers.answers import Answer, GaussianMixture, QuantileTable, mean_absolute
from torchmcl.tabular.scaling import Standard

__all__ = ["measures", "report", "terminal_table"]

Array = NDArray[np.float64]
COLUMNS = (
    Column("CRPS", 4, "min", significant=True), Column("NLL", 3, "min"),
    Column("interval score", 4, "min", significant=True), Column("coverage at 90 %", 3),
    Column("mean width", 4, significant=True), Column("RMSE", 4, "min", significant=True),
    Column("MAE", 4, "min", significant=True),
)  # fmt: skip
KEYS = ("crps", "nll", "interval_score", "coverage", "width", "rmse", "mae")
NEIGHBORS = 300
"""Components of the smoothed marginal distribution."""
ROWS_AT_ONCE = 4096
"""Rows that are compared with all components, so that memory stays bounded."""
QUANTILES = 200
"""That stand for the distribution of transformed targets, which has no closed form of its CRPS."""
MODERATE = 1e-100, 1e100
"""Sizes of targets whose squares are neither infinite nor 0."""
IMPORTANCE_ROWS, IMPORTANCE_COLUMNS, SHOWN_ROWS = 500, 30, 150


def measures(
    model: Any, X: Any, y: Array, groups: Any, X_train: Any, y_train: Array, settings: Any
) -> dict[str, Any]:
    """Measures of the model, of the marginal distribution and of a linear model on held-out rows.

    Args:
        model: A fitted `MCLRegressor`.
        X: Held-out rows, a DataFrame.
        y: Their targets.
        groups: Their groups, or `None`.
        X_train: Training rows.
        y_train: Their targets.
        settings: Those of `fit_table`.
    """
    true, trained = (np.reshape(each, (len(each), -1)) for each in (y, y_train))
    outputs = {
        name: _output(model, X, true[:, axis], groups, X_train, trained[:, axis], axis)
        for axis, name in enumerate(settings.targets)
    }
    found: dict[str, Any] = {
        "rows": {"training": len(X_train), "test": len(X)},
        "outputs": outputs,
        "importance": _importance(model, X, settings.seed),
        "hypotheses": model.predict_hypotheses(X).probs.mean(0).sort(descending=True).values.tolist(),
    }
    if len(outputs) > 1:
        found["energy_score"] = _energy_scores(model, X, true, trained, settings.seed)
    return found


def terminal_table(found: dict[str, Any]) -> list[Table]:
    """The measures as tables, one for each output.

    Args:
        found: Of `measures`.
    """
    names = {"model": "this model", "marginal": "marginal distribution", "linear": "linear model"}
    return [
        Table(
            f"{target}, {found['rows']['test']} held-out rows",
            COLUMNS,
            [Row(title, [_cell(name, own[key][name]) for name in KEYS]) for key, title in names.items()],
        )
        for target, own in found["outputs"].items()
    ]


def _cell(name: str, value: float | None) -> float | str | None:
    """A measure as it is shown; that of an infinite interval is stored as null."""
    return "infinite" if value is None and name in ("interval_score", "width") else value


def report(model: Any, found: dict[str, Any], X: Any, y: Array, groups: Any, settings: Any, data: str) -> str:
    """The page, one file that needs nothing else.

    Args:
        model: A fitted `MCLRegressor`.
        found: Of `measures`.
        X: Held-out rows.
        y: Their targets.
        groups: Their groups, or `None`.
        settings: Those of `fit_table`.
        data: The name of the file.
    """
    rows = found["rows"]
    about = f"{data}: {rows['training']:,} rows for training, {rows['test']:,} held out."
    about += f" torchmcl {torchmcl.__version__}."
    parts = [f"<h1>Predicting {html.escape(', '.join(settings.targets))}</h1><p>{html.escape(about)}</p>"]
    scores = found.get("energy_score", {None: None})
    if None not in scores.values():
        parts.append(
            f"<p>Joint energy score of all outputs, standardized: {scores['model']:.4f}; of the marginal distribution "
            f"{scores['marginal']:.4f}.</p>"
        )
    true = np.reshape(y, (len(y), -1))
    for axis, (name, table) in enumerate(zip(settings.targets, terminal_table(found), strict=True)):
        parts.append(_output_section(model, found["outputs"][name], name, table, X, true[:, axis], axis))
    parts.append(_model_section(found))
    return drawing.page(f"torchmcl: {', '.join(settings.targets)}", "".join(parts))


def _output(
    model: Any, X: Any, y: Array, groups: Any, X_train: Any, y_train: Array, axis: int
) -> dict[str, Any]:
    unit = _unit(np.concatenate([y, y_train]))
    answer, mean = _answer(model, X, axis, unit), model.model_.mean(model._inputs(X))[:, axis] / unit
    pit = _pit(model, X, y, axis)
    ends = {level: _ends(model, X, level, groups, axis) for level in COVERAGES}
    ends = {level: (low / unit, high / unit) for level, (low, high) in ends.items()}
    y, y_train = y / unit, y_train / unit
    inputs, inputs_train = (model._inputs(each).double().numpy() for each in (X, X_train))
    linear = LinearRegression().fit(inputs_train, y_train)
    residual = max(float(np.std(y_train - linear.predict(inputs_train))), 1e-12)
    ones = np.ones((len(y), 1))
    by_line = GaussianMixture(ones, linear.predict(inputs)[:, None], ones * residual)
    found = {
        "model": _measured(answer, mean, y, ends[0.9], unit),
        "marginal": _measured(
            Marginal.of(y_train), ones[:, 0] * y_train.mean(), y, _same(y_train, len(y)), unit
        ),
        "linear": _measured(by_line, by_line.mean, y, by_line.interval(0.9), unit),
    }
    low, high = ends[0.9]
    return {
        **found,
        "reliability": [
            {"level": level, **_binomial((low <= y) & (y <= high))} for level, (low, high) in ends.items()
        ],
        "pit": pit,
        "by_width": _by_width(y, low, high),
        "by_group": [] if groups is None else _by_group(y, low, high, groups),
    }


def _unit(y: Array) -> float:
    """What very large and very small targets are divided by; a power of two, so that nothing is rounded."""
    largest = float(np.abs(y).max())
    moderate = largest == 0 or MODERATE[0] <= largest <= MODERATE[1]
    return 1.0 if moderate else float(2.0 ** np.floor(np.log2(largest)))


def _answer(model: Any, X: Any, axis: int, unit: float) -> Answer:
    """The predicted distribution of one output, divided by `unit`."""
    own, inputs = model.model_, model._inputs(X)
    if own.units.linear:
        mixture, units = _mixture(model, X, axis), _units(model, axis)
        scale, center = units.scale[0] / unit, units.center[0] / unit
        return GaussianMixture(mixture.weights, mixture.means * scale + center, mixture.widths * scale)
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return QuantileTable(
        levels,
        own.quantiles(inputs, levels[:, None])[..., 0] / unit,
        lambda coverage: _ends(model, X, coverage, None, axis),
        lambda y: -own.log_prob(inputs, y[:, None] * unit) - np.log(unit),
    )


def _mixture(model: Any, X: Any, axis: int) -> GaussianMixture:
    """The predicted mixture of one output, standardized."""
    pooled = model.model_.pooled(model._inputs(X))
    return GaussianMixture(pooled.probs.numpy(), pooled.points[..., axis].numpy(), pooled.widths.numpy())


def _units(model: Any, axis: int) -> Standard:
    """How one output is standardized."""
    units: Standard = model.model_.units
    return Standard(units.center[[axis]], units.scale[[axis]]) if units.linear else units


def _ends(model: Any, X: Any, level: float, groups: Any, axis: int) -> tuple[Array, Array]:
    ends = np.asarray(model.predict_interval(X, level, groups))
    return (ends[:, 0], ends[:, 1]) if ends.ndim == 2 else (ends[:, 0, axis], ends[:, 1, axis])


@dataclass(frozen=True)
class Marginal:
    """The training targets, smoothed by Scott's rule: one distribution for all rows.

    Args:
        points: Of equal weight.
        widths: Of the points, all the same.
    """

    points: Array
    widths: Array

    @classmethod
    def of(cls, y: Array) -> "Marginal":
        """Of training targets."""
        points = np.quantile(y, (np.arange(NEIGHBORS) + 0.5) / NEIGHBORS)
        return cls(points, np.full(NEIGHBORS, max(float(np.std(y)) * len(y) ** -0.2, 1e-12)))

    def nll(self, y: Array) -> Array:
        """Of each row."""
        own = GaussianMixture(np.full((1, NEIGHBORS), 1 / NEIGHBORS), self.points[None], self.widths[None])
        return np.concatenate([own.nll(part) for part in _rows_at_once(y)])

    def crps(self, y: Array) -> Array:
        """Of each row; how far two draws are apart is the same for all rows."""
        apart = mean_absolute(self.points[:, None] - self.points, np.sqrt(2) * self.widths).mean()
        near = [mean_absolute(part[:, None] - self.points, self.widths).mean(1) for part in _rows_at_once(y)]
        return np.concatenate(near) - apart / 2


def _rows_at_once(y: Array) -> Iterator[Array]:
    return (y[start : start + ROWS_AT_ONCE] for start in range(0, len(y), ROWS_AT_ONCE))


def _same(y: Array, rows: int) -> tuple[Array, Array]:
    low, high = np.quantile(y, [0.05, 0.95])
    return np.full(rows, low), np.full(rows, high)


def _measured(
    answer: Answer | Marginal, mean: Array, y: Array, ends: tuple[Array, Array], unit: float
) -> dict[str, float | None]:
    """Of what is divided by `unit`; `None` for what is infinite, which JSON cannot hold."""
    low, high = ends
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    error = mean - y
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = {
            "crps": answer.crps(y).mean(),
            "interval_score": (high - low + 20 * outside).mean(),
            "width": (high - low).mean(),
            "rmse": np.sqrt((error**2).mean()),
            "mae": np.abs(error).mean(),
        }
        nll = answer.nll(y)
        likelihood = None if nll is None else _finite(nll.mean() + np.log(unit))
        found = {name: _finite(value * unit) for name, value in lengths.items()}
    return {**found, "nll": likelihood, "coverage": float(((low <= y) & (y <= high)).mean())}


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _binomial(inside: NDArray[np.bool_]) -> dict[str, float]:
    """The share that is inside, and its 95 % interval (Clopper and Pearson)."""
    from scipy.stats import binomtest

    ends = binomtest(int(inside.sum()), len(inside)).proportion_ci(0.95)
    return {"coverage": float(inside.mean()), "low": float(ends.low), "high": float(ends.high)}


def _pit(model: Any, X: Any, y: Array, axis: int) -> list[float]:
    from scipy.special import ndtr

    mixture, true = _mixture(model, X, axis), _units(model, axis).apply(y[:, None])
    values = (mixture.weights * ndtr((true - mixture.means) / mixture.widths)).sum(-1)
    counts, _ = np.histogram(values, bins=10, range=(0, 1))
    return [float(each) for each in counts / len(y)]


def _by_width(y: Array, low: Array, high: Array) -> list[dict[str, Any]]:
    order = np.argsort(high - low, kind="stable")
    parts = [part for part in np.array_split(order, 5) if len(part)]
    names = ("narrowest fifth", "second", "third", "fourth", "widest fifth")
    return [
        {"name": name, **_binomial((low[part] <= y[part]) & (y[part] <= high[part]))}
        for name, part in zip(names, parts, strict=False)
    ]


def _by_group(y: Array, low: Array, high: Array, groups: Any) -> list[dict[str, Any]]:
    inside = (low <= y) & (y <= high)
    return [{"name": str(group), **_binomial(inside[groups == group])} for group in np.unique(groups)[:30]]


def _importance(model: Any, X: Any, seed: int) -> list[dict[str, Any]]:
    """How far mean and deviation move, relative to the deviation of the targets, when a column is shuffled."""
    rows = X.iloc[: min(len(X), IMPORTANCE_ROWS)]
    random = np.random.default_rng(seed)
    inputs, own = model._inputs(rows), model.model_
    mean, std, unit = own.mean(inputs), own.std(inputs), own.units.scale
    found: list[dict[str, Any]] = []
    # The encoded columns are shuffled: reading a wide table again for each of its columns would take minutes.
    for name, places in list(zip(rows.columns, own.columns.places, strict=True))[: IMPORTANCE_COLUMNS * 4]:
        shuffled = inputs.clone()
        shuffled[:, places] = inputs[random.permutation(len(rows))][:, places]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.sqrt(np.mean(((own.mean(shuffled) - mean) / unit) ** 2))
            spread = np.sqrt(np.mean(((own.std(shuffled) - std) / unit) ** 2))
        if np.isfinite([moved, spread]).all():
            found.append({"column": str(name), "mean": float(moved), "spread": float(spread)})
    return sorted(found, key=lambda each: -each["mean"])[:IMPORTANCE_COLUMNS]


def _energy_scores(model: Any, X: Any, y: Array, y_train: Array, seed: int) -> dict[str, float | None]:
    unit = model.model_.units.scale
    drawn = model.sample(X, 100, random_state=seed) / unit
    random = np.random.default_rng(seed)
    marginal = y_train[random.integers(len(y_train), size=(len(y), 100))] / unit
    return {"model": _energy(drawn, y / unit), "marginal": _energy(marginal, y / unit)}


def _energy(drawn: Array, y: Array) -> float | None:
    """From independent draws: each is compared with the next one."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.linalg.norm(drawn - y[:, None], axis=-1).mean()
        apart = np.linalg.norm(drawn - np.roll(drawn, 1, axis=1), axis=-1).mean()
        return _finite(near - apart / 2)


def _output_section(
    model: Any, own: dict[str, Any], name: str, table: Table, X: Any, y: Array, axis: int
) -> str:
    levels = own["reliability"]
    at = next(each for each in levels if each["level"] == 0.9)
    words = (
        f"Intervals of 90 % contain {at['coverage']:.1%} of the held-out rows (95 % confidence interval "
        f"{at['low']:.1%} to {at['high']:.1%})."
    )
    charts = [
        drawing.figure("Coverage against its level", drawing.reliability(levels)),
        drawing.figure(
            "PIT: flat if the distribution is right", drawing.bars(own["pit"], 1 / len(own["pit"]))
        ),
        drawing.figure("Coverage at 90 % by width of the interval", drawing.shares(own["by_width"], 0.9)),
    ]
    if own["by_group"]:
        charts.append(drawing.figure("Coverage at 90 % by group", drawing.shares(own["by_group"], 0.9)))
    rows = X.iloc[:SHOWN_ROWS]
    low, high = _shown_ends(model, rows, axis)
    if np.isfinite(low).all() and np.isfinite(high).all():
        charts.append(
            drawing.figure("Intervals of 90 %, by their middle", drawing.intervals(low, high, y[: len(rows)]))
        )
    charts += _densities(model, X, y, axis)
    heading = f"<h2>{html.escape(name)}</h2><p>{words}</p>"
    return heading + drawing.table(table) + f'<div class="charts">{"".join(charts)}</div>'


def _shown_ends(model: Any, rows: Any, axis: int) -> tuple[Array, Array]:
    if model.calibration_ is None or model.calibration_.groups is not None:
        ends = np.stack(_mixture(model, rows, axis).interval(0.9), 1)
        low, high = _units(model, axis).invert(ends[..., None])[..., 0].T
        return low, high
    return _ends(model, rows, 0.9, None, axis)


def _densities(model: Any, X: Any, y: Array, axis: int) -> list[str]:
    """The rows with the clearest single mode and the clearest several modes."""
    rows = X.iloc[:IMPORTANCE_ROWS]
    mixture = _mixture(model, rows, axis)
    low, high = mixture.quantile(0.001), mixture.quantile(0.999)
    grid = np.linspace(low, high, 200, axis=1)
    z = (grid[..., None] - mixture.means[:, None]) / mixture.widths[:, None]
    density = (mixture.weights / mixture.widths)[:, None] * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    units = _units(model, axis)
    curve = density.sum(-1) * np.exp(units.log_slope(grid[..., None]))
    grid = units.invert(grid[..., None])[..., 0]
    prominence = np.array([_second_mode(each) for each in curve])
    order = np.argsort(prominence, kind="stable")
    chosen = dict.fromkeys([int(order[-1]), int(order[len(order) // 2]), int(order[0])])
    titles = ("clearest second mode", "typical row", "clearest single mode")
    return [
        drawing.figure(f"Density, {title}", drawing.density(grid[row], curve[row], float(y[row])))
        for row, title in zip(chosen, titles, strict=False)
    ]


def _second_mode(curve: Array) -> float:
    """How far the second highest peak rises above the valley beside it, relative to the highest peak."""
    inner = (curve[1:-1] > curve[:-2]) & (curve[1:-1] >= curve[2:])
    peaks = np.flatnonzero(inner) + 1
    if len(peaks) < 2:
        return 0.0
    first = peaks[np.argmax(curve[peaks])]
    rises: Sequence[float] = [
        curve[each] - curve[min(first, each) : max(first, each) + 1].min() for each in peaks if each != first
    ]
    return float(max(rises) / curve[first])


def _model_section(found: dict[str, Any]) -> str:
    importance = found["importance"]
    charts = [
        drawing.figure(
            "Columns: how far the mean moves when a column is shuffled",
            drawing.horizontal([(each["column"], each["mean"]) for each in importance]),
        ),
        drawing.figure(
            "Columns: how far the deviation moves",
            drawing.horizontal(
                sorted(((each["column"], each["spread"]) for each in importance), key=lambda pair: -pair[1])
            ),
        ),
        drawing.figure(
            "Hypotheses: mean probability, the most probable first", drawing.bars(found["hypotheses"], None)
        ),
    ]
    note = "<p>Units: standard deviations of the target.</p>"
    return f'<h2>The model</h2>{note}<div class="charts">{"".join(charts)}</div>'
